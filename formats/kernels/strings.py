"""Strings as ``StringValue`` writes them: a varint of the length, then one varint per UTF-16 code unit.

``StringSerializer`` stores the length plus one (0 is null), ``StringValueSerializer`` the length itself. They are
converted to and from Arrow's utf8 buffers. A surrogate pair is two units of three bytes and becomes four bytes of
UTF-8. A lone surrogate has no UTF-8: in a column it is U+10FFFF, a code point that is not a character, and its four hex
digits. U+10FFFF itself stays as it is, unless four such digits (or ``ffff``) follow it: then ``ffff`` comes between.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import inline, kernel
from pyspark_savepoint.formats.kernels.load import be_u16, be_u64, put_u64

TRUNCATED, LONE_SURROGATE, TOO_LARGE = 1, 2, 3
HIGH_BITS = np.uint64(0x8080808080808080)
I7, I6, I12, I18 = np.int64(7), np.int64(6), np.int64(12), np.int64(18)
LOW7, LOW6 = np.int64(0x7F), np.int64(0x3F)
MAX_UTF8 = 2**31 - 1
#: Precedes the four hex digits of a lone surrogate in a column; with ``ffff`` it stands for itself.
ESCAPE, ITSELF = np.int64(0x10FFFF), np.int64(0xFFFF)
#: What :func:`read_strings` does with a lone surrogate.
REFUSE, REPLACE, ESCAPED = 0, 1, 2


@inline
def varint(buf: Any, p: Any, end: Any) -> Any:
    """Read a varint of at most 5 bytes at ``p``; return the value and the next position, or position -1."""
    value = np.int64(0)
    shift = np.int64(0)
    stop = np.int64(-1)
    while p < end and shift <= 28:
        b = np.int64(buf[p])
        p += 1
        value |= (b & LOW7) << shift
        if b < 128:
            stop = p
            break
        shift += I7
    return value, stop


@inline
def put_utf8(out: Any, o: Any, c: Any) -> Any:
    """Store one code point as UTF-8; return the next position."""
    if c < 0x80:
        out[o] = c
        o += 1
    elif c < 0x800:
        out[o] = 0xC0 | (c >> I6)
        out[o + 1] = 0x80 | (c & LOW6)
        o += 2
    elif c < 0x10000:
        out[o] = 0xE0 | (c >> I12)
        out[o + 1] = 0x80 | ((c >> I6) & LOW6)
        out[o + 2] = 0x80 | (c & LOW6)
        o += 3
    else:
        out[o] = 0xF0 | (c >> I18)
        out[o + 1] = 0x80 | ((c >> I12) & LOW6)
        out[o + 2] = 0x80 | ((c >> I6) & LOW6)
        out[o + 3] = 0x80 | (c & LOW6)
        o += 4
    return o


@inline
def put_lone(out: Any, o: Any, c: Any, lone: Any) -> Any:
    """Store a lone surrogate as U+FFFD, or as the escape and four hex digits; return the next position."""
    if lone == REPLACE:
        return put_utf8(out, o, np.int64(0xFFFD))
    return put_escaped(out, o, c)


@inline
def put_escaped(out: Any, o: Any, c: Any) -> Any:
    """Store the escape and four hex digits; return the next position."""
    o = put_utf8(out, o, ESCAPE)
    for shift in range(12, -4, -4):
        digit = (c >> np.int64(shift)) & np.int64(15)
        out[o] = digit + 48 if digit < 10 else digit + 87
        o += 1
    return o


@inline
def escaped(data: Any, p: Any, end: Any) -> Any:
    """Return what the four hex digits at ``p`` say after an escape: a surrogate, ``ITSELF``, or -1 for nothing."""
    c = np.int64(-1)
    if p + 4 <= end:
        c = np.int64(0)
        for j in range(4):
            digit = np.int64(data[p + j])
            if 48 <= digit <= 57:
                c = (c << np.int64(4)) | (digit - 48)
            elif 97 <= digit <= 102:
                c = (c << np.int64(4)) | (digit - 87)
            else:
                c = np.int64(0)
                break
        if (c < 0xD800 or c > 0xDFFF) and c != ITSELF:
            c = np.int64(-1)
    return c


@kernel
def read_strings(buf: Any, pos: Any, end: Any, extra: Any, offsets: Any, out: Any, valid: Any, lone: Any) -> Any:
    """Decode one string per row to UTF-8; return (failing row or -1, reason, bytes of UTF-8).

    ``extra`` is 1 if 0 means null (``StringSerializer``), else 0. ``lone``: what to do with lone surrogates. ``out``
    has 3 bytes for every 2 of input, or 3 for each if they are escaped.
    """
    o = np.int64(0)
    offsets[0] = 0
    for i in range(pos.shape[0]):
        p = pos[i]
        stop = end[i]
        length, p = varint(buf, p, stop)
        if p < 0:
            return i, TRUNCATED, o
        valid[i] = length >= extra
        left = length - extra
        if left > stop - p:
            return i, TRUNCATED, o
        if o + (8 if lone == ESCAPED else 3) * left > MAX_UTF8:
            return i, TOO_LARGE, o
        while left >= 8:  # eight ASCII characters at a time
            if be_u64(buf, p) & HIGH_BITS:
                break
            for j in range(8):
                out[o + j] = buf[p + j]
            o += 8
            p += 8
            left -= 8
        while left > 0:
            c = np.int64(buf[p]) if p < stop else np.int64(-1)
            p += 1
            if c >= 128 or c < 0:
                c, p = varint(buf, p - 1, stop)
                if p < 0 or c > 0xFFFF:
                    return i, TRUNCATED, o
            left -= 1
            if 0xD800 <= c < 0xE000:
                low, q = np.int64(0), p
                if c < 0xDC00 and left > 0:
                    low, q = varint(buf, p, stop)
                    if q < 0:
                        return i, TRUNCATED, o
                if low < 0xDC00 or low > 0xDFFF:
                    if lone == REFUSE:
                        return i, LONE_SURROGATE, o
                    o = put_lone(out, o, c, lone)
                    continue
                p = q
                left -= 1
                c = 0x10000 + ((c - 0xD800) << np.int64(10)) + (low - 0xDC00)
                # An ASCII character is one byte, so that the digits stand in the input as they do in the column.
                if c == ESCAPE and left >= 4 and escaped(buf, p, stop) >= 0:
                    o = put_escaped(out, o, ITSELF)
                    continue
            o = put_utf8(out, o, c)
        offsets[i + 1] = o
        pos[i] = p
    return -1, 0, o


@inline
def code_point(data: Any, p: Any, end: Any) -> Any:
    """Return the code point of valid UTF-8 at ``p``, or an escaped surrogate, and the next position."""
    c = np.int64(data[p])
    if c < 0x80:
        p += 1
    elif c < 0xE0:
        c = ((c & np.int64(0x1F)) << I6) | (np.int64(data[p + 1]) & LOW6)
        p += 2
    elif c < 0xF0:
        c = ((c & np.int64(0x0F)) << I12) | ((np.int64(data[p + 1]) & LOW6) << I6) | (np.int64(data[p + 2]) & LOW6)
        p += 3
    else:
        c = (
            ((c & np.int64(0x07)) << I18)
            | ((np.int64(data[p + 1]) & LOW6) << I12)
            | ((np.int64(data[p + 2]) & LOW6) << I6)
            | (np.int64(data[p + 3]) & LOW6)
        )
        p += 4
        if c == ESCAPE:
            said = escaped(data, p, end)
            if said >= 0:
                p += 4
                c = ESCAPE if said == ITSELF else said
    return c, p


@inline
def varint_size(value: Any) -> Any:
    """Return the number of bytes of a varint."""
    n = 1
    while value >= 128:
        value >>= I7
        n += 1
    return n


@kernel
def string_sizes(offsets: Any, data: Any, extra: Any, units: Any, sizes: Any) -> None:
    """Compute the UTF-16 length and the encoded bytes of every row."""
    for i in range(units.shape[0]):
        p = offsets[i]
        n = np.int64(0)
        while p + 8 <= offsets[i + 1] and not be_u64(data, p) & HIGH_BITS:  # eight ASCII characters at a time
            n += 8
            p += 8
        size = n
        while p < offsets[i + 1]:
            c, p = code_point(data, p, offsets[i + 1])
            n += 1
            size += 1 if c < 0x80 else (2 if c < 0x4000 else 3)
            if c >= 0x10000:
                n += 1
                size += 3
        units[i] = n
        sizes[i] = size + varint_size(n + extra)


@inline
def put_varint(buf: Any, p: Any, value: Any) -> Any:
    """Store a varint; return the next position."""
    while value >= 128:
        buf[p] = (value & LOW7) | np.int64(0x80)
        p += 1
        value >>= I7
    buf[p] = value
    return p + 1


@kernel
def write_strings(buf: Any, pos: Any, offsets: Any, data: Any, extra: Any, units: Any, valid: Any) -> None:
    """Encode one string per row; null is the single byte 0. The buffer must be large enough."""
    for i in range(pos.shape[0]):
        o = pos[i]
        if not valid[i]:
            buf[o] = 0
            pos[i] = o + 1
            continue
        o = put_varint(buf, o, units[i] + extra)
        p = offsets[i]
        while p + 8 <= offsets[i + 1]:
            eight = be_u64(data, p)
            if eight & HIGH_BITS:
                break
            put_u64(buf, o, eight)
            o += 8
            p += 8
        while p < offsets[i + 1]:
            c, p = code_point(data, p, offsets[i + 1])
            if c >= 0x10000:
                c -= 0x10000
                o = put_varint(buf, o, 0xD800 + (c >> np.int64(10)))
                c = 0xDC00 + (c & np.int64(0x3FF))
            o = put_varint(buf, o, c)
        pos[i] = o


@kernel
def java_string_hash(offsets: Any, data: Any, out: Any) -> None:
    """Compute Java's ``String.hashCode`` of every row of a utf8 column."""
    for i in range(out.shape[0]):
        p = offsets[i]
        h = np.int64(0)
        while p + 8 <= offsets[i + 1] and not be_u64(data, p) & HIGH_BITS:
            for _ in range(2):
                # 31 to the fourth, third and second power: four characters without dependencies between them.
                three = np.int64(data[p]) * 29791 + np.int64(data[p + 1]) * 961 + np.int64(data[p + 2]) * 31
                h = (h * 923521 + three + np.int64(data[p + 3])) & np.int64(0xFFFFFFFF)
                p += 4
        while p < offsets[i + 1]:
            c, p = code_point(data, p, offsets[i + 1])
            if c >= 0x10000:
                c -= 0x10000
                h = (h * 31 + 0xD800 + (c >> np.int64(10))) & np.int64(0xFFFFFFFF)
                c = 0xDC00 + (c & np.int64(0x3FF))
            h = (h * 31 + c) & np.int64(0xFFFFFFFF)
        out[i] = h - np.int64(0x100000000) if h >= np.int64(0x80000000) else h


# -- class names in values: which of a few known names is at each cursor ----------------------------------------------

UNKNOWN_NAME = -1


@kernel
def match_names(buf: Any, pos: Any, end: Any, offsets: Any, names: Any, out: Any) -> int:
    """Match the name (u16 length, bytes) at every cursor; ``out`` is its index in ``names``, or UNKNOWN_NAME.

    Name k is ``names[offsets[k]:offsets[k + 1]]``. Returns the first truncated row, or -1.
    """
    for i in range(pos.shape[0]):
        p = pos[i]
        if p + 2 > end[i]:
            return i
        size = be_u16(buf, p)
        p += 2
        if p + size > end[i]:
            return i
        out[i] = UNKNOWN_NAME
        for k in range(offsets.shape[0] - 1):
            first = offsets[k]
            if offsets[k + 1] - first != size:
                continue
            same = True
            for j in range(size):
                if names[first + j] != buf[p + j]:
                    same = False
                    break
            if same:
                out[i] = k
                break
        pos[i] = p + size
    return -1


# -- single UTF-16 code units (Java's char), to and from utf8 columns with strings of one character -------------------


@kernel
def units_to_utf8(units: Any, offsets: Any, out: Any) -> int:
    """Write one character per row to ``out``, of 3 bytes per row; return the first row with a surrogate, or -1."""
    o = np.int64(0)
    offsets[0] = 0
    for i in range(units.shape[0]):
        c = np.int64(units[i])
        if 0xD800 <= c < 0xE000:
            return i
        o = put_utf8(out, o, c)
        offsets[i + 1] = o
    return -1


@kernel
def utf8_to_units(offsets: Any, data: Any, units: Any) -> int:
    """Read the code unit of every row; return the first row that is not exactly one unit, or -1."""
    for i in range(units.shape[0]):
        if offsets[i] >= offsets[i + 1]:
            return i
        c, p = code_point(data, offsets[i], offsets[i + 1])
        if p != offsets[i + 1] or c > 0xFFFF:
            return i
        units[i] = c
    return -1
