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

from enum import IntEnum
from typing import ClassVar

from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.encodings import BLOB, I32, I64, UTF, at_least, codes
from pyspark_savepoint.formats.metadata.key_groups import OFFSETS, KeyGroupRangeOffsets
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.structs import OneOf, Struct, part, struct

UNKNOWN_SIZE = -1
SIZE = at_least(I64, UNKNOWN_SIZE, "{}, or -1 for unknown")


@struct
class ByteStreamStateHandle(Struct):
    """Bytes stored inline in ``_metadata``; the name is the one that a file would have had."""

    types = (1,)
    handle_name: str = part(UTF, "the name of inline state")
    data: bytes = part(BLOB, "inline state", shown=False)

    @property
    def state_size(self) -> int:
        """Return the number of bytes."""
        return len(self.data)


@redacted
@struct
class FileStateHandle(Struct):
    """A file with an absolute path; size before path."""

    types = (2,)
    order = ("size", "path")
    path: str = part(UTF, "the path of a file")
    size: int = part(SIZE, "the size of a file")

    @property
    def state_size(self) -> int:
        """Return the number of bytes, 0 if it was not recorded."""
        return max(self.size, 0)


@redacted
@struct
class RelativeFileStateHandle(Struct):
    """A file in the snapshot's own folder; path before size."""

    types = (6,)
    relative_path: str = part(UTF, "the name of a file")
    size: int = part(SIZE, "the size of a file")

    @property
    def state_size(self) -> int:
        """Return the number of bytes, 0 if it was not recorded."""
        return max(self.size, 0)


class CheckpointedStateScope(IntEnum):
    """Owner of a merged file: one checkpoint, or several."""

    EXCLUSIVE = 0
    SHARED = 1


def _check_segment(view: DataInputView, start: int, size: int) -> None:
    if start < 0 or size < 0 or start + size >= 1 << 63:
        view.fail("a segment from 0 on", f"start {start}, size {size}")


@redacted
@struct
class SegmentFileStateHandle(Struct):
    """A segment of a file shared by several states; offsets inside count from ``start``."""

    types = (15,)
    order = ("start", "size", "scope", "path", "logical_file_id")
    path: str = part(UTF, "the path of a segment")
    start: int = part(I64, "the start of a segment")
    size: int = part(I64, "the size of a segment", check=_check_segment)
    scope: CheckpointedStateScope = part(codes(CheckpointedStateScope, I32), "the scope of a segment")
    logical_file_id: str = part(UTF, "the id of a segment")

    @property
    def state_size(self) -> int:
        """Return the number of bytes."""
        return self.size


@struct
class EmptySegmentFileStateHandle(Struct):
    """A segment without bytes."""

    types = (16,)
    state_size: ClassVar[int] = 0


STREAM_HANDLE: OneOf[StreamStateHandle] = OneOf(
    "a stream handle",
    lambda: (
        ByteStreamStateHandle,
        FileStateHandle,
        KeyGroupsStreamStateHandle,
        RelativeFileStateHandle,
        SegmentFileStateHandle,
        EmptySegmentFileStateHandle,
    ),
)


@struct
class KeyGroupsStreamStateHandle(Struct):
    """A key-groups handle in the place of a stream, as nested by old releases; its bytes are those of the delegate."""

    types = (3,)
    offsets: KeyGroupRangeOffsets = part(OFFSETS)
    delegate: StreamStateHandle = part(STREAM_HANDLE)

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
