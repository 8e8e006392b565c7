"""Check of an operator that a job and a snapshot both have: its parallelism, its key, and each of its states.

=================== ==========================================================================================
the key             as is or reconfigured; Flink never migrates keys
the kind            VALUE, LIST, MAP, REDUCING, AGGREGATING and LIST, UNION must not change
the namespace       as is or reconfigured
the value           anything but incompatible; a map's keys do not migrate in RocksDB and ForSt
time to live        switched on or off: incompatible up to Flink 2.0, a migration since 2.2
=================== ==========================================================================================

Flink: ``StateAssignmentOperation#checkParallelismPreconditions``, and the checks of state backends when a task
registers its states: ``RegisteredKeyValueStateBackendMetaInfo#checkStateMetaInfo``, ``HeapKeyedStateBackend``,
``RocksDBKeyedStateBackend#tryRegisterKvStateInformation``, ``DefaultOperatorStateBackend``,
``TtlAwareSerializerSnapshot``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.flink_releases import NEWEST_FLINK, Flink
from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer, MapSerializer
from pyspark_savepoint.formats.serializers.runtime.ttl import TtlSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.jobs.compatibility import (
    AS_IS,
    Compatibility,
    Resolution,
    after_migration,
    crosses,
    incompatible,
    resolve_version,
    unknown,
    worst,
)
from pyspark_savepoint.statebackends.jobs.compatibility_rules import resolve
from pyspark_savepoint.statebackends.jobs.restore.job_description import (
    JobDescription,
    OperatorDescription,
    StateDescription,
    StateMetas,
    registered_states,
    user_classes,
)
from pyspark_savepoint.statebackends.jobs.restore.restore_plan import Match
from pyspark_savepoint.statebackends.jobs.restore.restore_verdicts import (
    OF_COMPATIBILITY,
    OperatorVerdict,
    StateVerdict,
    ValueVerdicts,
    Verdict,
)
from pyspark_savepoint.statebackends.jobs.restore.suggestions import Changed, renamed_states, suggestions
from pyspark_savepoint.statebackends.rows.descriptors import PYTHON_PREFIX
from pyspark_savepoint.statebackends.rows.state_column import has_ttl
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

#: The kind recorded by Flink up to 1.4: it is compatible with any kind.
UNKNOWN_KIND = "UNKNOWN"
OF_PYTHON = "a listing shows the types of PyFlink as the job has them, which are not compared"
#: Values migrate to and from a time to live since 2.2; 2.1 supports a part of that.
TTL_STAYS, TTL_MIGRATES = (2, 0), (2, 2)


def resolve_key(old: TypeSerializer, new: TypeSerializer, version: Flink) -> Resolution:
    """Compare keys, which cannot migrate because their hashes decide their place."""
    return _without_migration(resolve(old, new, version), "the key").within("key")


def _resolve_listed(old: StateMetaInfoSnapshot, new: StateDescription) -> Resolution | None:
    """Compare types as a listing shows them; None if that does not tell."""
    if old.state_type != new.kind:
        return incompatible(f"was registered as {old.state_type}, and is now {new.kind}")
    if old.value_serializer.flink_type == new.text:
        return AS_IS
    if new.is_readable:
        return None
    return unknown(f"was {old.value_serializer.flink_type}, and is {new.text}, of which a text does not say all")


#: What a description gives the type of, by the kind of a state.
_UNITS = {"LIST": "its elements", "MAP": "its values and, as 'key', that of its keys"}


def resolve_keyed_state(
    old: StateMetaInfoSnapshot, new: StateDescription, backend: str | None, version: Flink
) -> Resolution:
    """Compare a keyed state; if the backend is unknown, a change that any backend refuses is incompatible."""
    if not new.kind_is_given and old.state_type == "VALUE":
        new = replace(new, kind="VALUE")  # a list or map that is a value
    if old.state_type not in (new.kind, UNKNOWN_KIND):
        if not new.kind_is_given:
            return unknown(
                f"was registered as {old.state_type}, and the description does not say its kind: "
                f"add {{'kind': '{old.state_type}'}} if it is the same, with the type of "
                f"{_UNITS.get(old.state_type, 'its values')}"
            )
        return incompatible(f"was registered as {old.state_type}, and is now {new.kind}")
    if not new.ttl_is_given and has_ttl(old):
        return unknown(
            "has a time to live, and the description does not say whether it still has: add {'ttl': true} or "
            "{'ttl': false}"
        )
    resolutions = [_resolve_value(old.value_serializer, new.serializer, version)]
    if new.namespace is not None:
        namespace = resolve(old.namespace_serializer, new.namespace, version)
        resolutions.append(_without_migration(namespace, "the namespace").within("namespace"))
    if (
        backend != "hashmap"
        and isinstance(old.value_serializer, MapSerializer)
        and isinstance(new.serializer, MapSerializer)
    ):
        user_key = resolve(old.value_serializer.nested[0], new.serializer.nested[0], version)
        resolutions.append(_without_migration(user_key, "a map's key").within("the map's key"))
    return worst(resolutions)


def resolve_operator_state(old: StateMetaInfoSnapshot, new: StateDescription, version: Flink) -> Resolution:
    """Compare an operator state; a broadcast state and a list state of one name are separate states."""
    if old.state_type != new.kind and not new.kind_is_given:
        return unknown(
            f"was registered as {old.state_type}, and the description does not say its kind: "
            f"add {{'kind': '{old.state_type}'}} if it is the same"
        )
    if old.state_type != new.kind:
        if "BROADCAST" in (old.state_type, new.kind):
            return Resolution(
                Compatibility.AS_IS,
                (f"was a {old.state_type} state: the {new.kind} state of that name begins empty",),
            )
        return incompatible(f"was registered as {old.state_type}, and is now {new.kind}")
    resolutions = [resolve(old.value_serializer, new.serializer, version)]
    if new.key is not None:
        resolutions.append(resolve(old.serializers["KEY_SERIALIZER"], new.key, version).within("key"))
    return worst(resolutions)


def _resolve_value(old: TypeSerializer, new: TypeSerializer, version: Flink) -> Resolution:
    if isinstance(old, ListSerializer) and isinstance(new, ListSerializer):
        return _resolve_unit(old.nested[0], new.nested[0], version).within("the elements")
    if isinstance(old, MapSerializer) and isinstance(new, MapSerializer):
        key = resolve(old.nested[0], new.nested[0], version).within("the map's key")
        return worst([key, _resolve_unit(old.nested[1], new.nested[1], version).within("the map's value")])
    return _resolve_unit(old, new, version)


def _resolve_unit(old: TypeSerializer, new: TypeSerializer, version: Flink) -> Resolution:
    """Compare units that carry the time of last access: a value, an element, or the value of a map."""
    was, will = isinstance(old, TtlSerializer), isinstance(new, TtlSerializer)
    if was == will:
        return resolve(old, new, version)
    values = resolve(
        old.value if isinstance(old, TtlSerializer) else old,
        new.value if isinstance(new, TtlSerializer) else new,
        version,
    )
    switched = f"a time to live is switched {'off' if was else 'on'}"
    if version <= TTL_STAYS:
        return incompatible(f"{switched}, which only Flink 2.2 and later can do")
    if version < TTL_MIGRATES:
        return unknown(f"{switched}, which Flink 2.1 can do in part")
    if isinstance(old.value if isinstance(old, TtlSerializer) else old, ListSerializer):
        return incompatible(f"{switched} of a value that is a list, which Flink cannot do")  # elements carry it there
    return worst([after_migration(switched), values])


def _without_migration(resolution: Resolution, what: str) -> Resolution:
    if resolution.verdict is not Compatibility.AFTER_MIGRATION:
        return resolution
    return incompatible(f"{what} cannot migrate: {'; '.join(resolution.reasons)}") if resolution.reasons else AS_IS


ReasonedVerdict = tuple[Verdict, str]


def cannot_start(operator: OperatorDescription) -> str | None:
    """Return why a job cannot start, whatever it restores, or None."""
    if operator.max_parallelism is not None and operator.parallelism > operator.max_parallelism:
        return (
            f"the job does not start: parallelism {operator.parallelism} is above "
            f"its max parallelism {operator.max_parallelism}"
        )
    return None


class MatchedOperator:
    """Operator of the job and the state that it restores."""

    def __init__(
        self,
        savepoint: Snapshot,
        job: JobDescription,
        operator: OperatorDescription,
        match: Match,
        values: ValueVerdicts | None = None,
    ) -> None:
        self.savepoint, self.job, self.operator, self.match, self.values = savepoint, job, operator, match, values
        self.changed: list[Changed] = []
        self.renamed: list[str] = []

    @property
    def _named(self) -> str:
        """The operator as verbs take it."""
        return repr(self.match.state.uid or self.operator.uid or str(self.match.state.operator_id))

    def verdict(self) -> OperatorVerdict:
        """Return the verdict with all problems and the verdicts of its states."""
        problems = list(self._parallelism())
        states: list[StateVerdict] = []
        try:
            types, states = self._types()
            problems += types
        except SavepointError as error:
            problems.append((Verdict.UNKNOWN, f"the snapshot's types cannot be read: {error.message}"))
        if self.values is not None:
            problems += self.values.reasons
            states += self.values.states
        verdict = max(
            (verdict for verdict, _ in problems), key=lambda verdict: verdict.severity, default=Verdict.RESTORES
        )
        reasons = tuple(reason for found_verdict, reason in problems if found_verdict is verdict and reason)
        remedy = self._remedy(verdict, states)
        return OperatorVerdict(verdict, self.operator, self.match, reasons, remedy, tuple(states))

    def _parallelism(self) -> Iterator[ReasonedVerdict]:
        state, job = self.match.state, self.operator
        problem = cannot_start(job)
        if problem is not None:
            yield Verdict.FAILS, problem
        if job.max_parallelism is not None and job.max_parallelism != state.max_parallelism:
            yield (
                Verdict.FAILS,
                f"max parallelism {state.max_parallelism} in the snapshot, {job.max_parallelism} in the job",
            )
        if state.max_parallelism < job.parallelism:
            yield (
                Verdict.FAILS,
                f"parallelism {job.parallelism} is above the snapshot's max parallelism {state.max_parallelism}",
            )

    def _remedy(self, verdict: Verdict, states: list[StateVerdict]) -> str | None:
        by_values = self.values is not None and any(other is verdict for other, _ in self.values.reasons)
        if verdict is Verdict.FAILS and self._remedy_for_parallelism():
            return self._remedy_for_parallelism()
        if by_values and self.values is not None:
            return self.values.remedy
        if verdict is not Verdict.FAILS:
            return "; ".join(self.renamed) or None
        proposals = suggestions(self._named, self.changed)
        wrong = [state.state for state in states if state.verdict == Compatibility.INCOMPATIBLE]
        others = [name for name in wrong if name not in {state for one in proposals for state in one.states}]
        sentences = [one.text for one in proposals] + self.renamed
        return "; ".join([*sentences, _remedy_for_types(others)] if others or not sentences else sentences)

    def _remedy_for_parallelism(self) -> str | None:
        state, job = self.match.state, self.operator
        if job.parallelism > state.max_parallelism:
            return f"parallelism at most {state.max_parallelism}, or the snapshot rewritten with more key groups"
        if job.max_parallelism not in (None, state.max_parallelism):
            return f"set max parallelism {state.max_parallelism} in the job, or none"
        return None

    def _types(self) -> tuple[list[ReasonedVerdict], list[StateVerdict]]:
        job, version = self.operator, self.job.flink_version or NEWEST_FLINK
        described = job.key is not None or job.keyed_states is not None or job.operator_states is not None
        if not described and not crosses(self.savepoint.metadata, version):
            return [], []
        old = registered_states(OpenOperator(self.savepoint, self.match.state))
        problems = [
            _with_reasons(resolve_version(old.serializers, self.savepoint.metadata, version, self.values is None))
        ]
        if old.keys and job.key is None and job.keyed_states == {}:
            names = ", ".join(old.keyed) or "timers"
            return [
                (
                    Verdict.IS_DROPPED,
                    f"the operator is not keyed any more: its keyed state ({names}) is dropped silently",
                )
            ], []
        if job.key_text is not None and any(name.startswith(PYTHON_PREFIX) for name in old.keyed):
            return [*problems, (Verdict.UNKNOWN, OF_PYTHON)], []
        if job.key is not None:
            keys = [key for key in old.keys if key.flink_type != job.key_text]
            problems += [_with_reasons(resolve_key(key, job.key, version)) for key in keys]
            if keys:
                key = Changed(None, keys[0], job.key, lambda old, new: resolve_key(old, new, version))
                self._change(key, keys)
        self.renamed = renamed_states(self._named, old.keyed, job.keyed_states)
        self.renamed += renamed_states(self._named, old.operator, job.operator_states)
        rows = [
            *self._states(old.keyed, job.keyed_states, True),
            *self._states(old.operator, job.operator_states, False),
        ]
        return problems + [_with_reasons(resolution, f"state {row.state}: ") for row, resolution in rows], [
            row for row, _ in rows
        ]

    def _states(
        self, old: StateMetas, new: Mapping[str, StateDescription] | None, keyed: bool
    ) -> Iterator[tuple[StateVerdict, Resolution]]:
        if new is None:
            return
        for name, metas in old.items():
            if name not in new:
                resolution = self._not_used(metas)
                reason = (
                    "; ".join(resolution.reasons) or "the job does not register it: Flink keeps it without reading it"
                )
                yield StateVerdict(name, metas[0].state_type, "not used", reason), resolution
                continue
            resolution = worst(self._compared(meta, new[name], keyed) for meta in metas)
            if resolution.verdict is Compatibility.INCOMPATIBLE and new[name].is_readable:
                self._change_state(name, metas, new[name], keyed)
            reason = "; ".join(resolution.reasons)
            yield StateVerdict(name, metas[0].state_type, resolution.verdict.value, reason), resolution
        for name, state in new.items():
            if name not in old:
                yield StateVerdict(name, state.kind, "new", "the snapshot does not have it: it begins empty"), worst(())

    def _change_state(
        self, name: str, metas: Iterable[StateMetaInfoSnapshot], new: StateDescription, keyed: bool
    ) -> None:
        """Remember a state whose values do not fit."""
        (meta, *_) = metas

        def resolved(old: TypeSerializer, expected: TypeSerializer) -> Resolution:
            serializers = {**meta.serializers, "VALUE_SERIALIZER": old}
            return self._compared(replace(meta, serializers=serializers), replace(new, serializer=expected), keyed)

        if keyed or meta.state_type == new.kind:
            kind = None if meta.state_type == new.kind else new.kind
            changed = Changed(name, meta.value_serializer, new.serializer, resolved, name if keyed else "value", kind)
            self._change(changed, (meta.value_serializer,))

    def _change(self, changed: Changed, old: Iterable[TypeSerializer]) -> None:
        """Remember a part that does not fit: of its serializers in the snapshot, the first that does not."""
        for one in old:
            if changed.resolve(one, changed.new).verdict is Compatibility.INCOMPATIBLE:
                self.changed.append(replace(changed, old=one))
                return

    def _compared(self, old: StateMetaInfoSnapshot, new: StateDescription, keyed: bool) -> Resolution:
        version = self.job.flink_version or NEWEST_FLINK
        listed = None if new.text is None else _resolve_listed(old, new)
        if listed is not None:
            return listed
        if keyed:
            return resolve_keyed_state(old, new, self.job.state_backend, version)
        return resolve_operator_state(old, new, version)

    def _not_used(self, metas: Iterable[StateMetaInfoSnapshot]) -> Resolution:
        """Check an unregistered state: Flink reads the serializers of all states in the snapshot."""
        required_classes = {name for meta in metas for part in meta.serializers.values() for name in user_classes(part)}
        missing = sorted(required_classes - self.job.user_classes)
        if not missing:
            return worst(())
        return unknown(
            f"the job does not register it, but must still have {', '.join(missing)} for Flink to read the snapshot: "
            "'javaClasses' of the job say that it has"
        )


def _remedy_for_types(names: list[str]) -> str:
    if not names:
        return "keep the type of the key in the job, as Flink does not migrate keys"
    return (
        f"give the job's state another name, or take {', '.join(names)} out of the snapshot (remove_state), "
        "or write it with the new type (with_state)"
    )


def _with_reasons(resolution: Resolution, before: str = "") -> ReasonedVerdict:
    return OF_COMPATIBILITY[resolution.verdict], "; ".join(before + reason for reason in resolution.reasons)
