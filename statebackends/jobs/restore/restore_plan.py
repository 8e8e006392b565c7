"""Assignment of a snapshot's state to the operators of a job that restores it, and to their subtasks.

Each operator of the job has an ordered list of ids. It takes the first id that has state; this state is then not
available to other operators. The document of StreamGraphHasherV3 shows a problem of separate lookups per alternative:
the second lookup finds nothing and replaces the result of the first with nothing. Here one lookup per operator tries
all ids. Flink: ``StateAssignmentOperation#assignStates``, as that document proposes it; with at most one alternative,
as in Flink today, the results are the same.

Reads use the same code for subtasks: a read with a parallelism has the partitions of that job's subtasks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.jobs.graph.operator_ids import OperatorIDPair
from pyspark_savepoint.statebackends.jobs.restore.job_description import JobDescription
from pyspark_savepoint.statebackends.sources.assignment import StateAssignment, assign_state

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Match:
    """State of an operator, and the kind of id that found it: ``uid hash``, ``uid``, ``v2``, ``v3``."""

    state: OperatorState
    by: str


def match_operators(pairs: Mapping[K, OperatorIDPair], states: Iterable[OperatorState]) -> dict[K, Match]:
    """Return the state of every operator that has some, in the order of ``pairs``."""
    left = {state.operator_id: state for state in states}
    matches: dict[K, Match] = {}
    for operator, pair in pairs.items():
        for by, operator_id in pair.candidates:
            if operator_id in left:
                matches[operator] = Match(left.pop(operator_id), by)
                break
    return matches


def match_job(job: JobDescription, states: Iterable[OperatorState]) -> dict[int, Match]:
    """Match the operators of a job, by their number; sources inside other operators get no state."""
    pairs = {number: one.ids for number, one in enumerate(job.operators) if not one.is_inlined}
    return match_operators(pairs, states)


TEXT, INT = pa.string(), pa.int32()
SCHEMA = pa.schema(
    {
        "job_operator": TEXT,
        "operator_uid_hash": TEXT,
        "subtask": INT,
        "parallelism": INT,
        "first_key_group": INT,
        "last_key_group": INT,
        "keyed_state_of_subtasks": pa.list_(INT),
        "operator_states": pa.list_(
            pa.struct([("state", TEXT), ("mode", TEXT), ("of_subtask", INT), ("elements", INT)])
        ),
    }
)


def plan_restore(savepoint: Snapshot, job: JobDescription) -> dict[str, tuple[StateAssignment, ...]]:
    """Return the state that each subtask of each matched operator restores, by the operator's label in the job."""
    matches = match_job(job, savepoint.operators)
    return {
        job.operators[number].label: assign_state(match.state, job.operators[number].parallelism)
        for number, match in matches.items()
    }


def restore_plan_table(savepoint: Snapshot, job: JobDescription) -> pa.Table:
    """Return the assignment as a table of :data:`SCHEMA`: one row per operator and subtask."""
    rows = [_row(label, one) for label, all_of_it in plan_restore(savepoint, job).items() for one in all_of_it]
    return pa.Table.from_pylist(rows, SCHEMA)


def _row(label: str, assignment: StateAssignment) -> dict[str, Any]:
    keyed = (*assignment.managed_keyed_state, *assignment.raw_keyed_state)
    return {
        "job_operator": label,
        "operator_uid_hash": str(assignment.operator_id),
        "subtask": assignment.index,
        "parallelism": assignment.parallelism,
        "first_key_group": assignment.key_group_range.start,
        "last_key_group": assignment.key_group_range.end,
        "keyed_state_of_subtasks": sorted({state.subtask_index for state in keyed}),
        "operator_states": list(_operator_states(assignment)),
    }


def _operator_states(assignment: StateAssignment) -> Iterator[dict[str, Any]]:
    for assigned in assignment.managed_operator_state:
        for state in assigned.handle.states:
            yield {
                "state": state.name,
                "mode": state.mode.name,
                "of_subtask": assigned.subtask_index,
                "elements": len(state.offsets),
            }
