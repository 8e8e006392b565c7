"""Channel state of unaligned checkpoints: the network buffers that a barrier overtook, and the elements in them.

    file    := i32 0  {i32 n  u8[n]}*            a run of buffers at every offset of a handle
    buffers := {i32 length  element}*            the runs of one channel, joined
    element := 00 i64 timestamp  value           a record, see ``StreamElementSerializer``
             | 01 value                          a record without timestamp
             | 02 i64 timestamp                  a watermark
             | 03 i64 time  u8[16] operator  i32 subtask
             | 04 i32 status
             | 05 u8 isBacklog
             | 06 i32 subpartition  i64 timestamp

Buffers of an input channel begin with a whole element: Flink prepends the bytes that its deserializer has not consumed.
They may end within an element; its remaining bytes are the first ones in the buffers of the sender's result
subpartition, which always end with a whole element. In all-to-all exchanges, channel ``c`` of subtask ``d`` is
subpartition ``d`` of subtask ``c``.

Flink: ``ChannelStateSerializerImpl``, ``SpillingAdaptiveSpanningRecordDeserializer``, ``PipelinedSubpartition``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError
from pyspark_savepoint.formats.io.byte_source import ByteSource
from pyspark_savepoint.formats.metadata.key_groups import read_longs
from pyspark_savepoint.formats.metadata.operator_handles import AnyChannelStateHandle, ChannelStateHandle
from pyspark_savepoint.formats.metadata.stream_handles import StreamStateHandle

LENGTH = struct.Struct(">i")
TIMESTAMP = struct.Struct(">q")
VERSION = 0
#: Kind, bytes after the tag (None: a value of any length), and position of a timestamp, by tag.
ELEMENTS: tuple[tuple[str, int | None, int | None], ...] = (
    ("record", None, 1),
    ("record", None, None),
    ("watermark", 8, 1),
    ("latency_marker", 28, 1),
    ("watermark_status", 4, None),
    ("record_attributes", 1, None),
    ("internal_watermark", 12, 5),
)
WITH_TIMESTAMP = 9


@dataclass(frozen=True, slots=True)
class Channel:
    """Location of the buffers of one channel: an input gate and channel, or a result partition and subpartition."""

    subtask: int
    index: int
    number: int
    offsets: tuple[int, ...]
    delegate: StreamStateHandle


@dataclass(frozen=True, slots=True)
class ChannelElement:
    """An element in joined buffers: [start, end) are the bytes after the tag and the timestamp of a record."""

    kind: str
    timestamp: int | None
    start: int
    end: int


def channels_of(handles: Iterable[AnyChannelStateHandle]) -> Iterator[Channel]:
    """Yield the channels of the handles of one direction."""
    for handle in handles:
        if isinstance(handle, ChannelStateHandle):
            yield Channel(handle.subtask_index, *handle.channel_info, handle.offsets, handle.delegate)
            continue
        view = DataInputView(handle.serialized_channel_offsets, "offsets of channel state")
        for _ in range(view.read_count("channels", each=20)):
            index, number = view.read_i32("a gate or partition index"), view.read_i32("a channel index")
            view.read_i64("a size")
            offsets = read_longs(view, view.read_count("buffers", each=8), "offsets of buffers")
            yield Channel(handle.subtask_index, index, number, offsets, handle.delegate)
        if view.remaining:
            view.fail("the end of the offsets of channel state", f"{view.remaining} more bytes")


def read_buffers(source: ByteSource, offsets: Iterable[int]) -> bytes:
    """Return the buffers at some offsets of an open file, joined."""
    version = LENGTH.unpack(source.read(0, LENGTH.size))[0]
    if version != VERSION:
        raise CorruptStateError(
            "channel state has an unknown version",
            path=source.path,
            expected=VERSION,
            found=version,
            remedy=UNREADABLE,
        )
    found = []
    end = LENGTH.size
    for offset in offsets:
        if offset < end:
            raise CorruptStateError(
                "buffers of channel state overlap",
                path=source.path,
                offset=offset,
                expected=f"an offset from {end} on",
                remedy=UNREADABLE,
            )
        size = LENGTH.unpack(source.read(offset, LENGTH.size))[0]
        found.append(source.read(offset + LENGTH.size, size))
        end = offset + LENGTH.size + size
    return b"".join(found)


def frames(data: bytes, start: int = 0) -> tuple[list[tuple[int, int]], int] | None:
    """Return the spans of whole elements, and the end of the last one; None if a length is not positive."""
    spans, size = [], len(data)
    while start + LENGTH.size <= size:
        length = LENGTH.unpack_from(data, start)[0]
        if length < 1:
            return None
        end = start + LENGTH.size + length
        if end > size:
            break
        spans.append((start + LENGTH.size, end))
        start = end
    return spans, start


def elements(data: bytes, spans: Iterable[tuple[int, int]]) -> list[ChannelElement] | None:
    """Return the elements at some spans; None if one of them is not an element that Flink writes."""
    found = []
    for start, end in spans:
        tag = data[start]
        if tag >= len(ELEMENTS):
            return None
        kind, size, place = ELEMENTS[tag]
        if (size is not None and end - start != 1 + size) or (tag == 0 and end - start < WITH_TIMESTAMP):
            return None
        timestamp = None if place is None else TIMESTAMP.unpack_from(data, start + place)[0]
        found.append(ChannelElement(kind, timestamp, start + (WITH_TIMESTAMP if tag == 0 else 1), end))
    return found


def completes(beginning: bytes, rest: bytes) -> int | None:
    """Return how many bytes of a sender's buffers complete the last element of a receiver's buffers; None if none do.

    The sender's other bytes must be whole elements. ``beginning``, the incomplete element, may be empty.

    >>> completes(bytes.fromhex("000000"), bytes.fromhex("020141" "000000020142"))
    3
    """
    need = 0
    if beginning:
        head = beginning + rest[: max(0, LENGTH.size - len(beginning))]
        if len(head) < LENGTH.size:
            return None
        length = LENGTH.unpack_from(head)[0]
        need = LENGTH.size + length - len(beginning)
        if length < 1 or not 0 < need <= len(rest):
            return None
    found = frames(rest, need)
    return need if found is not None and found[1] == len(rest) else None
