"""Description of a job for a restore: operators with their ids, parallelism and types of state.

It is given as a mapping (or its JSON), or made from a stream graph, from the plan of the REST interface, or from
another snapshot, such as one that the new version of the job took (:func:`from_snapshot`, which reads the states and
their serializers from the headers of its streams)::

    {
        "parallelism": 4,
        "maxParallelism": 128,              only if the job sets it
        "flinkVersion": "2.2",              default: that of the snapshot
        "stateBackend": "rocksdb",          default: any; a change must suit all backends
        "javaClasses": ["com.shop.Order"],  classes that the job has besides those in its types
        "inferredBy": "2.2",                types stand for classes, from which that release infers types;
                                            default: types are serializers as written
        "classes": ["/jobs/shop.jar"],      jars and folders of class files: with "inferredBy" types may name their
                                            classes; they describe values that Kryo wrote, too
        "operators": [
            {
                "uid": "accounts",          or "uidHash", or "generatedId": 32 hex digits
                "parallelism": 8,
                "key": "LONG",
                "states": {
                    "total": "DOUBLE",
                    "recent": {"kind": "LIST", "type": "LONG", "ttl": true},
                    "spent": {"kind": "MAP", "key": "STRING", "type": "LONG"},
                    "window-contents": {"kind": "REDUCING", "type": "LONG", "namespace": "TIME_WINDOW"}
                },
                "operatorStates": {"rates": {"kind": "BROADCAST", "key": "STRING", "type": "DOUBLE"}}
            }
        ]
    }

Types are in the notation of ``formats.serializers.notation``, or serializers. An operator without ``states`` is checked
only by its ids and parallelism. Flink: ``ExecutionJobVertex``, ``StateDescriptor``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from pyspark_savepoint.formats.flink_releases import Flink
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.enums import EnumSerializer
from pyspark_savepoint.formats.serializers.composite.collections import (
    GenericArraySerializer,
    ListSerializer,
    MapSerializer,
)
from pyspark_savepoint.formats.serializers.composite.fields import FieldsSerializer
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.runtime.generic import GenericSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.jobs.graph.operator_ids import OperatorIDPair
from pyspark_savepoint.statebackends.rows.descriptors import service_of
from pyspark_savepoint.statebackends.rows.entry_bytes import is_timer
from pyspark_savepoint.statebackends.rows.state_column import unit_serializers
from pyspark_savepoint.statebackends.sources.keyed_plan import is_key_value
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator, headers_ahead

#: Packages that are always on the class path.
ALWAYS_THERE = ("java.", "javax.", "scala.", "org.apache.flink.", "org.apache.avro.")


def user_classes(serializer: TypeSerializer) -> frozenset[str]:
    """Return the Java names of classes that only the job provides."""
    names = (name for part in serializer.all_parts() for name in _names(part))
    return frozenset(name for name in names if "." in name and not name.startswith((*ALWAYS_THERE, "[")))


def _names(serializer: TypeSerializer) -> Iterator[str]:
    if isinstance(serializer, PojoSerializer):
        yield serializer.class_name
    if isinstance(serializer, EnumSerializer):
        yield serializer.enum_class
    if isinstance(serializer, (KryoSerializer, GenericSerializer)):
        yield serializer.type_class
    if isinstance(serializer, FieldsSerializer):
        yield serializer.class_name
    if isinstance(serializer, GenericArraySerializer):
        yield serializer.component_class


KEYED_KINDS = ("VALUE", "LIST", "MAP", "REDUCING", "AGGREGATING")
OPERATOR_KINDS = ("LIST", "UNION", "BROADCAST")


@dataclass(frozen=True)
class StateDescription:
    """State that the job registers.

    ``serializer`` is that of the whole value: LIST<E>, MAP<K, V>, TTL-wrapped. ``key`` is the key serializer of
    broadcast state; ``namespace`` is None if unknown. ``kind_is_given`` and ``ttl_is_given``: the job says its kind,
    and whether it has a time to live; else both are what its type suggests. ``text`` is its type as a listing shows it;
    ``serializer`` is not used where ``is_readable`` is False: no text describes all of such a type.
    """

    name: str
    kind: str
    serializer: TypeSerializer
    key: TypeSerializer | None = None
    namespace: TypeSerializer | None = None
    kind_is_given: bool = True
    ttl_is_given: bool = True
    text: str | None = None
    is_readable: bool = True


@dataclass(frozen=True)
class OperatorDescription:
    """Operator of the job.

    ``task`` is equal for operators that are chained, ``place`` is the operator's index in the list of the job vertex. A
    source that ``is_inlined`` runs inside an operator with several inputs: no job vertex lists it, so Flink restores no
    state of it. ``keyed_states`` and ``operator_states`` are None if unknown; ``key`` is None if the operator is not
    keyed, or if that is unknown; ``key_text`` is its type as a listing shows it. ``max_parallelism`` is None unless the
    job sets it. ``timers`` are the services of its timers, None if they are unknown.
    """

    label: str
    ids: OperatorIDPair
    task: int
    parallelism: int
    max_parallelism: int | None = None
    uid: str | None = None
    name: str | None = None
    place: int = 0
    is_inlined: bool = False
    key: TypeSerializer | None = None
    keyed_states: Mapping[str, StateDescription] | None = None
    operator_states: Mapping[str, StateDescription] | None = None
    key_text: str | None = None
    timers: frozenset[str] | None = None

    @property
    def serializers(self) -> Iterator[TypeSerializer]:
        """Yield the serializers of its key and states, as far as they are known."""
        described_states = (*(self.keyed_states or {}).values(), *(self.operator_states or {}).values())
        states = [state for state in described_states if state.is_readable]
        parts = (self.key, *(part for state in states for part in (state.serializer, state.key, state.namespace)))
        yield from (part for part in parts if part is not None)


@dataclass(frozen=True)
class TaskEdge:
    """Data from one task to another; ``all_to_all``: from every subtask to every subtask."""

    source: int
    target: int
    all_to_all: bool


@dataclass(frozen=True)
class JobDescription:
    """Description of a job.

    ``unidentified`` are names of operators with unknown ids: those after the head of a chain in a plan of the REST
    interface. ``classes`` are classes of the job besides those of its types. ``notes`` are the assumptions made.
    ``edges`` are those between tasks, None if chains and edges are not known. ``without_uids`` are the names of
    operators that may have uids: an execution plan does not contain them.
    """

    operators: tuple[OperatorDescription, ...]
    flink_version: Flink | None = None
    state_backend: str | None = None
    unidentified: tuple[str, ...] = ()
    classes: frozenset[str] = frozenset()
    notes: tuple[str, ...] = field(default=())
    edges: tuple[TaskEdge, ...] | None = None
    without_uids: tuple[str, ...] = ()

    @cached_property
    def user_classes(self) -> frozenset[str]:
        """Return the classes that the job is known to have: those named, and those in its types."""
        classes = set(self.classes)
        for operator in self.operators:
            for serializer in operator.serializers:
                classes |= user_classes(serializer)
        return frozenset(classes)


StateMetas = dict[str, tuple[StateMetaInfoSnapshot, ...]]


@dataclass(frozen=True)
class RegisteredStates:
    """Key serializers and states by name; if subtasks differ, each distinct form is listed once."""

    keys: tuple[TypeSerializer, ...] = ()
    keyed: StateMetas = field(default_factory=dict)
    operator: StateMetas = field(default_factory=dict)
    #: The services of timers; None if only the timers themselves say them, which are not read.
    timers: frozenset[str] | None = frozenset()

    @property
    def serializers(self) -> Iterator[TypeSerializer]:
        """Yield all serializers: of keys, namespaces and values."""
        yield from self.keys
        for states in (self.keyed, self.operator):
            for metas in states.values():
                for meta in metas:
                    yield from meta.serializers.values()


def registered_states(opened: OpenOperator) -> RegisteredStates:
    """Read the states from the headers of all subtasks."""
    headers = opened.keyed.headers
    keys = tuple(dict.fromkeys(header.key_serializer for header in headers))
    keyed = _by_name(_with_whole_value(meta) for header in headers for meta in header.states if is_key_value(meta))
    services = frozenset(service_of(meta.name)[1] for header in headers for meta in header.states if is_timer(meta))
    return RegisteredStates(keys, keyed, _by_name(opened.operator_states), None if opened.raw_timers else services)


def _with_whole_value(meta: StateMetaInfoSnapshot) -> StateMetaInfoSnapshot:
    """Return a state of the asynchronous API, which registers parts of lists and maps, as others register theirs."""
    if meta.kind is not BackendStateType.KEY_VALUE_V2 or meta.state_type not in ("LIST", "MAP"):
        return meta
    units = unit_serializers(meta)
    whole = ListSerializer.of(*units) if meta.state_type == "LIST" else MapSerializer.of(*units)
    serializers = {"NAMESPACE_SERIALIZER": meta.serializers["NAMESPACE_SERIALIZER"], "VALUE_SERIALIZER": whole}
    return replace(meta, kind=BackendStateType.KEY_VALUE, serializers=serializers)


def _by_name(metas: Iterable[StateMetaInfoSnapshot]) -> StateMetas:
    by_name: dict[str, dict[Hashable, StateMetaInfoSnapshot]] = {}
    for meta in metas:
        # Mappings cannot be hashed, what is in them can.
        parts = meta.kind, frozenset(meta.options.items()), frozenset(meta.serializers.items())
        by_name.setdefault(meta.name, {}).setdefault(parts, meta)
    return {name: tuple(registered.values()) for name, registered in by_name.items()}


def from_snapshot(savepoint: Snapshot, opened: Mapping[OperatorID, OpenOperator] | None = None) -> JobDescription:
    """Describe the job that took a snapshot by its ids, parallelism and states, with max parallelism not set.

    ``opened``: its operators, if they have been opened before.
    """
    opened = opened or {}
    operators = []
    with headers_ahead(savepoint, savepoint.operators):
        for number, operator in enumerate(savepoint.operators):
            states = registered_states(opened.get(operator.operator_id) or OpenOperator(savepoint, operator))
            operators.append(
                OperatorDescription(
                    label=repr(operator.uid or operator.name or str(operator.operator_id)),
                    uid=operator.uid,
                    name=operator.name,
                    ids=OperatorIDPair(operator.operator_id, "uid" if operator.uid else "uid hash"),
                    task=number,
                    parallelism=operator.parallelism,
                    key=states.keys[-1] if states.keys else None,
                    keyed_states={name: _describe(metas[-1]) for name, metas in states.keyed.items()},
                    operator_states={name: _describe(metas[-1]) for name, metas in states.operator.items()},
                    timers=states.timers,
                )
            )
    return JobDescription(tuple(operators), notes=("the job does not set max parallelism",))


def _describe(meta: StateMetaInfoSnapshot) -> StateDescription:
    key = meta.serializers.get("KEY_SERIALIZER") if meta.kind is BackendStateType.BROADCAST else None
    namespace = meta.serializers.get("NAMESPACE_SERIALIZER")
    return StateDescription(meta.name, meta.state_type, meta.value_serializer, key, namespace)
