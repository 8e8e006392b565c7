"""Description of a job for a restore: operators with their ids, parallelism and types of state.

It is given as a mapping (or its JSON), or made from a stream graph, from the plan of the REST interface, or from
another snapshot, such as one that the new version of the job took::

    {
        "parallelism": 4,
        "maxParallelism": 128,              only if the job sets it
        "flinkVersion": "2.2",              default: that of the snapshot
        "stateBackend": "rocksdb",          default: any; a change must suit all backends
        "classes": ["com.shop.Order"],      classes that the job has besides those in its types
        "inferredBy": "2.2",                types stand for classes, from which that release infers types;
                                            default: types are serializers as written
        "typesFrom": ["/jobs/shop.jar"],    class files, whose classes types may name: "com.shop.Order"
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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.enums import EnumSerializer
from pyspark_savepoint.formats.serializers.composite.collections import GenericArraySerializer
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.composite.tuples import FieldsSerializer
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.serializers.runtime.generic import GenericSerializer
from pyspark_savepoint.statebackends.jobs.compatibility.compatibility import Flink
from pyspark_savepoint.statebackends.jobs.graph.hashers import OperatorIDPair

#: Packages that are always on the class path.
ALWAYS_THERE = ("java.", "javax.", "scala.", "org.apache.flink.", "org.apache.avro.")


def user_classes(serializer: TypeSerializer) -> frozenset[str]:
    """Return the Java names of classes that only the job provides."""
    names = {name for name in _names(serializer) if "." in name and not name.startswith((*ALWAYS_THERE, "["))}
    return frozenset(names.union(*(user_classes(child) for child in serializer.children)))


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
    broadcast state; ``namespace`` is None if unknown.
    """

    name: str
    kind: str
    serializer: TypeSerializer
    key: TypeSerializer | None = None
    namespace: TypeSerializer | None = None


@dataclass(frozen=True)
class OperatorDescription:
    """Operator of the job.

    ``task`` is equal for operators that are chained, ``place`` is the operator's index in the list of the job vertex. A
    source that ``is_inlined`` runs inside an operator with several inputs: no job vertex lists it, so Flink restores no
    state of it. ``keyed_states`` and ``operator_states`` are None if unknown; ``key`` is None if the operator is not
    keyed, or if that is unknown. ``max_parallelism`` is None unless the job sets it.
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

    @property
    def serializers(self) -> Iterator[TypeSerializer]:
        """Yield the serializers of its key and states, as far as they are known."""
        states = (*(self.keyed_states or {}).values(), *(self.operator_states or {}).values())
        parts = (self.key, *(part for state in states for part in (state.serializer, state.key, state.namespace)))
        yield from (part for part in parts if part is not None)


@dataclass(frozen=True)
class JobDescription:
    """Description of a job.

    ``unidentified`` are names of operators with unknown ids: those after the head of a chain in a plan of the REST
    interface. ``classes`` are classes of the job besides those of its types. ``notes`` are the assumptions made.
    """

    operators: tuple[OperatorDescription, ...]
    flink_version: Flink | None = None
    state_backend: str | None = None
    unidentified: tuple[str, ...] = ()
    classes: frozenset[str] = frozenset()
    notes: tuple[str, ...] = field(default=())

    @cached_property
    def user_classes(self) -> frozenset[str]:
        """Return the classes that the job is known to have: those named, and those in its types."""
        found = set(self.classes)
        for operator in self.operators:
            for serializer in operator.serializers:
                found |= user_classes(serializer)
        return frozenset(found)
