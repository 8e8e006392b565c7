"""Restore checks of a snapshot without Spark: the arguments of ``Savepoint.check_restore`` for the code below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark_savepoint.formats.metadata.operator_handles import OperatorStreamStateHandle
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph, hasher_of
from pyspark_savepoint.statebackends.jobs.restore.job_description import JobDescription
from pyspark_savepoint.statebackends.jobs.restore.job_reader import Job, describe_job, is_execution_plan, with_settings
from pyspark_savepoint.statebackends.jobs.restore.restore_check import check_restore
from pyspark_savepoint.statebackends.jobs.restore.restore_verdicts import RestoreCheck, ValueVerdicts, Verdict
from pyspark_savepoint.statebackends.migration.restored_values import restored_values

SOURCE_READER_STATE = "SourceReaderState"


def check_snapshot(
    savepoint: Snapshot,
    job: Job,
    *,
    hasher: str = "v2",
    flink_version: str | None = None,
    state_backend: str | None = None,
    allow_non_restored_state: bool = False,
    classes: Sequence[str] = (),
) -> RestoreCheck:
    """Return the verdicts about a job, given in any form, with the release and backend that run it."""
    settings = {"flink_version": flink_version, "state_backend": state_backend}
    if isinstance(job, Mapping) and "operators" in job:
        names = {"flinkVersion": flink_version, "stateBackend": state_backend}
        described = describe_job({**job, **{name: value for name, value in names.items() if value is not None}})
    elif isinstance(job, StreamGraph) or is_execution_plan(job):
        described = describe_job(job, hasher_of(hasher), **settings)
    else:
        described = with_settings(describe_job(job, hasher_of(hasher)), **settings)
    values = values_of(savepoint, job, described, classes)
    return check_restore(savepoint, described, allow_non_restored_state=allow_non_restored_state, values=values)


def values_of(
    savepoint: Snapshot, job: Job, described: JobDescription, classes: str | Sequence[str] | None
) -> Mapping[str, ValueVerdicts] | None:
    """Return how the job's release of Flink reads the values in the savepoint; ``classes`` are jars and folders."""
    given = [classes, job.get("typesFrom") if isinstance(job, Mapping) else None]
    paths = [path for each in given for path in ([each] if isinstance(each, str) else map(str, each or ()))]
    return restored_values(savepoint, described, paths, job if isinstance(job, Snapshot) else None)


def undescribed(check: RestoreCheck) -> list[str]:
    """Return the operators whose state the job restores, but whose types its description lacks.

    Their verdicts are about ids and parallelism alone. Sources keep their splits as bytes, which need no description.
    """
    found = []
    for row in check.operators:
        if row.operator is None or row.match is None or row.verdict is not Verdict.RESTORES:
            continue
        subtasks = row.match.state.subtasks.values()
        keyed = any(subtask.managed_keyed_state is not None for subtask in subtasks)
        handles = [subtask.managed_operator_state for subtask in subtasks]
        names = {
            state.name for handle in handles if isinstance(handle, OperatorStreamStateHandle) for state in handle.states
        }
        if (keyed and row.operator.keyed_states is None) or (
            names - {SOURCE_READER_STATE} and row.operator.operator_states is None
        ):
            found.append(row.operator.label)
    return found
