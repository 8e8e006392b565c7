"""Varints of at most five bytes, seven bits each, the least significant first: one per row."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import kernel
from pyspark_savepoint.formats.kernels.load import put_be
from pyspark_savepoint.formats.kernels.values.strings import put_varint, varint


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
