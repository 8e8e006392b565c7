"""Blocks of a table file: read in one request, verified, decompressed.

    stored block := content or compressed content  u8 compression  u32 checksum(of both, plus the context of the file)
    compressed   := snappy: raw, which begins with its length; others: varint32 length of the content, data

RocksDB: ``BlockFetcher``, ``UncompressBlockData``, ``util/compression.h``.

Numbers are little-endian, or varints with seven bits per byte, the least significant first:

    str := varint32 length  bytes            RocksDB: util/coding.h
"""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, NoReturn

import cramjam
import numpy as np
import numpy.typing as npt
import xxhash

from pyspark_savepoint.formats.columns import Bytes, Longs
from pyspark_savepoint.formats.errors import DAMAGED, UNREADABLE, CorruptStateError, UnsupportedStateError
from pyspark_savepoint.formats.io.byte_source import ByteSource


class Coding:
    """Forward reader over ``data``; ``path`` and ``base`` (file offset of byte 0) only locate errors."""

    __slots__ = ("base", "data", "path", "position")

    def __init__(self, data: bytes, path: str | None, base: int = 0) -> None:
        self.data = data
        self.position = 0
        self.path = path
        self.base = base

    @property
    def remaining(self) -> int:
        """Return the number of remaining bytes."""
        return len(self.data) - self.position

    def fail(self, expected: str, found: object = None) -> NoReturn:
        """Raise a CorruptStateError at this position."""
        raise CorruptStateError(
            "a file of RocksDB does not match the format",
            path=self.path,
            offset=self.base + self.position,
            expected=expected,
            found=found,
            remedy=UNREADABLE,
        )

    def read(self, count: int, what: str) -> bytes:
        """Return the next ``count`` bytes."""
        if count > self.remaining:
            self.fail(f"{count} bytes of {what}", f"{self.remaining} bytes until the end")
        start = self.position
        self.position += count
        return self.data[start : self.position]

    def fixed(self, width: int, what: str) -> int:
        """Read an unsigned number of ``width`` bytes."""
        return int.from_bytes(self.read(width, what), "little")

    def varint(self, what: str, bits: int = 64) -> int:
        value = shift = 0
        while shift < bits:
            byte = self.read(1, what)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        else:
            self.fail(f"{what}: a varint of at most {-(-bits // 7)} bytes")
        if value >> bits:
            self.fail(f"{what} of {bits} bits", value)
        return value

    def string(self, what: str) -> bytes:
        """Read a length and that many bytes."""
        return self.read(self.varint(f"the length of {what}", 32), what)

    def expect_end(self, what: str) -> None:
        if self.remaining:
            self.fail(f"the end of {what}", f"{self.remaining} more bytes")


# -- checksums of blocks and log records ------------------------------------------------------------------------------
# 0 none 1 CRC-32C, masked 2 XXH32 3 XXH64, low half 4 XXH3 of all but the last byte, low half, last byte mixed in
# masked := rotr32(crc, 15) + 0xA282EAD8 RocksDB: util/crc32c.h, ComputeBuiltinChecksum

Checksums = npt.NDArray[np.uint64]
NONE = 0
MASK_DELTA = 0xA282EAD8
LAST_BYTE_PRIME = 0x6B9083D9
LOW32 = 0xFFFFFFFF


def masked_crc32c(data: Bytes, start: Longs, end: Longs) -> Checksums:
    """Return the masked CRC-32C of every span."""
    from pyspark_savepoint.formats.kernels import sst

    crc = np.empty(len(start), np.uint64)
    sst.crc32c(data, start, end, sst.CRC_TABLES, crc)
    rotated = crc >> np.uint64(15) | crc << np.uint64(17) & np.uint64(LOW32)
    return (rotated + np.uint64(MASK_DELTA)) & np.uint64(LOW32)


def _xxh3(data: memoryview) -> int:
    if not data:
        return 0
    return xxhash.xxh3_64_intdigest(data[:-1]) & LOW32 ^ data[-1] * LAST_BYTE_PRIME & LOW32


def _each(checksum: Callable[[Any], int]) -> Callable[[Bytes, Longs, Longs], Checksums]:
    def all_of_them(data: Bytes, start: Longs, end: Longs) -> Checksums:
        view = data.data
        spans = zip(start.tolist(), end.tolist(), strict=True)
        return np.array([checksum(view[low:high]) for low, high in spans], np.uint64)

    return all_of_them


#: Functions by checksum type, as numbered in footers.
CHECKSUMS: Mapping[int, Callable[[Bytes, Longs, Longs], Checksums]] = MappingProxyType(
    {
        1: masked_crc32c,
        2: _each(lambda data: xxhash.xxh32_intdigest(data)),
        3: _each(lambda data: xxhash.xxh64_intdigest(data) & LOW32),
        4: _each(_xxh3),
    }
)


TRAILER = 5
ROOM = 16
UNCOMPRESSED = 0
#: Limit on the key bytes of a metadata block: a factor of its size, and a constant.
KEYS_PER_BYTE = 32
FEW_KEYS = 1 << 16
#: The largest value that can be passed through JNI; a block is hardly larger than one value.
MAX_CONTENT = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class BlockHandle:
    """The location of a block; the size does not include the trailer."""

    offset: int
    size: int

    @classmethod
    def read(cls, view: Coding) -> BlockHandle:
        """Read offset, size."""
        return cls(view.varint("the offset of a block", 60), view.varint("the size of a block", 60))


@dataclass(frozen=True, slots=True)
class Protection:
    """Checksum settings of a file: the type, and the context that is mixed in with the offset of a block.

    ``legacy`` means format versions 0 and 1, where only Snappy blocks contain the size of their content.
    """

    kind: int
    context: int = 0
    legacy: bool = False

    def modifiers(self, offset: Longs) -> Any:
        """Return the values that are added to the checksums of blocks at some offsets."""
        if not self.context:
            return np.zeros(len(offset), np.uint64)
        at = offset.astype(np.uint64)
        low = (at + (at >> np.uint64(32))) & np.uint64(0xFFFFFFFF)
        return low ^ np.uint64(self.context)


@dataclass(slots=True)
class Blocks:
    """Contents of blocks in one buffer."""

    buffer: Bytes
    start: Longs
    end: Longs


def read_block(source: ByteSource, handle: BlockHandle, protection: Protection) -> bytes:
    """Return the content of one block."""
    blocks = read_blocks(source, np.array([handle.offset]), np.array([handle.size]), protection)
    return blocks.buffer[int(blocks.start[0]) : int(blocks.end[0])].tobytes()


class Arena:
    """One buffer for the contents and keys of many blocks, so that entries in it need not be copied together."""

    def __init__(self, size: int) -> None:
        #: Unused pages cost nothing. Kernels may read and write one word past their range.
        self.buffer: Bytes = np.empty(size + ROOM, np.uint8)
        self.used = 0
        #: (start, path): the file of the bytes from ``start`` on.
        self.paths: list[tuple[int, str]] = []

    @cached_property
    def filled(self) -> Bytes:
        """Return what is used of the buffer, when nothing is added any more."""
        return self.buffer[: self.used + ROOM]

    @property
    def room(self) -> int:
        """Return the number of free bytes."""
        return len(self.buffer) - ROOM - self.used

    def put(self, data: Bytes) -> int:
        """Copy bytes to the end and return their position; there must be enough room."""
        start = self.used
        self.buffer[start : start + len(data)] = data
        self.used += len(data)
        return start


def read_blocks(
    source: ByteSource, offset: Longs, size: Longs, protection: Protection, arena: Arena | None = None
) -> Blocks:
    """Read one or more blocks, ascending in the file without overlap; into the arena if they fit.

    Blocks that adjoin are read in one go, and nothing between others.
    """
    stop = offset + size + TRAILER
    if np.any(offset[1:] < stop[:-1]):
        raise _unreadable(source.path, int(offset[0]), "blocks one after another", "blocks that overlap")
    if stop[-1] > source.size:
        raise _unreadable(
            source.path, int(offset[-1]), f"blocks within the file's {source.size} bytes", f"{int(size[-1])} bytes"
        )
    lengths = stop - offset
    end = np.cumsum(lengths)
    start = end - lengths
    end -= TRAILER
    data = np.empty(int(end[-1]) + TRAILER, np.uint8)
    first = np.flatnonzero(np.concatenate([[True], offset[1:] > stop[:-1]]))
    last = np.concatenate([first[1:], [len(offset)]]) - 1
    parts = zip(offset[first].tolist(), start[first].tolist(), (end[last] + TRAILER).tolist(), strict=True)
    for at, low, high in parts:
        source.read_into(at, data[low:high])
    _verify(data, start, end, offset, protection, source.path)
    if protection.legacy:
        unknown = np.flatnonzero(~np.isin(data[end], [UNCOMPRESSED, SNAPPY]))
        if len(unknown):
            _refuse(source.path, int(offset[unknown[0]]), int(data[end[unknown[0]]]))
    return _decompress(data, start, end, offset, source.path, arena)


def _unreadable(path: str, offset: int, expected: str, found: object) -> CorruptStateError:
    return CorruptStateError(
        "a block of a table file does not match the format",
        path=path,
        offset=offset,
        expected=expected,
        found=found,
        remedy=UNREADABLE,
    )


def _verify(data: Bytes, start: Longs, end: Longs, offset: Longs, protection: Protection, path: str) -> None:
    if protection.kind == NONE:
        return
    bytes_of = [data[end + 1 + i].astype(np.uint64) << np.uint64(8 * i) for i in range(4)]
    stored = bytes_of[0] | bytes_of[1] | bytes_of[2] | bytes_of[3]
    computed = CHECKSUMS[protection.kind](data, start, end + 1) + protection.modifiers(offset)
    computed &= np.uint64(0xFFFFFFFF)
    wrong = np.flatnonzero(computed != stored)
    if len(wrong):
        at = int(wrong[0])
        raise CorruptStateError(
            "a block of a table file is damaged",
            path=path,
            offset=int(offset[at]),
            expected=f"checksum {int(stored[at]):#010x}",
            found=f"{int(computed[at]):#010x}",
            remedy=DAMAGED,
        )


def _decompress(data: Bytes, start: Longs, end: Longs, offset: Longs, path: str, arena: Arena | None) -> Blocks:
    kinds = data[end]
    packed = np.flatnonzero(kinds != UNCOMPRESSED)
    if not len(packed):
        if arena is None or arena.room < len(data):
            return Blocks(data, start, end)
        at = arena.put(data)
        return Blocks(arena.buffer, start + at, end + at)
    unknown = np.flatnonzero(~np.isin(kinds, [UNCOMPRESSED, *DECOMPRESSORS]))
    if len(unknown):
        _refuse(path, int(offset[unknown[0]]), int(kinds[unknown[0]]))
    sizes = end - start
    body = start.copy()
    sizes[packed], body[packed] = _content_sizes(data, start[packed], end[packed], kinds[packed], offset[packed], path)
    stop = np.cumsum(sizes)
    total = int(stop[-1])
    if arena is not None and arena.room >= total:
        out = arena.buffer
        stop += arena.used
        arena.used += total
    else:
        out = np.empty(total, np.uint8)
    source, target = data.data, out.data
    spans = body, end, stop - sizes, stop, offset
    for kind, low, high, first, last, at in zip(kinds.tolist(), *(span.tolist() for span in spans), strict=True):
        if kind == UNCOMPRESSED:
            target[first:last] = source[low:high]
        elif not DECOMPRESSORS[kind](source[low:high], target[first:last]):
            raise _unreadable(path, at, f"{last - first} bytes of content", "bytes that do not decompress to this size")
    return Blocks(out, stop - sizes, stop)


def _content_sizes(
    data: Bytes, start: Longs, end: Longs, kinds: Bytes, offset: Longs, path: str
) -> tuple[Longs, Longs]:
    """Return the sizes of the contents, and the starts of the compressed bytes."""
    from pyspark_savepoint.formats.kernels import numbers

    sizes = np.empty(len(start), np.int64)
    body = start.copy()
    failing = numbers.read_varints(data, body, end, sizes)
    if failing < 0:
        packed = end - start
        most = np.maximum(packed * RATIOS[kinds] + 64, FREE_CONTENT * (RATIOS[kinds] == MAX_RATIO_OF_OTHERS))
        wrong = np.flatnonzero(sizes > np.minimum(most, MAX_CONTENT))
        failing = int(wrong[0]) if len(wrong) else -1
        # Properties contain the total size, and larger files are read in smaller steps: a larger sum is an error.
        if failing < 0 and sizes.sum() > min(max(int(packed.sum()) * MAX_RATIO_OF_OTHERS, FREE_TOTAL), MAX_CONTENT):
            failing = int(np.argmax(sizes))
    if failing >= 0:
        raise _unreadable(path, int(offset[failing]), "a possible size of its content", int(sizes[failing]))
    return sizes, np.where(kinds == SNAPPY, start, body)


def _snappy(data: memoryview, out: memoryview) -> bool:
    try:
        return bool(cramjam.snappy.decompress_raw_into(data, out) == len(out))
    except cramjam.DecompressionError:
        return False


def _zlib(data: memoryview, out: memoryview) -> bool:
    inflater = zlib.decompressobj(-15)
    try:
        content = inflater.decompress(data, len(out) or 1)
    except zlib.error:
        return False
    return _keep(content, out)


def _bzip2(data: memoryview, out: memoryview) -> bool:
    try:
        content = bz2.BZ2Decompressor().decompress(data, len(out))
    except (OSError, ValueError):
        return False
    return _keep(content, out)


def _keep(content: bytes, out: memoryview) -> bool:
    if len(content) != len(out):
        return False
    out[:] = content
    return True


def _lz4(data: memoryview, out: memoryview) -> bool:
    try:
        return bool(cramjam.lz4.decompress_block_into(data, out, output_len=len(out)) == len(out))
    except cramjam.DecompressionError:
        return False


def _zstd(data: memoryview, out: memoryview) -> bool:
    try:
        return bool(cramjam.zstd.decompress_into(data, out) == len(out))
    except cramjam.DecompressionError:
        return False


#: Types of compression by which a block ends. RocksDB: ``CompressionType``.
SNAPPY, ZLIB, BZIP2, LZ4, LZ4HC, ZSTD, ZSTD_BEFORE_ITS_FORMAT_WAS_FINAL = 1, 2, 3, 4, 5, 7, 64
DECOMPRESSORS: Mapping[int, Callable[[memoryview, memoryview], bool]] = MappingProxyType(
    {
        SNAPPY: _snappy,
        ZLIB: _zlib,
        BZIP2: _bzip2,
        LZ4: _lz4,
        LZ4HC: _lz4,
        ZSTD: _zstd,
        ZSTD_BEFORE_ITS_FORMAT_WAS_FINAL: _zstd,
    }
)
#: Maximum ratio of content to compressed bytes for bzip2 and ZSTD, which have no useful bound of their own; maximum
#: content of a block, and of all blocks that are read together, for which any ratio is accepted.
MAX_RATIO_OF_OTHERS, FREE_CONTENT, FREE_TOTAL = 4096, 64 << 20, 256 << 20
#: Largest ratio of content to compressed bytes, by compression type.
RATIOS = np.full(256, MAX_RATIO_OF_OTHERS, np.int64)
RATIOS[[SNAPPY, ZLIB, LZ4, LZ4HC]] = 64, 1100, 256, 256


def _refuse(path: str, offset: int, kind: int) -> NoReturn:
    raise UnsupportedStateError(
        "a table file has a compression that is not supported",
        path=path,
        offset=offset,
        expected="no compression, Snappy, zlib, bzip2, LZ4, LZ4HC or ZSTD",
        found=f"compression type {kind}",
        remedy="take a canonical savepoint of the job (flink savepoint --type canonical)",
    )


def expanded_keys(size: int) -> int:
    """Return the limit on the total size of the whole keys of a metadata block, which share few prefixes."""
    return KEYS_PER_BYTE * size + FEW_KEYS


def small_entries(content: bytes, path: str, offset: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values of a metadata block, which has few entries."""
    view = Coding(content, path, offset)
    if len(content) < 8:
        view.fail("a block of at least 8 bytes", len(content))
    stop = len(content) - 4 - 4 * int.from_bytes(content[-4:], "little")
    if stop < 0 or stop > len(content) - 8:
        view.fail("a number of restarts that fits into the block", content[-4:].hex())
    view.data = content[:stop]
    key = b""
    room = expanded_keys(stop)
    while view.remaining:
        shared, suffix = view.varint("a length", 32), view.varint("a length", 32)
        length = view.varint("a length", 32)
        if shared > len(key):
            view.fail("a key that shares at most the whole key before it", shared)
        room -= shared + suffix
        if room < 0:
            view.fail(f"keys of at most {expanded_keys(stop)} bytes in all", "more, with the prefixes that they share")
        key = key[:shared] + view.read(suffix, "a key")
        yield key, view.read(length, "a value")
