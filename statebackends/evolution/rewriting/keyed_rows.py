"""Keyed rows of an operator as those of another plan: a batch of keys with their states gives a batch of keys.

A row has the key, the window of namespaced states, and a column for each state, as tables ``keyed_state`` and
``window_state`` show them. States that need no other state are computed from their own rows; others of the same key are
at hand, because they are in the same row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import Longs, fixed_array, struct_array
from pyspark_savepoint.formats.errors import DuplicateKeyError
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType
from pyspark_savepoint.statebackends.evolution.changes import (
    Backfilled,
    Call,
    Expression,
    FieldSource,
    Merge,
    StateChange,
)
from pyspark_savepoint.statebackends.evolution.exact import exactly, raw_type
from pyspark_savepoint.statebackends.evolution.rewriting.batches import of_each
from pyspark_savepoint.statebackends.evolution.rewriting.descriptors import StateColumns
from pyspark_savepoint.statebackends.evolution.rewriting.lookups import Lookup
from pyspark_savepoint.statebackends.evolution.rewriting.state_rows import (
    COUNT,
    LAST_ACCESS,
    NUMBER,
    PARTS,
    RANK,
    SINGLE,
    TIME,
    VALUE,
    StateRows,
    put_together,
    rows_of_column,
)
from pyspark_savepoint.statebackends.evolution.rewriting.values import KeyRows, Values, without_waiting
from pyspark_savepoint.statebackends.evolution.shapes import DISTINCT, Layout, StateShape
from pyspark_savepoint.statebackends.rows.descriptors import WINDOW_COLUMN
from pyspark_savepoint.statebackends.rows.groups import group_numbers
from pyspark_savepoint.statebackends.rows.state_column import LAST_ACCESS as ACCESS_SUFFIX

KEY = "key"
LONG = LogicalType("BIGINT")
NOTHING = pa.nulls(0, pa.int64())


@dataclass(frozen=True)
class Order:
    """A field by which rows are ordered."""

    field: int
    ascending: bool = True
    nulls_last: bool = False


def best_rows(rows: StateRows, limit: int, order: Sequence[Order]) -> StateRows:
    """Return the first rows of each owner, in this order; equal ones by their rank, or as they come."""
    columns = [np.unique(rows.owner, return_inverse=True)[1]]
    for one in order:
        column = rows.fields[one.field]
        ranks = pc.rank(column, "ascending" if one.ascending else "descending", tiebreaker="dense")
        places = np.asarray(ranks, np.int64)
        nulls = np.asarray(column.is_null())
        columns += [np.where(nulls, 1 if one.nulls_last else -1, 0), places]
    if RANK in rows.parts:
        columns.append(np.asarray(rows.parts[RANK], np.int64))
    sorted_rows = np.lexsort([np.arange(len(rows)), *reversed(columns)])
    owner = rows.owner[sorted_rows]
    firsts = np.flatnonzero(np.diff(owner, prepend=-1)) if len(owner) else np.zeros(0, np.int64)
    place = np.arange(len(owner)) - np.repeat(firsts, np.diff(np.append(firsts, len(owner))))
    if RANK not in rows.parts:
        return rows.take(np.sort(sorted_rows[place < limit]))
    best = rows.take(sorted_rows[place < limit])
    ranks = _places_among_equals([best.fields[one.field] for one in order], best.owner)
    return replace(best, parts={**best.parts, RANK: fixed_array(pa.int64(), ranks)})


def _places_among_equals(columns: Sequence[pa.Array], owner: Longs) -> Longs:
    """Return the places of rows among those of their owner with equal values, from 1 on; these are side by side."""
    numbers = group_numbers(columns, len(owner), owner)
    firsts = np.flatnonzero(np.diff(numbers, prepend=-1)) if len(numbers) else np.zeros(0, np.int64)
    return np.arange(len(owner)) - np.repeat(firsts, np.diff(np.append(firsts, len(owner)))) + 1


@dataclass(frozen=True)
class OldStates:
    """The states of OLD, with their columns in a table: none of a state that no key had, which Flink does not write."""

    shapes: tuple[tuple[StateShape, str], ...]

    def rows(self, batch: pa.RecordBatch) -> Mapping[str, StateRows]:
        """Return the rows of all states."""
        return {shape.name: self._rows(batch, shape, column) for shape, column in self.shapes}

    @staticmethod
    def _rows(batch: pa.RecordBatch, shape: StateShape, column: str) -> StateRows:
        if not column:
            return no_rows_of(shape)
        access = column + ACCESS_SUFFIX
        times = batch.column(access) if shape.ttl and access in batch.schema.names else None
        return rows_of_column(shape, batch.column(column), times)


@dataclass(frozen=True)
class RewrittenRows:
    """Function of batches: rows of OLD's states to rows of NEW's.

    ``key`` are the fields of NEW's key, empty if it is the same. ``columns`` are those of the states of ``changes``.
    """

    old: OldStates
    changes: tuple[StateChange, ...]
    columns: tuple[StateColumns, ...]
    schema: pa.Schema
    key: tuple[FieldSource, ...] = ()
    #: What was given, by state of NEW and name.
    lookups: Mapping[tuple[str, str], Lookup] = field(default_factory=dict)
    now: int = 0
    label: str = ""
    #: By state whose rows are limited: fields by which they are ordered.
    orders: Mapping[str, Sequence[Order]] = field(default_factory=dict)
    #: By states of NEW: those of OLD that have their rows.
    partners: Mapping[str, str] = field(default_factory=dict)
    #: The watermark of OLD.
    watermark: int = 0

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of NEW."""
        yield from of_each(self._rewritten, batches, self.label)

    def _rewritten(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return self.of_keys(self.keys(batch), batch)

    def of_keys(self, keys: KeyRows, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of NEW for some keys; ``batch`` has as many rows, with their key and window."""
        keys = replace(keys, partners=dict(self.partners), by_state=self.lookups, watermark=self.watermark)
        keys = with_new_states(self.changes, keys)
        columns = [self._key(batch, keys)]
        if WINDOW_COLUMN in self.schema.names:
            columns.append(batch.column(WINDOW_COLUMN))
        for change, one in zip(self.changes, self.columns, strict=True):
            made = change.old is None and change.new is not None and change.new.name in keys.made
            rows = keys.states[_shape(change).name] if made else rewritten(change, keys)
            if change.limit is not None:
                rows = best_rows(rows, change.limit, self.orders[_shape(change).name])
            values, access = put_together(_shape(change), rows, one.kind, keys.count, adds=change.merge is Merge.ADD)
            columns.append(values)
            if one.access is not None:
                columns.append(pa.nulls(keys.count, one.access) if access is None else access.cast(one.access))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def keys(self, batch: pa.RecordBatch) -> KeyRows:
        """Return the keys of a batch with their states."""
        key = tuple(batch.column(KEY).flatten())
        return KeyRows(len(batch), key, self.old.rows(batch), now=self.now, window=window_ends(batch))

    def _key(self, batch: pa.RecordBatch, keys: KeyRows) -> pa.Array:
        kind = self.schema.field(KEY).type
        if not self.key and batch.column(KEY).type == kind:
            return batch.column(KEY)
        values = key_values(self.key, keys)  # none, if all keys become one
        return struct_array(kind, [pa.concat_arrays([value]) for value in values], keys.count)


def no_rows_of(shape: StateShape) -> StateRows:
    """Return no rows of a state."""
    fields = tuple(pa.nulls(0, raw_type(one.kind)) for one in shape.columns)
    fields = () if shape.layout in WITHOUT_FIELDS else fields
    return StateRows(np.zeros(0, np.int64), fields, dict.fromkeys(PARTS.get(shape.layout, ()), NOTHING))


def window_ends(batch: pa.RecordBatch) -> pa.Array | None:
    """Return the ends of the windows of a batch; None without windows."""
    if WINDOW_COLUMN not in batch.schema.names:
        return None
    window = batch.column(WINDOW_COLUMN)
    return pc.struct_field(window, "end") if pa.types.is_struct(window.type) else window


def _shape(change: StateChange) -> StateShape:
    assert change.new is not None
    return change.new


def key_values(fields: tuple[FieldSource, ...], keys: KeyRows) -> list[pa.Array]:
    """Return the fields of NEW's key for the keys of OLD."""
    values = Values(keys, StateRows(np.arange(keys.count)))
    return [values.of(_source(one), one.kind, one.name) for one in fields]


def _source(one: FieldSource) -> Expression:
    assert one.source is not None, f"{one.name} is decided before anything is written"
    return one.source


def rewritten(change: StateChange, keys: KeyRows) -> StateRows:
    """Return the rows of a state of NEW; they belong to the keys of OLD."""
    assert change.new is not None
    keys = keys.of_state(change.new.name)
    if change.is_emptied:
        return no_rows_of(change.new)
    if change.old is None:
        rows, state = _user_rows(change, keys), None
        if isinstance(change.fields[0].source if change.fields else None, Call) and NUMBER in rows.parts:
            fields = (exactly(rows.fields[0], change.fields[0].kind, change.fields[0].name),)
            return replace(rows, fields=fields)
    else:
        state = change.rows_of or change.old.name
        rows = keys.states[state]
    if change.waiting is not None:
        times = milliseconds(rows.fields[change.waiting.time])
        rows = rows.take(np.flatnonzero((times > keys.watermark) == change.waiting.waits))
    values = Values(keys, rows, state)
    fields = rows.fields
    if (change.fields or not change.new.columns) and change.new.layout not in WITHOUT_FIELDS:
        fields = tuple(values.of(_source(one), one.kind, one.name) for one in change.fields)
    parts = dict(rows.parts)
    for name, source in change.parts.items():
        parts[name] = values.plain(source, LONG)
    wanted = PARTS.get(change.new.layout, ())
    if COUNT in wanted and COUNT not in parts:
        parts[COUNT] = pa.array(np.ones(len(rows), np.int64))
    elif COUNT in parts and COUNT not in wanted:
        _expect_once(parts[COUNT], change.new)
    kept = {*wanted, *([LAST_ACCESS] if change.new.ttl else [])}
    rows = replace(rows, fields=fields, parts={name: part for name, part in parts.items() if name in kept})
    return _counted(rows, change)


def _counted(rows: StateRows, change: StateChange) -> StateRows:
    """Return values of DISTINCT without those that no call of NEW has counted: Flink does not keep them."""
    assert change.new is not None
    name = PARTS.get(change.new.layout, ("",))[0]
    if change.new.layout not in DISTINCT or name not in change.parts or not len(rows):
        return rows
    numbers = rows.parts[name]
    numbers = pc.list_flatten(numbers) if pa.types.is_list(numbers.type) else numbers
    return rows.take(np.flatnonzero(np.asarray(numbers, np.int64).reshape(len(rows), -1).any(axis=1)))


def milliseconds(times: pa.Array) -> Longs:
    """Return times, as Flink stores them, as milliseconds."""
    whole = pc.struct_field(times, 0) if pa.types.is_struct(times.type) else times
    return np.asarray(whole.cast(pa.int64()), np.int64)


@dataclass(frozen=True)
class LatestTime:
    """Function of batches: the latest time of the rows of a state, in milliseconds."""

    old: OldStates
    state: str
    place: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the latest time of each batch that has one."""
        for batch in batches:
            times = milliseconds(self.old.rows(batch)[self.state].fields[self.place])
            if len(times):
                yield pa.RecordBatch.from_arrays([pa.array([times.max()], pa.int64())], schema=LATEST)


LATEST = pa.schema([("latest", pa.int64())])


def _expect_once(counts: pa.Array, state: StateShape) -> None:
    """Raise DuplicateKeyError for a row that is there several times, where NEW keeps it once."""
    most = pc.max(counts).as_py()
    if most is not None and most != 1:
        raise DuplicateKeyError(
            "a row is there several times, and the new query has a unique key of which there is one row",
            state=state.name,
            found=f"{most} equal rows",
            remedy="remove the duplicates first, or leave the primary key out",
        )


def with_new_states(changes: Sequence[StateChange], keys: KeyRows) -> KeyRows:
    """Return keys with the states that OLD does not have, from which others may be computed."""
    states, made = dict(keys.states), []
    for change in changes:
        if change.old is None and change.new is not None and change.new.name not in keys.states:
            states[change.new.name] = rewritten(change, keys)
            made.append(change.new.name)
    return replace(keys, states=states, made=frozenset(made))


#: Layouts whose value is no row.
WITHOUT_FIELDS = (Layout.DISTINCT_NULLS, Layout.DISTINCT_NULL_COUNTS, Layout.OTHER)


def _user_rows(change: StateChange, keys: KeyRows) -> StateRows:
    """Return the rows of a state that OLD does not have: those that the user gave for a key, or one for each key."""
    assert change.new is not None
    if not change.fields or change.new.layout is Layout.OTHER:
        return no_rows_of(change.new)
    if change.new.layout in SINGLE:
        return StateRows(np.arange(keys.count))
    view = change.fields[0].source
    if isinstance(view, Call) and view.function == "view_of_rows":
        return _view(keys, *view.arguments)
    if isinstance(view, Call) and view.function == "nulls_of_rows":
        return _nulls(keys, *view.arguments)
    names = [one.source.name for one in change.fields if isinstance(one.source, Backfilled)]
    if not names:
        return no_rows_of(change.new)
    lookup = keys.lookups[names[0]]
    values = Values(keys, StateRows(np.arange(keys.count)))
    owner, places = lookup.rows_of([values.plain(place, LONG) for _, place in lookup.by])
    given = lookup.table.column(names[0]).combine_chunks().take(pa.array(places))
    if change.new.layout is Layout.DISTINCT_NULLS:
        return StateRows(np.unique(owner[np.asarray(given.is_null())]))
    there = np.flatnonzero(np.asarray(given.is_valid()))
    if change.new.layout is Layout.DISTINCT_VALUES:
        # A set has each value once, however often the user's rows have it.
        number = group_numbers([given.take(pa.array(there))], len(there), owner[there])
        there = there[np.sort(np.unique(number, return_index=True)[1])]
    parts = {NUMBER: pa.array(np.ones(len(there), np.int64))} if change.new.layout is Layout.VALUE_COUNTS else {}
    return StateRows(owner[there], (pa.array(places[there]),), parts)


def _view(keys: KeyRows, state: Any, place: Any) -> StateRows:
    """Return the values of a field of a state's rows, each once for a key, with the number of its rows."""
    rows = keys.states[state.state]
    if NUMBER in rows.parts:
        return rows  # the values of another call, with their numbers
    rows = without_waiting(rows, keys.states) if TIME in rows.parts else rows
    there = np.flatnonzero(np.asarray(rows.fields[place].is_valid()))
    rows = rows.take(there)
    weights = np.asarray(rows.parts[COUNT], np.int64) if COUNT in rows.parts else np.ones(len(rows), np.int64)
    number = group_numbers([rows.fields[place]], len(rows), rows.owner)
    firsts = np.unique(number, return_index=True)[1]
    counts = np.bincount(number, weights=weights, minlength=len(firsts)).astype(np.int64)
    values = rows.fields[place].take(pa.array(firsts))
    return StateRows(rows.owner[firsts], (values,), {NUMBER: pa.array(counts)})


def _nulls(keys: KeyRows, state: Any, place: Any) -> StateRows:
    """Return how often a field of a state's rows is NULL, of each key where it is."""
    rows = without_waiting(keys.states[state.state], keys.states)
    counts = np.bincount(rows.owner[np.asarray(rows.fields[place].is_null())], minlength=keys.count)
    owner = np.flatnonzero(counts)
    return StateRows(owner, (), {VALUE: pa.array(counts[owner].astype(np.int64))})
