"""Keyed state handles of changes: in ``_metadata`` itself (type 9), and in files (types 10 and 13).

The layout of each is in ``keyed_handles``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange
from pyspark_savepoint.formats.metadata.stream_handles import (
    StreamStateHandle,
    TwoVersions,
    read_handle_id,
    read_size,
    require_stream_handle,
    write_stream_handle,
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
        return cls(key_groups, *numbers, changes, read_handle_id(view))

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
        """13, or 10 without a storage identifier."""
        return 10 if self.storage_identifier is None else 13

    @classmethod
    def read(cls, view: DataInputView, depth: int, second: bool) -> Self:
        """The second type says more."""
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
