"""Number formats of RocksDB: little-endian, and varints with seven bits per byte, the least significant first.

str := varint32 length  bytes            RocksDB: util/coding.h
"""

from __future__ import annotations

from typing import NoReturn

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
