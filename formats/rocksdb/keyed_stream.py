"""Keyed state in a database of RocksDB or ForSt, as blocks of entries.

    column family   one per state, with the state's name; timers too
    key             as in the canonical format: prefix  key  [vlen]  namespace  [vlen]  [userKey]   timers: prefix timer
    value           as in the canonical format; the parts of a list may still be separate

Column families are sorted, so key groups are in order, and rows can be found by merging. Flink:
``RocksDBKeyedStateBackend``, ``RocksIncrementalCheckpointRestoreOperation``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions, Ints, Longs, Origin
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.keyed.composite_key import constant_width, is_map, split_composite_keys
from pyspark_savepoint.formats.keyed.keyed_block import CANONICAL, KeyedBlock
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.keyed.sorted_merge import merge_sorted
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.rocksdb.block import Arena
from pyspark_savepoint.formats.rocksdb.database import Database, FamilyReader
from pyspark_savepoint.formats.rocksdb.entries import DatabaseEntries
from pyspark_savepoint.formats.rocksdb.sst import KeyPrefixes

#: A window must hold at least a few entries; smaller windows are inefficient.
MIN_WINDOW = 1 << 16
#: Bound on the size of the contents of blocks plus whole keys, as a multiple of the size of the entries.
ARENA = 3


@redacted
@dataclass(frozen=True, slots=True)
class FilesOrigin(Origin):
    """Origin of a buffer with parts of several files: ``paths`` are (start, path), in order."""

    paths: tuple[tuple[int, str], ...] = ()

    def facts(self, position: int | None = None) -> dict[str, Any]:
        """Return the facts for an error; the path is that of the table file that contains the position."""
        found = Origin.facts(self, position)
        place = -1 if position is None else bisect_right(self.paths, position, key=itemgetter(0)) - 1
        return found if place < 0 else {**found, "path": self.paths[place][1], "offset": None}


class RocksDBKeyedStream:
    """An open database. Keys outside of ``key_groups`` belong to other subtasks."""

    form = CANONICAL

    def __init__(
        self,
        database: Database,
        header: KeyedBackendHeader,
        key_groups: KeyGroupRange,
        origin: Origin,
        options: DecodeOptions,
    ) -> None:
        self.database = database
        self.header = header
        self.key_groups = key_groups
        self.origin = origin
        self.options = options
        #: Whether to split composite keys into their parts; not needed to copy entries unchanged.
        self.split_keys = True

    def blocks(
        self, key_groups: set[int], selected: set[int], namespaced: bool, block_bytes: int
    ) -> Iterator[KeyedBlock]:
        """Yield the entries of some key groups; the rows of ``namespaced`` states consist of a key and a namespace.

        A key group larger than ``block_bytes`` bytes is split into several blocks, which are not complete.
        """
        yield from self._read(key_groups, selected, namespaced, block_bytes, join=False)

    def rows_or_blocks(
        self, key_groups: set[int], selected: set[int], namespaced: bool, block_bytes: int
    ) -> Iterator[KeyedBlock]:
        """Yield blocks as :meth:`blocks` does, but complete ones also for large key groups if the order allows it."""
        yield from self._read(key_groups, selected, namespaced, block_bytes, join=True)

    def look_up(
        self, keys: Sequence[tuple[int, bytes]], selected: set[int], namespaced: bool, block_bytes: int
    ) -> Iterator[KeyedBlock]:
        """Yield the entries of some (key group, key), and of longer keys with these prefixes; read only their blocks.

        If such a range is larger than ``block_bytes`` bytes, its whole key group is read as by :meth:`rows_or_blocks`.
        """
        try:
            yield from self._look_up(keys, selected, namespaced, block_bytes)
        except SavepointError as error:
            raise error.with_facts(operator=self.origin.operator, path=self.origin.path) from None

    def _look_up(
        self, keys: Sequence[tuple[int, bytes]], selected: set[int], namespaced: bool, block_bytes: int
    ) -> Iterator[KeyedBlock]:
        from pyspark_savepoint.formats.kernels.entries import sst

        mine = [(group, key) for group, key in keys if group in self.key_groups]
        if not mine:
            return
        width = self.database.prefix
        prefixes = KeyPrefixes.of(pa.array([group.to_bytes(width, "big") + key for group, key in mine], pa.binary()))
        bounds = min(mine)[0], max(mine)[0]
        families = {
            state: self.database.family(self.header.states[state].name, *bounds, prefixes) for state in sorted(selected)
        }
        sizes = np.sum([family.prefix_bytes(prefixes) for family in families.values()], axis=0)
        group = np.empty(len(prefixes), np.int64)
        sst.prefix_numbers(prefixes.buffer, prefixes.start, prefixes.end, width, group)
        large = np.unique(group[sizes > block_bytes])
        small = np.flatnonzero(~np.isin(group, large))
        for low, high in together(sizes[small], block_bytes):
            some = prefixes[small[low:high]]
            found = {state: family.read_prefixes(some) for state, family in families.items()}
            present = {state: entries for state, entries in found.items() if entries is not None and len(entries)}
            if present:
                yield self.block_of(list(present.items()), namespaced, complete=True)
        if len(large):
            yield from self._windows(set(large.tolist()), selected, namespaced, block_bytes, join=True)

    def _read(
        self, key_groups: set[int], selected: set[int], namespaced: bool, block_bytes: int, join: bool
    ) -> Iterator[KeyedBlock]:
        try:
            yield from self._windows(key_groups, selected, namespaced, block_bytes, join)
        except SavepointError as error:
            raise error.with_facts(operator=self.origin.operator, path=self.origin.path) from None

    def _windows(
        self, key_groups: set[int], selected: set[int], namespaced: bool, block_bytes: int, join: bool
    ) -> Iterator[KeyedBlock]:
        wanted = sorted(group for group in key_groups if group in self.key_groups)
        if not wanted:
            return
        families = {
            state: self.database.family(self.header.states[state].name, wanted[0], wanted[-1])
            for state in sorted(selected)
        }
        sizes = np.sum([family.sizes(wanted[0], wanted[-1]) for family in families.values()], axis=0)
        for low, high, size in batches(wanted, sizes, block_bytes):
            if size <= block_bytes:
                yield from self._complete(families, (low, high, size), namespaced)
                continue
            share = max(MIN_WINDOW, block_bytes // len(families))
            streams = [self._steps(families[state], state, low, namespaced, share) for state in families]
            if join and self._in_order(namespaced):
                yield from merge_sorted(streams)
            else:
                for stream in streams:
                    yield from stream

    def _in_order(self, namespaced: bool) -> bool:
        """Return whether spans have the order of composite keys, which requires that the end of the key is known."""
        return not (namespaced and self.header.key_serializer.opaque_parts())

    @staticmethod
    def ascends(meta: StateMetaInfoSnapshot, namespaced: bool) -> bool:
        """Return whether spans ascend strictly: if the rest of the composite key has the same bytes in all entries."""
        if meta.kind is BackendStateType.PRIORITY_QUEUE or is_map(meta):
            return False
        constant = constant_width(meta.namespace_serializer) >= 0
        return constant if namespaced else constant and meta.namespace_serializer.flink_type == "VOID_NAMESPACE"

    def _complete(
        self, families: dict[int, FamilyReader], part: tuple[int, int, int], namespaced: bool
    ) -> Iterator[KeyedBlock]:
        low, high, size = part
        arena = Arena(size * ARENA + MIN_WINDOW)
        found = {state: family.read(low, high, arena) for state, family in families.items()}
        present = {state: entries for state, entries in found.items() if entries is not None and len(entries)}
        if present:
            yield self.block_of(list(present.items()), namespaced, complete=True)

    def _steps(
        self, family: FamilyReader, state: int, key_group: int, namespaced: bool, block_bytes: int
    ) -> Iterator[KeyedBlock]:
        for entries in family.steps(key_group, key_group, block_bytes):
            if len(entries):
                yield self.block_of([(state, entries)], namespaced, complete=False)

    def block_of(self, parts: Sequence[tuple[int, DatabaseEntries]], namespaced: bool, complete: bool) -> KeyedBlock:
        """Return the entries of some states, given by their ids, as a block."""
        from pyspark_savepoint.formats.kernels.entries import sst

        prefix = self.database.prefix
        all_entries = [entries for _, entries in parts]
        shared = all(entries.buffer is all_entries[0].buffer for entries in all_entries)
        base = np.cumsum([0, *(0 if shared else len(entries.buffer) for entries in all_entries)]).tolist()
        buffer = all_entries[0].buffer if shared else np.concatenate([entries.buffer for entries in all_entries])
        of_files = all_entries[:1] if shared else all_entries
        paths = [(start + at, path) for each, at in zip(of_files, base, strict=False) for start, path in each.paths]
        origin = FilesOrigin(self.origin.path, 0, self.origin.operator, None, True, tuple(paths))
        spans = [
            np.concatenate([getattr(entries, name) + at for (_, entries), at in zip(parts, base[:-1], strict=True)])
            for name in ("key_start", "key_end", "value_start", "value_end")
        ]
        key_start, end, value_start, value_end = spans
        state = np.repeat(np.array([i for i, _ in parts], np.int32), [len(entries) for _, entries in parts])
        number = np.empty(len(state), np.int64)
        sst.prefix_numbers(buffer, key_start, end, prefix, number)
        key_start = key_start + prefix
        bounds = np.cumsum([0, *(len(entries) for _, entries in parts)]).tolist()
        block = KeyedBlock(
            CANONICAL, self.header.states, buffer, origin, state, number.astype(np.int32),
            key_start, end, end, end, end, end, value_start, value_end, key_start, end,
            _groups(number, bounds), complete, namespaced,
        )  # fmt: skip
        split = {i for i, _ in parts} if self.split_keys else set()
        split_composite_keys(block, self.header.key_serializer, split, self.options)
        block.span_end = block.namespace_end if namespaced else block.key_end
        block.ascending = bool(split) and all(self.ascends(self.header.states[i], namespaced) for i in split)
        return block


def together(sizes: Longs, limit: int) -> Iterator[tuple[int, int]]:
    """Combine consecutive items up to a size: yield the first of each, and the one after the last."""
    ends = np.cumsum(sizes)
    first = 0
    while first < len(ends):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + limit, "right")))
        yield first, last
        first = last


def batches(wanted: Sequence[int], sizes: Longs, block_bytes: int) -> Iterator[tuple[int, int, int]]:
    """Combine consecutive key groups to (first, last, bytes) of up to ``block_bytes`` bytes, or a single larger one."""
    first, last, size = wanted[0], wanted[0], int(sizes[0])
    for group in wanted[1:]:
        more = int(sizes[group - wanted[0]])
        if group != last + 1 or size + more > block_bytes:
            yield first, last, size
            first, size = group, 0
        last, size = group, size + more
    yield first, last, size


def _groups(number: Longs | Ints, bounds: Sequence[int]) -> list[tuple[int, list[tuple[int, int]]]]:
    """Return the runs of every key group; entries are ordered by state, then by key."""
    runs: dict[int, list[tuple[int, int]]] = {}
    for low, high in pairwise(bounds):
        cuts = low + 1 + np.flatnonzero(np.diff(number[low:high]))
        edges = [low, *cuts.tolist(), high]
        for first, last in pairwise(edges):
            runs.setdefault(int(number[first]), []).append((first, last))
    return sorted(runs.items())
