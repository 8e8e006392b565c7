"""Content of key groups, plain or compressed, read in windows of bounded size."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pyspark_savepoint.formats.io import snappy

if TYPE_CHECKING:
    from pyspark_savepoint.formats.columns import Bytes, Flags, Longs
    from pyspark_savepoint.formats.io.byte_source import ByteSource
    from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRangeOffsets


class Extent(NamedTuple):
    """The byte range of one key group in a file."""

    key_group: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """Return the number of bytes in the file."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Extents:
    """The byte ranges of key groups in a file, in its order: arrays, since a file may have 32,768 of them."""

    key_group: Longs
    start: Longs
    end: Longs

    @classmethod
    def of(cls, extents: Iterable[Extent]) -> Extents:
        """Return some byte ranges together."""
        rows = np.array([*extents], np.int64).reshape(-1, 3)
        return cls(*rows.T.copy())

    @classmethod
    def placed(cls, offsets: KeyGroupRangeOffsets, size: int) -> Extents:
        """Return the key groups that have an offset (not 0): each ends where the next begins, the last at ``size``."""
        given = np.array(offsets.offsets, np.int64)
        order = given.nonzero()[0]
        start = given[order]
        if (start[1:] < start[:-1]).any():
            order = order[start.argsort(kind="stable")]
            start = given[order]
        end = np.empty_like(start)
        end[:-1], end[-1:] = start[1:], size
        return cls(order + offsets.key_group_range.start, start, end)

    def __len__(self) -> int:
        return len(self.key_group)

    def __getitem__(self, row: int) -> Extent:
        return Extent(int(self.key_group[row]), int(self.start[row]), int(self.end[row]))

    def __iter__(self) -> Iterator[Extent]:
        return map(Extent, self.key_group.tolist(), self.start.tolist(), self.end.tolist())

    def take(self, rows: slice | Flags) -> Extents:
        """Return some of them."""
        return Extents(self.key_group[rows], self.start[rows], self.end[rows])

    def among(self, key_groups: Collection[int]) -> Extents:
        """Return those of some key groups."""
        return self.take(np.array([key_group in key_groups for key_group in self.key_group.tolist()], np.bool_))


def read_extent(source: ByteSource, start: int, end: int) -> Bytes:
    """Read a byte range of a file as a writable array."""
    buffer = np.empty(end - start, np.uint8)
    source.read_into(start, buffer)
    return buffer


class KeyGroupContent:
    """Forward reader of one key group in windows; the unused rest of a window is prepended to the next one."""

    def __init__(self, source: ByteSource, start: int, end: int, compressed: bool) -> None:
        self.source = source
        self.position = start
        self.end = end
        self.compressed = compressed
        #: Bytes of content read so far, and the positions (content, file) from which reading can restart.
        self.content = 0
        self.checkpoints = [(0, start)]

    @property
    def exhausted(self) -> bool:
        """Return whether nothing is left to read."""
        return self.position >= self.end

    def window(self, rest: Bytes, size: int) -> Bytes:
        """Return the rest of the last window and about ``size`` more bytes of content."""
        fresh = self._compressed(size) if self.compressed else self._plain(size)
        self.content += len(fresh)
        self.checkpoints.append((self.content, self.position))
        return np.concatenate([rest, fresh]) if len(rest) else fresh

    def from_content(self, offset: int) -> tuple[KeyGroupContent, Bytes]:
        """Return a reader at an earlier content offset, and the part of its first window after that offset."""
        at = bisect_right(self.checkpoints, (offset, self.end)) - 1
        content, position = self.checkpoints[at]
        again = KeyGroupContent(self.source, position, self.end, self.compressed)
        rest = again.window(np.empty(0, np.uint8), offset - content) if offset > content else np.empty(0, np.uint8)
        while len(rest) < offset - content:
            rest = again.window(rest, offset - content - len(rest))
        return again, rest[offset - content :]

    def _plain(self, size: int) -> Bytes:
        stop = min(self.end, self.position + size)
        fresh = read_extent(self.source, self.position, stop)
        self.position = stop
        return fresh

    def _compressed(self, size: int) -> Bytes:
        # A chunk of 64 KiB compresses to at most MAX_CHUNK bytes, so at least one chunk is complete.
        physical = min(self.end - self.position, max(size, 2 * snappy.MAX_CHUNK))
        data = read_extent(self.source, self.position, self.position + physical).data
        content = used = 0
        partial = self.position + physical < self.end
        for _, end, length in snappy.scan_chunks(data, self.source.path, self.position, partial):
            if content and content + length > size:
                break
            used, content = end, content + length
        else:
            used = used if partial else len(data)
        fresh = np.empty(content, np.uint8)
        snappy.decompress_chunks(data[:used], fresh, self.source.path, self.position)
        self.position += used
        return fresh


def whole_content(source: ByteSource, start: int, end: int, compressed: bool) -> Bytes:
    """Return the whole content of a byte range."""
    data = read_extent(source, start, end)
    return snappy.decompress(data.data, source.path, start) if compressed else data
