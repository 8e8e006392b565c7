"""State as user functions use it: always the state of the current key.

The methods are Flink's in Python's case: ``value``, ``update``, ``clear`` of a ValueState; ``get``, ``add``,
``add_all``, ``update`` of a ListState; ``get``, ``put``, ``put_all``, ``remove``, ``contains``, ``items``, ``keys``,
``values``, ``is_empty`` of a MapState, which can also be used as a dict; ``get`` and ``add`` of a ReducingState and an
AggregatingState.

A stored value is returned as the same object (backends single_key, heap), or deserialized into a new one (rocksdb:
structs become Rows, which equal the tuple or dict of their fields). Functions that access fields by position or as
``value["field"]`` work with both.

Flink: ``org.apache.flink.api.common.state``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from enum import StrEnum
from typing import Generic, TypeVar

from pyspark_savepoint.statebackends.rows.descriptors import StateKind


class ObjectReuseMode(StrEnum):
    """Whether user functions and state share objects.

    DEFAULT             every record is a new object, which is never copied
    COPY_PER_OPERATOR   every record and every state value is copied before it is handed over
    FULL_REUSE          one row object is refilled for every record. State copies it when it is stored

    Flink: ``ObjectReuseMode`` of FLIP-21.

    Example::

        transformation.set_object_reuse_mode(ObjectReuseMode.COPY_PER_OPERATOR)
    """

    DEFAULT = "DEFAULT"
    COPY_PER_OPERATOR = "COPY_PER_OPERATOR"
    FULL_REUSE = "FULL_REUSE"


T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """State of the current key, and of the current window if it is window state.

    Flink: ``State``.

    Example::

        total = ctx.get_state(ValueStateDescriptor("total", "LONG"))
        total.clear()

    """

    __slots__ = ()

    @abstractmethod
    def clear(self) -> None:
        """Remove the state of the current key."""


class ValueState(State, Generic[T]):
    """State with one value per key.

    Flink: ``ValueState``.

    Example::

        total = ctx.get_state(ValueStateDescriptor("total", "LONG"))
        total.update((total.value() or 0) + 1)
    """

    __slots__ = ()

    @abstractmethod
    def value(self) -> T | None:
        """Return the value of the current key.

        Returns:
            The value, or None if the key has none.

        """

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Set the value of the current key.

        Args:
            value: The new value. None removes it.

        """


class ListState(State, Generic[T]):
    """State with a list of elements per key.

    Flink: ``ListState``.

    Example::

        recent = ctx.get_list_state(ListStateDescriptor("recent_amounts", "DOUBLE"))
        recent.update([*recent.get()[-9:], value.amount])

    """

    __slots__ = ()

    @abstractmethod
    def get(self) -> list[T]:
        """Return the elements in their order.

        Returns:
            The elements. An empty list if the key has none.

        """

    @abstractmethod
    def add(self, value: T) -> None:
        """Append one element.

        Args:
            value: The element. None is refused.

        """

    @abstractmethod
    def add_all(self, values: Iterable[T]) -> None:
        """Append several elements.

        Args:
            values: The elements, in order. None is refused.

        """

    @abstractmethod
    def update(self, values: Iterable[T]) -> None:
        """Replace the whole list.

        Args:
            values: The new elements; if there are none, the list is removed.

        """


class MapState(State, Generic[K, V]):
    """State with a map from user keys to values per key.

    Flink: ``MapState``.

    Example::

        spent = ctx.get_map_state(MapStateDescriptor("spent_by_currency", "STRING", "LONG"))
        spent.put(value.currency, (spent.get(value.currency) or 0) + value.amount)

    """

    __slots__ = ()

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Return the value of a user key.

        Args:
            key: The user key.

        Returns:
            The value, or None if the map does not contain the user key.

        """

    @abstractmethod
    def put(self, key: K, value: V | None) -> None:
        """Set the value of a user key.

        Args:
            key: The user key.
            value: The value. None is stored as a value.

        """

    @abstractmethod
    def put_all(self, values: Mapping[K, V | None]) -> None:
        """Set the values of several user keys.

        Args:
            values: Values by user key.

        """

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove a user key and its value.

        Args:
            key: The user key. An absent one is ignored.

        """

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Return whether the map contains a user key.

        Args:
            key: The user key.

        Returns:
            True also if its value is None.

        """

    @abstractmethod
    def items(self) -> ItemsView[K, V | None]:
        """Return the pairs of user key and value, in the order of the state backend.

        The map may be changed while it is iterated over: the iteration goes over the pairs that there were when it
        began.
        """

    def entries(self) -> ItemsView[K, V | None]:
        """Return the same as :meth:`items`, by Flink's name."""
        return self.items()

    @abstractmethod
    def keys(self) -> KeysView[K]:
        """Return the user keys, in the order of the state backend. The map may be changed while iterating."""

    @abstractmethod
    def values(self) -> ValuesView[V | None]:
        """Return the values, in the order of the state backend. The map may be changed while iterating."""

    def __iter__(self) -> Iterator[K]:
        """Iterate over the user keys, as over a dict and PyFlink's MapState."""
        return iter(self.keys())

    def __contains__(self, key: object) -> bool:
        """Return whether the map contains a user key."""
        return self.contains(key)  # type: ignore[arg-type]  # as of a dict: any object may be asked for

    def __getitem__(self, key: K) -> V | None:
        """Return the value of a user key, or None if the map does not contain it."""
        return self.get(key)

    def __setitem__(self, key: K, value: V | None) -> None:
        """Set the value of a user key."""
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        """Remove a user key and its value. An absent one is ignored."""
        self.remove(key)

    @abstractmethod
    def is_empty(self) -> bool:
        """Return whether the map of the current key has no user key."""


class AppendingState(State, Generic[IN, OUT]):
    """State that combines the elements added to it.

    Flink: ``AppendingState``.

    Example::

        total = ctx.get_reducing_state(ReducingStateDescriptor("sum", "LONG", reduce=operator.add))
        total.add(value.amount)
        total.get()

    """

    __slots__ = ()

    @abstractmethod
    def get(self) -> OUT | None:
        """Return the result of the elements added so far.

        Returns:
            The result, or None if no element was added.

        """

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add one element.

        Args:
            value: The element.

        """


class ReducingState(AppendingState[T, T]):
    """State with one value per key, to which added elements of the same type are reduced.

    Flink: ``ReducingState``.

    Example::

        largest = ctx.get_reducing_state(ReducingStateDescriptor("largest", "LONG", reduce=max))
        largest.add(value.amount)

    """

    __slots__ = ()


class AggregatingState(AppendingState[IN, OUT]):
    """State with one accumulator per key, to which elements are added. Its result may be of another type.

    Flink: ``AggregatingState``.

    Example::

        average = ctx.get_aggregating_state(
            AggregatingStateDescriptor("average", "TUPLE<LONG, LONG>", aggregate=Average())
        )
        average.add(value.amount)
        average.get()  # what Average.get_result returns

    """

    __slots__ = ()


#: The name of the interface of each kind of state.
INTERFACES: Mapping[StateKind, str] = {
    StateKind.VALUE: ValueState.__name__,
    StateKind.LIST: ListState.__name__,
    StateKind.MAP: MapState.__name__,
    StateKind.REDUCING: ReducingState.__name__,
    StateKind.AGGREGATING: AggregatingState.__name__,
}
