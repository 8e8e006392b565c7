"""Adapters of state values: time to live, and copies for objects that are never shared.

An adapter is between the function and any backend's state: ``into`` returns the stored form, ``out`` the visible one or
:data:`EXPIRED`; the states behind an adapter have stored values that differ from the visible ones. Time to live stores
pairs (value, time of last access), as ``TtlStateFactory`` does.
"""

from __future__ import annotations

import copy
import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from pyspark_savepoint.statebackends.processing.api.state import (
    AggregatingState,
    AppendingState,
    ListState,
    MapState,
    ReducingState,
    State,
    ValueState,
)
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    AggregateFunction,
    StateTtlConfig,
    StateVisibility,
    UpdateType,
)
from pyspark_savepoint.statebackends.processing.backends.backend import (
    KeyedStateBackend,
    MapViews,
    RegisteredState,
    StateOutput,
)
from pyspark_savepoint.statebackends.processing.runtime.row import Row, copied_row
from pyspark_savepoint.statebackends.rows.descriptors import StateKind

#: Result of ``out`` for a stored value that is not visible.
EXPIRED = object()
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
        """Return the visible form of a stored value, or EXPIRED."""


def _visible(adapter: Adapter, stored: Any, forget: Callable[[], None], keep: Callable[[Any], None]) -> Any:
    """Return the visible form of a stored value, or EXPIRED; the adapter may remove it or store it again."""
    value = adapter.out(stored)
    if adapter.expired(stored):
        forget()
    elif adapter.touches:
        keep(adapter.into(value))
    return value


def _visible_or_none(adapter: Adapter, stored: Any, forget: Callable[[], None], keep: Callable[[Any], None]) -> Any:
    value = None if stored is None else _visible(adapter, stored, forget, keep)
    return None if value is EXPIRED else value


class AdaptedValueState(ValueState[Any]):
    __slots__ = ("_adapter", "_inner")

    def __init__(self, inner: ValueState[Any], adapter: Adapter) -> None:
        self._inner, self._adapter = inner, adapter

    def value(self) -> Any:
        return _visible_or_none(self._adapter, self._inner.value(), self._inner.clear, self._inner.update)

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
        seen = [self._adapter.out(element) for element in stored]
        if self._adapter.expires and stored:
            kept = [value for value, element in zip(seen, stored, strict=True) if not self._adapter.expired(element)]
            if not kept:
                self._inner.clear()
            elif self._adapter.touches:
                self._inner.update(self._into(kept))
        return [value for value in seen if value is not EXPIRED]

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
        return None if value is EXPIRED else value

    def _look(self, key: Any, stored: Any) -> Any:
        """Return the value, or EXPIRED."""
        if stored is None:
            return None
        return _visible(self._adapter, stored, partial(self._inner.remove, key), partial(self._inner.put, key))

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
        return self._inner.contains(key) and self._look(key, self._inner.get(key)) is not EXPIRED

    def is_empty(self) -> bool:
        """Return whether there is no user key; expired ones count until they are read."""
        return self._inner.is_empty()

    def _map(self) -> dict[Any, Any]:
        seen = {key: self._look(key, stored) for key, stored in list(self._inner.items())}
        return {key: value for key, value in seen.items() if value is not EXPIRED}

    def clear(self) -> None:
        self._inner.clear()


class AdaptedReducingState(ReducingState[Any]):
    """Reduced value; the backend's reduce function is :func:`_reduce`."""

    __slots__ = ("_adapter", "_inner")

    def __init__(self, inner: AppendingState[Any, Any], adapter: Adapter) -> None:
        self._inner, self._adapter = inner, adapter

    def get(self) -> Any:
        return _visible_or_none(self._adapter, self._inner.get(), self._inner.clear, self._replace)

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
        entry = self._inner.get()
        if entry is None:
            return None
        stored, result = entry
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


@dataclass
class TimeToLive:
    """Adapter to pairs of value and time of last access, in milliseconds of processing time."""

    config: StateTtlConfig
    now: Callable[[], int]
    expires = True

    def __post_init__(self) -> None:
        self._ttl = self.config.ttl_millis
        self._hides = self.config.visibility is StateVisibility.NEVER_RETURN_EXPIRED
        #: Whether reading is an access.
        self.touches = self.config.update_type is UpdateType.ON_READ_AND_WRITE

    def into(self, value: Any) -> Any:
        return value, self.now()

    def expired(self, stored: Any) -> bool:
        """Return whether the value has expired: it is removed when read, even if it is still visible."""
        return bool(stored[1] + self._ttl <= self.now())

    def out(self, stored: Any) -> Any:
        """Return the value, or EXPIRED if it has expired and is hidden."""
        if self._hides and self.expired(stored):
            return EXPIRED
        return stored[0]

    @staticmethod
    def stored_type(kind: pa.DataType) -> pa.DataType:
        """Return the type of the pairs."""
        return pa.struct([("value", kind), ("last_access", pa.int64())])


class Copies:
    """Adapter that copies values when they are stored and read (COPY_PER_OPERATOR)."""

    expires = touches = False

    def expired(self, stored: Any) -> bool:
        return False

    def into(self, value: Any) -> Any:
        return copied(value)

    def out(self, stored: Any) -> Any:
        return copied(stored)


_IMMUTABLE = frozenset(
    (int, float, str, bytes, bool, type(None), Decimal, datetime.date, datetime.datetime, datetime.timedelta)
)


def copied(value: Any) -> Any:
    """Return a copy that shares no mutable objects."""
    if type(value) in _IMMUTABLE:
        return value
    if isinstance(value, Row):
        return copied_row(value, copied)
    if type(value) is list:
        return [copied(element) for element in value]
    if type(value) is dict:
        return {copied(key): copied(element) for key, element in value.items()}
    return copy.deepcopy(value)


def _stored(adapter: Adapter, value: Any) -> Any:
    """Return the stored form of a function's result; None, which removes the state, stays None."""
    return None if value is None else adapter.into(value)


@dataclass
class _Aggregate(AggregateFunction[Any, Any, Any]):
    """User's aggregate function over stored accumulators."""

    function: AggregateFunction[Any, Any, Any]
    adapter: Adapter

    def create_accumulator(self) -> Any:
        """Return a new accumulator in stored form."""
        return self.adapter.into(self.function.create_accumulator())

    def add(self, value: Any, accumulator: Any) -> Any:
        """Add a value; if the accumulator has expired, to a new one."""
        seen = self.adapter.out(accumulator)
        if value is TOUCH:
            return accumulator if seen is EXPIRED else self.adapter.into(seen)
        if seen is EXPIRED:
            seen = self.function.create_accumulator()
        return _stored(self.adapter, self.function.add(value, seen))

    def get_result(self, accumulator: Any) -> tuple[Any, Any]:
        """Return the stored accumulator and the result, which is None if the accumulator has expired."""
        seen = self.adapter.out(accumulator)
        return accumulator, None if seen is EXPIRED else self.function.get_result(seen)

    def merge(self, a: Any, b: Any) -> Any:
        seen = [accumulator for accumulator in (self.adapter.out(a), self.adapter.out(b)) if accumulator is not EXPIRED]
        if not seen:
            return self.create_accumulator()
        return _stored(self.adapter, seen[0] if len(seen) == 1 else self.function.merge(*seen))


def _reduce(function: Callable[[Any, Any], Any], adapter: Adapter) -> Callable[[Any, Any], Any]:
    def reduce(old: Any, new: Any) -> Any:
        seen, added = adapter.out(old), adapter.out(new)
        if seen is EXPIRED:
            return new
        return _stored(adapter, seen if added is EXPIRED else function(seen, added))

    return reduce


def create_adapted(
    backend: KeyedStateBackend, state: RegisteredState, output: StateOutput, adapters: list[Adapter]
) -> tuple[State, State]:
    """Return a backend's state behind some adapters, the first one nearest to the backend; and the backend's own."""
    registered = state
    for adapter in reversed(adapters):
        if registered.reduce is not None:
            registered = replace(registered, reduce=_reduce(registered.reduce, adapter))
        if registered.aggregate is not None:
            registered = replace(registered, aggregate=_Aggregate(registered.aggregate, adapter))
    for adapter in adapters:
        if isinstance(adapter, TimeToLive):
            *front, last = registered.units
            registered = replace(registered, units=(*front, adapter.stored_type(last)))
    own = seen = backend.create(registered, output)
    for adapter in adapters:
        seen = ADAPTED[state.kind](seen, adapter)
    return seen, own
