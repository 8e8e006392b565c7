"""Files of a snapshot: their SHA-256, and the patterns in them, with what Flink compresses opened.

Every file is searched as it is, and so is what it holds: parts that are framed by Snappy (key groups, elements,
changelogs), and blocks of RocksDB's and ForSt's table files, with keys put together again. So entries are found that no
table shows, because later ones delete or replace them.

Files below the folder that ``_metadata`` does not name are searched in the same way, and so are their names. Links are
not followed, and archives and other compressed files are not opened: both have a ``problem``.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import cramjam
import numpy as np

from pyspark_savepoint.erasure.patterns import Hits, Search, described
from pyspark_savepoint.formats.columns import Bytes
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.io import snappy
from pyspark_savepoint.formats.io.byte_source import ByteSource, FileLocation, InlineLocation, Read, opened_ahead
from pyspark_savepoint.formats.io.snapshot_files import WHOLE, FileInfo, SnapshotFileSystem
from pyspark_savepoint.formats.metadata import OperatorState, OperatorSubtaskState
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.keyed_handles import (
    ChangelogStateBackendHandle,
    IncrementalRemoteKeyedStateHandle,
    InMemoryChangelogStateHandle,
    KeyedStateHandle,
)
from pyspark_savepoint.formats.metadata.stream_handles import UNKNOWN_SIZE
from pyspark_savepoint.formats.rocksdb.table_ends import comes_whole
from pyspark_savepoint.formats.snapshot.leftovers import entries_of
from pyspark_savepoint.formats.snapshot.relocation import streams_of
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.sources.keyed_source import RocksDBSource

if TYPE_CHECKING:
    from pyspark_savepoint.formats.rocksdb.database import Database
    from pyspark_savepoint.formats.rocksdb.manifest import FileMetaData

#: Bytes of a file that are read at once.
WINDOW = 16 << 20
#: What a file holds that is below the folder of the snapshot, and that ``_metadata`` does not name.
NOT_IN_METADATA = "not named by _metadata"
#: Beginnings of files whose content is compressed, and what they are.
COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\x1f\x9d": "compress",
    b"PK\x03\x04": "ZIP",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"\x04\x22\x4d\x18": "LZ4",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"Rar!": "RAR",
    b"PAR1": "Parquet",
    b"ORC": "ORC",
    b"Obj\x01": "Avro",
    b"ARROW1": "Arrow",
    b"%PDF": "PDF",
}
#: How many bytes that look like Snappy's and are not are read for each byte of a file.
VAIN = 4
#: Blocks of a table file that are opened at once.
BLOCKS = 256
#: Fields of a subtask's state, as they are named here.
KINDS = {
    "managed_keyed_state": "keyed state",
    "raw_keyed_state": "raw keyed state",
    "managed_operator_state": "operator state",
    "raw_operator_state": "raw operator state",
    "input_channel_state": "records in flight",
    "result_subpartition_state": "records in flight",
}


@dataclass
class Searched:
    """A file, or a part of ``_metadata``: what it holds, and hits in it.

    ``of``: the uid hash of the operator and the kind of its state, for each that has state there.
    """

    name: str
    size: int | None = None
    sha256: str | None = None
    of: set[tuple[str, str]] = field(default_factory=set)
    hits: Hits = field(default_factory=Counter)
    problem: str | None = None

    @property
    def is_named(self) -> bool:
        """Whether ``_metadata`` names the file, or is it."""
        return ("", NOT_IN_METADATA) not in self.of

    def row(self) -> dict[str, Any]:
        """Return the file for a report."""
        owners = sorted(f"{operator} {kind}".strip() for operator, kind in self.of)
        row: dict[str, Any] = {"name": self.name, "size": self.size, "sha256": self.sha256, "of": owners}
        row |= {"hits": described(self.hits)} if self.hits else {}
        return row | ({"problem": self.problem} if self.problem else {})


class SharedFiles:
    """What was found in files that several snapshots of a job share: each is searched once for the same patterns."""

    def __init__(self) -> None:
        self._by_patterns: list[tuple[Mapping[bytes, object], dict[object, Searched]]] = []

    def of(self, search: Search) -> dict[object, Searched]:
        """Return what was found of the patterns of a search, by file."""
        for patterns, files in self._by_patterns:
            if patterns == search.patterns:
                return files
        self._by_patterns.append((search.patterns, {}))
        return self._by_patterns[-1][1]


def searched_files(snapshot: Snapshot, search: Search, shared: SharedFiles) -> list[Searched]:
    """Read every file of a snapshot once: ``_metadata``, what it names, and all other files below its folder.

    Files that were searched before in another snapshot, for the same patterns, are not read again.

    Raises:
        SavepointError: If a file is missing; one that cannot be opened as what it is has a ``problem``.

    """
    return list(_Files(snapshot, search, shared.of(search)).all())


@dataclass
class _Files:
    snapshot: Snapshot
    search: Search
    #: Contents of files, and entries of table files, that were searched before.
    before: dict[object, Searched]
    by_name: dict[str, Searched] = field(default_factory=dict)
    #: Paths of the files that were searched.
    paths: set[str] = field(default_factory=set, repr=False)

    def all(self) -> Iterator[Searched]:
        metadata = FileLocation(self.snapshot.location.filesystem, self.snapshot.metadata_path)
        yield self._file(metadata, "_metadata", ("", "metadata"))
        named_files = {operator.operator_id: list(self._named_by(operator)) for operator in self.snapshot.operators}
        databases = {operator.operator_id: list(self._databases(operator)) for operator in self.snapshot.operators}
        with opened_ahead(self._first_reads(named_files, databases)):
            for operator in self.snapshot.operators:
                yield from self._inline(operator)
                for location, kind in named_files[operator.operator_id]:
                    self._file(location, self._name(location), (operator.operator_id.hex, kind))
                for source in databases[operator.operator_id]:
                    self._tables(operator, source)
        for master in self.snapshot.metadata.master_states:
            yield self._part(f"_metadata: master state {master.name}", ("", "master state"), [master.data])
        yield from (searched for name, searched in self.by_name.items() if name != "_metadata")
        yield from self._not_named()

    def _first_reads(
        self,
        named_files: Mapping[OperatorID, Sequence[tuple[FileLocation, str]]],
        databases: Mapping[OperatorID, Sequence[RocksDBSource]],
    ) -> Iterator[Read]:
        """Yield what is read first of the files of operators, and then of their databases that come whole."""
        for own, locations in named_files.items():
            for file, _ in locations:
                if self._content_id(file, True) not in self.before:
                    yield _whole(file), WHOLE
            for source in databases[own]:
                if comes_whole(dict(source.files)):
                    reads = source.end_reads(whole=True)
                    yield from (read for read in reads if (read[0].identity, source.prefix) not in self.before)

    def _databases(self, operator: OperatorState) -> Iterator[RocksDBSource]:
        """Yield the databases of an operator."""
        handles = [subtask.managed_keyed_state for _, subtask in sorted(operator.subtasks.items(), reverse=True)]
        while handles:
            handle = handles.pop()
            if isinstance(handle, ChangelogStateBackendHandle):
                handles += reversed(handle.materialized)
            elif isinstance(handle, IncrementalRemoteKeyedStateHandle):
                yield RocksDBSource.of(self.snapshot, operator, handle)

    def _named_by(self, operator: OperatorState) -> Iterator[tuple[FileLocation, str]]:
        """Yield the files of an operator, each with the kind of state that it has."""
        for index, subtask in sorted(operator.subtasks.items()):
            for name, kind in KINDS.items():
                part = replace(operator, subtasks={index: OperatorSubtaskState(**{name: getattr(subtask, name)})})
                for handle in streams_of(part):
                    location = self.snapshot.resolve(handle, operator)
                    if isinstance(location, FileLocation):
                        yield location, kind

    def _not_named(self) -> Iterator[Searched]:
        """Search the files below the folder that are not searched yet, and their names."""
        filesystem, directory = self.snapshot.location.filesystem, self.snapshot.location.directory
        folders = [directory]
        while folders:
            folder = folders.pop()
            try:
                entries = entries_of(filesystem, folder)
            except SavepointError as error:
                yield self._unsearched(posixpath.relpath(folder, directory) + "/", str(error))
                continue
            folders += [info.path for info in entries if info.is_directory]
            others = [info for info in entries if not info.is_directory and info.path not in self.paths]
            with opened_ahead((_listed(filesystem, info), WHOLE) for info in others if not info.is_link):
                for info in others:
                    yield self._other(filesystem, info, posixpath.relpath(info.path, directory))

    def _other(self, filesystem: SnapshotFileSystem, info: FileInfo, name: str) -> Searched:
        """Search a file that ``_metadata`` does not name."""
        if info.is_link:
            return self._unsearched(name, "a link, which is not followed")
        try:
            one = self._file(_listed(filesystem, info), name, ("", NOT_IN_METADATA))
        except SavepointError as error:
            return self._unsearched(name, str(error))
        one.hits += self._spelled(name)
        return one

    def _unsearched(self, name: str, problem: str) -> Searched:
        return Searched(name, of={("", NOT_IN_METADATA)}, hits=self._spelled(name), problem=problem)

    def _spelled(self, name: str) -> Hits:
        """Search the name of a file, with a byte before and after it, so that a word ends with the name."""
        spelled = f"\0{name}\0".encode("utf-8", "surrogateescape")
        return self.search.count(np.frombuffer(spelled, np.uint8))

    def _name(self, location: FileLocation) -> str:
        folder, name = posixpath.split(location.path)
        return name if folder == self.snapshot.location.directory else location.filesystem.uri(location.path)

    def _file(self, location: FileLocation, name: str, of: tuple[str, str]) -> Searched:
        """Search a whole file, once."""
        result = self.by_name.get(name)
        if result is not None:
            result.of.add(of)
            return result
        self.paths.add(location.path)
        one = self.by_name[name] = Searched(name, of={of})
        content_id = self._content_id(location, one.is_named)
        content = self.before.get(content_id)
        if content is None:
            content = self.before[content_id] = self._content(location, one)
        one.size, one.sha256, one.problem = content.size, content.sha256, content.problem
        one.hits += content.hits
        return one

    def _content_id(self, location: FileLocation, is_named: bool) -> object:
        return location.filesystem.uri(location.path), is_named

    def _content(self, location: FileLocation, searched: Searched) -> Searched:
        """Search the content of a file."""
        one = Searched(searched.name, of=searched.of)
        with _whole(location).open(WHOLE) as source:
            digest, framed = hashlib.sha256(), []
            mark = np.frombuffer(snappy.IDENTIFIER, np.uint8)
            extra = self.search.overlap
            for start in range(0, source.size, WINDOW):
                before = min(2, start)  # of a word that goes on
                after = min(source.size, start + WINDOW + extra)
                data = np.empty(after - start + before, np.uint8)
                source.read_into(start - before, data)
                size = min(WINDOW, source.size - start)
                digest.update(data[before : before + size].data)
                one.hits += self.search.count(data, before, before + size)
                framed += [start - before + at for at in _marks(data, mark, before, before + size)]
            one.size, one.sha256 = source.size, digest.hexdigest()
            self._framed(source, framed, one)
            if not one.is_named:
                self._open(source, one)
        return one

    def _open(self, source: ByteSource, one: Searched) -> None:
        """Search the entries of a file that is a table file; say so of a file that is compressed."""
        from pyspark_savepoint.formats.rocksdb.sst import is_table

        start = source.read(0, min(source.size, max(map(len, COMPRESSED))))
        kind = next((kind for magic, kind in COMPRESSED.items() if start.startswith(magic)), None)
        if kind is not None:
            one.problem = f"compressed ({kind}): its content cannot be searched"
        elif is_table(source):
            try:
                for content in _entries_of_any(source):
                    one.hits += self.search.count(content)
            except SavepointError as error:
                one.problem = str(error)

    def _framed(self, source: ByteSource, starts: list[int], one: Searched) -> None:
        """Search what Snappy frames, from each identifier on."""
        position, vain = 0, VAIN * source.size
        for start in starts:
            if start < position:
                continue
            content = bytearray()
            for end, chunk in _chunks(source, start):
                if chunk is None:
                    vain -= end
                    break
                position = end
                content += chunk
                if len(content) > WINDOW:
                    self._add(one, content, len(content) - self.search.overlap)
                    del content[: len(content) - self.search.overlap]
            self._add(one, content, len(content))
            if vain < 0:
                one.problem = "too many bytes look like compressed ones of Snappy, and are none"
                return

    def _add(self, one: Searched, content: bytearray, end: int) -> None:
        one.hits += self.search.count(np.frombuffer(bytes(content), np.uint8), 0, max(end, 0))

    def _tables(self, operator: OperatorState, source: RocksDBSource) -> None:
        """Open the table files of a database, and search their entries."""
        from pyspark_savepoint.formats.rocksdb.database import Database

        last = (1 << 8 * source.prefix) - 1
        with Database(dict(source.files), source.prefix) as database:
            infos = [info for family in database.families.values() for info in family.files.values()]
            unread = [one for one in infos if self._entries_id(database, one) not in self.before]
            with opened_ahead(database.first_reads(unread, 0, last)):
                self._entries_of(database, infos, operator)

    def _entries_of(self, database: Database, infos: Iterable[FileMetaData], operator: OperatorState) -> None:
        """Search the entries of table files."""
        last = (1 << 8 * database.prefix) - 1
        for info in infos:
            location = database.files[info.name]
            name = self._name(location) if isinstance(location, FileLocation) else f"_metadata: {info.name}"
            one = self.by_name.setdefault(name, Searched(name))
            self.paths |= {location.path} if isinstance(location, FileLocation) else set()
            if ("", "entries") in one.of:
                continue
            one.of |= {("", "entries"), (operator.operator_id.hex, "keyed state")}
            entries_id = self._entries_id(database, info)
            entries = self.before.get(entries_id)
            if entries is None:
                entries = self.before[entries_id] = Searched(name)
                try:
                    table = database.table(info, 0, last, False)
                    for content in _entries(database.open(info), table, last):
                        entries.hits += self.search.count(content)
                except SavepointError as error:
                    entries.problem = str(error)
            one.hits += entries.hits
            one.problem = entries.problem or one.problem

    def _entries_id(self, database: Database, info: FileMetaData) -> object:
        return database.files[info.name].identity, database.prefix

    def _inline(self, operator: OperatorState) -> Iterator[Searched]:
        """Search what ``_metadata`` itself has of an operator."""
        label = operator.uid or operator.operator_id.hex
        if operator.coordinator_state is not None:
            of = (operator.operator_id.hex, "coordinator state")
            yield self._part(f"_metadata: coordinator state of {label}", of, [operator.coordinator_state.data])
        for name, kind in KINDS.items():
            pieces: list[bytes] = []
            for index, subtask in sorted(operator.subtasks.items()):
                part = replace(operator, subtasks={index: OperatorSubtaskState(**{name: getattr(subtask, name)})})
                for handle in streams_of(part):
                    location = self.snapshot.resolve(handle, operator)
                    if isinstance(location, InlineLocation):
                        pieces.append(location.data)
                if name == "managed_keyed_state":
                    pieces += _changes(subtask.managed_keyed_state)
            if pieces:
                yield self._part(f"_metadata: {kind} of {label}", (operator.operator_id.hex, kind), pieces)

    def _part(self, name: str, of: tuple[str, str], pieces: list[bytes]) -> Searched:
        digest = hashlib.sha256()
        for piece in pieces:
            digest.update(len(piece).to_bytes(8, "big") + piece)
        one = Searched(name, sum(map(len, pieces)), digest.hexdigest(), {of})
        mark = np.frombuffer(snappy.IDENTIFIER, np.uint8)
        for piece in pieces:
            data = np.frombuffer(piece, np.uint8)
            one.hits += self.search.count(data)
            source = InlineLocation(name, piece).open()
            self._framed(source, list(_marks(data, mark, 0, len(data))), one)
        return one


def _whole(location: FileLocation) -> FileLocation:
    """Return the file that a location is in, whose size is known if the location is all of it."""
    size = UNKNOWN_SIZE if location.segment or location.start else location.size
    return replace(location, start=0, size=size, segment=False)


def _listed(filesystem: SnapshotFileSystem, info: FileInfo) -> FileLocation:
    return FileLocation(filesystem, info.path, size=info.size)


def _changes(handle: KeyedStateHandle | None) -> list[bytes]:
    """Return the changes of a changelog that are in ``_metadata``."""
    if isinstance(handle, ChangelogStateBackendHandle):
        parts = (*handle.materialized, *handle.non_materialized)
        return [change for part in parts for change in _changes(part)]
    return [one.change for one in handle.changes] if isinstance(handle, InMemoryChangelogStateHandle) else []


def _marks(data: Bytes, mark: Bytes, begin: int, end: int) -> Iterator[int]:
    """Yield the positions of a mark that begin in [begin, end)."""
    at = np.flatnonzero(data[begin:end] == mark[0]) + begin
    at = at[at + len(mark) <= len(data)]
    for offset, byte in enumerate(mark.tolist()):
        at = at[data[at + offset] == byte]
    yield from at.tolist()


def _chunks(source: ByteSource, start: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield the end and content of the chunks after an identifier, up to what is none: its size, if it was read."""
    at = start + len(snappy.IDENTIFIER)
    while at + 4 <= source.size:
        head = source.read(at, 4)
        length = int.from_bytes(head[1:], "little")
        fits = head[0] in (snappy.COMPRESSED, snappy.PLAIN) and 4 <= length <= snappy.MAX_CHUNK
        if not fits or at + 4 + length > source.size:
            return
        try:
            chunk = bytes(cramjam.snappy.decompress(snappy.IDENTIFIER + head + source.read(at + 4, length)))
        except cramjam.DecompressionError:
            yield length, None  # bytes that only look like a chunk, and were searched as they are
            return
        at += 4 + length
        yield at, chunk


def _entries_of_any(source: ByteSource) -> Iterator[Bytes]:
    """Yield the contents and whole keys of a table file that no manifest describes."""
    from pyspark_savepoint.formats.rocksdb.database import MAX_NUMBER
    from pyspark_savepoint.formats.rocksdb.entries import all_entries
    from pyspark_savepoint.formats.rocksdb.sst import undescribed

    table = undescribed(source)
    table = table.of_key_groups(source, 0, MAX_NUMBER) if table.partitioned else table
    for part in _parts(table):
        yield from _contents(all_entries(table.read(source, part), table, int(table.index.size[part].sum())))


def _entries(source: ByteSource, table: Any, last: int) -> Iterator[Bytes]:
    """Yield the contents and whole keys of some blocks of a table file after the other."""
    from pyspark_savepoint.formats.rocksdb.entries import decode_entries

    for part in _parts(table):
        size = int(table.index.size[part].sum())
        yield from _contents(decode_entries(table.read(source, part), table, 0, last, size))


def _parts(table: Any) -> Iterator[slice]:
    """Yield the blocks of a table file, some at a time."""
    count = len(table.index.offset)
    return (slice(start, min(count, start + BLOCKS)) for start in range(0, count, BLOCKS))


def _contents(entries: Any) -> Iterator[Bytes]:
    if len(entries):
        first = int(min(entries.key_start.min(), entries.value_start.min()))
        end = int(max(entries.key_end.max(), entries.value_end.max()))
        yield entries.buffer[first:end]
