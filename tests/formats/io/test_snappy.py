"""Snappy frames: no flipped bit passes that gives other content."""

from __future__ import annotations

import random

import pytest

from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.io import snappy


def framed(content: bytes) -> bytes:
    file = Collected()
    output = snappy.FramedOutput(file, 0, compressed=True)
    output.begin()
    output.write(content)
    output.end()
    output.flush()
    return bytes(file.data)


class Collected:
    """A file in memory."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: memoryview | bytes, /) -> None:
        self.data += data


def flipped(data: bytes, bit: int) -> bytes | None:
    """What a stream with one bit changed decompresses to; None where it is refused."""
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    try:
        return snappy.decompress(memoryview(damaged), "a file", 0).tobytes()
    except CorruptStateError:
        return None


@pytest.mark.parametrize("kind", ["runs", "noise"])
def test_no_flipped_bit_gives_other_content(kind: str) -> None:
    content = b"abc" * 100 if kind == "runs" else random.Random(1).randbytes(300)
    data = framed(content)
    assert flipped(data, 0) is None
    assert {flipped(data, bit) for bit in range(8 * len(data))} <= {None, content}


def test_a_chunk_of_many_cannot_become_one_to_be_skipped() -> None:
    content = b"ab" * 100_000
    data = framed(content)
    starts = [start for start, _, _ in snappy.scan_chunks(memoryview(data), "a file", 0)]
    assert len(starts) > 2
    for start in starts:
        with pytest.raises(CorruptStateError, match="found: 80"):
            snappy.decompress(memoryview(data[:start] + b"\x80" + data[start + 1 :]), "a file", 0)
