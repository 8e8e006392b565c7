"""The bytes of key groups, plain or compressed, in windows of bounded size."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from pyspark_savepoint.formats.columns import Bytes
from pyspark_savepoint.formats.io import snappy
from pyspark_savepoint.formats.io.byte_source import ByteSource


@dataclass(frozen=True, slots=True)
class Extent:
    """Where the bytes of one key group lie in a file."""

    key_group: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self.end - self.start


def read_extent(source: ByteSource, start: int, end: int) -> Bytes:
    """Bytes of a file as a writable array."""
    buffer = np.empty(end - start, np.uint8)
    source.read_into(start, buffer)
    return buffer


class KeyGroupContent:
    """The content of one key group, read forward in windows; what a window did not use is given back to the next."""

    def __init__(self, source: ByteSource, start: int, end: int, compressed: bool) -> None:
        self.source = source
        self.position = start
        self.end = end
        self.compressed = compressed
        #: How much content was read, and at which places (content, file) reading may start again.
        self.content = 0
        self.checkpoints = [(0, start)]

    @property
    def exhausted(self) -> bool:
        """Nothing is left to read."""
        return self.position >= self.end

    def window(self, rest: Bytes, size: int) -> Bytes:
        """The rest of the last window and about ``size`` more bytes of content."""
        fresh = self._compressed(size) if self.compressed else self._plain(size)
        self.content += len(fresh)
        self.checkpoints.append((self.content, self.position))
        return np.concatenate([rest, fresh]) if len(rest) else fresh

    def from_content(self, offset: int) -> tuple[KeyGroupContent, Bytes]:
        """A reader at some content that was read before, and what its first window gave beyond that."""
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
        # Chunks of 64 KiB compress to at most MAX_CHUNK bytes: always enough for one.
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
    """All content of an extent."""
    data = read_extent(source, start, end)
    return snappy.decompress(data.data, source.path, start) if compressed else data
