"""Descriptors of state: what names it and says what it is, for whoever writes or reads it.

Types are given in the notation in which the table ``states`` shows them (``formats.serializers.notation``): ``LONG``,
``LIST<STRING>``, ``POJO<com.shop.Order>(id LONG, ...)``. A reader may leave them out: its snapshot knows them.

Flink: ``org.apache.flink.api.common.state.StateDescriptor`` and its kinds, ``StateTtlConfig``,
``org.apache.flink.api.common.functions.AggregateFunction``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.statebackends.model.descriptors import StateKind
from pyspark_savepoint.statebackends.processing.api.durations import Duration, millis

IN = TypeVar("IN")
ACC = TypeVar("ACC")
OUT = TypeVar("OUT")


class AggregateFunction(ABC, Generic[IN, ACC, OUT]):
    """``AggregateFunction``: an accumulator that elements are added to, and what it comes to."""

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """A new accumulator."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """The accumulator with one more element; it may be the same object."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """What the accumulator comes to."""

    def merge(self, a: ACC, b: ACC) -> ACC:
        """One accumulator of two: needed where windows merge."""
        raise NotImplementedError(f"{type(self).__name__} has no merge(a, b), which merging windows need")


class UpdateType(Enum):
    """When the time of last access is set."""

    ON_CREATE_AND_WRITE = "OnCreateAndWrite"
    ON_READ_AND_WRITE = "OnReadAndWrite"


class StateVisibility(Enum):
    """Whether a value that has expired, but is still there, is seen."""

    NEVER_RETURN_EXPIRED = "NeverReturnExpired"
    RETURN_EXPIRED_IF_NOT_CLEANED_UP = "ReturnExpiredIfNotCleanedUp"


@dataclass(frozen=True)
class StateTtlConfig:
    """``StateTtlConfig``: how long values live, a timedelta or milliseconds of processing time."""

    ttl: Duration
    update_type: UpdateType = UpdateType.ON_CREATE_AND_WRITE
    visibility: StateVisibility = StateVisibility.NEVER_RETURN_EXPIRED

    @property
    def ttl_millis(self) -> int:
        """In milliseconds."""
        return millis(self.ttl)


@dataclass(frozen=True)
class _Descriptor:
    """Name, type (None: what the snapshot says) and time to live of a state."""

    name: str
    type: str | None = None
    ttl: StateTtlConfig | None = field(default=None, kw_only=True)

    kind: ClassVar[StateKind] = StateKind.VALUE

    def __post_init__(self) -> None:
        """OptionError for what is of another kind than is expected in its place."""
        self._expect("type", self.type, str, "Flink's words, such as 'LONG' or 'LIST<STRING>'")
        self._expect("ttl", self.ttl, StateTtlConfig, "StateTtlConfig(timedelta(days=1))")

    def _expect(self, part: str, value: object, kind: Any, wanted: str) -> None:
        if value is not None and not isinstance(value, kind):
            raise OptionError(
                f"{part!r} of a {type(self).__name__} cannot be this",
                state=self.name,
                expected=wanted,
                found=f"{value!r:.200}",
            )

    @property
    def types(self) -> tuple[str | None, ...]:
        """The types of one unit of the state: the value; of a list the element; of a map the user key and value."""
        return (self.type,)


@dataclass(frozen=True)
class ValueStateDescriptor(_Descriptor):
    """One value per key: ``ValueStateDescriptor("total", "DOUBLE")``."""


@dataclass(frozen=True)
class ListStateDescriptor(_Descriptor):
    """A list per key; ``type`` is that of an element."""

    kind: ClassVar[StateKind] = StateKind.LIST


@dataclass(frozen=True)
class MapStateDescriptor(_Descriptor):
    """A map per key; ``type`` is that of a user key, ``value_type`` that of a value."""

    value_type: str | None = None
    kind: ClassVar[StateKind] = StateKind.MAP

    def __post_init__(self) -> None:
        """Of values too."""
        super().__post_init__()
        self._expect("value_type", self.value_type, str, "Flink's words, such as 'LONG'")

    @property
    def types(self) -> tuple[str | None, ...]:
        """Of user key and value."""
        return (self.type, self.value_type)


@dataclass(frozen=True)
class ReducingStateDescriptor(_Descriptor):
    """A value per key that elements are reduced into: ``ReducingStateDescriptor("sum", "LONG", reduce=operator.add)``.

    A reader needs no function.
    """

    # A lambda is another one every time its line runs; name and type say whether two descriptors are of one state.
    reduce: Callable[[Any, Any], Any] | None = field(default=None, compare=False)
    kind: ClassVar[StateKind] = StateKind.REDUCING

    def __post_init__(self) -> None:
        """Of the function too."""
        super().__post_init__()
        self._expect("reduce", self.reduce, Callable, "a function of two elements")


@dataclass(frozen=True)
class AggregatingStateDescriptor(_Descriptor):
    """An accumulator per key; ``type`` is that of the accumulator. A reader without function gets the accumulator."""

    aggregate: AggregateFunction[Any, Any, Any] | None = field(default=None, compare=False)
    kind: ClassVar[StateKind] = StateKind.AGGREGATING

    def __post_init__(self) -> None:
        """Of the function too."""
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
