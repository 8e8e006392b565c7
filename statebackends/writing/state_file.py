"""State file of one subtask: written from sorted rows, and verified by reading it back.

The states that the operator keeps go into the same file. Their entries stay undecoded. They are converted from any
format to the canonical one, key group by key group. Flink: ``FullSnapshotAsyncWriter``,
``KeyGroupsSavepointStateHandle``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.io.byte_source import FileLocation
from pyspark_savepoint.formats.io.snapshot_files import WHOLE
from pyspark_savepoint.formats.keyed.canonical_stream import CanonicalKeyedStream
from pyspark_savepoint.formats.keyed.canonical_writer import CanonicalKeyedStreamWriter
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, range_for_operator_index
from pyspark_savepoint.formats.metadata.keyed_handles import has_database
from pyspark_savepoint.statebackends.rows.entry_bytes import ENTRIES
from pyspark_savepoint.statebackends.rows.sorting import RowSorter, SortedBatch, group_bounds
from pyspark_savepoint.statebackends.sources.keyed_sources import KeyedSource
from pyspark_savepoint.statebackends.writing.row_forms import EntryForm, EntrySink, row_form
from pyspark_savepoint.statebackends.writing.task_outputs import StateFile

if TYPE_CHECKING:
    from pyspark_savepoint.formats.snapshot.publication import Staging
    from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
    from pyspark_savepoint.statebackends.sources.keyed_plan import OperatorHeaders
    from pyspark_savepoint.statebackends.writing.planning.planned_write import WritePlan


@contextmanager
def kept_entries(
    plan: WritePlan, headers: OperatorHeaders, writer: CanonicalKeyedStreamWriter, key_groups: KeyGroupRange
) -> Iterator[tuple[EntrySink, Iterator[SortedBatch]]]:
    """Return a sink for the states to keep, numbered after the written ones, and their entries, sorted."""
    from pyspark_savepoint.statebackends.requests.request import EntriesRequest, TableRequest
    from pyspark_savepoint.statebackends.tables.entries_table import EntriesPartition

    entries_request = EntriesRequest(plan.kept)
    request = TableRequest(plan.request.path, entries=entries_request)
    partition = EntriesPartition(headers.split(tuple(key_groups)), (), entries_request, ENTRIES, request)
    written = len(plan.header().states) - len(plan.kept)
    form = EntryForm(plan, written)
    with RowSorter(form.schema, plan.request.sort_memory // 2) as sorter:
        for batch in partition.batches():
            sorter.add(*form.rows(batch))
        yield form.sink(writer), sorter.sorted()


def kept_headers(plan: WritePlan, base: Snapshot | None = None) -> OperatorHeaders | None:
    """Return the headers of the operator whose other states are kept; None if there are none."""
    if not plan.kept:
        return None
    from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
    from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

    base = base or Snapshot.open(plan.request.path)
    operator = next(operator for operator in base.operators if operator.operator_id == plan.operator_id)
    if any(has_database(subtask.managed_keyed_state) for subtask in operator.subtasks.values()):
        return OpenOperator(base, operator).keyed
    return OpenOperator(base.verified(), operator).keyed  # what is damaged gets no new checksums


#: Block size in bytes when a file is read back.
READ_BACK_WINDOW = 1 << 24


def write_state_file(
    plan: WritePlan,
    parallelism: int,
    subtask: int,
    batches: Iterable[SortedBatch],
    kept: OperatorHeaders | None,
    removed: Iterable[SortedBatch] = (),
) -> StateFile:
    """Write the file of a subtask from all of its rows, sorted, and the states to keep; on failure, remove it.

    ``removed`` are marks, sorted: keys that the entries merged from existing operators lose.
    """
    key_groups = range_for_operator_index(plan.max_parallelism, parallelism, subtask)
    name = plan.staging.unique(str(subtask))
    file = plan.staging.create_state(name)
    try:
        with CanonicalKeyedStreamWriter(
            file, plan.header(), key_groups, plan.max_parallelism, plan.request.sort_memory
        ) as writer:
            if plan.request.bases:
                from pyspark_savepoint.statebackends.writing.merged_bases import merge_bases

                merge_bases(plan, writer, key_groups, batches, removed)
            else:
                _fill(plan, writer, key_groups, batches, kept)
            offsets = writer.finish().offsets
        file.close()
    finally:
        file.abort()
    written = StateFile(
        name,
        file.size,
        subtask,
        np.array(offsets, np.int64).tobytes(),
        np.array(writer.entries, np.int64).tobytes(),
    )
    read_back(plan, written, key_groups)
    return written


def _fill(
    plan: WritePlan,
    writer: CanonicalKeyedStreamWriter,
    key_groups: KeyGroupRange,
    batches: Iterable[SortedBatch],
    headers: OperatorHeaders | None,
) -> None:
    sink = row_form(plan).sink(writer)
    if headers is None:
        for batch in batches:
            sink.add(batch)
        return
    with kept_entries(plan, headers, writer, key_groups) as (kept_sink, kept):
        steps = heapq.merge(_by_key_group(batches, sink.add), _by_key_group(kept, kept_sink.add), key=_place)
        for _, add, batch in steps:
            add(batch)


def _by_key_group(
    batches: Iterable[SortedBatch], add: Callable[[SortedBatch], None]
) -> Iterator[tuple[int, Callable[[SortedBatch], None], SortedBatch]]:
    for batch in batches:
        key_groups, bounds = group_bounds(batch.key_group)
        for key_group, low, high in zip(key_groups.tolist(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            yield key_group, add, batch.cut(low, high)


def _place(step: tuple[int, Callable[[SortedBatch], None], SortedBatch]) -> int:
    return step[0]


def read_back(plan: WritePlan, written: StateFile, key_groups: KeyGroupRange) -> None:
    """Read a written file back, and check header, offsets, frames, key groups and numbers of entries."""
    states = [meta.name for meta in plan.header().states]
    expect_written(plan.staging, written, key_groups, plan.max_parallelism, states, plan.label)


def expect_written(
    staging: Staging,
    written: StateFile,
    key_groups: KeyGroupRange,
    max_parallelism: int,
    states: Sequence[str],
    operator: str,
) -> None:
    """Read the file of a subtask back; raise CorruptStateError if it does not hold these states and all entries.

    Files of object stores need no other proof: their bytes were compared when they were closed. A later step checks
    that the file exists.
    """
    if not staging.filesystem.renames:
        return
    location = FileLocation(staging.filesystem, staging.state_path(written.name), None, written.size)
    source = KeyedSource(location, written.handle(key_groups).offsets, True, max_parallelism, operator)
    counts = np.zeros(len(key_groups), np.int64)
    with source.open(DecodeOptions(), WHOLE) as stream:
        assert isinstance(stream, CanonicalKeyedStream)
        names = [meta.name for meta in stream.header.states]
        for found, entries in stream.counts(READ_BACK_WINDOW):
            counts[found - key_groups.start] = entries
    expected = np.frombuffer(written.entries, np.int64)
    wrong = np.flatnonzero(counts != expected).tolist()
    if wrong or names != list(states):
        raise CorruptStateError(
            "a file does not contain what was written to it",
            path=location.path,
            operator=operator,
            expected=f"{expected[wrong[0]]} entries in key group {key_groups.start + wrong[0]}"
            if wrong
            else "all states",
            found=int(counts[wrong[0]]) if wrong else ", ".join(names),
            remedy="nothing was published; the disk or file system is faulty: write to another one",
        )
