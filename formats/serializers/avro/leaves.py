"""Codecs of scalar Avro values, as Flink's own encoder writes them: all numbers big-endian, without zig-zag.

    null -    bytes, string  i32 n, n bytes    fixed  its bytes    enum  i32 index of the symbol

Logical types: decimal (unscaled, two's complement) becomes DECIMAL, date DATE, timestamps TIMESTAMP, local timestamps
TIMESTAMP_NTZ. Not all versions of Spark have a time of day, so time-millis and time-micros become BIGINT. Numbers
without a logical type are ``primitives.NumberSerializer``. Flink: ``DataInputDecoder``, ``DataOutputEncoder``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Flags,
    Longs,
    binary_parts,
    fixed_array,
    fixed_values,
    refuse_nulls,
    refuse_where,
    valid_rows,
)
from pyspark_savepoint.formats.serializers.basic.primitives import read_numbers, write_numbers
from pyspark_savepoint.formats.serializers.basic.shapes import bounded_counts
from pyspark_savepoint.formats.serializers.basic.strings import expect_utf8
from pyspark_savepoint.formats.serializers.basic.temporal import (
    MAX_DAYS,
    MIN_DAYS,
    NANOS_PER_SECOND,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    micros_of,
    millis_to_micros,
    refuse_beyond,
    seconds_to_micros,
    timestamps,
)
from pyspark_savepoint.formats.serializers.layout import Layout
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType
from pyspark_savepoint.formats.serializers.sql.slots import check_utf8, copy_spans, decimal_halves, wide_decimals


@dataclass(frozen=True)
class AvroNull:
    """Codec of null, which has no bytes."""

    @property
    def flink_type(self) -> str:
        return "AVRO<null>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.null()

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.FIXED, 0)

    def decode(self, at: Cursors) -> pa.Array:
        return pa.nulls(len(at))

    def sizes(self, column: pa.Array) -> Longs:
        return np.zeros(len(column), np.int64)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        """Write nothing."""


@dataclass(frozen=True)
class AvroBytes:
    """Codec of ``bytes``, of ``string`` with ``text``, or of ``fixed`` with ``size``."""

    text: bool = False
    size: int | None = None

    @property
    def flink_type(self) -> str:
        return "AVRO<string>" if self.text else "AVRO<bytes>" if self.size is None else f"AVRO<fixed({self.size})>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string() if self.text else pa.binary()

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.BLOCK, 1) if self.size is None else layout.add(skip.FIXED, self.size)

    def spans(self, at: Cursors) -> Cursors:
        """Return the spans of the bytes; the cursors move past them."""
        if self.size is None:
            sizes = bounded_counts(self, "bytes", at, lambda room: room)
        else:
            sizes = np.full(len(at), self.size, np.int64)
            short = np.flatnonzero(at.end - at.position < self.size)
            at.check(int(short[0]) if len(short) else -1, f"{self.size} bytes")
        spans = at.at(at.position.copy(), at.position + sizes)
        at.position += sizes
        return spans

    def decode(self, at: Cursors) -> pa.Array:
        """Copy the bytes of all rows into a column."""
        column = copy_spans(self.arrow_type(at.options), self.spans(at), np.ones(len(at), np.bool_))
        if self.text:
            check_utf8(column, at)
        return column

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        if self.text:
            expect_utf8(column)
        lengths = np.diff(binary_parts(column)[0])
        if self.size is None:
            return lengths + 4
        refuse_where(lengths != self.size, column, f"{self.size} bytes", "pad or cut the value")
        return lengths

    def encode(self, column: pa.Array, at: Cursors) -> None:
        from pyspark_savepoint.formats.kernels import numbers

        offsets, data = binary_parts(column)
        if self.size is None:
            write_numbers(np.diff(offsets).astype(np.int32), at)
        numbers.write_bytes(at.buffer, at.position, offsets, data)


@dataclass(frozen=True)
class AvroDecimal:
    """Codec of the logical type decimal, stored as bytes or fixed."""

    storage: AvroBytes
    precision: int
    scale: int

    @property
    def _kind(self) -> LogicalType:
        return LogicalType("DECIMAL", precision=self.precision, scale=self.scale)

    @property
    def flink_type(self) -> str:
        return f"AVRO<decimal({self.precision}, {self.scale})>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.decimal128(self.precision, self.scale)

    def layout(self, layout: Layout) -> int:
        return self.storage.layout(layout)

    def decode(self, at: Cursors) -> pa.Array:
        spans = self.storage.spans(at)
        empty = np.flatnonzero(spans.end == spans.position)
        at.check(int(empty[0]) if len(empty) else -1, f"at least one byte of {self.flink_type}")
        return wide_decimals(self._kind, spans, np.ones(len(at), np.bool_))

    def _widths(self, column: pa.Array) -> Longs:
        """Return the bytes of the shortest two's complement of every number."""
        from pyspark_savepoint.formats.kernels import binaryrow

        widths = np.zeros(len(column), np.int64)
        binaryrow.decimal_sizes(decimal_halves(column), widths)
        return widths

    def sizes(self, column: pa.Array) -> Longs:
        """Return the bytes of the shortest two's complement and its length, or the fixed size."""
        refuse_nulls(column, self.flink_type)
        widths = self._widths(column)
        if self.storage.size is None:
            return widths + 4
        size = self.storage.size
        refuse_where(widths > size, column, f"a number of at most {size} bytes", "cast to fewer digits")
        return np.full(len(column), size, np.int64)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        """Write one number per row; the sign fills the first bytes of a fixed size."""
        from pyspark_savepoint.formats.kernels import binaryrow, numbers

        widths = self._widths(column)
        halves = decimal_halves(column)
        if self.storage.size is None:
            write_numbers(widths.astype(np.int32), at)
        else:
            gaps = self.storage.size - widths
            signs = np.where(halves[:, 1] >> np.uint64(63), 0xFF, 0).astype(np.uint8)
            numbers.write_bytes(at.buffer, at.position, np.concatenate(([0], np.cumsum(gaps))), np.repeat(signs, gaps))
        binaryrow.put_decimals(at.buffer, at.position, halves, widths, np.ones(len(column), np.bool_))
        at.position += widths


@dataclass(frozen=True)
class AvroEnum:
    """Codec of enums: an index into the symbols of the schema."""

    symbols: tuple[str, ...]

    @property
    def flink_type(self) -> str:
        return f"AVRO<enum({', '.join(self.symbols)})>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.FIXED, 4)

    def decode(self, at: Cursors) -> pa.Array:
        index = read_numbers(at, "read_i32", np.int32, self.flink_type)
        wrong = np.flatnonzero((index < 0) | (index >= len(self.symbols)))
        if len(wrong):
            at.fail(int(wrong[0]), f"the index of one of {len(self.symbols)} symbols", int(index[wrong[0]]))
        return pa.array(self.symbols, pa.string()).take(pa.array(index))

    def _index(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        indices = pc.index_in(column, pa.array(self.symbols, pa.string()))
        refuse_where(~valid_rows(indices), column, f"one of {', '.join(self.symbols)}", "write symbols of the schema")
        index: Longs = indices.to_numpy().astype(np.int64)
        return index

    def sizes(self, column: pa.Array) -> Longs:
        return np.full(len(self._index(column)), 4, np.int64)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        write_numbers(self._index(column).astype(np.int32), at)


#: By logical type: bytes of the number, units per second (0: the unit is days), Arrow type.
TIMES: Mapping[str, tuple[int, int, pa.DataType]] = {
    "date": (4, 0, pa.date32()),
    "time-millis": (4, 1000, pa.int64()),
    "time-micros": (8, 1_000_000, pa.int64()),
    "timestamp-millis": (8, 1000, TIMESTAMP),
    "timestamp-micros": (8, 1_000_000, TIMESTAMP),
    "timestamp-nanos": (8, NANOS_PER_SECOND, TIMESTAMP),
    "local-timestamp-millis": (8, 1000, TIMESTAMP_NTZ),
    "local-timestamp-micros": (8, 1_000_000, TIMESTAMP_NTZ),
    "local-timestamp-nanos": (8, NANOS_PER_SECOND, TIMESTAMP_NTZ),
}


@dataclass(frozen=True)
class AvroTime:
    """Codec of logical types of days or fractions of a second; with ``timestamps=raw`` the column has the numbers."""

    logical: str

    @property
    def width(self) -> int:
        return TIMES[self.logical][0]

    @property
    def flink_type(self) -> str:
        return f"AVRO<{self.logical}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return DATE, TIMESTAMP or TIMESTAMP_NTZ; BIGINT for times of day and raw numbers."""
        return pa.int64() if options.timestamps == "raw" else TIMES[self.logical][2]

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.FIXED, self.width)

    def decode(self, at: Cursors) -> pa.Array:
        """Read the numbers and convert them to the type of the column."""
        kernel, dtype = ("read_i32", np.int32) if self.width == 4 else ("read_i64", np.int64)
        values = read_numbers(at, kernel, dtype, self.flink_type).astype(np.int64)
        kind = self.arrow_type(at.options)
        if kind == pa.int64():
            return fixed_array(kind, values)
        valid = np.ones(len(at), np.bool_)
        if kind == pa.date32():
            refuse_beyond(at, (values < MIN_DAYS) | (values > MAX_DAYS), "days since 1970", values)
            return fixed_array(kind, values.astype(np.int32))
        return timestamps(self._micros(at, values, valid), valid, kind)

    def _micros(self, at: Cursors, values: Longs, valid: Flags) -> Longs:
        units = TIMES[self.logical][1]
        if units == 1000:
            return millis_to_micros(at, values, valid)
        return seconds_to_micros(at, values // units, values % units * (NANOS_PER_SECOND // units), valid)

    def sizes(self, column: pa.Array) -> Longs:
        return np.full(len(self._numbers(column)), self.width, np.int64)

    def _numbers(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        if column.type == pa.date32():
            return fixed_values(column, np.int32).astype(np.int64)
        values, _ = micros_of(column)
        units = TIMES[self.logical][1]
        if column.type == pa.int64():
            if self.width == 4:
                refuse_where(values != values.astype(np.int32), column, "a number of 32 bits", "write a smaller number")
        elif units == 1000:
            refuse_where(values % 1000 != 0, column, "whole milliseconds", "round the times to whole milliseconds")
            values = values // 1000
        elif units == NANOS_PER_SECOND:
            far = np.abs(values // 1000) > (2**63 - 1) // 1_000_000
            refuse_where(far, column, f"a time within 292 years of 1970 for {self.logical}", "write an earlier time")
            values = values * 1000
        return values

    def encode(self, column: pa.Array, at: Cursors) -> None:
        values = self._numbers(column)
        write_numbers(values.astype(np.int32) if self.width == 4 else values, at)
