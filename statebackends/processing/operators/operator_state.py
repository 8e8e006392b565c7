"""Bootstrapping of state without keys: list and union state of every subtask, broadcast state of one.

A function runs once, in as many tasks as the operator gets subtasks; each yields the serialized elements of its states,
one state after the other, as rows of table ``elements``. Flink: ``StateBootstrapOperator``,
``BroadcastStateBootstrapOperator``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import binary_array, fixed_array
from pyspark_savepoint.formats.errors import OptionError, SavepointError
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, OperatorBackendHeader
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.notation.notation import DEFAULT_VERSION
from pyspark_savepoint.statebackends.model.descriptors import OperatorStateDescriptor
from pyspark_savepoint.statebackends.processing.api.functions import (
    BroadcastStateBootstrapFunction,
    KeyedBroadcastProcessFunction,
    StateBootstrapFunction,
)
from pyspark_savepoint.statebackends.processing.api.object_reuse import ObjectReuseMode
from pyspark_savepoint.statebackends.processing.api.state_descriptors import MapStateDescriptor
from pyspark_savepoint.statebackends.processing.backends.single_key import SingleKeyStateBackend
from pyspark_savepoint.statebackends.processing.backends.single_key_states import SingleKeyListState, SingleKeyMapState
from pyspark_savepoint.statebackends.processing.operators.contexts import PlainContext
from pyspark_savepoint.statebackends.processing.operators.entry_output import OUTSIDE, PLAIN
from pyspark_savepoint.statebackends.processing.operators.operator_states import (
    BroadcastElementContext,
    BroadcastSideContext,
    OperatorStates,
)
from pyspark_savepoint.statebackends.processing.operators.records import plain_values
from pyspark_savepoint.statebackends.processing.operators.state_registry import StateRegistry, Unshared
from pyspark_savepoint.statebackends.processing.runtime.adaptive_batches import AdaptiveBatches
from pyspark_savepoint.statebackends.processing.runtime.user_code import (
    Closing,
    UserCode,
    exhaust,
    name_of,
    open_function,
    takes,
    yields_nothing,
)
from pyspark_savepoint.statebackends.processing.runtime.values import from_python
from pyspark_savepoint.statebackends.writing.files.operator_edit import VERSION
from pyspark_savepoint.statebackends.writing.files.operator_files import serialized_entries
from pyspark_savepoint.statebackends.writing.rows.entry_encoder import serialized

#: The number of a state in the header of the file, and one element of it; of broadcast state an entry.
ELEMENTS = pa.schema([pa.field("state", pa.int32()), pa.field("element", pa.binary())])


@dataclass(frozen=True)
class OperatorStatePlan:
    """Plan of the tasks; ``states`` are those in the header of all files, once they are known.

    Of a KeyedBroadcastProcessFunction, ``broadcast`` are the states that its broadcast elements fill, and ``key`` is
    the type of its keys, whose state is not used.
    """

    function: StateBootstrapFunction | BroadcastStateBootstrapFunction | KeyedBroadcastProcessFunction
    columns: tuple[str, ...]
    timestamp: str | None = None
    reuse: ObjectReuseMode = ObjectReuseMode.DEFAULT
    flink_version: tuple[int, int] = DEFAULT_VERSION
    parallelism: int = 1
    states: tuple[OperatorStateDescriptor, ...] | None = None
    key: TypeSerializer | None = None
    broadcast: tuple[MapStateDescriptor, ...] = ()

    @property
    def process_element(self) -> Callable[[Any, Any], object]:
        """The method that fills operator state."""
        if isinstance(self.function, KeyedBroadcastProcessFunction):
            return self.function.process_broadcast_element
        return self.function.process_element

    def describe(self) -> OperatorStatePlan:
        """Return the plan with its states; runs on the driver with a copy of the function."""
        task = OperatorStateTask(self, 0)
        with Closing(self.function):
            task.open()
        if not task.store.descriptors:
            how = "initialize_state" if isinstance(self.function, StateBootstrapFunction) else "state_descriptors"
            remedy = (
                "ctx.get_operator_state_store().get_list_state(ListStateDescriptor('state', 'LONG')) in it"
                if isinstance(self.function, StateBootstrapFunction)
                else "make the MapStateDescriptor an attribute of the function's class, or name it in state_descriptors"
            )
            raise OptionError(
                f"the function has no state: its {how} does not register any",
                function=name_of(self.function),
                remedy=remedy,
            )
        return replace(self, states=tuple(task.store.descriptors.values()))

    def header(self) -> OperatorBackendHeader:
        """Return the header of the files of all subtasks; states are numbered in its order."""
        assert self.states is not None
        metas = [state.meta_info() for state in self.states]
        lists = tuple(meta for meta in metas if meta.kind is BackendStateType.OPERATOR)
        return OperatorBackendHeader(VERSION, False, lists, tuple(meta for meta in metas if meta not in lists))


@dataclass(frozen=True, slots=True)
class SnapshotContext:
    """Id and time of the checkpoint that a bootstrap writes."""

    timestamp: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

    def get_checkpoint_id(self) -> int:
        return 0

    def get_checkpoint_timestamp(self) -> int:
        return self.timestamp


class OperatorStateTask:
    """One task of a plan."""

    def __init__(self, plan: OperatorStatePlan, index: int) -> None:
        self.plan = plan
        self.backend = SingleKeyStateBackend()
        self.store = OperatorStates(
            plan.flink_version, index_of_this_subtask=index, number_of_parallel_subtasks=plan.parallelism
        )

    def open(self) -> None:
        function = self.plan.function
        if not isinstance(function, KeyedBroadcastProcessFunction):
            yields_nothing(function.process_element)
        with UserCode(function, "open"):
            open_function(function, self._runtime_context())
            if isinstance(function, StateBootstrapFunction):
                function.initialize_state(self.store)
            broadcast = self.plan.broadcast
            if isinstance(function, BroadcastStateBootstrapFunction):
                broadcast = tuple(function.state_descriptors())
            for descriptor in broadcast:
                self.store.add_broadcast(descriptor)
        known, found = self.plan.states, tuple(self.store.descriptors.values())
        if known is not None and known != found:
            raise OptionError(
                "the function registers other states in a task than on the driver",
                function=name_of(function),
                expected=", ".join(state.name for state in known),
                found=", ".join(state.name for state in found),
                remedy="register the same states in the same order wherever it is called",
            )

    def _runtime_context(self) -> Any:
        if self.plan.key is None:
            return self.store
        keyed = StateRegistry(self.backend, self.plan.key, self.plan.flink_version, self.plan.reuse)
        self.backend.set_current_key(None, OUTSIDE)
        return keyed

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the elements of all states, rows of table ``elements``."""
        function = self.plan.function
        with Closing(function):
            self.open()
            with UserCode(function, self.plan.process_element.__name__):
                for batch in batches:
                    self._process(batch)
                self.backend.set_current_key(None, b"")
            if isinstance(function, StateBootstrapFunction):
                with UserCode(function, "snapshot_state"):
                    if takes(function.snapshot_state, "ctx"):
                        function.snapshot_state(SnapshotContext())
                    else:
                        function.snapshot_state()
            for number, descriptor in enumerate(self.store.descriptors.values()):
                yield from _elements(number, descriptor, self.store.states[descriptor.name])

    def _process(self, batch: pa.RecordBatch) -> None:
        plan = self.plan
        ctx: Any = PlainContext()
        if isinstance(plan.function, KeyedBroadcastProcessFunction):
            ctx = BroadcastSideContext(self.store)
        elif isinstance(plan.function, BroadcastStateBootstrapFunction):
            ctx = BroadcastElementContext(self.store)
        process = plan.process_element
        for value, ctx.time in plain_values(batch, plan.columns, plan.timestamp, plan.reuse, Unshared()):
            exhaust(process(value, ctx))


def _elements(
    number: int, descriptor: OperatorStateDescriptor, state: SingleKeyListState | SingleKeyMapState
) -> Iterator[pa.RecordBatch]:
    """Yield the elements of a list, or the entries of a broadcast state, as bytes."""
    name = f"state {descriptor.name!r}"
    if isinstance(state, SingleKeyMapState):
        yield from _entries(number, descriptor, list(state.items()), name)
        return
    kind = descriptor.element.arrow_type(PLAIN)
    batches = AdaptiveBatches()
    for part in batches.parts(list(state.get())):
        with _of_state(descriptor):
            column = serialized(descriptor.element, from_python(part, kind, name))
        batches.made(len(part), column.nbytes)
        yield _batch(number, column)


def _entries(
    number: int, descriptor: OperatorStateDescriptor, entries: list[tuple[Any, Any]], name: str
) -> Iterator[pa.RecordBatch]:
    """Yield a broadcast state, all of whose keys are compared as bytes."""
    if not entries:
        return
    assert descriptor.key is not None
    with _of_state(descriptor):
        keys = from_python([key for key, _ in entries], descriptor.key.arrow_type(PLAIN), name)
        values = from_python([value for _, value in entries], descriptor.element.arrow_type(PLAIN), name)
        buffer, ends = serialized_entries(descriptor, keys, values)
    yield _batch(number, binary_array(pa.binary(), np.concatenate([[0], ends]).astype(np.int64), buffer))


def _batch(number: int, column: pa.Array) -> pa.RecordBatch:
    numbers = fixed_array(pa.int32(), np.full(len(column), number, np.int32))
    return pa.RecordBatch.from_arrays([numbers, column], schema=ELEMENTS)


@contextmanager
def _of_state(descriptor: OperatorStateDescriptor) -> Iterator[None]:
    """Name the state in errors."""
    try:
        yield
    except SavepointError as error:
        raise error.with_facts(state=descriptor.name) from None
