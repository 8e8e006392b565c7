"""Serializers of flink-scala-api in place of those of Flink 1's Scala API, which Flink 2 does not have.

Only a savepoint of the new job shows which one a state has there. ``Try`` and ``Enumeration`` have none there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.enums import ScalaEnumSerializer
from pyspark_savepoint.formats.serializers.basic.kinds import KindSerializer, word_of
from pyspark_savepoint.formats.serializers.composite.collections import GenericArraySerializer
from pyspark_savepoint.formats.serializers.composite.fields import CaseClassSerializer
from pyspark_savepoint.formats.serializers.composite.flinkx import (
    FlinkxCaseClassSerializer,
    FlinkxCollectionSerializer,
    FlinkxMappedSerializer,
    FlinkxMapSerializer,
)
from pyspark_savepoint.formats.serializers.composite.wrappers import (
    SCALA,
    TraversableSerializer,
)
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.statebackends.types.serializer_parts import Path

SCALA_API = SCALA[0]
#: Classes of numbers that Kryo writes for the Scala API, with flink-scala-api's mapper and what it maps them to.
NUMBERS = {
    "scala.math.BigDecimal": ("org.apache.flinkx.api.mapper.BigDecMapper", "BIG_DECIMAL"),
    "scala.math.BigInt": ("org.apache.flinkx.api.mapper.BigIntMapper", "BIG_INTEGER"),
}
UNIT, FLINKX_UNIT = "UNIT", "FLINKX_UNIT"


@dataclass(frozen=True)
class Pair:
    """A part of a serializer, by its path in the old one, and what replaces it."""

    path: Path
    old: TypeSerializer
    new: TypeSerializer


def of_scala_api(serializer: TypeSerializer) -> bool:
    """Return whether a serializer is of Flink 1's Scala API."""
    return serializer.snapshot_class.startswith(SCALA_API)


def without_successor(serializer: TypeSerializer) -> bool:
    """Return whether flink-scala-api has nothing in place of a serializer."""
    return (word_of(serializer) == "TRY" or isinstance(serializer, ScalaEnumSerializer)) and of_scala_api(serializer)


def pairs_of(old: TypeSerializer, new: TypeSerializer) -> Sequence[Pair] | None:
    """Return the parts of a serializer and of what is in its place; None if values are not rewritten so."""
    if isinstance(old, CaseClassSerializer) and isinstance(new, FlinkxCaseClassSerializer):
        if len(old.nested) != len(new.nested):
            return None
        return [Pair((f"f{index}",), *parts) for index, parts in enumerate(zip(old.nested, new.nested, strict=True))]
    if isinstance(old, KindSerializer) and (old.kind.word, word_of(new)) in (
        ("OPTION", "FLINKX_OPTION"),
        ("SCALA_EITHER", "FLINKX_EITHER"),
    ):
        sides = enumerate(zip(old.children, new.children, strict=True))
        return [Pair((old.kind.part(index),), *parts) for index, parts in sides]
    if isinstance(old, TraversableSerializer) and isinstance(new, FlinkxMapSerializer):
        inner = old.nested[0]
        if not isinstance(inner, CaseClassSerializer) or len(inner.nested) != len(new.nested):
            return None
        return [
            Pair(("element", f"f{index}"), *parts)
            for index, parts in enumerate(zip(inner.nested, new.nested, strict=True))
        ]
    if isinstance(old, TraversableSerializer | GenericArraySerializer) and isinstance(new, FlinkxCollectionSerializer):
        return [Pair(("element",), old.nested[0], new.element)]
    return [] if (old.flink_type, new.flink_type) == (UNIT, FLINKX_UNIT) else None


def is_rewritten(old: TypeSerializer, new: TypeSerializer) -> bool:
    """Return whether values of a serializer become those of flink-scala-api."""
    return (of_scala_api(old) or isinstance(old, GenericArraySerializer)) and pairs_of(old, new) is not None


def is_mapped_number(old: TypeSerializer, new: TypeSerializer) -> bool:
    """Return whether a BigDecimal or BigInt of Scala that Kryo wrote becomes Java's, by flink-scala-api's mapper."""
    if not isinstance(old, KryoSerializer) or not isinstance(new, FlinkxMappedSerializer):
        return False
    return NUMBERS.get(old.type_class) == (new.mapper_class, new.mapped.flink_type)
