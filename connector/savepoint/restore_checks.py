"""Checks of a :class:`Savepoint` against a job: whether it can be restored, and which operator is which.

The logic is in ``statebackends.jobs``; this module converts arguments and results for Spark.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.metadata.identifiers import OperatorIdentifier
from pyspark_savepoint.formats.snapshot.savepoint import Savepoint as Snapshot
from pyspark_savepoint.local.restore import hasher_of
from pyspark_savepoint.options.operators import identifier_of
from pyspark_savepoint.options.paths import reached
from pyspark_savepoint.statebackends.jobs.graph.graph_position import identifiers_to_change, operator_at
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph
from pyspark_savepoint.statebackends.jobs.restore.job_description import JobDescription
from pyspark_savepoint.statebackends.jobs.restore.job_reader import Job, describe_job
from pyspark_savepoint.statebackends.jobs.restore.restore_check import check_restore
from pyspark_savepoint.statebackends.jobs.restore.restore_plan import restore_plan_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pyspark_savepoint.savepoint.savepoint import Savepoint


def snapshot_of(savepoint: Savepoint) -> Snapshot:
    """Return the snapshot of a savepoint; raise OptionError if it is not written yet."""
    if savepoint.path is None:
        raise OptionError(
            "this savepoint is not written yet, so there is nothing to restore",
            remedy="check the savepoint that write(path) returns",
        )
    path, options = savepoint.path, savepoint.options
    return Snapshot.open(reached(path, options), allow_outside=options.get("allowOutside") == "true")


def restore_table(
    savepoint: Savepoint,
    job: Job | Savepoint,
    *,
    allow_non_restored_state: bool,
    stream_graph_hasher: str,
    **settings: Any,
) -> DataFrame:
    """Return the verdicts of the restore check as a DataFrame, the worst first."""
    described = _described(job, stream_graph_hasher, **settings)
    check = check_restore(snapshot_of(savepoint), described, allow_non_restored_state=allow_non_restored_state)
    return savepoint.spark.createDataFrame(check.to_arrow())


def plan_table(savepoint: Savepoint, job: Job | Savepoint, stream_graph_hasher: str) -> DataFrame:
    """Return the assignment of state to subtasks as a DataFrame."""
    table = restore_plan_table(snapshot_of(savepoint), _described(job, stream_graph_hasher))
    return savepoint.spark.createDataFrame(table)


def _described(job: Job | Savepoint, stream_graph_hasher: str, **settings: Any) -> JobDescription:
    """Return the description of a job, and warn of each of its assumptions."""
    from pyspark_savepoint.savepoint.savepoint import Savepoint

    plain = snapshot_of(job) if isinstance(job, Savepoint) else job
    described = describe_job(plain, hasher_of(stream_graph_hasher), **settings)
    for note in described.notes:
        warnings.warn(f"taken for granted of the job: {note}", stacklevel=4)
    return described


def identifier_at(savepoint: Savepoint, graph: StreamGraph, name: str, stream_graph_hasher: str) -> OperatorIdentifier:
    """Return the identifier of the operator with a name in the graph."""
    return OperatorIdentifier(operator_at(snapshot_of(savepoint), graph, name, hasher_of(stream_graph_hasher)))


def with_uids(savepoint: Savepoint, uids: Mapping[str, str] | StreamGraph) -> Savepoint:
    """Return the savepoint with new uids: by old identifier, or as a stream graph sets them."""
    if isinstance(uids, StreamGraph):
        changes = identifiers_to_change(snapshot_of(savepoint), uids)
        given = {OperatorIdentifier(operator_id): new for operator_id, new in changes.items()}
    else:
        given = {identifier_of(old): OperatorIdentifier.for_uid(uid) for old, uid in uids.items()}
    for old, new in given.items():
        savepoint = savepoint.change_operator_identifier(old, new)
    return savepoint
