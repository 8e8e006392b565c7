"""Keys: key groups of Java hashes, lengths after variable parts, equal neighbours; keys of two inputs compared.

Both inputs consist of runs: the entries of one state in one key group. Runs with the same keys in the same order are
compared side by side, sorted ones by merging. Buffers are only read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import inline, kernel
from pyspark_savepoint.formats.kernels.frames import compare_between, compare_spans, equal_between
from pyspark_savepoint.formats.kernels.hashing import hash_span

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
def digest_spans(buf: Any, start: Any, end: Any, first: int, secret: Any, another: Any, out: Any) -> int:
    """Combine ``out`` with two hashes of every span from ``first`` on that differs from the one before it.

    Return how many these are. The same spans in another order give the same.
    """
    count = 0
    for i in range(first, start.shape[0]):
        if i > 0 and equal_between(buf, start[i - 1], end[i - 1], buf, start[i], end[i]):
            continue
        out[0] ^= hash_span(buf, start[i], end[i], secret)
        out[1] ^= hash_span(buf, start[i], end[i], another)
        count += 1
    return count


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


#: Columns of ``runs``: bounds of a run in the first and in the second input, and whether it belongs to a map state.
LOW_A, HIGH_A, LOW_B, HIGH_B, IS_MAP = 0, 1, 2, 3, 4


@inline
def equal_values(x: Any, a: Any, a_end: Any, y: Any, b: Any, b_end: Any, is_map: Any) -> Any:
    """Return whether two values are equal; for a null in a map, any bytes may follow the flag and are ignored."""
    same = equal_between(x, a, a_end, y, b, b_end)
    if not same and is_map == 1 and a < a_end and b < b_end:
        same = x[a] == 1 and y[b] == 1
    return same


@kernel
def compare_runs(
    x_keys: Any,
    a_key: Any,
    a_key_end: Any,
    x_values: Any,
    a_value: Any,
    a_value_end: Any,
    y_keys: Any,
    b_key: Any,
    b_key_end: Any,
    y_values: Any,
    b_value: Any,
    b_value_end: Any,
    runs: Any,
    a_differs: Any,
    b_differs: Any,
    counts: Any,
) -> int:
    """Mark the entries that the other input does not have with the same key and value.

    ``counts[r]`` gets the number of keys of run r in both inputs, and how many of these have different values. Return
    -1, or the number of a run that is neither sorted nor in the same order in both inputs.
    """
    for r in range(runs.shape[0]):
        i, i_end = runs[r, LOW_A], runs[r, HIGH_A]
        j, j_end = runs[r, LOW_B], runs[r, HIGH_B]
        is_map = runs[r, IS_MAP]
        both, changed = 0, 0
        ascending = False
        while i < i_end and j < j_end:
            if equal_between(x_keys, a_key[i], a_key_end[i], y_keys, b_key[j], b_key_end[j]):
                both += 1
                if not equal_values(x_values, a_value[i], a_value_end[i], y_values, b_value[j], b_value_end[j], is_map):
                    changed += 1
                    a_differs[i] = True
                    b_differs[j] = True
                i += 1
                j += 1
                continue
            if not ascending:
                for k in range(i + 1, i_end):
                    if compare_spans(x_keys, a_key[k - 1], a_key_end[k - 1], a_key[k], a_key_end[k]) > 0:
                        return r
                for k in range(j + 1, j_end):
                    if compare_spans(y_keys, b_key[k - 1], b_key_end[k - 1], b_key[k], b_key_end[k]) > 0:
                        return r
                ascending = True
            if compare_between(x_keys, a_key[i], a_key_end[i], y_keys, b_key[j], b_key_end[j]) < 0:
                a_differs[i] = True
                i += 1
            else:
                b_differs[j] = True
                j += 1
        for k in range(i, i_end):
            a_differs[k] = True
        for k in range(j, j_end):
            b_differs[k] = True
        counts[r, 0] = both
        counts[r, 1] = changed
    return -1


@kernel
def number_keys(buf: Any, start: Any, end: Any, first: Any, table: Any, secret: Any) -> int:
    """Number the distinct spans in order of appearance; return their count.

    ``first`` gets one span of each. ``table`` is a hash table for :func:`find_keys`; its size is a power of two larger
    than the number of spans.
    """
    mask = np.uint64(table.shape[0] - 1)
    table[:] = -1
    count = 0
    for i in range(start.shape[0]):
        slot = hash_span(buf, start[i], end[i], secret) & mask
        while True:
            number = table[slot]
            if number < 0:
                table[slot] = count
                first[count] = i
                count += 1
                break
            other = first[number]
            if equal_between(buf, start[i], end[i], buf, start[other], end[other]):
                break
            slot = (slot + np.uint64(1)) & mask
    return count


@kernel
def find_keys(
    buf: Any, start: Any, end: Any, known: Any, known_start: Any, known_end: Any, first: Any, table: Any,
    secret: Any, out: Any
) -> None:  # fmt: skip
    """Compute the number of every span among those that :func:`number_keys` numbered, -1 for any other span."""
    mask = np.uint64(table.shape[0] - 1)
    for i in range(start.shape[0]):
        slot = hash_span(buf, start[i], end[i], secret) & mask
        out[i] = -1
        while table[slot] >= 0:
            number = table[slot]
            other = first[number]
            if equal_between(buf, start[i], end[i], known, known_start[other], known_end[other]):
                out[i] = number
                break
            slot = (slot + np.uint64(1)) & mask


@kernel
def first_unordered(buf: Any, start: Any, end: Any, low: Any, high: Any) -> int:
    """Return the first span that is not greater than the one before it in its run [low, high), or -1."""
    for r in range(low.shape[0]):
        for i in range(low[r] + 1, high[r]):
            if compare_spans(buf, start[i - 1], end[i - 1], start[i], end[i]) >= 0:
                return i
    return -1
