"""State backend for unsorted input that fits into memory: one hash map per state, from keys (and namespaces) to values.

Flink: ``HeapKeyedStateBackend``, ``StateTable``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark_savepoint.statebackends.processing.api.state import State
from pyspark_savepoint.statebackends.processing.backends.backend import KeyedStateBackend, RegisteredState, StateOutput
from pyspark_savepoint.statebackends.processing.backends.tables import TABLES, Place, merge_tables


class HeapStateBackend(KeyedStateBackend):
    """States of all keys, in memory."""

    key: Any = None
    place: bytes = b""

    def __init__(self) -> None:
        self._here = Place()
        self._tables: list[tuple[dict[Any, Any], bool, StateOutput]] = []
        self._windowed: dict[State, tuple[Place, dict[Any, Any], RegisteredState]] = {}

    def create(self, state: RegisteredState, output: StateOutput) -> State:
        """Create a table; windowed state is looked up by key and namespace."""
        place = Place() if state.namespaced else self._here
        table: dict[Any, Any] = {}
        self._tables.append((table, state.namespaced, output))
        created = TABLES[state.kind](place, table, state)
        if state.namespaced:
            self._windowed[created] = (place, table, state)
        return created

    def set_current_key(self, key: Any, place: bytes) -> None:
        self.key = key
        self.place = self._here.now = place

    def set_current_namespace(self, state: State, namespace: Any) -> None:
        self._windowed[state][0].now = (self.place, namespace)

    def merge_namespaces(self, state: State, target: Any, sources: Iterator[Any]) -> None:
        _, table, registered = self._windowed[state]
        merge_tables(table, registered, (self.place, target), ((self.place, source) for source in sources))

    def finish(self) -> Iterator[None]:
        """Output all keys, in the order of their arrival."""
        for table, namespaced, output in self._tables:
            for where, content in table.items():
                if namespaced:
                    place, namespace = where
                    output.add(place, namespace, content)
                else:
                    output.add(where, None, content)
                yield
            table.clear()
