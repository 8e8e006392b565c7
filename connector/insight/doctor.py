"""All checks of a snapshot, the worst finding first.

Checks of metadata need only ``_metadata`` and the headers of state files, and say whether Flink 2 would read the
values. Checks of state read it: sizes of key groups and keys, ages, timers, growth between two snapshots.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.errors import SavepointError, UnsafePathError
from pyspark_savepoint.formats.flink_releases import NEWEST_FLINK
from pyspark_savepoint.formats.metadata import VERSIONS, OperatorState
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.snapshot.finished import finished_subtasks
from pyspark_savepoint.formats.snapshot.relocation import streams_of
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.insight.budgets import Budgets
from pyspark_savepoint.insight.restore import check_snapshot
from pyspark_savepoint.insight.surveys import Examined, Surveys, label_of
from pyspark_savepoint.statebackends.jobs.compatibility import crosses
from pyspark_savepoint.statebackends.jobs.restore.job_description import RegisteredStates, registered_states
from pyspark_savepoint.statebackends.jobs.restore.job_reader import Job
from pyspark_savepoint.statebackends.jobs.restore.restore_check import has_state, is_keyed
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import MigrationVerdict, Outcome, PartVerdict
from pyspark_savepoint.statebackends.python.python_state import is_python_operator
from pyspark_savepoint.statebackends.requests import applicability
from pyspark_savepoint.statebackends.rows.descriptors import WINDOW_CONTENTS
from pyspark_savepoint.statebackends.rows.state_sets import UNNAMED_SESSIONS
from pyspark_savepoint.statebackends.sources.open_operator import headers_ahead
from pyspark_savepoint.statebackends.surveys.state_set_checks import registered
from pyspark_savepoint.text.texts import readable_size


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


@dataclass(frozen=True)
class Finding:
    """One thing that may go wrong."""

    check: str
    severity: Severity
    evidence: str
    remedy: str
    operator: str | None = None
    state: str | None = None

    def row(self) -> dict[str, Any]:
        """Return the finding as a row."""
        return {**asdict(self), "severity": self.severity.value}


#: The fields of a finding, which are the columns of its table.
COLUMNS = tuple(each.name for each in fields(Finding))


def examine(
    savepoint: Examined, budgets: Budgets, older: Examined | None = None, job: Job | None = None
) -> list[Finding]:
    """Return the findings about a snapshot, also growth since ``older`` and orphans of ``job`` if these are given."""
    return examined(Surveys(savepoint), budgets, None if older is None else Surveys(older), job)


def examined(surveys: Surveys, budgets: Budgets, older: Surveys | None = None, job: Job | None = None) -> list[Finding]:
    """Return the findings of :func:`examine` by what surveys have read."""
    snapshot = surveys.snapshot
    findings = [*check_metadata(surveys, budgets), *check_release(surveys), *check_state(surveys, budgets)]
    if older is not None:
        findings += check_growth(surveys, older)
    if job is not None:
        findings += _orphans(snapshot, job)
    # Nothing is worse than values that are wrong without an error, and state that no check has seen.
    first = CHECKS[Outcome.WRONG_VALUES][0], NOT_EXAMINED, INCOMPLETE
    return sorted(findings, key=lambda one: (one.severity.rank, one.check not in first, one.check, one.operator or ""))


def findings_table(findings: list[Finding]) -> pa.Table:
    """Return findings as a table with the columns of a finding, all of them text."""
    schema = pa.schema([pa.field(name, pa.string()) for name in COLUMNS])
    return pa.Table.from_pylist([finding.row() for finding in findings], schema)


def _orphans(snapshot: Snapshot, job: Job) -> Iterator[Finding]:
    rows: list[dict[str, Any]] = check_snapshot(snapshot, job).to_arrow().to_pylist()
    for row in rows:
        if row["job_operator"] is None and row["operator_uid_hash"] is not None and row["verdict"] == "fails":
            yield Finding(
                "orphaned-operator",
                Severity.WARNING,
                "; ".join(row["reasons"]),
                row["remedy"] or "Savepoint.remove_operator leaves it out",
                row["operator_uid"] or row["operator_uid_hash"],
            )


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
NOT_EXAMINED = "not-examined"
INCOMPLETE = "incomplete-state"
VERIFY = "pyspark-savepoint verify PATH shows where"
TIMERS = "_timer_state/"


def check_metadata(surveys: Surveys, budgets: Budgets) -> Iterator[Finding]:
    """Yield findings about operators, one after the other, and about the whole."""
    savepoint = surveys.snapshot
    yield from _size(savepoint, budgets)
    with headers_ahead(savepoint, savepoint.operators):
        for operator in savepoint.operators:
            yield from _without_uid(savepoint, operator)
            yield from _max_parallelism(operator)
            yield from _outside(savepoint, operator)
            yield from _finished(operator)
            try:
                types = registered_states(surveys.opened(operator))
            except UnsafePathError:
                continue  # a finding already
            except SavepointError as error:
                yield _finding("unreadable", Severity.ERROR, operator, str(error).replace("\n", ";"), VERIFY)
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
    if VERSIONS[savepoint.metadata.version].has_names and operator.uid is None and has_state(operator):
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


def _finished(operator: OperatorState) -> Iterator[Finding]:
    finished = sorted(finished_subtasks(operator))
    if finished:
        which = (
            "the operator has" if operator.is_fully_finished else f"subtasks {', '.join(map(str, finished[:10]))} have"
        )
        yield _finding(
            "finished",
            Severity.NOTE,
            operator,
            f"{which} finished: Flink restores it only with all operators of its task, and with no new one among them",
            "pyspark-savepoint check-restore compares it with a job, given by its execution plan",
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
    for state, serializers in _serializers_by_name(types):
        classes = sorted(
            {one.flink_type for whole in serializers for one in whole.all_parts() if isinstance(one, KryoSerializer)}
        )
        if classes:
            yield _finding(
                "kryo",
                Severity.WARNING,
                operator,
                f"serialized by Kryo: {', '.join(classes[:5])}; its form changes with classes, and from Flink 1 to 2",
                "give the type a serializer of Flink's (POJO, tuple, Avro), and write the state with it",
                state,
            )


def _serializers_by_name(types: RegisteredStates) -> Iterator[tuple[str, Iterable[TypeSerializer]]]:
    yield "key", types.keys
    for states in (types.keyed, types.operator):
        for name, metas in states.items():
            yield name, [serializer for meta in metas for serializer in meta.serializers.values()]


def check_release(surveys: Surveys) -> Iterator[Finding]:
    """Yield the states of a snapshot of Flink 1 that the newest release would misread, or not read."""
    if not crosses(surveys.snapshot.metadata, NEWEST_FLINK):
        return
    try:
        parts = surveys.migration(RELEASE).parts
    except SavepointError as error:
        check, evidence = CHECKS[Outcome.UNKNOWN]
        yield Finding(check, Severity.WARNING, f"{evidence}: {error.message}", CHECK)
        return
    worst: dict[tuple[str, str], PartVerdict] = {}
    for part in parts:
        # Timers have the operator's key, about which there is a finding of its own.
        if part.outcome is Outcome.RESTORES or (part.ref.state.startswith(TIMERS) and part.part == "key"):
            continue
        state_id = part.ref.operator_uid or part.ref.operator_uid_hash, part.ref.state
        if state_id not in worst or worst[state_id].outcome.severity < part.outcome.severity:
            worst[state_id] = part
    for (operator, state), part in worst.items():
        check, evidence = CHECKS[part.outcome]
        reason = ": ".join(filter(None, (part.type, part.reason)))
        remedy = (
            MIGRATE if part.verdict in (MigrationVerdict.REWRITTEN, MigrationVerdict.IS_LOST) else part.remedy or CHECK
        )
        yield Finding(check, Severity.WARNING, f"{evidence}; {reason}", remedy, operator, state)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Smallest growth of a state that is reported.
GROWTH = 1.01


def check_state(surveys: Surveys, budgets: Budgets) -> Iterator[Finding]:
    """Yield findings about the state of one snapshot."""
    yield from _unread(surveys)
    for operator in surveys.snapshot.operators:
        yield from _incomplete(surveys, operator)
    yield from _skew(surveys, budgets)
    yield from _heavy_keys(surveys, budgets)
    yield from _ages(surveys, budgets)
    yield from _timers(surveys, budgets)


def _unread(surveys: Surveys) -> Iterator[Finding]:
    for row in surveys.unread:
        if row["table"] is None:
            message, *facts = str(row["note"]).split("\n")
            remedy = next((fact.partition(": ")[2] for fact in facts if fact.startswith("  to do: ")), VERIFY)
            evidence = f"its state cannot be read, so no other check has seen it: {message}"
            yield Finding(NOT_EXAMINED, Severity.WARNING, evidence, remedy, label_of(row))


def _incomplete(surveys: Surveys, operator: OperatorState) -> Iterator[Finding]:
    """Yield findings about states without those that Flink needs with them, and contents that it does not find."""
    try:
        opened = surveys.opened(operator)
        names = registered(opened)
        is_python = is_python_operator(opened)
    except SavepointError:
        return  # a finding already
    for half in names.halves():
        yield _finding(INCOMPLETE, Severity.ERROR, operator, str(half), half.remedy, half.states[0])
    windows = [] if is_python else [name for name in WINDOW_CONTENTS if name in names.windowed]
    for contents in windows:
        rows = surveys.read("verification", uidHash=operator.operator_id.hex, state=contents)
        for note in dict.fromkeys(row["note"] for row in rows if UNNAMED_SESSIONS in (row["note"] or "")):
            remedy = "write the operator again, with columns 'window' and 'state_window' of a snapshot of the job"
            yield _finding(INCOMPLETE, Severity.ERROR, operator, note, remedy, contents)


def _skew(surveys: Surveys, budgets: Budgets) -> Iterator[Finding]:
    for operator, totals in surveys.key_groups.items():
        mean = sum(totals.values()) / len(totals)
        heavy = [group for group, size in totals.items() if size > budgets.skew * mean and size >= budgets.floor]
        if heavy:
            worst = max(heavy, key=lambda group: totals[group])
            yield Finding(
                "skewed-key-groups",
                Severity.WARNING,
                f"{len(heavy)} of {len(totals)} key groups are above {budgets.skew:g} times the average of "
                f"{readable_size(mean)}: key group {worst} has {readable_size(totals[worst])}",
                "pyspark-savepoint heaviest shows its keys; another key, or a part of it, spreads them",
                operator,
            )


def _heavy_keys(surveys: Surveys, budgets: Budgets) -> Iterator[Finding]:
    groups = (size for state in surveys.sizes for _, size in state.groups.values())
    noted = any(row["table"] is not None for row in surveys.unread)
    if not noted and all(size <= budgets.key for size in groups):
        return  # all keys of a key group are not too many bytes: the state is not read again
    for row in surveys.heaviest:
        if row["bytes"] is not None and row["bytes"] > budgets.key:
            yield Finding(
                "heavy-key",
                Severity.WARNING,
                f"key {row['key']} has {row['entries']} entries of {readable_size(row['bytes'])}, in key group "
                f"{row['key_group']}",
                "bound what a key collects (a time to live, a limit in the job), or split the key",
                label_of(row),
                row["state"],
            )


def _ages(surveys: Surveys, budgets: Budgets) -> Iterator[Finding]:
    if budgets.ttl_age is None:
        return
    old: dict[tuple[str, str], int] = {}
    for row in surveys.ages:
        if row["from_seconds"] is not None and row["from_seconds"] >= budgets.ttl_age:
            state_id = label_of(row), row["state"]
            old[state_id] = old.get(state_id, 0) + row["units"]
    for (operator, state), units in old.items():
        yield Finding(
            "old-ttl-state",
            Severity.WARNING,
            f"{units} units were last used more than {timedelta(seconds=budgets.ttl_age)} before the snapshot",
            "the job's StateTtlConfig may clean up in full snapshots, incrementally or in compactions of RocksDB",
            operator,
            state,
        )


def _timers(surveys: Surveys, budgets: Budgets) -> Iterator[Finding]:
    for (operator, domain), times in surveys.timers.items():
        # Timers that clean up later are ahead of time, which is not later than now.
        latest = min(surveys.now_of(operator, domain), int(time.time() * 1000))
        (late,) = times.before([latest - int(budgets.timer_age * 1000)])
        if late:
            yield Finding(
                "old-timers",
                Severity.WARNING,
                f"{late} {domain} timers are more than {timedelta(seconds=budgets.timer_age).days} days behind "
                f"{_moment(latest)}, the oldest at {_moment(times.first)}: all fire at once when time advances",
                "look at their keys (pyspark-savepoint show --table timers); remove_keys removes them with their state",
                operator,
            )


def _moment(millis: int) -> str:
    try:
        return (EPOCH + timedelta(milliseconds=millis)).isoformat()
    except OverflowError:
        return f"{millis} ms"


def check_growth(surveys: Surveys, older: Surveys) -> Iterator[Finding]:
    """Yield states without time to live, and timers, that grew while no key group lost entries."""
    with_ttl = {(label_of(row), row["state"]) for row in surveys.states if row["ttl"]}
    before = {size.place: size for size in older.sizes}
    for size in surveys.sizes:
        was = before.get(size.place)
        if size.table not in applicability.KEYED_TABLES or (size.operator, size.state) in with_ttl or was is None:
            continue
        timers = size.table == applicability.TIMERS
        shrunk = any(size.groups.get(group, (0, 0))[0] < entries for group, (entries, _) in was.groups.items())
        if not shrunk and was.entries and size.entries > GROWTH * was.entries:
            yield Finding(
                "timers-grow" if timers else "grows-without-ttl",
                Severity.WARNING,
                f"from {was.entries} to {size.entries} {'timers' if timers else 'entries'} since {older.path}, and no "
                "key group lost any",
                "delete timers that a key no longer needs, and register one for each key at the same rounded time"
                if timers
                else "give the state a time to live (StateTtlConfig), or clear it with a timer",
                size.operator,
                size.state,
            )
