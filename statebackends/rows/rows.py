"""Rows built from entries: every key (or key and window) once, whatever states it has.

Within a key group, runs of entries (one per state) are joined by the bytes of their keys: side by side if all have the
same keys in the same order, by merging if all are sorted (RocksDB) and there are not very many, else with a hash
table (hashmap).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np

from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError
from pyspark_savepoint.formats.keyed.keyed_block import MANY_STATES, KeyedBlock, SortedRows

if TYPE_CHECKING:
    from pyspark_savepoint.formats.columns import Flags, Ints, Longs


class RowsOfBlock(Protocol):
    """Rows of a block: where the key, the namespace and the state values of each row are."""

    @property
    def block(self) -> KeyedBlock | SortedRows:
        """Return the block: the buffer and its origin."""

    def __len__(self) -> int: ...

    def keys(self, low: int, high: int) -> tuple[Longs, Longs]:
        """Return the spans of the keys of rows [low, high)."""

    def namespaces(self, low: int, high: int) -> tuple[Longs, Longs]:
        """Return the spans of the namespaces of rows [low, high)."""

    def key_groups(self, low: int, high: int) -> Ints:
        """Return the key groups of rows [low, high)."""

    def values(self, state: int, low: int, high: int) -> tuple[Longs, Longs, Longs | None]:
        """Return the spans of a state's values in rows [low, high), for states with at most one entry per row.

        The last array has the rows that have one, counted from ``low``; None if all have one. What this takes depends
        on the number of entries, not on that of rows: most of many states have few.
        """

    def select(self, flags: Flags) -> RowsOfBlock:
        """Return the rows that a mask selects."""


@dataclass(slots=True)
class MergedRows:
    """Rows that were joined while they were read."""

    block: SortedRows

    def __len__(self) -> int:
        return len(self.block)

    def keys(self, low: int, high: int) -> tuple[Longs, Longs]:
        return self.block.key_start[low:high], self.block.key_end[low:high]

    def namespaces(self, low: int, high: int) -> tuple[Longs, Longs]:
        """Return the spans of the namespaces, which follow the keys."""
        return self.block.key_end[low:high], self.block.namespace_end[low:high]

    def key_groups(self, low: int, high: int) -> Ints:
        return self.block.key_group[low:high]

    def values(self, state: int, low: int, high: int) -> tuple[Longs, Longs, Longs | None]:
        column = bisect_left(self.block.columns, state)
        start, end = self.block.value_start[column, low:high], self.block.value_end[column, low:high]
        there = np.flatnonzero(start >= 0)
        return (start, end, None) if len(there) == len(start) else (start[there], end[there], there)

    def select(self, flags: Flags) -> MergedRows:
        block = self.block
        return MergedRows(
            replace(
                block,
                key_group=block.key_group[flags],
                key_start=block.key_start[flags],
                key_end=block.key_end[flags],
                namespace_end=block.namespace_end[flags],
                value_start=block.value_start[:, flags],
                value_end=block.value_end[:, flags],
            )
        )


@dataclass(slots=True)
class Rows:
    """Rows joined from entries: ``row_of`` is the row of every entry (-1: none), ``first`` one entry of every row.

    ``places`` are the entries of a state and their rows: what is kept is as large as the entries, not as rows x states.
    """

    block: KeyedBlock
    row_of: Ints
    first: Longs
    places: dict[int, tuple[Longs, Ints]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.first)

    def keys(self, low: int, high: int) -> tuple[Longs, Longs]:
        entries = self.first[low:high]
        return self.block.key_start[entries], self.block.key_end[entries]

    def namespaces(self, low: int, high: int) -> tuple[Longs, Longs]:
        entries = self.first[low:high]
        return self.block.namespace_start[entries], self.block.namespace_end[entries]

    def key_groups(self, low: int, high: int) -> Ints:
        return self.block.key_group[self.first[low:high]]

    def values(self, state: int, low: int, high: int) -> tuple[Longs, Longs, Longs | None]:
        if state not in self.places:
            self.places[state] = self.single_entries(state)
        entries, rows = self.places[state]
        there = None
        if len(entries) == len(self):
            entries = entries[low:high]
        else:
            first, last = np.searchsorted(rows, (low, high))
            entries, rows = entries[first:last], rows[first:last]
            there = rows.astype(np.int64) - low if len(entries) != high - low else None
        return self.block.value_start[entries], self.block.value_end[entries], there

    def _entries(self, state: int) -> tuple[Longs, Ints]:
        entries = self.block.entries_of(state)
        rows = self.row_of[entries]
        if len(rows) and rows.min() < 0:
            kept = rows >= 0
            return entries[kept], rows[kept]
        return entries, rows

    def select(self, flags: Flags) -> Rows:
        if not len(self):  # entries of other states
            return self
        number = np.cumsum(flags, dtype=np.int32) - 1
        kept = (self.row_of >= 0) & flags[self.row_of]
        row_of = np.where(kept, number[self.row_of], np.int32(-1))
        return Rows(self.block, row_of, self.first[flags])

    def single_entries(self, state: int) -> tuple[Longs, Ints]:
        """Return the entries of a state with at most one per row in row order, and their rows."""
        entries, rows = self._entries(state)
        if np.any(rows[1:] <= rows[:-1]):
            order = np.argsort(rows, kind="stable")
            entries, rows = entries[order], rows[order]
        same = np.flatnonzero(rows[1:] == rows[:-1])
        if len(same):
            twice = entries[same].min()
            raise CorruptStateError(
                "a key has two values in a state that holds one value per key",
                expected="every key once",
                remedy=UNREADABLE,
                **self.block.origin.facts(int(self.block.span_start[twice])),
            ).with_facts(state=self.block.states[state].name)
        return entries, rows

    def grouped_entries(self, state: int) -> tuple[Longs, Longs]:
        """Return the entries of a state in row order, and the number of entries of every row."""
        entries, rows = self._entries(state)
        counts = np.bincount(rows, minlength=len(self)).astype(np.int64)
        if np.any(rows[1:] < rows[:-1]):
            entries = entries[np.argsort(rows, kind="stable")]
        return entries, counts


def rows_of(block: KeyedBlock | SortedRows) -> RowsOfBlock:
    """Return the rows of a block."""
    return MergedRows(block) if isinstance(block, SortedRows) else join(block)


def join(block: KeyedBlock) -> Rows:
    """Number the distinct spans of a block's selected entries, key group by key group."""
    from pyspark_savepoint.formats.kernels import frames, hashing

    n = len(block)
    row_of = np.full(n, -1, np.int32)
    first = np.empty(n, np.int64)
    start, end = np.ascontiguousarray(block.span_start), np.ascontiguousarray(block.span_end)
    row = 0
    table = np.empty(0, np.int32)
    lows, highs = block.runs.low, block.runs.high
    orders = np.full(len(lows), frames.SORTED_UNIQUE, np.int64)
    if not block.ascending:
        frames.order_of_runs(block.buffer, start, end, lows, highs, orders)
    for begin, stop in pairwise(block.runs.bounds.tolist()):
        if begin == stop:
            continue
        mine = slice(begin, stop)
        low, high, order = lows[mine], highs[mine], int(orders[mine].min())
        joined = -1
        if order == frames.SORTED_UNIQUE:
            joined = frames.zip_rows(block.buffer, start, end, low, high, row, row_of, first)
        if joined < 0 and order != frames.UNSORTED and len(low) <= MANY_STATES:
            joined = frames.merge_rows(block.buffer, start, end, low.copy(), high, row, row_of, first)
        if joined < 0:
            size = 1 << max(4, int((high - low).sum() * 2 - 1).bit_length())
            table = table if len(table) == size else np.empty(size, np.int32)
            joined = frames.hash_rows(block.buffer, start, end, low, high, row, row_of, first, table, hashing.SECRET)
        row = joined
    return Rows(block, row_of, first[:row])
