"""Big integers: ``i32 k``, and k - 4 bytes if k > 3, to and from the 128-bit words of Arrow's decimals."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import kernel
from pyspark_savepoint.formats.kernels.load import be_i32, put_be

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
