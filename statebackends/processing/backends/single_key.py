"""State backend for sorted input: it holds the state of one key (FLIP-140).

A state object is a thin wrapper of its value, without look-ups or key groups. When the key changes, the contents of the
states go to their outputs, and the states are empty again. Windowed state is a dict of this key's namespaces. Flink:
``BatchExecutionKeyedStateBackend``, ``BatchExecutionKeyValueState`` and the classes for other kinds of state.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, NamedTuple

from pyspark_savepoint.statebackends.processing.api.state import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    State,
    ValueState,
)
from pyspark_savepoint.statebackends.processing.api.state_descriptors import AggregateFunction
from pyspark_savepoint.statebackends.processing.backends.backend import (
    Items,
    KeyedStateBackend,
    Keys,
    RegisteredState,
    StateOutput,
    Values,
    needs_element,
)
from pyspark_savepoint.statebackends.processing.backends.heap import TABLES, Current, merge_tables
from pyspark_savepoint.statebackends.rows.descriptors import StateKind


class SingleKeyValueState(ValueState[Any]):
    __slots__ = ("content",)

    def __init__(self, state: RegisteredState) -> None:
        self.content: Any = None

    def value(self) -> Any:
        return self.content

    def update(self, value: Any) -> None:
        self.content = value

    def clear(self) -> None:
        self.content = None


class SingleKeyListState(ListState[Any]):
    __slots__ = ("_name", "content")

    def __init__(self, state: RegisteredState) -> None:
        self._name = state.name
        self.content: list[Any] = []

    def get(self) -> list[Any]:
        return self.content or []

    def add(self, value: Any) -> None:
        if value is None:
            needs_element(value, self._name)
        self.content.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        added = list(values)
        if None in added:
            needs_element(None, self._name)
        self.content += added

    def update(self, values: Iterable[Any]) -> None:
        elements = list(values)
        if None in elements:
            needs_element(None, self._name)
        self.content = elements

    def clear(self) -> None:
        """Remove the elements; a list that was handed out stays unchanged."""
        self.content = []


class SingleKeyMapState(MapState[Any, Any]):
    __slots__ = ("content",)

    def __init__(self, state: RegisteredState) -> None:
        self.content: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        return self.content.get(key)

    def put(self, key: Any, value: Any) -> None:
        self.content[key] = value

    def put_all(self, values: Mapping[Any, Any]) -> None:
        self.content.update(values)

    def remove(self, key: Any) -> None:
        self.content.pop(key, None)

    def contains(self, key: Any) -> bool:
        return key in self.content

    def items(self) -> ItemsView[Any, Any]:
        return Items(self.content)

    def keys(self) -> KeysView[Any]:
        return Keys(self.content)

    def values(self) -> ValuesView[Any]:
        return Values(self.content)

    def is_empty(self) -> bool:
        return not self.content

    def clear(self) -> None:
        self.content = {}


class SingleKeyReducingState(ReducingState[Any]):
    """Value into which elements are reduced."""

    __slots__ = ("_reduce", "content")

    def __init__(self, state: RegisteredState) -> None:
        assert state.reduce is not None
        self._reduce: Callable[[Any, Any], Any] = state.reduce
        self.content: Any = None

    def get(self) -> Any:
        return self.content

    def add(self, value: Any) -> None:
        self.content = value if self.content is None else self._reduce(self.content, value)

    def clear(self) -> None:
        self.content = None


class SingleKeyAggregatingState(AggregatingState[Any, Any]):
    __slots__ = ("_aggregate", "content")

    def __init__(self, state: RegisteredState) -> None:
        assert state.aggregate is not None
        self._aggregate: AggregateFunction[Any, Any, Any] = state.aggregate
        self.content: Any = None

    def get(self) -> Any:
        return None if self.content is None else self._aggregate.get_result(self.content)

    def add(self, value: Any) -> None:
        accumulator = self.content
        if accumulator is None:
            accumulator = self._aggregate.create_accumulator()
        self.content = self._aggregate.add(value, accumulator)

    def clear(self) -> None:
        self.content = None


#: States with one value, None if there is none; and collections, empty if there are no elements.
ValueSlot = SingleKeyValueState | SingleKeyReducingState | SingleKeyAggregatingState
CollectionSlot = SingleKeyListState | SingleKeyMapState
VALUE_SLOTS: Mapping[StateKind, Callable[[RegisteredState], ValueSlot]] = {
    StateKind.VALUE: SingleKeyValueState,
    StateKind.REDUCING: SingleKeyReducingState,
    StateKind.AGGREGATING: SingleKeyAggregatingState,
}
COLLECTION_SLOTS: Mapping[StateKind, Callable[[RegisteredState], CollectionSlot]] = {
    StateKind.LIST: SingleKeyListState,
    StateKind.MAP: SingleKeyMapState,
}


Add = Callable[[bytes, Any, Any], None]
SetKey = Callable[[Any, bytes], None]


class _NoSlot:
    """Marks that there is no first value."""

    content: Any = None


def _nowhere(grouped_key: bytes, namespace: Any, content: Any) -> None:
    """Output of no state."""


FirstSlot = ValueSlot | _NoSlot


class CurrentKey(NamedTuple):
    """Functions that share a key; ``set_states`` tells them the first value, its output, and whether there is more."""

    set_key: SetKey
    set_states: Callable[[FirstSlot, Add, bool], None]
    key: Callable[[], Any]
    grouped_key: Callable[[], bytes]


class SingleKeyStateBackend(KeyedStateBackend):
    """State of one key.

    Most functions have one state with one value. The function that sets the key, called for every record, handles that
    state itself, and calls a method only if there are more.
    """

    def __init__(self) -> None:
        self._values: list[tuple[ValueSlot, Add]] = []
        self._collections: list[tuple[CollectionSlot, Callable[[], Any], Add]] = []
        self._windowed: list[tuple[dict[Any, Any], Add]] = []
        self._window_tables: dict[State, tuple[Current, dict[Any, Any], RegisteredState]] = {}
        self._first: FirstSlot = _NoSlot()
        self._add_first: Add = _nowhere
        self._current = self._current_key()

    def create(self, state: RegisteredState, output: StateOutput) -> State:
        """Create a slot; for windowed state a dict of namespaces."""
        created: State
        if state.namespaced:
            current, table = Current(), dict[Any, Any]()
            self._windowed.append((table, output.add))
            created = TABLES[state.kind](current, table, state)
            self._window_tables[created] = (current, table, state)
        elif state.kind not in VALUE_SLOTS:
            created = collection = COLLECTION_SLOTS[state.kind](state)
            self._collections.append((collection, type(collection.content), output.add))
        else:
            created = value = VALUE_SLOTS[state.kind](state)
            if isinstance(self._first, _NoSlot):
                self._first, self._add_first = value, output.add
            else:
                self._values.append((value, output.add))
        has_more = bool(self._values or self._collections or self._windowed)
        self._current.set_states(self._first, self._add_first, has_more)
        return created

    @property
    def key(self) -> Any:
        return self._current.key()

    @property
    def grouped_key(self) -> bytes:
        return self._current.grouped_key()

    @property
    def set_current_key(self) -> SetKey:
        """Function that sets the key and, if it changes, outputs the state of the previous key.

        Collections that were handed out stay unchanged, because the next key gets new ones.
        """
        return self._current.set_key

    def _current_key(self) -> CurrentKey:
        """Return functions that keep the key in closure variables, which cost half as much as attributes."""
        current, now = None, b""
        first, add, has_more, output_others = self._first, self._add_first, False, self._output_others

        def set_key(key: Any, grouped_key: bytes) -> None:
            nonlocal current, now
            if grouped_key != now:
                if now:
                    content = first.content
                    if content is not None:
                        first.content = None
                        add(now, None, content)
                    if has_more:
                        output_others(now)
                now = grouped_key
            current = key

        def set_states(value: FirstSlot, output: Add, more: bool) -> None:
            nonlocal first, add, has_more
            first, add, has_more = value, output, more

        return CurrentKey(set_key, set_states, lambda: current, lambda: now)

    def _output_others(self, grouped_key: bytes) -> None:
        """Output all states but the first value."""
        for value, add in self._values:
            content = value.content
            if content is not None:
                value.content = None
                add(grouped_key, None, content)
        for collection, empty, add in self._collections:
            content = collection.content
            if content:
                collection.content = empty()
                add(grouped_key, None, content)
        if self._windowed:
            self._prune_windows(grouped_key)

    def _prune_windows(self, grouped_key: bytes) -> None:
        for table, add in self._windowed:
            for namespace, content in table.items():
                add(grouped_key, namespace, content)
            table.clear()

    def set_current_namespace(self, state: State, namespace: Any) -> None:
        """Set the namespace, which is the whole look-up key."""
        self._window_tables[state][0].now = namespace

    def merge_namespaces(self, state: State, target: Any, sources: Iterator[Any]) -> None:
        """Merge within the dict of this key."""
        _, table, registered = self._window_tables[state]
        merge_tables(table, registered, target, sources)

    def finish(self) -> Iterator[None]:
        """Output the last key."""
        self.set_current_key(None, b"")
        yield


class DroppingSingleKeyStateBackend(SingleKeyStateBackend):
    """State of one key that no output gets: what processing has, where only the rows of the function count."""

    def _current_key(self) -> CurrentKey:
        current, now = None, b""
        first, has_more, drop_others = self._first, False, self._drop_others

        def set_key(key: Any, grouped_key: bytes) -> None:
            nonlocal current, now
            if grouped_key != now:
                first.content = None
                if has_more:
                    drop_others()
                now = grouped_key
            current = key

        def set_states(value: FirstSlot, _: Add, more: bool) -> None:
            nonlocal first, has_more
            first, has_more = value, more

        return CurrentKey(set_key, set_states, lambda: current, lambda: now)

    def _drop_others(self) -> None:
        for value, _ in self._values:
            value.content = None
        for collection, empty, _ in self._collections:
            if collection.content:
                collection.content = empty()
        for table, _ in self._windowed:
            table.clear()
