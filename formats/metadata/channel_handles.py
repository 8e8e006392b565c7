"""Channel state handles: records that were in flight, of unaligned checkpoints.

::

    to metadata version 5    ChannelHandle := Single
    from version 6 on        ChannelHandle := u8 type  1 input Single  2 output Single  3 input Merged  4 output Merged
    Single := i32 subtaskIndex  i32 a  i32 b  i32 k  i64 offset[k]  i64 size  StreamHandle
    Merged := i32 subtaskIndex  i64 size  StreamHandle  blob offsets

For input a, b are gate and channel index; for output partition and subpartition index. Flink:
``InputChannelStateHandle``, ``ResultSubpartitionStateHandle`` and their merged forms;
``ChannelStateHandleSerializerV1`` and ``V2``. The direction is not in the class here: it is the list that a handle
stands in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.metadata.key_groups import read_longs, write_longs
from pyspark_savepoint.formats.metadata.stream_handles import (
    StreamStateHandle,
    read_size,
    require_stream_handle,
    write_stream_handle,
)

INPUT, OUTPUT = 1, 2  # the type byte of a single handle; a merged one has 2 more
MERGED = 2


@dataclass(frozen=True, slots=True)
class ChannelStateHandle:
    """The buffers of one input channel or one result subpartition."""

    subtask_index: int
    channel_info: tuple[int, int]
    offsets: tuple[int, ...]
    state_size: int
    delegate: StreamStateHandle
    type_offset: ClassVar[int] = 0

    @classmethod
    def read(cls, view: DataInputView) -> ChannelStateHandle:
        """Subtask, indices, offsets, size, delegate."""
        subtask = view.read_i32("a subtask index")
        info = view.read_i32("a gate or partition index"), view.read_i32("a channel index")
        count = view.read_count("buffers", each=8)
        offsets = read_longs(view, count, "offsets of buffers")
        return cls(subtask, info, offsets, read_size(view, "a size"), require_stream_handle(view))

    def write(self, out: DataOutputView) -> None:
        """Subtask, indices, offsets, size, delegate."""
        out.write_i32(self.subtask_index)
        out.write_i32(self.channel_info[0])
        out.write_i32(self.channel_info[1])
        out.write_i32(len(self.offsets))
        write_longs(out, self.offsets)
        out.write_i64(self.state_size)
        write_stream_handle(self.delegate, out)


@dataclass(frozen=True, slots=True)
class MergedChannelStateHandle:
    """The buffers of all channels of one subtask; the offsets stay as they are written."""

    subtask_index: int
    state_size: int
    delegate: StreamStateHandle
    serialized_channel_offsets: bytes = field(repr=False)
    type_offset: ClassVar[int] = MERGED

    @classmethod
    def read(cls, view: DataInputView) -> MergedChannelStateHandle:
        """Subtask, size, delegate, offsets."""
        subtask, size = view.read_i32("a subtask index"), read_size(view, "a size")
        return cls(subtask, size, require_stream_handle(view), view.read_blob("offsets of buffers"))

    def write(self, out: DataOutputView) -> None:
        """Subtask, size, delegate, offsets."""
        out.write_i32(self.subtask_index)
        out.write_i64(self.state_size)
        write_stream_handle(self.delegate, out)
        out.write_blob(self.serialized_channel_offsets)


AnyChannelStateHandle = ChannelStateHandle | MergedChannelStateHandle


def read_channel_handles(view: DataInputView, direction: int, typed: bool) -> tuple[AnyChannelStateHandle, ...]:
    """The handles of one direction; ``typed`` from metadata version 6 on."""
    count = view.read_count("channel state handles", each=18 if typed else 25)
    return tuple(_read_typed(view, direction) if typed else ChannelStateHandle.read(view) for _ in range(count))


def _read_typed(view: DataInputView, direction: int) -> AnyChannelStateHandle:
    type_byte = view.read_u8("the type of a channel state handle")
    if type_byte not in (direction, direction + MERGED):
        view.position -= 1
        view.fail(f"a channel state handle of type {direction} or {direction + MERGED}", type_byte)
    return (ChannelStateHandle if type_byte == direction else MergedChannelStateHandle).read(view)


def write_channel_handles(
    handles: tuple[AnyChannelStateHandle, ...], direction: int, typed: bool, out: DataOutputView
) -> None:
    """The handles of one direction; a merged handle needs metadata version 6."""
    out.write_i32(len(handles))
    for handle in handles:
        if typed:
            out.write_u8(direction + handle.type_offset)
        elif isinstance(handle, MergedChannelStateHandle):
            raise ValueError("merged channel state handles exist from metadata version 6 on")
        handle.write(out)
