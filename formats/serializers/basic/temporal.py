"""Serializers of points in time, and of dates and times without a zone, and conversions of what they store.

    Date, SqlDate, SqlTime   i64 milliseconds since 1970                              null 8000000000000000
    SqlTimestamp             i64 milliseconds, i32 nanoseconds of the second          null 8000000000000000 00000000:
                             Flink writes these 12 bytes but reads only the first 8, so nulls are not written here
    Instant                  i64 seconds,      i32 nanoseconds of the second          null 8000000000000000 80000000
    LocalDate                i32 year  i8 month  i8 day                               null 80000000 8000
    LocalTime                i8 hour  i8 minute  i8 second  i32 nanos                 null 80 8000 80000000
    LocalDateTime            LocalDate  LocalTime                                     null: both are null

A SqlTimestamp stores its milliseconds twice: in the first number and in the nanoseconds. SqlDate and SqlTime depend on
the time zone of the JVM that wrote them.
Flink: ``DateSerializer``, ``SqlDateSerializer``, ``SqlTimeSerializer``, ``SqlTimestampSerializer``,
``InstantSerializer``, ``LocalDateSerializer``, ``LocalTimeSerializer``, ``LocalDateTimeSerializer``.

Spark's timestamps are microseconds from year 1 to 9999. A value outside that range, or with finer digits, is an error
by default. With ``DecodeOptions.timestamps``, ``truncate`` cuts the finer digits, and ``raw`` returns the numbers that
Flink stores. Days are counted in the proleptic Gregorian calendar, in eras of 400 years. Years begin in March, so that
the leap day is the last day of its year.
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
from pyspark_savepoint.formats.serializers.basic.primitives import (
    BASE,
    FixedWidthSerializer,
    fold_long,
    read_numbers,
    write_numbers,
)
from pyspark_savepoint.formats.serializers.registry import register

TIMESTAMP = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ = pa.timestamp("us")

# 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z, in seconds.
MIN_SECONDS, MAX_SECONDS = -62135596800, 253402300799
MIN_DAYS, MAX_DAYS = -719162, 2932896
MICROS_PER_SECOND = 1_000_000
MICROS_PER_DAY = 86_400 * MICROS_PER_SECOND
NANOS_PER_SECOND = 1_000_000_000
NANOS_PER_DAY = 86_400 * NANOS_PER_SECOND

RAW = 'use option("timestamps", "raw") to read the numbers that Flink stores'
TRUNCATE = 'use option("timestamps", "truncate") to cut finer digits, or "raw" to read the numbers that Flink stores'


def refuse_beyond(at: Cursors, bad: Flags, what: str, values: Any) -> None:
    """Raise an error for the first of the marked values, which lie outside Spark's years."""
    if bad.any():
        row = int(bad.argmax())
        at.out_of_range(row, f"{values[row]} {what} is outside Spark's years 1 to 9999", RAW)


def refuse_finer(at: Cursors, nanos: Any, valid: Flags) -> None:
    """Raise an error for nanoseconds that are not whole microseconds, unless the option cuts them."""
    bad = valid & (nanos % 1000 != 0)
    if at.options.timestamps != "truncate" and bad.any():
        row = int(bad.argmax())
        at.out_of_range(row, f"a time with {nanos[row] % 1000} ns beyond Spark's microseconds", TRUNCATE)


def millis_to_micros(at: Cursors, millis: Longs, valid: Flags) -> Longs:
    """Convert milliseconds since 1970 to microseconds; 0 where not valid."""
    bad = valid & ((millis < MIN_SECONDS * 1000) | (millis > MAX_SECONDS * 1000 + 999))
    refuse_beyond(at, bad, "ms since 1970", millis)
    micros: Longs = np.where(valid, millis, 0) * 1000
    return micros


def seconds_to_micros(at: Cursors, seconds: Longs, nanos: Longs, valid: Flags) -> Longs:
    """Convert seconds since 1970 and nanoseconds of the second to microseconds; 0 where not valid."""
    refuse_beyond(at, valid & ((seconds < MIN_SECONDS) | (seconds > MAX_SECONDS)), "s since 1970", seconds)
    refuse_finer(at, nanos, valid)
    micros: Longs = np.where(valid, seconds, 0) * MICROS_PER_SECOND + np.where(valid, nanos, 0) // 1000
    return micros


def days_to_micros(at: Cursors, days: Longs, nanos: Longs, valid: Flags) -> Longs:
    """Convert days since 1970 and nanoseconds of the day to microseconds; 0 where not valid."""
    refuse_beyond(at, valid & ((days < MIN_DAYS) | (days > MAX_DAYS)), "days since 1970", days)
    refuse_finer(at, nanos, valid)
    micros: Longs = np.where(valid, days, 0) * MICROS_PER_DAY + np.where(valid, nanos, 0) // 1000
    return micros


def timestamps(micros: Longs, valid: Flags, kind: pa.DataType = TIMESTAMP) -> pa.Array:
    """Return a timestamp column from microseconds."""
    return fixed_array(kind, micros, valid)


def micros_of(column: pa.Array) -> tuple[Longs, Flags]:
    """Return microseconds and validity of a timestamp column; 0 where null."""
    valid = valid_rows(column)
    return np.where(valid, fixed_values(column, np.int64), 0), valid


def millis_of(column: pa.Array, flink_type: str) -> tuple[Longs, Flags]:
    """Return milliseconds and validity of a column of timestamps or of longs."""
    if not pa.types.is_timestamp(column.type):
        valid = valid_rows(column)
        return np.where(valid, fixed_values(column, np.int64), 0), valid
    micros, valid = micros_of(column)
    refuse_where(
        micros % 1000 != 0, column, f"whole milliseconds, for a {flink_type}", "round the times to whole milliseconds"
    )
    return micros // 1000, valid


def days_of_dates(years: Longs, months: Longs, days: Longs) -> Longs:
    """Convert years, months and days of the month to days since 1970."""
    march = years - (months <= 2)
    era = march // 400
    year = march - era * 400
    day = (153 * ((months + 9) % 12) + 2) // 5 + days - 1
    since: Longs = era * 146097 + year * 365 + year // 4 - year // 100 + day - 719468
    return since


def dates_of_days(days: Longs) -> tuple[Longs, Longs, Longs]:
    """Convert days since 1970 to years, months and days of the month."""
    shifted = days + 719468
    era = shifted // 146097
    nth = shifted - era * 146097
    year = (nth - nth // 1460 + nth // 36524 - nth // 146096) // 365
    day = nth - (365 * year + year // 4 - year // 100)
    month = (5 * day + 2) // 153
    months = np.where(month < 10, month + 3, month - 9)
    return year + era * 400 + (months <= 2), months, day - (153 * month + 2) // 5 + 1


def are_dates(years: Longs, months: Longs, days: Longs) -> Flags:
    """Return a mask that is true where year, month and day are a day of the calendar."""
    plausible = (months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)
    back = dates_of_days(days_of_dates(years, np.where(plausible, months, 1), np.where(plausible, days, 1)))
    return np.asarray(plausible & (back[1] == months) & (back[2] == days), np.bool_)


def hash_dates(years: Longs, months: Longs, days: Longs) -> Ints:
    """Return ``LocalDate.hashCode`` of every date."""
    return (
        ((years & 0xFFFFF800) ^ ((years << 11) + (months << 6) + days))
        .astype(np.uint64)
        .astype(np.uint32)
        .view(np.int32)
    )


NULL = np.int64(-(2**63))
MOMENT = pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())])


def _snapshot(stem: str) -> str:
    return f"{BASE}{stem}Serializer${stem}SerializerSnapshot"


DATE = _snapshot("Date")
MILLIS = {DATE: "DATE", _snapshot("SqlDate"): "SQL_DATE", _snapshot("SqlTime"): "SQL_TIME"}
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
