"""Sources of keyed state: of the key groups of one file, in the canonical format or that of the heap, and of RocksDB.

Of files of RocksDB or ForSt there is one source per handle:

    handle := meta stream (KeyedHeader, no data)  files, by their names in the database

The key group range of the handle is authoritative: after rescaling, subtasks share files that contain more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pyspark_savepoint.formats.columns import DecodeOptions, Origin
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError, SavepointError
from pyspark_savepoint.formats.io.byte_source import ByteSource, FileLocation, InlineLocation, Read, StateLocation
from pyspark_savepoint.formats.io.snapshot_files import BEGINNING, WHOLE, Opening
from pyspark_savepoint.formats.keyed.key_group_reader import Extents
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader, read_header
from pyspark_savepoint.formats.rocksdb.table_ends import TABLE_FILE, comes_whole, end_of

if TYPE_CHECKING:
    from pyspark_savepoint.formats.keyed.canonical_stream import CanonicalKeyedStream
    from pyspark_savepoint.formats.keyed.heap_stream import HeapKeyedStream
    from pyspark_savepoint.formats.metadata import OperatorState
    from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, KeyGroupRangeOffsets
    from pyspark_savepoint.formats.metadata.keyed_handles import IncrementalRemoteKeyedStateHandle
    from pyspark_savepoint.formats.rocksdb.keyed_stream import RocksDBKeyedStream
    from pyspark_savepoint.formats.snapshot.savepoint import Snapshot

FRAMING_WINDOW = 1 << 24
#: Streams up to this size are read whole for their header.
SMALL = 1 << 16
#: Bytes up to which what comes before some key groups is read with them.
MAX_PREFIX = 4 << 20
#: Beginnings of the names of the files that say which table files a database has.
CATALOG = ("CURRENT", "MANIFEST-")


@dataclass(frozen=True, slots=True)
class KeyedSource:
    """Description of a stream of key groups: frozen, picklable, without open files."""

    location: StateLocation
    offsets: KeyGroupRangeOffsets
    canonical: bool
    max_parallelism: int
    operator: str
    #: Key groups that are left out, because they are damaged.
    lost: frozenset[int] = frozenset()

    @property
    def key_group_range(self) -> KeyGroupRange:
        """Return the key groups of the handle."""
        return self.offsets.key_group_range

    @property
    def path(self) -> str:
        """Return the file, as errors show it."""
        return self.location.shown_path

    def header(self) -> KeyedBackendHeader:
        """Read the descriptions of the states from the stream."""
        try:
            with self.location.open(self._header) as source:
                return self._read_header(source)
        except SavepointError as error:
            raise error.with_facts(operator=self.operator) from None

    @contextmanager
    def open(
        self, options: DecodeOptions, opening: Opening = BEGINNING
    ) -> Iterator[CanonicalKeyedStream | HeapKeyedStream]:
        """Open the stream; errors get the operator's name. ``opening`` is what is read first."""
        # Imported here: headers are read without the streams.
        from pyspark_savepoint.formats.keyed.canonical_stream import CanonicalKeyedStream
        from pyspark_savepoint.formats.keyed.heap_stream import HeapKeyedStream

        options = options.undecoded()
        try:
            with self.location.open(opening) as source:
                header = self._read_header(source)
                extents = self._extents(source, header)
                origin = Origin(source.path, 0, self.operator)
                full = CanonicalKeyedStream(source, header, extents, self.max_parallelism, origin, options)
                heap = not self.canonical and is_heap_format(full, self.offsets)
                if self.lost:
                    full.extents = extents = extents.take(~np.isin(extents.key_group, [*self.lost]))
                yield HeapKeyedStream(source, header, extents, origin, options) if heap else full
        except SavepointError as error:
            raise error.with_facts(operator=self.operator) from None

    def header_reads(self) -> Iterator[Read]:
        """Yield what :meth:`header` reads."""
        yield self.location, self._header

    @property
    def _header(self) -> Opening:
        """Return how the stream is opened for its header, which ends where the first key group begins."""
        return Opening(count=min((offset for offset in self.offsets.offsets if offset > 0), default=0), whole=SMALL)

    def reads(self, key_groups: Collection[int]) -> Iterator[Read]:
        """Yield what is read when the source is opened for some key groups."""
        whole = frozenset(self.key_group_range).issubset(key_groups)
        yield self.location, WHOLE if whole else self._up_to(key_groups)

    def _up_to(self, key_groups: Collection[int]) -> Opening:
        """Return how the stream is opened for some key groups: with all up to their end, if that is not much."""
        places = dict(zip(self.key_group_range, self.offsets.offsets, strict=True))
        last = max((offset for key_group, offset in places.items() if key_group in key_groups), default=0)
        end = min((offset for offset in places.values() if offset > last), default=self.location.size)
        return Opening(count=end) if 0 < last < end <= MAX_PREFIX else BEGINNING

    def _read_header(self, source: ByteSource) -> KeyedBackendHeader:
        first = min((offset for offset in self.offsets.offsets if offset > 0), default=source.size)
        return read_header(KeyedBackendHeader, source, first)

    def _extents(self, source: ByteSource, header: KeyedBackendHeader) -> Extents:
        """Return the key groups that have bytes, in the order of the file; each ends where the next begins."""
        extents = Extents.placed(self.offsets, source.size)
        wrong = ((extents.start < header.size) | (extents.start >= extents.end)).nonzero()[0]
        if len(wrong):
            key_group, start, _ = extents[int(wrong[0])]
            raise CorruptStateError(
                f"key group {key_group} cannot begin at the offset in its handle",
                path=source.path,
                offset=start,
                operator=self.operator,
                expected=f"an offset from {header.size} to {source.size - 1}, of its own",
                found=start,
                remedy=UNREADABLE,
            )
        return extents


def is_heap_format(stream: CanonicalKeyedStream, offsets: KeyGroupRangeOffsets) -> bool:
    """Return whether key groups are in the heap format: each has an offset, and begins with its own number.

    Key group 0 alone proves nothing, because the canonical format may begin with four zero bytes too. In this case the
    stream is in the heap format if it cannot be parsed as the canonical format.
    """
    extents = stream.extents
    if len(extents) < len(offsets.offsets) or not len(extents):
        return False
    step = max(1, len(extents) // 8)
    for extent in [*extents.take(slice(None, None, step)), extents[-1]]:
        if extent.size < 4 or int.from_bytes(stream.source.read(extent.start, 4), "big") != extent.key_group:
            return False
    if extents.key_group.any():
        return True
    try:
        for _ in stream.blocks({0}, set(), False, FRAMING_WINDOW):
            pass
    except CorruptStateError:
        return True
    return False


@dataclass(frozen=True, slots=True)
class RocksDBSource:
    """Description of a database: frozen, picklable, without open files."""

    meta: StateLocation
    files: tuple[tuple[str, StateLocation], ...]
    key_group_range: KeyGroupRange
    max_parallelism: int
    operator: str
    #: Names of table files that are left out, because they are damaged, with all entries between their keys.
    lost: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, savepoint: Snapshot, operator: OperatorState, handle: IncrementalRemoteKeyedStateHandle
    ) -> RocksDBSource:
        """Build the description from a handle."""
        all_files = handle.shared_state + handle.private_state
        places = [savepoint.resolve(file.handle, operator) for file in all_files]
        files: dict[str, StateLocation] = {}
        for file, location in zip(all_files, places, strict=True):
            if file.local_path in files:
                raise CorruptStateError(
                    f"the database lists the file {file.local_path!a} twice",
                    path=savepoint.metadata_path,
                    operator=operator.label,
                    remedy=UNREADABLE,
                )
            files[file.local_path] = location
        meta = savepoint.resolve(handle.meta_state, operator)
        return cls(meta, tuple(files.items()), handle.key_group_range, operator.max_parallelism, operator.label)

    @property
    def path(self) -> str:
        """Return the file that describes the database, as errors show it."""
        return self.meta.shown_path

    def header(self) -> KeyedBackendHeader:
        """Read the descriptions of the states from the meta stream."""
        try:
            with self.meta.open() as source:
                return read_header(KeyedBackendHeader, source, source.size)
        except SavepointError as error:
            raise error.with_facts(operator=self.operator) from None

    def header_reads(self) -> Iterator[Read]:
        """Yield what :meth:`header` reads."""
        yield self.meta, BEGINNING

    def catalog_reads(self) -> Iterator[Read]:
        """Yield what is read when the database is opened."""
        yield self.meta, BEGINNING
        yield from ((location, BEGINNING) for name, location in self.files if name.startswith(CATALOG))

    @property
    def has_catalog(self) -> bool:
        """Return whether no request is needed to know which table files the database has."""
        return all(isinstance(location, InlineLocation) for location, _ in self.catalog_reads())

    def with_catalog(self) -> RocksDBSource:
        """Return the description with the bytes of what is read when the database is opened, in place of its places."""
        try:
            files = [(name, _with_bytes(one) if name.startswith(CATALOG) else one) for name, one in self.files]
            return replace(self, meta=_with_bytes(self.meta), files=tuple(files))
        except SavepointError as error:
            raise error.with_facts(operator=self.operator, path=self.place) from None

    def reads(self, key_groups: Collection[int]) -> Iterator[Read]:
        """Yield what is read when the database is opened, then what is read first of its table files, of all states."""
        yield from self.catalog_reads()
        if frozenset(self.key_group_range).issubset(key_groups):
            yield from self.end_reads(whole=comes_whole(dict(self.files)))

    def end_reads(self, *, whole: bool) -> Iterator[Read]:
        """Yield how table files are opened for their ends; ``whole``: all of them comes."""
        tables = (location for name, location in self.files if name.endswith(TABLE_FILE) and location.size > 0)
        yield from ((location, end_of(location.size, whole)) for location in tables)

    @property
    def prefix(self) -> int:
        """Return the number of bytes of the key group in front of every key."""
        return 2 if self.max_parallelism > 128 else 1

    @property
    def is_remote(self) -> bool:
        """Return whether the files are in a store."""
        return any(isinstance(one, FileLocation) and one.filesystem.is_remote for _, one in self.files)

    @property
    def table_files(self) -> dict[object, int]:
        """Return the sizes of the table files, by what tells each from all others."""
        return {location.identity: max(location.size, 0) for name, location in self.files if name.endswith(TABLE_FILE)}

    @property
    def place(self) -> str:
        """Return the path for errors that concern no single file: that of the meta stream."""
        return self.meta.path

    @contextmanager
    def open(self, options: DecodeOptions) -> Iterator[RocksDBKeyedStream]:
        """Open the database; errors get the operator's name."""
        from pyspark_savepoint.formats.rocksdb.database import Database
        from pyspark_savepoint.formats.rocksdb.keyed_stream import RocksDBKeyedStream

        # Decoding that only finds where values end must not fail on values that no column can hold.
        options = options.undecoded()
        header = self.header()
        try:
            with Database(dict(self.files), self.prefix, self.lost) as database:
                origin = Origin(database.path, 0, self.operator, None, compressed=True)
                yield RocksDBKeyedStream(database, header, self.key_group_range, origin, options)
        except SavepointError as error:
            raise error.with_facts(operator=self.operator, path=self.place) from None


def _with_bytes(location: StateLocation) -> StateLocation:
    with location.open() as source:
        return InlineLocation(source.path, source.read(0, source.size), location.classes)


@dataclass(frozen=True, slots=True)
class DifferingSource(RocksDBSource):
    """One of two databases with files in common, of which only entries that can differ are read; 1 is the newer one.

    What one of both finds is ``kept`` for the other, so tasks read both of a pair, the same key groups of each. Keys
    that differ in one of the ``states`` are read in all that a task asks for.
    """

    other: RocksDBSource = field(kw_only=True)
    side: int = field(kw_only=True)
    states: tuple[str, ...] = field(kw_only=True)
    kept: dict[object, Any] = field(compare=False, repr=False, kw_only=True)

    @classmethod
    def pair(
        cls, before: RocksDBSource, after: RocksDBSource, states: Sequence[str] = ()
    ) -> tuple[DifferingSource, DifferingSource]:
        """Return both databases."""
        both, kept = (before, after), dict[object, Any]()
        older, newer = (
            cls(
                mine.meta, mine.files, mine.key_group_range, mine.max_parallelism, mine.operator, mine.lost,
                other=both[1 - side], side=side, states=tuple(states), kept=kept,
            )
            for side, mine in enumerate(both)
        )  # fmt: skip
        return older, newer

    def catalog_reads(self) -> Iterator[Read]:
        """Yield what is read when both databases are opened."""
        yield from RocksDBSource.catalog_reads(self)
        yield from self.other.catalog_reads()

    def reads(self, key_groups: Collection[int]) -> Iterator[Read]:
        """Yield what is read when both databases are opened; which table files are read is found then."""
        return self.catalog_reads()

    @contextmanager
    def open(self, options: DecodeOptions) -> Iterator[RocksDBKeyedStream]:
        """Open both databases; errors get the operator's name."""
        from pyspark_savepoint.formats.rocksdb.keyed_stream import DifferingStream

        with RocksDBSource.open(self, options) as mine, self.other.open(options) as other:
            yield DifferingStream((other, mine) if self.side else (mine, other), self.side, self.kept, self.states)
