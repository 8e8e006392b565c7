"""Rows sorted by key group and key bytes, in bounded memory: what every writer of keyed state begins with.

    add(key groups, keys, rows)  collected up to ``memory``, then sorted and spilled as a run on local disk
    sorted()                     what is in memory, or the merge of all runs

The order is RocksDB's: unsigned bytes. It is stable: equal keys stay in the order in which they arrived.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import Ints, Longs
from pyspark_savepoint.formats.frame_spool import spill_error
from pyspark_savepoint.statebackends.sort_runs import RunInfo, Sink, SortedBatch, merge_runs, read_run, write_run

BATCH_ROWS = 1 << 16


def sort_order(key_group: Ints, key: pa.BinaryArray) -> Longs:
    """The rows in order of (key group, key bytes), stable."""
    table = pa.table({"g": pa.array(key_group), "k": key, "i": np.arange(len(key))})
    order = pc.sort_indices(table, sort_keys=[("g", "ascending"), ("k", "ascending"), ("i", "ascending")])
    return np.asarray(order, np.int64)


def sort_batches(batches: Sequence[SortedBatch]) -> SortedBatch:
    """All rows of some batches in order, as one batch; the batches need not be sorted."""
    key_group = np.concatenate([batch.key_group for batch in batches])
    key = pa.concat_arrays([batch.key for batch in batches])
    rows = pa.Table.from_batches([batch.rows for batch in batches]).combine_chunks()
    order = sort_order(key_group, key)
    taken = rows.take(pa.array(order)).to_batches()
    whole = taken[0] if taken else pa.RecordBatch.from_pylist([], schema=rows.schema)
    return SortedBatch(key_group[order], key.take(pa.array(order)), whole)


class RowSorter:
    """Sorts rows of one schema by (key group, key bytes). A context manager, which removes its temporary files.

    ``memory`` is bytes of rows and keys that are held at a time, about; sorting needs as much again.
    ``spill_directory`` is a local folder; without one that of Spark's executor, else the system's temporary one.
    """

    def __init__(self, schema: pa.Schema, memory: int, spill_directory: str | None = None) -> None:
        self.schema = schema
        self.memory = memory
        self.spill_directory = spill_directory
        self.rows = 0
        self._batches: list[SortedBatch] = []
        self._size = 0
        self._runs: list[Any] = []

    def add(self, key_group: Ints, key: pa.BinaryArray, rows: pa.RecordBatch) -> None:
        """Rows with their key groups (int32) and keys (binary, no nulls); the same number of each."""
        if not len(key):
            return
        self._batches.append(SortedBatch(key_group, key, rows))
        self.rows += len(key)
        self._size += key.nbytes + rows.nbytes + key_group.nbytes
        if self._size > self.memory // 2:
            self._spill()

    def sorted(self, batch_rows: int = BATCH_ROWS) -> Iterator[SortedBatch]:
        """All rows in order, in batches of bounded size. Once, after the last :meth:`add`."""
        if self._runs:
            self._spill()
            yield from merge_runs([read_run(run) for run in self._runs])
            return
        yield from self._in_memory(batch_rows)

    def write_run(self, sink: Sink) -> RunInfo:
        """All rows in order as one run (``sort_runs.read_run`` reads it); the sink stays open."""
        return write_run(sink, self.schema, self.sorted())

    def _in_memory(self, batch_rows: int) -> Iterator[SortedBatch]:
        if not self._batches:
            return
        batches, self._batches, self._size = self._batches, [], 0
        whole = sort_batches(batches)
        for low in range(0, len(whole), batch_rows):
            yield whole.slice(low, min(low + batch_rows, len(whole)))

    def _spill(self) -> None:
        try:
            file: Any = tempfile.TemporaryFile(prefix="savepoint-sort-", dir=self.spill_directory)  # noqa: SIM115
            self._runs.append(file)
            write_run(file, self.schema, self._in_memory(BATCH_ROWS // 4))
            file.flush()
            file.seek(0)
        except OSError as error:
            raise spill_error(error, self.spill_directory) from error

    def close(self) -> None:
        """Remove temporary files and forget all rows."""
        for run in self._runs:
            run.close()
        self._runs.clear()
        self._batches.clear()

    def __enter__(self) -> RowSorter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
