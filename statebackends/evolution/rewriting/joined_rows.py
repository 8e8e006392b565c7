"""Rows of OLD's states together with what the user gives for their keys: sorted by the key, so that neither is held.

Rows of three kinds have the same columns, and NULL in those of the others: OLD's states, with TRUE in :data:`MARK`;
states that are computed from history (:mod:`history_rows`); and tables of values, of which each row is a list with one
element. Those of a key meet here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import Longs, struct_array
from pyspark_savepoint.formats.errors import ValueRangeError
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType
from pyspark_savepoint.statebackends.evolution.changes import Expression, OldKey, StateChange
from pyspark_savepoint.statebackends.evolution.exact import as_given
from pyspark_savepoint.statebackends.evolution.histories import BUFFER, FOLLOWING, HISTORY, ROWS
from pyspark_savepoint.statebackends.evolution.rewriting.batches import of_each
from pyspark_savepoint.statebackends.evolution.rewriting.history_rows import Computed
from pyspark_savepoint.statebackends.evolution.rewriting.keyed_rows import KEY, rewritten
from pyspark_savepoint.statebackends.evolution.rewriting.lookups import Lookup, two_values
from pyspark_savepoint.statebackends.evolution.rewriting.merging import MergedRows
from pyspark_savepoint.statebackends.evolution.rewriting.state_rows import StateRows
from pyspark_savepoint.statebackends.evolution.rewriting.values import KeyRows, without_waiting
from pyspark_savepoint.statebackends.evolution.shapes import Column, StateShape
from pyspark_savepoint.statebackends.rows.descriptors import WINDOW_COLUMN
from pyspark_savepoint.statebackends.rows.groups import group_numbers

#: Whether a row is of the savepoint.
MARK = "__savepoint"
HISTORY_ENDS = (
    "the history must have all rows up to the savepoint, and no others: it ends before or after it, or begins after "
    "the job's own"
)


@dataclass(frozen=True)
class GivenTable:
    """A table of the user, as rows of the state ``shape``: the name, and what its columns are.

    ``by`` are columns that find a value, with where a state's row has the same; ``values`` are the others, each with
    the states and names of those that it is for. ``once``: a key has one row; ``known``: and is one of the savepoint.
    """

    name: str
    shape: StateShape
    by: tuple[tuple[str, Expression], ...]
    values: tuple[tuple[str, str], ...]
    once: bool = True
    known: bool = True

    def lookups(self, rows: StateRows) -> dict[tuple[str, str], Lookup]:
        """Return the table for some keys as lookups, by state and name."""
        names = [name for name, _ in self.by]
        columns = dict(zip(names, rows.fields, strict=False))
        found = {}
        for (state, own), column in zip(self.values, rows.fields[len(names) :], strict=True):
            found[state, own] = Lookup(pa.table({**columns, own: column}), self.by)
        return found

    def expect_once(self, rows: StateRows) -> None:
        """Raise ValueRangeError for two rows that the same columns find."""
        number = group_numbers(rows.fields[: len(self.by)], len(rows), rows.owner)
        order = np.argsort(number, kind="stable")
        twice = np.flatnonzero(np.diff(number[order]) == 0)
        if self.once and len(twice):
            row = int(order[twice[0]])
            names = [name for name, _ in self.by]
            raise two_values(self.name, names, [column[row].as_py() for column in rows.fields[: len(names)]])


@dataclass(frozen=True)
class GivenRows:
    """Function of batches: rows of a table of the user to rows with their key, and a list of one element.

    ``key`` and ``columns`` are those of the table that make the key, and the elements; ``window`` has windows' ends.
    """

    table: GivenTable
    key: tuple[Column, ...]
    columns: tuple[Column, ...]
    window: str | None
    schema: pa.Schema
    label: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row for each."""
        yield from of_each(self._of_batch, batches, self.label)

    def _of_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        count, arrays = len(batch), []
        for one in self.schema:
            if one.name == KEY:
                fields = [self._exact(batch, column, column.kind) for column in self.key]
                arrays.append(struct_array(one.type, fields, count))
            elif one.name == WINDOW_COLUMN and self.window is not None:
                arrays.append(_numbers(batch.column(self.window)).cast(one.type))
            elif one.name == self.table.shape.name:
                offsets = pa.array(np.arange(count + 1, dtype=np.int32))
                fields = [
                    _numbers(batch.column(column.name)) if column.name == self.window else self._exact(batch, column)
                    for column in self.columns
                ]
                elements = struct_array(one.type.value_type, fields, count)
                arrays.append(pa.ListArray.from_arrays(offsets, elements, type=one.type))
            else:
                arrays.append(pa.nulls(count, one.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _exact(self, batch: pa.RecordBatch, column: Column, kind: LogicalType | None = None) -> pa.Array:
        wanted = kind or replace(column.kind, nullable=True)
        return pa.concat_arrays([as_given(batch.column(column.name), wanted, column.name, self.table.name)])


def _numbers(column: pa.Array) -> pa.Array:
    """Return the ends of windows as numbers of milliseconds, as SQL's operators keep them."""
    return column.cast(pa.timestamp("ms")).cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


@dataclass(frozen=True)
class MarkedRows:
    """Function of batches: rows of the savepoint with a mark, and NULL in the columns of what is given."""

    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        for batch in batches:
            names, count = batch.schema.names, len(batch)
            arrays = [
                pa.array(np.ones(count, np.bool_))
                if one.name == MARK
                else batch.column(one.name)
                if one.name in names
                else pa.nulls(count, one.type)
                for one in self.schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True)
class JoinedRows(MergedRows):
    """Function of batches that have all rows of their keys: OLD's states with what the user gives for them."""

    computed: Computed | None = None
    given: tuple[GivenTable, ...] = ()
    #: Whether each key must be one of the savepoint.
    marked: bool = True

    @property
    def merges(self) -> Mapping[str, StateChange]:
        """How rows of one key are made one: of history those of several batches."""
        own = {} if self.computed is None else self.computed.merges()
        return {**super().merges, **own}

    def of_keys(self, keys: KeyRows, rows: pa.RecordBatch, every: pa.RecordBatch, numbers: Longs) -> pa.RecordBatch:
        """Return the rows of NEW, with what is given for each key."""
        states, lookups = dict(keys.states), {}
        known = np.ones(keys.count, np.bool_)
        if self.marked:
            known[:] = False
            known[numbers[np.asarray(every.column(MARK).is_valid())]] = True
        for table in self.given:
            apart = states.pop(table.shape.name)
            if table.known:
                self._expect_known(keys, known, apart.owner, f"backfill {table.name!r}")
            table.expect_once(apart)
            lookups.update(table.lookups(apart))
        if self.computed is not None:
            states |= self.computed.finished(keys.states, keys.count)
            if self.marked:
                self._compare(keys, states, known)
                lookups.update(self._found(keys, states, known))
                if self.computed.history.over is not None:
                    states |= self._over(keys, states, lookups)
        keys = replace(keys, states=states)
        rewrites = replace(self.rewrites, lookups={**self.rewrites.lookups, **lookups})
        if not known.all():
            return _only(rewrites.of_keys(keys, rows), known)
        return rewrites.of_keys(keys, rows)

    def _expect_known(self, keys: KeyRows, known: np.ndarray, owners: Longs, what: str) -> None:
        unknown = np.flatnonzero(~known[owners])
        if len(unknown):
            raise ValueRangeError(
                f"{what} has a key that the savepoint has not",
                found=_key_text(keys, int(owners[unknown[0]])),
                remedy="the history must end where the savepoint was taken: leave out what came later",
            )

    def _compare(self, keys: KeyRows, states: Mapping[str, StateRows], known: np.ndarray) -> None:
        """Raise ValueRangeError where history and savepoint differ, of what both have."""
        assert self.computed is not None
        history = self.computed.history
        if history.aggregates is None:
            return
        state = next(one.name for one in history.operator.states if one.name in ACCUMULATORS)
        rows = states[HISTORY + state]
        self._expect_known(keys, known, rows.owner, "the history")
        there = np.zeros(keys.count, np.bool_)
        there[rows.owner] = True
        if not there[known].all():
            raise ValueRangeError(
                "the history has no row for a key of the savepoint",
                found=_key_text(keys, int(np.flatnonzero(known & ~there)[0])),
                remedy=HISTORY_ENDS,
            )
        self._expect_same(keys, states, state, rows)

    def _expect_same(self, keys: KeyRows, states: Mapping[str, StateRows], state: str, rows: StateRows) -> None:
        """Raise ValueRangeError where the accumulators of the history have other values than those of OLD."""
        assert self.computed is not None
        history = self.computed.history
        for place, name, index in history.compared:
            old = states[name]
            order = pa.array(np.argsort(old.owner, kind="stable"))
            own = pa.array(np.argsort(rows.owner, kind="stable"))
            mine = rows.fields[place].take(own)
            theirs = old.fields[index].take(order)
            if len(mine) != len(theirs):
                continue
            theirs = theirs.cast(mine.type)
            same = pc.fill_null(pc.equal(mine, theirs), False)
            both = pc.and_(mine.is_null(), theirs.is_null())
            different = np.flatnonzero(~np.asarray(pc.or_(same, both)))
            if len(different):
                row = int(different[0])
                field_name = history.operator.state(state)
                assert field_name is not None
                raise ValueRangeError(
                    f"the history does not end where the savepoint was taken: {field_name.columns[place].name} differs",
                    expected=f"{theirs[row].as_py()!r}, which the savepoint has",
                    found=f"{mine[row].as_py()!r} of the history, for {_key_text(keys, int(np.sort(old.owner)[row]))}",
                    remedy=HISTORY_ENDS if history.over is None else SEEN,
                )

    def _found(
        self, keys: KeyRows, states: Mapping[str, StateRows], known: np.ndarray
    ) -> dict[tuple[str, str], Lookup]:
        """Return the fields that are added to rows, found by the key and all other fields of the row."""
        assert self.computed is not None
        found: dict[tuple[str, str], Lookup] = {}
        for name, number in self.computed.history.found:
            change = next(one for one in self.rewrites.changes if one.new is not None and one.new.name == name)
            rows = states[f"{ROWS}{number}"]
            if self.computed.history.operator.transformation in FOLLOWING:
                self._expect_known(keys, known, rows.owner, "the history")
            key = {f"key {place}": column.take(pa.array(rows.owner)) for place, column in enumerate(keys.key)}
            by: list[tuple[str, Expression]] = [(f"key {place}", OldKey(place)) for place in range(len(keys.key))]
            columns, added = dict(key), []
            for place, one in enumerate(change.fields):
                is_added = one.verdict.value == "backfilled"
                if is_added:
                    added.append(place)
                elif one.source is not None:
                    label = f"{place} {one.name}"
                    columns[label] = rows.fields[place]
                    by.append((label, one.source))
            for place in added:
                own = f"{ROWS}{number}\0{change.fields[place].name}"
                table = _distinct(pa.table({**columns, own: rows.fields[place]}), [*columns], own, name)
                found[name, own] = Lookup(table, tuple(by))
        return found

    def _over(
        self, keys: KeyRows, states: Mapping[str, StateRows], lookups: Mapping[tuple[str, str], Lookup]
    ) -> dict[str, StateRows]:
        """Return the accumulators of OVER, over the rows that it keeps, or over all but those that wait there."""
        assert self.computed is not None
        assert self.computed.history.over is not None
        kept = states[BUFFER]
        for change in self.rewrites.changes:
            if change.new is not None and change.new.name == BUFFER:
                own = replace(keys, states=states, by_state=lookups)
                kept = replace(kept, fields=rewritten(change, own).fields)
        if self.computed.history.over.retracts:
            return self.computed.over(without_waiting(kept, states), keys.count)
        found = self.computed.over(_without(states[f"{ROWS}0"], kept), keys.count)
        rows, old = found[HISTORY + OVER], states[OVER]
        other = np.setxor1d(rows.owner, old.owner)
        if len(other):
            has, lacks = ("savepoint", "history") if other[0] in old.owner else ("history", "savepoint")
            raise ValueRangeError(
                f"the {has} has rows of a key, and the {lacks} has none",
                found=_key_text(keys, int(other[0])),
                remedy=SEEN,
            )
        self._expect_same(keys, states, OVER, rows)
        return found


def _without(rows: StateRows, others: StateRows) -> StateRows:
    """Return the rows without as many as there are of each among the others."""
    both = [
        pa.concat_arrays([one, other.cast(one.type)]) for one, other in zip(rows.fields, others.fields, strict=True)
    ]
    owner = np.concatenate([rows.owner, others.owner])
    number = group_numbers(both, len(owner), owner)
    waiting = np.bincount(number[len(rows) :], minlength=int(number.max(initial=0)) + 1)
    own = number[: len(rows)]
    # The last ones of equal rows are those that wait.
    order = np.argsort(own, kind="stable")
    begins = np.flatnonzero(np.diff(own[order], prepend=-1))
    lengths = np.diff(np.append(begins, len(order)))
    places = np.arange(len(order)) - np.repeat(begins, lengths)
    stays = places < np.repeat(lengths, lengths) - waiting[own[order]]
    return rows.take(np.sort(order[stays]))


OVER = "accState"
ACCUMULATORS = (OVER, "window-aggs")
#: What its history must not have.
SEEN = "end it where the savepoint was taken, and leave out rows that were later than the watermark: OVER drops them"


def _distinct(table: pa.Table, by: Sequence[str], own: str, state: str) -> pa.Table:
    """Return each row once; raise ValueRangeError for rows that differ in the added value alone."""
    columns = [table.column(name).combine_chunks() for name in table.column_names]
    every = group_numbers(columns, len(table))
    firsts = np.sort(np.unique(every, return_index=True)[1])
    table = table.take(pa.array(firsts)).combine_chunks()
    found = group_numbers([table.column(name).combine_chunks() for name in by], len(table))
    order = np.argsort(found, kind="stable")
    twice = np.flatnonzero(np.diff(found[order]) == 0)
    if len(twice):
        row = int(order[twice[0]])
        raise ValueRangeError(
            f"rows of the history differ only in {own.partition(chr(0))[2]}, which is added: which of them the "
            "savepoint has is not known",
            state=state,
            found=", ".join(f"{name}={table.column(name)[row].as_py()!r}" for name in by),
            remedy="let the operator begin anew with its whole history, or leave the column out",
        )
    return table


def _key_text(keys: KeyRows, owner: int) -> str:
    values = [repr(column[owner].as_py()) for column in keys.key]
    window = [] if keys.window is None else [f"window end {keys.window[owner].as_py()}"]
    return ", ".join([*values, *window]) or "the only key"


def _only(batch: pa.RecordBatch, known: np.ndarray) -> pa.RecordBatch:
    return batch.filter(pa.array(known))
