"""Number formats of RocksDB: little-endian, and varints with seven bits per byte, the least significant first.

str := varint32 length  bytes            RocksDB: util/coding.h
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import xxhash

from pyspark_savepoint.formats.columns import Bytes, Longs
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError


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
    from pyspark_savepoint.formats.kernels.entries import sst

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
