"""Bootstrapping of state without keys: list and union state of every subtask, broadcast state of one.

A function runs once, in as many tasks as the operator gets subtasks; each yields the serialized elements of its states,
one state after the other, as rows of table ``elements``. Flink: ``StateBootstrapOperator``,
``BroadcastStateBootstrapOperator``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import binary_array, fixed_array
from pyspark_savepoint.formats.errors import OptionError, SavepointError
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, OperatorBackendHeader
from pyspark_savepoint.formats.serializers.notation.notation import DEFAULT_VERSION, parse_type
from pyspark_savepoint.statebackends.model.descriptors import OperatorStateDescriptor, OperatorStateMode, StateKind
from pyspark_savepoint.statebackends.processing.api.functions import (
    BroadcastStateBootstrapFunction,
    HasTaskInfo,
    StateBootstrapFunction,
)
from pyspark_savepoint.statebackends.processing.api.state_descriptors import ListStateDescriptor, MapStateDescriptor
from pyspark_savepoint.statebackends.processing.backends.backend import RegisteredState
from pyspark_savepoint.statebackends.processing.backends.single_key_states import SingleKeyListState, SingleKeyMapState
from pyspark_savepoint.statebackends.processing.operators.contexts import PlainContext
from pyspark_savepoint.statebackends.processing.operators.entry_output import PLAIN
from pyspark_savepoint.statebackends.processing.operators.records import plain_values
from pyspark_savepoint.statebackends.processing.operators.state_registry import ObjectReuse, Unshared
from pyspark_savepoint.statebackends.processing.runtime.adaptive_batches import AdaptiveBatches
from pyspark_savepoint.statebackends.processing.runtime.user_code import (
    Closing,
    UserCode,
    name_of,
    open_function,
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
    """Plan of the tasks; ``states`` are those in the header of all files, once they are known."""

    function: StateBootstrapFunction | BroadcastStateBootstrapFunction
    columns: tuple[str, ...]
    timestamp: str | None = None
    reuse: ObjectReuse = ObjectReuse.DEFAULT
    flink_version: tuple[int, int] = DEFAULT_VERSION
    parallelism: int = 1
    states: tuple[OperatorStateDescriptor, ...] | None = None

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
                f"the function has no state: its {how} names none", function=name_of(self.function), remedy=remedy
            )
        return replace(self, states=tuple(task.store.descriptors.values()))

    def header(self) -> OperatorBackendHeader:
        """Return the header of the files of all subtasks; states are numbered in its order."""
        assert self.states is not None
        metas = [state.meta_info() for state in self.states]
        lists = tuple(meta for meta in metas if meta.kind is BackendStateType.OPERATOR)
        return OperatorBackendHeader(VERSION, False, lists, tuple(meta for meta in metas if meta not in lists))


@dataclass
class _Store(HasTaskInfo):
    """Operator state and broadcast states of one task. Flink: ``OperatorStateStore``."""

    version: tuple[int, int]
    descriptors: dict[str, OperatorStateDescriptor] = field(default_factory=dict)
    states: dict[str, SingleKeyListState | SingleKeyMapState] = field(default_factory=dict)
    index_of_this_subtask: int = 0
    number_of_parallel_subtasks: int = 1

    def get_operator_state_store(self) -> _Store:
        return self

    get_operator_state = get_operator_state_store

    def get_list_state(self, descriptor: ListStateDescriptor) -> SingleKeyListState:
        """Return a list that is split over subtasks."""
        return self._list(descriptor, OperatorStateMode.SPLIT_DISTRIBUTE)

    def get_union_list_state(self, descriptor: ListStateDescriptor) -> SingleKeyListState:
        """Return a list that every subtask gets as a whole."""
        return self._list(descriptor, OperatorStateMode.UNION)

    def _list(self, descriptor: ListStateDescriptor, mode: OperatorStateMode) -> SingleKeyListState:
        element = self._type(descriptor.name, descriptor.type)
        self._add(OperatorStateDescriptor(descriptor.name, mode, element))
        units = (element.arrow_type(PLAIN),)
        state = SingleKeyListState(RegisteredState(descriptor.name, StateKind.LIST, units))
        self.states[descriptor.name] = state
        return state

    def add_broadcast(self, descriptor: MapStateDescriptor) -> None:
        """Add a map of which every subtask has a copy."""
        key, value = (self._type(descriptor.name, text) for text in descriptor.types)
        mode = OperatorStateMode.BROADCAST
        self._add(OperatorStateDescriptor(descriptor.name, mode, value, key, ("key", "value")))
        units = (key.arrow_type(PLAIN), value.arrow_type(PLAIN))
        self.states[descriptor.name] = SingleKeyMapState(RegisteredState(descriptor.name, StateKind.MAP, units))

    def _add(self, descriptor: OperatorStateDescriptor) -> None:
        if descriptor.name in self.descriptors:
            raise OptionError("a state is registered twice", state=descriptor.name)
        self.descriptors[descriptor.name] = descriptor

    def _type(self, state: str, text: str | None) -> Any:
        if text is None:
            raise OptionError(
                "a state that is written needs its type",
                state=state,
                remedy="its descriptor says it in Flink's words: 'LONG', of a map 'STRING', 'LONG'",
            )
        try:
            return parse_type(text, self.version)
        except SavepointError as error:
            raise error.with_facts(state=state) from None


class _BroadcastContext(PlainContext):
    """Context of a broadcast function. Flink: ``BroadcastStateBootstrapFunction.Context``."""

    __slots__ = ("_store",)

    def __init__(self, store: _Store) -> None:
        super().__init__()
        self._store = store

    def get_broadcast_state(self, descriptor: MapStateDescriptor) -> SingleKeyMapState:
        """Return a broadcast state, given by one of the function's descriptors."""
        state = self._store.states.get(descriptor.name)
        if not isinstance(state, SingleKeyMapState):
            raise OptionError(
                "the broadcast state is not among the descriptors of the function",
                state=descriptor.name,
                remedy="make the descriptor an attribute of the function's class, or give it in state_descriptors()",
            )
        return state


class OperatorStateTask:
    """One task of a plan."""

    def __init__(self, plan: OperatorStatePlan, index: int) -> None:
        self.plan = plan
        self.store = _Store(
            plan.flink_version, index_of_this_subtask=index, number_of_parallel_subtasks=plan.parallelism
        )

    def open(self) -> None:
        function = self.plan.function
        yields_nothing(function.process_element)
        with UserCode(function, "open"):
            open_function(function, self.store)
            if isinstance(function, StateBootstrapFunction):
                function.initialize_state(self.store)
            else:
                for descriptor in function.state_descriptors():
                    self.store.add_broadcast(descriptor)
        known, found = self.plan.states, tuple(self.store.descriptors.values())
        if known is not None and known != found:
            raise OptionError(
                "a function registers other states in a task than on the driver",
                function=name_of(function),
                expected=", ".join(state.name for state in known),
                found=", ".join(state.name for state in found),
                remedy="register the same states in the same order wherever it is called",
            )

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the elements of all states, rows of table ``elements``."""
        function = self.plan.function
        with Closing(function):
            self.open()
            with UserCode(function, "process_element"):
                for batch in batches:
                    self._process(batch)
            if isinstance(function, StateBootstrapFunction):
                with UserCode(function, "snapshot_state"):
                    function.snapshot_state()
            for number, descriptor in enumerate(self.store.descriptors.values()):
                yield from _elements(number, descriptor, self.store.states[descriptor.name])

    def _process(self, batch: pa.RecordBatch) -> None:
        ctx: Any = PlainContext() if isinstance(self.plan.function, StateBootstrapFunction) else None
        if ctx is None:
            ctx = _BroadcastContext(self.store)
        process = self.plan.function.process_element
        for value, ctx.time in plain_values(batch, self.plan.columns, self.plan.timestamp, self.plan.reuse, Unshared()):
            process(value, ctx)


def _elements(
    number: int, descriptor: OperatorStateDescriptor, state: SingleKeyListState | SingleKeyMapState
) -> Iterator[pa.RecordBatch]:
    """Yield the elements of a list, or the entries of a broadcast state, as bytes."""
    name = f"state {descriptor.name!r}"
    if isinstance(state, SingleKeyMapState):
        yield from _entries(number, descriptor, list(state.items()), name)
        return
    kind = descriptor.element.arrow_type(PLAIN)
    pace = AdaptiveBatches()
    for part in pace.parts(list(state.get())):
        with _of_state(descriptor):
            column = serialized(descriptor.element, from_python(part, kind, name))
        pace.made(len(part), column.nbytes)
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
