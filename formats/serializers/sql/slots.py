"""Slots of binary rows and arrays, and the protocol of the codecs that read and write them.

A slot is in a container, which is a row or an array. Offsets in slots count from the start of the container and
point to its variable part; lengths and offsets are checked against the container. Slots of nulls are not read.

    BOOLEAN .. DOUBLE, DATE, TIME, INTERVAL YEAR TO MONTH   slot: 1, 2, 4 or 8 bytes, little-endian
    DECIMAL(p)    slot: p <= 18: i64 unscaled; else u32 length, u32 offset of 16 bytes: the big-endian number first
    TIMESTAMP(p), TIMESTAMP_LTZ(p)   slot: p <= 3: i64 millis; else u32 nanos of the milli, u32 offset of i64 millis
    INTERVAL DAY TO SECOND           slot: i64 millis
    CHAR, VARCHAR, BINARY, VARBINARY   up to 7 bytes: in the slot, byte 7 is 80 + length; else u32 length, u32 offset
    RAW, BITMAP                        u32 length, u32 offset
    VARIANT                            u32 length, u32 offset of: i32 (big-endian) length of metadata, metadata, value

Decimals are unscaled integers. Milliseconds become microseconds in columns; the option ``timestamps`` controls values
that microseconds or Spark's years cannot hold. Strings are UTF-8. Flink: ``BinaryRowData``, ``DecimalData``,
``TimestampData``, ``BinarySegmentUtils``, ``AbstractBinaryWriter``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Bytes,
    Cursors,
    Flags,
    Longs,
    binary_array,
    binary_parts,
    bool_array,
    fixed_array,
    fixed_values,
    refuse_where,
    struct_array,
    true_rows,
)
from pyspark_savepoint.formats.serializers.basic.primitives import read_numbers
from pyspark_savepoint.formats.serializers.basic.strings import expect_utf8, refuse_size
from pyspark_savepoint.formats.serializers.sql.logical_types import RAW_TIMESTAMP, LogicalType, arrow_type


@dataclass(slots=True)
class Slots:
    """Slots to read: one per row at ``place``, in containers that ``at`` spans.

    ``budget[owner]`` is the number of bytes that the slots of container ``owner`` may still point to.
    """

    at: Cursors
    place: Longs
    valid: Flags
    owner: Longs
    budget: Longs

    def extents(self, in_place: bool = False) -> tuple[Longs, Longs]:
        """Return start and end of the bytes of every value; empty where not valid."""
        from pyspark_savepoint.formats.kernels import binaryrow

        at = self.at
        starts, stops = np.empty_like(self.place), np.empty_like(self.place)
        row = binaryrow.read_extents(
            at.buffer,
            self.place,
            at.position,
            at.end,
            self.valid,
            in_place,
            self.owner,
            self.budget,
            starts,
            stops,
        )
        at.check(row, "a length and an offset within the binary row")
        return starts, stops

    def numbers(self, width: int) -> Longs:
        """Return the slots as signed numbers; 0 where not valid."""
        from pyspark_savepoint.formats.kernels import binaryrow

        out = np.empty(len(self.place), np.int64)
        binaryrow.read_le(self.at.buffer, self.place, self.valid, width, out)
        return out

    def first(self, bad: Flags) -> int:
        """Return the first row that is valid and marked, or -1."""
        return first_row(bad & self.valid)


@dataclass(slots=True)
class SlotOutput:
    """Slots to write: ``free`` is the next byte of each container's variable part, ``present`` whether it exists.

    ``generated``: write as Flink's generated code does (all keys), which reserves the bytes of null values.
    """

    buffer: Bytes
    place: Longs
    base: Longs
    free: Longs
    valid: Flags
    present: Flags
    generated: bool = False

    def put(self, values: npt.NDArray[Any], width: int = 8, place: Longs | None = None) -> None:
        """Write little-endian numbers into the slots, or at ``place``."""
        from pyspark_savepoint.formats.kernels import binaryrow

        where = self.place if place is None else place
        binaryrow.put_le(self.buffer, where, values.astype(np.int64), width, self.valid)

    def put_extent(self, low: npt.NDArray[Any], rows: Flags) -> None:
        """Write ``low`` and the offset of the variable part into the slots."""
        from pyspark_savepoint.formats.kernels import binaryrow

        binaryrow.put_le(self.buffer, self.place, low | (self.free - self.base) << 32, 8, rows)


class SlotCodec(Protocol):
    """Codec of the slots of some type roots. ``width`` applies to arrays; in a row all slots have 8 bytes."""

    def width(self, kind: LogicalType) -> int:
        """Return the bytes of a slot in an array."""

    def read(self, kind: LogicalType, slots: Slots) -> pa.Array:
        """Read a column."""

    def variable(self, kind: LogicalType, column: pa.Array, target: RowWriter) -> Longs:
        """Return the bytes of the variable part, before padding."""

    def write(self, kind: LogicalType, column: pa.Array, target: SlotOutput) -> None:
        """Write a column."""


@dataclass(slots=True)
class RowWriter:
    """Rows of a column to write: those that are in a container, and those of them that are not null."""

    present: Flags
    valid: Flags
    generated: bool


class Wide:
    """Mixin of codecs whose slots have eight bytes in arrays too."""

    def width(self, kind: LogicalType) -> int:
        return 8


class InSlot:
    """Mixin of codecs whose values fit their slots."""

    def variable(self, kind: LogicalType, column: pa.Array, target: RowWriter) -> Longs:
        return np.zeros(len(column), np.int64)


def first_row(bad: Flags) -> int:
    """Return the first marked row, or -1."""
    rows = np.flatnonzero(bad)
    return int(rows[0]) if len(rows) else -1


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
        target.put(true_rows(column).astype(np.int64), 1)


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
        from pyspark_savepoint.formats.kernels import binaryrow

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
    from pyspark_savepoint.formats.kernels import binaryrow

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


#: Spark's timestamps: 0001-01-01 to 9999-12-31, in milliseconds.
FIRST_MILLI, LAST_MILLI = -62_135_596_800_000, 253_402_300_799_999
MAX_INTERVAL_MILLI = (2**63 - 1) // 1000
TRUNCATE = 'use option("timestamps", "truncate") to cut finer digits, or "raw" to read the numbers that Flink stores'
RAW = 'use option("timestamps", "raw") to read the numbers that Flink stores'


class DayTimeIntervalCodec(Wide, InSlot):
    """Codec of INTERVAL DAY TO SECOND: milliseconds."""

    def read(self, kind: LogicalType, slots: Slots) -> pa.Array:
        """Return microseconds; with ``timestamps=raw`` the stored numbers."""
        millis = slots.numbers(8)
        if slots.at.options.timestamps == "raw":
            return fixed_array(pa.int64(), millis, slots.valid)
        row = slots.first((millis > MAX_INTERVAL_MILLI) | (millis < -MAX_INTERVAL_MILLI))
        if row >= 0:
            slots.at.out_of_range(row, f"an interval of {int(millis[row])} ms is too long for microseconds", RAW)
        return fixed_array(pa.duration("us"), millis * 1000, slots.valid)

    def write(self, kind: LogicalType, column: pa.Array, target: SlotOutput) -> None:
        values = fixed_values(column, np.int64)
        if pa.types.is_duration(column.type):
            refuse_where((values % 1000 != 0) & target.valid, column, f"whole milliseconds for {kind}", "round them")
            values = values // 1000
        target.put(values)


class TimestampCodec(Wide):
    """Codec of timestamps: milliseconds, and nanoseconds of the millisecond if the precision is above 3."""

    def read(self, kind: LogicalType, slots: Slots) -> pa.Array:
        """Return microseconds; with ``timestamps=raw`` the stored numbers."""
        from pyspark_savepoint.formats.kernels import binaryrow

        at = slots.at
        if kind.compact:
            return timestamps(kind, slots.numbers(8), None, slots.valid, at)
        millis, nanos = np.empty_like(slots.place), np.empty_like(slots.place)
        row = binaryrow.read_indirect(at.buffer, slots.place, at.position, at.end, slots.valid, millis, nanos)
        at.check(row, "the offset of a timestamp within the binary row")
        return timestamps(kind, millis, nanos, slots.valid, at)

    def variable(self, kind: LogicalType, column: pa.Array, target: RowWriter) -> Longs:
        """Return the bytes of the milliseconds; generated code reserves them for nulls too."""
        if kind.compact:
            return np.zeros(len(column), np.int64)
        return np.where(target.present if target.generated else target.valid, 8, 0).astype(np.int64)

    def write(self, kind: LogicalType, column: pa.Array, target: SlotOutput) -> None:
        millis, nanos = timestamp_parts(kind, column, target.valid)
        if kind.compact:
            target.put(millis)
            return
        target.put_extent(np.where(target.valid, nanos, 0), target.present if target.generated else target.valid)
        target.put(millis, place=target.free)


def timestamps(kind: LogicalType, millis: Longs, nanos: Longs | None, valid: Flags, at: Cursors) -> pa.Array:
    """Return a column of timestamps by the option ``timestamps``; ``nanos`` are those of the millisecond."""
    mode = at.options.timestamps
    if nanos is not None:
        at.check(first_row(valid & ((nanos < 0) | (nanos > 999_999))), "nanoseconds of a millisecond: 0 to 999999")
    if mode == "raw":
        first = fixed_array(pa.int64(), millis, valid)
        if nanos is None:
            return first
        second = fixed_array(pa.int32(), nanos.astype(np.int32), valid)
        return struct_array(RAW_TIMESTAMP, [first, second], len(millis), valid)
    row = first_row(valid & ((millis < FIRST_MILLI) | (millis > LAST_MILLI)))
    if row >= 0:
        at.out_of_range(row, f"a timestamp of {int(millis[row])} ms is outside the years 1 to 9999", RAW)
    micros = np.where(valid, millis, 0) * 1000
    if nanos is not None:
        row = first_row(valid & (nanos % 1000 != 0)) if mode == "micros" else -1
        if row >= 0:
            at.out_of_range(row, f"a timestamp with {int(nanos[row])} ns is finer than microseconds", TRUNCATE)
        micros = micros + nanos // 1000
    return fixed_array(arrow_type(kind, at.options), micros, valid)


def timestamp_parts(kind: LogicalType, column: pa.Array, valid: Flags) -> tuple[Longs, Longs]:
    """Return milliseconds and nanoseconds of the millisecond of a column of timestamps, or of raw numbers."""
    if pa.types.is_struct(column.type):
        millis, nanos = column.field("millis"), column.field("nanos")
        return fixed_values(millis, np.int64), fixed_values(nanos, np.int32).astype(np.int64)
    values = fixed_values(column, np.int64)
    if pa.types.is_int64(column.type):
        return values, np.zeros(len(values), np.int64)
    millis = values // 1000
    nanos = (values - millis * 1000) * 1000
    if kind.compact:
        refuse_where((nanos != 0) & valid, column, f"whole milliseconds for {kind}", "truncate the timestamps")
    return millis, nanos


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
        from pyspark_savepoint.formats.kernels import binaryrow

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
    from pyspark_savepoint.formats.kernels import numbers

    offsets = np.zeros(len(spans) + 1, np.int64)
    np.cumsum(spans.end - spans.position, out=offsets[1:])
    over = int(np.searchsorted(offsets, 2**31))
    if over < len(offsets):
        refuse_size(spans, over - 1)
    data = np.empty(int(offsets[-1]), np.uint8)
    numbers.copy_spans(spans.buffer, spans.position, offsets, data)
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
        from pyspark_savepoint.formats.kernels import binaryrow

        value, metadata = (binary_parts(part) for part in column.flatten())
        first = np.diff(metadata[0])
        target.put_extent(first + np.diff(value[0]) + 4, target.valid)
        target.put(first.astype(np.int32).byteswap(), 4, target.free)
        binaryrow.put_spans(target.buffer, target.free + 4, metadata[1], metadata[0], target.valid)
        binaryrow.put_spans(target.buffer, target.free + 4 + first, value[1], value[0], target.valid)
