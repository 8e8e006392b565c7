"""Keys: key groups of Java hashes, lengths after variable parts, and equal neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import inline, kernel
from pyspark_savepoint.formats.kernels.entries.frames import compare_spans

LOW32 = np.uint64(0xFFFFFFFF)


@inline
def rotate(value: Any, bits: int) -> Any:
    """Rotate an unsigned int, held in 64 bits because numba computes with these, to the left."""
    return ((value << np.uint64(bits)) | (value >> np.uint64(32 - bits))) & LOW32


@kernel
def key_groups(hashes: Any, max_parallelism: int, out: Any) -> None:
    """Compute the key group of every Java ``hashCode``, with the mix of ``MathUtils.murmurHash``."""
    for i in range(hashes.shape[0]):
        code = ((np.uint64(hashes[i]) & LOW32) * np.uint64(0xCC9E2D51)) & LOW32
        code = (rotate(code, 15) * np.uint64(0x1B873593)) & LOW32
        code = (rotate(code, 13) * np.uint64(5) + np.uint64(0xE6546B64)) & LOW32
        code ^= np.uint64(4)
        code = ((code ^ (code >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & LOW32
        code = ((code ^ (code >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & LOW32
        code ^= code >> np.uint64(16)
        magnitude = np.int64(code)
        if magnitude >= 0x80000000:
            # Absolute value as in Java; the smallest int has none and becomes 0.
            magnitude = (0x100000000 - magnitude) & 0x7FFFFFFF
        out[i] = magnitude % max_parallelism


@kernel
def length_digits(lengths: Any, out: Any) -> None:
    """Compute the bytes of the little-endian length after a variable part: at least one."""
    for i in range(lengths.shape[0]):
        rest = lengths[i] >> 8
        out[i] = 1
        while rest > 0:
            out[i] += 1
            rest >>= 8


@kernel
def put_lengths(buf: Any, pos: Any, lengths: Any) -> None:
    """Write these lengths at the cursors."""
    for i in range(pos.shape[0]):
        rest = lengths[i]
        p = pos[i]
        while True:
            buf[p] = np.uint8(rest & 0xFF)
            p += 1
            rest >>= 8
            if rest == 0:
                break
        pos[i] = p


@kernel
def first_repeated_span(group: Any, data: Any, start: Any, end: Any) -> int:
    """Return the first span with the same group and bytes as the previous one, or -1."""
    for i in range(1, start.shape[0]):
        same = group[i] == group[i - 1] and end[i] - start[i] == end[i - 1] - start[i - 1]
        if same and compare_spans(data, start[i - 1], end[i - 1], start[i], end[i]) == 0:
            return i
    return -1
