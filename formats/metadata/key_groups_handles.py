"""Keyed state handles of one stream: types 3 and 12 in a backend's own format, type 7 in the one that all share.

The layout of each is in ``keyed_handles``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, KeyGroupRangeOffsets
from pyspark_savepoint.formats.metadata.stream_handles import (
    StreamStateHandle,
    read_handle_id,
    require_stream_handle,
    write_stream_handle,
)


@dataclass(frozen=True, slots=True)
class _KeyGroupsInStream:
    """Where the key groups of a stream are."""

    offsets: KeyGroupRangeOffsets
    delegate: StreamStateHandle

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

    def intersection(self, key_groups: KeyGroupRange) -> Self:
        """The same stream with the offsets of these key groups only."""
        return replace(self, offsets=self.offsets.intersection(key_groups))


@dataclass(frozen=True, slots=True)
class KeyGroupsStateHandle(_KeyGroupsInStream):
    """Key groups in one stream, in the state backend's own format; written by releases up to 1.14 without id."""

    state_handle_id: str | None

    @property
    def type_byte(self) -> int:
        """12, or 3 without an id."""
        return 3 if self.state_handle_id is None else 12

    @classmethod
    def read_v1(cls, view: DataInputView, depth: int) -> KeyGroupsStateHandle:
        """Offsets, delegate."""
        return cls(KeyGroupRangeOffsets.read(view), require_stream_handle(view, depth), None)

    @classmethod
    def read_v2(cls, view: DataInputView, depth: int) -> KeyGroupsStateHandle:
        """Offsets, delegate, id."""
        offsets, delegate = KeyGroupRangeOffsets.read(view), require_stream_handle(view, depth)
        return cls(offsets, delegate, read_handle_id(view))

    def write(self, out: DataOutputView) -> None:
        """Offsets, delegate, id when there is one."""
        _KeyGroupsInStream.write(self, out)
        if self.state_handle_id is not None:
            out.write_utf(self.state_handle_id)


@dataclass(frozen=True, slots=True)
class KeyGroupsSavepointStateHandle(_KeyGroupsInStream):
    """Key groups in one stream, in the format that all state backends share: the canonical savepoint."""

    type_byte: ClassVar[int] = 7

    @classmethod
    def read(cls, view: DataInputView, depth: int) -> KeyGroupsSavepointStateHandle:
        """Offsets, delegate."""
        return cls(KeyGroupRangeOffsets.read(view), require_stream_handle(view, depth))
