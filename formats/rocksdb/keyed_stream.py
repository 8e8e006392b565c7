"""Keyed state in a database of RocksDB or ForSt, as blocks of entries.

    column family   one per state, with the state's name; timers too
    key             as in the canonical format: prefix  key  [vlen]  namespace  [vlen]  [userKey]   timers: prefix timer
    value           as in the canonical format; the parts of a list may still be separate

Column families are sorted, so key groups are in order, and rows can be found by merging. Flink:
``RocksDBKeyedStateBackend``, ``RocksIncrementalCheckpointRestoreOperation``.

Two databases may have table files in common, as those of one subtask in two incremental checkpoints:

::

    gone   := files of the older database alone         common := files of both, by their place
    added  := files of the newer database alone         every entry of a common file is in both databases

Only keys with an entry in a file that is gone or was added can differ. Those whose entries there are equal are left out
(see ``changed_keys`` of the kernels for why that is safe); of the others, which may be parts of lists or have older
values, all entries are read: of common files only the blocks that may contain them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions, Longs, Origin
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.io.byte_source import Read, opened_ahead
from pyspark_savepoint.formats.keyed.keyed_block import (
    CANONICAL,
    KeyedBlock,
    Runs,
    binary_column,
    constant_width,
    is_map,
    split_composite_keys,
)
from pyspark_savepoint.formats.keyed.large_key_groups import merge_sorted
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.rocksdb.block import Arena
from pyspark_savepoint.formats.rocksdb.database import Database, FamilyReader
from pyspark_savepoint.formats.rocksdb.entries import (
    DatabaseEntries,
    DeletedRanges,
    changed_keys,
    newest_complete,
    resolve,
    within,
)
from pyspark_savepoint.formats.rocksdb.manifest import FileMetaData
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
        facts = Origin.facts(self, position)
        index = -1 if position is None else bisect_right(self.paths, position, key=itemgetter(0)) - 1
        return facts if index < 0 else {**facts, "path": self.paths[index][1], "offset": None}


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
        #: The first and last of the key groups that :meth:`blocks` is asked for, some at a time and in order, for which
        #: column families are opened once. None: those of each call are opened alone.
        self.bounds: tuple[int, int] | None = None
        self._families: dict[int, FamilyReader] = {}

    def reads(self, key_groups: Collection[int], selected: Collection[int]) -> Iterator[Read]:
        """Yield what :meth:`blocks` reads first."""
        present_groups = [group for group in key_groups if group in self.key_groups]
        for name in (self.header.states[state].name for state in sorted(selected) if present_groups):
            files = self.database.files_of(name, min(present_groups), max(present_groups))
            yield from self.database.first_reads(files, min(present_groups), max(present_groups))

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
        from pyspark_savepoint.formats.kernels import sst

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
            with opened_ahead(read for family in families.values() for read in family.reads(some)):
                by_state = {state: family.read_prefixes(some) for state, family in families.items()}
            present = {state: entries for state, entries in by_state.items() if entries is not None and len(entries)}
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
        sorted_groups = sorted(group for group in key_groups if group in self.key_groups)
        if not sorted_groups:
            return
        families = self._opened_families(sorted_groups[0], sorted_groups[-1], selected)
        sizes = np.sum([family.sizes(sorted_groups[0], sorted_groups[-1]) for family in families.values()], axis=0)
        for low, high, size in batches(sorted_groups, sizes, block_bytes):
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

    def _opened_families(self, low: int, high: int, selected: set[int]) -> dict[int, FamilyReader]:
        """Return readers of the column families of some states for key groups from ``low`` to ``high``."""
        if self.bounds is None or not self.bounds[0] <= low <= high <= self.bounds[1]:
            return self._new_families(low, high, selected)
        self.begin(selected)
        return {state: self._families[state] for state in sorted(selected)}

    def begin(self, selected: set[int]) -> None:
        """Begin to read some states in all key groups that :meth:`blocks` is asked for."""
        missing = selected - self._families.keys()
        if missing and self.bounds is not None:
            self._families |= self._new_families(*self.bounds, missing)

    def _new_families(self, low: int, high: int, selected: set[int]) -> dict[int, FamilyReader]:
        with opened_ahead(self.reads(range(low, high + 1), selected)):
            names = {state: self.header.states[state].name for state in sorted(selected)}
            return {state: self.database.family(name, low, high) for state, name in names.items()}

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
        by_state = {state: family.read(low, high, arena) for state, family in families.items()}
        present = {state: entries for state, entries in by_state.items() if entries is not None and len(entries)}
        if present:
            for entries in present.values():
                if entries.buffer is arena.buffer:
                    entries.buffer = arena.filled
            yield self.block_of(list(present.items()), namespaced, complete=True)

    def _steps(
        self, family: FamilyReader, state: int, key_group: int, namespaced: bool, block_bytes: int
    ) -> Iterator[KeyedBlock]:
        for entries in family.steps(key_group, key_group, block_bytes):
            if len(entries):
                yield self.block_of([(state, entries)], namespaced, complete=False)

    def block_of(self, parts: Sequence[tuple[int, DatabaseEntries]], namespaced: bool, complete: bool) -> KeyedBlock:
        """Return the entries of some states, given by their ids, as a block."""
        from pyspark_savepoint.formats.kernels import sst

        prefix = self.database.prefix
        all_entries = [entries for _, entries in parts]
        shared = all(entries.buffer is all_entries[0].buffer for entries in all_entries)
        base = np.cumsum([0, *(0 if shared else len(entries.buffer) for entries in all_entries)]).tolist()
        buffer = all_entries[0].buffer if shared else np.concatenate([entries.buffer for entries in all_entries])
        of_files = all_entries[:1] if shared else all_entries
        paths = [
            (start + at, path)
            for file_entries, at in zip(of_files, base, strict=False)
            for start, path in file_entries.paths
        ]
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
        bounds = np.cumsum([0, *(len(entries) for _, entries in parts)])
        block = KeyedBlock(
            CANONICAL, self.header.states, buffer, origin, state, number.astype(np.int32),
            key_start, end, end, end, end, end, value_start, value_end, key_start, end,
            _runs(number, bounds), complete, namespaced,
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


def batches(key_groups: Sequence[int], sizes: Longs, block_bytes: int) -> Iterator[tuple[int, int, int]]:
    """Combine consecutive key groups to (first, last, bytes) of up to ``block_bytes`` bytes, or a single larger one."""
    first, last, size = key_groups[0], key_groups[0], int(sizes[0])
    for group in key_groups[1:]:
        more = int(sizes[group - key_groups[0]])
        if group != last + 1 or size + more > block_bytes:
            yield first, last, size
            first, size = group, 0
        last, size = group, size + more
    yield first, last, size


def _runs(number: Longs, bounds: Longs) -> Runs:
    """Return the runs of every key group; entries are ordered by state, whose bounds are given, then by key."""
    cut_at = np.zeros(len(number) + 1, np.bool_)
    cut_at[1:-1] = number[1:] != number[:-1]
    cut_at[bounds] = True
    cuts = np.flatnonzero(cut_at)
    key_groups, place = np.unique(number[cuts[:-1]], return_inverse=True)
    return Runs.in_any_order(key_groups.astype(np.int32), place, cuts[:-1], cuts[1:])


Streams = tuple[RocksDBKeyedStream, RocksDBKeyedStream]
Parts = list[tuple[int, DatabaseEntries]]
#: Function that reads all entries of some key groups and states.
Reading = Callable[[set[int], set[int], bool, int], Iterator[KeyedBlock]]
#: All entries of some keys in both databases; None for none.
Pair = tuple[KeyedBlock | None, KeyedBlock | None]
OLDER, NEWER = 0, 1


@dataclass(frozen=True)
class _Family:
    """A column family: the ids of its state in both databases (-1: it has none), and its files by who has them.

    ``own`` read those that are gone, and those that were added; ``common`` are numbers of the newer database.
    """

    name: str
    ids: tuple[int, int]
    own: tuple[FamilyReader | None, FamilyReader | None]
    common: Collection[int]


class SharedFiles:
    """The databases, of which some states and key groups are compared.

    Keys that can differ in one of the ``states`` are found; of those, the entries of ``shown`` states are read, by
    default all. Rows of ``namespaced`` blocks consist of a key and a namespace.
    """

    def __init__(
        self,
        streams: Streams,
        states: Sequence[str],
        key_groups: range,
        state_names: Collection[str] | None = None,
        *,
        namespaced: bool = False,
    ) -> None:
        self.streams = streams
        self.key_groups = key_groups
        self._shown = frozenset(states if state_names is None else state_names)
        self._namespaced = namespaced
        self._bounds = key_groups[0], key_groups[-1]
        numbers = [{meta.name: i for i, meta in enumerate(stream.header.states)} for stream in streams]
        self._families = [
            self._family(name, (numbers[OLDER].get(name, -1), numbers[NEWER].get(name, -1)))
            for name in states
            if name in numbers[OLDER] or name in numbers[NEWER]
        ]

    def _family(self, name: str, ids: tuple[int, int]) -> _Family:
        databases = [stream.database for stream in self.streams]
        common = _common(databases[OLDER], databases[NEWER], name)
        own: list[FamilyReader | None] = []
        for number, database, shared in zip(ids, databases, common, strict=True):
            files = database.families[name].files if name in database.families else {}
            own.append(database.family(name, *self._bounds, None, set(files) - shared) if number >= 0 else None)
        return _Family(name, ids, (own[OLDER], own[NEWER]), common[NEWER])

    @property
    def deletes_ranges(self) -> bool:
        """Return whether one database alone deletes ranges: keys without entries can differ."""
        return any(own is not None and own.deleted.bounds for family in self._families for own in family.own)

    def windows(self, limit: int) -> Iterator[tuple[range, int]]:
        """Yield key groups whose own entries have up to ``limit`` bytes, or one with more, and how many."""
        low, high = self._bounds
        sizes = np.zeros(high - low + 1, np.int64)
        for family in self._families:
            for own in family.own:
                sizes += 0 if own is None else own.sizes(low, high)
        for first, last, size in batches(self.key_groups, sizes, limit):
            yield range(first, last + 1), size

    def pairs(self, key_groups: range, limit: int) -> Iterator[Pair]:
        """Yield all entries of the keys that can differ, from about ``limit`` bytes of common files at a time."""
        runs = [
            [[] if own is None else own.runs_of(key_groups[0], key_groups[-1]) for own in family.own]
            for family in self._families
        ]
        prefixes = self._candidates(runs)
        if prefixes is None:
            return
        newer = self.streams[NEWER].database
        common = [
            newer.family(family.name, *self._bounds, prefixes, family.common)
            if family.common and family.name in self._shown
            else None
            for family in self._families
        ]
        sizes = np.zeros(len(prefixes), np.int64)
        for reader in common:
            sizes += 0 if reader is None else reader.prefix_bytes(prefixes)
        for first, stop in together(sizes, limit):
            yield self._pair(prefixes[first:stop], common, runs)

    def _candidates(self, runs: list[list[list[DatabaseEntries]]]) -> KeyPrefixes | None:
        """Return the keys, with their key groups, of which one entry can differ."""
        parts: tuple[Parts, Parts] = ([], [])
        for family, (removed_runs, added) in zip(self._families, runs, strict=True):
            changed = changed_keys(removed_runs, added, self.streams[NEWER].database.path)
            if changed is not None and len(changed):
                side = NEWER if family.ids[NEWER] >= 0 else OLDER
                parts[side].append((family.ids[side], changed))
        texts = []
        for stream, of_side in zip(self.streams, parts, strict=True):
            if of_side:
                block = stream.block_of(of_side, namespaced=False, complete=False)
                start = block.key_start - stream.database.prefix
                texts.append(binary_column(block.buffer, start, block.key_end))
        return KeyPrefixes.of(pa.concat_arrays(texts)) if texts else None

    def _pair(
        self, prefixes: KeyPrefixes, common: list[FamilyReader | None], runs: list[list[list[DatabaseEntries]]]
    ) -> Pair:
        parts: tuple[Parts, Parts] = ([], [])
        for family, reader, runs_of_family in zip(self._families, common, runs, strict=True):
            if family.name not in self._shown:
                continue
            own = [[within(run, prefixes) for run in of_side] for of_side in runs_of_family]
            known = None
            if self._has_one_entry(family):
                # A version is not needed if newer ones hide it in both databases.
                known = np.minimum(*(newest_complete(of_side, prefixes) for of_side in own))
            shared = [] if reader is None else reader.runs_of_prefixes(prefixes, known)
            deleted = DeletedRanges([], []) if reader is None else reader.deleted
            for side, of_side in enumerate(parts):
                mine = [run for run in (*shared, *own[side]) if len(run)] if family.ids[side] >= 0 else []
                if mine:
                    entries = resolve(mine, deleted, self.streams[side].database.path)
                    of_side += [(family.ids[side], entries)] if len(entries) else []
        # A block has all entries of its keys.
        older, newer = (
            stream.block_of(of_side, self._namespaced, complete=True) if of_side else None
            for stream, of_side in zip(self.streams, parts, strict=True)
        )
        return older, newer

    def _has_one_entry(self, family: _Family) -> bool:
        """Return whether each key has at most one entry: no maps, no windows; and no key begins with another."""
        side = NEWER if family.ids[NEWER] >= 0 else OLDER
        header = self.streams[side].header
        ascends = RocksDBKeyedStream.ascends(header.states[family.ids[side]], namespaced=False)
        return ascends and not header.key_serializer.opaque_parts()


class DifferingStream(RocksDBKeyedStream):
    """One of two databases: of its entries only those that can differ, as :meth:`SharedFiles.pairs` finds them.

    A key can differ if it does in one of the ``states``, or of those that are read. The stream of the other database
    finds the same: what one of them has found for it is ``kept``, by its side, key groups and states. Key groups are
    kept where all of their entries are to be read.
    """

    def __init__(
        self, streams: Streams, side: int, kept: dict[object, list[KeyedBlock | range]], states: Sequence[str] = ()
    ) -> None:
        mine = streams[side]
        super().__init__(mine.database, mine.header, mine.key_groups, mine.origin, mine.options)
        self._streams, self._side, self._kept, self._states = streams, side, kept, states

    def reads(self, key_groups: Collection[int], selected: Collection[int]) -> Iterator[Read]:
        """Yield what is read first: files of one database alone, unless the other stream has found what differs."""
        wanted = sorted(group for group in key_groups if group in self.key_groups)
        names = dict.fromkeys([*(self.header.states[state].name for state in sorted(selected)), *self._states])
        older, newer = (stream.database for stream in self._streams)
        for name in names if wanted and not self._kept else ():
            for database, common in zip((older, newer), _common(older, newer, name), strict=True):
                files = database.files_of(name, wanted[0], wanted[-1])
                yield from database.first_reads(
                    [info for info in files if info.number not in common], wanted[0], wanted[-1]
                )

    def blocks(
        self, key_groups: set[int], selected: set[int], namespaced: bool, block_bytes: int
    ) -> Iterator[KeyedBlock]:
        """Yield the entries of some key groups and states that can differ."""
        yield from self._differing(key_groups, selected, namespaced, block_bytes, super().blocks)

    def rows_or_blocks(
        self, key_groups: set[int], selected: set[int], namespaced: bool, block_bytes: int
    ) -> Iterator[KeyedBlock]:
        """Yield the entries of :meth:`blocks`, and rows where all entries of key groups are to be read."""
        yield from self._differing(key_groups, selected, namespaced, block_bytes, super().rows_or_blocks)

    def _differing(
        self, key_groups: set[int], selected: set[int], namespaced: bool, block_bytes: int, read: Reading
    ) -> Iterator[KeyedBlock]:
        names = tuple(self.header.states[state].name for state in sorted(selected))
        sorted_groups = tuple(sorted(group for group in key_groups if group in self.key_groups))
        selection = sorted_groups, names, namespaced
        kept: Iterable[KeyedBlock | range] | None = self._kept.pop((self._side, *selection), None)
        for piece in self._found(*selection, block_bytes) if kept is None else kept:
            if isinstance(piece, range):
                yield from read(set(piece), selected, namespaced, block_bytes)
            else:
                yield piece

    def _found(
        self, numbers: tuple[int, ...], names: tuple[str, ...], namespaced: bool, limit: int
    ) -> Iterator[KeyedBlock | range]:
        others = self._kept[1 - self._side, numbers, names, namespaced] = []
        states = list(dict.fromkeys([*names, *self._states]))
        cuts = [0, *(1 + np.flatnonzero(np.diff(numbers) != 1)).tolist(), len(numbers)] if numbers else []
        for low, high in pairwise(cuts):
            key_groups = range(numbers[low], numbers[high - 1] + 1)
            shared = SharedFiles(self._streams, states, key_groups, names, namespaced=namespaced)
            for window, size in [(key_groups, -1)] if shared.deletes_ranges else shared.windows(limit):
                if not 0 <= size <= limit:
                    others.append(window)
                    yield window
                    continue
                for pair in shared.pairs(window, limit):
                    mine, other = pair[self._side], pair[1 - self._side]
                    others += [] if other is None else [other]
                    if mine is not None:
                        yield mine


def _common(before: Database, after: Database, name: str) -> tuple[set[int], set[int]]:
    """Return the numbers of the files of a column family that both databases have, in each."""
    sides = [_placed(database, name) for database in (before, after)]
    pairs = [(sides[OLDER][identity], sides[NEWER][identity]) for identity in sides[OLDER] if identity in sides[NEWER]]
    same = [(one.number, other.number) for one, other in pairs if _content(one) == _content(other)]
    return {number for number, _ in same}, {number for _, number in same}


def _placed(database: Database, name: str) -> dict[object, FileMetaData]:
    files = database.families[name].files.values() if name in database.families else ()
    return {database.files[info.name].identity: info for info in files if info.name in database.files}


def _content(info: FileMetaData) -> tuple[object, ...]:
    """Return what the manifest says of a file's content; its level may be another after it was moved."""
    return info.size, info.smallest, info.largest, info.largest_sequence
