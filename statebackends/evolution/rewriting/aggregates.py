"""Sums, counts and extremes of rows by their owners, and rows of owners as columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Longs, scatter


def placed(column: pa.Array, owner: Longs, count: int) -> pa.Array:
    """Return one value per owner, NULL where it has none; each owner has at most one."""
    order = np.argsort(owner, kind="stable")
    valid = np.zeros(count, np.bool_)
    valid[owner] = True
    return scatter(column.take(pa.array(order)), valid)


def summed(values: Longs, owner: Longs, count: int) -> Longs:
    """Return the sum of numbers by owner; 0 for one without."""
    totals = np.zeros(count, np.int64)
    np.add.at(totals, owner, values)
    return totals


def total(column: pa.Array, owner: Longs, count: int) -> pa.Array:
    """Return the SUM of a column by owner: NULL where it has no value."""
    table = pa.table({"owner": pa.array(owner), "value": column}).group_by("owner", use_threads=False)
    sums = table.aggregate([("value", "sum")]).combine_chunks()
    return placed(
        sums.column("value_sum").combine_chunks(), np.asarray(sums.column("owner").combine_chunks(), np.int64), count
    )


def extreme(column: pa.Array, owner: Longs, count: int, *, largest: bool) -> pa.Array:
    """Return the smallest or the largest value by owner: NULL where it has none."""
    there = column.is_valid()
    table = pa.table({"owner": pa.array(owner), "value": column}).filter(there).combine_chunks()
    order = [("owner", "ascending"), ("value", "descending" if largest else "ascending")]
    table = table.sort_by(order).combine_chunks()
    if not len(table):
        return pa.nulls(count, column.type)
    owners = np.asarray(table.column("owner").combine_chunks(), np.int64)
    first = np.flatnonzero(np.diff(owners, prepend=-1))
    return placed(table.column("value").combine_chunks().take(pa.array(first)), owners[first], count)
