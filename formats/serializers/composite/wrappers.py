"""Wrappers around other serializers: nullable, either, Scala's option, try and collections, tagged unions.

    snapshot := Composite, the wrapped serializers nested; outside: Nullable i32 padLen (version 2), Traversable
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
from typing import Any, ClassVar

import pyarrow as pa

from pyspark_savepoint.formats.columns import Ints
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.serializers.base import (
    SnapshotReader,
    TypeSerializer,
    flink_types,
)
from pyspark_savepoint.formats.serializers.basic.shapes import Choice, Flagged, Repeated, ShapedSerializer
from pyspark_savepoint.formats.serializers.layout import Part
from pyspark_savepoint.formats.serializers.registry import register

RUNTIME = "org.apache.flink.api.java.typeutils.runtime."
#: The Scala API had one home up to Flink 1.20 and another in 2.0.
SCALA = ("org.apache.flink.api.scala.typeutils.", "org.apache.flink.table.api.typeutils.")
# A null stands for a value of fixed length; no real one is longer than this.
MAX_PADDING = 1 << 20


def scala(*names: str) -> list[str]:
    """Snapshot classes in both homes of the Scala API."""
    return [home + name for home in SCALA for name in names]


@register(RUNTIME + "NullableSerializer$NullableSerializerSnapshot")
@dataclass(frozen=True)
class NullableSerializer(ShapedSerializer):
    """NULLABLE<T>; with ``padding`` a null is as long as a value."""

    padding: int = 0
    outer_versions: ClassVar[tuple[int, ...]] = (2,)

    @classmethod
    def read_outer(cls, outer_version: int, reader: SnapshotReader) -> dict[str, Any]:
        return {"padding": reader.view.read_count("bytes of padding", each=0, limit=MAX_PADDING)}

    def write_outer(self, view: DataOutputView) -> None:
        view.write_i32(self.padding)

    @property
    def flink_type(self) -> str:
        """NULLABLE<T>; NULLABLE<T>(PADDED) where a null is as long as a value."""
        return f"NULLABLE<{self.nested[0].flink_type}>" + ("(PADDED)" if self.padding else "")

    @property
    def length(self) -> int:
        """Fixed where it is padded."""
        return 1 + self.padding if self.padding else -1

    @property
    def shape(self) -> Part:
        """A flag that says null."""
        return Flagged(self.nested[0], padding=self.padding)

    def java_hash(self, column: pa.Array) -> Ints:
        return self.nested[0].java_hash(column)

    @classmethod
    def of(cls, inner: TypeSerializer, padded: bool = False) -> NullableSerializer:
        """A nullable as this package writes it."""
        padding = max(inner.length, 0) if padded else 0
        return cls(RUNTIME + "NullableSerializer$NullableSerializerSnapshot", 3, 2, (inner,), padding)


@register(*scala("ScalaOptionSerializerSnapshot"))
@dataclass(frozen=True)
class ScalaOptionSerializer(ShapedSerializer):
    """OPTION<T>: the usual way of Scala's case classes to have a null."""

    outer_versions: ClassVar[tuple[int, ...]] = (2,)

    @property
    def flink_type(self) -> str:
        return f"OPTION<{self.nested[0].flink_type}>"

    @property
    def shape(self) -> Part:
        """A flag that says present."""
        return Flagged(self.nested[0], null_flag=0)


@register(RUNTIME + "JavaEitherSerializerSnapshot", *scala("ScalaEitherSerializerSnapshot"))
@dataclass(frozen=True)
class EitherSerializer(ShapedSerializer):
    """EITHER<L, R>; a struct of which one field is set."""

    arity: ClassVar[int | None] = 2

    @property
    def flink_type(self) -> str:
        """EITHER<L, R>, or SCALA_EITHER<L, R>."""
        home = "" if self.snapshot_class.startswith(RUNTIME) else "SCALA_"
        return f"{home}EITHER<{flink_types(self.nested)}>"

    @property
    def shape(self) -> Part:
        """A flag that says left."""
        return Choice(("left", "right"), self.nested, (1, 0))

    def java_hash(self, column: pa.Array) -> Ints:
        """The value's. Scala's own Either hashes in a way of its own."""
        if not self.snapshot_class.startswith(RUNTIME):
            return super().java_hash(column)
        return self.nested[0].java_hash(column.field(0)) ^ self.nested[1].java_hash(column.field(1))


@register(RUNTIME + "EitherSerializerSnapshot")
@dataclass(frozen=True)
class LegacyEitherSerializer(EitherSerializer):
    """The same from a snapshot of Flink 1.6 and 1.7: no magic number before the nested serializers."""

    outer_versions: ClassVar[tuple[int, ...]] = (2,)


@register(*scala("ScalaTrySerializerSnapshot"))
@dataclass(frozen=True)
class ScalaTrySerializer(ShapedSerializer):
    """TRY<T, E>; the throwable is Kryo's."""

    arity: ClassVar[int | None] = 2
    outer_versions: ClassVar[tuple[int, ...]] = (2,)

    @property
    def flink_type(self) -> str:
        return f"TRY<{flink_types(self.nested)}>"

    @property
    def shape(self) -> Part:
        """A flag that says success."""
        return Choice(("success", "failure"), self.nested, (1, 0))


@register(*scala("TraversableSerializerSnapshot"))
@dataclass(frozen=True)
class TraversableSerializer(ShapedSerializer):
    """TRAVERSABLE<T>: any Scala collection. The source text of its builder is kept as text, and nothing else."""

    builder_code: str = ""
    outer_versions: ClassVar[tuple[int, ...]] = (2,)

    @classmethod
    def read_outer(cls, outer_version: int, reader: SnapshotReader) -> dict[str, Any]:
        return {"builder_code": reader.view.read_utf("the builder of a Scala collection")}

    def write_outer(self, view: DataOutputView) -> None:
        view.write_utf(self.builder_code)

    @property
    def flink_type(self) -> str:
        return f"TRAVERSABLE<{self.nested[0].flink_type}>"

    @property
    def shape(self) -> Part:
        """Elements with a flag that says present."""
        return Repeated(Flagged(self.nested[0], null_flag=0))


@register("org.apache.flink.streaming.api.datastream.CoGroupedStreams$UnionSerializerSnapshot")
@dataclass(frozen=True)
class UnionSerializer(ShapedSerializer):
    """UNION<A, B>: the elements of a window over two streams."""

    arity: ClassVar[int | None] = 2
    outer_versions: ClassVar[tuple[int, ...]] = (2,)

    @property
    def flink_type(self) -> str:
        return f"UNION<{flink_types(self.nested)}>"

    @property
    def shape(self) -> Part:
        return Choice(("one", "two"), self.nested, (1, 2))
