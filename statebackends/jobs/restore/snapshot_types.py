"""States of an operator of a snapshot with their serializers, from the headers of its streams."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field

from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.jobs.graph.hashers import OperatorIDPair
from pyspark_savepoint.statebackends.jobs.restore.job_description import (
    JobDescription,
    OperatorDescription,
    StateDescription,
)
from pyspark_savepoint.statebackends.sources.keyed_plan import is_key_value
from pyspark_savepoint.statebackends.sources.keyed_sources import keyed_sources
from pyspark_savepoint.statebackends.sources.operator_sources import operator_sources

StateMetas = dict[str, tuple[StateMetaInfoSnapshot, ...]]


@dataclass(frozen=True)
class RegisteredStates:
    """Key serializers and states by name; if subtasks differ, each distinct form is listed once."""

    keys: tuple[TypeSerializer, ...] = ()
    keyed: StateMetas = field(default_factory=dict)
    operator: StateMetas = field(default_factory=dict)

    @property
    def serializers(self) -> Iterator[TypeSerializer]:
        """Yield all serializers: of keys, namespaces and values."""
        yield from self.keys
        for states in (self.keyed, self.operator):
            for metas in states.values():
                for meta in metas:
                    yield from meta.serializers.values()


def registered_states(savepoint: Snapshot, operator: OperatorState) -> RegisteredStates:
    """Read the states from the headers of all subtasks."""
    headers = [source.header() for source in keyed_sources(savepoint, operator)]
    keys = tuple(dict.fromkeys(header.key_serializer for header in headers))
    keyed = _by_name(meta for header in headers for meta in header.states if is_key_value(meta))
    streams = [source.header() for source in operator_sources(savepoint, operator)]
    return RegisteredStates(keys, keyed, _by_name(meta for header in streams for meta in header.states))


def _by_name(metas: Iterable[StateMetaInfoSnapshot]) -> StateMetas:
    found: dict[str, dict[Hashable, StateMetaInfoSnapshot]] = {}
    for meta in metas:
        # Mappings cannot be hashed, what is in them can.
        parts = meta.kind, frozenset(meta.options.items()), frozenset(meta.serializers.items())
        found.setdefault(meta.name, {}).setdefault(parts, meta)
    return {name: tuple(registered.values()) for name, registered in found.items()}


def from_snapshot(savepoint: Snapshot) -> JobDescription:
    """Describe the job that took a snapshot by its ids, parallelism and states, with max parallelism not set."""
    operators = []
    for number, operator in enumerate(savepoint.operators):
        states = registered_states(savepoint, operator)
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
            )
        )
    return JobDescription(tuple(operators), notes=("the job does not set max parallelism",))


def _describe(meta: StateMetaInfoSnapshot) -> StateDescription:
    key = meta.serializers.get("KEY_SERIALIZER") if meta.kind is BackendStateType.BROADCAST else None
    namespace = meta.serializers.get("NAMESPACE_SERIALIZER")
    return StateDescription(meta.name, meta.state_type, meta.value_serializer, key, namespace)
