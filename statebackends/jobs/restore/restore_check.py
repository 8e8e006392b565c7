"""Check whether a job would restore a snapshot: a verdict for every operator on either side, without running Flink.

Flink checks ids first, then max parallelism, and serializers only when tasks start and register their states. This
check reports everything at once. Flink: ``Checkpoints#loadAndValidateCheckpoint``,
``StateAssignmentOperation#checkParallelismPreconditions``.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pyspark_savepoint.formats.flink_releases import NEWEST_FLINK
from pyspark_savepoint.formats.java import hash_map_order
from pyspark_savepoint.formats.metadata import VERSIONS, OperatorState
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.key_groups import default_max_parallelism
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.jobs.compatibility import flink_of, metadata_problem
from pyspark_savepoint.statebackends.jobs.restore.finished_tasks import Problem, finished_problems
from pyspark_savepoint.statebackends.jobs.restore.job_description import JobDescription, OperatorDescription
from pyspark_savepoint.statebackends.jobs.restore.matched_operator import MatchedOperator, cannot_start
from pyspark_savepoint.statebackends.jobs.restore.moved_operator import moved_to
from pyspark_savepoint.statebackends.jobs.restore.restore_plan import Match, match_job
from pyspark_savepoint.statebackends.jobs.restore.restore_verdicts import (
    OperatorVerdict,
    RestoreCheck,
    ValueVerdicts,
    Verdict,
)

REMOVE = "remove it from the snapshot (remove_operator), or start the job with allowNonRestoredState"
#: Pairs of operators that are compared, and names in a reason.
MAX_COMPARED, MAX_LISTED = 10_000, 20
INLINED = "a source that runs inside an operator with several inputs: Flink restores no state of it"


def check_restore(
    savepoint: Snapshot,
    job: JobDescription,
    *,
    allow_non_restored_state: bool = False,
    values: Mapping[str, ValueVerdicts] | None = None,
) -> RestoreCheck:
    """Return verdicts for every operator of the job, and for the snapshot's operators that the job does not have.

    ``values`` are verdicts about values by uid hash, if they were looked at for the job's Flink.
    """
    job = job if job.flink_version else replace(job, flink_version=flink_of(savepoint.metadata))
    matches = match_job(job, savepoint.operators)
    rows = list(_metadata(savepoint, job))
    finished = finished_problems(job, matches)
    for number, operator in enumerate(job.operators):
        match = matches.get(number)
        if match is None:
            row = _new(operator)
        else:
            value_verdicts = values.get(str(match.state.operator_id)) if values is not None else None
            row = MatchedOperator(savepoint, job, operator, match, value_verdicts).verdict()
        rows.append(_with_finished(row, finished.get(number)))
    matched_ids = {match.state.operator_id for match in matches.values()}
    behind = [state for state in savepoint.operators if state.operator_id not in matched_ids]
    ids = {operator_id: operator for operator in job.operators for _, operator_id in operator.ids.candidates}
    empty = [operator for number, operator in enumerate(job.operators) if number not in matches]
    if len(empty) * len(behind) > MAX_COMPARED:
        empty = []  # no remedy is found by similar names: to compare thousands with each other takes minutes
    rows += [_unmatched_operators(savepoint, state, job, ids, empty, allow_non_restored_state) for state in behind]
    tasks: dict[int, list[OperatorVerdict]] = {}
    for row in rows:
        if row.operator:
            tasks.setdefault(row.operator.task, []).append(row)
    last = {task: _last(members) for task, members in tasks.items()}
    rows = [_with_task(row, last) for row in rows]
    return RestoreCheck(tuple(rows), job.notes)


def _metadata(savepoint: Snapshot, job: JobDescription) -> Iterator[OperatorVerdict]:
    """Yield a row without operator if the job's Flink cannot open the snapshot."""
    problem = metadata_problem(savepoint.metadata, job.flink_version or NEWEST_FLINK)
    if problem is not None:
        remedy = "write it for that version: Savepoint.write(path, flink_version=...)"
        yield OperatorVerdict(Verdict.FAILS, reasons=(problem,), remedy=remedy)


# -- operators of one side -----------------------------------------------------------------------------------


def _new(operator: OperatorDescription) -> OperatorVerdict:
    problem = cannot_start(operator)
    if problem is not None:
        return OperatorVerdict(Verdict.FAILS, operator, reasons=(problem,))
    reason = INLINED if operator.is_inlined else "the snapshot has no state for it"
    return OperatorVerdict(Verdict.BEGINS_EMPTY, operator, reasons=(reason,))


def _with_finished(row: OperatorVerdict, problem: Problem | None) -> OperatorVerdict:
    """Return the verdict, with the problem that subtasks have finished, if it is not less bad."""
    if problem is None or problem[0].severity < row.verdict.severity:
        return row
    verdict, reason, remedy = problem
    reasons = (*row.reasons, reason) if row.verdict is verdict else (reason,)
    return replace(row, verdict=verdict, reasons=reasons, remedy=remedy)


def has_state(operator: OperatorState) -> bool:
    """Return whether an operator has state that Flink would miss: of its coordinator, or of any subtask."""
    return operator.coordinator_state is not None or any(
        next(subtask.handles, None) is not None for subtask in operator.subtasks.values()
    )


def _unmatched_operators(
    savepoint: Snapshot,
    state: OperatorState,
    job: JobDescription,
    ids: Mapping[OperatorID, OperatorDescription],
    empty: Sequence[OperatorDescription],
    allowed: bool,
) -> OperatorVerdict:
    """Return the verdict about an operator that the job does not have."""
    match = Match(state, "")
    if state.operator_id in ids and not ids[state.operator_id].is_inlined:
        reason = (
            f"{ids[state.operator_id].label} restores the state of another of its ids; this one is dropped silently"
        )
        return OperatorVerdict(Verdict.IS_DROPPED, None, match, (reason,), "remove one of the two operators")
    if not has_state(state):
        return OperatorVerdict(Verdict.NOTHING_TO_RESTORE, None, match, ("it has no state",))
    if job.unidentified:
        more = len(job.unidentified) - MAX_LISTED
        names = ", ".join(job.unidentified[:MAX_LISTED]) + (f" and {more} more" if more > 0 else "")
        reason = f"it may be one of these, whose ids a plan of the REST interface does not contain: {names}"
        return OperatorVerdict(Verdict.UNKNOWN, None, match, (reason,), "describe the job as a StreamGraph")
    may_have_uid = state.uid is not None or not VERSIONS[savepoint.metadata.version].has_names
    if job.without_uids and may_have_uid:
        names = ", ".join(job.without_uids[:10]) + ", ..." * (len(job.without_uids) > 10)
        reason = f"it may be one of these, whose uids an execution plan does not contain: {names}"
        return OperatorVerdict(Verdict.UNKNOWN, None, match, (reason,), _add_uids(state, job.without_uids))
    verdict = Verdict.IS_DROPPED if allowed else Verdict.FAILS
    if state.operator_id in ids:
        remedy = (
            f"do not chain {ids[state.operator_id].label} into that operator: use another parallelism, "
            "or disableChaining()"
        )
        return OperatorVerdict(verdict, None, match, (INLINED,), remedy)
    remedy = moved_to(savepoint, state, empty) or REMOVE
    return OperatorVerdict(verdict, None, match, ("the job has no operator of this id",), remedy)


def _add_uids(state: OperatorState, names: Sequence[str]) -> str:
    """Say where the uids that a plan lacks are given, by the names of its operators."""
    name = state.name if state.name in names else names[0]
    uid = state.uid if state.uid is not None and state.name == name else "its uid in the job"
    settings = json.dumps({"settings": {name: {"uid": uid}}}, ensure_ascii=False)
    return f"add the uids of the job to the plan, by the names of its operators: {settings} beside 'nodes'"


def _with_task(row: OperatorVerdict, lasts: Mapping[int, OperatorVerdict]) -> OperatorVerdict:
    """Return the verdict, adjusted if the job does not set max parallelism: a task then takes it from restored state.

    An operator that begins empty counts with the default that Flink derives from its parallelism. The last operator in
    the order of a Java hash map wins; state with another number of key groups is then cut at wrong places, and fails or
    is misread.
    """
    job, match = row.operator, row.match
    if job is None or match is None or job.max_parallelism is not None or not is_keyed(match.state):
        return row
    last = lasts[job.task]
    limit = last.match.state.max_parallelism if last.match else default_max_parallelism(job.parallelism)
    if limit == match.state.max_parallelism:
        return row
    reason = (
        f"max parallelism becomes {limit}, that of an operator in the same task, which splits its key groups wrongly"
    )
    remedy = f"set max parallelism {match.state.max_parallelism} in the job"
    reasons = (*row.reasons, reason) if row.verdict is Verdict.FAILS else (reason,)
    return OperatorVerdict(Verdict.FAILS, job, match, reasons, remedy, row.states)


def _last(members: Sequence[OperatorVerdict]) -> OperatorVerdict:
    """Return the last operator of a task in the order of a Java hash map."""
    task = sorted(members, key=_place)
    codes = [java_hash(one.operator.ids.generated) for one in task if one.operator]
    return task[hash_map_order(codes, len(task))[-1]]


def _place(row: OperatorVerdict) -> int:
    return row.operator.place if row.operator else 0


def is_keyed(state: OperatorState) -> bool:
    """Return whether the operator has state by key groups."""
    return any(
        subtask.managed_keyed_state is not None or subtask.raw_keyed_state is not None
        for subtask in state.subtasks.values()
    )


def java_hash(operator_id: OperatorID) -> int:
    """Return the Java hash of an operator id. Flink: ``AbstractID#hashCode``."""
    first, second, third, fourth = struct.unpack(">4I", operator_id.data)
    return int(first ^ second ^ third ^ fourth)
