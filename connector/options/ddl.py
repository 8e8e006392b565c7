"""Columns in words, as Spark writes them: ``key int, timers array<bigint>``. Read without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError, did_you_mean, type_name

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|\w+|[<>(),:]|\S)")
_PLAIN = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ltz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_NESTED = ("array", "map", "struct", "decimal")
#: Levels of nested types, which are read by recursion.
MAX_DEPTH = 64


def arrow_columns(columns: object) -> pa.Schema:
    """Return the columns that a user gives as text, or as a schema of Arrow, or raise OptionError for anything else.

    >>> arrow_columns("key int not null, timers array<bigint>")
    key: int32 not null
    timers: list<item: int64>
      child 0, item: int64
    """
    if isinstance(columns, pa.Schema) and len(columns):
        return columns
    if not isinstance(columns, str) or not columns.strip():
        raise OptionError(
            "a schema for the rows that the function yields is missing",
            found=repr(columns) if isinstance(columns, str) else type_name(columns),
            remedy="name the columns with their types: 'key int, value string'; or give a pyarrow.Schema",
        )
    words = _Words(columns)
    fields = list(words.fields(None, 0))
    return pa.schema(fields)


class _Words:
    """The tokens of a text, from the first to the last."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _TOKEN.findall(text)
        self.at = 0

    def fields(self, end: str | None, depth: int) -> Iterator[pa.Field]:
        """Yield the fields up to a token, which is consumed. None: the end of the text."""
        while True:
            name = self.next("the name of a column")
            if not re.fullmatch(r"\w+|`.*`", name, re.DOTALL):
                raise self.unexpected("the name of a column", name)
            self.skip(":")
            kind = self.type(depth)
            required = self.skip("not")
            if required and not self.skip("null"):
                raise self.unexpected("NOT NULL", self.peek())
            yield pa.field(name[1:-1].replace("``", "`") if name[0] == "`" else name, kind, not required)
            if self.peek() == end:
                self.at += 1
                return
            self.expect(",")

    def type(self, depth: int) -> pa.DataType:
        """Return the next type."""
        if depth > MAX_DEPTH:
            raise OptionError("types of a schema are nested too deeply", expected=f"at most {MAX_DEPTH} levels")
        word = self.next("a type")
        name = word.lower()
        if name in _PLAIN:
            return _PLAIN[name]
        if name == "decimal":
            return self.decimal()
        if name not in _NESTED:
            raise OptionError(
                f"{word!r} is not a type of a column", found=self.text, remedy=did_you_mean(name, (*_PLAIN, *_NESTED))
            )
        self.expect("<")
        if name == "struct":
            return pa.struct(list(self.fields(">", depth + 1)))
        first = self.type(depth + 1)
        if name == "map":
            self.expect(",")
            first = pa.map_(first, self.type(depth + 1))
        self.expect(">")
        return first if name == "map" else pa.list_(first)

    def decimal(self) -> pa.DataType:
        """Return a decimal, whose precision and scale may follow."""
        numbers = [10, 0]
        if self.skip("("):
            for index in range(2):
                word = self.next("a number")
                if not re.fullmatch(r"[0-9]{1,2}", word):
                    raise self.unexpected("a number", word)
                numbers[index] = int(word)
                if index == 1 or not self.skip(","):
                    break
            self.expect(")")
        precision, scale = numbers
        if not 1 <= precision <= 38 or scale > precision:
            raise OptionError("a decimal has 1 to 38 digits", found=f"decimal({precision}, {scale})")
        return pa.decimal128(precision, scale)

    def peek(self) -> str | None:
        """Return the next token, None at the end."""
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def next(self, expected: str) -> str:
        """Return the next token, and go on."""
        token = self.peek()
        if token is None:
            raise self.unexpected(expected, None)
        self.at += 1
        return str(token)

    def skip(self, token: str) -> bool:
        """Go on if a token is the next one."""
        same = (self.peek() or "").lower() == token
        self.at += same
        return same

    def expect(self, token: str) -> None:
        """Go on behind a token, or raise OptionError if it is not the next one."""
        if not self.skip(token):
            raise self.unexpected(repr(token), self.peek())

    def unexpected(self, expected: str, token: str | None) -> OptionError:
        """Return the error about a token that cannot be here."""
        return OptionError(
            "the schema cannot be read",
            expected=expected,
            found=f"{'the end' if token is None else repr(token)} in {self.text!r:.200}",
            remedy="name the columns with their types: 'key int, value string'",
        )
