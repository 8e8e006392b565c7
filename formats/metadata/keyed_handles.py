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

from dataclasses import replace
from typing import Self

from pyspark_savepoint.formats.encodings import BLOB, I32, I64, UTF, many
from pyspark_savepoint.formats.metadata.key_groups import OFFSETS, RANGE, KeyGroupRange, KeyGroupRangeOffsets
from pyspark_savepoint.formats.metadata.stream_handles import SIZE, STREAM_HANDLE, UNKNOWN_SIZE, StreamStateHandle
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.structs import OneOf, Struct, of, part, struct

HANDLE_ID = "the id of a state handle"


@struct
class _KeyGroupsInStream(Struct):
    """Locations of key groups in one stream."""

    offsets: KeyGroupRangeOffsets = part(OFFSETS)
    delegate: StreamStateHandle = part(STREAM_HANDLE)

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


@struct
class KeyGroupsStateHandle(_KeyGroupsInStream):
    """Key groups in one stream, in the state backend's own format; releases up to 1.14 write no id."""

    types = (3, 12)
    state_handle_id: str | None = part(UTF, HANDLE_ID, since=12)


@struct
class KeyGroupsSavepointStateHandle(_KeyGroupsInStream):
    """Key groups in one stream, in the format that all state backends share: the canonical savepoint."""

    types = (7,)


class _OfKeyGroups(Struct):
    """A handle whose files or changes may have other key groups: whoever reads them has to filter."""

    __slots__ = ()
    key_group_range: KeyGroupRange

    def intersection(self, key_groups: KeyGroupRange) -> Self:
        """Return the same files or changes for fewer key groups."""
        return replace(self, key_group_range=self.key_group_range.intersection(key_groups))


@redacted
@struct
class HandleAndLocalPath(Struct):
    """One file of a database: its name in the database folder, and its bytes."""

    local_path: str = part(UTF, "the name of a database file")
    handle: StreamStateHandle = part(STREAM_HANDLE)


@struct
class IncrementalRemoteKeyedStateHandle(_OfKeyGroups):
    """Files of a RocksDB or ForSt database; without id (type 5) it has no checkpointed size either."""

    types = (5, 11)
    checkpoint_id: int = part(I64, "a checkpoint id")
    backend_identifier: str = part(UTF, "the id of a state backend")
    key_group_range: KeyGroupRange = part(RANGE)
    checkpointed_size: int = part(SIZE, "a checkpointed size", since=11, absent=UNKNOWN_SIZE)
    meta_state: StreamStateHandle = part(STREAM_HANDLE)
    shared_state: tuple[HandleAndLocalPath, ...] = part(many(of(HandleAndLocalPath)), "database files")
    private_state: tuple[HandleAndLocalPath, ...] = part(many(of(HandleAndLocalPath)), "database files")
    state_handle_id: str | None = part(UTF, HANDLE_ID, since=11)

    @property
    def state_size(self) -> int:
        """Return the number of bytes of all files."""
        files = sum(file.handle.state_size for file in self.shared_state + self.private_state)
        return self.meta_state.state_size + files


@struct
class StateChange(Struct):
    """One change of a changelog; key group -1 marks a change of the states' metadata."""

    key_group: int = part(I32, "a key group")
    change: bytes = part(BLOB, "a change", shown=False)


@struct
class InMemoryChangelogStateHandle(_OfKeyGroups):
    """Changes stored inline in ``_metadata``."""

    types = (9,)
    key_group_range: KeyGroupRange = part(RANGE)
    from_sequence_number: int = part(I64, "a sequence number")
    to_sequence_number: int = part(I64, "a sequence number")
    changes: tuple[StateChange, ...] = part(many(of(StateChange)), "changes")
    state_handle_id: str = part(UTF, HANDLE_ID)

    @property
    def state_size(self) -> int:
        """Return the number of bytes of the changes."""
        return sum(len(change.change) for change in self.changes)


@struct
class StreamAndOffset(Struct):
    """One change set of a changelog file."""

    offset: int = part(I64, "an offset")
    handle: StreamStateHandle = part(STREAM_HANDLE)


@struct
class ChangelogStateHandleStreamImpl(_OfKeyGroups):
    """Change sets in files, to be replayed in order."""

    types = (10, 13)
    key_group_range: KeyGroupRange = part(RANGE)
    handles_and_offsets: tuple[StreamAndOffset, ...] = part(many(of(StreamAndOffset)), "change sets")
    size: int = part(SIZE, "a size")
    checkpointed_size: int = part(SIZE, "a checkpointed size")
    state_handle_id: str = part(UTF, HANDLE_ID)
    storage_identifier: str | None = part(UTF, "a storage identifier", since=13)

    @property
    def state_size(self) -> int:
        """Return the number of bytes, 0 if it was not recorded."""
        return max(self.size, 0)


KEYED_HANDLE: OneOf[KeyedStateHandle] = OneOf(
    "a keyed state handle",
    lambda: (
        KeyGroupsStateHandle,
        KeyGroupsSavepointStateHandle,
        IncrementalRemoteKeyedStateHandle,
        ChangelogStateBackendHandle,
        InMemoryChangelogStateHandle,
        ChangelogStateHandleStreamImpl,
    ),
)


@struct
class ChangelogStateBackendHandle(Struct):
    """A materialized state and the changes since then, to be applied in order."""

    types = (8, 14)
    key_group_range: KeyGroupRange = part(RANGE)
    checkpointed_size: int = part(SIZE, "a checkpointed size")
    materialized: tuple[KeyedStateHandle, ...] = part(many(KEYED_HANDLE), "keyed state handles")
    non_materialized: tuple[KeyedStateHandle, ...] = part(many(KEYED_HANDLE), "keyed state handles")
    materialization_id: int = part(I64, "a materialization id")
    checkpoint_id: int | None = part(I64, "a checkpoint id", since=14)
    state_handle_id: str = part(UTF, HANDLE_ID)

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


def intersect_handles(handles: tuple[KeyedStateHandle, ...], key_groups: KeyGroupRange) -> tuple[KeyedStateHandle, ...]:
    """Return the handles that have any of these key groups, each restricted to them."""
    return tuple(
        handle.intersection(key_groups) for handle in handles if handle.key_group_range.intersection(key_groups)
    )


def has_database(handle: KeyedStateHandle | None) -> bool:
    """Return whether keyed state is in files of a database, which have checksums of their own."""
    if isinstance(handle, ChangelogStateBackendHandle):
        return any(map(has_database, handle.materialized))
    return isinstance(handle, IncrementalRemoteKeyedStateHandle)
