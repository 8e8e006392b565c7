"""Dates and times as both versions of Kryo write them, and their texts as Java prints them.

Parts of a date are one number, ``packed``: the year, four bits of the month, five of the day.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import inline, kernel
from pyspark_savepoint.formats.kernels.kryo_bytes import (
    plain_int,
    plain_long,
    signed_byte,
    signed_int,
    signed_long,
    varint,
)
from pyspark_savepoint.formats.kernels.load import be_u16, le_i64, le_u32

NANOS = 1_000_000_000
MIN_SECONDS, MAX_SECONDS = -62_135_596_800, 253_402_300_799
#: Seconds of the largest offset from UTC, what is added to them, and the number of an offset that is not known.
MAX_OFFSET, OFFSET_BIAS = 64_800, 1 << 19
NO_OFFSET = OFFSET_BIAS - 1
LONG_OFFSET = 127
#: What is read of a moment: milliseconds, milliseconds and nanoseconds, seconds and nanoseconds.
OF_MILLIS, OF_TIMESTAMP, OF_INSTANT, OF_DURATION = range(4)


@inline
def is_date(year: Any, month: Any, day: Any) -> Any:
    """Return whether numbers are a date of any year."""
    good = 1 <= month <= 12 and 1 <= day <= 31
    if month == 2:
        good = good and day <= (29 if (year % 4 == 0 and year % 100 != 0) or year % 400 == 0 else 28)
    elif month in (4, 6, 9, 11):
        good = good and day <= 30
    return good


@inline
def packed_date(year: Any, month: Any, day: Any) -> Any:
    return (year << 9) | (month << 5) | day


@kernel
def days_of(packed: Any) -> Any:
    """Return the day since 1970 of a date."""
    year = packed >> 9
    month = (packed >> 5) & 15
    y = year - (1 if month <= 2 else 0)
    era = y // 400
    in_era = y - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + (packed & 31) - 1
    return era * 146097 + in_era * 365 + in_era // 4 - in_era // 100 + of_year - 719468


@inline
def year_of(packed: Any) -> Any:
    return packed >> 9


@inline
def is_in_range(packed: Any) -> Any:
    """Return whether a date is in Spark's years."""
    return 1 <= (packed >> 9) <= 9999


@kernel
def read_date(kryo: Any, buf: Any, p: Any, end: Any) -> Any:
    """Read a LocalDate: its parts, and the position after it, or -1."""
    year, month, day = np.int64(0), np.int64(0), np.int64(0)
    stop = np.int64(-1)
    if kryo == 2:
        if p + 4 <= end:
            day = (be_u16(buf, p) ^ np.int64(0x8000)) - np.int64(0x8000)
            month = (be_u16(buf, p + 2) ^ np.int64(0x8000)) - np.int64(0x8000)
            year, stop = signed_int(buf, p + 4, end)
    else:
        year, p = plain_int(buf, p, end)
        if p >= 0 and p + 2 <= end:
            month, day = np.int64(buf[p]), np.int64(buf[p + 1])
            stop = np.int64(p + 2)
    if not is_date(year, month, day):
        stop = np.int64(-1)
        year, month, day = np.int64(0), np.int64(0), np.int64(0)
    return packed_date(year, month, day), stop


@kernel
def read_clock(kryo: Any, buf: Any, p: Any, end: Any) -> Any:
    """Read a LocalTime: nanoseconds since midnight, and the position after it, or -1."""
    hour = signed_byte(buf, p, end)
    minute, second, nano = 0, 0, 0
    p += 1
    if kryo == 2:
        minute = signed_byte(buf, p, end)
        nano, p = signed_int(buf, p + 1, end)
        second = signed_byte(buf, p, end) if p >= 0 else 1000
        p += 1
    elif hour < 0:
        hour = ~hour
    else:
        minute = signed_byte(buf, p, end)
        p += 1
        if minute < 0:
            minute = ~minute
        else:
            second = signed_byte(buf, p, end)
            p += 1
            if second < 0:
                second = ~second
            else:
                nano, p = varint(buf, p, end)
    good = 0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60 and 0 <= nano < NANOS and 0 < p <= end
    return (hour * 3600 + minute * 60 + second) * NANOS + nano, p if good else -1


@kernel
def read_offset(kryo: Any, buf: Any, p: Any, end: Any) -> Any:
    """Read a ZoneOffset: its seconds, and the position after it, or -1."""
    seconds = 0
    if kryo == 2:
        seconds, p = signed_int(buf, p, end)
    else:
        quarters = signed_byte(buf, p, end)
        p = p + 1 if quarters != 1000 else -1
        seconds = quarters * 900
        if p >= 0 and quarters == LONG_OFFSET:
            if p + 4 <= end:
                seconds = (le_u32(buf, p) ^ np.int64(0x80000000)) - np.int64(0x80000000)
                p += 4
            else:
                p = -1
    return seconds, p if -MAX_OFFSET <= seconds <= MAX_OFFSET else -1


@kernel
def read_moment(kryo: Any, how: Any, buf: Any, p: Any, end: Any) -> Any:
    """Read seconds and nanoseconds of a moment or duration, and the position after them, or -1."""
    seconds, nanos = 0, 0
    if how >= OF_INSTANT:
        if kryo == 2:
            nanos, p = signed_int(buf, p, end)
            if p >= 0:
                seconds, p = signed_long(buf, p, end)
        else:
            if how == OF_INSTANT:
                seconds, p = plain_long(buf, p, end)
            elif p + 8 <= end:
                seconds = le_i64(buf, p)
                p += 8
            else:
                p = -1
            if p >= 0:
                nanos, p = plain_int(buf, p, end)
    else:
        millis, p = plain_long(buf, p, end)
        if p >= 0:
            nanos = (millis % 1000) * 1_000_000
            if how == OF_TIMESTAMP:
                nanos, p = varint(buf, p, end)
                if kryo != 2:
                    millis += nanos // 1_000_000
                    p = p if millis < 1 << 62 else -1
            seconds = millis // 1000
    return seconds, nanos, p if 0 <= nanos < NANOS else -1


@kernel
def read_period(kryo: Any, buf: Any, p: Any, end: Any) -> Any:
    """Read a Period: years and months, days, and the position after them, or -1."""
    years, months, days = 0, 0, 0
    if kryo == 2:
        days, p = signed_int(buf, p, end)
        if p >= 0:
            months, p = signed_int(buf, p, end)
        if p >= 0:
            years, p = signed_int(buf, p, end)
    else:
        years, p = plain_int(buf, p, end)
        if p >= 0:
            months, p = plain_int(buf, p, end)
        if p >= 0:
            days, p = plain_int(buf, p, end)
    return (years << 32) | (months & np.int64(0xFFFFFFFF)), days, p


@kernel
def read_partial_date(kryo: Any, with_year: Any, buf: Any, p: Any, end: Any) -> Any:
    """Read a YearMonth or MonthDay as a date of the first day or the year 2000, and the position after it, or -1."""
    year, month, day = np.int64(2000), np.int64(0), np.int64(1)
    if kryo == 2:
        # The fields in the order of their names: month and year, day and month.
        first, p = signed_int(buf, p, end)
        second = np.int64(0)
        if p >= 0:
            second, p = signed_int(buf, p, end)
        if with_year:
            month, year = first, second
        else:
            day, month = first, second
    else:
        if with_year:
            year, p = plain_int(buf, p, end)
        if 0 <= p < end:
            month = np.int64(buf[p])
            p += 1
            if not with_year and p < end:
                day = np.int64(buf[p])
                p += 1
            elif not with_year:
                p = -1
        else:
            p = -1
    if not (is_date(year, month, day) and 1 <= year <= 9999):
        p = -1
        year, month, day = np.int64(1), np.int64(1), np.int64(1)
    return packed_date(year, month, day), p


# -- texts ---------------------------------------------------------------------------------------------------------


@kernel
def put_digits(out: Any, q: Any, number: Any, width: Any) -> Any:
    """Store a number of as many digits; return the next position."""
    for k in range(width):
        out[q + width - 1 - k] = 48 + number % 10
        number //= 10
    return q + width


@kernel
def put_number(out: Any, q: Any, number: Any) -> Any:
    """Store the digits of a number of at most 18 digits, with its sign."""
    if number < 0:
        out[q] = 45
        q += 1
        number = -number
    width, rest = 1, number // 10
    while rest > 0:
        width += 1
        rest //= 10
    return put_digits(out, q, number, width)


@kernel
def put_date(out: Any, q: Any, packed: Any) -> Any:
    """Store a date of the years 0 to 9999."""
    q = put_digits(out, q, packed >> 9, 4)
    out[q] = 45
    q = put_digits(out, q + 1, (packed >> 5) & 15, 2)
    out[q] = 45
    return put_digits(out, q + 1, packed & 31, 2)


@kernel
def put_fraction(out: Any, q: Any, nanos: Any, group: Any) -> Any:
    """Store a point and the digits of nanoseconds, without zeros at the end by groups of them; nothing for 0."""
    if nanos == 0:
        return q
    digits, unit = 9, 10**group
    while nanos % unit == 0:
        nanos //= unit
        digits -= group
    out[q] = 46
    return put_digits(out, q + 1, nanos, digits)


@kernel
def put_clock(out: Any, q: Any, nanos: Any) -> Any:
    """Store ``LocalTime.toString``."""
    seconds, fraction = nanos // NANOS, nanos % NANOS
    q = put_digits(out, q, seconds // 3600, 2)
    out[q] = 58
    q = put_digits(out, q + 1, seconds // 60 % 60, 2)
    if seconds % 60 != 0 or fraction != 0:
        out[q] = 58
        q = put_digits(out, q + 1, seconds % 60, 2)
    return put_fraction(out, q, fraction, 3)


@kernel
def put_offset(out: Any, q: Any, seconds: Any) -> Any:
    """Store ``ZoneOffset.toString``."""
    if seconds == 0:
        out[q] = 90
        return q + 1
    out[q] = 45 if seconds < 0 else 43
    size = abs(seconds)
    q = put_digits(out, q + 1, size // 3600, 2)
    out[q] = 58
    q = put_digits(out, q + 1, size // 60 % 60, 2)
    if size % 60 != 0:
        out[q] = 58
        q = put_digits(out, q + 1, size % 60, 2)
    return q


@kernel
def put_duration(out: Any, q: Any, seconds: Any, nanos: Any) -> Any:
    """Store ``Duration.toString``; ``seconds`` are fewer than 2**62."""
    out[q] = 80
    out[q + 1] = 84
    q += 2
    if seconds == 0 and nanos == 0:
        out[q] = 48
        out[q + 1] = 83
        return q + 2
    negative = seconds < 0
    if negative:
        seconds, nanos = -seconds, -nanos
        if nanos < 0:
            seconds -= 1
            nanos += NANOS
    hours, minutes, whole = seconds // 3600, seconds // 60 % 60, seconds % 60
    if hours != 0:
        q = put_number(out, q, -hours if negative else hours)
        out[q] = 72
        q += 1
    if minutes != 0:
        q = put_number(out, q, -minutes if negative else minutes)
        out[q] = 77
        q += 1
    if whole != 0 or nanos != 0:
        if negative:
            out[q] = 45
            q += 1
        q = put_number(out, q, whole)
        q = put_fraction(out, q, nanos, 1)
        out[q] = 83
        q += 1
    return q


@kernel
def put_period(out: Any, q: Any, years_and_months: Any, days: Any) -> Any:
    """Store ``Period.toString``."""
    years = years_and_months >> 32
    months = ((years_and_months & np.int64(0xFFFFFFFF)) ^ np.int64(0x80000000)) - np.int64(0x80000000)
    out[q] = 80
    q += 1
    start = q
    if years != 0:
        q = put_number(out, q, years)
        out[q] = 89
        q += 1
    if months != 0:
        q = put_number(out, q, months)
        out[q] = 77
        q += 1
    if days != 0 or q == start:
        q = put_number(out, q, days)
        out[q] = 68
        q += 1
    return q
