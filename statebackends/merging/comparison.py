"""Comparison of two chunks of entries by their bytes: which entries the other one does not have."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from pyspark_savepoint.formats.columns import Bytes, Flags, Longs
from pyspark_savepoint.statebackends.merging.entry_chunk import EntryChunk
from pyspark_savepoint.statebackends.merging.runs import Runs

#: Numbers per state: entries before and after; added, removed, changed.
COUNTS = ("before", "after", "added", "removed", "changed")


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
    found = _compared(sides, places, maps)
    if found is None:
        # Hash tables of the heap: sorted, equal keys meet.
        sides = [side.sorted() for side in sides]
        found = _compared(sides, places, maps)
    assert found is not None
    runs, flags, matched = found
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
    counts = {int(number): numbers[state == number].sum(axis=0) for number in np.unique(state)}
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
    key, key_end, value, value_end = (np.ascontiguousarray(each) for each in spans)
    return chunk.keys, key, key_end, chunk.values, value, value_end
