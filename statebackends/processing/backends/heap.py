"""The state backend of unsorted input that fits into memory: a hash map per state, keys (and namespaces) to values.

Flink: ``HeapKeyedStateBackend``, ``StateTable``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark_savepoint.statebackends.processing.api.state import State
from pyspark_savepoint.statebackends.processing.backends.backend import KeyedStateBackend, RegisteredState, StateOutput
from pyspark_savepoint.statebackends.processing.backends.tables import TABLES, Place, merge_tables


class HeapStateBackend(KeyedStateBackend):
    """The states of all keys, in memory."""

    def __init__(self) -> None:
        super().__init__()
        self._here = Place()
        self._tables: list[tuple[dict[Any, Any], bool, StateOutput]] = []
        self._windowed: dict[State, tuple[Place, dict[Any, Any], RegisteredState]] = {}

    def create(self, state: RegisteredState, output: StateOutput) -> State:
        """A table; of windowed state its look-up is key and namespace."""
        place = Place() if state.namespaced else self._here
        table: dict[Any, Any] = {}
        self._tables.append((table, state.namespaced, output))
        created = TABLES[state.kind](place, table, state)
        if state.namespaced:
            self._windowed[created] = (place, table, state)
        return created

    def set_current_key(self, key: Any, place: bytes) -> None:
        """Look-ups are of this key."""
        self.key = key
        self.place = self._here.now = place

    def set_current_namespace(self, state: State, namespace: Any) -> None:
        """Look-ups of a state are of the current key and this namespace."""
        self._windowed[state][0].now = (self.place, namespace)

    def merge_namespaces(self, state: State, target: Any, sources: Iterator[Any]) -> None:
        """Of the current key."""
        _, table, registered = self._windowed[state]
        merge_tables(table, registered, (self.place, target), ((self.place, source) for source in sources))

    def finish(self) -> Iterator[None]:
        """All keys, in the order in which they came."""
        for table, namespaced, output in self._tables:
            for where, content in table.items():
                if namespaced:
                    place, namespace = where
                    output.add(place, namespace, content)
                else:
                    output.add(where, None, content)
                yield
            table.clear()
