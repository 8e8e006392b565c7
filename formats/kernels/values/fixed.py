"""Values of fixed width, big-endian: one per row, at its cursor."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import kernel
from pyspark_savepoint.formats.kernels.load import be_i64, be_u32, put_be, put_u64


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
