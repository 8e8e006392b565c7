"""Checksums of blocks and log records.

0 none   1 CRC-32C, masked   2 XXH32   3 XXH64, low half   4 XXH3 of all but the last byte, low half, last byte mixed in
masked := rotr32(crc, 15) + 0xA282EAD8                                 RocksDB: util/crc32c.h, ComputeBuiltinChecksum
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from pyspark_savepoint.formats.columns import Bytes, Longs

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
