"""State as user functions see it: that of the current key.

The methods are Flink's in Python's case: ``value``, ``update``, ``clear`` of a ValueState; ``get``, ``add``,
``add_all``, ``update`` of a ListState; ``get``, ``put``, ``put_all``, ``remove``, ``contains``, ``items``, ``keys``,
``values``, ``is_empty`` of a MapState; ``get`` and ``add`` of a ReducingState and an AggregatingState.

A value that was put comes back as the object that it is (single_key, heap), or made anew (rocksdb: structs are Rows,
which equal the tuple or dict of their fields). Functions that go by position or ``value["field"]`` see no difference.

Flink: ``org.apache.flink.api.common.state``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import ItemsView, Iterable, KeysView, Mapping, ValuesView
from typing import Generic, TypeVar

from pyspark_savepoint.statebackends.model.descriptors import StateKind

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """State of the current key (and namespace)."""

    __slots__ = ()

    @abstractmethod
    def clear(self) -> None:
        """Forget what the current key has."""


class ValueState(State, Generic[T]):
    """One value."""

    __slots__ = ()

    @abstractmethod
    def value(self) -> T | None:
        """The value, or None."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Set it; None clears."""


class ListState(State, Generic[T]):
    """A list of elements."""

    __slots__ = ()

    @abstractmethod
    def get(self) -> list[T]:
        """The elements; empty where there is none."""

    @abstractmethod
    def add(self, value: T) -> None:
        """Append one; None is refused."""

    @abstractmethod
    def add_all(self, values: Iterable[T]) -> None:
        """Append some."""

    @abstractmethod
    def update(self, values: Iterable[T]) -> None:
        """Have these elements and no others; without elements there is no list."""


class MapState(State, Generic[K, V]):
    """User keys and their values."""

    __slots__ = ()

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value of a user key, or None."""

    @abstractmethod
    def put(self, key: K, value: V | None) -> None:
        """Set the value of a user key; it may be None, which is a value."""

    @abstractmethod
    def put_all(self, values: Mapping[K, V | None]) -> None:
        """Set some."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Forget a user key."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether there is a user key."""

    @abstractmethod
    def items(self) -> ItemsView[K, V | None]:
        """User keys with their values (``entries`` in Flink), in an order that is the backend's own.

        While the map changes, go over ``list(state.items())``.
        """

    @abstractmethod
    def keys(self) -> KeysView[K]:
        """User keys."""

    @abstractmethod
    def values(self) -> ValuesView[V | None]:
        """Values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there is no user key."""


class AppendingState(State, Generic[IN, OUT]):
    """State that elements are folded into."""

    __slots__ = ()

    @abstractmethod
    def get(self) -> OUT | None:
        """What the elements come to, or None without elements."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Fold one in."""


class ReducingState(AppendingState[T, T]):
    """State that elements of its own type are reduced into."""

    __slots__ = ()


class AggregatingState(AppendingState[IN, OUT]):
    """State with an accumulator."""

    __slots__ = ()


#: What a state of a kind is called.
INTERFACES: Mapping[StateKind, str] = {
    StateKind.VALUE: ValueState.__name__,
    StateKind.LIST: ListState.__name__,
    StateKind.MAP: MapState.__name__,
    StateKind.REDUCING: ReducingState.__name__,
    StateKind.AGGREGATING: AggregatingState.__name__,
}
