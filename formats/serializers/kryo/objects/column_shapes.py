"""Shapes of columns of Kryo's objects: what kernels know of a column when they read values into it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import FieldKey

SCALAR, ENUM, VARIANT, STRUCT, LIST, MAP, HELD, OTHER = (
    *("scalar", "enum", "variant", "struct", "list", "map", "held", "other"),
)


@dataclass(frozen=True)
class ColumnShape:
    """A column, its type and parts: ``held`` has the type of its part, ``other`` only nulls that kernels read.

    ``classes`` are the classes of the objects that it holds, where only these are accepted.
    """

    kind: str
    arrow: pa.DataType
    classes: tuple[str, ...] = ()
    parts: tuple[ColumnShape, ...] = ()
    #: The fields of a struct.
    keys: tuple[FieldKey, ...] = ()
