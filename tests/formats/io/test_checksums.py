"""Checksums of files: equal however a file is written, and compared with every part that is read."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import xxhash

from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem
from pyspark_savepoint.formats.io.byte_source import ChecksummedOutput, FileLocation
from pyspark_savepoint.formats.metadata.manifest import BLOCK, FileChecksums


def written(path: Path, data: bytes, sizes: list[int]) -> FileChecksums:
    """Write a file in pieces of some sizes, over and over."""
    found: list[FileChecksums] = []
    file = ChecksummedOutput(LocalFileSystem().open_output(str(path)), found.append)
    at = 0
    while at < len(data):
        for size in sizes:
            file.write(memoryview(data)[at : at + size])
            at += size
    file.close()
    assert file.size == len(data)
    return found[0]


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, 2 * BLOCK + 5])
def test_checksums_do_not_depend_on_the_pieces(size: int, tmp_path: Path) -> None:
    data = random.Random(size).randbytes(size)
    one = written(tmp_path / "one", data, [size or 1])
    assert one == written(tmp_path / "two", data, [1 << 20, 77, 3 * BLOCK])
    assert one.digest == xxhash.xxh3_128_digest(data)
    assert [one.block(i) for i in range(-(-size // BLOCK))] == [
        xxhash.xxh3_64_digest(data[at : at + BLOCK]) for at in range(0, size, BLOCK)
    ]


def test_what_is_read_is_checked_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    data = random.Random(1).randbytes(2 * BLOCK + 100)
    location = FileLocation(LocalFileSystem(), str(path), size=len(data), checksums=written(path, data, [1 << 20]))
    with location.open() as source:
        for start, count in ((0, 10), (BLOCK - 3, 6), (5, 2 * BLOCK), (2 * BLOCK + 99, 1), (7, 0)):
            assert source.read(start, count) == data[start : start + count]
    damaged = bytearray(data)
    damaged[BLOCK + 9] ^= 1
    path.write_bytes(damaged)
    with location.open() as source:
        assert source.read(BLOCK - 3, 3) == data[BLOCK - 3 : BLOCK]
        assert source.read(2 * BLOCK, 100) == data[2 * BLOCK :]
        with pytest.raises(CorruptStateError, match="its checksum differs"):
            source.read(BLOCK - 3, 4)
    path.write_bytes(data + b"x")
    with pytest.raises(CorruptStateError, match="its checksum differs"):
        location.open()
