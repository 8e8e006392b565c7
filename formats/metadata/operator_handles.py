"""Handles of operator state (element offsets per state) and of channel state (records in flight).

::

    OpHandle := u8 type ...
         0  none
         4  OperatorStream   States  StreamHandle
        17  file merging     States  utf taskOwnedDir  utf sharedDir  bool isEmpty  StreamHandle (15, 16)   1.20 on
    States   := i32 n {utf name  u8 mode  i32 k  i64 offset[k]}[n]

Flink's classes have the same names (in ``OperatorStateHandle.StateMetaInfo``, the name is the key of a map); the layout
is that of ``MetadataV2V3SerializerBase#serializeOperatorStateHandle``.

Unaligned checkpoints have channel state:

::

    to metadata version 5    ChannelHandle := Single
    from version 6 on        ChannelHandle := u8 type  1 input Single  2 output Single  3 input Merged  4 output Merged
    Single := i32 subtaskIndex  i32 a  i32 b  i32 k  i64 offset[k]  i64 size  StreamHandle    1.11: no subtaskIndex
    Merged := i32 subtaskIndex  i64 size  StreamHandle  blob offsets

For input, a and b are gate and channel index; for output, partition and subpartition index. Flink:
``InputChannelStateHandle``, ``ResultSubpartitionStateHandle`` and their merged forms;
``ChannelStateHandleSerializerV1`` and ``V2``. Here, the class of a handle does not determine the direction: the list
that contains the handle does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import ClassVar

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.metadata.key_groups import read_longs, write_longs
from pyspark_savepoint.formats.metadata.stream_handles import (
    NULL_HANDLE,
    EmptySegmentFileStateHandle,
    SegmentFileStateHandle,
    StreamStateHandle,
    dispatch,
    read_size,
    require_stream_handle,
    write_stream_handle,
)
from pyspark_savepoint.formats.redaction import redacted


class Mode(IntEnum):
    """Redistribution of an operator state to the subtasks on restore. Flink: ``OperatorStateHandle.Mode``.

    Handles store the numbers, headers of streams the names.
    """

    SPLIT_DISTRIBUTE = 0
    UNION = 1
    BROADCAST = 2

    @property
    def state_type(self) -> str:
        """LIST, UNION or BROADCAST, as this package names the types of operator state."""
        return "LIST" if self is Mode.SPLIT_DISTRIBUTE else self.name

    @classmethod
    def of(cls, state_type: str) -> Mode:
        """Return the mode of LIST, UNION or BROADCAST state."""
        return cls.SPLIT_DISTRIBUTE if state_type == "LIST" else cls[state_type]


@dataclass(frozen=True, slots=True)
class StateMetaInfo:
    """One operator state in a stream, with the offset of each of its elements."""

    name: str
    mode: Mode
    offsets: tuple[int, ...]

    @classmethod
    def read(cls, view: DataInputView) -> StateMetaInfo:
        """Read name, mode, offsets."""
        name, mode = view.read_utf("the name of an operator state"), view.read_u8("a distribution mode")
        if mode >= len(Mode):
            view.fail("a distribution mode 0, 1 or 2", mode)
        count = view.read_count("elements", each=8)
        return cls(name, Mode(mode), read_longs(view, count, "offsets of elements"))

    def write(self, out: DataOutputView) -> None:
        """Write name, mode, offsets."""
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
        """Read states, delegate."""
        return cls(_read_states(view), require_stream_handle(view, depth))

    def write(self, out: DataOutputView) -> None:
        """Write states, delegate."""
        _write_states(self.states, out)
        write_stream_handle(self.delegate, out)

    @property
    def state_size(self) -> int:
        """Return the number of bytes."""
        return self.delegate.state_size


@redacted
@dataclass(frozen=True, slots=True)
class FileMergingOperatorStreamStateHandle:
    """Operator states of one subtask in a merged file, with the folders that the job manager has to keep."""

    states: tuple[StateMetaInfo, ...]
    task_owned_dir: str
    shared_dir: str
    is_empty: bool
    delegate: SegmentFileStateHandle | EmptySegmentFileStateHandle
    type_byte: ClassVar[int] = 17

    @classmethod
    def read(cls, view: DataInputView, depth: int) -> FileMergingOperatorStreamStateHandle:
        """Read states, folders, delegate."""
        states = _read_states(view)
        task_owned, shared = view.read_utf("a folder"), view.read_utf("a folder")
        is_empty = view.read_bool("whether the state is empty")
        delegate = require_stream_handle(view, depth)
        if not isinstance(delegate, SegmentFileStateHandle | EmptySegmentFileStateHandle):
            view.fail("a segment of a merged file", type(delegate).__name__)
        return cls(states, task_owned, shared, is_empty, delegate)

    def write(self, out: DataOutputView) -> None:
        """Write states, folders, delegate."""
        _write_states(self.states, out)
        out.write_utf(self.task_owned_dir)
        out.write_utf(self.shared_dir)
        out.write_bool(self.is_empty)
        write_stream_handle(self.delegate, out)

    @property
    def state_size(self) -> int:
        """Return the number of bytes."""
        return self.delegate.state_size


OperatorStateHandle = OperatorStreamStateHandle | FileMergingOperatorStreamStateHandle


def read_operator_handle(view: DataInputView) -> OperatorStateHandle | None:
    """Read a type byte and the handle of that type; None for type 0."""
    return dispatch(view, OPERATOR_HANDLES, "an operator state handle", 0)


def write_operator_handle(handle: OperatorStateHandle | None, out: DataOutputView) -> None:
    """Write a type byte and the handle."""
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


OPERATOR_HANDLES: Mapping[int, Callable[[DataInputView, int], OperatorStateHandle]] = MappingProxyType(
    {4: OperatorStreamStateHandle.read, 17: FileMergingOperatorStreamStateHandle.read}
)


INPUT, OUTPUT = 1, 2  # the type byte of a single handle; that of a merged one is greater by 2
MERGED = 2


@dataclass(frozen=True, slots=True)
class ChannelStateHandle:
    """Buffers of one input channel or one result subpartition; Flink 1.11 wrote no subtask (``has_subtask``)."""

    subtask_index: int
    channel_info: tuple[int, int]
    offsets: tuple[int, ...]
    state_size: int
    delegate: StreamStateHandle
    has_subtask: bool = True
    type_offset: ClassVar[int] = 0

    @classmethod
    def read(cls, view: DataInputView, owner: int | None = None) -> ChannelStateHandle:
        """Read subtask, indices, offsets, size, delegate; that of 1.11 if ``owner``, the subtask, is given."""
        subtask = view.read_i32("a subtask index") if owner is None else owner
        info = view.read_i32("a gate or partition index"), view.read_i32("a channel index")
        count = view.read_count("buffers", each=8)
        offsets = read_longs(view, count, "offsets of buffers")
        return cls(subtask, info, offsets, read_size(view, "a size"), require_stream_handle(view), owner is None)

    def write(self, out: DataOutputView) -> None:
        """Write subtask, indices, offsets, size, delegate."""
        if self.has_subtask:
            out.write_i32(self.subtask_index)
        out.write_i32(self.channel_info[0])
        out.write_i32(self.channel_info[1])
        out.write_i32(len(self.offsets))
        write_longs(out, self.offsets)
        out.write_i64(self.state_size)
        write_stream_handle(self.delegate, out)


@dataclass(frozen=True, slots=True)
class MergedChannelStateHandle:
    """Buffers of all channels of one subtask; the offsets are kept in serialized form."""

    subtask_index: int
    state_size: int
    delegate: StreamStateHandle
    serialized_channel_offsets: bytes = field(repr=False)
    type_offset: ClassVar[int] = MERGED

    @classmethod
    def read(cls, view: DataInputView) -> MergedChannelStateHandle:
        """Read subtask, size, delegate, offsets."""
        subtask, size = view.read_i32("a subtask index"), read_size(view, "a size")
        return cls(subtask, size, require_stream_handle(view), view.read_blob("offsets of buffers"))

    def write(self, out: DataOutputView) -> None:
        """Write subtask, size, delegate, offsets."""
        out.write_i32(self.subtask_index)
        out.write_i64(self.state_size)
        write_stream_handle(self.delegate, out)
        out.write_blob(self.serialized_channel_offsets)


AnyChannelStateHandle = ChannelStateHandle | MergedChannelStateHandle


def read_channel_handles(
    view: DataInputView, direction: int, typed: bool, owner: int
) -> tuple[AnyChannelStateHandle, ...]:
    """Read the handles of one direction of subtask ``owner``; they are ``typed`` from metadata version 6 on.

    Metadata of 1.11 has the version of 1.12 to 1.15, but no subtasks in its handles: if reading them with subtasks
    fails, they are read without.
    """
    count = view.read_count("channel state handles", each=18 if typed else 21)
    if typed:
        return tuple(_read_typed(view, direction) for _ in range(count))
    start = view.position
    try:
        return tuple(ChannelStateHandle.read(view) for _ in range(count))
    except CorruptStateError as error:
        end = view.position
        view.position = start
        try:
            return tuple(ChannelStateHandle.read(view, owner) for _ in range(count))
        except CorruptStateError:
            view.position = end
            raise error from None


def _read_typed(view: DataInputView, direction: int) -> AnyChannelStateHandle:
    type_byte = view.read_u8("the type of a channel state handle")
    if type_byte not in (direction, direction + MERGED):
        view.position -= 1
        view.fail(f"a channel state handle of type {direction} or {direction + MERGED}", type_byte)
    return (ChannelStateHandle if type_byte == direction else MergedChannelStateHandle).read(view)


def write_channel_handles(
    handles: tuple[AnyChannelStateHandle, ...], direction: int, typed: bool, out: DataOutputView
) -> None:
    """Write the handles of one direction; a merged handle needs metadata version 6."""
    out.write_i32(len(handles))
    for handle in handles:
        if typed:
            out.write_u8(direction + handle.type_offset)
        elif isinstance(handle, MergedChannelStateHandle):
            raise ValueError("merged channel state handles exist from metadata version 6 on")
        handle.write(out)
