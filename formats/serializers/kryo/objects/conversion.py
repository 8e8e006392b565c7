"""Conversion of Kryo's values: bytes to objects, objects to bytes, and bytes of one version to those of the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from pyspark_savepoint.formats.serializers.kryo.classes.described_classes import DescribedClasses
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import KryoClasses
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_objects import KryoObject
from pyspark_savepoint.formats.serializers.kryo.kryo_input import DamagedError, ForeignError
from pyspark_savepoint.formats.serializers.kryo.objects.bodies import BODIES_2, BODIES_5
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import (
    NO_REGISTRATIONS,
    Body,
    ObjectFormat,
    Version,
)
from pyspark_savepoint.formats.serializers.kryo.objects.object_reader import Budget, ObjectReader
from pyspark_savepoint.formats.serializers.kryo.objects.object_writer import ObjectWriter
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
    found = reader.value()
    return found, reader.position


def read_whole(data: bytes | memoryview, form: ObjectFormat, budget: Budget | None = None) -> KryoObject | None:
    """Read a value that takes all bytes."""
    found, end = read_object(data, form, 0, budget)
    if end != len(data):
        raise DamagedError("the end of a value", f"{len(data) - end} more bytes")
    return found


def write_object(found: KryoObject | None, form: ObjectFormat) -> bytes:
    """Return the bytes of an object, preceded by its class; raise ForeignError if this version cannot write it."""
    writer = ObjectWriter(form)
    writer.value(found)
    return bytes(writer.data)


def convert_kryo(data: bytes | memoryview, read: ObjectFormat, write: ObjectFormat) -> bytes:
    """Convert the bytes of a value from one version of Kryo to the other."""
    return write_object(read_whole(data, read), write)


def objects_in(found: KryoObject | None) -> Iterator[KryoObject]:
    """Yield an object and all objects in it, each once."""
    seen: set[int] = set()
    waiting: list[object] = [found]
    while waiting:
        each = waiting.pop()
        if isinstance(each, KryoObject):
            if id(each) in seen:
                continue
            seen.add(id(each))
            yield each
            waiting += [each.content, each.header]
        elif isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, Iterable) and not isinstance(each, str | bytes):
            waiting += each


def class_names(found: KryoObject | None) -> frozenset[str]:
    """Return the classes of an object and of all objects in it."""
    return frozenset(each.class_name for each in objects_in(found))


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
