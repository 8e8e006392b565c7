"""Numbers, one per row, at its cursor.

fixed width    big-endian
varint         at most five bytes, seven bits each, the least significant first
big integer    i32 k, and k - 4 bytes if k > 3, to and from the 128-bit words of Arrow's decimals
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import kernel
from pyspark_savepoint.formats.kernels.load import be_i32, be_i64, be_u32, put_be, put_u64
from pyspark_savepoint.formats.kernels.strings import put_varint, varint


@kernel
def read_i8(buf: Any, pos: Any, end: Any, out: Any) -> int:
    """Read one byte per row into a uint8 array."""
    for i in range(pos.shape[0]):
        p = pos[i]
        if p + 1 > end[i]:
            return i
        out[i] = buf[p]
        pos[i] = p + 1
    return -1


@kernel
def read_i16(buf: Any, pos: Any, end: Any, out: Any) -> int:
    """Read two bytes per row into a uint16 array."""
    for i in range(pos.shape[0]):
        p = pos[i]
        if p + 2 > end[i]:
            return i
        out[i] = (np.int64(buf[p]) << np.int64(8)) | np.int64(buf[p + 1])
        pos[i] = p + 2
    return -1


@kernel
def read_i32(buf: Any, pos: Any, end: Any, out: Any) -> int:
    """Read four bytes per row into a uint32 array."""
    for i in range(pos.shape[0]):
        p = pos[i]
        if p + 4 > end[i]:
            return i
        out[i] = be_u32(buf, p)
        pos[i] = p + 4
    return -1


@kernel
def read_i64(buf: Any, pos: Any, end: Any, out: Any) -> int:
    """Read eight bytes per row into an int64 array."""
    for i in range(pos.shape[0]):
        p = pos[i]
        if p + 8 > end[i]:
            return i
        out[i] = be_i64(buf, p)
        pos[i] = p + 8
    return -1


@kernel
def read_flags(buf: Any, pos: Any, end: Any, out: Any) -> int:
    """Read one byte per row, which must be 0 or 1, into a bool array."""
    for i in range(pos.shape[0]):
        p = pos[i]
        if p + 1 > end[i] or buf[p] > 1:
            return i
        out[i] = buf[p] == 1
        pos[i] = p + 1
    return -1


@kernel
def write_fixed(buf: Any, pos: Any, values: Any, width: Any) -> None:
    """Write the low ``width`` bytes of one int64 per row; the buffer must be large enough."""
    if width == 8:
        for i in range(pos.shape[0]):
            put_u64(buf, pos[i], values[i])
            pos[i] += 8
    else:
        for i in range(pos.shape[0]):
            put_be(buf, pos[i], values[i], width)
            pos[i] += width


@kernel
def write_bytes(buf: Any, pos: Any, offsets: Any, data: Any) -> None:
    """Write ``data[offsets[i]:offsets[i + 1]]`` to row i unchanged; the buffer must be large enough."""
    for i in range(pos.shape[0]):
        p = pos[i]
        for j in range(offsets[i], offsets[i + 1]):
            buf[p] = data[j]
            p += 1
        pos[i] = p


@kernel
def copy_spans(buf: Any, start: Any, offsets: Any, out: Any) -> None:
    """Copy spans of a buffer to ``out``, contiguously; ``offsets`` are their positions in ``out``."""
    for i in range(start.shape[0]):
        p = start[i]
        for j in range(offsets[i], offsets[i + 1]):
            out[j] = buf[p]
            p += 1


@kernel
def read_varints(buf: Any, pos: Any, end: Any, out: Any) -> int:
    """Read the varint at every cursor; return the failing row or -1."""
    for i in range(pos.shape[0]):
        value, p = varint(buf, pos[i], end[i])
        if p < 0:
            return i
        out[i] = value
        pos[i] = p
    return -1


@kernel
def write_varints(buf: Any, pos: Any, values: Any) -> None:
    """Write one varint per row; the buffer must be large enough."""
    for i in range(pos.shape[0]):
        pos[i] = put_varint(buf, pos[i], values[i])


# -- Hadoop's variable-length integers: one byte from -112 to 127, else a byte with sign and size ---------------------


@kernel
def read_vints(buf: Any, pos: Any, end: Any, out: Any) -> int:
    """Read one number per row into an int64 array; return the failing row or -1."""
    for i in range(pos.shape[0]):
        p = pos[i]
        if p >= end[i]:
            return i
        first = np.int64(np.int8(buf[p]))
        p += 1
        if first >= -112:
            out[i] = first
            pos[i] = p
            continue
        size = -120 - first if first < -120 else -112 - first
        if p + size > end[i]:
            return i
        value = np.int64(0)
        for _ in range(size):
            value = (value << np.int64(8)) | np.int64(buf[p])
            p += 1
        out[i] = ~value if first < -120 else value
        pos[i] = p
    return -1


@kernel
def length_sizes(lengths: Any, sizes: Any) -> None:
    """Compute the encoded bytes of lengths, which must not be negative."""
    for i in range(lengths.shape[0]):
        value = lengths[i]
        sizes[i] = 1
        if value > 127:
            while value > 0:
                sizes[i] += 1
                value >>= np.int64(8)


@kernel
def write_lengths(buf: Any, pos: Any, lengths: Any, sizes: Any) -> None:
    """Write one length per row, of the sizes of :func:`length_sizes`."""
    for i in range(pos.shape[0]):
        p = pos[i]
        size = sizes[i] - 1
        if size == 0:
            buf[p] = np.uint8(lengths[i])
        else:
            buf[p] = np.uint8(256 - 112 - size)
            put_be(buf, p + 1, lengths[i], size)
        pos[i] = p + 1 + size


NULL, NARROW, WIDE = 0, 1, 2
LIMIT_HIGH, LIMIT_LOW = np.uint64(0x4B3B4CA85A86C47A), np.uint64(0x098A224000000000)  # 10 to the 38th
U8, U56 = np.uint64(8), np.uint64(56)
SIGN, ONE, ONES = np.uint64(1 << 63), np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF)


@kernel
def read_bigs(buf: Any, pos: Any, end: Any, scaled: Any, words: Any, kinds: Any, spans: Any, scales: Any) -> int:
    """Read one number per row, followed by a scale if ``scaled``; return the failing row or -1.

    ``kinds`` is NULL, NARROW (at most 16 bytes: ``words`` are the low and the high half) or WIDE (``spans`` are start
    and end of the bytes).
    """
    for i in range(pos.shape[0]):
        p = pos[i]
        if p + 4 > end[i]:
            return i
        k = be_i32(buf, p)
        p += 4
        low, high = np.uint64(0), np.uint64(0)
        kinds[i] = NULL if k == 0 else NARROW
        if k < 0 or k == 4 or k - 4 > end[i] - p:
            return i
        if k < 4:
            low = np.uint64(10 if k == 3 else max(k - 1, 0))
        elif k > 20:
            kinds[i] = WIDE
            spans[i, 0] = p
            p += k - 4
            spans[i, 1] = p
        else:
            if buf[p] >= 128:
                low, high = ONES, ONES
            for _ in range(k - 4):
                high = (high << U8) | (low >> U56)
                low = (low << U8) | np.uint64(buf[p])
                p += 1
        words[i, 0] = low
        words[i, 1] = high
        if scaled and k != 0:
            if p + 4 > end[i]:
                return i
            scales[i] = be_i32(buf, p)
            p += 4
        pos[i] = p
    return -1


@kernel
def magnitudes(words: Any, out: Any, small: Any) -> None:
    """Compute the absolute values of the words; ``small`` is true if the number has at most 38 digits."""
    for i in range(words.shape[0]):
        low, high = words[i, 0], words[i, 1]
        if high & SIGN:
            low = ~low + ONE
            high = ~high + (ONE if low == 0 else np.uint64(0))
        out[i, 0] = low
        out[i, 1] = high
        small[i] = high < LIMIT_HIGH or (high == LIMIT_HIGH and low < LIMIT_LOW)


@kernel
def big_sizes(words: Any, sizes: Any) -> None:
    """Compute the bytes of the shortest two's complement; 0 for 0, 1 and 10, which only need ``k``."""
    for i in range(words.shape[0]):
        low, high = words[i, 0], words[i, 1]
        if high == 0 and (low < 2 or low == 10):
            sizes[i] = 0
            continue
        if high & SIGN:
            low, high = ~low, ~high
        bits = 1  # of the sign
        while high != 0:
            high >>= ONE
            bits += 1
        if bits > 1:
            bits += 64
        else:
            while low != 0:
                low >>= ONE
                bits += 1
        sizes[i] = (bits + 7) // 8


@kernel
def write_bigs(buf: Any, pos: Any, words: Any, sizes: Any, valid: Any, scaled: Any, scale: Any) -> None:
    """Write one number per row, of the sizes of :func:`big_sizes`, and its scale; the buffer must be large enough."""
    for i in range(pos.shape[0]):
        p = pos[i]
        n = sizes[i]
        low, high = words[i, 0], words[i, 1]
        code = n + 4
        if not valid[i]:
            code = 0
        elif n == 0:
            code = 3 if low == 10 else np.int64(low) + 1
        put_be(buf, p, np.int64(code), 4)
        p += 4
        if code > 3:
            if n > 8:
                put_be(buf, p, np.int64(high), n - 8)
                p += n - 8
            put_be(buf, p, np.int64(low), min(n, 8))
            p += min(n, 8)
        if scaled and code != 0:
            put_be(buf, p, np.int64(scale), 4)
            p += 4
        pos[i] = p
