"""State backend for unsorted input that fits into memory: one hash map per state, from keys (and namespaces) to values.

Its states look up what is :class:`Current` in a dict: the key, the namespace, or both. The windows of a single key,
and the tables in RocksDB, use them too. Flink: ``HeapKeyedStateBackend``, ``StateTable``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pyspark_savepoint.statebackends.processing.api.state import (
    AggregatingState,
    ListState,
    ReducingState,
    State,
    ValueState,
)
from pyspark_savepoint.statebackends.processing.api.state_descriptors import AggregateFunction
from pyspark_savepoint.statebackends.processing.backends.backend import (
    KeyedStateBackend,
    MapViews,
    RegisteredState,
    StateOutput,
    needs_element,
)
from pyspark_savepoint.statebackends.rows.descriptors import StateKind

Table = dict[Any, Any]


class Current:
    """Current look-up key of a state."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now: Any = None


class TableValueState(ValueState[Any]):
    """Value per grouped key."""

    __slots__ = ("_current", "_table")

    def __init__(self, current: Current, table: Table, state: RegisteredState) -> None:
        self._current, self._table = current, table

    def value(self) -> Any:
        return self._table.get(self._current.now)

    def update(self, value: Any) -> None:
        if value is None:
            self._table.pop(self._current.now, None)
        else:
            self._table[self._current.now] = value

    def clear(self) -> None:
        self._table.pop(self._current.now, None)


class TableListState(ListState[Any]):
    """List per grouped key."""

    __slots__ = ("_current", "_name", "_table")

    def __init__(self, current: Current, table: Table, state: RegisteredState) -> None:
        self._current, self._table, self._name = current, table, state.name

    def get(self) -> list[Any]:
        elements: list[Any] = self._table.get(self._current.now) or []
        return elements

    def add(self, value: Any) -> None:
        if value is None:
            needs_element(value, self._name)
        elements = self._table.get(self._current.now)
        if elements is None:
            self._table[self._current.now] = [value]
        else:
            elements.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        added = list(values)
        if None in added:
            needs_element(None, self._name)
        if added:
            self._table.setdefault(self._current.now, []).extend(added)

    def update(self, values: Iterable[Any]) -> None:
        elements = list(values)
        if None in elements:
            needs_element(None, self._name)
        if elements:
            self._table[self._current.now] = elements
        else:
            self.clear()

    def clear(self) -> None:
        self._table.pop(self._current.now, None)


_NOTHING: Mapping[Any, Any] = {}


class TableMapState(MapViews[Any, Any]):
    """Map per grouped key."""

    __slots__ = ("_current", "_table")

    def __init__(self, current: Current, table: Table, state: RegisteredState) -> None:
        self._current, self._table = current, table

    def _map(self) -> dict[Any, Any]:
        entries: dict[Any, Any] = self._table.get(self._current.now) or {}
        return entries

    def get(self, key: Any) -> Any:
        return self._table.get(self._current.now, _NOTHING).get(key)

    def put(self, key: Any, value: Any) -> None:
        entries = self._table.get(self._current.now)
        if entries is None:
            self._table[self._current.now] = {key: value}
        else:
            entries[key] = value

    def put_all(self, values: Mapping[Any, Any]) -> None:
        if values:
            self._table.setdefault(self._current.now, {}).update(values)

    def remove(self, key: Any) -> None:
        entries = self._map()
        entries.pop(key, None)
        if not entries:
            self.clear()

    def contains(self, key: Any) -> bool:
        return key in self._map()

    def clear(self) -> None:
        self._table.pop(self._current.now, None)


class TableReducingState(ReducingState[Any]):
    """Value per grouped key into which elements are reduced."""

    __slots__ = ("_current", "_reduce", "_table")

    def __init__(self, current: Current, table: Table, state: RegisteredState) -> None:
        assert state.reduce is not None
        self._current, self._table = current, table
        self._reduce: Callable[[Any, Any], Any] = state.reduce

    def get(self) -> Any:
        return self._table.get(self._current.now)

    def add(self, value: Any) -> None:
        now = self._current.now
        old = self._table.get(now)
        new = value if old is None else self._reduce(old, value)
        if new is None:
            self._table.pop(now, None)
        else:
            self._table[now] = new

    def clear(self) -> None:
        self._table.pop(self._current.now, None)


class TableAggregatingState(AggregatingState[Any, Any]):
    """Accumulator per grouped key."""

    __slots__ = ("_aggregate", "_current", "_table")

    def __init__(self, current: Current, table: Table, state: RegisteredState) -> None:
        assert state.aggregate is not None
        self._current, self._table = current, table
        self._aggregate: AggregateFunction[Any, Any, Any] = state.aggregate

    def get(self) -> Any:
        accumulator = self._table.get(self._current.now)
        return None if accumulator is None else self._aggregate.get_result(accumulator)

    def add(self, value: Any) -> None:
        now = self._current.now
        accumulator = self._table.get(now)
        if accumulator is None:
            accumulator = self._aggregate.create_accumulator()
        new = self._aggregate.add(value, accumulator)
        if new is None:
            self._table.pop(now, None)
        else:
            self._table[now] = new

    def clear(self) -> None:
        self._table.pop(self._current.now, None)


TABLES: Mapping[StateKind, Callable[[Current, Table, RegisteredState], State]] = {
    StateKind.VALUE: TableValueState,
    StateKind.LIST: TableListState,
    StateKind.MAP: TableMapState,
    StateKind.REDUCING: TableReducingState,
    StateKind.AGGREGATING: TableAggregatingState,
}


def merged(state: RegisteredState, contents: list[Any]) -> Any:
    """Return the merged contents of some namespaces of an appending state; None without contents."""
    total = None
    for content in contents:
        total = content if total is None else _merge(state, total, content)
    return total


def _merge(state: RegisteredState, a: Any, b: Any) -> Any:
    if state.kind is StateKind.LIST:
        return a + b
    if state.reduce is not None:
        return state.reduce(a, b)
    assert state.aggregate is not None, "only appending states merge"
    return state.aggregate.merge(a, b)


def merge_tables(table: Table, state: RegisteredState, target: Any, sources: Iterator[Any]) -> None:
    """Merge the sources into the target. Flink: ``AbstractHeapMergingState#mergeNamespaces``."""
    added = merged(state, [table.pop(source) for source in sources if source in table])
    if added is not None:
        table[target] = merged(state, [table[target], added] if target in table else [added])


class HeapStateBackend(KeyedStateBackend):
    """States of all keys, in memory."""

    key: Any = None
    grouped_key: bytes = b""

    def __init__(self) -> None:
        self._here = Current()
        self._tables: list[tuple[dict[Any, Any], bool, StateOutput]] = []
        self._windowed: dict[State, tuple[Current, dict[Any, Any], RegisteredState]] = {}

    def create(self, state: RegisteredState, output: StateOutput) -> State:
        """Create a table; windowed state is looked up by key and namespace."""
        current = Current() if state.namespaced else self._here
        table: dict[Any, Any] = {}
        self._tables.append((table, state.namespaced, output))
        created = TABLES[state.kind](current, table, state)
        if state.namespaced:
            self._windowed[created] = (current, table, state)
        return created

    def set_current_key(self, key: Any, grouped_key: bytes) -> None:
        self.key = key
        self.grouped_key = self._here.now = grouped_key

    def set_current_namespace(self, state: State, namespace: Any) -> None:
        self._windowed[state][0].now = (self.grouped_key, namespace)

    def merge_namespaces(self, state: State, target: Any, sources: Iterator[Any]) -> None:
        _, table, registered = self._windowed[state]
        merge_tables(table, registered, (self.grouped_key, target), ((self.grouped_key, source) for source in sources))

    def finish(self) -> Iterator[None]:
        """Output all keys, in the order of their arrival."""
        for table, namespaced, output in self._tables:
            for where, content in table.items():
                if namespaced:
                    grouped_key, namespace = where
                    output.add(grouped_key, namespace, content)
                else:
                    output.add(where, None, content)
                yield
            table.clear()
