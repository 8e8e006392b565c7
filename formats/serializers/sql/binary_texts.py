"""Slots of SQL's strings, bytes and variants.

    CHAR, VARCHAR, BINARY, VARBINARY   up to 7 bytes: in the slot, byte 7 is 80 + length; else u32 length, u32 offset
    RAW, BITMAP                        u32 length, u32 offset
    VARIANT                            u32 length, u32 offset of: i32 (big-endian) length of metadata, metadata, value

Strings are UTF-8. Flink: ``BinarySegmentUtils``, ``AbstractBinaryWriter``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, Flags, Longs, binary_array, binary_parts, struct_array
from pyspark_savepoint.formats.serializers.basic.primitives import read_numbers
from pyspark_savepoint.formats.serializers.basic.strings import expect_utf8, refuse_size
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType, arrow_type
from pyspark_savepoint.formats.serializers.sql.slots import RowWriter, SlotOutput, Slots, Wide, first_row


@dataclass(frozen=True)
class BytesCodec(Wide):
    """Codec of strings and bytes; with ``in_place`` short ones are in the slot itself."""

    in_place: bool = True
    text: bool = False

    def read(self, kind: LogicalType, slots: Slots) -> pa.Array:
        """Copy the bytes out of the buffer; strings must be UTF-8."""
        starts, stops = slots.extents(self.in_place)
        column = copy_spans(self._type, slots.at.at(starts, stops), slots.valid)
        if self.text:
            check_utf8(column, slots.at)
        return column

    @property
    def _type(self) -> pa.DataType:
        return pa.string() if self.text else pa.binary()

    def variable(self, kind: LogicalType, column: pa.Array, target: RowWriter) -> Longs:
        """Return the number of bytes that do not fit the slot."""
        sizes = np.diff(binary_parts(column)[0])
        if self.in_place:
            sizes = np.where(sizes > 7, sizes, 0)
        return np.where(target.valid, sizes, 0)

    def write(self, kind: LogicalType, column: pa.Array, target: SlotOutput) -> None:
        from pyspark_savepoint.formats.kernels.values import binaryrow

        if self.text:
            expect_utf8(column)
        offsets, data = binary_parts(column)
        sizes = np.diff(offsets)
        inside = target.valid & (sizes <= 7) if self.in_place else np.zeros(len(column), np.bool_)
        outside = target.valid & ~inside
        target.put_extent(sizes, outside)
        binaryrow.put_le(target.buffer, target.place, (sizes | 0x80) << 56, 8, inside)
        binaryrow.put_spans(target.buffer, np.where(inside, target.place, target.free), data, offsets, target.valid)


def copy_spans(kind: pa.DataType, spans: Cursors, valid: Flags) -> pa.Array:
    """Return a column of the bytes between the cursors and their ends."""
    from pyspark_savepoint.formats.kernels.values import fixed

    offsets = np.zeros(len(spans) + 1, np.int64)
    np.cumsum(spans.end - spans.position, out=offsets[1:])
    over = int(np.searchsorted(offsets, 2**31))
    if over < len(offsets):
        refuse_size(spans, over - 1)
    data = np.empty(int(offsets[-1]), np.uint8)
    fixed.copy_spans(spans.buffer, spans.position, offsets, data)
    return binary_array(kind, offsets.astype(np.int32), data, valid)


def check_utf8(column: pa.Array, at: Cursors) -> None:
    """Raise CorruptStateError for the first string that is not UTF-8."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        offsets, data = binary_parts(column)
        for row in range(len(column)):
            value = data[offsets[row] : offsets[row + 1]].tobytes()
            try:
                value.decode("utf-8")
            except UnicodeDecodeError:
                at.fail(row, "a text in UTF-8", value[:32].hex(" "))
        raise


class VariantCodec(Wide):
    """Codec of variants: length of the metadata (big-endian), metadata, value."""

    def read(self, kind: LogicalType, slots: Slots) -> pa.Array:
        """Read structs of value and metadata."""
        starts, stops = slots.extents()
        spans = slots.at.at(starts, stops)
        inner = spans.select(slots.valid)
        sizes = read_numbers(inner, "read_i32", np.int32, "a variant")
        inner.check(first_row((sizes < 0) | (sizes > inner.end - inner.position)), "the metadata of a variant")
        middle = stops.copy()
        middle[slots.valid] = inner.position + sizes
        starts[slots.valid] = inner.position
        every = np.ones(len(spans), np.bool_)
        metadata = copy_spans(pa.binary(), spans.at(starts, middle), every)
        value = copy_spans(pa.binary(), spans.at(middle, stops), every)
        return struct_array(arrow_type(kind, slots.at.options), [value, metadata], len(spans), slots.valid)

    def variable(self, kind: LogicalType, column: pa.Array, target: RowWriter) -> Longs:
        sizes = sum(np.diff(binary_parts(part)[0]) for part in column.flatten())
        return np.where(target.valid, sizes + np.int64(4), 0)

    def write(self, kind: LogicalType, column: pa.Array, target: SlotOutput) -> None:
        from pyspark_savepoint.formats.kernels.values import binaryrow

        value, metadata = (binary_parts(part) for part in column.flatten())
        first = np.diff(metadata[0])
        target.put_extent(first + np.diff(value[0]) + 4, target.valid)
        target.put(first.astype(np.int32).byteswap(), 4, target.free)
        binaryrow.put_spans(target.buffer, target.free + 4, metadata[1], metadata[0], target.valid)
        binaryrow.put_spans(target.buffer, target.free + 4 + first, value[1], value[0], target.valid)
