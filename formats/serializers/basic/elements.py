"""Functions for repeated elements, shared by lists, maps and similar types.

A column of lists is a number of elements per row and one flat column of all elements. The functions convert between
the two forms, and between them and the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, Flags, Ints, Longs, scatter
from pyspark_savepoint.formats.errors import UnsupportedStateError, ValueRangeError
from pyspark_savepoint.formats.serializers.basic.primitives import read_numbers
from pyspark_savepoint.formats.serializers.layout import Part, expect_few_empty, program, skip_rows


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Add the name of a field to errors about values that cannot be written."""
    try:
        yield
    except (ValueRangeError, UnsupportedStateError) as error:
        inner = error.facts.get("state")
        error.facts["state"] = f"{name}.{inner}" if inner else name
        raise


def gather(kind: pa.DataType, parts: Sequence[tuple[Flags, pa.Array]], rows: int) -> pa.Array:
    """Combine columns of disjoint sets of rows into one column; null in rows that belong to none."""
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
    """Return the rows of a mask."""
    return column if rows.all() else column.filter(pa.array(rows))


def read_counts(whole: Part, parts: Sequence[Part], at: Cursors) -> Longs:
    """Read how often the parts of ``whole`` follow: at most as often as the remaining bytes can hold."""
    from pyspark_savepoint.formats.kernels import skip

    what = ", ".join(part.flink_type for part in parts)
    width = sum(map(abs, program(*parts).widths))
    if width:
        return bounded_counts(whole, what, at, lambda room: room // width)
    counts = bounded_counts(whole, what, at, lambda room: np.full_like(room, skip.MAX_EMPTY))
    expect_few_empty(what, at, counts)
    return counts


def bounded_counts(whole: Part, what: str, at: Cursors, limit: Callable[[Longs], Longs]) -> Longs:
    """Read an int per row, from 0 to the ``limit`` that the bytes after it allow."""
    walker = at.at(at.position.copy(), at.end)
    counts = read_numbers(at, "read_i32", np.int32, f"the number of {what}").astype(np.int64)
    most = limit(at.end - at.position)
    wrong = np.flatnonzero((counts < 0) | (counts > most))
    if len(wrong):
        row = int(wrong[0])
        at.fail(row, f"a number of {what} from 0 to {int(most[row])}", int(counts[row]))
    # Where rows share one end (heap tables), each count may be possible but not their sum: skip before allocating.
    if len(at) > 1 and counts.sum() > limit(np.array([len(at.buffer)]))[0] and program(whole).known:
        skip_rows(whole, walker)
    return counts


def encode_elements(parts: Sequence[Part], columns: Sequence[pa.Array], at: Cursors, counts: Longs) -> None:
    """Write ``counts`` repetitions of the parts at every cursor, from flat columns; ``locate`` finds them again."""
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
    """Write ``counts`` zero bytes at every cursor."""
    from pyspark_savepoint.formats.kernels import numbers

    offsets = np.concatenate(([0], np.cumsum(counts)))
    numbers.write_bytes(at.buffer, at.position, offsets, np.zeros(int(offsets[-1]), np.uint8))


def list_parts(column: pa.Array) -> tuple[Longs, pa.Array]:
    """Return lengths and flat elements of a list column."""
    offsets = _offsets(column)
    return np.diff(offsets), column.values.slice(offsets[0], offsets[-1] - offsets[0])


def map_parts(column: pa.Array) -> tuple[Longs, pa.Array, pa.Array]:
    """Return lengths, flat keys and flat values of a map column."""
    offsets = _offsets(column)
    first, count = offsets[0], offsets[-1] - offsets[0]
    return np.diff(offsets), column.keys.slice(first, count), column.items.slice(first, count)


def _offsets(column: pa.Array) -> Longs:
    if not len(column):
        return np.zeros(1, np.int64)
    return np.asarray(column.offsets.to_numpy(), np.int64)


def sum_per_row(values: Any, counts: Longs) -> Any:
    """Sum consecutive groups of the given lengths, in the arithmetic of the values' dtype."""
    sums = np.zeros(len(values) + 1, values.dtype)
    np.cumsum(values, out=sums[1:])
    ends = np.cumsum(counts)
    return sums[ends] - sums[ends - counts]


def hash_in_order(hashes: Ints, counts: Longs) -> Ints:
    """Return ``List.hashCode`` from the hashes of the elements: start with 1, then 31 * hash + element, in order."""
    powers = np.ones(int(counts.max(initial=0)) + 1, np.uint32)
    powers[1:] = np.cumprod(np.full(len(powers) - 1, 31, np.uint32), dtype=np.uint32)
    ends = np.cumsum(counts)
    exponents = np.repeat(ends, counts) - 1 - np.arange(len(hashes))
    sums = sum_per_row(hashes.astype(np.int32).view(np.uint32) * powers[exponents], counts)
    return np.asarray(sums + powers[counts], np.uint32).view(np.int32)
