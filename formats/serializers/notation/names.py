"""Words of the notation of types: their serializers, their first Flink release, and types that text cannot describe."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.flink_releases import Flink as Flink
from pyspark_savepoint.formats.flink_releases import lifetime
from pyspark_savepoint.formats.serializers.basic import arrays, blobs, java_math, primitives, strings, temporal
from pyspark_savepoint.formats.serializers.basic.kinds import Kind, all_kinds, kind_of_word
from pyspark_savepoint.formats.serializers.basic.primitives import SimpleSerializer
from pyspark_savepoint.formats.serializers.composite import fields
from pyspark_savepoint.formats.serializers.composite.flinkx import COLLECTIONS, OF_THE_JOB
from pyspark_savepoint.formats.serializers.composite.wrappers import SCALA
from pyspark_savepoint.formats.serializers.registry import known_serializers, registered
from pyspark_savepoint.formats.serializers.runtime import operators
from pyspark_savepoint.formats.serializers.sql import table_data

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.base import TypeSerializer

#: Packages of the Scala API up to Flink 1.20, and since 2.0.
SCALA_1, SCALA_2 = SCALA


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
                *("CASE_OBJECT", "COPRODUCT", "MAPPED", "MAP", "MUTABLE_MAP"),
                *COLLECTIONS.values(),
            )
        ),
        OF_THE_JOB,
    ),
}


#: Modules of the types without arguments that most texts name; those of others are imported when a text names them.
MODULES = (arrays, blobs, fields, java_math, operators, primitives, strings, table_data, temporal)


def _simple() -> dict[str, TypeSerializer]:
    """Return the types without arguments of the modules that were imported; of equal names, the first one."""
    simple: dict[str, TypeSerializer] = {}
    for name, kind in registered().items():
        one = kind.of(name) if issubclass(kind, SimpleSerializer) else None
        if one is not None and one.flink_type not in NOT_FROM_TEXT:
            simple.setdefault(one.flink_type, one)
    return simple


#: Types without arguments, and arrays of primitive types, by their ``flink_type``.
SIMPLE: Mapping[str, TypeSerializer] = {
    **_simple(),
    "BIG_INT": java_math.BigNumberSerializer.of(java_math.BIG_INTEGER),
    "BIG_DEC": java_math.BigNumberSerializer.of(java_math.BIG_DECIMAL),
}


def simple_type(word: str) -> TypeSerializer | None:
    """Return the type without arguments of a name; None if there is none."""
    return SIMPLE.get(word) or (_all_simple().get(word) if kind_of_word(word) is None else None)


@cache
def _all_simple() -> Mapping[str, TypeSerializer]:
    known_serializers()
    return _simple()


#: First release of the types without arguments that came after 1.16.
NEEDS: Mapping[str, Flink] = {
    word: since for word, serializer in SIMPLE.items() if (since := lifetime(serializer.snapshot_class)[0]) is not None
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
