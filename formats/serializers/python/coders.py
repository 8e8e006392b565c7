"""Coders of PyFlink: how Python operators encode values inside the byte arrays that Flink stores for them.

    STRING      i32 n  n bytes of UTF-8               BIG_DEC   i32 n  n bytes, a decimal as text
    DATE        i32 days since 1970                   TIME      i32 milliseconds of the day
    TIMESTAMP   i64 milliseconds since 1970           PICKLED   i32 n  n bytes, a pickle
    BYTES       i32 n  n bytes

The other coders write what Java's serializers of the same name write, and are those serializers: numbers, INSTANT, ROW,
TUPLE, MAP, primitive and object arrays (also LIST), TIME_WINDOW. Types are not in a savepoint. PyFlink:
``fn_execution/coder_impl_slow.py``, ``fn_execution/coders.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Longs,
    fixed_array,
    fixed_values,
    refuse_nulls,
    refuse_where,
)
from pyspark_savepoint.formats.errors import UndecodableStateError
from pyspark_savepoint.formats.pickle_walker import decode_pickled_or_binary
from pyspark_savepoint.formats.serializers.basic.blobs import BlockSerializer
from pyspark_savepoint.formats.serializers.basic.calendar import (
    MAX_DAYS,
    MIN_DAYS,
    TIMESTAMP_NTZ,
    millis_of,
    millis_to_micros,
    refuse_beyond,
    timestamps,
)
from pyspark_savepoint.formats.serializers.basic.fixed_width import FixedWidthSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import read_numbers, write_numbers
from pyspark_savepoint.formats.variant import VARIANT

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
