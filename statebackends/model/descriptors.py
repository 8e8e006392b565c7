"""What a writer is given: the states of an operator with their serializers, fixed on the driver before any task runs.

A descriptor joins a column of the DataFrame with a registered state: its name, its kind, and its serializer as the
snapshot will have it. Descriptors pickle, and tasks need nothing else to encode. ``describe.py`` makes them from a
schema and options. Flink: ``StateDescriptor``, ``RegisteredKeyValueStateBackendMetaInfo``,
``RegisteredPriorityQueueStateBackendMetaInfo``, ``RegisteredOperatorStateBackendMetaInfo``,
``RegisteredBroadcastStateBackendMetaInfo``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.constants import ConstantSerializer
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer, MapSerializer
from pyspark_savepoint.formats.serializers.runtime.timers_and_sinks import TimerSerializer
from pyspark_savepoint.formats.serializers.runtime.ttl import TtlSerializer

#: The namespace of state that has one value per key.
NO_NAMESPACE = ConstantSerializer.of(
    "org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot"
)
#: The column of a window state's namespace, and that of a timer's.
WINDOW_COLUMN, NAMESPACE_COLUMN = "window", "namespace"
#: The timer service of ``KeyedProcessFunction``; window operators have ``window-timers``.
USER_TIMERS, WINDOW_TIMERS = "user-timers", "window-timers"
TIMER_DOMAINS = ("event", "processing")


class StateKind(StrEnum):
    """``StateDescriptor.Type``, and timers, which are states of a priority queue."""

    VALUE = "VALUE"
    LIST = "LIST"
    MAP = "MAP"
    REDUCING = "REDUCING"
    AGGREGATING = "AGGREGATING"
    TIMER = "TIMER"


class OperatorStateMode(StrEnum):
    """How operator state is redistributed: ``OperatorStateHandle.Mode``."""

    SPLIT_DISTRIBUTE = "SPLIT_DISTRIBUTE"
    UNION = "UNION"
    BROADCAST = "BROADCAST"


@dataclass(frozen=True)
class StateDescriptor:
    """One keyed state. ``serializer`` is what the snapshot records: LIST<E>, MAP<K, V>, TIMER<K, N>, TTL-wrapped where
    values have a time to live. ``column`` is the DataFrame's; of timers it is empty, for a timer is a whole row.
    ``last_access`` is the column with the times of last access of values with a time to live, where there is one.
    """

    name: str
    kind: StateKind
    serializer: TypeSerializer
    namespace: TypeSerializer = NO_NAMESPACE
    column: str = ""
    last_access: str | None = None

    @property
    def units(self) -> tuple[TypeSerializer, ...]:
        """What one unit of the state is made of: the value; of a list the element; of a map the user key and value."""
        if self.kind is StateKind.LIST and isinstance(self.serializer, ListSerializer):
            return (self.serializer.element,)
        if self.kind is StateKind.MAP and isinstance(self.serializer, MapSerializer):
            return self.serializer.nested
        return (self.serializer,)

    @property
    def has_ttl(self) -> bool:
        """Whether every unit carries the time of its last access."""
        return isinstance(self.units[-1], TtlSerializer)

    @property
    def domain(self) -> str:
        """Of timers: ``event`` or ``processing``."""
        return self.name.removeprefix("_timer_state/").partition("_")[0]

    @property
    def service(self) -> str:
        """Of timers: the service's name."""
        return self.name.removeprefix("_timer_state/").partition("_")[2]

    def meta_info(self) -> StateMetaInfoSnapshot:
        """As Flink registers it: options and serializers in the order in which Java's hash maps give them."""
        if self.kind is StateKind.TIMER:
            return StateMetaInfoSnapshot(
                self.name, BackendStateType.PRIORITY_QUEUE, {}, {"VALUE_SERIALIZER": self.serializer}
            )
        serializers = {"VALUE_SERIALIZER": self.serializer, "NAMESPACE_SERIALIZER": self.namespace}
        options = {"KEYED_STATE_TYPE": self.kind.value}
        return StateMetaInfoSnapshot(self.name, BackendStateType.KEY_VALUE, options, serializers)


@dataclass(frozen=True)
class KeyedDescriptor:
    """The keyed state of one operator, or its timers, or its windows.

    ``key_columns`` make the key: one column, or the fields of a composite in the order of the serializer's fields.
    ``namespace`` is None for state without one; else it is in ``namespace_column``. ``key_group`` is the column that
    says every row's key group, where only the user's code knows the key's hash. ``composite``: the key is a struct of
    the columns, also where there is just one (a ``Tuple1``, as ``keyBy("id")`` makes it).
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
        """Whether the key is a struct of its columns, rather than a column."""
        return self.composite or len(self.key_columns) > 1

    def header(self, compressed: bool = False) -> KeyedBackendHeader:
        """The head of a canonical state file; states have the numbers of their order."""
        metas = tuple(state.meta_info() for state in self.states)
        return KeyedBackendHeader(compressed, self.key_serializer, metas)


@dataclass(frozen=True)
class OperatorStateDescriptor:
    """One list, union or broadcast state: ``element`` of list and union state, else ``key`` and ``element``.

    ``columns`` are the DataFrame's: the value, or key and value.
    """

    name: str
    mode: OperatorStateMode
    element: TypeSerializer
    key: TypeSerializer | None = None
    columns: tuple[str, ...] = ("value",)

    def meta_info(self) -> StateMetaInfoSnapshot:
        """As Flink registers it."""
        options = {"OPERATOR_STATE_DISTRIBUTION_MODE": self.mode.value}
        serializers = {"VALUE_SERIALIZER": self.element}
        if self.key is None:
            return StateMetaInfoSnapshot(self.name, BackendStateType.OPERATOR, options, serializers)
        serializers["KEY_SERIALIZER"] = self.key
        return StateMetaInfoSnapshot(self.name, BackendStateType.BROADCAST, options, serializers)


def timer_states(
    key: TypeSerializer, namespace: TypeSerializer = NO_NAMESPACE, services: tuple[str, ...] = (USER_TIMERS,)
) -> tuple[StateDescriptor, ...]:
    """Both queues of every service: Flink registers both, whatever timers there are."""
    return tuple(
        StateDescriptor(
            f"_timer_state/{domain}_{service}", StateKind.TIMER, TimerSerializer.of(key, namespace), namespace
        )
        for service in services
        for domain in TIMER_DOMAINS
    )
