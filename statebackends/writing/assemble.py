"""Assembly of an operator's state from the output of tasks: the part of a commit that processes rows.

    final file of a subtask, no rows elsewhere     stays as it is
    runs                                           are merged into the files of the subtasks
    final file, and rows elsewhere                 is read back into a run, and merged with the others

So the layout of the DataFrame affects only the time that a write takes. A task whose rows were all in one subtask's
range has written that subtask's file. If other tasks had rows of the same subtask too (two DataFrames, each laid out by
key, then united), the file is converted back to the rows that it was written from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pyspark_savepoint.formats.io.local_files import cpus
from pyspark_savepoint.formats.metadata import OperatorState, OperatorSubtaskState
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, range_for_operator_index
from pyspark_savepoint.formats.snapshot.finished import finished_key_groups, finished_subtasks
from pyspark_savepoint.statebackends.rows.sorting import KeyGroupCursor, SortedBatch, merge_runs, read_run, write_run
from pyspark_savepoint.statebackends.writing.row_forms import row_form
from pyspark_savepoint.statebackends.writing.task_outputs import RunFile, StateFile, TaskOutput, created_work, open_work

if TYPE_CHECKING:
    from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
    from pyspark_savepoint.statebackends.sources.keyed_plan import OperatorHeaders
    from pyspark_savepoint.statebackends.writing.planning.planned_write import WritePlan

#: Bytes of rows per subtask if no parallelism was given.
BYTES_PER_SUBTASK = 64 << 20
#: Bytes of rows from which tasks should write the files, and not one process.
MUCH = 1 << 30
#: Number of files written at a time; kernels release the GIL.
MAX_LANES = 4


def merge_notes(outputs: Sequence[TaskOutput]) -> Iterator[str]:
    """Yield a note for the user if this process has to merge many rows."""
    size = sum(output.run.size for output in outputs if output.run is not None)
    if size >= MUCH:
        yield (
            f"one process merges {size / 1e9:.1f} GB of rows, because the DataFrame is not partitioned by key group; "
            "with key_by(df, 'key', max_parallelism=...) every task writes the file of one subtask"
        )


def assemble_keyed(
    plan: WritePlan, base: Snapshot | None, outputs: Sequence[TaskOutput], existing: OperatorState | None = None
) -> OperatorState:
    """Return the operator with a state file for every subtask that changes; ``base`` has the states to keep.

    Raise UnsupportedStateError for entries of a subtask of the ``existing`` operator that has finished.
    """
    runs = [output.run for output in outputs if output.run is not None]
    finals = [output.file for output in outputs if output.file is not None]
    parallelism = plan.parallelism or fitting_parallelism(plan, runs)
    files, others = _settled(plan, parallelism, finals, runs)
    missing = [subtask for subtask in range(parallelism) if subtask not in files and subtask not in plan.unchanged]
    if missing:
        _fill(plan, base, parallelism, missing, files, runs, others)
    finished = finished_subtasks(existing) if existing is not None else frozenset()
    for index in finished & files.keys():
        if existing is not None and np.frombuffer(files[index].entries, np.int64).any():
            raise finished_key_groups(existing, index)
    running = [index for index in range(parallelism) if index in files and index not in finished]
    return plan.operator(parallelism, {index: _subtask(plan, parallelism, files[index]) for index in running})


def _fill(
    plan: WritePlan,
    base: Snapshot | None,
    parallelism: int,
    missing: Sequence[int],
    files: dict[int, StateFile],
    runs: list[RunFile],
    others: Sequence[StateFile],
) -> None:
    """Write the missing files: several lanes in parallel, each a range of adjacent subtasks in sequence."""
    from pyspark_savepoint.statebackends.writing.state_file import kept_headers

    if others:
        from pyspark_savepoint.statebackends.writing.reread_files import reread

        runs = runs + [reread(plan, parallelism, file) for file in others]
    names = reduced(plan, runs)
    lanes = min(len(missing), cpus(), MAX_LANES) if names else 1
    bounds = [len(missing) * lane // lanes for lane in range(lanes + 1)]
    kept = kept_headers(plan, base)
    with ThreadPoolExecutor(lanes) as pool:
        parts = [missing[low:high] for low, high in pairwise(bounds)]
        for written in pool.map(lambda part: _write_lane(plan, parallelism, names, part, kept), parts):
            files.update((file.subtask, file) for file in written)


def _write_lane(
    plan: WritePlan, parallelism: int, names: Sequence[str], subtasks: Sequence[int], kept: OperatorHeaders | None
) -> list[StateFile]:
    """Write the files of adjacent subtasks in one pass over the runs."""
    from pyspark_savepoint.statebackends.writing.state_file import write_state_file

    ranges = {i: range_for_operator_index(plan.max_parallelism, parallelism, i) for i in subtasks}
    whole = KeyGroupRange(ranges[subtasks[0]].start, ranges[subtasks[-1]].end)
    with ExitStack() as stack:
        if not plan.request.bases:
            rows = KeyGroupCursor(merged(plan, names, whole, stack))
            return [write_state_file(plan, parallelism, i, rows.up_to(ranges[i].end), kept) for i in subtasks]
        from pyspark_savepoint.statebackends.writing.merged_bases import split_marks

        # What existing entries lose is read beside the rows, from the same runs.
        rows, removed = (
            KeyGroupCursor(split_marks(merged(plan, names, whole, stack), marks=marks)) for marks in (False, True)
        )
        return [
            write_state_file(plan, parallelism, i, rows.up_to(ranges[i].end), None, removed.up_to(ranges[i].end))
            for i in subtasks
        ]


def _subtask(plan: WritePlan, parallelism: int, file: StateFile) -> OperatorSubtaskState:
    key_groups = range_for_operator_index(plan.max_parallelism, parallelism, file.subtask)
    return OperatorSubtaskState(managed_keyed_state=file.handle(key_groups))


def fitting_parallelism(plan: WritePlan, runs: Iterable[RunFile]) -> int:
    """Return the number of subtasks for the size of the rows."""
    size = sum(run.size for run in runs)
    return max(1, min(plan.max_parallelism, -(-size // BYTES_PER_SUBTASK)))


def _settled(
    plan: WritePlan, parallelism: int, finals: Iterable[StateFile], runs: Iterable[RunFile]
) -> tuple[dict[int, StateFile], list[StateFile]]:
    """Split final files into those with all rows of their subtask, and the others."""
    spread = np.zeros(plan.max_parallelism, bool)
    for run in runs:
        spread |= run.has(plan.max_parallelism)
    by_subtask: dict[int, list[StateFile]] = {}
    for file in finals:
        by_subtask.setdefault(file.subtask, []).append(file)
    settled: dict[int, StateFile] = {}
    others: list[StateFile] = []
    for subtask, files in by_subtask.items():
        key_groups = range_for_operator_index(plan.max_parallelism, parallelism, subtask)
        if len(files) == 1 and not spread[key_groups.start : key_groups.end + 1].any():
            settled[subtask] = files[0]
        else:
            others += files
    return settled, others


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
            yield batch.cut(low, high) if high - low < len(batch) else batch
        if high < len(batch):
            return


def _merge_some(plan: WritePlan, names: Sequence[str]) -> str:
    """Merge several runs to one, and delete them."""
    name = plan.staging.unique("run")
    with created_work(plan.staging, name) as file, ExitStack() as stack:
        write_run(file, row_form(plan).schema, merge_runs([_open(plan, part, stack) for part in names]))
    for part in names:
        plan.staging.delete_work(part)
    return name


def _open(plan: WritePlan, name: str, stack: ExitStack) -> Iterator[SortedBatch]:
    return read_run(stack.enter_context(open_work(plan.staging, name)))
