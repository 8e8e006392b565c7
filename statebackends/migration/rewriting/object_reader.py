"""Values of Flink's own serializers as objects that Kryo can write: the inverse of ``object_writer``.

Used for migrations back to Flink 1, where Kryo writes lists, maps and sets in fields.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.java import decode_modified_utf8
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.enums import EnumSerializer
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer, MapSerializer, SetSerializer
from pyspark_savepoint.formats.serializers.composite.pojo import NO_SUBCLASS, NULL, SUBCLASS, PojoSerializer
from pyspark_savepoint.formats.serializers.composite.wrappers import NullableSerializer
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import FieldKey
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.kryo.objects import (
    STRING,
    DescribedClasses,
    ForeignError,
    KryoObject,
    list_of,
    map_of,
    set_of,
)
from pyspark_savepoint.statebackends.migration.rewriting.value_program import varint

#: Returns the object at a position, and the position after it.
ReadObject = Callable[[bytes, int], tuple[KryoObject | None, int]]
PojoOf = Callable[[str], PojoSerializer | None]
KryoReaderOf = Callable[[KryoSerializer], ReadObject]
#: Class of the box, as objects name it, and format, by type.
NUMBERS = {
    "BOOLEAN": ("boolean", ">?"), "BYTE": ("byte", ">b"), "SHORT": ("short", ">h"), "INT": ("int", ">i"),
    "LONG": ("long", ">q"), "FLOAT": ("float", ">f"), "DOUBLE": ("double", ">d"),
}  # fmt: skip


class FlinkReader:
    """Reader of values by Flink's serializers; Kryo's parts are read by ``kryo``."""

    def __init__(self, kryo: KryoReaderOf, classes: DescribedClasses, pojo_of: PojoOf) -> None:
        self.kryo = kryo
        self.classes = classes
        self.pojo_of = pojo_of

    def of(self, serializer: TypeSerializer) -> ReadObject:
        """Return the function that reads by a serializer; raise UnsupportedStateError if there is none."""
        kind = serializer.flink_type
        if isinstance(serializer, KryoSerializer):
            return self.kryo(serializer)
        if isinstance(serializer, NullableSerializer):
            return _flagged(self.of(serializer.nested[0]), serializer.padding)
        if type(serializer) is MapSerializer:
            return _map(self.of(serializer.key), _flagged(self.of(serializer.value)))
        if isinstance(serializer, SetSerializer):
            return _list(_flagged(self.of(serializer.element)), set_of)
        if type(serializer) is ListSerializer:
            return _list(self.of(serializer.element), list_of)
        if isinstance(serializer, EnumSerializer):
            return _enum(serializer.enum_class)
        if isinstance(serializer, PojoSerializer):
            return self._pojo(serializer)
        if kind == "BASIC_ARRAY<STRING>":
            return _list(_string, lambda items: KryoObject("[Ljava.lang.String;", items))
        if kind == "PRIMITIVE_ARRAY<BYTE>":
            return _bytes
        if kind in NUMBERS:
            return _number(*NUMBERS[kind])
        if kind == "STRING":
            return _string
        raise UnsupportedStateError(
            f"values of {kind} in a collection are not rewritten for Kryo",
            found=serializer.snapshot_class,
            remedy="declare the field's type in the job for Flink 1, or leave the state out (drop)",
        )

    def _pojo(self, serializer: PojoSerializer) -> ReadObject:
        """Return the function that reads a POJO: its class has its fields."""
        fields: list[tuple[FieldKey, ReadObject]] = []
        subclasses: dict[str, ReadObject] = {}

        def learn() -> None:
            known = {field.key[1]: field for field in self.classes.fields(serializer.class_name, 2)}
            for member in serializer.fields:
                java_field = known[member.name]
                fields.append((java_field.key, _flagged(self.of(member.serializer))))

        def pojo(data: bytes, at: int) -> tuple[KryoObject | None, int]:
            flags, at = data[at], at + 1
            if flags == NULL:
                return None, at
            if flags == SUBCLASS:
                size = int.from_bytes(data[at : at + 2], "big")
                name, at = decode_modified_utf8(data[at + 2 : at + 2 + size]), at + 2 + size
                if name not in subclasses:
                    subclass = self.pojo_of(name)
                    if subclass is None:
                        raise ForeignError(name, "no class file describes this subclass of a POJO")
                    subclasses[name] = self.of(subclass)
                return subclasses[name](data, at)
            if flags != NO_SUBCLASS:
                raise ForeignError(serializer.class_name, "subclasses with tags are not rewritten for Kryo")
            if not fields:
                learn()
            held: dict[FieldKey, Any] = {}
            for key, read in fields:
                held[key], at = read(data, at)
            return KryoObject(serializer.class_name, held), at

        return pojo


def _flagged(read: ReadObject, padding: int = 0) -> ReadObject:
    def flagged(data: bytes, at: int) -> tuple[KryoObject | None, int]:
        return (None, at + 1 + padding) if data[at] else read(data, at + 1)

    return flagged


def _count(data: bytes, at: int) -> int:
    count = int.from_bytes(data[at : at + 4], "big")
    if count > len(data) - at:
        raise ValueError("a collection has more elements than bytes")
    return count


def _list(read: ReadObject, make: Callable[[list[KryoObject | None]], KryoObject]) -> ReadObject:
    def list_(data: bytes, at: int) -> tuple[KryoObject | None, int]:
        items = []
        count, at = _count(data, at), at + 4
        for _ in range(count):
            item, at = read(data, at)
            items.append(item)
        return make(items), at

    return list_


def _map(key: ReadObject, value: ReadObject) -> ReadObject:
    def map_(data: bytes, at: int) -> tuple[KryoObject | None, int]:
        entries: list[Any] = []
        count, at = _count(data, at), at + 4
        for _ in range(count):
            one, at = key(data, at)
            other, at = value(data, at)
            entries.append((one, other))
        return map_of(entries), at

    return map_


def _number(name: str, form: str) -> ReadObject:
    width = struct.calcsize(form)

    def number(data: bytes, at: int) -> tuple[KryoObject | None, int]:
        (content,) = struct.unpack_from(form, data, at)
        return KryoObject(name, content), at + width

    return number


def _bytes(data: bytes, at: int) -> tuple[KryoObject | None, int]:
    size = _count(data, at)
    return KryoObject("[B", data[at + 4 : at + 4 + size]), at + 4 + size


def _enum(name: str) -> ReadObject:
    def enum(data: bytes, at: int) -> tuple[KryoObject | None, int]:
        return KryoObject(name, int.from_bytes(data[at : at + 4], "big")), at + 4

    return enum


def _string(data: bytes, at: int) -> tuple[KryoObject | None, int]:
    length, at = varint(data, at)
    if length == 0:
        return None, at
    units = bytearray()
    for _ in range(length - 1):
        unit, at = varint(data, at)
        units += unit.to_bytes(2, "little")
    return KryoObject(STRING, units.decode("utf-16-le", "surrogatepass")), at
