"""Key groups larger than the memory of a task: entries partitioned by key to local disk, then joined part by part.

    part := Arrow IPC stream of (state, namespace, key, user key, value)        one temporary file per part

All entries of a key fall into one part, so each part is a complete block of its own. A part that is still too large is
partitioned again, by another hash, as often as that helps: one enormous key is as large as its row has to be anyway.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as ipc

from pyspark_savepoint.formats.columns import Longs, Origin, binary_parts
from pyspark_savepoint.formats.keyed_block import KeyedBlock, SortedRows, runs_of
from pyspark_savepoint.formats.meta_info import KeyedBackendHeader
from pyspark_savepoint.statebackends.rows import SEED
from pyspark_savepoint.statebackends.state_column import binary_spans

PARTS = ("namespace", "key", "user", "value")
SCHEMA = pa.schema([pa.field("state", pa.int32()), *(pa.field(part, pa.binary()) for part in PARTS)])
FANOUT = 64
#: 64 to the fourth windows of 8 MB are more than any key group.
MAX_DEPTH = 4


class SpillJoin:
    """The entries of one key group, which arrive in blocks, as complete blocks of about ``window`` bytes.

    A context manager, which removes its files.
    """

    def __init__(self, first: KeyedBlock, header: KeyedBackendHeader, window: int, depth: int = 0) -> None:
        self.key_group = first.groups[0][0]
        self.first = first
        self.header = header
        self.window = window
        self.depth = depth
        self.stack = ExitStack()
        self.files: list[Any] = []
        self.writers: list[Any] = []
        self.sizes = np.zeros(FANOUT, np.int64)

    def takes(self, block: KeyedBlock | SortedRows) -> bool:
        """Whether a block belongs to the same key group of the same file."""
        if isinstance(block, SortedRows) or block.complete:
            return False
        return block.origin.path == self.first.origin.path and block.groups[0][0] == self.key_group

    def __enter__(self) -> SpillJoin:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def add(self, block: KeyedBlock) -> None:
        """Put the selected entries of a block into their parts."""
        from pyspark_savepoint.formats.kernels import frames

        if not self.files:
            self._open()
        chosen = [np.arange(low, high) for _, runs in block.groups for low, high in runs]
        if not chosen:
            return
        entries = np.concatenate(chosen)
        part = np.empty(len(entries), np.int64)
        seed = SEED + self.depth
        frames.bucket_of(block.buffer, block.span_start[entries], block.span_end[entries], seed, FANOUT, part)
        order = np.argsort(part, kind="stable")
        bounds = np.searchsorted(part[order], np.arange(FANOUT + 1))
        for i in range(FANOUT):
            if bounds[i] < bounds[i + 1]:
                batch = _batch(block, entries[order[bounds[i] : bounds[i + 1]]])
                self.writers[i].write_batch(batch)
                self.sizes[i] += batch.nbytes

    def _open(self) -> None:
        for _ in range(FANOUT):
            temporary = tempfile.TemporaryFile(prefix="savepoint-spill-")  # noqa: SIM115  (the stack closes it)
            file = self.stack.enter_context(temporary)
            self.files.append(file)
            self.writers.append(ipc.new_stream(file, SCHEMA))

    def blocks(self) -> Iterator[KeyedBlock]:
        """One complete block per part, or per some parts where they are small."""
        for writer in self.writers:
            writer.close()
        waiting: list[pa.RecordBatch] = []
        size = 0
        for file, part_size in zip(self.files, self.sizes.tolist(), strict=True):
            if waiting and size + part_size > self.window:
                yield self._block(waiting)
                waiting, size = [], 0
            if part_size > self.window and self.depth < MAX_DEPTH and np.count_nonzero(self.sizes) > 1:
                yield from self._divided(file)
            elif part_size:
                waiting += _batches(file)
                size += part_size
        if waiting:
            yield self._block(waiting)

    def _divided(self, file: Any) -> Iterator[KeyedBlock]:
        with SpillJoin(self.first, self.header, self.window, self.depth + 1) as parts:
            waiting: list[pa.RecordBatch] = []
            for batch in _batches(file):
                waiting.append(batch)
                if sum(each.nbytes for each in waiting) > self.window:
                    parts.add(self._block(waiting))
                    waiting = []
            if waiting:
                parts.add(self._block(waiting))
            yield from parts.blocks()

    def _block(self, batches: list[pa.RecordBatch]) -> KeyedBlock:
        table = pa.Table.from_batches(batches)
        # Runs are entries of one state: bring them together, in the order they had.
        state = np.asarray(table.column("state"), np.int32)
        order = np.argsort(state, kind="stable")
        table = table.take(pa.array(order))
        state = state[order]
        buffers, spans, base = [], {}, 0
        for part in PARTS:
            column = table.column(part).cast(pa.large_binary()).combine_chunks()
            offsets, data = binary_parts(column.chunk(0) if isinstance(column, pa.ChunkedArray) else column)
            low, high = int(offsets[0]), int(offsets[-1])
            buffers.append(data[low:high])
            spans[part] = offsets - low + base
            base += high - low
        buffer = np.concatenate(buffers)
        return self._assemble(state, buffer, spans)

    def _assemble(self, state: Any, buffer: Any, spans: dict[str, Longs]) -> KeyedBlock:
        first = self.first
        n = len(state)
        start = {part: spans[part][:-1] for part in PARTS}
        end = {part: spans[part][1:] for part in PARTS}
        block = KeyedBlock(
            first.form, first.states, buffer, Origin(first.origin.path, 0, first.origin.operator, None, True),
            state, np.full(n, self.key_group, np.int32),
            start["key"], end["key"], start["namespace"], end["namespace"], start["user"], end["user"],
            start["value"], end["value"], start["key"], end["key"],
            [(self.key_group, runs_of(state, 0, n))], namespaced=first.namespaced,
        )  # fmt: skip
        if first.namespaced:
            block = _join_spans(block)
        return block


def _join_spans(block: KeyedBlock) -> KeyedBlock:
    """Lay key and namespace side by side again, as they are in a file, so that one span covers both."""
    key_size = block.key_end - block.key_start
    namespace_size = block.namespace_end - block.namespace_start
    entries = np.arange(len(block))
    keys = binary_spans(block, block.key_start, block.key_end)
    namespaces = binary_spans(block, block.namespace_start, block.namespace_end)
    joined = pc.binary_join_element_wise(keys, namespaces, pa.scalar(b"", pa.binary()))
    offsets, data = binary_parts(joined)
    base = len(block.buffer)
    block.buffer = np.concatenate([block.buffer, data[: offsets[-1]]])
    block.span_start = base + offsets[entries]
    block.span_end = block.span_start + key_size + namespace_size
    return block


def _batches(file: Any) -> Iterator[pa.RecordBatch]:
    file.seek(0)
    with ipc.open_stream(file) as reader:
        yield from reader


def _batch(block: KeyedBlock, entries: Longs) -> pa.RecordBatch:
    columns = [pa.array(block.state[entries], pa.int32())]
    for part in PARTS:
        start, end = getattr(block, f"{part}_start")[entries], getattr(block, f"{part}_end")[entries]
        columns.append(binary_spans(block, start, end))
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
