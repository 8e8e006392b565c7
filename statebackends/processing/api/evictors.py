"""Evictors: remove elements from a window when it fires.

Flink: ``org.apache.flink.streaming.api.windowing.evictors``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark_savepoint.statebackends.processing.api.timers import MIN_WATERMARK, Duration, millis, now_millis


class Record(NamedTuple):
    """An element of a window and its timestamp in milliseconds, None without ``assign_timestamps``.

    Flink: ``TimestampedValue``.

    Args:
        value: The element.
        timestamp: Its timestamp in milliseconds since 1970, or None.

    Example::

        def evict_before(self, elements, window, ctx):
            return [record for record in elements if record.timestamp is not None]

    """

    value: Any
    timestamp: int | None


class EvictorContext:
    """Times of an evictor's call.

    Flink: ``Evictor.EvictorContext``.

    Example::

        def evict_before(self, elements, window, ctx):
            oldest = ctx.current_processing_time() - 3_600_000
            return [record for record in elements if record.timestamp >= oldest]

    """

    def __repr__(self) -> str:
        """Return one line: the watermark."""
        return f"<context of an evictor: current_watermark() is {MIN_WATERMARK}>"

    def current_processing_time(self) -> int:
        """Return the wall-clock time in milliseconds since 1970."""
        return now_millis()

    def current_watermark(self) -> int:
        """Return the watermark, always -2^63: event time does not advance during a bootstrap."""
        return MIN_WATERMARK


class Evictor(ABC):
    """Base class of evictors, which choose the elements that a window keeps when it fires.

    Unlike Flink's, which remove elements from an iterator, both methods return the elements to keep, in the order in
    which they got them. A window with an evictor stores all of its elements as list state. Flink: ``Evictor``.

    Example::

        class KeepLarge(Evictor):
            def evict_before(self, elements, window, ctx):
                return [record for record in elements if record.value.amount >= 10]

            def evict_after(self, elements, window, ctx):
                return elements
    """

    @abstractmethod
    def evict_before(self, elements: list[Record], window: Any, ctx: EvictorContext) -> list[Record]:
        """Return the elements to keep, before the window's function is called with them.

        Args:
            elements: The elements of the window with their timestamps, in the order of their arrival.
            window: The :class:`TimeWindow` or :class:`GlobalWindow` that fires.
            ctx: The current times.

        Returns:
            The elements to keep, in the same order.

        """

    @abstractmethod
    def evict_after(self, elements: list[Record], window: Any, ctx: EvictorContext) -> list[Record]:
        """Return the elements to keep, after the window's function was called with them.

        Args:
            elements: The elements that :meth:`evict_before` kept.
            window: The :class:`TimeWindow` or :class:`GlobalWindow` that fired.
            ctx: The current times.

        Returns:
            The elements to keep, in the same order.

        """


@dataclass(frozen=True)
class _Either(Evictor):
    """An evictor that evicts either before or after the call of the window's function."""

    do_evict_after: bool

    def _keep(self, elements: list[Record]) -> list[Record]:
        raise NotImplementedError

    def evict_before(self, elements: list[Record], window: Any, ctx: EvictorContext) -> list[Record]:
        """Return the elements to keep. All of them if this evictor evicts after the function."""
        return elements if self.do_evict_after or not elements else self._keep(elements)

    def evict_after(self, elements: list[Record], window: Any, ctx: EvictorContext) -> list[Record]:
        """Return the elements to keep. All of them if this evictor evicts before the function."""
        return self._keep(elements) if self.do_evict_after and elements else elements


@dataclass(frozen=True)
class CountEvictor(_Either):
    """Evictor that keeps the last ``max_count`` elements of a window.

    Flink: ``CountEvictor``.

    Example::

        transformation.window(GlobalWindows.create()).trigger(CountTrigger.of(10)).evictor(CountEvictor.of(100))
    """

    max_count: int

    @classmethod
    def of(cls, max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """Return an evictor that keeps the last ``max_count`` elements.

        Args:
            max_count: The number of elements to keep. 0 keeps none.
            do_evict_after: Evict after the window's function is called, instead of before.

        Returns:
            The evictor.

        """
        return cls(do_evict_after, max_count)

    def _keep(self, elements: list[Record]) -> list[Record]:
        return elements[-self.max_count :] if self.max_count else []


@dataclass(frozen=True)
class TimeEvictor(_Either):
    """Evictor that keeps the elements less than ``window_size`` milliseconds older than the latest one.

    If no element has a timestamp, all are kept. Flink: ``TimeEvictor``.

    Example::

        windowed.evictor(TimeEvictor.of(timedelta(minutes=5)))
    """

    window_size: int

    @classmethod
    def of(cls, window_size: Duration, do_evict_after: bool = False) -> TimeEvictor:
        """Return an evictor that keeps the elements of the last ``window_size`` before the latest element.

        Args:
            window_size: Milliseconds, or a timedelta of whole milliseconds.
            do_evict_after: Evict after the window's function is called, instead of before.

        Returns:
            The evictor.

        Raises:
            OptionError: If ``window_size`` is not a duration of whole milliseconds.

        """
        return cls(do_evict_after, millis(window_size))

    def _keep(self, elements: list[Record]) -> list[Record]:
        times = [record.timestamp for record in elements if record.timestamp is not None]
        if not times:
            return elements
        cutoff = max(times) - self.window_size
        return [record for record in elements if record.timestamp is None or record.timestamp > cutoff]


@dataclass(frozen=True)
class DeltaEvictor(_Either):
    """Evictor that keeps the elements that differ from the last one by less than a threshold.

    Flink: ``DeltaEvictor``.

    Example::

        windowed.evictor(DeltaEvictor.of(10.0, lambda element, last: abs(last.total - element.total)))
    """

    threshold: float
    delta: Callable[[Any, Any], float]

    @classmethod
    def of(cls, threshold: float, delta: Callable[[Any, Any], float], do_evict_after: bool = False) -> DeltaEvictor:
        """Return an evictor that keeps the elements whose ``delta(element, last)`` is below the threshold.

        Args:
            threshold: The smallest difference that evicts an element. A difference of NaN evicts nothing.
            delta: A function of an element and the last element of the window that returns their difference.
            do_evict_after: Evict after the window's function is called, instead of before.

        Returns:
            The evictor.

        """
        return cls(do_evict_after, threshold, delta)

    def _keep(self, elements: list[Record]) -> list[Record]:
        last = elements[-1].value
        # "not >=" instead of "<": a difference of NaN evicts nothing.
        return [record for record in elements if not self.delta(record.value, last) >= self.threshold]
