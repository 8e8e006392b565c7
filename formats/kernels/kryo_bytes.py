"""Numbers and texts as both versions of Kryo write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import inline, kernel
from pyspark_savepoint.formats.kernels.load import be_u64
from pyspark_savepoint.formats.kernels.strings import HIGH_BITS, LOW6, put_utf8
from pyspark_savepoint.formats.kernels.strings import varint as any_varint

#: How the characters of a text are written: ASCII whose last byte has bit 0x80; ASCII; units of UTF-16; UTF-8.
MARKED, ASCII, UNITS, UTF8 = 0, 1, 2, 3
LOW7, HIGH, ONE = np.uint64(0x7F), np.uint64(0x80), np.uint64(1)
LOW32 = np.int64(0xFFFFFFFF)


@kernel
def _long_varint(buf: Any, p: Any, end: Any) -> Any:
    return any_varint(buf, p, end)


@inline
def varint(buf: Any, p: Any, end: Any) -> Any:
    """Read a varint; return it and the position after it, or -1. Most have one byte, and only these are inlined."""
    value = np.int64(0)
    if p < end and buf[p] < 128:
        value = np.int64(buf[p])
        p += 1
    else:
        value, p = _long_varint(buf, p, end)
    return value, p


@inline
def any_varlong(buf: Any, p: Any, end: Any, most: Any) -> Any:
    """Read a varlong of at most ``most`` bytes, 9 or fewer; return its bits and the position after it, or -1."""
    bits = np.uint64(0)
    stop = np.int64(-1)
    for k in range(most):
        if p >= end:
            break
        byte = np.uint64(buf[p])
        p += 1
        if k == 8:
            bits |= byte << np.uint64(56)
            stop = np.int64(p)
            break
        bits |= (byte & LOW7) << np.uint64(7 * k)
        if byte < HIGH:
            stop = np.int64(p)
            break
    return bits, stop


@kernel
def varlong(buf: Any, p: Any, end: Any) -> Any:
    """Read a varlong, as ``any_varlong`` does, in a function of its own, which takes less time to compile."""
    return any_varlong(buf, p, end, 9)


@inline
def zig_zag(bits: Any) -> Any:
    """Return the signed number of the bits of a varlong."""
    number = bits >> ONE
    if bits & ONE:
        number = ~number
    return np.int64(number)


@inline
def signed_long(buf: Any, p: Any, end: Any) -> Any:
    """Read a long in zig-zag."""
    bits, p = varlong(buf, p, end)
    return zig_zag(bits), p


@inline
def plain_long(buf: Any, p: Any, end: Any) -> Any:
    """Read a long in two's complement."""
    bits, p = varlong(buf, p, end)
    return np.int64(bits), p


@inline
def signed_int(buf: Any, p: Any, end: Any) -> Any:
    """Read an int in zig-zag."""
    value, p = varint(buf, p, end)
    value &= LOW32
    return (value >> 1) ^ -(value & 1), p


@inline
def plain_int(buf: Any, p: Any, end: Any) -> Any:
    """Read an int in two's complement."""
    value, p = varint(buf, p, end)
    return ((value & LOW32) ^ np.int64(0x80000000)) - np.int64(0x80000000), p


@inline
def signed_byte(buf: Any, p: Any, end: Any) -> Any:
    """Read a byte; 1000 where there is none."""
    return (np.int64(buf[p]) ^ np.int64(0x80)) - np.int64(0x80) if p < end else 1000


@inline
def size_plus_one(buf: Any, p: Any, end: Any) -> Any:
    """Read a size plus one of things that have at least a byte each; the position is -1 if there are not as many."""
    size, p = varint(buf, p, end)
    size -= 1
    if size < 0 or size > end - p:
        p = -1
    return size, p


@kernel
def read_text(buf: Any, p: Any, end: Any) -> Any:
    """Read a text: start, length and form, and the position after it; -1 for null and what is left to the caller."""
    start, size, form, stop = np.int64(p), np.int64(0), MARKED, -1
    if p < end and buf[p] < 128:
        while p + 8 <= end and not be_u64(buf, p) & HIGH_BITS:
            p += 8
        while p < end and buf[p] < 128:
            p += 1
        if p < end:
            size = p + 1 - start
            stop = p + 1
    elif p < end:
        first = np.int64(buf[p])
        size = first & np.int64(0x3F)
        p += 1
        if first & 0x40:
            # A size has at most four more bytes.
            rest, after = varint(buf, p, end)
            size |= rest << 6
            p = after if after - p <= 4 else -1
        size -= 1
        start = np.int64(p)
        if p >= 0 and 0 <= size <= end - p:
            form = ASCII
            stop = p + size
            for k in range(size):
                if buf[p + k] >= 128:
                    form = UNITS
                    stop = units_end(buf, start, size, end)
                    break
    return start, size, form, stop


@kernel
def unit_at(buf: Any, p: Any, end: Any) -> Any:
    """Read a unit of UTF-16; return it and the position after it, or -1."""
    unit = np.int64(buf[p]) if p < end else -1
    stop = -1
    if 0 <= unit < 128:
        stop = p + 1
    elif unit >> 5 == 6 and p + 1 < end and buf[p + 1] >> 6 == 2:
        unit = ((unit & 31) << 6) | (np.int64(buf[p + 1]) & LOW6)
        stop = p + 2
    elif unit >> 4 == 14 and p + 2 < end and buf[p + 1] >> 6 == 2 and buf[p + 2] >> 6 == 2:
        unit = ((unit & 15) << 12) | ((np.int64(buf[p + 1]) & LOW6) << 6)
        unit |= np.int64(buf[p + 2]) & LOW6
        stop = p + 3
    return unit, stop


@kernel
def character(buf: Any, p: Any, end: Any) -> Any:
    """Read a code point of one or two units; return it, its units, and the position after it.

    The position is -1 for half of a pair, and for U+10FFFF, which may precede digits that stand for half of a pair.
    """
    unit, p = unit_at(buf, p, end)
    units = 1
    if p >= 0 and unit >> 11 == 27:
        low, after = unit_at(buf, p, end)
        p = -1
        if after >= 0 and unit < 0xDC00 and low >> 10 == 55:
            unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)
            units = 2
            p = after if unit != 0x10FFFF else -1
    return unit, units, p


@kernel
def units_end(buf: Any, p: Any, size: Any, end: Any) -> Any:
    """Return the position after units of UTF-16, or -1."""
    while size > 0 and p >= 0:
        _, units, p = character(buf, p, end)
        size -= units
    return p if size == 0 else -1


@kernel
def put_text(buf: Any, start: Any, size: Any, form: Any, out: Any, q: Any) -> Any:
    """Store a text in UTF-8; return the next position. There is room for three bytes a unit."""
    if form == UNITS:
        p = start
        while size > 0:
            c, units, p = character(buf, p, np.int64(buf.shape[0]))
            if p < 0:
                break
            size -= units
            q = put_utf8(out, q, c)
    else:
        bits = 0xFF if form == UTF8 else 0x7F
        for k in range(size):
            out[q + k] = buf[start + k] & bits
        q += size
    return q
