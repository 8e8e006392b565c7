"""A trigger that waits only so long for another one. Twin: ``ProcessingTimeoutTrigger``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark_savepoint.statebackends.processing.api.durations import Duration, millis
from pyspark_savepoint.statebackends.processing.api.state_descriptors import Descriptor, ValueStateDescriptor
from pyspark_savepoint.statebackends.processing.api.triggers import Trigger, TriggerContext, TriggerResult


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
