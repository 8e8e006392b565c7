"""OLD's states of an operator together with what the user gives for its keys: rows of both, distributed by the key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError, ValueRangeError, did_you_mean
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.plan.engine import Engine, Rows, gathered
from pyspark_savepoint.plan.made_rows import no_rows
from pyspark_savepoint.statebackends.evolution.exact import expect_held, raw_type
from pyspark_savepoint.statebackends.evolution.histories import Branch
from pyspark_savepoint.statebackends.evolution.rewriting.descriptors import EXACT
from pyspark_savepoint.statebackends.evolution.rewriting.found_rows import (
    AnsweringRows,
    AskingRows,
    FoundRows,
    FoundTable,
)
from pyspark_savepoint.statebackends.evolution.rewriting.history_rows import (
    ORDER,
    TIMES,
    Computed,
    HistoryRows,
    NewestTimes,
)
from pyspark_savepoint.statebackends.evolution.rewriting.joined_rows import (
    MARK,
    GivenRows,
    GivenTable,
    JoinedRows,
    MarkedRows,
)
from pyspark_savepoint.statebackends.evolution.rewriting.keyed_rows import KEY, OldStates, RewrittenRows
from pyspark_savepoint.statebackends.evolution.shapes import Column, StateShape
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor
from pyspark_savepoint.statebackends.writing.planning.write_request import DEFAULT_SORT_MEMORY

#: Memory of a sort whose rows are sorted by the key then, while both hold theirs.
FINDING_MEMORY = DEFAULT_SORT_MEMORY // 4


@dataclass(frozen=True)
class KeyedTable:
    """A table of the user whose rows are found by the key: which of its columns are the key, and which are wanted."""

    table: GivenTable
    rows: Rows
    key: tuple[Column, ...]
    columns: tuple[Column, ...]
    window: str | None = None

    @property
    def field(self) -> pa.Field:
        """The column of its rows."""
        kinds = [raw_type(replace(column.kind, nullable=True)) for column in self.table.shape.columns]
        elements = pa.struct([pa.field(f"f{place}", kind) for place, kind in enumerate(kinds)])
        return pa.field(self.table.shape.name, pa.list_(elements))


@dataclass(frozen=True)
class FoundTableRows:
    """A table of the user whose rows are found by other columns than the key; ``keyed`` takes its rows with the key."""

    table: FoundTable
    rows: Rows
    keyed: Callable[[Rows], KeyedTable]

    def with_key(self, engine: Engine, old: Rows, states: OldStates, limit: int, label: str) -> KeyedTable:
        """Return the table with the keys of NEW; ``old`` are OLD's states under these keys."""
        table = self.table
        columns = [*(column.name for column, _ in table.by), table.value.name]
        asks = old.mapped(AskingRows(table, states, label), table.schema)
        answers = self.rows.select(*dict.fromkeys(columns)).mapped(AnsweringRows(table), table.schema)
        placed = engine.by_key(asks.union(answers), table.descriptor, limit, None)
        function = FoundRows(table, limit, FINDING_MEMORY, label)
        return self.keyed(placed.mapped(function, table.found_schema))


@dataclass(frozen=True)
class Joining:
    """What the user gives for one operator: tables of values, and ``rows`` of history by their names.

    ``watermark`` is that of the savepoint: windows that ended by then are over.
    """

    engine: Engine
    tables: tuple[KeyedTable, ...] = ()
    computed: Computed | None = None
    rows: Mapping[str, Rows] | None = None
    watermark: int | None = None
    #: Tables whose rows are found by columns that are not the key.
    by_rows: tuple[FoundTableRows, ...] = ()

    @property
    def fields(self) -> list[pa.Field]:
        """The columns of what is given."""
        computed = [] if self.computed is None else self.computed.fields(self.computed.partial)
        return [*(table.field for table in self.tables), *computed]

    @property
    def shapes(self) -> tuple[tuple[StateShape, str], ...]:
        """What is given, as states and their columns."""
        computed = () if self.computed is None else self.computed.partial
        return tuple((shape, shape.name) for shape in (*(table.table.shape for table in self.tables), *computed))

    def given(self, schema: pa.Schema, label: str) -> Iterator[Rows]:
        """Yield what is given as rows of these columns."""
        for one in self.tables:
            wanted = dict.fromkeys([*(column.name for column in one.key), *(column.name for column in one.columns)])
            names = [*wanted, *([one.window] if one.window is not None and one.window not in wanted else [])]
            function = GivenRows(one.table, one.key, one.columns, one.window, schema, label)
            yield one.rows.select(*names).mapped(function, schema)
        if self.computed is None:
            return
        for number, branches in enumerate(self.computed.history.inputs):
            for branch in branches:
                rows = self._selected(branch)
                function_of = HistoryRows(self.computed, number, branch, schema, label, self.watermark)
                yield rows.mapped(function_of, schema)

    def _selected(self, branch: Branch) -> Rows:
        rows = (self.rows or {})[branch.table]
        types = {column.name: column.kind for column in branch.columns if column is not None}
        names = list(types)
        for name in names:
            if name not in rows.schema.names:
                raise OptionError(
                    f"backfill {branch.table!r} has no column {name!r}, which the new query reads",
                    expected=", ".join(names),
                    found=", ".join(rows.schema.names),
                    remedy=did_you_mean(name, rows.schema.names),
                )
        expect_held(rows.schema, types, branch.table)
        rows = rows.select(*names) if names else rows
        in_order = self.computed is not None and self.computed.history.in_order
        return self.engine.in_order(rows, ORDER) if in_order else rows

    def joined(
        self, old: Rows | None, function: RewrittenRows, key: TypeSerializer, by_key: KeyedDescriptor, limit: int
    ) -> Rows:
        """Return the rows of NEW: ``old`` are OLD's states under the keys of NEW, if any stay."""
        if self.by_rows and old is not None:
            keyed = [one.with_key(self.engine, old, function.old, limit, function.label) for one in self.by_rows]
            whole = replace(self, tables=(*self.tables, *keyed), by_rows=())
            return whole.joined(old, function, key, by_key, limit)
        window = (
            [pa.field(by_key.namespace_column, function.schema.field(by_key.namespace_column).type)]
            if (by_key.namespace_column is not None)
            else []
        )
        names = {KEY, *(one.name for one in window)}
        states = [] if old is None else [one for one in old.schema if one.name not in names]
        mark = [] if old is None else [pa.field(MARK, pa.bool_())]
        schema = pa.schema([pa.field(KEY, key.arrow_type(EXACT)), *window, *mark, *states, *self.fields])
        own = replace(function, old=OldStates((*function.old.shapes, *self.shapes)), key=())
        parts = list(self.given(schema, function.label))
        if old is not None:
            parts.insert(0, old.mapped(MarkedRows(schema), schema))
        tables = tuple(one.table for one in self.tables)
        merged = JoinedRows(
            own, by_key, limit, schema, DEFAULT_SORT_MEMORY, self.computed, tables, marked=old is not None
        )
        # Computed once without rows: what is not known here is refused before anything is read.
        none = no_rows(schema)
        nothing = np.zeros(0, np.int64)
        keys = replace(own.keys(none), states=merged.states_of(none, nothing))
        merged.of_keys(keys, none, none, nothing)
        self._compute_without_rows(schema, function.label)
        self._expect_up_to_watermark(function.label)
        placed = self.engine.by_key(_union(parts), by_key, limit, None)
        return placed.mapped(merged, function.schema)

    def _compute_without_rows(self, schema: pa.Schema, label: str) -> None:
        """Raise UnsupportedStateError for an expression that is not known."""
        if self.computed is None:
            return
        for number, branches in enumerate(self.computed.history.inputs):
            for branch in branches:
                function = HistoryRows(self.computed, number, branch, schema, label, self.watermark)
                function.of_batch(no_rows(self._selected(branch).schema))

    def _expect_up_to_watermark(self, label: str) -> None:
        """Raise ValueRangeError if the newest row of the history is older than the savepoint's watermark."""
        if self.computed is None or self.computed.history.slices is None or self.watermark is None:
            return
        (branches,) = self.computed.history.inputs
        newest = [
            gathered(self.engine, self._selected(branch).mapped(NewestTimes(self.computed, branch), TIMES))
            for branch in branches
        ]
        times = [time for table in newest for time in table.column(0).to_pylist()]
        if not times or max(times) < self.watermark:
            raise ValueRangeError(
                "the history ends before the savepoint was taken",
                operator=label,
                found=f"its newest row is of {_moment(max(times))}" if times else "no rows",
                expected=f"rows up to the watermark of the savepoint, {_moment(self.watermark)}, or later",
            )


def _moment(milliseconds: int) -> str:
    return str(np.datetime64(milliseconds, "ms"))


def _union(parts: Sequence[Rows]) -> Rows:
    return reduce(lambda one, other: one.union(other), parts)
