"""Values of columns as objects of JDK classes: the inverse of the values that ``bodies.py`` and ``times.py`` make.

Times come in either form of option ``timestamps``: as timestamps, dates and durations, or as Flink's own numbers.
"""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.errors import ValueRangeError
from pyspark_savepoint.formats.serializers.basic.java_math import parse_decimal, parse_integer
from pyspark_savepoint.formats.serializers.basic.strings import java_text
from pyspark_savepoint.formats.serializers.basic.temporal import NANOS_PER_SECOND
from pyspark_savepoint.formats.serializers.kryo.classes.field_classes import FIELD_CLASSES, FieldClass
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import ENUMS, LANG, PARTS, TIME, UTIL, struct_of
from pyspark_savepoint.formats.serializers.kryo.objects import STRING, KryoObject
from pyspark_savepoint.formats.serializers.kryo.objects.times import EPOCH_DAY, local_date, zone_of

Make = Callable[[Any], KryoObject]
#: Objects that Java has only once for each value, so that several fields may share them; by class and value.
Constants = dict[tuple[str, Any], KryoObject]
_DATE, _CLOCK = r"([+-]?\d{4,9})-(\d\d)-(\d\d)", r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?"
_OFFSET = r"Z|[+-]\d\d:\d\d(?::\d\d)?"
DATE_TIME = re.compile(rf"{_DATE}T{_CLOCK}({_OFFSET})?(?:\[([^\]]+)\])?", re.ASCII)
OFFSET_TIME = re.compile(rf"{_CLOCK}({_OFFSET})", re.ASCII)
PERIOD = re.compile(r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?", re.ASCII)
YEAR_MONTH, MONTH_DAY = re.compile(r"([+-]?\d{4,9})-(\d\d)", re.ASCII), re.compile(r"--(\d\d)-(\d\d)", re.ASCII)
HALF = 1 << 63


def constant(constants: Constants, name: str, ordinal: int) -> KryoObject:
    """Return a constant of an enum, always the same object."""
    return constants.setdefault((name, ordinal), KryoObject(name, ordinal))


def jdk_objects(name: str, column: pa.Array, constants: Constants) -> list[KryoObject | None]:
    """Return the objects of a JDK class; NULL becomes null."""
    make = _millis(name, pa.types.is_int64(column.type)) if name in _DATES else _maker(name, constants)
    return [None if value is None else make(value) for value in _plain(column)]


def _plain(column: pa.Array) -> list[Any]:
    """Return the values, times as numbers."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return list(column.cast(pa.int64()).to_pylist())
    if pa.types.is_date32(kind):
        return list(column.cast(pa.int32()).to_pylist())
    return [java_text(value) if isinstance(value, str) else value for value in column.to_pylist()]


def _refuse(name: str, value: Any, expected: str) -> ValueRangeError:
    return ValueRangeError(
        f"a value cannot be written as {name.rpartition('.')[2]}", expected=expected, found=repr(value)[:80]
    )


def _object(name: str, **parts: KryoObject | int | None) -> KryoObject:
    """Return an object with these fields; numbers are of primitive types."""
    content = {
        (name, part): value if isinstance(value, KryoObject | None) else KryoObject("int", value)
        for part, value in parts.items()
    }
    return KryoObject(name, content)


# -- numbers, text -------------------------------------------------------------------------------------------------


def _character(value: str) -> KryoObject:
    if len(value) != 1 or ord(value) > 0xFFFF:
        raise _refuse("java.lang.Character", value, "one UTF-16 unit")
    return KryoObject("char", value)


def _uuid(value: str) -> KryoObject:
    try:
        number = uuid.UUID(value).int
    except ValueError:
        raise _refuse(UTIL + "UUID", value, "32 hex digits in five groups") from None
    halves = ((half ^ HALF) - HALF for half in (number >> 64, number & (HALF * 2 - 1)))
    return KryoObject(UTIL + "UUID", tuple(halves))


def _big_integer(value: Any) -> KryoObject:
    return KryoObject("java.math.BigInteger", parse_integer(value) if isinstance(value, str) else int(value))


def _big_decimal(value: Any) -> KryoObject:
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        number = int("".join(map(str, digits)) or "0")
        return KryoObject("java.math.BigDecimal", (-number if sign else number, -int(exponent)))
    return KryoObject("java.math.BigDecimal", parse_decimal(value))


def _bits(places: list[int | None]) -> KryoObject:
    number = 0
    for position in places:
        if position is None or position < 0:
            raise _refuse(UTIL + "BitSet", position, "the positions of bits")
        number |= 1 << position
    return KryoObject(UTIL + "BitSet", number)


def _array(name: str) -> Make:
    def make(values: list[Any]) -> KryoObject:
        if None in values:
            raise _refuse(name, values, "elements of a primitive type, which are not NULL")
        return KryoObject(name, values)

    return make


def _texts(values: list[str | None]) -> KryoObject:
    return KryoObject(
        f"[L{STRING};", [None if text is None else KryoObject(STRING, java_text(text)) for text in values]
    )


# -- times ---------------------------------------------------------------------------------------------------------


def _millis(name: str, raw: bool) -> Make:
    def make(value: int) -> KryoObject:
        millis, rest = (value, 0) if raw else divmod(value, 1000)
        if rest:
            raise _refuse(name, f"{value} microseconds", "whole milliseconds")
        return KryoObject(name, millis)

    return make


def _moment(value: Any) -> tuple[int, int]:
    """Return seconds and nanoseconds."""
    if isinstance(value, dict):
        if value["seconds"] is None or not 0 <= (value["nanos"] if value["nanos"] is not None else -1) < 10**9:
            raise ValueRangeError(
                "a time without seconds, or with nanoseconds that are not from 0 to 999999999", found=str(value)[:80]
            )
        return value["seconds"], value["nanos"]
    seconds, micros = divmod(value, 1_000_000)
    return seconds, micros * 1000


def _sql_timestamp(value: Any) -> KryoObject:
    seconds, nanos = _moment(value)
    return KryoObject("java.sql.Timestamp", (seconds * 1000 + nanos // 1_000_000, nanos))


def _of_moment(name: str) -> Make:
    def make(value: Any) -> KryoObject:
        seconds, nanos = _moment(value)
        return _object(name, seconds=seconds, nanos=nanos)

    return make


def _date(value: Any) -> KryoObject:
    if isinstance(value, dict):
        return local_date(value["year"], value["month"], value["day"])
    day = datetime.date.fromordinal(value + EPOCH_DAY)
    return local_date(day.year, day.month, day.day)


def _clock(nanos: int) -> KryoObject:
    if not 0 <= nanos < 86400 * NANOS_PER_SECOND:
        raise _refuse(TIME + "LocalTime", nanos, "nanoseconds of a day")
    seconds, nano = divmod(nanos, NANOS_PER_SECOND)
    parts = {"hour": seconds // 3600, "minute": seconds // 60 % 60, "second": seconds % 60, "nano": nano}
    return _object(TIME + "LocalTime", **parts)


def _date_time(value: Any) -> KryoObject:
    if isinstance(value, dict):
        return _object(TIME + "LocalDateTime", date=_date(value), time=_clock(value["nano_of_day"]))
    days, micros = divmod(value, 86400 * 1_000_000)
    return _object(TIME + "LocalDateTime", date=_date(days), time=_clock(micros * 1000))


def _nanos(hour: str, minute: str, second: str | None, fraction: str | None) -> int:
    seconds = int(hour) * 3600 + int(minute) * 60 + int(second or 0)
    return seconds * NANOS_PER_SECOND + int((fraction or "").ljust(9, "0"))


def _zone(text: str, constants: Constants) -> KryoObject:
    return constants.setdefault((TIME + "ZoneId", text), zone_of(text))


def _dated(name: str, constants: Constants) -> Make:
    """Return the function that makes a ZonedDateTime or OffsetDateTime."""

    def make(value: str) -> KryoObject:
        match = DATE_TIME.fullmatch(value)
        zoned = name == TIME + "ZonedDateTime"
        if match is None or not (match[8] or (zoned and match[9])) or (match[9] and not zoned):
            raise _refuse(name, value, "2024-01-31T10:30+01:00" + ("[Europe/Paris]" if zoned else ""))
        year, month, day, *clock = match.groups()[:7]
        moment = _object(
            TIME + "LocalDateTime",
            date=local_date(int(year), int(month), int(day)),
            time=_clock(_nanos(*clock)),
        )
        offset = _zone(match[8], constants) if match[8] else None
        if not zoned:
            return _object(name, dateTime=moment, offset=offset)
        zone = _zone(match[9], constants) if match[9] else offset
        return _object(name, dateTime=moment, offset=offset, zone=zone)

    return make


def _offset_time(constants: Constants) -> Make:
    def make(value: str) -> KryoObject:
        match = OFFSET_TIME.fullmatch(value)
        if match is None:
            raise _refuse(TIME + "OffsetTime", value, "10:30:00+01:00")
        time = _clock(_nanos(*match.groups()[:4]))
        return _object(TIME + "OffsetTime", time=time, offset=_zone(match[5], constants))

    return make


def _offset(constants: Constants) -> Make:
    def make(value: str) -> KryoObject:
        if re.fullmatch(_OFFSET, value) is None:
            raise _refuse(TIME + "ZoneOffset", value, "+01:00")
        return _zone(value, constants)

    return make


def _numbers(name: str, form: re.Pattern[str], example: str, *parts: str) -> Make:
    """Return the function that makes an object of numbers from its text."""

    def make(value: str) -> KryoObject:
        match = form.fullmatch(value)
        if match is None or value == "P":
            raise _refuse(name, value, example)
        return _object(name, **{part: int(digits or 0) for part, digits in zip(parts, match.groups(), strict=True)})

    return make


def _of_fields(name: str, row: FieldClass) -> Make:
    """Return the function that makes an object of the value of its only field, or of those of all fields."""
    kinds = {field: PARTS[kind][0] for field, kind in row.parts}

    def part(value: Any, field: str) -> KryoObject | None:
        kind = kinds[field]
        if value is None and kind != STRING:
            raise _refuse(name, value, f"a value of its field {field!r}, which is of a primitive type")
        return None if value is None else KryoObject(kind, int(value) if kind == "int" else value)

    def make(value: Any) -> KryoObject:
        values = {row.shown: value}
        if isinstance(value, dict):
            values = {field: java_text(each) if isinstance(each, str) else each for field, each in value.items()}
        return KryoObject(name, {(name, field): part(values[field], field) for field in kinds})

    return make


# -- all of them ---------------------------------------------------------------------------------------------------


def _object_maker(name: str) -> Make:
    return lambda value: KryoObject(name, value)


def _constant_of(name: str, constants: Constants) -> Make:
    def make(value: str) -> KryoObject:
        if value not in ENUMS[name]:
            raise _refuse(name, value, ", ".join(ENUMS[name]))
        return constant(constants, name, ENUMS[name].index(value))

    return make


_PLAIN = ("int", "long", "boolean", "byte", "short", "float", "double", STRING, "[B")
_TEXTS = (LANG + "StringBuilder", LANG + "StringBuffer", UTIL + "Currency", "java.net.URI")
_MAKERS: Mapping[str, Make] = {
    **{name: _object_maker(name) for name in (*_PLAIN, *_TEXTS, "java.sql.Time")},
    "char": _character,
    UTIL + "UUID": _uuid,
    "java.math.BigInteger": _big_integer,
    "java.math.BigDecimal": _big_decimal,
    UTIL + "BitSet": _bits,
    **{name: _array(name) for name in ("[Z", "[S", "[I", "[J", "[F", "[D")},
    f"[L{STRING};": _texts,
    "java.sql.Timestamp": _sql_timestamp,
    **{name: _of_moment(name) for name in (TIME + "Instant", TIME + "Duration")},
    TIME + "LocalDate": _date,
    TIME + "LocalTime": _clock,
    TIME + "LocalDateTime": _date_time,
    TIME + "Year": lambda value: _object(TIME + "Year", year=value),
    TIME + "Period": _numbers(TIME + "Period", PERIOD, "P1Y2M3D", "years", "months", "days"),
    TIME + "YearMonth": _numbers(TIME + "YearMonth", YEAR_MONTH, "2024-01", "year", "month"),
    TIME + "MonthDay": _numbers(TIME + "MonthDay", MONTH_DAY, "--01-31", "month", "day"),
    **{
        name: _of_fields(name, row)
        for name, row in FIELD_CLASSES.items()
        if (row.column is not None and {kind for _, kind in row.parts} <= PARTS.keys()) or struct_of(name) is not None
    },
}
_DATES = ("java.util.Date", "java.sql.Date")
_ZONED: Mapping[str, Callable[[Constants], Make]] = {
    TIME + "ZonedDateTime": lambda constants: _dated(TIME + "ZonedDateTime", constants),
    TIME + "OffsetDateTime": lambda constants: _dated(TIME + "OffsetDateTime", constants),
    TIME + "OffsetTime": _offset_time,
    TIME + "ZoneOffset": _offset,
}


def _maker(name: str, constants: Constants) -> Make:
    if name in _MAKERS:
        return _MAKERS[name]
    if name in _ZONED:
        return _ZONED[name](constants)
    return _constant_of(name, constants)


def is_written(name: str) -> bool:
    """Return whether objects of a JDK class can be made from the values of a column."""
    return name in _MAKERS or name in _ZONED or name in ENUMS or name in _DATES
