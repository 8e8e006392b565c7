"""State backend for sorted input: it holds the state of one key (FLIP-140).

A state object is a thin wrapper of its value, without look-ups or key groups. When the key changes, the contents of the
states go to their outputs, and the states are empty again. Windowed state is a dict of this key's namespaces. Flink:
``BatchExecutionKeyedStateBackend``; states: :mod:`single_key_states`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark_savepoint.statebackends.processing.api.state import State
from pyspark_savepoint.statebackends.processing.backends.backend import KeyedStateBackend, RegisteredState, StateOutput
from pyspark_savepoint.statebackends.processing.backends.single_key_states import (
    COLLECTION_SLOTS,
    VALUE_SLOTS,
    CollectionSlot,
    ValueSlot,
)
from pyspark_savepoint.statebackends.processing.backends.tables import TABLES, Place, merge_tables

Add = Callable[[bytes, Any, Any], None]


class SingleKeyStateBackend(KeyedStateBackend):
    """State of one key.

    Most functions have one state, of one value: :meth:`set_current_key`, which runs for every key, knows it by itself
    and calls another method only if there are more.
    """

    def __init__(self) -> None:
        super().__init__()
        self._first: ValueSlot | _NoSlot = _NoSlot()
        self._add: Add = _nowhere
        self._has_more = False
        self._values: list[tuple[ValueSlot, Add]] = []
        self._collections: list[tuple[CollectionSlot, Callable[[], Any], Add]] = []
        self._windowed: list[tuple[dict[Any, Any], Add]] = []
        self._places: dict[State, tuple[Place, dict[Any, Any], RegisteredState]] = {}

    def create(self, state: RegisteredState, output: StateOutput) -> State:
        """Create a slot; for windowed state a dict of namespaces."""
        if not state.namespaced and state.kind in VALUE_SLOTS:
            value = VALUE_SLOTS[state.kind](state)
            if isinstance(self._first, _NoSlot):
                self._first, self._add = value, output.add
            else:
                self._values.append((value, output.add))
                self._has_more = True
            return value
        self._has_more = True
        if state.namespaced:
            place, table = Place(), dict[Any, Any]()
            self._windowed.append((table, output.add))
            windowed = TABLES[state.kind](place, table, state)
            self._places[windowed] = (place, table, state)
            return windowed
        collection = COLLECTION_SLOTS[state.kind](state)
        self._collections.append((collection, type(collection.content), output.add))
        return collection

    def set_current_key(self, key: Any, place: bytes) -> None:
        """Set the key; if it changes, output the state of the previous key.

        Collections that were handed out stay unchanged, because the next key gets new ones.
        """
        before = self.place
        if place != before:
            if before:
                first = self._first
                content = first.content
                if content is not None:
                    first.content = None
                    self._add(before, None, content)
                if self._has_more:
                    self._output_others(before)
            self.place = place
        self.key = key

    def _output_others(self, place: bytes) -> None:
        """Output all states but the first value."""
        for value, add in self._values:
            content = value.content
            if content is not None:
                value.content = None
                add(place, None, content)
        for collection, empty, add in self._collections:
            content = collection.content
            if content:
                collection.content = empty()
                add(place, None, content)
        if self._windowed:
            self._prune_windows(place)

    def _prune_windows(self, place: bytes) -> None:
        for table, add in self._windowed:
            for namespace, content in table.items():
                add(place, namespace, content)
            table.clear()

    def set_current_namespace(self, state: State, namespace: Any) -> None:
        """Set the namespace, which is the whole look-up key."""
        self._places[state][0].now = namespace

    def merge_namespaces(self, state: State, target: Any, sources: Iterator[Any]) -> None:
        """Merge within the dict of this key."""
        _, table, registered = self._places[state]
        merge_tables(table, registered, target, sources)

    def finish(self) -> Iterator[None]:
        """Output the last key."""
        self.set_current_key(None, b"")
        yield


class DroppingSingleKeyStateBackend(SingleKeyStateBackend):
    """State of one key that no output gets: what processing has, where only the rows of the function count."""

    def set_current_key(self, key: Any, place: bytes) -> None:
        """Set the key; if it changes, drop the state of the previous key."""
        if place != self.place:
            self._first.content = None
            if self._has_more:
                self._drop_others()
            self.place = place
        self.key = key

    def _drop_others(self) -> None:
        for value, _ in self._values:
            value.content = None
        for collection, empty, _ in self._collections:
            if collection.content:
                collection.content = empty()
        for table, _ in self._windowed:
            table.clear()


class _NoSlot:
    """Stands for the first value where there is none."""

    content: Any = None


def _nowhere(place: bytes, namespace: Any, content: Any) -> None:
    """Output of no state."""
