"""Serializers of tuples and Scala's case classes: the fields one after another, without null flags.

    snapshot := Composite 2, outer part utf class, the fields nested; Tuple0 has a simple snapshot
    value    := field...; of Tuple0 the byte 2A

A field can be null only if its own serializer encodes null. Snapshots do not name the fields: they are called
``f0, f1...`` as in Flink, ``_1, _2...`` as in Scala.
Flink: ``TupleSerializer``, ``Tuple0Serializer``, ``ScalaCaseClassSerializer``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Ints,
    Longs,
    refuse_nulls,
    struct_array,
    valid_rows,
)
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.serializers.base import SnapshotReader, TypeSerializer, flink_types, zeros
from pyspark_savepoint.formats.serializers.basic.primitives import SimpleSerializer, read_numbers, write_numbers
from pyspark_savepoint.formats.serializers.basic.shapes import Fields, ShapedSerializer
from pyspark_savepoint.formats.serializers.composite.wrappers import RUNTIME, scala
from pyspark_savepoint.formats.serializers.layout import Layout, Part
from pyspark_savepoint.formats.serializers.registry import register

TUPLE0 = RUNTIME + "Tuple0SerializerSnapshot"
TUPLE0_BYTE = 42


def tuple_class(arity: int) -> str:
    """Return Flink's tuple class with that many fields.

    >>> tuple_class(2)
    'org.apache.flink.api.java.tuple.Tuple2'
    """
    return f"org.apache.flink.api.java.tuple.Tuple{arity}"


@dataclass(frozen=True)
class FieldsSerializer(ShapedSerializer):
    """Base class of tuples and case classes."""

    class_name: str = ""
    arity: ClassVar[int | None] = None
    outer_versions: ClassVar[tuple[int, ...]] = (2,)

    @classmethod
    def read_outer(cls, outer_version: int, reader: SnapshotReader) -> dict[str, Any]:
        """Read the class of the values; Flink does not check it against the number of fields."""
        return {"class_name": reader.view.read_utf("the class of a tuple")}

    def write_outer(self, view: DataOutputView) -> None:
        view.write_utf(self.class_name)

    @property
    def length(self) -> int:
        """The sum of the fields' lengths; -1 if one of them is 0 or variable."""
        lengths = [field.length for field in self.nested]
        return sum(lengths) if all(length > 0 for length in lengths) else -1

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"f{index}" for index in range(len(self.nested)))

    @property
    def shape(self) -> Part:
        return Fields(self.names, self.nested)


@register(RUNTIME + "TupleSerializerSnapshot")
@dataclass(frozen=True)
class TupleSerializer(FieldsSerializer):
    """Serializer of TUPLE<A, B>: Tuple1 to Tuple25, or a user's subclass."""

    @property
    def java_class(self) -> str | None:
        return self.class_name

    @property
    def flink_type(self) -> str:
        """TUPLE<A, B>, or TUPLE<com.shop.Pair>(A, B) for a user's subclass."""
        arguments = flink_types(self.nested)
        own = self.class_name == tuple_class(len(self.nested))
        return f"TUPLE<{arguments}>" if own else f"TUPLE<{self.class_name}>({arguments})"

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``TupleN.hashCode``: start with 0, then 31 * hash + field, in order."""
        result = np.zeros(len(column), np.uint32)
        for index, field in enumerate(self.nested):
            result = result * np.uint32(31) + field.java_hash(column.field(index)).view(np.uint32)
        return np.where(valid_rows(column), result.view(np.int32), 0).astype(np.int32)

    @classmethod
    def of(cls, *fields: TypeSerializer, class_name: str | None = None) -> TupleSerializer:
        """Return a tuple as this package writes it."""
        return cls(RUNTIME + "TupleSerializerSnapshot", 3, 2, fields, class_name or tuple_class(len(fields)))


@register(*scala("ScalaCaseClassSerializerSnapshot", "Tuple2CaseClassSerializerSnapshot"))
@dataclass(frozen=True)
class CaseClassSerializer(FieldsSerializer):
    """Serializer of CASE_CLASS<cls>(_1 A, _2 B). The hash is unknown: it depends on the version of Scala."""

    @property
    def flink_type(self) -> str:
        fields = (f"{name} {field.flink_type}" for name, field in zip(self.names, self.nested, strict=True))
        return f"CASE_CLASS<{self.class_name}>({', '.join(fields)})"

    @property
    def names(self) -> tuple[str, ...]:
        """Field names as in Scala's ``Product``, because those of the source are not in the file."""
        return tuple(f"_{index + 1}" for index in range(len(self.nested)))


@register(TUPLE0)
@dataclass(frozen=True)
class Tuple0Serializer(SimpleSerializer):
    """Serializer of TUPLE<>: one possible value, one byte."""

    @property
    def flink_type(self) -> str:
        return "TUPLE<>"

    @property
    def length(self) -> int:
        return 1

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.struct([])

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels.values import skip

        return layout.add(skip.FIXED, 1)

    def decode(self, at: Cursors) -> pa.Array:
        """Check that every value is the byte 2A."""
        start = at.position.copy()
        found = read_numbers(at, "read_i8", np.uint8, "the byte of a Tuple0")
        wrong = np.flatnonzero(found != TUPLE0_BYTE)
        at.at(start, at.end).check(int(wrong[0]) if len(wrong) else -1, f"the byte {TUPLE0_BYTE:#x} of a Tuple0")
        return struct_array(pa.struct([]), [], len(at))

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        return np.ones(len(column), np.int64)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        write_numbers(np.full(len(column), TUPLE0_BYTE, np.int8), at)

    def java_hash(self, column: pa.Array) -> Ints:
        return zeros(column)
