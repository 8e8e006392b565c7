"""Conversions of dates and times: Java's milliseconds, seconds and nanoseconds, and Spark's microseconds.

Spark's timestamps are microseconds from year 1 to 9999. A value outside that range, or with finer digits, is an error
by default. With ``DecodeOptions.timestamps``, ``truncate`` cuts the finer digits, and ``raw`` returns the numbers that
Flink stores.

Days are counted in the proleptic Gregorian calendar, in eras of 400 years. Years begin in March, so that the leap day
is the last day of its year.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Cursors,
    Flags,
    Ints,
    Longs,
    fixed_array,
    fixed_values,
    refuse_where,
    valid_rows,
)

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
        micros % 1000 != 0, column, f"whole milliseconds, for a {flink_type}", "date_trunc('MILLISECOND', ...)"
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
