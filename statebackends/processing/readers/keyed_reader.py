"""Reader function over the keyed state of an operator: every key with its states and timers.

On the driver :class:`KeyedReaderPlan` opens a copy of the function once, to learn which states to read. Every task
reads one execution vertex: states are joined and decoded in columns, and passed to the function key by key. Data of
keys outside their row, timers and states of other tables, are loaded when a function first requests them, and only for
some key groups around that of the current key, so memory stays bounded; keys are compared by their bytes. Flink:
``KeyedStateInputFormat``, ``KeyedStateReaderOperator``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.errors import OptionError, StateNotFoundError
from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
from pyspark_savepoint.formats.name_lists import join_names
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.statebackends.processing.api.functions import KeyedStateReaderFunction, WindowReaderFunction
from pyspark_savepoint.statebackends.processing.readers.reader_states import ReaderRows, ReaderStore
from pyspark_savepoint.statebackends.processing.runtime.collector import Collector
from pyspark_savepoint.statebackends.processing.runtime.user_code import Closing, UserCode, open_function, relaxed_gc
from pyspark_savepoint.statebackends.processing.runtime.values import for_functions, to_python
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.rows.descriptors import USER_TIMERS
from pyspark_savepoint.statebackends.sources.keyed_plan import OperatorHeaders, is_namespaced
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.tables.keyed_table import KEY, KEY_GROUP, KeyedPartition, KeyedTable, column_names
from pyspark_savepoint.statebackends.tables.timers_table import TimerPartition, TimersTable
from pyspark_savepoint.statebackends.types.unify import merge_registrations

#: Event time timers and processing time timers of a key (and namespace).
KeyTimers = tuple[list[int], list[int]]
NO_TIMERS: KeyTimers = ([], [])
BATCH_ROWS = 8192


class RegisteredTimers:
    """Base class of contexts that give a reader function the registered timers."""

    def _key_timers(self) -> KeyTimers:
        """Return the timers of the current key (and window)."""
        raise NotImplementedError

    def event_time_timers(self) -> list[int]:
        """Return the event time timers, ascending."""
        return list(self._key_timers()[0])

    def processing_time_timers(self) -> list[int]:
        """Return the processing time timers, ascending."""
        return list(self._key_timers()[1])


class KeyGroupCache:
    """Dict by key of the data of some key groups; others are loaded when needed."""

    def __init__(
        self, key_groups: Sequence[int], count: int, load: Callable[[tuple[int, ...]], dict[Any, Any]]
    ) -> None:
        self._groups = tuple(key_groups)
        self._size = max(1, -(-len(self._groups) // max(1, count)))
        self._load = load
        self._loaded: frozenset[int] = frozenset()
        self._found: dict[Any, Any] = {}

    def get(self, key_group: int, key: Any) -> Any:
        """Return the data of a key, or None."""
        if key_group not in self._loaded:
            start = self._groups.index(key_group) // self._size * self._size
            around = self._groups[start : start + self._size]
            self._found = {}
            self._found = self._load(around)
            self._loaded = frozenset(around)
        return self._found.get(key)


@dataclass(frozen=True)
class TimerLoader:
    """Loader of timers by key, or by key and namespace."""

    partition: TimerPartition
    namespaced: bool

    def __call__(self, key_groups: tuple[int, ...]) -> dict[Any, KeyTimers]:
        """Return the timers of some key groups."""
        split = replace(self.partition.split, key_groups=key_groups)
        timers: dict[Any, KeyTimers] = {}
        for batch in replace(self.partition, split=split).batches():
            columns = [to_python(batch.column(name)) for name in ("domain", "timestamp", "key")]
            spaces = to_python(batch.column("namespace")) if self.namespaced else [None] * batch.num_rows
            for domain, timestamp, key, namespace in zip(*columns, spaces, strict=True):
                scoped_key = (key, namespace) if self.namespaced else key
                of_key = timers.get(scoped_key)
                if of_key is None:
                    of_key = timers[scoped_key] = ([], [])
                of_key[domain == "processing"].append(timestamp)
        for event, processing in timers.values():
            event.sort()
            processing.sort()
        return timers


def timers_of(opened: OpenOperator, request: TableRequest, service: str, namespaced: bool) -> TimersTable | None:
    """Return the timers of a service; None if the operator has none."""
    wanted = replace(
        request,
        table="timers",
        state=service,
        raw=("key", "namespace"),
        batch_rows=BATCH_ROWS,
        keys=None,
        key_groups=None,
    )
    try:
        table = TimersTable(opened, wanted)
    except StateNotFoundError:
        return None
    columns = ["key", "timestamp", "domain"]
    if namespaced:
        if "namespace" not in table.schema.names:
            return None
        columns.append("namespace")
    return table.select(columns)


@dataclass(frozen=True)
class RowLoader:
    """Loader of rows of a keyed table by the bytes of their keys: batch and row number."""

    partition: KeyedPartition

    def __call__(self, key_groups: tuple[int, ...]) -> dict[Any, tuple[pa.RecordBatch, int]]:
        """Return the rows of some key groups."""
        split = replace(self.partition.split, key_groups=key_groups)
        rows: dict[Any, tuple[pa.RecordBatch, int]] = {}
        for batch in replace(self.partition, split=split).batches():
            for row, key in enumerate(to_python(batch.column("key"))):
                rows[key] = (batch, row)
        return rows


def partitions_by_group(table: KeyedTable | TimersTable | None, parallelism: int) -> dict[int, Any]:
    """Return the partitions of a table by key group."""
    partitions: list[Any] = table.partitions(parallelism) if table is not None else []
    return {group: partition for partition in partitions for group in partition.split.key_groups}


def states_of(headers: OperatorHeaders, namespaced: bool) -> dict[str, StateMetaInfoSnapshot]:
    """Return the key-value states of an operator with or without namespace, by name."""
    return {
        name: merge_registrations(metas) or metas[0]
        for (name, timer), metas in headers.metas().items()
        if not timer and is_namespaced(metas[0]) == namespaced
    }


def decode_keys(serializer: TypeSerializer, keys: pa.Array, options: DecodeOptions) -> list[Any]:
    """Return the Python objects of serialized keys; bytes if they cannot be decoded."""
    if serializer.opaque_parts():
        return to_python(keys)
    at = Cursors.over(to_python(keys), options=options)
    column = serializer.decode(at)
    at.expect_end()
    return to_python(column)


def choose(states: list[str]) -> str:
    """Return the value of option ``state`` for some states."""
    return join_names(dict.fromkeys(states))


@dataclass(frozen=True)
class KeyedVertex:
    """Input of one task."""

    rows: KeyedPartition
    timers: TimerPartition | None


@dataclass(frozen=True)
class KeyedReaderPlan:
    """Reader function with everything that its tasks need: picklable, without open files."""

    function: KeyedStateReaderFunction
    schema: pa.Schema
    metas: Mapping[str, StateMetaInfoSnapshot]
    columns: Mapping[str, str]
    key: TypeSerializer
    decode: DecodeOptions
    vertices: tuple[KeyedVertex, ...]
    slices: int

    @classmethod
    def of(
        cls,
        function: KeyedStateReaderFunction,
        schema: pa.Schema,
        opened: OpenOperator,
        request: TableRequest,
        parallelism: int | None,
    ) -> KeyedReaderPlan:
        """Build the plan with a temporary copy of the function; errors are those of its ``open``."""
        headers, operator = opened.keyed, opened.operator
        metas = states_of(headers, namespaced=False)
        store = ReaderStore(ReaderRows(), metas, {name: name for name in metas})
        store.elsewhere = dict.fromkeys(states_of(headers, namespaced=True), "read_window reads states of windows")
        with Closing(function), UserCode(function, "open"):
            open_function(function, store)
        if not store.asked:
            raise OptionError(
                "the reader function registers no state, but the keys to process are those of its states",
                operator=operator.label,
                remedy="register one in open: self.total = ctx.get_state('total')",
            )
        wanted = replace(
            request, table="keyed_state", state=choose(store.asked), raw=(*request.raw, KEY),
            include_key_group=True, include_ttl=False, batch_rows=BATCH_ROWS, decode=for_functions(request.decode),
        )  # fmt: skip
        table = KeyedTable(opened, wanted, namespaced=False)
        count = min(parallelism or max(operator.parallelism, 1), operator.max_parallelism)
        timers = partitions_by_group(timers_of(opened, request, USER_TIMERS, False), count)
        partitions: list[Any] = table.partitions(count)
        vertices = tuple(KeyedVertex(rows, timers.get(rows.split.key_groups[0])) for rows in partitions)
        columns = column_names(table.spec.states, namespaced=False)
        slices = 1 + operator.state_size // max(1, len(vertices)) // request.memory
        key = headers.headers[0].key_serializer
        return cls(function, schema, metas, columns, key, table.spec.options, vertices, slices)


def rows_of(
    function: KeyedStateReaderFunction | WindowReaderFunction,
    schema: pa.Schema,
    store: ReaderStore,
    keys: KeyedPartition,
    read: Callable[[pa.RecordBatch, Collector], None],
) -> Iterator[pa.RecordBatch]:
    """Open a function, and yield the rows that it yields for one vertex: ``read`` calls it for a batch of keys."""
    collector = Collector(schema)
    with Closing(function), relaxed_gc():
        with UserCode(function, "open"):
            open_function(function, store)
        store.closed = isinstance(function, KeyedStateReaderFunction)
        for batch in keys.batches():
            read(batch, collector)
            with UserCode(function, "its rows"):
                yield from collector.full()
        with UserCode(function, "its rows"):
            yield from collector.rest()


class ReadContext(RegisteredTimers):
    """Context of a reader function. Flink: ``KeyedStateReaderFunction.Context``."""

    def __init__(self, timers: KeyGroupCache | None) -> None:
        self.key_group = 0
        self.place = b""
        self._timers = timers

    def _key_timers(self) -> KeyTimers:
        timers = self._timers.get(self.key_group, self.place) if self._timers is not None else None
        return NO_TIMERS if timers is None else timers


class KeyedReaderTask:
    """One vertex of a plan."""

    def __init__(self, plan: KeyedReaderPlan, index: int) -> None:
        self.plan = plan
        self.vertex = plan.vertices[index]
        self.rows = ReaderRows()
        self.key: Any = None
        self.store = ReaderStore(self.rows, plan.metas, plan.columns)
        self.store.index_of_this_subtask, self.store.number_of_parallel_subtasks = index, len(plan.vertices)
        timers = self.vertex.timers
        groups = self.vertex.rows.split.key_groups
        loaded = KeyGroupCache(groups, plan.slices, TimerLoader(timers, False)) if timers is not None else None
        self.context = ReadContext(loaded)

    def run(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the function yields."""
        return rows_of(self.plan.function, self.plan.schema, self.store, self.vertex.rows, self._read)

    def _read(self, batch: pa.RecordBatch, collector: Collector) -> None:
        rows, ctx, read_key = self.rows, self.context, self.plan.function.read_key
        rows.fill(batch)
        places = to_python(batch.column(KEY))
        keys = decode_keys(self.plan.key, batch.column(KEY), self.plan.decode)
        groups = to_python(batch.column(KEY_GROUP))
        with UserCode(self.plan.function, "read_key", self):
            for rows.row, (self.key, ctx.place, ctx.key_group) in enumerate(zip(keys, places, groups, strict=True)):
                collector.of(self.key)
                collector.add(read_key(self.key, ctx))
