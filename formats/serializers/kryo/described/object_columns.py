"""Columns of Kryo's objects: their Arrow types, and conversion of objects to column values and back.

    primitive types, boxes, String, times, numbers ... of the JDK    as in a state of that type
    enum                                                             STRING
    a user's class with fields                                       STRUCT of its fields, by name
    E[], List<E>, Set<E> ...; Map<K, V>; Optional<E>                 ARRAY; MAP; the type of E
    Object, interfaces, abstract classes, raw types, a class in
    itself, and classes that are VARIANT in option ``kryoTypes``     VARIANT

A STRUCT only holds objects of its own class, because a subclass has other fields; option ``kryoTypes`` can make such a
class VARIANT.

Columns are written as objects of their declared classes; a List, Set or Map as Java's usual classes
(:data:`WRITTEN_CLASSES`).
A type whose objects have content that the column does not show (VARIANT, comparators, fields without a column) cannot
be written, not even an empty column.

In VARIANT (:class:`ObjectValues`), objects and maps with text keys are objects, collections arrays. Objects of the
user's classes have their fields by name; if two fields have the same name, that of the superclass is called
``Base.name``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.class_files.java_types import ArrayType, ClassType, JavaType, PrimitiveType, TypeVariable
from pyspark_savepoint.formats.columns import DecodeOptions, map_type, valid_rows
from pyspark_savepoint.formats.errors import UnsupportedStateError, ValueRangeError
from pyspark_savepoint.formats.serializers.basic.shapes import list_parts, map_parts, naming
from pyspark_savepoint.formats.serializers.kryo.classes.described_classes import (
    COLLECTIONS,
    MAPS,
    RECORD,
    erased,
    substituted,
)
from pyspark_savepoint.formats.serializers.kryo.classes.field_classes import FIELD_CLASSES
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import ENUM, FIELDS, UTIL, FieldKey, KryoObject
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import BeyondError, ForeignError
from pyspark_savepoint.formats.serializers.kryo.described.jdk_objects import (
    Constants,
    constant,
    is_written,
    jdk_objects,
)
from pyspark_savepoint.formats.serializers.kryo.described.serializer import (
    BIG_NUMBERS,
    KINDS,
    classes_in,
    plain_value,
    type_of,
    variant_of,
)
from pyspark_savepoint.formats.serializers.kryo.objects import DescribedClasses
from pyspark_savepoint.formats.serializers.kryo.objects import column_shapes as shapes
from pyspark_savepoint.formats.serializers.kryo.objects.bodies import column_name
from pyspark_savepoint.formats.serializers.kryo.objects.column_shapes import ColumnShape, leaf_shape
from pyspark_savepoint.formats.serializers.kryo.objects.object_format import RAW, ObjectFormat, Rendering
from pyspark_savepoint.formats.serializers.kryo.objects.plugged_classes import KryoClass, plugged_classes
from pyspark_savepoint.formats.variant import VARIANT, VariantError


class ObjectValues:
    """Values of the objects of one batch; ``room`` limits the size of shared objects, which are repeated."""

    def __init__(self, form: ObjectFormat, options: DecodeOptions, room: int) -> None:
        self.form = form
        self.options = options
        self.room = room
        self._open: set[KryoObject] = set()
        self._variant, self._typed = (Rendering(form, options, typed) for typed in (False, True))
        self.constant = self._variant.constant

    def spend(self, size: int) -> None:
        """Subtract a size from the room that is left."""
        self.room -= size
        if self.room < 0:
            raise BeyondError("values that repeat shared objects are too large for a column", RAW)

    def variant(self, kryo_object: KryoObject | None) -> Any:
        """Return the value of an object for VARIANT."""
        return self._value(kryo_object, self._variant)

    def typed(self, kryo_object: KryoObject | None) -> Any:
        """Return the value of an object of a JDK class for a column of its own type."""
        return self._value(kryo_object, self._typed)

    def _value(self, kryo_object: KryoObject | None, rendering: Rendering) -> Any:
        if kryo_object is None:
            return None
        self.spend(1)
        body, content = self.form.body(kryo_object.class_name), kryo_object.content
        if body.raw_of is not None:
            raw = body.raw_of(kryo_object)
        elif isinstance(content, list | dict):
            raw = self._inside(kryo_object, rendering)
        else:
            raw = content
        return raw if body.value is None else body.value(rendering, raw)

    def _inside(self, kryo_object: KryoObject, rendering: Rendering) -> Any:
        """Return the content of an object, with values in place of the objects in it."""
        if kryo_object in self._open:
            raise BeyondError(f"an object of {kryo_object.class_name} that contains itself cannot be in a column", RAW)
        self._open.add(kryo_object)
        content = kryo_object.content
        self.spend(len(content))
        raw: Any
        if isinstance(content, dict):
            raw = {key: self._part(member, rendering) for key, member in content.items()}
        else:
            raw = [self._part(member, rendering) for member in content]
        self._open.discard(kryo_object)
        return raw

    def _part(self, member: Any, rendering: Rendering) -> Any:
        if isinstance(member, KryoObject):
            return self._value(member, rendering)
        if isinstance(member, tuple):
            return self._value(member[0], rendering), self._value(member[1], rendering)
        return member


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
#: Classes with one type argument whose only field is their value.
HOLDERS = frozenset({"java.util.Optional", "java.util.concurrent.atomic.AtomicReference"})
#: Deeper STRUCTs are VARIANT.
MAX_DEPTH = 32
MAX_FIELDS = 4096

#: Classes of the objects that are written, by declared classes; columns do not record the class that a value had.
WRITTEN_CLASSES = {
    UTIL + "List": UTIL + "ArrayList",
    UTIL + "Set": UTIL + "HashSet",
    UTIL + "Map": UTIL + "HashMap",
    UTIL + "concurrent.ConcurrentMap": UTIL + "concurrent.ConcurrentHashMap",
    **{
        UTIL + name: UTIL + name
        for name in (
            *("ArrayList", "LinkedList", "Vector", "Stack", "ArrayDeque", "HashSet", "LinkedHashSet", "HashMap"),
            *("LinkedHashMap", "Hashtable", "concurrent.CopyOnWriteArrayList", "concurrent.ConcurrentHashMap"),
        )
    },
}
NAME_IT = (
    "give the class in option 'kryoTypes', such as \"com.shop.Order(lines LinkedList<String>)\", or leave the state "
    "unchanged"
)

Convert = Callable[[ObjectValues, KryoObject | None], Any]
Objects = list[KryoObject | None]


@dataclass
class ObjectMaking:
    """Context of making objects: the version of Kryo with its classes, and constants, which are shared as in Java."""

    form: ObjectFormat
    constants: Constants = field(default_factory=dict)


#: A column of which kernels read nothing but nulls.
NO_SHAPE = ColumnShape(shapes.OTHER, pa.null())
Make = Callable[[ObjectMaking, pa.Array], Objects]


@dataclass(frozen=True)
class ObjectColumn:
    """Type of a column, how an object becomes a value that Arrow accepts for it, and how columns become objects."""

    arrow: pa.DataType
    convert: Convert
    make: Make
    #: What kernels read into it.
    shape: ColumnShape = field(default_factory=lambda: NO_SHAPE)


class ObjectColumns:
    """Columns by declared types; ``variants`` are classes that option ``kryoTypes`` makes VARIANT."""

    def __init__(self, classes: DescribedClasses, options: DecodeOptions, variants: frozenset[str]) -> None:
        self.classes = classes
        self.options = options
        self.variants = variants
        self._fields = 0

    def of(self, kind: JavaType, around: tuple[str, ...] = ()) -> ObjectColumn:
        """Return the column of a declared type; ``around`` are the classes that enclose it."""
        if isinstance(kind, ArrayType):
            return self._array(kind, around)
        name = erased(kind)
        if isinstance(kind, PrimitiveType) or name in KINDS or name in BIG_NUMBERS:
            return self._leaf(name)
        arguments = kind.arguments if isinstance(kind, ClassType) else ()
        if name in HOLDERS and arguments:
            return self._held(name, self.of(arguments[0], around))
        if name in SEQUENCES and len(arguments) == 1:
            return _list_of(self.of(arguments[0], around), name, WRITTEN_CLASSES.get(name))
        if name in MAPPINGS and len(arguments) == 2:
            key, value = self.of(arguments[0], around), self.of(arguments[1], around)
            if key.arrow == VARIANT:
                return _variant_of(name, "its keys are read as VARIANT")
            return _map_of(key, value, name, WRITTEN_CLASSES.get(name))
        if isinstance(kind, ClassType) and name not in self.variants:
            return self._described(kind, around)
        return _variant_of(name, "a column does not tell the class of its objects")

    def _array(self, kind: ArrayType, around: tuple[str, ...]) -> ObjectColumn:
        name = erased(kind)
        if name in KINDS:
            return self._leaf(name)
        if isinstance(kind.component, PrimitiveType):
            return _variant_of(name, "it is read as VARIANT")
        return _list_of(self.of(kind.component, around), name, name)

    def _leaf(self, name: str) -> ObjectColumn:
        arrow, accepted = type_of(name, self.options), classes_in(name, self.options)

        def convert(values: ObjectValues, kryo_object: KryoObject | None) -> Any:
            if kryo_object is None:
                return None
            if kryo_object.class_name not in accepted:
                raise BeyondError(
                    f"an object of {kryo_object.class_name} in a column of {name}",
                    "declare the field as Object in option 'kryoTypes', or read the state as bytes, option 'raw'",
                )
            if kryo_object.class_name in _PLAIN:
                return kryo_object.content
            return plain_value(values.typed(kryo_object), arrow, name)

        def make(making: ObjectMaking, column: pa.Array) -> Objects:
            if not is_written(name):
                raise refusal(name, "its values can be read, but not written")
            return jdk_objects(name, column, making.constants)

        return ObjectColumn(arrow, convert, make, leaf_shape(arrow, accepted, name if is_written(name) else ""))

    @staticmethod
    def _held(name: str, inner: ObjectColumn) -> ObjectColumn:
        def convert(values: ObjectValues, kryo_object: KryoObject | None) -> Any:
            return None if kryo_object is None else inner.convert(values, kryo_object.content[name, "value"])

        def make(making: ObjectMaking, column: pa.Array) -> Objects:
            """Return holders; NULL becomes an empty holder, because the column does not distinguish it from null."""
            return [KryoObject(name, {(name, "value"): held}) for held in inner.make(making, column)]

        return ObjectColumn(
            inner.arrow, convert, make, _shape(shapes.HELD, inner.arrow, inner, classes=(name,), written=name)
        )

    def _described(self, kind: ClassType, around: tuple[str, ...]) -> ObjectColumn:
        """Return the column of a user's class."""
        name = kind.name
        plugged = plugged_classes().get(name)
        if plugged is not None:
            return _plugged(name, plugged)
        java_class = self.classes.find(name)
        row = FIELD_CLASSES.get(name)
        if java_class is None or name.startswith("java.") or (row is not None and row.shown is not None):
            return _variant_of(name, "a column does not tell the class of its objects")
        if name in around or len(around) >= MAX_DEPTH:
            return _variant_of(name, "it contains itself")
        how = self.classes.kind(name)
        if how == ENUM:
            return _enum(name, self.classes.constants(name))
        if how not in (FIELDS, RECORD) or java_class.is_abstract:
            return _variant_of(name, "a column does not tell the class of its objects")
        bound = dict(zip(java_class.type_parameters, kind.arguments, strict=False))
        return self._struct(kind.name, bound, (*around, name))

    def _struct(self, name: str, bound: dict[str, JavaType], around: tuple[str, ...]) -> ObjectColumn:
        parts: dict[str, tuple[tuple[str, str], ObjectColumn]] = {}
        for member in self.classes.fields(name, 5):
            self._fields += 1
            if self._fields > MAX_FIELDS:
                return _variant_of(name, f"it has more than {MAX_FIELDS} fields")
            variables = {f"{name}:{each}": argument for each, argument in bound.items()}
            declared = substituted(member.type, variables)
            if isinstance(declared, TypeVariable):
                declared = ClassType(member.erased)
            parts[column_name(parts, *member.key)] = member.key, self.of(declared, around)
        if not parts:
            return _variant_of(name, "it has no fields")

        def convert(values: ObjectValues, kryo_object: KryoObject | None) -> Any:
            if kryo_object is None:
                return None
            values.spend(1)
            if kryo_object.class_name != name:
                raise BeyondError(
                    f"an object of {kryo_object.class_name} in a column of the fields of {name}",
                    f'make the column VARIANT: option("kryoTypes", "{name} VARIANT")',
                )
            content = kryo_object.content
            return {
                part: object_column.convert(values, content.get(key)) for part, (key, object_column) in parts.items()
            }

        def make(making: ObjectMaking, column: pa.Array) -> Objects:
            return _make_fields(name, parts, making, column)

        arrow = pa.struct([pa.field(part, each.arrow) for part, (_, each) in parts.items()])
        columns = [each for _, each in parts.values()]
        keys = tuple(key for key, _ in parts.values())
        shape = _shape(shapes.STRUCT, arrow, *columns, classes=(name,), keys=keys, written=name)
        return ObjectColumn(arrow, convert, make, shape)


def _shape(
    kind: str,
    arrow: pa.DataType,
    *parts: ObjectColumn,
    classes: tuple[str, ...] = (),
    keys: tuple[FieldKey, ...] = (),
    written: str | None = None,
) -> ColumnShape:
    """Return the shape of a column of parts."""
    of_parts = [ColumnShape(shapes.OTHER, each.arrow) if each.shape is NO_SHAPE else each.shape for each in parts]
    return ColumnShape(kind, arrow, classes, tuple(of_parts), keys, written or "")


#: Classes whose objects consist of one value.
_PLAIN = frozenset({"int", "long", "short", "byte", "boolean", "float", "double", "char", "java.lang.String", "[B"})


def _constant(values: ObjectValues, kryo_object: KryoObject | None) -> str | None:
    return None if kryo_object is None else values.constant(kryo_object.class_name, kryo_object.content)


def _variant(values: ObjectValues, kryo_object: KryoObject | None) -> Any:
    if kryo_object is None:
        return None
    try:
        value, metadata = variant_of(values.variant(kryo_object), values.options.text)
    except VariantError as error:
        raise BeyondError(
            f"an object of {kryo_object.class_name} cannot be a VARIANT: {error}", "read the state as bytes"
        ) from None
    values.spend(len(value) + len(metadata))
    return {"value": value, "metadata": metadata}


def refusal(name: str, why: str) -> UnsupportedStateError:
    """Return the error for a class whose objects cannot be made from the values of a column."""
    return UnsupportedStateError(f"objects of {name} cannot be written back: {why}", found=name, remedy=NAME_IT)


def _variant_of(name: str, why: str) -> ObjectColumn:
    """Return a VARIANT column; ``why`` is the reason why it cannot be written."""

    def make(_: ObjectMaking, __: pa.Array) -> Objects:
        raise refusal(name, why)

    return ObjectColumn(VARIANT, _variant, make, ColumnShape(shapes.VARIANT, VARIANT))


def _plugged(name: str, plugged: type[KryoClass]) -> ObjectColumn:
    """Return the column of a class that a plug-in reads, and writes if it can."""

    def make(_: ObjectMaking, column: pa.Array) -> Objects:
        if not plugged.writes:
            raise refusal(name, f"its plug-in {plugged.__module__}.{plugged.__qualname__} has no method 'write'")
        return [None if value is None else KryoObject(name, value) for value in column.to_pylist()]

    return ObjectColumn(plugged.arrow_type, lambda _, each: None if each is None else each.content, make)


def _enum(name: str, constants: tuple[str, ...]) -> ObjectColumn:
    ordinals = {text: ordinal for ordinal, text in enumerate(constants)}

    def make(making: ObjectMaking, column: pa.Array) -> Objects:
        making.form.body(name)
        objects: Objects = []
        for text in column.to_pylist():
            if text is not None and text not in ordinals:
                raise ValueRangeError(
                    f"{name} has no such constant", expected=", ".join(constants)[:400], found=repr(text)[:80]
                )
            objects.append(None if text is None else constant(making.constants, name, ordinals[text]))
        return objects

    shape = ColumnShape(shapes.ENUM, pa.string(), written=name)
    return ObjectColumn(pa.string(), lambda values, each: _constant(values, each), make, shape)


def _make_fields(
    name: str, parts: dict[str, tuple[FieldKey, ObjectColumn]], making: ObjectMaking, column: pa.Array
) -> Objects:
    """Return objects with fields; all fields that this version of Kryo writes must be columns."""
    making.form.body(name)
    primitive: dict[FieldKey, bool] = {}
    for written in making.form.classes.fields(name, making.form.version):
        primitive[written.key] = written.primitive
        if all(key != written.key for key, _ in parts.values()):
            raise refusal(name, f"its field {written.key[1]!r}, added by the compiler, is not in the column")
    columns = []
    valid = valid_rows(column) if column.null_count else np.ones(len(column), np.bool_)
    for (part, (key, object_column)), values in zip(parts.items(), column.flatten(), strict=True):
        if primitive.get(key) and values.null_count and (~valid_rows(values) & valid).any():
            raise ValueRangeError(
                f"a field of a primitive type cannot be null: {name}.{key[1]}",
                found="NULL",
                remedy="give it a value, or make the whole object NULL",
            )
        with naming(part):
            columns.append(object_column.make(making, values))
    keys = [key for key, _ in parts.values()]
    return [
        KryoObject(name, dict(zip(keys, values, strict=True))) if is_valid else None
        for is_valid, values in zip(valid.tolist(), zip(*columns, strict=True), strict=True)
    ]


def _grouped(column: pa.Array) -> tuple[list[int | None], pa.Array]:
    """Return the lengths of lists or maps, None for null, and the column without values hidden under nulls."""
    counts = pc.list_value_length(column if pa.types.is_list(column.type) else _as_list(column)).to_pylist()
    return counts, column.drop_null() if column.null_count else column


def _as_list(column: pa.Array) -> pa.Array:
    """Return a map as a list of its entries."""
    kind = column.type
    entry = pa.struct([pa.field("key", kind.key_type, nullable=False), pa.field("value", kind.item_type)])
    return column.cast(pa.list_(pa.field("entries", entry, nullable=False)))


def _regrouped(counts: list[int | None], items: list[Any], name: str) -> Objects:
    objects: Objects = []
    at = 0
    for count in counts:
        if count is None:
            objects.append(None)
            continue
        objects.append(KryoObject(name, items[at : at + count]))
        at += count
    return objects


def _list_of(element: ObjectColumn, declared: str, made: str | None) -> ObjectColumn:
    def convert(values: ObjectValues, kryo_object: KryoObject | None) -> Any:
        if kryo_object is None:
            return None
        if not isinstance(kryo_object.content, list):
            raise ForeignError(kryo_object.class_name, "the field is declared as a collection")
        values.spend(1 + len(kryo_object.content))
        if kryo_object.class_name.endswith("EnumSet"):
            return [values.constant(kryo_object.header, ordinal) for ordinal in kryo_object.content]
        return [element.convert(values, member) for member in kryo_object.content]

    def make(making: ObjectMaking, column: pa.Array) -> Objects:
        if made is None:
            raise refusal(declared, "a column does not tell its class, or how it is sorted")
        counts, present = _grouped(column)
        with naming("element"):
            return _regrouped(counts, element.make(making, list_parts(present)[1]), made)

    arrow = pa.list_(pa.field("element", element.arrow))
    return ObjectColumn(arrow, convert, make, _shape(shapes.LIST, arrow, element, written=made))


def _map_of(key: ObjectColumn, value: ObjectColumn, declared: str, made: str | None) -> ObjectColumn:
    def convert(values: ObjectValues, kryo_object: KryoObject | None) -> Any:
        if kryo_object is None:
            return None
        if not isinstance(kryo_object.content, list):
            raise ForeignError(kryo_object.class_name, "the field is declared as a map")
        values.spend(1 + len(kryo_object.content))
        pairs = []
        for first, second in kryo_object.content:
            if first is None:
                raise BeyondError(
                    "a map has a null key, which a MAP column cannot hold", "read the state as bytes, option 'raw'"
                )
            pairs.append((key.convert(values, first), value.convert(values, second)))
        return pairs

    def make(making: ObjectMaking, column: pa.Array) -> Objects:
        if made is None:
            raise refusal(declared, "a column does not tell its class, or how it is sorted")
        counts, present = _grouped(column)
        _, keys, items = map_parts(present)
        with naming("key"):
            firsts = key.make(making, keys)
        with naming("value"):
            return _regrouped(counts, list(zip(firsts, value.make(making, items), strict=True)), made)

    arrow = map_type(key.arrow, value.arrow)
    return ObjectColumn(arrow, convert, make, _shape(shapes.MAP, arrow, key, value, written=made))
