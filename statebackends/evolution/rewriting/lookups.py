"""Values that a user gives by key, or by columns of rows: looked up a column at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import Longs
from pyspark_savepoint.formats.errors import ValueRangeError
from pyspark_savepoint.statebackends.evolution.changes import Expression
from pyspark_savepoint.statebackends.evolution.histories import HISTORY
from pyspark_savepoint.statebackends.rows.groups import group_numbers


@dataclass(frozen=True)
class Lookup:
    """Rows of the user: ``by`` are their columns that find a value, with where a state's row has the same.

    ``optional``: rows of the state without a row here get NULL.
    """

    table: pa.Table
    by: tuple[tuple[str, Expression], ...]
    optional: bool = False

    def values(self, name: str, columns: Sequence[pa.Array]) -> pa.Array:
        """Return a column of the table for rows that have these values; raise ValueRangeError if one is missing."""
        given = self.table.column(name).combine_chunks()
        places = self.places(columns, name)
        return given.take(places)

    def rows_of(self, columns: Sequence[pa.Array]) -> tuple[Longs, Longs]:
        """Return all rows of the table for keys that have several: the keys that they are of, and their numbers."""
        count = len(columns[0])
        own = [self.table.column(one).combine_chunks() for one, _ in self.by]
        both = [pa.concat_arrays([mine, theirs.cast(mine.type)]) for mine, theirs in zip(own, columns, strict=True)]
        numbers = group_numbers(both, len(self.table) + count)
        owners = pc.index_in(pa.array(numbers[: len(self.table)]), value_set=pa.array(numbers[len(self.table) :]))
        there = np.flatnonzero(np.asarray(owners.is_valid()))
        owner = np.asarray(owners.take(pa.array(there)), np.int64)
        order = np.argsort(owner, kind="stable")
        return owner[order], there[order]

    def places(self, columns: Sequence[pa.Array], name: str = "") -> pa.Array:
        """Return the number of the row of the table for each row."""
        count = len(columns[0]) if columns else 0
        own = [self.table.column(one).combine_chunks() for one, _ in self.by]
        if not columns:
            return pa.array(np.zeros(count, np.int64))
        if len(own) == 1 and not pa.types.is_nested(own[0].type):
            places = pc.index_in(columns[0].cast(own[0].type), value_set=own[0])
        else:
            both = [pa.concat_arrays([mine, theirs.cast(mine.type)]) for mine, theirs in zip(own, columns, strict=True)]
            numbers = pa.array(group_numbers(both, len(self.table) + count))
            places = pc.index_in(numbers.slice(len(self.table)), value_set=numbers.slice(0, len(self.table)))
        if places.null_count and not self.optional:
            missing = int(np.flatnonzero(np.asarray(places.is_null()))[0])
            raise missing_row(name, [one for one, _ in self.by], [column[missing].as_py() for column in columns])
        return places


def missing_row(name: str, columns: Sequence[str], values: Sequence[object]) -> ValueRangeError:
    """Return the error for values of these columns that the user gives nothing for."""
    return ValueRangeError(
        f"{_user_name(name)} has no row for a key of the savepoint",
        found=", ".join(f"{one}={value!r}" for one, value in zip(columns, values, strict=True)),
        remedy="the history must have all rows up to the savepoint, and no others: it ends before, or begins after the "
        "job's own",
    )


def two_values(name: str, columns: Sequence[str], values: Sequence[object]) -> ValueRangeError:
    """Return the error for values of these columns that the user gives two rows for."""
    return ValueRangeError(
        f"backfill {name!r} has two values for one key",
        expected="one row for each key",
        found=", ".join(f"{one}={value!r}" for one, value in zip(columns, values, strict=True)),
        remedy="aggregate the history by the key first",
    )


def _user_name(name: str) -> str:
    """Return what a user calls the rows: a field of NEW follows the name, and history has none."""
    given = name.partition("\0")[0]
    return "the history" if given.startswith(HISTORY) else f"backfill {given!r}"
