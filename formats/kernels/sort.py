"""Stable sort of byte spans in unsigned lexicographic order, within groups.

A group is sorted as pairs of word (``words``) and row. First, pairs are distributed by the highest bits in which words
differ, and nearly ordered results are finished by insertion. If this distribution is too uneven, a radix sort by bytes
is used. Spans with equal words that do not contain the whole span are then sorted by their following bytes.

Words for sorting: seven bytes of a span as a number, and in the lowest byte their count (8: more than seven).

Words have the same order as their spans; equal words below 8 are equal spans, and only equal words with 8 need further
comparison. A word below 8 contains its whole span, which therefore need not be read again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import inline, kernel
from pyspark_savepoint.formats.kernels.frames import compare_spans, copy_span
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


U0, U1 = np.uint64(0), np.uint64(1)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
#: Up to this many spans with equal words are sorted by direct comparison.
FEW = 16
#: The size of the largest bucket to sort by insertion, and the number of bits that select a bucket.
LARGEST_BUCKET = 64
BUCKET_BITS = 15
BUCKETS = 1 << BUCKET_BITS
#: The depth of an empty stack. A literal 0 would be a type of its own, for which numba compiles another version.
NOTHING: Any = np.int64(0)


@kernel
def group_bounds(key_group: Any, bounds: Any) -> None:
    """Compute the first row of each of the groups 0 .. len(bounds) - 2, for rows ordered by group."""
    bounds[:] = 0
    for i in range(key_group.shape[0]):
        bounds[key_group[i] + 1] += 1
    for g in range(1, bounds.shape[0]):
        bounds[g] += bounds[g - 1]


@kernel
def insertion_sort(words: Any, rows: Any, low: int, high: int) -> None:
    """Sort the pairs [low, high) by word; fast if they are nearly in order."""
    for i in range(low + 1, high):
        word = words[i]
        if words[i - 1] > word:
            row = rows[i]
            j = i - 1
            while j >= low and words[j] > word:
                words[j + 1] = words[j]
                rows[j + 1] = rows[j]
                j -= 1
            words[j + 1] = word
            rows[j + 1] = row


@kernel
def choose_bits(varying: Any, wanted: int, shifts: Any, widths: Any) -> Any:
    """Choose the highest bits in which words differ, at most ``wanted``, as runs of bits; return (runs, bits)."""
    runs, bits, b = 0, 0, 63
    while b >= 0 and bits < wanted:
        if (varying >> np.uint64(b)) & U1:
            top = b
            while b > 0 and top - b + 1 < wanted - bits and (varying >> np.uint64(b - 1)) & U1:
                b -= 1
            shifts[runs] = b
            widths[runs] = top - b + 1
            bits += top - b + 1
            runs += 1
        b -= 1
    return runs, bits


@inline
def bucket_of(word: Any, shifts: Any, widths: Any, runs: Any) -> Any:
    """Return the chosen bits of a word, concatenated."""
    bucket = U0
    for r in range(runs):
        width = np.uint64(widths[r])
        bucket = (bucket << width) | ((word >> np.uint64(shifts[r])) & ((U1 << width) - U1))
    return np.int64(bucket)


@kernel
def radix_sort(words: Any, rows: Any, low: int, high: int, words2: Any, rows2: Any, varying: Any, counts: Any) -> None:
    """Sort pairs by the bytes in which they differ, the lowest first; ``words2`` and ``rows2`` are scratch space."""
    n = high - low
    for digit in range(8):
        shift = np.uint64(8 * digit)
        if (varying >> shift) & U255 == U0:
            continue
        for j in range(257):
            counts[j] = 0
        for i in range(low, high):
            counts[np.int64((words[i] >> shift) & U255) + 1] += 1
        for j in range(1, 257):
            counts[j] += counts[j - 1]
        for i in range(low, high):
            value = np.int64((words[i] >> shift) & U255)
            words2[counts[value]] = words[i]
            rows2[counts[value]] = rows[i]
            counts[value] += 1
        for i in range(n):
            words[low + i] = words2[i]
            rows[low + i] = rows2[i]


@kernel
def sort_pairs(
    words: Any, rows: Any, low: int, high: int, words2: Any, rows2: Any, counts: Any, shifts: Any, widths: Any
) -> None:
    """Sort the pairs [low, high) by word, stable."""
    n = high - low
    if n <= 2 * FEW:
        insertion_sort(words, rows, low, high)
        return
    some, every, ascending = U0, ALL, True
    for i in range(low, high):
        some |= words[i]
        every &= words[i]
        ascending &= i == low or words[i - 1] <= words[i]
    if ascending:
        return
    varying = some ^ every
    wanted = 1
    while (1 << wanted) < n and wanted < BUCKET_BITS:
        wanted += 1
    runs, bits = choose_bits(varying, wanted, shifts, widths)
    buckets = 1 << bits
    for j in range(buckets + 1):
        counts[j] = 0
    for i in range(low, high):
        counts[bucket_of(words[i], shifts, widths, runs) + 1] += 1
    largest: Any = 0
    for j in range(1, buckets + 1):
        largest = max(largest, counts[j])
        counts[j] += counts[j - 1]
    if largest > LARGEST_BUCKET:
        radix_sort(words, rows, low, high, words2, rows2, varying, counts)
        return
    for i in range(low, high):
        j = bucket_of(words[i], shifts, widths, runs)
        words2[counts[j]] = words[i]
        rows2[counts[j]] = rows[i]
        counts[j] += 1
    for i in range(n):
        words[low + i] = words2[i]
        rows[low + i] = rows2[i]
    insertion_sort(words, rows, low, high)


@kernel
def sort_few(data: Any, start: Any, end: Any, rows: Any, low: int, high: int, skip: int) -> None:
    """Sort the rows [low, high) by their spans from ``skip`` on, by insertion."""
    for i in range(low + 1, high):
        row = rows[i]
        j = i - 1
        while j >= low:
            other = rows[j]
            if compare_spans(data, start[other] + skip, end[other], start[row] + skip, end[row]) <= 0:
                break
            rows[j + 1] = other
            j -= 1
        rows[j + 1] = row


@kernel
def longest_common(data: Any, start: Any, end: Any, rows: Any, low: int, high: int, skip: int) -> Any:
    """Return the length of the common prefix, from ``skip`` on, of all spans of rows [low, high)."""
    first = start[rows[low]] + skip
    common = end[rows[low]] - first
    for i in range(low + 1, high):
        p = start[rows[i]] + skip
        common = min(common, end[rows[i]] - p)
        for j in range(common):
            if data[p + j] != data[first + j]:
                common = j
                break
    return common


@kernel
def push_equal(
    data: Any, start: Any, end: Any, words: Any, rows: Any, low: int, high: int, skip: int, stack: Any, depth: int
) -> int:
    """Sort rows whose equal words are not the whole span: directly if few, else push them; return the stack depth."""
    i = low
    while i < high:
        j = i + 1
        if words[i] & U255 == U8:
            while j < high and words[j] == words[i]:
                j += 1
            if j - i > FEW:
                stack[depth, 0] = i
                stack[depth, 1] = j
                stack[depth, 2] = skip + 7
                depth += 1
            elif j - i > 1:
                sort_few(data, start, end, rows, i, j, skip + 7)
        i = j
    return depth


@kernel
def sort_groups(
    data: Any,
    start: Any,
    end: Any,
    bounds: Any,
    skip: int,
    words: Any,
    rows: Any,
    words2: Any,
    rows2: Any,
    counts: Any,
    stack: Any,
    shifts: Any,
    widths: Any,
) -> None:
    """Sort the pairs of every group [bounds[g], bounds[g + 1]) by their whole spans, which share ``skip`` bytes.

    Scratch space: ``words2`` and ``rows2`` as large as the largest group, ``counts`` of BUCKETS + 1, ``stack`` of that
    group divided by FEW, plus one, ``shifts`` and ``widths`` of 64. Words below 8 are still those of their spans
    afterwards.
    """
    for g in range(bounds.shape[0] - 1):
        low, high = bounds[g], bounds[g + 1]
        if high - low < 2:
            continue
        sort_pairs(words, rows, low, high, words2, rows2, counts, shifts, widths)
        depth = push_equal(data, start, end, words, rows, low, high, skip, stack, NOTHING)
        while depth > 0:
            depth -= 1
            first, last, at = stack[depth, 0], stack[depth, 1], stack[depth, 2]
            at += longest_common(data, start, end, rows, first, last, at)
            for i in range(first, last):
                words[i] = word_at(data, start[rows[i]] + at, end[rows[i]])
            sort_pairs(words, rows, first, last, words2, rows2, counts, shifts, widths)
            depth = push_equal(data, start, end, words, rows, first, last, at, stack, depth)
            # Words that were replaced by later bytes of their spans are no longer usable: mark them.
            for i in range(first, last):
                words[i] = U8
