"""Bodies of dates, times and optional values in Kryo 5; the content is that of Kryo 2, which writes their fields.

    LocalDate       varint year, u8 month, u8 day
    LocalTime       i8 hour, minute, second, varint nano; zeros at the end are omitted, and the last part inverted (~)
    Instant         varlong seconds, varint nanos;  Duration: long of fixed width, varint nanos
    Period          varint years, months, days;  Year, YearMonth, MonthDay: varint year, u8 month, u8 day
    ZoneOffset      i8 quarters of an hour, or 7F and a fixed int of seconds;  ZoneRegion: text
    LocalDateTime   date, time;  OffsetDateTime: date, time, offset;  ZonedDateTime: date, time, text of the zone
    Optional        class and object;  OptionalInt, Long, Double: boolean, number of fixed width if it is 1

Kryo 5 loses the offset of a ZonedDateTime. For Kryo 2 it is computed: of two possible offsets the earlier, as in Java.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Callable, Mapping
from typing import Any

from pyspark_savepoint.formats.serializers.kryo.classes.kryo_objects import STRING, TIME, UTIL, KryoObject
from pyspark_savepoint.formats.serializers.kryo.kryo_input import DamagedError, ForeignError
from pyspark_savepoint.formats.serializers.kryo.kryo_times import offset_text
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import Body
from pyspark_savepoint.formats.serializers.kryo.objects.object_reader import ObjectReader
from pyspark_savepoint.formats.serializers.kryo.objects.object_writer import ObjectWriter

LONG_OFFSET = 127
OFFSET = re.compile(r"([+-])(\d\d):(\d\d)(?::(\d\d))?")
#: Types of the parts that are numbers, where they are not ints.
_TYPES = {"hour": "byte", "minute": "byte", "second": "byte", "seconds": "long"}


def _fields(name: str, **parts: Any) -> dict[tuple[str, str], KryoObject | None]:
    """Return the content of a class: numbers become objects of their types."""
    return {
        (name, part): value if isinstance(value, KryoObject | None) else KryoObject(_TYPES.get(part, "int"), value)
        for part, value in parts.items()
    }


def part(found: KryoObject, name: str, *classes: str) -> KryoObject:
    """Return a part of an object, which must not be null and must be of one of the classes."""
    value = found.content.get((found.class_name, name))
    if value is None or (classes and value.class_name not in classes):
        raise DamagedError(f"{found.class_name} with its {name}", "null" if value is None else value.class_name)
    return value  # type: ignore[no-any-return]


def number(found: KryoObject, name: str) -> int:
    """Return a part that is a number."""
    return int(part(found, name).content)


# -- parts ---------------------------------------------------------------------------------------------------------


def _read_date(reader: ObjectReader) -> KryoObject:
    year, month, day = reader.integer(), reader.byte(), reader.byte()
    return local_date(year, month, day)


def local_date(year: int, month: int, day: int) -> KryoObject:
    """Return a LocalDate."""
    name = TIME + "LocalDate"
    content = _fields(name, year=year)
    content[name, "month"], content[name, "day"] = KryoObject("short", month), KryoObject("short", day)
    return KryoObject(name, content)


def _write_date(writer: ObjectWriter, found: KryoObject) -> None:
    writer.varint(number(found, "year"))
    writer.byte(number(found, "month"))
    writer.byte(number(found, "day"))


def _read_clock(reader: ObjectReader) -> KryoObject:
    parts = [0, 0, 0, 0]
    for place in range(3):
        parts[place] = reader.signed_byte()
        if parts[place] < 0:
            parts[place] = ~parts[place]
            break
    else:
        parts[3] = reader.varint()
    hour, minute, second, nano = parts
    name = TIME + "LocalTime"
    return KryoObject(name, _fields(name, hour=hour, minute=minute, second=second, nano=nano))


def _write_clock(writer: ObjectWriter, found: KryoObject) -> None:
    parts = [number(found, name) for name in ("hour", "minute", "second")]
    nano = number(found, "nano")
    if nano:
        for each in parts:
            writer.byte(each)
        writer.varint(nano)
        return
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    for each in parts[:-1]:
        writer.byte(each)
    writer.byte(~parts[-1])


def _read_date_time(reader: ObjectReader) -> KryoObject:
    name = TIME + "LocalDateTime"
    return KryoObject(name, _fields(name, date=_read_date(reader), time=_read_clock(reader)))


def _write_date_time(writer: ObjectWriter, found: KryoObject) -> None:
    _write_date(writer, part(found, "date", TIME + "LocalDate"))
    _write_clock(writer, part(found, "time", TIME + "LocalTime"))


def _read_offset(reader: ObjectReader) -> KryoObject:
    quarters = reader.signed_byte()
    return zone_offset(int(reader.fixed("i")) if quarters == LONG_OFFSET else quarters * 900)


def zone_offset(seconds: int) -> KryoObject:
    """Return a ZoneOffset."""
    return KryoObject(TIME + "ZoneOffset", _fields(TIME + "ZoneOffset", totalSeconds=seconds))


def _write_offset(writer: ObjectWriter, found: KryoObject) -> None:
    seconds = number(found, "totalSeconds")
    if seconds % 900 or not -LONG_OFFSET < seconds // 900 < LONG_OFFSET:
        writer.byte(LONG_OFFSET)
        writer.fixed("i", seconds)
    else:
        writer.byte(seconds // 900)


def zone_of(text: str) -> KryoObject:
    """Return ``ZoneId.of`` of an offset or the name of a region."""
    if text == "Z":
        return zone_offset(0)
    match = OFFSET.fullmatch(text)
    if match:
        sign, *parts = match.groups("0")
        hours, minutes, seconds = map(int, parts)
        return zone_offset((hours * 3600 + minutes * 60 + seconds) * (-1 if sign == "-" else 1))
    return KryoObject(TIME + "ZoneRegion", _fields(TIME + "ZoneRegion", id=KryoObject(STRING, text)))


def zone_text(zone: KryoObject) -> str:
    """Return ``ZoneId.getId``."""
    if zone.class_name == TIME + "ZoneOffset":
        return offset_text(number(zone, "totalSeconds"))
    return str(part(zone, "id", STRING).content)


# -- whole objects -------------------------------------------------------------------------------------------------


def _content(read: Callable[[ObjectReader], KryoObject], write: Callable[[ObjectWriter, KryoObject], None]) -> Body:
    """Return the body of a class that is also a part of others."""

    def fill(reader: ObjectReader, found: KryoObject) -> None:
        found.content = read(reader).content

    return Body(fill, write)


def _numbers(*parts: tuple[str, str, str]) -> Body:
    """Return the body of a class of numbers: for each its name, and the methods that read and write it."""
    readers = {"int": ObjectReader.integer, "byte": ObjectReader.byte, "long": ObjectReader.long}
    writers = {"int": ObjectWriter.varint, "byte": ObjectWriter.byte, "long": ObjectWriter.long}

    def read(reader: ObjectReader, found: KryoObject) -> None:
        name = found.class_name
        values = {part: int(reader.fixed("q")) if way == "fixed" else readers[way](reader) for part, way, _ in parts}
        found.content = {(name, part): KryoObject(kind, values[part]) for part, _, kind in parts}

    def write(writer: ObjectWriter, found: KryoObject) -> None:
        for name, way, _ in parts:
            if way == "fixed":
                writer.fixed("q", number(found, name))
            else:
                writers[way](writer, number(found, name))

    return Body(read, write)


def _read_zoned(reader: ObjectReader, found: KryoObject) -> None:
    date_time, zone = _read_date_time(reader), zone_of(reader.some_text())
    offset = zone if zone.class_name == TIME + "ZoneOffset" else None
    found.content = _fields(found.class_name, dateTime=date_time, offset=offset, zone=zone)


def _write_zoned(writer: ObjectWriter, found: KryoObject) -> None:
    _write_date_time(writer, part(found, "dateTime", TIME + "LocalDateTime"))
    writer.text(zone_text(part(found, "zone", TIME + "ZoneOffset", TIME + "ZoneRegion")))


def _read_offset_date_time(reader: ObjectReader, found: KryoObject) -> None:
    found.content = _fields(found.class_name, dateTime=_read_date_time(reader), offset=_read_offset(reader))


def _write_offset_date_time(writer: ObjectWriter, found: KryoObject) -> None:
    _write_date_time(writer, part(found, "dateTime", TIME + "LocalDateTime"))
    _write_offset(writer, part(found, "offset", TIME + "ZoneOffset"))


def _read_offset_time(reader: ObjectReader, found: KryoObject) -> None:
    found.content = _fields(found.class_name, time=_read_clock(reader), offset=_read_offset(reader))


def _write_offset_time(writer: ObjectWriter, found: KryoObject) -> None:
    _write_clock(writer, part(found, "time", TIME + "LocalTime"))
    _write_offset(writer, part(found, "offset", TIME + "ZoneOffset"))


def _read_region(reader: ObjectReader, found: KryoObject) -> None:
    found.content = _fields(found.class_name, id=KryoObject(STRING, reader.some_text()))


def _write_region(writer: ObjectWriter, found: KryoObject) -> None:
    writer.text(part(found, "id", STRING).content)


def _read_timestamp_5(reader: ObjectReader) -> tuple[int, int]:
    millis, nanos = reader.long(), reader.varint()
    return millis + nanos // 1_000_000, nanos


def _write_timestamp_5(writer: ObjectWriter, content: tuple[int, int]) -> None:
    writer.long(content[0] // 1000 * 1000)
    writer.varint(content[1])


def _write_timestamp_2(writer: ObjectWriter, content: tuple[int, int]) -> None:
    writer.long(content[0])
    writer.varint(content[1])


def _plain(read: Callable[[ObjectReader], Any], write: Callable[[ObjectWriter, Any], None]) -> Body:
    def fill(reader: ObjectReader, found: KryoObject) -> None:
        found.content = read(reader)

    return Body(fill, lambda writer, found: write(writer, found.content))


def _read_optional(reader: ObjectReader, found: KryoObject) -> None:
    found.content = {}
    found.content[found.class_name, "value"] = reader.value()


def _write_optional(writer: ObjectWriter, found: KryoObject) -> None:
    writer.value(found.content.get((found.class_name, "value")))


def _optional_number(code: str, kind: str, absent: float) -> Body:
    """Return the body of an optional number; ``absent`` is the value of its field if there is none."""

    def read(reader: ObjectReader, found: KryoObject) -> None:
        present = reader.boolean()
        value = reader.fixed(code) if present else absent
        name = found.class_name
        found.content = {
            (name, "isPresent"): KryoObject("boolean", present),
            (name, "value"): KryoObject(kind, value),
        }

    def write(writer: ObjectWriter, found: KryoObject) -> None:
        present = part(found, "isPresent").content
        writer.boolean(present)
        if present:
            writer.fixed(code, part(found, "value").content)

    return Body(read, write)


def add_offset(found: KryoObject) -> None:
    """Add the offset to a ZonedDateTime that Kryo 5 wrote, because Kryo 2 writes it too."""
    key = (found.class_name, "offset")
    if found.content.get(key) is not None:
        return
    date_time = part(found, "dateTime", TIME + "LocalDateTime")
    date, clock = part(date_time, "date", TIME + "LocalDate"), part(date_time, "time", TIME + "LocalTime")
    name = zone_text(part(found, "zone"))
    try:
        day = datetime.date(number(date, "year"), number(date, "month"), number(date, "day"))
        time = datetime.time(number(clock, "hour"), number(clock, "minute"), number(clock, "second"))
        moment = datetime.datetime.combine(day, time, zoneinfo.ZoneInfo(name))
    except (ValueError, OSError):
        raise ForeignError(found.class_name, f"the offset of zone {name[:40]!r} at that time is not known") from None
    offset = moment.utcoffset()
    found.content[key] = zone_offset(round(offset.total_seconds()) if offset else 0)


DATES: Mapping[str, Body] = dict.fromkeys(
    ("java.util.Date", "java.sql.Date", "java.sql.Time"), _plain(ObjectReader.long, ObjectWriter.long)
)
TIMESTAMP_2 = _plain(lambda reader: (reader.long(), reader.varint()), _write_timestamp_2)
TIMES_5: Mapping[str, Body] = {
    "java.sql.Timestamp": _plain(_read_timestamp_5, _write_timestamp_5),
    TIME + "LocalDate": _content(_read_date, _write_date),
    TIME + "LocalTime": _content(_read_clock, _write_clock),
    TIME + "LocalDateTime": _content(_read_date_time, _write_date_time),
    TIME + "Instant": _numbers(("seconds", "long", "long"), ("nanos", "int", "int")),
    TIME + "Duration": _numbers(("seconds", "fixed", "long"), ("nanos", "int", "int")),
    TIME + "Period": _numbers(("years", "int", "int"), ("months", "int", "int"), ("days", "int", "int")),
    TIME + "Year": _numbers(("year", "int", "int")),
    TIME + "YearMonth": _numbers(("year", "int", "int"), ("month", "byte", "int")),
    TIME + "MonthDay": _numbers(("month", "byte", "int"), ("day", "byte", "int")),
    TIME + "ZoneOffset": _content(_read_offset, _write_offset),
    TIME + "ZoneRegion": Body(_read_region, _write_region),
    TIME + "ZonedDateTime": Body(_read_zoned, _write_zoned),
    TIME + "OffsetDateTime": Body(_read_offset_date_time, _write_offset_date_time),
    TIME + "OffsetTime": Body(_read_offset_time, _write_offset_time),
    UTIL + "Optional": Body(_read_optional, _write_optional),
    UTIL + "OptionalInt": _optional_number("i", "int", 0),
    UTIL + "OptionalLong": _optional_number("q", "long", 0),
    UTIL + "OptionalDouble": _optional_number("d", "double", float("nan")),
}
