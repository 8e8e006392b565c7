"""Transfer of a snapshot's files to another snapshot, by copy or by reference.

Several handles of one file share one copy. Handles of copies are relative, so that the new snapshot can be moved.
References are absolute. Inline state stays inline.

Copying, moving and referencing files replace all streams in an operator's handles. Only the *location* of bytes
changes; ranges, offsets, sizes and ids stay. A copied file belongs to the snapshot: shared files of an incremental
checkpoint become private, as in a native savepoint, and a segment of a merged file becomes a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeGuard

from pyspark_savepoint.formats.errors import OptionError, UnsafePathError
from pyspark_savepoint.formats.filesystems.filesystem import REMOTE_SCHEMES, URI, LocalFileSystem
from pyspark_savepoint.formats.io.byte_source import ByteSource, FileLocation
from pyspark_savepoint.formats.io.snapshot_files import WHOLE, Opening, OutputFile, SnapshotFileSystem
from pyspark_savepoint.formats.metadata import OperatorState, OperatorSubtaskState
from pyspark_savepoint.formats.metadata.keyed_handles import (
    ChangelogStateBackendHandle,
    ChangelogStateHandleStreamImpl,
    HandleAndLocalPath,
    IncrementalRemoteKeyedStateHandle,
    InMemoryChangelogStateHandle,
    KeyedStateHandle,
    KeyGroupsSavepointStateHandle,
)
from pyspark_savepoint.formats.metadata.operator_handles import (
    AnyChannelStateHandle,
    OperatorStateHandle,
    OperatorStreamStateHandle,
)
from pyspark_savepoint.formats.metadata.stream_handles import (
    UNKNOWN_SIZE,
    ByteStreamStateHandle,
    EmptySegmentFileStateHandle,
    FileStateHandle,
    KeyGroupsStreamStateHandle,
    RelativeFileStateHandle,
    SegmentFileStateHandle,
    StreamStateHandle,
)
from pyspark_savepoint.formats.redaction import redacted

if TYPE_CHECKING:
    from pyspark_savepoint.formats.snapshot.savepoint import Snapshot

Replace = Callable[[StreamStateHandle], StreamStateHandle]


def replace_streams(operator: OperatorState, moved: Replace) -> OperatorState:
    """Return the operator with every stream handle replaced; coordinator state is always inline and does not change."""
    subtasks = {index: _subtask(subtask, moved) for index, subtask in operator.subtasks.items()}
    return replace(operator, subtasks=subtasks)


def streams_of(operator: OperatorState) -> Iterator[StreamStateHandle]:
    """Yield all stream handles of an operator."""
    handles: list[StreamStateHandle] = []

    def keep(handle: StreamStateHandle) -> StreamStateHandle:
        handles.append(handle)
        return handle

    replace_streams(operator, keep)
    yield from handles


def _subtask(subtask: OperatorSubtaskState, moved: Replace) -> OperatorSubtaskState:
    return replace(
        subtask,
        managed_operator_state=_operator_handle(subtask.managed_operator_state, moved),
        raw_operator_state=_operator_handle(subtask.raw_operator_state, moved),
        managed_keyed_state=_keyed_handle(subtask.managed_keyed_state, moved) if subtask.managed_keyed_state else None,
        raw_keyed_state=_keyed_handle(subtask.raw_keyed_state, moved) if subtask.raw_keyed_state else None,
        input_channel_state=tuple(_channel(handle, moved) for handle in subtask.input_channel_state),
        result_subpartition_state=tuple(_channel(handle, moved) for handle in subtask.result_subpartition_state),
    )


def _operator_handle(handle: OperatorStateHandle | None, moved: Replace) -> OperatorStateHandle | None:
    if handle is None:
        return None
    if isinstance(handle, OperatorStreamStateHandle):
        return replace(handle, delegate=_stream(handle.delegate, moved))
    delegate = _stream(handle.delegate, moved)
    if isinstance(delegate, SegmentFileStateHandle | EmptySegmentFileStateHandle):
        return replace(handle, delegate=delegate)
    return OperatorStreamStateHandle(handle.states, delegate)


def _keyed_handle(handle: KeyedStateHandle, moved: Replace) -> KeyedStateHandle:
    match handle:
        case IncrementalRemoteKeyedStateHandle():
            return _database(handle, moved)
        case ChangelogStateBackendHandle():
            return replace(
                handle,
                materialized=tuple(_keyed_handle(part, moved) for part in handle.materialized),
                non_materialized=tuple(_keyed_handle(part, moved) for part in handle.non_materialized),
            )
        case ChangelogStateHandleStreamImpl():
            streams = (replace(part, handle=_stream(part.handle, moved)) for part in handle.handles_and_offsets)
            return replace(handle, handles_and_offsets=tuple(streams))
        case InMemoryChangelogStateHandle():
            return handle
    return replace(handle, delegate=_stream(handle.delegate, moved))


def _database(handle: IncrementalRemoteKeyedStateHandle, moved: Replace) -> IncrementalRemoteKeyedStateHandle:
    def files(listed: tuple[HandleAndLocalPath, ...]) -> tuple[HandleAndLocalPath, ...]:
        return tuple(replace(file, handle=_stream(file.handle, moved)) for file in listed)

    shared, private = files(handle.shared_state), files(handle.private_state)
    # Files in the snapshot's own folder are not shared.
    others = tuple(file for file in shared if isinstance(file.handle, FileStateHandle | SegmentFileStateHandle))
    own = tuple(file for file in shared if file not in others)
    meta = _stream(handle.meta_state, moved)
    return replace(handle, meta_state=meta, shared_state=others, private_state=private + own)


def _channel(handle: AnyChannelStateHandle, moved: Replace) -> AnyChannelStateHandle:
    return replace(handle, delegate=_stream(handle.delegate, moved))


def _stream(handle: StreamStateHandle, moved: Replace) -> StreamStateHandle:
    if isinstance(handle, KeyGroupsStreamStateHandle):
        return replace(handle, delegate=_stream(handle.delegate, moved))
    return moved(handle)


COPY_BUFFER = 8 << 20
#: Files that a store is asked for at a time.
FINDERS = 32
#: Number of leading bytes that identify a file that Flink writes, and the size of files that come whole for that.
BEGINNING, SMALL = 64, 1 << 14
DATABASE_FILES = (b"MANIFEST-", b"# This is a RocksDB option file")
#: The seventh byte of a manifest: the type of its first record, full or first part.
LOG_RECORDS = (b"\1", b"\2")
SST_MAGIC, LEGACY_SST_MAGIC = bytes.fromhex("f7cff485b741e288"), bytes.fromhex("57fb808b247547db")
KEYS = (b"-----BEGIN ", b"---- BEGIN ", b"PuTTY-User-Key-File", b"openssh-key-v1", b"ssh-")


@dataclass(frozen=True, slots=True)
class NewHeader:
    """Bytes that replace the first ``size`` bytes of a file."""

    data: bytes
    size: int

    @property
    def growth(self) -> int:
        """Return the number of bytes by which the rest of the file moves."""
        return len(self.data) - self.size


@dataclass(frozen=True, slots=True)
class FileCopy:
    """A file or a segment to copy, and its name in the new snapshot's folder; it pickles.

    The format of ``raw`` state is defined by the operator, so it may begin with any bytes.
    """

    source: FileLocation
    name: str
    recorded: int
    raw: bool = False
    header: NewHeader | None = None

    @property
    def size(self) -> int:
        """Return the size in bytes according to the handle, 0 if unknown; a compressed changelog is smaller."""
        return max(self.recorded, 0)

    def run(self, create: Callable[[str], OutputFile]) -> int:
        """Copy into a new file and return the number of bytes."""
        with self.source.open(WHOLE) as source:
            self._refuse_no_state(source)
            begin = 0 if self.header is None else self.header.size
            buffer = bytearray(min(COPY_BUFFER, max(source.size - begin, 0)))
            out = create(self.name)
            try:
                if self.header is not None:
                    out.write(self.header.data)
                for start in range(begin, source.size, COPY_BUFFER):
                    part = memoryview(buffer)[: min(COPY_BUFFER, source.size - start)]
                    source.read_into(start, part)
                    out.write(part)
                out.close()
            finally:
                out.abort()
            return out.size

    def hold(self, filesystem: SnapshotFileSystem, target: str) -> int | None:
        """Give the file another name in a file system; return its size, None if that needs a copy by this process."""
        if self.source.segment or self.header is not None or not filesystem.holds(self.source.filesystem):
            return None
        checksums = self.source.checksums
        # Without verification: the copy keeps the checksums.
        with replace(self.source, checksums=None).open(Opening(count=BEGINNING, whole=SMALL)) as source:
            self._refuse_no_state(source)
            size = source.size
        if checksums is not None and size != checksums.size:
            return None  # the copy by this process says so
        held = filesystem.hold(self.source.filesystem, self.source.path, self.source.anchor, target, size)
        return size if held else None

    def _refuse_no_state(self, source: ByteSource) -> None:
        """Raise UnsafePathError for a file that Flink did not write: a malicious snapshot may name any file."""
        whole = is_state(source, self.raw)
        if whole and self.source.segment:
            # The beginning of the file that contains the segment must be state, too.
            with replace(self.source, start=0, size=UNKNOWN_SIZE, segment=False).open() as file:
                whole = is_state(file, self.raw)
        if whole:
            return
        raise UnsafePathError(
            "a handle names a file that is not Flink state, so it is not copied",
            path=source.path,
            operator=self.source.operator,
            expected="the beginning of a file that Flink writes",
            remedy="if you trust the snapshot, files='reference' leaves the file where it is; "
            "remove_operator leaves the operator out",
        )


@redacted
@dataclass
class Relocation:
    """The files of operators to copy into a new snapshot; ``copies`` are keyed by their current location.

    ``prefix`` is the prefix of the names of copies; no other file in the folder has it. Files that are damaged must not
    get new, matching checksums: so they are verified, unless ``verifies`` is False.
    """

    prefix: str
    copies: dict[tuple[SnapshotFileSystem, str, int, int, NewHeader | None], FileCopy] = field(default_factory=dict)
    verifies: bool = True

    def copied(self, snapshot: Snapshot, operator: OperatorState) -> OperatorState:
        """Return the operator with handles of copies of its files."""
        raw = raw_streams_of(operator)
        return replace_streams(operator, lambda handle: self._copied(snapshot, operator, handle, handle in raw))

    def with_header(
        self,
        snapshot: Snapshot,
        operator: OperatorState,
        handle: KeyGroupsSavepointStateHandle,
        header: NewHeader,
    ) -> KeyGroupsSavepointStateHandle:
        """Return a handle of a copy whose first bytes are replaced; the offsets of key groups move accordingly."""
        offsets = tuple(offset + header.growth if offset > 0 else offset for offset in handle.offsets.offsets)
        delegate = handle.delegate
        if isinstance(delegate, ByteStreamStateHandle):
            delegate = replace(delegate, data=header.data + delegate.data[header.size :])
        else:
            delegate = self._copied(snapshot, operator, delegate, False, header)
        return replace(handle, offsets=replace(handle.offsets, offsets=offsets), delegate=delegate)

    def _copied(
        self,
        snapshot: Snapshot,
        operator: OperatorState,
        handle: StreamStateHandle,
        raw: bool,
        header: NewHeader | None = None,
    ) -> StreamStateHandle:
        location = (snapshot.verified() if self.verifies else snapshot).resolve(handle, operator)
        if not isinstance(location, FileLocation):
            return handle
        source = (location.filesystem, location.path, location.start, location.size if location.segment else -1, header)
        copy = self.copies.get(source)
        if copy is None:
            name = f"{self.prefix}-{len(self.copies)}"
            copy = self.copies[source] = FileCopy(location, name, recorded_size(handle), raw, header)
        growth = header.growth if header is not None and location.size >= 0 else 0
        return RelativeFileStateHandle(copy.name, recorded_size(handle) + growth)

    @property
    def size(self) -> int:
        """Return the number of bytes of all copies with a known size."""
        return sum(copy.size for copy in self.copies.values())


def recorded_size(handle: StreamStateHandle) -> int:
    """Return the size in a handle as Flink wrote it: that of a compressed changelog is not the size of the file."""
    match handle:
        case FileStateHandle() | RelativeFileStateHandle() | SegmentFileStateHandle():
            return handle.size
        case KeyGroupsStreamStateHandle():
            return recorded_size(handle.delegate)
    return handle.state_size


def is_state(source: ByteSource, raw: bool) -> bool:
    """Return whether a file was written by Flink, judged by its first and last bytes.

    Streams begin with a version below 256 as an int, changelogs with a flag; files of RocksDB and ForSt have their own
    magic numbers. Raw state may contain any bytes, except those of a private or public key.
    """
    first = source.read(0, min(source.size, BEGINNING))
    if raw:
        return not first.startswith(KEYS)
    if first[:1] in (b"", b"\0", b"\1") or first.startswith(DATABASE_FILES) or first[6:7] in LOG_RECORDS:
        return True
    last = source.read(max(source.size - len(SST_MAGIC), 0), min(source.size, len(SST_MAGIC)))
    return last in (SST_MAGIC, LEGACY_SST_MAGIC)


def raw_streams_of(operator: OperatorState) -> set[StreamStateHandle]:
    """Return the handles of an operator's raw state, whose format the operator defines."""
    subtasks = {
        index: OperatorSubtaskState(
            raw_operator_state=subtask.raw_operator_state, raw_keyed_state=subtask.raw_keyed_state
        )
        for index, subtask in operator.subtasks.items()
    }
    return set(streams_of(replace(operator, subtasks=subtasks)))


def referenced(snapshot: Snapshot, operator: OperatorState, written_path: str) -> OperatorState:
    """Return the operator with absolute handles of its files; the user wrote ``written_path`` of the snapshot."""

    def find(handle: StreamStateHandle) -> FileLocation | None:
        location = snapshot.resolve(handle, operator)
        return location.found() if isinstance(location, FileLocation) else None

    handles = list(dict.fromkeys(streams_of(operator)))
    with ThreadPoolExecutor(FINDERS if snapshot.location.filesystem.is_remote else 1) as pool:
        places = dict(zip(handles, pool.map(find, handles), strict=True))

    def refer(handle: StreamStateHandle) -> StreamStateHandle:
        location = places[handle]
        if location is None:
            return handle
        path = absolute(location.filesystem, location.path, written_path)
        if isinstance(handle, SegmentFileStateHandle):
            return replace(handle, path=path)
        return FileStateHandle(path, recorded_size(handle))

    return replace_streams(operator, refer)


def with_prefix(operators: Sequence[OperatorState], old: str, new: str) -> list[OperatorState]:
    """Return operators with another prefix of the absolute paths of their files; OptionError if none has the old."""

    def move(handle: StreamStateHandle) -> StreamStateHandle:
        if has_path(handle, old):
            return replace(handle, path=new + handle.path[len(old) :])
        return handle

    if not any(has_path(handle, old) for operator in operators for handle in streams_of(operator)):
        raise OptionError(
            f"no file of the savepoint is recorded under {old!r}",
            remedy="relative files and inline state move with the savepoint and need no new prefix",
        )
    return [replace_streams(operator, move) for operator in operators]


def has_path(handle: StreamStateHandle, prefix: str) -> TypeGuard[FileStateHandle | SegmentFileStateHandle]:
    """Return whether a handle has an absolute path with a prefix."""
    return isinstance(handle, FileStateHandle | SegmentFileStateHandle) and handle.path.startswith(prefix)


def absolute(filesystem: SnapshotFileSystem, path: str, written_path: str) -> str:
    """Return a path in the form of Flink's handles, with the user's scheme if it refers to the same file system.

    >>> absolute(LocalFileSystem(), "/savepoints/a/b", "/savepoints/a")
    'file:/savepoints/a/b'
    """
    if isinstance(filesystem, LocalFileSystem):
        return f"file:{path}"
    uri = filesystem.uri(path)
    match, own = URI.fullmatch(written_path), URI.fullmatch(uri)
    if match and own and REMOTE_SCHEMES.get(match[1].lower()) == own[1]:
        return f"{match[1]}:{uri.partition(':')[2]}"
    return uri
