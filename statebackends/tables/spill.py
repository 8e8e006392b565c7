"""Key groups larger than a task's memory: entries are partitioned by key on local disk, then joined part by part.

    part := Arrow IPC stream of entries (keyed_block.SCHEMA)        one temporary file per part

All entries of a key fall into one part, so each part is a complete block. A part that is still too large is partitioned
again with another hash, as long as this makes it smaller. A single enormous key stays in one part: its row has that
size anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from pyspark_savepoint.formats.columns import Longs
from pyspark_savepoint.formats.io.local_disk import discard, spilling, temporary_file
from pyspark_savepoint.formats.keyed.keyed_block import SCHEMA, KeyedBlock, SortedRows, block_of, take_entries
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader

FANOUT = 64
#: Bytes that are divided in memory before they are written, and the size from which a part is divided again, in blocks.
HELD, LARGE = 4, 4
#: 64 to the power of 4 blocks of 8 MB are more than any key group.
MAX_DEPTH = 4


class SpillJoin:
    """Context manager that turns the entries of one key group, added in blocks, into complete blocks.

    The resulting blocks have about ``block_bytes`` bytes each. On exit the temporary files are removed.
    """

    def __init__(
        self,
        first: KeyedBlock,
        header: KeyedBackendHeader,
        block_bytes: int,
        depth: int = 0,
        parts: int | None = None,
    ) -> None:
        self.key_group = first.groups[0][0]
        self.first = first
        self.header = header
        self.block_bytes = block_bytes
        self.depth = depth
        self.parts = parts or FANOUT
        self.stack = ExitStack()
        self.files: list[Any] = []
        self.writers: list[Any] = []
        self.sizes = np.zeros(self.parts, np.int64)
        self.held: list[tuple[pa.RecordBatch, Longs]] = []
        self.held_bytes = 0

    def takes(self, block: KeyedBlock | SortedRows) -> bool:
        """Return whether a block belongs to the same key group of the same file."""
        if isinstance(block, SortedRows) or block.complete:
            return False
        return block.origin.path == self.first.origin.path and block.groups[0][0] == self.key_group

    def __enter__(self) -> SpillJoin:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def add(self, block: KeyedBlock) -> None:
        """Divide the selected entries of a block among the parts, which are written once there are enough of them."""
        from pyspark_savepoint.formats.kernels import hashing
        from pyspark_savepoint.formats.kernels.entries import frames

        if not self.files:
            with spilling():
                self._open()
        chosen = [np.arange(low, high) for _, runs in block.groups for low, high in runs]
        if not chosen:
            return
        entries = np.concatenate(chosen)
        part = np.empty(len(entries), np.int64)
        secret = hashing.secret_of(1 + self.depth)
        frames.bucket_of(block.buffer, block.span_start[entries], block.span_end[entries], secret, self.parts, part)
        # Numbers of 8 bits are sorted by radix.
        order = np.argsort(part.astype(np.uint8), kind="stable")
        bounds = np.searchsorted(part[order], np.arange(self.parts + 1))
        batch = take_entries(block, entries[order])
        self.held.append((batch, bounds))
        self.held_bytes += batch.nbytes
        if self.held_bytes > HELD * self.block_bytes:
            self._write()

    def _write(self) -> None:
        """Write what is held, one batch for each part."""
        for i, writer in enumerate(self.writers):
            pieces = [batch.slice(at[i], at[i + 1] - at[i]) for batch, at in self.held if at[i] < at[i + 1]]
            if pieces:
                whole = pa.concat_batches(pieces)
                with spilling():
                    writer.write_batch(whole)
                self.sizes[i] += whole.nbytes
        self.held, self.held_bytes = [], 0

    def _open(self) -> None:
        for _ in range(self.parts):
            file = temporary_file("spill")
            self.stack.callback(discard, file)
            self.files.append(file)
            self.writers.append(ipc.new_stream(file, SCHEMA))

    def blocks(self) -> Iterator[KeyedBlock]:
        """Yield complete blocks, one per part or one for several small parts."""
        self._write()
        with spilling():
            for writer, file in zip(self.writers, self.files, strict=True):
                writer.close()
                file.flush()
        waiting: list[pa.RecordBatch] = []
        size = 0
        for file, part_size in zip(self.files, self.sizes.tolist(), strict=True):
            if waiting and size + part_size > self.block_bytes:
                yield block_of(waiting, self.first)
                waiting, size = [], 0
            if part_size > LARGE * self.block_bytes and self.depth < MAX_DEPTH and np.count_nonzero(self.sizes) > 1:
                yield from self._divided(file, part_size)
            elif part_size:
                waiting += _batches(file)
                size += part_size
        if waiting:
            yield block_of(waiting, self.first)

    def _divided(self, file: Any, size: int) -> Iterator[KeyedBlock]:
        parts_needed = 1 << (2 * size // self.block_bytes).bit_length()
        with SpillJoin(self.first, self.header, self.block_bytes, self.depth + 1, min(FANOUT, parts_needed)) as parts:
            waiting: list[pa.RecordBatch] = []
            held = 0
            for batch in _batches(file):
                waiting.append(batch)
                held += batch.nbytes
                if held > self.block_bytes:
                    parts.add(block_of(waiting, self.first))
                    waiting, held = [], 0
            if waiting:
                parts.add(block_of(waiting, self.first))
            yield from parts.blocks()


def _batches(file: Any) -> Iterator[pa.RecordBatch]:
    with spilling():
        file.seek(0)
        with ipc.open_stream(file) as reader:
            yield from reader
