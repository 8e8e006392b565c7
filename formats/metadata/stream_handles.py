"""Stream handles: the locations of bytes in ``_metadata``.

::

    StreamHandle := u8 type ...
         0  none
         1  ByteStream     utf name  blob data                  inline in ``_metadata``
         2  File           i64 size  utf path                   absolute
         3  KeyGroups      i32 start  i32 n  i64 offset[n]  StreamHandle      nested by old releases
         6  RelativeFile   utf path  i64 size                   below the snapshot's folder
        15  SegmentFile    i64 start  i64 size  i32 scope  utf path  utf logicalFileId      Flink 1.20 on
        16  EmptySegment   -

Note that size and path have a different order in 2 and 6. Flink's classes have the same names; the layout is that of
``MetadataV2V3SerializerBase#serializeStreamStateHandle``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import ClassVar, NoReturn, Self, TypeVar

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRangeOffsets
from pyspark_savepoint.formats.redaction import redacted

NULL_HANDLE = 0
# Flink nests at most three (a changelog of a key-groups handle of a stream); more could overflow the stack.
MAX_DEPTH = 16
UNKNOWN_SIZE = -1

_Handle = TypeVar("_Handle")


@dataclass(frozen=True, slots=True)
class ByteStreamStateHandle:
    """Bytes stored inline in ``_metadata``; the name is the one that a file would have had."""

    handle_name: str
    data: bytes = field(repr=False)
    type_byte: ClassVar[int] = 1

    @classmethod
    def read(cls, view: DataInputView, _depth: int) -> ByteStreamStateHandle:
        """Read the name, then the bytes."""
        return cls(view.read_utf("the name of inline state"), view.read_blob("inline state"))

    def write(self, out: DataOutputView) -> None:
        """Write the name, then the bytes."""
        out.write_utf(self.handle_name)
        out.write_blob(self.data)

    @property
    def state_size(self) -> int:
        """Return the number of bytes."""
        return len(self.data)


@redacted
@dataclass(frozen=True, slots=True)
class FileStateHandle:
    """A file with an absolute path; size before path."""

    path: str
    size: int
    type_byte: ClassVar[int] = 2

    @classmethod
    def read(cls, view: DataInputView, _depth: int) -> FileStateHandle:
        """Read size, then path."""
        size = read_size(view, "the size of a file")
        return cls(view.read_utf("the path of a file"), size)

    def write(self, out: DataOutputView) -> None:
        """Write size, then path."""
        out.write_i64(self.size)
        out.write_utf(self.path)

    @property
    def state_size(self) -> int:
        """Return the number of bytes, 0 if it was not recorded."""
        return max(self.size, 0)


@redacted
@dataclass(frozen=True, slots=True)
class RelativeFileStateHandle:
    """A file in the snapshot's own folder; path before size."""

    relative_path: str
    size: int
    type_byte: ClassVar[int] = 6

    @classmethod
    def read(cls, view: DataInputView, _depth: int) -> RelativeFileStateHandle:
        """Read path, then size."""
        return cls(view.read_utf("the name of a file"), read_size(view, "the size of a file"))

    def write(self, out: DataOutputView) -> None:
        """Write path, then size."""
        out.write_utf(self.relative_path)
        out.write_i64(self.size)

    @property
    def state_size(self) -> int:
        """Return the number of bytes, 0 if it was not recorded."""
        return max(self.size, 0)


class CheckpointedStateScope(IntEnum):
    """Owner of a merged file: one checkpoint, or several."""

    EXCLUSIVE = 0
    SHARED = 1


@redacted
@dataclass(frozen=True, slots=True)
class SegmentFileStateHandle:
    """A segment of a file shared by several states; offsets inside count from ``start``."""

    path: str
    start: int
    size: int
    scope: CheckpointedStateScope
    logical_file_id: str
    type_byte: ClassVar[int] = 15

    @classmethod
    def read(cls, view: DataInputView, _depth: int) -> SegmentFileStateHandle:
        """Read start, size, scope, path, id."""
        start, size = view.read_i64("the start of a segment"), view.read_i64("the size of a segment")
        if start < 0 or size < 0 or start + size >= 1 << 63:
            view.fail("a segment from 0 on", f"start {start}, size {size}")
        scope = view.read_count("the scope of a segment", each=0, limit=len(CheckpointedStateScope) - 1)
        path = view.read_utf("the path of a segment")
        return cls(path, start, size, CheckpointedStateScope(scope), view.read_utf("the id of a segment"))

    def write(self, out: DataOutputView) -> None:
        """Write start, size, scope, path, id."""
        out.write_i64(self.start)
        out.write_i64(self.size)
        out.write_i32(self.scope)
        out.write_utf(self.path)
        out.write_utf(self.logical_file_id)

    @property
    def state_size(self) -> int:
        """Return the number of bytes."""
        return self.size


@dataclass(frozen=True, slots=True)
class EmptySegmentFileStateHandle:
    """A segment without bytes."""

    type_byte: ClassVar[int] = 16
    state_size: ClassVar[int] = 0

    @classmethod
    def read(cls, _view: DataInputView, _depth: int) -> EmptySegmentFileStateHandle:
        return cls()

    def write(self, out: DataOutputView) -> None:
        """Write nothing."""


@dataclass(frozen=True, slots=True)
class KeyGroupsStreamStateHandle:
    """A key-groups handle in the place of a stream, as nested by old releases; its bytes are those of the delegate."""

    offsets: KeyGroupRangeOffsets
    delegate: StreamStateHandle
    type_byte: ClassVar[int] = 3

    @classmethod
    def read(cls, view: DataInputView, depth: int) -> KeyGroupsStreamStateHandle:
        """Read the offsets, then the delegate."""
        return cls(KeyGroupRangeOffsets.read(view), require_stream_handle(view, depth))

    def write(self, out: DataOutputView) -> None:
        """Write the offsets, then the delegate."""
        self.offsets.write(out)
        write_stream_handle(self.delegate, out)

    @property
    def state_size(self) -> int:
        """Return the number of bytes."""
        return self.delegate.state_size


StreamStateHandle = (
    ByteStreamStateHandle
    | FileStateHandle
    | KeyGroupsStreamStateHandle
    | RelativeFileStateHandle
    | SegmentFileStateHandle
    | EmptySegmentFileStateHandle
)


def read_stream_handle(view: DataInputView, depth: int = 0) -> StreamStateHandle | None:
    """Read a type byte and the handle of that type; None for type 0."""
    return dispatch(view, STREAM_HANDLES, "a stream handle", depth)


def write_stream_handle(handle: StreamStateHandle | None, out: DataOutputView) -> None:
    """Write a type byte and the handle."""
    out.write_u8(NULL_HANDLE if handle is None else handle.type_byte)
    if handle is not None:
        handle.write(out)


def require_stream_handle(view: DataInputView, depth: int = 0) -> StreamStateHandle:
    """Read a stream handle; type 0 is an error."""
    return read_stream_handle(view, depth + 1) or absent(view, "a stream handle")


def dispatch(
    view: DataInputView,
    readers: Mapping[int, Callable[[DataInputView, int], _Handle]],
    what: str,
    depth: int,
) -> _Handle | None:
    """Read a type byte and the handle of that type; None for type 0."""
    if depth > MAX_DEPTH:
        view.fail(f"handles nested at most {MAX_DEPTH} deep")
    type_byte = view.read_u8("the type of a handle")
    if type_byte == NULL_HANDLE:
        return None
    reader = readers.get(type_byte)
    if reader is None:
        view.position -= 1
        view.fail(f"{what}: type 0 or one of {sorted(readers)}", type_byte)
    return reader(view, depth)


def absent(view: DataInputView, what: str) -> NoReturn:
    """Raise a CorruptStateError for type 0 in a place that requires a handle."""
    view.position -= 1
    view.fail(what, "none (type 0)")


def read_size(view: DataInputView, what: str) -> int:
    """Read a size as an i64; -1 means unknown."""
    size = view.read_i64(what)
    if size < UNKNOWN_SIZE:
        view.position -= 8
        view.fail(f"{what}, or -1 for unknown", size)
    return size


def read_handle_id(view: DataInputView) -> str:
    """Read the unique id of a keyed state handle."""
    return view.read_utf("the id of a state handle")


STREAM_HANDLES: Mapping[int, Callable[[DataInputView, int], StreamStateHandle]] = MappingProxyType(
    {
        1: ByteStreamStateHandle.read,
        2: FileStateHandle.read,
        3: KeyGroupsStreamStateHandle.read,
        6: RelativeFileStateHandle.read,
        15: SegmentFileStateHandle.read,
        16: EmptySegmentFileStateHandle.read,
    }
)


class TwoVersions(ABC):
    """A handle with a second type byte, whose layout has more fields."""

    __slots__ = ()

    @classmethod
    def read_v1(cls, view: DataInputView, depth: int) -> Self:
        """Read the layout of the first type."""
        return cls.read(view, depth, second=False)

    @classmethod
    def read_v2(cls, view: DataInputView, depth: int) -> Self:
        """Read the layout of the second type."""
        return cls.read(view, depth, second=True)

    @classmethod
    @abstractmethod
    def read(cls, view: DataInputView, depth: int, second: bool) -> Self:
        """Read the layout of the first or ``second`` type."""
