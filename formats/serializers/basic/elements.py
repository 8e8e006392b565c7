"""Elements of rows, flat: lengths, counts, and columns that are written one after the other.

What lists, maps and everything like them share. A column of lists is a number of elements per row and one flat column
of all elements; the functions here go between the two, and between them and the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, Flags, Ints, Longs, scatter
from pyspark_savepoint.formats.errors import ValueRangeError
from pyspark_savepoint.formats.serializers.basic.primitives import read_numbers
from pyspark_savepoint.formats.serializers.layout import Part, expect_few_empty, program, skip_rows


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Errors about values that cannot be written name the field that they stand in."""
    try:
        yield
    except ValueRangeError as error:
        inner = error.facts.get("state")
        error.facts["state"] = f"{name}.{inner}" if inner else name
        raise


def gather(kind: pa.DataType, parts: Sequence[tuple[Flags, pa.Array]], rows: int) -> pa.Array:
    """One column from columns of disjoint masks of rows; null in rows of none."""
    if not parts:
        return pa.nulls(rows, kind)
    if len(parts) == 1:
        return scatter(parts[0][1], parts[0][0])
    index = np.full(rows, -1, np.int64)
    before = 0
    for mask, array in parts:
        index[mask] = before + np.arange(len(array))
        before += len(array)
    return pa.concat_arrays([array for _, array in parts]).take(pa.array(index, mask=index < 0))


def pick(column: pa.Array, rows: Flags) -> pa.Array:
    """The rows of a mask."""
    return column if rows.all() else column.filter(pa.array(rows))


def read_counts(whole: Part, parts: Sequence[Part], at: Cursors) -> Longs:
    """How often the parts of ``whole`` follow: never more than the bytes that are left can hold."""
    from pyspark_savepoint.formats.kernels import skip

    what = ", ".join(part.flink_type for part in parts)
    width = sum(map(abs, program(*parts).widths))
    if width:
        return bounded_counts(whole, what, at, lambda room: room // width)
    counts = bounded_counts(whole, what, at, lambda room: np.full_like(room, skip.MAX_EMPTY))
    expect_few_empty(what, at, counts)
    return counts


def bounded_counts(whole: Part, what: str, at: Cursors, limit: Callable[[Longs], Longs]) -> Longs:
    """An int a row, from 0 to what ``limit`` says of the bytes that are left behind it."""
    walker = at.at(at.position.copy(), at.end)
    counts = read_numbers(at, "read_i32", np.int32, f"the number of {what}").astype(np.int64)
    most = limit(at.end - at.position)
    wrong = np.flatnonzero((counts < 0) | (counts > most))
    if len(wrong):
        row = int(wrong[0])
        at.fail(row, f"a number of {what} from 0 to {int(most[row])}", int(counts[row]))
    # Where rows share one end (heap tables), each count may be possible, but not all: delimit before allocating.
    if len(at) > 1 and counts.sum() > limit(np.array([len(at.buffer)]))[0] and program(whole).known:
        skip_rows(whole, walker)
    return counts


def encode_elements(parts: Sequence[Part], columns: Sequence[pa.Array], at: Cursors, counts: Longs) -> None:
    """Write ``counts`` repetitions of the parts at every cursor, from flat columns; the mirror of ``locate``."""
    widths = [part.sizes(column) for part, column in zip(parts, columns, strict=True)]
    stride: Longs = np.sum(widths, axis=0, dtype=np.int64)
    totals = sum_per_row(stride, counts)
    before = np.cumsum(totals) - totals
    starts = np.repeat(at.position - before, counts) + np.cumsum(stride) - stride
    for part, column, width in zip(parts, columns, widths, strict=True):
        cursors = at.at(starts, starts + width)
        part.encode(column, cursors)
        starts = cursors.position
    at.position[:] += totals


def write_zeros(at: Cursors, counts: Longs) -> None:
    """That many zero bytes at every cursor."""
    from pyspark_savepoint.formats.kernels import fixed

    offsets = np.concatenate(([0], np.cumsum(counts)))
    fixed.write_bytes(at.buffer, at.position, offsets, np.zeros(int(offsets[-1]), np.uint8))


def list_parts(column: pa.Array) -> tuple[Longs, pa.Array]:
    """Lengths and flat elements of a list column."""
    offsets = _offsets(column)
    return np.diff(offsets), column.values.slice(offsets[0], offsets[-1] - offsets[0])


def map_parts(column: pa.Array) -> tuple[Longs, pa.Array, pa.Array]:
    """Lengths, flat keys and flat values of a map column."""
    offsets = _offsets(column)
    first, count = offsets[0], offsets[-1] - offsets[0]
    return np.diff(offsets), column.keys.slice(first, count), column.items.slice(first, count)


def _offsets(column: pa.Array) -> Longs:
    if not len(column):
        return np.zeros(1, np.int64)
    return np.asarray(column.offsets.to_numpy(), np.int64)


def sum_per_row(values: Any, counts: Longs) -> Any:
    """Sums over consecutive groups of the given lengths, in the values' own arithmetic."""
    sums = np.zeros(len(values) + 1, values.dtype)
    np.cumsum(values, out=sums[1:])
    ends = np.cumsum(counts)
    return sums[ends] - sums[ends - counts]


def hash_in_order(hashes: Ints, counts: Longs) -> Ints:
    """``List.hashCode`` from the hashes of the elements: from 1, 31 times and plus, in order."""
    powers = np.ones(int(counts.max(initial=0)) + 1, np.uint32)
    powers[1:] = np.cumprod(np.full(len(powers) - 1, 31, np.uint32), dtype=np.uint32)
    ends = np.cumsum(counts)
    behind = np.repeat(ends, counts) - 1 - np.arange(len(hashes))
    sums = sum_per_row(hashes.astype(np.int32).view(np.uint32) * powers[behind], counts)
    return np.asarray(sums + powers[counts], np.uint32).view(np.int32)
