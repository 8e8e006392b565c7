"""States of one key: thin wrappers of their ``content``, which the backend takes when the key is done.

Flink: ``BatchExecutionKeyValueState`` and the classes for other kinds of state.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, KeysView, Mapping, ValuesView
from typing import Any

from pyspark_savepoint.statebackends.model.descriptors import StateKind
from pyspark_savepoint.statebackends.processing.api.state import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from pyspark_savepoint.statebackends.processing.api.state_descriptors import AggregateFunction
from pyspark_savepoint.statebackends.processing.backends.backend import RegisteredState, needs_element
from pyspark_savepoint.statebackends.processing.backends.map_views import Items, Keys, Values


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
