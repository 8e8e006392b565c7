"""Windows and window assigners. All times are in milliseconds, sizes also timedeltas.

Flink: ``org.apache.flink.streaming.api.windowing.windows`` and ``.assigners``.
"""

from __future__ import annotations

import random
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Self

from pyspark_savepoint.formats.errors import OptionError, ValueRangeError
from pyspark_savepoint.statebackends.processing.api.timers import MAX_WATERMARK, MIN_WATERMARK, Duration, millis
from pyspark_savepoint.statebackends.processing.api.triggers import (
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    Trigger,
)

_TWO_LONGS = struct.Struct(">qq")


class TimeWindow(NamedTuple):
    """Window from ``start`` (inclusive) to ``end`` (exclusive), in milliseconds since 1970.

    Flink: ``TimeWindow``.

    Args:
        start: The first millisecond of the window.
        end: The first millisecond after the window.

    Example::

        TimeWindow(0, 60_000).max_timestamp()  # 59_999

    """

    start: int
    end: int

    def max_timestamp(self) -> int:
        """Return the last millisecond of the window, ``end - 1``."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Return whether two windows overlap or touch.

        Args:
            other: The other window.

        Returns:
            True also if one begins where the other ends.

        """
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Return the smallest window that contains two windows.

        Args:
            other: The other window.

        Returns:
            The window from the earlier start to the later end.

        """
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    def to_bytes(self) -> bytes:
        """Return the 16 bytes of ``TimeWindow.Serializer``: start and end as big-endian longs."""
        return _TWO_LONGS.pack(self.start, self.end)

    @classmethod
    def from_bytes(cls, data: bytes) -> TimeWindow:
        """Return the window that :meth:`to_bytes` wrote.

        Args:
            data: 16 bytes.

        Returns:
            The window.

        """
        return cls(*_TWO_LONGS.unpack(data))


class GlobalWindow(NamedTuple):
    """The single window of :class:`GlobalWindows`, which contains all elements of a key.

    Flink: ``GlobalWindow``.

    Example::

        GlobalWindow() == GlobalWindow()  # True: all are equal
    """

    def max_timestamp(self) -> int:
        """Return the largest timestamp, 2^63 - 1."""
        return MAX_WATERMARK

    def to_bytes(self) -> bytes:
        """Return the zero byte that ``GlobalWindow.Serializer`` writes."""
        return b"\0"

    @classmethod
    def from_bytes(cls, data: bytes) -> GlobalWindow:
        """Return the window that :meth:`to_bytes` wrote.

        Args:
            data: One byte, which has no meaning.

        Returns:
            The window.

        """
        return cls()


class WindowAssigner(ABC):
    """Base class of window assigners, which choose the windows of each element.

    Flink: ``WindowAssigner``.

    Example::

        class ByDay(WindowAssigner):
            def assign_windows(self, element, timestamp, processing_time):
                start = timestamp - timestamp % 86_400_000
                return [TimeWindow(start, start + 86_400_000)]

    """

    #: Whether windows are in event time.
    is_event_time = True
    #: Whether windows that overlap or touch are merged.
    merges = False
    #: The type of its windows in Flink's notation.
    window_type = "TIME_WINDOW"

    @abstractmethod
    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> list[Any]:
        """Return the windows that an element belongs to.

        Args:
            element: The element.
            timestamp: Its timestamp in milliseconds. -2^63 without ``assign_timestamps``.
            processing_time: The wall-clock time in milliseconds since 1970.

        Returns:
            The windows.

        """

    def default_trigger(self) -> Trigger:
        """Return the trigger of windows for which the user sets none."""
        return EventTimeTrigger() if self.is_event_time else ProcessingTimeTrigger()


def window_start(timestamp: int, offset: int, size: int) -> int:
    """Return the start of the window of a timestamp, all in milliseconds.

    Flink: ``TimeWindow.getWindowStartWithOffset``.

    >>> window_start(-1, 0, 10), window_start(25, 3, 10)
    (-10, 23)
    """
    return timestamp - (timestamp - offset) % size


def _with_timestamp(timestamp: int) -> int:
    if timestamp == MIN_WATERMARK:
        raise OptionError(
            "a record has no timestamp, but event-time windows need one",
            remedy="assign_timestamps(...) before key_by(...)",
        )
    return timestamp


def _in_time(windows: list[TimeWindow]) -> list[TimeWindow]:
    """Return the windows, the last first, or raise ValueRangeError if a bound exceeds a long, where Flink overflows."""
    if windows and (windows[0].end > MAX_WATERMARK or windows[-1].start < MIN_WATERMARK):
        raise ValueRangeError(
            "the window of a record is out of the range of timestamps",
            expected=f"bounds from {MIN_WATERMARK} to {MAX_WATERMARK} milliseconds",
            found=f"{windows[0]}, {windows[-1]}" if len(windows) > 1 else f"{windows[0]}",
            remedy="filter records whose timestamp is a placeholder",
        )
    return windows


class WindowStagger(Enum):
    """Shift of the tumbling windows of a task against those of other tasks, so that not all windows end at once.

    ``ALIGNED``: no shift. ``RANDOM``: a random part of the size. ``NATURAL``: the processing time at which the task's
    first element arrived, relative to the start of the window that it would be in. Flink: ``WindowStagger``.

    Example::

        TumblingProcessingTimeWindows.of(timedelta(minutes=1), stagger=WindowStagger.NATURAL)
    """

    ALIGNED = "ALIGNED"
    RANDOM = "RANDOM"
    NATURAL = "NATURAL"

    def shift(self, processing_time: int, size: int) -> int:
        """Return the shift of a task whose first element arrives at a time.

        Args:
            processing_time: The wall-clock time in milliseconds since 1970.
            size: The size of the windows in milliseconds.

        Returns:
            Milliseconds, from 0 to less than the size.

        """
        if self is WindowStagger.ALIGNED:
            return 0
        return random.randrange(size) if self is WindowStagger.RANDOM else processing_time % size  # noqa: S311  (no secret)


@dataclass(frozen=True)
class _TimeWindows(WindowAssigner):
    """Windows of one size that start at multiples of ``slide``."""

    size: int
    slide: int
    offset: int = 0
    stagger: WindowStagger = WindowStagger.ALIGNED
    #: The shift of this task; None before its first element.
    _shift: list[int] = field(default_factory=list, init=False, compare=False, repr=False)

    def _at(self, time: int, processing_time: int) -> list[TimeWindow]:
        if self.stagger is not WindowStagger.ALIGNED:
            if not self._shift:
                self._shift.append(self.stagger.shift(processing_time, self.size))
            start = window_start(time, (self.offset + self._shift[0]) % self.size, self.size)
            return _in_time([TimeWindow(start, start + self.size)])
        if self.size == self.slide:
            start = time - (time - self.offset) % self.size
            return _in_time([TimeWindow(start, start + self.size)])
        last = window_start(time, self.offset, self.slide)
        return _in_time([TimeWindow(start, start + self.size) for start in range(last, time - self.size, -self.slide)])


def _check(size: int, slide: int, offset: int) -> None:
    if size <= 0 or slide <= 0 or abs(offset) >= slide:
        raise OptionError(
            "the size of the windows is not valid",
            expected="size and slide above 0, offset less than the slide",
            found=f"size {size}, slide {slide}, offset {offset}",
        )


def _stagger(stagger: WindowStagger) -> WindowStagger:
    """Return the stagger, or raise OptionError if it is none."""
    if not isinstance(stagger, WindowStagger):
        raise OptionError("the stagger of windows must be a WindowStagger", found=repr(stagger))
    return stagger


class _TumblingWindows(_TimeWindows):
    """Adjacent windows of one size."""

    @classmethod
    def of(cls, size: Duration, offset: Duration = 0, stagger: WindowStagger = WindowStagger.ALIGNED) -> Self:
        """Return an assigner of windows of one size.

        Args:
            size: The size of a window: milliseconds, or a timedelta of whole milliseconds.
            offset: The start of a window relative to 1970-01-01T00:00 UTC, smaller than the size.
            stagger: The shift of the windows of a task against those of others.

        Returns:
            The assigner.

        Raises:
            OptionError: If a duration is not one of whole milliseconds, or the size or offset is out of range.

        """
        _check(millis(size), millis(size), millis(offset))
        return cls(millis(size), millis(size), millis(offset), _stagger(stagger))


class TumblingEventTimeWindows(_TumblingWindows):
    """Window assigner of adjacent windows of one size, in event time.

    Flink: ``TumblingEventTimeWindows``.

    Example::

        keyed.window(TumblingEventTimeWindows.of(timedelta(minutes=1)))
    """

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> list[TimeWindow]:
        """Return the window of the element's timestamp.

        Args:
            element: The element.
            timestamp: Its timestamp in milliseconds.
            processing_time: The wall-clock time in milliseconds since 1970, from which a stagger may follow.

        Returns:
            One window.

        Raises:
            OptionError: If the element has no timestamp (-2^63).
            ValueRangeError: If a bound of a window is not a long.

        """
        return self._at(_with_timestamp(timestamp), processing_time)


class TumblingProcessingTimeWindows(_TumblingWindows):
    """Window assigner of adjacent windows of one size, in processing time.

    Flink: ``TumblingProcessingTimeWindows``.

    Example::

        keyed.window(TumblingProcessingTimeWindows.of(timedelta(minutes=1)))
    """

    is_event_time = False

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> list[TimeWindow]:
        """Return the window of the wall-clock time."""
        return self._at(processing_time, processing_time)


class _SlidingWindows(_TimeWindows):
    """Overlapping windows of one size."""

    @classmethod
    def of(cls, size: Duration, slide: Duration, offset: Duration = 0) -> Self:
        """Return an assigner of windows of one size that start every ``slide``.

        Args:
            size: The size of a window: milliseconds, or a timedelta of whole milliseconds.
            slide: The time from the start of one window to the next.
            offset: The start of a window relative to 1970-01-01T00:00 UTC, smaller than the slide.

        Returns:
            The assigner.

        Raises:
            OptionError: If a duration is not one of whole milliseconds, or is out of range.

        """
        _check(millis(size), millis(slide), millis(offset))
        return cls(millis(size), millis(slide), millis(offset))


class SlidingEventTimeWindows(_SlidingWindows):
    """Window assigner of overlapping windows of one size, in event time.

    Flink: ``SlidingEventTimeWindows``.

    Example::

        keyed.window(SlidingEventTimeWindows.of(timedelta(minutes=10), timedelta(minutes=1)))
    """

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> list[TimeWindow]:
        """Return all windows that contain the element's timestamp.

        Args:
            element: The element.
            timestamp: Its timestamp in milliseconds.
            processing_time: The wall-clock time in milliseconds since 1970. Not used.

        Returns:
            The windows, the last first.

        Raises:
            OptionError: If the element has no timestamp (-2^63).
            ValueRangeError: If a bound of a window is not a long.

        """
        return self._at(_with_timestamp(timestamp), processing_time)


class SlidingProcessingTimeWindows(_SlidingWindows):
    """Window assigner of overlapping windows of one size, in processing time.

    Flink: ``SlidingProcessingTimeWindows``.

    Example::

        keyed.window(SlidingProcessingTimeWindows.of(timedelta(minutes=10), timedelta(minutes=1)))
    """

    is_event_time = False

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> list[TimeWindow]:
        """Return all windows that contain the wall-clock time."""
        return self._at(processing_time, processing_time)


def _positive(gap: int) -> int:
    """Return the gap of a session window, or raise OptionError unless it is above 0."""
    if gap <= 0:
        raise OptionError("the gap of a session must be above 0", found=gap)
    return gap


@dataclass(frozen=True)
class _SessionWindows(WindowAssigner):
    """Windows of elements without a gap between them. ``gap`` is in milliseconds, or a function of an element."""

    gap: int | Callable[[Any], Duration]
    merges = True

    @classmethod
    def with_gap(cls, gap: Duration) -> Self:
        """Return an assigner with one gap for all elements.

        Args:
            gap: Milliseconds, or a timedelta of whole milliseconds. Above 0.

        Returns:
            The assigner.

        Raises:
            OptionError: If ``gap`` is not such a duration.

        """
        return cls(_positive(millis(gap)))

    @classmethod
    def with_dynamic_gap(cls, gap: Callable[[Any], Duration]) -> Self:
        """Return an assigner with a gap for each element.

        Args:
            gap: A function of an element that returns milliseconds or a timedelta, above 0.

        Returns:
            The assigner.

        """
        return cls(gap)

    def _at(self, element: Any, time: int) -> list[TimeWindow]:
        gap = millis(self.gap(element)) if callable(self.gap) else self.gap
        return _in_time([TimeWindow(time, time + _positive(gap))])


class EventTimeSessionWindows(_SessionWindows):
    """Window assigner of sessions, which end when no element arrives for a gap, in event time.

    Flink: ``EventTimeSessionWindows`` and ``DynamicEventTimeSessionWindows``.

    Example::

        keyed.window(EventTimeSessionWindows.with_gap(timedelta(minutes=30)))
    """

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> list[TimeWindow]:
        """Return the window from the element's timestamp to the end of its gap, which may be merged with others.

        Args:
            element: The element, which a dynamic gap is computed from.
            timestamp: Its timestamp in milliseconds.
            processing_time: The wall-clock time in milliseconds since 1970. Not used.

        Returns:
            One window.

        Raises:
            OptionError: If the element has no timestamp (-2^63), or its gap is not above 0.
            ValueRangeError: If a bound of a window is not a long.

        """
        return self._at(element, _with_timestamp(timestamp))


class ProcessingTimeSessionWindows(_SessionWindows):
    """Window assigner of sessions, which end when no element arrives for a gap, in processing time.

    Flink: ``ProcessingTimeSessionWindows`` and ``DynamicProcessingTimeSessionWindows``.

    Example::

        keyed.window(ProcessingTimeSessionWindows.with_dynamic_gap(lambda order: order.gap_millis))
    """

    is_event_time = False

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> list[TimeWindow]:
        """Return the window from now to the end of the element's gap, which may be merged with others."""
        return self._at(element, processing_time)


@dataclass(frozen=True)
class GlobalWindows(WindowAssigner):
    """Window assigner of one window per key, which fires only if a trigger is set.

    Flink: ``GlobalWindows``.

    Example::

        keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(100))
    """

    is_event_time = False
    window_type = "GLOBAL_WINDOW"

    trigger: Trigger = field(default_factory=NeverTrigger)

    @classmethod
    def create(cls) -> GlobalWindows:
        """Return the assigner, whose windows never fire without a trigger of the user."""
        return cls()

    @classmethod
    def create_with_end_of_stream_trigger(cls) -> GlobalWindows:
        """Return the assigner, whose windows fire at the end of the job's bounded input.

        Flink: ``GlobalWindows#createWithEndOfStreamTrigger``, from 1.20 on.
        """
        return cls(EndOfStreamTrigger())

    def assign_windows(self, element: Any, timestamp: int, processing_time: int) -> list[GlobalWindow]:
        """Return the global window."""
        return [GlobalWindow()]

    def default_trigger(self) -> Trigger:
        """Return the trigger that never fires, or the one that fires at the end of the input."""
        return self.trigger
