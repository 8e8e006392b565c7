"""State backend for sorted input: it holds the state of one key (FLIP-140).

A state object is a thin wrapper of its value, without look-ups or key groups. When the key changes, the contents of the
states go to their outputs, and the states are empty again. Windowed state is a dict of this key's namespaces. Flink:
``BatchExecutionKeyedStateBackend``; states: :mod:`single_key_states`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

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
SetKey = Callable[[Any, bytes], None]


class _NoSlot:
    """Marks that there is no first value."""

    content: Any = None


def _nowhere(place: bytes, namespace: Any, content: Any) -> None:
    """Output of no state."""


FirstSlot = ValueSlot | _NoSlot


class CurrentKey(NamedTuple):
    """Functions that share a key; ``set_states`` tells them the first value, its output, and whether there is more."""

    set_key: SetKey
    set_states: Callable[[FirstSlot, Add, bool], None]
    key: Callable[[], Any]
    place: Callable[[], bytes]


class SingleKeyStateBackend(KeyedStateBackend):
    """State of one key.

    Most functions have one state with one value. The function that sets the key, called for every record, handles that
    state itself, and calls a method only if there are more.
    """

    def __init__(self) -> None:
        self._values: list[tuple[ValueSlot, Add]] = []
        self._collections: list[tuple[CollectionSlot, Callable[[], Any], Add]] = []
        self._windowed: list[tuple[dict[Any, Any], Add]] = []
        self._places: dict[State, tuple[Place, dict[Any, Any], RegisteredState]] = {}
        self._first: FirstSlot = _NoSlot()
        self._add_first: Add = _nowhere
        self._current = self._current_key()

    def create(self, state: RegisteredState, output: StateOutput) -> State:
        """Create a slot; for windowed state a dict of namespaces."""
        created: State
        if state.namespaced:
            place, table = Place(), dict[Any, Any]()
            self._windowed.append((table, output.add))
            created = TABLES[state.kind](place, table, state)
            self._places[created] = (place, table, state)
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
    def place(self) -> bytes:
        return self._current.place()

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

        def set_key(key: Any, place: bytes) -> None:
            nonlocal current, now
            if place != now:
                if now:
                    content = first.content
                    if content is not None:
                        first.content = None
                        add(now, None, content)
                    if has_more:
                        output_others(now)
                now = place
            current = key

        def set_states(value: FirstSlot, output: Add, more: bool) -> None:
            nonlocal first, add, has_more
            first, add, has_more = value, output, more

        return CurrentKey(set_key, set_states, lambda: current, lambda: now)

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

    def _current_key(self) -> CurrentKey:
        current, now = None, b""
        first, has_more, drop_others = self._first, False, self._drop_others

        def set_key(key: Any, place: bytes) -> None:
            nonlocal current, now
            if place != now:
                first.content = None
                if has_more:
                    drop_others()
                now = place
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
