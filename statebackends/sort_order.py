"""The order of rows by group and bytes, and spans in such an order: what the sort kernels need, allocated."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Bytes, Ints, Longs, binary_array
from pyspark_savepoint.formats.key_groups import UPPER_BOUND_MAX_PARALLELISM
from pyspark_savepoint.formats.keyed_writer import read_only


def order_by_key_group(key_group: Ints, data: Bytes, start: Longs, end: Longs) -> Ints:
    """Row numbers in the order of (key group, unsigned bytes of the span), stable."""
    from pyspark_savepoint.formats.kernels import sort

    if not len(start):
        return np.empty(0, np.int32)
    most = int(key_group.max())
    assert int(key_group.min()) >= 0
    assert most < UPPER_BOUND_MAX_PARALLELISM
    bounds = np.empty(most + 2, np.int64)
    sort.group_bounds(key_group, bounds)
    return _sorted(key_group, bounds, data, start, end)


def order_within(bounds: Longs, data: Bytes, start: Longs, end: Longs) -> Ints:
    """Row numbers, where the rows of each group [bounds[g], bounds[g + 1]) are in order of their spans, stable."""
    if not len(start):
        return np.empty(0, np.int32)
    group = np.repeat(np.arange(len(bounds) - 1, dtype=np.int32), np.diff(bounds))
    return _sorted(group, bounds, data, start, end)


def _sorted(group: Ints, bounds: Longs, data: Bytes, start: Longs, end: Longs) -> Ints:
    from pyspark_savepoint.formats.kernels import sort

    data = read_only(data)
    count = len(start)
    words, rows = np.empty(count, np.uint64), np.empty(count, np.int32)
    skip = sort.common_prefix(data, start, end)
    sort.scatter_words(group, bounds[:-1].copy(), data, start, end, skip, words, rows)
    largest = int(np.diff(bounds).max())
    words2, rows2 = np.empty(largest, np.uint64), np.empty(largest, np.int32)
    counts = np.empty(sort.BUCKETS + 1, np.int64)
    stack = np.empty((largest // sort.FEW + 1, 3), np.int64)
    sort.sort_groups(data, start, end, bounds, skip, words, rows, words2, rows2, counts, stack)
    return rows


def take_spans(data: Bytes, start: Longs, end: Longs, order: Ints) -> pa.BinaryArray:
    """A binary array of the spans of some rows."""
    from pyspark_savepoint.formats.kernels import sort

    offsets = np.empty(len(order) + 1, np.int64)
    sort.span_offsets(start, end, order, offsets)
    out = np.empty(int(offsets[-1]), np.uint8)
    sort.gather_spans(read_only(data), start, end, order, offsets, out)
    return binary_array(pa.binary(), offsets, out)
