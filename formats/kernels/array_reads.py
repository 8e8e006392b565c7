"""Forms of kernels in calls of numpy, as in ``array_forms``: of those that reads of the usual states and texts need.

What they do not have (damage, characters beyond the BMP without a pair, values to be joined, keys of hundreds of bytes)
is for the kernel: they return NotImplemented, and have changed nothing.
"""

from __future__ import annotations

from struct import error as struct_error
from struct import unpack_from
from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels.array_forms import copy
from pyspark_savepoint.formats.kernels.layout_forms import count_values

#: Bytes up to which keys are compared by numpy, and the bytes of UTF-8 that a column may have.
MOST_KEY, MAX_UTF8 = 128, 2**31 - 1
#: U+10FFFF, which escapes surrogates in a column, as UTF-8.
ESCAPE = "\U0010ffff".encode()
#: The kinds of entries of RocksDB that are no part of a value, and the bytes of a tag.
DELETE, PUT, SINGLE_DELETE, TAG = 0, 1, 7, 8
#: The reason and the node of kernels: ``sst.TOO_SMALL``, ``skip.FIXED``.
TOO_SMALL, FIXED = -2, 0
#: Most entries of a block of RocksDB that are decoded in step with those of other blocks.
MOST_STEPS = 1 << 13


# -- numbers ---------------------------------------------------------------------------------------------------------


def read_number(buf: Any, pos: Any, end: Any, out: Any, width: int) -> Any:
    """Read big-endian numbers of a width."""
    if (pos + width > end).any():
        return NotImplemented
    digits = np.empty((len(pos), width), np.uint8)
    for place in range(width):
        digits[:, place] = buf[pos + place]
    out[:] = digits.view(f">u{width}")[:, 0]
    pos += width
    return -1


def read_i8(buf: Any, pos: Any, end: Any, out: Any) -> Any:
    return read_number(buf, pos, end, out, 1)


def read_i16(buf: Any, pos: Any, end: Any, out: Any) -> Any:
    return read_number(buf, pos, end, out, 2)


def read_i32(buf: Any, pos: Any, end: Any, out: Any) -> Any:
    return read_number(buf, pos, end, out, 4)


def read_i64(buf: Any, pos: Any, end: Any, out: Any) -> Any:
    return read_number(buf, pos, end, out.view(np.uint64), 8)


def read_flags(buf: Any, pos: Any, end: Any, out: Any) -> Any:
    if (pos + 1 > end).any() or (buf[pos] > 1).any():
        return NotImplemented
    return read_number(buf, pos, end, out, 1)


def varints(buf: Any, pos: Any, end: Any) -> Any:
    """Return the varints at positions, and the next positions; nothing if one is not whole."""
    value, after = np.zeros(len(pos), np.int64), np.array(pos, np.int64)
    left = np.arange(len(pos))
    for shift in range(0, 35, 7):
        at = after[left]
        if (at >= end[left]).any():
            return None
        byte = buf[at].astype(np.int64)
        value[left] |= (byte & 0x7F) << shift
        after[left] += 1
        left = left[byte >= 128]
        if not len(left):
            return value, after
    return None


def read_varints(buf: Any, pos: Any, end: Any, out: Any) -> Any:
    read = varints(buf, pos, end)
    if read is None:
        return NotImplemented
    out[:], pos[:] = read
    return -1


def count_until_end(
    nodes: Any, children: Any, _names: Any, node: int, buf: Any, pos: Any, end: Any, gap: int, counts: Any
) -> Any:
    kind, width = nodes[node, :2].tolist()
    some = end > pos
    if kind != FIXED or width <= 0 or ((end - pos + gap)[some] % (width + gap)).any():
        return count_values(nodes, children, node, buf, pos, end, gap, counts)
    counts[:] = np.where(some, (end - pos + gap) // (width + gap), 0)
    return -1


# -- texts -----------------------------------------------------------------------------------------------------------


def utf16(data: Any, offsets: Any) -> Any:
    """Return the UTF-16 code units of texts of a column, and the position of each text; nothing of escaped ones."""
    content = data[offsets[0] : offsets[-1]]
    if not len(content) or int(content.max()) < 128:
        return content, offsets - offsets[0]
    text = content.tobytes()
    if ESCAPE in text:
        return None
    units = np.frombuffer(text.decode().encode("utf-16-le"), np.uint16)
    before = np.append(0, np.cumsum((content & 0xC0 != 0x80).astype(np.int64) + (content >= 0xF0)))
    return units, before[offsets - offsets[0]]


def varint_sizes(values: Any) -> Any:
    """Return the number of bytes of each varint."""
    size = np.ones(len(values), np.int64)
    for bits in (7, 14, 21, 28):
        size += values >> bits > 0
    return size


def string_sizes(offsets: Any, data: Any, extra: int, units: Any, sizes: Any) -> Any:
    texts = utf16(data, offsets)
    if texts is None:
        return NotImplemented
    content, bounds = texts
    units[:] = np.diff(bounds)
    before = bounds
    if content.dtype != np.uint8:
        before = np.append(0, np.cumsum(varint_sizes(content.astype(np.int64))))[bounds]
    sizes[:] = np.diff(before) + varint_sizes(units + extra)
    return None


def put_varints(buf: Any, pos: Any, values: Any) -> Any:
    """Write varints to positions; return the next positions."""
    size = varint_sizes(values)
    for place in range(int(size.max(initial=0))):
        some = size > place
        more = (size[some] > place + 1) * 0x80
        buf[pos[some] + place] = values[some] >> 7 * place & 0x7F | more
    return pos + size


def write_strings(buf: Any, pos: Any, offsets: Any, data: Any, extra: int, units: Any, valid: Any) -> Any:
    texts = utf16(data, offsets)
    if texts is None:
        return NotImplemented
    content, bounds = texts
    bounds = bounds.astype(np.int64)
    if content.dtype != np.uint8:
        values = content.astype(np.int64)
        ends = np.append(0, np.cumsum(varint_sizes(values)))
        content = np.empty(int(ends[-1]), np.uint8)
        put_varints(content, ends[:-1], values)
        bounds = ends[bounds]
    size = np.diff(bounds) * valid
    at = put_varints(buf, pos, np.where(valid, units + extra, 0))
    copy(content, bounds[:-1], size, buf, at)
    pos[:] = at + size
    return None


def java_string_hash(offsets: Any, data: Any, out: Any) -> Any:
    texts = utf16(data, offsets)
    if texts is None:
        return NotImplemented
    content, bounds = texts
    length = np.diff(bounds)
    longest = int(length.max(initial=0))
    if longest > MOST_KEY:
        return NotImplemented
    result = np.zeros(len(length), np.uint32)
    for place in range(longest):
        some = slice(None) if (length > place).all() else np.flatnonzero(length > place)
        result[some] = result[some] * np.uint32(31) + content[bounds[:-1][some] + place]
    out[:] = result.view(np.int32)
    return None


def read_strings(buf: Any, pos: Any, end: Any, extra: int, offsets: Any, out: Any, valid: Any, _lone: int) -> Any:
    heads = varints(buf, pos, end)
    if heads is None:
        return NotImplemented
    length, start = heads
    left = np.maximum(length - extra, 0)
    some = left > 0
    stop = start.copy()
    if some.any():
        low, high = int(start[some].min()), int(end[some].max())
        last = np.flatnonzero(buf[low:high] < 128) + low + 1
        at = np.searchsorted(last, start[some], "right") + left[some] - 1
        if (at >= len(last)).any():
            return NotImplemented
        stop[some] = last[at]
    size = stop - start
    bounds = np.append(0, np.cumsum(size))
    if (stop > end).any() or 3 * bounds[-1] > MAX_UTF8:
        return NotImplemented
    content = np.empty(int(bounds[-1]), np.uint8)
    copy(buf, start, size, content, bounds[:-1])
    if len(content) and int(content.max()) >= 128:
        text = as_utf8(content, np.append(0, np.cumsum(left)))
        if text is None:
            return NotImplemented
        content, bounds = text
    out[: len(content)] = content
    offsets[:], valid[:], pos[:] = bounds, length >= extra, stop
    return -1, 0, int(bounds[-1])


def as_utf8(content: Any, bounds: Any) -> Any:
    """Return code units, each a varint, as UTF-8, and the positions of texts; nothing if a surrogate is alone."""
    ends = np.flatnonzero(content < 128) + 1
    starts = np.append(0, ends[:-1])
    if len(ends) and int((ends - starts).max()) > 3:
        return None
    read = varints(content, starts, ends)
    units = read[0] if read is not None else np.array([1 << 16])
    if (units > 0xFFFF).any() or (units[bounds[:-1][np.diff(bounds) > 0]] & 0xFC00 == 0xDC00).any():
        return None
    try:
        text = units.astype("<u2").tobytes().decode("utf-16-le").encode()
    except UnicodeDecodeError:
        return None
    if ESCAPE in text:
        return None
    # A pair of surrogates is four bytes.
    size = 1 + (units >= 0x80).astype(np.int64) + ((units >= 0x800) & (units & 0xF800 != 0xD800))
    return np.frombuffer(text, np.uint8), np.append(0, np.cumsum(size))[bounds]


# -- entries of the canonical format ---------------------------------------------------------------------------------


def words_of(data: Any, start: Any, end: Any) -> Any:
    """Return the bytes of spans as words, padded with zeros, and their lengths, which are compared after them."""
    length = end - start
    longest = int(length.max(initial=0))
    if longest > MOST_KEY or (length < 0).any():
        return None
    words = [np.zeros(len(start), np.uint64) for _ in range((longest + 7) // 8)]
    for place in range(longest):
        shift = np.uint64(56 - place % 8 * 8)
        some: Any = slice(None) if (length > place).all() else np.flatnonzero(length > place)
        words[place // 8][some] |= data[start[some] + place].astype(np.uint64) << shift
    return [*words, length.astype(np.uint64)]


def order_of_neighbours(words: Any) -> tuple[Any, Any]:
    """Return where a span is less than the one after it, and where it is equal to it."""
    count = max(len(words[0]) - 1, 0)
    less, equal = np.zeros(count, np.bool_), np.ones(count, np.bool_)
    for word in words:
        less |= equal & (word[:-1] < word[1:])
        equal &= word[:-1] == word[1:]
    return less, equal


def entries_of(buf: Any, start: int, stop: int) -> Any:
    """Return the positions of the entries of a run, which are between two positions; nothing if they are not."""
    data, at, found = memoryview(buf), start, []
    try:
        size = unpack_from(">i", data, at)[0] if at < stop else 0
        step = 8 + size + unpack_from(">i", data, at + 4 + size)[0] if at < stop else 1
        if step > 0 and not (stop - start) % step:
            frames = buf[start:stop].reshape(-1, step)
            same = (frames[:, :4] == frames[:1, :4]).all(axis=1)
            if (same & (frames[:, 4 + size : 8 + size] == frames[:1, 4 + size : 8 + size]).all(axis=1)).all():
                return np.arange(start, stop, step)
        while at < stop:
            found.append(at)
            at += 8 + unpack_from(">i", data, at)[0]
            at += unpack_from(">i", data, at - 4)[0]
    except struct_error:
        return None
    return np.array(found, np.int64) if at == stop else None


class Entries:
    """The entries of runs, one after the other: where their keys and values are, and the words of their keys.

    There are no words where runs do not have whole entries, or keys are too long.
    """

    def __init__(self, buf: Any, start: Any, stop: Any, prefix: int, tail: int) -> None:
        self.words: Any = None
        runs = [entries_of(buf, *bounds) for bounds in zip(start.tolist(), stop.tolist(), strict=True)]
        if not runs or any(run is None for run in runs):
            return
        at = np.concatenate(runs)
        #: The run of each entry.
        self.run = np.repeat(np.arange(len(runs)), [len(run) for run in runs])
        size, length = np.empty(len(at), np.uint32), np.empty(len(at), np.uint32)
        read_number(buf, at.copy(), at + 4, size, 4)
        self.key_start, self.key_end = at + 4 + prefix, at + 4 + size.astype(np.int64)
        read_number(buf, self.key_end.copy(), self.key_end + 4, length, 4)
        self.value_start = self.key_end + 4
        self.value_end = self.value_start + length.astype(np.int64)
        self.words = words_of(buf, self.key_start, self.key_end - tail)


def merge_key_groups(
    buf: Any, runs: Any, bounds: Any, prefix: int, tail: int, key_start: Any, key_end: Any, value_start: Any,
    value_end: Any, row_bounds: Any, finished: Any, _scratch: Any,
) -> Any:  # fmt: skip
    runs = runs[bounds[0] : bounds[-1]]
    entries = Entries(buf, runs[:, 1], runs[:, 2], prefix, tail)
    if entries.words is None or not finished.all():
        return NotImplemented
    groups = len(bounds) - 1
    group, column = np.repeat(np.arange(groups), np.diff(bounds))[entries.run], runs[:, 0][entries.run]
    less, _ = order_of_neighbours(entries.words)
    falls = np.flatnonzero(~less & (entries.run[1:] == entries.run[:-1]))
    unsorted = int(group[falls].min()) if len(falls) else -1
    groups = unsorted if len(falls) else groups
    order = np.lexsort([*reversed(entries.words), group])
    order = order[group[order] < groups]
    _, equal = order_of_neighbours([group[order], *(word[order] for word in entries.words)])
    first = np.append(True, ~equal)[: len(order)]
    chosen, row = order[first], row_bounds[0] + np.cumsum(first) - 1
    put_rows(entries, chosen, column[order], row, order, (key_start, key_end, value_start, value_end))
    row_bounds[1 : groups + 1] = row_bounds[0] + np.cumsum(np.bincount(group[chosen], minlength=groups)[:groups])
    return unsorted


def put_rows(entries: Entries, chosen: Any, column: Any, row: Any, order: Any, out: Any) -> None:
    """Write rows: an entry chosen of each, and the column and row of entries in an order."""
    if not len(order):
        return
    key_start, key_end, value_start, value_end = out
    rows = slice(int(row.min()), int(row.max()) + 1)
    key_start[rows], key_end[rows] = entries.key_start[chosen], entries.key_end[chosen]
    value_start[:, rows] = value_end[:, rows] = -1
    value_start[column, row] = entries.value_start[order]
    value_end[column, row] = entries.value_end[order]


def hash_runs(
    buf: Any, start: Any, stop: Any, column: Any, prefix: int, tail: int, first: int, key_start: Any, key_end: Any,
    value_start: Any, value_end: Any, _table: Any, _secret: Any,
) -> Any:  # fmt: skip
    entries = Entries(buf, start, stop, prefix, tail)
    if entries.words is None:
        return NotImplemented
    row, appears = numbered(entries.words)
    columns = column[entries.run]
    if len(np.unique(row * len(value_start) + columns)) < len(row):
        return NotImplemented
    order = np.arange(len(row))
    put_rows(entries, appears, columns, first + row, order, (key_start, key_end, value_start, value_end))
    return first + len(appears)


def numbered(words: Any) -> tuple[Any, Any]:
    """Number distinct spans in the order of their first appearance; return the numbers, and where each appears."""
    order = np.lexsort([*reversed(words)])
    _, equal = order_of_neighbours([word[order] for word in words])
    first = np.append(True, ~equal)[: len(order)]
    appears = order[first]
    rank = np.empty(len(appears), np.int64)
    rank[np.argsort(appears)] = np.arange(len(appears))
    number = np.empty(len(order), np.int64)
    number[order] = rank[np.cumsum(first) - 1]
    return number, np.sort(appears)


# -- entries of RocksDB ----------------------------------------------------------------------------------------------


def little(buf: Any, pos: Any, dtype: str) -> Any:
    """Return the little-endian numbers at positions."""
    width = np.dtype(dtype).itemsize
    digits = np.empty((len(pos), width), np.uint8)
    for place in range(width):
        digits[:, place] = buf[pos + place]
    return digits.view(dtype)[:, 0].astype(np.int64)


def entries_of_blocks(buf: Any, start: Any, end: Any, least: int) -> Any:
    """Return the block, shared bytes, suffix, bytes of the suffix and of the value of each entry, block by block.

    All blocks are read in step: the first entry of each, then the second. Nothing is returned of damaged ones.
    """
    if (end - start < 8).any():
        return None
    restarts = little(buf, end - 4, "<u4")
    with_hashes = restarts >= 1 << 31
    tail = 4 + np.where(with_hashes, 2 + little(buf, np.maximum(end - 6, 0), "<u2"), 0)
    restarts &= (1 << 31) - 1
    if ((restarts <= 0) | (restarts > (end - start - tail) // 4)).any():
        return None
    stop = end - tail - 4 * restarts
    restart, size, count = (np.zeros(len(start), np.int64) for _ in range(3))
    pos, active = start.copy(), np.flatnonzero(start < stop)
    found: list[Any] = []
    while len(active):
        p, limit = pos[active], stop[active]
        heads = []
        for _ in range(3):
            read = varints(buf, p, limit)
            if read is None:
                return None
            heads.append(read[0])
            p = read[1]
        shared, suffix, length = heads
        has_more = restart[active] < restarts[active]
        begins = has_more & (
            little(buf, limit + 4 * np.where(has_more, restart[active], 0), "<u4") == (pos - start)[active]
        )
        whole = (shared <= size[active]) & (suffix <= limit - p) & (length <= limit - p - suffix)
        if not (whole & np.where(begins, shared == 0, count[active] > 0) & (shared + suffix >= least)).all():
            return None
        if len(found) == MOST_STEPS:
            return None
        found.append(np.array([active, shared, p, suffix, length]))
        restart[active] += begins
        count[active] += 1
        size[active] = shared + suffix
        pos[active] = p + suffix + length
        active = active[pos[active] < stop[active]]
    if ((restart < restarts) & ((count > 0) | (restarts > 1))).any():
        return None
    table = np.concatenate(found, axis=1) if found else np.empty((5, 0), np.int64)
    return table[:, np.argsort(table[0], kind="stable")]


def decode_blocks(
    buf: Any, start: Any, end: Any, key_length: int, at: int, key_start: Any, key_end: Any, value_start: Any,
    value_end: Any, tag: Any,
) -> Any:  # fmt: skip
    table = entries_of_blocks(buf, start, end, key_length + TAG)
    if table is None:
        return NotImplemented
    _, shared, place, suffix, length = table
    size = shared + suffix
    longest = int(size.max(initial=0))
    if longest > MOST_KEY:
        return NotImplemented
    after = at + np.cumsum(size)
    n = min(int(np.searchsorted(after, len(buf) - 8, "right")), len(tag))
    if n < len(size):
        return TOO_SMALL, n, int(after[n - 1]) if n else at
    before = after - size
    number = np.arange(n)
    for byte in range(longest):
        # A byte is that of the last entry whose suffix began at it or before.
        of_suffix = np.maximum.accumulate(np.where(shared <= byte, number, 0))
        some = slice(None) if (size > byte).all() else np.flatnonzero(size > byte)
        source = of_suffix[some]
        buf[before[some] + byte] = buf[place[source] + byte - shared[source]]
    key_start[:n], key_end[:n], tag[:n] = before, after - TAG, little(buf, after - TAG, "<i8")
    value_start[:n], value_end[:n] = place + suffix, place + suffix + length
    return -1, n, int(after[-1]) if n else at


def prefix_numbers(buf: Any, start: Any, end: Any, width: int, out: Any) -> None:
    out[:] = 0
    for place in range(width):
        inside = start + place < end
        out[:] = out << 8 | np.where(inside, buf[np.where(inside, start + place, 0)], 0)


def resolve(
    buf: Any, start: Any, end: Any, _value_start: Any, _value_end: Any, tag: Any, order: Any, _bound_start: Any,
    _bound_end: Any, below: Any, first: Any, last: Any,
) -> Any:  # fmt: skip
    kind = tag[order] & 0xFF
    if len(below) or not np.isin(kind, (PUT, DELETE, SINGLE_DELETE)).all():
        return NotImplemented
    words = words_of(buf, start[order], end[order])
    if words is None:
        return NotImplemented
    less, equal = order_of_neighbours(words)
    if not (less | equal & (tag[order][:-1] >= tag[order][1:])).all():
        return NotImplemented
    newest = np.append(True, ~equal)[: len(order)]
    rows = np.flatnonzero(newest & (kind == PUT))
    first[: len(rows)] = last[: len(rows)] = rows
    return len(rows), 0


def join_values(
    _buf: Any, value_start: Any, value_end: Any, order: Any, first: Any, last: Any, _at: int, row_start: Any,
    row_end: Any,
) -> Any:  # fmt: skip
    if (first != last).any():
        return NotImplemented
    row_start[:], row_end[:] = value_start[order[first]], value_end[order[first]]
    return None


def zip_rows(buf: Any, start: Any, end: Any, low: Any, high: Any, row: int, row_of: Any, first: Any) -> Any:
    if (high - low != high[0] - low[0]).any():
        return -1
    runs = [slice(*bounds) for bounds in zip(low.tolist(), high.tolist(), strict=True)]
    words = words_of(buf, start[runs[0]], end[runs[0]])
    for run in runs[1:]:
        others = words_of(buf, start[run], end[run])
        if words is None or others is None:
            return NotImplemented
        if len(words) != len(others) or any((one != other).any() for one, other in zip(words, others, strict=True)):
            return -1
    count = int(high[0] - low[0])
    for run in runs:
        row_of[run] = np.arange(row, row + count)
    first[row : row + count] = np.arange(low[0], high[0])
    return row + count


#: By the name of the kernel.
FORMS: dict[str, Any] = {
    function.__name__: function
    for function in (
        read_i8, read_i16, read_i32, read_i64, read_flags, read_varints, count_until_end, string_sizes, write_strings,
        java_string_hash, read_strings, merge_key_groups, hash_runs, decode_blocks, prefix_numbers, resolve,
        join_values, zip_rows,
    )
}  # fmt: skip
