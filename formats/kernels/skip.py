"""Location of the ends of values, by one interpreter over the layouts of serializers.

It is used for values stored contiguously without lengths: the elements of lists and maps, the entries of heap tables.
A layout is a table of nodes ``(op, a, b, first, count)``; ``children[first:first + count]`` are the node's parts.
Nodes may refer back (recursive Avro records); depth is bounded. Nothing is decoded: the result is positions, at which
columns are decoded afterwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import kernel
from pyspark_savepoint.formats.kernels.load import be_i32, be_u16
from pyspark_savepoint.formats.kernels.strings import varint

FIXED = 0  # a bytes
STRING = 1  # varint length (a = 1: plus one, 0 is null), then varint code units
BLOCK = 2  # i32 n, then n * a + b bytes
SEQUENCE = 3  # the parts, in order
REPEAT = 4  # i32 n, then n times the parts
FLAGGED = 5  # one byte; the part follows unless it means null: a = byte that means null; b = padding of a null
CHOICE = 6  # one byte t (b = 1) or i32 t (b = 4); then part t - a
BIG_INTEGER = 7  # i32 k; k - 4 bytes where k > 3; a = 1: BigDecimal, i32 scale follows unless k is 0
MASKED = 8  # mask of a + count bits, most significant first; parts whose bit is clear
MASKED_REPEAT = 9  # i32 n, mask of n bits, then the part for every clear bit
POJO = 10  # flags; a = number of fields; b = number of tagged subclasses; the rest are (name node, part) pairs
NAME = 11  # only below POJO: a, b = start and length of a class name in names
AVRO_BLOCKS = 12  # blocks of (varlong n, n times the parts), ended by 0
VARINT_BLOCK = 13  # varint n, then n bytes
EXTENT = 14  # i32 n, i32 size, then size bytes; a = 1: size + n bytes

MAX_DEPTH = 64
# Values without bytes could have any count: no real list of empty values is longer than this, and no real batch of
# such lists has more values than one for each of its bytes, plus this.
MAX_EMPTY = 1 << 18
NULL, NO_SUBCLASS, SUBCLASS, TAGGED = 1, 2, 4, 8
# The initial depth. A literal 0 would create a second version of the recursive kernel next to the one that it calls,
# and numba crashes when it loads such a pair from its cache.
TOP: Any = np.int64(0)


@kernel
def skip(nodes: Any, children: Any, names: Any, node: int, buf: Any, p: int, end: int, depth: int) -> Any:
    """Return the position after one value, or -1 - position if it is truncated or damaged."""
    if depth > MAX_DEPTH or p > end:
        return -1 - p
    op, a, b = nodes[node, 0], nodes[node, 1], nodes[node, 2]
    first, count = nodes[node, 3], nodes[node, 4]
    if op == FIXED:
        return p + a if p + a <= end else -1 - p
    if op in (STRING, VARINT_BLOCK):
        length, q = varint(buf, p, end)
        if op == VARINT_BLOCK:
            return q + length if q >= 0 and length <= end - q else -1 - p
        if q < 0 or length - a > end - q:
            return -1 - p
        for _ in range(length - a):
            while q < end and buf[q] >= 128:
                q += 1
            if q >= end:
                return -1 - p
            q += 1
        return q
    # Parts of the layout: `rounds` times `count` children from `first` on. Those whose bit in `mask` is set are left
    # out; with `flags`, a byte before each says whether it is. One call for all of them: numba infers the type of a
    # recursive function anew for each of its calls.
    rounds: Any = np.int64(1)
    mask: Any = np.int64(-1)
    bit: Any = np.int64(0)
    flags = False
    q = p
    n: Any = np.int64(0)
    if op in (BLOCK, REPEAT, MASKED_REPEAT, BIG_INTEGER, EXTENT):
        if p + 4 > end:
            return -1 - p
        n = be_i32(buf, p)
        q = p + 4
        if n < 0:
            return -1 - p
    if op == SEQUENCE:
        pass
    elif op == BLOCK:
        return q + n * a + b if n * a + b <= end - q else -1 - p
    elif op == REPEAT:
        if n > end - q + MAX_EMPTY:
            return -1 - p
        rounds = n
    elif op == FLAGGED:
        if p >= end or buf[p] > 1:
            return -1 - p
        q = p + 1
        if buf[p] == a:
            return q + b if q + b <= end else -1 - p
        count = np.int64(1)
    elif op == POJO:
        if p >= end:
            return -1 - p
        kind = buf[p]
        q = p + 1
        if kind == NULL:
            return q
        if kind == NO_SUBCLASS:
            count = a
            flags = True
        elif kind == TAGGED:
            if p + 2 > end or buf[p + 1] >= b:
                return -1 - p
            first += a + np.int64(buf[p + 1])
            count = np.int64(1)
            q = p + 2
        elif kind == SUBCLASS and p + 3 <= end:
            size = be_u16(buf, p + 1)
            q = p + 3
            if q + size > end:
                return -1 - p
            part: Any = np.int64(-1)
            for k in range(first + a + b, first + count, 2):
                name = children[k]
                if nodes[name, 2] != size:
                    continue
                same = True
                for j in range(size):
                    if names[nodes[name, 1] + j] != buf[q + j]:
                        same = False
                        break
                if same:
                    part = k + 1
                    break
            if part < 0:
                return -1 - p
            first = part
            count = np.int64(1)
            q += size
        else:
            return -1 - p
    elif op == CHOICE:
        q = p + b
        if q > end:
            return -1 - p
        t = (np.int64(buf[p]) if b == 1 else be_i32(buf, p)) - a
        if t < 0 or t >= count:
            return -1 - p
        first += t
        count = np.int64(1)
    elif op == MASKED:
        mask, bit = p, a
        q = p + ((a + count + 7) >> 3)
        if q > end:
            return -1 - p
    elif op == MASKED_REPEAT:
        mask = q
        q += (n + 7) >> 3
        if n > end - mask + MAX_EMPTY or q > end:
            return -1 - p
        rounds = n
        count = np.int64(1)
    elif op == BIG_INTEGER:
        if n > 3:
            q += n - 4
        if a == 1 and n > 0:
            q += 4
        return q if q <= end else -1 - p
    elif op == EXTENT:
        if q + 4 > end:
            return -1 - p
        size = be_i32(buf, q)
        if size < 0:
            return -1 - p
        size += n * a
        return q + 4 + size if size <= end - q - 4 else -1 - p
    elif op != AVRO_BLOCKS:
        return -1 - p
    while True:
        if op == AVRO_BLOCKS:
            rounds, after = varint(buf, q, end)
            if after < 0 or rounds > end - after + MAX_EMPTY:
                return -1 - q
            q = after
            if rounds == 0:
                return q
        for _ in range(rounds):
            before = q
            for k in range(first, first + count):
                if mask >= 0:
                    null = (buf[mask + (bit >> 3)] >> (7 - (bit & 7))) & 1
                    bit += 1
                    if null:
                        continue
                elif flags:
                    if q >= end or buf[q] > 1:
                        return -1 - q
                    q += 1
                    if buf[q - 1] == 1:
                        continue
                q = skip(nodes, children, names, children[k], buf, q, end, depth + 1)
                if q < 0:
                    return q
            if q == before and mask < 0:
                # Values without bytes: the remaining ones do not advance either.
                break
        if op != AVRO_BLOCKS:
            return q


@kernel
def skip_rows(nodes: Any, children: Any, names: Any, node: int, buf: Any, pos: Any, end: Any) -> int:
    """Move every cursor past one value; return the failing row or -1."""
    for i in range(pos.shape[0]):
        p = skip(nodes, children, names, node, buf, pos[i], end[i], TOP)
        if p < 0:
            pos[i] = -1 - p
            return i
        pos[i] = p
    return -1


@kernel
def count_until_end(
    nodes: Any, children: Any, names: Any, node: int, buf: Any, pos: Any, end: Any, gap: int, counts: Any
) -> int:
    """Count the values between cursor and end, ``gap`` bytes apart; return the failing row or -1."""
    for i in range(pos.shape[0]):
        p = pos[i]
        n = 0
        while p < end[i]:
            if n > 0:
                p += gap
            q = skip(nodes, children, names, node, buf, p, end[i], TOP)
            if q < 0 or q + gap <= p:
                pos[i] = p
                return i
            p = q
            n += 1
        counts[i] = n
    return -1


@kernel
def locate_rows(
    nodes: Any,
    children: Any,
    names: Any,
    parts: Any,
    buf: Any,
    pos: Any,
    end: Any,
    counts: Any,
    gap: int,
    starts: Any,
    stops: Any,
) -> int:
    """Compute the spans of ``counts[i]`` repetitions of the parts at every cursor, and move it past them.

    ``starts`` and ``stops`` are (parts, sum of counts); values are ``gap`` bytes apart. Returns the failing row or -1.
    """
    o = 0
    for i in range(pos.shape[0]):
        p = pos[i]
        for n in range(counts[i]):
            if n > 0:
                p += gap
            for k in range(parts.shape[0]):
                q = skip(nodes, children, names, parts[k], buf, p, end[i], TOP)
                if q < 0:
                    pos[i] = -1 - q
                    return i
                starts[k, o] = p
                stops[k, o] = q
                p = q
            o += 1
        pos[i] = p
    return -1


@kernel
def only_places(
    nodes: Any, children: Any, names: Any, parts: Any, buf: Any, pos: Any, end: Any, zeros: int, steps: int, place: Any
) -> int:
    """Find for every row the one position from which values of the parts end at the end of the row.

    ``zeros`` is how many bytes from there on are 0. A position is -1 where there is none, and -2 where there are two,
    or where parsing takes more than ``steps`` times the bytes of the row. Returns the number of rows without one.
    """
    failed = 0
    for i in range(pos.shape[0]):
        found: Any = np.int64(-1)
        work: Any = np.int64((end[i] - pos[i] + 64) * steps)
        for p in range(pos[i], end[i] + 1):
            if p + zeros > end[i]:
                break
            blank = True
            for k in range(zeros):
                if buf[p + k] != 0:
                    blank = False
            if not blank:
                continue
            q: Any = np.int64(p)
            for j in range(parts.shape[0]):
                q = skip(nodes, children, names, parts[j], buf, q, end[i], TOP)
                if q < 0:
                    work -= -1 - q - p
                    break
            if q >= 0:
                work -= q - p
                if q == end[i]:
                    if found >= 0:
                        found = np.int64(-2)
                        break
                    found = np.int64(p)
            if work < 0:
                found = np.int64(-2)
                break
        place[i] = found
        if found < 0:
            failed += 1
    return failed
