"""Serializers of windows, and of longs whose bytes sort like the numbers.

    TimeWindow (DataStream, SQL)   i64 start  i64 end     milliseconds; the end is exclusive
    CountWindow (SQL)              i64 id
    SortedLong (SQL, 2.3)          i64 with its sign bit flipped

GlobalWindow is a constant (``constants.py``). Flink: ``TimeWindow.Serializer`` of both packages,
``CountWindow.Serializer``, ``SortedLongSerializer``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Ints,
    Longs,
    fixed_array,
    fixed_values,
    refuse_nulls,
    struct_array,
    valid_rows,
)
from pyspark_savepoint.formats.serializers.basic.calendar import TIMESTAMP, millis_of, millis_to_micros, timestamps
from pyspark_savepoint.formats.serializers.basic.elements import naming
from pyspark_savepoint.formats.serializers.basic.fixed_width import FixedWidthSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import fold_long, read_numbers, write_numbers
from pyspark_savepoint.formats.serializers.registry import register

STREAM_WINDOW = "org.apache.flink.streaming.api.windowing.windows.TimeWindow$Serializer$TimeWindowSerializerSnapshot"
TABLE_WINDOW = "org.apache.flink.table.runtime.operators.window.TimeWindow$Serializer$TimeWindowSerializerSnapshot"
COUNT_WINDOW = "org.apache.flink.table.runtime.operators.window.CountWindow$Serializer$CountWindowSerializerSnapshot"
SORTED_LONG = "org.apache.flink.table.runtime.operators.sink.SortedLongSerializer$SortedLongSerializerSnapshot"

WINDOW = pa.struct([("start", TIMESTAMP), ("end", TIMESTAMP)])
RAW_WINDOW = pa.struct([("start", pa.int64()), ("end", pa.int64())])
SIGN = np.int64(-(2**63))


def mix_bits(longs: Longs) -> Ints:
    """Return ``MathUtils.longToIntWithBitMixing``."""
    bits = longs.view(np.uint64)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (bits ^ (bits >> np.uint64(31))).astype(np.uint32).view(np.int32)


def invert_odd(numbers: Longs) -> Longs:
    """Return the inverse of odd numbers modulo 2^32, by Newton's method: each step doubles the correct bits."""
    odd = numbers.view(np.uint64)
    inverse = odd * odd * odd
    for _ in range(3):
        inverse *= np.uint64(2) - odd * inverse
    return inverse.view(np.int64)


@register(STREAM_WINDOW, TABLE_WINDOW)
@dataclass(frozen=True)
class TimeWindowSerializer(FixedWidthSerializer):
    """Serializer of TIME_WINDOW, and TABLE_TIME_WINDOW of SQL, which become a struct of start and end."""

    width: ClassVar[int] = 16

    @property
    def flink_type(self) -> str:
        """TIME_WINDOW or TABLE_TIME_WINDOW."""
        return "TIME_WINDOW" if self.snapshot_class == STREAM_WINDOW else "TABLE_TIME_WINDOW"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return a struct of timestamps; with ``timestamps=raw`` of milliseconds."""
        return RAW_WINDOW if options.timestamps == "raw" else WINDOW

    def decode(self, at: Cursors) -> pa.Array:
        valid = np.ones(len(at), np.bool_)
        columns = []
        for name in ("start", "end"):
            with at.inside(name):
                start = at.at(at.position.copy(), at.end)
                millis = read_numbers(at, "read_i64", np.int64, self.flink_type)
                if at.options.timestamps == "raw":
                    columns.append(fixed_array(pa.int64(), millis))
                else:
                    columns.append(timestamps(millis_to_micros(start, millis, valid), valid))
        return struct_array(self.arrow_type(at.options), columns, len(at))

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        self._bounds(column)
        return super().sizes(column)

    def _bounds(self, column: pa.Array) -> list[Longs]:
        bounds = []
        for index, name in enumerate(("start", "end")):
            with naming(name):
                refuse_nulls(column.field(index), f"a field of {self.flink_type}")
                bounds.append(millis_of(column.field(index), self.flink_type)[0])
        return bounds

    def encode(self, column: pa.Array, at: Cursors) -> None:
        for millis in self._bounds(column):
            write_numbers(millis, at)

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``TimeWindow.hashCode``, which differs between DataStream and SQL."""
        start, end = (millis_of(column.field(index), self.flink_type)[0] for index in (0, 1))
        if self.snapshot_class == STREAM_WINDOW:
            hashes = mix_bits(start + end)
        else:
            hashes = (start + invert_odd((end << 1) + 1)).view(np.uint64).astype(np.uint32).view(np.int32)
        return np.where(valid_rows(column), hashes, 0).astype(np.int32)


@register(COUNT_WINDOW, SORTED_LONG)
@dataclass(frozen=True)
class WindowLongSerializer(FixedWidthSerializer):
    """Serializer of COUNT_WINDOW, the number of a window, and of SORTED_LONG, whose bytes sort like the numbers."""

    width: ClassVar[int] = 8

    @property
    def flink_type(self) -> str:
        return "SORTED_LONG" if self._flip else "COUNT_WINDOW"

    @property
    def _flip(self) -> np.int64:
        return SIGN if self.snapshot_class == SORTED_LONG else np.int64(0)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.int64()

    def decode(self, at: Cursors) -> pa.Array:
        return fixed_array(pa.int64(), read_numbers(at, "read_i64", np.int64, self.flink_type) ^ self._flip)

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        return super().sizes(column)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        write_numbers(fixed_values(column, np.int64) ^ self._flip, at)

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``CountWindow.hashCode``, or ``Long.hashCode`` for SORTED_LONG."""
        values = np.ascontiguousarray(fixed_values(column, np.int64))
        hashes = fold_long(values) if self._flip else mix_bits(values)
        return np.where(valid_rows(column), hashes, 0).astype(np.int32)
