"""Serializers of the state of Flink's operators: timers, interval joins, two-phase commits.

    snapshot := Composite 2, the user's serializers nested;
                TwoPhaseCommit: outer version 2 (to Flink 1.13), 3 (1.14), 4 (since 1.15, outer: bool supportsNull)
    Timer          := i64 timestamp, the sign bit flipped  key  namespace
    BufferEntry    := u8 hasBeenJoined  element
    TwoPhaseCommit := [u8 isPresent, since version 3]  pending transaction unless absent
                      i32 n  transaction[n]  u8 isPresent  context unless absent
    transaction    := handle  i64 start

Flink: ``TimerSerializer``, ``IntervalJoinOperator.BufferEntrySerializer``,
``TwoPhaseCommitSinkFunction.StateSerializer``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Longs,
    fixed_array,
    fixed_values,
)
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.serializers.base import SnapshotReader, TypeSerializer, flink_types
from pyspark_savepoint.formats.serializers.basic.primitives import read_numbers, write_numbers
from pyspark_savepoint.formats.serializers.basic.shapes import (
    BOOLEAN,
    LONG,
    Fields,
    Flagged,
    Repeated,
    ShapedSerializer,
)
from pyspark_savepoint.formats.serializers.layout import Layout, Part
from pyspark_savepoint.formats.serializers.registry import register

STREAMING = "org.apache.flink.streaming."
SIGN_BIT = np.int64(-(2**63))


@dataclass(frozen=True)
class SortableLong:
    """Long with a flipped sign bit, so that its bytes sort like the numbers."""

    flink_type: ClassVar[str] = "LONG"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.int64()

    def layout(self, layout: Layout) -> int:
        return LONG.layout(layout)

    def decode(self, at: Cursors) -> pa.Array:
        return fixed_array(pa.int64(), read_numbers(at, "read_i64", np.int64, "a timestamp") ^ SIGN_BIT)

    def sizes(self, column: pa.Array) -> Longs:
        return LONG.sizes(column)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        write_numbers(fixed_values(column, np.int64) ^ SIGN_BIT, at)


@register(STREAMING + "api.operators.TimerSerializerSnapshot")
@dataclass(frozen=True)
class TimerSerializer(ShapedSerializer):
    """Serializer of TIMER<K, N>."""

    arity: ClassVar[int | None] = 2
    outer_versions: ClassVar[tuple[int, ...]] = (2,)

    @classmethod
    def of(cls, key: TypeSerializer, namespace: TypeSerializer) -> TimerSerializer:
        """Return a timer serializer as this package writes it."""
        return cls(STREAMING + "api.operators.TimerSerializerSnapshot", 3, 2, (key, namespace))

    @property
    def key(self) -> TypeSerializer:
        return self.nested[0]

    @property
    def namespace(self) -> TypeSerializer:
        return self.nested[1]

    @property
    def flink_type(self) -> str:
        return f"TIMER<{flink_types(self.nested)}>"

    @property
    def length(self) -> int:
        """The sum of the lengths, if key and namespace have fixed lengths, which may be 0 here; else -1."""
        lengths = [part.length for part in self.nested]
        return 8 + sum(lengths) if min(lengths) >= 0 else -1

    @property
    def shape(self) -> Part:
        return Fields(("timestamp", "key", "namespace"), (SortableLong(), *self.nested))


@register(STREAMING + "api.operators.co.IntervalJoinOperator$BufferEntrySerializerSnapshot")
@dataclass(frozen=True)
class BufferEntrySerializer(ShapedSerializer):
    """Serializer of BUFFER_ENTRY<T>: an element buffered by an interval join."""

    outer_versions: ClassVar[tuple[int, ...]] = (2,)

    @property
    def flink_type(self) -> str:
        return f"BUFFER_ENTRY<{self.nested[0].flink_type}>"

    @property
    def shape(self) -> Part:
        return Fields(("has_been_joined", "element"), (BOOLEAN, self.nested[0]))


@register(
    STREAMING + "api.functions.sink.TwoPhaseCommitSinkFunction$StateSerializerSnapshot",
    STREAMING + "api.functions.sink.legacy.TwoPhaseCommitSinkFunction$StateSerializerSnapshot",
)
@dataclass(frozen=True)
class TwoPhaseCommitSerializer(ShapedSerializer):
    """Serializer of TWO_PHASE_COMMIT<T, C>: a sink's transactions and its context."""

    supports_null_transaction: bool = True
    arity: ClassVar[int | None] = 2
    outer_versions: ClassVar[tuple[int, ...]] = (2, 3, 4)

    @classmethod
    def read_outer(cls, outer_version: int, reader: SnapshotReader) -> dict[str, Any]:
        """Read whether the pending transaction can be null; versions below 4 imply it."""
        if outer_version < 4:
            return {"supports_null_transaction": outer_version == 3}
        return {"supports_null_transaction": reader.view.read_bool("supports a null transaction")}

    def write_outer(self, view: DataOutputView) -> None:
        if self.outer_version == 4:
            view.write_bool(self.supports_null_transaction)

    @property
    def flink_type(self) -> str:
        return f"TWO_PHASE_COMMIT<{flink_types(self.nested)}>"

    @property
    def shape(self) -> Part:
        """The pending transaction, the transactions to commit, and the context."""
        transaction, context = self.nested
        one = Fields(("handle", "transaction_start_time"), (transaction, LONG))
        return Fields(
            ("pending_transaction", "pending_commit_transactions", "context"),
            (
                Flagged(one, null_flag=0) if self.supports_null_transaction else one,
                Repeated(one),
                Flagged(context, null_flag=0),
            ),
        )
