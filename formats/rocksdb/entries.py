"""Entries of sorted files: all versions of every key, and their resolution to the newest values.

    type           effect on older versions of the key
    1 put          the value; older versions are ignored
    0, 7 delete    older versions are removed
    2 merge        appended to older versions with a comma: elements that were added to a list
    deleted range  like a delete, for all keys in it

RocksDB: ``MergingIterator``, ``DBIter``, ``MergeHelper``, ``RangeDelAggregator``, ``StringAppendTESTOperator``.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pyspark_savepoint.formats.columns import Bytes, Longs
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError, UnsupportedStateError
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.rocksdb.block import ROOM, Arena, Blocks
from pyspark_savepoint.formats.rocksdb.sst import KeyPrefixes, RangeTombstone, SstFile, another_file

KIND = 0xFF
#: Limit on the size of whole keys, which may share prefixes in a block: a factor of the block sizes, and a constant.
MAX_GROWTH, FREE_GROWTH = 64, 1 << 28
#: The smallest entry in bytes: its three lengths.
LEAST_ENTRY = 3


@redacted
@dataclass(slots=True)
class DatabaseEntries:
    """Spans of user keys and values in one buffer; ``tag`` is sequence number and type.

    ``paths``: (start, path) of each part of the buffer, in order.
    """

    buffer: Bytes
    key_start: Longs
    key_end: Longs
    value_start: Longs
    value_end: Longs
    tag: Longs
    paths: Sequence[tuple[int, str]] = ()

    def __len__(self) -> int:
        return len(self.tag)

    def place(self, entry: int) -> bytes:
        """Return the key of an entry."""
        return self.buffer[int(self.key_start[entry]) : int(self.key_end[entry])].tobytes()

    def cut(self, low: int, high: int) -> DatabaseEntries:
        """Return the entries [low, high), in the same buffer."""
        return self.take(slice(low, high))

    def take(self, rows: Longs | slice) -> DatabaseEntries:
        """Return some entries, in the same buffer."""
        return DatabaseEntries(
            self.buffer, self.key_start[rows], self.key_end[rows],
            self.value_start[rows], self.value_end[rows], self.tag[rows], self.paths,
        )  # fmt: skip


def decode_entries(
    blocks: Blocks, file: SstFile, low: int, high: int, size: int, arena: Arena | None = None
) -> DatabaseEntries:
    """Return the entries of blocks whose key groups are from ``low`` to ``high``.

    ``size`` is the size of the blocks in the file, in bytes. Keys are stored after the contents, in the arena if they
    fit.
    """
    entries = all_entries(blocks, file, size, arena)
    from pyspark_savepoint.formats.kernels import sst

    number = np.empty(len(entries), np.int64)
    sst.prefix_numbers(entries.buffer, entries.key_start, entries.key_end, file.prefix, number)
    if file.sequence is not None:
        entries.tag = file.sequence << 8 | entries.tag & KIND
    first, last = np.searchsorted(number, [low, high + 1]).tolist()
    if np.any(number[1:] < number[:-1]):
        raise _unreadable(file.path, "entries in the order of their keys")
    info = file.info
    if len(entries) and not info.smallest.user_key <= entries.place(0) <= entries.place(-1) <= info.largest.user_key:
        raise another_file(file)
    return entries if last - first == len(entries) else entries.cut(first, last)


def all_entries(blocks: Blocks, file: SstFile, size: int, arena: Arena | None = None) -> DatabaseEntries:
    """Return the entries of blocks as they are; ``size`` is the size of the blocks in the file, in bytes."""
    properties = file.properties
    content = int((blocks.end - blocks.start).sum())
    count = min(properties.share(properties.entries, size), content // LEAST_ENTRY + 1)
    room = (count, min(properties.share(properties.raw_key_size, size), MAX_GROWTH * content + FREE_GROWTH))
    entries = _decode(blocks, file, room, arena)
    if entries is None:
        entries = _decode(blocks, file, _measure(blocks, file), arena)
    if entries is None:
        raise _unreadable(file.path, "blocks of entries, as many as were counted")
    return entries


def _measure(blocks: Blocks, file: SstFile) -> tuple[int, int]:
    """Return the number of entries in blocks, and the bytes of their keys."""
    from pyspark_savepoint.formats.kernels import sst

    count, size = np.empty(len(blocks.start), np.int64), np.empty(len(blocks.start), np.int64)
    failing = sst.measure_blocks(blocks.buffer, blocks.start, blocks.end, file.prefix, count, size)
    content = int((blocks.end - blocks.start).sum())
    if failing >= 0 or size.sum() > MAX_GROWTH * content + FREE_GROWTH:
        raise _unreadable(file.path, "blocks of entries, each with a key of a key group")
    return int(count.sum()), int(size.sum())


def _decode(blocks: Blocks, file: SstFile, room: tuple[int, int], arena: Arena | None) -> DatabaseEntries | None:
    """Return the entries of blocks; None if they exceed ``room``."""
    from pyspark_savepoint.formats.kernels import sst

    capacity, keys = room
    start, end = blocks.start, blocks.end
    if arena is not None and blocks.buffer is arena.buffer and arena.room >= keys:
        buffer, at = arena.buffer, arena.used
        paths: Sequence[tuple[int, str]] = arena.paths
    else:
        first, at = int(start[0]), int(end[-1] - start[0])
        buffer = np.empty(at + keys + ROOM, np.uint8)
        buffer[:at] = blocks.buffer[first : first + at]
        start, end, paths = start - first, end - first, [(0, file.path)]
    key_start, key_end, value_start, value_end, tag = (np.empty(capacity, np.int64) for _ in range(5))
    failing, n, stop = sst.decode_blocks(
        buffer, start, end, file.prefix, at, key_start, key_end, value_start, value_end, tag
    )
    if failing == sst.TOO_SMALL:
        return None
    if failing >= 0:
        raise _unreadable(file.path, "blocks of entries, each with a key of a key group")
    if arena is not None and buffer is arena.buffer:
        arena.paths.append((int(start[0]), file.path))
        arena.used = int(stop)
    return DatabaseEntries(buffer, key_start[:n], key_end[:n], value_start[:n], value_end[:n], tag[:n], paths)


def within(entries: DatabaseEntries, prefixes: KeyPrefixes) -> DatabaseEntries:
    """Return a copy of the entries, which are in order, whose keys have one of some prefixes."""
    from pyspark_savepoint.formats.kernels import numbers, sst

    flags = np.zeros(len(entries), np.bool_)
    spans = prefixes.buffer, prefixes.start, prefixes.end
    sst.mark_prefixed(entries.buffer, entries.key_start, entries.key_end, *spans, flags)
    chosen = entries.take(np.flatnonzero(flags))
    start = np.concatenate([chosen.key_start, chosen.value_start])
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([chosen.key_end, chosen.value_end]) - start)])
    buffer = np.empty(int(offsets[-1]) + ROOM, np.uint8)
    numbers.copy_spans(chosen.buffer, start, offsets, buffer)
    count = len(chosen)
    path = [(0, chosen.paths[0][1])] if chosen.paths else []
    return DatabaseEntries(
        buffer, offsets[:count], offsets[1 : count + 1], offsets[count:-1], offsets[count + 1 :], chosen.tag, path
    )


def newest_complete(runs: Sequence[DatabaseEntries], prefixes: KeyPrefixes) -> Longs:
    """Return for each prefix the newest sequence number of an entry that hides older ones, in sorted runs; else -1."""
    from pyspark_savepoint.formats.kernels import sst

    newest = np.full(len(prefixes), -1, np.int64)
    spans = prefixes.buffer, prefixes.start, prefixes.end
    for run in runs:
        sst.newest_complete(run.buffer, run.key_start, run.key_end, run.tag, *spans, newest)
    return newest


def changed_keys(
    deleted: Sequence[DatabaseEntries], added: Sequence[DatabaseEntries], path: str
) -> DatabaseEntries | None:
    """Return an entry of each key that can differ between two databases, of which one alone has these sorted runs.

    Entries of their common files are in both. Values of the result have no meaning; None if there is no such key.
    """
    from pyspark_savepoint.formats.kernels import sst

    runs = [run for run in (*deleted, *added) if len(run)]
    if not runs:
        return None
    entries, order = _merged(runs)
    out = np.empty(len(order), np.int64)
    split = sum(len(run) for run in deleted)
    spans = entries.key_start, entries.key_end, entries.value_start, entries.value_end
    count, _ = sst.changed_keys(entries.buffer, *spans, entries.tag, order, split, out)
    if count < 0:
        raise _unreadable(path, "entries in the order of their keys")
    return entries.take(out[: int(count)])


def _unreadable(path: str, expected: str) -> CorruptStateError:
    return CorruptStateError(
        "a table file does not match the format",
        path=path,
        expected=expected,
        found="other bytes, with correct checksums",
        remedy=UNREADABLE,
    )


def concatenate(parts: Sequence[DatabaseEntries]) -> DatabaseEntries:
    """Concatenate entries in one buffer."""
    if len(parts) == 1:
        return parts[0]
    shared = all(part.buffer is parts[0].buffer for part in parts)
    base = np.cumsum([0, *(0 if shared else len(part.buffer) for part in parts)])
    spans = ("key_start", "key_end", "value_start", "value_end")
    key_start, key_end, value_start, value_end = (
        np.concatenate([getattr(part, name) + at for part, at in zip(parts, base[:-1].tolist(), strict=True)])
        for name in spans
    )
    tag = np.concatenate([part.tag for part in parts])
    if shared:
        return DatabaseEntries(parts[0].buffer, key_start, key_end, value_start, value_end, tag, parts[0].paths)
    buffer = np.concatenate([part.buffer for part in parts])
    paths = [
        (start + at, path) for part, at in zip(parts, base[:-1].tolist(), strict=True) for start, path in part.paths
    ]
    return DatabaseEntries(buffer, key_start, key_end, value_start, value_end, tag, paths)


@dataclass(slots=True)
class DeletedRanges:
    """Deleted key ranges: from each bound to the next, sequence numbers less than ``below`` are deleted."""

    bounds: list[bytes]
    below: list[int]

    @classmethod
    def of(cls, tombstones: Sequence[RangeTombstone]) -> DeletedRanges:
        """Convert ranges that may overlap to disjoint ones, with the newest sequence number for each."""
        pending = sorted(tombstones, key=lambda tombstone: tombstone.start)
        bounds = sorted({bound for tombstone in tombstones for bound in (tombstone.start, tombstone.end)})
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

    def spans(self, base: int) -> tuple[Longs, Longs]:
        """Return the spans of the bounds, if they are stored contiguously from ``base`` on."""
        lengths = np.array([len(bound) for bound in self.bounds], np.int64)
        end = base + np.cumsum(lengths)
        return end - lengths, end


def resolve(
    runs: Sequence[DatabaseEntries], deleted: DeletedRanges, path: str, arena: Arena | None = None
) -> DatabaseEntries:
    """Return the newest value of every key of some sorted runs; the tags of the result have no meaning."""
    from pyspark_savepoint.formats.kernels import sst

    entries, order = _merged(runs)
    below = np.array(deleted.below, np.int64)
    text = np.frombuffer(bytearray(b"".join(deleted.bounds)), np.uint8)
    buffer, at = _with_room(entries.buffer, len(text), arena)
    buffer[at : at + len(text)] = text
    bound_start, bound_end = deleted.spans(at)
    first, last = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    rows, joined = sst.resolve(
        buffer, entries.key_start, entries.key_end, entries.value_start, entries.value_end, entries.tag, order,
        bound_start, bound_end, below, first, last,
    )  # fmt: skip
    if rows < 0:
        raise _unresolved(rows, int(entries.tag[joined]), path)
    first, last = first[:rows], last[:rows]
    row_start, row_end = np.empty(rows, np.int64), np.empty(rows, np.int64)
    buffer, at = _with_room(buffer, int(joined), arena)
    paths = [*entries.paths, (at, path)] if joined else entries.paths
    sst.join_values(buffer, entries.value_start, entries.value_end, order, first, last, at, row_start, row_end)
    chosen = order[first]
    return DatabaseEntries(
        buffer, entries.key_start[chosen], entries.key_end[chosen], row_start, row_end, entries.tag[chosen], paths
    )


def _with_room(buffer: Bytes, size: int, arena: Arena | None) -> tuple[Bytes, int]:
    """Return a buffer with room for ``size`` more bytes, and the position of that room."""
    if not size:
        return buffer, len(buffer)
    if arena is not None and buffer is arena.buffer and arena.room >= size:
        arena.used += size
        return buffer, arena.used - size
    return np.concatenate([buffer, np.empty(size, np.uint8)]), len(buffer)


def _merged(runs: Sequence[DatabaseEntries]) -> tuple[DatabaseEntries, Longs]:
    """Return the entries of sorted runs, and their order by key, the newest first."""
    from pyspark_savepoint.formats.kernels import sst

    bounds = [0, *np.cumsum([len(run) for run in runs]).tolist()]
    entries = concatenate(runs)
    orders = [np.arange(low, high) for low, high in pairwise(bounds)]
    while len(orders) > 1:
        merged = []
        for left, right in zip(orders[::2], orders[1::2], strict=False):
            out = np.empty(len(left) + len(right), np.int64)
            sst.merge_two(entries.buffer, entries.key_start, entries.key_end, entries.tag, left, right, out)
            merged.append(out)
        orders = merged + orders[len(merged) * 2 :]
    return entries, orders[0]


def _unresolved(why: int, tag: int, path: str) -> CorruptStateError | UnsupportedStateError:
    from pyspark_savepoint.formats.kernels import sst

    if why == sst.UNSORTED:
        return _unreadable(path, "entries in the order of their keys")
    return UnsupportedStateError(
        "the database has entries of a kind that Flink does not write",
        path=path,
        expected="values, deletions and merges",
        found=f"type {tag & KIND}",
        remedy="take a canonical savepoint of the job (flink savepoint --type canonical)",
    )
