"""Snappy framing, the only compression of Flink's state streams.

    stream := FF 06 00 00 "sNaPpY"  chunk*
    chunk  := u8 type  u24 length (little-endian)  payload
              00 compressed: u32 crc, raw snappy   01 plain: u32 crc, data   FF stream identifier

Every chunk is at most 64 KiB of content and carries a checksum, which is verified. There is no end mark. Flink:
``SnappyStreamCompressionDecorator`` (xerial ``SnappyFramedOutputStream``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import cramjam
import numpy as np

from pyspark_savepoint.formats.columns import Bytes
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError

IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
MAX_CHUNK_CONTENT = 1 << 16
MAX_CHUNK = 76 + MAX_CHUNK_CONTENT * 7 // 6
COMPRESSED, PLAIN = 0x00, 0x01
#: Bytes of content to compress at once, in whole chunks.
CONTENT_AT_ONCE = 1 << 20
#: Size of the output buffer; data of a quarter of this size or more is written directly.
WRITE_AT_ONCE = 1 << 20


def _unreadable(path: str | None, offset: int, expected: str, found: object) -> CorruptStateError:
    return CorruptStateError(
        "a compressed part of the state does not match the format",
        path=path,
        offset=offset,
        expected=expected,
        found=found,
        remedy=UNREADABLE,
    )


def _content_size(data: memoryview, at: int, length: int, kind: int, path: str | None, base: int) -> int:
    """Return the decompressed size of a chunk, from its own header (checked against the format's limit)."""
    if kind == PLAIN:
        size = length - 4
    else:
        size = shift = 0
        for byte in data[at + 8 : at + min(4 + length, 13)]:
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
    if not 0 <= size <= MAX_CHUNK_CONTENT:
        raise _unreadable(path, base + at, f"a chunk of at most {MAX_CHUNK_CONTENT} bytes", size)
    return size


def scan_chunks(data: memoryview, path: str | None, base: int, partial: bool = False) -> Iterator[tuple[int, int, int]]:
    """Yield (start, end, content size) of every data chunk; ``partial`` data may end within a chunk."""
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at + 1 : at + 4], "little") if at + 4 <= len(data) else -1
        if length < 0 or at + 4 + length > len(data):
            if partial and length <= MAX_CHUNK:
                return
            raise _unreadable(path, base + at, "a whole chunk", f"{len(data) - at} bytes")
        kind = data[at]
        if kind in (COMPRESSED, PLAIN):
            if not 4 <= length <= MAX_CHUNK:
                raise _unreadable(path, base + at, "a chunk of 64 KiB", length)
            yield at, at + 4 + length, _content_size(data, at, length, kind, path, base)
        elif kind == 0xFF:
            if bytes(data[at : at + 10]) != IDENTIFIER:
                raise _unreadable(path, base + at, "the identifier of a snappy stream", bytes(data[at : at + 10]).hex())
        else:
            # Skippable chunks (80 to FE) are errors, too: Flink never writes them, and one wrong bit makes one.
            raise _unreadable(path, base + at, "a chunk of data (00, 01) or a stream identifier (FF)", f"{kind:02x}")
        at += 4 + length


def decompress_chunks(data: memoryview, out: Bytes, path: str | None, base: int) -> None:
    """Decompress framed chunks into an array of exactly their content size; checksums are verified."""
    framed = data if bytes(data[:10]) == IDENTIFIER else IDENTIFIER + bytes(data)
    try:
        written = cramjam.snappy.decompress_into(framed, out.data) if len(out) else 0
    except cramjam.DecompressionError as error:
        raise _unreadable(path, base, "snappy chunks with right checksums", str(error)) from None
    if written != len(out):
        raise _unreadable(path, base, f"{len(out)} bytes of content", written)


def decompress(data: memoryview, path: str | None, base: int) -> Bytes:
    """Return the whole content of consecutive framed streams, as a writable array."""
    if bytes(data[:10]) != IDENTIFIER:
        raise _unreadable(path, base, "the identifier of a snappy stream", bytes(data[:10]).hex())
    size = sum(content for _, _, content in scan_chunks(data, path, base))
    out = np.empty(size, np.uint8)
    decompress_chunks(data, out, path, base)
    return out


class ByteOutput(Protocol):
    """An object that bytes can be written to."""

    def write(self, data: memoryview | bytes, /) -> object:
        """Append all bytes."""


class FramedOutput:
    """A writer of the parts of a file, each a separate framed stream if ``compressed``, else unchanged.

    ``position`` is the file offset of the next byte. Chunks have the maximum size, as Flink's do.
    """

    def __init__(self, file: ByteOutput, position: int, compressed: bool) -> None:
        self.file = file
        self.position = position
        self.compressed = compressed
        self._waiting = bytearray()
        self._buffer = bytearray()

    def begin(self) -> int:
        """Begin a part and return its position."""
        start = self.position
        if self.compressed:
            self._write(IDENTIFIER)
        return start

    def write(self, data: memoryview | bytes) -> None:
        """Write content of the open part."""
        if not self.compressed:
            self._write(data)
            return
        self._waiting += data
        if len(self._waiting) >= CONTENT_AT_ONCE:
            whole = len(self._waiting) - len(self._waiting) % MAX_CHUNK_CONTENT
            self._compress(memoryview(self._waiting)[:whole].tobytes())
            del self._waiting[:whole]

    def end(self) -> int:
        """End the open part or the current chunk and return the position after it."""
        if self._waiting:
            self._compress(bytes(self._waiting))
            self._waiting.clear()
        return self.position

    def _compress(self, content: bytes) -> None:
        self._write(memoryview(cramjam.snappy.compress(content))[len(IDENTIFIER) :])

    def _write(self, data: memoryview | bytes) -> None:
        self.position += len(data)
        if len(data) >= WRITE_AT_ONCE // 4:
            self.flush()
            self.file.write(data)
            return
        self._buffer += data
        if len(self._buffer) >= WRITE_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Write everything up to ``position`` to the file."""
        if self._buffer:
            self.file.write(bytes(self._buffer))
            self._buffer.clear()
