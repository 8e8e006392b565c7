"""State descriptors: the name, kind, types and time to live of a state.

Types are written as the table ``states`` shows them (``formats.serializers.notation``): ``LONG``, ``LIST<STRING>``,
``POJO<com.shop.Order>(id LONG, ...)``; or they are serializers of the user's own, :class:`TypeSerializer`. Reader
functions may omit them: the snapshot contains them.

Flink: ``org.apache.flink.api.common.state.StateDescriptor`` and its kinds, ``StateTtlConfig``,
``org.apache.flink.api.common.functions.AggregateFunction``.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.notation.names import Flink
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.statebackends.processing.api.state import State, ValueState
from pyspark_savepoint.statebackends.processing.api.timers import Duration, millis
from pyspark_savepoint.statebackends.rows.descriptors import StateKind

IN = TypeVar("IN")
ACC = TypeVar("ACC")
OUT = TypeVar("OUT")


class AggregateFunction(ABC, Generic[IN, ACC, OUT]):
    """Base class of functions that add elements to an accumulator and derive a result from it.

    Flink: ``org.apache.flink.api.common.functions.AggregateFunction``.

    Example::

        class Average(AggregateFunction):
            def create_accumulator(self):
                return (0, 0)

            def add(self, value, accumulator):
                return (accumulator[0] + value, accumulator[1] + 1)

            def get_result(self, accumulator):
                return accumulator[0] / accumulator[1]

            def merge(self, a, b):
                return (a[0] + b[0], a[1] + b[1])
    """

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """Return a new accumulator without elements."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """Return the accumulator with one more element.

        Args:
            value: The element.
            accumulator: The accumulator so far. It may be changed in place.

        Returns:
            The new accumulator, or the same object.

        """

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """Return the result of an accumulator.

        Args:
            accumulator: The accumulator. It must not be changed.

        Returns:
            The result.

        """

    def merge(self, a: ACC, b: ACC) -> ACC:
        """Merge two accumulators into one. Windows that merge (sessions) need this.

        Args:
            a: The first accumulator. It may be changed in place.
            b: The second accumulator.

        Returns:
            The merged accumulator.

        Raises:
            NotImplementedError: If the subclass does not override this method.

        """
        raise NotImplementedError(f"{type(self).__name__} has no merge(a, b), which merging windows need")


def serializer_of(type: str | TypeSerializer, version: Flink) -> TypeSerializer:  # noqa: A002 (the descriptor's word)
    """Return the serializer of a descriptor's type."""
    return type if isinstance(type, TypeSerializer) else parse_type(type, version)


class UpdateType(Enum):
    """Accesses that renew the time to live of a value: creation and writes, or reads too.

    Flink: ``StateTtlConfig.UpdateType``.

    Example::

        StateTtlConfig(timedelta(days=7), UpdateType.ON_READ_AND_WRITE)
    """

    ON_CREATE_AND_WRITE = "OnCreateAndWrite"
    ON_READ_AND_WRITE = "OnReadAndWrite"


class StateVisibility(Enum):
    """Whether expired values that are not cleaned up yet are returned.

    Flink: ``StateTtlConfig.StateVisibility``.

    Example::

        StateTtlConfig(timedelta(days=7), visibility=StateVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP)
    """

    NEVER_RETURN_EXPIRED = "NeverReturnExpired"
    RETURN_EXPIRED_IF_NOT_CLEANED_UP = "ReturnExpiredIfNotCleanedUp"


@dataclass(frozen=True)
class StateTtlConfig:
    """Time to live of the values of a state, in processing time.

    Flink: ``StateTtlConfig``.

    Args:
        ttl: Milliseconds, or a timedelta of whole milliseconds.
        update_type: Whether reads renew the time to live too. By default only writes do.
        visibility: Whether expired values that are still stored are returned. By default they are not.

    Example::

        ValueStateDescriptor("total", "LONG", ttl=StateTtlConfig(timedelta(days=7)))

    """

    ttl: Duration
    update_type: UpdateType = UpdateType.ON_CREATE_AND_WRITE
    visibility: StateVisibility = StateVisibility.NEVER_RETURN_EXPIRED

    @property
    def ttl_millis(self) -> int:
        """The time to live in milliseconds."""
        return millis(self.ttl)


@dataclass(frozen=True)
class _Descriptor:
    """Name, type (None: as in the snapshot) and time to live of a state."""

    name: str
    type: str | TypeSerializer | None = None
    ttl: StateTtlConfig | None = field(default=None, kw_only=True)

    kind: ClassVar[StateKind] = StateKind.VALUE

    def __post_init__(self) -> None:
        """Raise OptionError if the type or the time to live is of the wrong Python type."""
        self._expect(
            "type", self.type, (str, TypeSerializer), "a type in Flink's notation, such as 'LONG' or 'LIST<STRING>'"
        )
        self._expect("ttl", self.ttl, StateTtlConfig, "StateTtlConfig(timedelta(days=1))")

    def _expect(self, part: str, value: object, kind: Any, expected: str) -> None:
        if value is not None and not isinstance(value, kind):
            raise OptionError(
                f"argument {part!r} of {type(self).__name__} has a wrong type",
                state=self.name,
                expected=expected,
                found=f"{value!r:.200}",
            )

    @property
    def types(self) -> tuple[str | TypeSerializer | None, ...]:
        """The types of one unit of the state: its value; an element of a list; user key and value of a map."""
        return (self.type,)


@dataclass(frozen=True)
class ValueStateDescriptor(_Descriptor):
    """Descriptor of a state with one value per key.

    Flink: ``ValueStateDescriptor``.

    Args:
        name: The state's name, as in the job.
        type: The value's type in Flink's notation. A reader may omit it.
        default: What ``value()`` returns for keys without a value, a copy each time. It is not stored.
        ttl: The time to live of its values. None if they never expire.

    Raises:
        OptionError: If an argument is of the wrong Python type.

    Example::

        ValueStateDescriptor("total", "DOUBLE", default=0.0)

    """

    default: Any = field(default=None, compare=False)


@dataclass(frozen=True)
class ListStateDescriptor(_Descriptor):
    """Descriptor of a state with a list per key, or of the list state of an operator.

    Flink: ``ListStateDescriptor``.

    Args:
        name: The state's name, as in the job.
        type: The type of one element in Flink's notation. A reader may omit it.
        ttl: The time to live of its elements. None if they never expire.

    Raises:
        OptionError: If an argument is of the wrong Python type.

    Example::

        ListStateDescriptor("recent_amounts", "DOUBLE")

    """

    kind: ClassVar[StateKind] = StateKind.LIST


@dataclass(frozen=True)
class MapStateDescriptor(_Descriptor):
    """Descriptor of a state with a map per key, or of a broadcast state.

    Flink: ``MapStateDescriptor``.

    Args:
        name: The state's name, as in the job.
        type: The type of a user key in Flink's notation. A reader may omit it.
        value_type: The type of a value in Flink's notation. A reader may omit it.
        ttl: The time to live of its entries. None if they never expire.

    Raises:
        OptionError: If an argument is of the wrong Python type.

    Example::

        MapStateDescriptor("spent_by_currency", "STRING", "LONG")

    """

    value_type: str | TypeSerializer | None = None
    kind: ClassVar[StateKind] = StateKind.MAP

    def __post_init__(self) -> None:
        """Raise OptionError also if the type of values is not a text."""
        super().__post_init__()
        self._expect("value_type", self.value_type, (str, TypeSerializer), "a type in Flink's notation, such as 'LONG'")

    @property
    def types(self) -> tuple[str | TypeSerializer | None, ...]:
        """The types of user key and value."""
        return (self.type, self.value_type)


@dataclass(frozen=True)
class ReducingStateDescriptor(_Descriptor):
    """Descriptor of a state with one value per key, to which elements are reduced.

    Flink: ``ReducingStateDescriptor``.

    Args:
        name: The state's name, as in the job.
        type: The type of elements and value in Flink's notation. A reader may omit it.
        reduce: A function of two elements that returns one. A reader may omit it.
        ttl: The time to live of its values. None if they never expire.

    Raises:
        OptionError: If an argument is of the wrong Python type.

    Example::

        ReducingStateDescriptor("sum", "LONG", reduce=operator.add)

    """

    # Not compared: a lambda is a new object each time its line runs. Name and type identify the state.
    reduce: Callable[[Any, Any], Any] | None = field(default=None, compare=False)
    kind: ClassVar[StateKind] = StateKind.REDUCING

    def __post_init__(self) -> None:
        """Raise OptionError also if ``reduce`` is not callable."""
        super().__post_init__()
        self._expect("reduce", self.reduce, Callable, "a function of two elements")


@dataclass(frozen=True)
class AggregatingStateDescriptor(_Descriptor):
    """Descriptor of a state with one accumulator per key, to which elements are added.

    Flink: ``AggregatingStateDescriptor``.

    Args:
        name: The state's name, as in the job.
        type: The type of the accumulator in Flink's notation. A reader may omit it.
        aggregate: The aggregate function. A reader without it gets the accumulator.
        ttl: The time to live of its accumulators. None if they never expire.

    Raises:
        OptionError: If an argument is of the wrong Python type.

    Example::

        AggregatingStateDescriptor("average", "TUPLE<LONG, LONG>", aggregate=Average())

    """

    aggregate: AggregateFunction[Any, Any, Any] | None = field(default=None, compare=False)
    kind: ClassVar[StateKind] = StateKind.AGGREGATING

    def __post_init__(self) -> None:
        """Raise OptionError also if ``aggregate`` is not an AggregateFunction."""
        super().__post_init__()
        self._expect(
            "aggregate", self.aggregate, AggregateFunction, "an object of a class derived from AggregateFunction"
        )


Descriptor = (
    ValueStateDescriptor
    | ListStateDescriptor
    | MapStateDescriptor
    | ReducingStateDescriptor
    | AggregatingStateDescriptor
)


class DefaultValueState(ValueState[Any]):
    """Value state that returns a copy of a default for keys without a value."""

    __slots__ = ("_default", "_inner")

    def __init__(self, inner: ValueState[Any], default: Any) -> None:
        self._inner, self._default = inner, default

    def value(self) -> Any:
        """Return the value of the current key, or a copy of the default."""
        stored = self._inner.value()
        return copy.deepcopy(self._default) if stored is None else stored

    def update(self, value: Any) -> None:
        """Set the value of the current key. None removes it."""
        self._inner.update(value)

    def clear(self) -> None:
        """Remove the value of the current key."""
        self._inner.clear()


def with_default(state: State, descriptor: Descriptor | str) -> State:
    """Return a state, with the default of its descriptor if that has one."""
    default = descriptor.default if isinstance(descriptor, ValueStateDescriptor) else None
    return DefaultValueState(state, default) if default is not None and isinstance(state, ValueState) else state
