"""Collections of strings and numbers, from Kryo 2 to the serializers that Flink 2 has for them; all else is copied.

Values are followed by their layout, as in ``skip``. Where a node is marked, Kryo 2 wrote a list, set or map there:

    collection := 01 00 class  01  varint n  item[n], twice as many in a map          the class ASCII, bit 80 ends it
    item       := 00 null | varint id + 2, and: zig-zag numbers, big-endian floats, string 01 text

    written    := 00  i32 n  (01 | 00 item)[n]

That is ``Nullable(List(Nullable(E)))``, ``Nullable(Set(E))``, ``Nullable(Map(Nullable(K), V))``. A value with anything
else, such as a reference to a string that came before or a subclass of a POJO, is left to the caller.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import kernel
from pyspark_savepoint.formats.kernels.load import be_i32, be_u64, put_u64
from pyspark_savepoint.formats.kernels.skip import FLAGGED, MAX_DEPTH, POJO, REPEAT, SEQUENCE, TOP, skip
from pyspark_savepoint.formats.kernels.strings import HIGH_BITS, varint

#: Operation of a marked node: a, b = what the items are; b is -1 in a list or set.
COLLECTION = 1000
#: Kinds of items: the classes that Kryo registers first, by their ids plus two.
INT, STRING, FLOAT, BOOLEAN, BYTE, SHORT, LONG, DOUBLE = 2, 3, 4, 5, 6, 8, 9, 10
P, Q, COPIED = 0, 1, 2
NO_SUBCLASS, NULL = 2, 1
#: Largest growth of a value: an item of two bytes becomes nine.
GROWTH = 6


@kernel
def rewrite_rows(
    nodes: Any, children: Any, names: Any, touched: Any, classes: Any, node: int, buf: Any, start: Any, end: Any,
    out: Any, ends: Any,
) -> Any:  # fmt: skip
    """Write the value of each row behind the others; ``ends`` are their ends, -1 for those left to the caller.

    Returns the number of written bytes.
    """
    state = np.zeros(3, np.int64)
    q = np.int64(0)
    for i in range(start.shape[0]):
        state[P] = start[i]
        state[Q] = q
        state[COPIED] = start[i]
        status = _walk(nodes, children, names, touched, classes, node, buf, end[i], out, state, TOP)
        ends[i] = -1
        if status == 0 and state[P] == end[i] and _copy(buf, out, state, end[i]):
            q = state[Q]
            ends[i] = q
    return q


@kernel
def _copy(buf: Any, out: Any, state: Any, upto: int) -> bool:
    """Copy what is not copied yet; False if there is no room."""
    size = upto - state[COPIED]
    if state[Q] + size > out.shape[0]:
        return False
    p, q = state[COPIED], state[Q]
    while p + 8 <= upto:
        put_u64(out, q, be_u64(buf, p))
        p += 8
        q += 8
    while p < upto:
        out[q] = buf[p]
        p += 1
        q += 1
    state[Q] = q
    state[COPIED] = upto
    return True


@kernel
def _walk(
    nodes: Any, children: Any, names: Any, touched: Any, classes: Any, node: int, buf: Any, end: int, out: Any,
    state: Any, depth: int,
) -> int:  # fmt: skip
    """Follow one value; return 0, or -1 if it is left to the caller."""
    if depth > MAX_DEPTH or state[P] > end:
        return -1
    op, a, b = nodes[node, 0], nodes[node, 1], nodes[node, 2]
    first, count = nodes[node, 3], nodes[node, 4]
    if op == COLLECTION:
        if not _copy(buf, out, state, state[P]):
            return -1
        status = _collection(classes, a, b, buf, end, out, state)
        state[COPIED] = state[P]
        return status
    if not touched[node]:
        p = skip(nodes, children, names, node, buf, state[P], end, TOP)
        if p < 0:
            return -1
        state[P] = p
        return 0
    if op == POJO:
        if state[P] >= end:
            return -1
        flags = buf[state[P]]
        state[P] += 1
        if flags == NULL:
            return 0
        if flags != NO_SUBCLASS:
            return -1
        count = a
    repeat = 1
    if op == REPEAT:
        if state[P] + 4 > end:
            return -1
        repeat = be_i32(buf, state[P])
        if repeat < 0 or repeat > end - state[P]:
            return -1
        state[P] += 4
    elif op != POJO and op != SEQUENCE and op != FLAGGED:
        return -1
    for _ in range(repeat):
        for k in range(count):
            if op in (POJO, FLAGGED):
                if state[P] >= end or buf[state[P]] > 1:
                    return -1
                null = 1 if op == POJO else a
                flag = buf[state[P]]
                state[P] += 1
                if flag == null:
                    state[P] += 0 if op == POJO else b
                    continue
            part = children[first + k]
            status = _walk(nodes, children, names, touched, classes, part, buf, end, out, state, depth + 1)
            if status < 0:
                return -1
    return 0


@kernel
def _collection(classes: Any, key: int, value: int, buf: Any, end: int, out: Any, state: Any) -> int:
    """Write a collection whose class is one of ``classes``: rows of names, each padded with zeros."""
    p = state[P]
    if p + 2 > end or buf[p] != 1 or buf[p + 1] != 0:
        return -1
    p += 2
    size = 0
    while p + size < end and buf[p + size] < 128:
        size += 1
    if p + size >= end or size + 1 >= classes.shape[1]:
        return -1
    known = False
    for k in range(classes.shape[0]):
        if classes[k, size + 1] == 0 and classes[k, size] == buf[p + size]:
            j = 0
            while j < size and classes[k, j] == buf[p + j]:
                j += 1
            if j == size:
                known = True
                break
    p += size + 1
    if not known or p >= end or buf[p] != 1:
        return -1
    count, p = varint(buf, p + 1, end)
    if p < 0 or count > end - p:
        return -1
    q = state[Q]
    if q + 5 > out.shape[0]:
        return -1
    out[q] = 0
    for k in range(4):
        out[q + 1 + k] = (count >> (24 - 8 * k)) & 0xFF
    state[P] = p
    state[Q] = q + 5
    for _ in range(count):
        if _item(key, buf, end, out, state) < 0:
            return -1
        if value >= 0 and _item(value, buf, end, out, state) < 0:
            return -1
    return 0


@kernel
def _item(kind: int, buf: Any, end: int, out: Any, state: Any) -> int:
    """Write one item with its null flag."""
    p, q = state[P], state[Q]
    if p >= end or q + 10 > out.shape[0]:
        return -1
    if buf[p] == 0:
        out[q] = 1
        state[P] = p + 1
        state[Q] = q + 1
        return 0
    if buf[p] != kind:
        return -1
    out[q] = 0
    state[P] = p + 1
    state[Q] = q + 1
    if kind == STRING:
        return _string(buf, end, out, state)
    if kind in (INT, LONG):
        return _number(kind, buf, end, out, state)
    width = 1
    if kind == FLOAT:
        width = 4
    elif kind == DOUBLE:
        width = 8
    elif kind == SHORT:
        width = 2
    if p + 1 + width > end:
        return -1
    for k in range(width):
        out[q + 1 + k] = buf[p + 1 + k]
    state[P] = p + 1 + width
    state[Q] = q + 1 + width
    return 0


@kernel
def _number(kind: int, buf: Any, end: int, out: Any, state: Any) -> int:
    """Write a zig-zag varint or varlong as a big-endian number."""
    p, q = state[P], state[Q]
    bits = np.uint64(0)
    most = 5 if kind == INT else 9
    done: Any = False
    for k in range(most):
        if done:
            break
        if p >= end:
            return -1
        byte = np.uint64(buf[p])
        p += 1
        if k == 8:
            bits |= byte << np.uint64(56)
            done = True
        else:
            bits |= (byte & np.uint64(0x7F)) << np.uint64(7 * k)
            done = byte < np.uint64(128)
    if not done:
        return -1
    if kind == INT:
        bits &= np.uint64(0xFFFFFFFF)
    low = bits & np.uint64(1)
    number = bits >> np.uint64(1)
    if low == np.uint64(1):
        number = ~number
    state[P] = p
    if kind == LONG:
        put_u64(out, q, number)
        state[Q] = q + 8
        return 0
    for k in range(4):
        out[q + k] = (number >> np.uint64(24 - 8 * k)) & np.uint64(0xFF)
    state[Q] = q + 4
    return 0


@kernel
def _string(buf: Any, end: int, out: Any, state: Any) -> int:
    """Write a string that is not a reference: ASCII whose last byte has bit 80, or units behind their number."""
    p = state[P]
    if p + 1 >= end or buf[p] != 1:
        return -1
    p += 1
    q = state[Q]
    if buf[p] < 128:
        last = p
        while last + 8 <= end and not be_u64(buf, last) & HIGH_BITS:
            last += 8
        while last < end and buf[last] < 128:
            last += 1
        if last >= end:
            return -1
        size = last + 1 - p
        if q + size + 10 > out.shape[0]:
            return -1
        q = _put_varint(out, q, size + 1)
        k = 0
        while k + 8 <= size:
            put_u64(out, q + k, be_u64(buf, p + k))
            k += 8
        while k < size:
            out[q + k] = buf[p + k]
            k += 1
        out[q + size - 1] = buf[last] & 0x7F
        state[P] = last + 1
        state[Q] = q + size
        return 0
    length = np.int64(buf[p] & 0x3F)
    more = buf[p] & 0x40
    p += 1
    if more:
        rest, p = varint(buf, p, end)
        if p < 0:
            return -1
        length |= rest << 6
    units = length - 1
    if units < 0 or units > end - p or q + 3 * units + 10 > out.shape[0]:
        return -1
    q = _put_varint(out, q, length)
    for _ in range(units):
        if p >= end:
            return -1
        unit = np.int64(buf[p])
        p += 1
        if unit >> 5 == 6:
            if p >= end:
                return -1
            unit = (unit & 31) << 6 | np.int64(buf[p] & 63)
            p += 1
        elif unit >> 4 == 14:
            if p + 1 >= end:
                return -1
            unit = (unit & 15) << 12 | np.int64(buf[p] & 63) << 6 | np.int64(buf[p + 1] & 63)
            p += 2
        q = _put_varint(out, q, unit)
    state[P] = p
    state[Q] = q
    return 0


@kernel
def _put_varint(out: Any, q: Any, number: Any) -> Any:
    while number > 0x7F:
        out[q] = (number & 0x7F) | 0x80
        number >>= 7
        q += 1
    out[q] = number
    return q + 1
