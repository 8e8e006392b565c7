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

from dataclasses import replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np

from pyspark_savepoint.formats.columns import Longs
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.encodings import (
    BLOB,
    BOOL,
    I32,
    LONGS,
    U8,
    UTF,
    Encoding,
    by_version,
    codes,
    distinct,
    many,
    pair,
)
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.metadata.stream_handles import (
    SIZE,
    STREAM_HANDLE,
    EmptySegmentFileStateHandle,
    SegmentFileStateHandle,
    StreamStateHandle,
)
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.structs import OneOf, Struct, of, part, struct, struct_with_dict


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


@struct_with_dict
class StateMetaInfo(Struct):
    """One operator state in a stream, with the offset of each of its elements, of which there may be a million."""

    name: str = part(UTF, "the name of an operator state")
    mode: Mode = part(codes(Mode, U8), "a distribution mode")
    offsets: tuple[int, ...] = part(LONGS, "elements")

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out what was computed."""
        return StateMetaInfo, (self.name, self.mode, self.offsets)

    @cached_property
    def places(self) -> Longs:
        """The offsets as an array, which is only read."""
        places = np.array(self.offsets, np.int64)
        places.flags.writeable = False
        return places


STATES = distinct(many(of(StateMetaInfo)), lambda state: state.name, "each operator state once")


@struct
class OperatorStreamStateHandle(Struct):
    """List, union and broadcast states of one subtask in one stream."""

    types = (4,)
    states: tuple[StateMetaInfo, ...] = part(STATES, "operator states")
    delegate: StreamStateHandle = part(STREAM_HANDLE)

    @property
    def state_size(self) -> int:
        """Return the number of bytes."""
        return self.delegate.state_size


SEGMENT: OneOf[SegmentFileStateHandle | EmptySegmentFileStateHandle] = OneOf(
    "a segment of a merged file", lambda: (SegmentFileStateHandle, EmptySegmentFileStateHandle)
)


@redacted
@struct
class FileMergingOperatorStreamStateHandle(Struct):
    """Operator states of one subtask in a merged file, with the folders that the job manager has to keep."""

    types = (17,)
    states: tuple[StateMetaInfo, ...] = part(STATES, "operator states")
    task_owned_dir: str = part(UTF, "a folder")
    shared_dir: str = part(UTF, "a folder")
    is_empty: bool = part(BOOL, "whether the state is empty")
    delegate: SegmentFileStateHandle | EmptySegmentFileStateHandle = part(SEGMENT)

    @property
    def state_size(self) -> int:
        """Return the number of bytes."""
        return self.delegate.state_size


OperatorStateHandle = OperatorStreamStateHandle | FileMergingOperatorStreamStateHandle
OPERATOR_HANDLE: OneOf[OperatorStateHandle] = OneOf(
    "an operator state handle", lambda: (OperatorStreamStateHandle, FileMergingOperatorStreamStateHandle)
)


INPUT, OUTPUT = 1, 2  # the type byte of a single handle; that of a merged one is greater by 2
MERGED = 2
#: The version of single handles of Flink 1.11, and the next one. Later, type bytes are the versions.
WITHOUT_SUBTASK, WITH_SUBTASK = 0, 1


#: A gate and channel of it, or a partition and subpartition of it.
CHANNEL = pair(I32, "a gate or partition index", I32, "a channel index")


@struct
class ChannelStateHandle(Struct):
    """Buffers of one input channel or one result subpartition; Flink 1.11 wrote no subtask (``has_subtask``)."""

    subtask_index: int = part(I32, "a subtask index", since=WITH_SUBTASK, absent=-1, droppable=True)
    channel_info: tuple[int, int] = part(CHANNEL)
    offsets: tuple[int, ...] = part(LONGS, "buffers")
    state_size: int = part(SIZE, "a size")
    delegate: StreamStateHandle = part(STREAM_HANDLE)
    has_subtask: bool = True


@struct
class MergedChannelStateHandle(Struct):
    """Buffers of all channels of one subtask; the offsets are kept in serialized form."""

    subtask_index: int = part(I32, "a subtask index")
    state_size: int = part(SIZE, "a size")
    delegate: StreamStateHandle = part(STREAM_HANDLE)
    serialized_channel_offsets: bytes = part(BLOB, "offsets of buffers", shown=False)


AnyChannelStateHandle = ChannelStateHandle | MergedChannelStateHandle
AnyChannelStateHandles = tuple[AnyChannelStateHandle, ...]
_FIRST, _SECOND = of(ChannelStateHandle).at(WITHOUT_SUBTASK), of(ChannelStateHandle).at(WITH_SUBTASK)


def _read_single(view: DataInputView, what: str) -> AnyChannelStateHandles:
    """Read handles without type.

    Metadata of 1.11 has the version of 1.12 to 1.15, but no subtasks in its handles: if reading them with subtasks
    fails, they are read without.
    """
    count = view.read_count(what, each=_FIRST.least)
    start, depth = view.position, view.depth
    try:
        return tuple(_SECOND.read(view, "") for _ in range(count))
    except CorruptStateError as error:
        end = view.position
        view.position, view.depth = start, depth
        try:
            return tuple(replace(_FIRST.read(view, ""), has_subtask=False) for _ in range(count))
        except CorruptStateError:
            view.position = end
            raise error from None


def _write_single(out: DataOutputView, handles: AnyChannelStateHandles) -> None:
    out.write_i32(len(handles))
    for handle in handles:
        if isinstance(handle, MergedChannelStateHandle):
            raise ValueError("merged channel state handles exist from metadata version 6 on")
        (_SECOND if handle.has_subtask else _FIRST).write(out, handle)


_SINGLE: Encoding[AnyChannelStateHandles] = Encoding(_read_single, _write_single, 4, ((), 4))


def _channel_handles(direction: int) -> Encoding[AnyChannelStateHandles]:
    """Return the encoding of the handles of one direction by version of the metadata: from 6 on, they have types."""
    typed: OneOf[AnyChannelStateHandle] = OneOf(
        "a channel state handle",
        lambda: {direction: ChannelStateHandle, direction + MERGED: MergedChannelStateHandle},
        "the type of a channel state handle",
        has_none=False,
    )
    return by_version({3: _SINGLE, 6: many(typed)})


INPUT_CHANNELS, OUTPUT_CHANNELS = _channel_handles(INPUT), _channel_handles(OUTPUT)
