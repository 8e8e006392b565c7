"""Hash table of entries that change often: their bytes are in one array, to which new ones are appended.

Entry := i32 keyLength  i32 valueLength (-1: deleted)  key  value

A slot of the table is the position of an entry in the array plus 1, or 0. A value that is not longer than the one
before replaces it in place. ``used`` has the bytes of the array that are used, and the number of keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import inline, kernel
from pyspark_savepoint.formats.kernels.frames import copy_span, equal_between, put_i32
from pyspark_savepoint.formats.kernels.hashing import hash_span
from pyspark_savepoint.formats.kernels.load import be_i32

#: Bytes before the key of an entry.
HEAD = 8


@inline
def find_slot(entries: Any, table: Any, keys: Any, start: Any, end: Any, secret: Any) -> Any:
    """Return the slot of a key: that of its entry, or the free one that it would get."""
    mask = np.uint64(table.shape[0] - 1)
    slot = hash_span(keys, start, end, secret) & mask
    while table[slot] != 0:
        at = np.int64(table[slot]) - 1
        key = at + HEAD
        if equal_between(keys, start, end, entries, key, key + be_i32(entries, at)):
            break
        slot = (slot + np.uint64(1)) & mask
    return slot


@kernel
def put_entries(
    entries: Any, table: Any, used: Any, keys: Any, key_start: Any, key_end: Any, values: Any, value_start: Any,
    value_end: Any, first: int, secret: Any
) -> int:  # fmt: skip
    """Set the values of the keys from ``first`` on; return the first one that has no room, or the number of keys.

    A value whose end is before its start deletes. At least a quarter of the table's slots stay free.
    """
    most = table.shape[0] // 4 * 3
    limit = entries.shape[0]
    for i in range(first, len(key_start)):
        key_size, size = key_end[i] - key_start[i], value_end[i] - value_start[i]
        slot = find_slot(entries, table, keys, key_start[i], key_end[i], secret)
        at = np.int64(table[slot]) - 1
        if at < 0 or size > be_i32(entries, at + 4):
            o = used[0]
            if o + HEAD + key_size + max(size, 0) > limit or (at < 0 and used[1] >= most):
                return i
            used[1] += at < 0
            table[slot] = o + 1
            o = put_i32(entries, put_i32(entries, o, key_size), size)
            o = copy_span(keys, key_start[i], key_end[i], entries, o, limit)
            copy_span(values, value_start[i], value_end[i], entries, o, limit)
            used[0] = o + max(size, 0)
        else:
            o = put_i32(entries, at + 4, size) + key_size
            copy_span(values, value_start[i], value_end[i], entries, o, o + size)
    return len(key_start)


@kernel
def find_entries(
    entries: Any, table: Any, keys: Any, key_start: Any, key_end: Any, secret: Any, value_start: Any, value_end: Any
) -> None:
    """Find the value of every key: a deleted or unknown one ends before its start, which is -1 if it is unknown."""
    for i in range(key_start.shape[0]):
        at = np.int64(table[find_slot(entries, table, keys, key_start[i], key_end[i], secret)]) - 1
        value_start[i], value_end[i] = -1, -2
        if at >= 0:
            value_start[i] = at + HEAD + be_i32(entries, at)
            value_end[i] = value_start[i] + be_i32(entries, at + 4)


@kernel
def find_entry(entries: Any, table: Any, key: Any, secret: Any) -> tuple[int, int]:
    """Return what :func:`find_entries` finds for one key."""
    at = np.int64(table[find_slot(entries, table, key, 0, len(key), secret)]) - 1
    if at < 0:
        return -1, -2
    start = at + HEAD + be_i32(entries, at)
    return start, start + be_i32(entries, at + 4)


@kernel
def list_entries(entries: Any, table: Any, key_start: Any, key_end: Any, value_end: Any) -> None:
    """List the keys in the order of the table; each value begins where its key ends."""
    i = 0
    for slot in range(table.shape[0]):
        at = np.int64(table[slot]) - 1
        if at >= 0:
            key_start[i] = at + HEAD
            key_end[i] = key_start[i] + be_i32(entries, at)
            value_end[i] = key_end[i] + be_i32(entries, at + 4)
            i += 1
