"""Evictors: which elements of a window go when it fires.

Flink: ``org.apache.flink.streaming.api.windowing.evictors``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark_savepoint.statebackends.processing.api.durations import Duration, millis


class Record(NamedTuple):
    """``TimestampedValue``; without ``assign_timestamps`` its timestamp is None."""

    value: Any
    timestamp: int | None


class Evictor(ABC):
    """``Evictor``: both methods give the records that stay."""

    @abstractmethod
    def evict_before(self, elements: list[Record], window: Any) -> list[Record]:
        """Before the window's function is called."""

    @abstractmethod
    def evict_after(self, elements: list[Record], window: Any) -> list[Record]:
        """After that."""


@dataclass(frozen=True)
class _Either(Evictor):
    """Evicts before or after."""

    do_evict_after: bool

    def _keep(self, elements: list[Record]) -> list[Record]:
        raise NotImplementedError

    def evict_before(self, elements: list[Record], window: Any) -> list[Record]:
        """Unless it evicts after."""
        return elements if self.do_evict_after or not elements else self._keep(elements)

    def evict_after(self, elements: list[Record], window: Any) -> list[Record]:
        """If it evicts after."""
        return self._keep(elements) if self.do_evict_after and elements else elements


@dataclass(frozen=True)
class CountEvictor(_Either):
    """Keeps the last so many."""

    max_count: int

    @classmethod
    def of(cls, max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """Keep the last so many."""
        return cls(do_evict_after, max_count)

    def _keep(self, elements: list[Record]) -> list[Record]:
        return elements[-self.max_count :] if self.max_count else []


@dataclass(frozen=True)
class TimeEvictor(_Either):
    """Keeps those of the last so many milliseconds; all, where records have no timestamps."""

    window_size: int

    @classmethod
    def of(cls, window_size: Duration, do_evict_after: bool = False) -> TimeEvictor:
        """Keep those of so long before the latest."""
        return cls(do_evict_after, millis(window_size))

    def _keep(self, elements: list[Record]) -> list[Record]:
        times = [record.timestamp for record in elements if record.timestamp is not None]
        if not times:
            return elements
        cutoff = max(times) - self.window_size
        return [record for record in elements if record.timestamp is None or record.timestamp > cutoff]


@dataclass(frozen=True)
class DeltaEvictor(_Either):
    """Keeps those that differ little from the last."""

    threshold: float
    delta: Callable[[Any, Any], float]

    @classmethod
    def of(cls, threshold: float, delta: Callable[[Any, Any], float], do_evict_after: bool = False) -> DeltaEvictor:
        """Keep those whose ``delta(element, last)`` is below the threshold."""
        return cls(do_evict_after, threshold, delta)

    def _keep(self, elements: list[Record]) -> list[Record]:
        last = elements[-1].value
        # Not "is below": a difference that is NaN evicts nothing.
        return [record for record in elements if not self.delta(record.value, last) >= self.threshold]
