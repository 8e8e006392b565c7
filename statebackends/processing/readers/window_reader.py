"""Reader function over the windows of an operator: every key and window with contents, states and timers.

Flink: ``WindowReaderOperator``, ``KeyedStateInputFormat``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import OptionError, StateNotFoundError
from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.statebackends.processing.api.functions import WindowReaderFunction
from pyspark_savepoint.statebackends.processing.api.state_descriptors import AggregateFunction, Descriptor
from pyspark_savepoint.statebackends.processing.api.windows import GlobalWindow, TimeWindow
from pyspark_savepoint.statebackends.processing.readers.keyed_reader import (
    BATCH_ROWS,
    NO_TIMERS,
    KeyGroupCache,
    KeyTimers,
    RegisteredTimers,
    RowLoader,
    TimerLoader,
    choose,
    decode_keys,
    partitions_by_group,
    rows_of,
    states_of,
    timers_of,
)
from pyspark_savepoint.statebackends.processing.readers.reader_states import ReaderRows, ReaderStore
from pyspark_savepoint.statebackends.processing.runtime.collector import Collector
from pyspark_savepoint.statebackends.processing.runtime.user_code import UserCode
from pyspark_savepoint.statebackends.processing.runtime.values import for_functions, to_python
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.rows.descriptors import WINDOW_TIMERS
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.tables.keyed_table import (
    KEY,
    KEY_GROUP,
    WINDOW,
    KeyedPartition,
    KeyedTable,
    column_names,
)
from pyspark_savepoint.statebackends.tables.timers_table import TimerPartition

CONTENTS = "window-contents"


@dataclass(frozen=True)
class WindowVertex:
    """Input of one task: windows, and by key their timers and the states without window."""

    rows: KeyedPartition
    timers: TimerPartition | None
    plain: KeyedPartition | None


@dataclass(frozen=True)
class WindowReaderPlan:
    """Reader function with everything that its tasks need: picklable, without open files."""

    function: WindowReaderFunction
    aggregate: AggregateFunction[Any, Any, Any] | None
    schema: pa.Schema
    metas: Mapping[str, StateMetaInfoSnapshot]
    plain_metas: Mapping[str, StateMetaInfoSnapshot]
    key: TypeSerializer
    decode: DecodeOptions
    vertices: tuple[WindowVertex, ...]
    slices: int
    contents: str = CONTENTS
    reduce: Callable[[Any, Any], Any] | None = None

    @classmethod
    def of(
        cls,
        function: WindowReaderFunction,
        schema: pa.Schema,
        opened: OpenOperator,
        request: TableRequest,
        parallelism: int | None,
        aggregate: AggregateFunction[Any, Any, Any] | None = None,
        reduce: Callable[[Any, Any], Any] | None = None,
    ) -> WindowReaderPlan:
        """Build the plan; raise StateNotFoundError if the operator has no windows."""
        headers, operator = opened.keyed, opened.operator
        metas, plain_metas = states_of(headers, namespaced=True), states_of(headers, namespaced=False)
        if CONTENTS not in metas:
            raise StateNotFoundError(
                "the operator has no windows",
                operator=operator.label,
                state=CONTENTS,
                remedy="read_keyed_state reads states without window" if plain_metas else None,
            )
        space = metas[CONTENTS].namespace_serializer.flink_type
        metas = {name: meta for name, meta in metas.items() if meta.namespace_serializer.flink_type == space}
        decode = for_functions(request.decode)
        base = replace(request, include_key_group=True, include_ttl=False, batch_rows=BATCH_ROWS, decode=decode)
        wanted = replace(base, table="window_state", state=choose(list(metas)), raw=(*request.raw, KEY, WINDOW))
        table = KeyedTable(opened, wanted, namespaced=True, sessions=True)
        count = min(parallelism or max(operator.parallelism, 1), operator.max_parallelism)
        plain: dict[int, Any] = {}
        if plain_metas:
            named = replace(
                base,
                table="keyed_state",
                state=choose(list(plain_metas)),
                raw=(*request.raw, KEY),
                keys=None,
                key_groups=None,
            )
            plain = partitions_by_group(KeyedTable(opened, named, namespaced=False), count)
        namespaced = space != "GLOBAL_WINDOW"
        timers = partitions_by_group(timers_of(opened, request, WINDOW_TIMERS, namespaced), count)
        partitions: list[Any] = table.partitions(count)
        vertices = tuple(
            WindowVertex(rows, timers.get(rows.split.key_groups[0]), plain.get(rows.split.key_groups[0]))
            for rows in partitions
        )
        slices = 1 + operator.state_size // max(1, len(vertices)) // request.memory
        key = headers.headers[0].key_serializer
        plan = cls(
            function, aggregate, schema, metas, plain_metas, key, table.spec.options, vertices, slices, reduce=reduce
        )  # fmt: skip
        plan.check_functions(operator.label)
        return plan

    def elements(self) -> Callable[[Any], list[Any]]:
        """Return a function from a window's contents to its elements."""
        meta = self.metas[self.contents]
        if meta.state_type == "LIST":
            if "STREAM_ELEMENT<" in meta.value_serializer.flink_type:
                return lambda content: self._folded([record["value"] for record in content])
            return lambda content: self._folded(list(content))
        if meta.state_type == "AGGREGATING" and self.aggregate is not None:
            result = self.aggregate.get_result
            return lambda content: [result(content)]
        return lambda content: [content]

    def _folded(self, elements: list[Any]) -> list[Any]:
        """Return the elements of a window with an evictor as its function gets them."""
        if self.reduce is not None and elements:
            return [reduce(self.reduce, elements)]
        if self.aggregate is None or not elements:
            return elements
        accumulator = self.aggregate.create_accumulator()
        for element in elements:
            accumulator = self.aggregate.add(element, accumulator)
        return [self.aggregate.get_result(accumulator)]

    def check_functions(self, operator: str) -> None:
        """Raise OptionError if ``aggregate`` or ``reduce`` does not fit the contents."""
        kind = self.metas[self.contents].state_type
        useless = "aggregate" if self.aggregate is not None and kind == "REDUCING" else ""
        useless = "reduce" if self.reduce is not None and kind == "AGGREGATING" else useless
        useless = "reduce" if self.reduce is not None and self.aggregate is not None else useless
        if useless:
            raise OptionError(
                f"{useless!r} cannot apply to the windows of this operator",
                operator=operator,
                found=f"contents of kind {kind.lower()}",
                remedy="give 'aggregate' for aggregated windows, either for those that keep their elements",
            )


def window_of(namespace: TypeSerializer) -> Callable[[Any], Any]:
    """Return a function from bytes to windows; a global window has no bytes."""
    if namespace.flink_type == "TIME_WINDOW":
        return TimeWindow.from_bytes
    return lambda _: GlobalWindow()


class ReaderWindowContext(RegisteredTimers):
    """Context of a window reader function. Flink: ``WindowReaderFunction.Context``."""

    def __init__(
        self, store: ReaderStore, plain: ReaderStore, timers: KeyGroupCache | None, rows: KeyGroupCache | None
    ) -> None:
        self.key_group = 0
        self.place = b""
        self.space: Any = None
        self.current: Any = None
        self._store = store
        self._plain = plain
        self._timers = timers
        self._rows = rows

    def window(self) -> Any:
        return self.current

    def window_state(self) -> ReaderStore:
        """Return the state of the key and window."""
        return self._store

    def trigger_state(self, descriptor: Descriptor | str) -> Any:
        """Return the trigger's state of the key and window."""
        return self._store.get(descriptor)

    def global_state(self) -> ReaderStore:
        """Return the state of the key."""
        located = self._rows.get(self.key_group, self.place) if self._rows is not None else None
        if located is None:
            empty = {column: pa.nulls(1) for column in self._plain.columns.values()}
            self._plain.rows.fill(pa.record_batch(empty))
        else:
            batch, row = located
            self._plain.rows.fill(batch.slice(row, 1))
        return self._plain

    def _key_timers(self) -> KeyTimers:
        if self._timers is None:
            return NO_TIMERS
        scoped_key = self.place if self.space is None else (self.place, self.space)
        timers = self._timers.get(self.key_group, scoped_key)
        return NO_TIMERS if timers is None else timers


class WindowReaderTask:
    """One vertex of a plan."""

    def __init__(self, plan: WindowReaderPlan, index: int) -> None:
        self.plan = plan
        self.vertex = plan.vertices[index]
        self.rows = ReaderRows()
        self.key: Any = None
        self.store = ReaderStore(self.rows, plan.metas, column_names(list(plan.metas), namespaced=True))
        plain = ReaderStore(ReaderRows(), plan.plain_metas, column_names(list(plan.plain_metas), namespaced=False))
        self.store.index_of_this_subtask, self.store.number_of_parallel_subtasks = index, len(plan.vertices)
        groups = self.vertex.rows.split.key_groups
        timers, states = self.vertex.timers, self.vertex.plain
        self.context = ReaderWindowContext(
            self.store,
            plain,
            KeyGroupCache(groups, plan.slices, TimerLoader(timers, self._namespaced)) if timers is not None else None,
            KeyGroupCache(groups, plan.slices, RowLoader(states)) if states is not None else None,
        )

    @property
    def _namespaced(self) -> bool:
        return self.plan.metas[self.plan.contents].namespace_serializer.flink_type != "GLOBAL_WINDOW"

    def run(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the function yields."""
        return rows_of(self.plan.function, self.plan.schema, self.store, self.vertex.rows, self._read)

    def _read(self, batch: pa.RecordBatch, collector: Collector) -> None:
        rows, ctx, read_window = self.rows, self.context, self.plan.function.read_window
        rows.fill(batch)
        elements, window = self.plan.elements(), window_of(self.plan.metas[self.plan.contents].namespace_serializer)
        column = self.store.columns[self.plan.contents]
        places = to_python(batch.column(KEY))
        keys = decode_keys(self.plan.key, batch.column(KEY), self.plan.decode)
        groups = to_python(batch.column(KEY_GROUP))
        spaces = to_python(batch.column(WINDOW)) if self._namespaced else [None] * batch.num_rows
        with UserCode(self.plan.function, "read_window", self):
            entries = zip(keys, places, groups, spaces, strict=True)
            for rows.row, (self.key, ctx.place, ctx.key_group, ctx.space) in enumerate(entries):
                content = rows.get(column)
                if content is not None:
                    ctx.current = window(ctx.space)
                    collector.of(self.key)
                    collector.add(read_window(self.key, ctx, elements(content)))
