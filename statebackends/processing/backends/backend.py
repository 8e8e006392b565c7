"""What state backends have in common: keys come one after the other, and what they leave behind goes to an output.

A key is known in two forms: the object that functions see, and its *place*, two bytes of key group before its
serialized bytes. Keys are the same if their bytes are (FLIP-140): that is all that a backend compares.

    place := u16 keyGroup  u8[] key

Backends: :mod:`single_key`, :mod:`heap`, :mod:`rocksdb`. Flink: ``KeyedStateBackend``, ``KeyedStateStore``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.statebackends.model.descriptors import StateKind
from pyspark_savepoint.statebackends.processing.api.state import State
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    AggregateFunction,
    AggregatingStateDescriptor,
    Descriptor,
    ReducingStateDescriptor,
)


class StateOutput(Protocol):
    """Where one state's entries go: what a place (and namespace) has once its key is done."""

    def add(self, place: bytes, namespace: Any, content: Any) -> None:
        """The value; of a list its elements, of a map a dict, never empty."""


@dataclass(frozen=True)
class RegisteredState:
    """A state as a backend is given it. ``units`` are the types of what it is made of (user key and value of a map,
    element of a list, else the value), by which RocksDB keeps them.
    """

    name: str
    kind: StateKind
    units: tuple[pa.DataType, ...]
    namespaced: bool = False
    reduce: Callable[[Any, Any], Any] | None = None
    aggregate: AggregateFunction[Any, Any, Any] | None = None

    @classmethod
    def of(cls, descriptor: Descriptor, units: tuple[pa.DataType, ...], namespaced: bool = False) -> RegisteredState:
        """From a user's descriptor."""
        reduce = descriptor.reduce if isinstance(descriptor, ReducingStateDescriptor) else None
        aggregate = descriptor.aggregate if isinstance(descriptor, AggregatingStateDescriptor) else None
        missing = (descriptor.kind is StateKind.REDUCING and reduce is None) or (
            descriptor.kind is StateKind.AGGREGATING and aggregate is None
        )
        if missing:
            what = "reduce=" if descriptor.kind is StateKind.REDUCING else "aggregate="
            raise OptionError(
                f"state {descriptor.name!r} has no function to add elements with",
                state=descriptor.name,
                remedy=f"give its descriptor {what}",
            )
        return cls(descriptor.name, descriptor.kind, units, namespaced, reduce, aggregate)


class KeyedStateBackend(ABC):
    """States of keys, one key at a time."""

    def __init__(self) -> None:
        self.key: Any = None
        self.place: bytes = b""

    @abstractmethod
    def set_current_key(self, key: Any, place: bytes) -> None:
        """All states are those of this key from here on."""

    @abstractmethod
    def create(self, state: RegisteredState, output: StateOutput) -> State:
        """A state, empty; what it has of a key goes to the output when the key (or everything) is done."""

    @abstractmethod
    def set_current_namespace(self, state: State, namespace: Any) -> None:
        """A namespaced state is that of this namespace from here on, until the next key."""

    @abstractmethod
    def merge_namespaces(self, state: State, target: Any, sources: Iterator[Any]) -> None:
        """What an appending state has in some namespaces of the key becomes part of what it has in another."""

    @abstractmethod
    def finish(self) -> Iterator[None]:
        """Everything is done: all that is left goes to the outputs, a little with every step."""

    def close(self) -> None:
        """Let go of files, where there are any."""
        return


def needs_element(value: Any, state: str) -> None:
    """None is no element of a list."""
    if value is None:
        raise TypeError(f"None cannot be added to list state {state!r}")
