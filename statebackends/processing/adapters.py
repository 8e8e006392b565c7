"""States that change what goes in and out: values with a time to live, and copies where objects are never shared.

An adapter stands between the function and any backend's state: ``into`` makes what is stored, ``out`` what is seen, or
:data:`GONE`. Time to live stores pairs (value, time of last access), as ``TtlStateFactory`` does.
"""

from __future__ import annotations

import copy
import datetime
from collections.abc import Callable, ItemsView, Iterable, KeysView, Mapping, ValuesView
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Protocol

import pyarrow as pa

from pyspark_savepoint.statebackends.descriptors import StateKind
from pyspark_savepoint.statebackends.processing.backend import KeyedStateBackend, RegisteredState, StateOutput
from pyspark_savepoint.statebackends.processing.row import Row
from pyspark_savepoint.statebackends.processing.state import (
    AggregateFunction,
    AggregatingState,
    AppendingState,
    ListState,
    MapState,
    ReducingState,
    State,
    StateTtlConfig,
    StateVisibility,
    UpdateType,
    ValueState,
)

#: What ``out`` gives where there is a stored value that is not to be seen.
GONE = object()


class Adapter(Protocol):
    """What is stored for a value, and what is seen of it."""

    @property
    def touches(self) -> bool:
        """Whether reading stores the value anew."""

    def into(self, value: Any) -> Any:
        """What is stored."""

    def out(self, stored: Any) -> Any:
        """What is seen, or GONE."""


@dataclass
class TimeToLive:
    """Pairs of value and time of last access, in milliseconds of processing time."""

    config: StateTtlConfig
    now: Callable[[], int]

    @property
    def touches(self) -> bool:
        """Whether reading is an access."""
        return self.config.update_type is UpdateType.ON_READ_AND_WRITE

    def into(self, value: Any) -> Any:
        """Accessed now."""
        return value, self.now()

    def out(self, stored: Any) -> Any:
        """The value, unless it is too old."""
        value, last_access = stored
        if (
            self.config.visibility is StateVisibility.NEVER_RETURN_EXPIRED
            and last_access + self.config.ttl <= self.now()
        ):
            return GONE
        return value

    @staticmethod
    def stored_type(kind: pa.DataType) -> pa.DataType:
        """The type of the pairs."""
        return pa.struct([("value", kind), ("last_access", pa.int64())])


class Copies:
    """Copies, in and out: COPY_PER_OPERATOR."""

    touches = False

    def into(self, value: Any) -> Any:
        """A copy."""
        return copied(value)

    def out(self, stored: Any) -> Any:
        """A copy."""
        return copied(stored)


_IMMUTABLE = frozenset(
    (int, float, str, bytes, bool, type(None), Decimal, datetime.date, datetime.datetime, datetime.timedelta)
)


def copied(value: Any) -> Any:
    """A copy that shares nothing that can change."""
    if type(value) in _IMMUTABLE:
        return value
    if isinstance(value, Row):
        return value._copied(copied)
    if type(value) is list:
        return [copied(each) for each in value]
    if type(value) is dict:
        return {copied(key): copied(each) for key, each in value.items()}
    return copy.deepcopy(value)


class AdaptedValueState(ValueState[Any]):
    """A value."""

    __slots__ = ("_adapter", "_inner")

    def __init__(self, inner: ValueState[Any], adapter: Adapter) -> None:
        self._inner, self._adapter = inner, adapter

    def value(self) -> Any:
        """The value, or None."""
        stored = self._inner.value()
        if stored is None:
            return None
        value = self._adapter.out(stored)
        if value is GONE:
            self._inner.clear()
            return None
        if self._adapter.touches:
            self._inner.update(self._adapter.into(value))
        return value

    def update(self, value: Any) -> None:
        """Set it."""
        self._inner.update(None if value is None else self._adapter.into(value))

    def clear(self) -> None:
        """Forget it."""
        self._inner.clear()


class AdaptedListState(ListState[Any]):
    """A list, element by element."""

    __slots__ = ("_adapter", "_inner")

    def __init__(self, inner: ListState[Any], adapter: Adapter) -> None:
        self._inner, self._adapter = inner, adapter

    def _into(self, values: Iterable[Any]) -> list[Any]:
        return [None if value is None else self._adapter.into(value) for value in values]

    def get(self) -> list[Any]:
        """The elements."""
        seen = [self._adapter.out(stored) for stored in self._inner.get()]
        found = [value for value in seen if value is not GONE]
        if self._adapter.touches or len(found) < len(seen):
            if self._adapter.touches:
                self._inner.update(self._into(found))
            else:
                kept = zip(seen, list(self._inner.get()), strict=True)
                self._inner.update([stored for value, stored in kept if value is not GONE])
        return found

    def add(self, value: Any) -> None:
        """Append one."""
        self._inner.add(None if value is None else self._adapter.into(value))

    def add_all(self, values: Iterable[Any]) -> None:
        """Append some."""
        self._inner.add_all(self._into(values))

    def update(self, values: Iterable[Any]) -> None:
        """Have these."""
        self._inner.update(self._into(values))

    def clear(self) -> None:
        """Forget them."""
        self._inner.clear()


class AdaptedMapState(MapState[Any, Any]):
    """A map, value by value. A value of None is stored as it is where it has no time of its own to keep."""

    __slots__ = ("_adapter", "_inner")

    def __init__(self, inner: MapState[Any, Any], adapter: Adapter) -> None:
        self._inner, self._adapter = inner, adapter

    def get(self, key: Any) -> Any:
        """The value of a user key, or None."""
        stored = self._inner.get(key)
        if stored is None:
            return None
        value = self._adapter.out(stored)
        if value is GONE:
            self._inner.remove(key)
            return None
        if self._adapter.touches:
            self._inner.put(key, self._adapter.into(value))
        return value

    def put(self, key: Any, value: Any) -> None:
        """Set it."""
        self._inner.put(key, self._adapter.into(value))

    def put_all(self, values: Mapping[Any, Any]) -> None:
        """Set some."""
        for key, value in values.items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        """Forget one."""
        self._inner.remove(key)

    def contains(self, key: Any) -> bool:
        """Whether there is one that is seen."""
        return self._inner.contains(key) and key in self._map()

    def _map(self) -> dict[Any, Any]:
        seen = {key: None if stored is None else self._adapter.out(stored) for key, stored in list(self._inner.items())}
        for key, value in seen.items():
            if value is GONE:
                self._inner.remove(key)
            elif self._adapter.touches:
                self._inner.put(key, self._adapter.into(value))
        return {key: value for key, value in seen.items() if value is not GONE}

    def items(self) -> ItemsView[Any, Any]:
        """Keys and values."""
        return self._map().items()

    def keys(self) -> KeysView[Any]:
        """Keys."""
        return self._map().keys()

    def values(self) -> ValuesView[Any]:
        """Values."""
        return self._map().values()

    def is_empty(self) -> bool:
        """Whether there is none that is seen."""
        return not self._map()

    def clear(self) -> None:
        """Forget all."""
        self._inner.clear()


class AdaptedReducingState(ReducingState[Any]):
    """A reduced value; the backend's reduce function is :func:`_reduce`."""

    __slots__ = ("_adapter", "_inner")

    def __init__(self, inner: AppendingState[Any, Any], adapter: Adapter) -> None:
        self._inner, self._adapter = inner, adapter

    def get(self) -> Any:
        """The value, or None."""
        stored = self._inner.get()
        value = None if stored is None else self._adapter.out(stored)
        return None if value is GONE else value

    def add(self, value: Any) -> None:
        """Reduce one into it."""
        self._inner.add(self._adapter.into(value))

    def clear(self) -> None:
        """Forget it."""
        self._inner.clear()


class AdaptedAggregatingState(AggregatingState[Any, Any]):
    """An accumulator; the backend's function is :class:`_Aggregate`, which sees through what is stored."""

    __slots__ = ("_adapter", "_inner")

    def __init__(self, inner: AppendingState[Any, Any], adapter: Adapter) -> None:
        self._inner, self._adapter = inner, adapter

    def get(self) -> Any:
        """The result, or None."""
        return self._inner.get()

    def add(self, value: Any) -> None:
        """Add one."""
        self._inner.add(value)

    def clear(self) -> None:
        """Forget it."""
        self._inner.clear()


@dataclass
class _Aggregate(AggregateFunction[Any, Any, Any]):
    """A user's function over stored accumulators."""

    function: AggregateFunction[Any, Any, Any]
    adapter: Adapter

    def create_accumulator(self) -> Any:
        """A new one, stored."""
        return self.adapter.into(self.function.create_accumulator())

    def add(self, value: Any, accumulator: Any) -> Any:
        """One more; to a new accumulator where the old one is gone."""
        seen = self.adapter.out(accumulator)
        if seen is GONE:
            seen = self.function.create_accumulator()
        return self.adapter.into(self.function.add(value, seen))

    def get_result(self, accumulator: Any) -> Any:
        """The result, or None where the accumulator is gone."""
        seen = self.adapter.out(accumulator)
        return None if seen is GONE else self.function.get_result(seen)

    def merge(self, a: Any, b: Any) -> Any:
        """One of two."""
        seen = [each for each in (self.adapter.out(a), self.adapter.out(b)) if each is not GONE]
        if not seen:
            return self.create_accumulator()
        return self.adapter.into(seen[0] if len(seen) == 1 else self.function.merge(*seen))


def _reduce(function: Callable[[Any, Any], Any], adapter: Adapter) -> Callable[[Any, Any], Any]:
    def reduce(old: Any, new: Any) -> Any:
        seen, added = adapter.out(old), adapter.out(new)
        return new if seen is GONE else old if added is GONE else adapter.into(function(seen, added))

    return reduce


ADAPTED: Mapping[StateKind, Callable[[Any, Adapter], State]] = {
    StateKind.VALUE: AdaptedValueState,
    StateKind.LIST: AdaptedListState,
    StateKind.MAP: AdaptedMapState,
    StateKind.REDUCING: AdaptedReducingState,
    StateKind.AGGREGATING: AdaptedAggregatingState,
}


def create_adapted(
    backend: KeyedStateBackend, state: RegisteredState, output: StateOutput, adapters: list[Adapter]
) -> tuple[State, State]:
    """A backend's state behind some adapters, the first of them nearest to the backend; and the backend's own."""
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
