"""Entries of the canonical format: their decoder, rows from the entries of several states, parts by the hash of keys.

KeyGroup := u16 stateId  Entry+ ...        Entry := i32 keyLength  key  i32 valueLength  value
if the top bit of key[0] is set (it is cleared here): u16 next; 0xFFFF ends the key group

The bytes of entries that are divided into parts are not changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import inline, kernel
from pyspark_savepoint.formats.kernels.hashing import hash_span
from pyspark_savepoint.formats.kernels.load import be_i32, be_u16, be_u64, put_u64

END_OF_KEY_GROUP = 0xFFFF
# Reasons for stopping within a key group.
DONE, MORE, DAMAGED, FULL = 0, 1, 2, 3
# Order of the keys of a run.
UNSORTED, SORTED, SORTED_UNIQUE = 0, 1, 2


@kernel
def split_frames(
    buf: Any,
    pos: int,
    end: int,
    state: int,
    key_group: int,
    prefix: int,
    states: int,
    key_start: Any,
    key_end: Any,
    value_start: Any,
    value_end: Any,
    state_of: Any,
    count: int,
) -> Any:
    """Append the entries of one key group from ``pos``; return (reason for stopping, position, state, count).

    Entries are stored from index ``count`` on. ``state`` is -1 if a state id comes next, else the state of the next
    entry. MORE means that the buffer ends within an entry, which starts at the position. Key spans exclude the prefix;
    flag bits are cleared in the buffer.
    """
    while True:
        if state < 0:
            if pos + 2 > end:
                return MORE, pos, state, count
            state = be_u16(buf, pos)
            if state == END_OF_KEY_GROUP:
                return DONE, pos + 2, state, count
            if state >= states:
                return DAMAGED, pos, state, count
            pos += 2
        if pos + 4 > end:
            return MORE, pos, state, count
        size = be_i32(buf, pos)
        if size < prefix:
            return DAMAGED, pos, state, count
        key = pos + 4
        if key + size + 4 > end:
            return MORE, pos, state, count
        length = be_i32(buf, key + size)
        if length < 0:
            return DAMAGED, key + size, state, count
        value = key + size + 4
        # Require the two bytes after the last entry of a state as well, so that no window ends between both.
        last = buf[key] >= 128
        if value + length + (2 if last else 0) > end:
            return MORE, pos, state, count
        if count >= key_start.shape[0]:
            return FULL, pos, state, count
        group = np.int64(buf[key] & 0x7F)
        if prefix == 2:
            group = (group << np.int64(8)) | np.int64(buf[key + 1])
        if group != key_group:
            return DAMAGED, key, state, count
        if last:
            buf[key] &= 0x7F
        key_start[count] = key + prefix
        key_end[count] = key + size
        value_start[count] = value
        value_end[count] = value + length
        state_of[count] = state
        count += 1
        pos = value + length
        if last:
            state = -1


@kernel
def split_key_groups(
    buf: Any,
    ends: Any,
    key_groups: Any,
    prefix: int,
    states: int,
    key_start: Any,
    key_end: Any,
    value_start: Any,
    value_end: Any,
    state_of: Any,
    bounds: Any,
) -> Any:
    """Store the entries of adjacent key groups, each up to its end; return (reason, position, key group's index).

    ``bounds[g + 1]`` gets the number of entries up to key group g. The reason is DONE if each ends where it should;
    else the index is that of the one that does not.
    """
    pos, count = 0, 0
    for g in range(ends.shape[0]):
        why, after, _, count = split_frames(
            buf, pos, ends[g], -1, key_groups[g], prefix, states,
            key_start, key_end, value_start, value_end, state_of, count,
        )  # fmt: skip
        if why != DONE or after != ends[g]:
            return why, after, g
        bounds[g + 1] = count
        pos = ends[g]
    return DONE, pos, -1


@kernel
def sum_frames(
    buf: Any,
    pos: int,
    end: int,
    key_group: int,
    prefix: int,
    key_start: Any,
    key_end: Any,
    value_start: Any,
    value_end: Any,
    state_of: Any,
    sums: Any,
) -> Any:
    """Add entries, bytes and the largest entry of every state of one key group; return (reason, position).

    ``sums`` has a row per state. The other arrays are room for some entries at a time.
    """
    state = -1
    while True:
        why, pos, state, count = split_frames(
            buf, pos, end, state, key_group, prefix, sums.shape[0],
            key_start, key_end, value_start, value_end, state_of, 0,
        )  # fmt: skip
        for i in range(count):
            size = key_end[i] - key_start[i] + value_end[i] - value_start[i]
            row = state_of[i]
            sums[row, 0] += 1
            sums[row, 1] += size
            sums[row, 2] = max(sums[row, 2], size)
        if why != FULL:
            return why, pos


@kernel
def sum_key_groups(
    buf: Any,
    ends: Any,
    key_groups: Any,
    prefix: int,
    key_start: Any,
    key_end: Any,
    value_start: Any,
    value_end: Any,
    state_of: Any,
    sums: Any,
) -> Any:
    """Add up adjacent key groups, each up to its end, as :func:`sum_frames` does one; ``sums`` has rows for each.

    Returns (reason, position, key group): that of the first one that cannot be parsed to its end, or -1.
    """
    pos: Any = np.int64(0)
    for g in range(ends.shape[0]):
        why, pos = sum_frames(
            buf, pos, ends[g], key_groups[g], prefix, key_start, key_end, value_start, value_end, state_of, sums[g]
        )
        if why != DONE or pos != ends[g]:
            return why, pos, g
    return DONE, pos, -1


@inline
def compare_between(x: Any, a: Any, a_end: Any, y: Any, b: Any, b_end: Any) -> Any:
    """Compare a span of ``x`` and one of ``y`` by unsigned bytes; return a negative number, 0, or a positive number."""
    order = (a_end - a) - (b_end - b)
    n = min(a_end - a, b_end - b)
    if n >= 8:
        # Compare words; the last one may overlap the previous one, whose bytes are equal at that point.
        i = 0
        while i < n:
            i = min(i, n - 8)
            p = be_u64(x, a + i)
            q = be_u64(y, b + i)
            if p != q:
                order = -1 if p < q else 1
                break
            i += 8
    else:
        for i in range(n):
            if x[a + i] != y[b + i]:
                order = -1 if x[a + i] < y[b + i] else 1
                break
    return order


@inline
def equal_between(x: Any, a: Any, a_end: Any, y: Any, b: Any, b_end: Any) -> Any:
    """Return whether a span of ``x`` and one of ``y`` have the same bytes."""
    n = a_end - a
    same = n == b_end - b
    if same and n >= 8:
        i = 0
        while i < n:
            i = min(i, n - 8)
            if be_u64(x, a + i) != be_u64(y, b + i):
                same = False
                break
            i += 8
    elif same:
        for i in range(n):
            if x[a + i] != y[b + i]:
                same = False
                break
    return same


@inline
def compare_spans(buf: Any, a: Any, a_end: Any, b: Any, b_end: Any) -> Any:
    """Compare two spans of one buffer as :func:`compare_between` does."""
    return compare_between(buf, a, a_end, buf, b, b_end)


@inline
def equal_spans(buf: Any, a: Any, a_end: Any, b: Any, b_end: Any) -> Any:
    """Return whether two spans of one buffer have the same bytes."""
    return equal_between(buf, a, a_end, buf, b, b_end)


@kernel
def ascending(buf: Any, start: Any, end: Any, low: int, high: int) -> int:
    """Return SORTED_UNIQUE if the spans [low, high) ascend, SORTED if some neighbours are equal, else UNSORTED."""
    result = SORTED_UNIQUE
    for i in range(low + 1, high):
        order = compare_spans(buf, start[i - 1], end[i - 1], start[i], end[i])
        if order > 0:
            return UNSORTED
        if order == 0:
            result = SORTED
    return result


@kernel
def order_of_runs(buf: Any, start: Any, end: Any, low: Any, high: Any, order: Any) -> None:
    """Compute the order of the spans of each run [low, high), as :func:`ascending` does for one."""
    for r in range(low.shape[0]):
        order[r] = ascending(buf, start, end, low[r], high[r])


@kernel
def count_order(buf: Any, start: Any, end: Any, low: int, high: int) -> Any:
    """Return how many spans of [low, high) are less than the previous one, and how many are equal to it."""
    falls = 0
    repeats = 0
    for i in range(low + 1, high):
        order = compare_spans(buf, start[i - 1], end[i - 1], start[i], end[i])
        if order > 0:
            falls += 1
        elif order == 0:
            repeats += 1
    return falls, repeats


@kernel
def count_orders(buf: Any, start: Any, end: Any, bounds: Any, falls: Any, repeats: Any) -> None:
    """Do :func:`count_order` for the spans between each two neighbouring bounds."""
    for g in range(bounds.shape[0] - 1):
        falls[g], repeats[g] = count_order(buf, start, end, bounds[g], bounds[g + 1])


@kernel
def merge_rows(buf: Any, start: Any, end: Any, at: Any, high: Any, row: int, row_of: Any, first: Any) -> Any:
    """Number the distinct keys of sorted runs of entries, in key order, from ``row`` on; return the next row.

    Run s is the entries [at[s], high[s]), where ``at`` becomes ``high``. ``row_of`` gets the row of every entry,
    ``first`` one entry of every row.
    """
    runs = at.shape[0]
    while True:
        best = -1
        for s in range(runs):
            if at[s] < high[s]:
                e = at[s]
                if best < 0 or compare_spans(buf, start[e], end[e], start[best], end[best]) < 0:
                    best = e
        if best < 0:
            return row
        for s in range(runs):
            while at[s] < high[s] and compare_spans(buf, start[at[s]], end[at[s]], start[best], end[best]) == 0:
                row_of[at[s]] = row
                at[s] += 1
        first[row] = best
        row += 1


@kernel
def zip_rows(buf: Any, start: Any, end: Any, low: Any, high: Any, row: int, row_of: Any, first: Any) -> Any:
    """Do :func:`merge_rows` for runs [low[s], high[s]) with the same keys in the same order; return -1 for others."""
    n = high[0] - low[0]
    for s in range(1, low.shape[0]):
        if high[s] - low[s] != n:
            return -1
    for i in range(n):
        a = low[0] + i
        for s in range(1, low.shape[0]):
            b = low[s] + i
            if not equal_spans(buf, start[a], end[a], start[b], end[b]):
                return -1
    for i in range(n):
        first[row + i] = low[0] + i
        for s in range(low.shape[0]):
            row_of[low[s] + i] = row + i
    return row + n


@kernel
def hash_rows(
    buf: Any, start: Any, end: Any, low: Any, high: Any, row: int, row_of: Any, first: Any, table: Any, secret: Any
) -> int:
    """Do :func:`merge_rows` for runs in any order; rows are numbered in order of first appearance.

    ``table`` is scratch space: its size is a power of two larger than the number of entries.
    """
    mask = np.uint64(table.shape[0] - 1)
    table[:] = -1
    for s in range(low.shape[0]):
        for e in range(low[s], high[s]):
            slot = hash_span(buf, start[e], end[e], secret) & mask
            while True:
                other = table[slot]
                if other < 0:
                    table[slot] = e
                    first[row] = e
                    row_of[e] = row
                    row += 1
                    break
                if equal_spans(buf, start[e], end[e], start[other], end[other]):
                    row_of[e] = row_of[other]
                    break
                slot = (slot + np.uint64(1)) & mask
    return row


@kernel
def bucket_of(buf: Any, start: Any, end: Any, secret: Any, buckets: int, out: Any) -> None:
    """Compute the bucket of every span, to partition keys into a power of two of buckets.

    It consists of high bits: the lowest ones are the slots of :func:`hash_rows`, and must still vary within a bucket.
    """
    for i in range(start.shape[0]):
        high = hash_span(buf, start[i], end[i], secret) >> np.uint64(40)
        out[i] = np.int64(high & np.uint64(buckets - 1))


# -- encoder of entries of the canonical format, the counterpart of ``split_frames`` ----------------------------------
# Entry := i32 keyLength  prefix  key  i32 valueLength  value; the prefix is the key group, one byte or two.
#
# Keys and values are spans of two buffers, which are only read, so they may be Arrow's own buffers.


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


@kernel
def parts_of(
    buf: Any, pos: int, end: int, prefix: int, tail: int, secret: Any, parts: int, part_of: Any, bytes_of: Any,
    entries_of: Any
) -> int:  # fmt: skip
    """Compute the part of every entry in [pos, end), and add its bytes and itself to those of the part.

    ``parts`` is a power of two. Keys are hashed without the prefix and their last ``tail`` bytes. Return -1, or the
    position of an entry whose key is too short.
    """
    mask = np.uint64(parts - 1)
    entry = 0
    while pos < end:
        a = pos + 4 + prefix
        a_end = pos + 4 + be_i32(buf, pos)
        if a_end - tail < a:
            return pos
        after = a_end + 4 + be_i32(buf, a_end)
        # The lowest bits are the slots of hash tables, and must still vary within a part.
        part = np.int64((hash_span(buf, a, a_end - tail, secret) >> np.uint64(40)) & mask)
        part_of[entry] = part
        bytes_of[part] += after - pos
        entries_of[part] += 1
        entry += 1
        pos = after
    return -1


@kernel
def divide(buf: Any, pos: int, end: int, part_of: Any, at: Any, out: Any) -> None:
    """Copy every entry in [pos, end) to the next position of its part in ``at``, which is moved past it."""
    entry = 0
    while pos < end:
        size = be_i32(buf, pos)
        after = pos + 8 + size + be_i32(buf, pos + 4 + size)
        part = part_of[entry]
        to = at[part]
        n = after - pos
        # An entry has at least nine bytes; the last word may overlap the previous one.
        i = 0
        while i < n:
            i = min(i, n - 8)
            put_u64(out, to + i, be_u64(buf, pos + i))
            i += 8
        at[part] = to + n
        entry += 1
        pos = after
