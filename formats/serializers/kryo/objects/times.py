"""Bodies of dates, times, durations and time zones, and their values.

    java.util.Date, java.sql.*   varlong millis; Timestamp: followed by varint nanos of the second, which Kryo 2 counts
                                 in the millis too
    java.time, Kryo 2            fields in the order of their names, as ``jdk_classes.FIELDS_OF`` lists them

    java.time, Kryo 5
    LocalDate       varint year, u8 month, u8 day
    LocalTime       i8 hour, minute, second, varint nano; zeros at the end are omitted, and the last part inverted (~)
    Instant         varlong seconds, varint nanos;  Duration: long of fixed width, varint nanos
    Period          varint years, months, days;  Year, YearMonth, MonthDay: varint year, u8 month, u8 day
    ZoneOffset      i8 quarters of an hour, or 7F and a fixed int of seconds;  ZoneRegion: text
    LocalDateTime   date, time;  OffsetDateTime: date, time, offset;  ZonedDateTime: date, time, text of the zone

The raw form of an object has its parts in the order of its fields, as nested tuples: a LocalDate is (day, month, year).
Both versions are read into it; objects, values of columns and the bytes of Kryo 5 are made of it. In a column of its
own type, a time of day is nanoseconds and a duration microseconds; in VARIANT both are strings as Java prints them.

Kryo 5 loses the offset of a ZonedDateTime. It is computed, if this machine's time zone data contain the zone: of two
possible offsets the earlier, as in Java.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from pyspark_savepoint.formats.serializers.basic.temporal import (
    MAX_SECONDS,
    MIN_SECONDS,
    NANOS_PER_SECOND,
    TRUNCATE,
)
from pyspark_savepoint.formats.serializers.basic.temporal import RAW as RAW_TIMES
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import FIELDS_OF, STRING, TIME, KryoObject
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import BeyondError, DamagedError, ForeignError
from pyspark_savepoint.formats.serializers.kryo.objects.object_bytes import (
    PRIMITIVE_READERS,
    ObjectReader,
    ObjectWriter,
    ValueReader,
)
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import Body, Rendering
from pyspark_savepoint.formats.variant import Date, Timestamp

EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
LONG_OFFSET = 127
OFFSET = re.compile(r"([+-])(\d\d):(\d\d)(?::(\d\d))?", re.ASCII)
DATE, CLOCK, DATE_TIME = TIME + "LocalDate", TIME + "LocalTime", TIME + "LocalDateTime"
ZONE_OFFSET, REGION = TIME + "ZoneOffset", TIME + "ZoneRegion"
ZONED, OFFSET_DATE_TIME, OFFSET_TIME = TIME + "ZonedDateTime", TIME + "OffsetDateTime", TIME + "OffsetTime"
_KINDS = {"B": "byte", "S": "short", "I": "int", "J": "long"}
#: Numbers of a class, or tuples of the numbers of its parts, in the order of its fields.
Raw = tuple[Any, ...]


def _members(name: str) -> tuple[tuple[tuple[str, str], str], ...]:
    """Return the fields of a class, each with its primitive type or class."""
    fields = (declaration.partition(":") for declaration in FIELDS_OF[name].split())
    return tuple(((name, field), _KINDS.get(kind) or kind[1:-1].replace("/", ".")) for field, _, kind in fields)


MEMBERS: Mapping[str, tuple[tuple[tuple[str, str], str], ...]] = {
    name: _members(name) for name in FIELDS_OF if name.startswith(TIME)
}

# -- objects -------------------------------------------------------------------------------------------------------


def part(kryo_object: KryoObject, name: str, *classes: str) -> KryoObject:
    """Return a part of an object, which must not be null and must be of one of the classes."""
    value = kryo_object.content.get((kryo_object.class_name, name))
    if value is None or (classes and value.class_name not in classes):
        raise DamagedError(f"{kryo_object.class_name} with its {name}", "null" if value is None else value.class_name)
    return value  # type: ignore[no-any-return]


def content_of(name: str, raw: Raw) -> dict[tuple[str, str], KryoObject | None]:
    """Return the content of an object of a class, of its raw form."""
    if name == ZONED:
        zone = zone_of(raw[2])
        offset = zone if zone.class_name == ZONE_OFFSET else None
        return {
            (name, "dateTime"): time_object(DATE_TIME, raw[0]),
            (name, "offset"): offset if raw[1] is None else time_object(ZONE_OFFSET, raw[1]),
            (name, "zone"): zone,
        }
    return {
        key: time_object(kind, component) if kind in MEMBERS else KryoObject(kind, component)
        for (key, kind), component in zip(MEMBERS[name], raw, strict=True)
    }


def time_object(name: str, raw: Raw) -> KryoObject:
    """Return an object of a class of ``java.time``, of its raw form."""
    return KryoObject(name, content_of(name, raw))


def raw_of(kryo_object: KryoObject) -> Raw:
    """Return the raw form of an object."""
    name = kryo_object.class_name
    if name == ZONED:
        offset = kryo_object.content.get((name, "offset"))
        zone = zone_text(part(kryo_object, "zone", ZONE_OFFSET, REGION))
        return raw_of(part(kryo_object, "dateTime", DATE_TIME)), offset and raw_of(offset), zone
    return tuple(
        raw_of(part(kryo_object, key[1], kind)) if kind in MEMBERS else part(kryo_object, key[1]).content
        for key, kind in MEMBERS[name]
    )


def local_date(year: int, month: int, day: int) -> KryoObject:
    """Return a LocalDate."""
    return time_object(DATE, (day, month, year))


def zone_of(text: str) -> KryoObject:
    """Return ``ZoneId.of`` of an offset or the name of a region."""
    if text == "Z":
        return time_object(ZONE_OFFSET, (0,))
    match = OFFSET.fullmatch(text)
    if match:
        sign, *parts = match.groups("0")
        hours, minutes, seconds = map(int, parts)
        return time_object(ZONE_OFFSET, ((hours * 3600 + minutes * 60 + seconds) * (-1 if sign == "-" else 1),))
    return time_object(REGION, (text,))


def zone_text(zone: KryoObject) -> str:
    """Return ``ZoneId.getId``."""
    if zone.class_name == ZONE_OFFSET:
        return offset_text(part(zone, "totalSeconds").content)
    return str(part(zone, "id", STRING).content)


# -- texts ---------------------------------------------------------------------------------------------------------


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


def date_text(date: Raw) -> str:
    """Return ``LocalDate.toString`` of its day, month and year.

    >>> date_text((2, 1, -5)), date_text((2, 1, 12024))
    ('-0005-01-02', '+12024-01-02')
    """
    day, month, year = date
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


@lru_cache(maxsize=1024)
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


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def time_zone(name: str) -> zoneinfo.ZoneInfo | None:
    """Return a time zone; None if this machine's time zone data do not contain it.

    Other names are not looked up: Python imports a package for each part of a path in them.
    """
    return zoneinfo.ZoneInfo(name) if name in _zones() else None


def offset_at(zone: str, date_time: Raw) -> int | None:
    """Return the seconds of the offset of a LocalDateTime in a zone; None if it is not known.

    >>> offset_at("Europe/Berlin", ((1, 7, 2020), (0, 0, 0, 0))), offset_at("Nowhere", ((1, 7, 2020), (0, 0, 0, 0)))
    (7200, None)
    """
    known = time_zone(zone)
    (day, month, year), (hour, minute, _, second) = date_time
    if known is None:
        return None
    try:
        offset = datetime.datetime(year, month, day, hour, minute, second, tzinfo=known).utcoffset()
    except (ValueError, OverflowError):  # a year that Python does not have
        return None
    return None if offset is None else round(offset.total_seconds())


# -- values --------------------------------------------------------------------------------------------------------


def _moment(rendering: Rendering, seconds: int, nanos: int) -> Any:
    if not 0 <= nanos < NANOS_PER_SECOND:
        raise DamagedError("nanoseconds of a second", nanos)
    if rendering.raw:
        return {"seconds": seconds, "nanos": nanos}
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise BeyondError(f"{seconds} s since 1970 is outside Spark's years 1 to 9999", RAW_TIMES)
    if nanos % 1000:
        _expect_micros(rendering, nanos)
    return Timestamp(seconds * 1_000_000 + nanos // 1000, True)


def _expect_micros(rendering: Rendering, nanos: int) -> None:
    if nanos % 1000 and not rendering.truncates:
        raise BeyondError(f"a time with {nanos % 1000} ns beyond Spark's microseconds", TRUNCATE)


def date_value(rendering: Rendering, millis: int) -> Any:
    """Return the value of a ``java.util.Date`` or ``java.sql.Date``."""
    if rendering.raw:
        return millis
    return _moment(rendering, millis // 1000, millis % 1000 * 1_000_000)


def _timestamp(rendering: Rendering, content: tuple[int, int]) -> Any:
    return _moment(rendering, content[0] // 1000, content[1])


def _check_date(date: Raw) -> None:
    """Raise DamagedError for an invalid date, as ``java.time.LocalDate.of`` does; leap years repeat after 400 years."""
    day, month, year = date
    try:
        datetime.date(year % 400 + 400, month, day)
    except ValueError:
        raise DamagedError("a date", (year, month, day)) from None


def _days(date: Raw) -> int:
    """Return the day since 1970 of a date that Spark can hold."""
    day, month, year = date
    try:
        return datetime.date(year, month, day).toordinal() - EPOCH_DAY
    except (ValueError, OverflowError):
        _check_date(date)
        raise BeyondError(f"year {year} is outside Spark's years 1 to 9999", RAW_TIMES) from None


def _local_date(rendering: Rendering, date: Raw) -> Any:
    if rendering.raw:
        _check_date(date)
        return {"year": date[2], "month": date[1], "day": date[0]}
    return Date(_days(date))


def _nanos(clock: Raw) -> int:
    """Return the nanoseconds since midnight."""
    hour, minute, nano, second = clock
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60 and 0 <= nano < NANOS_PER_SECOND):
        raise DamagedError("a time of day", (hour, minute, second, nano))
    return (hour * 3600 + minute * 60 + second) * NANOS_PER_SECOND + nano  # type: ignore[no-any-return]


def _local_time(rendering: Rendering, clock: Raw) -> Any:
    nanos = _nanos(clock)
    return nanos if rendering.typed else time_text(nanos)


def _local_date_time(rendering: Rendering, raw: Raw) -> Any:
    date, clock = raw
    if rendering.raw:
        return {**_local_date(rendering, date), "nano_of_day": _nanos(clock)}
    days, nanos = _days(date), _nanos(clock)
    if nanos % 1000:
        _expect_micros(rendering, nanos)
    return Timestamp(days * 86_400_000_000 + nanos // 1000, False)


def _instant(rendering: Rendering, raw: Raw) -> Any:
    return _moment(rendering, raw[1], raw[0])


def _duration(rendering: Rendering, raw: Raw) -> Any:
    nanos, seconds = raw
    if not 0 <= nanos < NANOS_PER_SECOND:
        raise DamagedError("nanoseconds of a second", nanos)
    if not rendering.typed:
        return duration_text(seconds, nanos)
    if rendering.raw:
        return {"seconds": seconds, "nanos": nanos}
    _expect_micros(rendering, nanos)
    micros = seconds * 1_000_000 + nanos // 1000
    if not -(2**63) <= micros < 2**63:
        raise BeyondError(f"a duration of {seconds} s is longer than Spark's", RAW_TIMES)
    return micros


def _period(_: Rendering, raw: Raw) -> str:
    days, months, years = raw
    parts = "".join(f"{number}{unit}" for number, unit in ((years, "Y"), (months, "M"), (days, "D")) if number)
    return f"P{parts or '0D'}"


def _date_time_text(raw: Raw) -> str:
    _check_date(raw[0])
    return f"{date_text(raw[0])}T{time_text(_nanos(raw[1]))}"


def _zoned_value(_: Rendering, raw: Raw) -> str:
    date_time, offset, zone = raw
    text = _date_time_text(date_time)
    if zone == "Z" or zone[:1] in ("+", "-"):
        own = "" if offset is None else offset_text(offset[0])
        return text + (own if own == zone else own + zone)
    seconds = offset_at(zone, date_time) if offset is None else offset[0]
    return f"{text}{'' if seconds is None else offset_text(seconds)}[{zone}]"


def _offset_date_time(_: Rendering, raw: Raw) -> str:
    return _date_time_text(raw[0]) + offset_text(raw[1][0])


def _offset_time(_: Rendering, raw: Raw) -> str:
    return time_text(_nanos(raw[1])) + offset_text(raw[0][0])


def _year_month(_: Rendering, raw: Raw) -> str:
    _check_date((1, *raw))
    return date_text((1, *raw))[:-3]


def _month_day(_: Rendering, raw: Raw) -> str:
    _check_date((*raw, 2000))
    return "-" + date_text((*raw, 2000))[4:]


def _first(_: Rendering, raw: Raw) -> Any:
    return raw[0]


_VALUES: Mapping[str, Callable[[Rendering, Raw], Any]] = {
    DATE: _local_date,
    CLOCK: _local_time,
    DATE_TIME: _local_date_time,
    TIME + "Instant": _instant,
    TIME + "Duration": _duration,
    TIME + "Period": _period,
    TIME + "Year": _first,
    TIME + "YearMonth": _year_month,
    TIME + "MonthDay": _month_day,
    ZONE_OFFSET: lambda _, raw: offset_text(raw[0]),
    REGION: _first,
    ZONED: _zoned_value,
    OFFSET_DATE_TIME: _offset_date_time,
    OFFSET_TIME: _offset_time,
}

# -- Kryo 2 --------------------------------------------------------------------------------------------------------


def _member_2(kind: str) -> Callable[[ValueReader], Any]:
    """Return what reads a field, of which Kryo 2 writes the class only if others extend it."""
    if kind in PRIMITIVE_READERS:
        return PRIMITIVE_READERS[kind]
    if kind == STRING:
        return lambda reader: _there(reader.object(STRING, True))
    if kind in MEMBERS:
        return lambda reader: reader.part(kind)
    return lambda reader: _there(reader.value())


def _there(text: Any) -> str:
    if not isinstance(text, str):
        raise DamagedError("a time zone", text)
    return text


def _raw_2(name: str) -> Callable[[ValueReader], Raw]:
    """Return what reads the fields of a class."""
    steps = [_member_2(kind) for _, kind in MEMBERS[name]]
    if len(steps) == 2:
        first, second = steps
        return lambda reader: (first(reader), second(reader))
    return lambda reader: tuple([step(reader) for step in steps])


# -- Kryo 5 --------------------------------------------------------------------------------------------------------


def _read_date(reader: ObjectReader) -> Raw:
    year, month = reader.integer(), reader.byte()
    return reader.byte(), month, year


def _write_date(writer: ObjectWriter, raw: Raw) -> None:
    day, month, year = raw
    writer.varint(year)
    writer.byte(month)
    writer.byte(day)


def _read_clock(reader: ObjectReader) -> Raw:
    hour = reader.signed_byte()
    if hour < 0:
        return ~hour, 0, 0, 0
    minute = reader.signed_byte()
    if minute < 0:
        return hour, ~minute, 0, 0
    second = reader.signed_byte()
    if second < 0:
        return hour, minute, 0, ~second
    return hour, minute, reader.varint(), second


def _write_clock(writer: ObjectWriter, raw: Raw) -> None:
    hour, minute, nano, second = raw
    parts = [hour, minute, second]
    if nano:
        for component in parts:
            writer.byte(component)
        writer.varint(nano)
        return
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    for component in parts[:-1]:
        writer.byte(component)
    writer.byte(~parts[-1])


def _read_date_time(reader: ObjectReader) -> Raw:
    return _read_date(reader), _read_clock(reader)


def _write_date_time(writer: ObjectWriter, raw: Raw) -> None:
    _write_date(writer, raw[0])
    _write_clock(writer, raw[1])


def _read_offset(reader: ObjectReader) -> Raw:
    quarters = reader.signed_byte()
    return (int(reader.fixed("i")) if quarters == LONG_OFFSET else quarters * 900,)


def _write_offset(writer: ObjectWriter, raw: Raw) -> None:
    (seconds,) = raw
    if seconds % 900 or not -LONG_OFFSET < seconds // 900 < LONG_OFFSET:
        writer.byte(LONG_OFFSET)
        writer.fixed("i", seconds)
    else:
        writer.byte(seconds // 900)


def _read_zoned(reader: ObjectReader) -> Raw:
    return _read_date_time(reader), None, reader.some_text()


def _write_zoned(writer: ObjectWriter, raw: Raw) -> None:
    _write_date_time(writer, raw[0])
    writer.text(raw[2])


def _read_offset_date_time(reader: ObjectReader) -> Raw:
    return _read_date_time(reader), _read_offset(reader)


def _write_offset_date_time(writer: ObjectWriter, raw: Raw) -> None:
    _write_date_time(writer, raw[0])
    _write_offset(writer, raw[1])


def _read_offset_time(reader: ObjectReader) -> Raw:
    clock = _read_clock(reader)
    return _read_offset(reader), clock


def _write_offset_time(writer: ObjectWriter, raw: Raw) -> None:
    _write_clock(writer, raw[1])
    _write_offset(writer, raw[0])


_NUMBERS: Mapping[str, tuple[Callable[[ObjectReader], int], Callable[[ObjectWriter, int], None]]] = {
    "int": (ObjectReader.integer, ObjectWriter.varint),
    "byte": (ObjectReader.byte, ObjectWriter.byte),
    "long": (ObjectReader.long, ObjectWriter.long),
    "fixed": (lambda reader: int(reader.fixed("q")), lambda writer, number: writer.fixed("q", number)),
}


def _numbers(*kinds: str) -> tuple[Callable[[ObjectReader], Raw], Callable[[ObjectWriter, Raw], None]]:
    """Return what reads and writes numbers, which are in the reverse order of the names of the fields."""
    ways = [_NUMBERS[kind] for kind in kinds]

    def read(reader: ObjectReader) -> Raw:
        return tuple([read_one(reader) for read_one, _ in ways])[::-1]

    def write(writer: ObjectWriter, raw: Raw) -> None:
        for (_, write_one), number in zip(ways, reversed(raw), strict=True):
            write_one(writer, number)

    return read, write


_WAYS_5: Mapping[str, tuple[Callable[[ObjectReader], Raw], Callable[[ObjectWriter, Raw], None]]] = {
    DATE: (_read_date, _write_date),
    CLOCK: (_read_clock, _write_clock),
    DATE_TIME: (_read_date_time, _write_date_time),
    TIME + "Instant": _numbers("long", "int"),
    TIME + "Duration": _numbers("fixed", "int"),
    TIME + "Period": _numbers("int", "int", "int"),
    TIME + "Year": _numbers("int"),
    TIME + "YearMonth": _numbers("int", "byte"),
    TIME + "MonthDay": _numbers("byte", "byte"),
    ZONE_OFFSET: (_read_offset, _write_offset),
    REGION: (lambda reader: (reader.some_text(),), lambda writer, raw: writer.text(raw[0])),
    ZONED: (_read_zoned, _write_zoned),
    OFFSET_DATE_TIME: (_read_offset_date_time, _write_offset_date_time),
    OFFSET_TIME: (_read_offset_time, _write_offset_time),
}


def _body_5(name: str) -> Body:
    read_raw, write_raw = _WAYS_5[name]

    def read(reader: ObjectReader, kryo_object: KryoObject) -> None:
        kryo_object.content = content_of(kryo_object.class_name, read_raw(reader))

    def write(writer: ObjectWriter, kryo_object: KryoObject) -> None:
        write_raw(writer, raw_of(kryo_object))

    return Body(read, write, value=_VALUES[name], raw=read_raw, raw_of=raw_of)


# -- other dates, and all of them ----------------------------------------------------------------------------------


def plain_body(
    read: Callable[[ObjectReader], Any],
    write: Callable[[ObjectWriter, Any], None],
    plain: bool = False,
    value: Callable[[Rendering, Any], Any] | None = None,
) -> Body:
    """Return the body of a class whose objects have only ``content``."""

    def fill(reader: ObjectReader, kryo_object: KryoObject) -> None:
        kryo_object.content = read(reader)

    return Body(fill, lambda writer, found: write(writer, found.content), plain, value, raw=read)


def _read_timestamp_5(reader: ObjectReader) -> tuple[int, int]:
    millis, nanos = reader.long(), reader.varint()
    return millis + nanos // 1_000_000, nanos


def _write_timestamp_5(writer: ObjectWriter, content: tuple[int, int]) -> None:
    writer.long(content[0] // 1000 * 1000)
    writer.varint(content[1])


def _write_timestamp_2(writer: ObjectWriter, content: tuple[int, int]) -> None:
    writer.long(content[0])
    writer.varint(content[1])


def add_offset(kryo_object: KryoObject) -> None:
    """Add the offset to a ZonedDateTime that Kryo 5 wrote, because Kryo 2 writes it too."""
    key = (ZONED, "offset")
    if kryo_object.content.get(key) is not None:
        return
    date_time, _, zone = raw_of(kryo_object)
    seconds = offset_at(zone, date_time)
    if seconds is None:
        raise ForeignError(ZONED, f"the offset of zone {zone[:40]!r} at that time is not known")
    kryo_object.content[key] = time_object(ZONE_OFFSET, (seconds,))


def times_2(fields: Body) -> dict[str, Body]:
    """Return the bodies of Kryo 2, which reads and writes objects of ``java.time`` as other classes with fields."""

    def write_zoned(writer: ObjectWriter, kryo_object: KryoObject) -> None:
        add_offset(kryo_object)
        fields.write(writer, kryo_object)

    parts = (DATE, CLOCK, DATE_TIME, ZONE_OFFSET)
    return {
        "java.sql.Timestamp": plain_body(
            lambda reader: (reader.long(), reader.varint()), _write_timestamp_2, value=_timestamp
        ),
        **{
            name: Body(
                fields.read,
                write_zoned if name == ZONED else fields.write,
                value=_VALUES[name],
                raw=_raw_2(name),
                raw_of=raw_of,
                part=name in parts,
            )
            for name in MEMBERS
        },
    }


TIMES_5: Mapping[str, Body] = {
    "java.sql.Timestamp": plain_body(_read_timestamp_5, _write_timestamp_5, value=_timestamp),
    **{name: _body_5(name) for name in MEMBERS},
}
