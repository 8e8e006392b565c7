"""Sentences that several doors share, in the words of the door where they are shown.

Shared code writes sentences in one notation: options as the data source has them, verbs as ``Savepoint`` has them. What
users write differently at each door is read from a sentence as data, and each door spells it. The command line has its
own door (``command_line.wording``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pyspark_savepoint.formats.errors import SavepointError

#: Facts that are sentences; the others are names and values, which stay.
SENTENCES = ("expected", "remedy")
#: Of a call: quoted texts, which may contain parentheses, and calls inside.
ARGUMENTS = r"""\((?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|[^()'"]|\([^()]*\))*+\)"""
#: What sentences name, by the name of the function of a door that spells it.
NOTATION = {
    # option('NAME', 'VALUE'): it is added to a read or a write
    "added": r"""\boption\((?P<q>["'])(?P<added>\w+)(?P=q)(?:, *(?:(?P<v>["'])(?P<added_value>.*?)(?P=v)|\.\.\.))?\)""",
    # option 'NAME', option 'NAME' = 'VALUE', and in camel case without the word
    "option": r"(?:there is no |the )?\boption '(?P<option>\w+)'"
    r"(?:,? (?:with|=) '?(?P<option_value>[\w*#./<>-]+)'?)?",
    "camel": r"'(?P<camel>[a-z]+(?:[A-Z][a-z]*)+)'(?: = '?(?P<camel_value>\w+)'?)?",
    "operator": r"'uid'(?P<operator>,| or) 'uidHash'(?! and)(?: or 'operatorName')?(?:, or 'table'[^;]*)?",
    "listing": r"(?P<listing>the path without options)(?= lists)",
    # table 'offsets' lists, and as verbs have it: sources.offsets() lists
    "table": r"(?:table '|\b(?:sources\.)?)(?P<table>metadata|offsets)(?:'|\(\))(?= (?:lists|has))",
    # with_state(...), Savepoint.load(spark, path).remove_state('total').write(new_path)
    "verb": r"""(?:call )?(?<![\w.'"])(?:(?:Savepoint|sp|inspect|sources|sinks|pyspark_savepoint"""
    r"|(?:load|create|open)\([^()]*\))\.)*"
    r"(?P<verb>(?:with|remove|rename|update|copy|change|assign|merge|check)_\w+|catch_up|"
    r"(?:rekey|migrate|vacuum|verify|evolve)(?=\()|create(?=\(max_)|write(?=\(path\) copies))\b"
    rf"(?P<verb_value>{ARGUMENTS})?(?:\.write\([^()]*\))?",
    "argument": r"\bargument '(?P<argument>\w+)'",
    # types={...}
    "keyword": r"(?<![\w.(])(?P<keyword>[a-z]+(?:_[a-z]+)*)=(?P<keyword_value>'[^']*'|\{[^{}]*\}|True\b|False\b)",
}
PARTS = re.compile("|".join(f"(?:{part})" for part in NOTATION.values()))
#: Spells a part: as it is written, its name and its value.
Spell = Callable[[str, str, str | None], str]
#: What rows of ``df.write`` and ``INSERT`` do in place of a verb.
BY_ROWS = {
    "with_state": "mode('overwrite') with option 'state' (INSERT OVERWRITE)",
    "update_state": "mode('append') with option 'state' (INSERT INTO)",
    "create": "option 'maxParallelism'",
}


def door(**spell: Spell) -> Callable[[str], str]:
    """Return what says a sentence in the words of a door. It keeps what no function spells, as it is written."""

    def spelled(part: re.Match[str]) -> str:
        name = next(name for name in NOTATION if part[name] is not None)
        values = part.groupdict()
        return spell[name](part[0], values[name], values.get(f"{name}_value")) if name in spell else part[0]

    return lambda text: PARTS.sub(spelled, text)


def _verb_by_rows(text: str, name: str, arguments: str | None) -> str:
    if name in ("write", "verify") or text.startswith(("Savepoint.", "pyspark_savepoint.")):
        return text
    called = text.removeprefix("call ").removeprefix("sp.") + ("" if arguments else "(...)")
    return BY_ROWS.get(name) or f"Savepoint.load(spark, path).{called}"


def _added_to_verb(_: str, name: str, value: str | None) -> str:
    if name == "table" and value:
        return f"{value}(uid)"
    if value is None or value.startswith("{"):  # JSON of types, which is how Python writes it
        return f"{_snake(name)}={value or '...'}"
    return f"{_snake(name)}=" + {"true": "True", "false": "False"}.get(value, repr(value))


def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), name)


#: ``df.write`` and ``INSERT``.
of_rows = door(verb=_verb_by_rows)
#: A name that is no option, and the names that are.
NO_OPTION = re.compile(r"(there is no option '\w+')(, did you mean [^?]*\?|; options are [\w, ]*)")
_of_verbs = door(
    added=_added_to_verb,
    option=lambda text, name, _: text if text.startswith("there") else text.replace(name, _snake(name), 1),
    operator=lambda *_: "its uid",
    listing=lambda *_: "states()",
    table=lambda _, name, *__: {"metadata": "metadata()", "offsets": "sources.offsets()"}[name],
)
#: SQL's table functions, whose arguments are named by ``=>``.
of_sql = door(
    added=lambda _, name, value: f"{name} => " + repr(value or "..."),
    option=lambda text, *_: text.replace("option '", "argument '", 1),
    listing=lambda *_: "savepoint_states(path)",
    table=lambda text, name, *_: "savepoint_metadata(path)" if name == "metadata" else text,
)


def of_verbs(text: str) -> str:
    """Return a sentence in the words of ``Savepoint``, whose arguments are in snake case.

    >>> of_verbs("there is no option 'typesForm', did you mean 'typesFrom'?")
    "there is no option 'typesForm', did you mean 'types_from'?"
    """
    return _of_verbs(NO_OPTION.sub(lambda part: part[1] + _snake(part[2].replace(" path,", "")), text))


#: The words of the door that writes a page now.
_OF_PAGE: ContextVar[Callable[[str], str]] = ContextVar("of_page", default=of_verbs)


@contextmanager
def page_in_words(worded: Callable[[str], str]) -> Iterator[None]:
    """Write pages in the words of a door; without it they are those of ``Savepoint``."""
    token = _OF_PAGE.set(worded)
    try:
        yield
    finally:
        _OF_PAGE.reset(token)


def of_page(text: str) -> str:
    """Return a sentence in the words of the door that writes a page."""
    return _OF_PAGE.get()(text)


def of_open(text: str) -> str:
    """Return a sentence in the words of ``open``.

    >>> of_open("write a changed copy of it: Savepoint.load(spark, path).with_operator(...).write(new_path)")
    'write a changed copy of it: open(path).with_operator(...).write(new_path)'
    """
    return of_verbs(text).replace("Savepoint.load(spark, path)", "open(path)").replace("df.", "rows.")


@contextmanager
def in_words(worded: Callable[[str], str]) -> Iterator[None]:
    """Raise errors of this package in the words of a door."""
    try:
        yield
    except SavepointError as error:
        error.message = worded(error.message)
        for name in SENTENCES:
            if isinstance(error.facts.get(name), str):
                error.facts[name] = worded(error.facts[name])
        raise
