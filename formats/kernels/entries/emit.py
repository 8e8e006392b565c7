"""Encoder of entries of the canonical format, the counterpart of ``frames.split_frames``.

Entry := i32 keyLength  prefix key  i32 valueLength  value        the prefix is the key group, one byte or two

Keys and values are spans of two buffers, which are only read, so they may be Arrow's own buffers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import inline, kernel
from pyspark_savepoint.formats.kernels.load import be_u64, put_u64


@inline
def copy_span(source: Any, start: Any, end: Any, out: Any, o: Any, limit: Any) -> Any:
    """Copy a span to ``out[o]``; return the position after it.

    Whole words are copied, so the last one may write past the span, up to ``limit``: that part is overwritten later.
    """
    n = end - start
    i = np.int64(0)
    while i < n and o + i + 8 <= limit and start + i + 8 <= source.shape[0]:
        put_u64(out, o + i, be_u64(source, start + i))
        i += 8
    while i < n:
        out[o + i] = source[start + i]
        i += 1
    return o + n


@inline
def put_i32(out: Any, o: Any, value: Any) -> Any:
    """Store an int, big-endian; return the position after it."""
    v = np.uint32(value)
    out[o] = np.uint8(v >> np.uint32(24))
    out[o + 1] = np.uint8((v >> np.uint32(16)) & np.uint32(0xFF))
    out[o + 2] = np.uint8((v >> np.uint32(8)) & np.uint32(0xFF))
    out[o + 3] = np.uint8(v & np.uint32(0xFF))
    return o + 4


@kernel
def frame_sizes(
    bounds: Any, key_start: Any, key_end: Any, value_start: Any, value_end: Any, overhead: int, out: Any
) -> None:
    """Compute the bytes of the entries [bounds[g], bounds[g + 1]); ``overhead`` is per entry, in addition to spans."""
    for g in range(out.shape[0]):
        total = (bounds[g + 1] - bounds[g]) * overhead
        for e in range(bounds[g], bounds[g + 1]):
            total += key_end[e] - key_start[e] + value_end[e] - value_start[e]
        out[g] = total


@kernel
def put_frames(
    out: Any,
    at: Any,
    ends: Any,
    bounds: Any,
    key_group: Any,
    prefix: int,
    keys: Any,
    key_start: Any,
    key_end: Any,
    values: Any,
    value_start: Any,
    value_end: Any,
    last: Any,
) -> None:
    """Write group g's entries to [at[g], ends[g]); set ``last[g]`` to the start of its last entry, -1 if empty."""
    for g in range(at.shape[0]):
        o = at[g]
        last[g] = -1
        high = np.uint8(key_group[g] >> 8)
        low = np.uint8(key_group[g] & 0xFF)
        for e in range(bounds[g], bounds[g + 1]):
            last[g] = o
            o = put_i32(out, o, key_end[e] - key_start[e] + prefix)
            if prefix == 2:
                out[o] = high
                o += 1
            out[o] = low
            o = copy_span(keys, key_start[e], key_end[e], out, o + 1, ends[g])
            o = put_i32(out, o, value_end[e] - value_start[e])
            o = copy_span(values, value_start[e], value_end[e], out, o, ends[g])


@kernel
def join_spans(a: Any, a_start: Any, a_end: Any, b: Any, b_start: Any, b_end: Any, offsets: Any, out: Any) -> None:
    """Concatenate span i of ``a`` and span i of ``b`` at ``offsets[i]`` of ``out``, in ascending order."""
    for i in range(a_start.shape[0]):
        o = copy_span(a, a_start[i], a_end[i], out, offsets[i], out.shape[0])
        copy_span(b, b_start[i], b_end[i], out, o, out.shape[0])
