"""Timers of the current key: those that fire at its end (FLIP-140), and those that a savepoint keeps (FLIP-43).

While a key is processed the watermark is MIN; where timers fire they do at the end of the key, with the watermark MAX:
event time first, then processing time, each in the order of their timestamps. What registers a timer meanwhile is not
heard, or a key might never end. A timer is registered once, however often it is asked for.

Flink: ``BatchExecutionInternalTimeService``, ``InternalTimerServiceImpl``.
"""

from __future__ import annotations

import heapq
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

MIN_WATERMARK, MAX_WATERMARK = -(2**63), 2**63 - 1


def check_time(timestamp: int) -> int:
    """A timestamp as Java's long."""
    if not isinstance(timestamp, int) or isinstance(timestamp, bool) or not -(2**63) <= timestamp < 2**63:
        raise TypeError(f"a timer's timestamp is a long (milliseconds), not {timestamp!r}")
    return timestamp


def now_millis() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000_000


class Timers(ABC):
    """The timers of the current key; ``namespace`` is the window of a window's timer, else None."""

    def __init__(self) -> None:
        self.watermark = MIN_WATERMARK

    @abstractmethod
    def register_event(self, timestamp: int, namespace: Any = None) -> None:
        """An event time timer."""

    @abstractmethod
    def register_processing(self, timestamp: int, namespace: Any = None) -> None:
        """A processing time timer."""

    @abstractmethod
    def delete_event(self, timestamp: int, namespace: Any = None) -> None:
        """Forget one, if it is there."""

    @abstractmethod
    def delete_processing(self, timestamp: int, namespace: Any = None) -> None:
        """Forget one, if it is there."""


class FiringTimers(Timers):
    """Timers that fire at the end of their key."""

    def __init__(self) -> None:
        super().__init__()
        self._event: dict[tuple[int, Any], None] = {}
        self._processing: dict[tuple[int, Any], None] = {}

    def register_event(self, timestamp: int, namespace: Any = None) -> None:
        """An event time timer, unless timers fire already."""
        if self.watermark == MIN_WATERMARK:
            self._event[check_time(timestamp), namespace] = None

    def register_processing(self, timestamp: int, namespace: Any = None) -> None:
        """A processing time timer, unless timers fire already."""
        if self.watermark == MIN_WATERMARK:
            self._processing[check_time(timestamp), namespace] = None

    def delete_event(self, timestamp: int, namespace: Any = None) -> None:
        """Forget one; also one that would still fire."""
        self._event.pop((check_time(timestamp), namespace), None)

    def delete_processing(self, timestamp: int, namespace: Any = None) -> None:
        """Forget one; also one that would still fire."""
        self._processing.pop((check_time(timestamp), namespace), None)

    def fire(self, on_event: Callable[[int, Any], None], on_processing: Callable[[int, Any], None]) -> None:
        """The key ends."""
        if not self._event and not self._processing:
            return
        self.watermark = MAX_WATERMARK
        try:
            _fire(self._event, on_event)
            _fire(self._processing, on_processing)
        finally:
            self.watermark = MIN_WATERMARK


def _fire(timers: dict[tuple[int, Any], None], call: Callable[[int, Any], None]) -> None:
    """In the order of time; of one time in the order of registration."""
    queue = [(timer[0], order, timer) for order, timer in enumerate(timers)]
    heapq.heapify(queue)
    while queue:
        *_, timer = heapq.heappop(queue)
        # What fires may have deleted it.
        if timer in timers:
            del timers[timer]
            call(*timer)


class TimerService:
    """``TimerService``: what functions see of the timers of the current key."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers

    def current_processing_time(self) -> int:
        """Milliseconds since 1970."""
        return now_millis()

    def current_watermark(self) -> int:
        """MIN while the key is processed, MAX while its timers fire."""
        return self._timers.watermark

    def register_event_time_timer(self, time: int) -> None:
        """For the current key."""
        self._timers.register_event(time)

    def register_processing_time_timer(self, time: int) -> None:
        """For the current key."""
        self._timers.register_processing(time)

    def delete_event_time_timer(self, time: int) -> None:
        """Of the current key."""
        self._timers.delete_event(time)

    def delete_processing_time_timer(self, time: int) -> None:
        """Of the current key."""
        self._timers.delete_processing(time)
