"""Parts of values as Beam's coders write them, in the nested context.

    varint          7 bits per byte, the lowest first           VarInt (of 32 bits, unsigned)  VarLong
    StringUtf8      varint n  n bytes                           ByteArray, ByteBuffer
    BigEndian...    i16, i32, i64     Double, Float, Boolean, Byte
    Instant         i64 milliseconds, the sign bit inverted     Duration: varint of milliseconds
    LengthPrefix    varint n  value[n bytes]
    Kv              key  value        Nullable   u8, 1 value    Map   i32 n  (key  value)[n]
    Iterable        i32 n  element[n], or i32 -1  (varint n  element[n])*  varint 0       List, Collection, Set
    TimestampedValue  value  Instant
    WindowedValue   Instant  i32 n  window[n]  pane  value      of it alone the value: ValueOnlyWindowedValue
    IntervalWindow  Instant of the end  varint of the length    GlobalWindow: nothing
    pane            u8, whose upper half says how many varints follow: 0, 1, 2
    TimerData       StringUtf8 id, family, namespace  Instant  Instant  StringUtf8 domain

Instants are BIGINT milliseconds, because Beam's first and last ones are beyond the years of Spark. Beam:
``org.apache.beam.sdk.coders``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Bytes,
    Cursors,
    DecodeOptions,
    Longs,
    binary_parts,
    fixed_array,
    fixed_values,
    list_array,
    refuse_nulls,
    scatter,
)
from pyspark_savepoint.formats.errors import UndecodableStateError
from pyspark_savepoint.formats.serializers.basic.blobs import block_sizes, read_blocks, write_blocks
from pyspark_savepoint.formats.serializers.basic.java_math import BIG_DECIMAL, BIG_INTEGER, BigNumberSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import read_numbers, write_numbers
from pyspark_savepoint.formats.serializers.basic.shapes import Fields, Repeated
from pyspark_savepoint.formats.serializers.layout import UNKNOWN, Layout, Part, decode_elements

#: Most elements without bytes that a list has: windows of a value, such as the global one.
MOST_EMPTY = 16
SIGN = np.int64(-(1 << 63))


class Leaf:
    """Part whose values have no fixed layout that compiled code knows; ``decode`` finds their ends."""

    flink_type: ClassVar[str]
    arrow: ClassVar[pa.DataType]

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.arrow

    def layout(self, layout: Layout) -> int:
        return UNKNOWN


def read_varints(at: Cursors, what: str) -> Longs:
    """Read a varint per row, of at most 64 bits."""
    values = np.zeros(len(at), np.uint64)
    active = np.arange(len(at))
    for shift in range(0, 70, 7):
        position = at.position[active]
        short = np.flatnonzero(position >= at.end[active])
        if len(short):
            at.fail(int(active[short[0]]), what, "the end")
        byte = at.buffer[position].astype(np.uint64)
        if shift == 63 and np.any(byte > 1):
            at.fail(int(active[int((byte > 1).argmax())]), f"{what} of 64 bits")
        values[active] |= (byte & np.uint64(0x7F)) << np.uint64(shift)
        at.position[active] += 1
        active = active[byte >= 0x80]
        if not len(active):
            break
    return values.view(np.int64)


def varint_sizes(values: Longs) -> Longs:
    """Return how many bytes a varint of each value has."""
    bits = values.view(np.uint64)
    sizes: Longs = np.ones(len(bits), np.int64)
    for shift in range(7, 64, 7):
        sizes += (bits >> np.uint64(shift)) > 0
    return sizes


def write_varints(values: Longs, at: Cursors) -> None:
    """Write a varint per row."""
    rest = values.view(np.uint64).copy()
    active = np.arange(len(rest))
    while len(active):
        more = rest[active] > 0x7F
        at.buffer[at.position[active]] = (rest[active] & np.uint64(0x7F)).astype(np.uint8) | (
            more.astype(np.uint8) << 7
        )
        at.position[active] += 1
        rest[active] >>= np.uint64(7)
        active = active[more]


@dataclass(frozen=True)
class VarLong(Leaf):
    """A varint: of 64 bits, or of the 32 bits of an int."""

    int_: bool = False

    @property
    def flink_type(self) -> str:  # type: ignore[override]
        return "BEAM_VARINT" if self.int_ else "BEAM_VARLONG"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.int32() if self.int_ else pa.int64()

    def decode(self, at: Cursors) -> pa.Array:
        start = at.at(at.position.copy(), at.end)
        values = read_varints(at, "a varint")
        if not self.int_:
            return fixed_array(pa.int64(), values)
        wrong = np.flatnonzero((values < 0) | (values >= 1 << 32))
        start.check(int(wrong[0]) if len(wrong) else -1, "a varint of 32 bits")
        return fixed_array(pa.int32(), values.astype(np.uint32).view(np.int32))

    def _bits(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        if self.int_:
            return fixed_values(column, np.int32).astype(np.int32).view(np.uint32).astype(np.int64)
        return np.ascontiguousarray(fixed_values(column, np.int64))

    def sizes(self, column: pa.Array) -> Longs:
        return varint_sizes(self._bits(column))

    def encode(self, column: pa.Array, at: Cursors) -> None:
        write_varints(self._bits(column), at)


def read_size(at: Cursors, what: str) -> Longs:
    """Read a varint per row: a number of bytes that must follow."""
    sizes = read_varints(at, f"the length of {what}")
    wrong = np.flatnonzero((sizes < 0) | (sizes > at.end - at.position))
    at.check(int(wrong[0]) if len(wrong) else -1, "as many bytes as its length")
    return sizes


def big_endian(numbers: Longs, width: int) -> Bytes:
    """Return the last bytes of each number, the highest first, as a row of a matrix."""
    return numbers.astype(">i8").view(np.uint8).reshape(-1, 8)[:, 8 - width :]


def decode_framed(part: Part, at: Cursors, before: Longs, blocks: pa.Array, after: Longs | None = None) -> pa.Array:
    """Decode values that another part knows: of each row an i32, its bytes, and another i32."""
    offsets, data = binary_parts(blocks)
    sizes = np.diff(offsets).astype(np.int64)
    end = np.cumsum(sizes + (4 if after is None else 8))
    start = end - sizes - (4 if after is None else 8)
    buffer = np.empty(int(end[-1]) if len(end) else 0, np.uint8)
    buffer[start[:, None] + np.arange(4)] = big_endian(before, 4)
    content = np.repeat(start + 4 - offsets[:-1], sizes) + np.arange(int(offsets[0]), int(offsets[-1]))
    buffer[content] = data[offsets[0] : offsets[-1]]
    if after is not None:
        buffer[end[:, None] - 4 + np.arange(4)] = big_endian(after, 4)
    framed = Cursors(buffer, start, end, at.origin, at.options, at.path)
    column = part.decode(framed)
    framed.expect_end()
    return column


@dataclass(frozen=True)
class Blocks(Leaf):
    """A varint, and that many bytes: of a text, or of a byte array."""

    text: bool = False

    @property
    def flink_type(self) -> str:  # type: ignore[override]
        return "BEAM_STRING_UTF8" if self.text else "BEAM_BYTES"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string() if self.text else pa.binary()

    def decode(self, at: Cursors) -> pa.Array:
        start = at.at(at.position.copy(), at.end)
        column = read_blocks(at, read_size(at, f"a value of {self.flink_type}"))
        if not self.text:
            return column
        texts = column.view(pa.string())
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            for row, value in enumerate(column.to_pylist()):
                try:
                    value.decode("utf-8")
                except UnicodeDecodeError:
                    start.fail(row, "text in UTF-8", "other bytes")
        return texts

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        lengths = block_sizes(column)
        return lengths + varint_sizes(lengths)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        write_varints(np.ascontiguousarray(block_sizes(column)), at)
        write_blocks(column, at)


@dataclass(frozen=True)
class Number(Leaf):
    """A number of constant width."""

    name: str
    kernel: str
    dtype: Any
    kind: pa.DataType

    @property
    def flink_type(self) -> str:  # type: ignore[override]
        return f"BEAM_{self.name}"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.kind

    def decode(self, at: Cursors) -> pa.Array:
        return pa.array(read_numbers(at, self.kernel, self.dtype, self.flink_type), self.kind)

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        return np.full(len(column), np.dtype(self.dtype).itemsize, np.int64)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        write_numbers(fixed_values(column, self.dtype), at)


@dataclass(frozen=True)
class Instant(Leaf):
    """Milliseconds since 1970 that sort as their bytes do."""

    flink_type: ClassVar[str] = "BEAM_INSTANT"
    arrow: ClassVar[pa.DataType] = pa.int64()

    def decode(self, at: Cursors) -> pa.Array:
        return fixed_array(pa.int64(), read_numbers(at, "read_i64", np.int64, self.flink_type) ^ SIGN)

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        return np.full(len(column), 8, np.int64)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        write_numbers(fixed_values(column, np.int64) ^ SIGN, at)


@dataclass(frozen=True)
class Nothing(Leaf):
    """A value without bytes."""

    name: str

    @property
    def flink_type(self) -> str:  # type: ignore[override]
        return f"BEAM_{self.name}"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.null()

    def decode(self, at: Cursors) -> pa.Array:
        return pa.nulls(len(at))

    def sizes(self, column: pa.Array) -> Longs:
        return np.zeros(len(column), np.int64)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        """Write nothing."""


def refuse_to_write(flink_type: str) -> NoReturn:
    """Raise UndecodableStateError: values are read only."""
    raise UndecodableStateError(f"values of {flink_type} are not written, because Beam has several forms of them")


class ReadOnly:
    """Part that is read, and not written."""

    @property
    def flink_type(self) -> str:
        """The name of the type."""
        raise NotImplementedError

    def layout(self, layout: Layout) -> int:
        return UNKNOWN

    def sizes(self, column: pa.Array) -> Longs:
        refuse_to_write(self.flink_type)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        self.sizes(column)


@dataclass(frozen=True)
class Nullable(ReadOnly):
    """A flag, and a value if it is 1."""

    part: Part

    @property
    def flink_type(self) -> str:
        return f"BEAM_NULLABLE<{self.part.flink_type}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.part.arrow_type(options)

    def decode(self, at: Cursors) -> pa.Array:
        present = read_numbers(at, "read_flags", np.bool_, "whether a value is present")
        here = at.select(present)
        column = self.part.decode(here)
        at.update(present, here)
        return scatter(column, np.asarray(present))


@dataclass(frozen=True)
class Big(ReadOnly):
    """A BigInteger: its bytes; or a BigDecimal: its scale, and those of the unscaled number."""

    scaled: bool = False

    @property
    def part(self) -> Part:
        return BigNumberSerializer.of(BIG_DECIMAL if self.scaled else BIG_INTEGER)

    @property
    def flink_type(self) -> str:
        return "BEAM_BIG_DECIMAL" if self.scaled else "BEAM_BIG_INTEGER"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.part.arrow_type(options)

    def decode(self, at: Cursors) -> pa.Array:
        start = at.at(at.position.copy(), at.end)
        scales = read_varints(at, "the scale of a number") if self.scaled else None
        if scales is not None:
            wrong = np.flatnonzero((scales < 0) | (scales >= 1 << 32))
            start.check(int(wrong[0]) if len(wrong) else -1, "a scale of 32 bits")
        blocks = read_blocks(at, read_size(at, f"a value of {self.flink_type}"))
        sizes = block_sizes(blocks)
        start.check(int(sizes.argmin()) if len(sizes) and not sizes.all() else -1, "a number of one byte or more")
        return decode_framed(self.part, at, sizes + 4, blocks, scales)


@dataclass(frozen=True)
class Prefixed(ReadOnly):
    """The number of bytes, and a value that has so many."""

    part: Part

    @property
    def flink_type(self) -> str:
        return f"BEAM_PREFIXED<{self.part.flink_type}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.part.arrow_type(options)

    def decode(self, at: Cursors) -> pa.Array:
        start = at.at(at.position.copy(), at.end)
        sizes = read_size(at, "a value")
        inner = at.at(at.position.copy(), at.position + sizes)
        column = self.part.decode(inner)
        left = np.flatnonzero(inner.position != inner.end)
        start.check(int(left[0]) if len(left) else -1, "a value of as many bytes as its length")
        at.position[:] = inner.end
        return column


@dataclass(frozen=True)
class Elements(ReadOnly):
    """A number and that many elements; or, of an iterable without a size, pieces of them up to one without any."""

    part: Part

    @property
    def flink_type(self) -> str:
        return f"BEAM_ITERABLE<{self.part.flink_type}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.list_(pa.field("element", self.part.arrow_type(options)))

    def decode(self, at: Cursors) -> pa.Array:
        if isinstance(self.part, Nothing):
            return self._empty(at, self.part)
        start = at.position.copy()
        sized = read_numbers(at, "read_i32", np.int32, "the number of elements") != -1
        at.position[:] = start
        if sized.all():
            return Repeated(self.part).decode(at)
        here = at.select(sized)
        counted = Repeated(self.part).decode(here)
        at.update(sized, here)
        return _merged(counted, [self._pieces(at, int(row)) for row in np.flatnonzero(~sized)], np.asarray(sized))

    def _empty(self, at: Cursors, part: Nothing) -> pa.Array:
        """Return lists of elements without bytes, of which there cannot be many."""
        start = at.at(at.position.copy(), at.end)
        counts = read_numbers(at, "read_i32", np.int32, "the number of elements").astype(np.int64)
        wrong = np.flatnonzero((counts < 0) | (counts > MOST_EMPTY))
        start.check(int(wrong[0]) if len(wrong) else -1, f"0 to {MOST_EMPTY} elements without bytes")
        return list_array(self.arrow_type(at.options), counts, pa.nulls(int(counts.sum())))

    def _pieces(self, at: Cursors, row: int) -> pa.Array:
        here = at.select(np.array([row]))
        here.position += 4
        pieces: list[pa.Array] = []
        room = int(here.end[0] - here.position[0])
        while count := int(read_varints(here, "a number of elements")[0]):
            room -= count if count > 0 else room + 1
            if room < 0:
                here.fail(0, "a number of elements that there is room for", count)
            pieces.append(decode_elements(self.part, here, np.array([count], np.int64)))
        at.update(np.array([row]), here)
        items = pa.concat_arrays(pieces) if pieces else pa.nulls(0, self.part.arrow_type(at.options))
        return list_array(self.arrow_type(at.options), np.array([len(items)], np.int64), items)


def _merged(counted: pa.Array, others: list[pa.Array], sized: Any) -> pa.Array:
    """Return the rows of both columns in order."""
    both = pa.concat_arrays([counted, *others])
    places = np.empty(len(sized), np.int64)
    places[sized] = np.arange(len(counted))
    places[~sized] = len(counted) + np.arange(len(others))
    return both.take(pa.array(places))


@dataclass(frozen=True)
class Pane(ReadOnly):
    """Information about a pane: which firings, and its numbers."""

    TIMINGS: ClassVar[tuple[str, ...]] = ("EARLY", "ON_TIME", "LATE", "UNKNOWN")

    @property
    def flink_type(self) -> str:
        return "BEAM_PANE"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.struct(
            [
                ("is_first", pa.bool_()),
                ("is_last", pa.bool_()),
                ("timing", pa.string()),
                ("index", pa.int64()),
                ("on_time_index", pa.int64()),
            ]
        )

    def decode(self, at: Cursors) -> pa.Array:
        start = at.at(at.position.copy(), at.end)
        byte = read_numbers(at, "read_i8", np.int8, self.flink_type).view(np.uint8)
        numbers = byte >> 4
        wrong = np.flatnonzero(numbers > 2)
        start.check(int(wrong[0]) if len(wrong) else -1, "a pane with at most two numbers")
        index, on_time = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
        for least, into in ((1, index), (2, on_time)):
            rows = np.flatnonzero(numbers >= least)
            here = at.select(rows)
            into[rows] = read_varints(here, "the number of a pane")
            at.update(rows, here)
        on_time = np.where(numbers == 1, index, on_time)
        timings = pa.array(self.TIMINGS).take(pa.array(((byte >> 2) & 3).astype(np.int64)))
        flags = [pa.array((byte & bit) != 0) for bit in (1, 2)]
        columns = [*flags, timings, fixed_array(pa.int64(), index), fixed_array(pa.int64(), on_time)]
        return pa.StructArray.from_arrays(columns, fields=list(self.arrow_type(at.options)))


NUMBERS = {
    number.name: number
    for number in (
        Number("SHORT", "read_i16", np.int16, pa.int16()),
        Number("INT", "read_i32", np.int32, pa.int32()),
        Number("LONG", "read_i64", np.int64, pa.int64()),
        Number("DOUBLE", "read_i64", np.float64, pa.float64()),
        Number("FLOAT", "read_i32", np.float32, pa.float32()),
        Number("BYTE", "read_i8", np.int8, pa.int8()),
        Number("BOOLEAN", "read_flags", np.bool_, pa.bool_()),
    )
}
INSTANT = Instant()
TEXT, DATA = Blocks(text=True), Blocks()
LONG_ = VarLong()
INTERVAL = Fields(("end", "length"), (INSTANT, LONG_))
