"""Compressed blocks: what they may grow to."""

from __future__ import annotations

import bz2
from collections.abc import Callable

import cramjam
import numpy as np
import pytest

from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.io.byte_source import InlineByteSource
from pyspark_savepoint.formats.rocksdb.block import FREE_CONTENT, NONE, Protection, read_blocks
from tests.formats.rocksdb.test_manifest import varint

COMPRESSORS = [
    pytest.param(3, bz2.compress, id="bzip2"),
    pytest.param(7, lambda content: bytes(cramjam.zstd.compress(content)), id="zstd"),
]


def blocks(kind: int, packed: bytes, size: int, count: int) -> tuple[InlineByteSource, np.ndarray, np.ndarray]:
    """Return equal blocks of a file whose content has the given size, or only declares it."""
    block = varint(size) + packed
    data = (block + bytes([kind, 0, 0, 0, 0])) * count
    offset = np.arange(count, dtype=np.int64) * (len(block) + 5)
    return InlineByteSource("file", data), offset, np.full(count, len(block), np.int64)


@pytest.mark.parametrize(("kind", "compress"), COMPRESSORS)
def test_high_ratios_are_read(kind: int, compress: Callable[[bytes], bytes]) -> None:
    content = b"\0" * (4 << 20)
    packed = compress(content)
    assert len(content) > 4096 * len(packed)

    found = read_blocks(*blocks(kind, packed, len(content), 2), Protection(NONE))

    assert found.buffer.tobytes() == content * 2


@pytest.mark.parametrize(("size", "count"), [(FREE_CONTENT + 1, 1), (FREE_CONTENT, 5)])
@pytest.mark.parametrize(("kind", "compress"), COMPRESSORS)
def test_bombs_are_refused_before_they_grow(
    kind: int, compress: Callable[[bytes], bytes], size: int, count: int
) -> None:
    """A few hundred bytes that would become some hundred megabytes."""
    packed = compress(b"\0" * 100)

    with pytest.raises(CorruptStateError, match="a possible size of its content"):
        read_blocks(*blocks(kind, packed, size, count), Protection(NONE))
