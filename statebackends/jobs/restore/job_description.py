"""A job as a restore sees it: operators with their ids, parallelism and types of state.

It is given as a mapping (or its JSON), made from a stream graph, from the plan of the REST interface, or from another
snapshot, such as one that the new version of the job took::

    {
        "parallelism": 4,
        "maxParallelism": 128,              only where the job sets it
        "flinkVersion": "2.2",              otherwise that of the snapshot
        "stateBackend": "rocksdb",          otherwise what any of them refuses is refused
        "classes": ["com.shop.Order"],      classes that the job has beside those in its types
        "inferredBy": "2.2",                types in words stand for classes, of which that release infers types;
                                            else they are serializers, word by word
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

Types are in the notation of ``formats.serializers.notation``, or serializers. An operator whose ``states`` are not
given is checked by its ids and parallelism alone. Flink: ``ExecutionJobVertex``, ``StateDescriptor``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.statebackends.jobs.compatibility.compatibility import Flink
from pyspark_savepoint.statebackends.jobs.graph.hashers import OperatorIDPair
from pyspark_savepoint.statebackends.jobs.restore.user_classes import user_classes

KEYED_KINDS = ("VALUE", "LIST", "MAP", "REDUCING", "AGGREGATING")
OPERATOR_KINDS = ("LIST", "UNION", "BROADCAST")


@dataclass(frozen=True)
class StateDescription:
    """A state that the job registers. ``serializer`` is that of the whole value: LIST<E>, MAP<K, V>, TTL-wrapped.

    ``key`` is the key serializer of broadcast state; ``namespace`` None where nobody said.
    """

    name: str
    kind: str
    serializer: TypeSerializer
    key: TypeSerializer | None = None
    namespace: TypeSerializer | None = None


@dataclass(frozen=True)
class OperatorDescription:
    """An operator of the job. ``task`` is the same for operators that are chained, ``place`` its place in the list of
    the job vertex.

    A source ``is_inlined`` that runs inside an operator with several inputs: no job vertex lists it, so that Flink
    restores no state of it. ``keyed_states`` and ``operator_states`` are None where they are not known; ``key`` is None
    where the operator is not keyed, or that is not known either. ``max_parallelism`` is None unless the job sets it.
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
        """Those of its key and states, as far as they are known."""
        states = (*(self.keyed_states or {}).values(), *(self.operator_states or {}).values())
        parts = (self.key, *(part for state in states for part in (state.serializer, state.key, state.namespace)))
        yield from (part for part in parts if part is not None)


@dataclass(frozen=True)
class JobDescription:
    """A job. ``unidentified`` are names of operators whose ids are not known: those behind the head of a chain in a
    plan of the REST interface. ``classes`` are classes of the job beside those of its types. ``notes`` say what was
    taken for granted.
    """

    operators: tuple[OperatorDescription, ...]
    flink_version: Flink | None = None
    state_backend: str | None = None
    unidentified: tuple[str, ...] = ()
    classes: frozenset[str] = frozenset()
    notes: tuple[str, ...] = field(default=())

    @cached_property
    def user_classes(self) -> frozenset[str]:
        """Classes that the job is known to have: those named, and those in its types."""
        found = set(self.classes)
        for operator in self.operators:
            for serializer in operator.serializers:
                found |= user_classes(serializer)
        return frozenset(found)
