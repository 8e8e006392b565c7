"""States behind an adapter, whose stored values differ from the visible ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

from pyspark_savepoint.statebackends.model.descriptors import StateKind
from pyspark_savepoint.statebackends.processing.api.state import (
    AggregatingState,
    AppendingState,
    ListState,
    MapState,
    ReducingState,
    State,
    ValueState,
)
from pyspark_savepoint.statebackends.processing.backends.map_views import MapViews

#: Result of ``out`` for a stored value that is not visible.
GONE = object()
#: Passed to an aggregating state instead of an element, to update only its accumulator's time of access.
TOUCH = object()


class Adapter(Protocol):
    """Conversion between visible and stored values."""

    @property
    def expires(self) -> bool:
        """Return whether stored values may expire."""

    @property
    def touches(self) -> bool:
        """Return whether reading stores the value again."""

    def expired(self, stored: Any) -> bool:
        """Return whether a stored value is to be removed when it is read."""

    def into(self, value: Any) -> Any:
        """Return the stored form of a value."""

    def out(self, stored: Any) -> Any:
        """Return the visible form of a stored value, or GONE."""


def _seen(adapter: Adapter, stored: Any, forget: Callable[[], None], keep: Callable[[Any], None]) -> Any:
    """Return the visible form of a stored value, or GONE; the adapter may remove it or store it again."""
    value = adapter.out(stored)
    if adapter.expired(stored):
        forget()
    elif adapter.touches:
        keep(adapter.into(value))
    return value


def _seen_or_none(adapter: Adapter, stored: Any, forget: Callable[[], None], keep: Callable[[Any], None]) -> Any:
    value = None if stored is None else _seen(adapter, stored, forget, keep)
    return None if value is GONE else value


class AdaptedValueState(ValueState[Any]):
    __slots__ = ("_adapter", "_inner")

    def __init__(self, inner: ValueState[Any], adapter: Adapter) -> None:
        self._inner, self._adapter = inner, adapter

    def value(self) -> Any:
        return _seen_or_none(self._adapter, self._inner.value(), self._inner.clear, self._inner.update)

    def update(self, value: Any) -> None:
        self._inner.update(None if value is None else self._adapter.into(value))

    def clear(self) -> None:
        self._inner.clear()


class AdaptedListState(ListState[Any]):
    """List whose elements are adapted."""

    __slots__ = ("_adapter", "_inner")

    def __init__(self, inner: ListState[Any], adapter: Adapter) -> None:
        self._inner, self._adapter = inner, adapter

    def _into(self, values: Iterable[Any]) -> list[Any]:
        return [None if value is None else self._adapter.into(value) for value in values]

    def get(self) -> list[Any]:
        """Return the elements; expired ones are removed if all have expired, or if the others are stored again."""
        stored = self._inner.get()
        seen = [self._adapter.out(each) for each in stored]
        if self._adapter.expires and stored:
            kept = [value for value, each in zip(seen, stored, strict=True) if not self._adapter.expired(each)]
            if not kept:
                self._inner.clear()
            elif self._adapter.touches:
                self._inner.update(self._into(kept))
        return [value for value in seen if value is not GONE]

    def add(self, value: Any) -> None:
        self._inner.add(None if value is None else self._adapter.into(value))

    def add_all(self, values: Iterable[Any]) -> None:
        self._inner.add_all(self._into(values))

    def update(self, values: Iterable[Any]) -> None:
        self._inner.update(self._into(values))

    def clear(self) -> None:
        self._inner.clear()


class AdaptedMapState(MapViews[Any, Any]):
    """Map whose values are adapted; the adapter decides whether a None value is stored with a time."""

    __slots__ = ("_adapter", "_inner")

    def __init__(self, inner: MapState[Any, Any], adapter: Adapter) -> None:
        self._inner, self._adapter = inner, adapter

    def get(self, key: Any) -> Any:
        value = self._look(key, self._inner.get(key))
        return None if value is GONE else value

    def _look(self, key: Any, stored: Any) -> Any:
        """Return the value, or GONE."""
        if stored is None:
            return None
        return _seen(self._adapter, stored, partial(self._inner.remove, key), partial(self._inner.put, key))

    def put(self, key: Any, value: Any) -> None:
        self._inner.put(key, self._adapter.into(value))

    def put_all(self, values: Mapping[Any, Any]) -> None:
        for key, value in values.items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        self._inner.remove(key)

    def contains(self, key: Any) -> bool:
        """Return whether there is a visible value."""
        if not self._adapter.expires:
            return self._inner.contains(key)
        return self._inner.contains(key) and self._look(key, self._inner.get(key)) is not GONE

    def is_empty(self) -> bool:
        """Return whether there is no user key; expired ones count until they are read."""
        return self._inner.is_empty()

    def _map(self) -> dict[Any, Any]:
        seen = {key: self._look(key, stored) for key, stored in list(self._inner.items())}
        return {key: value for key, value in seen.items() if value is not GONE}

    def clear(self) -> None:
        self._inner.clear()


class AdaptedReducingState(ReducingState[Any]):
    """Reduced value; the backend's reduce function is :func:`_reduce`."""

    __slots__ = ("_adapter", "_inner")

    def __init__(self, inner: AppendingState[Any, Any], adapter: Adapter) -> None:
        self._inner, self._adapter = inner, adapter

    def get(self) -> Any:
        return _seen_or_none(self._adapter, self._inner.get(), self._inner.clear, self._replace)

    def _replace(self, stored: Any) -> None:
        self._inner.clear()
        self._inner.add(stored)

    def add(self, value: Any) -> None:
        self._inner.add(self._adapter.into(value))

    def clear(self) -> None:
        self._inner.clear()


class AdaptedAggregatingState(AggregatingState[Any, Any]):
    """Accumulator; the backend's function is :class:`_Aggregate`.

    That function adapts the stored accumulator, and returns it with the result.
    """

    __slots__ = ("_adapter", "_inner")

    def __init__(self, inner: AppendingState[Any, Any], adapter: Adapter) -> None:
        self._inner, self._adapter = inner, adapter

    def get(self) -> Any:
        found = self._inner.get()
        if found is None:
            return None
        stored, result = found
        if self._adapter.expired(stored):
            self._inner.clear()
        elif self._adapter.touches:
            self._inner.add(TOUCH)
        return result

    def add(self, value: Any) -> None:
        self._inner.add(value)

    def clear(self) -> None:
        self._inner.clear()


ADAPTED: Mapping[StateKind, Callable[[Any, Adapter], State]] = {
    StateKind.VALUE: AdaptedValueState,
    StateKind.LIST: AdaptedListState,
    StateKind.MAP: AdaptedMapState,
    StateKind.REDUCING: AdaptedReducingState,
    StateKind.AGGREGATING: AdaptedAggregatingState,
}
