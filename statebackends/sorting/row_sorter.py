"""External sort of rows by key group and key bytes in bounded memory, the first step of every writer of keyed state.

    add(key groups, keys, rows)   collects rows; beyond ``memory`` they are sorted and spilled to local disk as a run
    sorted()                      yields the rows in memory, or the merge of all runs, in batches

The order is RocksDB's: unsigned bytes. It is stable: equal keys stay in the order in which they arrived.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.columns import Ints
from pyspark_savepoint.formats.io.local_files import discard, local_directory, spilling, temporary_file
from pyspark_savepoint.statebackends.sorting.sort_runs import (
    RunInfo,
    RunSink,
    SortedBatch,
    Sorting,
    merge_runs,
    read_run,
    write_run,
)

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
                yield batch.slice(low, min(low + batch_rows, len(batch)))

    def write_run(self, sink: RunSink) -> RunInfo:
        """Write all rows in order as one run, which ``sort_runs.read_run`` reads; the sink stays open."""
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
