"""Slots of SQL's timestamps and intervals: milliseconds, which become microseconds in columns.

    TIMESTAMP(p), TIMESTAMP_LTZ(p)   slot: p <= 3: i64 millis; else u32 nanos of the milli, u32 offset of i64 millis
    INTERVAL DAY TO SECOND           slot: i64 millis

The option ``timestamps`` controls values that microseconds or Spark's years cannot hold. Flink: ``TimestampData``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Cursors,
    Flags,
    Longs,
    fixed_array,
    fixed_values,
    refuse_where,
    struct_array,
)
from pyspark_savepoint.formats.serializers.sql.logical_types import RAW_TIMESTAMP, LogicalType, arrow_type
from pyspark_savepoint.formats.serializers.sql.slots import InSlot, RowWriter, SlotOutput, Slots, Wide, first_row

#: Spark's timestamps: 0001-01-01 to 9999-12-31, in milliseconds.
FIRST_MILLI, LAST_MILLI = -62_135_596_800_000, 253_402_300_799_999
MAX_INTERVAL_MILLI = (2**63 - 1) // 1000
TRUNCATE = 'use option("timestamps", "truncate") to cut finer digits, or "raw" to read the numbers that Flink stores'
RAW = 'use option("timestamps", "raw") to read the numbers that Flink stores'


class DayTimeIntervalCodec(Wide, InSlot):
    """Codec of INTERVAL DAY TO SECOND: milliseconds."""

    def read(self, kind: LogicalType, slots: Slots) -> pa.Array:
        """Return microseconds; with ``timestamps=raw`` the stored numbers."""
        millis = slots.numbers(8)
        if slots.at.options.timestamps == "raw":
            return fixed_array(pa.int64(), millis, slots.valid)
        row = slots.first((millis > MAX_INTERVAL_MILLI) | (millis < -MAX_INTERVAL_MILLI))
        if row >= 0:
            slots.at.out_of_range(row, f"an interval of {int(millis[row])} ms is too long for microseconds", RAW)
        return fixed_array(pa.duration("us"), millis * 1000, slots.valid)

    def write(self, kind: LogicalType, column: pa.Array, target: SlotOutput) -> None:
        values = fixed_values(column, np.int64)
        if pa.types.is_duration(column.type):
            refuse_where((values % 1000 != 0) & target.valid, column, f"whole milliseconds for {kind}", "round them")
            values = values // 1000
        target.put(values)


class TimestampCodec(Wide):
    """Codec of timestamps: milliseconds, and nanoseconds of the millisecond if the precision is above 3."""

    def read(self, kind: LogicalType, slots: Slots) -> pa.Array:
        """Return microseconds; with ``timestamps=raw`` the stored numbers."""
        from pyspark_savepoint.formats.kernels.values import binaryrow

        at = slots.at
        if kind.compact:
            return timestamps(kind, slots.numbers(8), None, slots.valid, at)
        millis, nanos = np.empty_like(slots.place), np.empty_like(slots.place)
        row = binaryrow.read_indirect(at.buffer, slots.place, at.position, at.end, slots.valid, millis, nanos)
        at.check(row, "the offset of a timestamp within the binary row")
        return timestamps(kind, millis, nanos, slots.valid, at)

    def variable(self, kind: LogicalType, column: pa.Array, target: RowWriter) -> Longs:
        """Return the bytes of the milliseconds; generated code reserves them for nulls too."""
        if kind.compact:
            return np.zeros(len(column), np.int64)
        return np.where(target.present if target.generated else target.valid, 8, 0).astype(np.int64)

    def write(self, kind: LogicalType, column: pa.Array, target: SlotOutput) -> None:
        millis, nanos = timestamp_parts(kind, column, target.valid)
        if kind.compact:
            target.put(millis)
            return
        target.put_extent(np.where(target.valid, nanos, 0), target.present if target.generated else target.valid)
        target.put(millis, place=target.free)


def timestamps(kind: LogicalType, millis: Longs, nanos: Longs | None, valid: Flags, at: Cursors) -> pa.Array:
    """Return a column of timestamps by the option ``timestamps``; ``nanos`` are those of the millisecond."""
    mode = at.options.timestamps
    if nanos is not None:
        at.check(first_row(valid & ((nanos < 0) | (nanos > 999_999))), "nanoseconds of a millisecond: 0 to 999999")
    if mode == "raw":
        first = fixed_array(pa.int64(), millis, valid)
        if nanos is None:
            return first
        second = fixed_array(pa.int32(), nanos.astype(np.int32), valid)
        return struct_array(RAW_TIMESTAMP, [first, second], len(millis), valid)
    row = first_row(valid & ((millis < FIRST_MILLI) | (millis > LAST_MILLI)))
    if row >= 0:
        at.out_of_range(row, f"a timestamp of {int(millis[row])} ms is outside the years 1 to 9999", RAW)
    micros = np.where(valid, millis, 0) * 1000
    if nanos is not None:
        row = first_row(valid & (nanos % 1000 != 0)) if mode == "micros" else -1
        if row >= 0:
            at.out_of_range(row, f"a timestamp with {int(nanos[row])} ns is finer than microseconds", TRUNCATE)
        micros = micros + nanos // 1000
    return fixed_array(arrow_type(kind, at.options), micros, valid)


def timestamp_parts(kind: LogicalType, column: pa.Array, valid: Flags) -> tuple[Longs, Longs]:
    """Return milliseconds and nanoseconds of the millisecond of a column of timestamps, or of raw numbers."""
    if pa.types.is_struct(column.type):
        millis, nanos = column.field("millis"), column.field("nanos")
        return fixed_values(millis, np.int64), fixed_values(nanos, np.int32).astype(np.int64)
    values = fixed_values(column, np.int64)
    if pa.types.is_int64(column.type):
        return values, np.zeros(len(values), np.int64)
    millis = values // 1000
    nanos = (values - millis * 1000) * 1000
    if kind.compact:
        refuse_where((nanos != 0) & valid, column, f"whole milliseconds for {kind}", "truncate the timestamps")
    return millis, nanos
