"""Timer queues: the timers of one service as a file registers them."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_savepoint.formats.errors import UndecodableStateError
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, KeyedBackendHeader
from pyspark_savepoint.formats.serializers.base import TypeSerializer

PREFIX = "_timer_state/"
DOMAINS = ("event", "processing")


def service_of(name: str) -> tuple[str | None, str]:
    """Return domain and service of a timer state's name.

    >>> service_of("_timer_state/event_user-timers")
    ('event', 'user-timers')
    """
    if name.startswith(PREFIX):
        domain, _, service = name[len(PREFIX) :].partition("_")
        if domain in DOMAINS:
            return domain, service
    return None, name


@dataclass(frozen=True)
class TimerQueue:
    """Timers of one state in one file: domain and service of its rows, and the serializers of a timer."""

    domain: str | None
    service: str
    key: TypeSerializer
    namespace: TypeSerializer


def timer_queues(header: KeyedBackendHeader) -> list[tuple[int, TimerQueue]]:
    """Return the timer states of a file, by id."""
    found = []
    for i, meta in enumerate(header.states):
        if meta.kind is BackendStateType.PRIORITY_QUEUE:
            domain, service = service_of(meta.name)
            parts = meta.value_serializer.children
            if len(parts) != 2:
                raise UndecodableStateError(
                    f"timer state {meta.name!r} has a serializer of its own",
                    state=meta.name,
                    found=meta.value_serializer.flink_type,
                    remedy="plug in a serializer (entry point group 'pyspark_savepoint.serializers')",
                )
            found.append((i, TimerQueue(domain, service, *parts)))
    return found
