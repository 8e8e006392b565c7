"""Files of a snapshot in another one: copied, so that it stands alone, or referred to where they are.

Several handles of one file share one copy. Handles of copies are relative, so that the new snapshot can be moved.
References are absolute. Inline state stays inline.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field, replace

from pyspark_savepoint.formats.io.byte_source import FileLocation
from pyspark_savepoint.formats.io.filesystem import ARROW_SCHEMES, URI, LocalFileSystem
from pyspark_savepoint.formats.io.snapshot_files import SnapshotFileSystem
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.stream_handles import (
    FileStateHandle,
    RelativeFileStateHandle,
    SegmentFileStateHandle,
    StreamStateHandle,
)
from pyspark_savepoint.formats.snapshot.handle_streams import replace_streams
from pyspark_savepoint.formats.snapshot.savepoint import Savepoint

COPY_BUFFER = 8 << 20


@dataclass(frozen=True, slots=True)
class FileCopy:
    """One file, or one segment of a file, and its name in the new snapshot's folder. Pickles."""

    source: FileLocation
    name: str

    @property
    def size(self) -> int:
        """Bytes as the handle recorded them, 0 when it did not."""
        return max(self.source.size, 0)

    def run(self, filesystem: SnapshotFileSystem, directory: str) -> int:
        """Copy: the bytes that it took."""
        buffer = bytearray(COPY_BUFFER)
        with self.source.open() as source:
            out = filesystem.open_output(posixpath.join(directory, self.name))
            try:
                for start in range(0, source.size, COPY_BUFFER):
                    part = memoryview(buffer)[: min(COPY_BUFFER, source.size - start)]
                    source.read_into(start, part)
                    out.write(part)
                out.close()
            finally:
                out.abort()
            return source.size


@dataclass
class Relocation:
    """Collects the files of operators that go into a new snapshot. ``copies`` by where they are now.

    ``prefix`` is what names of copies begin with: nothing else in the folder does.
    """

    prefix: str
    copies: dict[tuple[SnapshotFileSystem, str, int, int], FileCopy] = field(default_factory=dict)

    def copied(self, snapshot: Savepoint, operator: OperatorState) -> OperatorState:
        """The operator with handles of copies of its files."""
        return replace_streams(operator, lambda handle: self._copied(snapshot, operator, handle))

    def _copied(self, snapshot: Savepoint, operator: OperatorState, handle: StreamStateHandle) -> StreamStateHandle:
        location = snapshot.resolve(handle, operator)
        if not isinstance(location, FileLocation):
            return handle
        place = (location.filesystem, location.path, location.start, location.size if location.segment else -1)
        copy = self.copies.get(place)
        if copy is None:
            copy = self.copies[place] = FileCopy(location, f"{self.prefix}-{len(self.copies)}")
        return RelativeFileStateHandle(copy.name, location.size)

    @property
    def size(self) -> int:
        """Bytes of all copies, as far as they were recorded."""
        return sum(copy.size for copy in self.copies.values())


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
