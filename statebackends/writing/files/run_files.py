"""Run files of tasks, opened on any file system, and merged a bounded number at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import numpy as np

from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange
from pyspark_savepoint.statebackends.sorting.sort_runs import SortedBatch, merge_runs, read_run, write_run
from pyspark_savepoint.statebackends.writing.files.element_files import created_work, open_work
from pyspark_savepoint.statebackends.writing.files.write_results import RunFile
from pyspark_savepoint.statebackends.writing.planning.planned_write import WritePlan
from pyspark_savepoint.statebackends.writing.rows.row_forms import row_form

#: Number of runs open at a time; two batches of each are in memory.
FAN_IN = 32


def reduced(plan: WritePlan, runs: Sequence[RunFile]) -> list[str]:
    """Merge runs until at most ``FAN_IN`` files are left; return their names."""
    names = [run.name for run in runs]
    while len(names) > FAN_IN:
        names = [*names[FAN_IN:], _merge_some(plan, names[:FAN_IN])]
    return names


def merged(plan: WritePlan, names: Sequence[str], key_groups: KeyGroupRange, stack: ExitStack) -> Iterator[SortedBatch]:
    """Yield the rows of some key groups of all runs, in order; ``stack`` closes the files."""
    return merge_runs([_within(_open(plan, name, stack), key_groups) for name in names])


def _within(batches: Iterator[SortedBatch], key_groups: KeyGroupRange) -> Iterator[SortedBatch]:
    for batch in batches:
        low, high = np.searchsorted(batch.key_group, [key_groups.start, key_groups.end + 1]).tolist()
        if low < high:
            yield batch.slice(low, high) if high - low < len(batch) else batch
        if high < len(batch):
            return


def _merge_some(plan: WritePlan, names: Sequence[str]) -> str:
    """Merge several runs to one, and delete them."""
    name = plan.staging.unique("run")
    with created_work(plan.staging, name) as file, ExitStack() as stack:
        write_run(file, row_form(plan).schema, merge_runs([_open(plan, part, stack) for part in names]))
    for part in names:
        plan.staging.filesystem.delete_file(plan.staging.work_path(part))
    return name


def _open(plan: WritePlan, name: str, stack: ExitStack) -> Iterator[SortedBatch]:
    return read_run(stack.enter_context(open_work(plan.staging, name)))
