"""Chunks of two inputs that have the same keys: a task reads the same key groups of both, in bounded memory.

With different max parallelisms m and n, key groups g of one and h of the other can have the same key only if they leave
the same remainder modulo the greatest common divisor of m and n, for a key's hash leaves it too. So both inputs are
divided by this remainder, which is the key group itself if m = n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

import numpy as np

from pyspark_savepoint.formats.columns import Longs
from pyspark_savepoint.formats.keyed.key_partitions import KeyedRows, KeyPartitions
from pyspark_savepoint.formats.metadata.key_groups import range_for_operator_index
from pyspark_savepoint.statebackends.merging.entry_chunk import SPILLED, EntryChunk, concat, from_disk, to_disk

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
        return {group for remainder in remainders for group in range(remainder, number, self.modulus)}

    def sizes(self, side: int, of_key_groups: Longs) -> Longs:
        """Return the bytes per remainder from those per key group."""
        return np.bincount(np.arange(len(of_key_groups)) % self.modulus, of_key_groups, self.modulus).astype(np.int64)


def paired_chunks(
    read: tuple[Chunks, Chunks], division: Division, remainders: range, sizes: Longs, memory: int, serial: bool
) -> Iterator[Pair]:
    """Yield the entries of both inputs; all entries of a key are in one pair.

    ``sizes`` are the approximate bytes per remainder, ``memory`` those that a task may hold; their spans take as much
    again. ``serial``: keys are those without namespaces and user keys.
    """
    for some in together(remainders, sizes, memory // 4):
        yield from _pair(read, division, some, memory // 2, serial)


def together(remainders: range, sizes: Longs, limit: int) -> Iterator[range]:
    """Combine consecutive remainders up to a size."""
    start, size = remainders.start, 0
    for at in remainders:
        if at > start and size + sizes[at] > limit:
            yield range(start, at)
            start, size = at, 0
        size += int(sizes[at])
    if start < remainders.stop:
        yield range(start, remainders.stop)


def _pair(
    read: tuple[Chunks, Chunks], division: Division, remainders: range, memory: int, serial: bool
) -> Iterator[Pair]:
    held = _held(read, division, remainders, memory)
    if held is not None:
        yield held
    elif len(remainders) > 1:
        middle = (remainders.start + remainders.stop) // 2
        for half in (range(remainders.start, middle), range(middle, remainders.stop)):
            yield from _pair(read, division, half, memory, serial)
    else:
        yield from _partitioned(read, division.key_groups, remainders, memory, serial)


def _partitioned(
    read: tuple[Chunks, Chunks], owned: Callable[[int, range], set[int]], remainders: range, memory: int, serial: bool
) -> Iterator[Pair]:
    """Yield the entries of both inputs, partitioned by key on local disk."""

    def keyed(chunk: EntryChunk) -> KeyedRows:
        start, end = (chunk.serial_start, chunk.serial_end) if serial else (chunk.key_start, chunk.key_end)
        spans = np.ascontiguousarray(start), np.ascontiguousarray(end)
        return KeyedRows(chunk.keys, *spans, lambda rows: to_disk(chunk.take(rows)))

    with KeyPartitions(
        SPILLED, lambda batch: keyed(from_disk(batch)), piece=memory, limit=2 * memory, held=memory // 4, inputs=2
    ) as parts:
        for side in (0, 1):
            for chunk in read[side](owned(side, remainders)):
                parts.add(keyed(chunk), side)
        for before, after in parts.pieces():
            yield concat([from_disk(batch) for batch in before]), concat([from_disk(batch) for batch in after])


def _held(read: tuple[Chunks, Chunks], division: Division, remainders: range, memory: int) -> Pair | None:
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
