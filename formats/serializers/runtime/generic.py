"""Serializers of classes with their own ``write`` method: the snapshot names the class, the method defines the bytes.

    snapshot := utf class                    GenericTypeSerializerSnapshot, version 2
    value    := the output of Value.write, or of Hadoop's Writable.write
    JavaSerializer: one Java object stream, AC ED 00 05 ..., no length

Flink's and Hadoop's own classes are decoded; all others are BINARY, because only the user's code can find the end of a
value. Flink: ``ValueSerializer``, ``CopyableValueSerializer``, ``WritableSerializer``, ``JavaSerializer``.

Hadoop's Text is a variable-length integer n, then n bytes of UTF-8; it occurs in snapshots only as the class of a
``WritableSerializer``. Hadoop: ``org.apache.hadoop.io.Text``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Ints, Longs, refuse_nulls
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.encodings import UTF
from pyspark_savepoint.formats.java_stream import skip_java_object
from pyspark_savepoint.formats.serializers.base import SnapshotReader, TypeSerializer
from pyspark_savepoint.formats.serializers.basic.blobs import (
    BYTES,
    BytesSerializer,
    block_sizes,
    read_blocks,
    write_blocks,
)
from pyspark_savepoint.formats.serializers.basic.declared import DeclaredSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import (
    BASE,
    NULL_VALUE,
    ConstantSerializer,
    NumberSerializer,
    SimpleSerializer,
)
from pyspark_savepoint.formats.serializers.basic.shapes import Shaped
from pyspark_savepoint.formats.serializers.basic.strings import (
    CHAR_VALUE,
    STRING_VALUE,
    CharSerializer,
    StringSerializer,
    expect_utf8,
)
from pyspark_savepoint.formats.serializers.layout import Part
from pyspark_savepoint.formats.serializers.registry import register
from pyspark_savepoint.formats.structs import part, struct_with_dict

HADOOP = "org.apache.hadoop.io."


@dataclass(frozen=True)
class TextSerializer(SimpleSerializer):
    """Serializer of TEXT, which becomes STRING."""

    flink_type: ClassVar[str] = "TEXT"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def decode(self, at: Cursors) -> pa.Array:
        from pyspark_savepoint.formats.kernels import numbers

        start = at.at(at.position.copy(), at.end)
        sizes = np.zeros(len(at), np.int64)
        at.check(numbers.read_vints(at.buffer, at.position, at.end, sizes), "the length of a text")
        wrong = np.flatnonzero((sizes < 0) | (sizes > at.end - at.position))
        at.check(int(wrong[0]) if len(wrong) else -1, "as many bytes as its length")
        column = read_blocks(at, sizes).view(pa.string())
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            start.fail(_first_damaged(column.view(pa.binary())), "text in UTF-8", "other bytes")
        return column

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        expect_utf8(column)
        lengths = block_sizes(column)
        return lengths + _length_sizes(lengths)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        from pyspark_savepoint.formats.kernels import numbers

        lengths = block_sizes(column)
        numbers.write_lengths(at.buffer, at.position, lengths, _length_sizes(lengths))
        write_blocks(column, at)


def _length_sizes(lengths: Longs) -> Longs:
    from pyspark_savepoint.formats.kernels import numbers

    sizes = np.zeros(len(lengths), np.int64)
    numbers.length_sizes(lengths, sizes)
    return sizes


def _first_damaged(column: pa.Array) -> int:
    for row, value in enumerate(column.to_pylist()):
        try:
            value.decode("utf-8")
        except UnicodeDecodeError:
            return row
    return 0


RUNTIME = "org.apache.flink.api.java.typeutils.runtime."
COPYABLE = f"{RUNTIME}CopyableValueSerializer$CopyableValueSerializerSnapshot"
WRITABLE = f"{RUNTIME}WritableSerializer$WritableSerializerSnapshot"
NUMBERS = ("Boolean", "Byte", "Short", "Int", "Long", "Float", "Double")


def _number(stem: str) -> TypeSerializer:
    return NumberSerializer.of(f"{BASE}{stem}Serializer${stem}SerializerSnapshot")


#: Serializers that write the same bytes as the class.
DELEGATES: Mapping[str, TypeSerializer] = {
    **{f"org.apache.flink.types.{stem}Value": _number(f"{stem}Value") for stem in NUMBERS},
    "org.apache.flink.types.CharValue": CharSerializer.of(CHAR_VALUE),
    "org.apache.flink.types.StringValue": StringSerializer.of(STRING_VALUE),
    NULL_VALUE: ConstantSerializer.of(NULL_VALUE),
    **{f"{HADOOP}{stem}Writable": _number(stem) for stem in NUMBERS},
    f"{HADOOP}BytesWritable": BytesSerializer.of(BYTES),
    f"{HADOOP}NullWritable": ConstantSerializer.of(f"{BASE}NullValueSerializer$NullValueSerializerSnapshot"),
    f"{HADOOP}Text": TextSerializer.of(f"{HADOOP}Text"),
}


@register(f"{RUNTIME}ValueSerializer$ValueSerializerSnapshot", COPYABLE, WRITABLE)
@struct_with_dict
class GenericSerializer(DeclaredSerializer):
    """Serializer of VALUE<class> or WRITABLE<class> for an unknown class."""

    type_class: str = part(UTF, "the class of values")
    snapshot_versions: ClassVar[tuple[int, ...]] = (2,)
    opaque: ClassVar[bool] = True

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Read the class of the values; known classes get a :class:`DelegatingSerializer`."""
        fields = cls.read_fields(name, version, reader)
        kind = DelegatingSerializer if fields["type_class"] in DELEGATES else GenericSerializer
        return kind(name, version, **fields)

    @property
    def flink_type(self) -> str:
        """VALUE<class> or WRITABLE<class>."""
        return f"{'WRITABLE' if self.snapshot_class == WRITABLE else 'VALUE'}<{self.type_class}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def decode(self, at: Cursors) -> pa.Array:
        """Raise UndecodableStateError: the end of a value is unknown."""
        raise self._refuse("decoded").with_facts(**at.origin.facts())


@dataclass(frozen=True)
class DelegatingSerializer(Shaped, GenericSerializer):
    """Serializer of a class whose bytes are those of another serializer."""

    opaque: ClassVar[bool] = False

    @property
    def inner(self) -> TypeSerializer:
        return DELEGATES[self.type_class]

    @property
    def length(self) -> int:
        """``CopyableValue#getBinaryLength``; -1 for all other classes."""
        return self.inner.length if self.snapshot_class == COPYABLE else -1

    @property
    def shape(self) -> Part:
        return self.inner

    def java_hash(self, column: pa.Array) -> Ints:
        """Return the hash of the other serializer, for Flink's classes; that of Hadoop's classes is unknown."""
        return super().java_hash(column) if self.snapshot_class == WRITABLE else self.inner.java_hash(column)


@register("org.apache.flink.runtime.state.JavaSerializer$JavaSerializerSnapshot")
@dataclass(frozen=True)
class JavaSerializer(SimpleSerializer):
    """Serializer of JAVA: Java object streams, which are kept as bytes and parsed only to find their end."""

    opaque: ClassVar[bool] = True
    delimited: ClassVar[bool] = True
    flink_type: ClassVar[str] = "JAVA"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def decode(self, at: Cursors) -> pa.Array:
        """Return the bytes of one object per row."""
        streams = []
        for row, (start, end) in enumerate(zip(at.position.tolist(), at.end.tolist(), strict=True)):
            view = DataInputView(at.buffer[start:end].data, at.origin.path, at.origin.base + start)
            streams.append(skip_java_object(view))
            at.position[row] = start + view.position
        return pa.array(streams, pa.binary())

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        return block_sizes(column)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        write_blocks(column, at)
