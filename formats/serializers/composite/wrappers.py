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
from operator import attrgetter

import pyarrow as pa

from pyspark_savepoint.formats.columns import Ints
from pyspark_savepoint.formats.encodings import UTF, at_most
from pyspark_savepoint.formats.serializers.base import (
    TypeSerializer,
)
from pyspark_savepoint.formats.serializers.basic.kinds import Kind, ShapedKindSerializer, of_kind
from pyspark_savepoint.formats.serializers.basic.shapes import Choice, Flagged, Repeated
from pyspark_savepoint.formats.serializers.layout import Part
from pyspark_savepoint.formats.structs import part

EITHER = "org.apache.flink.types.Either"
RUNTIME = "org.apache.flink.api.java.typeutils.runtime."
#: Packages of the Scala API's serializers: up to Flink 1.20, and since 2.0.
SCALA = ("org.apache.flink.api.scala.typeutils.", "org.apache.flink.table.api.typeutils.")
# A padded null is as long as a value of fixed length, and no real type is longer than this.
MAX_PADDING = 1 << 20


def scala(*names: str) -> tuple[str, ...]:
    """Return snapshot classes in both packages of the Scala API."""
    return tuple(home + name for home in SCALA for name in names)


@of_kind(
    Kind(
        "NULLABLE",
        (RUNTIME + "NullableSerializer$NullableSerializerSnapshot",),
        ("value",),
        versions=(2,),
        has_own_notation=True,
        compared=attrgetter("padding"),
        equal="padding",
    )
)
@dataclass(frozen=True)
class NullableSerializer(ShapedKindSerializer):
    """Serializer of NULLABLE<T>; with ``padding`` a null is as long as a value."""

    padding: int = part(at_most(MAX_PADDING), "bytes of padding", default=0)

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


def nullable_of(nested: tuple[TypeSerializer, ...]) -> Part:
    """Return the shape of an Option of Scala, which becomes a nullable column."""
    return Flagged(nested[0], null_flag=0)


SIDES = ("left", "right")


def either_of(nested: tuple[TypeSerializer, ...]) -> Part:
    """Return the shape of an Either, which becomes a struct with exactly one field set."""
    return Choice(SIDES, nested, (1, 0))


@of_kind(
    Kind("EITHER", (RUNTIME + "JavaEitherSerializerSnapshot",), SIDES, shape=either_of, java_class=EITHER),
    Kind("SCALA_EITHER", scala("ScalaEitherSerializerSnapshot"), SIDES, shape=either_of),
    # Of Flink 1.6 and 1.7: it has no magic number before its parts.
    Kind("EITHER", (RUNTIME + "EitherSerializerSnapshot",), SIDES, versions=(2,), shape=either_of),
)
@dataclass(frozen=True)
class EitherSerializer(ShapedKindSerializer):
    """Serializer of EITHER<L, R> and of SCALA_EITHER<L, R>."""

    @classmethod
    def of(cls, left: TypeSerializer, right: TypeSerializer) -> EitherSerializer:
        """Return an Either of Flink as this package writes it."""
        return cls(RUNTIME + "JavaEitherSerializerSnapshot", 3, 1, (left, right))

    def java_hash(self, column: pa.Array) -> Ints:
        """Return the hash of the value for Flink's Either; the hash of Scala's Either is not known."""
        if not self.snapshot_class.startswith(RUNTIME):
            return super().java_hash(column)
        return self.nested[0].java_hash(column.field(0)) ^ self.nested[1].java_hash(column.field(1))


of_kind(
    Kind("OPTION", scala("ScalaOptionSerializerSnapshot"), versions=(2,), shape=nullable_of),
    Kind(
        "TRY",
        scala("ScalaTrySerializerSnapshot"),
        ("success", "failure"),
        versions=(2,),
        shape=lambda nested: Choice(("success", "failure"), nested, (1, 0)),
        no_text="Kryo writes its exceptions",
    ),
    # The elements of a window over two streams.
    Kind(
        "UNION",
        ("org.apache.flink.streaming.api.datastream.CoGroupedStreams$UnionSerializerSnapshot",),
        ("one", "two"),
        versions=(2,),
        shape=lambda nested: Choice(("one", "two"), nested, (1, 2)),
    ),
)(ShapedKindSerializer)


@of_kind(
    Kind(
        "TRAVERSABLE",
        scala("TraversableSerializerSnapshot"),
        versions=(2,),
        shape=lambda nested: Repeated(Flagged(nested[0], null_flag=0)),
        no_text="the builder of a Scala collection is generated code",
        compared=attrgetter("builder_code"),
        equal="builder",
    )
)
@dataclass(frozen=True)
class TraversableSerializer(ShapedKindSerializer):
    """Serializer of TRAVERSABLE<T>: any Scala collection. The source of its builder is kept as text, and never run."""

    builder_code: str = part(UTF, "the builder of a Scala collection", default="")
