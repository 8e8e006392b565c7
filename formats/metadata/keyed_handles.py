"""Keyed state handles: the locations of key groups and the formats of their streams.

KGRange is ``i32 start, i32 count``; FileList is ``i32 n {utf fileName, StreamHandle}[n]``.

::

    KeyedHandle := u8 type ...
         0  none
         3  KeyGroups             KGRange  i64 offset[n]  StreamHandle                              to 1.14
        12  KeyGroups V2          as 3, utf stateHandleId                                          1.15 on
         7  KeyGroups, savepoint  as 3                                                             1.13 on
         5  Incremental           i64 checkpointId  utf backendId  KGRange  StreamHandle meta
                                  FileList shared  FileList private                                 to 1.14
        11  Incremental V2        as 5, i64 checkpointedSize after KGRange, utf stateHandleId      1.15 on
         8  Changelog             KGRange  i64 checkpointedSize  i32 n KeyedHandle[n] (materialized)
                                  i32 m KeyedHandle[m] (delta)  i64 materializationId  utf stateHandleId    1.15
        14  Changelog V2          as 8, i64 checkpointId before the id                             1.16 on
         9  in-memory changelog   KGRange  i64 from  i64 to  i32 n {i32 keyGroup  blob change}[n]
                                  utf stateHandleId                                                1.15 on
        10  changelog files       KGRange  i32 n {i64 offset  StreamHandle}[n]  i64 size
                                  i64 checkpointedSize  utf stateHandleId                             1.15
        13  changelog files V2    as 10, utf storageIdentifier                                     1.16 on

Only type 7 determines the format of its stream: the canonical one, which all state backends share. Flink's classes
have the same names; the layout is that of
``MetadataV2V3SerializerBase#serializeKeyedStateHandle``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import ClassVar, Self

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, KeyGroupRangeOffsets
from pyspark_savepoint.formats.metadata.stream_handles import (
    NULL_HANDLE,
    UNKNOWN_SIZE,
    StreamStateHandle,
    TwoVersions,
    absent,
    dispatch,
    read_handle_id,
    read_size,
    require_stream_handle,
    write_stream_handle,
)
from pyspark_savepoint.formats.redaction import redacted


@dataclass(frozen=True, slots=True)
class _KeyGroupsInStream:
    """Locations of key groups in one stream."""

    offsets: KeyGroupRangeOffsets
    delegate: StreamStateHandle

    def write(self, out: DataOutputView) -> None:
        """Write offsets, delegate."""
        self.offsets.write(out)
        write_stream_handle(self.delegate, out)

    @property
    def key_group_range(self) -> KeyGroupRange:
        """Return the key groups of the handle."""
        return self.offsets.key_group_range

    @property
    def state_size(self) -> int:
        """Return the number of bytes."""
        return self.delegate.state_size

    def intersection(self, key_groups: KeyGroupRange) -> Self:
        """Return a handle of the same stream with the offsets of these key groups only."""
        return replace(self, offsets=self.offsets.intersection(key_groups))


@dataclass(frozen=True, slots=True)
class KeyGroupsStateHandle(_KeyGroupsInStream):
    """Key groups in one stream, in the state backend's own format; releases up to 1.14 write no id."""

    state_handle_id: str | None

    @property
    def type_byte(self) -> int:
        """Return 12, or 3 without an id."""
        return 3 if self.state_handle_id is None else 12

    @classmethod
    def read_v1(cls, view: DataInputView, depth: int) -> KeyGroupsStateHandle:
        """Read offsets, delegate."""
        return cls(KeyGroupRangeOffsets.read(view), require_stream_handle(view, depth), None)

    @classmethod
    def read_v2(cls, view: DataInputView, depth: int) -> KeyGroupsStateHandle:
        """Read offsets, delegate, id."""
        offsets, delegate = KeyGroupRangeOffsets.read(view), require_stream_handle(view, depth)
        return cls(offsets, delegate, read_handle_id(view))

    def write(self, out: DataOutputView) -> None:
        """Write offsets, delegate, and the id if there is one."""
        _KeyGroupsInStream.write(self, out)
        if self.state_handle_id is not None:
            out.write_utf(self.state_handle_id)


@dataclass(frozen=True, slots=True)
class KeyGroupsSavepointStateHandle(_KeyGroupsInStream):
    """Key groups in one stream, in the format that all state backends share: the canonical savepoint."""

    type_byte: ClassVar[int] = 7

    @classmethod
    def read(cls, view: DataInputView, depth: int) -> KeyGroupsSavepointStateHandle:
        """Read offsets, delegate."""
        return cls(KeyGroupRangeOffsets.read(view), require_stream_handle(view, depth))


@redacted
@dataclass(frozen=True, slots=True)
class HandleAndLocalPath:
    """One file of a database: its name in the database folder, and its bytes."""

    local_path: str
    handle: StreamStateHandle


@dataclass(frozen=True, slots=True)
class IncrementalRemoteKeyedStateHandle(TwoVersions):
    """Files of a RocksDB or ForSt database; without id (type 5) it has no checkpointed size either."""

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
        """Return 11, or 5 without an id."""
        return 5 if self.state_handle_id is None else 11

    @classmethod
    def read(cls, view: DataInputView, depth: int, second: bool) -> Self:
        """Read type 5, or type 11 if ``second``."""
        return cls(
            checkpoint_id=view.read_i64("a checkpoint id"),
            backend_identifier=view.read_utf("the id of a state backend"),
            key_group_range=KeyGroupRange.read(view),
            checkpointed_size=read_size(view, "a checkpointed size") if second else UNKNOWN_SIZE,
            meta_state=require_stream_handle(view, depth),
            shared_state=_read_files(view, depth),
            private_state=_read_files(view, depth),
            state_handle_id=read_handle_id(view) if second else None,
        )

    def write(self, out: DataOutputView) -> None:
        """Write type 11, or type 5 without an id."""
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
        """Return the number of bytes of all files."""
        files = sum(file.handle.state_size for file in self.shared_state + self.private_state)
        return self.meta_state.state_size + files

    def intersection(self, key_groups: KeyGroupRange) -> IncrementalRemoteKeyedStateHandle:
        """Return the same files for fewer key groups; the reader of the database has to filter."""
        return replace(self, key_group_range=self.key_group_range.intersection(key_groups))


def _read_files(view: DataInputView, depth: int) -> tuple[HandleAndLocalPath, ...]:
    return tuple(
        HandleAndLocalPath(view.read_utf("the name of a database file"), require_stream_handle(view, depth))
        for _ in range(view.read_count("database files", each=3))
    )


def _write_files(files: tuple[HandleAndLocalPath, ...], out: DataOutputView) -> None:
    out.write_i32(len(files))
    for file in files:
        out.write_utf(file.local_path)
        write_stream_handle(file.handle, out)


@dataclass(frozen=True, slots=True)
class StateChange:
    """One change of a changelog; key group -1 marks a change of the states' metadata."""

    key_group: int
    change: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class InMemoryChangelogStateHandle:
    """Changes stored inline in ``_metadata``."""

    key_group_range: KeyGroupRange
    from_sequence_number: int
    to_sequence_number: int
    changes: tuple[StateChange, ...]
    state_handle_id: str
    type_byte: ClassVar[int] = 9

    @classmethod
    def read(cls, view: DataInputView, _depth: int) -> InMemoryChangelogStateHandle:
        """Read range, sequence numbers, changes, id."""
        key_groups = KeyGroupRange.read(view)
        numbers = view.read_i64("a sequence number"), view.read_i64("a sequence number")
        count = view.read_count("changes", each=8)
        changes = tuple(StateChange(view.read_i32("a key group"), view.read_blob("a change")) for _ in range(count))
        return cls(key_groups, *numbers, changes, read_handle_id(view))

    def write(self, out: DataOutputView) -> None:
        """Write range, sequence numbers, changes, id."""
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
        """Return the number of bytes of the changes."""
        return sum(len(change.change) for change in self.changes)

    def intersection(self, key_groups: KeyGroupRange) -> InMemoryChangelogStateHandle:
        """Return the same changes for fewer key groups; the reader of the changelog has to filter."""
        return replace(self, key_group_range=self.key_group_range.intersection(key_groups))


@dataclass(frozen=True, slots=True)
class StreamAndOffset:
    """One change set of a changelog file."""

    offset: int
    handle: StreamStateHandle


@dataclass(frozen=True, slots=True)
class ChangelogStateHandleStreamImpl(TwoVersions):
    """Change sets in files, to be replayed in order."""

    key_group_range: KeyGroupRange
    handles_and_offsets: tuple[StreamAndOffset, ...]
    size: int
    checkpointed_size: int
    state_handle_id: str
    storage_identifier: str | None

    @property
    def type_byte(self) -> int:
        """Return 13, or 10 without a storage identifier."""
        return 10 if self.storage_identifier is None else 13

    @classmethod
    def read(cls, view: DataInputView, depth: int, second: bool) -> Self:
        """Read type 10, or type 13 if ``second``."""
        key_groups = KeyGroupRange.read(view)
        streams = tuple(
            StreamAndOffset(view.read_i64("an offset"), require_stream_handle(view, depth))
            for _ in range(view.read_count("change sets", each=9))
        )
        return cls(
            key_groups,
            streams,
            read_size(view, "a size"),
            read_size(view, "a checkpointed size"),
            read_handle_id(view),
            view.read_utf("a storage identifier") if second else None,
        )

    def write(self, out: DataOutputView) -> None:
        """Write type 13, or type 10 without a storage identifier."""
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
        """Return the number of bytes, 0 if it was not recorded."""
        return max(self.size, 0)

    def intersection(self, key_groups: KeyGroupRange) -> ChangelogStateHandleStreamImpl:
        """Return the same change sets for fewer key groups; the reader of the changelog has to filter."""
        return replace(self, key_group_range=self.key_group_range.intersection(key_groups))


@dataclass(frozen=True, slots=True)
class ChangelogStateBackendHandle(TwoVersions):
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
        """Return 14, or 8 without a checkpoint id."""
        return 8 if self.checkpoint_id is None else 14

    @classmethod
    def read(cls, view: DataInputView, depth: int, second: bool) -> Self:
        """Read type 8, or type 14 if ``second``."""
        return cls(
            key_group_range=KeyGroupRange.read(view),
            checkpointed_size=read_size(view, "a checkpointed size"),
            materialized=_read_keyed_handles(view, depth),
            non_materialized=_read_keyed_handles(view, depth),
            materialization_id=view.read_i64("a materialization id"),
            checkpoint_id=view.read_i64("a checkpoint id") if second else None,
            state_handle_id=read_handle_id(view),
        )

    def write(self, out: DataOutputView) -> None:
        """Write type 14, or type 8 without a checkpoint id."""
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
        """Return the number of bytes, materialized and not."""
        return sum(handle.state_size for handle in self.materialized + self.non_materialized)

    def intersection(self, key_groups: KeyGroupRange) -> ChangelogStateBackendHandle:
        """Return every part restricted to these key groups; parts without any of them are dropped."""
        return replace(
            self,
            key_group_range=self.key_group_range.intersection(key_groups),
            materialized=intersect_handles(self.materialized, key_groups),
            non_materialized=intersect_handles(self.non_materialized, key_groups),
        )


KeyedStateHandle = (
    KeyGroupsStateHandle
    | KeyGroupsSavepointStateHandle
    | IncrementalRemoteKeyedStateHandle
    | ChangelogStateBackendHandle
    | InMemoryChangelogStateHandle
    | ChangelogStateHandleStreamImpl
)


def read_keyed_handle(view: DataInputView, depth: int = 0) -> KeyedStateHandle | None:
    """Read a type byte and the handle of that type; None for type 0."""
    return dispatch(view, KEYED_HANDLES, "a keyed state handle", depth)


def write_keyed_handle(handle: KeyedStateHandle | None, out: DataOutputView) -> None:
    """Write a type byte and the handle."""
    out.write_u8(NULL_HANDLE if handle is None else handle.type_byte)
    if handle is not None:
        handle.write(out)


def intersect_handles(handles: tuple[KeyedStateHandle, ...], key_groups: KeyGroupRange) -> tuple[KeyedStateHandle, ...]:
    """Return the handles that have any of these key groups, each restricted to them."""
    return tuple(
        handle.intersection(key_groups) for handle in handles if handle.key_group_range.intersection(key_groups)
    )


def _read_keyed_handles(view: DataInputView, depth: int) -> tuple[KeyedStateHandle, ...]:
    return tuple(
        read_keyed_handle(view, depth + 1) or absent(view, "a keyed state handle")
        for _ in range(view.read_count("keyed state handles", each=10))
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
