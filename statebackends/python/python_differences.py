"""Rows that differ of a PyFlink operator: the rows of what Flink stores, with values in place of byte arrays.

Entries are compared as bytes. The states before and after are decoded by the types of their own snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pyspark_savepoint.statebackends.model.request import Table, TablePartition, choose_columns
from pyspark_savepoint.statebackends.python.python_state import shown_name
from pyspark_savepoint.statebackends.python.python_tables import Conversion, PythonTable
from pyspark_savepoint.statebackends.tables.entry_diff import CHANGED_STATES, SUFFIXES
from pyspark_savepoint.statebackends.tables.keyed_table import KEY

Sides = tuple[Conversion | None, Conversion | None]


@dataclass(frozen=True)
class PythonDifferences:
    """Differences of two PyFlink operators, over those of the tables below them."""

    inner: Table
    sides: Sides
    schema: pa.Schema
    columns: tuple[str, ...]

    @classmethod
    def of(cls, inner: Table, tables: Sequence[PythonTable | None]) -> PythonDifferences:
        """Return the differences; None for a side that has no such table."""
        before, after = (None if table is None else table.conversion for table in tables)
        types = {KEY: next(table.key_type for table in tables if table is not None)}
        sides = (before, after)
        for suffix, table in zip(SUFFIXES, tables, strict=True):
            for below, (shown, _) in {} if table is None else dict(table.conversion.states).items():
                if table is not None and shown in table.schema.names:
                    types[below + suffix] = table.schema.field(shown).type
        fields = [
            field.with_name(_shown(field.name, sides)).with_type(types.get(field.name, field.type))
            for field in inner.schema
        ]
        return cls(inner, sides, pa.schema(fields), tuple(inner.schema.names))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the warnings of the table below."""
        return self.inner.warnings

    @property
    def max_parallelism(self) -> int | None:
        """Return that of the table below."""
        return self.inner.max_parallelism

    @property
    def state_bytes(self) -> int:
        """Return those of the table below."""
        return self.inner.state_bytes

    def select(self, columns: Sequence[str]) -> PythonDifferences:
        """Return this table restricted to some columns."""
        below = dict(zip(self.schema.names, self.columns, strict=True))
        schema = choose_columns(self.schema, columns)
        chosen = tuple(below[name] for name in columns)
        return PythonDifferences(self.inner.select(chosen), self.sides, schema, chosen)

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        """Return those of the table below."""
        return [DifferencesPartition(part, self.sides, self.schema) for part in self.inner.partitions(parallelism)]


@dataclass(frozen=True)
class DifferencesPartition:
    """Rows of some key groups."""

    inner: TablePartition
    sides: Sides
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that differ."""
        for batch in self.inner.batches():
            arrays = [
                self._converted(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _converted(self, name: str, column: pa.Array) -> pa.Array:
        if name == KEY:
            return next(side for side in self.sides if side is not None).key_values(column)
        if name == CHANGED_STATES:
            names = pa.array([shown_name(each) for each in column.flatten().to_pylist()], pa.string())
            return pa.ListArray.from_arrays(column.offsets, names)
        for suffix, side in zip(SUFFIXES, self.sides, strict=True):
            below = name.removesuffix(suffix)
            if side is not None and below != name and below in side.states:
                _, state = side.states[below]
                return column if state is None else state.decode(column, side.options)
        return column


def _shown(name: str, sides: Sides) -> str:
    for suffix in SUFFIXES:
        below = name.removesuffix(suffix)
        for side in sides:
            if side is not None and below != name and below in side.states:
                return side.states[below][0] + suffix
    return name
