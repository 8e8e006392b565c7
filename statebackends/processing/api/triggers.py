"""Triggers: when a window would fire, as far as that shows in its state.

While state is bootstrapped no time passes, so a trigger only ever hears of elements and of windows that merge. It
registers timers, which the savepoint keeps, and it may purge. Its own state is in the savepoint too: a trigger names
its descriptors, for they must be known before the job starts. Flink:
``org.apache.flink.streaming.api.windowing.triggers``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from pyspark_savepoint.statebackends.processing.api.durations import Duration, millis
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    Descriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)


class TriggerResult(Enum):
    """What becomes of a window: (fires, is purged)."""

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
        """Whether its contents are forgotten."""
        return self.value[1]


class TriggerContext(Protocol):
    """``Trigger.TriggerContext``: the current key and window."""

    def current_processing_time(self) -> int:
        """Milliseconds since 1970."""

    def current_watermark(self) -> int:
        """MIN, for no time passes."""

    def register_event_time_timer(self, time: int) -> None:
        """For the window."""

    def register_processing_time_timer(self, time: int) -> None:
        """For the window."""

    def delete_event_time_timer(self, time: int) -> None:
        """Of the window."""

    def delete_processing_time_timer(self, time: int) -> None:
        """Of the window."""

    def get_partitioned_state(self, descriptor: Descriptor) -> Any:
        """The window's state of one of the trigger's descriptors."""

    def merge_partitioned_state(self, descriptor: Descriptor) -> None:
        """In :meth:`Trigger.on_merge`: the state of the windows that merge becomes the state of their window."""


class Trigger(ABC):
    """``Trigger``, as far as elements and merging go."""

    def state_descriptors(self) -> Sequence[Descriptor]:
        """All state that the trigger asks its context for."""
        return ()

    @abstractmethod
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """An element came into a window."""

    def can_merge(self) -> bool:
        """Whether :meth:`on_merge` knows what to do."""
        return False

    def on_merge(self, window: Any, ctx: TriggerContext) -> None:
        """Windows became one."""
        raise NotImplementedError(f"{type(self).__name__} cannot merge windows")

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """A window is gone: timers and state too."""
        return


@dataclass(frozen=True)
class EventTimeTrigger(Trigger):
    """Fires when the watermark passes the end of the window."""

    @classmethod
    def create(cls) -> EventTimeTrigger:
        """The trigger."""
        return cls()

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """A timer at the end."""
        if window.max_timestamp() <= ctx.current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Yes."""
        return True

    def on_merge(self, window: Any, ctx: TriggerContext) -> None:
        """A timer at the new end."""
        if window.max_timestamp() > ctx.current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """Without the timer."""
        ctx.delete_event_time_timer(window.max_timestamp())


@dataclass(frozen=True)
class ProcessingTimeTrigger(Trigger):
    """Fires when the wall clock passes the end of the window."""

    @classmethod
    def create(cls) -> ProcessingTimeTrigger:
        """The trigger."""
        return cls()

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """A timer at the end."""
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Yes."""
        return True

    def on_merge(self, window: Any, ctx: TriggerContext) -> None:
        """A timer at the new end, unless that has passed."""
        if window.max_timestamp() > ctx.current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """Without the timer."""
        ctx.delete_processing_time_timer(window.max_timestamp())


@dataclass(frozen=True)
class NeverTrigger(Trigger):
    """``GlobalWindows.NeverTrigger``."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """Nothing."""
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: TriggerContext) -> None:
        """Nothing."""


def _sum(a: int, b: int) -> int:
    return a + b


@dataclass(frozen=True)
class CountTrigger(Trigger):
    """Fires at every so many elements; state ``count``."""

    max_count: int

    @classmethod
    def of(cls, max_count: int) -> CountTrigger:
        """At every so many."""
        return cls(max_count)

    def _descriptor(self) -> ReducingStateDescriptor:
        return ReducingStateDescriptor("count", "LONG", reduce=_sum)

    def state_descriptors(self) -> Sequence[Descriptor]:
        """The count."""
        return (self._descriptor(),)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """One more."""
        count = ctx.get_partitioned_state(self._descriptor())
        count.add(1)
        if count.get() >= self.max_count:
            count.clear()
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Yes."""
        return True

    def on_merge(self, window: Any, ctx: TriggerContext) -> None:
        """The counts together."""
        ctx.merge_partitioned_state(self._descriptor())

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """Without the count."""
        ctx.get_partitioned_state(self._descriptor()).clear()


@dataclass(frozen=True)
class PurgingTrigger(Trigger):
    """Purges where another trigger fires."""

    nested: Trigger

    @classmethod
    def of(cls, nested: Trigger) -> PurgingTrigger:
        """Around a trigger."""
        return cls(nested)

    def state_descriptors(self) -> Sequence[Descriptor]:
        """Of the trigger inside."""
        return self.nested.state_descriptors()

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """As inside, but FIRE purges."""
        result = self.nested.on_element(element, timestamp, window, ctx)
        return TriggerResult.FIRE_AND_PURGE if result.is_fire else result

    def can_merge(self) -> bool:
        """As inside."""
        return self.nested.can_merge()

    def on_merge(self, window: Any, ctx: TriggerContext) -> None:
        """As inside."""
        self.nested.on_merge(window, ctx)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """As inside."""
        self.nested.clear(window, ctx)


@dataclass(frozen=True)
class _Continuous(Trigger):
    """Fires again and again while a window has elements; state ``fire-time``."""

    interval: int

    def _descriptor(self) -> ReducingStateDescriptor:
        return ReducingStateDescriptor("fire-time", "LONG", reduce=min)

    def state_descriptors(self) -> Sequence[Descriptor]:
        """The next time."""
        return (self._descriptor(),)

    def can_merge(self) -> bool:
        """Yes."""
        return True

    def _next(self, now: int, window: Any) -> int:
        end: int = window.max_timestamp()
        # Java's remainder has the sign of the time: before 1970 intervals are counted from their other end.
        rest = now % self.interval if now >= 0 else -(-now % self.interval)
        return min(now - rest + self.interval, end)


@dataclass(frozen=True)
class ContinuousEventTimeTrigger(_Continuous):
    """``ContinuousEventTimeTrigger``."""

    @classmethod
    def of(cls, interval: Duration) -> ContinuousEventTimeTrigger:
        """At every such interval of event time."""
        return cls(millis(interval))

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """Timers at the end of the window, and at the next full interval."""
        if window.max_timestamp() <= ctx.current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        fire_time = ctx.get_partitioned_state(self._descriptor())
        if fire_time.get() is None:
            following = self._next(timestamp, window)
            fire_time.add(following)
            ctx.register_event_time_timer(following)
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: TriggerContext) -> None:
        """The first of the next times."""
        ctx.merge_partitioned_state(self._descriptor())
        following = ctx.get_partitioned_state(self._descriptor()).get()
        if following is not None:
            ctx.register_event_time_timer(following)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """Without timer and state."""
        fire_time = ctx.get_partitioned_state(self._descriptor())
        following = fire_time.get()
        if following is not None:
            ctx.delete_event_time_timer(following)
            fire_time.clear()


@dataclass(frozen=True)
class ContinuousProcessingTimeTrigger(_Continuous):
    """``ContinuousProcessingTimeTrigger``."""

    @classmethod
    def of(cls, interval: Duration) -> ContinuousProcessingTimeTrigger:
        """At every such interval of the wall clock."""
        return cls(millis(interval))

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """A timer at the next full interval."""
        fire_time = ctx.get_partitioned_state(self._descriptor())
        if fire_time.get() is None:
            following = self._next(ctx.current_processing_time(), window)
            fire_time.add(following)
            ctx.register_processing_time_timer(following)
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: TriggerContext) -> None:
        """The first of the next times."""
        ctx.merge_partitioned_state(self._descriptor())
        following = ctx.get_partitioned_state(self._descriptor()).get()
        if following is not None:
            ctx.register_processing_time_timer(following)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """Without timer and state."""
        fire_time = ctx.get_partitioned_state(self._descriptor())
        following = fire_time.get()
        if following is not None:
            ctx.delete_processing_time_timer(following)
            fire_time.clear()


@dataclass(frozen=True)
class DeltaTrigger(Trigger):
    """Fires where an element differs enough from the last that fired; state ``last-element``."""

    threshold: float
    delta: Any
    element_type: str

    @classmethod
    def of(cls, threshold: float, delta: Any, element_type: str) -> DeltaTrigger:
        """``delta(last, element)`` above the threshold fires."""
        return cls(threshold, delta, element_type)

    def _descriptor(self) -> ValueStateDescriptor:
        return ValueStateDescriptor("last-element", self.element_type)

    def state_descriptors(self) -> Sequence[Descriptor]:
        """The last element."""
        return (self._descriptor(),)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """Compare with the last."""
        last = ctx.get_partitioned_state(self._descriptor())
        if last.value() is None:
            last.update(element)
            return TriggerResult.CONTINUE
        if self.delta(last.value(), element) > self.threshold:
            last.update(element)
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """Without the element."""
        ctx.get_partitioned_state(self._descriptor()).clear()


@dataclass(frozen=True)
class ProcessingTimeoutTrigger(Trigger):
    """Fires as another trigger does, or so long after the first element (or the last one); state ``timeout``.

    It does not merge windows. What becomes of it on time-out is the job's to say: while state is bootstrapped no time
    passes.
    """

    nested: Trigger
    timeout: int
    reset_timer_on_new_record: bool = False

    @classmethod
    def of(
        cls, nested: Trigger, timeout: Duration, reset_timer_on_new_record: bool = False
    ) -> ProcessingTimeoutTrigger:
        """Around a trigger."""
        return cls(nested, millis(timeout), reset_timer_on_new_record)

    def _descriptor(self) -> ValueStateDescriptor:
        return ValueStateDescriptor("timeout", "LONG")

    def state_descriptors(self) -> Sequence[Descriptor]:
        """The time of the time-out, and those of the trigger inside."""
        return (*self.nested.state_descriptors(), self._descriptor())

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """As inside; where that does not fire, a timer."""
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
        """Without timer and state, as inside."""
        self._forget(ctx)
        self.nested.clear(window, ctx)

    def _forget(self, ctx: TriggerContext) -> None:
        time_out = ctx.get_partitioned_state(self._descriptor())
        following = time_out.value()
        if following is not None:
            ctx.delete_processing_time_timer(following)
            time_out.clear()
