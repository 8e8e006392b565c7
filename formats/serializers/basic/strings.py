"""Serializers of strings and characters: UTF-16 code units in Flink, UTF-8 in columns.

    StringSerializer       varint (units + 1), 0 is null   then one varint per unit
    StringValueSerializer  varint units, no null           then one varint per unit
    CharSerializer         u16 unit                        a STRING of one character
    CharValueSerializer    u16 unit

Java strings may hold a surrogate without its other half, which has no UTF-8. Option ``text`` says what a column has
instead: ``escape`` the code point U+10FFFF, which is not a character, and four hex digits, so it can be written back;
``replace`` U+FFFD; ``error`` an error. A U+10FFFF of the text itself is shown as it is, unless what follows it reads as
such digits (or as ``ffff``): then ``ffff`` comes between, so that each column's text stands for one Java string.
Flink: ``StringSerializer``, ``StringValueSerializer``, ``CharSerializer``, ``CharValueSerializer``, ``StringValue``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Flags,
    Ints,
    Longs,
    binary_array,
    binary_parts,
    refuse_nulls,
    valid_rows,
)
from pyspark_savepoint.formats.errors import ValueRangeError
from pyspark_savepoint.formats.serializers.basic.primitives import BASE, SimpleSerializer, read_numbers, write_numbers
from pyspark_savepoint.formats.serializers.layout import Layout, skip_rows
from pyspark_savepoint.formats.serializers.registry import register

STRING = f"{BASE}StringSerializer$StringSerializerSnapshot"
STRING_VALUE = f"{BASE}StringValueSerializer$StringValueSerializerSnapshot"
CHAR = f"{BASE}CharSerializer$CharSerializerSnapshot"
CHAR_VALUE = f"{BASE}CharValueSerializer$CharValueSerializerSnapshot"

RAW = 'read the state as bytes: option("raw", "<state>")'
MAX_UTF8 = 2**31 - 1
#: What precedes the hex digits of a lone surrogate in a column.
ESCAPE = "\U0010ffff"
#: The digits with which it stands for itself, where those of a surrogate, or these, follow it in the text.
ITSELF = "ffff"
DIGITS = f"d[89a-f][0-9a-f]{{2}}|{ITSELF}"
ESCAPED = re.compile(f"{ESCAPE}({DIGITS})")
LONE = re.compile(f"[\ud800-\udfff]|{ESCAPE}(?={DIGITS})")


def column_text(text: str, form: str = "escape") -> str:
    r"""Return a string with its lone surrogates, which Python's strings may hold, as option ``text`` says.

    >>> column_text("a\ud83d"), column_text("a\ud83d", "replace")
    ('a\U0010ffffd83d', 'a�')
    >>> column_text("\U0010ffff"), column_text("\U0010ffffd83d")
    ('\U0010ffff', '\U0010ffffffffd83d')
    """

    def shown(match: re.Match[str]) -> str:
        if match[0] == ESCAPE:
            return ESCAPE + ITSELF
        return "\ufffd" if form == "replace" else f"{ESCAPE}{ord(match[0]):04x}"

    return LONE.sub(shown, text)


def column_texts(value: Any, form: str = "escape", *, given: bool = False) -> Any:
    """Return a value with :func:`column_text` of all its strings: of lists, of dictionaries and of their keys.

    ``given``: the strings are a user's, who may have taken them from a column.
    """
    if isinstance(value, str):
        return column_text(java_text(value) if given else value, form)
    if isinstance(value, dict):
        return {
            column_texts(key, form, given=given): column_texts(part, form, given=given) for key, part in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(column_texts(part, form, given=given) for part in value)
    return value


def java_text(text: str) -> str:
    r"""Return the Java string of a column's text.

    >>> java_text("a\U0010ffffd83d")
    'a\ud83d'
    """
    return ESCAPED.sub(lambda match: ESCAPE if match[1] == ITSELF else chr(int(match[1], 16)), text)


def refuse_surrogate(at: Cursors, row: int) -> NoReturn:
    """Raise the error for a lone surrogate in a row."""
    at.out_of_range(
        row,
        "a string with half of a surrogate pair: Java can hold it, UTF-8 cannot",
        f'option("text", "escape") or "replace"; or {RAW}',
    )


def refuse_size(at: Cursors, row: int) -> NoReturn:
    """Raise the error for a column of a batch that exceeds Arrow's 32-bit offsets."""
    at.out_of_range(row, "more than 2 GiB of values in one column of one batch", "read fewer rows at once")


def expect_utf8(column: pa.Array) -> None:
    """Raise ValueRangeError for a string that is not UTF-8: Spark's cast from BINARY to STRING does not check it."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise ValueRangeError(
            "a string is not valid UTF-8", found=str(error), remedy="write text: decode(bytes, 'UTF-8') checks it"
        ) from error


class _EscapedTexts:
    """Count of the batches of this process with a string that was escaped or replaced."""

    def __init__(self) -> None:
        self.count = 0

    def add(self) -> None:
        self.count += 1


ESCAPED_TEXTS = _EscapedTexts()


@dataclass(frozen=True)
class _TextSerializer(SimpleSerializer):
    """Base class of strings and characters: the utf8 column and Java's hash of the UTF-16 units."""

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``String.hashCode``, which for one character is the character."""
        from pyspark_savepoint.formats.kernels import strings

        hashes = np.zeros(len(column), np.int32)
        strings.java_string_hash(*binary_parts(column), hashes)
        hashes[~valid_rows(column)] = 0
        return hashes


@register(STRING, STRING_VALUE)
@dataclass(frozen=True)
class StringSerializer(_TextSerializer):
    """Serializer of STRING and STRING_VALUE, whose lengths differ by one: only STRING has a null."""

    @property
    def flink_type(self) -> str:
        """STRING or STRING_VALUE."""
        return "STRING" if self._extra else "STRING_VALUE"

    @property
    def _extra(self) -> int:
        return 0 if self.snapshot_class == STRING_VALUE else 1

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.STRING, self._extra)

    def decode(self, at: Cursors) -> pa.Array:
        from pyspark_savepoint.formats.kernels import strings

        room, start = self._room(at), at.position.copy()
        offsets, valid = np.zeros(start.size + 1, np.int32), np.zeros(start.size, np.bool_)
        out = np.empty(room, np.uint8)
        row, why, size = strings.read_strings(
            at.buffer, at.position, at.end, self._extra, offsets, out, valid, strings.REFUSE
        )
        if why == strings.LONE_SURROGATE:
            if at.options.text == "error":
                refuse_surrogate(at, row)
            lone = strings.REPLACE if at.options.text == "replace" else strings.ESCAPED
            at.position[:] = start
            out = np.empty(min(2 * room, MAX_UTF8 + 8), np.uint8)
            row, why, size = strings.read_strings(
                at.buffer, at.position, at.end, self._extra, offsets, out, valid, lone
            )
            ESCAPED_TEXTS.add()
        if why == strings.TOO_LARGE:
            refuse_size(at, row)
        if row >= 0:
            at.fail(row, f"a value of {self.flink_type}")
        return binary_array(pa.string(), offsets, out[:size], valid)

    def _room(self, at: Cursors) -> int:
        """Return a bound of the UTF-8 bytes of all rows: a varint of two bytes is at most three bytes of UTF-8.

        Where cursors do not end with their values (rows of a heap table share one end), the values are measured first.
        """
        most = int((at.end - at.position).sum())
        if most > 2 * len(at.buffer):
            walker = at.at(at.position.copy(), at.end)
            skip_rows(self, walker)
            most = int((walker.position - at.position).sum())
        return min(most + (most >> 1), MAX_UTF8) + 8

    def _measure(self, column: pa.Array) -> tuple[Longs, Longs, Flags]:
        """Return UTF-16 units, encoded bytes and validity of every row."""
        from pyspark_savepoint.formats.kernels import strings

        units = np.zeros(len(column), np.int64)
        sizes = np.zeros(len(column), np.int64)
        strings.string_sizes(*binary_parts(column), self._extra, units, sizes)
        valid = valid_rows(column)
        sizes[~valid] = 1
        return units, sizes, valid

    def sizes(self, column: pa.Array) -> Longs:
        """Return the bytes of the varints of length and units; a null is one byte."""
        if not self._extra:
            refuse_nulls(column, self.flink_type)
        expect_utf8(column)
        return self._measure(column)[1]

    def encode(self, column: pa.Array, at: Cursors) -> None:
        from pyspark_savepoint.formats.kernels import strings

        units, _, valid = self._measure(column)
        strings.write_strings(at.buffer, at.position, *binary_parts(column), self._extra, units, valid)


def characters(units: npt.NDArray[np.uint16], form: str) -> tuple[pa.Array, int]:
    """Return code units as strings of one character, and the position of the first surrogate or -1.

    ``form``: option ``text``; surrogates have a position only if it is ``error``.
    """
    from pyspark_savepoint.formats.kernels import strings as kernels

    offsets = np.zeros(len(units) + 1, np.int32)
    out = np.empty(3 * len(units), np.uint8)
    row = kernels.units_to_utf8(units, offsets, out)
    if row >= 0 and form != "error":
        ESCAPED_TEXTS.add()
        return pa.array([column_text(chr(unit), form) for unit in units.tolist()], pa.string()), -1
    return binary_array(pa.string(), offsets, out[: offsets[-1]]), row


def code_units(column: pa.Array) -> npt.NDArray[Any]:
    """Return the code unit of every string of one character."""
    from pyspark_savepoint.formats.kernels import strings as kernels

    expect_utf8(column)
    units = np.zeros(len(column), np.uint16)
    row = kernels.utf8_to_units(*binary_parts(column), units)
    if row >= 0:
        raise ValueRangeError(
            "a value of CHAR must be one UTF-16 code unit",
            found=f"{column[row].as_py()!r} in row {row}",
            remedy="write strings of exactly one character below U+10000",
        )
    return units


@register(CHAR, CHAR_VALUE)
@dataclass(frozen=True)
class CharSerializer(_TextSerializer):
    """Serializer of CHAR and CHAR_VALUE."""

    @property
    def flink_type(self) -> str:
        """CHAR or CHAR_VALUE."""
        return "CHAR" if self.snapshot_class == CHAR else "CHAR_VALUE"

    @property
    def length(self) -> int:
        return 2

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.FIXED, 2)

    def decode(self, at: Cursors) -> pa.Array:
        start = at.position.copy()
        column, row = characters(read_numbers(at, "read_i16", np.uint16, self.flink_type), at.options.text)
        if row >= 0:
            refuse_surrogate(at.at(start, at.end), row)
        return column

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        return np.full(len(column), 2, np.int64)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        write_numbers(code_units(column), at)
