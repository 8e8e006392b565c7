"""Entries of keyed state in memory: spans in one buffer, whatever the file looked like.

An entry is a key, a namespace, in map states of the canonical format a user key, and a value. ``span`` is what entries
of two states have in common where they belong to one row: the key, or the key together with the namespace (they lie
side by side in both formats).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from pyspark_savepoint.formats.columns import Bytes, Ints, Longs, Origin
from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot

CANONICAL, HEAP = "canonical", "heap"


@dataclass(slots=True)
class KeyedBlock:
    """Some entries of one file. All arrays have one element per entry; ``state`` is an index into ``states``.

    ``groups`` are (key group, [(first, last + 1) per run]): the entries of one state in one key group are a run.
    ``complete`` says that no other block holds entries of these key groups, ``namespaced`` that spans cover the
    namespace too, ``ascending`` that spans are known to ascend strictly in every run.
    """

    form: str
    states: Sequence[StateMetaInfoSnapshot]
    buffer: Bytes
    origin: Origin
    state: Ints
    key_group: Ints
    key_start: Longs
    key_end: Longs
    namespace_start: Longs
    namespace_end: Longs
    user_start: Longs
    user_end: Longs
    value_start: Longs
    value_end: Longs
    span_start: Longs
    span_end: Longs
    groups: list[tuple[int, list[tuple[int, int]]]] = field(default_factory=list)
    complete: bool = True
    namespaced: bool = False
    ascending: bool = False

    def __len__(self) -> int:
        return len(self.state)

    def entries_of(self, state: int) -> Longs:
        """Indices of the entries of a state, ascending."""
        return np.flatnonzero(self.state == state)


@dataclass(slots=True)
class SortedRows:
    """Rows of some key groups whose states are sorted and have one entry per key: joined while they were read.

    ``value_start[i]`` and ``value_end[i]`` are the spans of state ``columns[i]``, -1 in rows that lack it.
    """

    form: str
    states: Sequence[StateMetaInfoSnapshot]
    buffer: Bytes
    origin: Origin
    columns: Sequence[int]
    key_group: Ints
    key_start: Longs
    key_end: Longs
    namespace_end: Longs
    value_start: Longs
    value_end: Longs

    def __len__(self) -> int:
        return len(self.key_start)


def runs_of(state: Ints, low: int, high: int) -> list[tuple[int, int]]:
    """The runs of equal state in [low, high)."""
    if low == high:
        return []
    cuts = low + 1 + np.flatnonzero(state[low + 1 : high] != state[low : high - 1])
    bounds = [low, *cuts.tolist(), high]
    return list(pairwise(bounds))
