"""Serializers of SQL state: binary rows, arrays and maps with their size before them.

    serializer and version      snapshot                                             value
    RowDataSerializer 3         i32 n, logical type stream[n], nested serializers    i32 size, row
    BinaryRowDataSerializer 3   i32 fields                                           i32 size, row
    ArrayDataSerializer 3       streams: element type, element serializer            i32 size, array
    MapDataSerializer 3         streams: key type, value type, key and value serializer   i32 size, map

Sizes are big-endian; ``binary_data`` has the layout of rows, arrays and maps. Types come from the logical types; the
nested serializers and the Java objects repeat them and are kept unchanged. Top-level fields have no names: f0, f1, ...
Flink: the classes of these names in ``org.apache.flink.table.runtime.typeutils``.

A row has the bytes of a RAW field as BINARY; its nested serializer, whose snapshot is stored with the type, decodes
them. A RAW<NULL> is the placeholder for a view (DISTINCT, MapView, ListView) whose entries are in a separate state: it
is NULL, and is written as Flink does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Flags,
    Ints,
    Longs,
    binary_array,
    binary_parts,
    filled_values,
    refuse_nulls,
    refuse_where,
    scatter,
    struct_array,
    valid_rows,
)
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.encodings import I32
from pyspark_savepoint.formats.java_stream import skip_java_object
from pyspark_savepoint.formats.serializers.base import (
    CompositeSerializer,
    SnapshotReader,
    TypeSerializer,
    expect_version,
    quoted,
    write_nested,
)
from pyspark_savepoint.formats.serializers.basic.declared import DeclaredSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import ConstantSerializer, read_numbers, write_numbers
from pyspark_savepoint.formats.serializers.layout import Layout
from pyspark_savepoint.formats.serializers.registry import register
from pyspark_savepoint.formats.serializers.sql.binary_data import (
    CONTAINERS,
    read_fields,
    row_kinds,
    row_sizes,
    write_fields,
)
from pyspark_savepoint.formats.serializers.sql.logical_types import EmbeddedType, LogicalType, arrow_type
from pyspark_savepoint.formats.serializers.sql.slots import copy_spans
from pyspark_savepoint.formats.structs import part, struct_with_dict

RAW_VALUE = "org.apache.flink.table.runtime.typeutils.RawValueDataSerializer$RawValueDataSerializerSnapshot"


def content_of(serializer: TypeSerializer) -> TypeSerializer | None:
    """Return the serializer of the values of a RAW type; None if it is another type, or if they stay bytes."""
    if serializer.snapshot_class != RAW_VALUE or not isinstance(serializer, CompositeSerializer):
        return None
    (content,) = serializer.nested
    return None if content.opaque_parts() else content


def content_type(content: TypeSerializer, options: DecodeOptions) -> pa.DataType:
    """Return the column type of the values; BINARY for those that are always null."""
    kind = content.arrow_type(options)
    return pa.binary() if pa.types.is_null(kind) else kind


def read_content(content: TypeSerializer, column: pa.Array, at: Cursors) -> pa.Array:
    """Decode the values of a column of bytes."""
    valid = valid_rows(column)
    offsets, data = binary_parts(column.filter(pa.array(valid)) if column.null_count else column)
    inner = Cursors(np.array(data), offsets[:-1].copy(), offsets[1:].copy(), at.origin, at.options, at.path)
    values = content.decode(inner)
    inner.expect_end()
    if pa.types.is_null(values.type):
        return pa.nulls(len(column), pa.binary())
    return scatter(values, valid)


def content_bytes(content: TypeSerializer, column: pa.Array) -> pa.Array:
    """Return the bytes of a column of values; a column that already has the bytes is returned unchanged."""
    always_null = isinstance(content, ConstantSerializer)
    is_blob = pa.types.is_binary(column.type) and not pa.types.is_binary(content.arrow_type(DecodeOptions()))
    if is_blob and not (always_null and column.null_count):
        return column
    if always_null:
        column = pa.nulls(len(column), content.arrow_type(DecodeOptions()))
    valid: Flags = np.ones(len(column), np.bool_) if always_null else valid_rows(column)
    values = column.filter(pa.array(valid))
    sizes = content.sizes(values)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    at = Cursors(np.zeros(int(offsets[-1]), np.uint8), offsets[:-1].copy(), offsets[1:])
    content.encode(values, at)
    at.expect_end()
    return scatter(binary_array(pa.binary(), offsets.astype(np.int32), at.buffer), valid)


def field_type(serializer: TypeSerializer, kind: pa.DataType, options: DecodeOptions) -> pa.DataType:
    """Return the column type of a field with the values of RAW types."""
    content = content_of(serializer)
    if content is not None:
        return content_type(content, options)
    if not has_content(serializer) or not pa.types.is_struct(kind):
        return kind
    return pa.struct(
        [
            field.with_type(field_type(child, field.type, options))
            for field, child in zip(kind, serializer.children, strict=True)
        ]
    )


def read_field(serializer: TypeSerializer, column: pa.Array, at: Cursors) -> pa.Array:
    """Return a field with the values of RAW types."""
    content = content_of(serializer)
    if content is not None:
        return read_content(content, column, at)
    if not has_content(serializer) or not pa.types.is_struct(column.type):
        return column
    parts = [read_field(child, column.field(index), at) for index, child in enumerate(serializer.children)]
    return _struct(column, parts)


def field_bytes(serializer: TypeSerializer, column: pa.Array) -> pa.Array:
    """Return a field with the bytes of RAW types."""
    content = content_of(serializer)
    if content is not None:
        return content_bytes(content, column)
    if not has_content(serializer) or not pa.types.is_struct(column.type):
        return column
    parts = [field_bytes(child, part) for child, part in zip(serializer.children, column.flatten(), strict=True)]
    return _struct(column, parts)


def _struct(column: pa.Array, parts: list[pa.Array]) -> pa.Array:
    """Return a struct column with other fields."""
    kind = pa.struct([field.with_type(part.type) for field, part in zip(column.type, parts, strict=True)])
    return struct_array(kind, parts, len(column), valid_rows(column) if column.null_count else None)


def has_content(serializer: TypeSerializer) -> bool:
    """Return whether a field of a row is of a RAW type whose values are known, or a row with such a field."""
    if serializer.snapshot_class.endswith("RowDataSerializer$RowDataSerializerSnapshot"):
        return any(map(has_content, serializer.children))
    return content_of(serializer) is not None


TYPEUTILS = "org.apache.flink.table.runtime.typeutils."
ROW_DATA = TYPEUTILS + "RowDataSerializer$RowDataSerializerSnapshot"
ARRAY_DATA = TYPEUTILS + "ArrayDataSerializer$ArrayDataSerializerSnapshot"
MAP_DATA = TYPEUTILS + "MapDataSerializer$MapDataSerializerSnapshot"
ROW_KINDS = ("+I", "-U", "+U", "-D")
ROW_KIND = "__row_kind"


@dataclass(frozen=True)
class SizedSerializer(TypeSerializer):
    """Serializer of values with their size before them, a big-endian int."""

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.BLOCK, 1)

    def spans(self, at: Cursors) -> Cursors:
        """Return cursors over the bytes after the size; ``at`` moves past them."""
        sizes = read_numbers(at, "read_i32", np.int32, f"the size of a {self.flink_type}").astype(np.int64)
        beyond = np.flatnonzero((sizes < 0) | (sizes > at.end - at.position))
        if len(beyond):
            at.fail(int(beyond[0]), f"the size of a {self.flink_type}", int(sizes[beyond[0]]))
        start = at.position.copy()
        at.position += sizes
        return at.at(start, at.position.copy())


def start_values(sizes: Longs, at: Cursors) -> Longs:
    """Write the sizes, and zeros for the values; return the starts of the values. The cursors move past them."""
    from pyspark_savepoint.formats.kernels import binaryrow

    write_numbers(sizes.astype(np.int32), at)
    start = at.position.copy()
    at.position += sizes
    binaryrow.fill_zero(at.buffer, start, at.position)
    return start


def murmur_hash(spans: Cursors) -> Ints:
    """Return Flink's Murmur hash of the bytes that the cursors span."""
    from pyspark_savepoint.formats.kernels import binaryrow

    hashes = np.empty(len(spans), np.int32)
    binaryrow.murmur(spans.buffer, spans.position, spans.end, hashes)
    return hashes


def everything(column: pa.Array) -> Flags:
    """Return a mask of all rows."""
    return np.ones(len(column), np.bool_)


@register(ROW_DATA)
@dataclass(frozen=True)
class RowDataSerializer(SizedSerializer):
    """Serializer of ROWDATA<...>: rows of SQL.

    ``generated`` selects how rows with nulls are written: as by Flink's generated code, which writes all keys, or as by
    the serializer itself. It is not part of the snapshot. Both forms are read the same way, but their hashes differ.
    """

    fields: tuple[EmbeddedType, ...]
    nested: tuple[TypeSerializer, ...]
    generated: bool = field(default=False, compare=False)
    #: Field names set by the user; not part of the snapshot.
    field_names: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Read the streams of the types, then the nested serializers."""
        expect_version(name, version, (3,), reader)
        count = reader.view.read_count("fields of a row", each=5)
        fields = tuple(reader.once(EmbeddedType.read) for _ in range(count))
        return cls(name, version, fields, reader.nested(count))

    def write_payload(self, view: DataOutputView) -> None:
        view.write_i32(len(self.fields))
        for embedded in self.fields:
            view.write(embedded.stream)
        write_nested(self.nested, view)

    def as_key(self) -> RowDataSerializer:
        """Return the serializer that writes rows as keys, in the form of generated code."""
        return replace(self, generated=True)

    @property
    def kinds(self) -> tuple[LogicalType, ...]:
        return tuple(embedded.kind for embedded in self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """Field names: f0, f1, ... unless the user set others."""
        return self.field_names or tuple(f"f{index}" for index in range(len(self.fields)))

    @cached_property
    def raw_fields(self) -> dict[int, TypeSerializer]:
        """Return the serializers of fields that are, or have inside, RAW values of known content."""
        return {index: field for index, field in enumerate(self.nested) if has_content(field)}

    @property
    def flink_type(self) -> str:
        """ROWDATA<STRING, INT NOT NULL>, or ROWDATA<name STRING, age INT NOT NULL> if the user set names."""
        kinds = [str(kind) for kind in self.kinds]
        if self.field_names:
            kinds = [f"{quoted(name)} {kind}" for name, kind in zip(self.field_names, kinds, strict=True)]
        return f"ROWDATA<{', '.join(kinds)}>"

    @property
    def children(self) -> tuple[TypeSerializer, ...]:
        return self.nested

    def opaque_parts(self) -> list[TypeSerializer]:
        """Return the row if a field has an unknown type; a RAW field of unknown content is BINARY."""
        return [] if all(kind.stored for kind in self.kinds) else [self]

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        types = [arrow_type(kind, options) for kind in self.kinds]
        for index, serializer in self.raw_fields.items():
            types[index] = field_type(serializer, types[index], options)
        kind = [(ROW_KIND, pa.string())] if options.row_kind else []
        return pa.struct([*zip(self.names, types, strict=True), *kind])

    def decode(self, at: Cursors) -> pa.Array:
        """Read field by field, each for all rows."""
        if self.opaque_parts():
            raise self._refuse("decoded").with_facts(**at.origin.facts())
        rows = self.spans(at)
        valid = np.ones(len(rows), np.bool_)
        columns = read_fields(self.kinds, self.names, rows, valid)
        for index, serializer in self.raw_fields.items():
            columns[index] = read_field(serializer, columns[index], at)
        if at.options.row_kind:
            kinds = row_kinds(rows, valid)
            columns.append(pa.array(ROW_KINDS, pa.string()).take(pa.array(kinds)))
        return struct_array(self.arrow_type(at.options), columns, len(rows))

    def _parts(self, column: pa.Array) -> tuple[list[pa.Array], Ints]:
        """Return the fields and the kinds of rows to write."""
        refuse_nulls(column, self.flink_type)
        parts = column.flatten()
        for index, serializer in self.raw_fields.items():
            parts[index] = field_bytes(serializer, parts[index])
        if len(parts) == len(self.fields):
            return parts, np.zeros(len(column), np.int32)
        kinds = filled_values(pc.index_in(parts[-1], pa.array(ROW_KINDS)), np.int32, -1)
        refuse_where(kinds < 0, parts[-1], "a row kind: " + ", ".join(ROW_KINDS), f"set {ROW_KIND} to one of them")
        return parts[:-1], kinds

    def sizes(self, column: pa.Array) -> Longs:
        parts, _ = self._parts(column)
        return 4 + row_sizes(self.kinds, self.names, parts, everything(column), self.generated)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        start = start_values(self.sizes(column) - 4, at)
        parts, kinds = self._parts(column)
        at.buffer[start] = kinds
        write_fields(self.kinds, parts, at.buffer, start, everything(column), self.generated)

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``BinaryRowData.hashCode``: the hash of the bytes of the row as a key."""
        valid = valid_rows(column)
        rows = column.filter(pa.array(valid))
        key = self.as_key()
        sizes = key.sizes(rows)
        ends = np.cumsum(sizes)
        at = Cursors(np.zeros(int(sizes.sum()), np.uint8), ends - sizes, ends)
        starts = at.position + 4
        key.encode(rows, at)
        hashes = np.zeros(len(column), np.int32)
        hashes[valid] = murmur_hash(at.at(starts, ends))
        return hashes


@register(TYPEUTILS + "BinaryRowDataSerializer$BinaryRowDataSerializerSnapshot")
@struct_with_dict
class BinaryRowDataSerializer(SizedSerializer, DeclaredSerializer):
    """Serializer of BINARY_ROWDATA, which becomes BINARY: the snapshot has the number of fields but no types."""

    fields: int = part(I32, "the number of fields")

    @property
    def flink_type(self) -> str:
        return f"BINARY_ROWDATA({self.fields})"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def decode(self, at: Cursors) -> pa.Array:
        spans = self.spans(at)
        return copy_spans(pa.binary(), spans, np.ones(len(spans), np.bool_))

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        return np.diff(binary_parts(column)[0]) + 4

    def encode(self, column: pa.Array, at: Cursors) -> None:
        write_blobs(column, at)

    def java_hash(self, column: pa.Array) -> Ints:
        return hash_blobs(column)


def write_blobs(column: pa.Array, at: Cursors) -> None:
    """Write size and bytes of every row of a utf8 or binary column."""
    from pyspark_savepoint.formats.kernels import numbers

    offsets, data = binary_parts(column)
    write_numbers(np.diff(offsets).astype(np.int32), at)
    numbers.write_bytes(at.buffer, at.position, offsets, data)


def hash_blobs(column: pa.Array) -> Ints:
    """Return Flink's hash of the bytes of a utf8 or binary column, 0 where null."""
    offsets, data = binary_parts(column)
    hashes = murmur_hash(Cursors(data, offsets[:-1], offsets[1:]))
    hashes[~valid_rows(column)] = 0
    return hashes


@register(ARRAY_DATA, MAP_DATA)
@dataclass(frozen=True)
class CollectionDataSerializer(SizedSerializer):
    """Serializer of an array or a map of SQL; the Java objects in its snapshot are kept as bytes."""

    kinds: tuple[EmbeddedType, ...]
    objects: tuple[bytes, ...]

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Read types, then serializers, all of them Java object streams."""
        expect_version(name, version, (3,), reader)
        count = 2 if name == MAP_DATA else 1
        kinds = tuple(reader.once(EmbeddedType.read) for _ in range(count))
        return cls(name, version, kinds, tuple(reader.once(skip_java_object) for _ in range(count)))

    def write_payload(self, view: DataOutputView) -> None:
        for embedded in self.kinds:
            view.write(embedded.stream)
        for stream in self.objects:
            view.write(stream)

    @property
    def kind(self) -> LogicalType:
        """The logical type of the whole value."""
        root = "MAP" if self.snapshot_class == MAP_DATA else "ARRAY"
        return LogicalType(root, children=tuple(embedded.kind for embedded in self.kinds))

    @property
    def flink_type(self) -> str:
        """ARRAYDATA<INT> or MAPDATA<STRING, INT>."""
        return f"{self.kind.root}DATA<{', '.join(map(str, self.kind.children))}>"

    def opaque_parts(self) -> list[TypeSerializer]:
        """Return the serializer itself if a type is unknown."""
        return [] if self.kind.stored else [self]

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return arrow_type(self.kind, options)

    def decode(self, at: Cursors) -> pa.Array:
        """Read the elements of all rows together."""
        if self.opaque_parts():
            raise self._refuse("decoded").with_facts(**at.origin.facts())
        spans = self.spans(at)
        return CONTAINERS[self.kind.root].read_column(self.kind, spans, np.ones(len(spans), np.bool_))

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        return 4 + CONTAINERS[self.kind.root].sizes(self.kind, column, everything(column))

    def encode(self, column: pa.Array, at: Cursors) -> None:
        start = start_values(self.sizes(column) - 4, at)
        CONTAINERS[self.kind.root].write_column(self.kind, column, at.buffer, start, everything(column))
