"""User functions that bootstrap, process and read state: Flink's names in Python's case.

A function is pickled to the tasks, opened and closed there. It registers state in ``open``. A copy of a bootstrap
function is also opened once on the driver, to find out its states before the job starts. The values that a function
yields become rows: Rows, tuples, dicts, dataclasses, or plain values if the schema has one column. Flink:
``org.apache.flink.state.api.functions``, ``KeyedProcessFunction``,
``org.apache.flink.streaming.api.functions.windowing``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.statebackends.processing.api.contexts import (
    BroadcastContext,
    ElementContext,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedBroadcastContext,
    KeyedBroadcastOnTimerContext,
    KeyedContext,
    KeyedReadOnlyContext,
    OnTimerContext,
    ReaderContext,
    RuntimeContext,
    WindowContext,
    WindowReaderContext,
)
from pyspark_savepoint.statebackends.processing.api.state_descriptors import Descriptor, MapStateDescriptor


class RichFunction:
    """Base class of user functions: in every task, ``open`` precedes the first call and ``close`` follows the last.

    Flink: ``RichFunction``.

    Example::

        class Totals(KeyedStateBootstrapFunction):
            def open(self, ctx):
                self.total = ctx.get_state(ValueStateDescriptor("total", "LONG"))
                self.rates = sqlite3.connect("rates.db")

            def process_element(self, value, ctx):
                ...

            def close(self):
                self.rates.close()

    """

    _runtime_context: RuntimeContext | None = None

    def open(self, ctx: RuntimeContext) -> None:
        """Register states, and create objects that cannot be pickled, such as connections.

        Called in every task, and before it once on the driver, with a copy of the function that is closed at once: the
        states that it registers there are those of the operator.

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
                "the runtime context is available only in tasks, from open() on",
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

        Sessions are given as merged: ``ctx.window()`` is the whole session, and its timers are those of the session.

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

        accounts = OperatorTransformation.bootstrap_with(rows).key_by("id").transform(AccountBootstrapper())
    """

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedContext) -> None:
        """Process one record of the current key.

        Args:
            value: The record, a Row with the columns of the DataFrame.
            ctx: The current key, its timers, and the record's timestamp.

        """


class _WithTimers(RichFunction, ABC):
    """A function whose timers fire."""

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterable[Any] | None:
        """Process a timer of the current key that fires. Not called in a bootstrap, which keeps the timers.

        Args:
            timestamp: The timer's timestamp in milliseconds.
            ctx: The current key, its timers, and the time domain of this one.

        Returns:
            Rows of the declared schema, or None.

        """
        return None


class KeyedProcessFunction(_WithTimers):
    """Function over bounded keyed input that yields rows. Timers fire at the end of their key (FLIP-140).

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

        OperatorTransformation.bootstrap_with(rows).key_by("id").process(Sum(), "id long, total long")
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


class KeyedCoProcessFunction(_WithTimers):
    """Function over two inputs of one key, for :meth:`KeyedTransformation.connect`. Timers are those of the key.

    The records of a key come in the order of their timestamps, whichever input they are of (FLIP-140); of equal times,
    those of the first input first. In a bootstrap, timers and state are kept, and rows are discarded. Flink:
    ``KeyedCoProcessFunction`` in batch execution mode.

    Example::

        class Balance(KeyedCoProcessFunction):
            def open(self, ctx):
                self.balance = ctx.get_state(ValueStateDescriptor("balance", "LONG", default=0))

            def process_element1(self, order, ctx):
                self.balance.update(self.balance.value() - order.amount)

            def process_element2(self, payment, ctx):
                self.balance.update(self.balance.value() + payment.amount)

        orders.key_by("customer").connect(payments.key_by("customer")).transform(Balance())
    """

    @abstractmethod
    def process_element1(self, value: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Process one record of the first input.

        Args:
            value: The record, a Row with the columns of the first DataFrame.
            ctx: The current key, its timers, and the record's timestamp.

        Returns:
            Rows of the declared schema, or None.

        """

    @abstractmethod
    def process_element2(self, value: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Process one record of the second input.

        Args:
            value: The record, a Row with the columns of the second DataFrame.
            ctx: The current key, its timers, and the record's timestamp.

        Returns:
            Rows of the declared schema, or None.

        """


class KeyedMultipleInputFunction(_WithTimers):
    """Function over any number of inputs of one key, in the order of a :class:`KeyedCoProcessFunction`'s records.

    Flink: ``MultipleInputStreamOperator`` with ``KeyedMultipleInputTransformation``.

    Example::

        class Last(KeyedMultipleInputFunction):
            def open(self, ctx):
                self.last = ctx.get_map_state(MapStateDescriptor("last", "INT", "LONG"))

            def process_element(self, input_id, value, ctx):
                self.last.put(input_id, ctx.timestamp())

        orders.key_by("id").connect(payments.key_by("id"), returns.key_by("id")).transform(Last())
    """

    @abstractmethod
    def process_element(self, input_id: int, value: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Process one record.

        Args:
            input_id: The number of the input, from 1.
            value: The record, a Row with the columns of this input's DataFrame.
            ctx: The current key, its timers, and the record's timestamp.

        Returns:
            Rows of the declared schema, or None.

        """


class KeyedBroadcastProcessFunction(RichFunction, ABC):
    """Function over keyed records and an input that every task gets as a whole, before the first key.

    Flink: ``KeyedBroadcastProcessFunction`` in batch execution mode.

    Example::

        RATES = MapStateDescriptor("rates", "STRING", "DOUBLE")

        class Converted(KeyedBroadcastProcessFunction):
            def open(self, ctx):
                self.total = ctx.get_state(ValueStateDescriptor("total", "DOUBLE", default=0.0))

            def process_element(self, value, ctx):
                rate = ctx.get_broadcast_state(RATES).get(value.currency)
                self.total.update(self.total.value() + value.amount * rate)

            def process_broadcast_element(self, value, ctx):
                ctx.get_broadcast_state(RATES).put(value.currency, value.rate)

        orders.key_by("customer").connect(rates.broadcast(RATES)).transform(Converted())
    """

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedReadOnlyContext) -> Iterable[Any] | None:
        """Process one record of the keyed input.

        Args:
            value: The record, a Row with the columns of the keyed DataFrame.
            ctx: The current key, its timers, the record's timestamp, and the broadcast state to read.

        Returns:
            Rows of the declared schema, or None.

        """

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastContext) -> Iterable[Any] | None:
        """Process one record of the broadcast input, which is without key, so it must not change keyed state.

        Every task gets all of them, in the same order, and must compute the same broadcast state.

        Args:
            value: The record, a Row with the columns of the broadcast DataFrame.
            ctx: The broadcast state, and the record's timestamp.

        Returns:
            Rows of the declared schema, or None.

        """

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastOnTimerContext) -> Iterable[Any] | None:
        """Process a timer of the current key that fires. Not called in a bootstrap, which keeps the timers.

        Args:
            timestamp: The timer's timestamp in milliseconds.
            ctx: The current key, its timers, the time domain of this one, and the broadcast state to read.

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

    def snapshot_state(self, ctx: FunctionSnapshotContext | None = None) -> None:
        """Fill the states from other fields of the function. Called once, after the last record.

        Args:
            ctx: Id and time of the checkpoint. A function that does not need it may leave the argument out.

        """
        return


class BroadcastStateBootstrapFunction(RichFunction, ABC):
    """Function that creates broadcast state from records without key. All records go to one task.

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
        descriptors = (value for value in attributes.values() if isinstance(value, MapStateDescriptor))
        return tuple(dict.fromkeys(descriptors))

    @abstractmethod
    def process_element(self, value: Any, ctx: BroadcastContext) -> None:
        """Process one record.

        Args:
            value: The record, a Row with the columns of the DataFrame.
            ctx: The broadcast states, and the record's timestamp.

        """


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
        """Return the descriptors of all states per key and window. None by default."""
        return ()

    def global_state_descriptors(self) -> Sequence[Descriptor]:
        """Return the descriptors of all states per key. None by default."""
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
