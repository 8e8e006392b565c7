"""State handles: where the bytes of a state are, as ``_metadata`` says it.

Three families share one space of type bytes. KGRange is ``i32 start, i32 count``; a FileList is
``i32 n {utf fileName, StreamHandle}[n]``.

::

    StreamHandle    0 none
                    1 ByteStream            utf name  blob data
                    2 File                  i64 size  utf path                      absolute
                    3 KeyGroups             KGRange  i64 offset[n]  StreamHandle    legacy nesting
                    6 RelativeFile          utf path  i64 size                      below the snapshot's folder
                   15 SegmentFile           i64 start  i64 size  i32 scope  utf path  utf logicalFileId
                   16 EmptySegment          -
    KeyedHandle     0 none
                    3 KeyGroups             KGRange  i64 offset[n]  StreamHandle
                   12 KeyGroups V2          as 3, utf stateHandleId
                    7 KeyGroups, savepoint  as 3
                    5 Incremental           i64 checkpointId  utf backendId  KGRange  StreamHandle meta
                                            FileList shared  FileList private
                   11 Incremental V2        i64 checkpointId  utf backendId  KGRange  i64 checkpointedSize
                                            StreamHandle meta  FileList shared  FileList private  utf stateHandleId
                    8 Changelog             KGRange  i64 checkpointedSize  i32 n KeyedHandle[n] (materialized)
                                            i32 m KeyedHandle[m] (delta)  i64 materializationId  utf stateHandleId
                   14 Changelog V2          as 8, with i64 checkpointId before the id
                    9 in-memory changelog   KGRange  i64 from  i64 to  i32 n {i32 keyGroup  blob change}[n]
                                            utf stateHandleId
                   10 changelog files       KGRange  i32 n {i64 offset  StreamHandle}[n]  i64 size
                                            i64 checkpointedSize  utf stateHandleId
                   13 changelog files V2    as 10, utf storageIdentifier
    OpHandle        0 none
                    4 OperatorStream        i32 n {utf name  u8 mode  i32 k  i64 offset[k]}[n]  StreamHandle
                   17 file merging          i32 n {...}[n]  utf taskOwnedDir  utf sharedDir  bool isEmpty  StreamHandle

Reading loses nothing: what is read writes the same bytes again. Flink's twins have the same class names; the
layout is that of ``MetadataV2V3SerializerBase``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import ClassVar, NoReturn, TypeVar

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.key_groups import KeyGroupRange, KeyGroupRangeOffsets, read_longs, write_longs

NULL_HANDLE = 0
# Flink nests at most three (a changelog of a key-groups handle of a stream); more is an attack on the stack.
MAX_DEPTH = 16
UNKNOWN_SIZE = -1

_Handle = TypeVar("_Handle")


# -- StreamHandle -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ByteStreamStateHandle:
    """Bytes that are in ``_metadata`` itself; the name only says what the file would have been called."""

    handle_name: str
    data: bytes = field(repr=False)
    type_byte: ClassVar[int] = 1

    @classmethod
    def read(cls, view: DataInputView, _depth: int) -> ByteStreamStateHandle:
        """Name, then the bytes."""
        return cls(view.read_utf("the name of inline state"), view.read_blob("inline state"))

    def write(self, out: DataOutputView) -> None:
        """Name, then the bytes."""
        out.write_utf(self.handle_name)
        out.write_blob(self.data)

    @property
    def state_size(self) -> int:
        """Number of bytes."""
        return len(self.data)


@dataclass(frozen=True, slots=True)
class FileStateHandle:
    """A file by its absolute path; size before path."""

    path: str
    size: int
    type_byte: ClassVar[int] = 2

    @classmethod
    def read(cls, view: DataInputView, _depth: int) -> FileStateHandle:
        """Size, then path."""
        size = _read_size(view, "the size of a file")
        return cls(view.read_utf("the path of a file"), size)

    def write(self, out: DataOutputView) -> None:
        """Size, then path."""
        out.write_i64(self.size)
        out.write_utf(self.path)

    @property
    def state_size(self) -> int:
        """Number of bytes, 0 when it was not recorded."""
        return max(self.size, 0)


@dataclass(frozen=True, slots=True)
class RelativeFileStateHandle:
    """A file in the snapshot's own folder; path before size."""

    relative_path: str
    size: int
    type_byte: ClassVar[int] = 6

    @classmethod
    def read(cls, view: DataInputView, _depth: int) -> RelativeFileStateHandle:
        """Path, then size."""
        return cls(view.read_utf("the name of a file"), _read_size(view, "the size of a file"))

    def write(self, out: DataOutputView) -> None:
        """Path, then size."""
        out.write_utf(self.relative_path)
        out.write_i64(self.size)

    @property
    def state_size(self) -> int:
        """Number of bytes, 0 when it was not recorded."""
        return max(self.size, 0)


class CheckpointedStateScope(IntEnum):
    """Who owns a merged file."""

    EXCLUSIVE = 0
    SHARED = 1


@dataclass(frozen=True, slots=True)
class SegmentFileStateHandle:
    """A part of a file that several states share; offsets inside count from ``start``."""

    path: str
    start: int
    size: int
    scope: CheckpointedStateScope
    logical_file_id: str
    type_byte: ClassVar[int] = 15

    @classmethod
    def read(cls, view: DataInputView, _depth: int) -> SegmentFileStateHandle:
        """Start, size, scope, path, id."""
        start, size = view.read_i64("the start of a segment"), view.read_i64("the size of a segment")
        if start < 0 or size < 0 or start + size >= 1 << 63:
            view.fail("a segment from 0 on", f"start {start}, size {size}")
        scope = view.read_count("the scope of a segment", each=0, limit=len(CheckpointedStateScope) - 1)
        path = view.read_utf("the path of a segment")
        return cls(path, start, size, CheckpointedStateScope(scope), view.read_utf("the id of a segment"))

    def write(self, out: DataOutputView) -> None:
        """Start, size, scope, path, id."""
        out.write_i64(self.start)
        out.write_i64(self.size)
        out.write_i32(self.scope)
        out.write_utf(self.path)
        out.write_utf(self.logical_file_id)

    @property
    def state_size(self) -> int:
        """Number of bytes."""
        return self.size


@dataclass(frozen=True, slots=True)
class EmptySegmentFileStateHandle:
    """No bytes at all."""

    type_byte: ClassVar[int] = 16
    state_size: ClassVar[int] = 0

    @classmethod
    def read(cls, _view: DataInputView, _depth: int) -> EmptySegmentFileStateHandle:
        """Nothing."""
        return cls()

    def write(self, out: DataOutputView) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True)
class KeyGroupsStreamStateHandle:
    """A key-groups handle where a stream is expected, as old releases nested it; its bytes are the delegate's."""

    offsets: KeyGroupRangeOffsets
    delegate: StreamStateHandle
    type_byte: ClassVar[int] = 3

    @classmethod
    def read(cls, view: DataInputView, depth: int) -> KeyGroupsStreamStateHandle:
        """Offsets, then the delegate."""
        return cls(KeyGroupRangeOffsets.read(view), _require_stream(view, depth))

    def write(self, out: DataOutputView) -> None:
        """Offsets, then the delegate."""
        self.offsets.write(out)
        write_stream_handle(self.delegate, out)

    @property
    def state_size(self) -> int:
        """Number of bytes."""
        return self.delegate.state_size


StreamStateHandle = (
    ByteStreamStateHandle
    | FileStateHandle
    | KeyGroupsStreamStateHandle
    | RelativeFileStateHandle
    | SegmentFileStateHandle
    | EmptySegmentFileStateHandle
)


def read_stream_handle(view: DataInputView, depth: int = 0) -> StreamStateHandle | None:
    """A type byte and what it says; None for type 0."""
    return _dispatch(view, STREAM_HANDLES, "a stream handle", depth)


def write_stream_handle(handle: StreamStateHandle | None, out: DataOutputView) -> None:
    """A type byte and what it says."""
    out.write_u8(NULL_HANDLE if handle is None else handle.type_byte)
    if handle is not None:
        handle.write(out)


def _require_stream(view: DataInputView, depth: int) -> StreamStateHandle:
    return read_stream_handle(view, depth + 1) or _absent(view, "a stream handle")


# -- KeyedHandle --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeyGroupsStateHandle:
    """Key groups in one stream, in the state backend's own format; written by releases up to 1.14 without id."""

    offsets: KeyGroupRangeOffsets
    delegate: StreamStateHandle
    state_handle_id: str | None

    @property
    def type_byte(self) -> int:
        """12, or 3 without an id."""
        return 3 if self.state_handle_id is None else 12

    @classmethod
    def read_v1(cls, view: DataInputView, depth: int) -> KeyGroupsStateHandle:
        """Offsets, delegate."""
        return cls(KeyGroupRangeOffsets.read(view), _require_stream(view, depth), None)

    @classmethod
    def read_v2(cls, view: DataInputView, depth: int) -> KeyGroupsStateHandle:
        """Offsets, delegate, id."""
        offsets, delegate = KeyGroupRangeOffsets.read(view), _require_stream(view, depth)
        return cls(offsets, delegate, _read_id(view))

    def write(self, out: DataOutputView) -> None:
        """Offsets, delegate, id when there is one."""
        self.offsets.write(out)
        write_stream_handle(self.delegate, out)
        if self.state_handle_id is not None:
            out.write_utf(self.state_handle_id)

    @property
    def key_group_range(self) -> KeyGroupRange:
        """The key groups that the handle is for."""
        return self.offsets.key_group_range

    @property
    def state_size(self) -> int:
        """Number of bytes."""
        return self.delegate.state_size

    def intersection(self, key_groups: KeyGroupRange) -> KeyGroupsStateHandle:
        """The same stream with the offsets of these key groups only."""
        return replace(self, offsets=self.offsets.intersection(key_groups))


@dataclass(frozen=True, slots=True)
class KeyGroupsSavepointStateHandle:
    """Key groups in one stream, in the format that all state backends share: the canonical savepoint."""

    offsets: KeyGroupRangeOffsets
    delegate: StreamStateHandle
    type_byte: ClassVar[int] = 7

    @classmethod
    def read(cls, view: DataInputView, depth: int) -> KeyGroupsSavepointStateHandle:
        """Offsets, delegate."""
        return cls(KeyGroupRangeOffsets.read(view), _require_stream(view, depth))

    def write(self, out: DataOutputView) -> None:
        """Offsets, delegate."""
        self.offsets.write(out)
        write_stream_handle(self.delegate, out)

    @property
    def key_group_range(self) -> KeyGroupRange:
        """The key groups that the handle is for."""
        return self.offsets.key_group_range

    @property
    def state_size(self) -> int:
        """Number of bytes."""
        return self.delegate.state_size

    def intersection(self, key_groups: KeyGroupRange) -> KeyGroupsSavepointStateHandle:
        """The same stream with the offsets of these key groups only."""
        return replace(self, offsets=self.offsets.intersection(key_groups))


@dataclass(frozen=True, slots=True)
class HandleAndLocalPath:
    """One file of a database: the name that it must have there, and its bytes."""

    local_path: str
    handle: StreamStateHandle


@dataclass(frozen=True, slots=True)
class IncrementalRemoteKeyedStateHandle:
    """The files of a RocksDB or ForSt database; without id (type 5) it has no checkpointed size either."""

    checkpoint_id: int
    backend_identifier: str
    key_group_range: KeyGroupRange
    checkpointed_size: int
    meta_state: StreamStateHandle
    shared_state: tuple[HandleAndLocalPath, ...]
    private_state: tuple[HandleAndLocalPath, ...]
    state_handle_id: str | None

    @property
    def type_byte(self) -> int:
        """11, or 5 without an id."""
        return 5 if self.state_handle_id is None else 11

    @classmethod
    def read_v1(cls, view: DataInputView, depth: int) -> IncrementalRemoteKeyedStateHandle:
        """Type 5."""
        return cls._read(view, depth, second=False)

    @classmethod
    def read_v2(cls, view: DataInputView, depth: int) -> IncrementalRemoteKeyedStateHandle:
        """Type 11."""
        return cls._read(view, depth, second=True)

    @classmethod
    def _read(cls, view: DataInputView, depth: int, second: bool) -> IncrementalRemoteKeyedStateHandle:
        return cls(
            checkpoint_id=view.read_i64("a checkpoint id"),
            backend_identifier=view.read_utf("the id of a state backend"),
            key_group_range=KeyGroupRange.read(view),
            checkpointed_size=_read_size(view, "a checkpointed size") if second else UNKNOWN_SIZE,
            meta_state=_require_stream(view, depth),
            shared_state=_read_files(view, depth),
            private_state=_read_files(view, depth),
            state_handle_id=_read_id(view) if second else None,
        )

    def write(self, out: DataOutputView) -> None:
        """Type 5 or 11, by the id."""
        out.write_i64(self.checkpoint_id)
        out.write_utf(self.backend_identifier)
        self.key_group_range.write(out)
        if self.state_handle_id is not None:
            out.write_i64(self.checkpointed_size)
        write_stream_handle(self.meta_state, out)
        _write_files(self.shared_state, out)
        _write_files(self.private_state, out)
        if self.state_handle_id is not None:
            out.write_utf(self.state_handle_id)

    @property
    def state_size(self) -> int:
        """Number of bytes of all files."""
        files = sum(file.handle.state_size for file in self.shared_state + self.private_state)
        return self.meta_state.state_size + files

    def intersection(self, key_groups: KeyGroupRange) -> IncrementalRemoteKeyedStateHandle:
        """The same files for fewer key groups: the reader of the database has to filter."""
        return replace(self, key_group_range=self.key_group_range.intersection(key_groups))


@dataclass(frozen=True, slots=True)
class ChangelogStateBackendHandle:
    """A materialized state and the changes since then, to be applied in order."""

    key_group_range: KeyGroupRange
    checkpointed_size: int
    materialized: tuple[KeyedStateHandle, ...]
    non_materialized: tuple[KeyedStateHandle, ...]
    materialization_id: int
    checkpoint_id: int | None
    state_handle_id: str

    @property
    def type_byte(self) -> int:
        """14, or 8 without a checkpoint id."""
        return 8 if self.checkpoint_id is None else 14

    @classmethod
    def read_v1(cls, view: DataInputView, depth: int) -> ChangelogStateBackendHandle:
        """Type 8."""
        return cls._read(view, depth, second=False)

    @classmethod
    def read_v2(cls, view: DataInputView, depth: int) -> ChangelogStateBackendHandle:
        """Type 14."""
        return cls._read(view, depth, second=True)

    @classmethod
    def _read(cls, view: DataInputView, depth: int, second: bool) -> ChangelogStateBackendHandle:
        return cls(
            key_group_range=KeyGroupRange.read(view),
            checkpointed_size=_read_size(view, "a checkpointed size"),
            materialized=_read_keyed_handles(view, depth),
            non_materialized=_read_keyed_handles(view, depth),
            materialization_id=view.read_i64("a materialization id"),
            checkpoint_id=view.read_i64("a checkpoint id") if second else None,
            state_handle_id=_read_id(view),
        )

    def write(self, out: DataOutputView) -> None:
        """Type 8 or 14, by the checkpoint id."""
        self.key_group_range.write(out)
        out.write_i64(self.checkpointed_size)
        for handles in (self.materialized, self.non_materialized):
            out.write_i32(len(handles))
            for handle in handles:
                write_keyed_handle(handle, out)
        out.write_i64(self.materialization_id)
        if self.checkpoint_id is not None:
            out.write_i64(self.checkpoint_id)
        out.write_utf(self.state_handle_id)

    @property
    def state_size(self) -> int:
        """Number of bytes, materialized and not."""
        return sum(handle.state_size for handle in self.materialized + self.non_materialized)

    def intersection(self, key_groups: KeyGroupRange) -> ChangelogStateBackendHandle:
        """Every part narrowed to these key groups; parts that have none of them are left out."""
        return replace(
            self,
            key_group_range=self.key_group_range.intersection(key_groups),
            materialized=intersect_handles(self.materialized, key_groups),
            non_materialized=intersect_handles(self.non_materialized, key_groups),
        )


@dataclass(frozen=True, slots=True)
class StateChange:
    """One change of a changelog; key group -1 is a change of the states' metadata."""

    key_group: int
    change: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class InMemoryChangelogStateHandle:
    """Changes in ``_metadata`` itself."""

    key_group_range: KeyGroupRange
    from_sequence_number: int
    to_sequence_number: int
    changes: tuple[StateChange, ...]
    state_handle_id: str
    type_byte: ClassVar[int] = 9

    @classmethod
    def read(cls, view: DataInputView, _depth: int) -> InMemoryChangelogStateHandle:
        """Range, sequence numbers, changes, id."""
        key_groups = KeyGroupRange.read(view)
        numbers = view.read_i64("a sequence number"), view.read_i64("a sequence number")
        count = view.read_count("changes", each=8)
        changes = tuple(StateChange(view.read_i32("a key group"), view.read_blob("a change")) for _ in range(count))
        return cls(key_groups, *numbers, changes, _read_id(view))

    def write(self, out: DataOutputView) -> None:
        """Range, sequence numbers, changes, id."""
        self.key_group_range.write(out)
        out.write_i64(self.from_sequence_number)
        out.write_i64(self.to_sequence_number)
        out.write_i32(len(self.changes))
        for change in self.changes:
            out.write_i32(change.key_group)
            out.write_blob(change.change)
        out.write_utf(self.state_handle_id)

    @property
    def state_size(self) -> int:
        """Number of bytes of the changes."""
        return sum(len(change.change) for change in self.changes)

    def intersection(self, key_groups: KeyGroupRange) -> InMemoryChangelogStateHandle:
        """The same changes for fewer key groups: whoever replays them has to filter."""
        return replace(self, key_group_range=self.key_group_range.intersection(key_groups))


@dataclass(frozen=True, slots=True)
class StreamAndOffset:
    """One change set of a changelog file."""

    offset: int
    handle: StreamStateHandle


@dataclass(frozen=True, slots=True)
class ChangelogStateHandleStreamImpl:
    """Change sets in files, to be replayed in order."""

    key_group_range: KeyGroupRange
    handles_and_offsets: tuple[StreamAndOffset, ...]
    size: int
    checkpointed_size: int
    state_handle_id: str
    storage_identifier: str | None

    @property
    def type_byte(self) -> int:
        """13, or 10 without a storage identifier."""
        return 10 if self.storage_identifier is None else 13

    @classmethod
    def read_v1(cls, view: DataInputView, depth: int) -> ChangelogStateHandleStreamImpl:
        """Type 10."""
        return cls._read(view, depth, second=False)

    @classmethod
    def read_v2(cls, view: DataInputView, depth: int) -> ChangelogStateHandleStreamImpl:
        """Type 13."""
        return cls._read(view, depth, second=True)

    @classmethod
    def _read(cls, view: DataInputView, depth: int, second: bool) -> ChangelogStateHandleStreamImpl:
        key_groups = KeyGroupRange.read(view)
        streams = tuple(
            StreamAndOffset(view.read_i64("an offset"), _require_stream(view, depth))
            for _ in range(view.read_count("change sets", each=9))
        )
        return cls(
            key_groups,
            streams,
            _read_size(view, "a size"),
            _read_size(view, "a checkpointed size"),
            _read_id(view),
            view.read_utf("a storage identifier") if second else None,
        )

    def write(self, out: DataOutputView) -> None:
        """Type 10 or 13, by the storage identifier."""
        self.key_group_range.write(out)
        out.write_i32(len(self.handles_and_offsets))
        for stream in self.handles_and_offsets:
            out.write_i64(stream.offset)
            write_stream_handle(stream.handle, out)
        out.write_i64(self.size)
        out.write_i64(self.checkpointed_size)
        out.write_utf(self.state_handle_id)
        if self.storage_identifier is not None:
            out.write_utf(self.storage_identifier)

    @property
    def state_size(self) -> int:
        """Number of bytes, 0 when it was not recorded."""
        return max(self.size, 0)

    def intersection(self, key_groups: KeyGroupRange) -> ChangelogStateHandleStreamImpl:
        """The same change sets for fewer key groups: whoever replays them has to filter."""
        return replace(self, key_group_range=self.key_group_range.intersection(key_groups))


KeyedStateHandle = (
    KeyGroupsStateHandle
    | KeyGroupsSavepointStateHandle
    | IncrementalRemoteKeyedStateHandle
    | ChangelogStateBackendHandle
    | InMemoryChangelogStateHandle
    | ChangelogStateHandleStreamImpl
)


def read_keyed_handle(view: DataInputView, depth: int = 0) -> KeyedStateHandle | None:
    """A type byte and what it says; None for type 0."""
    return _dispatch(view, KEYED_HANDLES, "a keyed state handle", depth)


def write_keyed_handle(handle: KeyedStateHandle | None, out: DataOutputView) -> None:
    """A type byte and what it says."""
    out.write_u8(NULL_HANDLE if handle is None else handle.type_byte)
    if handle is not None:
        handle.write(out)


def intersect_handles(handles: tuple[KeyedStateHandle, ...], key_groups: KeyGroupRange) -> tuple[KeyedStateHandle, ...]:
    """The handles that have any of these key groups, each narrowed to them."""
    return tuple(
        handle.intersection(key_groups) for handle in handles if handle.key_group_range.intersection(key_groups)
    )


def _read_keyed_handles(view: DataInputView, depth: int) -> tuple[KeyedStateHandle, ...]:
    return tuple(
        read_keyed_handle(view, depth + 1) or _absent(view, "a keyed state handle")
        for _ in range(view.read_count("keyed state handles", each=10))
    )


def _read_files(view: DataInputView, depth: int) -> tuple[HandleAndLocalPath, ...]:
    return tuple(
        HandleAndLocalPath(view.read_utf("the name of a database file"), _require_stream(view, depth))
        for _ in range(view.read_count("database files", each=3))
    )


def _write_files(files: tuple[HandleAndLocalPath, ...], out: DataOutputView) -> None:
    out.write_i32(len(files))
    for file in files:
        out.write_utf(file.local_path)
        write_stream_handle(file.handle, out)


# -- OpHandle -----------------------------------------------------------------------------------------------


class Mode(IntEnum):
    """How an operator state is spread over the subtasks on restore."""

    SPLIT_DISTRIBUTE = 0
    UNION = 1
    BROADCAST = 2


@dataclass(frozen=True, slots=True)
class StateMetaInfo:
    """One operator state in a stream: where each of its elements begins."""

    name: str
    mode: Mode
    offsets: tuple[int, ...]

    @classmethod
    def read(cls, view: DataInputView) -> StateMetaInfo:
        """Name, mode, offsets."""
        name, mode = view.read_utf("the name of an operator state"), view.read_u8("a distribution mode")
        if mode >= len(Mode):
            view.fail("a distribution mode 0, 1 or 2", mode)
        count = view.read_count("elements", each=8)
        return cls(name, Mode(mode), read_longs(view, count, "offsets of elements"))

    def write(self, out: DataOutputView) -> None:
        """Name, mode, offsets."""
        out.write_utf(self.name)
        out.write_u8(self.mode)
        out.write_i32(len(self.offsets))
        write_longs(out, self.offsets)


@dataclass(frozen=True, slots=True)
class OperatorStreamStateHandle:
    """List, union and broadcast states of one subtask in one stream."""

    states: tuple[StateMetaInfo, ...]
    delegate: StreamStateHandle
    type_byte: ClassVar[int] = 4

    @classmethod
    def read(cls, view: DataInputView, depth: int) -> OperatorStreamStateHandle:
        """States, delegate."""
        return cls(_read_states(view), _require_stream(view, depth))

    def write(self, out: DataOutputView) -> None:
        """States, delegate."""
        _write_states(self.states, out)
        write_stream_handle(self.delegate, out)

    @property
    def state_size(self) -> int:
        """Number of bytes."""
        return self.delegate.state_size


@dataclass(frozen=True, slots=True)
class FileMergingOperatorStreamStateHandle:
    """The same in a merged file, with the folders that the job manager has to keep."""

    states: tuple[StateMetaInfo, ...]
    task_owned_dir: str
    shared_dir: str
    is_empty: bool
    delegate: SegmentFileStateHandle | EmptySegmentFileStateHandle
    type_byte: ClassVar[int] = 17

    @classmethod
    def read(cls, view: DataInputView, depth: int) -> FileMergingOperatorStreamStateHandle:
        """States, folders, delegate."""
        states = _read_states(view)
        task_owned, shared = view.read_utf("a folder"), view.read_utf("a folder")
        is_empty = view.read_bool("whether the state is empty")
        delegate = _require_stream(view, depth)
        if not isinstance(delegate, SegmentFileStateHandle | EmptySegmentFileStateHandle):
            view.fail("a segment of a merged file", type(delegate).__name__)
        return cls(states, task_owned, shared, is_empty, delegate)

    def write(self, out: DataOutputView) -> None:
        """States, folders, delegate."""
        _write_states(self.states, out)
        out.write_utf(self.task_owned_dir)
        out.write_utf(self.shared_dir)
        out.write_bool(self.is_empty)
        write_stream_handle(self.delegate, out)

    @property
    def state_size(self) -> int:
        """Number of bytes."""
        return self.delegate.state_size


OperatorStateHandle = OperatorStreamStateHandle | FileMergingOperatorStreamStateHandle


def read_operator_handle(view: DataInputView) -> OperatorStateHandle | None:
    """A type byte and what it says; None for type 0."""
    return _dispatch(view, OPERATOR_HANDLES, "an operator state handle", 0)


def write_operator_handle(handle: OperatorStateHandle | None, out: DataOutputView) -> None:
    """A type byte and what it says."""
    out.write_u8(NULL_HANDLE if handle is None else handle.type_byte)
    if handle is not None:
        handle.write(out)


def _read_states(view: DataInputView) -> tuple[StateMetaInfo, ...]:
    states: dict[str, StateMetaInfo] = {}
    for _ in range(view.read_count("operator states", each=7)):
        state = StateMetaInfo.read(view)
        if state.name in states:
            view.fail("each operator state once", state.name)
        states[state.name] = state
    return tuple(states.values())


def _write_states(states: tuple[StateMetaInfo, ...], out: DataOutputView) -> None:
    out.write_i32(len(states))
    for state in states:
        state.write(out)


# -- what they share ----------------------------------------------------------------------------------------


def _dispatch(
    view: DataInputView,
    readers: Mapping[int, Callable[[DataInputView, int], _Handle]],
    what: str,
    depth: int,
) -> _Handle | None:
    if depth > MAX_DEPTH:
        view.fail(f"handles nested at most {MAX_DEPTH} deep")
    type_byte = view.read_u8(f"the type of {what}")
    if type_byte == NULL_HANDLE:
        return None
    if type_byte not in readers:
        view.position -= 1
        view.fail(f"{what}: type 0 or one of {sorted(readers)}", type_byte)
    return readers[type_byte](view, depth)


def _absent(view: DataInputView, what: str) -> NoReturn:
    view.position -= 1
    view.fail(what, "none (type 0)")


def _read_size(view: DataInputView, what: str) -> int:
    size = view.read_i64(what)
    if size < UNKNOWN_SIZE:
        view.position -= 8
        view.fail(f"{what}, or -1 for unknown", size)
    return size


def _read_id(view: DataInputView) -> str:
    return view.read_utf("the id of a state handle")


STREAM_HANDLES: Mapping[int, Callable[[DataInputView, int], StreamStateHandle]] = MappingProxyType(
    {
        1: ByteStreamStateHandle.read,
        2: FileStateHandle.read,
        3: KeyGroupsStreamStateHandle.read,
        6: RelativeFileStateHandle.read,
        15: SegmentFileStateHandle.read,
        16: EmptySegmentFileStateHandle.read,
    }
)
KEYED_HANDLES: Mapping[int, Callable[[DataInputView, int], KeyedStateHandle]] = MappingProxyType(
    {
        3: KeyGroupsStateHandle.read_v1,
        5: IncrementalRemoteKeyedStateHandle.read_v1,
        7: KeyGroupsSavepointStateHandle.read,
        8: ChangelogStateBackendHandle.read_v1,
        9: InMemoryChangelogStateHandle.read,
        10: ChangelogStateHandleStreamImpl.read_v1,
        11: IncrementalRemoteKeyedStateHandle.read_v2,
        12: KeyGroupsStateHandle.read_v2,
        13: ChangelogStateHandleStreamImpl.read_v2,
        14: ChangelogStateBackendHandle.read_v2,
    }
)
OPERATOR_HANDLES: Mapping[int, Callable[[DataInputView, int], OperatorStateHandle]] = MappingProxyType(
    {4: OperatorStreamStateHandle.read, 17: FileMergingOperatorStreamStateHandle.read}
)
