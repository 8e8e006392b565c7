"""Entries of some key groups in memory: spans of composite keys and values, whatever format they come from.

    composite key := key [vlen] namespace [vlen] [userKey], or a timer       without the key-group prefix

``entry_bytes`` describes the bytes. The key alone is a span of the composite key.

A task of a merge reads the same key groups of two inputs, in bounded memory, as pairs of chunks that have the same
keys. With different max parallelisms m and n, key groups g of one and h of the other can have the same key only if they
leave the same remainder modulo the greatest common divisor of m and n, for a key's hash leaves it too. So both inputs
are divided by this remainder, which is the key group itself if m = n.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Bytes, Ints, Longs, binary_parts, fixed_array, fixed_values
from pyspark_savepoint.formats.keyed.canonical_writer import read_only
from pyspark_savepoint.formats.keyed.key_partitions import KeyedRows, KeyPartitions
from pyspark_savepoint.formats.keyed.keyed_block import KeyedBlock, binary_column
from pyspark_savepoint.formats.metadata.key_groups import range_for_operator_index
from pyspark_savepoint.statebackends.rows.entry_bytes import (
    KEY,
    KEY_GROUP,
    KEYED_ENTRIES,
    SERIALIZED_KEY,
    STATE,
    TIMESTAMP_BYTES,
    VALUE,
)

T = TypeVar("T")
#: Memory for entries that are read at a time, with their spans and copies, as a multiple of their bytes in files.
EXPANDED = 16
#: Entries on local disk: the key alone is a part of the composite key.
SPILLED = pa.schema([*[*KEYED_ENTRIES][:-1], pa.field("serial_at", pa.int32()), pa.field("serial_size", pa.int32())])


@dataclass(slots=True)
class EntryChunk:
    """Entries: state number, key group, and spans. ``serial`` spans are the keys alone; empty if they are not needed.

    ``keys`` and ``values`` may be one buffer; they are only read.
    """

    keys: Bytes
    values: Bytes
    state: Ints
    key_group: Ints
    key_start: Longs
    key_end: Longs
    value_start: Longs
    value_end: Longs
    serial_start: Longs
    serial_end: Longs

    def __len__(self) -> int:
        return len(self.state)

    @property
    def nbytes(self) -> int:
        """Return the bytes of the buffers."""
        return len(self.keys) + (0 if self.values is self.keys else len(self.values))

    @classmethod
    def of_block(cls, block: KeyedBlock, numbers: Ints, serial: tuple[Longs, Longs] | None) -> EntryChunk:
        """Return the entries of a block whose composite keys are contiguous; ``numbers`` gives state numbers by id.

        Entries of states with number -1 are left out.
        """
        buffer = read_only(block.buffer)
        none = block.key_start, block.key_start
        chunk = cls(
            buffer, buffer, numbers[block.state], block.key_group, block.key_start, block.user_end,
            block.value_start, block.value_end, *(serial or none),
        )  # fmt: skip
        wanted = chunk.state >= 0
        return chunk if wanted.all() else chunk.take(np.flatnonzero(wanted))

    @classmethod
    def of_batch(cls, batch: pa.RecordBatch) -> EntryChunk:
        """Return the entries of a batch with the columns of table ``entries``; timers have no values."""
        key, keys = _trimmed(batch.column(KEY))
        value, values = _trimmed(batch.column(VALUE))
        start = serial = end = key[:-1]
        if SERIALIZED_KEY in batch.schema.names:
            offsets, _ = binary_parts(batch.column(SERIALIZED_KEY))
            end = start + np.diff(offsets)
        state, key_group = (fixed_values(batch.column(name), np.int32).copy() for name in (STATE, KEY_GROUP))
        return cls(keys, values, state, key_group, start, key[1:], value[:-1], value[1:], serial, end)

    @classmethod
    def of_elements(cls, keys: pa.Array, values: pa.Array | None) -> EntryChunk:
        """Return elements as keys without values, or entries of a broadcast state, of state and key group 0."""
        key, data = _trimmed(keys)
        zeros, start = np.zeros(len(keys), np.int32), key[:-1]
        if values is None:
            nowhere = np.zeros(len(keys), np.int64)
            return cls(data, data, zeros, zeros, start, key[1:], nowhere, nowhere, start, start)
        value, content = _trimmed(values)
        return cls(data, content, zeros, zeros, start, key[1:], value[:-1], value[1:], start, start)

    def behind_timestamps(self) -> EntryChunk:
        """Return the entries, which are timers, with the spans of their keys after the timestamp."""
        return EntryChunk(
            self.keys, self.values, self.state, self.key_group, self.key_start, self.key_end, self.value_start,
            self.value_end, self.serial_start + TIMESTAMP_BYTES, self.serial_end + TIMESTAMP_BYTES,
        )  # fmt: skip

    def take(self, rows: Longs | Ints) -> EntryChunk:
        """Return some entries, in that order, over the same buffers."""
        return EntryChunk(
            self.keys, self.values, self.state[rows], self.key_group[rows], self.key_start[rows], self.key_end[rows],
            self.value_start[rows], self.value_end[rows], self.serial_start[rows], self.serial_end[rows],
        )  # fmt: skip

    def entries(self) -> pa.RecordBatch:
        """Return a copy of the entries as a batch with the key alone in ``serialized_key``."""
        columns = [
            fixed_array(pa.int32(), self.state),
            fixed_array(pa.int32(), self.key_group),
            binary_column(self.keys, self.key_start, self.key_end),
            binary_column(self.values, self.value_start, self.value_end),
            binary_column(self.keys, self.serial_start, self.serial_end),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=KEYED_ENTRIES)


def _trimmed(column: pa.Array) -> tuple[Longs, Bytes]:
    """Return offsets and bytes of a binary column, without what stands before and after a slice of it."""
    offsets, data = binary_parts(column)
    low, high = int(offsets[0]), int(offsets[-1])
    return offsets - low, read_only(data[low:high])


def concat(chunks: Sequence[EntryChunk]) -> EntryChunk:
    """Return all entries of some chunks."""
    if len(chunks) == 1:
        return chunks[0]
    if not chunks:
        no_bytes, spans, numbers = read_only(np.empty(0, np.uint8)), np.empty(0, np.int64), np.empty(0, np.int32)
        return EntryChunk(no_bytes, no_bytes, numbers, numbers, *[spans] * 6)
    shared = all(chunk.keys is chunk.values for chunk in chunks)
    keys = read_only(np.concatenate([chunk.keys for chunk in chunks]))
    values = keys if shared else read_only(np.concatenate([chunk.values for chunk in chunks]))
    key_at = np.cumsum([0, *(len(chunk.keys) for chunk in chunks[:-1])]).tolist()
    value_at = np.cumsum([0, *(len(chunk.values) for chunk in chunks[:-1])]).tolist()
    rows = np.cumsum([0, *map(len, chunks)]).tolist()
    buffers: dict[tuple[int, ...], Any] = {}

    def joined(name: str, shifts: Sequence[int] = ()) -> Any:
        parts = [getattr(chunk, name) for chunk in chunks]
        # Arrays that chunks have twice are joined once.
        same = (*map(id, parts), *shifts)
        if same not in buffers:
            array = buffers[same] = np.concatenate(parts)
            for row, stop, shift in zip(rows, rows[1:], shifts, strict=False):
                array[row:stop] += shift
        return buffers[same]

    return EntryChunk(
        keys, values, joined("state"), joined("key_group"), joined("key_start", key_at), joined("key_end", key_at),
        joined("value_start", value_at), joined("value_end", value_at), joined("serial_start", key_at),
        joined("serial_end", key_at),
    )  # fmt: skip


def to_disk(chunk: EntryChunk) -> pa.RecordBatch:
    """Return a copy of the entries as a batch of schema ``SPILLED``."""
    at, size = chunk.serial_start - chunk.key_start, chunk.serial_end - chunk.serial_start
    columns = [
        *chunk.entries().columns[:-1],
        fixed_array(pa.int32(), at.astype(np.int32)),
        fixed_array(pa.int32(), size.astype(np.int32)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SPILLED)


def from_disk(batch: pa.RecordBatch) -> EntryChunk:
    """Return the entries of a batch that :func:`to_disk` made."""
    chunk = EntryChunk.of_batch(batch)
    chunk.serial_start = chunk.key_start + fixed_values(batch.column("serial_at"), np.int32)
    chunk.serial_end = chunk.serial_start + fixed_values(batch.column("serial_size"), np.int32)
    return chunk


@dataclass(frozen=True)
class KeyNumbers:
    """Distinct keys with numbers from 0 to ``count``, found by their bytes in a hash table."""

    keys: Bytes
    start: Longs
    end: Longs
    first: Longs
    table: Any
    count: int

    @classmethod
    def of(cls, chunk: EntryChunk) -> KeyNumbers:
        """Number the keys of some entries."""
        from pyspark_savepoint.formats.kernels import hashing, keys

        start, end = _keys(chunk)
        first = np.empty(len(chunk), np.int64)
        table = np.empty(1 << (2 * len(chunk)).bit_length(), np.int32)
        count = int(keys.number_keys(chunk.keys, start, end, first, table, hashing.SECRET))
        return cls(chunk.keys, start, end, first, table, count)

    def find(self, chunk: EntryChunk) -> Ints:
        """Return the numbers of the keys of some entries, -1 for unknown keys."""
        from pyspark_savepoint.formats.kernels import hashing, keys

        out = np.empty(len(chunk), np.int32)
        own_keys = self.keys, self.start, self.end, self.first
        keys.find_keys(chunk.keys, *_keys(chunk), *own_keys, self.table, hashing.SECRET, out)
        return out


def _keys(chunk: EntryChunk) -> tuple[Longs, Longs]:
    return np.ascontiguousarray(chunk.serial_start), np.ascontiguousarray(chunk.serial_end)


Pair = tuple[EntryChunk, EntryChunk]
#: Function that reads the entries of some key groups.
Chunks = Callable[[set[int]], Iterator[EntryChunk]]


@dataclass(frozen=True)
class Division:
    """Division of two inputs by max parallelism; None for an input without state."""

    max_parallelisms: tuple[int | None, int | None]

    @cached_property
    def modulus(self) -> int:
        """Return the number of remainders."""
        return gcd(*(number for number in self.max_parallelisms if number is not None))

    def shares(self, count: int) -> Iterator[range]:
        """Yield the remainders of each of ``count`` tasks, at most one task per remainder."""
        count = min(count, self.modulus)
        for index in range(count):
            owned = range_for_operator_index(self.modulus, count, index)
            yield range(owned.start, owned.end + 1)

    def key_groups(self, side: int, remainders: range) -> set[int]:
        """Return the key groups of an input with some remainders."""
        number = self.max_parallelisms[side] or 0
        key_groups = np.arange(number)
        is_selected = np.isin(key_groups % self.modulus, np.arange(remainders.start, remainders.stop))
        return set(key_groups[is_selected].tolist())

    def parts(self, sides: Iterable[T | None], remainders: range) -> list[tuple[T, set[int]]]:
        """Return each input that has state, with its key groups that have some remainders."""
        numbered = enumerate(sides)
        return [(side, self.key_groups(number, remainders)) for number, side in numbered if side is not None]

    def sizes(self, side: int, of_key_groups: Longs) -> Longs:
        """Return the bytes per remainder from those per key group."""
        return np.bincount(np.arange(len(of_key_groups)) % self.modulus, of_key_groups, self.modulus).astype(np.int64)


def paired_chunks(
    read: tuple[Chunks, Chunks],
    division: Division,
    remainders: range,
    sizes: Longs,
    memory: int,
    serial: bool,
    starts: Sequence[int] = (),
) -> Iterator[Pair]:
    """Yield the entries of both inputs; all entries of a key are in one pair.

    ``sizes`` are the approximate bytes per remainder, ``memory`` those that a task may hold; their spans take as much
    again. ``serial``: keys are those without namespaces and user keys. ``starts``: remainders, ascending, with which
    files begin; whole files are read at a time where they fit.
    """
    left = remainders
    most = len(next(together(left, sizes, memory // EXPANDED), left))
    while left:
        some = next(together(left, sizes, memory // 4))[:most]
        known = bisect_right(starts, some.stop)
        if known and starts[known - 1] > some.start:
            some = range(some.start, starts[known - 1])
        in_memory = _in_memory(read, division, some, memory // 2)
        if in_memory is None and len(some) > 1:
            # Entries take more than their files, and those of the next key groups probably do, too.
            most = len(some) // 2
            continue
        left = range(some.stop, left.stop)
        if in_memory is None:
            yield from _partitioned(read, division.key_groups, some, memory // 2, serial)
            continue
        if sum(chunk.nbytes for chunk in in_memory) < memory // 8:
            most = max(most, 2 * len(some))
        yield in_memory


def together(remainders: range, sizes: Longs, limit: int) -> Iterator[range]:
    """Combine consecutive remainders up to a size."""
    start, size = remainders.start, 0
    for at in remainders:
        added = int(sizes[at])  # what damaged metadata declare may be more than 64 bits together
        if at > start and size + added > limit:
            yield range(start, at)
            start, size = at, 0
        size += added
    if start < remainders.stop:
        yield range(start, remainders.stop)


def _partitioned(
    read: tuple[Chunks, Chunks], owned: Callable[[int, range], set[int]], remainders: range, memory: int, serial: bool
) -> Iterator[Pair]:
    """Yield the entries of both inputs, partitioned by key on local disk."""

    def keyed(chunk: EntryChunk) -> KeyedRows:
        start, end = (chunk.serial_start, chunk.serial_end) if serial else (chunk.key_start, chunk.key_end)
        spans = np.ascontiguousarray(start), np.ascontiguousarray(end)
        return KeyedRows(chunk.keys, *spans, lambda rows: to_disk(chunk.take(rows)))

    with KeyPartitions(
        SPILLED, lambda batch: keyed(from_disk(batch)), piece=memory, limit=2 * memory, capacity=memory // 4, inputs=2
    ) as parts:
        for side in (0, 1):
            for chunk in read[side](owned(side, remainders)):
                parts.add(keyed(chunk), side)
        for before, after in parts.pieces():
            yield concat([from_disk(batch) for batch in before]), concat([from_disk(batch) for batch in after])


def _in_memory(read: tuple[Chunks, Chunks], division: Division, remainders: range, memory: int) -> Pair | None:
    """Return the entries of both inputs, or None if they are larger than ``memory``."""
    both: list[EntryChunk] = []
    size = 0
    for side in (0, 1):
        chunks: list[EntryChunk] = []
        for chunk in read[side](division.key_groups(side, remainders)):
            chunks.append(chunk)
            size += chunk.nbytes
            if size > memory:
                return None
        both.append(concat(chunks))
    return both[0], both[1]


def nothing(_: set[int]) -> Iterator[EntryChunk]:
    """Read an input that has no entries."""
    return iter(())


def total(sizes: Sequence[Longs]) -> Longs:
    """Return the sum of the sizes of both inputs."""
    summed: Longs = np.sum(sizes, axis=0)
    return summed
