"""Checks of a :class:`Savepoint` against a job: whether it can be restored, and which operator is which.

The logic is in ``statebackends.jobs``; this module converts arguments and results for Spark.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark_savepoint.formats.errors import SavepointWarning
from pyspark_savepoint.formats.metadata.identifiers import OperatorIdentifier
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.local.restore import values_of
from pyspark_savepoint.options.operators import identifier_of
from pyspark_savepoint.savepoint.context import SavepointContext
from pyspark_savepoint.statebackends.jobs.graph.graph_position import identifiers_to_change, operator_at
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph, StreamGraphHasher, hasher_of
from pyspark_savepoint.statebackends.jobs.restore.job_description import JobDescription
from pyspark_savepoint.statebackends.jobs.restore.job_reader import Job, describe_job
from pyspark_savepoint.statebackends.jobs.restore.restore_check import check_restore
from pyspark_savepoint.statebackends.jobs.restore.restore_plan import restore_plan_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def restore_table(
    savepoint: SavepointContext,
    job: Job,
    *,
    allow_non_restored_state: bool,
    stream_graph_hasher: str | None,
    **settings: Any,
) -> DataFrame:
    """Return the verdicts of the restore check as a DataFrame, the worst first."""
    classes = settings.get("types_from")
    if isinstance(job, Snapshot):
        settings["types_from"] = None  # the job's savepoint has the types; classes describe values that Kryo wrote
    described = _described(job, stream_graph_hasher, **settings)
    snapshot = savepoint.snapshot()
    values = values_of(snapshot, job, described, classes)
    check = check_restore(snapshot, described, allow_non_restored_state=allow_non_restored_state, values=values)
    return savepoint.spark.createDataFrame(check.to_arrow())


def plan_table(savepoint: SavepointContext, job: Job, stream_graph_hasher: str | None) -> DataFrame:
    """Return the assignment of state to subtasks as a DataFrame."""
    table = restore_plan_table(savepoint.snapshot(), _described(job, stream_graph_hasher))
    return savepoint.spark.createDataFrame(table)


def _described(job: Job, stream_graph_hasher: str | None, **settings: Any) -> JobDescription:
    """Return the description of a job, and warn of each of its assumptions."""
    described = describe_job(job, _hasher(stream_graph_hasher), **settings)
    for note in described.notes:
        warnings.warn(f"assumed about the job: {note}", SavepointWarning, stacklevel=4)
    return described


def identifier_at(
    savepoint: SavepointContext, graph: StreamGraph, name: str, stream_graph_hasher: str | None
) -> OperatorIdentifier:
    """Return the identifier of the operator with a name in the graph."""
    return OperatorIdentifier(operator_at(savepoint.snapshot(), graph, name, _hasher(stream_graph_hasher)))


def changed_uids(
    savepoint: SavepointContext, uids: Mapping[str, str] | StreamGraph
) -> dict[OperatorIdentifier, OperatorIdentifier]:
    """Return new identifiers by old ones: as they are given, or as a stream graph sets them."""
    if isinstance(uids, StreamGraph):
        changes = identifiers_to_change(savepoint.snapshot(), uids)
        return {OperatorIdentifier(operator_id): new for operator_id, new in changes.items()}
    return {identifier_of(old): OperatorIdentifier.for_uid(uid) for old, uid in uids.items()}


def _hasher(name: str | None) -> StreamGraphHasher | None:
    """Return the hasher with a name; None for that of the graph."""
    return None if name is None else hasher_of(name)
