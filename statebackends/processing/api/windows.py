"""Windows and what assigns them, in milliseconds. Sizes are milliseconds or timedeltas.

Flink: ``org.apache.flink.streaming.api.windowing.windows`` and ``.assigners``.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark_savepoint.formats.errors import OptionError, ValueRangeError
from pyspark_savepoint.statebackends.processing.api.durations import Duration, millis
from pyspark_savepoint.statebackends.processing.api.timers import MAX_WATERMARK, MIN_WATERMARK
from pyspark_savepoint.statebackends.processing.api.triggers import (
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    Trigger,
)

_TWO_LONGS = struct.Struct(">qq")


class TimeWindow(NamedTuple):
    """``TimeWindow``: from ``start`` until before ``end``."""

    start: int
    end: int

    def max_timestamp(self) -> int:
        """The last millisecond that is in it."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Whether the windows overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The least window over both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    def to_bytes(self) -> bytes:
        """As ``TimeWindow.Serializer`` writes it."""
        return _TWO_LONGS.pack(self.start, self.end)

    @classmethod
    def from_bytes(cls, data: bytes) -> TimeWindow:
        """The mirror of :meth:`to_bytes`."""
        return cls(*_TWO_LONGS.unpack(data))


class GlobalWindow(NamedTuple):
    """``GlobalWindow``: the one window of everything."""

    def max_timestamp(self) -> int:
        """The end of time."""
        return MAX_WATERMARK

    def to_bytes(self) -> bytes:
        """As ``GlobalWindow.Serializer`` writes it."""
        return b"\0"

    @classmethod
    def from_bytes(cls, _: bytes) -> GlobalWindow:
        """The mirror of :meth:`to_bytes`."""
        return cls()


Window = TimeWindow | GlobalWindow


class WindowAssigner(ABC):
    """``WindowAssigner``: the windows of an element."""

    #: Whether windows are in event time.
    is_event_time = True
    #: Whether windows that meet become one.
    merges = False
    #: The serializer of its windows, in the notation of types.
    window_type = "TIME_WINDOW"

    @abstractmethod
    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> list[Any]:
        """The windows of an element."""

    def default_trigger(self) -> Trigger:
        """The trigger where the user gives none."""
        return EventTimeTrigger() if self.is_event_time else ProcessingTimeTrigger()


def window_start(timestamp: int, offset: int, size: int) -> int:
    """``TimeWindow.getWindowStartWithOffset``.

    >>> window_start(-1, 0, 10), window_start(25, 3, 10)
    (-10, 23)
    """
    return timestamp - (timestamp - offset) % size


def _with_timestamp(timestamp: int) -> int:
    if timestamp == MIN_WATERMARK:
        raise OptionError(
            "a record has no timestamp, which windows of event time need",
            remedy="assign_timestamps(...) before key_by(...)",
        )
    return timestamp


def _in_time(windows: list[TimeWindow]) -> list[TimeWindow]:
    """The windows of an element, the last first, if their bounds are longs; Flink's would wrap around."""
    if windows and (windows[0].end > MAX_WATERMARK or windows[-1].start < MIN_WATERMARK):
        raise ValueRangeError(
            "a record's window ends beyond all times that there are",
            expected=f"bounds from {MIN_WATERMARK} to {MAX_WATERMARK} milliseconds",
            found=f"{windows[0]}, {windows[-1]}" if len(windows) > 1 else f"{windows[0]}",
            remedy="leave out records whose timestamp stands for none",
        )
    return windows


@dataclass(frozen=True)
class _TimeWindows(WindowAssigner):
    """Windows of one size that begin at multiples of ``slide``."""

    size: int
    slide: int
    offset: int = 0

    def _at(self, time: int) -> list[TimeWindow]:
        if self.size == self.slide:
            start = time - (time - self.offset) % self.size
            return _in_time([TimeWindow(start, start + self.size)])
        last = window_start(time, self.offset, self.slide)
        return _in_time([TimeWindow(start, start + self.size) for start in range(last, time - self.size, -self.slide)])


def _check(size: int, slide: int, offset: int) -> None:
    if size <= 0 or slide <= 0 or abs(offset) >= slide:
        raise OptionError(
            "windows cannot be of this size",
            expected="size and slide above 0, offset less than the slide",
            found=f"size {size}, slide {slide}, offset {offset}",
        )


class TumblingEventTimeWindows(_TimeWindows):
    """``TumblingEventTimeWindows``."""

    @classmethod
    def of(cls, size: Duration, offset: Duration = 0) -> TumblingEventTimeWindows:
        """Windows side by side."""
        _check(millis(size), millis(size), millis(offset))
        return cls(millis(size), millis(size), millis(offset))

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> list[TimeWindow]:
        """One."""
        return self._at(_with_timestamp(timestamp))


class TumblingProcessingTimeWindows(_TimeWindows):
    """``TumblingProcessingTimeWindows``."""

    is_event_time = False

    @classmethod
    def of(cls, size: Duration, offset: Duration = 0) -> TumblingProcessingTimeWindows:
        """Windows side by side."""
        _check(millis(size), millis(size), millis(offset))
        return cls(millis(size), millis(size), millis(offset))

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> list[TimeWindow]:
        """One."""
        return self._at(processing_time)


class SlidingEventTimeWindows(_TimeWindows):
    """``SlidingEventTimeWindows``."""

    @classmethod
    def of(cls, size: Duration, slide: Duration, offset: Duration = 0) -> SlidingEventTimeWindows:
        """Windows that begin every ``slide``."""
        _check(millis(size), millis(slide), millis(offset))
        return cls(millis(size), millis(slide), millis(offset))

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> list[TimeWindow]:
        """All that the timestamp is in."""
        return self._at(_with_timestamp(timestamp))


class SlidingProcessingTimeWindows(_TimeWindows):
    """``SlidingProcessingTimeWindows``."""

    is_event_time = False

    @classmethod
    def of(cls, size: Duration, slide: Duration, offset: Duration = 0) -> SlidingProcessingTimeWindows:
        """Windows that begin every ``slide``."""
        _check(millis(size), millis(slide), millis(offset))
        return cls(millis(size), millis(slide), millis(offset))

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> list[TimeWindow]:
        """All that the time is in."""
        return self._at(processing_time)


def _positive(gap: int) -> int:
    """The gap of a session; OptionError for one that is none."""
    if gap <= 0:
        raise OptionError("the gap of a session must be above 0", found=gap)
    return gap


@dataclass(frozen=True)
class _SessionWindows(WindowAssigner):
    """Windows of elements with no gap between them; ``gap`` is milliseconds, or tells them of an element."""

    gap: int | Callable[[Any], Duration]
    merges = True

    def _at(self, element: Any, time: int) -> list[TimeWindow]:
        gap = millis(self.gap(element)) if callable(self.gap) else self.gap
        return _in_time([TimeWindow(time, time + _positive(gap))])


class EventTimeSessionWindows(_SessionWindows):
    """``EventTimeSessionWindows`` and ``DynamicEventTimeSessionWindows``."""

    @classmethod
    def with_gap(cls, gap: Duration) -> EventTimeSessionWindows:
        """A gap for all."""
        return cls(_positive(millis(gap)))

    @classmethod
    def with_dynamic_gap(cls, gap: Callable[[Any], Duration]) -> EventTimeSessionWindows:
        """A gap for every element."""
        return cls(gap)

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> list[TimeWindow]:
        """One, which may merge with others."""
        return self._at(element, _with_timestamp(timestamp))


class ProcessingTimeSessionWindows(_SessionWindows):
    """``ProcessingTimeSessionWindows`` and ``DynamicProcessingTimeSessionWindows``."""

    is_event_time = False

    @classmethod
    def with_gap(cls, gap: Duration) -> ProcessingTimeSessionWindows:
        """A gap for all."""
        return cls(_positive(millis(gap)))

    @classmethod
    def with_dynamic_gap(cls, gap: Callable[[Any], Duration]) -> ProcessingTimeSessionWindows:
        """A gap for every element."""
        return cls(gap)

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> list[TimeWindow]:
        """One, which may merge with others."""
        return self._at(element, processing_time)


class GlobalWindows(WindowAssigner):
    """``GlobalWindows``: one window, which never fires by itself."""

    is_event_time = False
    window_type = "GLOBAL_WINDOW"

    @classmethod
    def create(cls) -> GlobalWindows:
        """The assigner."""
        return cls()

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> list[GlobalWindow]:
        """The one."""
        return [GlobalWindow()]

    def default_trigger(self) -> Trigger:
        """None that fires."""
        return NeverTrigger()
