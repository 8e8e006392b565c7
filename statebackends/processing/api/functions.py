"""The functions that users write: Flink's names, Python's case. Each is pickled to the tasks, opened and closed there.

State is registered in ``open``; a bootstrap function is also opened once on the driver, as a copy, to learn what
states it has before the job starts. What a function yields become rows: Rows, tuples, dicts, dataclasses, or the plain
values of a schema with one column. Flink: ``org.apache.flink.state.api.functions``, ``KeyedProcessFunction``,
``org.apache.flink.streaming.api.functions.windowing``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from pyspark_savepoint.statebackends.processing.api.state import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    AggregatingStateDescriptor,
    Descriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from pyspark_savepoint.statebackends.processing.api.timers import TimerService

# -- contexts ------------------------------------------------------------------------------------------------


class KeyedStateStore(Protocol):
    """``KeyedStateStore``: states by descriptor; a reader may name them and leave the types to the snapshot."""

    def get_state(self, descriptor: ValueStateDescriptor | str) -> ValueState[Any]:
        """A value state."""

    def get_list_state(self, descriptor: ListStateDescriptor | str) -> ListState[Any]:
        """A list state."""

    def get_map_state(self, descriptor: MapStateDescriptor | str) -> MapState[Any, Any]:
        """A map state."""

    def get_reducing_state(self, descriptor: ReducingStateDescriptor | str) -> ReducingState[Any]:
        """A reducing state."""

    def get_aggregating_state(self, descriptor: AggregatingStateDescriptor | str) -> AggregatingState[Any, Any]:
        """An aggregating state."""


class RuntimeContext(KeyedStateStore, Protocol):
    """``RuntimeContext``: what ``open`` is given."""

    @property
    def index_of_this_subtask(self) -> int:
        """The number of the task."""

    @property
    def number_of_parallel_subtasks(self) -> int:
        """How many tasks there are."""


class ReaderContext(Protocol):
    """``KeyedStateReaderFunction.Context``; FLIP-43's ``get_event_time_timers`` and the documentation's
    ``registered_event_time_timers`` are the same.
    """

    def event_time_timers(self) -> list[int]:
        """The timestamps of the key's event time timers, ascending."""

    def processing_time_timers(self) -> list[int]:
        """The timestamps of the key's processing time timers, ascending."""


class WindowReaderContext(Protocol):
    """``WindowReaderFunction.Context``."""

    def window(self) -> Any:
        """The window: TimeWindow or GlobalWindow."""

    def trigger_state(self, descriptor: Descriptor | str) -> Any:
        """The trigger's state of this key and window."""

    def window_state(self) -> KeyedStateStore:
        """State of this key and window."""

    def global_state(self) -> KeyedStateStore:
        """State of this key."""

    def event_time_timers(self) -> list[int]:
        """Of this key and window, ascending."""

    def processing_time_timers(self) -> list[int]:
        """Of this key and window, ascending."""


class KeyedContext(Protocol):
    """``KeyedStateBootstrapFunction.Context`` and ``KeyedProcessFunction.Context``."""

    def timestamp(self) -> int | None:
        """Milliseconds that ``assign_timestamps`` gave the element; None without."""

    def timer_service(self) -> TimerService:
        """Timers of the key."""

    def get_current_key(self) -> Any:
        """The key."""


class OnTimerContext(KeyedContext, Protocol):
    """``KeyedProcessFunction.OnTimerContext``."""

    def time_domain(self) -> str:
        """``event`` or ``processing``."""


class OperatorStateStore(Protocol):
    """``OperatorStateStore``: list and union state of an operator."""

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list that is split over subtasks."""

    def get_union_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list that every subtask gets whole."""


class FunctionInitializationContext(Protocol):
    """``FunctionInitializationContext``."""

    def get_operator_state_store(self) -> OperatorStateStore:
        """Where state is registered."""


class ElementContext(Protocol):
    """The context of functions without key."""

    def timestamp(self) -> int | None:
        """Milliseconds that ``assign_timestamps`` gave the element; None without."""

    def current_processing_time(self) -> int:
        """Milliseconds since 1970."""


class BroadcastContext(ElementContext, Protocol):
    """``BroadcastStateBootstrapFunction.Context``."""

    def get_broadcast_state(self, descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """A broadcast state, one of the function's descriptors."""


# -- functions -----------------------------------------------------------------------------------------------


class RichFunction:
    """``RichFunction``: ``open`` before the first call, ``close`` after the last, in every task."""

    def open(self, ctx: RuntimeContext) -> None:
        """Register states, make what cannot be pickled."""
        return

    def close(self) -> None:
        """Let go."""
        return


class KeyedStateReaderFunction(RichFunction, ABC):
    """``KeyedStateReaderFunction``: all states and timers of one key at a time.

    It is called for every key that has one of the states that ``open`` registers.
    """

    @abstractmethod
    def read_key(self, key: Any, ctx: ReaderContext) -> Iterable[Any]:
        """Yield rows of the declared schema."""


class WindowReaderFunction(RichFunction, ABC):
    """``WindowReaderFunction``: one key and window at a time."""

    @abstractmethod
    def read_window(self, key: Any, ctx: WindowReaderContext, elements: list[Any]) -> Iterable[Any]:
        """Yield rows of the declared schema.

        ``elements`` is the contents: the one value that was reduced or aggregated, or all elements of the window.
        Sessions that merged are found, as Flink keeps them, under the window of their first element; their timers and
        state ``merging-window-set`` have the whole window.
        """


class KeyedStateBootstrapFunction(RichFunction, ABC):
    """``KeyedStateBootstrapFunction``: state of a key from its records. Timers go into the savepoint."""

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedContext) -> None:
        """One record of the current key."""


class KeyedProcessFunction(RichFunction, ABC):
    """``KeyedProcessFunction`` over bounded input: timers fire at the end of their key (FLIP-140)."""

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """One record of the current key; may yield rows."""

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterable[Any] | None:
        """A timer of the current key fires; may yield rows."""
        return None


class StateBootstrapFunction(RichFunction, ABC):
    """``StateBootstrapFunction``: list and union state from records without key."""

    @abstractmethod
    def initialize_state(self, ctx: FunctionInitializationContext) -> None:
        """Register states."""

    @abstractmethod
    def process_element(self, value: Any, ctx: ElementContext) -> None:
        """One record."""

    def snapshot_state(self) -> None:
        """Last call: fill states from what was kept elsewhere."""
        return


class BroadcastStateBootstrapFunction(RichFunction, ABC):
    """``BroadcastStateBootstrapFunction``: broadcast state from all records, in one task."""

    def state_descriptors(self) -> Sequence[MapStateDescriptor]:
        """The states; as it stands those that are attributes of the class or the function."""
        attributes: dict[str, Any] = {}
        for part in reversed(type(self).__mro__):
            attributes |= part.__dict__
        attributes |= self.__dict__
        found = (value for value in attributes.values() if isinstance(value, MapStateDescriptor))
        return tuple(dict.fromkeys(found))

    @abstractmethod
    def process_element(self, value: Any, ctx: BroadcastContext) -> None:
        """One record."""


class WindowContext(Protocol):
    """``ProcessWindowFunction.Context``."""

    def window(self) -> Any:
        """The window."""

    def current_processing_time(self) -> int:
        """Milliseconds since 1970."""

    def current_watermark(self) -> int:
        """MIN, for no time passes."""

    def window_state(self) -> KeyedStateStore:
        """State of the key and window, by the function's descriptors."""

    def global_state(self) -> KeyedStateStore:
        """State of the key, by the function's descriptors."""


class ProcessWindowFunction(RichFunction, ABC):
    """``ProcessWindowFunction`` (and ``WindowFunction``): called where a trigger fires. What it yields goes nowhere,
    but its state is in the savepoint; it names its descriptors, for they must be known before the job starts.
    """

    def window_state_descriptors(self) -> Sequence[Descriptor]:
        """All state of key and window."""
        return ()

    def global_state_descriptors(self) -> Sequence[Descriptor]:
        """All state of a key."""
        return ()

    @abstractmethod
    def process(self, key: Any, ctx: WindowContext, elements: list[Any]) -> Iterable[Any] | None:
        """A window fires."""
