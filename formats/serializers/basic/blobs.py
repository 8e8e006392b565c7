"""Serializers of byte blocks with their length before them, which become BINARY.

    BytePrimitiveArray    i32 n  n bytes              byte[]
    ByteValueArray        i32 n  n bytes              Gelly
    ByteArrayWrapper      i32 n  n bytes              keys of PyFlink's map states
    Bitmap                i32 n  n bytes              a Roaring bitmap, since Flink 2.3
    Variant               i32 v  i32 m  v bytes of value  m bytes of metadata     since Flink 2.1

A Variant is a struct of two BINARY fields, the physical form of Spark's variants. Flink:
``BytePrimitiveArraySerializer``, ``ByteArrayWrapperSerializer``, ``BitmapSerializer``, ``VariantSerializer``.

Parts of values whose ends are known may be blocks, too: a field without a known end reaches to the end of the value. If
only the user's code can find the end of a field, all bytes from its start on are one BINARY (:class:`Rest`), and the
fields after it are null (:class:`AfterRest`). ``open_ended.py`` determines these fields.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NoReturn

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import variant
from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Ints,
    Longs,
    binary_array,
    binary_parts,
    refuse_nulls,
    scatter,
    struct_array,
    valid_rows,
)
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import UndecodableStateError
from pyspark_savepoint.formats.pickle_walker import decode_pyflink
from pyspark_savepoint.formats.serializers.base import SnapshotReader, TypeSerializer
from pyspark_savepoint.formats.serializers.basic.arrays import gather_blocks, primitive_array, value_array
from pyspark_savepoint.formats.serializers.basic.primitives import BASE, SimpleSerializer, read_numbers, write_numbers
from pyspark_savepoint.formats.serializers.basic.shapes import Flagged, Shaped, bounded_counts, hash_in_order
from pyspark_savepoint.formats.serializers.layout import UNKNOWN, Layout, Part
from pyspark_savepoint.formats.serializers.registry import register

BYTES = primitive_array("Byte")
BLOCKS = {
    BYTES: "PRIMITIVE_ARRAY<BYTE>",
    value_array("Byte"): "VALUE_ARRAY<BYTE>",
    "org.apache.flink.streaming.api.utils.ByteArrayWrapperSerializer$ByteArrayWrapperSerializerSnapshot": (
        "BYTE_ARRAY_WRAPPER"
    ),
    f"{BASE}BitmapSerializer$BitmapSerializerSnapshot": "BITMAP",
}


def read_blocks(at: Cursors, sizes: Longs) -> pa.Array:
    """Read ``sizes`` bytes at every cursor as BINARY."""
    offsets, block = gather_blocks(at, sizes)
    return binary_array(pa.binary(), offsets, block)


def write_blocks(column: pa.Array, at: Cursors) -> None:
    """Write the bytes of every row."""
    from pyspark_savepoint.formats.kernels import numbers

    numbers.write_bytes(at.buffer, at.position, *binary_parts(column))


def block_sizes(column: pa.Array) -> Longs:
    """Return the number of bytes of every row."""
    return np.diff(binary_parts(column)[0])


@dataclass(frozen=True)
class BlockSerializer(SimpleSerializer):
    """Base class of serializers of a length and that many bytes."""

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.BLOCK, 1)

    def _blocks(self, at: Cursors) -> pa.Array:
        return read_blocks(at, bounded_counts(self, "bytes", at, lambda room: room))

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        return block_sizes(column) + 4

    def encode(self, column: pa.Array, at: Cursors) -> None:
        write_numbers(block_sizes(column).astype(np.int32), at)
        write_blocks(column, at)


@register(*BLOCKS)
@dataclass(frozen=True)
class BytesSerializer(BlockSerializer):
    """Serializer of byte arrays."""

    @property
    def flink_type(self) -> str:
        """PRIMITIVE_ARRAY<BYTE>, VALUE_ARRAY<BYTE>, BYTE_ARRAY_WRAPPER or BITMAP."""
        return BLOCKS[self.snapshot_class]

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return BINARY; VARIANT with the option ``pickle``, for values that PyFlink pickled."""
        return variant.VARIANT if self._pickled(options) else pa.binary()

    def _pickled(self, options: DecodeOptions) -> bool:
        return options.pickle and self.snapshot_class == BYTES

    def decode(self, at: Cursors) -> pa.Array:
        column = self._blocks(at)
        return decode_pyflink(column) if self._pickled(at.options) else column

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``Arrays.hashCode`` of a byte[], for byte arrays in rows."""
        if self.snapshot_class != BYTES:
            return super().java_hash(column)
        offsets, data = binary_parts(column)
        elements = data[offsets[0] : offsets[-1]].view(np.int8).astype(np.int32)
        return np.where(valid_rows(column), hash_in_order(elements, np.diff(offsets)), 0).astype(np.int32)


@register(f"{BASE}VariantSerializer$VariantSerializerSnapshot")
@dataclass(frozen=True)
class VariantSerializer(SimpleSerializer):
    """Serializer of VARIANT: value and metadata in the encoding of Parquet and Spark."""

    flink_type: ClassVar[str] = "VARIANT"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return variant.VARIANT

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.EXTENT, 1)

    def decode(self, at: Cursors) -> pa.Array:
        sizes = bounded_counts(self, "bytes of a value", at, lambda room: room - 4)
        others = read_numbers(at, "read_i32", np.int32, "the bytes of metadata").astype(np.int64)
        wrong = np.flatnonzero((others < 0) | (sizes + others > at.end - at.position))
        at.check(int(wrong[0]) if len(wrong) else -1, "the bytes of value and metadata")
        return struct_array(variant.VARIANT, [read_blocks(at, sizes), read_blocks(at, others)], len(at))

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        sizes = np.full(len(column), 8, np.int64)
        for index in (0, 1):
            refuse_nulls(column.field(index), f"a field of {self.flink_type}")
            sizes += block_sizes(column.field(index))
        return sizes

    def encode(self, column: pa.Array, at: Cursors) -> None:
        parts = [column.field(0), column.field(1)]
        for part in parts:
            write_numbers(block_sizes(part).astype(np.int32), at)
        for part in parts:
            write_blocks(part, at)


@dataclass(frozen=True)
class OpenPart(ABC):
    """Part that is only read: the fields of a value that is cut have no bytes of their own to write."""

    part: Part

    @property
    def flink_type(self) -> str:
        return self.part.flink_type

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.part.arrow_type(options)

    def layout(self, layout: Layout) -> int:
        return UNKNOWN

    @abstractmethod
    def decode(self, at: Cursors) -> pa.Array:
        """Read one value per cursor."""

    def sizes(self, column: pa.Array) -> Longs:
        self._refuse()

    def encode(self, column: pa.Array, at: Cursors) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UndecodableStateError(f"values with a part of {self.flink_type} that is not decoded cannot be written")


@dataclass(frozen=True)
class Rest(OpenPart):
    """Field that only the user's code can read, with all bytes after it."""

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def decode(self, at: Cursors) -> pa.Array:
        return read_blocks(at, at.end - at.position)


@dataclass(frozen=True)
class AfterRest(OpenPart):
    """Part after one that may take all remaining bytes; null if it has taken them."""

    def decode(self, at: Cursors) -> pa.Array:
        remaining = at.position < at.end
        if remaining.all():
            return self.part.decode(at)
        present = at.select(remaining)
        column = self.part.decode(present)
        at.update(remaining, present)
        return scatter(column, np.asarray(remaining))

    def flagged(self) -> AfterRest:
        """Return the part preceded by a null flag, which is also missing if all bytes are taken."""
        return AfterRest(Flagged(self.part))


@dataclass(frozen=True)
class PartSerializer(Shaped):
    """Serializer of a field as one of these parts; its snapshot is that of the field's own serializer."""

    inner: TypeSerializer
    part: OpenPart

    @classmethod
    def of(cls, inner: TypeSerializer, part: OpenPart) -> PartSerializer:
        """Return the serializer of a field that is read as a part."""
        return cls(inner.snapshot_class, inner.snapshot_version, inner, part)

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Read the snapshot of the field's own serializer."""
        return reader.versioned()

    def write_payload(self, view: DataOutputView) -> None:
        self.inner.write_payload(view)

    @property
    def flink_type(self) -> str:
        return self.inner.flink_type

    @property
    def shape(self) -> Part:
        return self.part
