"""Serializers of SQL values outside rows: strings, decimals, timestamps, raw values; and those that wrap rows.

    serializer and version    snapshot                  value
    StringDataSerializer      -                         i32 n, UTF-8
    DecimalDataSerializer 3   i32 precision, i32 scale  precision <= 18: i64 unscaled; else i32 n, big-endian number
    TimestampDataSerializer 1 i32 precision             precision <= 3: i64 millis; else also i32 nanos of the milli
    RawValueDataSerializer    composite 0, one nested   i32 n, bytes of the nested serializer
    WindowKeySerializer       composite 1, key          i64 window, key
    ExternalSerializer        composite 1, data type stream, bool; nested internal serializer    as that serializer
    NodeSerializer ..         composite 0, parts        the parts in order
    RowDataKeySerializer 0    twice i32 n, stream (equaliser, hash function); serializer         as that serializer

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
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.encodings import BLOB, BOOL, I32, valid
from pyspark_savepoint.formats.serializers.base import CompositeSerializer, TypeSerializer, flink_fields
from pyspark_savepoint.formats.serializers.basic.declared import JAVA_OBJECT, SNAPSHOT, DeclaredSerializer
from pyspark_savepoint.formats.serializers.basic.kinds import Kind, ShapedKindSerializer, of_kind
from pyspark_savepoint.formats.serializers.basic.primitives import (
    BASE,
    NumberSerializer,
    SimpleSerializer,
    fold_long,
    read_numbers,
    write_numbers,
)
from pyspark_savepoint.formats.serializers.basic.shapes import Fields, WrappingSerializer
from pyspark_savepoint.formats.serializers.basic.strings import expect_utf8
from pyspark_savepoint.formats.serializers.layout import Layout
from pyspark_savepoint.formats.serializers.registry import register
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType, arrow_type
from pyspark_savepoint.formats.serializers.sql.rowdata import (
    RAW_VALUE,
    TYPEUTILS,
    SizedSerializer,
    content_bytes,
    content_of,
    content_type,
    everything,
    hash_blobs,
    read_content,
    write_blobs,
)
from pyspark_savepoint.formats.serializers.sql.slots import (
    check_utf8,
    compact_decimals,
    copy_spans,
    decimal_halves,
    timestamp_parts,
    timestamps,
    wide_decimals,
)
from pyspark_savepoint.formats.structs import part, struct_with_dict

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


def _check_digits(view: DataInputView, precision: int, scale: int) -> None:
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        view.fail("a decimal of 1 to 38 digits", f"DECIMAL({precision}, {scale})")


@register(DECIMAL_DATA)
@struct_with_dict
class DecimalDataSerializer(SizedSerializer, DeclaredSerializer):
    """Serializer of DECIMAL(p, s) outside a row. Its ``getLength`` is -1 even if all values have eight bytes."""

    precision: int = part(I32, "a precision")
    scale: int = part(I32, "a scale", check=_check_digits)

    @property
    def kind(self) -> LogicalType:
        return LogicalType("DECIMAL", precision=self.precision, scale=self.scale)

    @property
    def flink_type(self) -> str:
        return str(self.kind)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return arrow_type(self.kind, options)

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

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
        from pyspark_savepoint.formats.kernels import binaryrow

        refuse_nulls(column, self.flink_type)
        sizes = np.full(len(column), 4, np.int64)
        if not self.kind.compact:
            binaryrow.decimal_sizes(decimal_halves(column), sizes)
        return sizes + 4

    def encode(self, column: pa.Array, at: Cursors) -> None:
        from pyspark_savepoint.formats.kernels import binaryrow

        halves = decimal_halves(column)
        if self.kind.compact:
            write_numbers(np.ascontiguousarray(halves[:, 0]).view(np.int64), at)
            return
        sizes = self.sizes(column) - 4
        write_numbers(sizes.astype(np.int32), at)
        binaryrow.put_decimals(at.buffer, at.position, halves, sizes, everything(column))
        at.position += sizes


@register(TIMESTAMP_DATA)
@struct_with_dict
class TimestampDataSerializer(DeclaredSerializer):
    """Serializer of TIMESTAMP(p) outside a row; the snapshot does not record whether it has a time zone."""

    precision: int = part(valid(I32, range(10).__contains__, "a timestamp of 0 to 9 digits"), "a precision")
    snapshot_versions: ClassVar[tuple[int, ...]] = (1,)

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
        from pyspark_savepoint.formats.kernels import skip

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


#: Why no text can describe a type.
OF_SQL = "only Flink SQL creates it"
LINKED = "org.apache.flink.table.runtime.sequencedmultisetstate.linked."
LONG: TypeSerializer = NumberSerializer(f"{BASE}LongSerializer$LongSerializerSnapshot", 3)


def _sum_of_lengths(nested: tuple[TypeSerializer, ...]) -> int:
    lengths = [part.length for part in nested]
    return -1 if min(lengths) < 0 else sum(lengths)


def _linked(word: str, stem: str, *names: str) -> Kind:
    """Return the row of a part of a sequenced multiset: the ordered rows of upserts, since Flink 2.2."""
    return Kind(
        word,
        (f"{LINKED}{stem}Serializer${stem}SerializerSnapshot",),
        names,
        versions=(0,),
        shape=lambda nested: Fields(names, nested),
        notation=lambda nested: f"{word}<{flink_fields(names, nested)}>",
        length=_sum_of_lengths,
        no_text=OF_SQL,
    )


of_kind(
    # A window (its start or end, in milliseconds) and the key of a row.
    Kind(
        "WINDOW_KEY",
        (TYPEUTILS + "WindowKeySerializer$WindowKeySerializerSnapshot",),
        shape=lambda nested: Fields(("window", "key"), (LONG, nested[0])),
        no_text=OF_SQL,
    ),
    _linked("NODE", "Node", "row", "sqn", "prev_sqn", "next_sqn", "next_sqn_for_record", "timestamp"),
    _linked("ROW_SQN_INFO", "RowSqnInfo", "first_sqn", "last_sqn"),
    _linked("META_SQN_INFO", "MetaSqnInfo", "high_sqn", "size"),
)(ShapedKindSerializer)


@register(TYPEUTILS + "ExternalSerializer$ExternalSerializerSnapshot")
@dataclass(frozen=True)
class ExternalSerializer(WrappingSerializer, CompositeSerializer):
    """Serializer of objects of a user's class that are stored as SQL's internal data, by the nested serializer."""

    data_type: bytes = part(JAVA_OBJECT, default=b"")
    internal_input: bool = part(BOOL, "isInternalInput", default=False)


@register(LINKED + "RowDataKeySerializerSnapshot")
@struct_with_dict
class RowDataKeySerializer(WrappingSerializer, DeclaredSerializer):
    """Serializer of a row as map key; the generated code for equality and hash is kept as bytes and never run."""

    equaliser: bytes = part(BLOB, "an equaliser")
    hash_function: bytes = part(BLOB, "a hash")
    row: TypeSerializer = part(SNAPSHOT)
    snapshot_versions: ClassVar[tuple[int, ...]] = (0,)

    @property
    def children(self) -> tuple[TypeSerializer, ...]:
        return (self.row,)
