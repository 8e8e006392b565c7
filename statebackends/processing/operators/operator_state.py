"""Bootstrapping of state without keys: list and union state of every subtask, broadcast state of one.

A function runs once, in as many tasks as the operator gets subtasks. It registers and fills its states through the
contexts that it gets; each task yields the serialized elements of its states, one state after the other, as rows of
table ``elements``. Flink: ``StateBootstrapOperator``, ``BroadcastStateBootstrapOperator``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import binary_array, fixed_array
from pyspark_savepoint.formats.errors import OptionError, SavepointError
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, OperatorBackendHeader
from pyspark_savepoint.formats.metadata.operator_handles import Mode
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.notation.notation import DEFAULT_VERSION
from pyspark_savepoint.statebackends.processing.api.contexts import HasTaskInfo
from pyspark_savepoint.statebackends.processing.api.functions import (
    BroadcastStateBootstrapFunction,
    KeyedBroadcastProcessFunction,
    StateBootstrapFunction,
)
from pyspark_savepoint.statebackends.processing.api.state import MapState, ObjectReuseMode
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    Descriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    serializer_of,
)
from pyspark_savepoint.statebackends.processing.api.timers import MIN_WATERMARK, Timers, now_millis
from pyspark_savepoint.statebackends.processing.backends.backend import KeyedStateBackend, RegisteredState
from pyspark_savepoint.statebackends.processing.backends.single_key import (
    SingleKeyListState,
    SingleKeyMapState,
    SingleKeyStateBackend,
)
from pyspark_savepoint.statebackends.processing.operators.entry_output import OUTSIDE, PLAIN
from pyspark_savepoint.statebackends.processing.operators.records import plain_values
from pyspark_savepoint.statebackends.processing.operators.state_registry import (
    KeyedElementContext,
    PlainContext,
    StateRegistry,
    Unshared,
)
from pyspark_savepoint.statebackends.processing.runtime.collector import AdaptiveBatches
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
from pyspark_savepoint.statebackends.rows.descriptors import OperatorStateDescriptor, StateKind
from pyspark_savepoint.statebackends.writing.entry_encoder import serialized
from pyspark_savepoint.statebackends.writing.operator_edit import VERSION
from pyspark_savepoint.statebackends.writing.operator_files import serialized_entries


@dataclass
class OperatorStates(HasTaskInfo):
    """Operator state and broadcast states of one task. Flink: ``OperatorStateStore``."""

    version: tuple[int, int]
    descriptors: dict[str, OperatorStateDescriptor] = field(default_factory=dict)
    states: dict[str, SingleKeyListState | SingleKeyMapState] = field(default_factory=dict)
    index_of_this_subtask: int = 0
    number_of_parallel_subtasks: int = 1

    def get_operator_state_store(self) -> OperatorStates:
        return self

    get_operator_state = get_operator_state_store

    def get_list_state(self, descriptor: ListStateDescriptor) -> SingleKeyListState:
        """Return a list that is split over subtasks."""
        return self._list(descriptor, Mode.SPLIT_DISTRIBUTE)

    def get_union_list_state(self, descriptor: ListStateDescriptor) -> SingleKeyListState:
        """Return a list that every subtask gets as a whole."""
        return self._list(descriptor, Mode.UNION)

    def _list(self, descriptor: ListStateDescriptor, mode: Mode) -> SingleKeyListState:
        element = self._type(descriptor.name, descriptor.type)
        self._add(OperatorStateDescriptor(descriptor.name, mode, element))
        units = (element.arrow_type(PLAIN),)
        state = SingleKeyListState(RegisteredState(descriptor.name, StateKind.LIST, units))
        self.states[descriptor.name] = state
        return state

    def add_broadcast(self, descriptor: MapStateDescriptor) -> None:
        """Add a map of which every subtask has a copy."""
        key, value = (self._type(descriptor.name, text) for text in descriptor.types)
        mode = Mode.BROADCAST
        self._add(OperatorStateDescriptor(descriptor.name, mode, value, key, ("key", "value")))
        units = (key.arrow_type(PLAIN), value.arrow_type(PLAIN))
        self.states[descriptor.name] = SingleKeyMapState(RegisteredState(descriptor.name, StateKind.MAP, units))

    def broadcast(self, descriptor: MapStateDescriptor) -> SingleKeyMapState:
        """Return a broadcast state; raise OptionError for one that was not declared."""
        state = self.states.get(descriptor.name)
        if not isinstance(state, SingleKeyMapState):
            raise OptionError(
                "the broadcast state is not among the descriptors of the function",
                state=descriptor.name,
                remedy="make the descriptor an attribute of the function's class, or give it in state_descriptors(); "
                "of a KeyedBroadcastProcessFunction, to broadcast(descriptor)",
            )
        return state

    def _add(self, descriptor: OperatorStateDescriptor) -> None:
        if descriptor.name in self.descriptors:
            raise OptionError("a state is registered twice", state=descriptor.name)
        self.descriptors[descriptor.name] = descriptor

    def _type(self, state: str, text: str | TypeSerializer | None) -> Any:
        if text is None:
            raise OptionError(
                "the type of a state that is written is missing",
                state=state,
                remedy="give it to the descriptor in Flink's notation: 'LONG', or 'STRING', 'LONG' for a map",
            )
        try:
            return serializer_of(text, self.version)
        except SavepointError as error:
            raise error.with_facts(state=state) from None


class BroadcastElementContext(PlainContext):
    """Context of a broadcast function. Flink: ``BroadcastStateBootstrapFunction.Context``."""

    __slots__ = ("_store",)

    def __init__(self, store: OperatorStates) -> None:
        super().__init__()
        self._store = store

    def get_broadcast_state(self, descriptor: MapStateDescriptor) -> SingleKeyMapState:
        """Return a broadcast state, given by one of its descriptors."""
        return self._store.broadcast(descriptor)


class BroadcastSideContext(BroadcastElementContext):
    """Context of broadcast elements next to a keyed input. Flink: ``KeyedBroadcastProcessFunction.Context``."""

    __slots__ = ()

    def current_watermark(self) -> int:
        """Return the smallest watermark: broadcast elements come before all keys."""
        return MIN_WATERMARK

    def apply_to_keyed_state(self, descriptor: Descriptor, function: Callable[[Any, Any], None]) -> NoReturn:
        """Raise OptionError: no key has state yet."""
        raise OptionError(
            "broadcast elements come before all keys, so there is no keyed state to apply a function to",
            state=descriptor.name,
            remedy="do it in process_element, which can read broadcast state; Flink's batch execution refuses it too",
        )


class KeyedBroadcastElementContext(KeyedElementContext):
    """Context of keyed elements next to a broadcast input. Flink: ``KeyedBroadcastProcessFunction.ReadOnlyContext``."""

    __slots__ = ("_states", "_store", "_timers")

    def __init__(self, backend: KeyedStateBackend, timers: Timers, store: OperatorStates) -> None:
        super().__init__(backend, timers)
        self._timers = timers
        self._store = store
        self._states: dict[str, ReadOnlyMapState] = {}

    def get_broadcast_state(self, descriptor: MapStateDescriptor) -> ReadOnlyMapState:
        """Return a broadcast state, which can only be read."""
        state = self._states.get(descriptor.name)
        if state is None:
            state = self._states[descriptor.name] = ReadOnlyMapState(self._store.broadcast(descriptor))
        return state

    def current_processing_time(self) -> int:
        """Return milliseconds since 1970."""
        return now_millis()

    def current_watermark(self) -> int:
        """Return the watermark of the timers."""
        return self._timers.watermark


class ReadOnlyMapState(MapState[Any, Any]):
    """Broadcast state as keyed elements have it. Flink: ``ReadOnlyBroadcastState``."""

    __slots__ = ("_state",)

    def __init__(self, state: SingleKeyMapState) -> None:
        self._state = state

    def get(self, key: Any) -> Any:
        return self._state.get(key)

    def contains(self, key: Any) -> bool:
        return self._state.contains(key)

    def items(self) -> ItemsView[Any, Any]:
        return self._state.items()

    def immutable_entries(self) -> ItemsView[Any, Any]:
        """Return the same as :meth:`items`, by the name of Flink's read-only state."""
        return self._state.items()

    def keys(self) -> KeysView[Any]:
        return self._state.keys()

    def values(self) -> ValuesView[Any]:
        return self._state.values()

    def is_empty(self) -> bool:
        return self._state.is_empty()

    def put(self, key: Any, value: Any) -> None:
        _read_only()

    def put_all(self, values: Mapping[Any, Any]) -> None:
        _read_only()

    def remove(self, key: Any) -> None:
        _read_only()

    def clear(self) -> None:
        _read_only()


def _read_only() -> NoReturn:
    raise TypeError("keyed elements can only read broadcast state: process_broadcast_element changes it")


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
        states, registered = self.plan.states, tuple(self.store.descriptors.values())
        if states is not None and states != registered:
            raise OptionError(
                "the function registers other states in a task than on the driver",
                function=name_of(function),
                expected=", ".join(state.name for state in states),
                found=", ".join(state.name for state in registered),
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
