"""Serializers of dates and times without a zone: LocalDate, LocalTime, LocalDateTime.

    LocalDate       i32 year  i8 month  i8 day                  null 80000000 8000
    LocalTime       i8 hour  i8 minute  i8 second  i32 nanos    null 80 8000 80000000
    LocalDateTime   LocalDate  LocalTime                        null: both are null

Flink: ``LocalDateSerializer``, ``LocalTimeSerializer``, ``LocalDateTimeSerializer``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
    MAX_DAYS,
    MICROS_PER_DAY,
    MIN_DAYS,
    NANOS_PER_DAY,
    NANOS_PER_SECOND,
    TIMESTAMP_NTZ,
    are_dates,
    dates_of_days,
    days_of_dates,
    days_to_micros,
    hash_dates,
    micros_of,
    refuse_beyond,
    timestamps,
)
from pyspark_savepoint.formats.serializers.basic.fixed_width import FixedWidthSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import BASE, fold_long, read_numbers, write_numbers
from pyspark_savepoint.formats.serializers.registry import register

DATE_PARTS = pa.struct([("year", pa.int32()), ("month", pa.int8()), ("day", pa.int8())])
DATE_TIME_PARTS = pa.struct([*DATE_PARTS, ("nano_of_day", pa.int64())])
MAX_YEAR = 999_999_999

Dates = tuple[Longs, Longs, Longs]


def _read_dates(at: Cursors, what: str) -> tuple[Dates, Flags]:
    start = at.at(at.position.copy(), at.end)
    years = read_numbers(at, "read_i32", np.int32, what).astype(np.int64)
    months = read_numbers(at, "read_i8", np.int8, what).astype(np.int64)
    days = read_numbers(at, "read_i8", np.int8, what).astype(np.int64)
    valid = years != -(2**31)
    _expect(start, ~valid | _dates_exist(years, months, days), "a day of the calendar")
    return (years, months, days), valid


def _dates_exist(years: Longs, months: Longs, days: Longs) -> Flags:
    return are_dates(years, months, days) & (np.abs(years) <= MAX_YEAR)


def _read_times(at: Cursors, what: str) -> tuple[Longs, Flags]:
    start = at.at(at.position.copy(), at.end)
    hours, minutes, seconds = (read_numbers(at, "read_i8", np.int8, what).astype(np.int64) for _ in range(3))
    nanos = read_numbers(at, "read_i32", np.int32, what).astype(np.int64)
    valid = hours != -128
    sound = (hours >= 0) & (hours < 24) & (minutes >= 0) & (minutes < 60) & (seconds >= 0) & (seconds < 60)
    _expect(start, ~valid | sound & (nanos >= 0) & (nanos < NANOS_PER_SECOND), "a time of the day")
    return np.where(valid, (hours * 3600 + minutes * 60 + seconds) * NANOS_PER_SECOND + nanos, 0), valid


def _expect(at: Cursors, sound: Flags, what: str) -> None:
    if not sound.all():
        at.fail(int(sound.argmin()), what, "a valid date and time")


def _write_dates(dates: Dates, valid: Flags, at: Cursors) -> None:
    years, months, days = dates
    write_numbers(np.where(valid, years, -(2**31)).astype(np.int32), at)
    write_numbers(np.where(valid, months, -128).astype(np.int8), at)
    write_numbers(np.where(valid, days, 0).astype(np.int8), at)


def _write_times(nanos: Longs, valid: Flags, at: Cursors) -> None:
    seconds = nanos // NANOS_PER_SECOND
    write_numbers(np.where(valid, seconds // 3600, -128).astype(np.int8), at)
    write_numbers(np.where(valid, seconds // 60 % 60, -128).astype(np.int8), at)
    write_numbers(np.where(valid, seconds % 60, 0).astype(np.int8), at)
    write_numbers(np.where(valid, nanos % NANOS_PER_SECOND, -(2**31)).astype(np.int32), at)


def _date_columns(dates: Dates, valid: Flags) -> list[pa.Array]:
    kinds = (pa.int32(), np.int32), (pa.int8(), np.int8), (pa.int8(), np.int8)
    return [fixed_array(kind, part.astype(dtype), valid) for part, (kind, dtype) in zip(dates, kinds, strict=True)]


def _fields(column: pa.Array, valid: Flags, flink_type: str) -> list[Any]:
    fields = []
    for index, dtype in zip(range(column.type.num_fields), (np.int32, np.int8, np.int8, np.int64), strict=False):
        child = column.field(index)
        refuse_nulls(child.filter(pa.array(valid)), f"a field of {flink_type}")
        fields.append(np.where(valid, fixed_values(child, dtype), 1).astype(np.int64))
    exists = _dates_exist(*fields[:3])
    refuse_where(~exists, column, "a day of the calendar, years -999999999 to 999999999", "correct year, month and day")
    return fields


def _refuse_nanos(nanos: Longs, valid: Flags, column: pa.Array) -> None:
    bad = valid & ((nanos < 0) | (nanos >= NANOS_PER_DAY))
    refuse_where(bad, column, "nanoseconds of a day", f"write numbers from 0 to {NANOS_PER_DAY - 1}")


@register(f"{BASE}LocalDateSerializer$LocalDateSerializerSnapshot")
@dataclass(frozen=True)
class LocalDateSerializer(FixedWidthSerializer):
    """Serializer of LOCAL_DATE, which becomes DATE."""

    @property
    def flink_type(self) -> str:
        return "LOCAL_DATE"

    @property
    def width(self) -> int:
        return 6

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return DATE; with ``timestamps=raw`` a struct of year, month and day."""
        return DATE_PARTS if options.timestamps == "raw" else pa.date32()

    def decode(self, at: Cursors) -> pa.Array:
        start = at.at(at.position.copy(), at.end)
        dates, valid = _read_dates(at, self.flink_type)
        if at.options.timestamps == "raw":
            return struct_array(DATE_PARTS, _date_columns(dates, valid), len(at), valid)
        days = np.where(valid, days_of_dates(*dates), 0)
        refuse_beyond(start, (days < MIN_DAYS) | (days > MAX_DAYS), "days since 1970", days)
        return fixed_array(pa.date32(), days.astype(np.int32), valid)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        _write_dates(*self._dates(column), at)

    def _dates(self, column: pa.Array) -> tuple[Dates, Flags]:
        valid = valid_rows(column)
        if pa.types.is_struct(column.type):
            years, months, days = _fields(column, valid, self.flink_type)
            return (years, months, days), valid
        return dates_of_days(np.where(valid, fixed_values(column, np.int32), 0).astype(np.int64)), valid

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``LocalDate.hashCode``."""
        dates, valid = self._dates(column)
        return np.where(valid, hash_dates(*dates), 0).astype(np.int32)


@register(f"{BASE}LocalTimeSerializer$LocalTimeSerializerSnapshot")
@dataclass(frozen=True)
class LocalTimeSerializer(FixedWidthSerializer):
    """Serializer of LOCAL_TIME, which becomes nanoseconds of the day."""

    @property
    def flink_type(self) -> str:
        return "LOCAL_TIME"

    @property
    def width(self) -> int:
        return 7

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return BIGINT, because not all versions of Spark have a time of day; time64 with the option ``times``."""
        return pa.time64("ns") if options.times else pa.int64()

    def decode(self, at: Cursors) -> pa.Array:
        return fixed_array(self.arrow_type(at.options), *_read_times(at, self.flink_type))

    def encode(self, column: pa.Array, at: Cursors) -> None:
        valid = valid_rows(column)
        nanos = np.where(valid, fixed_values(column, np.int64), 0)
        _refuse_nanos(nanos, valid, column)
        _write_times(nanos, valid, at)

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``LocalTime.hashCode``: the hash of the nanosecond of the day as a long."""
        return fold_long(np.where(valid_rows(column), fixed_values(column, np.int64), 0))


@register(f"{BASE}LocalDateTimeSerializer$LocalDateTimeSerializerSnapshot")
@dataclass(frozen=True)
class LocalDateTimeSerializer(FixedWidthSerializer):
    """Serializer of LOCAL_DATE_TIME, which becomes TIMESTAMP_NTZ."""

    @property
    def flink_type(self) -> str:
        return "LOCAL_DATE_TIME"

    @property
    def width(self) -> int:
        return 13

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return TIMESTAMP_NTZ; with ``timestamps=raw`` a struct of year, month, day and nanosecond of the day."""
        return DATE_TIME_PARTS if options.timestamps == "raw" else TIMESTAMP_NTZ

    def decode(self, at: Cursors) -> pa.Array:
        start = at.at(at.position.copy(), at.end)
        dates, valid = _read_dates(at, self.flink_type)
        nanos, timed = _read_times(at, self.flink_type)
        _expect(start, valid == timed, "a date and a time, or neither")
        if at.options.timestamps == "raw":
            columns = [*_date_columns(dates, valid), fixed_array(pa.int64(), nanos, valid)]
            return struct_array(DATE_TIME_PARTS, columns, len(at), valid)
        return timestamps(days_to_micros(start, days_of_dates(*dates), nanos, valid), valid, TIMESTAMP_NTZ)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        dates, nanos, valid = self._parts(column)
        _refuse_nanos(nanos, valid, column)
        _write_dates(dates, valid, at)
        _write_times(nanos, valid, at)

    def _parts(self, column: pa.Array) -> tuple[Dates, Longs, Flags]:
        if pa.types.is_struct(column.type):
            valid = valid_rows(column)
            years, months, days, nanos = _fields(column, valid, self.flink_type)
            return (years, months, days), nanos, valid
        micros, valid = micros_of(column)
        return dates_of_days(micros // MICROS_PER_DAY), micros % MICROS_PER_DAY * 1000, valid

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``LocalDateTime.hashCode``: the hashes of date and time, combined with exclusive or."""
        dates, nanos, valid = self._parts(column)
        return np.where(valid, hash_dates(*dates) ^ fold_long(nanos), 0).astype(np.int32)
