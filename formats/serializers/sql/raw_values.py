"""Values of SQL's RAW types: bytes of a nested serializer, whose snapshot is stored with the type.

A row has the bytes of a RAW field as BINARY; its nested serializer decodes them. A RAW<NULL> is the placeholder for a
view (DISTINCT, MapView, ListView) whose entries are in a separate state: it is NULL, and is written as Flink does.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Flags,
    binary_array,
    binary_parts,
    scatter,
    struct_array,
    valid_rows,
)
from pyspark_savepoint.formats.serializers.base import CompositeSerializer, TypeSerializer
from pyspark_savepoint.formats.serializers.basic.constants import ConstantSerializer

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
