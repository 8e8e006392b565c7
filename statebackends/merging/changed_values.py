"""Tables of the rows that differ in two snapshots, compared by their values: of timers, and of operator state.

==============  ===================================================================================================
timers          change, and the timer: those that are on one side only
list, union     change, value, count: how many more of that value there are on that side
broadcast       key, change, value_before, value_after
==============  ===================================================================================================

Partitions of timers are key groups of both snapshots, so nothing is shuffled; a task holds the rows of some key groups
of both at a time. Operator state is compared by one task, as a subtask of Flink holds it in memory, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import Longs
from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange
from pyspark_savepoint.statebackends.merging.comparison import compare
from pyspark_savepoint.statebackends.merging.entry_chunk import Division, concat, together
from pyspark_savepoint.statebackends.merging.keyed_input import SharedInput, described
from pyspark_savepoint.statebackends.merging.row_bytes import chunk_of_rows, row_bytes
from pyspark_savepoint.statebackends.requests.request import (
    Table,
    TablePartition,
    TableRequest,
    of_key_groups,
    with_columns,
)
from pyspark_savepoint.statebackends.sources.keyed_source import DifferingSource
from pyspark_savepoint.statebackends.tables.entry_diff import ADDED, CHANGE, CHANGED, REMOVED
from pyspark_savepoint.statebackends.tables.keyed_table import KeyedTable
from pyspark_savepoint.statebackends.tables.operator_table import KEY, SUBTASK, VALUE
from pyspark_savepoint.statebackends.tables.timers_table import TimersTable

Tables = tuple[Table | None, Table | None]
#: The rows that one side has and the other has not, or less often.
Differing = tuple[pa.Table, pa.Table]
#: Function that shows the rows that differ.
Form = Callable[[Differing], Iterator[pa.Table]]
COUNT, VALUE_BEFORE, VALUE_AFTER = "count", "value_before", "value_after"
Parts = tuple[TablePartition, ...]
NO_COLUMNS = pa.schema([])


class ChangedValues:
    """Rows that differ. ``tables`` are those of both snapshots; None where a snapshot does not have one.

    ``compared`` are the columns by whose values rows are equal, in both tables; ``form`` shows those that differ with
    columns ``schema``. ``keyed``: rows have key groups. ``beside``: columns that rows have besides those compared.
    """

    def __init__(
        self,
        tables: Tables,
        compared: pa.Schema,
        form: Form,
        schema: pa.Schema,
        request: TableRequest,
        *,
        keyed: bool,
        beside: pa.Schema = NO_COLUMNS,
    ) -> None:
        both_tables = [table for table in tables if table is not None]
        self.tables, self.shared = _differing(tables) if keyed else (tables, [])
        self.compared, self.form, self.schema, self.request = compared, form, schema, request
        self.beside = beside
        self.warnings = tuple(dict.fromkeys(warning for table in both_tables for warning in table.warnings))
        self.state_bytes = sum(table.state_bytes for table in both_tables)
        self.division: Division | None = None
        if keyed:
            numbers = (None if table is None else table.max_parallelism for table in tables)
            self.division = Division((next(numbers), next(numbers)))
        self.max_parallelism: int | None = None if self.division is None else self.division.modulus

    @property
    def description(self) -> str:
        """Return how many bytes of files are read, if not all."""
        return described(self.shared)

    @classmethod
    def of_timers(cls, tables: Tables, request: TableRequest) -> ChangedValues:
        """Return the timers that are on one side only."""
        columns = same_columns(tables, [name for name in _any(tables).schema.names if name != SUBTASK])
        return cls(tables, columns, _of_one_side, columns.insert(0, _CHANGE), request, keyed=True)

    @classmethod
    def of_elements(cls, tables: Tables, request: TableRequest) -> ChangedValues:
        """Return the elements that one side has more often, or the entries of broadcast state that differ."""
        names = [name for name in _any(tables).schema.names if name in (KEY, VALUE)]
        columns = same_columns(tables, names)
        value = columns.field(VALUE)
        if KEY not in names:
            schema = pa.schema([_CHANGE, value, pa.field(COUNT, pa.int64())])
            return cls(tables, columns, _counted, schema, request, keyed=False)
        sides = [value.with_name(name) for name in (VALUE_BEFORE, VALUE_AFTER)]
        return cls(tables, columns, _entries, pa.schema([columns.field(KEY), _CHANGE, *sides]), request, keyed=False)

    def select(self, columns: Sequence[str]) -> ChangedValues:
        """Return this table restricted to some columns."""
        return with_columns(self, columns)

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        """Return one partition per share of the key groups, or one."""
        if self.division is None:
            rounds = (tuple(() if table is None else tuple(table.partitions(1)) for table in self.tables),)
            return [self._partition(rounds)]
        per_group = self.state_bytes // self.division.modulus
        sizes = np.full(self.division.modulus, per_group, np.int64)
        partitions = []
        for share in self.division.shares(parallelism or 1):
            some = together(share, sizes, self.request.memory // 4)
            # Without those of key groups that no option asks for, or that have no state.
            read = tuple(
                both for key_groups in some if any(both := (self._parts(0, key_groups), self._parts(1, key_groups)))
            )
            if read:
                partitions.append(self._partition(read))
        return partitions

    def _parts(self, side: int, share: range) -> Parts:
        table = self.tables[side]
        if table is None or self.division is None:
            return ()
        return tuple(of_key_groups(table, sorted(self.division.key_groups(side, share))).partitions(1))

    def _partition(self, rounds: Any) -> TablePartition:
        names = self.schema.names
        return ChangedValuesPartition(rounds, self.compared, self.beside, self.form, names, self.request.batch_rows)


@dataclass(frozen=True)
class ChangedValuesPartition:
    """Rows of some key groups, some of them at a time, or all rows of an operator state."""

    rounds: tuple[tuple[Parts, Parts], ...]
    compared: pa.Schema
    beside: pa.Schema
    form: Form
    columns: list[str]
    batch_rows: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that differ."""
        for parts in self.rounds:
            for table in self.form(self._differing(parts)):
                yield from table.select(self.columns).to_batches(max_chunksize=self.batch_rows)

    def _differing(self, parts: tuple[Parts, Parts]) -> Differing:
        sides, chunks = [], []
        schema, compared = pa.schema([*self.compared, *self.beside]), len(self.compared)
        for side_parts in parts:
            # The other columns, such as that of a subtask, are none of a row's values.
            batches = [
                pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)
                for part in side_parts
                for batch in part.batches()
            ]
            bounds = np.cumsum([0, *(len(batch) for batch in batches)]).tolist()
            rows = [chunk_of_rows(batch.columns[:compared], at) for batch, at in zip(batches, bounds, strict=False)]
            sides.append(pa.Table.from_batches(batches, schema))
            chunks.append(concat(rows))
        # The rows of a table are in one run, whose key groups are the numbers of its rows.
        comparison = compare(chunks[0], chunks[1], 1, ())
        before, after = (
            side.take(pa.array(np.sort(chunk.key_group[differs])))
            for side, chunk, differs in zip(
                sides,
                (comparison.before, comparison.after),
                (comparison.before_differs, comparison.after_differs),
                strict=True,
            )
        )
        return before, after


def _differing(tables: Tables) -> tuple[Tables, list[SharedInput]]:
    """Return tables in databases with files in common: of those, only the rows of keys that can differ are read."""
    before, after = (_below(table) for table in tables)
    # Keys that are looked up have few blocks, and no others are read.
    if before is None or after is None or before.lookup is not None or after.lookup is not None:
        return tables, []
    shared = SharedInput.among(before.headers.sources, after.headers.sources)
    if not shared:
        return tables, []
    states = [name for each in (before, after) if isinstance(each, KeyedTable) for name in each.spec.states]
    plans = [each.sessions for each in (before, after) if isinstance(each, KeyedTable) and each.sessions is not None]
    # Windows that merge are those of another state, which is read before, of as many key groups in both.
    states += [plan.state for plan in plans]
    groups = min((plan.groups for plan in plans), default=0)
    pairs = [DifferingSource.pair(each.before, each.after, tuple(dict.fromkeys(states))) for each in shared]
    older, newer = (
        _of_sources(table, {each.key_group_range: each for each in side}, groups)
        for table, side in zip(tables, zip(*pairs, strict=True), strict=True)
    )
    return (older, newer), shared


def _below(table: Table | None) -> KeyedTable | TimersTable | None:
    """Return the table of keyed state or timers that a table shows."""
    while table is not None and hasattr(table, "inner"):
        table = table.inner
    return table if isinstance(table, KeyedTable | TimersTable) else None


def _of_sources(table: Any, differing: Mapping[KeyGroupRange, DifferingSource], groups: int) -> Any:
    """Return a copy of a table with some other sources, which reads the sessions of some key groups at a time."""
    result = copy(table)
    if hasattr(table, "inner"):
        result.inner = _of_sources(table.inner, differing, groups)
        return result
    sources = tuple(differing.get(source.key_group_range, source) for source in table.headers.sources)
    result.headers = replace(table.headers, sources=sources)
    if isinstance(table, KeyedTable) and table.sessions is not None:
        result.sessions = replace(table.sessions, groups=groups)
    return result


# -- forms -------------------------------------------------------------------------------------------------------

_CHANGE = pa.field(CHANGE, pa.string())


def _of_one_side(differing: Differing) -> Iterator[pa.Table]:
    for change, rows in zip((REMOVED, ADDED), differing, strict=True):
        yield rows.add_column(0, _CHANGE, words([change] * len(rows)))


def _counted(differing: Differing) -> Iterator[pa.Table]:
    for change, rows in zip((REMOVED, ADDED), differing, strict=True):
        value_bytes = bytes_of(rows, (VALUE,))
        numbers = np.asarray(pc.index_in(value_bytes, value_set=pc.unique(value_bytes)))
        _, first, counts = np.unique(numbers, return_index=True, return_counts=True)
        value_rows = rows.select([VALUE]).take(pa.array(first))
        value_rows = value_rows.append_column(COUNT, pa.array(counts.astype(np.int64)))
        yield value_rows.add_column(0, _CHANGE, words([change] * len(value_rows)))


def _entries(differing: Differing) -> Iterator[pa.Table]:
    before, after = differing
    places = places_of(differing, (KEY,))
    # The entries of the older snapshot, then those that it has not.
    only = np.flatnonzero(places < 0)
    at = np.full(len(before), -1, np.int64)
    at[places[places >= 0]] = np.flatnonzero(places >= 0)
    sides = np.concatenate([np.arange(len(before)), np.full(len(only), -1)]), np.concatenate([at, only])
    change = np.where(sides[0] < 0, ADDED, np.where(sides[1] < 0, REMOVED, CHANGED))
    values = [
        rows.column(VALUE).take(pa.array(side, mask=side < 0)) for rows, side in zip(differing, sides, strict=True)
    ]
    key = pa.chunked_array([*before.column(KEY).chunks, *after.column(KEY).take(pa.array(only)).chunks])
    yield pa.table([key, words(change.tolist()), *values], names=[KEY, CHANGE, VALUE_BEFORE, VALUE_AFTER])


def words(texts: list[str]) -> pa.Array:
    """Return a column of texts."""
    return pa.array(texts, pa.string())


def bytes_of(rows: pa.Table, columns: Sequence[str]) -> pa.ChunkedArray:
    """Return the bytes of some columns of rows."""
    parts = [row_bytes([batch.column(name) for name in columns]) for batch in rows.to_batches()]
    return pa.chunked_array(parts, pa.large_binary())


def places_of(differing: Differing, columns: Sequence[str]) -> Longs:
    """Return for each row after the row before that has the same values in some columns; -1 for none.

    Rows whose values several rows of one side have are not matched.
    """
    before, after = (bytes_of(rows, columns) for rows in differing)
    if any(len(pc.unique(side)) < len(side) for side in (before, after)):
        return np.full(len(after), -1, np.int64)
    places = pc.index_in(after, value_set=before)
    return np.array(pc.fill_null(places, -1), np.int64)


def same_columns(tables: Tables, names: Sequence[str]) -> pa.Schema:
    """Return the fields of some columns; raise UnsupportedStateError unless both tables have them with their types."""
    before, after = (None if table is None else _fields(table, names) for table in tables)
    if before is not None and after is not None:
        for name in names:
            types = [str(side[name]) if name in side else "no such column" for side in (before, after)]
            if types[0] != types[1]:
                raise UnsupportedStateError(
                    f"the type of column {name!r} has changed, so rows cannot be compared",
                    found=f"{types[0]} before and {types[1]} after",
                )
    schema = _any(tables).schema
    return pa.schema([schema.field(name).remove_metadata() for name in names])


def _fields(table: Table, names: Sequence[str]) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in table.schema if field.name in names}


def _any(tables: Tables) -> Table:
    """Return the table of the newer snapshot, else that of the older one."""
    table = tables[1] if tables[1] is not None else tables[0]
    assert table is not None
    return table
