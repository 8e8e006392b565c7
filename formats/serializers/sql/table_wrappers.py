"""Serializers that wrap rows of SQL state.

    serializer                snapshot                  value
    WindowKeySerializer       composite 1, key          i64 window, key
    ExternalSerializer        composite 1, data type stream, bool; nested internal serializer    as that serializer
    NodeSerializer ..         composite 0, parts        the parts in order
    RowDataKeySerializer 0    twice i32 n, stream (equaliser, hash function); serializer         as that serializer

Flink: the classes of these names in ``org.apache.flink.table.runtime``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.java_stream import skip_java_object
from pyspark_savepoint.formats.serializers.base import (
    CompositeSerializer,
    SnapshotReader,
    TypeSerializer,
    expect_version,
    write_versioned,
)
from pyspark_savepoint.formats.serializers.basic.primitives import BASE, NumberSerializer
from pyspark_savepoint.formats.serializers.basic.shapes import Fields, ShapedSerializer, WrappingSerializer
from pyspark_savepoint.formats.serializers.layout import Part
from pyspark_savepoint.formats.serializers.registry import register
from pyspark_savepoint.formats.serializers.sql.rowdata import TYPEUTILS

LINKED = "org.apache.flink.table.runtime.sequencedmultisetstate.linked."
LONG: TypeSerializer = NumberSerializer(f"{BASE}LongSerializer$LongSerializerSnapshot", 3)


@register(TYPEUTILS + "WindowKeySerializer$WindowKeySerializerSnapshot")
@dataclass(frozen=True)
class WindowKeySerializer(ShapedSerializer):
    """Serializer of WINDOW_KEY: a window (its start or end, in milliseconds) and the key of a row."""

    @property
    def flink_type(self) -> str:
        return f"WINDOW_KEY<{self.nested[0].flink_type}>"

    @property
    def shape(self) -> Part:
        return Fields(("window", "key"), (LONG, self.nested[0]))


#: Type and fields of the composite serializers of a sequenced multiset, by snapshot class.
LINKED_PARTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    f"{LINKED}NodeSerializer$NodeSerializerSnapshot": (
        "NODE",
        ("row", "sqn", "prev_sqn", "next_sqn", "next_sqn_for_record", "timestamp"),
    ),
    f"{LINKED}RowSqnInfoSerializer$RowSqnInfoSerializerSnapshot": ("ROW_SQN_INFO", ("first_sqn", "last_sqn")),
    f"{LINKED}MetaSqnInfoSerializer$MetaSqnInfoSerializerSnapshot": ("META_SQN_INFO", ("high_sqn", "size")),
}


@register(*LINKED_PARTS)
@dataclass(frozen=True)
class LinkedPartSerializer(ShapedSerializer):
    """Serializer of NODE, ROW_SQN_INFO, META_SQN_INFO: the ordered rows of upserts, since Flink 2.2."""

    outer_versions: ClassVar[tuple[int, ...]] = (0,)
    arity: ClassVar[int | None] = None

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Read the snapshot and check its number of parts."""
        serializer = super().read_snapshot(name, version, reader)
        count = len(LINKED_PARTS[name][1])
        if len(serializer.children) != count:
            reader.view.fail(f"{count} nested serializers", len(serializer.children))
        return serializer

    @property
    def flink_type(self) -> str:
        """NODE<row ..., sqn LONG, ...>: the class and its parts."""
        title, names = LINKED_PARTS[self.snapshot_class]
        fields = (f"{name} {part.flink_type}" for name, part in zip(names, self.nested, strict=True))
        return f"{title}<{', '.join(fields)}>"

    @property
    def length(self) -> int:
        """The sum of the lengths of the parts; -1 if one of them is variable."""
        lengths = [part.length for part in self.nested]
        return -1 if min(lengths) < 0 else sum(lengths)

    @property
    def shape(self) -> Part:
        return Fields(LINKED_PARTS[self.snapshot_class][1], self.nested)


@register(TYPEUTILS + "ExternalSerializer$ExternalSerializerSnapshot")
@dataclass(frozen=True)
class ExternalSerializer(WrappingSerializer, CompositeSerializer):
    """Serializer of objects of a user's class that are stored as SQL's internal data, by the nested serializer."""

    data_type: bytes = b""
    internal_input: bool = False

    @classmethod
    def read_outer(cls, outer_version: int, reader: SnapshotReader) -> dict[str, Any]:
        """Read the data type, kept as a stream, and whether the input is internal data already."""
        stream = reader.once(skip_java_object)
        return {"data_type": stream, "internal_input": reader.view.read_bool("isInternalInput")}

    def write_outer(self, view: DataOutputView) -> None:
        view.write(self.data_type)
        view.write_bool(self.internal_input)


@register(LINKED + "RowDataKeySerializerSnapshot")
@dataclass(frozen=True)
class RowDataKeySerializer(WrappingSerializer):
    """Serializer of a row as map key; the generated code for equality and hash is kept as bytes and never run."""

    equaliser: bytes
    hash_function: bytes
    row: TypeSerializer

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Read two objects with their lengths, and the serializer of the row."""
        expect_version(name, version, (0,), reader)
        view = reader.view
        return cls(name, version, view.read_blob("an equaliser"), view.read_blob("a hash"), reader.versioned())

    def write_payload(self, view: DataOutputView) -> None:
        view.write_blob(self.equaliser)
        view.write_blob(self.hash_function)
        write_versioned(self.row, view)

    @property
    def children(self) -> tuple[TypeSerializer, ...]:
        return (self.row,)
