"""Comparison of two chunks of entries by their bytes: which entries the other one does not have.

Entries of a chunk are compared as runs: those of one state in one key group, or in key groups with the same remainder.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from pyspark_savepoint.formats.columns import Bytes, Flags, Longs, distinct
from pyspark_savepoint.formats.keyed.canonical_writer import CanonicalKeyedStreamWriter, Entries
from pyspark_savepoint.statebackends.merging.entry_chunk import EntryChunk
from pyspark_savepoint.statebackends.rows.sorting import order_within

#: Numbers per state: entries before and after; added, removed, changed.
COUNTS = ("before", "after", "added", "removed", "changed")


@dataclass
class Runs:
    """Entries in runs: one per ``places``, which are remainder and state, with the run's bounds."""

    chunk: EntryChunk
    places: Longs
    low: Longs
    high: Longs

    @classmethod
    def of(cls, chunk: EntryChunk, modulus: int) -> Runs:
        """Return the runs of a chunk; entries of one run that are apart are brought together."""
        runs = (chunk.key_group.astype(np.int64) % modulus) << 32 | chunk.state
        cuts = np.concatenate([[0], 1 + np.flatnonzero(runs[1:] != runs[:-1]), [len(runs)]])
        cuts = cuts if len(runs) else np.zeros(1, np.int64)
        places = runs[cuts[:-1]]
        order = np.argsort(places, kind="stable")
        if len(places) == len(distinct(places)):
            return cls(chunk, places[order], cuts[:-1][order], cuts[1:][order])
        rows = np.argsort(runs, kind="stable")
        return cls.of(chunk.take(rows), modulus)

    def bounds(self, places: Longs) -> tuple[Longs, Longs]:
        """Return the bounds of the runs at some places, 0 where there is none."""
        low, high = np.zeros(len(places), np.int64), np.zeros(len(places), np.int64)
        at = np.searchsorted(places, self.places)
        low[at], high[at] = self.low, self.high
        return low, high

    def sorted(self) -> Runs:
        """Return the runs one after another, each in the order of its keys."""
        sizes = self.high - self.low
        bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        rows = np.arange(int(bounds[-1])) + np.repeat(self.low - bounds[:-1], sizes)
        chunk = self.chunk.take(rows)
        order = order_within(bounds, chunk.keys, chunk.key_start, chunk.key_end)
        return Runs(chunk.take(order), self.places, bounds[:-1], bounds[1:])

    def first_unordered(self) -> int:
        """Return the first entry whose key is not greater than the one before it in its run, or -1."""
        from pyspark_savepoint.formats.kernels import keys

        chunk = self.chunk
        start, end = np.ascontiguousarray(chunk.key_start), np.ascontiguousarray(chunk.key_end)
        low, high = np.ascontiguousarray(self.low), np.ascontiguousarray(self.high)
        return int(keys.first_unordered(chunk.keys, start, end, low, high))

    def write(self, writer: CanonicalKeyedStreamWriter) -> None:
        """Write the runs, one for each key group and state."""
        key_groups = distinct(self.places >> 32).astype(np.int32)
        parts = []
        for state in np.unique(self.places & 0xFFFFFFFF).tolist():
            mine = np.flatnonzero(self.places & 0xFFFFFFFF == state)
            sizes = np.zeros(len(key_groups), np.int64)
            sizes[np.searchsorted(key_groups, self.places[mine] >> 32)] = self.high[mine] - self.low[mine]
            bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
            low, high = self.low[mine], self.high[mine]
            rows = np.arange(int(bounds[-1])) + np.repeat(low - np.cumsum(high - low) + (high - low), high - low)
            one = self.chunk
            ends = (one.key_start[rows], one.key_end[rows]), (one.value_start[rows], one.value_end[rows])
            spans = Entries(one.keys, *ends[0], one.values, *ends[1])
            parts.append((state, spans, bounds))
        writer.add_groups(key_groups, parts)


@dataclass(frozen=True)
class Compared:
    """Entries of both inputs, possibly in another order, which of them differ, and numbers per state."""

    before: EntryChunk
    after: EntryChunk
    before_differs: Flags
    after_differs: Flags
    counts: dict[int, Longs]


def compare(before: EntryChunk, after: EntryChunk, modulus: int, maps: Collection[int]) -> Compared:
    """Compare the entries of two inputs; ``maps`` are the numbers of map states."""
    sides = [Runs.of(chunk, modulus) for chunk in (before, after)]
    places = np.union1d(sides[0].places, sides[1].places)
    compared = _compared(sides, places, maps)
    if compared is None:
        # Hash tables of the heap: sorted, equal keys meet.
        sides = [side.sorted() for side in sides]
        compared = _compared(sides, places, maps)
    assert compared is not None
    runs, flags, matched = compared
    numbers = np.stack(
        [
            runs[:, 1] - runs[:, 0],
            runs[:, 3] - runs[:, 2],
            runs[:, 3] - runs[:, 2] - matched[:, 0],
            runs[:, 1] - runs[:, 0] - matched[:, 0],
            matched[:, 1],
        ],
        axis=1,
    )
    state = places & 0xFFFFFFFF
    order = np.argsort(state, kind="stable")
    present, first = np.unique(state[order], return_index=True)
    sums = np.add.reduceat(numbers[order], first) if len(present) else numbers
    counts = dict(zip(present.tolist(), sums, strict=True))
    return Compared(sides[0].chunk, sides[1].chunk, *flags, counts)


def _compared(
    sides: list[Runs], places: Longs, maps: Collection[int]
) -> tuple[Longs, tuple[Flags, Flags], Longs] | None:
    """Return the runs, the flags of both sides and the numbers of equal keys; None if keys are in no order."""
    from pyspark_savepoint.formats.kernels import keys

    is_map = np.isin(places & 0xFFFFFFFF, list(maps)).astype(np.int64)
    runs = np.stack([*sides[0].bounds(places), *sides[1].bounds(places), is_map], axis=1)
    flags = np.zeros(len(sides[0].chunk), np.bool_), np.zeros(len(sides[1].chunk), np.bool_)
    matched = np.zeros((len(runs), 2), np.int64)
    unordered = keys.compare_runs(*_spans(sides[0].chunk), *_spans(sides[1].chunk), runs, *flags, matched)
    return (runs, flags, matched) if unordered < 0 else None


def _spans(chunk: EntryChunk) -> tuple[Bytes, Longs, Longs, Bytes, Longs, Longs]:
    spans = (chunk.key_start, chunk.key_end, chunk.value_start, chunk.value_end)
    key, key_end, value, value_end = (np.ascontiguousarray(array) for array in spans)
    return chunk.keys, key, key_end, chunk.values, value, value_end
