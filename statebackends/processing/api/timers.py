"""Timers of the current key: either fired at its end (FLIP-140), or stored in the savepoint (FLIP-43).

While a key is processed, the watermark is MIN (-2^63). Timers that fire do so at the end of the key, with the watermark
MAX (2^63 - 1): event time first, then processing time, each in the order of their timestamps. Timers registered while
timers fire are ignored, otherwise a key might never end. Registering a timer again has no effect.

Flink: ``BatchExecutionInternalTimeService``, ``InternalTimerServiceImpl``.
"""

from __future__ import annotations

import heapq
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol

from pyspark_savepoint.formats.errors import OptionError

Duration = int | timedelta


def millis(duration: Duration) -> int:
    """Return a duration in whole milliseconds, or raise OptionError if it is not one.

    >>> millis(timedelta(minutes=1)), millis(500)
    (60000, 500)
    """
    if isinstance(duration, timedelta):
        whole, rest = divmod(duration, timedelta(milliseconds=1))
        if rest:
            raise OptionError(f"{duration} is not a whole number of milliseconds")
        return whole
    if not isinstance(duration, int) or isinstance(duration, bool):
        raise OptionError(
            "this is not a duration",
            expected="a timedelta, or a number of milliseconds as an int",
            found=repr(duration),
        )
    return duration


MIN_WATERMARK, MAX_WATERMARK = -(2**63), 2**63 - 1


def check_time(timestamp: int) -> int:
    """Return the timestamp of a timer, or raise TypeError unless it fits into Java's long."""
    if not isinstance(timestamp, int) or isinstance(timestamp, bool) or not -(2**63) <= timestamp < 2**63:
        raise TypeError(f"a timer's timestamp is a long (milliseconds), not {timestamp!r}")
    return timestamp


def now_millis() -> int:
    """Return the wall-clock time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Timers(ABC):
    """Timers of the current key. ``namespace`` is the window of a window's timer, else None."""

    def __init__(self) -> None:
        self.watermark = MIN_WATERMARK

    @abstractmethod
    def register_event(self, timestamp: int, namespace: Any = None) -> None:
        """Register an event time timer, in milliseconds."""

    @abstractmethod
    def register_processing(self, timestamp: int, namespace: Any = None) -> None:
        """Register a processing time timer, in milliseconds."""

    @abstractmethod
    def delete_event(self, timestamp: int, namespace: Any = None) -> None:
        """Delete an event time timer. An absent one is ignored."""

    @abstractmethod
    def delete_processing(self, timestamp: int, namespace: Any = None) -> None:
        """Delete a processing time timer. An absent one is ignored."""


class FiringTimers(Timers):
    """Timers that fire at the end of their key."""

    def __init__(self) -> None:
        super().__init__()
        self._event: dict[tuple[int, Any], None] = {}
        self._processing: dict[tuple[int, Any], None] = {}

    def register_event(self, timestamp: int, namespace: Any = None) -> None:
        """Register an event time timer. Do nothing while timers fire."""
        if self.watermark == MIN_WATERMARK:
            self._event[check_time(timestamp), namespace] = None

    def register_processing(self, timestamp: int, namespace: Any = None) -> None:
        """Register a processing time timer. Do nothing while timers fire."""
        if self.watermark == MIN_WATERMARK:
            self._processing[check_time(timestamp), namespace] = None

    def delete_event(self, timestamp: int, namespace: Any = None) -> None:
        """Delete an event time timer, also while timers fire."""
        self._event.pop((check_time(timestamp), namespace), None)

    def delete_processing(self, timestamp: int, namespace: Any = None) -> None:
        """Delete a processing time timer, also while timers fire."""
        self._processing.pop((check_time(timestamp), namespace), None)

    def fire(self, on_event: Callable[[int, Any], None], on_processing: Callable[[int, Any], None]) -> None:
        """Fire all timers of the key: its records are processed."""
        if not self._event and not self._processing:
            return
        self.watermark = MAX_WATERMARK
        try:
            _fire(self._event, on_event)
            _fire(self._processing, on_processing)
        finally:
            self.watermark = MIN_WATERMARK


def _fire(timers: dict[tuple[int, Any], None], call: Callable[[int, Any], None]) -> None:
    """Call a function for each timer in the order of timestamps. For equal ones in the order of registration."""
    queue = [(timer[0], order, timer) for order, timer in enumerate(timers)]
    heapq.heapify(queue)
    while queue:
        *_, timer = heapq.heappop(queue)
        # The function may have deleted later timers.
        if timer in timers:
            del timers[timer]
            call(*timer)


class Clock(Protocol):
    """Access to the current time, and to the timers of the current key (of a trigger: of the key and window).

    Example::

        def on_element(self, element, timestamp, window, ctx):
            ctx.register_processing_time_timer(ctx.current_processing_time() + 60_000)
            return TriggerResult.CONTINUE
    """

    def current_processing_time(self) -> int:
        """Return the wall-clock time in milliseconds since 1970."""

    def current_watermark(self) -> int:
        """Return the watermark: -2^63 while a key is processed, 2^63 - 1 while its timers fire."""

    def register_event_time_timer(self, time: int) -> None:
        """Register an event time timer. A second one of the same time has no effect.

        Args:
            time: Milliseconds since 1970.

        Raises:
            TypeError: If ``time`` is not an int of 64 bits.

        """

    def register_processing_time_timer(self, time: int) -> None:
        """Register a processing time timer, in the same way.

        Args:
            time: Milliseconds since 1970.

        """

    def delete_event_time_timer(self, time: int) -> None:
        """Delete an event time timer. An absent one is ignored.

        Args:
            time: Milliseconds since 1970.

        """

    def delete_processing_time_timer(self, time: int) -> None:
        """Delete a processing time timer. An absent one is ignored.

        Args:
            time: Milliseconds since 1970.

        """


class TimerService(Clock):
    """Access to the timers of the current key, and to the current time.

    Flink: ``TimerService``.

    Example::

        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)
    """

    def __init__(self, timers: Timers) -> None:
        self._timers = timers

    def current_processing_time(self) -> int:
        """Return the wall-clock time in milliseconds since 1970."""
        return now_millis()

    def current_watermark(self) -> int:
        """Return the watermark: -2^63 while a key is processed, 2^63 - 1 while its timers fire."""
        return self._timers.watermark

    def register_event_time_timer(self, time: int) -> None:
        """Register an event time timer for the current key. A second one of the same time has no effect."""
        self._timers.register_event(time)

    def register_processing_time_timer(self, time: int) -> None:
        """Register a processing time timer for the current key. A second one of the same time has no effect."""
        self._timers.register_processing(time)

    def delete_event_time_timer(self, time: int) -> None:
        """Delete an event time timer of the current key. An absent one is ignored."""
        self._timers.delete_event(time)

    def delete_processing_time_timer(self, time: int) -> None:
        """Delete a processing time timer of the current key. An absent one is ignored."""
        self._timers.delete_processing(time)
