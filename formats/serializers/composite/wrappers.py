"""Serializers that wrap others: nullable, either, Scala's Option, Try and collections, tagged unions.

    snapshot := Composite, the wrapped serializers nested; outer part: Nullable i32 padLen (version 2), Traversable
                utf Scala source of its builder (version 2), the others nothing;
                legacy EitherSerializerSnapshot: version 2, Nested
    Nullable     := 00 value | 01 and padLen zero bytes
    Option       := 01 value | 00
    Either       := 01 left | 00 right
    Try          := 01 value | 00 throwable
    Traversable  := i32 n  (u8 isPresent  element if present)[n]
    Union        := 01 one | 02 two

Flink: ``NullableSerializer``, ``EitherSerializer``, the ``Scala*Serializer`` and ``TraversableSerializer``,
``CoGroupedStreams.UnionSerializer``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from pyspark_savepoint.formats.columns import Ints
from pyspark_savepoint.formats.serializers.base import (
    TypeSerializer,
    flink_types,
)
from pyspark_savepoint.formats.serializers.basic.shapes import Choice, Flagged, Repeated, ShapedSerializer
from pyspark_savepoint.formats.serializers.layout import Part
from pyspark_savepoint.formats.serializers.registry import register
from pyspark_savepoint.formats.structs import UTF, at_most, part

RUNTIME = "org.apache.flink.api.java.typeutils.runtime."
#: Packages of the Scala API's serializers: up to Flink 1.20, and since 2.0.
SCALA = ("org.apache.flink.api.scala.typeutils.", "org.apache.flink.table.api.typeutils.")
# A padded null is as long as a value of fixed length, and no real type is longer than this.
MAX_PADDING = 1 << 20


def scala(*names: str) -> list[str]:
    """Return snapshot classes in both packages of the Scala API."""
    return [home + name for home in SCALA for name in names]


@register(RUNTIME + "NullableSerializer$NullableSerializerSnapshot")
@dataclass(frozen=True)
class NullableSerializer(ShapedSerializer):
    """Serializer of NULLABLE<T>; with ``padding`` a null is as long as a value."""

    padding: int = part(at_most(MAX_PADDING), "bytes of padding", default=0)
    outer_versions: ClassVar[tuple[int, ...]] = (2,)

    @property
    def java_class(self) -> str | None:
        return self.nested[0].java_class

    @property
    def flink_type(self) -> str:
        """NULLABLE<T>, or NULLABLE<T>(PADDED) if a null is as long as a value."""
        return f"NULLABLE<{self.nested[0].flink_type}>" + ("(PADDED)" if self.padding else "")

    @property
    def length(self) -> int:
        """Fixed if nulls are padded, else -1."""
        return 1 + self.padding if self.padding else -1

    @property
    def shape(self) -> Part:
        return Flagged(self.nested[0], padding=self.padding)

    def java_hash(self, column: pa.Array) -> Ints:
        return self.nested[0].java_hash(column)

    @classmethod
    def of(cls, inner: TypeSerializer, padded: bool = False) -> NullableSerializer:
        """Return a nullable as this package writes it."""
        padding = max(inner.length, 0) if padded else 0
        return cls(RUNTIME + "NullableSerializer$NullableSerializerSnapshot", 3, 2, (inner,), padding)


@register(*scala("ScalaOptionSerializerSnapshot"))
@dataclass(frozen=True)
class ScalaOptionSerializer(ShapedSerializer):
    """Serializer of OPTION<T>, which becomes a nullable T."""

    outer_versions: ClassVar[tuple[int, ...]] = (2,)

    @property
    def flink_type(self) -> str:
        return f"OPTION<{self.nested[0].flink_type}>"

    @property
    def shape(self) -> Part:
        return Flagged(self.nested[0], null_flag=0)


@register(RUNTIME + "JavaEitherSerializerSnapshot", *scala("ScalaEitherSerializerSnapshot"))
@dataclass(frozen=True)
class EitherSerializer(ShapedSerializer):
    """Serializer of EITHER<L, R>, which becomes a struct with exactly one field set."""

    arity: ClassVar[int | None] = 2

    @property
    def java_class(self) -> str | None:
        return "org.apache.flink.types.Either" if type(self) is EitherSerializer else None

    @property
    def flink_type(self) -> str:
        """EITHER<L, R>, or SCALA_EITHER<L, R>."""
        home = "" if self.snapshot_class.startswith(RUNTIME) else "SCALA_"
        return f"{home}EITHER<{flink_types(self.nested)}>"

    @property
    def shape(self) -> Part:
        return Choice(("left", "right"), self.nested, (1, 0))

    def java_hash(self, column: pa.Array) -> Ints:
        """Return the hash of the value for Flink's Either; the hash of Scala's Either is not known."""
        if not self.snapshot_class.startswith(RUNTIME):
            return super().java_hash(column)
        return self.nested[0].java_hash(column.field(0)) ^ self.nested[1].java_hash(column.field(1))


@register(RUNTIME + "EitherSerializerSnapshot")
@dataclass(frozen=True)
class LegacyEitherSerializer(EitherSerializer):
    """Serializer of EITHER<L, R> from a snapshot of Flink 1.6 or 1.7, which has no magic number before its parts."""

    outer_versions: ClassVar[tuple[int, ...]] = (2,)


@register(*scala("ScalaTrySerializerSnapshot"))
@dataclass(frozen=True)
class ScalaTrySerializer(ShapedSerializer):
    """Serializer of TRY<T, E>; Kryo serializes the throwable."""

    arity: ClassVar[int | None] = 2
    outer_versions: ClassVar[tuple[int, ...]] = (2,)

    @property
    def flink_type(self) -> str:
        return f"TRY<{flink_types(self.nested)}>"

    @property
    def shape(self) -> Part:
        return Choice(("success", "failure"), self.nested, (1, 0))


@register(*scala("TraversableSerializerSnapshot"))
@dataclass(frozen=True)
class TraversableSerializer(ShapedSerializer):
    """Serializer of TRAVERSABLE<T>: any Scala collection. The source of its builder is kept as text, and never run."""

    builder_code: str = part(UTF, "the builder of a Scala collection", default="")
    outer_versions: ClassVar[tuple[int, ...]] = (2,)

    @property
    def flink_type(self) -> str:
        return f"TRAVERSABLE<{self.nested[0].flink_type}>"

    @property
    def shape(self) -> Part:
        return Repeated(Flagged(self.nested[0], null_flag=0))


@register("org.apache.flink.streaming.api.datastream.CoGroupedStreams$UnionSerializerSnapshot")
@dataclass(frozen=True)
class UnionSerializer(ShapedSerializer):
    """Serializer of UNION<A, B>: the elements of a window over two streams."""

    arity: ClassVar[int | None] = 2
    outer_versions: ClassVar[tuple[int, ...]] = (2,)

    @property
    def flink_type(self) -> str:
        return f"UNION<{flink_types(self.nested)}>"

    @property
    def shape(self) -> Part:
        return Choice(("one", "two"), self.nested, (1, 2))
