"""Order of rows by group and bytes, and spans in that order: allocates the buffers of the sort kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_savepoint.formats.columns import Bytes, Ints, Longs, binary_array
from pyspark_savepoint.formats.keyed.canonical_writer import read_only
from pyspark_savepoint.formats.metadata.key_groups import UPPER_BOUND_MAX_PARALLELISM


@dataclass(slots=True)
class SortedSpans:
    """Spans of a buffer in the stable order of (group, unsigned bytes).

    ``rows`` has the row numbers in that order, ``bounds`` the start of each group in it, and the end of the last.
    """

    data: Bytes
    start: Longs
    end: Longs
    bounds: Longs
    rows: Ints
    _words: npt.NDArray[np.uint64]
    _skip: int
    _zero: int

    def groups(self, low: int, high: int) -> Ints:
        """Return the groups of positions [low, high) of the order."""
        first = int(np.searchsorted(self.bounds, low, "right")) - 1
        last = int(np.searchsorted(self.bounds, high, "left"))
        edges = np.clip(self.bounds[first : last + 1], low, high)
        return np.repeat(np.arange(first, last, dtype=np.int32), np.diff(edges))

    def take(self, low: int, high: int) -> pa.BinaryArray:
        """Return the spans at positions [low, high) of the order."""
        from pyspark_savepoint.formats.kernels import sort as word_kernels

        words, rows = self._words[low:high], self.rows[low:high]
        offsets = np.empty(high - low + 1, np.int64)
        word_kernels.sorted_offsets(self.start, self.end, words, rows, self._skip, self._zero, offsets)
        out = np.empty(int(offsets[-1]), np.uint8)
        word_kernels.sorted_spans(self.data, self.start, self.end, words, rows, self._skip, self._zero, offsets, out)
        return binary_array(pa.binary(), offsets, out)


def sort_by_key_group(key_group: Ints, data: Bytes, start: Longs, end: Longs) -> SortedSpans:
    """Sort spans by their key groups and bytes."""
    from pyspark_savepoint.formats.kernels import sort

    most = int(key_group.max(initial=0))
    assert int(key_group.min(initial=0)) >= 0
    assert most < UPPER_BOUND_MAX_PARALLELISM
    bounds = np.empty(most + 2, np.int64)
    sort.group_bounds(key_group, bounds)
    return _sorted(key_group, bounds, data, start, end)


def order_within(bounds: Longs, data: Bytes, start: Longs, end: Longs) -> Ints:
    """Return row numbers with the rows of each group [bounds[g], bounds[g + 1]) in the stable order of their spans."""
    group = np.repeat(np.arange(len(bounds) - 1, dtype=np.int32), np.diff(bounds))
    return _sorted(group, bounds, data, start, end).rows


def _sorted(group: Ints, bounds: Longs, data: Bytes, start: Longs, end: Longs) -> SortedSpans:
    from pyspark_savepoint.formats.kernels import sort
    from pyspark_savepoint.formats.kernels import sort as word_kernels

    data = read_only(data)
    words, rows = np.empty(len(start), np.uint64), np.empty(len(start), np.int32)
    zero = word_kernels.common_zero(data, start, end)
    end = end - zero if zero else end
    skip = int(word_kernels.common_prefix(data, start, end))
    word_kernels.scatter_words(group, bounds[:-1].copy(), data, start, end, skip, words, rows)
    largest = int(np.diff(bounds).max(initial=0))
    words2, rows2 = np.empty(largest, np.uint64), np.empty(largest, np.int32)
    counts = np.empty(sort.BUCKETS + 1, np.int64)
    stack = np.empty((largest // sort.FEW + 1, 3), np.int64)
    sort.sort_groups(data, start, end, bounds, skip, words, rows, words2, rows2, counts, stack)
    return SortedSpans(data, start, end, bounds, rows, words, skip, zero)
