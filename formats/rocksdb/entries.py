"""Entries of sorted files: every version of every key, and what is left when they are put together.

    type           effect on older versions of the key
    1 put          the value; what is older does not count
    0, 7 delete    nothing is left of what is older
    2 merge        joined to what is older by a comma: elements that were added to a list
    deleted range  like a delete, for all keys in it

Twins: ``MergingIterator``, ``DBIter``, ``MergeHelper``, ``RangeDelAggregator``, ``StringAppendTESTOperator``.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pyspark_savepoint.formats.columns import Bytes, Longs
from pyspark_savepoint.formats.errors import CorruptStateError, UnsupportedStateError
from pyspark_savepoint.formats.rocksdb.block import Blocks
from pyspark_savepoint.formats.rocksdb.coding import REMEDY
from pyspark_savepoint.formats.rocksdb.sst import RangeTombstone, SstFile

#: Keys from the first on, before the second; None: there is no such bound.
KeyRange = tuple[bytes, bytes | None]
KIND = 0xFF
#: Prefixes of keys may be shared, but entries do not become much larger than the blocks that they are in.
MAX_GROWTH, FREE_GROWTH = 64, 1 << 28


@dataclass(slots=True)
class Entries:
    """Spans of user keys and values in one buffer; ``tag`` is sequence number and type."""

    buffer: Bytes
    key_start: Longs
    key_end: Longs
    value_start: Longs
    value_end: Longs
    tag: Longs

    def __len__(self) -> int:
        return len(self.tag)

    def key(self, entry: int) -> bytes:
        """A user key."""
        return self.buffer[int(self.key_start[entry]) : int(self.key_end[entry])].tobytes()

    def cut(self, low: int, high: int) -> Entries:
        """The entries [low, high), in the same buffer."""
        part = slice(low, high)
        return Entries(
            self.buffer, self.key_start[part], self.key_end[part],
            self.value_start[part], self.value_end[part], self.tag[part],
        )  # fmt: skip

    def take(self, rows: Longs) -> Entries:
        """Some entries, in the same buffer."""
        return Entries(
            self.buffer, self.key_start[rows], self.key_end[rows],
            self.value_start[rows], self.value_end[rows], self.tag[rows],
        )  # fmt: skip

    def first_not_before(self, key: bytes) -> int:
        """The first entry whose user key does not stand before a key."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.key(middle) < key:
                low = middle + 1
            else:
                high = middle
        return low


def decode_entries(blocks: Blocks, file: SstFile, low: int, high: int) -> Entries:
    """The entries of blocks whose keys begin with a number from ``low`` to ``high``."""
    from pyspark_savepoint.formats.kernels import sst

    count, size = np.empty(len(blocks.start), np.int64), np.empty(len(blocks.start), np.int64)
    failing = sst.measure_blocks(blocks.buffer, blocks.start, blocks.end, file.prefix, count, size)
    if failing >= 0 or size.sum() > MAX_GROWTH * len(blocks.buffer) + FREE_GROWTH:
        raise _damaged(file.path, "blocks of entries, each with a key of a key group")
    total, content = int(count.sum()), len(blocks.buffer)
    keys = np.empty(int(size.sum()), np.uint8)
    key_start, key_end, value_start, value_end, tag = (np.empty(total, np.int64) for _ in range(5))
    sst.decode_blocks(blocks.buffer, blocks.start, blocks.end, keys, key_start, key_end, value_start, value_end, tag)
    number = np.empty(total, np.int64)
    sst.prefix_numbers(keys, key_start, key_end, file.prefix, number)
    if file.sequence is not None:
        tag = file.sequence << 8 | tag & KIND
    buffer = np.concatenate([blocks.buffer, keys])
    entries = Entries(buffer, key_start + content, key_end + content, value_start, value_end, tag)
    first, last = np.searchsorted(number, [low, high + 1]).tolist()
    if np.any(number[1:] < number[:-1]):
        raise _damaged(file.path, "entries in the order of their keys")
    return entries.cut(first, last)


def within(entries: Entries, ranges: Sequence[KeyRange]) -> Entries:
    """The entries whose keys are in some ranges, which are in order and do not overlap."""
    if not len(entries):
        return entries
    starts = [low for low, _ in ranges]
    near = ranges[
        max(0, bisect_right(starts, entries.key(0)) - 1) : bisect_right(starts, entries.key(len(entries) - 1))
    ]
    spans = [
        np.arange(entries.first_not_before(low), len(entries) if end is None else entries.first_not_before(end))
        for low, end in near
    ]
    return entries.take(np.concatenate(spans) if spans else np.empty(0, np.int64))


def _damaged(path: str, expected: str) -> CorruptStateError:
    return CorruptStateError(
        "a table file is damaged",
        path=path,
        expected=expected,
        found="bytes that are none, though their checksums are right",
        remedy=REMEDY,
    )


def concatenate(parts: Sequence[Entries]) -> Entries:
    """Entries one behind the other, in one buffer."""
    if len(parts) == 1:
        return parts[0]
    base = np.cumsum([0, *(len(part.buffer) for part in parts)])
    spans = ("key_start", "key_end", "value_start", "value_end")
    key_start, key_end, value_start, value_end = (
        np.concatenate([getattr(part, name) + at for part, at in zip(parts, base[:-1].tolist(), strict=True)])
        for name in spans
    )
    tag = np.concatenate([part.tag for part in parts])
    buffer = np.concatenate([part.buffer for part in parts])
    return Entries(buffer, key_start, key_end, value_start, value_end, tag)


@dataclass(slots=True)
class DeletedRanges:
    """From each bound to the next, entries with sequence numbers less than ``below`` are deleted."""

    bounds: list[bytes]
    below: list[int]

    @classmethod
    def of(cls, tombstones: Sequence[RangeTombstone]) -> DeletedRanges:
        """Ranges that may overlap, as ranges that do not: the newest counts."""
        pending = sorted(tombstones, key=lambda each: each.start)
        bounds = sorted({bound for each in tombstones for bound in (each.start, each.end)})
        open_ones: list[tuple[int, bytes]] = []
        below, at = [], 0
        for bound in bounds:
            while at < len(pending) and pending[at].start <= bound:
                heapq.heappush(open_ones, (-pending[at].sequence, pending[at].end))
                at += 1
            while open_ones and open_ones[0][1] <= bound:
                heapq.heappop(open_ones)
            below.append(-open_ones[0][0] if open_ones else 0)
        return cls(bounds, below)

    def spans(self, base: int) -> tuple[Bytes, Longs, Longs]:
        """The bounds side by side, and their spans where they are put at ``base``."""
        lengths = np.array([len(bound) for bound in self.bounds], np.int64)
        end = base + np.cumsum(lengths)
        return np.frombuffer(bytearray(b"".join(self.bounds)), np.uint8), end - lengths, end


def resolve(runs: Sequence[Entries], deleted: DeletedRanges, path: str) -> Entries:
    """The newest value of every key of some sorted runs; tags do not count any more."""
    from pyspark_savepoint.formats.kernels import sst

    bounds = [0, *np.cumsum([len(run) for run in runs]).tolist()]
    entries = concatenate(runs)
    orders = [np.arange(low, high) for low, high in pairwise(bounds)]
    order = _merge(entries, orders)
    below = np.array(deleted.below, np.int64)
    text, bound_start, bound_end = deleted.spans(len(entries.buffer))
    buffer = np.concatenate([entries.buffer, text]) if len(text) else entries.buffer
    first, last = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    rows, joined = sst.resolve(
        buffer, entries.key_start, entries.key_end, entries.value_start, entries.value_end, entries.tag, order,
        bound_start, bound_end, below, first, last,
    )  # fmt: skip
    if rows < 0:
        raise _unresolved(rows, int(entries.tag[joined]), path)
    first, last = first[:rows], last[:rows]
    row_start, row_end = np.empty(rows, np.int64), np.empty(rows, np.int64)
    at = len(buffer)
    if joined:
        buffer = np.concatenate([buffer, np.empty(joined, np.uint8)])
    sst.join_values(buffer, entries.value_start, entries.value_end, order, first, last, at, row_start, row_end)
    chosen = order[first]
    return Entries(buffer, entries.key_start[chosen], entries.key_end[chosen], row_start, row_end, entries.tag[chosen])


def _merge(entries: Entries, orders: list[Longs]) -> Longs:
    """One list of entries in order, out of lists that are each in order."""
    from pyspark_savepoint.formats.kernels import sst

    while len(orders) > 1:
        merged = []
        for left, right in zip(orders[::2], orders[1::2], strict=False):
            out = np.empty(len(left) + len(right), np.int64)
            sst.merge_two(entries.buffer, entries.key_start, entries.key_end, entries.tag, left, right, out)
            merged.append(out)
        orders = merged + orders[len(merged) * 2 :]
    return orders[0]


def _unresolved(why: int, tag: int, path: str) -> CorruptStateError | UnsupportedStateError:
    from pyspark_savepoint.formats.kernels import sst

    if why == sst.UNSORTED:
        return _damaged(path, "entries in the order of their keys")
    return UnsupportedStateError(
        "a database has entries of a kind that Flink does not write",
        path=path,
        expected="values, deletions and merges",
        found=f"type {tag & KIND}",
        remedy="take a canonical savepoint of the job (flink savepoint --type canonical)",
    )
