"""Forms of the kernels of ``skip``: a function of Python for each node of a layout, five times as fast as interpreting.

They have the usual nodes: what recursive layouts, tagged subclasses and Avro need is for the kernels. They return
NotImplemented, and have changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import error as struct_error
from struct import unpack_from
from typing import Any, TypeAlias

#: Nodes of ``skip``, and its limit of values without bytes.
FIXED, STRING, BLOCK, SEQUENCE, REPEAT, FLAGGED, CHOICE, BIG_INTEGER, MASKED, MASKED_REPEAT, POJO = range(11)
VARINT_BLOCK, EXTENT = 13, 14
NULL, NO_SUBCLASS = 1, 2
MAX_EMPTY = 1 << 18
#: Nodes of a layout, each counted as often as it is in others, and how deep these are.
MAX_NODES, MAX_DEPTH = 256, 32

#: Returns the position after the value at a position, or -1 - the position where it is damaged.
Skip: TypeAlias = Callable[[int, int], int]


class _OtherError(Exception):
    """A node that is for the kernels."""


class Layout:
    """The functions of the nodes of a layout, for values in a buffer."""

    def __init__(self, nodes: Any, children: Any, buf: Any) -> None:
        self.nodes, self.children = nodes.tolist(), children.tolist()
        self.data = buf.tobytes()
        self.made = 0

    def skip(self, node: int, depth: int = 0) -> Skip:
        """Return the function of a node."""
        self.made += 1
        if self.made > MAX_NODES or depth > MAX_DEPTH:
            raise _OtherError
        op, a, b, first, count = self.nodes[node][:5]
        parts = self.children[first : first + count]
        if op == FIXED:
            return lambda p, end: p + a if p + a <= end else -1 - p
        if op == STRING:
            return self._string(a)
        if op == BLOCK:
            return self._block(a, b)
        if op == SEQUENCE:
            return _sequence([self.skip(part, depth + 1) for part in parts])
        if op == REPEAT:
            return self._repeat(_sequence([self.skip(part, depth + 1) for part in parts]))
        if op == FLAGGED:
            return self._flagged(self.skip(parts[0], depth + 1), a, b)
        if op == CHOICE:
            return self._choice([self.skip(part, depth + 1) for part in parts], a, b)
        if op == BIG_INTEGER:
            return self._big_integer(a)
        if op == MASKED:
            return self._masked([self.skip(part, depth + 1) for part in parts], a)
        if op == MASKED_REPEAT:
            return self._masked_repeat(self.skip(parts[0], depth + 1))
        if op == POJO:
            return self._pojo([self.skip(part, depth + 1) for part in parts[:a]])
        if op in (VARINT_BLOCK, EXTENT):
            return self._bytes(a) if op == EXTENT else self._varint_block()
        raise _OtherError

    def _varint(self, p: int, end: int) -> tuple[int, int]:
        """Return a varint and the position after it, beyond the end if it is not whole."""
        value = 0
        for shift in range(0, 35, 7):
            if p >= end:
                break
            byte = self.data[p]
            p += 1
            value |= (byte & 0x7F) << shift
            if byte < 128:
                return value, p
        return 0, end + 1

    def _varint_block(self) -> Skip:
        def skip(p: int, end: int) -> int:
            length, q = self._varint(p, end)
            return q + length if q + length <= end else -1 - p

        return skip

    def _bytes(self, more: int) -> Skip:
        data = self.data

        def skip(p: int, end: int) -> int:
            if p + 8 > end:
                return -1 - p
            count, size = unpack_from(">ii", data, p)
            q = p + 8 + size + count * more
            return q if count >= 0 and size >= 0 and q <= end else -1 - p

        return skip

    def _string(self, extra: int) -> Skip:
        data, varint = self.data, self._varint

        def skip(p: int, end: int) -> int:
            length, q = (data[p], p + 1) if p < end and data[p] < 128 else varint(p, end)
            left = length - extra
            if q > end or left > end - q:
                return -1 - p
            if left <= 0 or data[q : q + left].isascii():
                return q + max(left, 0)
            for _ in range(left):
                while q < end and data[q] >= 128:
                    q += 1
                if q >= end:
                    return -1 - p
                q += 1
            return q

        return skip

    def _block(self, width: int, more: int) -> Skip:
        data = self.data

        def skip(p: int, end: int) -> int:
            count = unpack_from(">i", data, p)[0] if p + 4 <= end else -1
            q = p + 4 + count * width + more
            return q if count >= 0 and q <= end else -1 - p

        return skip

    def _repeat(self, values: Skip) -> Skip:
        data = self.data

        def skip(p: int, end: int) -> int:
            count = unpack_from(">i", data, p)[0] if p + 4 <= end else -1
            q = p + 4
            if count < 0 or count > end - q + MAX_EMPTY:
                return -1 - p
            for _ in range(count):
                before, q = q, values(q, end)
                if q < 0:
                    return q
                if q == before:
                    break
            return q

        return skip

    def _flagged(self, value: Skip, null: int, padding: int) -> Skip:
        data = self.data

        def skip(p: int, end: int) -> int:
            if p >= end or data[p] > 1:
                return -1 - p
            if data[p] != null:
                return value(p + 1, end)
            return p + 1 + padding if p + 1 + padding <= end else -1 - p

        return skip

    def _choice(self, values: list[Skip], first: int, width: int) -> Skip:
        data = self.data

        def skip(p: int, end: int) -> int:
            q = p + width
            if q > end:
                return -1 - p
            tag = int.from_bytes(data[p:q], "big", signed=width > 1) - first
            return values[tag](q, end) if 0 <= tag < len(values) else -1 - p

        return skip

    def _big_integer(self, scaled: int) -> Skip:
        data = self.data

        def skip(p: int, end: int) -> int:
            count = unpack_from(">i", data, p)[0] if p + 4 <= end else -1
            if count < 0:
                return -1 - p
            q = p + 4 + max(count - 4, 0) + (4 if scaled and count > 0 else 0)
            return q if q <= end else -1 - p

        return skip

    def _masked(self, values: list[Skip], first: int) -> Skip:
        data, size = self.data, (first + len(values) + 7) >> 3
        places = [(value, bit >> 3, 0x80 >> (bit & 7)) for bit, value in enumerate(values, first)]

        def skip(p: int, end: int) -> int:
            q = p + size
            if q > end:
                return -1 - p
            for value, byte, bit in places:
                if not data[p + byte] & bit:
                    q = value(q, end)
                    if q < 0:
                        return q
            return q

        return skip

    def _masked_repeat(self, value: Skip) -> Skip:
        data = self.data

        def skip(p: int, end: int) -> int:
            count = unpack_from(">i", data, p)[0] if p + 4 <= end else -1
            mask = p + 4
            q = mask + ((count + 7) >> 3)
            if count < 0 or count > end - mask + MAX_EMPTY or q > end:
                return -1 - p
            for bit in range(count):
                if not data[mask + (bit >> 3)] & (0x80 >> (bit & 7)):
                    q = value(q, end)
                    if q < 0:
                        return q
            return q

        return skip

    def _pojo(self, values: list[Skip]) -> Skip:
        data = self.data

        def skip(p: int, end: int) -> int:
            if p >= end:
                return -1 - p
            if data[p] != NO_SUBCLASS:
                if data[p] == NULL:
                    return p + 1
                raise _OtherError
            q = p + 1
            for value in values:
                if q >= end or data[q] > 1:
                    return -1 - q
                q += 1
                if not data[q - 1]:
                    q = value(q, end)
                    if q < 0:
                        return q
            return q

        return skip


def _sequence(values: list[Skip]) -> Skip:
    if len(values) == 1:
        return values[0]

    def skip(p: int, end: int) -> int:
        if p > end:
            return -1 - p
        for value in values:
            p = value(p, end)
            if p < 0:
                return p
        return p

    return skip


def skip_rows(nodes: Any, children: Any, _names: Any, node: int, buf: Any, pos: Any, end: Any) -> Any:
    try:
        skip = Layout(nodes, children, buf).skip(node)
        after = [skip(p, stop) for p, stop in zip(pos.tolist(), end.tolist(), strict=True)]
    except (_OtherError, struct_error, IndexError):
        return NotImplemented
    row = next((row for row, p in enumerate(after) if p < 0), -1)
    if row < 0:
        pos[:] = after
    else:
        pos[: row + 1] = [*after[:row], -1 - after[row]]
    return row


def count_values(nodes: Any, children: Any, node: int, buf: Any, pos: Any, end: Any, gap: int, counts: Any) -> Any:
    """Do what ``count_until_end`` does, for any layout."""
    numbers: list[int] = []
    try:
        skip = Layout(nodes, children, buf).skip(node)
        for p, stop in zip(pos.tolist(), end.tolist(), strict=True):
            n = 0
            while p < stop:
                p += gap if n else 0
                q = skip(p, stop)
                if q < 0 or q + gap <= p:
                    pos[len(numbers)] = p
                    counts[: len(numbers)] = numbers
                    return len(numbers)
                p = q
                n += 1
            numbers.append(n)
    except (_OtherError, struct_error, IndexError):
        return NotImplemented
    counts[:] = numbers
    return -1


def locate_rows(
    nodes: Any, children: Any, _names: Any, parts: Any, buf: Any, pos: Any, end: Any, counts: Any, gap: int,
    starts: Any, stops: Any,
) -> Any:  # fmt: skip
    spans: list[tuple[list[int], list[int]]] = [([], []) for _ in parts]
    after: list[int] = []
    failed = -1
    try:
        layout = Layout(nodes, children, buf)
        values = [
            (layout.skip(part), first.append, last.append)
            for part, (first, last) in zip(parts.tolist(), spans, strict=True)
        ]
        for p, stop, count in zip(pos.tolist(), end.tolist(), counts.tolist(), strict=True):
            for n in range(count):
                if n:
                    p += gap
                for skip, put_first, put_last in values:
                    q = skip(p, stop)
                    if q < 0:
                        failed, p = len(after), -1 - q
                        break
                    put_first(p)
                    put_last(q)
                    p = q
                if failed >= 0:
                    break
            after.append(p)
            if failed >= 0:
                break
    except (_OtherError, struct_error, IndexError):
        return NotImplemented
    pos[: len(after)] = after
    for part, (first, last) in enumerate(spans):
        starts[part, : len(first)], stops[part, : len(last)] = first, last
    return failed


FORMS: dict[str, Callable[..., Any]] = {one.__name__: one for one in (skip_rows, locate_rows)}
