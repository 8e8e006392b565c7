"""Change sets of a changelog: splitting into changes, identities of the changed values, and replay.

ChangeSet := i32 groups (i32 changes  i32 keyGroup  blob change [changes])[groups]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import kernel
from pyspark_savepoint.formats.kernels.load import be_i32

# Reasons for stopping within a change set.
DONE, MORE, DAMAGED = 0, 1, 2
# Progress between two windows: remaining groups, remaining changes, and the key group.
GROUPS, CHANGES, KEY_GROUP = 0, 1, 2
#: The smallest change in bytes: operation and state id.
LEAST_CHANGE = 3
METADATA_GROUP = -1
MAX_KEY_GROUPS = 1 << 15

# Effects of a unit of change on a value.
PUT, ADD, DELETE, CLEAR, MERGE_TARGET, MERGE_SOURCE = 0, 1, 2, 3, 4, 5
#: Bytes at the start of an identity: the state and two lengths.
HEAD = 12
COMMA = 0x2C


@kernel
def split_changes(buf: Any, pos: int, end: int, place: Any, key_group: Any, start: Any, stop: Any) -> Any:
    """Find the changes of one change set from ``pos``; return (reason for stopping, position, number of changes).

    ``place`` is the progress (remaining groups, remaining changes, key group), which is updated; the number of groups
    is -1 at the start. MORE means that the buffer ends within an item that starts at the position.
    """
    n = 0
    if place[GROUPS] < 0:
        if pos + 4 > end:
            return MORE, pos, n
        place[GROUPS] = be_i32(buf, pos)
        if place[GROUPS] < 0 or place[GROUPS] > MAX_KEY_GROUPS + 1:
            return DAMAGED, pos, n
        pos += 4
    while True:
        if place[CHANGES] == 0:
            if place[GROUPS] == 0:
                return DONE, pos, n
            if pos + 8 > end:
                return MORE, pos, n
            count = be_i32(buf, pos)
            group = be_i32(buf, pos + 4)
            if count < 0 or group < METADATA_GROUP or group >= MAX_KEY_GROUPS:
                return DAMAGED, pos, n
            place[GROUPS] -= 1
            place[CHANGES] = count
            place[KEY_GROUP] = group
            pos += 8
            continue
        if pos + 4 > end:
            return MORE, pos, n
        size = be_i32(buf, pos)
        if size < LEAST_CHANGE:
            return DAMAGED, pos, n
        if pos + 4 + size > end:
            return MORE, pos, n
        key_group[n] = place[KEY_GROUP]
        start[n] = pos + 4
        stop[n] = pos + 4 + size
        n += 1
        place[CHANGES] -= 1
        pos += 4 + size


@kernel
def identities(
    state: Any,
    key: Any,
    key_bytes: Any,
    namespace: Any,
    namespace_bytes: Any,
    user: Any,
    user_bytes: Any,
    at: Any,
    out: Any,
    row_end: Any,
) -> None:
    """Write the identity of each unit at ``at[i]``: state, lengths, key and namespace (to ``row_end``), user key.

    ``key``, ``namespace`` and ``user`` are offsets into their bytes, one more than there are units.
    """
    for i in range(state.shape[0]):
        p = at[i]
        numbers = (np.int64(state[i]), key[i + 1] - key[i], namespace[i + 1] - namespace[i])
        for number in numbers:
            for k in range(4):
                out[p] = (number >> np.int64(8 * k)) & np.int64(0xFF)
                p += 1
        for q in range(key[i], key[i + 1]):
            out[p] = key_bytes[q]
            p += 1
        for q in range(namespace[i], namespace[i + 1]):
            out[p] = namespace_bytes[q]
            p += 1
        row_end[i] = p
        for q in range(user[i], user[i + 1]):
            out[p] = user_bytes[q]
            p += 1


@kernel
def replay(
    unit: Any, cell: Any, row: Any, grows: Any, head: Any, tail: Any, last: Any, following: Any, cleared: Any, torn: Any
) -> None:
    """Apply units in order; the result of every cell is a chain of units from ``head[cell]`` on, or -1 if empty.

    ``cell`` is the value of a unit, ``row`` its key and namespace; ``grows`` is true for units whose values can be
    joined without the user's code (lists). ``last[cell]`` is the newest unit, ``cleared[row]`` the newest clearing of
    a map, ``torn[cell]`` whether values would have to be merged by the user's code. The caller fills the arrays with -1
    or False.
    """
    target = np.int64(0)
    for i in range(unit.shape[0]):
        kind = unit[i]
        c = np.int64(cell[i])
        if kind == PUT:
            head[c] = i
            tail[c] = i
            last[c] = i
            torn[c] = False
        elif kind == ADD:
            if head[c] < 0:
                head[c] = i
            else:
                following[tail[c]] = i
            tail[c] = i
            last[c] = i
        elif kind == DELETE:
            head[c] = -1
            torn[c] = False
        elif kind == CLEAR:
            cleared[row[i]] = i
        elif kind == MERGE_TARGET:
            target = c
        elif c != target and head[c] >= 0:
            if head[target] < 0:
                head[target] = head[c]
                torn[target] = torn[c]
            elif grows[i]:
                following[tail[target]] = head[c]
            else:
                torn[target] = True
            tail[target] = tail[c]
            last[target] = i
            head[c] = -1
            torn[c] = False


@kernel
def chain_sizes(head: Any, following: Any, offsets: Any, out: Any) -> None:
    """Compute the bytes of every chain of units, with commas between units; ``offsets`` are those of their values."""
    for i in range(head.shape[0]):
        size = np.int64(-1)
        k = np.int64(head[i])
        while k >= 0:
            size += offsets[k + 1] - offsets[k] + 1
            k = following[k]
        out[i] = size


@kernel
def join_chains(head: Any, following: Any, offsets: Any, values: Any, at: Any, out: Any) -> None:
    """Write the values of every chain to ``at[i]``, with commas between them."""
    for i in range(head.shape[0]):
        p = at[i]
        k = np.int64(head[i])
        first = True
        while k >= 0:
            if not first:
                out[p] = COMMA
                p += 1
            for q in range(offsets[k], offsets[k + 1]):
                out[p] = values[q]
                p += 1
            first = False
            k = following[k]
