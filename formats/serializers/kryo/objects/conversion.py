"""Conversion of Kryo's values: bytes to objects, objects to bytes, and bytes of one version to those of the other.

Keys of look-ups become bytes, too: those of classes with only one representation and a hash that follows from the data.
Flink: ``KryoSerializer#serialize``, ``UUID.hashCode``.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import cast

import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.serializers.kryo.classes.described_classes import DescribedClasses
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import KryoClasses, KryoObject
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import DamagedError, ForeignError
from pyspark_savepoint.formats.serializers.kryo.objects.bodies import BODIES_2, BODIES_5
from pyspark_savepoint.formats.serializers.kryo.objects.object_bytes import Budget, ObjectReader, ObjectWriter
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import (
    NO_REGISTRATIONS,
    Body,
    ObjectFormat,
    Version,
)
from pyspark_savepoint.formats.serializers.kryo.objects.plugged_classes import plugged_bodies

BODIES: Mapping[Version, Mapping[str, Body]] = {2: BODIES_2, 5: BODIES_5}


def object_format(
    version: Version, registered: KryoClasses = NO_REGISTRATIONS, classes: DescribedClasses | None = None
) -> ObjectFormat:
    """Return a version of Kryo with the registrations of a snapshot (``KryoSerializer.classes``) and classes.

    It caches the bodies of classes: use one for all values of a state.
    """
    return ObjectFormat(version, BODIES[version], registered, classes or DescribedClasses(), plugged_bodies())


@lru_cache(maxsize=4096)
def is_read(name: str, version: Version) -> bool:
    """Return whether the objects of a class are read without descriptions of classes."""
    try:
        object_format(version).body(name)
    except ForeignError:
        return False
    return True


def read_object(
    data: bytes | memoryview, form: ObjectFormat, position: int = 0, budget: Budget | None = None
) -> tuple[KryoObject | None, int]:
    """Read the value at a position; return it (None for null) and the position after it.

    Raises:
        DamagedError: The bytes are not what this version of Kryo writes.
        ForeignError: A class is not described, or only the job's own code can read it: the class, and the reason.

    """
    view = memoryview(data)
    reader = ObjectReader(view, position, len(view), form, budget or Budget())
    kryo_object = reader.value()
    return kryo_object, reader.position


def read_whole(data: bytes | memoryview, form: ObjectFormat) -> KryoObject | None:
    """Read a value that takes all bytes."""
    kryo_object, end = read_object(data, form, 0)
    if end != len(data):
        raise DamagedError("the end of a value", f"{len(data) - end} more bytes")
    return kryo_object


def write_object(kryo_object: KryoObject | None, form: ObjectFormat) -> bytes:
    """Return the bytes of an object, preceded by its class; raise ForeignError if this version cannot write it."""
    writer = ObjectWriter(form)
    writer.value(kryo_object)
    return bytes(writer.data)


def convert_kryo(data: bytes | memoryview, read: ObjectFormat, write: ObjectFormat) -> bytes:
    """Convert the bytes of a value from one version of Kryo to the other."""
    return write_object(read_whole(data, read), write)


def objects_in(kryo_object: KryoObject | None) -> Iterator[KryoObject]:
    """Yield an object and all objects in it, each once."""
    seen: set[int] = set()
    waiting: list[object] = [kryo_object]
    while waiting:
        current = waiting.pop()
        if isinstance(current, KryoObject):
            if id(current) in seen:
                continue
            seen.add(id(current))
            yield current
            waiting += [current.content, current.header]
        elif isinstance(current, dict):
            waiting += current.values()
        elif isinstance(current, Iterable) and not isinstance(current, str | bytes):
            waiting += current


def class_names(found: KryoObject | None) -> frozenset[str]:
    """Return the classes of an object and of all objects in it."""
    return frozenset(kryo_object.class_name for kryo_object in objects_in(found))


__all__ = [
    "DamagedError",
    "ForeignError",
    "class_names",
    "convert_kryo",
    "is_read",
    "object_format",
    "objects_in",
    "read_object",
    "read_whole",
    "write_object",
]


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
