"""Operator state that functions register and fill in one task, and the contexts that give access to it."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, KeysView, Mapping, ValuesView
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pyspark_savepoint.formats.errors import OptionError, SavepointError
from pyspark_savepoint.formats.metadata.operator_handles import Mode
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.statebackends.model.descriptors import OperatorStateDescriptor, StateKind
from pyspark_savepoint.statebackends.processing.api.contexts import HasTaskInfo
from pyspark_savepoint.statebackends.processing.api.state import MapState
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    Descriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    serializer_of,
)
from pyspark_savepoint.statebackends.processing.api.timers import MIN_WATERMARK, Timers, now_millis
from pyspark_savepoint.statebackends.processing.backends.backend import KeyedStateBackend, RegisteredState
from pyspark_savepoint.statebackends.processing.backends.single_key_states import SingleKeyListState, SingleKeyMapState
from pyspark_savepoint.statebackends.processing.operators.contexts import KeyedElementContext, PlainContext
from pyspark_savepoint.statebackends.processing.operators.entry_output import PLAIN


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
        found = self._states.get(descriptor.name)
        if found is None:
            found = self._states[descriptor.name] = ReadOnlyMapState(self._store.broadcast(descriptor))
        return found

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
