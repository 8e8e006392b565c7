"""Serializers of SQL values outside rows: strings, decimals, timestamps, raw values.

    serializer and version    snapshot                  value
    StringDataSerializer      -                         i32 n, UTF-8
    DecimalDataSerializer 3   i32 precision, i32 scale  precision <= 18: i64 unscaled; else i32 n, big-endian number
    TimestampDataSerializer 1 i32 precision             precision <= 3: i64 millis; else also i32 nanos of the milli
    RawValueDataSerializer    composite 0, one nested   i32 n, bytes of the nested serializer

Flink: the classes of these names in ``org.apache.flink.table.runtime``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Flags,
    Ints,
    Longs,
    binary_parts,
    refuse_nulls,
    valid_rows,
)
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.serializers.base import (
    CompositeSerializer,
    SnapshotReader,
    TypeSerializer,
    expect_version,
)
from pyspark_savepoint.formats.serializers.basic.primitives import (
    SimpleSerializer,
    fold_long,
    read_numbers,
    write_numbers,
)
from pyspark_savepoint.formats.serializers.basic.strings import expect_utf8
from pyspark_savepoint.formats.serializers.layout import Layout
from pyspark_savepoint.formats.serializers.registry import register
from pyspark_savepoint.formats.serializers.sql.binary_numbers import compact_decimals, decimal_halves, wide_decimals
from pyspark_savepoint.formats.serializers.sql.binary_texts import check_utf8, copy_spans
from pyspark_savepoint.formats.serializers.sql.binary_times import timestamp_parts, timestamps
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType, arrow_type
from pyspark_savepoint.formats.serializers.sql.raw_values import (
    RAW_VALUE,
    content_bytes,
    content_of,
    content_type,
    read_content,
)
from pyspark_savepoint.formats.serializers.sql.rowdata import (
    TYPEUTILS,
    SizedSerializer,
    everything,
    hash_blobs,
    write_blobs,
)

STRING_DATA = TYPEUTILS + "StringDataSerializer$StringDataSerializerSnapshot"
DECIMAL_DATA = TYPEUTILS + "DecimalDataSerializer$DecimalSerializerSnapshot"
TIMESTAMP_DATA = TYPEUTILS + "TimestampDataSerializer$TimestampDataSerializerSnapshot"


def _blob_sizes(column: pa.Array, flink_type: str) -> Longs:
    refuse_nulls(column, flink_type)
    return np.diff(binary_parts(column)[0]) + 4


@register(STRING_DATA)
@dataclass(frozen=True)
class StringDataSerializer(SizedSerializer, SimpleSerializer):
    """Serializer of STRINGDATA, which becomes STRING."""

    @property
    def flink_type(self) -> str:
        return "STRINGDATA"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def decode(self, at: Cursors) -> pa.Array:
        """Read the bytes after the size, which must be UTF-8."""
        spans = self.spans(at)
        column = copy_spans(pa.string(), spans, np.ones(len(spans), np.bool_))
        check_utf8(column, spans)
        return column

    def sizes(self, column: pa.Array) -> Longs:
        expect_utf8(column)
        return _blob_sizes(column, self.flink_type)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        write_blobs(column, at)

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``BinaryStringData.hashCode``, the hash of the bytes."""
        return hash_blobs(column)


@register(DECIMAL_DATA)
@dataclass(frozen=True)
class DecimalDataSerializer(SizedSerializer):
    """Serializer of DECIMAL(p, s) outside a row. Its ``getLength`` is -1 even if all values have eight bytes."""

    precision: int
    scale: int

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        expect_version(name, version, (3,), reader)
        precision, scale = reader.view.read_i32("a precision"), reader.view.read_i32("a scale")
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            reader.view.fail("a decimal of 1 to 38 digits", f"DECIMAL({precision}, {scale})")
        return cls(name, version, precision, scale)

    def write_payload(self, view: DataOutputView) -> None:
        view.write_i32(self.precision)
        view.write_i32(self.scale)

    @property
    def kind(self) -> LogicalType:
        return LogicalType("DECIMAL", precision=self.precision, scale=self.scale)

    @property
    def flink_type(self) -> str:
        return str(self.kind)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return arrow_type(self.kind, options)

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels.values import skip

        return layout.add(skip.FIXED, 8) if self.kind.compact else super().layout(layout)

    def decode(self, at: Cursors) -> pa.Array:
        valid = np.ones(len(at), np.bool_)
        if not self.kind.compact:
            return wide_decimals(self.kind, self.spans(at), valid)
        start = at.position.copy()
        values = read_numbers(at, "read_i64", np.int64, self.flink_type)
        return compact_decimals(self.kind, values, valid, at.at(start, at.end))

    def sizes(self, column: pa.Array) -> Longs:
        """Return eight, or the bytes of the size and of the shortest two's complement."""
        from pyspark_savepoint.formats.kernels.values import binaryrow

        refuse_nulls(column, self.flink_type)
        sizes = np.full(len(column), 4, np.int64)
        if not self.kind.compact:
            binaryrow.decimal_sizes(decimal_halves(column), sizes)
        return sizes + 4

    def encode(self, column: pa.Array, at: Cursors) -> None:
        from pyspark_savepoint.formats.kernels.values import binaryrow

        halves = decimal_halves(column)
        if self.kind.compact:
            write_numbers(np.ascontiguousarray(halves[:, 0]).view(np.int64), at)
            return
        sizes = self.sizes(column) - 4
        write_numbers(sizes.astype(np.int32), at)
        binaryrow.put_decimals(at.buffer, at.position, halves, sizes, everything(column))
        at.position += sizes


@register(TIMESTAMP_DATA)
@dataclass(frozen=True)
class TimestampDataSerializer(TypeSerializer):
    """Serializer of TIMESTAMP(p) outside a row; the snapshot does not record whether it has a time zone."""

    precision: int

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        expect_version(name, version, (1,), reader)
        precision = reader.view.read_i32("a precision")
        if not 0 <= precision <= 9:
            reader.view.fail("a timestamp of 0 to 9 digits", precision)
        return cls(name, version, precision)

    def write_payload(self, view: DataOutputView) -> None:
        view.write_i32(self.precision)

    @property
    def kind(self) -> LogicalType:
        return LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=self.precision)

    @property
    def flink_type(self) -> str:
        return str(self.kind)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return TIMESTAMP_NTZ; with ``timestamps=raw`` the stored numbers."""
        return arrow_type(self.kind, options)

    @property
    def length(self) -> int:
        return 8 if self.kind.compact else 12

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels.values import skip

        return layout.add(skip.FIXED, self.length)

    def decode(self, at: Cursors) -> pa.Array:
        """Read milliseconds, then nanoseconds if the precision is above 3."""
        start = at.at(at.position.copy(), at.end)
        millis = read_numbers(at, "read_i64", np.int64, self.flink_type)
        nanos = None
        if not self.kind.compact:
            nanos = read_numbers(at, "read_i32", np.int32, self.flink_type).astype(np.int64)
        return timestamps(self.kind, millis, nanos, np.ones(len(at), np.bool_), start)

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        timestamp_parts(self.kind, column, everything(column))
        return np.full(len(column), self.length, np.int64)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        millis, nanos = timestamp_parts(self.kind, column, everything(column))
        write_numbers(millis, at)
        if not self.kind.compact:
            write_numbers(nanos.astype(np.int32), at)

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``TimestampData.hashCode``: 31 times the hash of the milliseconds, plus the nanoseconds."""
        valid: Flags = valid_rows(column)
        millis, nanos = timestamp_parts(self.kind, column, valid)
        hashes = fold_long(millis).astype(np.int64) * 31 + nanos
        return np.where(valid, hashes, 0).astype(np.int32)


@register(RAW_VALUE)
@dataclass(frozen=True)
class RawValueDataSerializer(SizedSerializer, CompositeSerializer):
    """Serializer of RAW: the bytes of a nested serializer; BINARY if only the user's code can read them."""

    outer_versions: ClassVar[tuple[int, ...]] = (0,)

    @property
    def flink_type(self) -> str:
        return f"RAW<{self.nested[0].flink_type}>"

    def opaque_parts(self) -> list[TypeSerializer]:
        """Return nothing: the column is BINARY if the nested serializer is opaque."""
        return []

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        content = content_of(self)
        return pa.binary() if content is None else content_type(content, options)

    def decode(self, at: Cursors) -> pa.Array:
        spans = self.spans(at)
        column = copy_spans(pa.binary(), spans, np.ones(len(spans), np.bool_))
        content = content_of(self)
        return column if content is None else read_content(content, column, at)

    def sizes(self, column: pa.Array) -> Longs:
        return _blob_sizes(self._bytes(column), self.flink_type)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        write_blobs(self._bytes(column), at)

    def _bytes(self, column: pa.Array) -> pa.Array:
        content = content_of(self)
        return column if content is None else content_bytes(content, column)
