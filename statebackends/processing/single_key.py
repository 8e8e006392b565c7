"""The state backend of sorted input: it holds the state of one key (FLIP-140).

A state object is a thin wrapper of its value: no look-up, no key groups. A key other than the current one prunes: what
the states hold goes to their outputs, and they are empty again. Windowed state is a dict of this key's namespaces.
Twins: ``BatchExecutionKeyedStateBackend``, ``BatchExecutionKeyValueState`` and its siblings.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any

from pyspark_savepoint.statebackends.processing.backend import (
    KeyedStateBackend,
    RegisteredState,
    StateOutput,
    needs_element,
)
from pyspark_savepoint.statebackends.processing.state import (
    AggregateFunction,
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    State,
    ValueState,
)
from pyspark_savepoint.statebackends.processing.tables import TABLES, Place, merge_tables
from pyspark_savepoint.statebackends.writing.descriptors import StateKind


class SingleKeyValueState(ValueState[Any]):
    """A value."""

    __slots__ = ("_value",)

    def __init__(self, state: RegisteredState) -> None:
        self._value: Any = None

    def value(self) -> Any:
        """The value, or None."""
        return self._value

    def update(self, value: Any) -> None:
        """Set it."""
        self._value = value

    def clear(self) -> None:
        """Forget it."""
        self._value = None

    def take(self) -> Any:
        """The content, which is gone then; None where there is none."""
        value, self._value = self._value, None
        return value


class SingleKeyListState(ListState[Any]):
    """A list."""

    __slots__ = ("_list", "_name")

    def __init__(self, state: RegisteredState) -> None:
        self._name = state.name
        self._list: list[Any] = []

    def get(self) -> list[Any]:
        """The elements."""
        return self._list

    def add(self, value: Any) -> None:
        """Append one."""
        if value is None:
            needs_element(value, self._name)
        self._list.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        """Append some."""
        added = list(values)
        if None in added:
            needs_element(None, self._name)
        self._list += added

    def update(self, values: Iterable[Any]) -> None:
        """Have these."""
        old, self._list = self._list, []
        try:
            self.add_all(values)
        except TypeError:
            self._list = old
            raise

    def clear(self) -> None:
        """Forget them. A list that was handed out stays what it is."""
        self._list = []

    def take(self) -> Any:
        """The content, which is gone then; None where there is none."""
        if not self._list:
            return None
        elements, self._list = self._list, []
        return elements


class SingleKeyMapState(MapState[Any, Any]):
    """A map."""

    __slots__ = ("_map",)

    def __init__(self, state: RegisteredState) -> None:
        self._map: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        """The value of a user key, or None."""
        return self._map.get(key)

    def put(self, key: Any, value: Any) -> None:
        """Set it."""
        self._map[key] = value

    def put_all(self, values: Mapping[Any, Any]) -> None:
        """Set some."""
        self._map.update(values)

    def remove(self, key: Any) -> None:
        """Forget one."""
        self._map.pop(key, None)

    def contains(self, key: Any) -> bool:
        """Whether there is one."""
        return key in self._map

    def items(self) -> ItemsView[Any, Any]:
        """Keys and values."""
        return self._map.items()

    def keys(self) -> KeysView[Any]:
        """Keys."""
        return self._map.keys()

    def values(self) -> ValuesView[Any]:
        """Values."""
        return self._map.values()

    def is_empty(self) -> bool:
        """Whether there is none."""
        return not self._map

    def clear(self) -> None:
        """Forget all."""
        self._map = {}

    def take(self) -> Any:
        """The content, which is gone then; None where there is none."""
        if not self._map:
            return None
        content, self._map = self._map, {}
        return content


class SingleKeyReducingState(ReducingState[Any]):
    """A value that elements are reduced into."""

    __slots__ = ("_reduce", "_value")

    def __init__(self, state: RegisteredState) -> None:
        assert state.reduce is not None
        self._reduce: Callable[[Any, Any], Any] = state.reduce
        self._value: Any = None

    def get(self) -> Any:
        """The value, or None."""
        return self._value

    def add(self, value: Any) -> None:
        """Reduce one into it."""
        self._value = value if self._value is None else self._reduce(self._value, value)

    def clear(self) -> None:
        """Forget it."""
        self._value = None

    def take(self) -> Any:
        """The content, which is gone then; None where there is none."""
        value, self._value = self._value, None
        return value


class SingleKeyAggregatingState(AggregatingState[Any, Any]):
    """An accumulator."""

    __slots__ = ("_accumulator", "_aggregate")

    def __init__(self, state: RegisteredState) -> None:
        assert state.aggregate is not None
        self._aggregate: AggregateFunction[Any, Any, Any] = state.aggregate
        self._accumulator: Any = None

    def get(self) -> Any:
        """The result, or None."""
        return None if self._accumulator is None else self._aggregate.get_result(self._accumulator)

    def add(self, value: Any) -> None:
        """Add one."""
        accumulator = self._accumulator
        if accumulator is None:
            accumulator = self._aggregate.create_accumulator()
        self._accumulator = self._aggregate.add(value, accumulator)

    def clear(self) -> None:
        """Forget it."""
        self._accumulator = None

    def take(self) -> Any:
        """The content, which is gone then; None where there is none."""
        accumulator, self._accumulator = self._accumulator, None
        return accumulator


Slot = SingleKeyValueState | SingleKeyListState | SingleKeyMapState | SingleKeyReducingState | SingleKeyAggregatingState
SLOTS: Mapping[StateKind, Callable[[RegisteredState], Slot]] = {
    StateKind.VALUE: SingleKeyValueState,
    StateKind.LIST: SingleKeyListState,
    StateKind.MAP: SingleKeyMapState,
    StateKind.REDUCING: SingleKeyReducingState,
    StateKind.AGGREGATING: SingleKeyAggregatingState,
}


class SingleKeyStateBackend(KeyedStateBackend):
    """The state of one key."""

    def __init__(self) -> None:
        super().__init__()
        self._slots: list[tuple[Callable[[], Any], StateOutput]] = []
        self._windowed: list[tuple[dict[Any, Any], StateOutput]] = []
        self._places: dict[State, tuple[Place, dict[Any, Any], RegisteredState]] = {}

    def create(self, state: RegisteredState, output: StateOutput) -> State:
        """A slot; of windowed state a dict of namespaces."""
        if not state.namespaced:
            slot = SLOTS[state.kind](state)
            self._slots.append((slot.take, output))
            return slot
        place, table = Place(), dict[Any, Any]()
        self._windowed.append((table, output))
        windowed = TABLES[state.kind](place, table, state)
        self._places[windowed] = (place, table, state)
        return windowed

    def set_current_key(self, key: Any, place: bytes) -> None:
        """Another key: what there is of the one before goes out."""
        if place != self.place:
            if self.place:
                self._prune()
            self.place = place
        self.key = key

    def set_current_namespace(self, state: State, namespace: Any) -> None:
        """The namespace is the whole look-up."""
        self._places[state][0].now = namespace

    def merge_namespaces(self, state: State, target: Any, sources: Iterator[Any]) -> None:
        """Within the dict of this key."""
        _, table, registered = self._places[state]
        merge_tables(table, registered, target, sources)

    def finish(self) -> Iterator[None]:
        """The last key is done."""
        if self.place:
            self._prune()
        yield

    def _prune(self) -> None:
        """The key is done."""
        place = self.place
        for take, output in self._slots:
            content = take()
            if content is not None:
                output.add(place, None, content)
        for table, output in self._windowed:
            for namespace, content in table.items():
                output.add(place, namespace, content)
            table.clear()
