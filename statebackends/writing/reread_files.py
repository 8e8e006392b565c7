"""Rows of a subtask's final file, converted back to a run: the commit merges them with rows of other tasks."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.metadata import CheckpointMetadata, OperatorState, OperatorSubtaskState
from pyspark_savepoint.formats.metadata.key_groups import range_for_operator_index
from pyspark_savepoint.formats.snapshot.savepoint import METADATA_FILE_NAME, Snapshot
from pyspark_savepoint.formats.snapshot.snapshot_location import SnapshotLocation
from pyspark_savepoint.statebackends.requests.request import EntriesRequest, TablePartition, TableRequest
from pyspark_savepoint.statebackends.rows.sorting import RowSorter
from pyspark_savepoint.statebackends.rows.state_column import LAST_ACCESS
from pyspark_savepoint.statebackends.sources.keyed_plan import is_key_value
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.tables.entries_table import EntriesTable
from pyspark_savepoint.statebackends.tables.keyed_table import KEY, KEY_GROUP, WINDOW, KeyedTable, column_names
from pyspark_savepoint.statebackends.writing.row_forms import PLAIN, ColumnForm, EntryForm, SortRows, row_form
from pyspark_savepoint.statebackends.writing.write_task import write_run_file

if TYPE_CHECKING:
    from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor
    from pyspark_savepoint.statebackends.writing.planning.planned_write import WritePlan
    from pyspark_savepoint.statebackends.writing.task_outputs import RunFile, StateFile


def reread(plan: WritePlan, parallelism: int, file: StateFile) -> RunFile:
    """Return the rows of a file as a run, and delete the file."""
    opened = _opened(plan, parallelism, file)
    form = row_form(plan)
    rows = _columns(form, opened) if isinstance(form, ColumnForm) else _entries(plan, form.schema, opened)
    has_rows = np.zeros(plan.max_parallelism, bool)
    with RowSorter(form.schema, plan.request.sort_memory) as sorter:
        for key_group, key, batch in rows:
            has_rows[key_group] = True
            sorter.add(key_group, key, batch)
        run = write_run_file(plan, sorter, has_rows)
    plan.staging.filesystem.delete_file(plan.staging.state_path(file.name))
    return run


def _opened(plan: WritePlan, parallelism: int, file: StateFile) -> OpenOperator:
    """Open the file as a snapshot of one operator with one subtask."""
    key_groups = range_for_operator_index(plan.max_parallelism, parallelism, file.subtask)
    state = OperatorSubtaskState(managed_keyed_state=file.handle(key_groups))
    operator = OperatorState(plan.operator_id, parallelism, plan.max_parallelism, subtasks={file.subtask: state})
    folder = posixpath.dirname(plan.staging.state_path(file.name))
    metadata = CheckpointMetadata(plan.metadata_version, 0, (), (operator,))
    location = SnapshotLocation(plan.staging.filesystem, folder, classes=plan.request.job_classes)
    return OpenOperator(Snapshot(location, posixpath.join(folder, METADATA_FILE_NAME), metadata), operator)


def _batches(partitions: list[TablePartition]) -> Iterator[pa.RecordBatch]:
    for partition in partitions:
        yield from partition.batches()


def _columns(form: ColumnForm, opened: OpenOperator) -> Iterator[SortRows]:
    """Yield rows as a user would read them, with the column names that they were written from."""
    descriptor = form.descriptor
    request = TableRequest(
        opened.savepoint.path, include_ttl=True, include_key_group=True, include_internal=True, decode=PLAIN
    )
    table = KeyedTable(opened, request, namespaced=descriptor.namespace_column is not None)
    names = column_names(table.spec.states, table.spec.namespaced)
    for batch in _batches(table.partitions(None)):
        yield form.rows(pa.record_batch(_renamed(batch, descriptor, names)))


def _renamed(batch: pa.RecordBatch, descriptor: KeyedDescriptor, names: dict[str, str]) -> dict[str, pa.Array]:
    keys = descriptor.key_columns
    key = batch.column(KEY)
    columns = {keys[0]: key} if len(keys) == 1 else dict(zip(keys, key.flatten(), strict=True))
    if descriptor.namespace_column is not None:
        columns[descriptor.namespace_column] = batch.column(WINDOW)
    for state in descriptor.states:
        columns[state.column] = batch.column(names[state.name])
        if state.last_access is not None:
            columns[state.last_access] = batch.column(names[state.name] + LAST_ACCESS)
    if descriptor.key_group is not None:
        columns[descriptor.key_group] = batch.column(KEY_GROUP)
    return columns


def _entries(plan: WritePlan, schema: pa.Schema, opened: OpenOperator) -> Iterator[SortRows]:
    """Yield the entries of the written states; kept states are read from the existing savepoint."""
    metas = plan.header().states[: len(plan.header().states) - len(plan.kept)]
    entries_request = EntriesRequest(tuple((meta.name, not is_key_value(meta)) for meta in metas))
    table = EntriesTable(opened, TableRequest(opened.savepoint.path, entries=entries_request))
    form = EntryForm(plan)
    for batch in _batches(table.partitions(None)):
        key_group, key, values = form.rows(batch)
        yield key_group, key, values.select(schema.names)
