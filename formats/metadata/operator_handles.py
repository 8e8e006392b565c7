"""Operator state handles: where each element of the list, union and broadcast states is.

::

    OpHandle := u8 type ...
         0  none
         4  OperatorStream   States  StreamHandle
        17  file merging     States  utf taskOwnedDir  utf sharedDir  bool isEmpty  StreamHandle (15, 16)   1.20 on
    States   := i32 n {utf name  u8 mode  i32 k  i64 offset[k]}[n]

Flink's classes have the same names (``OperatorStateHandle.StateMetaInfo`` has the name as a map's key); the layout
is that of ``MetadataV2V3SerializerBase#serializeOperatorStateHandle``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import ClassVar

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.metadata.key_groups import read_longs, write_longs
from pyspark_savepoint.formats.metadata.stream_handles import (
    NULL_HANDLE,
    EmptySegmentFileStateHandle,
    SegmentFileStateHandle,
    StreamStateHandle,
    dispatch,
    require_stream_handle,
    write_stream_handle,
)


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
        return cls(_read_states(view), require_stream_handle(view, depth))

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
        delegate = require_stream_handle(view, depth)
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
    return dispatch(view, OPERATOR_HANDLES, "an operator state handle", 0)


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


OPERATOR_HANDLES: Mapping[int, Callable[[DataInputView, int], OperatorStateHandle]] = MappingProxyType(
    {4: OperatorStreamStateHandle.read, 17: FileMergingOperatorStreamStateHandle.read}
)
