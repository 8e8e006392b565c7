"""Serializers of state with a time to live (TTL): the time of the last access, then the value.

    TTL       snapshot := Composite 2, nested: LONG, the serializer of the value
              value    := i64 milliseconds since 1970  value
    TTL_AWARE snapshot := version 1: bool isTtl, Versioned (Flink 2.0 and later, normally in memory only)
              value    := as the nested serializer writes it

Decoded columns hold only the value, or with the option ``ttl`` a struct of value and last access. Both forms can be
written; without a last access the current time is written.
Flink: ``TtlStateFactory.TtlSerializer``, ``TtlAwareSerializer``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Ints,
    Longs,
    fixed_array,
    refuse_nulls,
    struct_array,
)
from pyspark_savepoint.formats.encodings import BOOL
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.declared import SNAPSHOT, DeclaredSerializer
from pyspark_savepoint.formats.serializers.basic.kinds import Kind, KindSerializer, of_kind
from pyspark_savepoint.formats.serializers.basic.primitives import read_numbers, write_numbers
from pyspark_savepoint.formats.serializers.basic.shapes import LONG, WrappingSerializer, naming
from pyspark_savepoint.formats.serializers.basic.temporal import TIMESTAMP, millis_of, millis_to_micros, timestamps
from pyspark_savepoint.formats.serializers.layout import Layout
from pyspark_savepoint.formats.serializers.registry import register
from pyspark_savepoint.formats.structs import part, struct_with_dict

TTL = "org.apache.flink.runtime.state.ttl.TtlStateFactory$TtlSerializerSnapshot"
ASYNC_TTL = "org.apache.flink.runtime.state.v2.ttl.TtlStateFactory$TtlSerializerSnapshot"
TTL_FIELDS = ("value", "last_access")


@of_kind(
    Kind(
        "TTL",
        (TTL, ASYNC_TTL),
        ("last access", "value"),
        versions=(2,),
        notation=lambda nested: f"TTL<{nested[1].flink_type}>",
    )
)
@dataclass(frozen=True)
class TtlSerializer(KindSerializer):
    """Serializer of TTL<T>."""

    @classmethod
    def of(cls, value: TypeSerializer) -> TtlSerializer:
        """Return a TTL serializer as this package writes it."""
        return cls(TTL, 3, 2, (LONG, value))

    @property
    def value(self) -> TypeSerializer:
        """The serializer of the user's values."""
        return self.nested[1]

    @property
    def length(self) -> int:
        """8 bytes more than the value."""
        return 8 + self.value.length if self.value.length >= 0 else -1

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return the type of the value; with the option ``ttl`` a struct of value and last access."""
        value = self.value.arrow_type(options)
        if not options.ttl:
            return value
        access = pa.int64() if options.timestamps == "raw" else TIMESTAMP
        return pa.struct([pa.field(name, kind) for name, kind in zip(TTL_FIELDS, (value, access), strict=True)])

    def layout(self, layout: Layout) -> int:
        from pyspark_savepoint.formats.kernels import skip

        return layout.add(skip.SEQUENCE, parts=[layout.add(skip.FIXED, 8), self.value.layout(layout)])

    def decode(self, at: Cursors) -> pa.Array:
        """Read the value, and the last access with the option ``ttl``."""
        start = at.at(at.position.copy(), at.end)
        millis = read_numbers(at, "read_i64", np.int64, "the last access of a value with a time to live")
        value = self.value.decode(at)
        if not at.options.ttl:
            return value
        every = np.ones(len(at), np.bool_)
        if at.options.timestamps == "raw":
            access = fixed_array(pa.int64(), millis)
        else:
            access = timestamps(millis_to_micros(start, millis, every), every)
        return struct_array(self.arrow_type(at.options), [value, access], len(at))

    def sizes(self, column: pa.Array) -> Longs:
        return self.value.sizes(self._value_of(column)) + 8

    def encode(self, column: pa.Array, at: Cursors) -> None:
        """Write last access and value; the last access is the current time where the column has none."""
        now = time.time_ns() // 1_000_000
        millis = np.full(len(column), now, np.int64)
        if self._has_access(column.type):
            with naming("last_access"):
                given, valid = millis_of(column.field(1), "last access")
            millis = np.where(valid, given, millis)
        write_numbers(millis, at)
        self.value.encode(self._value_of(column), at)

    def _value_of(self, column: pa.Array) -> pa.Array:
        if not self._has_access(column.type):
            return column
        refuse_nulls(column, self.flink_type)
        return column.field(0)

    def _has_access(self, kind: pa.DataType) -> bool:
        """Return whether a column has the last access too: values of the user may have fields of the same names."""
        if not _is_ttl_struct(kind):
            return False
        inner = self.value.arrow_type(DecodeOptions())
        return not _is_ttl_struct(inner) or _is_ttl_struct(kind.field(0).type)


def _is_ttl_struct(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and tuple(field.name for field in kind) == TTL_FIELDS


@register("org.apache.flink.runtime.state.ttl.TtlAwareSerializerSnapshot")
@struct_with_dict
class TtlAwareSerializer(WrappingSerializer, DeclaredSerializer):
    """Serializer that delegates everything but its snapshot to a nested one."""

    is_ttl: bool = part(BOOL, "time to live is enabled")
    inner: TypeSerializer = part(SNAPSHOT)
    snapshot_versions: ClassVar[tuple[int, ...]] = (1,)

    @property
    def children(self) -> tuple[TypeSerializer, ...]:
        return (self.inner,)

    def java_hash(self, column: pa.Array) -> Ints:
        return self.inner.java_hash(column)
