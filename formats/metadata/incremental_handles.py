"""Keyed state handles of databases: the files of an incremental checkpoint (types 5 and 11).

The layout is in ``keyed_handles``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange
from pyspark_savepoint.formats.metadata.stream_handles import (
    UNKNOWN_SIZE,
    StreamStateHandle,
    TwoVersions,
    read_handle_id,
    read_size,
    require_stream_handle,
    write_stream_handle,
)


@dataclass(frozen=True, slots=True)
class HandleAndLocalPath:
    """One file of a database: the name that it must have there, and its bytes."""

    local_path: str
    handle: StreamStateHandle


@dataclass(frozen=True, slots=True)
class IncrementalRemoteKeyedStateHandle(TwoVersions):
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
    def read(cls, view: DataInputView, depth: int, second: bool) -> Self:
        """The second type says more."""
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
