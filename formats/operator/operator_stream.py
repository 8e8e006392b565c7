"""Operator state streams: elements of list and union states, entries of broadcast states.

    stream    := OperatorHeader  data
    list      := element at every offset of the handle            contiguous; only the offsets delimit them
    broadcast := i32 n (key value)[n] at its one offset

Compressed (1.18 on): one snappy framed stream after the header; every offset is the file position of a chunk. Flink
1.18.1 recorded the same offset for all elements of a compressed state: elements with equal offsets are read
sequentially, as they were written. Flink: ``DefaultOperatorStateBackendSnapshotStrategy``,
``OperatorStateRestoreOperation``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pyspark_savepoint.formats.columns import Bytes, Cursors, DecodeOptions, Longs, Origin
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError
from pyspark_savepoint.formats.io import snappy
from pyspark_savepoint.formats.io.byte_source import ByteSource
from pyspark_savepoint.formats.io.snappy import ByteOutput, FramedOutput
from pyspark_savepoint.formats.keyed.key_group_reader import read_extent
from pyspark_savepoint.formats.keyed.meta_info import OperatorBackendHeader
from pyspark_savepoint.formats.metadata.operator_handles import Mode, StateMetaInfo


@dataclass(frozen=True, slots=True)
class Piece:
    """``count`` contiguous elements in [start, end) of a buffer."""

    start: int
    end: int
    count: int


class OperatorStream:
    """An open stream. ``boundaries`` are the distinct offsets of all elements of all states, ascending."""

    def __init__(self, source: ByteSource, header: OperatorBackendHeader, boundaries: Sequence[int]) -> None:
        self.source = source
        self.header = header
        for offset in (*boundaries[:1], *boundaries[-1:]):
            if not header.size <= offset <= source.size:
                raise CorruptStateError(
                    "the offset of an element of operator state is not valid",
                    path=source.path,
                    expected=f"an offset from {header.size} to {source.size}",
                    found=offset,
                    remedy=UNREADABLE,
                )
        self.boundaries = boundaries

    def windows(self, offsets: Sequence[int], block_bytes: int) -> Iterator[tuple[Bytes, list[Piece], int]]:
        """Yield elements at ascending offsets: buffers of about ``block_bytes``, their pieces, and file offset."""
        limit = block_bytes // 4 if self.header.compressed else block_bytes
        first = 0
        while first < len(offsets):
            # Elements with the same offset stay together, because bisect_right returns the position after all of them.
            stop = bisect_right(offsets, offsets[first] + limit)
            yield self._window(offsets[first:stop])
            first = stop

    def sizes(self, offsets: Sequence[int]) -> list[int]:
        """Return the bytes in the file from every distinct offset to the next one."""
        return [self._end_of(start) - start for start in sorted(set(offsets))]

    def _window(self, offsets: Sequence[int]) -> tuple[Bytes, list[Piece], int]:
        base = offsets[0]
        starts = sorted(set(offsets))
        counts = [bisect_right(offsets, start) - bisect_left(offsets, start) for start in starts]
        ends = [self._end_of(start) for start in starts]
        data = read_extent(self.source, base, ends[-1])
        if not self.header.compressed:
            pieces = [Piece(a - base, b - base, n) for a, b, n in zip(starts, ends, counts, strict=True)]
            return data, pieces, base
        return self._decompressed(data, base, starts, ends, counts)

    def _end_of(self, start: int) -> int:
        # An element at the end of the stream has no bytes.
        following = bisect_right(self.boundaries, start)
        return self.boundaries[following] if following < len(self.boundaries) else self.source.size

    def _decompressed(
        self, data: Bytes, base: int, starts: list[int], ends: list[int], counts: list[int]
    ) -> tuple[Bytes, list[Piece], int]:
        places = {0: 0}
        content = 0
        for begin, end, size in snappy.scan_chunks(data.data, self.source.path, base):
            places.setdefault(begin, content)
            content += size
            places[end] = content
        # 1.18.1 starts a new stream for every state: the next one's identifier may be before the end.
        places[len(data)] = content
        out = np.empty(content, np.uint8)
        snappy.decompress_chunks(data.data, out, self.source.path, base)
        pieces = []
        for start, end, count in zip(starts, ends, counts, strict=True):
            if start - base not in places or end - base not in places:
                raise CorruptStateError(
                    "an element of compressed operator state does not begin with a chunk",
                    path=self.source.path,
                    offset=start,
                    remedy=UNREADABLE,
                )
            pieces.append(Piece(places[start - base], places[end - base], count))
        return out, pieces, base

    def cursors(
        self, buffer: Bytes, pieces: Sequence[Piece], base: int, state: str, options: DecodeOptions
    ) -> tuple[Cursors, Longs]:
        """Return cursors at pieces, and the number of elements of each."""
        compressed = self.header.compressed
        origin = Origin(self.source.path, 0 if compressed else base, None, state, compressed)
        start = np.array([piece.start for piece in pieces], np.int64)
        end = np.array([piece.end for piece in pieces], np.int64)
        counts = np.array([piece.count for piece in pieces], np.int64)
        return Cursors(buffer, start, end, origin, options), counts


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
