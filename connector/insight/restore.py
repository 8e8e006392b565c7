"""Checks of a snapshot against a job, without Spark: whether it can be restored, and which operator is which.

The arguments of ``JobRestore.check_restore`` become those of ``statebackends.jobs.restore``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError, SavepointWarning, type_name
from pyspark_savepoint.formats.metadata.identifiers import OperatorIdentifier
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.options.operators import identifier_of
from pyspark_savepoint.statebackends.evolution.evolution import check_options, evolution_of
from pyspark_savepoint.statebackends.evolution.plans import PlanLike
from pyspark_savepoint.statebackends.evolution.restored_plans import (
    TYPES_ONLY,
    described_plan,
    is_compiled_plan,
    with_meaning,
)
from pyspark_savepoint.statebackends.jobs.graph.operator_ids import identifiers_to_change, operator_at
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph, StreamGraphHasher, hasher_of
from pyspark_savepoint.statebackends.jobs.restore.job_description import JobDescription
from pyspark_savepoint.statebackends.jobs.restore.job_reader import (
    Job,
    class_paths,
    describe_job,
    is_execution_plan,
    with_settings,
)
from pyspark_savepoint.statebackends.jobs.restore.restore_check import check_restore
from pyspark_savepoint.statebackends.jobs.restore.restore_plan import restore_plan_table
from pyspark_savepoint.statebackends.jobs.restore.restore_verdicts import RestoreCheck, ValueVerdicts
from pyspark_savepoint.statebackends.migration.restored_values import restored_values


def check_snapshot(
    savepoint: Snapshot,
    job: Job,
    *,
    hasher: str | None = None,
    allow_non_restored_state: bool = False,
    old_plan: PlanLike | None = None,
    **settings: Any,
) -> RestoreCheck:
    """Return the verdicts about a job, given in any form, with the release and backend that run it.

    ``settings`` are those of :func:`described_job`. ``old_plan`` is the compiled plan that wrote the savepoint: with
    that of the job it tells whether state that restores means the same.
    """
    if isinstance(job, Mapping) and is_compiled_plan(job):
        described, notes = described_plan(job, savepoint)
        check = check_snapshot(
            savepoint, described, hasher=hasher, allow_non_restored_state=allow_non_restored_state, **settings
        )
        check = replace(check, notes=(*check.notes, *notes))
        if old_plan is None:
            return replace(check, notes=(*check.notes, TYPES_ONLY))
        return with_meaning(check, evolution_of(old_plan, job, check_options(), savepoint))
    if old_plan is not None:
        raise OptionError(
            "argument 'old_plan' is for a job that is given as a compiled plan",
            expected="what COMPILE PLAN wrote for the new query, as the job",
            found=type_name(job),
        )
    description = described_job(job, _hasher(hasher), **settings)
    values = _values_of(savepoint, job, description, settings.get("classes"))
    return check_restore(savepoint, description, allow_non_restored_state=allow_non_restored_state, values=values)


def described_job(
    job: Job,
    hasher: StreamGraphHasher | None = None,
    *,
    types: Mapping[str, Mapping[str, Any]] | None = None,
    flink_version: str | None = None,
    state_backend: str | None = None,
    classes: str | Sequence[str] | None = None,
    java_classes: Sequence[str] | None = None,
    inferred_by: str | None = None,
) -> JobDescription:
    """Describe a job given in any form; settings that are given precede those of its description.

    ``classes`` are jars and folders of class files; ``java_classes`` names of Java classes. A release infers types from
    the class files, if ``inferred_by`` names one; they describe values that Kryo wrote, too.
    """
    paths = class_paths(classes)
    if isinstance(job, StreamGraph) or is_execution_plan(job):
        return describe_job(
            job,
            hasher,
            types=types,
            flink_version=flink_version,
            state_backend=state_backend,
            java_classes=java_classes,
            inferred_by=inferred_by,
            classes=paths or None,
        )
    given: dict[str, Any] = {"flinkVersion": flink_version, "stateBackend": state_backend}
    if isinstance(job, Mapping) and "operators" in job:
        given |= {"inferredBy": inferred_by, "classes": [*class_paths(job.get("classes")), *paths] or None}
        job = {**job, **{name: value for name, value in given.items() if value is not None}}
        inferred_by = None
    described = describe_job(job, hasher, types=types, inferred_by=inferred_by)
    return with_settings(described, flink_version=flink_version, state_backend=state_backend, java_classes=java_classes)


def _values_of(
    savepoint: Snapshot, job: Job, described: JobDescription, classes: str | Sequence[str] | None
) -> Mapping[str, ValueVerdicts] | None:
    """Return how the job's release of Flink reads the values in the savepoint; ``classes`` are jars and folders."""
    paths = [*class_paths(classes), *class_paths(job.get("classes") if isinstance(job, Mapping) else None)]
    return restored_values(savepoint, described, paths, job if isinstance(job, Snapshot) else None)


def plan_table(savepoint: Snapshot, job: Job, stream_graph_hasher: str | None) -> pa.Table:
    """Return the assignment of state to subtasks."""
    described = describe_job(job, _hasher(stream_graph_hasher))
    warn_of_assumptions(described.notes)
    return restore_plan_table(savepoint, described)


def warn_of_assumptions(notes: Sequence[str]) -> None:
    """Warn of what is assumed about a job, at the call of a verb."""
    for note in notes:
        warnings.warn(f"assumed about the job: {note}", SavepointWarning, stacklevel=4)


def identifier_at(savepoint: Snapshot, graph: Job, name: str, stream_graph_hasher: str | None) -> OperatorIdentifier:
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
