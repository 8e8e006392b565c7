"""Rows directly from key groups of the canonical format: states with one entry per key, joined while reading.

The general method (``frames``) first locates every entry and joins afterwards. If runs are sorted, as RocksDB
writes them, one pass over the bytes gives the same rows, and checks the order with one comparison per row. If they are
not, as the hashmap backend writes them, keys are joined with a hash table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import kernel
from pyspark_savepoint.formats.kernels.frames import DAMAGED, DONE, END_OF_KEY_GROUP, MORE, compare_spans, equal_spans
from pyspark_savepoint.formats.kernels.hashing import hash_span
from pyspark_savepoint.formats.kernels.load import be_i32, be_u16, be_u64

STATE, START, STOP, COUNT = 0, 1, 2, 3


@kernel
def find_runs(buf: Any, pos: Any, end: int, key_group: int, prefix: int, states: int, runs: Any) -> Any:
    """Find the runs of one whole key group; return (reason for stopping, position, number of runs).

    Each row of ``runs`` is (state, start, stop, entries). The function makes the same checks as ``split_frames``, and
    clears the flag bits.
    """
    count = 0
    while True:
        if pos + 2 > end:
            return DAMAGED, pos, count
        state = be_u16(buf, pos)
        if state == END_OF_KEY_GROUP:
            return DONE, pos + 2, count
        if state >= states or count >= runs.shape[0]:
            return DAMAGED, pos, count
        pos += 2
        start = pos
        entries = 0
        last = False
        # Entries often have the same size. If so, stepping by the known size lets the processor run ahead, whereas
        # stepping by a size that was just loaded makes it wait for every entry.
        known_size = np.int64(-1)
        known_length = np.int64(-1)
        step = np.int64(0)
        while not last:
            if pos + 8 > end:
                return DAMAGED, pos, count
            size = be_i32(buf, pos)
            key = pos + 4
            if size < prefix or size > end - key - 4:
                return DAMAGED, pos, count
            length = be_i32(buf, key + size)
            if length < 0 or length > end - key - size - 4:
                return DAMAGED, key + size, count
            last = buf[key] >= 128
            if last:
                buf[key] &= 0x7F
            group = np.int64(buf[key])
            if prefix == 2:
                group = (group << np.int64(8)) | np.int64(buf[key + 1])
            if group != key_group:
                return DAMAGED, key, count
            if size == known_size and length == known_length:
                pos += step
            else:
                known_size = size
                known_length = length
                step = size + 8 + length
                pos = key + size + 4 + length
            entries += 1
        runs[count, STATE] = state
        runs[count, START] = start
        runs[count, STOP] = pos
        runs[count, COUNT] = entries
        count += 1


@kernel
def find_key_group_runs(
    buf: Any, ends: Any, key_groups: Any, prefix: int, column_of: Any, runs: Any, bounds: Any, in_group: Any
) -> Any:
    """Find the runs of some states in adjacent key groups, each up to its end; return the number of their entries.

    ``column_of`` has a column, or -1, for each state. Each row of ``runs`` is (column, start, stop, entries);
    ``bounds[g + 1]`` gets the number of runs up to key group g; ``in_group`` has a row of four for each state. Returns
    -1 if a key group has errors, or a state twice.
    """
    states = column_of.shape[0]
    pos, count, entries = 0, 0, 0
    for g in range(ends.shape[0]):
        why, after, found = find_runs(buf, pos, ends[g], key_groups[g], prefix, states, in_group)
        if why != DONE or after != ends[g]:
            return -1
        first = count
        for i in range(found):
            column = column_of[in_group[i, STATE]]
            if column < 0:
                continue
            for other in range(first, count):
                if runs[other, STATE] == column:
                    return -1
            runs[count, STATE] = column
            for part in range(START, COUNT + 1):
                runs[count, part] = in_group[i, part]
            entries += in_group[i, COUNT]
            count += 1
        bounds[g + 1] = count
        pos = ends[g]
    return entries


@kernel
def merge_key_groups(
    buf: Any,
    runs: Any,
    bounds: Any,
    prefix: int,
    tail: int,
    key_start: Any,
    key_end: Any,
    value_start: Any,
    value_end: Any,
    row_bounds: Any,
    finished: Any,
    scratch: Any,
) -> int:
    """Merge the runs of adjacent key groups by :func:`merge_runs`; return the first one that is not sorted, or -1.

    ``runs`` and ``bounds`` are those of :func:`find_key_group_runs`; ``row_bounds[g + 1]`` gets the number of rows up
    to key group g. ``finished`` is true for each column, ``scratch`` has room for four numbers of each.
    """
    columns = value_start.shape[0]
    for g in range(bounds.shape[0] - 1):
        first, last = bounds[g], bounds[g + 1]
        row = row_bounds[g]
        count = last - first
        at, stop = scratch[:count], scratch[columns : columns + count]
        column, stamps = scratch[2 * columns : 2 * columns + count], scratch[3 * columns : 3 * columns + count]
        for r in range(count):
            at[r], stop[r], column[r] = runs[first + r, START], runs[first + r, STOP], runs[first + r, STATE]
        after = merge_runs(
            buf, at, stop, finished[:count], column, prefix, tail, row,
            key_start, key_end, value_start, value_end, stamps,
        )  # fmt: skip
        if after < 0:
            return g
        if last - first < columns:
            for c in range(columns):
                missing = True
                for r in range(last - first):
                    missing = missing and column[r] != c
                if missing:
                    for i in range(row, after):
                        value_start[c, i] = -1
        row_bounds[g + 1] = after
    return -1


@kernel
def merge_runs(
    buf: Any,
    at: Any,
    stop: Any,
    finished: Any,
    column: Any,
    prefix: int,
    tail: int,
    row: int,
    key_start: Any,
    key_end: Any,
    value_start: Any,
    value_end: Any,
    stamps: Any,
) -> int:
    """Merge sorted runs into rows from ``row`` on; return the next row, or -1 if the runs are not strictly sorted.

    ``at`` and ``stop`` bound the runs; the values of run r go to ``value_start[column[r], row]`` (-1: none). Keys are
    compared without their last ``tail`` bytes; key spans exclude the prefix. The merge stops at the end of a run that
    is not ``finished``, because its next key is not known; ``at`` is moved to the entries that are left. ``stamps`` has
    room for a number of each run.
    """
    runs = at.shape[0]
    if runs == 0:  # a key group without the chosen states
        return row
    # Runs whose next key is the smallest so far have the current stamp; a smaller key gets a new stamp.
    for r in range(runs):
        stamps[r] = 0
    stamp = np.int64(0)
    previous_size = np.int64(-1)
    previous_word = np.uint64(0)
    previous_last = np.uint64(0)
    previous = np.int64(-1)
    previous_end = np.int64(-1)
    while True:
        best = np.int64(-1)
        best_end = np.int64(-1)
        # Usually, all runs continue with the same key; up to 16 bytes of it are two words, which may overlap.
        together = at[0] < stop[0]
        if together:
            size = be_i32(buf, at[0])
            best = at[0] + 4 + prefix
            best_end = at[0] + 4 + size - tail
            if best_end < best:
                return -1
            two = 8 <= best_end - best <= 16
            word = be_u64(buf, best) if two else np.uint64(0)
            last = be_u64(buf, best_end - 8) if two else np.uint64(0)
            for r in range(1, runs):
                p = at[r]
                if p >= stop[r] or be_i32(buf, p) != size:
                    together = False
                    break
                a = p + 4 + prefix
                a_end = p + 4 + size - tail
                if two:
                    together = be_u64(buf, a) == word and be_u64(buf, a_end - 8) == last
                else:
                    together = equal_spans(buf, a, a_end, best, best_end)
                if not together:
                    break
        if together:
            if two and size == previous_size:
                if word < previous_word or (word == previous_word and last <= previous_last):
                    return -1
            elif previous >= 0 and compare_spans(buf, previous, previous_end, best, best_end) >= 0:
                return -1
            previous_size = size if two else np.int64(-1)
            previous_word = word
            previous_last = last
            for r in range(runs):
                value = at[r] + 8 + size
                after = value + be_i32(buf, value - 4)
                value_start[column[r], row] = value
                value_end[column[r], row] = after
                at[r] = after
            key_start[row] = best
            key_end[row] = best_end + tail
            previous = best
            previous_end = best_end
            row += 1
            continue
        previous_size = np.int64(-1)
        best = np.int64(-1)
        best_end = np.int64(-1)
        for r in range(runs):
            p = at[r]
            if p >= stop[r]:
                if not finished[r]:
                    return row
                continue
            a = p + 4 + prefix
            a_end = p + 4 + be_i32(buf, p) - tail
            order = np.int64(-1) if best < 0 else np.int64(compare_spans(buf, a, a_end, best, best_end))
            if order < 0:
                best = a
                best_end = a_end
                stamp += 1
            if order <= 0:
                stamps[r] = stamp
        if best < 0:
            return row
        if best_end < best:
            return -1
        if previous >= 0 and compare_spans(buf, previous, previous_end, best, best_end) >= 0:
            return -1
        for r in range(runs):
            if stamps[r] == stamp:
                value = at[r] + 8 + be_i32(buf, at[r])
                at[r] = value + be_i32(buf, value - 4)
                value_start[column[r], row] = value
                value_end[column[r], row] = at[r]
                stamps[r] = -1
            else:
                value_start[column[r], row] = -1
                value_end[column[r], row] = -1
        key_start[row] = best
        key_end[row] = best_end + tail
        previous = best
        previous_end = best_end
        row += 1


@kernel
def scan_run(buf: Any, pos: int, end: int, key_group: int, prefix: int, tail: int, previous: int) -> Any:
    """Scan the entries of one run; return (reason for stopping, position, last entry).

    ``previous`` is the entry before ``pos``, or -1. Keys without their last ``tail`` bytes must ascend strictly; a
    ``tail`` of -1 takes them in any order. DONE: the position is after the run. MORE: the entry there is incomplete.
    """
    ordered = tail >= 0
    least = prefix + max(tail, 0)
    known_size = np.int64(-1)
    known_word = np.uint64(0)
    known_last = np.uint64(0)
    while True:
        if pos + 8 > end:
            return MORE, pos, previous
        size = np.int64(be_i32(buf, pos))
        key = pos + 4
        if size < least:
            return DAMAGED, pos, previous
        if size > end - key - 4:
            return MORE, pos, previous
        length = be_i32(buf, key + size)
        if length < 0:
            return DAMAGED, pos, previous
        last = buf[key] >= 128
        after = key + size + 4 + length
        if after + (2 if last else 0) > end:
            return MORE, pos, previous
        group = np.int64(buf[key] & 0x7F)
        if prefix == 2:
            group = (group << np.int64(8)) | np.int64(buf[key + 1])
        if group != key_group:
            return DAMAGED, pos, previous
        if ordered:
            # As in merge_runs: keys of 8 to 16 bytes are two words, which may overlap.
            a = key + prefix
            a_end = key + size - tail
            if 8 <= a_end - a <= 16:
                word = be_u64(buf, a)
                tail_word = be_u64(buf, a_end - 8)
                if size == known_size:
                    if word < known_word or (word == known_word and tail_word <= known_last):
                        return DAMAGED, pos, previous
                elif previous >= 0:
                    before = previous + 4
                    if compare_spans(buf, before + prefix, before + be_i32(buf, previous) - tail, a, a_end) >= 0:
                        return DAMAGED, pos, previous
                known_size = size
                known_word = word
                known_last = tail_word
            else:
                known_size = np.int64(-1)
                if previous >= 0:
                    before = previous + 4
                    if compare_spans(buf, before + prefix, before + be_i32(buf, previous) - tail, a, a_end) >= 0:
                        return DAMAGED, pos, previous
        previous = pos
        pos = after
        if last:
            return DONE, pos, previous


@kernel
def complete_entries(buf: Any, start: Any, end: int, least: int) -> Any:
    """Return the end and the number of the entries that are complete; -1 if a length cannot be."""
    pos = start
    count = 0
    known_size = np.int64(-1)
    known_length = np.int64(-1)
    step = np.int64(0)
    while pos + 8 <= end:
        size = np.int64(be_i32(buf, pos))
        if size < least:
            return -1, count
        if size > end - pos - 8:
            break
        length = np.int64(be_i32(buf, pos + 4 + size))
        if length < 0:
            return -1, count
        if length > end - pos - 8 - size:
            break
        count += 1
        # As in find_runs: stepping by the known size does not wait for the size that was just loaded.
        if size == known_size and length == known_length:
            pos += step
        else:
            known_size = size
            known_length = length
            step = size + 8 + length
            pos += size + 8 + length
    return pos, count


@kernel
def hash_runs(
    buf: Any,
    start: Any,
    stop: Any,
    column: Any,
    prefix: int,
    tail: int,
    first: int,
    key_start: Any,
    key_end: Any,
    value_start: Any,
    value_end: Any,
    table: Any,
    secret: Any,
) -> int:
    """Do :func:`merge_runs` for runs in any order: rows in order of first appearance; return -1 if a key repeats.

    ``table`` is scratch space: its size is a power of two larger than the number of entries.
    """
    mask = np.uint64(table.shape[0] - 1)
    table[:] = -1
    row = first
    columns = value_start.shape[0]
    for r in range(start.shape[0]):
        c = column[r]
        p = start[r]
        # Two states with the same keys often have the same order: try the row after the last one first.
        guess = np.int64(first)
        while p < stop[r]:
            a = p + 4 + prefix
            a_end = p + 4 + be_i32(buf, p)
            value = a_end + 4
            p = value + be_i32(buf, a_end)
            end = a_end - tail
            if end < a:
                return -1
            at = np.int64(-1)
            if guess < row and r > 0 and equal_spans(buf, a, end, key_start[guess], key_end[guess] - tail):
                at = guess
            else:
                slot = hash_span(buf, a, end, secret) & mask
                while at < 0:
                    other = np.int64(table[slot])
                    if other < 0:
                        table[slot] = row
                        key_start[row] = a
                        key_end[row] = a_end
                        for k in range(columns):
                            value_start[k, row] = -1
                            value_end[k, row] = -1
                        at = np.int64(row)
                        row += 1
                    elif equal_spans(buf, a, end, key_start[other], key_end[other] - tail):
                        at = other
                    else:
                        slot = (slot + np.uint64(1)) & mask
            if value_start[c, at] >= 0:
                return -1
            value_start[c, at] = value
            value_end[c, at] = p
            guess = at + 1
    return row
