"""Checks of a snapshot against a job, without Spark: whether it can be restored, and which operator is which.

The arguments of ``Savepoint.check_restore`` become those of ``statebackends.jobs.restore``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError, SavepointWarning, type_name
from pyspark_savepoint.formats.metadata.identifiers import OperatorIdentifier
from pyspark_savepoint.formats.metadata.operator_handles import OperatorStreamStateHandle
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.options.operators import identifier_of
from pyspark_savepoint.statebackends.jobs.graph.operator_ids import identifiers_to_change, operator_at
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph, StreamGraphHasher, hasher_of
from pyspark_savepoint.statebackends.jobs.restore.job_description import JobDescription
from pyspark_savepoint.statebackends.jobs.restore.job_reader import Job, describe_job, is_execution_plan, with_settings
from pyspark_savepoint.statebackends.jobs.restore.restore_check import check_restore
from pyspark_savepoint.statebackends.jobs.restore.restore_plan import restore_plan_table
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
    paths = [path for source in given for path in ([source] if isinstance(source, str) else map(str, source or ()))]
    return restored_values(savepoint, described, paths, job if isinstance(job, Snapshot) else None)


def undescribed(check: RestoreCheck) -> list[str]:
    """Return the operators whose state the job restores, but whose types its description lacks.

    Their verdicts are about ids and parallelism alone. Sources keep their splits as bytes, which need no description.
    """
    labels = []
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
            labels.append(row.operator.label)
    return labels


def restore_table(
    savepoint: Snapshot,
    job: Job,
    *,
    allow_non_restored_state: bool,
    stream_graph_hasher: str | None,
    **settings: Any,
) -> pa.Table:
    """Return the verdicts of the restore check, the worst first."""
    classes = settings.get("types_from")
    if isinstance(job, Snapshot):
        settings["types_from"] = None  # the job's savepoint has the types; classes describe values that Kryo wrote
    described = _described(job, stream_graph_hasher, **settings)
    values = values_of(savepoint, job, described, classes)
    check = check_restore(savepoint, described, allow_non_restored_state=allow_non_restored_state, values=values)
    return check.to_arrow()


def plan_table(savepoint: Snapshot, job: Job, stream_graph_hasher: str | None) -> pa.Table:
    """Return the assignment of state to subtasks."""
    return restore_plan_table(savepoint, _described(job, stream_graph_hasher))


def _described(job: Job, stream_graph_hasher: str | None, **settings: Any) -> JobDescription:
    """Return the description of a job, and warn of each of its assumptions."""
    described = describe_job(job, _hasher(stream_graph_hasher), **settings)
    for note in described.notes:
        warnings.warn(f"assumed about the job: {note}", SavepointWarning, stacklevel=5)
    return described


def identifier_at(
    savepoint: Snapshot, graph: StreamGraph, name: str, stream_graph_hasher: str | None
) -> OperatorIdentifier:
    """Return the identifier of the operator with a name in the graph."""
    if not isinstance(graph, StreamGraph):
        raise OptionError(
            "the job must be given as its stream graph",
            found=type_name(graph),
            remedy="from_execution_plan(text), or a StreamGraph; without a graph, options 'node' and 'executionPlan'",
        )
    return OperatorIdentifier(operator_at(savepoint, graph, name, _hasher(stream_graph_hasher)))


def changed_uids(
    opened: Callable[[], Snapshot], uids: Mapping[str, str] | StreamGraph
) -> dict[OperatorIdentifier, OperatorIdentifier]:
    """Return new identifiers by old ones: as they are given, or as a stream graph sets them.

    Only a stream graph needs the snapshot: a savepoint that is not written yet has none to open.
    """
    if not isinstance(uids, StreamGraph | Mapping):
        raise OptionError(
            "uids must be given by uid hash, or as the stream graph of the job",
            found=type_name(uids),
            remedy="assign_uids({'5af9c1d8a9b8e2f06e0f0a3c1d2e4b77': 'accounts'}); table 'metadata' has the hashes",
        )
    if isinstance(uids, StreamGraph):
        changes = identifiers_to_change(opened(), uids)
        return {OperatorIdentifier(operator_id): new for operator_id, new in changes.items()}
    return {identifier_of(old): OperatorIdentifier.for_uid(uid) for old, uid in uids.items()}


def _hasher(name: str | None) -> StreamGraphHasher | None:
    """Return the hasher with a name; None for that of the graph."""
    return None if name is None else hasher_of(name)
