"""Serializers of arrays of primitives and strings, and of Gelly's arrays of values.

    PrimitiveArray   i32 n  n elements, big-endian              boolean[] ... char[]; byte[] is in blobs.py
    StringArray      i32 n  n strings, which may be null        String[]
    ValueArray       as PrimitiveArray                          Gelly, up to Flink 1.x
    StringValueArray i32 n  i32 size  n StringValues in that many bytes
    NullValueArray   i32 n

Flink: ``BooleanPrimitiveArraySerializer`` ... ``CharPrimitiveArraySerializer``, ``StringArraySerializer``,
``org.apache.flink.graph.types.valuearray.*``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Bytes,
    Cursors,
    DecodeOptions,
    Ints,
    Longs,
    bool_array,
    fixed_array,
    fixed_values,
    list_array,
    refuse_nulls,
    true_rows,
    valid_rows,
)
from pyspark_savepoint.formats.serializers.basic.primitives import (
    BASE,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    NumberType,
    SimpleSerializer,
    double_bits,
    float_bits,
    read_numbers,
    write_numbers,
)
from pyspark_savepoint.formats.serializers.basic.shapes import (
    Repeated,
    Shaped,
    bounded_counts,
    encode_elements,
    hash_in_order,
    list_parts,
    sum_per_row,
)
from pyspark_savepoint.formats.serializers.basic.strings import (
    MAX_UTF8,
    STRING,
    STRING_VALUE,
    StringSerializer,
    characters,
    code_units,
    refuse_size,
    refuse_surrogate,
)
from pyspark_savepoint.formats.serializers.layout import Layout, decode_elements, expect_few_empty
from pyspark_savepoint.formats.serializers.registry import register

GELLY = "org.apache.flink.graph.types.valuearray."
STRING_ARRAY = f"{BASE}array.StringArraySerializer$StringArraySerializerSnapshot"

CHAR = NumberType("CHAR", "read_i16", np.uint16, pa.string(), lambda units: units.astype(np.int32))
ELEMENTS = {
    "Boolean": BOOLEAN,
    "Short": SHORT,
    "Int": INT,
    "Long": LONG,
    "Float": FLOAT,
    "Double": DOUBLE,
    "Char": CHAR,
}


def primitive_array(stem: str) -> str:
    """Return the snapshot class of a primitive array."""
    return f"{BASE}array.{stem}PrimitiveArraySerializer${stem}PrimitiveArraySerializerSnapshot"


def value_array(stem: str) -> str:
    """Return the snapshot class of one of Gelly's arrays."""
    return f"{GELLY}{stem}ValueArraySerializer${stem}ValueArraySerializerSnapshot"


ARRAYS = {primitive_array(stem): (kind, f"PRIMITIVE_ARRAY<{kind.flink_type}>") for stem, kind in ELEMENTS.items()} | {
    value_array(stem): (kind, f"VALUE_ARRAY<{kind.flink_type}>") for stem, kind in ELEMENTS.items()
}


def list_of(kind: pa.DataType) -> pa.DataType:
    """Return the list type, with its item field named ``element`` as in Spark."""
    return pa.list_(pa.field("element", kind))


def gather_blocks(at: Cursors, sizes: Longs) -> tuple[Longs, Bytes]:
    """Copy ``sizes`` bytes from every cursor into one buffer; return offsets and buffer."""
    from pyspark_savepoint.formats.kernels import numbers

    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    if offsets[-1] > MAX_UTF8:
        refuse_size(at, int(np.searchsorted(offsets, MAX_UTF8)) - 1)
    out = np.empty(int(offsets[-1]), np.uint8)
    numbers.copy_spans(at.buffer, at.position, offsets, out)
    at.position += sizes
    return offsets, out


@register(*ARRAYS)
@dataclass(frozen=True)
class PrimitiveArraySerializer(SimpleSerializer):
    """Serializer of PRIMITIVE_ARRAY<T> and VALUE_ARRAY<T>: no element is null, all have the same width."""

    @property
    def kind(self) -> NumberType:
        return ARRAYS[self.snapshot_class][0]

    @property
    def flink_type(self) -> str:
        """PRIMITIVE_ARRAY<T> or VALUE_ARRAY<T>."""
        return ARRAYS[self.snapshot_class][1]

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return int(np.dtype(self.kind.dtype).itemsize)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return list_of(self.kind.arrow)

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.BLOCK, self.width)

    def decode(self, at: Cursors) -> pa.Array:
        """Read the elements of all rows as one block."""
        start = at.at(at.position.copy(), at.end)
        counts = bounded_counts(self, "elements", at, lambda room: room // self.width)
        offsets, block = gather_blocks(at, counts * self.width)
        items, bad = self._items(block, at.options.text)
        if bad >= 0:
            row = int(np.searchsorted(offsets, bad * self.width, side="right")) - 1
            if self.kind is CHAR:
                refuse_surrogate(start, row)
            start.fail(row, "booleans, which are 0 or 1")
        return list_array(list_of(self.kind.arrow), counts, items)

    def _items(self, block: Bytes, text: str) -> tuple[pa.Array, int]:
        """Return the elements, and the position of the first invalid one or -1."""
        bits = f"{'u' if self.kind is CHAR else 'i'}{self.width}"
        numbers = block.view(f">{bits}").astype(bits)
        if self.kind is CHAR:
            return characters(numbers, text)
        if self.kind is BOOLEAN:
            wrong = np.flatnonzero((numbers != 0) & (numbers != 1))
            return bool_array(numbers == 1), int(wrong[0]) if len(wrong) else -1
        return fixed_array(self.kind.arrow, numbers), -1

    def _numbers(self, items: pa.Array) -> npt.NDArray[Any]:
        """Return the elements as numbers to write."""
        if self.kind is CHAR:
            return code_units(items)
        if self.kind is BOOLEAN:
            return true_rows(items).view(np.int8)
        values = fixed_values(items, self.kind.dtype)
        if self.kind is FLOAT:
            return float_bits(values)
        return double_bits(values) if self.kind is DOUBLE else values

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        counts, items = list_parts(column)
        refuse_nulls(items, f"an element of {self.flink_type}")
        return counts * self.width + 4

    def encode(self, column: pa.Array, at: Cursors) -> None:
        """Write the counts, then the elements of all rows as one block."""
        from pyspark_savepoint.formats.kernels import numbers

        counts, items = list_parts(column)
        flat = self._numbers(items)
        block = flat.astype(flat.dtype.newbyteorder(">")).view(np.uint8)
        write_numbers(counts.astype(np.int32), at)
        offsets = np.concatenate(([0], np.cumsum(counts * self.width)))
        numbers.write_bytes(at.buffer, at.position, offsets, block)

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``Arrays.hashCode``, for arrays in rows; Flink refuses an array as key."""
        if self.snapshot_class.startswith(GELLY):
            return super().java_hash(column)
        counts, items = list_parts(column)
        elements = code_units(items) if self.kind is CHAR else self._plain(items)
        return np.where(valid_rows(column), hash_in_order(self.kind.java_hash(elements), counts), 0).astype(np.int32)

    def _plain(self, items: pa.Array) -> npt.NDArray[Any]:
        return self._numbers(items) if self.kind is BOOLEAN else fixed_values(items, self.kind.dtype)


@register(STRING_ARRAY)
@dataclass(frozen=True)
class StringArraySerializer(Shaped, SimpleSerializer):
    """Serializer of BASIC_ARRAY<STRING>: ``String[]``, whose elements may be null."""

    shape: ClassVar[Repeated] = Repeated(StringSerializer.of(STRING))
    flink_type: ClassVar[str] = "BASIC_ARRAY<STRING>"


@register(value_array("String"))
@dataclass(frozen=True)
class StringValueArraySerializer(SimpleSerializer):
    """Serializer of VALUE_ARRAY<STRING>: strings in a block with its size before it."""

    part: ClassVar[Any] = StringSerializer.of(STRING_VALUE)
    flink_type: ClassVar[str] = "VALUE_ARRAY<STRING>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return list_of(pa.string())

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.EXTENT)

    def decode(self, at: Cursors) -> pa.Array:
        """Read the strings of all rows as one column; they must fill the blocks."""
        counts = bounded_counts(self, "strings", at, lambda room: room - 4)
        room = read_numbers(at, "read_i32", np.int32, "the bytes of the strings").astype(np.int64)
        wrong = np.flatnonzero((room < 0) | (room > at.end - at.position))
        at.check(int(wrong[0]) if len(wrong) else -1, "the bytes of the strings")
        blocks = at.at(at.position, at.position + room)
        items = decode_elements(self.part, blocks, counts)
        blocks.expect_end()
        return list_array(self.arrow_type(at.options), counts, items)

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        return self._block_sizes(column) + 8

    def _block_sizes(self, column: pa.Array) -> Longs:
        counts, items = list_parts(column)
        sizes: Longs = sum_per_row(self.part.sizes(items), counts)
        return sizes

    def encode(self, column: pa.Array, at: Cursors) -> None:
        counts, items = list_parts(column)
        write_numbers(counts.astype(np.int32), at)
        write_numbers(self._block_sizes(column).astype(np.int32), at)
        encode_elements([self.part], [items], at, counts)


@register(value_array("Null"))
@dataclass(frozen=True)
class NullValueArraySerializer(SimpleSerializer):
    """Serializer of VALUE_ARRAY<NULL_VALUE>: a count without elements."""

    flink_type: ClassVar[str] = "VALUE_ARRAY<NULL_VALUE>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return list_of(pa.null())

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.FIXED, 4)

    def decode(self, at: Cursors) -> pa.Array:
        from pyspark_savepoint.formats.kernels import skip

        counts = bounded_counts(self, "nulls", at, lambda room: np.full_like(room, skip.MAX_EMPTY))
        expect_few_empty("NULL_VALUE", at, counts)
        return list_array(self.arrow_type(at.options), counts, pa.nulls(int(counts.sum())))

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        return np.full(len(column), 4, np.int64)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        write_numbers(list_parts(column)[0].astype(np.int32), at)
