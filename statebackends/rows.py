"""Rows out of entries: every key (or key and window) once, whichever states it has.

Within a key group, runs of entries (one per state) are joined by the bytes of their keys: side by side where all
hold the same keys in the same order, by merging where all are sorted (RocksDB), else through a hash table (hashmap).
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import numpy as np

from pyspark_savepoint.formats.columns import Flags, Ints, Longs
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.keyed_block import KeyedBlock

SEED = secrets.randbits(62)


@dataclass(slots=True)
class Rows:
    """The rows of a block: ``row_of`` is the row of every entry (-1 of those not joined), ``first`` one entry a row."""

    block: KeyedBlock
    row_of: Ints
    first: Longs

    def __len__(self) -> int:
        return len(self.first)

    def _entries(self, state: int) -> tuple[Longs, Ints]:
        entries = self.block.entries_of(state)
        rows = self.row_of[entries]
        if len(rows) and rows.min() < 0:
            kept = rows >= 0
            return entries[kept], rows[kept]
        return entries, rows

    def select(self, wanted: Flags) -> Rows:
        """Some of the rows."""
        number = np.cumsum(wanted, dtype=np.int32) - 1
        kept = (self.row_of >= 0) & wanted[self.row_of]
        row_of = np.where(kept, number[self.row_of], np.int32(-1))
        return Rows(self.block, row_of, self.first[wanted])

    def one_each(self, state: int) -> Longs:
        """The entry of every row in a state that has at most one; -1 where a row has none."""
        entries, rows = self._entries(state)
        place = np.full(len(self), -1, np.int64)
        place[rows] = entries
        if np.count_nonzero(place >= 0) != len(entries):
            twice = entries[place[rows] != entries][0]
            raise CorruptStateError(
                "a key has two values in a state that holds one",
                expected="every key once",
                remedy="the file is damaged: take it from its origin again",
                **self.block.origin.facts(int(self.block.span_start[twice])),
            ).with_facts(state=self.block.states[state].name)
        return place

    def many_each(self, state: int) -> tuple[Longs, Longs]:
        """The entries of a state in row order, and how many every row has."""
        entries, rows = self._entries(state)
        counts = np.bincount(rows, minlength=len(self)).astype(np.int64)
        if np.any(rows[1:] < rows[:-1]):
            entries = entries[np.argsort(rows, kind="stable")]
        return entries, counts


def join(block: KeyedBlock) -> Rows:
    """Number the distinct spans of a block's selected entries, key group by key group."""
    from pyspark_savepoint.formats.kernels import frames

    n = len(block)
    row_of = np.full(n, -1, np.int32)
    first = np.empty(n, np.int64)
    start, end = np.ascontiguousarray(block.span_start), np.ascontiguousarray(block.span_end)
    row = 0
    table = np.empty(0, np.int32)
    for _, runs in block.groups:
        if not runs:
            continue
        low = np.array([run[0] for run in runs], np.int64)
        high = np.array([run[1] for run in runs], np.int64)
        order = min(frames.ascending(block.buffer, start, end, a, b) for a, b in runs)
        joined = -1
        if order == frames.STRICTLY:
            joined = frames.zip_rows(block.buffer, start, end, low, high, row, row_of, first)
        if joined < 0 and order != frames.NOT:
            joined = frames.merge_rows(block.buffer, start, end, low, high, row, row_of, first)
        if joined < 0:
            size = 1 << max(4, int((high - low).sum() * 2 - 1).bit_length())
            table = table if len(table) == size else np.empty(size, np.int32)
            joined = frames.hash_rows(block.buffer, start, end, low, high, row, row_of, first, table, SEED)
        row = joined
    return Rows(block, row_of, first[:row])
