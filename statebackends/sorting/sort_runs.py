"""Runs: files of rows sorted by key group and key bytes, and their merge.

    run := Arrow IPC stream of (key group, key, columns of the rows)        batches of bounded size

Flink: ``ExternalSorter``, ``NormalizedKeySorter`` of Flink's batch mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from pyspark_savepoint.formats.columns import Ints, Longs, fixed_array, fixed_values, spans_of
from pyspark_savepoint.statebackends.sorting.sort_order import sort_by_key_group

KEY_GROUP, KEY = "__key_group", "__key"


@dataclass(frozen=True, slots=True)
class SortedBatch:
    """Rows in the order of (key group, unsigned key bytes); equal keys in the order in which they arrived.

    ``key_group`` has one int32 per row, ``key`` is a binary array without nulls, ``rows`` any columns.
    """

    key_group: Ints
    key: pa.BinaryArray
    rows: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.key)

    def place(self, row: int) -> tuple[int, bytes]:
        """Return the position of a row in the order: its key group and key."""
        return int(self.key_group[row]), self.key[row].as_py()

    def slice(self, low: int, high: int) -> SortedBatch:
        """Return rows [low, high)."""
        return SortedBatch(self.key_group[low:high], self.key.slice(low, high - low), self.rows.slice(low, high - low))


@dataclass(frozen=True, slots=True)
class RunInfo:
    """Contents of a run file: the number of rows, in total and by key group (only those with rows)."""

    rows: int
    key_groups: dict[int, int]


class RunSink(Protocol):
    """Target of a run's bytes."""

    def write(self, data: Any, /) -> object:
        """Append bytes."""


class _Stream:
    """Adapter from a sink to the file object that pyarrow expects."""

    closed = False

    def __init__(self, sink: RunSink) -> None:
        self.sink = sink

    def write(self, data: Any) -> int:
        self.sink.write(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: the owner flushes the sink."""

    def close(self) -> None:
        """Do nothing: the owner closes the sink."""


def group_bounds(key_group: Ints) -> tuple[Ints, Longs]:
    """Return the key groups of sorted rows, and the start of each group's rows with the end of the last."""
    cuts = 1 + np.flatnonzero(key_group[1:] != key_group[:-1])
    bounds = np.concatenate([[0], cuts, [len(key_group)]]).astype(np.int64)
    return key_group[bounds[:-1]], bounds


def run_schema(rows: pa.Schema) -> pa.Schema:
    """Return the columns of a run file."""
    return pa.schema([pa.field(KEY_GROUP, pa.int32()), pa.field(KEY, pa.binary()), *rows])


def write_run(sink: RunSink, schema: pa.Schema, batches: Iterable[SortedBatch]) -> RunInfo:
    """Write sorted batches, whose rows have ``schema``, as one run; the sink stays open."""
    whole = run_schema(schema)
    rows = 0
    counts: dict[int, int] = {}
    with ipc.new_stream(pa.PythonFile(_Stream(sink), mode="w"), whole) as writer:
        for batch in batches:
            columns = [
                fixed_array(pa.int32(), np.ascontiguousarray(batch.key_group, np.int32)),
                batch.key,
                *batch.rows.columns,
            ]
            if not len(batch):
                continue
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=whole))
            rows += len(batch)
            key_groups, bounds = group_bounds(batch.key_group)
            for key_group, count in zip(key_groups.tolist(), np.diff(bounds).tolist(), strict=True):
                counts[key_group] = counts.get(key_group, 0) + count
    return RunInfo(rows, counts)


def read_run(file: Any) -> Iterator[SortedBatch]:
    """Yield the batches of a run from a file name, an open binary file, or a pyarrow file."""
    with ipc.open_stream(pa.OSFile(file) if isinstance(file, str) else file) as reader:
        schema = pa.schema(list(reader.schema)[2:])
        for batch in reader:
            rows = pa.RecordBatch.from_arrays(batch.columns[2:], schema=schema)
            # A copy, because kernels require writable arrays.
            yield SortedBatch(fixed_values(batch.column(0), np.int32).copy(), batch.column(1), rows)


class _Run:
    """Cursor over a run with its current batch."""

    def __init__(self, batches: Iterator[SortedBatch]) -> None:
        self.batches = batches
        self.batch: SortedBatch | None = None
        self.ahead: SortedBatch | None = None
        self._next()
        self.advance()

    def _next(self) -> None:
        self.ahead = next((batch for batch in self.batches if len(batch)), None)

    def advance(self) -> None:
        """Move to the next batch, if there is one."""
        self.batch = self.ahead
        if self.batch is not None:
            self._next()

    @property
    def last(self) -> tuple[int, bytes]:
        """Return the position of the last row of the current batch."""
        assert self.batch is not None
        return self.batch.place(len(self.batch) - 1)

    def take(self, boundary: tuple[int, bytes] | None, inclusive: bool) -> SortedBatch | None:
        """Remove and return the rows before a boundary (up to it if ``inclusive``), or all without a boundary."""
        batch = self.batch
        if batch is None:
            return None
        high = len(batch) if boundary is None else _bound(batch, boundary, inclusive)
        if high == len(batch):
            self.advance()
            return batch
        self.batch = batch.slice(high, len(batch))
        return batch.slice(0, high) if high else None


def _bound(batch: SortedBatch, boundary: tuple[int, bytes], inclusive: bool) -> int:
    """Return the number of rows before a boundary, or up to it if ``inclusive``."""
    low = int(np.searchsorted(batch.key_group, boundary[0], "left"))
    high = int(np.searchsorted(batch.key_group, boundary[0], "right"))
    while low < high:
        middle = (low + high) // 2
        key = batch.key[middle].as_py()
        if key < boundary[1] or (inclusive and key == boundary[1]):
            low = middle + 1
        else:
            high = middle
    return low


class Sorting:
    """Rows of some batches, with their sort order."""

    def __init__(self, batches: Sequence[SortedBatch]) -> None:
        keys = [batch.key for batch in batches]
        key_group = np.concatenate([batch.key_group for batch in batches])
        self.keys = sort_by_key_group(key_group, *spans_of(keys[0] if len(keys) == 1 else pa.concat_arrays(keys)))
        self.rows = pa.Table.from_batches([batch.rows for batch in batches]).combine_chunks()
        self.empty = batches[0].rows.slice(0, 0)

    def __len__(self) -> int:
        return len(self.keys.rows)

    def take(self, low: int, high: int) -> SortedBatch:
        """Return rows [low, high) in sort order."""
        rows = self.empty
        if rows.num_columns:
            rows = self.rows.take(pa.array(self.keys.rows[low:high])).to_batches()[0]
        return SortedBatch(self.keys.groups(low, high), self.keys.take(low, high), rows)


def sort_batches(batches: Sequence[SortedBatch]) -> SortedBatch:
    """Return all rows of some unsorted batches in order, as one batch."""
    sorting = Sorting(batches)
    return sorting.take(0, len(sorting))


def merge_runs(runs: Sequence[Iterator[SortedBatch]]) -> Iterator[SortedBatch]:
    """Yield the rows of sorted runs in order; of equal keys those of an earlier run first.

    At most two batches of every run are in memory. Of the runs that have more batches, the one whose current batch ends
    with the smallest key sets the boundary up to which all runs are taken. Runs before it are taken including that key;
    later runs excluding it, because the run itself may have more rows of that key.
    """
    live = [_Run(run) for run in runs]
    while True:
        live = [run for run in live if run.batch is not None]
        if not live:
            return
        boundary, least = min(((run.last, i) for i, run in enumerate(live) if run.ahead is not None), default=(None, 0))
        taken = [run.take(boundary, i <= least) for i, run in enumerate(live)]
        pieces = [piece for piece in taken if piece is not None]
        yield pieces[0] if len(pieces) == 1 else sort_batches(pieces)
