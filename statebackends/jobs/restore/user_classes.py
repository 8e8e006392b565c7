"""User classes that a serializer needs: Flink loads them to read its snapshot, even if the state is not used."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.enums import EnumSerializer
from pyspark_savepoint.formats.serializers.composite.collections import GenericArraySerializer
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.composite.tuples import FieldsSerializer
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.runtime.generic import GenericSerializer

#: Packages that are always on the class path.
ALWAYS_THERE = ("java.", "javax.", "scala.", "org.apache.flink.", "org.apache.avro.")


def user_classes(serializer: TypeSerializer) -> frozenset[str]:
    """Return the Java names of classes that only the job provides."""
    names = {name for name in _names(serializer) if "." in name and not name.startswith((*ALWAYS_THERE, "["))}
    return frozenset(names.union(*(user_classes(child) for child in serializer.children)))


def _names(serializer: TypeSerializer) -> Iterator[str]:
    if isinstance(serializer, PojoSerializer):
        yield serializer.class_name
    if isinstance(serializer, EnumSerializer):
        yield serializer.enum_class
    if isinstance(serializer, (KryoSerializer, GenericSerializer)):
        yield serializer.type_class
    if isinstance(serializer, FieldsSerializer):
        yield serializer.class_name
    if isinstance(serializer, GenericArraySerializer):
        yield serializer.component_class
