"""Streams of operator state: list, union and broadcast states, and the channel state of unaligned checkpoints.

    stream    := OperatorHeader  data
    list      := element at every offset of the handle            contiguous; only the offsets delimit them
    broadcast := i32 n (key value)[n] at its one offset

Compressed (1.18 on): one snappy framed stream after the header; every offset is the file position of a chunk. Flink
1.18.1 recorded the same offset for all elements of a compressed state: elements with equal offsets are read
sequentially, as they were written. Flink: ``DefaultOperatorStateBackendSnapshotStrategy``,
``OperatorStateRestoreOperation``.

Channel state is the network buffers that a barrier overtook, and the elements in them:

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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from struct import Struct as Form
from typing import TYPE_CHECKING

import numpy as np

from pyspark_savepoint.formats.columns import Bytes, Cursors, DecodeOptions, Longs, Origin, distinct
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.encodings import I64, LONGS, many
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError
from pyspark_savepoint.formats.io import snappy
from pyspark_savepoint.formats.io.snappy import ByteOutput, FramedOutput
from pyspark_savepoint.formats.keyed.key_group_reader import read_extent
from pyspark_savepoint.formats.metadata.operator_handles import (
    CHANNEL,
    AnyChannelStateHandle,
    ChannelStateHandle,
    Mode,
    StateMetaInfo,
)
from pyspark_savepoint.formats.serializers.basic.primitives import read_numbers
from pyspark_savepoint.formats.serializers.layout import locate
from pyspark_savepoint.formats.structs import Struct, of, part, struct

if TYPE_CHECKING:
    from pyspark_savepoint.formats.io.byte_source import ByteSource
    from pyspark_savepoint.formats.keyed.meta_info import OperatorBackendHeader, StateMetaInfoSnapshot
    from pyspark_savepoint.formats.metadata.stream_handles import StreamStateHandle


@dataclass(frozen=True, slots=True)
class Pieces:
    """Contiguous elements in a buffer: piece ``i`` has ``count[i]`` of them in [``start[i]``, ``end[i]``)."""

    start: Longs
    end: Longs
    count: Longs

    def __len__(self) -> int:
        return len(self.start)


class OperatorStream:
    """An open stream. ``boundaries`` are the distinct offsets of all elements of all states, ascending."""

    def __init__(self, source: ByteSource, header: OperatorBackendHeader, boundaries: Longs) -> None:
        self.source = source
        self.header = header
        for offset in (*boundaries[:1].tolist(), *boundaries[-1:].tolist()):
            if not header.size <= offset <= source.size:
                raise CorruptStateError(
                    "the offset of an element of operator state is not valid",
                    path=source.path,
                    expected=f"an offset from {header.size} to {source.size}",
                    found=offset,
                    remedy=UNREADABLE,
                )
        self.boundaries = boundaries

    def windows(self, offsets: Longs, block_bytes: int) -> Iterator[tuple[Bytes, Pieces, int]]:
        """Yield elements at ascending offsets: buffers of about ``block_bytes``, their pieces, and file offset."""
        limit = block_bytes // 4 if self.header.compressed else block_bytes
        first = 0
        while first < len(offsets):
            # Elements with the same offset stay together, because the search returns the position after all of them.
            stop = int(np.searchsorted(offsets, offsets[first] + limit, side="right"))
            yield self._window(offsets[first:stop])
            first = stop

    def sizes(self, offsets: Longs) -> Longs:
        """Return the bytes in the file from every distinct offset to the next one."""
        starts = distinct(offsets)
        return self._ends_of(starts) - starts

    def _window(self, offsets: Longs) -> tuple[Bytes, Pieces, int]:
        base = int(offsets[0])
        first = np.flatnonzero(np.append(True, offsets[1:] != offsets[:-1]))
        starts, counts = offsets[first], np.diff(first, append=len(offsets))
        ends = self._ends_of(starts)
        data = read_extent(self.source, base, int(ends[-1]))
        if not self.header.compressed:
            return data, Pieces(starts - base, ends - base, counts), base
        return self._decompressed(data, base, starts, ends, counts)

    def _ends_of(self, starts: Longs) -> Longs:
        # An element at the end of the stream has no bytes. Other states may stand between those of one.
        low = int(np.searchsorted(self.boundaries, starts[0])) if len(starts) else 0
        following = np.arange(low + 1, low + 1 + len(starts))
        if not np.array_equal(self.boundaries[low : low + len(starts)], starts):
            following = np.searchsorted(self.boundaries, starts, side="right")
        ends = self.boundaries[np.minimum(following, len(self.boundaries) - 1)]
        return np.where(following < len(self.boundaries), ends, self.source.size)

    def _decompressed(
        self, data: Bytes, base: int, starts: Longs, ends: Longs, counts: Longs
    ) -> tuple[Bytes, Pieces, int]:
        chunks = list(snappy.scan_chunks(data.data, self.source.path, base))
        sizes = np.array([size for _, _, size in chunks], np.int64)
        content = int(sizes.sum())
        begins, chunk_ends = (np.array([chunk[i] for chunk in chunks], np.int64) for i in range(2))
        # A later row wins: where a chunk begins, then where one ends, then the end of all. 1.18.1 starts a new stream
        # for every state: the next one's identifier may be before the end.
        places = np.concatenate([[0], begins, chunk_ends, [len(data)]])
        contents = np.concatenate([[0], np.cumsum(sizes) - sizes, np.cumsum(sizes), [content]])
        places, last = np.unique(places[::-1], return_index=True)
        contents = contents[::-1][last]
        out = np.empty(content, np.uint8)
        snappy.decompress_chunks(data.data, out, self.source.path, base)
        bounds = []
        for wanted in (starts - base, ends - base):
            rows = np.minimum(np.searchsorted(places, wanted), len(places) - 1)
            inside = np.flatnonzero(places[rows] != wanted)
            if len(inside):
                raise CorruptStateError(
                    "an element of compressed operator state does not begin with a chunk",
                    path=self.source.path,
                    offset=int(starts[inside[0]]),
                    remedy=UNREADABLE,
                )
            bounds.append(contents[rows])
        return out, Pieces(bounds[0], bounds[1], counts), base

    def cursors(self, buffer: Bytes, pieces: Pieces, base: int, state: str, options: DecodeOptions) -> Cursors:
        """Return cursors at pieces."""
        compressed = self.header.compressed
        origin = Origin(self.source.path, 0 if compressed else base, None, state, compressed)
        return Cursors(buffer, pieces.start.copy(), pieces.end, origin, options)


def entries_of_broadcast(meta: StateMetaInfoSnapshot, at: Cursors) -> tuple[list[Longs], list[Longs]]:
    """Return where the keys and the values of a broadcast state begin, and where they end."""
    counts = read_numbers(at, "read_i32", np.int32, "a number of broadcast entries").astype(np.int64)
    if counts[0] < 0 or counts[0] > at.end[0] - at.position[0]:
        at.fail(0, "a number of broadcast entries that there is room for", int(counts[0]))
    starts, stops = locate([meta.serializers["KEY_SERIALIZER"], meta.value_serializer], at, counts)
    at.expect_end()
    return starts, stops


# -- writer of operator state -----------------------------------------------------------------------------------------
# Elements of list and union states are contiguous, each at an offset of the handle; a broadcast state is the number of
# its entries and the entries, at one offset. If compressed (header version 6, Flink 1.18 on), every element begins with
# a new chunk, because offsets are file positions. Flink: ``DefaultOperatorStateBackendSnapshotStrategy``,
# ``PartitionableListState#write``, ``HeapBroadcastState#write``.


class OperatorStreamWriter:
    """Writer of the header, then of states in any order. Offsets count from the first byte of the file."""

    def __init__(self, file: ByteOutput, header: OperatorBackendHeader) -> None:
        view = DataOutputView()
        header.write(view)
        file.write(view.getvalue())
        self._out = FramedOutput(file, len(view.getvalue()), header.compressed)
        self._out.begin()
        self._lists = {meta.name: meta for meta in header.list_states}
        self._broadcasts = {meta.name: meta for meta in header.broadcast_states}
        self._offsets: dict[str, list[int]] = {meta.name: [] for meta in header.states}

    def add_list(self, name: str, data: Bytes, offsets: Longs) -> None:
        """Add serialized elements of a list or union state: element i is data[offsets[i]:offsets[i + 1]]."""
        if name not in self._lists:
            raise ValueError(f"{name!r} is not among the list states {list(self._lists)}")
        if not len(offsets):
            return
        if not self._out.compressed:
            first = self._out.position - int(offsets[0])
            self._offsets[name] += (np.asarray(offsets[:-1], np.int64) + first).tolist()
            self._out.write(np.ascontiguousarray(data[int(offsets[0]) : int(offsets[-1])]).data)
            return
        places = np.asarray(offsets, np.int64).tolist()
        for start, end in pairwise(places):
            self._offsets[name].append(self._out.end())
            self._out.write(data[start:end].tobytes())
        self._out.end()

    def add_broadcast(self, name: str, count: int, entries: Bytes) -> None:
        """Add a whole broadcast state: its entries, each a serialized key and value, contiguous."""
        if name not in self._broadcasts:
            raise ValueError(f"{name!r} is not among the broadcast states {list(self._broadcasts)}")
        if self._offsets[name]:
            raise ValueError(f"broadcast state {name!r} is written already")
        self._offsets[name].append(self._out.end())
        self._out.write(count.to_bytes(4, "big"))
        self._out.write(np.ascontiguousarray(entries).data)
        self._out.end()

    def finish(self) -> dict[str, StateMetaInfo]:
        """Return the element offsets of each state; a broadcast state that was not added is written as empty."""
        for name in self._broadcasts:
            if not self._offsets[name]:
                self.add_broadcast(name, 0, np.zeros(0, np.uint8))
        self._out.flush()
        metas = {**self._lists, **self._broadcasts}
        return {
            name: StateMetaInfo(name, Mode.of(metas[name].state_type), tuple(at)) for name, at in self._offsets.items()
        }


LENGTH = Form(">i")
TIMESTAMP = Form(">q")
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


@struct
class _OffsetsOfChannel(Struct):
    """The buffers of a channel in a merged file."""

    channel_info: tuple[int, int] = part(CHANNEL)
    size: int = part(I64, "a size")
    offsets: tuple[int, ...] = part(LONGS, "buffers")


OFFSETS_OF_CHANNELS = many(of(_OffsetsOfChannel))


def channels_of(handles: Iterable[AnyChannelStateHandle]) -> Iterator[Channel]:
    """Yield the channels of the handles of one direction."""
    for handle in handles:
        if isinstance(handle, ChannelStateHandle):
            yield Channel(handle.subtask_index, *handle.channel_info, handle.offsets, handle.delegate)
            continue
        view = DataInputView(handle.serialized_channel_offsets, "offsets of channel state")
        for one in OFFSETS_OF_CHANNELS.read(view, "channels"):
            yield Channel(handle.subtask_index, *one.channel_info, one.offsets, handle.delegate)
        view.expect_end("the offsets of channel state")


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
    buffers = []
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
        buffers.append(source.read(offset + LENGTH.size, size))
        end = offset + LENGTH.size + size
    return b"".join(buffers)


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
    parsed = []
    for start, end in spans:
        tag = data[start]
        if tag >= len(ELEMENTS):
            return None
        kind, size, offset = ELEMENTS[tag]
        if (size is not None and end - start != 1 + size) or (tag == 0 and end - start < WITH_TIMESTAMP):
            return None
        timestamp = None if offset is None else TIMESTAMP.unpack_from(data, start + offset)[0]
        parsed.append(ChannelElement(kind, timestamp, start + (WITH_TIMESTAMP if tag == 0 else 1), end))
    return parsed


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
    framed = frames(rest, need)
    return need if framed is not None and framed[1] == len(rest) else None
