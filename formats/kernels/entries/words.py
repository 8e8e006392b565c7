"""Words for sorting: seven bytes of a span as a number, and in the lowest byte their count (8: more than seven).

Words have the same order as their spans; equal words below 8 are equal spans, and only equal words with 8 need further
comparison. A word below 8 contains its whole span, which therefore need not be read again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import inline, kernel
from pyspark_savepoint.formats.kernels.entries.emit import copy_span
from pyspark_savepoint.formats.kernels.load import be_u64, put_u64

U0, U8, U255 = np.uint64(0), np.uint64(8), np.uint64(255)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@inline
def word_at(data: Any, p: Any, end: Any) -> Any:
    """Return the word of the span from ``p``."""
    n = end - p
    word = U0
    if p + 8 <= data.shape[0]:
        word = be_u64(data, p)
        if n < 7:
            word &= ~(ALL >> np.uint64(8 * n))
        else:
            word &= ~U255
    else:
        for i in range(min(n, 7)):
            word |= np.uint64(data[p + i]) << np.uint64(56 - 8 * i)
    return word | np.uint64(min(n, 8))


@kernel
def common_prefix(data: Any, start: Any, end: Any) -> Any:
    """Return the length of the common prefix of all spans."""
    if start.shape[0] == 0:
        return 0
    first = start[0]
    common = end[0] - first
    for i in range(1, start.shape[0]):
        common = min(common, end[i] - start[i])
        for j in range(common):
            if data[start[i] + j] != data[first + j]:
                common = j
                break
    return common


@kernel
def common_zero(data: Any, start: Any, end: Any) -> int:
    """Return 1 if all spans end with a zero byte, else 0; such a byte can be left out without changing their order."""
    for i in range(start.shape[0]):
        if end[i] == start[i] or data[end[i] - 1] != 0:
            return 0
    return 1


@kernel
def scatter_words(
    key_group: Any, next_of: Any, data: Any, start: Any, end: Any, skip: int, words: Any, rows: Any
) -> None:
    """Write pairs of word and row, ordered by group; ``next_of`` is the next position of each group, and advances."""
    for i in range(start.shape[0]):
        at = next_of[key_group[i]]
        next_of[key_group[i]] = at + 1
        words[at] = word_at(data, start[i] + skip, end[i])
        rows[at] = i


@kernel
def sorted_offsets(start: Any, end: Any, words: Any, rows: Any, skip: int, zero: int, offsets: Any) -> None:
    """Compute the offsets of the spans of sorted pairs when stored contiguously, and the end of the last."""
    offsets[0] = 0
    for i in range(rows.shape[0]):
        word = words[i] & U255
        length = np.int64(word) + skip
        if word == U8:
            length = end[rows[i]] - start[rows[i]]
        offsets[i + 1] = offsets[i] + length + zero


@kernel
def sorted_spans(
    data: Any, start: Any, end: Any, words: Any, rows: Any, skip: int, zero: int, offsets: Any, out: Any
) -> None:
    """Write the spans of sorted pairs contiguously, from their words where possible, to avoid random memory access.

    All spans begin with the same ``skip`` bytes; ``zero`` is 1 if a final zero byte was left out, which is restored.
    """
    limit = out.shape[0]
    for i in range(rows.shape[0]):
        o = offsets[i]
        word = words[i]
        if word & U255 == U8:
            copy_span(data, start[rows[i]], end[rows[i]] + zero, out, o, limit)
            continue
        o = copy_span(data, start[0], start[0] + skip, out, o, limit)
        word &= ~U255
        if o + 8 <= limit:
            put_u64(out, o, word)
        else:
            for j in range(offsets[i + 1] - o):
                out[o + j] = np.uint8((word >> np.uint64(56 - 8 * j)) & U255)
