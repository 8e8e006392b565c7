"""Blocks of RocksDB's table files: checksums, index entries, entries, and the newest version of every key.

block       := entry*  [hash index]  u32 restart[n]  u32 n             little-endian; top bit of n: hash index
entry       := varint shared  varint nonShared  varint valueLength  suffix  value
index entry := varint shared  varint nonShared  suffix  handle         where values are delta coded
internalKey := userKey  u64 (sequence << 8 | type)                     little-endian
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import inline, kernel
from pyspark_savepoint.formats.kernels.frames import compare_spans
from pyspark_savepoint.formats.kernels.load import le_i64, le_u32
from pyspark_savepoint.formats.kernels.strings import varint

TAG = 8
TRAILER = 5
# Types of entries that occur in Flink's databases.
DELETE, PUT, MERGE, SINGLE_DELETE, RANGE_DELETE = 0, 1, 2, 7, 15
COMMA = 0x2C
# Reasons for failing to resolve or decode entries.
UNSORTED, UNKNOWN_TYPE, TOO_SMALL = -1, -2, -2

SHIFT7, LOW7 = np.int64(7), np.int64(0x7F)
BYTE, LOW32 = np.uint64(0xFF), np.uint64(0xFFFFFFFF)
EIGHT = np.uint64(8)


def _crc_tables() -> Any:
    """Return CRC-32C (Castagnoli) of every byte, and of every byte followed by 1 to 7 zero bytes."""
    tables = np.zeros((8, 256), np.uint64)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        tables[0, byte] = value
    for i in range(1, 8):
        for byte in range(256):
            before = int(tables[i - 1, byte])
            tables[i, byte] = (before >> 8) ^ int(tables[0, before & 0xFF])
    return tables


CRC_TABLES = _crc_tables()


@kernel
def crc32c(buf: Any, start: Any, end: Any, tables: Any, out: Any) -> None:
    """Compute CRC-32C of every span, eight bytes at a time."""
    for i in range(start.shape[0]):
        crc = LOW32
        p = start[i]
        stop = end[i]
        while p + 8 <= stop:
            word = np.uint64(le_i64(buf, p)) ^ crc
            crc = (
                tables[7, word & BYTE]
                ^ tables[6, (word >> np.uint64(8)) & BYTE]
                ^ tables[5, (word >> np.uint64(16)) & BYTE]
                ^ tables[4, (word >> np.uint64(24)) & BYTE]
                ^ tables[3, (word >> np.uint64(32)) & BYTE]
                ^ tables[2, (word >> np.uint64(40)) & BYTE]
                ^ tables[1, (word >> np.uint64(48)) & BYTE]
                ^ tables[0, word >> np.uint64(56)]
            )
            p += 8
        while p < stop:
            crc = (crc >> EIGHT) ^ tables[0, (crc ^ np.uint64(buf[p])) & BYTE]
            p += 1
        out[i] = crc ^ LOW32


@inline
def varint64(buf: Any, p: Any, end: Any) -> Any:
    """Read a varint of at most nine bytes at ``p``; return the value and the next position, or position -1.

    Only numbers from 2^63 on have a tenth byte, and no file contains them.
    """
    value = np.int64(0)
    shift = np.int64(0)
    stop = np.int64(-1)
    while p < end and shift <= 56:
        b = np.int64(buf[p])
        p += 1
        value |= (b & LOW7) << shift
        if b < 128:
            stop = p
            break
        shift += SHIFT7
    return value, stop


@inline
def entries_end(buf: Any, start: Any, end: Any) -> Any:
    """Return the end of a block's entries, and its number of restarts; the end is -1 if the block is invalid."""
    stop = np.int64(-1)
    count = np.int64(0)
    if end - start >= 8:
        count = np.int64(le_u32(buf, end - 4))
        tail = np.int64(4)
        if count >= 0x80000000:
            count -= 0x80000000
            tail += 2 + np.int64(buf[end - 6]) + (np.int64(buf[end - 5]) << np.int64(8))
        if count > 0 and count <= (end - start - tail) // 4:
            stop = end - tail - 4 * count
    return stop, count


@kernel
def measure_blocks(buf: Any, start: Any, end: Any, key_length: Any, entries: Any, key_bytes: Any) -> int:
    """Count the entries of every block and the bytes of their whole keys; return the first damaged block, or -1.

    Checks every length and every restart. ``key_length`` is the minimum length of a user key.
    """
    for i in range(start.shape[0]):
        p = np.int64(start[i])
        stop, restarts = entries_end(buf, p, end[i])
        if stop < 0:
            return i
        count = np.int64(0)
        total = np.int64(0)
        size = np.int64(0)
        restart = np.int64(0)
        while p < stop:
            here = p - start[i]
            shared, p = varint(buf, p, stop)
            if p < 0:
                return i
            suffix, p = varint(buf, p, stop)
            if p < 0:
                return i
            length, p = varint(buf, p, stop)
            if p < 0 or shared > size or suffix > stop - p or length > stop - p - suffix:
                return i
            if restart < restarts and np.int64(le_u32(buf, stop + 4 * restart)) == here:
                restart += 1
                if shared != 0:
                    return i
            elif count == 0:
                return i
            size = shared + suffix
            if size < key_length + TAG:
                return i
            total += size
            count += 1
            p += suffix + length
        # An empty block has one restart, at the position of its first entry.
        if restart < restarts and (count > 0 or restarts > 1):
            return i
        entries[i] = count
        key_bytes[i] = total
    return -1


@inline
def copy_ahead(source: Any, p: Any, target: Any, at: Any, count: Any) -> Any:
    """Copy ``count`` bytes, eight at a time: up to seven more are read and written, so there must be enough room."""
    k = np.int64(0)
    while k < count:
        word = np.uint64(le_i64(source, p + k))
        for i in range(8):
            target[at + k + i] = (word >> np.uint64(8 * i)) & BYTE
        k += 8


@kernel
def decode_blocks(
    buf: Any,
    start: Any,
    end: Any,
    key_length: int,
    at: Any,
    key_start: Any,
    key_end: Any,
    value_start: Any,
    value_end: Any,
    tag: Any,
) -> Any:
    """Decode entries of blocks, with whole keys in ``buf`` from ``at`` on; return (failing, entries, end of the keys).

    ``failing`` is -1, a damaged block, or TOO_SMALL if the arrays or the buffer are full. Every length and every
    restart is checked. Key spans are of user keys, of at least ``key_length`` bytes; ``tag`` is sequence and type.
    """
    n = 0
    limit = np.int64(buf.shape[0]) - 8
    at = np.int64(at)
    for i in range(start.shape[0]):
        p = np.int64(start[i])
        stop, restarts = entries_end(buf, p, end[i])
        if stop < 0:
            return i, n, at
        before = at
        size = np.int64(0)
        count = n
        restart = np.int64(0)
        following = np.int64(le_u32(buf, stop))
        while p < stop:
            here = p - start[i]
            # Nearly all lengths have one byte each.
            if p + 3 <= stop and (buf[p] | buf[p + 1] | buf[p + 2]) < 128:
                shared = np.int64(buf[p])
                suffix = np.int64(buf[p + 1])
                length = np.int64(buf[p + 2])
                p += 3
            else:
                shared, p = varint(buf, p, stop)
                if p < 0:
                    return i, n, at
                suffix, p = varint(buf, p, stop)
                if p < 0:
                    return i, n, at
                length, p = varint(buf, p, stop)
                if p < 0:
                    return i, n, at
            if shared > size or suffix > stop - p or length > stop - p - suffix:
                return i, n, at
            if restart < restarts and following == here:
                restart += 1
                if restart < restarts:
                    following = np.int64(le_u32(buf, stop + 4 * restart))
                if shared != 0:
                    return i, n, at
            elif n == count:
                return i, n, at
            size = shared + suffix
            if size < key_length + TAG:
                return i, n, at
            if n >= tag.shape[0] or at + size > limit:
                return TOO_SMALL, n, at
            copy_ahead(buf, before, buf, at, shared)
            # A suffix is followed at least by the restarts, which have eight bytes.
            copy_ahead(buf, p, buf, at + shared, suffix)
            p += suffix
            before = at
            at += size
            key_start[n] = before
            key_end[n] = at - TAG
            tag[n] = le_i64(buf, at - TAG)
            value_start[n] = p
            value_end[n] = p + length
            n += 1
            p += length
        # An empty block has one restart, at the position of its first entry.
        if restart < restarts and (n > count or restarts > 1):
            return i, n, at
    return -1, n, at


@kernel
def decode_index(
    buf: Any,
    start: int,
    end: int,
    delta: bool,
    first_keys: bool,
    keys: Any,
    key_start: Any,
    key_end: Any,
    offset: Any,
    size: Any,
) -> Any:
    """Decode entries of an index block; return (entries, bytes of keys); entries are -1 on error, -2 without room.

    ``delta``: there are no value lengths, and handles contain only the difference of the block's size to the previous.
    """
    stop, _ = entries_end(buf, start, end)
    n = 0
    at = np.int64(0)
    before = np.int64(0)
    length = np.int64(0)
    p = np.int64(start)
    if stop < 0:
        return -1, at
    while p < stop:
        shared, p = varint(buf, p, stop)
        if p < 0:
            return -1, at
        suffix, p = varint(buf, p, stop)
        if p < 0 or shared > length or suffix > stop - p:
            return -1, at
        value_stop = np.int64(-1)
        if not delta:
            value, p = varint(buf, p, stop)
            if p < 0 or value > stop - p - suffix:
                return -1, at
            value_stop = p + suffix + value
        if n >= offset.shape[0] or at + shared + suffix > keys.shape[0]:
            return -2, at
        for k in range(shared):
            keys[at + k] = keys[before + k]
        for k in range(suffix):
            keys[at + shared + k] = buf[p + k]
        p += suffix
        length = shared + suffix
        before = at
        at += length
        key_start[n] = before
        key_end[n] = at
        if delta and shared > 0:
            change, p = varint64(buf, p, stop)
            if p < 0 or n == 0:
                return -1, at
            offset[n] = offset[n - 1] + size[n - 1] + TRAILER
            size[n] = size[n - 1] + ((change >> np.int64(1)) ^ -(change & np.int64(1)))
        else:
            value, p = varint64(buf, p, stop)
            if p < 0:
                return -1, at
            offset[n] = value
            value, p = varint64(buf, p, stop)
            if p < 0:
                return -1, at
            size[n] = value
        if first_keys:
            value, p = varint(buf, p, stop)
            if p < 0 or value > stop - p:
                return -1, at
            p += value
        if value_stop >= 0 and p != value_stop:
            return -1, at
        # No file has exabytes; with this limit, sums of such numbers cannot exceed an int64.
        if offset[n] < 0 or size[n] < 0 or offset[n] >= 1 << 60 or size[n] >= 1 << 60:
            return -1, at
        n += 1
    return n, at


@kernel
def prefix_numbers(buf: Any, start: Any, end: Any, width: int, out: Any) -> None:
    """Compute the first ``width`` bytes of every span as a number; shorter spans are padded with zeros."""
    for i in range(start.shape[0]):
        value = np.int64(0)
        for k in range(width):
            value <<= np.int64(8)
            if start[i] + k < end[i]:
                value |= np.int64(buf[start[i] + k])
        out[i] = value


@kernel
def merge_two(buf: Any, start: Any, end: Any, tag: Any, left: Any, right: Any, out: Any) -> None:
    """Merge two sorted lists of entries: by user key, the newest version of a key first."""
    a = 0
    b = 0
    n = 0
    while a < left.shape[0] and b < right.shape[0]:
        x = left[a]
        y = right[b]
        order = compare_spans(buf, start[x], end[x], start[y], end[y])
        if order < 0 or (order == 0 and tag[x] >= tag[y]):
            out[n] = x
            a += 1
        else:
            out[n] = y
            b += 1
        n += 1
    while a < left.shape[0]:
        out[n] = left[a]
        a += 1
        n += 1
    while b < right.shape[0]:
        out[n] = right[b]
        b += 1
        n += 1


@kernel
def resolve(
    buf: Any,
    start: Any,
    end: Any,
    value_start: Any,
    value_end: Any,
    tag: Any,
    order: Any,
    bound_start: Any,
    bound_end: Any,
    below: Any,
    first: Any,
    last: Any,
) -> Any:
    """Find the newest value of every user key; return (rows, bytes of joined values), or a negative reason and entry.

    ``order`` lists the entries by key, newest first. ``first[row]`` and ``last[row]`` are positions in ``order``: of
    the value if they are equal, else of the newest and the oldest part of a value to be joined. From each bound to the
    next (spans of keys, ascending), entries with a sequence number less than ``below`` are deleted.
    """
    rows = 0
    joined = np.int64(0)
    bound = -1
    i = 0
    while i < order.shape[0]:
        newest = order[i]
        while bound + 1 < below.shape[0]:
            order_of_bound = compare_spans(
                buf, bound_start[bound + 1], bound_end[bound + 1], start[newest], end[newest]
            )
            if order_of_bound > 0:
                break
            bound += 1
        least = np.int64(below[bound]) if bound >= 0 else np.int64(0)
        top = np.int64(-1)
        bottom = np.int64(-1)
        hidden = False
        while True:
            entry = order[i]
            kind = tag[entry] & np.int64(0xFF)
            if kind not in (PUT, MERGE, DELETE, SINGLE_DELETE):
                return UNKNOWN_TYPE, entry
            if (tag[entry] >> np.int64(8)) < least:
                hidden = True
            if not hidden:
                if kind in (PUT, MERGE):
                    if top < 0:
                        top = np.int64(i)
                    bottom = np.int64(i)
                hidden = kind != MERGE
            i += 1
            if i == order.shape[0]:
                break
            following = order[i]
            relation = compare_spans(buf, start[entry], end[entry], start[following], end[following])
            if relation > 0 or (relation == 0 and tag[entry] < tag[following]):
                return UNSORTED, following
            if relation != 0:
                break
        if top >= 0:
            first[rows] = top
            last[rows] = bottom
            rows += 1
            if bottom > top:
                joined += bottom - top
                for k in range(top, bottom + 1):
                    joined += value_end[order[k]] - value_start[order[k]]
    return rows, joined


@kernel
def join_values(
    buf: Any,
    value_start: Any,
    value_end: Any,
    order: Any,
    first: Any,
    last: Any,
    at: Any,
    row_start: Any,
    row_end: Any,
) -> None:
    """Compute the spans of the rows' values; parts are joined from ``at`` on, oldest first, with commas between."""
    for row in range(first.shape[0]):
        if first[row] == last[row]:
            row_start[row] = value_start[order[first[row]]]
            row_end[row] = value_end[order[first[row]]]
            continue
        row_start[row] = at
        for k in range(last[row], first[row] - 1, -1):
            if k < last[row]:
                buf[at] = COMMA
                at += 1
            for p in range(value_start[order[k]], value_end[order[k]]):
                buf[at] = buf[p]
                at += 1
        row_end[row] = at


@inline
def relation_to_prefix(buf: Any, p: Any, end: Any, keys: Any, k: Any, k_end: Any) -> Any:
    """Return 0 if a span begins with a prefix; else a number less or greater than 0, as the span is."""
    relation = np.int64(0)
    while relation == 0 and k < k_end:
        if p == end:
            relation = np.int64(-1)
        else:
            relation = np.int64(buf[p]) - np.int64(keys[k])
            p += 1
            k += 1
    return relation


@kernel
def outermost(buf: Any, start: Any, end: Any, out: Any) -> int:
    """Number the spans that do not begin with one before them; return how many there are. Spans are in order."""
    n = 0
    for i in range(start.shape[0]):
        if n > 0:
            before = out[n - 1]
            if relation_to_prefix(buf, start[i], end[i], buf, start[before], end[before]) == 0:
                continue
        out[n] = i
        n += 1
    return n


@kernel
def blocks_of_prefixes(
    buf: Any, start: Any, end: Any, keys: Any, key_start: Any, key_end: Any, first: Any, stop: Any
) -> None:
    """Find the blocks that may contain keys with some prefixes: ``first[k]`` and the one after the last, ``stop[k]``.

    Spans of ``buf`` are the separators of the blocks; both they and the prefixes are in order.
    """
    block = 0
    count = start.shape[0]
    for k in range(key_start.shape[0]):
        while block < count and (relation_to_prefix(buf, start[block], end[block], keys, key_start[k], key_end[k]) < 0):
            block += 1
        last = block
        while last < count and (relation_to_prefix(buf, start[last], end[last], keys, key_start[k], key_end[k]) == 0):
            last += 1
        first[k] = block
        stop[k] = min(last + 1, count)


@kernel
def mark_prefixed(buf: Any, start: Any, end: Any, keys: Any, key_start: Any, key_end: Any, flags: Any) -> None:
    """Mark the spans that begin with one of some prefixes; both are in order."""
    k = 0
    for i in range(start.shape[0]):
        relation = np.int64(1)
        while k < key_start.shape[0]:
            relation = relation_to_prefix(buf, start[i], end[i], keys, key_start[k], key_end[k])
            if relation <= 0:
                break
            k += 1
        flags[i] = k < key_start.shape[0] and relation == 0


@kernel
def newest_complete(
    buf: Any, start: Any, end: Any, tag: Any, keys: Any, key_start: Any, key_end: Any, out: Any
) -> None:
    """Raise ``out[k]`` to the sequence numbers of entries with prefix k that hide older ones; both are in order."""
    k = 0
    for i in range(start.shape[0]):
        relation = np.int64(1)
        while k < key_start.shape[0]:
            relation = relation_to_prefix(buf, start[i], end[i], keys, key_start[k], key_end[k])
            if relation <= 0:
                break
            k += 1
        kind = tag[i] & np.int64(0xFF)
        if k < key_start.shape[0] and relation == 0 and kind in (PUT, DELETE, SINGLE_DELETE):
            out[k] = max(out[k], tag[i] >> np.int64(8))


@inline
def older(order: Any, at: Any, stop: Any, split: Any, added: Any) -> Any:
    """Return the last position before ``at``, and not before ``stop``, of an entry of one side; less if none."""
    at -= 1
    while at >= stop and (order[at] >= split) != added:
        at -= 1
    return at


@inline
def same_joined(
    buf: Any, value_start: Any, value_end: Any, order: Any, split: Any, a: Any, a_top: Any, b: Any, b_top: Any
) -> Any:
    """Return whether the parts of two values, joined with commas, are equal.

    Parts are at the positions from ``a`` (the oldest) down to ``a_top`` of the entries that are gone, and from ``b``
    down to ``b_top`` of those that were added.
    """
    p, p_end = value_start[order[a]], value_end[order[a]]
    q, q_end = value_start[order[b]], value_end[order[b]]
    same = True
    while same:
        x = np.int64(-1)
        if p < p_end:
            x = np.int64(buf[p])
            p += 1
        elif a > a_top:
            x = np.int64(COMMA)
            a = older(order, a, a_top, split, False)
            p, p_end = value_start[order[a]], value_end[order[a]]
        y = np.int64(-1)
        if q < q_end:
            y = np.int64(buf[q])
            q += 1
        elif b > b_top:
            y = np.int64(COMMA)
            b = older(order, b, b_top, split, True)
            q, q_end = value_start[order[b]], value_end[order[b]]
        same = x == y
        if x < 0:
            break
    return same


@kernel
def changed_keys(
    buf: Any, start: Any, end: Any, value_start: Any, value_end: Any, tag: Any, order: Any, split: int, out: Any
) -> Any:
    """Find the keys whose value can differ between two databases with common files; return (keys, entry out of order).

    Entries from ``split`` on are those that only the newer database has, the ones before it those that only the older
    one has; ``order`` lists them by key, newest first. ``out`` gets an entry of each key. Such a key is equal in both
    only if its entries of both sides resolve to the same, and if what was added is no later write: a write may bring
    back an old value over another one in a common file. An entry is none if it has a sequence number of the other side;
    or if it has none, since that is so only where nothing below can have the key: no common file, or newer ones.
    """
    n = 0
    low = 0
    while low < order.shape[0]:
        key = order[low]
        high = low
        newest_a, top_a, bottom_a, closed_a = np.int64(-1), np.int64(-1), np.int64(-1), False
        newest_b, top_b, bottom_b, closed_b = np.int64(-1), np.int64(-1), np.int64(-1), False
        known = True
        while high < order.shape[0]:
            entry = order[high]
            if high > low:
                before = order[high - 1]
                relation = compare_spans(buf, start[before], end[before], start[entry], end[entry])
                if relation > 0 or (relation == 0 and tag[before] < tag[entry]):
                    return np.int64(UNSORTED), entry
                if relation != 0:
                    break
            kind = tag[entry] & np.int64(0xFF)
            if kind not in (PUT, MERGE, DELETE, SINGLE_DELETE):
                known = False
            visible = kind in (PUT, MERGE)
            if entry < split:
                if newest_a < 0:
                    newest_a = tag[entry]
                if not closed_a:
                    if visible:
                        top_a = np.int64(high) if top_a < 0 else top_a
                        bottom_a = np.int64(high)
                    closed_a = kind != MERGE
            else:
                if newest_b < 0:
                    newest_b = tag[entry]
                if not closed_b:
                    if visible:
                        top_b = np.int64(high) if top_b < 0 else top_b
                        bottom_b = np.int64(high)
                    closed_b = kind != MERGE
            high += 1
        same = known and newest_a >= 0 and newest_b >= 0 and closed_a == closed_b and (top_a < 0) == (top_b < 0)
        if same:
            sequence = newest_b >> np.int64(8)
            same = sequence == newest_a >> np.int64(8) if sequence > 0 else newest_b & np.int64(0xFF) == PUT
        if same and top_a >= 0:
            same = same_joined(buf, value_start, value_end, order, split, bottom_a, top_a, bottom_b, top_b)
        if not same:
            out[n] = key
            n += 1
        low = high
    return np.int64(n), np.int64(-1)
