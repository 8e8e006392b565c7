"""User functions that bootstrap, process and read state: Flink's names in Python's case.

A function is pickled to the tasks, opened and closed there. It registers state in ``open``; a copy of a bootstrap
function is also opened once on the driver, to find out its states before the job starts. The values that a function
yields become rows: Rows, tuples, dicts, dataclasses, or plain values if the schema has one column. Flink:
``org.apache.flink.state.api.functions``, ``KeyedProcessFunction``,
``org.apache.flink.streaming.api.functions.windowing``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark_savepoint.formats.errors import OptionError
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
    """Access to keyed state by descriptor; a reader may pass a state's name and leave its types to the snapshot.

    Flink: ``KeyedStateStore``.
    """

    def get_state(self, descriptor: ValueStateDescriptor | str, *, optional: bool = False) -> ValueState[Any]:
        """Return a value state.

        Args:
            descriptor: Its descriptor; in reader functions its name suffices.
            optional: Whether a state that the snapshot lacks is empty for all keys, not an error; only in readers.

        Returns:
            The state, always that of the current key.

        """

    def get_list_state(self, descriptor: ListStateDescriptor | str, *, optional: bool = False) -> ListState[Any]:
        """Return a list state.

        Args:
            descriptor: Its descriptor; in reader functions its name suffices.
            optional: Whether a state that the snapshot lacks is empty for all keys, not an error; only in readers.

        Returns:
            The state, always that of the current key.

        """

    def get_map_state(self, descriptor: MapStateDescriptor | str, *, optional: bool = False) -> MapState[Any, Any]:
        """Return a map state.

        Args:
            descriptor: Its descriptor; in reader functions its name suffices.
            optional: Whether a state that the snapshot lacks is empty for all keys, not an error; only in readers.

        Returns:
            The state, always that of the current key.

        """

    def get_reducing_state(
        self, descriptor: ReducingStateDescriptor | str, *, optional: bool = False
    ) -> ReducingState[Any]:
        """Return a reducing state.

        Args:
            descriptor: Its descriptor; in reader functions its name suffices.
            optional: Whether a state that the snapshot lacks is empty for all keys, not an error; only in readers.

        Returns:
            The state, always that of the current key.

        """

    def get_aggregating_state(
        self, descriptor: AggregatingStateDescriptor | str, *, optional: bool = False
    ) -> AggregatingState[Any, Any]:
        """Return an aggregating state.

        Args:
            descriptor: Its descriptor; in reader functions its name suffices.
            optional: Whether a state that the snapshot lacks is empty for all keys, not an error; only in readers.

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
    """

    def event_time_timers(self) -> list[int]:
        """Return the timestamps of the key's event time timers, in milliseconds, ascending."""

    def processing_time_timers(self) -> list[int]:
        """Return the timestamps of the key's processing time timers, in milliseconds, ascending."""


class WindowReaderContext(Protocol):
    """Argument of :meth:`WindowReaderFunction.read_window`: the current window, its states and timers.

    Flink: ``WindowReaderFunction.Context``.
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
    """

    def timestamp(self) -> int | None:
        """Return the element's timestamp in milliseconds since 1970; None without ``assign_timestamps``."""

    def timer_service(self) -> TimerService:
        """Return the timers of the current key."""

    def get_current_key(self) -> Any:
        """Return the current key."""


class OnTimerContext(KeyedContext, Protocol):
    """Argument of :meth:`KeyedProcessFunction.on_timer`.

    Flink: ``KeyedProcessFunction.OnTimerContext``.
    """

    def time_domain(self) -> str:
        """Return the time domain of the firing timer: ``event`` or ``processing``."""


class OperatorStateStore(Protocol):
    """Registers the list and union list states of an operator.

    Flink: ``OperatorStateStore``.
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
    """

    def get_operator_state_store(self) -> OperatorStateStore:
        """Return the store in which the function registers its states."""


class ElementContext(Protocol):
    """Argument of ``process_element`` of functions without key.

    Flink: ``StateBootstrapFunction.Context``.
    """

    def timestamp(self) -> int | None:
        """Return the element's timestamp in milliseconds since 1970; None without ``assign_timestamps``."""

    def current_processing_time(self) -> int:
        """Return the wall-clock time in milliseconds since 1970."""


class BroadcastContext(ElementContext, Protocol):
    """Argument of :meth:`BroadcastStateBootstrapFunction.process_element`.

    Flink: ``BroadcastStateBootstrapFunction.Context``.
    """

    def get_broadcast_state(self, descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return a broadcast state of the function.

        Args:
            descriptor: One of the function's :meth:`~BroadcastStateBootstrapFunction.state_descriptors`.

        Returns:
            The map state, which can be read and changed.

        """


# -- functions -----------------------------------------------------------------------------------------------


class RichFunction:
    """Base class of user functions: in every task, ``open`` precedes the first call and ``close`` follows the last.

    Flink: ``RichFunction``.
    """

    _runtime_context: RuntimeContext | None = None

    def open(self, ctx: RuntimeContext) -> None:
        """Register states, and create objects that cannot be pickled, such as connections.

        Args:
            ctx: Access to keyed state, and the position of the task.

        """
        return

    def close(self) -> None:
        """Release the resources that ``open`` acquired."""
        return

    def get_runtime_context(self) -> RuntimeContext:
        """Return the context that ``open`` was called with.

        Flink: ``RichFunction#getRuntimeContext``.

        Returns:
            Access to keyed state, and the position of the task.

        Raises:
            OptionError: If the function is not open.

        """
        if self._runtime_context is None:
            raise OptionError(
                "a function has a runtime context only in a task, from open on",
                function=type(self).__name__,
                remedy="call get_runtime_context() in open or later, not in __init__",
            )
        return self._runtime_context


class KeyedStateReaderFunction(RichFunction, ABC):
    """Function that reads all states and timers of one key at a time, for :meth:`Savepoint.read_keyed_state`.

    It is called for each key that has at least one of the states registered in ``open``. Flink:
    ``KeyedStateReaderFunction``.

    Example::

        class Totals(KeyedStateReaderFunction):
            def open(self, ctx):
                self.total = ctx.get_state("total")

            def read_key(self, key, ctx):
                yield key, self.total.value(), ctx.event_time_timers()

        savepoint.read_keyed_state("accounts", Totals(), "key long, total long, timers array<bigint>")
    """

    @abstractmethod
    def read_key(self, key: Any, ctx: ReaderContext) -> Iterable[Any]:
        """Yield the rows of one key.

        Args:
            key: The key, decoded.
            ctx: The key's timers.

        Returns:
            Rows of the declared schema: any number, also none.

        """


class WindowReaderFunction(RichFunction, ABC):
    """Function that reads one key and window at a time, with states and timers, for :meth:`Savepoint.read_window`.

    Flink: ``WindowReaderFunction``.

    Example::

        class Counts(WindowReaderFunction):
            def read_window(self, key, ctx, elements):
                yield key, ctx.window().start, len(elements)

        savepoint.read_window("orders-per-minute", Counts(), "key long, start long, n int")
    """

    @abstractmethod
    def read_window(self, key: Any, ctx: WindowReaderContext, elements: list[Any]) -> Iterable[Any]:
        """Yield the rows of one key and window.

        Flink stores session windows that were merged under the window of their first element; ``ctx.window()`` is that
        one. Their timers and the state ``merging-window-set`` have the merged window.

        Args:
            key: The key, decoded.
            ctx: The window, its states and timers.
            elements: The contents: the one reduced or aggregated value, or all elements of the window.

        Returns:
            Rows of the declared schema: any number, also none.

        """


class KeyedStateBootstrapFunction(RichFunction, ABC):
    """Function that creates the state and timers of a key, which are stored in the savepoint, from its records.

    Flink: ``KeyedStateBootstrapFunction``.

    Example::

        class AccountBootstrapper(KeyedStateBootstrapFunction):
            def open(self, ctx):
                self.total = ctx.get_state(ValueStateDescriptor("total", "LONG"))

            def process_element(self, value, ctx):
                self.total.update((self.total.value() or 0) + value.amount)

        accounts = OperatorTransformation.bootstrap_with(df).key_by("id").transform(AccountBootstrapper())
    """

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedContext) -> None:
        """Process one record of the current key.

        Args:
            value: The record, a Row with the columns of the DataFrame.
            ctx: The current key, its timers, and the record's timestamp.

        """


class KeyedProcessFunction(RichFunction, ABC):
    """Function over bounded keyed input that yields rows; timers fire at the end of their key (FLIP-140).

    Flink: ``KeyedProcessFunction`` in batch execution mode.

    Example::

        class Sum(KeyedProcessFunction):
            def open(self, ctx):
                self.total = ctx.get_state(ValueStateDescriptor("total", "LONG"))

            def process_element(self, value, ctx):
                self.total.update((self.total.value() or 0) + value.amount)
                ctx.timer_service().register_event_time_timer(0)

            def on_timer(self, timestamp, ctx):
                yield ctx.get_current_key(), self.total.value()

        OperatorTransformation.bootstrap_with(df).key_by("id").process(Sum(), "id long, total long")
    """

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Process one record of the current key.

        Args:
            value: The record, a Row with the columns of the DataFrame.
            ctx: The current key, its timers, and the record's timestamp.

        Returns:
            Rows of the declared schema, or None.

        """

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterable[Any] | None:
        """Process a timer of the current key that fires.

        Args:
            timestamp: The timer's timestamp in milliseconds.
            ctx: The current key, its timers, and the time domain of this one.

        Returns:
            Rows of the declared schema, or None.

        """
        return None


class StateBootstrapFunction(RichFunction, ABC):
    """Function that creates list and union list state of an operator from records without key.

    Flink: ``StateBootstrapFunction``.

    Example::

        class Offsets(StateBootstrapFunction):
            def initialize_state(self, ctx):
                store = ctx.get_operator_state_store()
                self.offsets = store.get_list_state(ListStateDescriptor("offsets", "LONG"))

            def process_element(self, value, ctx):
                self.offsets.add(value.offset)
    """

    @abstractmethod
    def initialize_state(self, ctx: FunctionInitializationContext) -> None:
        """Register the states.

        Args:
            ctx: Access to the store in which states are registered.

        """

    @abstractmethod
    def process_element(self, value: Any, ctx: ElementContext) -> None:
        """Process one record.

        Args:
            value: The record, a Row with the columns of the DataFrame.
            ctx: The record's timestamp.

        """

    def snapshot_state(self) -> None:
        """Fill the states from other fields of the function; called once, after the last record."""
        return


class BroadcastStateBootstrapFunction(RichFunction, ABC):
    """Function that creates broadcast state from records without key; all records go to one task.

    Flink: ``BroadcastStateBootstrapFunction``.

    Example::

        class Rates(BroadcastStateBootstrapFunction):
            rates = MapStateDescriptor("rates", "STRING", "DOUBLE")

            def process_element(self, value, ctx):
                ctx.get_broadcast_state(self.rates).put(value.currency, value.rate)
    """

    def state_descriptors(self) -> Sequence[MapStateDescriptor]:
        """Return the descriptors of all broadcast states that the function uses.

        Returns:
            The MapStateDescriptors that are attributes of the class or the object, unless a subclass overrides this
            method.

        """
        attributes: dict[str, Any] = {}
        for part in reversed(type(self).__mro__):
            attributes |= part.__dict__
        attributes |= self.__dict__
        found = (value for value in attributes.values() if isinstance(value, MapStateDescriptor))
        return tuple(dict.fromkeys(found))

    @abstractmethod
    def process_element(self, value: Any, ctx: BroadcastContext) -> None:
        """Process one record.

        Args:
            value: The record, a Row with the columns of the DataFrame.
            ctx: The broadcast states, and the record's timestamp.

        """


class WindowContext(Protocol):
    """Argument of :meth:`ProcessWindowFunction.process`: the firing window and user state.

    Flink: ``ProcessWindowFunction.Context``.
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


class ProcessWindowFunction(RichFunction, ABC):
    """Function that is called when a trigger fires a window while records are bootstrapped.

    The elements that it yields are discarded, but its state is stored in the savepoint. It declares its descriptors,
    since they must be known before the job starts. Flink: ``ProcessWindowFunction`` and ``WindowFunction``.

    Example::

        class CountFirings(ProcessWindowFunction):
            firings = ValueStateDescriptor("firings", "LONG")

            def global_state_descriptors(self):
                return (self.firings,)

            def process(self, key, ctx, elements):
                state = ctx.global_state().get_state(self.firings)
                state.update((state.value() or 0) + 1)
    """

    def window_state_descriptors(self) -> Sequence[Descriptor]:
        """Return the descriptors of all states per key and window; none by default."""
        return ()

    def global_state_descriptors(self) -> Sequence[Descriptor]:
        """Return the descriptors of all states per key; none by default."""
        return ()

    @abstractmethod
    def process(self, key: Any, ctx: WindowContext, elements: list[Any]) -> Iterable[Any] | None:
        """Process a window that fires.

        Args:
            key: The current key.
            ctx: The window and its states.
            elements: The contents of the window: the one reduced or aggregated value, or all elements.

        Returns:
            Elements, which are discarded, or None.

        """
