"""Commit of a write: the operator's state is checked and published as part of a savepoint, or the write is rolled back.

The operator is assembled from the output of tasks and from what stays of the savepoint (``formats.snapshot.publisher``
publishes it).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.filesystems.storage_options import StoragePath
from pyspark_savepoint.formats.metadata.manifest import FileChecksums
from pyspark_savepoint.formats.snapshot import changes
from pyspark_savepoint.formats.snapshot.publication import read_unchanged, roll_back
from pyspark_savepoint.formats.snapshot.publisher import NewVersion, publish, publish_part
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.writing.assemble import assemble_keyed
from pyspark_savepoint.statebackends.writing.planning.write_request import ELEMENTS

if TYPE_CHECKING:
    from pyspark_savepoint.formats.metadata import CheckpointMetadata, OperatorState
    from pyspark_savepoint.statebackends.writing.planning.planned_write import WritePlan
    from pyspark_savepoint.statebackends.writing.task_outputs import TaskOutput

#: Seconds within which Spark stops the Python workers of cancelled tasks (spark.python.task.killTimeout).
STRAGGLING = 3.0


def commit(plan: WritePlan, outputs: Sequence[TaskOutput]) -> None:
    """Publish the output of the tasks; if this fails, keep the previous savepoint and raise the error."""
    is_local = plan.staging.is_here
    plan = replace(plan, staging=plan.staging.here())
    staging = plan.staging
    if staging.kept is not None:
        for output in outputs:
            staging.kept.update((name, FileChecksums.from_bytes(data)) for name, data in output.checksums)

    def assembled() -> NewVersion:
        current = _base(plan)
        base = _rewritten(plan, current)
        metadata = _with_operator(plan, base, _operator(plan, current, base, outputs))
        if current is None:
            return NewVersion(metadata)
        return NewVersion(metadata, current.metadata, current.metadata.checksums)

    try:
        if staging.part:
            publish_part(staging, assembled, existed=plan.existed, is_held=is_local)
        else:
            publish(staging, assembled, existed=plan.existed, seen=plan.seen, retention=plan.request.retention)
    except SavepointError as error:
        raise error.with_facts(operator=plan.label) from None
    finally:
        if staging.near is not None:
            staging.near.remove()


def abort(plan: WritePlan, unfinished: int = 0) -> None:
    """Remove all files of a failed write, including those of tasks that Spark has not stopped yet.

    Of the tasks that have not finished, at least one failed, and has ended. Others may still write, and are waited for.
    """
    if plan.staging.near is not None:
        plan.staging.near.remove()
    roll_back(plan.staging, plan.existed)
    filesystem, folder = plan.staging.filesystem, plan.staging.folder
    end = time.monotonic() + (STRAGGLING if unfinished > 1 and filesystem.renames else 0)
    while time.monotonic() < end:
        time.sleep(0.1)
        if filesystem.info(folder) is not None:
            roll_back(plan.staging, plan.existed)


def _base(plan: WritePlan) -> Snapshot | None:
    """Return the savepoint to change; raise an error if it changed since the write was planned."""
    if plan.seen is None:
        return None
    staging = plan.staging
    published = read_unchanged(staging, plan.seen)
    options = StoragePath.options_of(plan.request.path)
    return Snapshot.of_bytes(staging.filesystem, staging.directory, published, options)


def _rewritten(plan: WritePlan, current: Snapshot | None) -> CheckpointMetadata | None:
    """Return the savepoint to change, with operator state rewritten if the target release cannot read it."""
    if current is None or not plan.rewritten:
        return current.metadata if current is not None else None
    from pyspark_savepoint.statebackends.sources.operator_sources import operator_sources
    from pyspark_savepoint.statebackends.writing.operator_edit import whole_parts, write_operator_streams

    operators = []
    for number, operator in enumerate(current.operators):
        if operator.operator_id in plan.rewritten:
            parts = whole_parts(operator_sources(current, operator))
            handles = write_operator_streams(parts, plan.staging, f"{number}s")
            operator = changes.with_operator_state(operator, handles)
        operators.append(operator)
    return replace(current.metadata, operators=tuple(operators))


def _operator(
    plan: WritePlan, snapshot: Snapshot | None, base: CheckpointMetadata | None, outputs: Sequence[TaskOutput]
) -> OperatorState:
    """Return the operator with the written state, and the rest of its existing state."""
    existing = (
        next((operator for operator in base.operators if operator.operator_id == plan.operator_id), None)
        if base
        else None
    )
    if plan.request.is_keyed:
        replaced = existing is None or plan.request.replaces_operator
        written = assemble_keyed(plan, snapshot, outputs, None if replaced else existing)
        if existing is None:
            return written
        if plan.request.replaces_operator:
            return changes.with_name(replace(written, uid=existing.uid, name=existing.name), written)
        if plan.replaces_raw_timers:
            existing = changes.without_raw_keyed_state(existing)
        return changes.with_name(changes.with_keyed_state(existing, written), written)
    from pyspark_savepoint.statebackends.writing.operator_files import assemble_operator_state, assemble_subtasks

    if plan.request.table == ELEMENTS:
        return assemble_subtasks(plan, [output.operator_state for output in outputs if output.operator_state])
    elements = [(output.elements, output.rows) for output in outputs if output.elements is not None]
    written = assemble_operator_state(plan, snapshot, existing, elements)
    if existing is None:
        return written
    handles = {index: subtask.managed_operator_state for index, subtask in written.subtasks.items()}
    # Both are those of ``existing`` if any other state has them.
    existing = replace(existing, parallelism=written.parallelism, max_parallelism=written.max_parallelism)
    return changes.with_name(changes.with_operator_state(existing, handles), written)


def _with_operator(plan: WritePlan, base: CheckpointMetadata | None, operator: OperatorState) -> CheckpointMetadata:
    if base is None:
        return changes.assemble([operator], [], plan.metadata_version)
    by_id = {existing.operator_id: existing for existing in base.operators} | {operator.operator_id: operator}
    return changes.assemble(list(by_id.values()), [base], plan.metadata_version)
