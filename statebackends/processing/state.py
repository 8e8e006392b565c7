"""State as user functions see it, and the descriptors that name it.

The methods are Flink's in Python's case: ``value``, ``update``, ``clear`` of a ValueState; ``get``, ``add``,
``add_all``, ``update`` of a ListState; ``get``, ``put``, ``put_all``, ``remove``, ``contains``, ``items``, ``keys``,
``values``, ``is_empty`` of a MapState; ``get`` and ``add`` of a ReducingState and an AggregatingState.

Types are given in the notation in which the table ``states`` shows them (``formats.serializers.notation``): ``LONG``,
``LIST<STRING>``, ``POJO<com.shop.Order>(id LONG, ...)``. A reader may leave them out: its snapshot knows them.

A value that was put comes back as the object that it is (single_key, heap), or made anew (rocksdb: structs are Rows,
which equal the tuple or dict of their fields). Functions that go by position or ``value["field"]`` see no difference.

Twins: ``org.apache.flink.api.common.state``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, ItemsView, Iterable, KeysView, Mapping, ValuesView
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.statebackends.processing.durations import Duration, millis
from pyspark_savepoint.statebackends.writing.descriptors import StateKind

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
ACC = TypeVar("ACC")
OUT = TypeVar("OUT")

# -- functions of states -------------------------------------------------------------------------------------


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


# -- descriptors ---------------------------------------------------------------------------------------------


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
        self._expect("type", str, "Flink's words, such as 'LONG' or 'LIST<STRING>'")
        self._expect("ttl", StateTtlConfig, "StateTtlConfig(timedelta(days=1))")

    def _expect(self, part: str, kind: Any, wanted: str) -> None:
        value = getattr(self, part)
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
        self._expect("value_type", str, "Flink's words, such as 'LONG'")

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
        self._expect("reduce", Callable, "a function of two elements")


@dataclass(frozen=True)
class AggregatingStateDescriptor(_Descriptor):
    """An accumulator per key; ``type`` is that of the accumulator. A reader without function gets the accumulator."""

    aggregate: AggregateFunction[Any, Any, Any] | None = field(default=None, compare=False)
    kind: ClassVar[StateKind] = StateKind.AGGREGATING

    def __post_init__(self) -> None:
        """Of the function too."""
        super().__post_init__()
        self._expect("aggregate", AggregateFunction, "an instance of a class derived from AggregateFunction")


Descriptor = (
    ValueStateDescriptor
    | ListStateDescriptor
    | MapStateDescriptor
    | ReducingStateDescriptor
    | AggregatingStateDescriptor
)

# -- states --------------------------------------------------------------------------------------------------


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
