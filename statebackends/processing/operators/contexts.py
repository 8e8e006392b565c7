"""Contexts that bootstrap and process functions get with every element."""

from __future__ import annotations

from typing import Any

from pyspark_savepoint.statebackends.processing.api.timers import Timers, TimerService, now_millis
from pyspark_savepoint.statebackends.processing.backends.backend import KeyedStateBackend


class KeyedElementContext:
    """Time and key of an element; the operator sets ``time``."""

    __slots__ = ("_backend", "_domain", "_service", "time")

    def __init__(self, backend: KeyedStateBackend, timers: Timers) -> None:
        self.time: int | None = None
        self._backend = backend
        self._service = TimerService(timers)
        self._domain = ""

    def timestamp(self) -> int | None:
        """Return the element's milliseconds from ``assign_timestamps`` (a timer's own time), or None."""
        return self.time

    def timer_service(self) -> TimerService:
        """Return the timers of the key."""
        return self._service

    def get_current_key(self) -> Any:
        return self._backend.key

    def time_domain(self) -> str:
        """Return the domain of a firing timer: ``event`` or ``processing``."""
        return self._domain

    def firing(self, timestamp: int, domain: str) -> None:
        self.time, self._domain = timestamp, domain


class PlainContext:
    """Context of functions without key."""

    __slots__ = ("time",)

    def __init__(self) -> None:
        self.time: int | None = None

    def timestamp(self) -> int | None:
        """Return the element's milliseconds from ``assign_timestamps``, or None without it."""
        return self.time

    def current_processing_time(self) -> int:
        """Return milliseconds since 1970."""
        return now_millis()
