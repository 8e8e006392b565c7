"""Serializers of Apache Beam's Flink runner: values as Beam's coders write them, in the nested context.

The snapshot has the serializer as a Java object, which names its coder, and is parsed as data (``java_stream``):

    CoderTypeSerializer$LegacySnapshot      i32 1  i32 n  object[n]  i32 1      version 2051261680, Flink 1.7 to 1.16
    UnversionedTypeSerializerSnapshot       [i32 1]  i32 n  snappy(object)[n]   version 1
    FlinkStateNameSpaceSerializerSnapshot   object                              version 0; values are texts of Flink

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

Instants are BIGINT milliseconds, because Beam's first and last ones are beyond the years of Spark. Values of other
coders are BINARY. Beam: ``CoderTypeSerializer``, ``FlinkStateInternals``, ``FlinkKeyUtils``,
``org.apache.beam.sdk.coders``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import cramjam
import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Ints,
    Longs,
    binary_parts,
    fixed_array,
    fixed_values,
    list_array,
    refuse_nulls,
    scatter,
)
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import SavepointError, UndecodableStateError
from pyspark_savepoint.formats.java_stream import JavaObject, parse_java_object
from pyspark_savepoint.formats.serializers.base import SnapshotReader, TypeSerializer
from pyspark_savepoint.formats.serializers.basic.blobs import block_sizes, read_blocks, write_blocks
from pyspark_savepoint.formats.serializers.basic.primitives import read_numbers, write_numbers
from pyspark_savepoint.formats.serializers.basic.shapes import Fields, MapEntries, Repeated, Shaped, hash_in_order
from pyspark_savepoint.formats.serializers.basic.strings import STRING, StringSerializer
from pyspark_savepoint.formats.serializers.layout import UNKNOWN, Layout, Part, decode_elements
from pyspark_savepoint.formats.serializers.registry import JAVA_OBJECT, SNAPPY_OBJECT, OpaqueSerializer, register

TYPES = "org.apache.beam.runners.flink.translation.types."
STATE = "org.apache.beam.runners.flink.translation.wrappers.streaming.state."
NAMESPACE = f"{STATE}FlinkStateInternals$FlinkStateNamespaceKeySerializer$FlinkStateNameSpaceSerializerSnapshot"
CODERS = "org.apache.beam.sdk.coders."
WINDOWS = "org.apache.beam.sdk.transforms.windowing."
#: Most bytes of a serializer as a Java object, and how many times larger than its compressed bytes it may be.
MAX_OBJECT, MAX_GROWTH = 1 << 26, 64
MAX_NESTED_CODERS, MOST_CODERS = 32, 500
#: Most elements without bytes that a list has: windows of a value, such as the global one.
MOST_EMPTY = 16
SIGN = np.int64(-(1 << 63))


class _Leaf:
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
class VarLong(_Leaf):
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


@dataclass(frozen=True)
class Blocks(_Leaf):
    """A varint, and that many bytes: of a text, or of a byte array."""

    text: bool = False

    @property
    def flink_type(self) -> str:  # type: ignore[override]
        return "BEAM_STRING_UTF8" if self.text else "BEAM_BYTES"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string() if self.text else pa.binary()

    def decode(self, at: Cursors) -> pa.Array:
        start = at.at(at.position.copy(), at.end)
        sizes = read_varints(at, f"the length of a value of {self.flink_type}")
        wrong = np.flatnonzero((sizes < 0) | (sizes > at.end - at.position))
        at.check(int(wrong[0]) if len(wrong) else -1, "as many bytes as its length")
        column = read_blocks(at, sizes)
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
class Number(_Leaf):
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
class Instant(_Leaf):
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
class Nothing(_Leaf):
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


class _ReadOnly:
    """Part that is read, and not written."""

    flink_type: str

    def layout(self, layout: Layout) -> int:
        return UNKNOWN

    def sizes(self, column: pa.Array) -> Longs:
        raise UndecodableStateError(
            f"values of {self.flink_type} are not written, because Beam has several forms of them"
        )

    def encode(self, column: pa.Array, at: Cursors) -> None:
        self.sizes(column)


@dataclass(frozen=True)
class Nullable(_ReadOnly):
    """A flag, and a value if it is 1."""

    part: Part

    @property
    def flink_type(self) -> str:  # type: ignore[override]
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
class Prefixed(_ReadOnly):
    """The number of bytes, and a value that has so many."""

    part: Part

    @property
    def flink_type(self) -> str:  # type: ignore[override]
        return f"BEAM_PREFIXED<{self.part.flink_type}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.part.arrow_type(options)

    def decode(self, at: Cursors) -> pa.Array:
        start = at.at(at.position.copy(), at.end)
        sizes = read_varints(at, "the length of a value")
        wrong = np.flatnonzero((sizes < 0) | (sizes > at.end - at.position))
        start.check(int(wrong[0]) if len(wrong) else -1, "as many bytes as its length")
        inner = at.at(at.position.copy(), at.position + sizes)
        column = self.part.decode(inner)
        left = np.flatnonzero(inner.position != inner.end)
        start.check(int(left[0]) if len(left) else -1, "a value of as many bytes as its length")
        at.position[:] = inner.end
        return column


@dataclass(frozen=True)
class Elements(_ReadOnly):
    """A number and that many elements; or, of an iterable without a size, pieces of them up to one without any."""

    part: Part

    @property
    def flink_type(self) -> str:  # type: ignore[override]
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
class Pane(_ReadOnly):
    """Information about a pane: which firings, and its numbers."""

    flink_type: ClassVar[str] = "BEAM_PANE"  # type: ignore[misc]
    TIMINGS: ClassVar[tuple[str, ...]] = ("EARLY", "ON_TIME", "LATE", "UNKNOWN")

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


INSTANT = Instant()
TEXT, DATA = Blocks(text=True), Blocks()
LONG_ = VarLong()
INTERVAL = Fields(("end", "length"), (INSTANT, LONG_))
#: Coders without others inside, by class.
LEAVES: Mapping[str, Part] = {
    f"{CODERS}VarIntCoder": VarLong(int_=True),
    f"{CODERS}VarLongCoder": LONG_,
    f"{CODERS}StringUtf8Coder": TEXT,
    f"{CODERS}ByteArrayCoder": DATA,
    f"{CODERS}BigEndianShortCoder": Number("SHORT", "read_i16", np.int16, pa.int16()),
    f"{CODERS}BigEndianIntegerCoder": Number("INT", "read_i32", np.int32, pa.int32()),
    f"{CODERS}BigEndianLongCoder": Number("LONG", "read_i64", np.int64, pa.int64()),
    f"{CODERS}DoubleCoder": Number("DOUBLE", "read_i64", np.float64, pa.float64()),
    f"{CODERS}FloatCoder": Number("FLOAT", "read_i32", np.float32, pa.float32()),
    f"{CODERS}ByteCoder": Number("BYTE", "read_i8", np.int8, pa.int8()),
    f"{CODERS}BooleanCoder": Number("BOOLEAN", "read_flags", np.bool_, pa.bool_()),
    f"{CODERS}InstantCoder": INSTANT,
    f"{CODERS}DurationCoder": LONG_,
    f"{CODERS}VoidCoder": Nothing("VOID"),
    f"{WINDOWS}GlobalWindow$Coder": Nothing("GLOBAL_WINDOW"),
    f"{WINDOWS}IntervalWindow$IntervalWindowCoder": INTERVAL,
    "org.apache.beam.runners.flink.translation.wrappers.streaming.FlinkKeyUtils$ByteBufferCoder": DATA,
    "org.apache.beam.runners.core.TimerInternals$TimerDataCoderV2": Fields(
        ("timer_id", "timer_family_id", "namespace", "timestamp", "output_timestamp", "domain"),
        (TEXT, TEXT, TEXT, INSTANT, INSTANT, TEXT),
    ),
}
#: Names of the fields with other coders, and the part that they make.
COMPOSITES: Mapping[str, tuple[tuple[str, ...], Callable[..., Part]]] = {
    f"{CODERS}KvCoder": (("keyCoder", "valueCoder"), lambda key, value: Fields(("key", "value"), (key, value))),
    f"{CODERS}MapCoder": (("keyCoder", "valueCoder"), MapEntries),
    f"{CODERS}NullableCoder": (("valueCoder",), Nullable),
    f"{CODERS}LengthPrefixCoder": (("valueCoder",), Prefixed),
    **dict.fromkeys(
        (f"{CODERS}{name}Coder" for name in ("Iterable", "List", "Collection", "Set")), (("elementCoder",), Elements)
    ),
    "org.apache.beam.sdk.values.TimestampedValue$TimestampedValueCoder": (
        ("valueCoder",),
        lambda value: Fields(("value", "timestamp"), (value, INSTANT)),
    ),
    **{
        f"{package}$FullWindowedValueCoder": (
            ("windowCoder", "valueCoder"),
            lambda window, value: Fields(
                ("timestamp", "windows", "pane", "value"), (INSTANT, Elements(window), Pane(), value)
            ),
        )
        for package in ("org.apache.beam.sdk.util.WindowedValue", "org.apache.beam.sdk.values.WindowedValues")
    },
    **{
        f"{package}$ValueOnlyWindowedValueCoder": (("valueCoder",), lambda value: value)
        for package in ("org.apache.beam.sdk.util.WindowedValue", "org.apache.beam.sdk.values.WindowedValues")
    },
}


def part_of(coder: object) -> Part | None:
    """Return how a coder writes values; None if that is not known, or if it has too many coders inside."""
    return _part(coder, 0, [MOST_CODERS])


def _part(coder: object, depth: int, room: list[int]) -> Part | None:
    # Objects of a stream may be shared, so that a small one has very many coders.
    room[0] -= 1
    if not isinstance(coder, JavaObject) or depth > MAX_NESTED_CODERS or room[0] < 0:
        return None
    leaf = LEAVES.get(coder.class_name)
    if leaf is not None or coder.class_name not in COMPOSITES:
        return leaf
    names, build = COMPOSITES[coder.class_name]
    parts = [_part(coder.fields.get(name), depth + 1, room) for name in names]
    return None if None in parts else build(*parts)


def _may_prefix(serializer: JavaObject) -> bool:
    """Return whether each value may have its length before it, as one form of the serializer with fasterCopy has it.

    That form has no options of the pipeline among its fields; another one without them writes values alone.
    """
    return bool(serializer.fields.get("fasterCopy")) and "pipelineOptions" not in serializer.fields


def serialized_object(payload: bytes) -> object:
    """Return the Java object in the payload of a snapshot, as data; None if there is none that can be parsed."""
    for start in (0, 4, 8):
        if payload[start : start + len(JAVA_OBJECT)] == JAVA_OBJECT:
            return _parsed(payload[start:])
        if payload[start : start + len(SNAPPY_OBJECT)] == SNAPPY_OBJECT:
            size = int.from_bytes(payload[start - 4 : start], "big") if start else len(payload)
            return _parsed(_decompressed(payload[start : start + size]))
    return None


def _parsed(data: bytes | None) -> object:
    if data is None:
        return None
    try:
        return parse_java_object(DataInputView(data))
    except SavepointError:
        return None


def _decompressed(data: bytes) -> bytes | None:
    """Return the content of xerial's stream of snappy blocks, each behind its length; None if it is another."""
    out, at = bytearray(), 16
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        block = data[at + 4 : at + 4 + size]
        if len(block) != size or not size:
            return None
        try:
            length = cramjam.snappy.decompress_raw_len(block)
            if length > MAX_GROWTH * size or len(out) + length > MAX_OBJECT:
                return None
            out += bytes(cramjam.snappy.decompress_raw(block))
        except (cramjam.DecompressionError, AttributeError, OverflowError):
            return None
        at += 4 + size
    return bytes(out)


@register(
    f"{TYPES}CoderTypeSerializer$LegacySnapshot",
    f"{TYPES}UnversionedTypeSerializerSnapshot",
    f"{TYPES}compat.UnversionedTypeSerializerSnapshot",
)
@dataclass(frozen=True)
class BeamSerializer(Shaped):
    """Serializer of values of a coder of Beam's; of coders that are not known, their values are BINARY."""

    payload: bytes
    part: Part

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Read the Java object; a serializer of opaque values where its coder is not known."""
        opaque = OpaqueSerializer.read_snapshot(name, version, reader)
        assert isinstance(opaque, OpaqueSerializer)
        serializer = serialized_object(opaque.payload)
        coder = serializer.fields.get("coder") if isinstance(serializer, JavaObject) else None
        part = None if isinstance(serializer, JavaObject) and _may_prefix(serializer) else part_of(coder)
        if part is not None:
            return cls(name, version, opaque.payload, part)
        detail = coder.class_name if isinstance(coder, JavaObject) else opaque.detail
        return OpaqueSerializer(name, version, opaque.payload, detail)

    def write_payload(self, view: DataOutputView) -> None:
        """Write the payload as it was read."""
        view.write(self.payload)

    @property
    def flink_type(self) -> str:
        return self.part.flink_type

    @property
    def shape(self) -> Part:
        return self.part

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``ByteBuffer.hashCode``, of keys: from the last byte to the first."""
        if self.part != DATA:
            return super().java_hash(column)
        refuse_nulls(column, self.flink_type)
        offsets, data = binary_parts(column)
        elements = data[offsets[0] : offsets[-1]][::-1].view(np.int8).astype(np.int32)
        return np.ascontiguousarray(hash_in_order(elements, np.ascontiguousarray(np.diff(offsets)[::-1]))[::-1])


@register(NAMESPACE)
@dataclass(frozen=True)
class BeamNamespaceSerializer(Shaped):
    """Serializer of namespaces of state: ``/`` of all windows, or a path with the window as Beam encodes it."""

    payload: bytes

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Keep the coder of the windows, a Java object."""
        opaque = OpaqueSerializer.read_snapshot(name, version, reader)
        assert isinstance(opaque, OpaqueSerializer)
        return cls(name, version, opaque.payload)

    def write_payload(self, view: DataOutputView) -> None:
        """Write the payload as it was read."""
        view.write(self.payload)

    @property
    def flink_type(self) -> str:
        """BEAM_NAMESPACE."""
        return "BEAM_NAMESPACE"

    @property
    def shape(self) -> Part:
        return StringSerializer.of(STRING)
