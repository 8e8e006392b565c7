"""Collections of strings and numbers, from Kryo 2 to the serializers that Flink 2 has for them; all else is copied.

Values are parsed by their layout, as in ``skip``. Where a node is marked, Kryo 2 wrote a list, set or map:

    collection := 01 00 class  01  varint n  item[n], twice as many in a map          the class ASCII, bit 0x80 ends it
    item       := 00 null | varint id + 2, and: zig-zag numbers, big-endian floats, string 01 text

    written    := 00  i32 n  (01 | 00 item)[n]

That is ``Nullable(List(Nullable(E)))``, ``Nullable(Set(E))``, ``Nullable(Map(Nullable(K), V))``. A value with anything
else, such as a reference to an earlier string or a subclass of a POJO, is left to the caller.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import inline, kernel
from pyspark_savepoint.formats.kernels.kryo_bytes import any_varlong, zig_zag
from pyspark_savepoint.formats.kernels.load import be_i32, be_u64, put_u64
from pyspark_savepoint.formats.kernels.skip import FIXED, FLAGGED, MAX_DEPTH, POJO, REPEAT, SEQUENCE, TOP, skip
from pyspark_savepoint.formats.kernels.skip import STRING as TEXT
from pyspark_savepoint.formats.kernels.strings import HIGH_BITS, varint

#: Operation of a marked node: a, b = kinds of the items (keys and values of a map); b is -1 in a list or set.
COLLECTION = 1000
#: Kinds of items: the classes that Kryo registers first, by their ids plus two.
INT, STRING, FLOAT, BOOLEAN, BYTE, SHORT, LONG, DOUBLE = 2, 3, 4, 5, 6, 8, 9, 10
P, Q, COPIED = 0, 1, 2
NO_SUBCLASS, NULL = 2, 1
#: Result for a node with collections in it.
INSIDE = 1
LOW32 = np.uint64(0xFFFFFFFF)
#: Limit on the characters of a text without a length. Kryo 2 writes at most 63, and Kryo 5 32.
MAX_ASCII = 96
#: Largest growth of a value: an item of two bytes becomes nine.
GROWTH = 6


@kernel
def rewrite_rows(
    nodes: Any, children: Any, names: Any, touched: Any, classes: Any, node: int, buf: Any, start: Any, end: Any,
    out: Any, ends: Any, state: Any,
) -> Any:  # fmt: skip
    """Write the values of the rows one after another; ``ends`` are their ends, -1 for those left to the caller.

    Returns the number of written bytes. ``state`` has room for three numbers.
    """
    flat = nodes[node, 0] == POJO
    for k in range(nodes[node, 1] if flat else 0):
        part = children[nodes[node, 3] + k]
        flat = flat and (nodes[part, 0] == COLLECTION or not touched[part])
    q = np.int64(0)
    for i in range(start.shape[0]):
        ends[i] = -1
        p = np.int64(start[i])
        if flat and p < end[i] and buf[p] == NO_SUBCLASS:
            after = _flat(nodes, children, names, classes, node, buf, p, end[i], out, q)
        else:
            after = _nested(nodes, children, names, touched, classes, node, buf, p, end[i], out, q, state)
        if after >= 0:
            q = after
            ends[i] = q
    return q


@inline
def _flat(
    nodes: Any, children: Any, names: Any, classes: Any, node: Any, buf: Any, start: Any, end: Any, out: Any, at: Any
) -> Any:  # fmt: skip
    """Write a POJO whose collections are its own fields; return the position after it, -1 if left to the caller.

    A function call takes as long as a field of most classes, so numbers and strings are skipped without calls.
    """
    p, q, copied = start + 1, at, start
    first = nodes[node, 3]
    good = True
    for k in range(nodes[node, 1]):
        if p >= end or buf[p] > 1:
            good = False
            break
        p += 1
        if buf[p - 1] == 1:
            continue
        part = children[first + k]
        op, a = nodes[part, 0], nodes[part, 1]
        if op == FIXED:
            p += a
        elif op == TEXT:
            units, p = varint(buf, p, end)
            units -= a
            if p < 0 or units > end - p:
                good = False
                break
            while units > 0 and p < end:
                units -= 1 if buf[p] < 128 else 0
                p += 1
            good = units <= 0
        elif op == COLLECTION:
            q = _copy(buf, out, q, copied, p)
            if q >= 0:
                p, q = _collection(classes, a, nodes[part, 2], buf, p, end, out, q)
                copied = p
            good = q >= 0 and p >= 0
        else:
            p = skip(nodes, children, names, part, buf, p, end, TOP)
            good = p >= 0
        if not good:
            break
    return _copy(buf, out, q, copied, end) if good and p == end else np.int64(-1)


@kernel
def _nested(
    nodes: Any, children: Any, names: Any, touched: Any, classes: Any, node: int, buf: Any, start: Any, end: Any,
    out: Any, at: Any, state: Any,
) -> Any:  # fmt: skip
    """Write any value; return the position after it, or -1 if it is left to the caller."""
    state[P] = start
    state[Q] = at
    state[COPIED] = start
    status = _step(nodes, children, names, touched, classes, node, buf, end, out, state)
    if status == INSIDE:
        status = _walk(nodes, children, names, touched, classes, node, buf, end, out, state, TOP)
    if status != 0 or state[P] != end:
        return np.int64(-1)
    return _copy(buf, out, state[Q], state[COPIED], end)


@inline
def _copy(buf: Any, out: Any, q: Any, p: Any, upto: Any) -> Any:
    """Copy ``buf[p:upto]`` to ``q``; return the next position, -1 if there is no room."""
    size = upto - p
    if q + size > out.shape[0]:
        return np.int64(-1)
    stop = q + size
    while q + 8 <= stop:
        put_u64(out, q, be_u64(buf, p))
        p += 8
        q += 8
    while q < stop:
        out[q] = buf[p]
        p += 1
        q += 1
    return q


@inline
def _step(
    nodes: Any, children: Any, names: Any, touched: Any, classes: Any, node: Any, buf: Any, end: Any, out: Any,
    state: Any,
) -> Any:  # fmt: skip
    """Parse a node that is a collection, or has none in it: return 0, -1 if it is left to the caller, or INSIDE."""
    status = np.int64(INSIDE)
    if nodes[node, 0] == COLLECTION:
        status = np.int64(-1)
        q = _copy(buf, out, state[Q], state[COPIED], state[P])
        if q >= 0:
            p, q = _collection(classes, nodes[node, 1], nodes[node, 2], buf, state[P], end, out, q)
            if p >= 0:
                state[P] = p
                state[Q] = q
                state[COPIED] = p
                status = np.int64(0)
    elif nodes[node, 0] == FIXED:
        state[P] += nodes[node, 1]
        status = np.int64(0 if state[P] <= end else -1)
    elif not touched[node]:
        p = skip(nodes, children, names, node, buf, state[P], end, TOP)
        state[P] = p
        status = np.int64(0 if p >= 0 else -1)
    return status


@kernel
def _walk(
    nodes: Any, children: Any, names: Any, touched: Any, classes: Any, node: int, buf: Any, end: int, out: Any,
    state: Any, depth: int,
) -> int:  # fmt: skip
    """Parse one value; return 0, or -1 if it is left to the caller."""
    if depth > MAX_DEPTH or state[P] > end:
        return -1
    op, a, b = nodes[node, 0], nodes[node, 1], nodes[node, 2]
    first, count = nodes[node, 3], nodes[node, 4]
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
            status = _step(nodes, children, names, touched, classes, part, buf, end, out, state)
            if status == INSIDE:
                status = _walk(nodes, children, names, touched, classes, part, buf, end, out, state, depth + 1)
            if status < 0:
                return -1
    return 0


@kernel
def _collection(
    classes: Any, key: int, value: int, buf: Any, start: Any, end: Any, out: Any, at: Any
) -> Any:  # fmt: skip
    """Write a collection whose class is one of ``classes``: rows of names, each padded with zeros.

    Returns the positions after it in both buffers, or -1 if it is left to the caller. Its items are parsed here without
    function calls, because a call takes longer than an item.
    """
    p, q = np.int64(start), np.int64(at)
    nothing = np.int64(-1)
    p = _class(classes, buf, p, end)
    if p < 0 or p >= end or buf[p] != 1:
        return nothing, q
    count, p = varint(buf, p + 1, end)
    if p < 0 or count > end - p or q + 5 > out.shape[0]:
        return nothing, q
    out[q] = 0
    for k in range(4):
        out[q + 1 + k] = (count >> (24 - 8 * k)) & 0xFF
    q += 5
    per = 1 if value < 0 else 2
    for i in range(count * per):
        kind = value if per == 2 and i & 1 else key
        if p >= end or q + 10 > out.shape[0]:
            return nothing, q
        class_id = buf[p]
        p += 1
        if class_id == 0:
            out[q] = 1
            q += 1
            continue
        if class_id != kind:
            return nothing, q
        out[q] = 0
        q += 1
        if kind == STRING:
            if p + 1 >= end or buf[p] != 1:
                return nothing, q
            if buf[p + 1] < 128:
                p, q = _ascii(buf, p + 1, end, out, q)
            else:
                p, q = _units(buf, p + 1, end, out, q)
            if p < 0:
                return nothing, q
        elif kind in (INT, LONG):
            bits, p = any_varlong(buf, p, end, 5 if kind == INT else 9)
            if p < 0:
                return nothing, q
            if kind == INT:
                bits &= LOW32
            number = zig_zag(bits)
            if kind == LONG:
                put_u64(out, q, number)
                q += 8
            else:
                for k in range(4):
                    out[q + k] = (number >> np.int64(24 - 8 * k)) & np.int64(0xFF)
                q += 4
        else:
            width = 8 if kind == DOUBLE else 4 if kind == FLOAT else 2 if kind == SHORT else 1
            if p + width > end:
                return nothing, q
            for k in range(width):
                out[q + k] = buf[p + k]
            p += width
            q += width
    return p, q


@inline
def _class(classes: Any, buf: Any, p: Any, end: Any) -> Any:
    """Return the position after a new class that is one of ``classes``, or -1."""
    if p + 2 > end or buf[p] != 1 or buf[p + 1] != 0:
        return np.int64(-1)
    p += 2
    size = np.int64(0)
    while p + size < end and buf[p + size] < 128:
        size += 1
    if p + size >= end or size + 1 >= classes.shape[1]:
        return np.int64(-1)
    for k in range(classes.shape[0]):
        if classes[k, size + 1] == 0 and classes[k, size] == buf[p + size]:
            j = size - 1
            while j >= 0 and classes[k, j] == buf[p + j]:
                j -= 1
            if j < 0:
                return p + size + 1
    return np.int64(-1)


@inline
def _ascii(buf: Any, p: Any, end: Any, out: Any, q: Any) -> Any:
    """Write ASCII whose last byte has bit 0x80, which Kryo 2 does with at most 63 characters, and Kryo 5 with 32."""
    nothing = np.int64(-1)
    if q + MAX_ASCII + 9 > out.shape[0]:
        return nothing, q
    size = np.int64(0)
    while size + 8 < MAX_ASCII and p + size + 8 <= end and not be_u64(buf, p + size) & HIGH_BITS:
        put_u64(out, q + 1 + size, be_u64(buf, p + size))
        size += 8
    while size < MAX_ASCII and p + size < end and buf[p + size] < 128:
        out[q + 1 + size] = buf[p + size]
        size += 1
    if size >= MAX_ASCII or p + size >= end:
        return nothing, q
    out[q + 1 + size] = buf[p + size] & 0x7F
    out[q] = size + 2
    return p + size + 1, q + size + 2


@inline
def _units(buf: Any, p: Any, end: Any, out: Any, q: Any) -> Any:
    """Write the number of units, then the units."""
    nothing = np.int64(-1)
    length = np.int64(buf[p] & 0x3F)
    more = buf[p] & 0x40
    p += 1
    if more:
        rest, p = varint(buf, p, end)
        if p < 0:
            return nothing, q
        length |= rest << 6
    units = length - 1
    if units < 0 or units > end - p or q + 3 * units + 10 > out.shape[0]:
        return nothing, q
    q = _put_varint(out, q, length)
    for _ in range(units):
        if p >= end:
            return nothing, q
        unit = np.int64(buf[p])
        p += 1
        if unit >> 5 == 6:
            if p >= end:
                return nothing, q
            unit = (unit & 31) << 6 | np.int64(buf[p] & 63)
            p += 1
        elif unit >> 4 == 14:
            if p + 1 >= end:
                return nothing, q
            unit = (unit & 15) << 12 | np.int64(buf[p] & 63) << 6 | np.int64(buf[p + 1] & 63)
            p += 2
        q = _put_varint(out, q, unit)
    return p, q


@inline
def _put_varint(out: Any, q: Any, number: Any) -> Any:
    while number > 0x7F:
        out[q] = (number & 0x7F) | 0x80
        number >>= 7
        q += 1
    out[q] = number
    return q + 1
