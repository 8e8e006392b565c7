"""Lexer of the notation of types; tokens have positions, which errors show."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from pyspark_savepoint.formats.errors import TypeNotationError, did_you_mean

#: Limit of characters, above the size of any schema that a snapshot can hold.
MAX_LENGTH = 1 << 20
MAX_DEPTH = 48
#: Limit of the digits of a number, which no size, precision or constant has.
MAX_DIGITS = 20
TOKEN = re.compile(
    r"""\s*(?:
        (?P<word>[^\W\d][\w$]*(?:\.[\w$]+)*|\$[\w$]*(?:\.[\w$]+)*)
      | (?P<number>-?[0-9]+)
      | (?P<name>`(?:[^`]|``)+`)
      | (?P<text>'(?:[^']|'')*')
      | (?P<sign>[<>(),=*])
      | (?P<end>$)
    )""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """Token of kind word, number, name (in backquotes), text (in single quotes), sign or end; without its quotes."""

    kind: str
    text: str
    position: int

    @property
    def upper(self) -> str:
        """A word in upper case, for comparison with types; empty for all other tokens."""
        return self.text.upper() if self.kind == "word" else ""

    def __str__(self) -> str:
        return repr(self.text) if self.kind != "end" else "the end"


def tokens_of(text: str) -> list[Token]:
    """Return all tokens, with the end as the last one."""
    if len(text) > MAX_LENGTH:
        raise TypeNotationError(f"a type of {len(text)} characters", expected=f"at most {MAX_LENGTH}")
    tokens: list[Token] = []
    position = 0
    while not tokens or tokens[-1].kind != "end":
        match = TOKEN.match(text, position)
        if match is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            refuse(text, start, "a type", repr(text[start]))
        kind = str(match.lastgroup)
        value = match[kind]
        if kind in ("name", "text"):
            value = value[1:-1].replace(value[0] * 2, value[0])
        tokens.append(Token(kind, value, match.start(kind)))
        position = match.end()
    return tokens


def refuse(text: str, position: int, expected: str, found: str, remedy: str | None = None) -> NoReturn:
    """Raise TypeNotationError, with the text around a position and a mark below it."""
    low, high = max(0, position - 60), position + 40
    shown = ("…" if low else "") + text[low:high].replace("\n", " ") + ("…" if high < len(text) else "")
    mark = " " * (position - low + (1 if low else 0)) + "^"
    raise TypeNotationError(
        f"not a type: expected {expected}, at character {position + 1}\n      {shown}\n      {mark}",
        found=found,
        remedy=remedy,
    )


class Tokens:
    """Stream of the tokens of a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens_of(text)
        self.at = 0
        self.depth = 0

    @property
    def next(self) -> Token:
        """The next token, which is not consumed."""
        return self.tokens[self.at]

    def ahead(self, count: int) -> Token:
        """Return the token ``count`` positions after the next one, or the end."""
        return self.tokens[min(self.at + count, len(self.tokens) - 1)]

    def take(self) -> Token:
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def fail(self, expected: str, token: Token | None = None, remedy: str | None = None) -> NoReturn:
        """Raise TypeNotationError for ``token``, or for the next token."""
        token = token or self.next
        refuse(self.text, token.position, expected, str(token), remedy)

    def fail_unknown(self, expected: str, token: Token, known: Iterable[str], hint: str | None = None) -> NoReturn:
        """Raise TypeNotationError for an unknown word, with the most similar known word."""
        self.fail(expected, token, hint or did_you_mean(token.text.upper(), known))

    def is_sign(self, sign: str) -> bool:
        """Return whether the next token is ``sign``."""
        return self.next.kind == "sign" and self.next.text == sign

    def accept(self, sign: str) -> bool:
        """Consume ``sign`` if it is the next token; return whether it was."""
        if self.is_sign(sign):
            self.take()
            return True
        return False

    def expect(self, sign: str) -> None:
        """Consume ``sign``; raise TypeNotationError if it is not the next token."""
        if not self.accept(sign):
            self.fail(repr(sign))

    def accept_word(self, word: str) -> bool:
        """Consume ``word`` (upper case) if it is the next token in any case; return whether it was."""
        if self.next.upper == word:
            self.take()
            return True
        return False

    def word(self, expected: str) -> Token:
        return self.take() if self.next.kind == "word" else self.fail(expected)

    def number(self, expected: str) -> int:
        if self.next.kind != "number" or len(self.next.text) > MAX_DIGITS:
            self.fail(expected)
        return int(self.take().text)

    def name(self, expected: str) -> Token:
        """Consume the name of a field or constant: a word without dots, or any text in backquotes."""
        token = self.next
        if token.kind == "name" or (token.kind == "word" and "." not in token.text):
            return self.take()
        return self.fail(expected)

    def descend(self) -> None:
        """Enter a nested type, which :meth:`ascend` leaves; check the depth."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"a type nested at most {MAX_DEPTH} deep")

    def ascend(self) -> None:
        self.depth -= 1
