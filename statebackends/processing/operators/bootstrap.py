"""Bootstrapping in one task: converts the records of some keys to the entries of their state.

The driver makes a :class:`BootstrapPlan`, which is pickled to the tasks; :meth:`BootstrapPlan.describe` opens the
functions once to determine their states. Flink: ``KeyedStateBootstrapOperator``, ``WindowOperator``,
``BoundedOneInputStreamTask``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.serializers.notation.notation import DEFAULT_VERSION, parse_type
from pyspark_savepoint.statebackends.processing.api.functions import KeyedStateBootstrapFunction
from pyspark_savepoint.statebackends.processing.api.state import ObjectReuseMode
from pyspark_savepoint.statebackends.processing.backends.backend import KeyedStateBackend
from pyspark_savepoint.statebackends.processing.operators.connected_inputs import (
    ConnectedFunction,
    ConnectedInputs,
    Inputs,
    records_of,
)
from pyspark_savepoint.statebackends.processing.operators.entry_output import PLAIN, drain
from pyspark_savepoint.statebackends.processing.operators.records import Chunk, RecordOrder
from pyspark_savepoint.statebackends.processing.operators.state_registry import (
    KeyedElementContext,
    StateRegistry,
    create_backend,
)
from pyspark_savepoint.statebackends.processing.operators.window_operator import WindowOperator, WindowSpec
from pyspark_savepoint.statebackends.processing.runtime.user_code import (
    Closing,
    UserCode,
    exhaust,
    open_function,
    relaxed_gc,
    yields_nothing,
)
from pyspark_savepoint.statebackends.rows.descriptors import USER_TIMERS, KeyedDescriptor, StateDescriptor
from pyspark_savepoint.statebackends.rows.key_codec import KeyCodec


@dataclass(frozen=True)
class BootstrapPlan:
    """Plan of the tasks; ``states`` are the states in the header of all state files, once they are known."""

    function: KeyedStateBootstrapFunction | WindowSpec | ConnectedFunction
    key: KeyedDescriptor
    columns: tuple[str, ...]
    max_parallelism: int
    order: RecordOrder = field(default_factory=RecordOrder)
    backend: str = "single_key"
    reuse: ObjectReuseMode = ObjectReuseMode.DEFAULT
    flink_version: tuple[int, int] = DEFAULT_VERSION
    parallelism: int = 1
    states: tuple[StateDescriptor, ...] | None = None
    inputs: Inputs | None = None

    def describe(self) -> BootstrapPlan:
        """Return the plan with its states; runs on the driver with a copy of the function."""
        task = BootstrapTask(self, 0)
        with task.closing():
            task.open()
        return replace(self, states=tuple(task.registry.states))

    @property
    def descriptor(self) -> KeyedDescriptor:
        """Return the descriptor of the output: the key, and the registered states."""
        assert self.states is not None
        return replace(self.key, states=self.states)


class BootstrapTask:
    """One task of a plan."""

    def __init__(self, plan: BootstrapPlan, index: int) -> None:
        self.plan = plan
        codec = KeyCodec(plan.key, plan.max_parallelism)
        self.records = records_of(codec, plan.order, plan.columns, self._plain_elements(), plan.inputs)
        # Last, because from here on there may be files, which only closing() releases.
        self.backend: KeyedStateBackend = create_backend(plan.backend)
        self.registry = StateRegistry(
            self.backend, plan.key.key_serializer, plan.flink_version, plan.reuse, plan.states,
            index_of_this_subtask=index, number_of_parallel_subtasks=plan.parallelism,
        )  # fmt: skip

    def _plain_elements(self) -> bool:
        """Return whether windows have values instead of rows: their element type has no fields."""
        function, columns = self.plan.function, self.plan.columns
        if not isinstance(function, WindowSpec):
            return False
        kind = parse_type(function.element_type, self.plan.flink_version).arrow_type(PLAIN)
        if pa.types.is_struct(kind):
            return False
        if len(columns) != 1:
            raise OptionError(
                "elements of a type without fields must be given as one column",
                expected=f"one column of {function.element_type}",
                found=f"columns {', '.join(columns)}",
                remedy="bootstrap_with(df).select('amount'); key and timestamp may be other columns",
            )
        return True

    def open(self) -> None:
        function = self.plan.function
        if isinstance(function, WindowSpec):
            with UserCode(self._named, "open"):
                if function.function is not None:
                    open_function(function.function, self.registry)
                self.windows = WindowOperator(function, self.registry)
        else:
            if isinstance(function, KeyedStateBootstrapFunction):
                yields_nothing(function.process_element)
            with UserCode(function, "open"):
                open_function(function, self.registry)
            timers = self.registry.timers(USER_TIMERS)
            if isinstance(function, KeyedStateBootstrapFunction):
                self.context = KeyedElementContext(self.backend, timers)
            else:
                assert self.plan.inputs is not None
                self.connected = ConnectedInputs(function, self.plan.inputs, self.plan.flink_version)
                self.context = self.connected.context(self.backend, timers)
        self.registry.closed = True

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the entries of the states of all keys of the records."""
        with self.closing():
            self.open()
            with relaxed_gc():
                yield from self._entries(batches)

    def _entries(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in self.records.sorted(batches):
            if self.records.is_broadcast(batch):
                unshared = self.registry.unshared
                self.connected.broadcast(batch, self.records, self.backend, self.plan.reuse, unshared, exhaust)
                continue
            for chunk in self.records.chunks(batch, self.plan.reuse, self.registry.unshared):
                yield from self._process(chunk)
        with UserCode(self._named, "what it left in state"):
            for _ in self.backend.finish():
                yield from drain(self.registry.done)
            self.registry.flush()
        yield from drain(self.registry.done)

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Close functions and release files at the end."""
        function = self.plan.function
        try:
            with Closing(function.function if isinstance(function, WindowSpec) else function):
                yield
        finally:
            self.backend.close()

    @property
    def _named(self) -> Any:
        """Return the function that errors name; for windows, the one that gets most of their elements."""
        given = self.plan.function
        if isinstance(given, WindowSpec):
            return given.reduce or given.aggregate or given.function or given.trigger
        return given

    def _process(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """Process a chunk, and yield entries as soon as there is a batch: those of one chunk may exceed the memory.

        Errors of user code are caught here: generators turn StopIteration into RuntimeError.
        """
        function = self.plan.function
        self.backend.expect(chunk.grouped_keys)
        if isinstance(function, WindowSpec):
            yield from self._window(chunk, UserCode(self._named, "a window", self.backend))
        elif not isinstance(function, KeyedStateBootstrapFunction):
            yield from self._inputs(chunk, UserCode(function, "process_element", self.backend))
        else:
            walk = self._plain if chunk.timestamps is None else self._timed
            yield from walk(function, chunk, UserCode(function, "process_element", self.backend))

    def _plain(self, function: KeyedStateBootstrapFunction, chunk: Chunk, guard: UserCode) -> Iterator[pa.RecordBatch]:
        process, ctx, set_key = function.process_element, self.context, self.backend.set_current_key
        done = self.registry.done
        values = iter(chunk.values)
        with guard:
            for key, grouped_key, count in zip(chunk.keys, chunk.grouped_keys, chunk.counts, strict=True):
                set_key(key, grouped_key)
                if done:
                    yield from drain(done)
                for value in islice(values, count):
                    process(value, ctx)

    def _timed(self, function: KeyedStateBootstrapFunction, chunk: Chunk, guard: UserCode) -> Iterator[pa.RecordBatch]:
        process, ctx, set_key = function.process_element, self.context, self.backend.set_current_key
        done = self.registry.done
        values, times = iter(chunk.values), iter(chunk.timestamps or ())
        with guard:
            for key, grouped_key, count in zip(chunk.keys, chunk.grouped_keys, chunk.counts, strict=True):
                set_key(key, grouped_key)
                if done:
                    yield from drain(done)
                for ctx.time, value in zip(islice(times, count), islice(values, count), strict=True):
                    process(value, ctx)

    def _inputs(self, chunk: Chunk, guard: UserCode) -> Iterator[pa.RecordBatch]:
        calls, ctx, set_key = self.connected.calls, self.context, self.backend.set_current_key
        done = self.registry.done
        records = zip(chunk.timestamps or (), chunk.inputs or (), chunk.values, strict=True)
        with guard:
            for key, grouped_key, count in zip(chunk.keys, chunk.grouped_keys, chunk.counts, strict=True):
                set_key(key, grouped_key)
                if done:
                    yield from drain(done)
                for ctx.time, number, value in islice(records, count):
                    exhaust(calls[number](value, ctx))

    def _window(self, chunk: Chunk, guard: UserCode) -> Iterator[pa.RecordBatch]:
        process, done = self.windows.process_element, self.registry.done
        values, times = iter(chunk.values), iter(chunk.timestamps or ())
        with guard:
            for key, grouped_key, count in zip(chunk.keys, chunk.grouped_keys, chunk.counts, strict=True):
                self.backend.set_current_key(key, grouped_key)
                if done:
                    yield from drain(done)
                self.windows.begin()
                for value in islice(values, count):
                    process(value, next(times, None))
                self.windows.end()
