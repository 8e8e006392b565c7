"""Varints of at most five bytes, seven bits each, the least significant first: one per row."""

from __future__ import annotations

from typing import Any

from pyspark_savepoint.formats.kernels._jit import kernel
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
