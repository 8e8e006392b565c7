"""Readers of points in time, durations and time zones, as Kryo 2 and Kryo 5 write them.

    java.util.Date, java.sql.*   long millis; Timestamp: followed by varint nanos of the second
    java.time, Kryo 2            fields in the order of their names: short day, short month, signed year ...
    java.time, Kryo 5            year, month, day; hour, minute, second, nanos, without trailing zeros

Kryo 2 has no serializers for ``java.time`` and writes the fields of these classes; a field of a final class is an
object without its class, or a reference to an earlier object (:class:`KryoPart`). If the column has the type of the
value (``walker.typed``), times of day are nanoseconds and durations microseconds; else both are strings as Java prints
them. The ZonedDateTime of Kryo 5 has no offset: it is computed if this machine's time zone data contain the zone.
"""

from __future__ import annotations

import calendar
import datetime
import zoneinfo
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pyspark_savepoint.formats.serializers.basic.calendar import (
    MAX_SECONDS,
    MIN_SECONDS,
    NANOS_PER_SECOND,
    RAW,
    TRUNCATE,
)
from pyspark_savepoint.formats.serializers.kryo.kryo_input import BeyondError, DamagedError
from pyspark_savepoint.formats.serializers.kryo.kryo_walker import KryoPart, KryoWalker, Reader
from pyspark_savepoint.formats.variant import Date, Timestamp

TIME = "java.time."
EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
#: Days of the months in a year that is not a leap year.
DAYS_OF_MONTH = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def _millis(walker: KryoWalker, millis: int) -> Any:
    if walker.options.timestamps == "raw":
        return millis
    return _moment(walker, millis // 1000, millis % 1000 * 1_000_000)


def _moment(walker: KryoWalker, seconds: int, nanos: int, zoned: bool = True) -> Any:
    if not 0 <= nanos < NANOS_PER_SECOND:
        raise DamagedError("nanoseconds of a second", nanos)
    if walker.options.timestamps == "raw":
        return {"seconds": seconds, "nanos": nanos}
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise BeyondError(f"{seconds} s since 1970 is outside Spark's years 1 to 9999", RAW)
    _expect_micros(walker, nanos)
    return Timestamp(seconds * 1_000_000 + nanos // 1000, zoned)


def _expect_micros(walker: KryoWalker, nanos: int) -> None:
    if nanos % 1000 and walker.options.timestamps != "truncate":
        raise BeyondError(f"a time with {nanos % 1000} ns beyond Spark's microseconds", TRUNCATE)


def _sql_timestamp(walker: KryoWalker) -> Any:
    millis, nanos = walker.long(), walker.varint()
    return _moment(walker, millis // 1000, nanos)


def _date_value(walker: KryoWalker, date: tuple[int, int, int]) -> Any:
    if walker.options.timestamps == "raw":
        return dict(zip(("year", "month", "day"), date, strict=True))
    return Date(_days(date))


def _days(date: tuple[int, int, int]) -> int:
    if not 1 <= date[0] <= 9999:
        raise BeyondError(f"year {date[0]} is outside Spark's years 1 to 9999", RAW)
    return datetime.date(*date).toordinal() - EPOCH_DAY


def _time_value(walker: KryoWalker, nanos: int) -> Any:
    return nanos if walker.typed else time_text(nanos)


def _date_time_value(walker: KryoWalker, date: tuple[int, int, int], nanos: int) -> Any:
    if walker.options.timestamps == "raw":
        return {**_date_value(walker, date), "nano_of_day": nanos}
    return _moment(walker, _days(date) * 86400 + nanos // NANOS_PER_SECOND, nanos % NANOS_PER_SECOND, zoned=False)


def _duration(walker: KryoWalker, seconds: int, nanos: int) -> Any:
    if not 0 <= nanos < NANOS_PER_SECOND:
        raise DamagedError("nanoseconds of a second", nanos)
    if not walker.typed:
        return duration_text(seconds, nanos)
    if walker.options.timestamps == "raw":
        return {"seconds": seconds, "nanos": nanos}
    _expect_micros(walker, nanos)
    micros = seconds * 1_000_000 + nanos // 1000
    if not -(2**63) <= micros < 2**63:
        raise BeyondError(f"a duration of {seconds} s is longer than Spark's", RAW)
    return micros


def time_text(nanos: int) -> str:
    """Return ``LocalTime.toString``.

    >>> time_text(3_723_004_000_000)
    '01:02:03.004'
    """
    seconds, fraction = divmod(nanos, NANOS_PER_SECOND)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}"
    if not fraction:
        return f"{text}:{seconds % 60:02}" if seconds % 60 else text
    for digits, unit in ((3, 1_000_000), (6, 1000), (9, 1)):
        if fraction % unit == 0:
            return f"{text}:{seconds % 60:02}.{fraction // unit:0{digits}}"
    return text


def date_text(date: tuple[int, int, int]) -> str:
    """Return ``LocalDate.toString``.

    >>> date_text((-5, 1, 2)), date_text((12024, 1, 2))
    ('-0005-01-02', '+12024-01-02')
    """
    year, month, day = date
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def duration_text(seconds: int, nanos: int) -> str:
    """Return ``Duration.toString``.

    >>> duration_text(5430, 5), duration_text(-1, 999_000_000), duration_text(0, 0)
    ('PT1H30M30.000000005S', 'PT-0.001S', 'PT0S')
    """
    total = seconds * NANOS_PER_SECOND + nanos
    if not total:
        return "PT0S"
    sign, size = ("-" if total < 0 else ""), abs(total)
    hours, minutes = size // (3600 * NANOS_PER_SECOND), size // (60 * NANOS_PER_SECOND) % 60
    text = "PT" + (f"{sign}{hours}H" if hours else "") + (f"{sign}{minutes}M" if minutes else "")
    whole, fraction = divmod(size % (60 * NANOS_PER_SECOND), NANOS_PER_SECOND)
    if not (whole or fraction):
        return text
    return f"{text}{sign}{whole}" + (f".{fraction:09}".rstrip("0") if fraction else "") + "S"


def offset_text(seconds: int) -> str:
    """Return ``ZoneOffset.toString``.

    >>> offset_text(19800), offset_text(-3601), offset_text(0)
    ('+05:30', '-01:00:01', 'Z')
    """
    if not seconds:
        return "Z"
    size = abs(seconds)
    text = f"{'-' if seconds < 0 else '+'}{size // 3600:02}:{size // 60 % 60:02}"
    return f"{text}:{size % 60:02}" if size % 60 else text


def _period_text(years: int, months: int, days: int) -> str:
    parts = "".join(f"{number}{unit}" for number, unit in ((years, "Y"), (months, "M"), (days, "D")) if number)
    return f"P{parts or '0D'}"


def _check_date(year: int, month: int, day: int) -> tuple[int, int, int]:
    """Return a date; raise DamagedError for an invalid one, as ``java.time.LocalDate.of`` does."""
    if not (1 <= month <= 12 and 1 <= day <= DAYS_OF_MONTH[month - 1] + (month == 2 and calendar.isleap(year))):
        raise DamagedError("a date", (year, month, day))
    return year, month, day


def _check_time(hour: int, minute: int, second: int, nano: int) -> int:
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60 and 0 <= nano < NANOS_PER_SECOND):
        raise DamagedError("a time of day", (hour, minute, second, nano))
    return (hour * 3600 + minute * 60 + second) * NANOS_PER_SECOND + nano


def _date_2(walker: KryoWalker) -> KryoPart:
    day, month = int(walker.fixed("h")), int(walker.fixed("h"))
    date = _check_date(walker.signed(), month, day)
    return KryoPart(_date_2, date, lambda: _date_value(walker, date))


def _date_5(walker: KryoWalker) -> tuple[int, int, int]:
    return _check_date(walker.integer(), walker.byte(), walker.byte())


def _time_2(walker: KryoWalker) -> KryoPart:
    hour, minute, nano = walker.byte(), walker.byte(), walker.signed()
    time = _check_time(hour, minute, walker.byte(), nano)
    return KryoPart(_time_2, time, lambda: _time_value(walker, time))


def _date_time_2(walker: KryoWalker) -> KryoPart:
    date, time = walker.part(_date_2), walker.part(_time_2)
    return KryoPart(_date_time_2, (date, time), lambda: _date_time_value(walker, date, time))


def _offset_2(walker: KryoWalker) -> KryoPart:
    seconds = walker.signed()
    return KryoPart(_offset_2, offset_text(seconds), lambda: offset_text(seconds))


def _time_5(walker: KryoWalker) -> int:
    """Read hour, minute, second, nanosecond; if the rest is 0, it is omitted and the last number is inverted (~)."""
    parts = [0, 0, 0]
    for place in range(3):
        parts[place] = walker.signed_byte()
        if parts[place] < 0:
            parts[place] = ~parts[place]
            return _check_time(parts[0], parts[1], parts[2], 0)
    return _check_time(parts[0], parts[1], parts[2], walker.varint())


def _offset_5(walker: KryoWalker) -> int:
    quarters = walker.signed_byte()
    return int(walker.fixed("i")) if quarters == 127 else quarters * 900


def _zoned_text(date: tuple[int, int, int], nanos: int, *zones: str) -> str:
    offset = "".join(zone for zone in zones if zone == "Z" or zone[:1] in "+-")
    names = [f"[{zone}]" for zone in zones if zone != "Z" and zone[:1] not in "+-"]
    return f"{date_text(date)}T{time_text(nanos)}{offset}{''.join(names)}"


def _zoned_2(walker: KryoWalker) -> str:
    date, nanos = walker.part(_date_time_2)
    offset, zone = walker.part(_offset_2), walker.value()
    if not isinstance(zone, str):
        raise DamagedError("a time zone", zone)
    return _zoned_text(date, nanos, *dict.fromkeys((offset, zone)))


def _zoned_5(walker: KryoWalker) -> str:
    date, nanos, zone = _date_5(walker), _time_5(walker), walker.text() or ""
    return _zoned_text(date, nanos, *dict.fromkeys((offset_in(zone, date, nanos), zone)))


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def offset_in(zone: str, date: tuple[int, int, int], nanos: int) -> str:
    """Return the offset of a time in a zone, which Kryo 5 does not write; if there are two, the earlier, as in Java.

    >>> offset_in("Europe/Berlin", (2020, 7, 1), 0), offset_in("Nowhere", (2020, 7, 1), 0)
    ('+02:00', '')
    """
    if zone not in _zones() or not 1 < date[0] < 9999:
        return ""
    moment = datetime.datetime(*date) + datetime.timedelta(microseconds=nanos // 1000)
    offset = moment.replace(tzinfo=zoneinfo.ZoneInfo(zone)).utcoffset()
    return "" if offset is None else offset_text(int(offset.total_seconds()))


def _offset_date_time_2(walker: KryoWalker) -> str:
    date, nanos = walker.part(_date_time_2)
    return _zoned_text(date, nanos, walker.part(_offset_2))


def _offset_date_time_5(walker: KryoWalker) -> str:
    return _zoned_text(_date_5(walker), _time_5(walker), offset_text(_offset_5(walker)))


def _offset_time_2(walker: KryoWalker) -> str:
    offset: str = walker.part(_offset_2)
    return time_text(walker.part(_time_2)) + offset


def _offset_time_5(walker: KryoWalker) -> str:
    return time_text(_time_5(walker)) + offset_text(_offset_5(walker))


def _nanos_first(walker: KryoWalker) -> tuple[int, int]:
    nanos = walker.signed()
    return walker.signed_long(), nanos


def _year_month(year: int, month: int) -> str:
    return date_text(_check_date(year, month, 1))[:-3]


def _month_day(month: int, day: int) -> str:
    return "-" + date_text(_check_date(2000, month, day))[4:]


DATES: Mapping[str, Reader] = {
    "java.util.Date": lambda walker: _millis(walker, walker.long()),
    "java.sql.Date": lambda walker: _millis(walker, walker.long()),
    "java.sql.Time": KryoWalker.long,
    "java.sql.Timestamp": _sql_timestamp,
}
TIMES_2: Mapping[str, Reader] = {
    TIME + "LocalDate": _date_2,
    TIME + "LocalTime": _time_2,
    TIME + "LocalDateTime": _date_time_2,
    TIME + "Instant": lambda walker: _moment(walker, *_nanos_first(walker)),
    TIME + "Duration": lambda walker: _duration(walker, *_nanos_first(walker)),
    TIME + "Period": lambda walker: _period_text(*reversed([walker.signed() for _ in range(3)])),
    TIME + "ZonedDateTime": _zoned_2,
    TIME + "OffsetDateTime": _offset_date_time_2,
    TIME + "OffsetTime": _offset_time_2,
    TIME + "Year": KryoWalker.signed,
    TIME + "YearMonth": lambda walker: _year_month(*reversed([walker.signed() for _ in range(2)])),
    TIME + "MonthDay": lambda walker: _month_day(*reversed([walker.signed() for _ in range(2)])),
    TIME + "ZoneRegion": lambda walker: walker.object("java.lang.String"),
    TIME + "ZoneOffset": _offset_2,
}
TIMES_5: Mapping[str, Reader] = {
    TIME + "LocalDate": lambda walker: _date_value(walker, _date_5(walker)),
    TIME + "LocalTime": lambda walker: _time_value(walker, _time_5(walker)),
    TIME + "LocalDateTime": lambda walker: _date_time_value(walker, _date_5(walker), _time_5(walker)),
    TIME + "Instant": lambda walker: _moment(walker, walker.long(), walker.varint()),
    TIME + "Duration": lambda walker: _duration(walker, int(walker.fixed("q")), walker.varint()),
    TIME + "Period": lambda walker: _period_text(walker.integer(), walker.integer(), walker.integer()),
    TIME + "ZonedDateTime": _zoned_5,
    TIME + "OffsetDateTime": _offset_date_time_5,
    TIME + "OffsetTime": _offset_time_5,
    TIME + "Year": KryoWalker.integer,
    TIME + "YearMonth": lambda walker: _year_month(walker.integer(), walker.byte()),
    TIME + "MonthDay": lambda walker: _month_day(walker.byte(), walker.byte()),
    TIME + "ZoneRegion": KryoWalker.text,
    TIME + "ZoneOffset": lambda walker: offset_text(_offset_5(walker)),
}
