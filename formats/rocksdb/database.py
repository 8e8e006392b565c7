"""A RocksDB database in the files of a snapshot: its files, and the sorted entries of its column families.

    CURRENT -> MANIFEST -> column family -> level 0: overlapping files; other levels: disjoint files -> blocks

Files are read in place and stay open only while they are needed; only blocks with requested key groups are read.
Flink: ``RocksDBHandle``. RocksDB: ``Checkpoint``, ``VersionStorageInfo``.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Self

import numpy as np

from pyspark_savepoint.formats.columns import Longs
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError, SavepointError, StateFileNotFoundError
from pyspark_savepoint.formats.io.byte_source import ByteSource, FileLocation, Read, StateLocation, opened_ahead
from pyspark_savepoint.formats.io.run_ahead import FEW_AHEAD
from pyspark_savepoint.formats.io.snapshot_files import Opening
from pyspark_savepoint.formats.metadata.stream_handles import UNKNOWN_SIZE
from pyspark_savepoint.formats.rocksdb.block import TRAILER, Arena
from pyspark_savepoint.formats.rocksdb.entries import (
    DatabaseEntries,
    DeletedRanges,
    concatenate,
    decode_entries,
    newest_complete,
    resolve,
    within,
)
from pyspark_savepoint.formats.rocksdb.manifest import ColumnFamily, FileMetaData, read_current, read_manifest
from pyspark_savepoint.formats.rocksdb.sst import KeyPrefixes, SstFile, wrong_size
from pyspark_savepoint.formats.rocksdb.table_ends import SMALL, comes_whole, end_of
from pyspark_savepoint.formats.sorted_runs import join_runs, rows_before

CURRENT = "CURRENT"
#: Greater than every key group.
MAX_NUMBER = (1 << 16) - 1
MAX_OPEN = 64
#: Size of the cache of ends and indexes, in bytes; evicted ones are read again.
MAX_INDEXES = 1 << 25
MAX_MANIFEST = 1 << 28
#: Most bytes of blocks that the request has which opens a table file of a store to read it.
FIRST_BLOCKS = 1 << 22
#: Bytes of a key that an error shows.
MAX_SHOWN = 32
#: Smallest step through a sorted run, in bytes.
MIN_STEP = 1 << 12


class Database:
    """The files of a database, by their names in the database; a context manager.

    ``lost`` are names of table files that are left out, with all entries of their column family between their smallest
    and their largest key: other files may have older values of these keys, or values that a lost file deletes.
    """

    def __init__(self, files: Mapping[str, StateLocation], prefix: int, lost: Collection[str] = frozenset()) -> None:
        self.files = files
        self.lost = lost
        self.prefix = prefix
        self._open: OrderedDict[str, ByteSource] = OrderedDict()
        self._ahead = ExitStack()
        #: Whether a request that opens a table file brings all of it.
        self.is_small = comes_whole(files)
        self._scans: dict[str, Opening] = {}
        self._tables: OrderedDict[tuple[object, ...], SstFile] = OrderedDict()
        self._index_bytes = 0
        current = self._content(CURRENT)
        manifest = self._content(read_current(*current), current[1])
        self.path = manifest[1]
        self.families = read_manifest(*manifest)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ahead.close()
        while self._open:
            self._open.popitem()[1].close()

    def _content(self, name: str, named_by: str | None = None) -> tuple[bytes, str]:
        with self._location(name, named_by).open() as source:
            if source.size > MAX_MANIFEST:
                raise CorruptStateError(
                    f"the file {name} of a database is too large",
                    path=source.path,
                    expected=f"at most {MAX_MANIFEST} bytes",
                    found=f"{source.size} bytes",
                )
            return source.read(0, source.size), source.path

    def _location(self, name: str, named_by: str | None) -> StateLocation:
        if name not in self.files:
            raise StateFileNotFoundError(
                f"the file {name} of a database is not among those that the snapshot lists",
                path=named_by,
                found=", ".join(sorted(self.files)[:20]),
                remedy=UNREADABLE,
            )
        return self.files[name]

    def open(self, info: FileMetaData, opening: Opening | None = None) -> ByteSource:
        """Return an open table file from the cache of open files; by default, its end is read first."""
        source = self._open.pop(info.name, None)
        if source is None:
            source = self._location(info.name, self.path).open(opening or end_of(info.size))
        self._open[info.name] = source
        while len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)[1].close()
        return source

    def reads(self, files: Iterable[tuple[FileMetaData, Opening]]) -> Iterator[Read]:
        """Yield the reads of table files that are not open; the others begin to fetch their blocks."""
        for info, opening in files:
            source = self._open.get(info.name)
            if source is None:
                yield self._location(info.name, self.path), opening
            elif not opening.end:
                source.expect(opening.start, opening.count)

    def first_reads(self, files: Iterable[FileMetaData], low: int, high: int) -> Iterator[Read]:
        """Yield what is read first of table files: their ends, or all of those whose key groups are all read."""
        return self.reads((info, end_of(info.size, self.is_whole(info, low, high))) for info in files)

    def is_whole(self, info: FileMetaData, low: int, high: int) -> bool:
        """Return whether the request that opens a table file to read some key groups brings all of it."""
        first, stop = _bounds(low, high, self.prefix)
        return self.is_small and first <= info.smallest.user_key and b"\0" + info.largest.user_key < stop

    def release(self, files: Iterable[FileMetaData]) -> None:
        """Close table files of a store whose ends were read: to open one again is the request that reads its blocks."""
        for info in files:
            location = self.files.get(info.name)
            if isinstance(location, FileLocation) and location.filesystem.is_remote and info.size > SMALL:
                source = self._open.pop(info.name, None)
                if source is not None:
                    source.close()

    def scan(self, files: Sequence[tuple[FileMetaData, Opening]]) -> None:
        """Open table files in the background that will be read in this order, until the database is closed."""
        self._scans |= {info.name: opening for info, opening in files}
        self._ahead.enter_context(opened_ahead(self.reads(files), FEW_AHEAD))

    def blocks(self, file: SstFile, part: slice | Longs) -> ByteSource:
        """Return an open table file to read some blocks; a scan that begins opens it for all that it reads."""
        opening, scan = blocks_at(file, part), self._scans.get(file.info.name)
        return self.open(file.info, scan if scan is not None and scan.start == opening.start else opening)

    def table(self, info: FileMetaData, low: int, high: int, separators: bool) -> SstFile:
        """Return a table file, whose end is read once, with its index for some key groups.

        ``separators``: whether to keep the separators of the index, to look up keys.
        """
        end = end_of(info.size, not separators and self.is_whole(info, low, high))
        whole = self._kept(
            (info.name, separators), lambda: SstFile(self.open(info, end), info, self.prefix, separators=separators)
        )
        if not whole.partitioned:
            return whole
        key = (info.name, separators, low, high)
        return self._kept(key, lambda: whole.of_key_groups(self.open(info), low, high))

    @contextmanager
    def naming(self, info: FileMetaData) -> Iterator[None]:
        """Add to errors which state a table file has, and which keys."""
        try:
            yield
        except SavepointError as error:
            prefix = self.prefix
            low, high = info.smallest.user_key, info.largest.user_key
            family = next((one.name for one in self.families.values() if info.number in one.files), None)
            groups = f"{int.from_bytes(low[:prefix], 'big')} to {int.from_bytes(high[:prefix], 'big')}"
            keys = f"keys {low[prefix:][:MAX_SHOWN].hex()} to {high[prefix:][:MAX_SHOWN].hex()}"
            location = f"table file {info.name} of column family {family!r}: key groups {groups}, {keys}"
            raise error.with_facts(state=family, found=location) from None

    def _kept(self, key: tuple[object, ...], read: Callable[[], SstFile]) -> SstFile:
        """Return a table file from the cache of indexes, or read it."""
        file = self._tables.pop(key, None)
        if file is None:
            file = read()
            self._index_bytes += file.nbytes
        self._tables[key] = file
        while len(self._tables) > 1 and self._index_bytes > MAX_INDEXES:
            self._index_bytes -= self._tables.popitem(last=False)[1].nbytes
        return file

    def family(
        self,
        name: str,
        low: int,
        high: int,
        prefixes: KeyPrefixes | None = None,
        numbers: Collection[int] | None = None,
    ) -> FamilyReader:
        """Return a reader of a column family for key groups from ``low`` to ``high``, of which keys with some prefixes.

        ``numbers`` are those of its files that are read, by default all.
        """
        if name not in self.families:
            raise CorruptStateError(
                f"the database has no column family {name!r}",
                path=self.path,
                state=name,
                found=", ".join(map(repr, list(self.families)[:20])),
                remedy=UNREADABLE,
            )
        for info in self.families[name].files.values():
            if info.name not in self.lost:
                with self.naming(info):
                    self._check_listed(info)
        return FamilyReader(self, self.families[name], (low, high), prefixes, numbers)

    def files_of(self, name: str, low: int, high: int) -> list[FileMetaData]:
        """Return the table files of a column family that have keys of some key groups."""
        first, stop = _bounds(low, high, self.prefix)
        files = self.families[name].files.values() if name in self.families else ()
        return [one for one in files if one.largest.user_key >= first and b"\0" + one.smallest.user_key < stop]

    def _check_listed(self, info: FileMetaData) -> None:
        """Raise an error if the snapshot and the manifest disagree, also on files that are not opened."""
        location = self._location(info.name, self.path)
        if location.size not in (info.size, UNKNOWN_SIZE):
            raise wrong_size(info, location.path, location.size, self.path)


class _Run:
    """Disjoint table files in the order of their keys."""

    def __init__(self, database: Database, files: Sequence[FileMetaData], bounds: tuple[int, int, bool]) -> None:
        self.database = database
        self.files = files
        self.bounds = bounds

    @property
    def newest(self) -> float:
        """Return the newest sequence number of an entry; infinity if the manifest does not tell."""
        numbers = [info.largest_sequence for info in self.files]
        return max(math.inf if number is None else number for number in numbers)

    def tables(self) -> Iterator[SstFile]:
        """Yield the files, each open while it is the current one."""
        for info in self.files:
            with self.database.naming(info):
                file = self.database.table(info, *self.bounds)
            yield file

    def read(self, low: int, high: int, arena: Arena | None = None) -> list[DatabaseEntries]:
        """Return all entries of key groups from ``low`` to ``high``, in parts."""
        return list(self.steps(low, high, None, arena))

    def steps(self, low: int, high: int, step: int | None, arena: Arena | None = None) -> Iterator[DatabaseEntries]:
        """Yield the entries of :meth:`read` in parts of about ``step`` bytes; parts may be empty."""
        first, stop = _bounds(low, high, self.database.prefix)
        for info in self.files:
            if info.largest.user_key < first or b"\0" + info.smallest.user_key >= stop:
                continue
            with self.database.naming(info):
                file = self.database.table(info, *self.bounds)
            blocks = file.index.blocks_of(low, high)
            for part in _cut(file, blocks, step):
                yield self._decode(file, part, low, high, arena)

    def read_prefixes(self, prefixes: KeyPrefixes) -> list[DatabaseEntries]:
        """Return all entries of keys with some prefixes."""
        files = [(file, block_numbers) for file, block_numbers in self.wanted(prefixes) if len(block_numbers)]
        return [within(self._decode(file, block_numbers, 0, MAX_NUMBER), prefixes) for file, block_numbers in files]

    def wanted(self, prefixes: KeyPrefixes) -> Iterator[tuple[SstFile, Longs]]:
        """Yield for each file the blocks that may contain keys with some prefixes."""
        for file, first, stop in self.blocks_of(prefixes):
            edges = np.zeros(len(file.index.number) + 1, np.int64)
            np.add.at(edges, first, 1)
            np.add.at(edges, stop, -1)
            yield file, np.flatnonzero(np.cumsum(edges[:-1]))

    def blocks_of(self, prefixes: KeyPrefixes) -> Iterator[tuple[SstFile, Longs, Longs]]:
        """Yield for each file and prefix the first block that may contain its keys, and the one after the last."""
        for file in self.tables():
            near = prefixes.between(file.info.smallest.user_key, file.info.largest.user_key)
            first, stop = np.zeros(len(prefixes), np.int64), np.zeros(len(prefixes), np.int64)
            first[near], stop[near] = file.index.blocks_of_prefixes(prefixes[near])
            # No block of a prefix is one before those of the prefixes before it.
            first[near.stop :] = stop[near.stop :] = len(file.index.number)
            yield file, first, stop

    def _decode(
        self, file: SstFile, part: slice | Longs, low: int, high: int, arena: Arena | None = None
    ) -> DatabaseEntries:
        with self.database.naming(file.info):
            blocks = file.read(self.database.blocks(file, part), part, arena)
            return decode_entries(blocks, file, low, high, int(file.index.size[part].sum()), arena)


def blocks_at(file: SstFile, part: slice | Longs) -> Opening:
    """Return how a table file is opened of which some blocks are read, in the order of the file, at the first."""
    offset, size = file.index.offset[part], file.index.size[part]
    if not len(offset):
        return end_of(file.info.size)
    start, stop = int(offset[0]), offset + size + TRAILER
    apart = np.flatnonzero(offset[1:] - stop[:-1] > SMALL)
    last = int(stop[apart[0] if len(apart) else -1])
    return Opening(start=start, count=min(last - start, FIRST_BLOCKS), whole=SMALL, stop=last)


def _bounds(low: int, high: int, prefix: int) -> tuple[bytes, bytes]:
    """Return the smallest key with prefix ``low``, and an exclusive upper bound of keys preceded by a zero byte."""
    return low.to_bytes(prefix, "big"), (high + 1).to_bytes(prefix + 1, "big")


def _cut(file: SstFile, blocks: slice, step: int | None) -> Iterator[slice]:
    """Split some blocks into parts of about ``step`` bytes of content."""
    ends = np.cumsum(file.index.size[blocks]) * file.properties.ratio
    first = 0
    while first < len(ends):
        before = ends[first - 1] if first else 0
        last = len(ends) if step is None else max(first + 1, int(np.searchsorted(ends, before + step, "right")))
        yield slice(blocks.start + first, blocks.start + last)
        first = last


def _check_family(file: SstFile, name: str) -> None:
    """Raise a CorruptStateError if a table file names another column family."""
    if file.properties.family not in (b"", name.encode()):
        raise CorruptStateError(
            f"the table file {file.info.name} holds the entries of another state",
            path=file.path,
            state=name,
            expected=f"column family {name!r}",
            found=ascii(file.properties.family[:80]),
            remedy=UNREADABLE,
        )


class FamilyReader:
    """Reader of the entries of a column family in the key groups of ``bounds``; see :meth:`Database.family`."""

    def __init__(
        self,
        database: Database,
        family: ColumnFamily,
        bounds: tuple[int, int],
        prefixes: KeyPrefixes | None = None,
        numbers: Collection[int] | None = None,
    ) -> None:
        low, high = bounds
        self.path = database.path
        first, stop = _bounds(low, high, database.prefix)
        lost = [info for info in family.files.values() if info.name in database.lost]
        self.without = [(info.smallest.user_key, info.largest.user_key) for info in lost]
        runs = []
        for infos in family.runs():
            infos = [info for info in infos if info not in lost]
            near = [info for info in infos if info.largest.user_key >= first and b"\0" + info.smallest.user_key < stop]
            if numbers is not None:
                near = [info for info in near if info.number in numbers]
            if prefixes is not None:
                spans = [prefixes.between(info.smallest.user_key, info.largest.user_key) for info in near]
                near = [info for info, span in zip(near, spans, strict=True) if span.start < span.stop]
            runs.append(_Run(database, near, (low, high, prefixes is not None)))
        self.low = low
        self.database = database
        self.runs = [run for run in runs if run.files]
        files = [info for run in self.runs for info in run.files]
        self._sizes = np.zeros(high - low + 1)
        numbers = np.arange(low, high + 2)
        tombstones = []
        ends = database.reads((info, end_of(info.size)) for info in files)
        with opened_ahead(database.first_reads(files, low, high) if prefixes is None else ends):
            tables = [file for run in self.runs for file in run.tables()]
        for file in tables:
            before = np.concatenate([[0], np.cumsum(file.index.size)])
            self._sizes += np.diff(before[np.searchsorted(file.index.number, numbers)]) * file.properties.ratio
            tombstones += file.tombstones
            _check_family(file, family.name)
        self.deleted = DeletedRanges.of(tombstones)
        if prefixes is not None:
            if not database.is_small:
                database.release(files)
        else:
            parts = [file for file in tables if not database.is_whole(file.info, low, high)]
            database.release(file.info for file in parts)
            in_order = sorted(parts, key=lambda file: file.info.smallest.user_key)
            database.scan([(file.info, blocks_at(file, file.index.blocks_of(low, high))) for file in in_order])

    def sizes(self, low: int, high: int) -> Longs:
        """Return the approximate bytes of entries of every key group."""
        return self._sizes[low - self.low : high + 1 - self.low].astype(np.int64)

    def prefix_bytes(self, prefixes: KeyPrefixes) -> Longs:
        """Return the approximate bytes of entries in the blocks of each prefix, each block once."""
        sizes = np.zeros(len(prefixes))
        for run in self.runs:
            for file, first, stop in run.blocks_of(prefixes):
                before = np.concatenate([[0], np.cumsum(file.index.size)])
                first = np.maximum(first, np.concatenate([[0], np.maximum.accumulate(stop)[:-1]]))
                sizes += np.maximum(before[stop] - before[np.minimum(first, stop)], 0) * file.properties.ratio
        return sizes.astype(np.int64)

    def read_prefixes(self, prefixes: KeyPrefixes) -> DatabaseEntries | None:
        """Return the values of keys with some prefixes, sorted; None if there are none."""
        return self._resolve([run.read_prefixes(prefixes) for run in self.runs])

    def reads(self, prefixes: KeyPrefixes, runs: Sequence[_Run] | None = None) -> Iterator[Read]:
        """Yield what is read first of files that may have keys with some prefixes, by default those of all runs."""
        sorted_runs = self.runs if runs is None else runs
        return self.database.reads(
            (file.info, blocks_at(file, blocks)) for run in sorted_runs for file, blocks in run.wanted(prefixes)
        )

    def runs_of_prefixes(self, prefixes: KeyPrefixes, sequence_numbers: Longs | None) -> list[DatabaseEntries]:
        """Return the versions of keys with some prefixes, in sorted runs.

        With ``sequence_numbers`` each prefix is of one key, whose versions before its number are not needed.
        """
        runs = []
        newest_first = sorted(self.runs, key=lambda run: run.newest, reverse=True)
        # To wait for one file after the other takes longer than blocks of older ones that turn out not to be needed.
        with opened_ahead(self.reads(prefixes, newest_first)):
            for run in newest_first:
                wanted = (
                    prefixes if sequence_numbers is None else prefixes[np.flatnonzero(sequence_numbers <= run.newest)]
                )
                parts = run.read_prefixes(wanted) if len(wanted) else []
                if sequence_numbers is not None:
                    sequence_numbers = np.maximum(sequence_numbers, newest_complete(parts, prefixes))
                runs.append(parts)
        return _joined(runs)

    def runs_of(self, low: int, high: int) -> list[DatabaseEntries]:
        """Return all versions of the keys of key groups from ``low`` to ``high``, in sorted runs."""
        return _joined([run.read(low, high) for run in self.runs])

    def read(self, low: int, high: int, arena: Arena | None = None) -> DatabaseEntries | None:
        """Return the values of key groups from ``low`` to ``high``, sorted, in the arena if they fit; None if empty."""
        runs = [run.read(low, high, arena) for run in self.runs]
        return self._resolve(runs, arena)

    def steps(self, low: int, high: int, block_bytes: int) -> Iterator[DatabaseEntries]:
        """Yield the values of :meth:`read` in parts of about ``block_bytes`` bytes; a key is in only one part."""
        step = max(MIN_STEP, block_bytes // max(1, len(self.runs)))
        for parts in join_runs([run.steps(low, high, step) for run in self.runs], whole_keys=True):
            entries = self._resolve(parts)
            assert entries is not None
            yield entries

    def _resolve(self, runs: list[list[DatabaseEntries]], arena: Arena | None = None) -> DatabaseEntries | None:
        sorted_runs = _joined(runs)
        if not sorted_runs:
            return None
        entries = resolve(sorted_runs, self.deleted, self.path, arena)
        for smallest, largest in self.without:
            entries = _outside(entries, smallest, largest)
        return entries


def _outside(entries: DatabaseEntries, smallest: bytes, largest: bytes) -> DatabaseEntries:
    """Return the entries, which are sorted, without those of keys from ``smallest`` to ``largest``."""
    first, stop = rows_before(entries, smallest), rows_before(entries, largest, inclusive=True)
    return entries.take(np.r_[0:first, stop : len(entries)]) if first < stop else entries


def _joined(runs: Sequence[Sequence[DatabaseEntries]]) -> list[DatabaseEntries]:
    """Return the runs that have entries, each in one part."""
    present = [[part for part in parts if len(part)] for parts in runs]
    return [concatenate(parts) for parts in present if parts]
