"""Slots of SQL's numbers; decimals are unscaled integers.

    BOOLEAN .. DOUBLE, DATE, TIME, INTERVAL YEAR TO MONTH   slot: 1, 2, 4 or 8 bytes, little-endian
    DECIMAL(p)    slot: p <= 18: i64 unscaled; else u32 length, u32 offset of 16 bytes: the big-endian number first

Flink: ``BinaryRowData``, ``DecimalData``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, Flags, Longs, bool_array, fixed_array, fixed_values
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType, arrow_type
from pyspark_savepoint.formats.serializers.sql.slots import InSlot, RowWriter, SlotOutput, Slots, Wide, first_row


@dataclass(frozen=True)
class NumberCodec(InSlot):
    """Codec of numbers, and of types stored as numbers, of one NumPy type."""

    dtype: Any

    def width(self, kind: LogicalType) -> int:
        return int(np.dtype(self.dtype).itemsize)

    def read(self, kind: LogicalType, slots: Slots) -> pa.Array:
        """Read the bits of every slot."""
        width = self.width(kind)
        values = slots.numbers(width).astype(f"i{width}").view(self.dtype)
        return fixed_array(arrow_type(kind, slots.at.options), values, slots.valid)

    def write(self, kind: LogicalType, column: pa.Array, target: SlotOutput) -> None:
        width = self.width(kind)
        target.put(fixed_values(column, self.dtype).view(f"i{width}"), width)


class BooleanCodec(InSlot):
    """Codec of booleans: one byte; as in Java, all values except 0 are true."""

    def width(self, kind: LogicalType) -> int:
        return 1

    def read(self, kind: LogicalType, slots: Slots) -> pa.Array:
        return bool_array(slots.numbers(1) != 0, slots.valid)

    def write(self, kind: LogicalType, column: pa.Array, target: SlotOutput) -> None:
        target.put(np.asarray(column.fill_null(False).to_numpy(zero_copy_only=False), np.int64), 1)


class NullCodec(Wide, InSlot):
    def read(self, kind: LogicalType, slots: Slots) -> pa.Array:
        return pa.nulls(len(slots.place))

    def write(self, kind: LogicalType, column: pa.Array, target: SlotOutput) -> None:
        """Write nothing: the null bit is set already."""


class DecimalCodec(Wide):
    def read(self, kind: LogicalType, slots: Slots) -> pa.Array:
        """Read one decimal per row; a number with more digits than the type allows is corrupt."""
        if kind.compact:
            return compact_decimals(kind, slots.numbers(8), slots.valid, slots.at)
        starts, stops = slots.extents()
        return wide_decimals(kind, slots.at.at(starts, stops), slots.valid)

    def variable(self, kind: LogicalType, column: pa.Array, target: RowWriter) -> Longs:
        """Return 16 bytes for every value; generated code reserves them for nulls too."""
        if kind.compact:
            return np.zeros(len(column), np.int64)
        return np.where(target.present if target.generated else target.valid, 16, 0).astype(np.int64)

    def write(self, kind: LogicalType, column: pa.Array, target: SlotOutput) -> None:
        from pyspark_savepoint.formats.kernels.values import binaryrow

        halves = decimal_halves(column)
        if kind.compact:
            target.put(np.ascontiguousarray(halves[:, 0]).view(np.int64))
            return
        sizes = np.zeros(len(column), np.int64)
        binaryrow.decimal_sizes(halves, sizes)
        sizes[~target.valid] = 0
        target.put_extent(sizes, target.present if target.generated else target.valid)
        binaryrow.put_decimals(target.buffer, target.free, halves, sizes, target.valid)


def compact_decimals(kind: LogicalType, values: Longs, valid: Flags, at: Cursors) -> pa.Array:
    """Return a column of decimals from longs."""
    most = 10**kind.precision - 1
    at.check(first_row(valid & ((values > most) | (values < -most))), f"an unscaled number of {kind}")
    halves = np.stack([values, values >> 63], axis=1)
    return fixed_array_of_halves(kind, halves, valid)


def wide_decimals(kind: LogicalType, spans: Cursors, valid: Flags) -> pa.Array:
    """Return a column of decimals from spans of big-endian two's complement."""
    from pyspark_savepoint.formats.kernels.values import binaryrow

    most = 10**kind.precision - 1
    halves = np.empty((len(valid), 2), np.uint64)
    row = binaryrow.read_decimals(
        spans.buffer, spans.position, spans.end, valid, np.uint64(most % 2**64), np.uint64(most >> 64), halves
    )
    spans.check(row, f"an unscaled number of {kind}")
    return fixed_array_of_halves(kind, halves, valid)


def fixed_array_of_halves(kind: LogicalType, halves: npt.NDArray[Any], valid: Flags) -> pa.Array:
    """Return decimals from their 64-bit halves, of shape (rows, 2), the low half first."""
    return fixed_array(pa.decimal128(kind.precision, kind.scale), halves.view("V16").reshape(-1), valid)


def decimal_halves(column: pa.Array) -> npt.NDArray[Any]:
    data = np.frombuffer(column.buffers()[1] or b"", np.uint64).reshape(-1, 2)
    return data[column.offset : column.offset + len(column)]
