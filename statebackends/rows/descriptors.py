"""Descriptors for writers: the states of an operator with their serializers, fixed on the driver before any task runs.

A descriptor connects a column of the DataFrame with a registered state: its name, kind, and serializer as recorded in
the snapshot. Descriptors pickle, and tasks need nothing else to encode. ``describe_state.py`` makes them from a schema
and options. Flink: ``StateDescriptor``, ``RegisteredKeyValueStateBackendMetaInfo``,
``RegisteredPriorityQueueStateBackendMetaInfo``, ``RegisteredOperatorStateBackendMetaInfo``,
``RegisteredBroadcastStateBackendMetaInfo``.

Timer queues are the timers of one service as a file registers them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import UndecodableStateError
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.serializers.basic.primitives import ConstantSerializer
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer, MapSerializer
from pyspark_savepoint.formats.serializers.runtime.operators import TimerSerializer
from pyspark_savepoint.formats.serializers.runtime.ttl import TtlSerializer

if TYPE_CHECKING:
    from pyspark_savepoint.formats.metadata.operator_handles import Mode
    from pyspark_savepoint.formats.serializers.base import TypeSerializer

#: The namespace of state that has one value per key.
NO_NAMESPACE = ConstantSerializer.of(
    "org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot"
)
#: Namespace columns of window state and of timers.
WINDOW_COLUMN, STATE_WINDOW, NAMESPACE_COLUMN = "window", "state_window", "namespace"
#: States of window operators that are kept under the state window of a session; those of triggers are not.
WINDOW_CONTENTS = ("window-contents", "window-aggs")
#: What precedes the names of states that PyFlink registers.
PYTHON_PREFIX = "python-state-"
#: Metadata of column ``window``: the state that names the sessions which its values are.
SESSIONS = b"sessions"
#: The timer service of ``KeyedProcessFunction``; window operators have ``window-timers``.
USER_TIMERS, WINDOW_TIMERS = "user-timers", "window-timers"
TIMER_PREFIX = "_timer_state/"
TIMER_DOMAINS = ("event", "processing")


class StateKind(StrEnum):
    """Kind of a state: ``StateDescriptor.Type``, or a timer, which is an entry of a priority queue state."""

    VALUE = "VALUE"
    LIST = "LIST"
    MAP = "MAP"
    REDUCING = "REDUCING"
    AGGREGATING = "AGGREGATING"
    TIMER = "TIMER"


@dataclass(frozen=True)
class StateDescriptor:
    """Descriptor of one keyed state.

    ``serializer`` is recorded in the snapshot: LIST<E>, MAP<K, V> or TIMER<K, N>, TTL-wrapped if values have a time to
    live. ``column`` is a column of the DataFrame, empty for timers because a timer is a whole row. ``last_access`` is
    the column with the times of last access of values with a time to live, if there is one.
    """

    name: str
    kind: StateKind
    serializer: TypeSerializer
    namespace: TypeSerializer = NO_NAMESPACE
    column: str = ""
    last_access: str | None = None

    @property
    def units(self) -> tuple[TypeSerializer, ...]:
        """Return the serializers of one unit: the value; a list's element; a map's user key and value."""
        if self.kind is StateKind.LIST and isinstance(self.serializer, ListSerializer):
            return (self.serializer.element,)
        if self.kind is StateKind.MAP and isinstance(self.serializer, MapSerializer):
            return self.serializer.nested
        return (self.serializer,)

    @property
    def has_ttl(self) -> bool:
        """Return whether every unit carries the time of its last access."""
        return isinstance(self.units[-1], TtlSerializer)

    @property
    def domain(self) -> str:
        """Return the domain of timers: ``event`` or ``processing``."""
        return service_of(self.name)[0] or ""

    @property
    def service(self) -> str:
        """Return the name of the timer service."""
        return service_of(self.name)[1]

    def meta_info(self) -> StateMetaInfoSnapshot:
        """Return the registration as Flink writes it, with maps in the order of Java's hash maps."""
        if self.kind is StateKind.TIMER:
            return StateMetaInfoSnapshot(
                self.name, BackendStateType.PRIORITY_QUEUE, {}, {"VALUE_SERIALIZER": self.serializer}
            )
        serializers = {"VALUE_SERIALIZER": self.serializer, "NAMESPACE_SERIALIZER": self.namespace}
        options = {"KEYED_STATE_TYPE": self.kind.value}
        return StateMetaInfoSnapshot(self.name, BackendStateType.KEY_VALUE, options, serializers)


@dataclass(frozen=True)
class KeyedDescriptor:
    """Descriptor of the keyed state, timers or windows of one operator.

    ``key_columns`` form the key: one column, or the fields of a composite in the order of the serializer's fields.
    ``namespace`` is None for state without namespaces; otherwise its values are in ``namespace_column``. ``key_group``
    is the column with every row's key group, required if only user code defines the key's hash. ``composite``: the
    key is a struct of the columns, even of a single one (a ``Tuple1``, as ``keyBy("id")`` makes it).
    """

    key_columns: tuple[str, ...]
    key_serializer: TypeSerializer
    states: tuple[StateDescriptor, ...]
    namespace: TypeSerializer | None = None
    namespace_column: str | None = None
    key_group: str | None = None
    composite: bool = False

    @property
    def is_composite(self) -> bool:
        """Return whether the key is a struct of its columns, rather than a column."""
        return self.composite or len(self.key_columns) > 1

    def header(self, compressed: bool = False) -> KeyedBackendHeader:
        """Return the header of a canonical state file; states are numbered in their order."""
        metas = tuple(state.meta_info() for state in self.states)
        return KeyedBackendHeader(compressed, self.key_serializer, metas)


@dataclass(frozen=True)
class OperatorStateDescriptor:
    """Descriptor of one list, union or broadcast state.

    List and union state have an ``element``, broadcast state a ``key`` and an ``element``. ``columns`` are the columns
    of the DataFrame: the value, or key and value.
    """

    name: str
    mode: Mode
    element: TypeSerializer
    key: TypeSerializer | None = None
    columns: tuple[str, ...] = ("value",)

    def meta_info(self) -> StateMetaInfoSnapshot:
        """Return the registration as Flink writes it."""
        options = {"OPERATOR_STATE_DISTRIBUTION_MODE": self.mode.name}
        serializers = {"VALUE_SERIALIZER": self.element}
        if self.key is None:
            return StateMetaInfoSnapshot(self.name, BackendStateType.OPERATOR, options, serializers)
        serializers["KEY_SERIALIZER"] = self.key
        return StateMetaInfoSnapshot(self.name, BackendStateType.BROADCAST, options, serializers)


def timer_states(
    key: TypeSerializer, namespace: TypeSerializer = NO_NAMESPACE, services: tuple[str, ...] = (USER_TIMERS,)
) -> tuple[StateDescriptor, ...]:
    """Return both queues (event and processing time) of every service: Flink always registers both."""
    return tuple(
        StateDescriptor(
            timer_state_name(domain, service), StateKind.TIMER, TimerSerializer.of(key, namespace), namespace
        )
        for service in services
        for domain in TIMER_DOMAINS
    )


def service_of(name: str) -> tuple[str | None, str]:
    """Return domain and service of a timer state's name.

    >>> service_of("_timer_state/event_user-timers")
    ('event', 'user-timers')
    """
    if name.startswith(TIMER_PREFIX):
        domain, _, service = name[len(TIMER_PREFIX) :].partition("_")
        if domain in TIMER_DOMAINS:
            return domain, service
    return None, name


def timer_state_name(domain: str | None, service: str) -> str:
    """Return the name of the state in which Flink keeps the timers of a domain and service.

    >>> timer_state_name("event", "user-timers")
    '_timer_state/event_user-timers'
    """
    return f"{TIMER_PREFIX}{domain}_{service}"


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
    queues = []
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
            queues.append((i, TimerQueue(domain, service, *parts)))
    return queues
