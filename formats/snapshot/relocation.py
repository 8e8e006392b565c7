"""Files of a snapshot in another one: copied, so that it stands alone, or referred to where they are.

Several handles of one file share one copy. Handles of copies are relative, so that the new snapshot can be moved.
References are absolute. Inline state stays inline.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pyspark_savepoint.formats.errors import UnsafePathError
from pyspark_savepoint.formats.io.byte_source import ByteSource, FileLocation
from pyspark_savepoint.formats.io.filesystem import ARROW_SCHEMES, URI, LocalFileSystem
from pyspark_savepoint.formats.io.snapshot_files import OutputFile, SnapshotFileSystem
from pyspark_savepoint.formats.metadata import OperatorState, OperatorSubtaskState
from pyspark_savepoint.formats.metadata.stream_handles import (
    UNKNOWN_SIZE,
    FileStateHandle,
    RelativeFileStateHandle,
    SegmentFileStateHandle,
    StreamStateHandle,
)
from pyspark_savepoint.formats.snapshot.handle_streams import replace_streams, streams_of
from pyspark_savepoint.formats.snapshot.savepoint import Savepoint

COPY_BUFFER = 8 << 20
#: How files of Flink's begin: enough to tell.
BEGINNING = 64
DATABASE_FILES = (b"MANIFEST-", b"# This is a RocksDB option file")
#: The seventh byte of a manifest: its first record is whole, or the first part of one.
LOG_RECORDS = (b"\1", b"\2")
SST_MAGIC, LEGACY_SST_MAGIC = bytes.fromhex("f7cff485b741e288"), bytes.fromhex("57fb808b247547db")
KEYS = (b"-----BEGIN ", b"---- BEGIN ", b"PuTTY-User-Key-File", b"openssh-key-v1", b"ssh-")


@dataclass(frozen=True, slots=True)
class FileCopy:
    """One file, or one segment of a file, and its name in the new snapshot's folder. Pickles.

    The bytes of ``raw`` state are the operator's own, and may begin with anything.
    """

    source: FileLocation
    name: str
    raw: bool = False

    @property
    def size(self) -> int:
        """Bytes as the handle recorded them, 0 when it did not."""
        return max(self.source.size, 0)

    def run(self, create: Callable[[str], OutputFile]) -> int:
        """Copy into a new file: the bytes that it took."""
        buffer = bytearray(COPY_BUFFER)
        with self.source.open() as source:
            self._refuse_no_state(source)
            out = create(self.name)
            try:
                for start in range(0, source.size, COPY_BUFFER):
                    part = memoryview(buffer)[: min(COPY_BUFFER, source.size - start)]
                    source.read_into(start, part)
                    out.write(part)
                out.close()
            finally:
                out.abort()
            return source.size

    def _refuse_no_state(self, source: ByteSource) -> None:
        """UnsafePathError for a file that Flink did not write: a hostile snapshot may name any beside it."""
        whole = is_state(source, self.raw)
        if whole and self.source.segment:
            # The file has begun with a segment too.
            with replace(self.source, start=0, size=UNKNOWN_SIZE, segment=False).open() as file:
                whole = is_state(file, self.raw)
        if whole:
            return
        raise UnsafePathError(
            "a handle names a file that is no state of Flink's, so it is not copied",
            path=source.path,
            operator=self.source.operator,
            expected="the beginning of a file that Flink writes",
            remedy="if the snapshot is to be trusted, files='reference' leaves the file where it is; "
            "remove_operator leaves the operator out",
        )


@dataclass
class Relocation:
    """Collects the files of operators that go into a new snapshot. ``copies`` by where they are now.

    ``prefix`` is what names of copies begin with: nothing else in the folder does.
    """

    prefix: str
    copies: dict[tuple[SnapshotFileSystem, str, int, int], FileCopy] = field(default_factory=dict)

    def copied(self, snapshot: Savepoint, operator: OperatorState) -> OperatorState:
        """The operator with handles of copies of its files."""
        raw = raw_streams_of(operator)
        return replace_streams(operator, lambda handle: self._copied(snapshot, operator, handle, handle in raw))

    def _copied(
        self, snapshot: Savepoint, operator: OperatorState, handle: StreamStateHandle, raw: bool
    ) -> StreamStateHandle:
        # What is damaged already must not get checksums of its own.
        location = snapshot.verified().resolve(handle, operator)
        if not isinstance(location, FileLocation):
            return handle
        place = (location.filesystem, location.path, location.start, location.size if location.segment else -1)
        copy = self.copies.get(place)
        if copy is None:
            copy = self.copies[place] = FileCopy(location, f"{self.prefix}-{len(self.copies)}", raw)
        return RelativeFileStateHandle(copy.name, location.size)

    @property
    def size(self) -> int:
        """Bytes of all copies, as far as they were recorded."""
        return sum(copy.size for copy in self.copies.values())


def is_state(source: ByteSource, raw: bool) -> bool:
    """Whether bytes are what Flink writes, by how they begin and end.

    Streams begin with a version below 256 as an int, changelogs with a flag; files of RocksDB and ForSt have marks of
    their own. Raw state may be anything but what is a key for sure.
    """
    first = source.read(0, min(source.size, BEGINNING))
    if raw:
        return not first.startswith(KEYS)
    last = source.read(max(source.size - len(SST_MAGIC), 0), min(source.size, len(SST_MAGIC)))
    return (
        first[:1] in (b"", b"\0", b"\1")
        or first.startswith(DATABASE_FILES)
        or first[6:7] in LOG_RECORDS
        or (last in (SST_MAGIC, LEGACY_SST_MAGIC))
    )


def raw_streams_of(operator: OperatorState) -> set[StreamStateHandle]:
    """The handles of an operator's raw state, which its own code wrote."""
    subtasks = {
        index: OperatorSubtaskState(
            raw_operator_state=subtask.raw_operator_state, raw_keyed_state=subtask.raw_keyed_state
        )
        for index, subtask in operator.subtasks.items()
    }
    return set(streams_of(replace(operator, subtasks=subtasks)))


def referenced(snapshot: Savepoint, operator: OperatorState, given: str) -> OperatorState:
    """The operator with absolute handles of the files where they are; ``given`` is the path as the user wrote it."""

    def refer(handle: StreamStateHandle) -> StreamStateHandle:
        location = snapshot.resolve(handle, operator)
        if not isinstance(location, FileLocation):
            return handle
        path = absolute(location.filesystem, location.path, given)
        if isinstance(handle, SegmentFileStateHandle):
            return replace(handle, path=path)
        return FileStateHandle(path, location.size)

    return replace_streams(operator, refer)


def absolute(filesystem: SnapshotFileSystem, path: str, given: str) -> str:
    """A path as Flink's handles have it, with the scheme that the user gave where it means the same file system.

    >>> absolute(LocalFileSystem(), "/savepoints/a/b", "/savepoints/a")
    'file:/savepoints/a/b'
    """
    if isinstance(filesystem, LocalFileSystem):
        return f"file:{path}"
    uri = filesystem.uri(path)
    match, own = URI.fullmatch(given), URI.fullmatch(uri)
    if match and own and ARROW_SCHEMES.get(match[1].lower()) == own[1]:
        return f"{match[1]}:{uri.partition(':')[2]}"
    return uri
