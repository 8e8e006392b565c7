"""Serializers of points in time: java.util.Date, java.sql.Date, Time and Timestamp, and Instant.

    Date, SqlDate, SqlTime   i64 milliseconds since 1970                              null 8000000000000000
    SqlTimestamp             i64 milliseconds, i32 nanoseconds of the second          null 8000000000000000 00000000:
                             Flink writes these 12 bytes but reads only the first 8, so nulls are not written here
    Instant                  i64 seconds,      i32 nanoseconds of the second          null 8000000000000000 80000000

A SqlTimestamp stores its milliseconds twice: in the first number and in the nanoseconds. SqlDate and SqlTime depend on
the time zone of the JVM that wrote them.
Flink: ``DateSerializer``, ``SqlDateSerializer``, ``SqlTimeSerializer``, ``SqlTimestampSerializer``,
``InstantSerializer``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Flags,
    Ints,
    Longs,
    fixed_array,
    fixed_values,
    refuse_nulls,
    refuse_where,
    struct_array,
    valid_rows,
)
from pyspark_savepoint.formats.serializers.basic.calendar import (
    MICROS_PER_SECOND,
    NANOS_PER_SECOND,
    TIMESTAMP,
    micros_of,
    millis_of,
    millis_to_micros,
    seconds_to_micros,
    timestamps,
)
from pyspark_savepoint.formats.serializers.basic.fixed_width import FixedWidthSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import BASE, fold_long, read_numbers, write_numbers
from pyspark_savepoint.formats.serializers.registry import register

NULL = np.int64(-(2**63))
MOMENT = pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())])


def _snapshot(stem: str) -> str:
    return f"{BASE}{stem}Serializer${stem}SerializerSnapshot"


MILLIS = {_snapshot("Date"): "DATE", _snapshot("SqlDate"): "SQL_DATE", _snapshot("SqlTime"): "SQL_TIME"}
SQL_TIMESTAMP = _snapshot("SqlTimestamp")
INSTANT = _snapshot("Instant")


@register(*MILLIS)
@dataclass(frozen=True)
class DateSerializer(FixedWidthSerializer):
    """Serializer of DATE and SQL_DATE, which become timestamps, and of SQL_TIME, which becomes milliseconds."""

    @property
    def flink_type(self) -> str:
        """DATE, SQL_DATE or SQL_TIME."""
        return MILLIS[self.snapshot_class]

    @property
    def width(self) -> int:
        return 8

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return TIMESTAMP; BIGINT milliseconds for SQL_TIME and with ``timestamps=raw``."""
        plain = self.flink_type == "SQL_TIME" or options.timestamps == "raw"
        return pa.int64() if plain else TIMESTAMP

    def decode(self, at: Cursors) -> pa.Array:
        start = at.at(at.position.copy(), at.end)
        millis = read_numbers(at, "read_i64", np.int64, self.flink_type)
        valid = millis != NULL
        if self.arrow_type(at.options) == TIMESTAMP:
            return timestamps(millis_to_micros(start, millis, valid), valid)
        return fixed_array(pa.int64(), millis, valid)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        millis, valid = millis_of(column, self.flink_type)
        write_numbers(np.where(valid, millis, NULL), at)

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``Date.hashCode``: the hash of the milliseconds as a long."""
        return fold_long(millis_of(column, self.flink_type)[0])


@register(SQL_TIMESTAMP, INSTANT)
@dataclass(frozen=True)
class MomentSerializer(FixedWidthSerializer):
    """Serializer of SQL_TIMESTAMP and INSTANT, which have nanoseconds where Spark has microseconds."""

    @property
    def flink_type(self) -> str:
        """SQL_TIMESTAMP or INSTANT."""
        return "INSTANT" if self.snapshot_class == INSTANT else "SQL_TIMESTAMP"

    @property
    def width(self) -> int:
        return 12

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return TIMESTAMP; with ``timestamps=raw`` a struct of seconds and nanoseconds."""
        return MOMENT if options.timestamps == "raw" else TIMESTAMP

    def decode(self, at: Cursors) -> pa.Array:
        start = at.at(at.position.copy(), at.end)
        first = read_numbers(at, "read_i64", np.int64, self.flink_type)
        nanos = read_numbers(at, "read_i32", np.int32, self.flink_type)
        valid = first != NULL
        damaged = valid & ((nanos < 0) | (nanos >= NANOS_PER_SECOND))
        if damaged.any():
            row = int(damaged.argmax())
            start.fail(row, "nanoseconds of a second", int(nanos[row]))
        seconds = first if self.snapshot_class == INSTANT else first // 1000
        if at.options.timestamps == "raw":
            parts = [fixed_array(pa.int64(), seconds, valid), fixed_array(pa.int32(), nanos, valid)]
            return struct_array(MOMENT, parts, len(at), valid)
        return timestamps(seconds_to_micros(start, seconds, nanos.astype(np.int64), valid), valid)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        """Write one moment per row; nulls of SQL_TIMESTAMP are refused, because Flink cannot read them."""
        instant = self.snapshot_class == INSTANT
        if not instant:
            refuse_nulls(column, self.flink_type, "Flink writes its null with four bytes more than it reads")
        seconds, nanos, valid = moments_of(column, self.flink_type)
        first = seconds if instant else _millis(column, seconds, nanos)
        write_numbers(np.where(valid, first, NULL), at)
        write_numbers(np.where(valid, nanos, -(2**31)).astype(np.int32), at)

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``Instant.hashCode``; for SQL_TIMESTAMP the hash of the milliseconds."""
        seconds, nanos, valid = moments_of(column, self.flink_type)
        if self.snapshot_class == INSTANT:
            hashes = (
                (fold_long(seconds).astype(np.int64) + 51 * nanos).astype(np.uint64).astype(np.uint32).view(np.int32)
            )
        else:
            hashes = fold_long(_millis(column, seconds, nanos))
        return np.where(valid, hashes, 0).astype(np.int32)


def moments_of(column: pa.Array, flink_type: str) -> tuple[Longs, Longs, Flags]:
    """Return seconds, nanoseconds of the second and validity of a column of timestamps or structs; 0 where null."""
    if pa.types.is_timestamp(column.type):
        micros, valid = micros_of(column)
        return micros // MICROS_PER_SECOND, micros % MICROS_PER_SECOND * 1000, valid
    valid = valid_rows(column)
    for child in (column.field(0), column.field(1)):
        refuse_nulls(child.filter(pa.array(valid)), f"a field of {flink_type}")
    seconds = np.where(valid, fixed_values(column.field(0), np.int64), 0)
    nanos = np.where(valid, fixed_values(column.field(1), np.int32), 0).astype(np.int64)
    refuse_where(
        (nanos < 0) | (nanos >= NANOS_PER_SECOND),
        column,
        "nanoseconds from 0 to 999999999",
        "carry whole seconds over to the seconds",
    )
    return seconds, nanos, valid


def _millis(column: pa.Array, seconds: Longs, nanos: Longs) -> Longs:
    limit = 2**63 // 1000 - 1
    refuse_where(
        (seconds > limit) | (seconds < -limit),
        column,
        "milliseconds in a long",
        "write a time within 292 million years of 1970",
    )
    return seconds * 1000 + nanos // 1_000_000
