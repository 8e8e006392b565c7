"""Keyed state handles: which key groups are where, and in which form; all of them, and those made of others.

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

Types 3, 12 and 7 are in ``key_groups_handles``, 5 and 11 in ``incremental_handles``, 9, 10 and 13 in
``changelog_handles``, those made of others here. Only type 7 tells the form of its stream: the one that all state
backends share. Flink's classes have the same names; the layout is that of
``MetadataV2V3SerializerBase#serializeKeyedStateHandle``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Self

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.metadata.changelog_handles import (
    ChangelogStateHandleStreamImpl,
    InMemoryChangelogStateHandle,
)
from pyspark_savepoint.formats.metadata.incremental_handles import IncrementalRemoteKeyedStateHandle
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange
from pyspark_savepoint.formats.metadata.key_groups_handles import KeyGroupsSavepointStateHandle, KeyGroupsStateHandle
from pyspark_savepoint.formats.metadata.stream_handles import (
    NULL_HANDLE,
    TwoVersions,
    absent,
    dispatch,
    read_handle_id,
    read_size,
)


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
        """14, or 8 without a checkpoint id."""
        return 8 if self.checkpoint_id is None else 14

    @classmethod
    def read(cls, view: DataInputView, depth: int, second: bool) -> Self:
        """The second type says more."""
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
    return dispatch(view, KEYED_HANDLES, "a keyed state handle", depth)


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
