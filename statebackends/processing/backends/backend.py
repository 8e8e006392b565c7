"""Base of the state backends: keys are processed one after another, and their state goes to an output.

A key has two forms: the object that functions see, and its *grouped key*, two bytes of key group before its serialized
bytes.
Keys are equal if their bytes are equal (FLIP-140); backends compare nothing else.

    grouped key := u16 keyGroup  u8[] key

Backends: :mod:`single_key`, :mod:`heap`, :mod:`rocksdb_backend`. Flink: ``KeyedStateBackend``,
``KeyedStateStore``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, ItemsView, Iterator, KeysView, Sequence, ValuesView
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.statebackends.processing.api.state import K, MapState, State, V
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    AggregateFunction,
    AggregatingStateDescriptor,
    Descriptor,
    ReducingStateDescriptor,
)
from pyspark_savepoint.statebackends.processing.runtime.row import rows_of_tuples
from pyspark_savepoint.statebackends.rows.descriptors import StateKind


class StateOutput(Protocol):
    """Target of one state's entries: the content of a grouped key (and namespace) once its key is done."""

    def add(self, grouped_key: bytes, namespace: Any, content: Any) -> None:
        """Add the content: a value, the elements of a list, or a map as a dict, never empty."""


@dataclass(frozen=True)
class RegisteredState:
    """Registration of a state with a backend.

    ``units`` are the types of one unit (user key and value of a map, element of a list, else the value), with which
    RocksDB encodes it.
    """

    name: str
    kind: StateKind
    units: tuple[pa.DataType, ...]
    namespaced: bool = False
    reduce: Callable[[Any, Any], Any] | None = None
    aggregate: AggregateFunction[Any, Any, Any] | None = None

    @classmethod
    def of(cls, descriptor: Descriptor, units: tuple[pa.DataType, ...], namespaced: bool = False) -> RegisteredState:
        """Build the registration from a user's descriptor."""
        reduce = descriptor.reduce if isinstance(descriptor, ReducingStateDescriptor) else None
        aggregate = descriptor.aggregate if isinstance(descriptor, AggregatingStateDescriptor) else None
        missing = (descriptor.kind is StateKind.REDUCING and reduce is None) or (
            descriptor.kind is StateKind.AGGREGATING and aggregate is None
        )
        if missing:
            what = "reduce=" if descriptor.kind is StateKind.REDUCING else "aggregate="
            raise OptionError(
                f"state {descriptor.name!r} has no function that adds elements",
                state=descriptor.name,
                remedy=f"give its descriptor {what}",
            )
        if pa.types.is_struct(units[-1]):
            row_of = rows_of_tuples(tuple(field.name for field in units[-1]))
            reduce = reducing_to(row_of, reduce) if reduce is not None else None
            aggregate = RowAggregate(aggregate, row_of) if aggregate is not None else None
        return cls(descriptor.name, descriptor.kind, units, namespaced, reduce, aggregate)


def reducing_to(row_of: Callable[[Any], Any], reduce: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a reduce function whose results are rows of the declared type where the user's returns tuples."""
    return lambda a, b: row_of(reduce(a, b))


class RowAggregate(AggregateFunction[Any, Any, Any]):
    """Aggregate function whose accumulators are rows of the declared type where the user's are tuples."""

    def __init__(self, function: AggregateFunction[Any, Any, Any], row_of: Callable[[Any], Any]) -> None:
        self._row_of = row_of
        self._function = function

    def create_accumulator(self) -> Any:
        return self._row_of(self._function.create_accumulator())

    def add(self, value: Any, accumulator: Any) -> Any:
        return self._row_of(self._function.add(value, accumulator))

    def get_result(self, accumulator: Any) -> Any:
        return self._function.get_result(accumulator)

    def merge(self, a: Any, b: Any) -> Any:
        return self._row_of(self._function.merge(a, b))


class KeyedStateBackend(ABC):
    """States of keys, one key at a time."""

    @property
    @abstractmethod
    def key(self) -> Any:
        """Return the key of all states, as functions see it."""

    @property
    @abstractmethod
    def grouped_key(self) -> bytes:
        """Return the grouped key of the current key; no bytes before the first."""

    def expect(self, grouped_keys: Sequence[bytes]) -> None:
        """Get ready for the keys of the next records, which are set in this order."""
        return

    @abstractmethod
    def set_current_key(self, key: Any, grouped_key: bytes) -> None:
        """Set the key of all states."""

    @abstractmethod
    def create(self, state: RegisteredState, output: StateOutput) -> State:
        """Create an empty state; its content goes to the output when the key, or all input, is done."""

    @abstractmethod
    def set_current_namespace(self, state: State, namespace: Any) -> None:
        """Set the namespace of a namespaced state, until the next key."""

    @abstractmethod
    def merge_namespaces(self, state: State, target: Any, sources: Iterator[Any]) -> None:
        """Merge the contents of some namespaces of an appending state into another namespace."""

    @abstractmethod
    def finish(self) -> Iterator[None]:
        """Send all remaining content to the outputs, a little with every step."""

    def close(self) -> None:
        """Release files, if there are any."""
        return


def needs_element(value: Any, state: str) -> None:
    """Raise TypeError for None, which cannot be an element of a list."""
    if value is None:
        raise TypeError(f"None cannot be added to list state {state!r}")


class Items(ItemsView[K, V]):
    """Pairs of a dict; an iteration covers those that exist when it begins."""

    __slots__ = ()
    _mapping: dict[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return iter(list(self._mapping.items()))


class Keys(KeysView[K]):
    """Keys of a dict; an iteration covers those that exist when it begins."""

    __slots__ = ()
    _mapping: dict[K, object]

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._mapping))


class Values(ValuesView[V]):
    """Values of a dict; an iteration covers those that exist when it begins."""

    __slots__ = ()
    _mapping: dict[object, V]

    def __iter__(self) -> Iterator[V]:
        return iter(list(self._mapping.values()))


class MapViews(MapState[K, V]):
    """Map state whose dict is found, or made, for every access."""

    __slots__ = ()

    @abstractmethod
    def _map(self) -> dict[K, V | None]:
        """Return all current user keys and values."""

    def items(self) -> ItemsView[K, V | None]:
        return Items(self._map())

    def keys(self) -> KeysView[K]:
        return Keys(self._map())

    def values(self) -> ValuesView[V | None]:
        return Values(self._map())

    def is_empty(self) -> bool:
        return not self._map()
