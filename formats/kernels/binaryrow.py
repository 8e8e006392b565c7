"""Slots of binary rows and arrays: little-endian, at most eight bytes, and the data that they point to.

A slot belongs to a *container* (one row, array or map): bytes ``base[i]`` to ``end[i]``. Offsets in the slot are
relative to the start of the container. Slots of null values (``valid[i]`` false) are not read. The caller has checked
that the slots themselves lie within their containers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import inline, kernel
from pyspark_savepoint.formats.kernels.load import le_i64, le_u32

LOW32, LOW16 = np.int64(0xFFFFFFFF), np.int64(0xFFFF)
MASK64 = np.uint64(0xFFFFFFFFFFFFFFFF)
U1, U8, U63 = np.uint64(1), np.uint64(8), np.uint64(63)
C1, C2 = np.int64(0xCC9E2D51), np.int64(0x1B873593)


@kernel
def read_bits(buf: Any, bit: Any, valid: Any, out: Any) -> None:
    """Set ``out[i]`` to whether bit ``bit[i]`` of the buffer (least significant first) is clear; false if not valid."""
    for i in range(bit.shape[0]):
        out[i] = valid[i] and ((buf[bit[i] >> 3] >> (bit[i] & 7)) & 1) == 0


@kernel
def read_le(buf: Any, slot: Any, valid: Any, width: int, out: Any) -> None:
    """Read signed numbers of 1, 2, 4 or 8 bytes into an int64 array; 0 if not valid."""
    for i in range(slot.shape[0]):
        p = slot[i]
        if not valid[i]:
            out[i] = 0
        elif width == 8:
            out[i] = le_i64(buf, p)
        elif width == 4:
            out[i] = (le_u32(buf, p) ^ np.int64(0x80000000)) - np.int64(0x80000000)
        elif width == 2:
            v = np.int64(buf[p]) | (np.int64(buf[p + 1]) << np.int64(8))
            out[i] = (v ^ np.int64(0x8000)) - np.int64(0x8000)
        else:
            out[i] = (np.int64(buf[p]) ^ np.int64(0x80)) - np.int64(0x80)


@kernel
def read_extents(
    buf: Any,
    slot: Any,
    base: Any,
    end: Any,
    valid: Any,
    in_place: bool,
    owner: Any,
    budget: Any,
    starts: Any,
    stops: Any,
) -> int:
    """Compute the byte range of every value; return the failing slot or -1.

    All values of one container share a budget of ``budget[owner[i]]`` bytes: a correct writer stores each value once,
    but without this limit, a small malicious file could reference the same bytes any number of times.
    """
    for i in range(slot.shape[0]):
        p = slot[i]
        starts[i] = base[i]
        stops[i] = base[i]
        if not valid[i]:
            continue
        if in_place and buf[p + 7] >= 128:
            size = np.int64(buf[p + 7]) & np.int64(0x7F)
            if size > 7:
                return i
            starts[i] = p
            stops[i] = p + size
            continue
        size = le_u32(buf, p)
        offset = le_u32(buf, p + 4)
        if offset + size > end[i] - base[i]:
            return i
        budget[owner[i]] -= size
        if budget[owner[i]] < 0:
            return i
        starts[i] = base[i] + offset
        stops[i] = base[i] + offset + size
    return -1


@kernel
def read_indirect(buf: Any, slot: Any, base: Any, end: Any, valid: Any, out: Any, low: Any) -> int:
    """Read the long that the upper half of a slot points to, and the lower half; return the failing slot or -1."""
    for i in range(slot.shape[0]):
        out[i] = 0
        low[i] = 0
        if valid[i]:
            offset = le_u32(buf, slot[i] + 4)
            if offset + 8 > end[i] - base[i]:
                return i
            out[i] = le_i64(buf, base[i] + offset)
            low[i] = le_u32(buf, slot[i])
    return -1


@inline
def beyond(low: Any, high: Any, most_low: Any, most_high: Any) -> Any:
    """Return whether the magnitude of a 128-bit number (two uint64 halves) is greater than a bound."""
    if high >> U63:
        high = ~high
        if low == np.uint64(0):
            high += U1
        else:
            low = ~low + U1
    return high > most_high or (high == most_high and low > most_low)


@kernel
def read_decimals(buf: Any, starts: Any, stops: Any, valid: Any, most_low: Any, most_high: Any, out: Any) -> int:
    """Read big-endian two's complement of 1 to 16 bytes into (rows, 2) uint64; return the failing row or -1."""
    for i in range(starts.shape[0]):
        out[i, 0] = np.uint64(0)
        out[i, 1] = np.uint64(0)
        if not valid[i]:
            continue
        if stops[i] - starts[i] < 1 or stops[i] - starts[i] > 16:
            return i
        low = MASK64 if buf[starts[i]] >= 128 else np.uint64(0)
        high = low
        for p in range(starts[i], stops[i]):
            high = (high << U8) | (low >> np.uint64(56))
            low = (low << U8) | np.uint64(buf[p])
        if beyond(low, high, most_low, most_high):
            return i
        out[i, 0] = low
        out[i, 1] = high
    return -1


@kernel
def put_bits(buf: Any, bit: Any, clear: Any) -> None:
    """Set the bits whose ``clear[i]`` is false; the bytes must be zero before."""
    for i in range(bit.shape[0]):
        if not clear[i]:
            buf[bit[i] >> 3] |= np.uint8(1) << np.uint8(bit[i] & 7)


@kernel
def put_le(buf: Any, place: Any, values: Any, width: int, valid: Any) -> None:
    """Write the low ``width`` bytes of one int64 per row, little-endian, if valid."""
    for i in range(place.shape[0]):
        if valid[i]:
            v = np.uint64(values[i])
            for j in range(width):
                buf[place[i] + j] = np.uint8((v >> np.uint64(8 * j)) & np.uint64(0xFF))


@kernel
def put_spans(buf: Any, place: Any, data: Any, offsets: Any, valid: Any) -> None:
    """Write ``data[offsets[i]:offsets[i + 1]]`` to ``place[i]`` if valid."""
    for i in range(place.shape[0]):
        if valid[i]:
            p = place[i]
            for j in range(offsets[i], offsets[i + 1]):
                buf[p] = data[j]
                p += 1


@kernel
def decimal_sizes(halves: Any, out: Any) -> None:
    """Compute the bytes of the shortest big-endian two's complement of (rows, 2) uint64."""
    for i in range(halves.shape[0]):
        low, high = halves[i, 0], halves[i, 1]
        if high >> U63:
            low = ~low
            high = ~high
        bits = 0
        while high:
            bits += 1
            high >>= U1
        if bits:
            bits += 64
        else:
            while low:
                bits += 1
                low >>= U1
        out[i] = (bits >> 3) + 1


@kernel
def put_decimals(buf: Any, place: Any, halves: Any, sizes: Any, valid: Any) -> None:
    """Write big-endian two's complement of ``sizes[i]`` bytes to ``place[i]`` if valid."""
    for i in range(place.shape[0]):
        if valid[i]:
            low, high = halves[i, 0], halves[i, 1]
            for j in range(sizes[i]):
                p = place[i] + sizes[i] - 1 - j
                buf[p] = np.uint8(low & np.uint64(0xFF))
                low = (low >> U8) | (high << np.uint64(56))
                high = np.uint64(np.int64(high) >> np.int64(8))


@kernel
def fill_zero(buf: Any, start: Any, stop: Any) -> None:
    """Set the bytes from start to stop of every row to zero."""
    for i in range(start.shape[0]):
        for p in range(start[i], stop[i]):
            buf[p] = 0


@inline
def times(a: Any, b: Any) -> Any:
    """Return the low 32 bits of a product of unsigned ints, computed in halves so that no step exceeds an int64."""
    return (a * (b & LOW16) + (((a * (b >> np.int64(16))) & LOW16) << np.int64(16))) & LOW32


@inline
def mix(h: Any, word: Any) -> Any:
    """Return one round of MurmurHash3 (32 bit)."""
    k = times(word, C1)
    k = ((k << np.int64(15)) | (k >> np.int64(17))) & LOW32
    h ^= times(k, C2)
    h = ((h << np.int64(13)) | (h >> np.int64(19))) & LOW32
    return (h * np.int64(5) + np.int64(0xE6546B64)) & LOW32


@kernel
def murmur(buf: Any, start: Any, stop: Any, out: Any) -> None:
    """Compute Flink's ``MurmurHashUtils`` over spans, seed 42: words first, then remaining bytes as signed ints."""
    for i in range(start.shape[0]):
        h = np.int64(42)
        p = start[i]
        while p + 4 <= stop[i]:
            h = mix(h, le_u32(buf, p))
            p += 4
        while p < stop[i]:
            h = mix(h, ((np.int64(buf[p]) ^ np.int64(0x80)) - np.int64(0x80)) & LOW32)
            p += 1
        h ^= stop[i] - start[i]
        h ^= h >> np.int64(16)
        h = times(h, np.int64(0x85EBCA6B))
        h ^= h >> np.int64(13)
        h = times(h, np.int64(0xC2B2AE35))
        h ^= h >> np.int64(16)
        out[i] = (h ^ np.int64(0x80000000)) - np.int64(0x80000000)
