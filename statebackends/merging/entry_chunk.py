"""Entries of some key groups in memory: spans of composite keys and values, whatever format they come from.

    composite key := key [vlen] namespace [vlen] [userKey], or a timer       without the key-group prefix

``entry_bytes`` describes the bytes. The key alone is a span of the composite key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Bytes, Ints, Longs, binary_parts, fixed_array, fixed_values
from pyspark_savepoint.formats.keyed.canonical_writer import read_only
from pyspark_savepoint.formats.keyed.keyed_block import KeyedBlock, binary_column
from pyspark_savepoint.statebackends.model.entry_bytes import (
    KEY,
    KEY_GROUP,
    KEYED_ENTRIES,
    SERIALIZED_KEY,
    STATE,
    TIMESTAMP_BYTES,
    VALUE,
)


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
        start = end = key[:-1]
        if SERIALIZED_KEY in batch.schema.names:
            offsets, _ = binary_parts(batch.column(SERIALIZED_KEY))
            end = start + np.diff(offsets)
        state, key_group = (fixed_values(batch.column(name), np.int32).copy() for name in (STATE, KEY_GROUP))
        return cls(keys, values, state, key_group, key[:-1], key[1:], value[:-1], value[1:], start, end)

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

    def shifted(self, keys: int, values: int) -> tuple[Ints, Ints, Longs, Longs, Longs, Longs, Longs, Longs]:
        """Return the arrays for buffers in which those of this chunk begin at other positions."""
        return (
            self.state, self.key_group, self.key_start + keys, self.key_end + keys, self.value_start + values,
            self.value_end + values, self.serial_start + keys, self.serial_end + keys,
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
        nothing, spans, numbers = read_only(np.empty(0, np.uint8)), np.empty(0, np.int64), np.empty(0, np.int32)
        return EntryChunk(nothing, nothing, numbers, numbers, *[spans] * 6)
    shared = all(chunk.keys is chunk.values for chunk in chunks)
    keys = read_only(np.concatenate([chunk.keys for chunk in chunks]))
    values = keys if shared else read_only(np.concatenate([chunk.values for chunk in chunks]))
    key_at = np.cumsum([0, *(len(chunk.keys) for chunk in chunks)]).tolist()
    value_at = np.cumsum([0, *(len(chunk.values) for chunk in chunks)]).tolist()
    arrays = [chunk.shifted(*at) for chunk, *at in zip(chunks, key_at, value_at, strict=False)]
    return EntryChunk(keys, values, *(np.concatenate(each) for each in zip(*arrays, strict=True)))


#: Entries on local disk: the key alone is a part of the composite key.
SPILLED = pa.schema([*[*KEYED_ENTRIES][:-1], pa.field("serial_at", pa.int32()), pa.field("serial_size", pa.int32())])


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
        known = self.keys, self.start, self.end, self.first
        keys.find_keys(chunk.keys, *_keys(chunk), *known, self.table, hashing.SECRET, out)
        return out


def _keys(chunk: EntryChunk) -> tuple[Longs, Longs]:
    return np.ascontiguousarray(chunk.serial_start), np.ascontiguousarray(chunk.serial_end)
