"""Triggers: fire and purge windows while their state is bootstrapped.

Time does not advance during a bootstrap, so a trigger is called for elements and for windows that merge, but never for
timers. It registers timers, which are stored in the savepoint, and it may purge. Its own state is stored in the
savepoint too: a trigger declares its descriptors, since they must be known before the job starts. Flink:
``org.apache.flink.streaming.api.windowing.triggers``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, Self

from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    Descriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from pyspark_savepoint.statebackends.processing.api.timers import Clock, Duration, millis


class TriggerResult(Enum):
    """Reaction of a trigger to an element. Each value is the pair (fires, purges).

    ``CONTINUE`` does nothing, ``FIRE`` calls the window's function, ``PURGE`` removes the window's contents, and
    ``FIRE_AND_PURGE`` does both. Flink: ``TriggerResult``.

    Example::

        def on_element(self, element, timestamp, window, ctx):
            return TriggerResult.FIRE if element.is_last else TriggerResult.CONTINUE
    """

    CONTINUE = (False, False)
    FIRE = (True, False)
    PURGE = (False, True)
    FIRE_AND_PURGE = (True, True)

    @property
    def is_fire(self) -> bool:
        """Whether the window's function is called."""
        return self.value[0]

    @property
    def is_purge(self) -> bool:
        """Whether the window's contents are removed."""
        return self.value[1]


class TriggerContext(Clock, Protocol):
    """Context of the methods of a trigger: state and timers of the current key and window.

    Flink: ``Trigger.TriggerContext``.

    Example::

        def on_element(self, element, timestamp, window, ctx):
            ctx.register_event_time_timer(window.max_timestamp())
            count = ctx.get_partitioned_state(self.count)
            count.add(1)
            return TriggerResult.FIRE if count.get() == 10 else TriggerResult.CONTINUE

    """

    def get_partitioned_state(self, descriptor: Descriptor) -> Any:
        """Return a state of the trigger for the current key and window.

        Args:
            descriptor: One of the trigger's :meth:`Trigger.state_descriptors`.

        Returns:
            The state, of the kind of the descriptor.

        """

    def merge_partitioned_state(self, descriptor: Descriptor) -> None:
        """Merge a state of the windows that are merged into the resulting window. For :meth:`Trigger.on_merge`.

        Args:
            descriptor: One of the trigger's :meth:`Trigger.state_descriptors`, of a kind that can be merged.

        """


class Trigger(ABC):
    """Base class of triggers, which decide when the function of a window is called and when its contents are removed.

    Only elements and merging windows call a trigger here. ``onEventTime`` and ``onProcessingTime`` are missing, as no
    time passes. Flink: ``Trigger``.

    Example::

        class AtEnd(Trigger):
            def on_element(self, element, timestamp, window, ctx):
                ctx.register_event_time_timer(window.max_timestamp())
                return TriggerResult.CONTINUE
    """

    def state_descriptors(self) -> Sequence[Descriptor]:
        """Return the descriptors of all states that the trigger uses. None by default."""
        return ()

    @abstractmethod
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """React to an element that is added to a window.

        Args:
            element: The element.
            timestamp: The element's timestamp in milliseconds.
            window: The :class:`TimeWindow` or :class:`GlobalWindow` that it is added to.
            ctx: State and timers of the key and window.

        Returns:
            Whether the window fires, and whether it is purged.

        """

    def can_merge(self) -> bool:
        """Return whether the trigger supports windows that merge, so that :meth:`on_merge` is implemented."""
        return False

    def on_merge(self, window: Any, ctx: TriggerContext) -> None:
        """React to windows that were merged into one.

        Args:
            window: The resulting window.
            ctx: State and timers of the key and the resulting window.

        Raises:
            NotImplementedError: If the trigger does not support merging.

        """
        raise NotImplementedError(f"{type(self).__name__} cannot merge windows")

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """Delete the trigger's timers and state of a window that is removed.

        Args:
            window: The window.
            ctx: State and timers of the key and window.

        """
        return


@dataclass(frozen=True)
class EventTimeTrigger(Trigger):
    """Trigger that fires when the watermark passes the end of the window.

    It is the default of windows in event time. Flink: ``EventTimeTrigger``.

    Example::

        keyed.window(EventTimeSessionWindows.with_gap(60_000)).trigger(PurgingTrigger.of(EventTimeTrigger.create()))
    """

    @classmethod
    def create(cls) -> EventTimeTrigger:
        """Return the trigger."""
        return cls()

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """Register a timer at the end of the window."""
        if window.max_timestamp() <= ctx.current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: Any, ctx: TriggerContext) -> None:
        """Register a timer at the end of the resulting window."""
        if window.max_timestamp() > ctx.current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """Delete the timer."""
        ctx.delete_event_time_timer(window.max_timestamp())


@dataclass(frozen=True)
class ProcessingTimeTrigger(Trigger):
    """Trigger that fires when the wall clock passes the end of the window.

    It is the default of windows in processing time. Flink: ``ProcessingTimeTrigger``.

    Example::

        keyed.window(TumblingEventTimeWindows.of(60_000)).trigger(ProcessingTimeTrigger.create())
    """

    @classmethod
    def create(cls) -> ProcessingTimeTrigger:
        """Return the trigger."""
        return cls()

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """Register a timer at the end of the window."""
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: Any, ctx: TriggerContext) -> None:
        """Register a timer at the end of the resulting window, unless it has passed."""
        if window.max_timestamp() > ctx.current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """Delete the timer."""
        ctx.delete_processing_time_timer(window.max_timestamp())


@dataclass(frozen=True)
class NeverTrigger(Trigger):
    """Trigger that never fires, the default of :class:`GlobalWindows`.

    Flink: ``GlobalWindows.NeverTrigger``.

    Example::

        GlobalWindows.create().default_trigger()  # NeverTrigger()

    """

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """Return CONTINUE."""
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: TriggerContext) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class EndOfStreamTrigger(Trigger):
    """Trigger that fires when the bounded input of the restored job ends, by a timer at the end of the global window.

    Flink: ``GlobalWindows.EndOfStreamTrigger``.

    Example::

        GlobalWindows.create_with_end_of_stream_trigger().default_trigger()

    """

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """Register an event time timer at the end of the window. Return CONTINUE."""
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: TriggerContext) -> None:
        """Do nothing."""


def _sum(a: int, b: int) -> int:
    return a + b


@dataclass(frozen=True)
class CountTrigger(Trigger):
    """Trigger that fires at every ``max_count`` elements of a window. Its state is ``count``.

    Flink: ``CountTrigger``.

    Example::

        keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(100))
    """

    max_count: int

    @classmethod
    def of(cls, max_count: int) -> CountTrigger:
        """Return a trigger that fires at every ``max_count`` elements.

        Args:
            max_count: The number of elements.

        Returns:
            The trigger.

        """
        return cls(max_count)

    def _descriptor(self) -> ReducingStateDescriptor:
        return ReducingStateDescriptor("count", "LONG", reduce=_sum)

    def state_descriptors(self) -> Sequence[Descriptor]:
        """Return the descriptor of the count."""
        return (self._descriptor(),)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """Count the element. Fire and reset the count when it reaches ``max_count``."""
        count = ctx.get_partitioned_state(self._descriptor())
        count.add(1)
        if count.get() >= self.max_count:
            count.clear()
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: Any, ctx: TriggerContext) -> None:
        """Add up the counts of the merged windows."""
        ctx.merge_partitioned_state(self._descriptor())

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """Delete the count."""
        ctx.get_partitioned_state(self._descriptor()).clear()


@dataclass(frozen=True)
class PurgingTrigger(Trigger):
    """Trigger that removes the contents of a window whenever another trigger fires it.

    Flink: ``PurgingTrigger``.

    Example::

        keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(100)))
    """

    nested: Trigger

    @classmethod
    def of(cls, nested: Trigger) -> PurgingTrigger:
        """Return a purging trigger around another one.

        Args:
            nested: The trigger that decides when to fire.

        Returns:
            The trigger.

        """
        return cls(nested)

    def state_descriptors(self) -> Sequence[Descriptor]:
        """Return the descriptors of the nested trigger."""
        return self.nested.state_descriptors()

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """Call the nested trigger, and also purge if it fires."""
        result = self.nested.on_element(element, timestamp, window, ctx)
        return TriggerResult.FIRE_AND_PURGE if result.is_fire else result

    def can_merge(self) -> bool:
        """Return whether the nested trigger supports merging."""
        return self.nested.can_merge()

    def on_merge(self, window: Any, ctx: TriggerContext) -> None:
        """Call the nested trigger."""
        self.nested.on_merge(window, ctx)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """Call the nested trigger."""
        self.nested.clear(window, ctx)


@dataclass(frozen=True)
class _Continuous(Trigger):
    """A trigger that fires at regular intervals while a window has elements. Its state is ``fire-time``."""

    interval: int

    @classmethod
    def of(cls, interval: Duration) -> Self:
        """Return a trigger that fires at every full interval.

        Args:
            interval: Milliseconds, or a timedelta of whole milliseconds.

        Returns:
            The trigger.

        Raises:
            OptionError: If ``interval`` is not a duration of whole milliseconds.

        """
        return cls(millis(interval))

    @staticmethod
    @abstractmethod
    def _register(ctx: TriggerContext, time: int) -> None:
        """Register a timer in the trigger's domain of time."""

    @staticmethod
    @abstractmethod
    def _delete(ctx: TriggerContext, time: int) -> None:
        """Delete a timer in the trigger's domain of time."""

    def _descriptor(self) -> ReducingStateDescriptor:
        return ReducingStateDescriptor("fire-time", "LONG", reduce=min)

    def state_descriptors(self) -> Sequence[Descriptor]:
        """Return the descriptor of the next firing time."""
        return (self._descriptor(),)

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: Any, ctx: TriggerContext) -> None:
        """Keep the earliest of the next firing times, and register its timer."""
        ctx.merge_partitioned_state(self._descriptor())
        following = ctx.get_partitioned_state(self._descriptor()).get()
        if following is not None:
            self._register(ctx, following)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """Delete the firing time and its timer."""
        fire_time = ctx.get_partitioned_state(self._descriptor())
        following = fire_time.get()
        if following is not None:
            self._delete(ctx, following)
            fire_time.clear()

    def _next(self, now: int, window: Any) -> int:
        end: int = window.max_timestamp()
        # Java's remainder has the sign of the dividend: before 1970 it is negative.
        rest = now % self.interval if now >= 0 else -(-now % self.interval)
        return min(now - rest + self.interval, end)


@dataclass(frozen=True)
class ContinuousEventTimeTrigger(_Continuous):
    """Trigger that fires at regular intervals of event time, and at the end of the window. Its state is ``fire-time``.

    Flink: ``ContinuousEventTimeTrigger``.

    Example::

        keyed.window(TumblingEventTimeWindows.of(timedelta(hours=1))).trigger(ContinuousEventTimeTrigger.of(60_000))
    """

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """Register timers at the end of the window and at the next full interval."""
        if window.max_timestamp() <= ctx.current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        fire_time = ctx.get_partitioned_state(self._descriptor())
        if fire_time.get() is None:
            following = self._next(timestamp, window)
            fire_time.add(following)
            ctx.register_event_time_timer(following)
        return TriggerResult.CONTINUE

    @staticmethod
    def _register(ctx: TriggerContext, time: int) -> None:
        ctx.register_event_time_timer(time)

    @staticmethod
    def _delete(ctx: TriggerContext, time: int) -> None:
        ctx.delete_event_time_timer(time)


@dataclass(frozen=True)
class ContinuousProcessingTimeTrigger(_Continuous):
    """Trigger that fires at regular intervals of the wall clock. Its state is ``fire-time``.

    Flink: ``ContinuousProcessingTimeTrigger``.

    Example::

        keyed.window(GlobalWindows.create()).trigger(ContinuousProcessingTimeTrigger.of(timedelta(minutes=1)))
    """

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """Register a timer at the next full interval."""
        fire_time = ctx.get_partitioned_state(self._descriptor())
        if fire_time.get() is None:
            following = self._next(ctx.current_processing_time(), window)
            fire_time.add(following)
            ctx.register_processing_time_timer(following)
        return TriggerResult.CONTINUE

    @staticmethod
    def _register(ctx: TriggerContext, time: int) -> None:
        ctx.register_processing_time_timer(time)

    @staticmethod
    def _delete(ctx: TriggerContext, time: int) -> None:
        ctx.delete_processing_time_timer(time)


@dataclass(frozen=True)
class DeltaTrigger(Trigger):
    """Trigger that fires when an element differs by more than a threshold from the one that fired last.

    The last element is its state ``last-element``. Flink: ``DeltaTrigger``.

    Example::

        DeltaTrigger.of(10.0, lambda last, element: abs(element.total - last.total), "ROW<id LONG, total DOUBLE>")
    """

    threshold: float
    delta: Any
    element_type: str

    @classmethod
    def of(cls, threshold: float, delta: Any, element_type: str) -> DeltaTrigger:
        """Return a trigger that fires when ``delta(last, element)`` is above the threshold.

        Args:
            threshold: The largest difference that does not fire.
            delta: A function of the element that fired last and the new element that returns their difference.
            element_type: The type of the elements in Flink's notation, with which the last one is stored.

        Returns:
            The trigger.

        """
        return cls(threshold, delta, element_type)

    def _descriptor(self) -> ValueStateDescriptor:
        return ValueStateDescriptor("last-element", self.element_type)

    def state_descriptors(self) -> Sequence[Descriptor]:
        """Return the descriptor of the element that fired last."""
        return (self._descriptor(),)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """Compare the element with the one that fired last. The first one of a window is only stored."""
        last = ctx.get_partitioned_state(self._descriptor())
        if last.value() is None:
            last.update(element)
            return TriggerResult.CONTINUE
        if self.delta(last.value(), element) > self.threshold:
            last.update(element)
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """Delete the stored element."""
        ctx.get_partitioned_state(self._descriptor()).clear()


@dataclass(frozen=True)
class ProcessingTimeoutTrigger(Trigger):
    """Trigger that fires as another one does, or a timeout after the first (or last) element. Its state is ``timeout``.

    It does not support windows that merge. Timers do not fire during a bootstrap, so only the restored job sees a
    timeout. Flink: ``ProcessingTimeoutTrigger``.

    Example::

        ProcessingTimeoutTrigger.of(CountTrigger.of(100), timedelta(minutes=5))
    """

    nested: Trigger
    timeout: int
    reset_timer_on_new_record: bool = False
    should_clear_on_timeout: bool = True

    @classmethod
    def of(
        cls,
        nested: Trigger,
        timeout: Duration,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> ProcessingTimeoutTrigger:
        """Return a trigger that adds a timeout to another one.

        Args:
            nested: The trigger that fires before the timeout.
            timeout: Milliseconds of processing time, or a timedelta of whole milliseconds.
            reset_timer_on_new_record: Count the timeout from the last element instead of the first.
            should_clear_on_timeout: Whether the timeout clears the state of the nested trigger too. It matters to the
                restored job only.

        Returns:
            The trigger.

        Raises:
            OptionError: If ``timeout`` is not a duration of whole milliseconds.

        """
        return cls(nested, millis(timeout), reset_timer_on_new_record, should_clear_on_timeout)

    def _descriptor(self) -> ValueStateDescriptor:
        return ValueStateDescriptor("timeout", "LONG")

    def state_descriptors(self) -> Sequence[Descriptor]:
        """Return the descriptors of the nested trigger and of the time of the timeout."""
        return (*self.nested.state_descriptors(), self._descriptor())

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """Call the nested trigger. Register the timer of the timeout unless it fires."""
        result = self.nested.on_element(element, timestamp, window, ctx)
        if result.is_fire:
            self.clear(window, ctx)
            return result
        time_out = ctx.get_partitioned_state(self._descriptor())
        if self.reset_timer_on_new_record:
            self._forget(ctx)
        if time_out.value() is None:
            following = ctx.current_processing_time() + self.timeout
            time_out.update(following)
            ctx.register_processing_time_timer(following)
        return result

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """Delete the timer and the state, also of the nested trigger."""
        self._forget(ctx)
        self.nested.clear(window, ctx)

    def _forget(self, ctx: TriggerContext) -> None:
        time_out = ctx.get_partitioned_state(self._descriptor())
        following = time_out.value()
        if following is not None:
            ctx.delete_processing_time_timer(following)
            time_out.clear()
