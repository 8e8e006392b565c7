"""Plain pickles as trees of values, of which ``kryo_columns.py`` makes variants.

    tree[i]       node, two numbers, the place after the node and all that is in it, as in ``kryo_values.py``

It executes the opcodes with which CPython writes None, booleans, numbers, strings, bytes, tuples, lists, dicts and sets
since protocol 2. Pickles with other opcodes, with containers that they refer to again, or that are damaged, are left to
the caller.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import kernel
from pyspark_savepoint.formats.kernels.kryo_bytes import ASCII, UTF8
from pyspark_savepoint.formats.kernels.kryo_kinds import LEFT_TO_CALLER, NULL_NODE
from pyspark_savepoint.formats.kernels.load import be_i64, be_u32, le_i64, le_u32

#: The nodes of values, and how many there are. Tuples are lists of which no elements are added.
STRING, NUMBER, REAL, FLAG, BINARY, DICT, LIST, TUPLE, NODES = range(1, 10)
PROTO, FRAME, STOP, MARK, EMPTY_DICT, EMPTY_LIST, EMPTY_TUPLE, EMPTY_SET = 0x80, 0x95, 46, 40, 125, 93, 41, 0x8F
NONE, TRUE, FALSE, INT1, INT2, INT4, LONG1, FLOAT = 78, 0x88, 0x89, 75, 77, 74, 0x8A, 71
TEXT1, TEXT4, BYTES1, BYTES4, MEMOIZE, PUT1, PUT4, GET1, GET4 = 0x8C, 88, 67, 66, 0x94, 113, 114, 104, 106
APPEND, APPENDS, ADD_ITEMS, SET_ITEM, SET_ITEMS = 97, 101, 0x90, 115, 117
TUPLE1, TUPLE3, TUPLE_OF_MARK = 0x85, 0x87, 116
MAX_PROTOCOL, MAX_OPEN = 5, 40
ON_MARK = -1
#: What one pickle gives in place of the number of its nodes.
LEFT, NO_ROOM = -1, -2


@kernel
def _is_utf8(buf: Any, p: Any, end: Any) -> Any:
    """Return whether bytes are UTF-8 without halves of surrogate pairs."""
    good: Any = True
    while good and p < end:
        first = np.int64(buf[p])
        size = 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
        good = p + size <= end and (first < 0x80 or 0xC2 <= first < 0xF5)
        if good and size > 1:
            point = first & (0x7F >> size)
            for k in range(1, size):
                good = good and buf[p + k] >> 6 == 2
                point = (point << 6) | (np.int64(buf[p + k]) & 0x3F)
            if size == 3:
                good = good and point >= 0x800 and not 0xD800 <= point < 0xE000
            elif size == 4:
                good = good and 0x10000 <= point < 0x110000
        p += size
    return good


@kernel
def _leaf(buf: Any, code: Any, p: Any, end: Any) -> Any:
    """Read a value without others in it: its node, two numbers, and the position after it, or -1."""
    node, a, b, stop = np.int64(NULL_NODE), np.int64(0), np.int64(0), np.int64(p)
    if code in (TRUE, FALSE):
        node, a = np.int64(FLAG), np.int64(1 if code == TRUE else 0)
    elif code in (INT1, INT2, INT4, LONG1):
        node = np.int64(NUMBER)
        size = np.int64(1 if code == INT1 else 2 if code == INT2 else 4)
        if code == LONG1 and p < end:
            size = np.int64(buf[p])
            p += 1
        stop = np.int64(p + size if size <= 8 and p + size <= end else -1)
        if stop >= 0:
            for k in range(size):
                a |= np.int64(buf[p + k]) << np.int64(8 * k)
            if code in (INT4, LONG1) and 0 < size < 8:
                sign = np.int64(1) << np.int64(8 * size - 1)
                a = (a ^ sign) - sign
    elif code == FLOAT:
        node, stop = np.int64(REAL), np.int64(p + 8 if p + 8 <= end else -1)
        if stop >= 0:
            a = be_i64(buf, p)
    elif code != NONE:
        width = 1 if code in (TEXT1, BYTES1) else 4
        node = np.int64(STRING if code in (TEXT1, TEXT4) else BINARY)
        stop = np.int64(-1)
        if p + width <= end:
            size = np.int64(buf[p]) if width == 1 else le_u32(buf, p)
            a = np.int64(p + width)
            stop = a + size if size <= end - a else np.int64(-1)
            form = np.int64(ASCII)
            if stop >= 0 and node == STRING:
                for k in range(size):
                    if buf[a + k] >= 128:
                        form = np.int64(UTF8)
                        if not _is_utf8(buf, a, stop):
                            stop = np.int64(-1)
                        break
            b = (size << 2) | form
    return node, a, b, stop


@kernel
def _memo_index(buf: Any, code: Any, p: Any, end: Any) -> Any:
    """Read the number of a value in the memo, and the position after it, or -1."""
    width = 1 if code in (PUT1, GET1) else 4
    if p + width > end:
        return np.int64(-1), np.int64(-1)
    return np.int64(buf[p]) if width == 1 else le_u32(buf, p), np.int64(p + width)


@kernel
def _add(tree: Any, n: Any, stack: Any, start: Any, top: Any) -> Any:
    """Add the values of the stack from ``start`` on to the list or dict below; return whether it is fine."""
    parent = stack[start - 1] if stack[start - 1] != ON_MARK else stack[start - 2]
    depth = np.int64(0)
    for k in range(start, top):
        if stack[k] == ON_MARK:
            return False
        if tree[stack[k], 0] >= DICT:
            depth = max(depth, tree[stack[k], 2])
    tree[parent, 1] += top - start
    tree[parent, 2] = max(tree[parent, 2], depth + 1)
    tree[parent, 3] = n
    return tree[parent, 2] <= MAX_OPEN


@kernel
def _make_tuple(tree: Any, n: Any, stack: Any, memo: Any, known: Any, start: Any, top: Any) -> Any:
    """Put a tuple before its elements in the tree, which are on the stack; return whether that is fine.

    What was put into the memo since the first element was read is in the tuple too, so these are its last numbers.
    """
    first = stack[start] if top > start else n
    if first == ON_MARK:
        return False
    for k in range(n, first, -1):
        for column in range(4):
            tree[k, column] = tree[k - 1, column]
        tree[k, 3] += 1
    last = known - 1
    while last >= 0 and memo[last] >= first:
        memo[last] += 1
        last -= 1
    depth = np.int64(0)
    for k in range(start, top):
        if stack[k] == ON_MARK:
            return False
        if tree[stack[k] + 1, 0] >= DICT:
            depth = max(depth, tree[stack[k] + 1, 2])
    tree[first, 0] = TUPLE
    tree[first, 1] = top - start
    tree[first, 2] = depth + 1
    tree[first, 3] = n + 1
    stack[start] = first
    return depth < MAX_OPEN


@kernel
def _pickle(buf: Any, p: Any, end: Any, tree: Any, n: Any, stack: Any, memo: Any) -> Any:
    """Read a pickle into the tree from row ``n`` on; return the next row, LEFT or NO_ROOM."""
    top, known = np.int64(0), np.int64(0)
    root = np.int64(n)
    while p < end:
        code = np.int64(buf[p])
        p += 1
        if n + 2 > tree.shape[0]:
            return np.int64(NO_ROOM)
        if top + 1 >= stack.shape[0]:
            return np.int64(LEFT)
        if code in (TEXT1, TEXT4, INT1, INT2, INT4, LONG1, FLOAT, NONE, TRUE, FALSE, BYTES1, BYTES4):
            node, a, b, p = _leaf(buf, code, p, end)
            if p < 0:
                break
            tree[n, 0] = node
            tree[n, 1] = a
            tree[n, 2] = b
            tree[n, 3] = n + 1
            stack[top] = n
            top += 1
            n += 1
        elif code in (EMPTY_DICT, EMPTY_LIST, EMPTY_SET):
            tree[n, 0] = DICT if code == EMPTY_DICT else LIST
            tree[n, 1] = 0
            tree[n, 2] = 1
            tree[n, 3] = n + 1
            stack[top] = n
            top += 1
            n += 1
        elif code in (MEMOIZE, PUT1, PUT4):
            number = known
            if code != MEMOIZE:
                number, p = _memo_index(buf, code, p, end)
            if p < 0 or number != known or known == memo.shape[0] or top == 0 or stack[top - 1] == ON_MARK:
                break
            memo[known] = stack[top - 1]
            known += 1
        elif code in (GET1, GET4):
            number, p = _memo_index(buf, code, p, end)
            if p < 0 or number >= known or tree[memo[number], 0] >= DICT:
                break
            for column in range(3):
                tree[n, column] = tree[memo[number], column]
            tree[n, 3] = n + 1
            stack[top] = n
            top += 1
            n += 1
        elif code == MARK:
            stack[top] = ON_MARK
            top += 1
        elif code in (APPEND, APPENDS, ADD_ITEMS, SET_ITEM, SET_ITEMS, TUPLE_OF_MARK):
            start = top - (1 if code == APPEND else 2)
            if code in (APPENDS, ADD_ITEMS, SET_ITEMS, TUPLE_OF_MARK):
                start = np.int64(top)
                while start > 0 and stack[start - 1] != ON_MARK:
                    start -= 1
            below = start - (1 if code in (APPEND, SET_ITEM) else 2)
            if code == TUPLE_OF_MARK:
                if start < 1 or not _make_tuple(tree, n, stack, memo, known, start, top):
                    break
                stack[start - 1] = stack[start]
                top = np.int64(start)
                n += 1
            else:
                is_dict = code in (SET_ITEM, SET_ITEMS)
                if below < 0 or stack[below] == ON_MARK or tree[stack[below], 0] != (DICT if is_dict else LIST):
                    break
                if (is_dict and (top - start) % 2 != 0) or not _add(tree, n, stack, start, top):
                    break
                top = below + 1
        elif TUPLE1 <= code <= TUPLE3 or code == EMPTY_TUPLE:
            start = top - (code - TUPLE1 + 1 if code != EMPTY_TUPLE else 0)
            if start < 0 or not _make_tuple(tree, n, stack, memo, known, start, top):
                break
            top = start + 1
            n += 1
        elif code == PROTO and p < end and buf[p] <= MAX_PROTOCOL:
            p += 1
        elif code == FRAME and p + 8 <= end and 0 <= le_i64(buf, p) <= end - p - 8:
            p += 8
        elif code == STOP and p == end and top == 1 and stack[0] == root:
            return np.int64(n)
        else:
            break
    return np.int64(LEFT)


@kernel
def read_pickles(
    framed: Any, buf: Any, start: Any, end: Any, first: Any, tree: Any, roots: Any, stack: Any, memo: Any
) -> Any:
    """Read the pickles of rows into the tree, from row ``first`` on; return the row that has no room.

    ``framed``: before a pickle may be its length. ``roots`` are the places in the tree, or LEFT_TO_CALLER.
    """
    row, n = np.int64(first), np.int64(0)
    while row < start.shape[0]:
        p, stop = np.int64(start[row]), np.int64(end[row])
        if framed and p + 5 <= stop and buf[p] != PROTO and np.int64(be_u32(buf, p)) == stop - p - 4:
            p += 4
        after = np.int64(LEFT)
        if p < stop and buf[p] == PROTO:
            after = _pickle(buf, p, stop, tree, n, stack, memo)
        if after == NO_ROOM:
            break
        roots[row] = LEFT_TO_CALLER
        if after >= 0 and tree[n, 0] >= 0:
            roots[row] = n
            n = after
        row += 1
    return row
