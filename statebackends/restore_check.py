"""Would this job restore that snapshot? A verdict for every operator on either side, before Flink is asked.

Flink looks at ids first, then at max parallelism, and at serializers only when tasks start and register their states;
here all is looked at, and all is said. Twins: ``Checkpoints#loadAndValidateCheckpoint``,
``StateAssignmentOperation#checkParallelismPreconditions``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping

from pyspark_savepoint.formats.errors import SavepointError, nearest
from pyspark_savepoint.formats.identifiers import OperatorID
from pyspark_savepoint.formats.java import hash_map_order
from pyspark_savepoint.formats.key_groups import default_max_parallelism
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.savepoint import Savepoint
from pyspark_savepoint.statebackends.assignment import StateAssignment, assign_state
from pyspark_savepoint.statebackends.compatibility import Compatibility, Resolution, worst
from pyspark_savepoint.statebackends.job_description import JobDescription, OperatorDescription, StateDescription
from pyspark_savepoint.statebackends.operator_matching import Match, match_operators
from pyspark_savepoint.statebackends.restore_verdicts import (
    OF_COMPATIBILITY,
    OperatorVerdict,
    RestoreCheck,
    StateVerdict,
    Verdict,
)
from pyspark_savepoint.statebackends.snapshot_types import StateMetas, registered_states
from pyspark_savepoint.statebackends.state_compatibility import (
    resolve_key,
    resolve_keyed_state,
    resolve_operator_state,
)

Found = tuple[Verdict, str]


def check_restore(savepoint: Savepoint, job: JobDescription, *, allow_non_restored_state: bool = False) -> RestoreCheck:
    """A verdict for every operator of the job, and for every one of the snapshot that no operator of the job takes."""
    matches = match_operators(dict(enumerate(operator.ids for operator in job.operators)), savepoint.operators)
    rows = []
    for number, operator in enumerate(job.operators):
        match = matches.get(number)
        rows.append(_new(operator) if match is None else _Matched(savepoint, job, operator, match).row())
    taken = {match.state.operator_id for match in matches.values()}
    empty = [operator for number, operator in enumerate(job.operators) if number not in matches]
    for state in savepoint.operators:
        if state.operator_id not in taken:
            rows.append(_left_behind(state, job, empty, allow_non_restored_state))
    rows = [_with_task(row, rows) for row in rows]
    return RestoreCheck(tuple(rows), job.notes)


def plan_restore(savepoint: Savepoint, job: JobDescription) -> dict[str, tuple[StateAssignment, ...]]:
    """What every execution vertex of every operator that finds state restores, by the operator's label in the job."""
    matches = match_operators(dict(enumerate(operator.ids for operator in job.operators)), savepoint.operators)
    return {
        job.operators[number].label: assign_state(match.state, job.operators[number].parallelism)
        for number, match in matches.items()
    }


# -- operators of one side -----------------------------------------------------------------------------------


def _new(operator: OperatorDescription) -> OperatorVerdict:
    problem = _cannot_start(operator)
    if problem is not None:
        return OperatorVerdict(Verdict.FAILS, operator, reasons=(problem,))
    return OperatorVerdict(Verdict.BEGINS_EMPTY, operator, reasons=("the snapshot has no state for it",))


def _cannot_start(operator: OperatorDescription) -> str | None:
    if operator.max_parallelism is not None and operator.parallelism > operator.max_parallelism:
        return (
            f"the job does not start: parallelism {operator.parallelism} is above "
            f"its max parallelism {operator.max_parallelism}"
        )
    return None


def has_state(operator: OperatorState) -> bool:
    """Whether Flink would miss it: a coordinator's state, or a handle of any subtask."""
    return operator.coordinator_state is not None or any(
        next(subtask.handles, None) is not None for subtask in operator.subtasks.values()
    )


def _left_behind(
    state: OperatorState, job: JobDescription, empty: list[OperatorDescription], allowed: bool
) -> OperatorVerdict:
    match = Match(state, "")
    ids = {operator_id: operator for operator in job.operators for _, operator_id in operator.ids.candidates}
    if state.operator_id in ids:
        reason = f"{ids[state.operator_id].label} takes the state of another of its ids; this one is dropped unsaid"
        return OperatorVerdict(Verdict.IS_DROPPED, None, match, (reason,), "remove one of the two operators")
    if not has_state(state):
        return OperatorVerdict(Verdict.NOTHING_TO_RESTORE, None, match, ("it has no state",))
    if job.unidentified:
        names = ", ".join(job.unidentified)
        reason = f"it may be one of these, whose ids a plan of the REST interface does not tell: {names}"
        return OperatorVerdict(Verdict.UNKNOWN, None, match, (reason,), "describe the job as a StreamGraph")
    verdict = Verdict.IS_DROPPED if allowed else Verdict.FAILS
    return OperatorVerdict(verdict, None, match, ("the job has no operator of this id",), _remedy(state, empty))


def _remedy(state: OperatorState, empty: list[OperatorDescription]) -> str:
    """Which operator of the job it may be: one that begins empty, with a uid or name like it."""
    labels = {operator.label.strip("'"): operator for operator in empty}
    named = state.uid or state.name
    like = nearest(named, labels) if named else []
    if not like:
        return "remove it from the snapshot (remove_operator), or start the job with allowNonRestoredState"
    new = labels[like[0]]
    how = f"{like[0]!r}" if new.ids.generated_by == "uid" else f"uid hash {new.ids.generated}"
    return f"if this is {new.label} of the job: change_operator_identifier of {state.operator_id} to {how}"


def _with_task(row: OperatorVerdict, rows: Iterable[OperatorVerdict]) -> OperatorVerdict:
    """Where nobody sets max parallelism, a task takes it from its operators' states, one after the other.

    One that begins empty counts with what Flink derives from its parallelism. The last one in the order of a Java hash
    map stays; state with another number of key groups is then cut at wrong places, and fails or is misread.
    """
    job, match = row.operator, row.match
    if job is None or match is None or job.max_parallelism is not None or not is_keyed(match.state):
        return row
    task = sorted((one for one in rows if one.operator and one.operator.task == job.task), key=_place)
    codes = [java_hash(one.operator.ids.generated) for one in task if one.operator]
    last = task[hash_map_order(codes, len(task))[-1]]
    limit = last.match.state.max_parallelism if last.match else default_max_parallelism(job.parallelism)
    if limit == match.state.max_parallelism:
        return row
    reason = (
        f"max parallelism becomes {limit}, that of an operator in the same task, and its key groups are cut wrongly"
    )
    remedy = f"set max parallelism {match.state.max_parallelism} in the job"
    reasons = (*row.reasons, reason) if row.verdict is Verdict.FAILS else (reason,)
    return OperatorVerdict(Verdict.FAILS, job, match, reasons, remedy, row.states)


def _place(row: OperatorVerdict) -> int:
    return row.operator.place if row.operator else 0


def is_keyed(state: OperatorState) -> bool:
    """Whether the operator has state by key groups."""
    return any(
        subtask.managed_keyed_state is not None or subtask.raw_keyed_state is not None
        for subtask in state.subtasks.values()
    )


def java_hash(operator_id: OperatorID) -> int:
    """``AbstractID#hashCode``."""
    first, second, third, fourth = struct.unpack(">4I", operator_id.data)
    return int(first ^ second ^ third ^ fourth)


# -- operators of both sides ---------------------------------------------------------------------------------


class _Matched:
    """An operator of the job and the state that it takes."""

    def __init__(self, savepoint: Savepoint, job: JobDescription, operator: OperatorDescription, match: Match) -> None:
        self.savepoint, self.job, self.operator, self.match = savepoint, job, operator, match

    def row(self) -> OperatorVerdict:
        """Everything that is wrong with it, and each state."""
        found = list(self._parallelism())
        states: list[StateVerdict] = []
        try:
            types, states = self._types()
            found += types
        except SavepointError as error:
            found.append((Verdict.UNKNOWN, f"the snapshot's types cannot be read: {error.message}"))
        verdict = max((verdict for verdict, _ in found), key=lambda verdict: verdict.severity, default=Verdict.RESTORES)
        reasons = tuple(reason for found_verdict, reason in found if found_verdict is verdict and reason)
        remedy = (self._remedy_for_parallelism() or _remedy_for_types(states)) if verdict is Verdict.FAILS else None
        return OperatorVerdict(verdict, self.operator, self.match, reasons, remedy, tuple(states))

    def _parallelism(self) -> Iterator[Found]:
        state, job = self.match.state, self.operator
        problem = _cannot_start(job)
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

    def _remedy_for_parallelism(self) -> str | None:
        state, job = self.match.state, self.operator
        if job.parallelism > state.max_parallelism:
            return f"parallelism at most {state.max_parallelism}, or the snapshot written anew with more key groups"
        if job.max_parallelism not in (None, state.max_parallelism):
            return f"set max parallelism {state.max_parallelism} in the job, or none"
        return None

    def _types(self) -> tuple[list[Found], list[StateVerdict]]:
        job = self.operator
        if job.key is None and job.keyed_states is None and job.operator_states is None:
            return [], []
        old = registered_states(self.savepoint, self.match.state)
        found: list[Found] = []
        if old.keys and job.key is None and job.keyed_states == {}:
            names = ", ".join(old.keyed) or "timers"
            return [
                (Verdict.IS_DROPPED, f"the operator is not keyed any more: its keyed state ({names}) is dropped unsaid")
            ], []
        if job.key is not None:
            found += [_said(resolve_key(key, job.key, self.job.flink_version)) for key in old.keys]
        rows = [
            *self._states(old.keyed, job.keyed_states, True),
            *self._states(old.operator, job.operator_states, False),
        ]
        return found + [_said(resolution, f"state {row.state}: ") for row, resolution in rows], [row for row, _ in rows]

    def _states(
        self, old: StateMetas, new: Mapping[str, StateDescription] | None, keyed: bool
    ) -> Iterator[tuple[StateVerdict, Resolution]]:
        if new is None:
            return
        for name, metas in old.items():
            if name not in new:
                reason = "the job does not register it: Flink keeps it, unread"
                yield StateVerdict(name, metas[0].state_type, "not used", reason), worst(())
                continue
            resolution = worst(
                resolve_keyed_state(meta, new[name], self.job.state_backend, self.job.flink_version)
                if keyed
                else resolve_operator_state(meta, new[name], self.job.flink_version)
                for meta in metas
            )
            reason = "; ".join(resolution.reasons)
            yield StateVerdict(name, metas[0].state_type, resolution.verdict.value, reason), resolution
        for name, state in new.items():
            if name not in old:
                yield StateVerdict(name, state.kind, "new", "the snapshot does not have it: it begins empty"), worst(())


def _remedy_for_types(states: list[StateVerdict]) -> str:
    names = [state.state for state in states if state.verdict == Compatibility.INCOMPATIBLE]
    if not names:
        return "keep the type of the key: keys never migrate"
    return (
        f"give the job's state another name, or take {', '.join(names)} out of the snapshot (remove_state), "
        "or write it with the new type (with_state)"
    )


def _said(resolution: Resolution, before: str = "") -> Found:
    return OF_COMPATIBILITY[resolution.verdict], "; ".join(before + reason for reason in resolution.reasons)
