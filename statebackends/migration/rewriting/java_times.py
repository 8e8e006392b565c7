"""Ranges of ``java.time``: Java rejects dates and times that do not exist, so it raises an error for a misread one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from pyspark_savepoint.formats.serializers.kryo.objects import KryoObject
from pyspark_savepoint.formats.serializers.kryo.objects.conversion import objects_in
from pyspark_savepoint.formats.serializers.kryo.objects.times import time_zone

#: Smallest and largest value of the fields of ``java.time``.
RANGES: Mapping[str, tuple[int, int]] = {
    "month": (1, 12),
    "day": (1, 31),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
    "nano": (0, 999_999_999),
    "totalSeconds": (-64_800, 64_800),
}
TIME, PERIOD = "java.time.", "java.time.Period"
ZONE = re.compile(r"[A-Za-z][A-Za-z0-9~/._+-]+")


def expect_plausible(value: KryoObject | None) -> None:
    """Raise ValueError if an object, or one in it, is a date, time, offset or zone that Java refuses."""
    for kryo_object in objects_in(value):
        if kryo_object.class_name.startswith(TIME) and isinstance(kryo_object.content, dict):
            _expect_time(kryo_object)


def _expect_time(value: KryoObject) -> None:
    if value.class_name == PERIOD:
        return
    for (_, name), held in value.content.items():
        number = held.content if isinstance(held, KryoObject) else held
        if isinstance(number, int) and name in RANGES:
            low, high = RANGES[name]
            if not low <= number <= high:
                raise ValueError(f"{name} {number} of a {value.class_name}")
        if name == "id" and not ZONE.fullmatch(str(number)):
            raise ValueError(f"zone {number!r}")


def loses_offset(value: KryoObject | None) -> bool:
    """Return whether a ZonedDateTime in a value is of the second hour of an overlap, which Kryo 5 does not keep."""
    return any(
        _is_later(kryo_object) for kryo_object in objects_in(value) if kryo_object.class_name == f"{TIME}ZonedDateTime"
    )


def _is_later(moment: KryoObject) -> bool:
    zone = moment.field("zone")
    if not zone.class_name.endswith("ZoneRegion"):
        return False
    both = moment.field("dateTime")
    date, clock = both.field("date"), both.field("time")
    numbers = [_number(date, name) for name in ("year", "month", "day")]
    numbers += [_number(clock, name) for name in ("hour", "minute", "second")]
    zone_rules = time_zone(zone.field("id").content)
    if zone_rules is None:
        return False
    try:
        local = datetime(*numbers, tzinfo=zone_rules)  # type: ignore[arg-type, misc]  # numbers are a time, by their count
    except ValueError:  # a year that Python does not have: unknown
        return False
    earlier = local.utcoffset()
    return earlier is not None and earlier.total_seconds() != _number(moment.field("offset"), "totalSeconds")


def _number(value: KryoObject, name: str) -> int:
    field = value.field(name)
    return int(field.content if isinstance(field, KryoObject) else field)
