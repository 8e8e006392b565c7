"""Values of Beam's ``AvroCoder``: Avro's binary encoding of the schema that is in the coder's Java object.

    int, long  varint, zig-zag        float, double  little-endian      boolean  u8       null  -
    bytes, string  long n  n bytes    fixed  its bytes                  enum  int         record  its fields
    union  int  member                array, map  (long n, or -n and the long of its bytes)  n items  ...  0

The schema is parsed as that of Flink's serializer of Avro, whose encoding is another. Source: the Avro 1.12
specification; Beam: ``AvroCoder``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Longs, fixed_array
from pyspark_savepoint.formats.java_stream import JavaObject
from pyspark_savepoint.formats.serializers.avro.leaves import AvroBytes, AvroDecimal, AvroEnum, AvroNull, AvroTime
from pyspark_savepoint.formats.serializers.avro.parts import AvroBlocks, AvroRecord, AvroUnion
from pyspark_savepoint.formats.serializers.avro.serializer import PRIMITIVES, SchemaError, read_schema, recursion
from pyspark_savepoint.formats.serializers.basic.blobs import read_blocks
from pyspark_savepoint.formats.serializers.basic.shapes import Fields
from pyspark_savepoint.formats.serializers.beam.parts import (
    NUMBERS,
    ReadOnly,
    decode_framed,
    read_varints,
    refuse_to_write,
)
from pyspark_savepoint.formats.serializers.layout import UNKNOWN, Layout, Part, expect_few_empty


def read_zigzag(at: Cursors, what: str) -> Longs:
    """Read a number per row, whose sign is its lowest bit."""
    bits = read_varints(at, what).view(np.uint64)
    return (bits >> np.uint64(1)).view(np.int64) ^ -(bits & np.uint64(1)).view(np.int64)


@dataclass(frozen=True)
class Zigzag(ReadOnly):
    """An int or a long."""

    int_: bool

    @property
    def flink_type(self) -> str:
        return "AVRO<int>" if self.int_ else "AVRO<long>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.int32() if self.int_ else pa.int64()

    def read(self, at: Cursors) -> Longs:
        start = at.at(at.position.copy(), at.end)
        values = read_zigzag(at, self.flink_type)
        wrong = np.flatnonzero(values != values.astype(np.int32))
        start.check(int(wrong[0]) if self.int_ and len(wrong) else -1, "a number of 32 bits")
        return values

    def decode(self, at: Cursors) -> pa.Array:
        values = self.read(at)
        return fixed_array(self.arrow_type(at.options), values.astype(np.int32) if self.int_ else values)


INT, LONG = Zigzag(True), Zigzag(False)


@dataclass(frozen=True)
class LittleEndian(ReadOnly):
    """A float or a double."""

    width: int

    @property
    def flink_type(self) -> str:
        return "AVRO<float>" if self.width == 4 else "AVRO<double>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.float32() if self.width == 4 else pa.float64()

    def decode(self, at: Cursors) -> pa.Array:
        short = np.flatnonzero(at.end - at.position < self.width)
        at.check(int(short[0]) if len(short) else -1, f"{self.width} bytes")
        octets = at.buffer[at.position[:, None] + np.arange(self.width)]
        at.position += self.width
        return fixed_array(self.arrow_type(at.options), octets.reshape(-1).view(f"<f{self.width}"))


@dataclass(frozen=True)
class CodecValue(ReadOnly):
    """A value that a codec of Flink's encoding makes of its bytes: ``bytes``, ``string``, ``fixed``, ``decimal``."""

    part: Part
    size: int | None = None

    @property
    def flink_type(self) -> str:
        return self.part.flink_type

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.part.arrow_type(options)

    def decode(self, at: Cursors) -> pa.Array:
        if self.size is not None:
            return self.part.decode(at)
        start = at.at(at.position.copy(), at.end)
        sizes = LONG.read(at)
        wrong = np.flatnonzero((sizes < 0) | (sizes > at.end - at.position))
        start.check(int(wrong[0]) if len(wrong) else -1, "as many bytes as its length")
        return decode_framed(self.part, at, sizes, read_blocks(at, sizes))


@dataclass(frozen=True)
class Counted(ReadOnly):
    """A value that a codec of Flink's encoding makes of a number: ``enum``, times."""

    part: Part
    number: Zigzag

    @property
    def flink_type(self) -> str:
        return self.part.flink_type

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.part.arrow_type(options)

    def decode(self, at: Cursors) -> pa.Array:
        width = 4 if self.number.int_ else 8
        octets = np.ascontiguousarray(self.number.read(at).astype(f">i{width}")).view(np.uint8)
        ends = np.arange(1, len(at) + 1, dtype=np.int64) * width
        return self.part.decode(Cursors(octets.copy(), ends - width, ends, at.origin, at.options, at.path))


@dataclass(frozen=True)
class BinaryRecord(Fields):
    """A record: its fields."""

    name: str = ""

    @property
    def flink_type(self) -> str:
        return f"AVRO<{self.name}>"

    def sizes(self, column: pa.Array) -> Longs:
        refuse_to_write(self.flink_type)


@dataclass(frozen=True)
class BinaryUnion(ReadOnly):
    """A union: the index of a member, and its value. The column is that of the union in Flink's encoding."""

    union: AvroUnion

    @property
    def flink_type(self) -> str:
        return self.union.flink_type

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.union.arrow_type(options)

    def decode(self, at: Cursors) -> pa.Array:
        return self.union.decode_members(at, INT.read(at))


@dataclass(frozen=True)
class BinaryBlocks(AvroBlocks):
    """An array or a map: blocks of items, each with their number."""

    @property
    def parts(self) -> tuple[Part, ...]:
        return (CodecValue(AvroBytes(text=True)), self.item) if self.keyed else (self.item,)

    def layout(self, layout: Layout) -> int:
        return UNKNOWN

    def _read_counts(self, at: Cursors) -> Longs:
        start = at.at(at.position.copy(), at.end)
        counts = LONG.read(at)
        sized = counts < 0
        here = at.select(sized)
        LONG.read(here)
        at.update(sized, here)
        counts = np.abs(counts)
        room = at.end - at.position
        if not self.keyed and is_empty(self.item):
            start.check(int(counts.argmax()) if np.any(counts < 0) else -1, "a number of items")
            expect_few_empty(self.item.flink_type, start, counts)
            return counts
        wrong = np.flatnonzero((counts < 0) | (counts > room))
        start.check(int(wrong[0]) if len(wrong) else -1, f"items of {self.flink_type} that there is room for")
        return counts

    def sizes(self, column: pa.Array) -> Longs:
        refuse_to_write(self.flink_type)


def is_empty(part: Part) -> bool:
    """Return whether values have no bytes."""
    if isinstance(part, BinaryRecord):
        return all(map(is_empty, part.parts))
    return isinstance(part, AvroNull) or (isinstance(part, CodecValue) and part.size == 0)


def binary(part: Part) -> Part:
    """Return the part of a type in Avro's binary encoding, of that in Flink's."""
    if isinstance(part, AvroRecord):
        return BinaryRecord(part.names, tuple(map(binary, part.parts)), part.name)
    if isinstance(part, AvroUnion):
        return BinaryUnion(replace(part, members=tuple(map(binary, part.members))))
    if isinstance(part, AvroBlocks):
        return BinaryBlocks(binary(part.item), part.keyed)
    if isinstance(part, AvroBytes):
        return CodecValue(part, part.size)
    if isinstance(part, AvroDecimal):
        return CodecValue(part, part.storage.size)
    if isinstance(part, AvroEnum):
        return Counted(part, INT)
    if isinstance(part, AvroTime):
        return Counted(part, INT if part.width == 4 else LONG)
    return SIMPLE[part]


SIMPLE: dict[Any, Part] = {
    AvroNull(): AvroNull(),
    PRIMITIVES["boolean"]: NUMBERS["BOOLEAN"],
    PRIMITIVES["int"]: INT,
    PRIMITIVES["long"]: LONG,
    PRIMITIVES["float"]: LittleEndian(4),
    PRIMITIVES["double"]: LittleEndian(8),
}


def avro_of(coder: JavaObject, room: list[int]) -> Part | None:
    """Return the values that a coder writes; None if its schema cannot be columns."""
    supplier = coder.fields.get("schemaSupplier")
    text = supplier.fields.get("schema") if isinstance(supplier, JavaObject) else None
    if not isinstance(text, str):
        return None
    room[0] -= len(text) // 1000
    if room[0] < 0:
        return None
    try:
        part = read_schema(text)[1]
    except SchemaError:
        return None
    return None if recursion(part) else binary(part)
