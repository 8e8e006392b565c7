"""Shapes of columns of Kryo's objects: what kernels know of a column when they read values into it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pyspark_savepoint.formats.serializers.kryo.classes.field_classes import FIELD_CLASSES
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import PARTS, FieldKey, struct_of

SCALAR, TEXT, ENUM, BIG, VARIANT, STRUCT, LIST, MAP, HELD, OTHER = (
    *("scalar", "text", "enum", "big", "variant", "struct", "list", "map", "held", "other"),
)


@dataclass(frozen=True)
class ColumnShape:
    """A column, its type and parts.

    ``text`` has strings or bytes, ``big`` whole numbers of 128 bits; ``held`` has the type of its part, ``other`` only
    nulls that kernels read.

    ``classes`` are the classes of the objects that it holds, where only these are accepted. ``written`` is the class of
    the objects that are made of its values, if these can be written.
    """

    kind: str
    arrow: pa.DataType
    classes: tuple[str, ...] = ()
    parts: tuple[ColumnShape, ...] = ()
    #: The fields of a struct.
    keys: tuple[FieldKey, ...] = ()
    written: str = ""


def leaf_shape(arrow: pa.DataType, classes: tuple[str, ...], written: str = "") -> ColumnShape:
    """Return the shape of the column of a class of the JDK."""
    if pa.types.is_list(arrow):
        element = arrow.value_type
        name = next((java for java, kind in _ELEMENTS if kind == element), None)
        part = ColumnShape(OTHER, element) if name is None else leaf_shape(element, (name,), name)
        return ColumnShape(LIST, arrow, classes, (part,), (), written)
    fields = (
        FIELD_CLASSES[classes[0]].parts
        if pa.types.is_struct(arrow) and classes[0] in FIELD_CLASSES and struct_of(classes[0]) is not None
        else ()
    )
    if fields:
        parts = tuple(leaf_shape(PARTS[kind][1], (PARTS[kind][0],), PARTS[kind][0]) for _, kind in fields)
        return ColumnShape(STRUCT, arrow, classes, parts, tuple((classes[0], field) for field, _ in fields), written)
    if pa.types.is_struct(arrow) and "java.time.Duration" not in classes:
        parts = tuple(ColumnShape(SCALAR, field.type) for field in arrow)
        return ColumnShape(STRUCT, arrow, classes, parts, (), written)
    if pa.types.is_decimal(arrow):
        whole = arrow == pa.decimal128(38, 0) and "java.math.BigInteger" in classes
        return ColumnShape(BIG if whole else OTHER, arrow, classes, (), (), written)
    if pa.types.is_string(arrow) or pa.types.is_binary(arrow):
        return ColumnShape(TEXT, arrow, classes, (), (), written)
    kind = OTHER if pa.types.is_large_string(arrow) else SCALAR
    return ColumnShape(kind, arrow, classes, (), (), written)


#: The classes of the elements of arrays and bit sets.
_ELEMENTS = (
    *(("boolean", pa.bool_()), ("short", pa.int16()), ("int", pa.int32()), ("long", pa.int64())),
    *(("float", pa.float32()), ("double", pa.float64()), ("java.lang.String", pa.string())),
)
