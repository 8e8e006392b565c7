"""Serializer of Avro types: the snapshot holds the schema, values have Flink's own encoding.

    snapshot := version 1: utf schema    version 2: utf class  utf schema    version 3: string class  string schema
    value    := see ``leaves.py`` and ``parts.py``; this is not Avro's binary encoding

``string`` has the encoding of ``StringValue``, which has no limit of 64 KiB. ``schema.py`` maps schemas to types.
Flink: ``AvroSerializer``, ``AvroSerializerSnapshot``.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Longs
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.serializers.avro.parts import AvroBlocks, AvroOpaque, AvroRecord, AvroUnion
from pyspark_savepoint.formats.serializers.avro.schema import SchemaError, read_schema
from pyspark_savepoint.formats.serializers.base import SnapshotReader, TypeSerializer, expect_version
from pyspark_savepoint.formats.serializers.layout import Layout, Part
from pyspark_savepoint.formats.serializers.registry import register

AVRO = "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot"
GENERIC_RECORD = "org.apache.avro.generic.GenericRecord"


@register(AVRO)
@dataclass(frozen=True)
class AvroSerializer(TypeSerializer):
    """Serializer of an Avro type; ``runtime_class`` is a GenericRecord, or a specific or reflected class."""

    runtime_class: str
    schema: str
    name: str
    part: Part

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Read class and schema; values are opaque if the schema cannot be columns."""
        expect_version(name, version, (1, 2, 3), reader)
        view = reader.view
        read = view.read_utf if version < 3 else view.read_string_value
        runtime_class = read("an Avro class") if version > 1 else ""
        schema = read("an Avro schema")
        if runtime_class is None or schema is None:
            view.fail("an Avro class and schema", "a null")
        try:
            full_name, part = read_schema(schema)
        except SchemaError as error:
            view.fail("an Avro schema", str(error))
        kind = OpaqueAvroSerializer if recursion(part) else cls
        return kind(name, version, runtime_class, schema, full_name, part)

    @classmethod
    def of(cls, schema: str, runtime_class: str = GENERIC_RECORD) -> AvroSerializer:
        """Return an Avro type as this package writes it; SchemaError if ``schema`` is not a schema."""
        full_name, part = read_schema(schema)
        kind = OpaqueAvroSerializer if recursion(part) else cls
        return kind(AVRO, 3, runtime_class, schema, full_name, part)

    def write_payload(self, view: DataOutputView) -> None:
        write = view.write_utf if self.snapshot_version < 3 else view.write_string_value
        if self.snapshot_version > 1:
            write(self.runtime_class)
        write(self.schema)

    @property
    def flink_type(self) -> str:
        return f"AVRO<{self.name}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.part.arrow_type(options)

    def layout(self, layout: Layout) -> int:
        return self.part.layout(layout)

    def decode(self, at: Cursors) -> pa.Array:
        return self.part.decode(at)

    def sizes(self, column: pa.Array) -> Longs:
        return self.part.sizes(column)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        self.part.encode(column, at)


@dataclass(frozen=True)
class OpaqueAvroSerializer(AvroSerializer):
    """Serializer of an Avro type that contains itself or is too large for columns: values are BINARY."""

    opaque = True

    @property
    def reason(self) -> str:
        """The reason why the values cannot be a struct."""
        return recursion(self.part)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()


def recursion(part: Part) -> str:
    """Return the reason why a type, or a part of it, cannot be a column; empty if it can."""
    if isinstance(part, AvroOpaque):
        return part.reason
    inner: tuple[Part, ...] = ()
    if isinstance(part, AvroRecord):
        inner = part.parts
    elif isinstance(part, AvroUnion):
        inner = part.members
    elif isinstance(part, AvroBlocks):
        inner = (part.item,)
    return next(filter(None, map(recursion, inner)), "")
