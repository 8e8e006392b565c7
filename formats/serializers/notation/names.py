"""Words of the notation of types: their serializers, their first Flink release, and types that text cannot describe."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_savepoint.formats.flink_releases import Flink as Flink
from pyspark_savepoint.formats.flink_releases import lifetime
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic import arrays, blobs, java_math, primitives, strings, temporal
from pyspark_savepoint.formats.serializers.basic.kinds import Kind, all_kinds, kind_of_word
from pyspark_savepoint.formats.serializers.basic.primitives import BASE, BY_SNAPSHOT, NumberSerializer
from pyspark_savepoint.formats.serializers.basic.temporal import (
    LocalDateSerializer,
    LocalDateTimeSerializer,
    LocalTimeSerializer,
)
from pyspark_savepoint.formats.serializers.composite.fields import TUPLE0, Tuple0Serializer
from pyspark_savepoint.formats.serializers.composite.flinkx import COLLECTIONS, OF_THE_JOB
from pyspark_savepoint.formats.serializers.composite.wrappers import (
    SCALA,
)
from pyspark_savepoint.formats.serializers.runtime import operators
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

#: First release of the types without arguments that came after 1.16.
NEEDS: Mapping[str, Flink] = {
    word: since for word, serializer in SIMPLE.items() if (since := lifetime(serializer.snapshot_class)[0]) is not None
}

#: Types without a row that text cannot describe, and why: their snapshots contain more than names and parts.
NOT_FROM_TEXT: Mapping[str, str] = {
    "KRYO": "Kryo's registrations belong to the job",
    "VALUE": "the user's own class writes its values",
    "WRITABLE": "Hadoop's own classes write their values",
    "JAVA": "its values are serialized by Java itself",
    "UNKNOWN": "its class is not known",
    "RAW": "the job defines its inner serializer",
    "BINARY_ROWDATA": "the types of its fields are not known",
    **dict.fromkeys(("EVENT_ID", "DEWEY_NUMBER"), "it depends on the pattern of the job"),
    **dict.fromkeys(
        tuple(
            f"FLINKX_{word}"
            for word in (
                *("CASE_CLASS", "CASE_OBJECT", "COPRODUCT", "MAPPED", "MAP", "MUTABLE_MAP"),
                *COLLECTIONS.values(),
            )
        ),
        OF_THE_JOB,
    ),
}


def not_from_text(word: str) -> str | None:
    """Return why text cannot describe a type; None if it can, or if there is no such type."""
    kind = kind_of_word(word)
    return NOT_FROM_TEXT.get(word) if kind is None else kind.no_text or None


def composites() -> Mapping[str, Kind]:
    """Return the kinds whose notation is their word and their nested types."""
    return {kind.word: kind for kind, _ in reversed(all_kinds()) if kind.is_plain}


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
