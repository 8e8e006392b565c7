"""Checksums of RocksDB."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_savepoint.formats.rocksdb.block import MASK_DELTA, masked_crc32c


def crc32c(data: bytes) -> int:
    """Bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF


@pytest.mark.parametrize(("data", "crc"), [(b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"", 0)])
def test_known_values(data: bytes, crc: int) -> None:
    assert crc32c(data) == crc
    array = np.frombuffer(bytearray(data + b"x"), np.uint8)
    assert masked_crc32c(array, np.array([0]), np.array([len(data)])).tolist() == [masked(crc)]


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=5))
def test_spans(parts: list[bytes]) -> None:
    end = np.cumsum([len(part) for part in parts])
    start = end - [len(part) for part in parts]
    array = np.frombuffer(bytearray(b"".join(parts) + b"x"), np.uint8)

    assert masked_crc32c(array, start, end).tolist() == [masked(crc32c(part)) for part in parts]
