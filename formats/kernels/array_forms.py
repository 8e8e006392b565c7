"""Forms of kernels in a few calls of numpy: of those that a write needs, so that the first one compiles nothing.

Those that reads need besides are in ``array_reads``.

Each takes the arguments of its kernel and does the same, about ten times as slowly, in time linear in the bytes. It
returns NotImplemented, and has changed nothing, where that would not hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

FORMS: dict[str, Callable[..., Any]] = {}
ALL, WHOLE = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(8)
LOWEST = np.uint64(255)
#: Bytes up to which spans are compared byte by byte of all of them, and the rounds of sorting by seven bytes.
MOST_COMMON, MOST_ROUNDS = 64, 16
#: Bytes that are copied at once, with some 30 bytes of memory for each.
MOST_AT_ONCE = 1 << 20
#: Where fewer entries of a run than these have one size, these are read one by one before that is tried again.
FEW, MOST_SINGLY = 8, 1024


def form(function: Callable[..., Any]) -> Callable[..., Any]:
    """Declare the form of the kernel of this name."""
    FORMS[function.__name__] = function
    return function


@form
def key_groups(hashes: Any, max_parallelism: int, out: Any) -> None:
    code = hashes.astype(np.int32).view(np.uint32) * np.uint32(0xCC9E2D51)
    code = (code << np.uint32(15) | code >> np.uint32(17)) * np.uint32(0x1B873593)
    code = (code << np.uint32(13) | code >> np.uint32(19)) * np.uint32(5) + np.uint32(0xE6546B64)
    code ^= np.uint32(4)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        code = (code ^ code >> np.uint32(shift)) * np.uint32(factor)
    code ^= code >> np.uint32(16)
    # numpy's abs returns the smallest int unchanged, because it has no positive counterpart; Flink uses 0.
    out[:] = np.maximum(np.abs(code.view(np.int32)), 0) % np.int32(max_parallelism)


@form
def write_fixed(buf: Any, pos: Any, values: Any, width: int) -> None:
    digits = values.astype(">i8").view(np.uint8).reshape(-1, 8)
    for place in range(width):
        buf[pos + place] = digits[:, 8 - width + place]
    pos += width


@form
def group_bounds(key_group: Any, bounds: Any) -> None:
    bounds[0] = 0
    np.cumsum(np.bincount(key_group, minlength=len(bounds) - 1), out=bounds[1:])


@form
def common_zero(data: Any, start: Any, end: Any) -> int:
    return int(bool((end > start).all()) and not data[end - 1].any())


@form
def common_prefix(data: Any, start: Any, end: Any) -> Any:
    if not len(start):
        return 0
    least = int((end - start).min())
    for place in range(min(least, MOST_COMMON)):
        if (data[start + place] != data[start[0] + place]).any():
            return place
    return least if least <= MOST_COMMON else NotImplemented


def words_at(data: Any, start: Any, end: Any) -> Any:
    """Return the words of spans, as ``sort.word_at`` does."""
    words = np.clip(end - start, 0, 8).astype(np.uint64)
    for place in range(7):
        at = start + place
        inside = at < end
        byte = data[np.where(inside, at, 0)] * inside if len(data) else np.zeros(len(at))
        words |= byte.astype(np.uint64) << np.uint64(56 - 8 * place)
    return words


@form
def scatter_words(
    key_group: Any, next_of: Any, data: Any, start: Any, end: Any, skip: int, words: Any, rows: Any
) -> None:
    order = np.argsort(key_group, kind="stable")
    counts = np.bincount(key_group, minlength=len(next_of))
    at = np.arange(len(order)) + np.repeat(next_of - (np.cumsum(counts) - counts), counts)
    words[at] = words_at(data, start + skip, end)[order]
    rows[at] = order
    next_of += counts


@form
def sort_groups(data: Any, start: Any, end: Any, bounds: Any, skip: int, words: Any, rows: Any, *_: Any) -> Any:
    low, high = int(bounds[0]), int(bounds[-1])
    run = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    order = np.lexsort((words[low:high], run))
    row, word = rows[low:high][order], words[low:high][order]
    current, at = word, skip
    left = np.arange(len(order))
    for _round in range(MOST_ROUNDS):
        # Of neighbours with equal words, those that do not contain the whole span are sorted by what follows.
        again = (current[1:] == current[:-1]) & (run[1:] == run[:-1]) & (current[1:] & LOWEST == WHOLE)
        open_ended = np.append(again, False) | np.append(False, again)
        if not open_ended.any():
            words[low:high], rows[low:high] = word, row
            return None
        run = np.cumsum(np.append(True, ~again))[open_ended]
        left, at = left[open_ended], at + 7
        some = row[left]
        current = words_at(data, start[some] + at, end[some])
        order = np.lexsort((current, run))
        current, row[left] = current[order], some[order]
    return NotImplemented


@form
def sorted_offsets(start: Any, end: Any, words: Any, rows: Any, skip: int, zero: int, offsets: Any) -> None:
    length = (words & LOWEST).astype(np.int64)
    length = np.where(length == 8, end[rows] - start[rows], length + skip) + zero
    offsets[0] = 0
    np.cumsum(length, out=offsets[1:])


def copy(data: Any, start: Any, length: Any, out: Any, at: Any) -> None:
    """Copy spans of ``data`` to positions of ``out``."""
    if len(length) and length[0] <= MOST_COMMON and (length == length[0]).all():
        for place in range(int(length[0])):
            out[at + place] = data[start + place]
        return
    after = np.cumsum(length)
    if len(length) > 1 and after[-1] > MOST_AT_ONCE:
        row = max(int(np.searchsorted(after, after[-1] // 2)), 1)
        for some in (slice(0, row), slice(row, len(length))):
            copy(data, start[some], length[some], out, at[some])
        return
    first = after - length
    within = np.arange(int(length.sum()))
    out[within + np.repeat(at - first, length)] = data[within + np.repeat(start - first, length)]


@form
def sorted_spans(
    data: Any, start: Any, _end: Any, _words: Any, rows: Any, _skip: int, _zero: int, offsets: Any, out: Any
) -> None:
    copy(data, start[rows], np.diff(offsets), out, offsets[:-1])


@form
def first_repeated_span(group: Any, data: Any, start: Any, end: Any) -> int:
    length = end - start
    same = 1 + np.flatnonzero((group[1:] == group[:-1]) & (length[1:] == length[:-1]))
    for place in range(min(int(length.max(initial=0)), MOST_COMMON)):
        if not len(same):
            return -1
        shorter = length[same] <= place
        at = np.where(shorter, 0, place)
        same = same[shorter | (data[start[same] + at] == data[start[same - 1] + at])]
    for row in same.tolist():
        if data[start[row] : end[row]].tobytes() == data[start[row - 1] : end[row - 1]].tobytes():
            return int(row)
    return -1


@form
def frame_sizes(
    bounds: Any, key_start: Any, key_end: Any, value_start: Any, value_end: Any, overhead: int, out: Any
) -> None:
    total = np.append(0, np.cumsum(key_end - key_start + value_end - value_start + overhead))
    out[:] = np.diff(total[bounds])


@form
def put_frames(
    out: Any, at: Any, _ends: Any, bounds: Any, key_group: Any, prefix: int, keys: Any, key_start: Any, key_end: Any,
    values: Any, value_start: Any, value_end: Any, last: Any,
) -> None:  # fmt: skip
    entries = slice(int(bounds[0]), int(bounds[-1]))
    counts = np.diff(bounds)
    key_start, value_start = key_start[entries], value_start[entries]
    key, value = key_end[entries] - key_start, value_end[entries] - value_start
    size = key + value + prefix + 8
    before = np.cumsum(size) - size
    first = bounds[:-1] - bounds[0]
    begins = np.append(before, size.sum())[first]
    place = before + np.repeat(at - begins, counts)
    write_fixed(out, place.copy(), key + prefix, 4)
    group = np.repeat(np.asarray(key_group, np.int64), counts)
    write_fixed(out, place + 4, group, prefix)
    copy(keys, key_start, key, out, place + 4 + prefix)
    write_fixed(out, place + 4 + prefix + key, value, 4)
    copy(values, value_start, value, out, place + 8 + prefix + key)
    last[:] = -1
    some = counts > 0
    last[some] = place[(first + counts - 1)[some]]


@form
def find_key_group_runs(
    buf: Any, ends: Any, key_groups: Any, prefix: int, column_of: Any, runs: Any, bounds: Any, _in_group: Any
) -> Any:
    flags: list[int] = []
    found: list[tuple[int, int, int, int]] = []
    stops: list[int] = []
    pos = 0
    data = memoryview(buf)
    for end, key_group in zip(ends.tolist(), key_groups.tolist(), strict=True):
        first, head = len(found), int(key_group).to_bytes(prefix, "big")
        while True:
            if pos + 2 > end:
                return NotImplemented
            state = int.from_bytes(data[pos : pos + 2], "big")
            pos += 2
            if state == 0xFFFF:
                break
            if state >= len(column_of) or any(state == one[0] for one in found[first:]):
                return NotImplemented
            start, entries, is_last, at_once, one_by_one = pos, 0, False, 16, 0
            while not is_last:
                if pos + 8 > end:
                    return NotImplemented
                size = int.from_bytes(data[pos : pos + 4], "big", signed=True)
                if not prefix <= size <= end - pos - 8:
                    return NotImplemented
                length = int.from_bytes(data[pos + 4 + size : pos + 8 + size], "big", signed=True)
                if not 0 <= length <= end - pos - 8 - size:
                    return NotImplemented
                step = size + 8 + length
                if one_by_one:
                    one_by_one -= 1
                    is_last = data[pos + 4] >= 128
                    if is_last:
                        flags.append(pos + 4)
                    if (data[pos + 4] & 0x7F) != head[0] or data[pos + 5 : pos + 4 + prefix] != head[1:]:
                        return NotImplemented
                    pos += step
                    entries += 1
                    continue
                # Entries of the same size as the first one, up to the last of the run.
                frames = buf[pos : pos + min(at_once, (end - pos) // step) * step].reshape(-1, step)
                same = (frames[:, :4] == frames[0, :4]).all(axis=1)
                same &= (frames[:, 4 + size : 8 + size] == frames[0, 4 + size : 8 + size]).all(axis=1)
                count = int(np.argmin(same)) if not same.all() else len(same)
                at_once = 16 if count < len(same) else 4 * at_once
                one_by_one = MOST_SINGLY if count < FEW else 0
                closing = np.flatnonzero(frames[:count, 4] >= 128)
                if len(closing):
                    count, is_last = int(closing[0]) + 1, True
                    flags.append(pos + (count - 1) * step + 4)
                digits = frames[:count, 4 : 4 + prefix].copy()
                digits[:, 0] &= 0x7F
                if (digits != np.frombuffer(head, np.uint8)).any():
                    return NotImplemented
                pos += count * step
                entries += count
            found.append((state, start, pos, entries))
        if pos != end:
            return NotImplemented
        stops.append(len(found))
    buf[flags] &= 0x7F
    table = np.array(found, np.int64).reshape(-1, 4)
    wanted = column_of[table[:, 0]] >= 0
    kept = table[wanted]
    kept[:, 0] = column_of[kept[:, 0]]
    runs[: len(kept)] = kept
    bounds[1:] = np.append(0, np.cumsum(wanted))[stops]
    return int(kept[:, 3].sum())
