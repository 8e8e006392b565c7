"""Forms of kernels in calls of numpy, as in ``array_reads``: of rows that are joined of entries of several states.

Reads of maps, of timers, and of native files of the hashmap state backend need them.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import error as struct_error
from struct import unpack_from
from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels.array_forms import copy
from pyspark_savepoint.formats.kernels.array_reads import numbered, order_of_neighbours, words_of

#: Results of kernels: ``frames.DONE``, and the orders of a run.
DONE = 0
UNSORTED, SORTED, SORTED_UNIQUE = 0, 1, 2


def copy_spans(buf: Any, start: Any, offsets: Any, out: Any) -> None:
    copy(buf, start, np.diff(offsets).astype(np.int64), out, offsets[:-1].astype(np.int64))


def join_spans(a: Any, a_start: Any, a_end: Any, b: Any, b_start: Any, b_end: Any, offsets: Any, out: Any) -> None:
    at = offsets[: len(a_start)].astype(np.int64)
    size = a_end - a_start
    copy(a, a_start, size, out, at)
    copy(b, b_start, b_end - b_start, out, at + size)


def split_key_groups(
    buf: Any, ends: Any, key_groups: Any, prefix: int, states: int, key_start: Any, key_end: Any, value_start: Any,
    value_end: Any, state_of: Any, bounds: Any,
) -> Any:  # fmt: skip
    data, pos = buf.tobytes(), 0
    #: Of each entry: where its key is and ends, where its value ends; and of each run, its state and entries.
    heads: list[int] = []
    tails: list[int] = []
    stops: list[int] = []
    lasts: list[int] = []
    runs: list[tuple[int, int]] = []
    counts = []
    try:
        for end in ends.tolist():
            while True:
                if pos + 2 > end:
                    return NotImplemented
                state = unpack_from(">H", data, pos)[0]
                pos += 2
                if state == 0xFFFF:
                    break
                if state >= states:
                    return NotImplemented
                first, is_last = len(heads), False
                while not is_last:
                    key = pos + 4
                    size = unpack_from(">i", data, pos)[0]
                    length = unpack_from(">i", data, key + size)[0] if prefix <= size <= end - key else -1
                    stop = key + size + 4 + length
                    if length < 0 or stop > end:
                        return NotImplemented
                    is_last = data[key] >= 128
                    heads.append(key)
                    tails.append(key + size)
                    stops.append(stop)
                    pos = stop
                lasts.append(heads[-1])
                runs.append((state, len(heads) - first))
            if pos != end:
                return NotImplemented
            counts.append(len(heads))
    except (struct_error, IndexError):
        return NotImplemented
    count = len(heads)
    if count > len(key_start):
        return NotImplemented
    keys = np.array(heads, np.int64)
    group = buf[keys].astype(np.int64) & 0x7F
    if prefix == 2:
        group = group << 8 | buf[keys + 1]
    if (group != np.repeat(key_groups, np.diff([0, *counts]))).any():
        return NotImplemented
    buf[lasts] &= 0x7F
    key_start[:count], key_end[:count] = keys + prefix, tails
    value_start[:count], value_end[:count] = key_end[:count] + 4, stops
    table = np.array(runs, np.int64).reshape(-1, 2)
    state_of[:count] = np.repeat(table[:, 0], table[:, 1])
    bounds[1:] = counts
    return DONE, pos, -1


def entries_of(low: Any, high: Any) -> tuple[Any, Any]:
    """Return the entries of runs, and the run of each."""
    size = np.maximum(high - low, 0)
    run = np.repeat(np.arange(len(low)), size)
    return np.arange(int(size.sum())) + (low - np.cumsum(size) + size)[run], run


def order_of_runs(buf: Any, start: Any, end: Any, low: Any, high: Any, order: Any) -> Any:
    entries, run = entries_of(low, high)
    words = words_of(buf, start[entries], end[entries])
    if words is None:
        return NotImplemented
    less, equal = order_of_neighbours(words)
    inside = run[1:] == run[:-1]
    order[:] = SORTED_UNIQUE
    order[run[1:][equal & inside]] = SORTED
    order[run[1:][~(less | equal) & inside]] = UNSORTED
    return None


def merge_rows(buf: Any, start: Any, end: Any, at: Any, high: Any, row: int, row_of: Any, first: Any) -> Any:
    entries, run = entries_of(at, high)
    words = words_of(buf, start[entries], end[entries])
    if words is None:
        return NotImplemented
    less, equal = order_of_neighbours(words)
    if not (less | equal)[run[1:] == run[:-1]].all():
        return NotImplemented
    order = np.lexsort([*reversed(words)])
    _, equal = order_of_neighbours([word[order] for word in words])
    begins = np.append(True, ~equal)[: len(order)]
    row_of[entries[order]] = row - 1 + np.cumsum(begins)
    distinct = entries[order[begins]]
    first[row : row + len(distinct)] = distinct
    at[:] = np.maximum(at, high)
    return row + len(distinct)


def hash_rows(
    buf: Any, start: Any, end: Any, low: Any, high: Any, row: int, row_of: Any, first: Any, _table: Any, _secret: Any
) -> Any:
    entries, _ = entries_of(low, high)
    words = words_of(buf, start[entries], end[entries])
    if words is None:
        return NotImplemented
    number, appears = numbered(words)
    row_of[entries] = row + number
    first[row : row + len(appears)] = entries[appears]
    return row + len(appears)


FORMS: dict[str, Callable[..., Any]] = {
    one.__name__: one for one in (copy_spans, join_spans, split_key_groups, order_of_runs, merge_rows, hash_rows)
}
