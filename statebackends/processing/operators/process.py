"""Process function over the records of one key at a time, with timers that fire at the end of every key (FLIP-140).

Without sorting, records come as they arrive, and timers of all keys fire at the end of the input in the order of their
timestamps, as in a job with sorted inputs switched off. Flink: ``KeyedProcessOperator`` in BATCH mode,
``BatchExecutionInternalTimeServiceManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, repeat
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.serializers.notation.notation import DEFAULT_VERSION
from pyspark_savepoint.statebackends.processing.api.functions import KeyedProcessFunction
from pyspark_savepoint.statebackends.processing.api.state import ObjectReuseMode
from pyspark_savepoint.statebackends.processing.api.timers import FiringTimers
from pyspark_savepoint.statebackends.processing.backends.backend import KeyedStateBackend
from pyspark_savepoint.statebackends.processing.operators.connected_inputs import (
    ConnectedFunction,
    ConnectedInputs,
    Inputs,
    records_of,
)
from pyspark_savepoint.statebackends.processing.operators.records import Chunk, RecordOrder
from pyspark_savepoint.statebackends.processing.operators.state_registry import (
    KeyedElementContext,
    StateRegistry,
    create_backend,
)
from pyspark_savepoint.statebackends.processing.runtime.collector import Collector
from pyspark_savepoint.statebackends.processing.runtime.user_code import Closing, UserCode, open_function, relaxed_gc
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor
from pyspark_savepoint.statebackends.rows.key_codec import KeyCodec


@dataclass(frozen=True)
class ProcessPlan:
    """Plan of the tasks."""

    function: KeyedProcessFunction | ConnectedFunction
    key: KeyedDescriptor
    columns: tuple[str, ...]
    schema: pa.Schema
    max_parallelism: int
    order: RecordOrder = field(default_factory=RecordOrder)
    reuse: ObjectReuseMode = ObjectReuseMode.DEFAULT
    flink_version: tuple[int, int] = DEFAULT_VERSION
    parallelism: int = 1
    backend: str = "single_key"
    inputs: Inputs | None = None


class ProcessTask:
    """One task of a plan."""

    def __init__(self, plan: ProcessPlan, index: int) -> None:
        self.plan = plan
        self.collector = Collector(plan.schema)
        codec = KeyCodec(plan.key, plan.max_parallelism)
        self.records = records_of(codec, plan.order, plan.columns, False, plan.inputs)
        self.connected: ConnectedInputs | None = None
        self.firing = UserCode(plan.function, "on_timer")
        # Last, because from here on there may be files, which only close() releases.
        # A broadcast element that changes state of a key is refused where the state is output.
        self.backend = create_backend(plan.backend, drops=plan.inputs is None or plan.inputs.broadcast is None)
        self.firing.keys = self.backend
        self.timers: FiringTimers = FiringTimers() if plan.order.sort else TimersOfAllKeys(self.backend)
        self.registry = StateRegistry(
            self.backend, plan.key.key_serializer, plan.flink_version, plan.reuse,
            index_of_this_subtask=index, number_of_parallel_subtasks=plan.parallelism,
        )  # fmt: skip

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the function yields."""
        try:
            with Closing(self.plan.function), relaxed_gc():
                self._open()
                yield from self._rows(batches)
        finally:
            self.backend.close()

    def _open(self) -> None:
        function = self.plan.function
        with UserCode(function, "open"):
            open_function(function, self.registry)
        self.registry.discard()
        if isinstance(function, KeyedProcessFunction):
            self.context = KeyedElementContext(self.backend, self.timers)
            self.calls: list[Callable[[Any, Any], Any]] = [function.process_element]
        else:
            assert self.plan.inputs is not None
            self.connected = ConnectedInputs(function, self.plan.inputs, self.plan.flink_version)
            self.context, self.calls = self.connected.context(self.backend, self.timers), self.connected.calls

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan, function = self.plan, self.plan.function
        for batch in self.records.sorted(batches):
            if self.connected is not None and self.records.is_broadcast(batch):
                unshared = self.registry.unshared
                self.connected.broadcast(batch, self.records, self.backend, plan.reuse, unshared, self.collector.add)
            else:
                for chunk in self.records.chunks(batch, plan.reuse, self.registry.unshared):
                    for _ in self._process(chunk):
                        with UserCode(function, "its rows"):
                            yield from self.collector.rest()
        self._fire()
        with UserCode(function, "its rows"):
            yield from self.collector.rest()

    def _process(self, chunk: Chunk) -> Iterator[None]:
        """Process a chunk, and yield after a key whenever there are enough rows for a batch."""
        calls, ctx, collector = self.calls, self.context, self.collector
        by_key = self.plan.order.sort
        times: Iterable[int | None] = repeat(None) if chunk.timestamps is None else chunk.timestamps
        inputs: Iterable[int] = repeat(0) if chunk.inputs is None else chunk.inputs
        records = zip(times, inputs, chunk.values, strict=False)
        self.backend.expect(chunk.grouped_keys)
        with UserCode(self.plan.function, "process_element", self.backend):
            for key, grouped_key, count in zip(chunk.keys, chunk.grouped_keys, chunk.counts, strict=True):
                if by_key and grouped_key != self.backend.grouped_key:
                    self._fire()
                self.backend.set_current_key(key, grouped_key)
                collector.of(key)
                for ctx.time, number, value in islice(records, count):
                    collector.add(calls[number](value, ctx))
                if collector.is_full():
                    yield

    def _fire(self) -> None:
        """Fire the timers of the previous key, while its state still exists; without sorting, those of all keys."""
        with self.firing:
            self.timers.fire(
                lambda time, _: self._on_timer(time, "event"), lambda time, _: self._on_timer(time, "processing")
            )

    def _on_timer(self, timestamp: int, domain: str) -> None:
        self.context.firing(timestamp, domain)
        self.collector.of(self.backend.key)
        ctx: Any = self.context
        self.collector.add(self.plan.function.on_timer(timestamp, ctx))


class TimersOfAllKeys(FiringTimers):
    """Timers of all keys, which fire at the end of the input, with their key; a namespace is a key in both forms."""

    def __init__(self, backend: KeyedStateBackend) -> None:
        super().__init__()
        self._backend = backend

    def register_event(self, timestamp: int, namespace: Any = None) -> None:
        """Register an event time timer of the current key."""
        super().register_event(timestamp, Timed(self._backend.grouped_key, self._backend.key))

    def register_processing(self, timestamp: int, namespace: Any = None) -> None:
        """Register a processing time timer of the current key."""
        super().register_processing(timestamp, Timed(self._backend.grouped_key, self._backend.key))

    def delete_event(self, timestamp: int, namespace: Any = None) -> None:
        """Delete an event time timer of the current key."""
        super().delete_event(timestamp, Timed(self._backend.grouped_key, self._backend.key))

    def delete_processing(self, timestamp: int, namespace: Any = None) -> None:
        """Delete a processing time timer of the current key."""
        super().delete_processing(timestamp, Timed(self._backend.grouped_key, self._backend.key))

    def fire(self, on_event: Callable[[int, Any], None], on_processing: Callable[[int, Any], None]) -> None:
        """Fire all timers, each with the state of its key."""

        def of_key(call: Callable[[int, Any], None]) -> Callable[[int, Any], None]:
            def fire(time: int, timed: Timed) -> None:
                self._backend.set_current_key(timed.key, timed.grouped_key)
                call(time, None)

            return fire

        super().fire(of_key(on_event), of_key(on_processing))


@dataclass(frozen=True)
class Timed:
    """Key of a timer, which its bytes identify."""

    grouped_key: bytes
    key: Any = field(compare=False)
