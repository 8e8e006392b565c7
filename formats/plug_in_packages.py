"""Entry points of installed packages that extend this one; looked up once, because that takes milliseconds."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import Any

#: Groups: serializers by snapshot class, readers of classes in Kryo's values, kinds of connectors.
SERIALIZERS = "pyspark_savepoint.serializers"
KRYO_CLASSES = "pyspark_savepoint.kryo_classes"
CONNECTORS = "pyspark_savepoint.connectors"


@cache
def _installed() -> Any:
    return entry_points()


def plugged_in(group: str) -> EntryPoints:
    """Return the entry points of a group; nothing of their packages is imported yet."""
    found: EntryPoints = _installed().select(group=group)
    return found
