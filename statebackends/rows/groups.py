"""Numbers of equal rows of some columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark_savepoint.formats.columns import Longs


def group_numbers(columns: Sequence[pa.Array], count: int, within: Longs | None = None) -> Longs:
    """Return for each row the number of its values in some columns; equal rows have equal numbers, from 0 on.

    ``within``: only rows with the same number there are equal; the result is in their order first.
    """
    numbers = np.zeros(count, np.int64) if within is None else np.unique(within, return_inverse=True)[1]
    for column in columns:
        own = _values(column, count)
        # Both are less than the number of rows, so that their pair is a long.
        pairs = numbers * (int(own.max(initial=0)) + 1) + own
        numbers = np.unique(pairs, return_inverse=True)[1]
    return numbers.reshape(-1).astype(np.int64)


def _values(column: pa.Array, count: int) -> Longs:
    if pa.types.is_struct(column.type):
        return group_numbers([column.is_valid(), *column.flatten()], count)
    if pa.types.is_nested(column.type):
        column = pa.array(map(repr, column.to_pylist()), pa.string())
    return np.asarray(column.dictionary_encode("encode").indices.to_numpy(), np.int64)
