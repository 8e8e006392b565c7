"""The state file of one subtask: written from sorted rows, and read back before anybody relies on it.

What the operator keeps beside the rows that are written goes into the same file: as entries, undecoded, key group by
key group. Twins: ``FullSnapshotAsyncWriter``, ``KeyGroupsSavepointStateHandle``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from pyspark_savepoint.formats.byte_source import FileLocation
from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.key_groups import KeyGroupRange, range_for_operator_index
from pyspark_savepoint.formats.keyed_writer import FullKeyedStreamWriter
from pyspark_savepoint.statebackends.kept_entries import kept_entries
from pyspark_savepoint.statebackends.keyed_sources import KeyedSource
from pyspark_savepoint.statebackends.planned_write import WritePlan
from pyspark_savepoint.statebackends.row_forms import row_form
from pyspark_savepoint.statebackends.sort_runs import SortedBatch, group_bounds
from pyspark_savepoint.statebackends.write_results import StateFile

#: Bytes of a file that are looked at together when it is read back.
READ_BACK_WINDOW = 1 << 24


def write_state_file(plan: WritePlan, parallelism: int, subtask: int, batches: Iterable[SortedBatch]) -> StateFile:
    """The file of a subtask from all of its rows, sorted; it leaves nothing where it fails."""
    key_groups = range_for_operator_index(plan.max_parallelism, parallelism, subtask)
    name = plan.staging.unique(str(subtask))
    file = plan.staging.create_state(name)
    try:
        with FullKeyedStreamWriter(
            file, plan.header(), key_groups, plan.max_parallelism, plan.request.sort_memory
        ) as writer:
            _fill(plan, writer, key_groups, batches)
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
    plan: WritePlan, writer: FullKeyedStreamWriter, key_groups: KeyGroupRange, batches: Iterable[SortedBatch]
) -> None:
    sink = row_form(plan).sink(writer)
    if not plan.kept:
        for batch in batches:
            sink.add(batch)
        return
    with kept_entries(plan, writer, key_groups) as (kept_sink, kept):
        steps = heapq.merge(_by_key_group(batches, sink.add), _by_key_group(kept, kept_sink.add), key=_place)
        for _, add, batch in steps:
            add(batch)


def _by_key_group(
    batches: Iterable[SortedBatch], add: Callable[[SortedBatch], None]
) -> Iterator[tuple[int, Callable[[SortedBatch], None], SortedBatch]]:
    for batch in batches:
        found, bounds = group_bounds(batch.key_group)
        for key_group, low, high in zip(found.tolist(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            yield key_group, add, batch.slice(low, high)


def _place(step: tuple[int, Callable[[SortedBatch], None], SortedBatch]) -> int:
    return step[0]


def read_back(plan: WritePlan, written: StateFile, key_groups: KeyGroupRange) -> None:
    """Read a file as everybody will: its head, every offset, every entry's frame and key group, and count."""
    staging = plan.staging
    location = FileLocation(staging.filesystem, staging.state_path(written.name), None, written.size)
    source = KeyedSource(location, written.handle(key_groups).offsets, True, plan.max_parallelism, plan.label)
    found = np.zeros(len(key_groups), np.int64)
    with source.open(DecodeOptions()) as stream:
        states = [meta.name for meta in stream.header.states]
        for block in stream.blocks(set(key_groups), set(), False, READ_BACK_WINDOW):
            found += np.bincount(block.key_group - key_groups.start, minlength=len(key_groups))
    expected = np.frombuffer(written.entries, np.int64)
    if not np.array_equal(found, expected) or states != [meta.name for meta in plan.header().states]:
        wrong = int(np.flatnonzero(found != expected)[0]) if not np.array_equal(found, expected) else -1
        raise CorruptStateError(
            "a file does not hold what was written to it",
            path=location.path,
            operator=plan.label,
            expected=f"{expected[wrong]} entries in key group {key_groups.start + wrong}"
            if wrong >= 0
            else "all states",
            found=int(found[wrong]) if wrong >= 0 else ", ".join(states),
            remedy="nothing was published; the disk or its file system is failing: write elsewhere",
        )
