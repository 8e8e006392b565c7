"""Types of PyFlink: the notation of option ``pyTypes``, and the coders of values.

Option ``pyTypes`` has the types that a PyFlink job declared for its states:

    pyTypes  := state (";" state)*
    state    := NAME [kind] type                 NAME without spaces, or in backquotes
    kind     := VALUE | LIST | MAP | REDUCING | AGGREGATING
    type     := LONG | STRING | PICKLED | ...    as Types.LONG() ... of PyFlink; LEAVES below
              | ROW<type, ...> | ROW<name type, ...> | TUPLE<type, ...> | MAP<type, type>
              | LIST<type> | BASIC_ARRAY<type> | OBJECT_ARRAY<type> | PRIMITIVE_ARRAY<type>

After a kind, ``type`` is that of the value, of a list's elements, or ``MAP<K, V>``. Without a kind, ``LIST<T>`` is a
list state of T or a value that is a list, depending on the bytes; any other type is that of a value, or a map state's.

Coders encode values inside the byte arrays that Flink stores for Python operators:

    STRING      i32 n  n bytes of UTF-8               BIG_DEC   i32 n  n bytes, a decimal as text
    DATE        i32 days since 1970                   TIME      i32 milliseconds of the day
    TIMESTAMP   i64 milliseconds since 1970           PICKLED   i32 n  n bytes, a pickle
    BYTES       i32 n  n bytes

The other coders write what Java's serializers of the same name write, and are those serializers: numbers, INSTANT, ROW,
TUPLE, MAP, primitive and object arrays (also LIST), TIME_WINDOW. Types are not in a savepoint. PyFlink:
``fn_execution/coder_impl_slow.py``, ``fn_execution/coders.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Longs,
    fixed_array,
    fixed_values,
    refuse_nulls,
    refuse_where,
)
from pyspark_savepoint.formats.errors import TypeNotationError, UndecodableStateError
from pyspark_savepoint.formats.pickle_walker import decode_pickled_or_binary
from pyspark_savepoint.formats.serializers.basic.blobs import BYTES, BlockSerializer, BytesSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import FixedWidthSerializer, read_numbers, write_numbers
from pyspark_savepoint.formats.serializers.basic.temporal import (
    MAX_DAYS,
    MIN_DAYS,
    TIMESTAMP_NTZ,
    millis_of,
    millis_to_micros,
    refuse_beyond,
    timestamps,
)
from pyspark_savepoint.formats.serializers.composite.collections import GenericArraySerializer, MapSerializer
from pyspark_savepoint.formats.serializers.composite.fields import TupleSerializer
from pyspark_savepoint.formats.serializers.notation.names import SIMPLE
from pyspark_savepoint.formats.serializers.notation.notation import MAX_TUPLE, Parser
from pyspark_savepoint.formats.serializers.runtime.operators import STREAM_WINDOW, TimeWindowSerializer
from pyspark_savepoint.formats.variant import VARIANT

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.base import TypeSerializer

CODERS = "pyflink.fn_execution.coders."
#: The output of ``str(decimal.Decimal(...))``.
DECIMAL_TEXT = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|Infinity|s?NaN\d*)$"
MILLIS_PER_DAY = 86_400_000


@dataclass(frozen=True)
class StringCoder(BlockSerializer):
    """Serializer of STRING and CHAR."""

    flink_type: ClassVar[str] = "STRING"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def decode(self, at: Cursors) -> pa.Array:
        return self._texts(at)

    def _texts(self, at: Cursors) -> pa.Array:
        start = at.at(at.position.copy(), at.end)
        column = self._blocks(at)
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid:
            wrong = next(row for row, value in enumerate(column.to_pylist()) if not _is_utf8(value))
            start.fail(wrong, "a text in UTF-8")


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


@dataclass(frozen=True)
class DecimalCoder(StringCoder):
    """Serializer of BIG_DEC; option ``decimals`` gives its column type, as for Java's BIG_DECIMAL."""

    flink_type: ClassVar[str] = "BIG_DEC"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        if options.decimals in ("auto", "string"):
            return pa.string()
        if options.decimals == "objects":
            return pa.large_string()
        precision, scale = options.decimals.split(",")
        return pa.decimal128(int(precision), int(scale))

    def decode(self, at: Cursors) -> pa.Array:
        start = at.at(at.position.copy(), at.end)
        texts = self._texts(at)
        wrong = np.flatnonzero(~np.asarray(pc.match_substring_regex(texts, DECIMAL_TEXT)))
        if len(wrong):
            start.fail(int(wrong[0]), "a decimal number as text")
        kind = self.arrow_type(at.options)
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid as error:
            start.out_of_range(0, f"a BIG_DEC value is not a {kind}: {error}", "option('decimals', 'string')")

    def sizes(self, column: pa.Array) -> Longs:
        return super().sizes(_texts_of(column))

    def encode(self, column: pa.Array, at: Cursors) -> None:
        super().encode(_texts_of(column), at)


def _texts_of(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.string())
    wrong = ~np.asarray(pc.fill_null(pc.match_substring_regex(texts, DECIMAL_TEXT), True))
    refuse_where(wrong, texts, "a decimal number", "cast the column to DECIMAL")
    return texts


@dataclass(frozen=True)
class DateCoder(FixedWidthSerializer):
    """Serializer of DATE."""

    flink_type: ClassVar[str] = "DATE"

    @property
    def width(self) -> int:
        return 4

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.date32()

    def decode(self, at: Cursors) -> pa.Array:
        start = at.at(at.position.copy(), at.end)
        days = read_numbers(at, "read_i32", np.int32, "a DATE")
        refuse_beyond(start, (days < MIN_DAYS) | (days > MAX_DAYS), "days since 1970", days)
        return fixed_array(pa.date32(), days)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        refuse_nulls(column, self.flink_type)
        write_numbers(fixed_values(column, np.int32), at)


@dataclass(frozen=True)
class TimeCoder(FixedWidthSerializer):
    """Serializer of TIME: INT milliseconds of the day, as TIME of SQL."""

    flink_type: ClassVar[str] = "TIME"

    @property
    def width(self) -> int:
        return 4

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.int32()

    def decode(self, at: Cursors) -> pa.Array:
        start = at.at(at.position.copy(), at.end)
        millis = read_numbers(at, "read_i32", np.int32, "a TIME")
        wrong = np.flatnonzero((millis < 0) | (millis >= MILLIS_PER_DAY))
        if len(wrong):
            start.fail(int(wrong[0]), "milliseconds of a day", int(millis[wrong[0]]))
        return fixed_array(pa.int32(), millis)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        refuse_nulls(column, self.flink_type)
        millis = fixed_values(column, np.int32)
        refuse_where((millis < 0) | (millis >= MILLIS_PER_DAY), column, "milliseconds of a day", "0 to 86399999")
        write_numbers(millis, at)


@dataclass(frozen=True)
class TimestampCoder(FixedWidthSerializer):
    """Serializer of TIMESTAMP, a datetime without time zone: TIMESTAMP_NTZ, or BIGINT with ``timestamps=raw``."""

    flink_type: ClassVar[str] = "TIMESTAMP"

    @property
    def width(self) -> int:
        return 8

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.int64() if options.timestamps == "raw" else TIMESTAMP_NTZ

    def decode(self, at: Cursors) -> pa.Array:
        start = at.at(at.position.copy(), at.end)
        millis = read_numbers(at, "read_i64", np.int64, "a TIMESTAMP")
        if at.options.timestamps == "raw":
            return fixed_array(pa.int64(), millis)
        valid = np.ones(len(at), np.bool_)
        return timestamps(millis_to_micros(start, millis, valid), valid, TIMESTAMP_NTZ)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        refuse_nulls(column, self.flink_type)
        write_numbers(millis_of(column, self.flink_type)[0], at)


@dataclass(frozen=True)
class PickledCoder(BlockSerializer):
    """Serializer of PICKLED: a VARIANT of the pickle's data (``formats/pickle_walker.py``), or else of its bytes.

    Pickles cannot be written, because a VARIANT does not distinguish a tuple from a list, or the classes of objects.
    """

    flink_type: ClassVar[str] = "PICKLED"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return VARIANT

    def decode(self, at: Cursors) -> pa.Array:
        return decode_pickled_or_binary(self._blocks(at))

    def sizes(self, column: pa.Array) -> Longs:
        raise UndecodableStateError(
            "pickled values cannot be written from a VARIANT: it does not distinguish tuples from lists, or classes",
            expected="BINARY: the pickles as option 'raw' reads them",
            remedy="read this state with option 'raw' and write it as it is, or leave it as it is: option 'state' "
            "names the states that are written",
        )

    def encode(self, column: pa.Array, at: Cursors) -> None:
        self.sizes(column)


KINDS = ("VALUE", "LIST", "MAP", "REDUCING", "AGGREGATING")
STRING, DECIMAL = StringCoder.of(CODERS + "CharCoder"), DecimalCoder.of(CODERS + "BigDecimalCoder")
PICKLED = PickledCoder.of(CODERS + "CloudPickleCoder")
DATE, TIME = DateCoder.of(CODERS + "DateCoder"), TimeCoder.of(CODERS + "TimeCoder")
TIMESTAMP, BINARY = TimestampCoder.of(CODERS + "TimestampCoder"), BytesSerializer.of(BYTES)
TIME_WINDOW = TimeWindowSerializer.of(STREAM_WINDOW)
LEAVES: Mapping[str, TypeSerializer] = MappingProxyType(
    {
        **{word: SIMPLE[word] for word in ("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "INSTANT")},
        "BIG_INT": SIMPLE["LONG"],
        **dict.fromkeys(("STRING", "CHAR"), STRING),
        **dict.fromkeys(("BIG_DEC", "BIG_DECIMAL"), DECIMAL),
        **dict.fromkeys(("DATE", "SQL_DATE"), DATE),
        **dict.fromkeys(("TIME", "SQL_TIME"), TIME),
        **dict.fromkeys(("TIMESTAMP", "SQL_TIMESTAMP"), TIMESTAMP),
        **dict.fromkeys(("BYTES", "BINARY"), BINARY),
        **dict.fromkeys(("PICKLED", "PICKLED_BYTE_ARRAY", "PICKLED_BYTES"), PICKLED),
        "TIME_WINDOW": TIME_WINDOW,
    }
)
COMPOSITES = ("ROW", "TUPLE", "MAP", "LIST", "BASIC_ARRAY", "OBJECT_ARRAY", "PRIMITIVE_ARRAY")
STATE = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s`;]+))\s+(.*)", re.DOTALL)
#: The newest release, because these types do not depend on the release.
ANY_RELEASE = (99, 0)


class PythonTypeParser(Parser):
    """Parser of PyFlink's types."""

    def type(self) -> TypeSerializer:
        tokens = self.tokens
        token = tokens.word("a type of PyFlink")
        word = token.upper
        tokens.descend()
        serializer = LEAVES.get(word)
        if word == "ROW":
            serializer = self.row(token)
        elif word == "TUPLE":
            serializer = TupleSerializer.of(*self.arguments(token, 1, MAX_TUPLE))
        elif word == "MAP":
            serializer = MapSerializer.of(*self.arguments(token, 2, 2))
        elif word == "PRIMITIVE_ARRAY":
            serializer = self.array(token)
        elif word in COMPOSITES:
            serializer = list_of(self.arguments(token, 1, 1)[0])
        elif serializer is None:
            tokens.fail_unknown("a type of PyFlink", token, [*LEAVES, *COMPOSITES])
        tokens.ascend()
        return serializer


@dataclass(frozen=True)
class ListCoder(GenericArraySerializer):
    """Serializer of a value that is a list: a flag before each element."""

    @property
    def flink_type(self) -> str:
        return f"LIST<{self.element.flink_type}>"


def list_of(element: TypeSerializer) -> ListCoder:
    """Return the coder of a value that is a list."""
    return ListCoder(CODERS + "GenericArrayCoder", 3, 1, (element,), "")


@dataclass(frozen=True)
class DeclaredState:
    """Type of a state as declared in option ``pyTypes``; ``kind`` is empty if it is not declared."""

    kind: str
    type: TypeSerializer
    text: str = ""


def parse_python_types(text: str) -> dict[str, DeclaredState]:
    """Parse the text of option ``pyTypes``.

    >>> {name: (found.kind, found.type.flink_type) for name, found in parse_python_types("a LONG; b LIST INT").items()}
    {'a': ('', 'LONG'), 'b': ('LIST', 'INT')}
    """
    states: dict[str, DeclaredState] = {}
    for part in re.findall(r"(?:[^;`]|`(?:[^`]|``)*`)+", text):
        if not part.strip():
            continue
        match = STATE.fullmatch(part)
        if match is None:
            raise TypeNotationError(
                "option 'pyTypes' needs a name and a type per state",
                expected="such as: total LONG; tags LIST<STRING>",
                found=part[:80],
            )
        name = match[1].replace("``", "`") if match[1] else match[2]
        if name in states:
            raise TypeNotationError(f"state {name[:80]!r} has two types", expected="one type for each state")
        states[name] = _declared(match[3])
    return states


def _declared(text: str) -> DeclaredState:
    parser = PythonTypeParser(text, ANY_RELEASE)
    first, second = parser.tokens.next, parser.tokens.ahead(1)
    kind = first.upper if first.upper in KINDS and second.kind == "word" else ""
    if kind:
        parser.tokens.take()
    kind_of = parser.type()
    if parser.tokens.next.kind != "end":
        parser.tokens.fail("';' or the end after a type")
    if kind == "MAP" and not isinstance(kind_of, MapSerializer):
        parser.tokens.fail("MAP<K, V> for a map state", first)
    return DeclaredState(kind, kind_of, text)
