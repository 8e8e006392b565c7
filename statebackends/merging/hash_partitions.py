"""Key groups larger than memory: the entries of two inputs, partitioned by key on local disk.

    partition := Arrow IPC stream of entries (entry_chunk.SPILLED)        one temporary file per partition and input

Entries of one key are in the same partition of both inputs. A partition that is still too large is partitioned again
with another hash, as long as this makes it smaller.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow.ipc as ipc

from pyspark_savepoint.formats.io.local_disk import discard, spilling, temporary_file
from pyspark_savepoint.statebackends.merging.entry_chunk import SPILLED, EntryChunk, concat, from_disk, to_disk

FANOUT, MAX_DEPTH = 64, 4
Pair = tuple[EntryChunk, EntryChunk]


class HashPartitions:
    """Context manager over the partitions of two inputs, which removes the files on exit.

    ``serial``: entries belong together if their keys alone are equal, else if their composite keys are. ``memory`` is
    about the bytes of both inputs in memory at a time.
    """

    def __init__(self, memory: int, serial: bool, depth: int = 0) -> None:
        self.memory, self.serial, self.depth = memory, serial, depth
        self._stack = ExitStack()
        self._files: list[list[Any]] = [[], []]
        self._writers: list[list[Any]] = [[], []]
        self._waiting: list[list[EntryChunk]] = [[], []]
        self._sizes = np.zeros((2, FANOUT), np.int64)

    def __enter__(self) -> HashPartitions:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, side: int, chunk: EntryChunk) -> None:
        """Add entries of input 0 or 1."""
        self._waiting[side].append(chunk)
        if sum(each.nbytes for each in self._waiting[side]) > self.memory // 4:
            self._write(side)

    def _write(self, side: int) -> None:
        from pyspark_savepoint.formats.kernels import hashing
        from pyspark_savepoint.formats.kernels.entries import frames

        if not self._files[side]:
            with spilling():
                self._create(side)
        chunk = concat(self._waiting[side])
        self._waiting[side] = []
        start, end = (chunk.serial_start, chunk.serial_end) if self.serial else (chunk.key_start, chunk.key_end)
        place = np.empty(len(chunk), np.int64)
        secret = hashing.secret_of(1 + self.depth)
        frames.bucket_of(chunk.keys, np.ascontiguousarray(start), np.ascontiguousarray(end), secret, FANOUT, place)
        order = np.argsort(place, kind="stable")
        bounds = np.searchsorted(place[order], np.arange(FANOUT + 1))
        for i in range(FANOUT):
            if bounds[i] < bounds[i + 1]:
                batch = to_disk(chunk.take(order[bounds[i] : bounds[i + 1]]))
                with spilling():
                    self._writers[side][i].write_batch(batch)
                self._sizes[side, i] += batch.nbytes

    def _create(self, side: int) -> None:
        for _ in range(FANOUT):
            file = temporary_file("merge")
            self._stack.callback(discard, file)
            self._files[side].append(file)
            self._writers[side].append(ipc.new_stream(file, SPILLED))

    def pairs(self) -> Iterator[Pair]:
        """Yield the entries of both inputs, partition by partition."""
        for side in (0, 1):
            if self._waiting[side]:
                self._write(side)
            with spilling():
                for writer, file in zip(self._writers[side], self._files[side], strict=True):
                    writer.close()
                    file.flush()
        totals = self._sizes.sum(axis=0)
        for i in np.flatnonzero(totals).tolist():
            if totals[i] > 2 * self.memory and self.depth < MAX_DEPTH and np.count_nonzero(totals) > 1:
                yield from self._divided(i)
            else:
                yield concat(list(self._read(0, i))), concat(list(self._read(1, i)))

    def _divided(self, partition: int) -> Iterator[Pair]:
        with HashPartitions(self.memory, self.serial, self.depth + 1) as parts:
            for side in (0, 1):
                for chunk in self._read(side, partition):
                    parts.add(side, chunk)
            yield from parts.pairs()

    def _read(self, side: int, partition: int) -> Iterator[EntryChunk]:
        if not self._files[side]:
            return
        file = self._files[side][partition]
        with spilling():
            file.seek(0)
            with ipc.open_stream(file) as reader:
                for batch in reader:
                    yield from_disk(batch)
