"""Columns of Kryo's objects: the types that follow from declared types, and the values for Arrow.

    primitive types, boxes, String, times, numbers ... of the JDK    as where they are states of their own
    enum                                                             STRING
    a class of the user's with fields                                STRUCT of its fields, by name
    E[], List<E>, Set<E> ...; Map<K, V>; Optional<E>                 ARRAY; MAP; the type of E
    Object, interfaces, abstract classes, raw types, a class in
    itself, and classes for which words say so                       VARIANT

A STRUCT holds objects of its class alone: a subclass has other fields, which words can make VARIANT.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.class_files.java_types import (
    ArrayType,
    ClassType,
    JavaType,
    PrimitiveType,
    TypeVariable,
)
from pyspark_savepoint.formats.columns import DecodeOptions, map_type
from pyspark_savepoint.formats.serializers.kryo.described.object_values import HOLDERS, ObjectValues, column_name
from pyspark_savepoint.formats.serializers.kryo.kryo_input import BeyondError, ForeignError
from pyspark_savepoint.formats.serializers.kryo.objects import DescribedClasses, KryoObject
from pyspark_savepoint.formats.serializers.kryo.objects.described_classes import COLLECTIONS, ENUM, FIELDS, MAPS, RECORD
from pyspark_savepoint.formats.serializers.kryo.objects.generic_types import erased, substituted
from pyspark_savepoint.formats.serializers.kryo.objects.plugged_classes import plugged_classes
from pyspark_savepoint.formats.serializers.kryo.serializer import BIG_NUMBERS, KINDS, plain_value, type_of
from pyspark_savepoint.formats.variant import VARIANT, VariantError, encode_variant

#: Declared types whose one type argument is that of their elements, and those with keys and values.
SEQUENCES = COLLECTIONS | {
    *("java.util.List", "java.util.Collection", "java.lang.Iterable", "java.util.Set", "java.util.Queue"),
    *("java.util.Deque", "java.util.SortedSet", "java.util.NavigableSet", "java.util.TreeSet"),
    *("java.util.PriorityQueue",),
}
MAPPINGS = MAPS | {
    *("java.util.Map", "java.util.SortedMap", "java.util.NavigableMap", "java.util.TreeMap", "java.util.EnumMap"),
    *("java.util.concurrent.ConcurrentMap", "java.util.concurrent.ConcurrentSkipListMap"),
}
#: Deeper STRUCTs are VARIANT.
MAX_DEPTH = 32
MAX_FIELDS = 4096

Convert = Callable[[ObjectValues, KryoObject | None], Any]


@dataclass(frozen=True)
class ObjectColumn:
    """Type of a column, and how an object becomes a value that Arrow accepts for it."""

    arrow: pa.DataType
    convert: Convert


class ObjectColumns:
    """Columns by declared types; ``variants`` are classes that words make VARIANT."""

    def __init__(self, classes: DescribedClasses, options: DecodeOptions, variants: frozenset[str]) -> None:
        self.classes = classes
        self.options = options
        self.variants = variants
        self._fields = 0

    def of(self, kind: JavaType, around: tuple[str, ...] = ()) -> ObjectColumn:
        """Return the column of a declared type; ``around`` are the classes in which it stands."""
        if isinstance(kind, ArrayType):
            return self._array(kind, around)
        name = erased(kind)
        if isinstance(kind, PrimitiveType) or name in KINDS or name in BIG_NUMBERS:
            return self._leaf(name)
        arguments = kind.arguments if isinstance(kind, ClassType) else ()
        if name in HOLDERS and arguments:
            return self._held(name, self.of(arguments[0], around))
        if name in SEQUENCES and len(arguments) == 1:
            return _list_of(self.of(arguments[0], around))
        if name in MAPPINGS and len(arguments) == 2:
            key, value = self.of(arguments[0], around), self.of(arguments[1], around)
            return _VARIANT if key.arrow == VARIANT else _map_of(key, value)
        if isinstance(kind, ClassType) and name not in self.variants:
            return self._described(kind, around)
        return _VARIANT

    def _array(self, kind: ArrayType, around: tuple[str, ...]) -> ObjectColumn:
        name = erased(kind)
        if name in KINDS:
            return self._leaf(name)
        if isinstance(kind.component, PrimitiveType):
            return _VARIANT
        return _list_of(self.of(kind.component, around))

    def _leaf(self, name: str) -> ObjectColumn:
        arrow = type_of(name, self.options)

        def convert(values: ObjectValues, found: KryoObject | None) -> Any:
            if found is None:
                return None
            if found.class_name in _PLAIN:
                return found.content
            return plain_value(values.leaf(found, True), arrow, name)

        return ObjectColumn(arrow, convert)

    @staticmethod
    def _held(name: str, inner: ObjectColumn) -> ObjectColumn:
        def convert(values: ObjectValues, found: KryoObject | None) -> Any:
            return None if found is None else inner.convert(values, found.content[name, "value"])

        return ObjectColumn(inner.arrow, convert)

    def _described(self, kind: ClassType, around: tuple[str, ...]) -> ObjectColumn:
        """Return the column of a class of the user's."""
        name = kind.name
        plugged = plugged_classes().get(name)
        if plugged is not None:
            return ObjectColumn(plugged.arrow_type, lambda _, each: None if each is None else each.content)
        found = self.classes.find(name)
        if found is None or name.startswith("java.") or name in around or len(around) >= MAX_DEPTH:
            return _VARIANT
        how = self.classes.kind(name)
        if how == ENUM:
            return ObjectColumn(pa.string(), lambda values, each: _constant(values, each))
        if how not in (FIELDS, RECORD) or found.is_abstract:
            return _VARIANT
        bound = dict(zip(found.type_parameters, kind.arguments, strict=False))
        return self._struct(kind.name, bound, (*around, name))

    def _struct(self, name: str, bound: dict[str, JavaType], around: tuple[str, ...]) -> ObjectColumn:
        parts: dict[str, tuple[tuple[str, str], ObjectColumn]] = {}
        for field in self.classes.fields(name, 5):
            self._fields += 1
            if self._fields > MAX_FIELDS:
                return _VARIANT
            variables = {f"{name}:{each}": argument for each, argument in bound.items()}
            declared = substituted(field.type, variables)
            if isinstance(declared, TypeVariable):
                declared = ClassType(field.erased)
            parts[column_name(parts, *field.key)] = field.key, self.of(declared, around)
        if not parts:
            return _VARIANT

        def convert(values: ObjectValues, found: KryoObject | None) -> Any:
            if found is None:
                return None
            values.spend(1)
            if found.class_name != name:
                raise BeyondError(
                    f"an object of {found.class_name} in a column of the fields of {name}",
                    f'make the column VARIANT: option("kryoTypes", "{name} VARIANT")',
                )
            content = found.content
            return {part: each.convert(values, content.get(key)) for part, (key, each) in parts.items()}

        return ObjectColumn(pa.struct([pa.field(part, each.arrow) for part, (_, each) in parts.items()]), convert)


#: Classes whose content is the value.
_PLAIN = frozenset({"int", "long", "short", "byte", "boolean", "float", "double", "char", "java.lang.String", "[B"})


def _constant(values: ObjectValues, found: KryoObject | None) -> str | None:
    return None if found is None else values.constant(found.class_name, found.content)


def _variant(values: ObjectValues, found: KryoObject | None) -> Any:
    if found is None:
        return None
    try:
        value, metadata = encode_variant(values.variant(found))
    except VariantError as error:
        raise BeyondError(
            f"an object of {found.class_name} is no VARIANT: {error}", "read the state as bytes"
        ) from None
    values.spend(len(value) + len(metadata))
    return {"value": value, "metadata": metadata}


_VARIANT = ObjectColumn(VARIANT, _variant)


def _list_of(element: ObjectColumn) -> ObjectColumn:
    def convert(values: ObjectValues, found: KryoObject | None) -> Any:
        if found is None:
            return None
        if not isinstance(found.content, list):
            raise ForeignError(found.class_name, "a collection was declared")
        values.spend(1 + len(found.content))
        if found.class_name.endswith("EnumSet"):
            return [values.constant(found.header, ordinal) for ordinal in found.content]
        return [element.convert(values, each) for each in found.content]

    return ObjectColumn(pa.list_(pa.field("element", element.arrow)), convert)


def _map_of(key: ObjectColumn, value: ObjectColumn) -> ObjectColumn:
    def convert(values: ObjectValues, found: KryoObject | None) -> Any:
        if found is None:
            return None
        if not isinstance(found.content, list):
            raise ForeignError(found.class_name, "a map was declared")
        values.spend(1 + len(found.content))
        pairs = []
        for first, second in found.content:
            if first is None:
                raise BeyondError(
                    "a map has a null key, which a MAP column cannot hold", "read the state as bytes, option 'raw'"
                )
            pairs.append((key.convert(values, first), value.convert(values, second)))
        return pairs

    return ObjectColumn(map_type(key.arrow, value.arrow), convert)
