"""Assignment of state to subtasks when a job restores a snapshot.

Reads use the same code: a read with a parallelism has the partitions of that job's subtasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.jobs.restore.job_description import JobDescription
from pyspark_savepoint.statebackends.jobs.restore.operator_matching import match_job
from pyspark_savepoint.statebackends.sources.assignment import StateAssignment, assign_state

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
