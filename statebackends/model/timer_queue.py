"""Timer queues: the timers of one service as a file registers them."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_savepoint.formats.errors import UndecodableStateError
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, KeyedBackendHeader
from pyspark_savepoint.formats.serializers.base import TypeSerializer

PREFIX = "_timer_state/"
TIMER_DOMAINS = ("event", "processing")


def service_of(name: str) -> tuple[str | None, str]:
    """Return domain and service of a timer state's name.

    >>> service_of("_timer_state/event_user-timers")
    ('event', 'user-timers')
    """
    if name.startswith(PREFIX):
        domain, _, service = name[len(PREFIX) :].partition("_")
        if domain in TIMER_DOMAINS:
            return domain, service
    return None, name


def timer_state_name(domain: str | None, service: str) -> str:
    """Return the name of the state in which Flink keeps the timers of a domain and service.

    >>> timer_state_name("event", "user-timers")
    '_timer_state/event_user-timers'
    """
    return f"{PREFIX}{domain}_{service}"


@dataclass(frozen=True)
class TimerQueue:
    """Timers of one state in one file: domain and service of its rows, and the serializers of a timer."""

    domain: str | None
    service: str
    key: TypeSerializer
    namespace: TypeSerializer

    @property
    def state_name(self) -> str:
        """Return the name of the timers' state, also of timers in raw keyed state, where Flink records no such name."""
        return timer_state_name(self.domain, self.service)


def timer_queues(header: KeyedBackendHeader) -> list[tuple[int, TimerQueue]]:
    """Return the timer states of a file, by id."""
    found = []
    for i, meta in enumerate(header.states):
        if meta.kind is BackendStateType.PRIORITY_QUEUE:
            domain, service = service_of(meta.name)
            parts = meta.value_serializer.children
            if len(parts) != 2:
                raise UndecodableStateError(
                    f"timer state {meta.name!r} has an unknown serializer",
                    state=meta.name,
                    found=meta.value_serializer.flink_type,
                    remedy="plug in a serializer (entry point group 'pyspark_savepoint.serializers')",
                )
            found.append((i, TimerQueue(domain, service, *parts)))
    return found
