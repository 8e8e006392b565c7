"""Adapters of state values: time to live, and copies for objects that are never shared.

An adapter is between the function and any backend's state: ``into`` returns the stored form, ``out`` the visible one or
:data:`GONE`. Time to live stores pairs (value, time of last access), as ``TtlStateFactory`` does.
"""

from __future__ import annotations

import copy
import datetime
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pyspark_savepoint.statebackends.processing.api.state import State
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    AggregateFunction,
    StateTtlConfig,
    StateVisibility,
    UpdateType,
)
from pyspark_savepoint.statebackends.processing.backends.adapted_states import ADAPTED, GONE, TOUCH, Adapter
from pyspark_savepoint.statebackends.processing.backends.backend import KeyedStateBackend, RegisteredState, StateOutput
from pyspark_savepoint.statebackends.processing.runtime.row import Row


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
        """Return the value, or GONE if it has expired and is hidden."""
        if self._hides and self.expired(stored):
            return GONE
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
        return value._copied(copied)
    if type(value) is list:
        return [copied(each) for each in value]
    if type(value) is dict:
        return {copied(key): copied(each) for key, each in value.items()}
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
            return accumulator if seen is GONE else self.adapter.into(seen)
        if seen is GONE:
            seen = self.function.create_accumulator()
        return _stored(self.adapter, self.function.add(value, seen))

    def get_result(self, accumulator: Any) -> tuple[Any, Any]:
        """Return the stored accumulator and the result, which is None if the accumulator has expired."""
        seen = self.adapter.out(accumulator)
        return accumulator, None if seen is GONE else self.function.get_result(seen)

    def merge(self, a: Any, b: Any) -> Any:
        seen = [each for each in (self.adapter.out(a), self.adapter.out(b)) if each is not GONE]
        if not seen:
            return self.create_accumulator()
        return _stored(self.adapter, seen[0] if len(seen) == 1 else self.function.merge(*seen))


def _reduce(function: Callable[[Any, Any], Any], adapter: Adapter) -> Callable[[Any, Any], Any]:
    def reduce(old: Any, new: Any) -> Any:
        seen, added = adapter.out(old), adapter.out(new)
        if seen is GONE:
            return new
        return _stored(adapter, seen if added is GONE else function(seen, added))

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
