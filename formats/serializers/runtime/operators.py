"""Serializers of the state of Flink's operators: windows, timers, interval joins, two-phase commits.

    snapshot := simple for windows; for the others Composite 2, the user's serializers nested;
                TwoPhaseCommit: outer version 2 (to Flink 1.13), 3 (1.14), 4 (since 1.15, outer: bool supportsNull)
    TimeWindow     := i64 start  i64 end     milliseconds; the end is exclusive (DataStream, SQL)
    CountWindow    := i64 id                 SQL
    SortedLong     := i64 with its sign bit flipped, so that its bytes sort like the numbers (SQL, 2.3)
    Timer          := i64 timestamp, the sign bit flipped  key  namespace
    BufferEntry    := u8 hasBeenJoined  element
    TwoPhaseCommit := [u8 isPresent, since version 3]  pending transaction unless absent
                      i32 n  transaction[n]  u8 isPresent  context unless absent
    transaction    := handle  i64 start

GlobalWindow is a constant (``primitives.py``). Flink: ``TimeWindow.Serializer`` of both packages,
``CountWindow.Serializer``, ``SortedLongSerializer``, ``TimerSerializer``,
``IntervalJoinOperator.BufferEntrySerializer``, ``TwoPhaseCommitSinkFunction.StateSerializer``.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Ints,
    Longs,
    fixed_array,
    fixed_values,
    refuse_nulls,
    struct_array,
    valid_rows,
)
from pyspark_savepoint.formats.encodings import BOOL, by_version, implied
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.kinds import Kind, ShapedKindSerializer, of_kind
from pyspark_savepoint.formats.serializers.basic.primitives import (
    FixedWidthSerializer,
    fold_long,
    read_numbers,
    write_numbers,
)
from pyspark_savepoint.formats.serializers.basic.shapes import (
    BOOLEAN,
    LONG,
    Fields,
    Flagged,
    Repeated,
    naming,
)
from pyspark_savepoint.formats.serializers.basic.temporal import TIMESTAMP, millis_of, millis_to_micros, timestamps
from pyspark_savepoint.formats.serializers.layout import Layout, Part
from pyspark_savepoint.formats.serializers.registry import register
from pyspark_savepoint.formats.structs import part

STREAM_WINDOW = "org.apache.flink.streaming.api.windowing.windows.TimeWindow$Serializer$TimeWindowSerializerSnapshot"
TABLE_WINDOW = "org.apache.flink.table.runtime.operators.window.TimeWindow$Serializer$TimeWindowSerializerSnapshot"
COUNT_WINDOW = "org.apache.flink.table.runtime.operators.window.CountWindow$Serializer$CountWindowSerializerSnapshot"
SORTED_LONG = "org.apache.flink.table.runtime.operators.sink.SortedLongSerializer$SortedLongSerializerSnapshot"

WINDOW = pa.struct([("start", TIMESTAMP), ("end", TIMESTAMP)])
RAW_WINDOW = pa.struct([("start", pa.int64()), ("end", pa.int64())])
SIGN = np.int64(-(2**63))


def mix_bits(longs: Longs) -> Ints:
    """Return ``MathUtils.longToIntWithBitMixing``."""
    bits = longs.view(np.uint64)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (bits ^ (bits >> np.uint64(31))).astype(np.uint32).view(np.int32)


def invert_odd(numbers: Longs) -> Longs:
    """Return the inverse of odd numbers modulo 2^32, by Newton's method: each step doubles the correct bits."""
    odd = numbers.view(np.uint64)
    inverse = odd * odd * odd
    for _ in range(3):
        inverse *= np.uint64(2) - odd * inverse
    return inverse.view(np.int64)


@register(STREAM_WINDOW, TABLE_WINDOW)
@dataclass(frozen=True)
class TimeWindowSerializer(FixedWidthSerializer):
    """Serializer of TIME_WINDOW, and TABLE_TIME_WINDOW of SQL, which become a struct of start and end."""

    width: ClassVar[int] = 16

    @property
    def flink_type(self) -> str:
        """TIME_WINDOW or TABLE_TIME_WINDOW."""
        return "TIME_WINDOW" if self.snapshot_class == STREAM_WINDOW else "TABLE_TIME_WINDOW"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return a struct of timestamps; with ``timestamps=raw`` of milliseconds."""
        return RAW_WINDOW if options.timestamps == "raw" else WINDOW

    def decode(self, at: Cursors) -> pa.Array:
        valid = np.ones(len(at), np.bool_)
        columns = []
        for name in ("start", "end"):
            with at.inside(name):
                start = at.at(at.position.copy(), at.end)
                millis = read_numbers(at, "read_i64", np.int64, self.flink_type)
                if at.options.timestamps == "raw":
                    columns.append(fixed_array(pa.int64(), millis))
                else:
                    columns.append(timestamps(millis_to_micros(start, millis, valid), valid))
        return struct_array(self.arrow_type(at.options), columns, len(at))

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        self._bounds(column)
        return super().sizes(column)

    def _bounds(self, column: pa.Array) -> list[Longs]:
        bounds = []
        for index, name in enumerate(("start", "end")):
            with naming(name):
                refuse_nulls(column.field(index), f"a field of {self.flink_type}")
                bounds.append(millis_of(column.field(index), self.flink_type)[0])
        return bounds

    def encode(self, column: pa.Array, at: Cursors) -> None:
        for millis in self._bounds(column):
            write_numbers(millis, at)

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``TimeWindow.hashCode``, which differs between DataStream and SQL."""
        start, end = (millis_of(column.field(index), self.flink_type)[0] for index in (0, 1))
        if self.snapshot_class == STREAM_WINDOW:
            hashes = mix_bits(start + end)
        else:
            hashes = (start + invert_odd((end << 1) + 1)).view(np.uint64).astype(np.uint32).view(np.int32)
        return np.where(valid_rows(column), hashes, 0).astype(np.int32)


@register(COUNT_WINDOW, SORTED_LONG)
@dataclass(frozen=True)
class WindowLongSerializer(FixedWidthSerializer):
    """Serializer of COUNT_WINDOW, the number of a window, and of SORTED_LONG, whose bytes sort like the numbers."""

    width: ClassVar[int] = 8

    @property
    def flink_type(self) -> str:
        return "SORTED_LONG" if self._flip else "COUNT_WINDOW"

    @property
    def _flip(self) -> np.int64:
        return SIGN if self.snapshot_class == SORTED_LONG else np.int64(0)

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.int64()

    def decode(self, at: Cursors) -> pa.Array:
        return fixed_array(pa.int64(), read_numbers(at, "read_i64", np.int64, self.flink_type) ^ self._flip)

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        return super().sizes(column)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        write_numbers(fixed_values(column, np.int64) ^ self._flip, at)

    def java_hash(self, column: pa.Array) -> Ints:
        """Return ``CountWindow.hashCode``, or ``Long.hashCode`` for SORTED_LONG."""
        values = np.ascontiguousarray(fixed_values(column, np.int64))
        hashes = fold_long(values) if self._flip else mix_bits(values)
        return np.where(valid_rows(column), hashes, 0).astype(np.int32)


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


@of_kind(Kind("TIMER", (STREAMING + "api.operators.TimerSerializerSnapshot",), ("key", "namespace"), versions=(2,)))
@dataclass(frozen=True)
class TimerSerializer(ShapedKindSerializer):
    """Serializer of TIMER<K, N>."""

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
    def length(self) -> int:
        """The sum of the lengths, if key and namespace have fixed lengths, which may be 0 here; else -1."""
        lengths = [part.length for part in self.nested]
        return 8 + sum(lengths) if min(lengths) >= 0 else -1

    @property
    def shape(self) -> Part:
        return Fields(("timestamp", "key", "namespace"), (SortableLong(), *self.nested))


of_kind(
    # An element that an interval join keeps.
    Kind(
        "BUFFER_ENTRY",
        (STREAMING + "api.operators.co.IntervalJoinOperator$BufferEntrySerializerSnapshot",),
        versions=(2,),
        shape=lambda nested: Fields(("has_been_joined", "element"), (BOOLEAN, nested[0])),
    )
)(ShapedKindSerializer)


@of_kind(
    Kind(
        "TWO_PHASE_COMMIT",
        (
            STREAMING + "api.functions.sink.TwoPhaseCommitSinkFunction$StateSerializerSnapshot",
            STREAMING + "api.functions.sink.legacy.TwoPhaseCommitSinkFunction$StateSerializerSnapshot",
        ),
        ("transaction", "context"),
        versions=(2, 3, 4),
        no_text="the sink defines the type of its transactions",
        compared=attrgetter("supports_null_transaction"),
        migrates="with or without null transactions",
    )
)
@dataclass(frozen=True)
class TwoPhaseCommitSerializer(ShapedKindSerializer):
    """Serializer of TWO_PHASE_COMMIT<T, C>: a sink's transactions and its context."""

    #: Whether the pending transaction can be null; versions below 4 imply it.
    supports_null_transaction: bool = part(
        by_version({2: implied(False), 3: implied(True), 4: BOOL}), "supports a null transaction", default=True
    )

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
