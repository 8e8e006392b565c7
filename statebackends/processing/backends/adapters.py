"""States that change what goes in and out: values with a time to live, and copies where objects are never shared.

An adapter stands between the function and any backend's state: ``into`` makes what is stored, ``out`` what is seen, or
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
    """Pairs of value and time of last access, in milliseconds of processing time."""

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
        """Whether the value is too old: who looks at it removes it, even where it is still to be seen."""
        return bool(stored[1] + self._ttl <= self.now())

    def out(self, stored: Any) -> Any:
        """The value, unless it is too old to be seen."""
        if self._hides and self.expired(stored):
            return GONE
        return stored[0]

    @staticmethod
    def stored_type(kind: pa.DataType) -> pa.DataType:
        """The type of the pairs."""
        return pa.struct([("value", kind), ("last_access", pa.int64())])


class Copies:
    """Copies, in and out: COPY_PER_OPERATOR."""

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


def _stored(adapter: Adapter, value: Any) -> Any:
    """What is stored for what a function made; None, which says that there is nothing any more, stays None."""
    return None if value is None else adapter.into(value)


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
        if value is TOUCH:
            return accumulator if seen is GONE else self.adapter.into(seen)
        if seen is GONE:
            seen = self.function.create_accumulator()
        return _stored(self.adapter, self.function.add(value, seen))

    def get_result(self, accumulator: Any) -> tuple[Any, Any]:
        """What is stored, and the result, or None where the accumulator is gone."""
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
