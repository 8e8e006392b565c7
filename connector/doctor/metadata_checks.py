"""Checks that need only ``_metadata`` and the headers of state files, and whether Flink 2 would read the values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyspark_savepoint.doctor.findings import Budgets, Finding, Severity
from pyspark_savepoint.execution.migrating import migration_of
from pyspark_savepoint.execution.texts import readable_size
from pyspark_savepoint.formats.errors import SavepointError, UnsafePathError
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.snapshot.relocation import streams_of
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.jobs.compatibility import NEWEST_FLINK, crosses
from pyspark_savepoint.statebackends.jobs.restore.job_description import RegisteredStates, registered_states
from pyspark_savepoint.statebackends.jobs.restore.restore_check import has_state, is_keyed
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import MigrationVerdict, Outcome, PartVerdict

#: The first version of metadata that records uids.
FIRST_WITH_UIDS = 5
#: More key groups than this cost memory and requests, and are rarely used by one subtask.
MANY_KEY_GROUPS, MANY_PER_SUBTASK = 4096, 512
RELEASE = ".".join(map(str, NEWEST_FLINK))
CHECKS = {
    Outcome.WRONG_VALUES: ("misread-by-flink-2", f"Flink {RELEASE} restores it and reports nothing, with other values"),
    Outcome.FAILS: ("unreadable-by-flink-2", f"Flink {RELEASE} fails to restore it"),
    Outcome.UNKNOWN: ("unclear-for-flink-2", f"whether Flink {RELEASE} restores it depends on the job's classes"),
}
MIGRATE = f"pyspark-savepoint migrate OLD NEW --flink {RELEASE} writes a savepoint of equal values"
CHECK = f"pyspark-savepoint check-migration PATH --flink {RELEASE} --classes job.jar"
TIMERS = "_timer_state/"


def check_metadata(savepoint: Snapshot, budgets: Budgets) -> Iterator[Finding]:
    """Yield findings about operators, one after the other, and about the whole."""
    yield from _size(savepoint, budgets)
    for operator in savepoint.operators:
        yield from _without_uid(savepoint, operator)
        yield from _max_parallelism(operator)
        yield from _outside(savepoint, operator)
        try:
            types = registered_states(savepoint, operator)
        except UnsafePathError:
            continue  # a finding already
        except SavepointError as error:
            yield _finding(
                "unreadable", Severity.ERROR, operator, str(error).replace("\n", ";"), "pyspark-savepoint verify"
            )
            continue
        yield from _kryo(operator, types)


def _finding(
    check: str, severity: Severity, operator: OperatorState, evidence: str, remedy: str, state: str | None = None
) -> Finding:
    return Finding(check, severity, evidence, remedy, operator.uid or str(operator.operator_id), state)


def _size(savepoint: Snapshot, budgets: Budgets) -> Iterator[Finding]:
    size = sum(operator.state_size for operator in savepoint.operators)
    if budgets.size is not None and size > budgets.size:
        yield Finding(
            "size",
            Severity.ERROR,
            f"{readable_size(size)} of state, the budget is {readable_size(budgets.size)}",
            "pyspark-savepoint sizes shows what is large",
        )


def _without_uid(savepoint: Snapshot, operator: OperatorState) -> Iterator[Finding]:
    if savepoint.metadata.version >= FIRST_WITH_UIDS and operator.uid is None and has_state(operator):
        yield _finding(
            "no-uid",
            Severity.WARNING,
            operator,
            f"operator {operator.name!r} has state and no uid: its id depends on the job's whole graph",
            f"set uid() in the job; Savepoint.assign_uid({str(operator.operator_id)!r}, uid) gives its state that uid",
        )


def _max_parallelism(operator: OperatorState) -> Iterator[Finding]:
    groups, parallelism = operator.max_parallelism, operator.parallelism
    if not is_keyed(operator) or groups == 1:
        return  # operators that cannot run in parallel have one key group
    if groups < 2 * parallelism and parallelism > 1:
        yield _finding(
            "max-parallelism-small",
            Severity.WARNING,
            operator,
            f"max parallelism {groups} at parallelism {parallelism}: it can hardly be scaled up",
            "Savepoint.with_max_parallelism writes it with more key groups; set the same in the job",
        )
    if groups >= MANY_KEY_GROUPS and groups >= MANY_PER_SUBTASK * parallelism:
        yield _finding(
            "max-parallelism-large",
            Severity.NOTE,
            operator,
            f"max parallelism {groups} at parallelism {parallelism}: {groups // parallelism} key groups per subtask",
            "Savepoint.with_max_parallelism writes it with fewer key groups; set the same in the job",
        )


def _outside(savepoint: Snapshot, operator: OperatorState) -> Iterator[Finding]:
    outside = []
    for handle in streams_of(operator):
        try:
            savepoint.resolve(handle, operator)
        except UnsafePathError as error:
            outside.append(str(error.facts.get("path")))
    if outside:
        yield _finding(
            "outside-files",
            Severity.ERROR,
            operator,
            f"{len(outside)} files are outside of the snapshot's folder, such as {outside[0]}",
            "pyspark-savepoint cp --allow-outside copies it with all files; then it can be moved and kept",
        )


def _kryo(operator: OperatorState, types: RegisteredStates) -> Iterator[Finding]:
    for state, serializers in _named(types):
        found = sorted({one.flink_type for one in _all(serializers) if isinstance(one, KryoSerializer)})
        if found:
            yield _finding(
                "kryo",
                Severity.WARNING,
                operator,
                f"serialized by Kryo: {', '.join(found[:5])}; its form changes with classes, and from Flink 1 to 2",
                "give the type a serializer of Flink's (POJO, tuple, Avro), and write the state with it",
                state,
            )


def _named(types: RegisteredStates) -> Iterator[tuple[str, Iterable[TypeSerializer]]]:
    yield "key", types.keys
    for states in (types.keyed, types.operator):
        for name, metas in states.items():
            yield name, [serializer for meta in metas for serializer in meta.serializers.values()]


def _all(serializers: Iterable[TypeSerializer]) -> Iterator[TypeSerializer]:
    for serializer in serializers:
        yield serializer
        yield from _all(serializer.children)


def check_release(savepoint: Snapshot) -> Iterator[Finding]:
    """Yield the states of a snapshot of Flink 1 that the newest release would misread, or not read."""
    if not crosses(savepoint.metadata, NEWEST_FLINK):
        return
    try:
        parts = migration_of(savepoint, RELEASE).check().parts
    except SavepointError as error:
        check, evidence = CHECKS[Outcome.UNKNOWN]
        yield Finding(check, Severity.WARNING, f"{evidence}: {error.message}", CHECK)
        return
    worst: dict[tuple[str, str], PartVerdict] = {}
    for part in parts:
        # Timers have the operator's key, about which there is a finding of its own.
        if part.outcome is Outcome.RESTORES or (part.ref.state.startswith(TIMERS) and part.part == "key"):
            continue
        place = part.ref.operator_uid or part.ref.operator_uid_hash, part.ref.state
        if place not in worst or worst[place].outcome.severity < part.outcome.severity:
            worst[place] = part
    for (operator, state), part in worst.items():
        check, evidence = CHECKS[part.outcome]
        reason = ": ".join(filter(None, (part.type, part.reason)))
        remedy = (
            MIGRATE if part.verdict in (MigrationVerdict.REWRITTEN, MigrationVerdict.IS_LOST) else part.remedy or CHECK
        )
        yield Finding(check, Severity.WARNING, f"{evidence}; {reason}", remedy, operator, state)
