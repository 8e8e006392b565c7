"""Ranges of ``java.time``: Java refuses dates and times that do not exist, so a misread one is an error there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pyspark_savepoint.formats.serializers.kryo.objects import KryoObject

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
    seen: set[int] = set()
    waiting: list[object] = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, KryoObject):
            if id(each) in seen:
                continue
            seen.add(id(each))
            if each.class_name.startswith(TIME) and isinstance(each.content, dict):
                _expect_time(each)
            waiting += [each.content, each.header]
        elif isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, Iterable) and not isinstance(each, str | bytes):
            waiting += each


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
