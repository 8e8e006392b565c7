"""External sort of rows by key group and key bytes in bounded memory, the first step of every writer of keyed state.

    add(key groups, keys, rows)   collects rows; beyond ``memory`` they are sorted and spilled to local disk as a run
    sorted()                      yields the rows in memory, or the merge of all runs, in batches

The order is RocksDB's: unsigned bytes. It is stable: equal keys stay in the order in which they arrived. A run is a
file:

    run := Arrow IPC stream of (key group, key, columns of the rows)        batches of bounded size

Flink: ``ExternalSorter``, ``NormalizedKeySorter`` of Flink's batch mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc as ipc

from pyspark_savepoint.formats.columns import Bytes, Ints, Longs, binary_array, fixed_array, fixed_values, spans_of
from pyspark_savepoint.formats.io.local_files import discard, local_directory, spilling, temporary_file
from pyspark_savepoint.formats.keyed.canonical_writer import read_only
from pyspark_savepoint.formats.metadata.key_groups import UPPER_BOUND_MAX_PARALLELISM
from pyspark_savepoint.formats.sorted_runs import join_runs


@dataclass(slots=True)
class SortedSpans:
    """Spans of a buffer in the stable order of (group, unsigned bytes).

    ``rows`` has the row numbers in that order, ``bounds`` the start of each group in it, and the end of the last.
    """

    data: Bytes
    start: Longs
    end: Longs
    bounds: Longs
    rows: Ints
    _words: npt.NDArray[np.uint64]
    _skip: int
    _zero: int

    def groups(self, low: int, high: int) -> Ints:
        """Return the groups of positions [low, high) of the order."""
        first = int(np.searchsorted(self.bounds, low, "right")) - 1
        last = int(np.searchsorted(self.bounds, high, "left"))
        edges = np.clip(self.bounds[first : last + 1], low, high)
        return np.repeat(np.arange(first, last, dtype=np.int32), np.diff(edges))

    def take(self, low: int, high: int) -> pa.BinaryArray:
        """Return the spans at positions [low, high) of the order."""
        from pyspark_savepoint.formats.kernels import sort

        words, rows = self._words[low:high], self.rows[low:high]
        offsets = np.empty(high - low + 1, np.int64)
        sort.sorted_offsets(self.start, self.end, words, rows, self._skip, self._zero, offsets)
        out = np.empty(int(offsets[-1]), np.uint8)
        sort.sorted_spans(self.data, self.start, self.end, words, rows, self._skip, self._zero, offsets, out)
        return binary_array(pa.binary(), offsets, out)


def sort_by_key_group(key_group: Ints, data: Bytes, start: Longs, end: Longs) -> SortedSpans:
    """Sort spans by their key groups and bytes."""
    from pyspark_savepoint.formats.kernels import sort

    most = int(key_group.max(initial=0))
    assert int(key_group.min(initial=0)) >= 0
    assert most < UPPER_BOUND_MAX_PARALLELISM
    bounds = np.empty(most + 2, np.int64)
    sort.group_bounds(key_group, bounds)
    return _sorted(key_group, bounds, data, start, end)


def order_within(bounds: Longs, data: Bytes, start: Longs, end: Longs) -> Ints:
    """Return row numbers with the rows of each group [bounds[g], bounds[g + 1]) in the stable order of their spans."""
    group = np.repeat(np.arange(len(bounds) - 1, dtype=np.int32), np.diff(bounds))
    return _sorted(group, bounds, data, start, end).rows


def _sorted(group: Ints, bounds: Longs, data: Bytes, start: Longs, end: Longs) -> SortedSpans:
    from pyspark_savepoint.formats.kernels import sort

    data = read_only(data)
    words, rows = np.empty(len(start), np.uint64), np.empty(len(start), np.int32)
    zero = sort.common_zero(data, start, end)
    end = end - zero if zero else end
    skip = int(sort.common_prefix(data, start, end))
    sort.scatter_words(group, bounds[:-1].copy(), data, start, end, skip, words, rows)
    largest = int(np.diff(bounds).max(initial=0))
    words2, rows2 = np.empty(largest, np.uint64), np.empty(largest, np.int32)
    counts = np.empty(sort.BUCKETS + 1, np.int64)
    stack = np.empty((largest // sort.FEW + 1, 3), np.int64)
    shifts, widths = np.empty(64, np.int64), np.empty(64, np.int64)
    sort.sort_groups(data, start, end, bounds, skip, words, rows, words2, rows2, counts, stack, shifts, widths)
    return SortedSpans(data, start, end, bounds, rows, words, skip, zero)


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

    def cut(self, low: int, high: int) -> SortedBatch:
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
            rows = self.rows.take(fixed_array(pa.int32(), self.keys.rows[low:high])).to_batches()[0]
        return SortedBatch(self.keys.groups(low, high), self.keys.take(low, high), rows)


def sort_batches(batches: Sequence[SortedBatch]) -> SortedBatch:
    """Return all rows of some unsorted batches in order, as one batch."""
    sorting = Sorting(batches)
    return sorting.take(0, len(sorting))


def merge_runs(runs: Sequence[Iterator[SortedBatch]]) -> Iterator[SortedBatch]:
    """Yield the rows of sorted runs in order; of equal keys those of an earlier run first."""
    for taken in join_runs(runs, whole_keys=False):
        pieces = [piece for run in taken for piece in run]
        yield pieces[0] if len(pieces) == 1 else sort_batches(pieces)


BATCH_ROWS = 1 << 16
#: Number of runs merged at a time; two batches of each are in memory.
FAN_IN = 32
#: Bytes per row that sorting takes besides the rows, and the size up to which 32-bit offsets of a column suffice.
SORTING, MAX_RUN = 40, 1 << 30
MIN_BATCH, MAX_BATCH = 1 << 16, 1 << 23


class RowSorter:
    """Context manager that sorts rows of one schema by (key group, key bytes), and removes its temporary files on exit.

    ``memory`` approximately bounds everything held at a time, in bytes. ``spill_directory`` is a local folder; the
    default is that of Spark's executor, or the system's temporary one. ``rows`` is the number of rows added.
    """

    def __init__(self, schema: pa.Schema, memory: int, spill_directory: str | None = None) -> None:
        self.schema = schema
        self.memory = memory
        self.spill_directory = spill_directory or local_directory()
        self.rows = 0
        self._batches: list[SortedBatch] = []
        self._size = 0
        #: Runs by level: runs of rows, then merged runs, and so on.
        self._levels: list[list[Any]] = [[]]

    @property
    def spilled(self) -> bool:
        """Return whether rows are on disk."""
        return any(self._levels)

    def add(self, key_group: Ints, key: pa.BinaryArray, rows: pa.RecordBatch) -> None:
        """Add rows of the schema with their key groups (int32) and keys (binary, no nulls), all of the same length."""
        if not len(key):
            return
        size = key.nbytes + rows.nbytes + len(key) * (4 + SORTING // 2)
        # Twice, because sorting makes a copy.
        if self._batches and 2 * (self._size + size) > min(self.memory, MAX_RUN):
            self._spill()
        self._batches.append(SortedBatch(key_group, key, rows))
        self._size += size
        self.rows += len(key)

    def sorted(self, batch_rows: int = BATCH_ROWS) -> Iterator[SortedBatch]:
        """Yield all rows in order, in batches of at most ``batch_rows``; call once, after the last :meth:`add`."""
        if not self.spilled:
            yield from self._in_memory(batch_rows, MAX_BATCH)
            return
        if self._batches:
            self._spill()
        runs = [run for level in reversed(self._levels) for run in level]
        for batch in merge_runs([read_run(run) for run in runs]):
            for low in range(0, len(batch), batch_rows):
                yield batch.cut(low, min(low + batch_rows, len(batch)))

    def write_run(self, sink: RunSink) -> RunInfo:
        """Write all rows in order as one run, which :func:`read_run` reads; the sink stays open."""
        return write_run(sink, self.schema, self.sorted())

    def _in_memory(self, batch_rows: int, batch_bytes: int) -> Iterator[SortedBatch]:
        """Yield the rows in memory in order, and drop them."""
        if not self._batches:
            return
        batches, self._batches = self._batches, []
        size, self._size = self._size, 0
        sorting = Sorting(batches)
        batches.clear()
        count = len(sorting)
        step = max(1, min(batch_rows, count * batch_bytes // size))
        for low in range(0, count, step):
            yield sorting.take(low, min(low + step, count))

    def _spill(self) -> None:
        """Write the rows in memory as a run; merge many runs of a level to one of the next."""
        batch_bytes = min(max(self.memory // (4 * FAN_IN), MIN_BATCH), MAX_BATCH)
        self._levels[0].append(self._run(self._in_memory(BATCH_ROWS, batch_bytes)))
        level = 0
        while len(self._levels[level]) >= FAN_IN:
            runs, self._levels[level] = self._levels[level], []
            merged = self._run(merge_runs([read_run(run) for run in runs]))
            for run in runs:
                discard(run)
            level += 1
            if level == len(self._levels):
                self._levels.append([])
            self._levels[level].append(merged)

    def _run(self, batches: Iterator[SortedBatch]) -> Any:
        """Write sorted batches to an anonymous temporary file, positioned at its beginning."""
        with spilling(self.spill_directory):
            file = temporary_file("sort", self.spill_directory)
            try:
                write_run(file, self.schema, batches)
                file.seek(0)
            except OSError:
                discard(file)
                raise
        return file

    def close(self) -> None:
        """Remove temporary files and drop all rows."""
        for level in self._levels:
            for run in level:
                discard(run)
        self._levels = [[]]
        self._batches.clear()

    def __enter__(self) -> RowSorter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class KeyGroupCursor:
    """Sorted batches, taken key group by key group."""

    def __init__(self, batches: Iterable[SortedBatch]) -> None:
        self.batches = iter(batches)
        self.rest: SortedBatch | None = None

    def up_to(self, key_group: int) -> Iterator[SortedBatch]:
        """Yield the remaining rows up to and including a key group."""
        while True:
            batch = self.rest if self.rest is not None else next(self.batches, None)
            self.rest = None
            if batch is None:
                return
            cut = int(np.searchsorted(batch.key_group, key_group, "right"))
            if cut < len(batch):
                self.rest = batch.cut(cut, len(batch))
            if cut:
                yield batch.cut(0, cut)
            if cut < len(batch):
                return
