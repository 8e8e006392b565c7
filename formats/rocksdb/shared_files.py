"""Two databases that have table files in common, as those of one subtask in two incremental checkpoints.

::

    gone   := files of the older database alone         common := files of both, by their place
    added  := files of the newer database alone         every entry of a common file is in both databases

Only keys with an entry in a file that is gone or was added can differ. Those whose entries there are equal are left out
(see ``changed_keys`` of the kernels for why that is safe); of the others, which may be parts of lists or have older
values, all entries are read: of common files only the blocks that may contain them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.keyed.keyed_block import KeyedBlock, binary_column
from pyspark_savepoint.formats.rocksdb.database import Database, FamilyReader
from pyspark_savepoint.formats.rocksdb.entries import (
    DatabaseEntries,
    DeletedRanges,
    changed_keys,
    newest_complete,
    resolve,
    within,
)
from pyspark_savepoint.formats.rocksdb.keyed_stream import RocksDBKeyedStream, batches, together
from pyspark_savepoint.formats.rocksdb.manifest import FileMetaData
from pyspark_savepoint.formats.rocksdb.sst import KeyPrefixes

Streams = tuple[RocksDBKeyedStream, RocksDBKeyedStream]
Parts = list[tuple[int, DatabaseEntries]]
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
    """The databases, of which some states and key groups are compared."""

    def __init__(self, streams: Streams, states: Sequence[str], key_groups: range) -> None:
        self.streams = streams
        self.key_groups = key_groups
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
            known = database.families[name].files if name in database.families else {}
            own.append(database.family(name, *self._bounds, None, set(known) - shared) if number >= 0 else None)
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
            newer.family(family.name, *self._bounds, prefixes, family.common) if family.common else None
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
        for family, (gone, added) in zip(self._families, runs, strict=True):
            found = changed_keys(gone, added, self.streams[NEWER].database.path)
            if found is not None and len(found):
                side = NEWER if family.ids[NEWER] >= 0 else OLDER
                parts[side].append((family.ids[side], found))
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
                    found = resolve(mine, deleted, self.streams[side].database.path)
                    of_side += [(family.ids[side], found)] if len(found) else []
        older, newer = (
            stream.block_of(of_side, namespaced=False, complete=False) if of_side else None
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

    The stream of the other database finds the same: what one of them has found for it is ``kept``, by its side, key
    groups and states. Key groups are kept where all of their entries are to be read.
    """

    def __init__(self, streams: Streams, side: int, kept: dict[object, list[KeyedBlock | range]]) -> None:
        mine = streams[side]
        super().__init__(mine.database, mine.header, mine.key_groups, mine.origin, mine.options)
        self._streams, self._side, self._kept = streams, side, kept

    def blocks(
        self, key_groups: set[int], selected: set[int], namespaced: bool, block_bytes: int
    ) -> Iterator[KeyedBlock]:
        """Yield the entries of some key groups and states that can differ."""
        names = tuple(self.header.states[state].name for state in sorted(selected))
        wanted = tuple(sorted(group for group in key_groups if group in self.key_groups))
        found: Iterable[KeyedBlock | range] | None = self._kept.pop((self._side, wanted, names), None)
        for each in self._found(wanted, names, block_bytes) if found is None else found:
            if isinstance(each, range):
                yield from super().blocks(set(each), selected, namespaced, block_bytes)
            else:
                yield each

    def _found(self, wanted: tuple[int, ...], names: tuple[str, ...], limit: int) -> Iterator[KeyedBlock | range]:
        others = self._kept[1 - self._side, wanted, names] = []
        cuts = [0, *(1 + np.flatnonzero(np.diff(wanted) != 1)).tolist(), len(wanted)] if wanted else []
        for low, high in pairwise(cuts):
            key_groups = range(wanted[low], wanted[high - 1] + 1)
            shared = SharedFiles(self._streams, names, key_groups)
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
    found = [(sides[OLDER][place], sides[NEWER][place]) for place in sides[OLDER] if place in sides[NEWER]]
    same = [(one.number, other.number) for one, other in found if _content(one) == _content(other)]
    return {number for number, _ in same}, {number for _, number in same}


def _placed(database: Database, name: str) -> dict[object, FileMetaData]:
    files = database.families[name].files.values() if name in database.families else ()
    return {database.files[info.name].identity: info for info in files if info.name in database.files}


def _content(info: FileMetaData) -> tuple[object, ...]:
    """Return what the manifest says of a file's content; its level may be another after it was moved."""
    return info.size, info.smallest, info.largest, info.largest_sequence
