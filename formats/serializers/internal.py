"""Serializers of SQL's own data, made from logical types: for state that is created from nothing.

Twin: ``InternalSerializers.create``. Arrays, maps and multisets are left out, for their snapshots hold serializer
objects with compiled lambdas; RAW and structured types, for theirs hold user classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.serializers.base import SnapshotReader, TypeSerializer
from pyspark_savepoint.formats.serializers.logical_streams import logical_stream
from pyspark_savepoint.formats.serializers.logical_types import (
    BINARIES,
    STRINGS,
    TIMESTAMPS,
    EmbeddedType,
    LogicalType,
)
from pyspark_savepoint.formats.serializers.primitives import BASE
from pyspark_savepoint.formats.serializers.registry import read_versioned
from pyspark_savepoint.formats.serializers.rowdata import ROW_DATA, RowDataSerializer
from pyspark_savepoint.formats.serializers.table_data import (
    DECIMAL_DATA,
    STRING_DATA,
    TIMESTAMP_DATA,
    DecimalDataSerializer,
    TimestampDataSerializer,
)

BYTES = f"{BASE}array.BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot"

#: Serializers without parameters.
SIMPLE: Mapping[str, str] = {
    **dict.fromkeys(STRINGS, STRING_DATA),
    **dict.fromkeys(BINARIES, BYTES),
    **{
        root: f"{BASE}{stem}Serializer${stem}SerializerSnapshot"
        for root, stem in {
            "BOOLEAN": "Boolean",
            "TINYINT": "Byte",
            "SMALLINT": "Short",
            "INTEGER": "Int",
            "BIGINT": "Long",
            "FLOAT": "Float",
            "DOUBLE": "Double",
            "DATE": "Int",
            "TIME_WITHOUT_TIME_ZONE": "Int",
            "INTERVAL_YEAR_MONTH": "Int",
            "INTERVAL_DAY_TIME": "Long",
        }.items()
    },
}


def internal_serializer(kind: LogicalType) -> TypeSerializer:
    """The serializer of values of a logical type."""
    if kind.root in SIMPLE:
        return _simple(SIMPLE[kind.root])
    if kind.root == "DECIMAL":
        return DecimalDataSerializer(DECIMAL_DATA, 3, kind.precision, kind.scale)
    if kind.root in TIMESTAMPS:
        return TimestampDataSerializer(TIMESTAMP_DATA, 1, kind.precision)
    if kind.root == "ROW":
        return row_serializer(kind.children)
    raise UnsupportedStateError(
        f"a serializer of {kind} cannot be made from nothing",
        remedy="write into a savepoint that has this state already: its snapshot is kept",
    )


def row_serializer(kinds: Sequence[LogicalType], names: tuple[str, ...] = ()) -> RowDataSerializer:
    """The serializer of rows with fields of these types."""
    nested = tuple(internal_serializer(kind) for kind in kinds)
    fields = tuple(EmbeddedType(kind, logical_stream(kind)) for kind in kinds)
    return RowDataSerializer(ROW_DATA, 3, fields, nested, field_names=names)


def _simple(snapshot_class: str) -> TypeSerializer:
    """A serializer without parameters: its snapshot is a name."""
    view = DataOutputView()
    view.write_utf(snapshot_class)
    view.write_i32(3)
    return read_versioned(SnapshotReader(DataInputView(view.getvalue())))
