"""Triggers that fire again and again, or by what elements are.

Flink: ``ContinuousEventTimeTrigger``, ``ContinuousProcessingTimeTrigger``, ``DeltaTrigger``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark_savepoint.statebackends.processing.api.durations import Duration, millis
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    Descriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from pyspark_savepoint.statebackends.processing.api.triggers import Trigger, TriggerContext, TriggerResult


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
