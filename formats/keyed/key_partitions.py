"""Rows that do not fit into memory, partitioned by the hash of their keys on local disk (Grace hash partitioning).

    part := Arrow IPC stream of rows        one temporary file per part and input, once rows are more than ``held``

All rows of a key are in one part of every input, in the order in which they were added. A part that is still too large
is partitioned again with another hash, as long as this makes it smaller: a single enormous key stays in one part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from pyspark_savepoint.formats.io.local_files import discard, spilling, temporary_file

if TYPE_CHECKING:
    from pyspark_savepoint.formats.columns import Bytes, Longs

#: Number of parts; at most 256, since rows are sorted by numbers of 8 bits, which is done by radix.
FANOUT = 64
#: 64 to the power of 4 pieces of 8 MB are more than any task reads.
MAX_DEPTH = 4


class KeyedRows(NamedTuple):
    """Rows with the spans of their keys in ``buffer``; ``take`` returns the rows at some indices as a batch."""

    buffer: Bytes
    start: Longs
    end: Longs
    take: Callable[[Longs], pa.RecordBatch]


class Parts:
    """Context manager over rows that are divided among ``count`` parts. On exit the temporary files are removed.

    About ``held`` bytes of all parts stay in memory.
    """

    def __init__(self, schema: pa.Schema, count: int, capacity: int) -> None:
        self.schema = schema
        self.count = count
        self.capacity = capacity
        #: Bytes of the parts, once :meth:`finish` was called.
        self.sizes = np.zeros(count, np.int64)
        self._stack = ExitStack()
        self._files: list[Any] = []
        self._writers: list[Any] = []
        self._waiting: list[tuple[pa.RecordBatch, Longs]] = []
        self._waiting_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the temporary files."""
        self._stack.close()

    def add(self, part: Longs, take: Callable[[Longs], pa.RecordBatch]) -> None:
        """Add rows to their parts: ``part`` has one number per row, ``take`` returns rows by their indices."""
        order = np.argsort(part.astype(np.uint8), kind="stable")
        bounds = np.searchsorted(part[order], np.arange(self.count + 1))
        batch = take(order)
        self._waiting.append((batch, bounds))
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes > self.capacity:
            self._write()

    def finish(self) -> None:
        """End the division: no rows can be added afterwards."""
        if self._files:
            self._write()
            with spilling():
                for writer in self._writers:
                    writer.close()
        else:
            self.sizes += [sum(batch.nbytes for batch in self._held(i)) for i in range(self.count)]

    def batches(self, part: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part, in their order, after :meth:`finish`."""
        if not self._files:
            yield from self._held(part)
            return
        with spilling():
            self._files[part].seek(0)
            with ipc.open_stream(self._files[part]) as reader:
                yield from reader

    def _held(self, part: int) -> Iterator[pa.RecordBatch]:
        for batch, bounds in self._waiting:
            if bounds[part] < bounds[part + 1]:
                yield batch.slice(bounds[part], bounds[part + 1] - bounds[part])

    def _write(self) -> None:
        """Write the rows in memory, one batch for each part."""
        if not self._files:
            with spilling():
                self._open()
        for part, writer in enumerate(self._writers):
            pieces = list(self._held(part))
            if pieces:
                whole = pa.concat_batches(pieces)
                with spilling():
                    writer.write_batch(whole)
                self.sizes[part] += whole.nbytes
        self._waiting, self._waiting_bytes = [], 0

    def _open(self) -> None:
        for _ in range(self.count):
            file = temporary_file("spill")
            self._stack.callback(discard, file)
            self._files.append(file)
            self._writers.append(ipc.new_stream(file, self.schema))


class KeyPartitions:
    """Context manager over the rows of one or more inputs, which :meth:`pieces` returns with whole keys.

    Args:
        schema: The columns of all rows.
        keyed: Function that finds the keys in a batch, to divide it again.
        piece: About the bytes of a piece, of all inputs.
        limit: Size in bytes from which a part is divided again.
        held: Bytes of each input that stay in memory while rows are added.
        inputs: Number of inputs.
        depth: How often these rows were divided before.
        count: Number of parts.

    """

    def __init__(
        self,
        schema: pa.Schema,
        keyed: Callable[[pa.RecordBatch], KeyedRows],
        *,
        piece: int,
        limit: int,
        capacity: int,
        inputs: int = 1,
        depth: int = 0,
        count: int | None = None,
    ) -> None:
        self.schema = schema
        self.keyed = keyed
        self.piece = piece
        self.limit = limit
        self.capacity = capacity
        self.depth = depth
        self.count = count or FANOUT
        self.inputs = [Parts(schema, self.count, capacity) for _ in range(inputs)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the temporary files."""
        for parts in self.inputs:
            parts.close()

    def add(self, rows: KeyedRows, of: int = 0) -> None:
        """Add rows of one input."""
        from pyspark_savepoint.formats.kernels import frames, hashing

        part = np.empty(len(rows.start), np.int64)
        secret = hashing.secret_of(1 + self.depth)
        frames.bucket_of(rows.buffer, rows.start, rows.end, secret, self.count, part)
        self.inputs[of].add(part, rows.take)

    def pieces(self) -> Iterator[list[list[pa.RecordBatch]]]:
        """Yield the batches of each input, part by part; small parts together."""
        for parts in self.inputs:
            parts.finish()
        sizes = np.sum([parts.sizes for parts in self.inputs], axis=0)
        divisible = self.depth < MAX_DEPTH and np.count_nonzero(sizes) > 1
        waiting: list[list[pa.RecordBatch]] = [[] for _ in self.inputs]
        waiting_bytes = 0
        for part, size in enumerate(sizes.tolist()):
            if waiting_bytes and waiting_bytes + size > self.piece:
                yield waiting
                waiting, waiting_bytes = [[] for _ in self.inputs], 0
            if size > self.limit and divisible:
                yield from self._divided(part, size)
            elif size:
                for batches, parts in zip(waiting, self.inputs, strict=True):
                    batches += parts.batches(part)
                waiting_bytes += size
        if waiting_bytes:
            yield waiting

    def _divided(self, part: int, size: int) -> Iterator[list[list[pa.RecordBatch]]]:
        needed = 1 << (2 * size // self.piece).bit_length()
        with KeyPartitions(
            self.schema,
            self.keyed,
            piece=self.piece,
            limit=self.limit,
            capacity=self.capacity,
            inputs=len(self.inputs),
            depth=self.depth + 1,
            count=min(FANOUT, needed),
        ) as divided:
            for number, parts in enumerate(self.inputs):
                for batch in parts.batches(part):
                    divided.add(self.keyed(batch), number)
            yield from divided.pieces()
