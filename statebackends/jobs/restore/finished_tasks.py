"""Check of a job against subtasks that had finished when a snapshot was taken.

======================= =====================================================================================
operators of a task     have finished alike: none, some or all of their subtasks; a new operator has not
a finished task         has only finished tasks before it
a partly finished task  has only finished tasks before it, but where each subtask has some of theirs alone
                        (forward, rescale): there they are finished in part at least
======================= =====================================================================================

Chains and edges are known of a stream graph alone. Flink: ``VertexFinishedStateChecker``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum

from pyspark_savepoint.formats.snapshot.finished import finished_subtasks
from pyspark_savepoint.statebackends.jobs.restore.job_description import JobDescription
from pyspark_savepoint.statebackends.jobs.restore.restore_plan import Match
from pyspark_savepoint.statebackends.jobs.restore.restore_verdicts import Verdict

Problem = tuple[Verdict, str, str]
BEFORE = "start from a snapshot that was taken before they finished"


class Finish(IntEnum):
    """How much of an operator has finished."""

    NOTHING = 0
    IN_PART = 1
    WHOLLY = 2

    @classmethod
    def of(cls, match: Match | None) -> Finish:
        """Return how much has finished; an operator that is not in the snapshot runs."""
        if match is None or not finished_subtasks(match.state):
            return cls.NOTHING
        return cls.WHOLLY if match.state.is_fully_finished else cls.IN_PART

    def __str__(self) -> str:
        """Return it in words."""
        return ("runs", "has finished in part", "has finished")[self]


def finished_problems(job: JobDescription, matches: Mapping[int, Match]) -> dict[int, Problem]:
    """Return the problems of operators of the job, by their number."""
    finish = {number: Finish.of(matches.get(number)) for number in range(len(job.operators))}
    if not any(finish.values()):
        return {}
    if job.edges is None:
        return dict(_undecided(job, matches, finish))
    by_task: dict[int, dict[int, Finish]] = {}
    for number, operator in enumerate(job.operators):
        if not operator.is_inlined:
            by_task.setdefault(operator.task, {})[number] = finish[number]
    problems: dict[int, Problem] = {}
    for one in by_task.values():
        if len(set(one.values())) > 1:
            sentence = ", ".join(f"{job.operators[number].label} {state}" for number, state in one.items())
            reason = f"the operators of its task have not finished alike: {sentence}"
            remedy = (
                f"do not chain an operator to them that is not in the snapshot alike (startNewChain()), or {BEFORE}"
            )
            problems |= dict.fromkeys(one, (Verdict.FAILS, reason, remedy))
    whole = {task: min(one.values()) for task, one in by_task.items()}
    for edge in job.edges:
        own, before = whole.get(edge.target, Finish.NOTHING), whole.get(edge.source, Finish.NOTHING)
        required = Finish.IN_PART if own is Finish.IN_PART and not edge.all_to_all else Finish.WHOLLY
        if own is Finish.NOTHING or before >= required:
            continue
        names = [job.operators[number].label for number in by_task.get(edge.source, {})]
        reason = f"it {own}, and before it {', '.join(names)} {before}"
        for number in by_task[edge.target]:
            remedy = f"no task that runs may be before one that has finished: {BEFORE}"
            problems.setdefault(number, (Verdict.FAILS, reason, remedy))
    return problems


def _undecided(
    job: JobDescription, matches: Mapping[int, Match], finish: Mapping[int, Finish]
) -> Iterator[tuple[int, Problem]]:
    """Yield new operators: whether they are in a task that has finished is not known."""
    names = [job.operators[number].label for number, state in finish.items() if state]
    reason = (
        f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} finished in part or wholly: Flink refuses a new "
        "operator in such a task, or before it, and this description does not say which operators are chained"
    )
    remedy = "describe the job by its execution plan, or as a StreamGraph"
    for number in finish:
        if number not in matches and not job.operators[number].is_inlined:
            yield number, (Verdict.UNKNOWN, reason, remedy)
