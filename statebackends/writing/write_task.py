"""One task of a write: converts rows to the final file of a subtask, or to a run that the commit merges.

If all rows belong to the subtask with the task's own number, as laid out by ``key_by``, they become the subtask's file.
Other rows are sorted into one run file, from which the commit makes the files of the subtasks. File names are unique,
so files of failed or redundant attempts are unreferenced and are removed with the folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import fixed_values
from pyspark_savepoint.formats.errors import ConcurrentWriteError, SavepointError, UnsupportedStateError
from pyspark_savepoint.formats.io.one_verb import in_context
from pyspark_savepoint.formats.metadata.key_groups import range_for_operator_index
from pyspark_savepoint.formats.snapshot.publication import is_unchanged
from pyspark_savepoint.statebackends.rows.entry_bytes import KEY_GROUP, STATE
from pyspark_savepoint.statebackends.rows.sorting import RowSorter
from pyspark_savepoint.statebackends.writing.planning.write_request import DELETED, ELEMENTS, ENTRIES
from pyspark_savepoint.statebackends.writing.row_forms import DescribedRows, EntryForm, row_form
from pyspark_savepoint.statebackends.writing.task_outputs import RunFile, TaskOutput, created_work

if TYPE_CHECKING:
    from pyspark_savepoint.statebackends.writing.planning.planned_write import WritePlan

#: Fewer rows may lie in one subtask's range by chance; without ``key_by`` they become a run, which is cheap to merge.
FEW_ROWS = 1 << 16


def write_rows(plan: WritePlan, partition: int, batches: Iterable[pa.RecordBatch]) -> TaskOutput:
    """Write the rows of one partition; a SavepointError names the operator."""
    try:
        with _refusing_late(plan) as wait:
            plan = replace(plan, staging=plan.staging.begin().in_task())
            output = _written(plan, partition, _until_rows_end(batches, wait))
        kept = plan.staging.kept or {}
        return replace(output, checksums=tuple((name, one.to_bytes()) for name, one in kept.items()))
    except SavepointError as error:
        raise error.with_facts(operator=plan.label) from None


def _written(plan: WritePlan, partition: int, batches: Iterable[pa.RecordBatch]) -> TaskOutput:
    if plan.request.is_keyed:
        return _keyed(plan, partition, batches)
    from pyspark_savepoint.statebackends.writing.operator_files import write_element_rows, write_subtask_elements

    if plan.request.table == ELEMENTS:
        handle, rows = write_subtask_elements(plan, partition, batches)
        return TaskOutput(partition, rows, operator_state=handle)
    name, rows = write_element_rows(plan, batches)
    return TaskOutput(partition, rows, elements=name)


@contextlib.contextmanager
def _refusing_late(plan: WritePlan) -> Iterator[Callable[[], None]]:
    """Look whether the write was published before this attempt; yield what waits for that, and raises an error if so.

    Keyed rows are sorted before a file is written: meanwhile the store answers.
    """
    if plan.staging.part:
        yield lambda: None
    elif plan.staging.filesystem.renames or not plan.request.is_keyed:
        _refuse_late(plan)
        yield lambda: None
    else:
        with ThreadPoolExecutor(1) as pool:
            yield pool.submit(in_context(_refuse_late), plan).result


def _until_rows_end(batches: Iterable[pa.RecordBatch], wait: Callable[[], None]) -> Iterator[pa.RecordBatch]:
    """Yield the batches, and wait after the last one."""
    yield from batches
    wait()


def _refuse_late(plan: WritePlan) -> None:
    """Raise an error in an attempt that started after its write was published."""
    staging = plan.staging
    if not is_unchanged(staging, plan.seen):
        raise ConcurrentWriteError(
            "another savepoint was published at this path before this task began",
            path=staging.filesystem.uri(staging.directory),
            remedy="nothing of this task was used: check the savepoint that is there now, and write again if it is "
            "not this one",
        )


def _keyed(plan: WritePlan, partition: int, batches: Iterable[pa.RecordBatch]) -> TaskOutput:
    if plan.request.bases and not plan.updates:
        return _merged(plan, partition, batches)
    form = row_form(plan)
    if plan.python is not None:
        batches = map(plan.python.batch, batches)
    if plan.request.table == ENTRIES:
        batches = _as_entries(plan, batches)
    has_rows = np.zeros(plan.max_parallelism, bool)
    with RowSorter(form.schema, plan.request.sort_memory) as sorter:
        for batch in batches:
            key_group, key, rows = form.rows(batch)
            has_rows[key_group] = True
            sorter.add(key_group, key, rows)
        if not sorter.rows:
            return TaskOutput(partition, 0)
        if _is_own(plan, partition, has_rows, sorter.rows):
            from pyspark_savepoint.statebackends.writing.state_file import kept_headers, write_state_file

            assert plan.parallelism is not None
            file = write_state_file(plan, plan.parallelism, partition, sorter.sorted(), kept_headers(plan))
            return TaskOutput(partition, sorter.rows, file=file)
        return TaskOutput(partition, sorter.rows, run=write_run_file(plan, sorter, has_rows))


def _merged(plan: WritePlan, partition: int, batches: Iterable[pa.RecordBatch]) -> TaskOutput:
    """Write the file of a subtask from its rows and the entries of the bases, also without rows if it may change."""
    from pyspark_savepoint.statebackends.writing.state_file import write_state_file

    assert plan.parallelism is not None
    form = EntryForm(plan)
    is_subtask = partition < plan.parallelism
    own = range_for_operator_index(plan.max_parallelism, plan.parallelism, partition if is_subtask else 0)
    memory = plan.request.sort_memory // 2
    with RowSorter(form.schema, memory) as sorter, RowSorter(form.schema, memory) as gone:
        for batch in _as_entries(plan, batches):
            key_group = fixed_values(batch.column(KEY_GROUP), np.int32)
            if len(batch) and not (is_subtask and own.start <= key_group.min() <= key_group.max() <= own.end):
                raise UnsupportedStateError(
                    "a task got rows of other subtasks: Spark's partitions were moved",
                    operator=plan.label,
                    expected=f"key groups {own} in partition {partition} of {plan.parallelism}",
                    found=f"key groups {key_group.min()} to {key_group.max()}",
                    remedy="disable Spark extensions that change query plans of this session",
                )
            is_mark = pc.less_equal(batch.column(STATE), DELETED)
            sorter.add(*form.rows(batch.filter(pc.invert(is_mark))))
            gone.add(*form.rows(batch.filter(is_mark)))
        if not is_subtask or (partition in plan.unchanged and not (sorter.rows or gone.rows)):
            return TaskOutput(partition, 0)
        file = write_state_file(plan, plan.parallelism, partition, sorter.sorted(), None, gone.sorted())
        return TaskOutput(partition, sorter.rows, file=file)


def _as_entries(plan: WritePlan, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Return rows of table ``entries``; columns are encoded."""
    if plan.keyed is None:
        return batches
    from pyspark_savepoint.statebackends.writing.entry_encoder import EntryEncoder

    rows = DescribedRows(plan.keyed, plan.schema, plan.max_parallelism, plan.label)
    numbers = tuple(number for number, *_ in plan.request.entry_columns)
    return EntryEncoder(rows, False, numbers, False, plan.marked)(batches)


def _is_own(plan: WritePlan, partition: int, seen: np.ndarray, rows: int) -> bool:
    """Return whether the rows are those of the subtask with the partition's number, and very likely all of them."""
    if (
        plan.request.bases
        or plan.parallelism is None
        or partition >= plan.parallelism
        or (rows < FEW_ROWS and not plan.clustered)
    ):
        return False
    own = range_for_operator_index(plan.max_parallelism, plan.parallelism, partition)
    return not seen[: own.start].any() and not seen[own.end + 1 :].any()


def write_run_file(plan: WritePlan, sorter: RowSorter, seen: np.ndarray) -> RunFile:
    """Write all rows of a sorter to one file, which is removed on failure."""
    name = plan.staging.unique("run")
    with created_work(plan.staging, name) as file:
        sorter.write_run(file)
    return RunFile(name, file.size, np.packbits(seen).tobytes())
