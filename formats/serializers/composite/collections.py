"""Serializers of lists, maps, sets and object arrays: a count, then the elements.

    snapshot  := Composite 1, empty outer part, the element (or key and value) nested; but
                 GenericArray: outer part utf componentClass
                 LinkedList:   outer version 3: outer part bool hasNullMask; 2: has a mask, 1: has none
                 SortedMap:    version 3, not composite: JOS comparator, Nested
                 ListView, MapView: the serializer of the list or map is nested
    List, ArrayList  := i32 n  element[n]
    Set              := i32 n  (u8 isNull  element unless null)[n]
    GenericArray     := i32 n  (u8 isPresent  element if present)[n]
    LinkedList       := i32 n  mask of n null bits, most significant first  the elements that are not null
    Map, SortedMap   := i32 n  (key  u8 isNull  value unless null)[n]
    NullAwareMap     := i32 n  (u8 isNull  key unless null  u8 isNull  value unless null)[n]

Flink: ``ListSerializer``, ``MapSerializer``, ``SetSerializer``, ``GenericArraySerializer``, ``ArrayListSerializer`` of
the runtime, ``LinkedListSerializer`` and ``SortedMapSerializer`` of the table runtime, the data views.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter, itemgetter

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Flags,
    Ints,
    Longs,
    list_array,
    refuse_nulls,
    scatter,
    valid_rows,
)
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.encodings import BOOL, UTF, by_version, implied
from pyspark_savepoint.formats.java_stream import skip_java_object
from pyspark_savepoint.formats.serializers.base import (
    SnapshotReader,
    TypeSerializer,
    expect_version,
    write_nested,
)
from pyspark_savepoint.formats.serializers.basic.kinds import Kind, ShapedKindSerializer, of_kind
from pyspark_savepoint.formats.serializers.basic.primitives import BASE, write_numbers
from pyspark_savepoint.formats.serializers.basic.shapes import (
    Fields,
    Flagged,
    MapEntries,
    Repeated,
    bounded_counts,
    encode_elements,
    hash_in_order,
    list_parts,
    map_parts,
    naming,
    pick,
    sum_per_row,
)
from pyspark_savepoint.formats.serializers.layout import Layout, Part, decode_elements
from pyspark_savepoint.formats.structs import part

TABLE = "org.apache.flink.table.runtime.typeutils."
DATA_VIEW = "org.apache.flink.table.dataview."


def hash_list(element: TypeSerializer, column: pa.Array) -> Ints:
    """Return ``List.hashCode``."""
    counts, items = list_parts(column)
    return mask_hashes(hash_in_order(element.java_hash(items), counts), column)


def hash_entries(key: TypeSerializer, value: TypeSerializer, column: pa.Array) -> Ints:
    """Return ``Map.hashCode``: the sum over the entries of key hash XOR value hash."""
    counts, keys, values = map_parts(column)
    entries = (key.java_hash(keys) ^ value.java_hash(values)).view(np.uint32)
    return mask_hashes(sum_per_row(entries, counts).view(np.int32), column)


def entries_of(nested: tuple[TypeSerializer, ...]) -> Part:
    """Return the shape of the entries of a map, whose values may be null."""
    key, value = nested
    return MapEntries(key, Flagged(value))


def mask_hashes(hashes: Ints, column: pa.Array) -> Ints:
    """Set the hashes of null rows to 0."""
    return np.where(valid_rows(column), hashes, 0).astype(np.int32)


@of_kind(
    Kind(
        "LIST",
        (BASE + "ListSerializerSnapshot", "org.apache.flink.runtime.state.ArrayListSerializerSnapshot"),
        shape=lambda nested: Repeated(nested[0]),
        java_class="java.util.List",
    )
)
@dataclass(frozen=True)
class ListSerializer(ShapedKindSerializer):
    """Serializer of LIST<T>: no null flags, so an element can be null only if its own serializer encodes null."""

    @property
    def element(self) -> TypeSerializer:
        return self.nested[0]

    def java_hash(self, column: pa.Array) -> Ints:
        return hash_list(self.element, column)

    @classmethod
    def of(cls, element: TypeSerializer) -> ListSerializer:
        """Return a list as this package writes it."""
        return cls(BASE + "ListSerializerSnapshot", 3, 1, (element,))


@of_kind(
    Kind(
        "SET",
        (BASE + "SetSerializerSnapshot",),
        shape=lambda nested: Repeated(Flagged(nested[0])),
        java_class="java.util.Set",
    )
)
@dataclass(frozen=True)
class SetSerializer(ShapedKindSerializer):
    """Serializer of SET<T>, since Flink 2.0, which becomes ARRAY."""

    @property
    def element(self) -> TypeSerializer:
        return self.nested[0]

    @classmethod
    def of(cls, element: TypeSerializer) -> SetSerializer:
        """Return a set as this package writes it."""
        return cls(BASE + "SetSerializerSnapshot", 3, 1, (element,))

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``Set.hashCode``: the sum of the hashes of the elements."""
        counts, items = list_parts(column)
        return mask_hashes(sum_per_row(self.element.java_hash(items).view(np.uint32), counts).view(np.int32), column)


@of_kind(Kind("MAP", (BASE + "MapSerializerSnapshot",), ("key", "value"), shape=entries_of, java_class="java.util.Map"))
@dataclass(frozen=True)
class MapSerializer(ShapedKindSerializer):
    """Serializer of MAP<K, V>: values have a null flag, keys have none."""

    @property
    def key(self) -> TypeSerializer:
        return self.nested[0]

    @property
    def value(self) -> TypeSerializer:
        return self.nested[1]

    def java_hash(self, column: pa.Array) -> Ints:
        return hash_entries(self.key, self.value, column)

    @classmethod
    def of(cls, key: TypeSerializer, value: TypeSerializer) -> MapSerializer:
        """Return a map as this package writes it."""
        return cls(BASE + "MapSerializerSnapshot", 3, 1, (key, value))


@of_kind(
    Kind(
        "SORTED_MAP",
        (TABLE + "SortedMapSerializerSnapshot",),
        ("key", "value"),
        shape=entries_of,
        no_text="its comparator is a Java object",
        compared=attrgetter("comparator"),
        equal="comparator",
    )
)
@dataclass(frozen=True)
class SortedMapSerializer(MapSerializer):
    """Serializer of a map whose snapshot begins with its comparator, a Java object that is kept as bytes."""

    comparator: bytes = b""

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Read the comparator, then the nested serializers."""
        expect_version(name, version, (3,), reader)
        comparator = reader.once(skip_java_object)
        return cls(name, version, 0, reader.nested(2), comparator)

    def write_payload(self, view: DataOutputView) -> None:
        view.write(self.comparator)
        write_nested(self.nested, view)


of_kind(
    # A map that may have a null key becomes an ARRAY of pairs, because Spark's MAP has none.
    Kind(
        "NULL_AWARE_MAP",
        (DATA_VIEW + "NullAwareMapSerializerSnapshot",),
        ("key", "value"),
        shape=lambda nested: Repeated(Fields(("key", "value"), tuple(map(Flagged, nested)))),
    ),
    # The list or map of an aggregate function has the bytes of the list or map.
    Kind("LIST_VIEW", (DATA_VIEW + "ListViewSerializerSnapshot",), shape=itemgetter(0)),
    Kind("MAP_VIEW", (DATA_VIEW + "MapViewSerializerSnapshot",), shape=itemgetter(0)),
)(ShapedKindSerializer)


@of_kind(
    Kind(
        "OBJECT_ARRAY",
        (BASE + "GenericArraySerializerSnapshot",),
        shape=lambda nested: Repeated(Flagged(nested[0], null_flag=0)),
        has_own_notation=True,
        compared=attrgetter("component_class"),
        equal="class of elements",
    )
)
@dataclass(frozen=True)
class GenericArraySerializer(ShapedKindSerializer):
    """Serializer of OBJECT_ARRAY<T>: a flag before every element, 1 if it is present."""

    component_class: str = part(UTF, "the component class of an array", default="")

    @property
    def element(self) -> TypeSerializer:
        return self.nested[0]

    @property
    def java_class(self) -> str | None:
        return f"[L{self.component_class};"

    @property
    def flink_type(self) -> str:
        """OBJECT_ARRAY<T>, or OBJECT_ARRAY<com.shop.Order>(T) if T does not determine the class of the elements."""
        element = self.element.flink_type
        named = self.element.java_class == self.component_class
        return f"OBJECT_ARRAY<{element}>" if named else f"OBJECT_ARRAY<{self.component_class}>({element})"

    @classmethod
    def of(cls, element: TypeSerializer, component_class: str) -> GenericArraySerializer:
        """Return an array of objects as this package writes it."""
        return cls(BASE + "GenericArraySerializerSnapshot", 3, 1, (element,), component_class)


@dataclass(frozen=True)
class MaskedElements:
    """Shape of ``i32 n``, a mask of n null bits, and the elements that are not null."""

    part: Part

    @property
    def flink_type(self) -> str:
        return f"LIST<{self.part.flink_type}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return Repeated(self.part).arrow_type(options)

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.MASKED_REPEAT, parts=[self.part.layout(layout)])

    def decode(self, at: Cursors) -> pa.Array:
        """Read the masks of all rows, then the elements that are not null."""
        counts = bounded_counts(self, self.part.flink_type, at, lambda room: room * 8)
        number = _numbers_within(counts)
        bits = at.buffer[np.repeat(at.position, counts) + (number >> 3)] >> (7 - (number & 7))
        valid: Flags = (bits & 1) == 0
        at.position[:] += (counts + 7) >> 3
        with at.inside("element"):
            items = decode_elements(self.part, at, sum_per_row(valid.astype(np.int64), counts))
        return list_array(self.arrow_type(at.options), counts, scatter(items, valid))

    def sizes(self, column: pa.Array) -> Longs:
        """Return the bytes of the count, the mask and the elements that are not null."""
        refuse_nulls(column, self.flink_type)
        counts, items = list_parts(column)
        valid = valid_rows(items)
        sizes = np.zeros(len(items), np.int64)
        with naming("element"):
            sizes[valid] = self.part.sizes(pick(items, valid))
        total: Longs = sum_per_row(sizes, counts) + 4 + ((counts + 7) >> 3)
        return total

    def encode(self, column: pa.Array, at: Cursors) -> None:
        from pyspark_savepoint.formats.kernels import numbers

        counts, items = list_parts(column)
        valid = valid_rows(items)
        write_numbers(counts.astype(np.int32), at)
        widths = (counts + 7) >> 3
        offsets = np.concatenate(([0], np.cumsum(widths)))
        number = _numbers_within(counts)
        masks = np.zeros(int(offsets[-1]), np.uint8)
        bits = np.where(valid, 0, 0x80 >> (number & 7)).astype(np.uint8)
        np.bitwise_or.at(masks, np.repeat(offsets[:-1], counts) + (number >> 3), bits)
        numbers.write_bytes(at.buffer, at.position, offsets, masks)
        valid_counts = sum_per_row(valid.astype(np.int64), counts)
        encode_elements([self.part], [pick(items, valid)], at, valid_counts)


def _numbers_within(counts: Longs) -> Longs:
    """Return 0, 1, 2... within each group."""
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)


@of_kind(
    Kind(
        "LINKED_LIST",
        (TABLE + "LinkedListSerializer$LinkedListSerializerSnapshot",),
        versions=(1, 2, 3),
        compared=attrgetter("has_null_mask"),
        migrates="with or without a mask of nulls",
    )
)
@dataclass(frozen=True)
class LinkedListSerializer(ShapedKindSerializer):
    """Serializer of LINKED_LIST<T> of SQL operators; since Flink 1.14 with a mask of nulls."""

    #: Versions below 3 imply it.
    has_null_mask: bool = part(
        by_version({1: implied(False), 2: implied(True), 3: BOOL}), "has a null mask", default=True
    )

    @property
    def element(self) -> TypeSerializer:
        return self.nested[0]

    @property
    def shape(self) -> Part:
        return MaskedElements(self.element) if self.has_null_mask else Repeated(self.element)

    def java_hash(self, column: pa.Array) -> Ints:
        return hash_list(self.element, column)
