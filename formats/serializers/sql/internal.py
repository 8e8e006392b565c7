"""Serializers of SQL's internal data, created from logical types: for new state, without an existing snapshot.

Snapshots of arrays, maps and multisets hold the serializers of their elements as Java objects. Serializers without
parts are a class and a few numbers, the same in all releases of Flink, and can be created. Not supported are rows,
arrays and maps inside arrays and maps, whose objects hold compiled lambdas, and RAW and structured types, whose
snapshots hold user classes. Flink: ``InternalSerializers.create``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.java_stream import (
    CLASSDESC,
    END_BLOCKDATA,
    NULL,
    OBJECT,
    SERIALIZABLE,
    STREAM_HEADER,
)
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import BASE, SimpleSerializer
from pyspark_savepoint.formats.serializers.registry import snapshot_reader
from pyspark_savepoint.formats.serializers.sql.logical_streams import logical_stream
from pyspark_savepoint.formats.serializers.sql.logical_types import (
    BINARIES,
    STRINGS,
    TIMESTAMPS,
    EmbeddedType,
    LogicalType,
)
from pyspark_savepoint.formats.serializers.sql.rowdata import (
    ARRAY_DATA,
    MAP_DATA,
    ROW_DATA,
    CollectionDataSerializer,
    RowDataSerializer,
)
from pyspark_savepoint.formats.serializers.sql.table_data import (
    DECIMAL_DATA,
    STRING_DATA,
    TIMESTAMP_DATA,
    DecimalDataSerializer,
    TimestampDataSerializer,
)

BYTES = f"{BASE}array.BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot"

#: Snapshot classes of serializers without parameters, by type root.
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


CONTAINERS: Mapping[str, str] = {"ARRAY": ARRAY_DATA, "MAP": MAP_DATA, "MULTISET": MAP_DATA}
#: ``TypeSerializerSingleton#serialVersionUID``.
SINGLETON_UID = 8766687317209282373


def internal_serializer(kind: LogicalType) -> TypeSerializer:
    """Return the serializer of values of a logical type."""
    if kind.root in SIMPLE:
        return _simple(SIMPLE[kind.root])
    if kind.root == "DECIMAL":
        return DecimalDataSerializer(DECIMAL_DATA, 3, kind.precision, kind.scale)
    if kind.root in TIMESTAMPS:
        return TimestampDataSerializer(TIMESTAMP_DATA, 1, kind.precision)
    if kind.root == "ROW":
        return row_serializer(kind.children)
    if kind.root in CONTAINERS:
        return collection_serializer(kind)
    raise UnsupportedStateError(
        f"a serializer of {kind} cannot be created from its name alone",
        remedy="write into a savepoint that has this state: its serializer snapshot is kept",
    )


def row_serializer(kinds: Sequence[LogicalType], names: tuple[str, ...] = ()) -> RowDataSerializer:
    """Return the serializer of rows with fields of these types."""
    nested = tuple(internal_serializer(kind) for kind in kinds)
    fields = tuple(EmbeddedType(kind, logical_stream(kind)) for kind in kinds)
    return RowDataSerializer(ROW_DATA, 3, fields, nested, field_names=names)


def collection_serializer(kind: LogicalType) -> CollectionDataSerializer:
    """Return the serializer of an array, a map, or a multiset, which is a map from element to count."""
    parts = (*kind.children, LogicalType("INTEGER", nullable=False)) if kind.root == "MULTISET" else kind.children
    objects = tuple(_java_object(internal_serializer(part), kind) for part in parts)
    embedded = tuple(EmbeddedType(part, logical_stream(part)) for part in parts)
    return CollectionDataSerializer(CONTAINERS[kind.root], 3, embedded, objects)


def _java_object(serializer: TypeSerializer, whole: LogicalType) -> bytes:
    """Return a serializer without parts as ``java.io.ObjectOutputStream`` writes it."""
    class_name = serializer.snapshot_class.partition("$")[0]
    numbers: dict[str, int] = {}
    if isinstance(serializer, DecimalDataSerializer):
        numbers = {"precision": serializer.precision, "scale": serializer.scale}
    elif isinstance(serializer, TimestampDataSerializer):
        numbers = {"precision": serializer.precision}
    elif not isinstance(serializer, SimpleSerializer):
        raise UnsupportedStateError(
            f"a serializer of {whole} cannot be created from its name alone: inside rows, only arrays and maps of "
            "simple elements can",
            remedy="write into a savepoint that has this state: its serializer snapshot is kept (option 'typesFrom')",
        )
    view = DataOutputView()
    view.write(STREAM_HEADER.to_bytes(4, "big"))
    view.write_u8(OBJECT)
    _class(view, class_name, 1, tuple(numbers))
    if not numbers:
        _class(view, f"{BASE}TypeSerializerSingleton", SINGLETON_UID)
    _class(view, "org.apache.flink.api.common.typeutils.TypeSerializer", 1)
    view.write_u8(NULL)
    for number in numbers.values():
        view.write_i32(number)
    return view.getvalue()


def _class(view: DataOutputView, name: str, uid: int, numbers: tuple[str, ...] = ()) -> None:
    """Write a class description; that of its superclass follows."""
    view.write_u8(CLASSDESC)
    view.write_utf(name)
    view.write_i64(uid)
    view.write_u8(SERIALIZABLE)
    view.write_i16(len(numbers))
    for number in numbers:
        view.write_u8(ord("I"))
        view.write_utf(number)
    view.write_u8(END_BLOCKDATA)


def _simple(snapshot_class: str) -> TypeSerializer:
    """Return a serializer without parameters: its snapshot has only a class name."""
    view = DataOutputView()
    view.write_utf(snapshot_class)
    view.write_i32(3)
    return snapshot_reader(DataInputView(view.getvalue())).versioned()
