"""Words of the notation of types: their serializers, their first Flink release, and types that text cannot describe."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_savepoint.formats.flink_releases import Flink as Flink
from pyspark_savepoint.formats.flink_releases import lifetime
from pyspark_savepoint.formats.serializers.base import CompositeSerializer, TypeSerializer
from pyspark_savepoint.formats.serializers.basic import arrays, blobs, java_math, primitives, strings, temporal
from pyspark_savepoint.formats.serializers.basic.primitives import BASE, BY_SNAPSHOT, NumberSerializer
from pyspark_savepoint.formats.serializers.basic.temporal import (
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
)
from pyspark_savepoint.formats.serializers.composite.collections import (
    DATA_VIEW,
    TABLE,
    DataViewSerializer,
    LinkedListSerializer,
    ListSerializer,
    MapSerializer,
    NullAwareMapSerializer,
    SetSerializer,
)
from pyspark_savepoint.formats.serializers.composite.fields import TUPLE0, Tuple0Serializer
from pyspark_savepoint.formats.serializers.composite.flinkx import COLLECTIONS
from pyspark_savepoint.formats.serializers.composite.wrappers import (
    RUNTIME,
    SCALA,
    EitherSerializer,
    ScalaOptionSerializer,
    UnionSerializer,
)
from pyspark_savepoint.formats.serializers.runtime import operators
from pyspark_savepoint.formats.serializers.runtime.operators import STREAMING, BufferEntrySerializer, TimerSerializer
from pyspark_savepoint.formats.serializers.runtime.stream_element import StreamElementSerializer
from pyspark_savepoint.formats.serializers.runtime.ttl import TTL, TtlSerializer
from pyspark_savepoint.formats.serializers.sql import table_data

#: Packages of the Scala API up to Flink 1.20, and since 2.0.
SCALA_1, SCALA_2 = SCALA


def _all() -> list[TypeSerializer]:
    """Return a serializer of every type without arguments; for equal names, that of the DataStream API comes last."""
    local = ("LocalDate", "LocalTime", "LocalDateTime")
    classes = (LocalDateSerializer, LocalTimeSerializer, LocalDateTimeSerializer)
    made: list[TypeSerializer] = [NumberSerializer.of(name) for name in BY_SNAPSHOT]
    made += [strings.StringSerializer.of(name) for name in (strings.STRING, strings.STRING_VALUE)]
    made += [strings.CharSerializer.of(name) for name in (strings.CHAR, strings.CHAR_VALUE)]
    made += [java_math.BigNumberSerializer.of(name) for name in (java_math.BIG_INTEGER, java_math.BIG_DECIMAL)]
    made += [temporal.DateSerializer.of(name) for name in temporal.MILLIS]
    made += [temporal.MomentSerializer.of(name) for name in (temporal.SQL_TIMESTAMP, temporal.INSTANT)]
    made += [
        kind.of(f"{BASE}{stem}Serializer${stem}SerializerSnapshot") for stem, kind in zip(local, classes, strict=True)
    ]
    made += [arrays.PrimitiveArraySerializer.of(name) for name in arrays.ARRAYS]
    made += [arrays.StringArraySerializer.of(arrays.STRING_ARRAY)]
    made += [arrays.StringValueArraySerializer.of(arrays.value_array("String"))]
    made += [arrays.NullValueArraySerializer.of(arrays.value_array("Null"))]
    made += [blobs.BytesSerializer.of(name) for name in blobs.BLOCKS]
    made += [blobs.VariantSerializer.of(f"{BASE}VariantSerializer$VariantSerializerSnapshot")]
    # Reversed, so that the entries of queryable state and of the Scala API of 2.0 come first and are overwritten.
    made += [primitives.ConstantSerializer.of(name) for name in reversed(primitives.CONSTANTS) if "Snapshot" in name]
    made += [operators.TimeWindowSerializer.of(name) for name in (operators.STREAM_WINDOW, operators.TABLE_WINDOW)]
    made += [operators.WindowLongSerializer.of(name) for name in (operators.COUNT_WINDOW, operators.SORTED_LONG)]
    made += [table_data.StringDataSerializer.of(table_data.STRING_DATA), Tuple0Serializer.of(TUPLE0)]
    return made


#: Types without arguments, and arrays of primitive types, by their ``flink_type``.
SIMPLE: Mapping[str, TypeSerializer] = {
    **{serializer.flink_type: serializer for serializer in _all()},
    "BIG_INT": java_math.BigNumberSerializer.of(java_math.BIG_INTEGER),
    "BIG_DEC": java_math.BigNumberSerializer.of(java_math.BIG_DECIMAL),
}

#: Composites whose snapshot holds only their parts: class, snapshot class, outer version, number of parts.
COMPOSITES: Mapping[str, tuple[type[CompositeSerializer], str, int, int]] = {
    "LIST": (ListSerializer, BASE + "ListSerializerSnapshot", 1, 1),
    "SET": (SetSerializer, BASE + "SetSerializerSnapshot", 1, 1),
    "MAP": (MapSerializer, BASE + "MapSerializerSnapshot", 1, 2),
    "NULL_AWARE_MAP": (NullAwareMapSerializer, DATA_VIEW + "NullAwareMapSerializerSnapshot", 1, 2),
    "LIST_VIEW": (DataViewSerializer, DATA_VIEW + "ListViewSerializerSnapshot", 1, 1),
    "MAP_VIEW": (DataViewSerializer, DATA_VIEW + "MapViewSerializerSnapshot", 1, 1),
    "LINKED_LIST": (LinkedListSerializer, TABLE + "LinkedListSerializer$LinkedListSerializerSnapshot", 3, 1),
    "EITHER": (EitherSerializer, RUNTIME + "JavaEitherSerializerSnapshot", 1, 2),
    "SCALA_EITHER": (EitherSerializer, SCALA_1 + "ScalaEitherSerializerSnapshot", 1, 2),
    "OPTION": (ScalaOptionSerializer, SCALA_1 + "ScalaOptionSerializerSnapshot", 2, 1),
    "UNION": (UnionSerializer, STREAMING + "api.datastream.CoGroupedStreams$UnionSerializerSnapshot", 2, 2),
    "TIMER": (TimerSerializer, STREAMING + "api.operators.TimerSerializerSnapshot", 2, 2),
    "TTL": (TtlSerializer, TTL, 2, 1),
    "BUFFER_ENTRY": (
        BufferEntrySerializer,
        STREAMING + "api.operators.co.IntervalJoinOperator$BufferEntrySerializerSnapshot",
        2,
        1,
    ),
    "STREAM_ELEMENT": (
        StreamElementSerializer,
        STREAMING + "runtime.streamrecord.StreamElementSerializer$StreamElementSerializerSnapshot",
        2,
        1,
    ),
}

#: First release of the types that came after 1.16.
NEEDS: Mapping[str, Flink] = {
    word: since
    for word, snapshot_class in (
        *((word, serializer.snapshot_class) for word, serializer in SIMPLE.items()),
        *((word, row[1]) for word, row in COMPOSITES.items()),
    )
    if (since := lifetime(snapshot_class)[0]) is not None
}

#: Types that text cannot describe, because their snapshots contain more than names and parts, with the reason.
NOT_FROM_TEXT: Mapping[str, str] = {
    "KRYO": "Kryo's registrations belong to the job",
    "VALUE": "the user's own class writes its values",
    "WRITABLE": "Hadoop's own classes write their values",
    "JAVA": "its values are serialized by Java itself",
    "UNKNOWN": "its class is not known",
    "SORTED_MAP": "its comparator is a Java object",
    "TRAVERSABLE": "the builder of a Scala collection is generated code",
    "TRY": "Kryo writes its exceptions",
    "RAW": "the job defines its inner serializer",
    "BINARY_ROWDATA": "the types of its fields are not known",
    "WINDOW_KEY": "only Flink SQL creates it",
    "TWO_PHASE_COMMIT": "the sink defines the type of its transactions",
    **dict.fromkeys(
        ("EVENT_ID", "DEWEY_NUMBER", "NODE_ID", "SHARED_BUFFER_EDGE", "SHARED_BUFFER_NODE", "NFA_STATE", "LOCKABLE"),
        "it depends on the pattern of the job",
    ),
    **dict.fromkeys(
        tuple(
            f"FLINKX_{word}"
            for word in (
                *("CASE_CLASS", "CASE_OBJECT", "COPRODUCT", "MAPPED", "OPTION", "EITHER", "MAP", "MUTABLE_MAP"),
                *COLLECTIONS.values(),
            )
        ),
        "its serializer snapshot names classes of the job",
    ),
    **dict.fromkeys(("NODE", "ROW_SQN_INFO", "META_SQN_INFO"), "only Flink SQL creates it"),
}

#: Names of types in other languages.
OTHER_WORDS: Mapping[str, str] = {
    "INTEGER": "INT",
    "BIGINT": "LONG",
    "SMALLINT": "SHORT",
    "TINYINT": "BYTE",
    "BOOL": "BOOLEAN",
    "REAL": "FLOAT",
    "VARCHAR": "STRING",
    "TEXT": "STRING",
    "CHARACTER": "CHAR",
    "BINARY": "PRIMITIVE_ARRAY<BYTE>",
    "BYTES": "PRIMITIVE_ARRAY<BYTE>",
    "TIMESTAMP_LTZ": "INSTANT",
    "TIMESTAMP_NTZ": "LOCAL_DATE_TIME",
    "ARRAY": "LIST",
    "STRUCT": "ROW",
    "OPTIONAL": "NULLABLE",
    "JAVA.LANG.LONG": "LONG",
    "JAVA.LANG.INTEGER": "INT",
    "JAVA.LANG.STRING": "STRING",
}


def scala_home(snapshot_class: str, version: Flink) -> str:
    """Return a snapshot class of the Scala API in the package of a release; all other classes unchanged."""
    if not snapshot_class.startswith(("Scala", SCALA_1)):
        return snapshot_class
    return (SCALA_1 if version < (2, 0) else SCALA_2) + snapshot_class.removeprefix(SCALA_1)
