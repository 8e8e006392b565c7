"""Contexts, which user functions get together with a value or a key.

Flink: ``RuntimeContext``, ``KeyedStateStore``, ``OperatorStateStore``, and the ``Context`` classes of the functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


class KeyedStateStore(Protocol):
    """Access to keyed state by descriptor. A reader may pass a state's name and leave its types to the snapshot.

    Flink: ``KeyedStateStore``.

    Example::

        def open(self, ctx):
            self.total = ctx.get_state(ValueStateDescriptor("total", "LONG"))

    """

    def get_state(self, descriptor: ValueStateDescriptor | str, *, optional: bool = False) -> ValueState[Any]:
        """Return a value state.

        Args:
            descriptor: Its descriptor. In reader functions its name suffices.
            optional: Whether a state that the snapshot lacks is empty for all keys, not an error. Only in readers.

        Returns:
            The state, always that of the current key.

        """

    def get_list_state(self, descriptor: ListStateDescriptor | str, *, optional: bool = False) -> ListState[Any]:
        """Return a list state.

        Args:
            descriptor: Its descriptor. In reader functions its name suffices.
            optional: Whether a state that the snapshot lacks is empty for all keys, not an error. Only in readers.

        Returns:
            The state, always that of the current key.

        """

    def get_map_state(self, descriptor: MapStateDescriptor | str, *, optional: bool = False) -> MapState[Any, Any]:
        """Return a map state.

        Args:
            descriptor: Its descriptor. In reader functions its name suffices.
            optional: Whether a state that the snapshot lacks is empty for all keys, not an error. Only in readers.

        Returns:
            The state, always that of the current key.

        """

    def get_reducing_state(
        self, descriptor: ReducingStateDescriptor | str, *, optional: bool = False
    ) -> ReducingState[Any]:
        """Return a reducing state.

        Args:
            descriptor: Its descriptor. In reader functions its name suffices.
            optional: Whether a state that the snapshot lacks is empty for all keys, not an error. Only in readers.

        Returns:
            The state, always that of the current key.

        """

    def get_aggregating_state(
        self, descriptor: AggregatingStateDescriptor | str, *, optional: bool = False
    ) -> AggregatingState[Any, Any]:
        """Return an aggregating state.

        Args:
            descriptor: Its descriptor. In reader functions its name suffices.
            optional: Whether a state that the snapshot lacks is empty for all keys, not an error. Only in readers.

        Returns:
            The state, always that of the current key.

        """


@dataclass(frozen=True)
class TaskInfo:
    """Position of a task.

    Flink: ``TaskInfo``.

    Args:
        index_of_this_subtask: The index of the task, from 0.
        number_of_parallel_subtasks: The number of tasks.

    Example::

        self.get_runtime_context().get_task_info().index_of_this_subtask

    """

    index_of_this_subtask: int
    number_of_parallel_subtasks: int

    def get_index_of_this_subtask(self) -> int:
        """Return the index of the task, from 0."""
        return self.index_of_this_subtask

    def get_number_of_parallel_subtasks(self) -> int:
        """Return the number of tasks."""
        return self.number_of_parallel_subtasks


class HasTaskInfo:
    """Base of contexts that know the position of their task."""

    index_of_this_subtask: int
    number_of_parallel_subtasks: int

    def get_task_info(self) -> TaskInfo:
        """Return the position of the task."""
        return TaskInfo(self.index_of_this_subtask, self.number_of_parallel_subtasks)


class RuntimeContext(KeyedStateStore, Protocol):
    """Argument of :meth:`RichFunction.open`: access to keyed state, and the position of the task.

    Flink: ``RuntimeContext``.

    Example::

        def open(self, ctx):
            self.total = ctx.get_state(ValueStateDescriptor("total", "LONG"))
            self.log = Path(f"log-{ctx.index_of_this_subtask}").open("w")

    """

    @property
    def index_of_this_subtask(self) -> int:
        """The index of the task, from 0."""

    @property
    def number_of_parallel_subtasks(self) -> int:
        """The number of tasks."""

    def get_task_info(self) -> TaskInfo:
        """Return the position of the task by Flink's names."""


class ReaderContext(Protocol):
    """Argument of :meth:`KeyedStateReaderFunction.read_key`: the timers of the current key.

    Flink: ``KeyedStateReaderFunction.Context``, with ``registeredEventTimeTimers`` for :meth:`event_time_timers`.

    Example::

        def read_key(self, key, ctx):
            yield key, self.total.value(), ctx.event_time_timers()

    """

    def event_time_timers(self) -> list[int]:
        """Return the timestamps of the key's event time timers, in milliseconds, ascending."""

    def processing_time_timers(self) -> list[int]:
        """Return the timestamps of the key's processing time timers, in milliseconds, ascending."""


class WindowReaderContext(Protocol):
    """Argument of :meth:`WindowReaderFunction.read_window`: the current window, its states and timers.

    Flink: ``WindowReaderFunction.Context``.

    Example::

        def read_window(self, key, ctx, elements):
            yield key, ctx.window().end, len(elements), ctx.event_time_timers()

    """

    def window(self) -> Any:
        """Return the current window, a :class:`TimeWindow` or :class:`GlobalWindow`."""

    def trigger_state(self, descriptor: Descriptor | str) -> Any:
        """Return a state of the window's trigger, for the current key and window.

        Args:
            descriptor: The state's descriptor or name.

        Returns:
            The state, of the kind of the descriptor.

        """

    def window_state(self) -> KeyedStateStore:
        """Return the user state of the current key and window."""

    def global_state(self) -> KeyedStateStore:
        """Return the user state of the current key, shared by all of its windows."""

    def event_time_timers(self) -> list[int]:
        """Return the event time timers of the current key and window, in milliseconds, ascending."""

    def processing_time_timers(self) -> list[int]:
        """Return the processing time timers of the current key and window, in milliseconds, ascending."""


class KeyedContext(Protocol):
    """Argument of ``process_element`` of keyed functions: the current key, its timers, and the element's timestamp.

    Flink: ``KeyedStateBootstrapFunction.Context`` and ``KeyedProcessFunction.Context``.

    Example::

        def process_element(self, value, ctx):
            self.last.update(ctx.timestamp())
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)

    """

    def timestamp(self) -> int | None:
        """Return the element's timestamp in milliseconds since 1970. None without ``assign_timestamps``."""

    def timer_service(self) -> TimerService:
        """Return the timers of the current key."""

    def get_current_key(self) -> Any:
        """Return the current key."""


class OnTimerContext(KeyedContext, Protocol):
    """Argument of :meth:`KeyedProcessFunction.on_timer`.

    Flink: ``KeyedProcessFunction.OnTimerContext``.

    Example::

        def on_timer(self, timestamp, ctx):
            if ctx.time_domain() == "event":
                yield ctx.get_current_key(), timestamp

    """

    def time_domain(self) -> str:
        """Return the time domain of the firing timer: ``event`` or ``processing``."""


class OperatorStateStore(Protocol):
    """Registers the list and union list states of an operator.

    Flink: ``OperatorStateStore``.

    Example::

        def initialize_state(self, ctx):
            store = ctx.get_operator_state_store()
            self.offsets = store.get_list_state(ListStateDescriptor("offsets", "LONG"))

    """

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list state, whose elements are split over the subtasks when a job restores it.

        Args:
            descriptor: Its name and element type.

        Returns:
            The state.

        """

    def get_union_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a union list state, of which every subtask gets all elements when a job restores it.

        Args:
            descriptor: Its name and element type.

        Returns:
            The state.

        """


class FunctionInitializationContext(Protocol):
    """Argument of :meth:`StateBootstrapFunction.initialize_state`.

    Flink: ``FunctionInitializationContext``.

    Example::

        def initialize_state(self, ctx):
            store = ctx.get_operator_state_store()
            self.seen = store.get_union_list_state(ListStateDescriptor("seen", "STRING"))

    """

    def get_operator_state_store(self) -> OperatorStateStore:
        """Return the store in which the function registers its states."""


class FunctionSnapshotContext(Protocol):
    """Argument of :meth:`StateBootstrapFunction.snapshot_state`.

    Flink: ``FunctionSnapshotContext``.

    Example::

        def snapshot_state(self, ctx):
            self.written_at.update([ctx.get_checkpoint_timestamp()])

    """

    def get_checkpoint_id(self) -> int:
        """Return the id of the checkpoint: 0, as in Flink's State Processor API."""

    def get_checkpoint_timestamp(self) -> int:
        """Return the wall-clock time in milliseconds since 1970."""


class ElementContext(Protocol):
    """Argument of ``process_element`` of functions without key.

    Flink: ``StateBootstrapFunction.Context``.

    Example::

        def process_element(self, value, ctx):
            self.times.add(ctx.timestamp() or ctx.current_processing_time())

    """

    def timestamp(self) -> int | None:
        """Return the element's timestamp in milliseconds since 1970. None without ``assign_timestamps``."""

    def current_processing_time(self) -> int:
        """Return the wall-clock time in milliseconds since 1970."""


class BroadcastContext(ElementContext, Protocol):
    """Argument of :meth:`BroadcastStateBootstrapFunction.process_element`.

    Flink: ``BroadcastStateBootstrapFunction.Context``.

    Example::

        def process_element(self, value, ctx):
            ctx.get_broadcast_state(self.rates).put(value.currency, value.rate)

    """

    def get_broadcast_state(self, descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return a broadcast state of the function.

        Args:
            descriptor: One of the function's :meth:`~BroadcastStateBootstrapFunction.state_descriptors`.

        Returns:
            The map state, which can be read and changed.

        """


class KeyedReadOnlyContext(KeyedContext, Protocol):
    """Argument of :meth:`KeyedBroadcastProcessFunction.process_element`.

    Flink: ``KeyedBroadcastProcessFunction.ReadOnlyContext``.

    Example::

        def process_element(self, value, ctx):
            rate = ctx.get_broadcast_state(RATES).get(value.currency)
            self.total.update(self.total.value() + value.amount * rate)

    """

    def get_broadcast_state(self, descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return a broadcast state, which can only be read here.

        Args:
            descriptor: One of the descriptors that ``broadcast`` was called with.

        Returns:
            The map state. Changing it raises TypeError.

        """

    def current_processing_time(self) -> int:
        """Return the wall-clock time in milliseconds since 1970."""

    def current_watermark(self) -> int:
        """Return the watermark: -2^63 while a key is processed, 2^63 - 1 while its timers fire."""


class KeyedBroadcastOnTimerContext(KeyedReadOnlyContext, OnTimerContext, Protocol):
    """Argument of :meth:`KeyedBroadcastProcessFunction.on_timer`.

    Flink: ``KeyedBroadcastProcessFunction.OnTimerContext``.

    Example::

        def on_timer(self, timestamp, ctx):
            yield ctx.get_current_key(), len(ctx.get_broadcast_state(RATES).keys())

    """


class KeyedBroadcastContext(BroadcastContext, Protocol):
    """Argument of :meth:`KeyedBroadcastProcessFunction.process_broadcast_element`.

    Flink: ``KeyedBroadcastProcessFunction.Context``.

    Example::

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(RATES).put(value.currency, value.rate)

    """

    def current_watermark(self) -> int:
        """Return the watermark, -2^63: broadcast elements come before all keys."""

    def apply_to_keyed_state(self, descriptor: Descriptor, function: Callable[[Any, Any], None]) -> None:
        """Raise OptionError: broadcast elements come before all keys, so no key has state yet.

        Flink's batch execution refuses it too.

        Args:
            descriptor: The descriptor of a keyed state.
            function: A function of a key and its state.

        Raises:
            OptionError: Always.

        """


class WindowContext(Protocol):
    """Argument of :meth:`ProcessWindowFunction.process`: the firing window and user state.

    Flink: ``ProcessWindowFunction.Context``.

    Example::

        def process(self, key, ctx, elements):
            firings = ctx.global_state().get_state(self.firings)
            firings.update((firings.value() or 0) + 1)

    """

    def window(self) -> Any:
        """Return the firing window, a :class:`TimeWindow` or :class:`GlobalWindow`."""

    def current_processing_time(self) -> int:
        """Return the wall-clock time in milliseconds since 1970."""

    def current_watermark(self) -> int:
        """Return the watermark, always -2^63: event time does not advance during a bootstrap."""

    def window_state(self) -> KeyedStateStore:
        """Return the state of the current key and window, for descriptors of ``window_state_descriptors``."""

    def global_state(self) -> KeyedStateStore:
        """Return the state of the current key, for descriptors of ``global_state_descriptors``."""
