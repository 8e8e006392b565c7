"""Kryo keys as bytes, for look-ups: of classes with only one representation and a hash that follows from the data.

Flink: ``KryoSerializer#serialize``, ``UUID.hashCode``.
"""

from __future__ import annotations

import uuid
from typing import cast

import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import KryoClasses
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_objects import KryoObject
from pyspark_savepoint.formats.serializers.kryo.objects.conversion import object_format, write_object
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import Version

UUID = "java.util.UUID"


def kryo_keys(type_class: str, classes: KryoClasses, column: pa.Array, kryo: int) -> pa.Array | None:
    """Return the bytes of keys as a version of Kryo writes them; None for classes that cannot be looked up."""
    if type_class != UUID:
        return None
    for key in column.to_pylist():
        try:
            uuid.UUID(key)
        except (ValueError, AttributeError, TypeError):
            raise OptionError("option 'keys' contains a key that is not a UUID", found=str(key)[:200]) from None
    form = object_format(cast(Version, kryo), classes)
    return pa.array([write_object(KryoObject(UUID, _halves(key)), form) for key in column.to_pylist()], pa.binary())


def _halves(key: str) -> tuple[int, int]:
    number = uuid.UUID(key).int
    return _signed(number >> 64), _signed(number & (1 << 64) - 1)


def _signed(half: int) -> int:
    return half - (1 << 64) if half >> 63 else half
