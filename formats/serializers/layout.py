"""Layouts of values as tables of nodes, which :mod:`~pyspark_savepoint.formats.kernels.skip` interprets.

Every serializer describes its bytes once (:meth:`TypeSerializer.layout`); one compiled loop then finds the elements of
lists, maps and heap tables. For serializers without a layout (plug-ins, Kryo) elements are found in rounds: the first
element of every row, then the second, with one call of ``decode`` per round.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Longs
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.java import encode_modified_utf8

UNKNOWN = -1
# Limit of the cells of a column of a batch: the larger of MAX_CELLS and CELLS_PER_BYTE times the bytes.
MAX_CELLS = 1 << 23
CELLS_PER_BYTE = 32
FEW_ELEMENTS = 1 << 12


class Part(Protocol):
    """Codec of a value or of a part of one: a serializer, or a shape that several serializers share (``shapes.py``)."""

    def __hash__(self) -> int: ...

    @property
    def flink_type(self) -> str:
        """The type as error messages show it."""

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """Return the type of the column."""

    def layout(self, layout: Layout) -> int:
        """Add a node that describes the bytes of a value; return UNKNOWN if no node can."""

    def decode(self, at: Cursors) -> pa.Array:
        """Read one value per cursor."""

    def sizes(self, column: pa.Array) -> Longs:
        """Return the number of encoded bytes of every row."""

    def encode(self, column: pa.Array, at: Cursors) -> None:
        """Write one value per cursor."""


class Layout:
    """Table of layout nodes under construction. A node is its row number; UNKNOWN: the ends of values are not known."""

    def __init__(self) -> None:
        self.nodes: list[tuple[int, int, int, int, int]] = []
        self.children: list[int] = []
        self.names = bytearray()

    def add(self, op: int, a: int = 0, b: int = 0, parts: Sequence[int] = ()) -> int:
        """Add a node with an operation of ``kernels.skip``; return UNKNOWN where a part is UNKNOWN."""
        if UNKNOWN in parts:
            return UNKNOWN
        self.nodes.append((op, a, b, len(self.children), len(parts)))
        self.children.extend(parts)
        return len(self.nodes) - 1

    def reserve(self, count: int, op: int) -> int:
        """Add a node whose ``count`` parts are set later (:meth:`fill`), for layouts that refer to themselves."""
        return self.add(op, parts=[0] * count)

    def fill(self, node: int, parts: Sequence[int]) -> None:
        """Set the parts of a reserved node."""
        first, count = self.nodes[node][3:]
        self.children[first : first + count] = parts

    def tables(self) -> tuple[Any, Any, Any]:
        """Return the nodes, their parts and the names, as the kernels take them."""
        return (
            np.array(self.nodes, np.int64).reshape(-1, 5),
            np.array(self.children, np.int64),
            np.frombuffer(bytearray(self.names), np.uint8),
        )

    def name(self, text: str) -> tuple[int, int]:
        """Add a class name; return its start and length, the arguments of a NAME node."""
        data = encode_modified_utf8(text)
        self.names += data
        return len(self.names) - len(data), len(data)


class Program:
    """Layouts of serializers whose values follow one another, as the arrays that the kernels take."""

    def __init__(self, serializers: Sequence[Part]) -> None:
        layout = Layout()
        parts = [serializer.layout(layout) for serializer in serializers]
        self.is_known = UNKNOWN not in parts
        self.parts = np.array(parts, np.int64)
        self.tables = layout.tables()
        self.widths = [fixed_width(layout, part) for part in parts]


def fixed_width(layout: Layout, node: int) -> int:
    """Return the bytes of a value where all values have the same number, else -1."""
    from pyspark_savepoint.formats.kernels import skip

    if node == UNKNOWN:
        return -1
    op, a, b, first, count = layout.nodes[node]
    if op == skip.FIXED:
        return a
    widths = [fixed_width(layout, part) for part in layout.children[first : first + count]] if op in FIXABLE else [-1]
    if -1 in widths:
        return -1
    if op == skip.FLAGGED:
        return 1 + b if widths == [b] else -1
    return sum(widths)


FIXABLE = (3, 5)  # SEQUENCE and FLAGGED: nothing else can be of fixed width


@lru_cache(maxsize=4096)
def program(*serializers: Part) -> Program:
    """Return the compiled layouts, from a cache: every batch needs them again."""
    return Program(serializers)


def skip_rows(serializer: Part, at: Cursors) -> None:
    """Move every cursor past one value of the serializer."""
    from pyspark_savepoint.formats.kernels import skip

    compiled = program(serializer)
    width = compiled.widths[0]
    if width >= 0:
        ends = at.position + width
        beyond = np.flatnonzero(ends > at.end)
        if len(beyond):
            at.fail(int(beyond[0]), f"{width} bytes of {serializer.flink_type}")
        at.position[:] = ends
    elif compiled.is_known:
        start = at.position.copy()
        row = skip.skip_rows(*compiled.tables, int(compiled.parts[0]), at.buffer, at.position, at.end)
        if row >= 0:
            _explain(serializer, at, int(start[row]), row)
        at.check(row, f"a value of {serializer.flink_type}")
    else:
        walker = replace(at, options=at.options.undecoded())
        serializer.decode(walker)
        at.position[:] = walker.position


def _explain(serializer: Part, at: Cursors, start: int, row: int) -> None:
    """Decode a value at which a kernel failed: the error of its serializer has more details, such as a class."""
    here = at.at(np.array([start], np.int64), at.end[row : row + 1])
    here.options = at.options.undecoded()
    serializer.decode(here)


def count_until_end(serializer: Part, at: Cursors, gap: int) -> Longs:
    """Count the values between each cursor and its end, ``gap`` bytes apart. The cursors do not move."""
    from pyspark_savepoint.formats.kernels import skip

    compiled = program(serializer)
    counts = np.zeros(len(at), np.int64)
    if compiled.is_known:
        walker = at.at(at.position.copy(), at.end)
        row = skip.count_until_end(
            *compiled.tables, int(compiled.parts[0]), at.buffer, walker.position, at.end, gap, counts
        )
        if row >= 0:
            _explain(serializer, walker, int(walker.position[row]), row)
        walker.check(row, f"values of {serializer.flink_type}")
        return counts
    rows = np.flatnonzero(at.position < at.end)
    walker = at.at(at.position.copy(), at.end)
    while len(rows):
        active = walker.select(rows)
        before = active.position.copy()
        serializer.decode(active)
        counts[rows] += 1
        more = active.position < active.end
        stuck = np.flatnonzero(active.position + gap <= before)
        if len(stuck):
            active.fail(int(stuck[0]), f"values of {serializer.flink_type}")
        active.position[more] += gap
        walker.update(rows, active)
        rows = rows[more]
    return counts


def locate(serializers: Sequence[Part], at: Cursors, counts: Longs, gap: int = 0) -> tuple[Any, Any]:
    """Find ``counts`` repetitions of some values: (starts, stops), two arrays of shape (serializers, sum of counts).

    The cursors move past the last repetition.
    """
    from pyspark_savepoint.formats.kernels import skip

    compiled = program(*serializers)
    total = int(counts.sum())
    if min(compiled.widths) >= 0:
        return _locate_fixed(compiled, at, counts, gap, total)
    # Values of one byte or more are bounded by the bytes of the buffer; the kernel bounds values of no bytes.
    starts = np.empty((len(serializers), total), np.int64)
    stops = np.empty((len(serializers), total), np.int64)
    if compiled.is_known:
        begin = at.position.copy()
        row = skip.locate_rows(
            *compiled.tables, compiled.parts, at.buffer, at.position, at.end, counts, gap, starts, stops
        )
        if row >= 0:
            _explain_first(serializers, at.at(begin[row : row + 1], at.end[row : row + 1]), gap)
        at.check(row, "values of " + ", ".join(serializer.flink_type for serializer in serializers))
    else:
        _locate_in_rounds(serializers, at, counts, gap, starts, stops)
    return starts, stops


def _explain_first(serializers: Sequence[Part], at: Cursors, gap: int) -> None:
    """Raise the error of the first value that cannot be skipped."""
    while True:
        for serializer in serializers:
            skip_rows(serializer, at)
        at.position += gap


def locate_some(serializers: Sequence[Part], at: Cursors, most: int) -> tuple[Any, Any]:
    """Find as :func:`locate` does, for one cursor, the repetitions that end before its end, at most ``most``."""
    from pyspark_savepoint.formats.kernels import skip

    compiled = program(*serializers)
    if min(compiled.widths) >= 0 and sum(compiled.widths) > 0:
        fits = int(at.end[0] - at.position[0]) // sum(compiled.widths)
        return _locate_fixed(compiled, at, np.array([min(most, fits)]), 0, min(most, fits))
    most = min(most, int(at.end[0] - at.position[0]) + 1)
    starts = np.full((len(serializers), most), -1, np.int64)
    stops = np.full((len(serializers), most), -1, np.int64)
    begin = int(at.position[0])
    if compiled.is_known:
        skip.locate_rows(
            *compiled.tables, compiled.parts, at.buffer, at.position, at.end, np.array([most]), 0, starts, stops
        )
    else:
        with suppress(CorruptStateError):
            _locate_in_rounds(serializers, at, np.array([most]), 0, starts, stops)
    done = int(np.count_nonzero(stops[-1] >= 0))
    at.position[0] = stops[-1, done - 1] if done else begin
    return starts[:, :done], stops[:, :done]


def _locate_fixed(compiled: Program, at: Cursors, counts: Longs, gap: int, total: int) -> tuple[Any, Any]:
    stride = sum(compiled.widths)
    ends = at.position + counts * stride + np.maximum(counts - 1, 0) * gap
    beyond = np.flatnonzero(ends > at.end)
    if len(beyond):
        row = int(beyond[0])
        at.fail(row, f"{int(counts[row])} values of {stride} bytes")
    nth = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    first = np.repeat(at.position, counts) + nth * (stride + gap)
    before = np.concatenate(([0], np.cumsum(compiled.widths)[:-1]))[:, None]
    starts = first[None, :] + before
    at.position[:] = ends
    return starts, starts + np.array(compiled.widths)[:, None]


def _locate_in_rounds(
    serializers: Sequence[Part], at: Cursors, counts: Longs, gap: int, starts: Any, stops: Any
) -> None:
    first = np.cumsum(counts) - counts
    rows = np.flatnonzero(counts > 0)
    done = 0
    while len(rows):
        active = at.select(rows)
        if done:
            active.position += gap
        for part, serializer in enumerate(serializers):
            starts[part, first[rows] + done] = active.position
            skip_rows(serializer, active)
            stops[part, first[rows] + done] = active.position
        at.update(rows, active)
        done += 1
        rows = rows[counts[rows] > done]


def expect_room(parts: Sequence[Part], at: Cursors, total: int) -> None:
    """Raise an error for few bytes that become a huge column: a null of one byte may be a struct of 1000 fields."""
    if total <= FEW_ELEMENTS:
        return
    cells = total * sum(leaves(part.arrow_type(at.options)) for part in parts)
    if cells > MAX_CELLS and cells > CELLS_PER_BYTE * len(at.buffer):
        at.out_of_range(
            0,
            f"{total} elements of {', '.join(part.flink_type for part in parts)} would expand to {cells} cells of a "
            f"column, from {len(at.buffer)} bytes",
            "read with a smaller batch: option('batchSize', ...); or as bytes: option('raw', '<state>')",
        )


def expect_few_empty(flink_type: str, at: Cursors, counts: Longs) -> None:
    """Raise an error for too many values without bytes in a batch: only a number in the file bounds them."""
    from pyspark_savepoint.formats.kernels import skip

    most = skip.MAX_EMPTY + len(at.buffer)
    over = np.flatnonzero(np.cumsum(counts) > most)
    if len(over):
        at.out_of_range(
            int(over[0]),
            f"more than {most} values of {flink_type}, which have no bytes, in one batch",
            "read with a smaller batch: option('batchSize', ...); or as bytes: option('raw', '<state>')",
        )


def leaves(kind: pa.DataType) -> int:
    """Count the Arrow arrays that a column consists of, nested ones included."""
    return 1 + sum(leaves(kind.field(i).type) for i in range(kind.num_fields))


def decode_elements(serializer: Part, at: Cursors, counts: Longs, gap: int = 0) -> Any:
    """Read ``counts`` values at every cursor as one flat column in row order; the cursors move past them."""
    expect_room([serializer], at, int(counts.sum()))
    starts, stops = locate([serializer], at, counts, gap)
    elements = at.at(starts[0], stops[0])
    column = serializer.decode(elements)
    elements.expect_end()
    return column
