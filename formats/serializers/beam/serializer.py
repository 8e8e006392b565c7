"""Serializers of Apache Beam's Flink runner: values as Beam's coders write them, in the nested context.

The snapshot has the serializer as a Java object, which names its coder, and is parsed as data (``java_stream``):

    CoderTypeSerializer$LegacySnapshot      i32 1  i32 n  object[n]  i32 1      version 2051261680, Flink 1.7 to 1.16
                                            i32 n  object[n]  i32 2051261680    version 0
                                            utf Base64 of object                version 2
                                            i32 n  object[n]                    version 2
    UnversionedTypeSerializerSnapshot       [i32 1]  i32 n  snappy(object)[n]   version 1
    FlinkStateNameSpaceSerializerSnapshot   object                              version 0; values are texts of Flink

Values are in ``parts.py``, ``rows.py`` and ``avro.py``; those of other coders are BINARY. Beam:
``CoderTypeSerializer``, ``FlinkStateInternals``, ``FlinkKeyUtils``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import cramjam
import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Ints,
    binary_parts,
    refuse_nulls,
)
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.java_stream import JavaObject, parse_java_object
from pyspark_savepoint.formats.serializers.base import SnapshotReader, TypeSerializer
from pyspark_savepoint.formats.serializers.basic.shapes import Fields, MapEntries, Shaped, hash_in_order
from pyspark_savepoint.formats.serializers.basic.strings import STRING, StringSerializer
from pyspark_savepoint.formats.serializers.beam.avro import avro_of
from pyspark_savepoint.formats.serializers.beam.parts import (
    DATA,
    INSTANT,
    INTERVAL,
    LONG_,
    NUMBERS,
    TEXT,
    Big,
    Elements,
    Nothing,
    Nullable,
    Pane,
    Prefixed,
    VarLong,
)
from pyspark_savepoint.formats.serializers.beam.rows import row_of
from pyspark_savepoint.formats.serializers.layout import Part
from pyspark_savepoint.formats.serializers.registry import (
    JAVA_OBJECT,
    SNAPPY_OBJECT,
    OpaqueSerializer,
    object_in_base64,
    register,
)

TYPES = "org.apache.beam.runners.flink.translation.types."
STATE = "org.apache.beam.runners.flink.translation.wrappers.streaming.state."
NAMESPACE = f"{STATE}FlinkStateInternals$FlinkStateNamespaceKeySerializer$FlinkStateNameSpaceSerializerSnapshot"
CODERS = "org.apache.beam.sdk.coders."
WINDOWS = "org.apache.beam.sdk.transforms.windowing."
#: Most bytes of a serializer as a Java object, and how many times larger than its compressed bytes it may be.
MAX_OBJECT, MAX_GROWTH = 1 << 26, 64
MAX_NESTED_CODERS, MOST_CODERS = 32, 500


#: Coders without others inside, by class.
LEAVES: Mapping[str, Part] = {
    f"{CODERS}VarIntCoder": VarLong(int_=True),
    f"{CODERS}VarLongCoder": LONG_,
    f"{CODERS}StringUtf8Coder": TEXT,
    f"{CODERS}ByteArrayCoder": DATA,
    f"{CODERS}BigEndianShortCoder": NUMBERS["SHORT"],
    f"{CODERS}BigEndianIntegerCoder": NUMBERS["INT"],
    f"{CODERS}BigEndianLongCoder": NUMBERS["LONG"],
    f"{CODERS}DoubleCoder": NUMBERS["DOUBLE"],
    f"{CODERS}FloatCoder": NUMBERS["FLOAT"],
    f"{CODERS}ByteCoder": NUMBERS["BYTE"],
    f"{CODERS}BooleanCoder": NUMBERS["BOOLEAN"],
    f"{CODERS}BigDecimalCoder": Big(scaled=True),
    f"{CODERS}BigIntegerCoder": Big(),
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


#: Coders with a schema.
ROWS = {f"{CODERS}RowCoder", "org.apache.beam.sdk.schemas.SchemaCoder"}
AVRO = {
    f"{package}coders.{name}"
    for package in ("org.apache.beam.sdk.", "org.apache.beam.sdk.extensions.avro.")
    for name in ("AvroCoder", "AvroGenericCoder")
}


def part_of(coder: object) -> Part | None:
    """Return how a coder writes values; None if that is not known, or if it has too many coders inside."""
    return _part(coder, 0, [MOST_CODERS])


def _part(coder: object, depth: int, room: list[int]) -> Part | None:
    # Objects of a stream may be shared, so that a small one has very many coders.
    room[0] -= 1
    if not isinstance(coder, JavaObject) or depth > MAX_NESTED_CODERS or room[0] < 0:
        return None
    if coder.class_name in ROWS:
        return row_of(coder, MAX_NESTED_CODERS - depth, room)
    if coder.class_name in AVRO:
        return avro_of(coder, room)
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
    encoded = object_in_base64(payload)
    if encoded is not None:
        return _parsed(encoded)
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
