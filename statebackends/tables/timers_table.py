"""Table ``timers``: every registered timer of an operator.

    key, namespace (if there is one), timestamp, domain ('event' or 'processing'), service        key_group, subtask

Timers are PRIORITY_QUEUE states named ``_timer_state/event_SERVICE`` and ``_timer_state/processing_SERVICE``. Jobs on
RocksDB with timers on the heap, and old Flink releases, write them as raw keyed state. ``timestamp`` is the long that
Flink stores: usually milliseconds in both domains, but event time has the unit that the job uses. Flink:
``InternalTimeServiceManagerImpl``, ``TimerSerializer``, ``InternalTimerServiceSerializationProxy``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, Longs, fixed_array
from pyspark_savepoint.formats.errors import StateNotFoundError
from pyspark_savepoint.formats.keyed.keyed_block import KeyedBlock, binary_column
from pyspark_savepoint.formats.keyed.unknown_keys import skip_unknown_keys
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import read_numbers
from pyspark_savepoint.formats.serializers.layout import skip_rows
from pyspark_savepoint.statebackends.requests.request import TablePartition, TableRequest, choose_states, with_columns
from pyspark_savepoint.statebackends.rows.descriptors import TimerQueue, timer_queues
from pyspark_savepoint.statebackends.sources.keyed_plan import (
    KeyedSplit,
    check_decodable_key,
    meets,
    vertices,
)
from pyspark_savepoint.statebackends.sources.keyed_sources import KeyedStream
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.sources.raw_timers import RawTimerSource
from pyspark_savepoint.statebackends.tables.keys import KeyLookup, check_key_groups
from pyspark_savepoint.statebackends.types.unify import conform, unify

TIMESTAMP_BYTES = 8
SIGN = np.int64(-(2**63))
KEY, NAMESPACE, KEY_GROUP, SUBTASK = "key", "namespace", "key_group", "subtask"


class TimersTable:
    """Table ``timers`` of an operator; option ``state`` selects timer services."""

    def __init__(self, opened: OpenOperator, request: TableRequest) -> None:
        self.request = request
        self.operator = operator = opened.operator
        self.raw = opened.raw_timers
        self.headers = opened.keyed
        self.max_parallelism: int | None = operator.max_parallelism
        self.state_bytes = operator.state_size
        self.warnings: tuple[str, ...] = ()
        queues = [queue for header in self.headers.headers for _, queue in timer_queues(header)]
        queues += opened.raw_queues(request.decode)
        if not queues:
            raise StateNotFoundError(
                "the operator has no timers",
                operator=operator.label,
                remedy="the path without options lists what the snapshot has",
            )
        self.lookup: KeyLookup | None = None
        if request.keys is not None:
            self.lookup = KeyLookup.of(request.keys, queues[0].key, operator.max_parallelism, request.decode)
        if KEY not in request.raw:
            check_decodable_key([queue.key for queue in queues], request.undecodable, operator.label, "keys")
        if NAMESPACE not in request.raw:
            spaces = [queue.namespace for queue in queues]
            check_decodable_key(spaces, request.undecodable, operator.label, "namespaces")
        services = list(dict.fromkeys(queue.service for queue in queues))
        self.services = frozenset(choose_states(services, request.states, "timer service", operator.label))
        self.schema = pa.schema(list(self._fields([queue for queue in queues if queue.service in self.services])))

    def _fields(self, queues: list[TimerQueue]) -> Iterator[pa.Field]:
        kinds = [_type(queue.key, self.request, KEY) for queue in queues]
        yield pa.field(KEY, unify(kinds, KEY), metadata={b"comment": queues[0].key.flink_type.encode()})
        spaces = {queue.service: _type(queue.namespace, self.request, NAMESPACE) for queue in queues}
        distinct = list(dict.fromkeys(kind for kind in spaces.values() if not pa.types.is_null(kind)))
        if len(distinct) == 1:
            yield pa.field(NAMESPACE, distinct[0])
        elif distinct:
            # Services with different types cannot share a column: each has its own field.
            fields = [pa.field(name, kind) for name, kind in spaces.items() if not pa.types.is_null(kind)]
            yield pa.field(NAMESPACE, pa.struct(fields))
        yield pa.field("timestamp", pa.int64(), metadata={b"comment": b"as registered, milliseconds as a rule"})
        yield pa.field("domain", pa.string())
        yield pa.field("service", pa.string())
        if self.request.include_key_group:
            yield pa.field(KEY_GROUP, pa.int32())
            yield pa.field(SUBTASK, pa.int32())

    def select(self, columns: Sequence[str]) -> TimersTable:
        """Return this table restricted to some columns."""
        return with_columns(self, columns)

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        """Return one partition per execution vertex that has timers to read."""
        count = min(parallelism or 1, self.operator.max_parallelism)
        parallelisms = (self.operator.parallelism, self.operator.max_parallelism)
        only = self.lookup.key_groups if self.lookup is not None else None
        partitions: list[TablePartition] = []
        for key_groups in vertices(self.operator, self.request, only, count):
            split = self.headers.split(key_groups)
            raw = tuple(source for source in self.raw if meets(source.offsets.key_group_range, key_groups))
            if split.sources or raw:
                partitions.append(
                    TimerPartition(split, raw, self.services, self.schema, self.request, self.lookup, parallelisms)
                )
        return partitions


def _type(serializer: TypeSerializer, request: TableRequest, name: str) -> pa.DataType:
    kind = serializer.arrow_type(request.decode)
    return pa.binary() if name in request.raw and not pa.types.is_null(kind) else kind


def _key_spans(key: TypeSerializer, at: Cursors, last: bool) -> tuple[Longs, Longs]:
    """Return the spans of the timers' keys; ``last`` as in :meth:`TimerPartition._batch`."""
    start = at.position.copy() if last else at.position + TIMESTAMP_BYTES
    inner = at.at(start.copy(), at.end)
    skip_rows(key, inner)
    return start, inner.position


@dataclass(frozen=True)
class TimerPartition:
    """Timers of one execution vertex."""

    split: KeyedSplit
    raw: tuple[RawTimerSource, ...]
    services: frozenset[str]
    schema: pa.Schema
    request: TableRequest
    lookup: KeyLookup | None
    place: tuple[int, int]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield timers in the order of the files."""
        key_groups = set(self.split.key_groups)
        for stream, ids in self.split.streams(self.request.decode, lambda stream: set(self._queues(stream))):
            if ids:
                queues = self._queues(stream)
                for block in stream.blocks(key_groups, ids, False, self.request.block_bytes):
                    for i, queue in queues.items():
                        yield from self._queue(block, block.entries_of(i), queue)
        for raw in self.raw:
            for queue, at, key_group in raw.timers(key_groups, self.request.decode):
                if queue.service in self.services and len(at):
                    yield from self._batches(queue, at, np.full(len(at), key_group, np.int32), last=True)

    def _queues(self, stream: KeyedStream) -> dict[int, TimerQueue]:
        return {i: queue for i, queue in timer_queues(stream.header) if queue.service in self.services}

    def _queue(self, block: KeyedBlock, entries: Longs, queue: TimerQueue) -> Iterator[pa.RecordBatch]:
        if not len(entries):
            return
        origin = replace(block.origin, state=f"timers of {queue.service}")
        at = Cursors(block.buffer, block.key_start[entries], block.key_end[entries].copy(), origin, self.request.decode)
        yield from self._batches(queue, at, block.key_group[entries], last=False)

    def _batches(self, queue: TimerQueue, at: Cursors, key_group: Any, last: bool) -> Iterator[pa.RecordBatch]:
        if self.lookup is not None:
            matching = np.flatnonzero(self.lookup.matches(at.buffer, *_key_spans(queue.key, at, last)))
            at, key_group = at.at(at.position[matching], at.end[matching]), key_group[matching]
        for low in range(0, len(at), self.request.batch_rows):
            rows = slice(low, low + self.request.batch_rows)
            part = at.at(at.position[rows].copy(), at.end[rows])
            yield self._batch(queue, part, key_group[rows], last)

    def _batch(self, queue: TimerQueue, at: Cursors, key_group: Any, last: bool) -> pa.RecordBatch:
        """Decode one batch of timers.

        With ``last``, the timestamp comes last and is plain (raw keyed state); otherwise it comes first with its sign
        bit flipped.
        """
        time = None if last else read_numbers(at, "read_i64", np.int64, "a timestamp") ^ SIGN
        start = at.position.copy()
        key = self._part(queue.key, at, KEY) if last or not queue.key.opaque_parts() else self._bytes(queue, at)
        if KEY not in self.request.raw:
            spans = at.at(start, at.position.copy())
            check_key_groups(spans, queue.key, key_group, self.place[1], key)
        namespace = self._part(queue.namespace, at, NAMESPACE)
        if time is None:
            time = read_numbers(at, "read_i64", np.int64, "a timestamp")
        at.expect_end()
        n = len(at)
        subtask = key_group.astype(np.int64) * self.place[0] // self.place[1]
        columns = {
            KEY: key,
            NAMESPACE: self._namespace(queue, namespace),
            "timestamp": fixed_array(pa.int64(), time),
            "domain": pa.array([queue.domain], pa.string()).take(pa.array(np.zeros(n, np.int64))),
            "service": pa.array([queue.service], pa.string()).take(pa.array(np.zeros(n, np.int64))),
            KEY_GROUP: fixed_array(pa.int32(), np.ascontiguousarray(key_group)),
            SUBTASK: fixed_array(pa.int32(), subtask.astype(np.int32)),
        }
        return pa.RecordBatch.from_arrays(
            [conform(columns[field.name], field.type, at.origin) for field in self.schema], schema=self.schema
        )

    def _part(self, serializer: TypeSerializer, at: Cursors, name: str) -> pa.Array:
        # Errors name the column, which option 'raw' accepts.
        at = replace(at, origin=replace(at.origin, state=name))
        kind = _type(serializer, self.request, name)
        if kind == serializer.arrow_type(self.request.decode):
            return serializer.decode(at)
        start = at.position.copy()
        skip_rows(serializer, at)
        return binary_column(at.buffer, start, at.position)

    def _bytes(self, queue: TimerQueue, at: Cursors) -> pa.Array:
        """Return keys whose ends only the job's own serializer knows: the namespace is what is behind each."""
        start = at.position.copy()
        if not skip_unknown_keys(at, [queue.namespace]):
            return queue.key.decode(at)  # the error of the serializer
        return binary_column(at.buffer, start, at.position)

    def _namespace(self, queue: TimerQueue, column: pa.Array) -> pa.Array:
        if self.schema.get_field_index(NAMESPACE) < 0:
            return column
        kind = self.schema.field(NAMESPACE).type
        if pa.types.is_null(column.type):
            return pa.nulls(len(column), kind)
        if pa.types.is_struct(kind) and kind.get_field_index(queue.service) >= 0 and column.type != kind:
            return pa.StructArray.from_arrays([column], fields=[pa.field(queue.service, column.type)])
        return column
