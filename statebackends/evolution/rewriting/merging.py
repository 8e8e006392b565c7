"""Rows of several keys of OLD that become one key of NEW.

Keyed rows are distributed and sorted by the key of NEW, in bounded memory; those of one key are then merged: numbers
are added, maps united, lists joined, as the change says. What cannot be merged is an error with the key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Longs, fixed_array, struct_array
from pyspark_savepoint.formats.errors import DuplicateKeyError, SavepointError
from pyspark_savepoint.statebackends.evolution.changes import (
    Expression,
    FieldSource,
    Merge,
    OldField,
    StateChange,
    parts_of,
)
from pyspark_savepoint.statebackends.evolution.rewriting import aggregates
from pyspark_savepoint.statebackends.evolution.rewriting.keyed_rows import (
    KEY,
    OldStates,
    RewrittenRows,
    key_values,
    window_ends,
)
from pyspark_savepoint.statebackends.evolution.rewriting.state_rows import (
    LAST_ACCESS,
    NUMBER,
    PARTS,
    SINGLE,
    StateRows,
    put_together,
)
from pyspark_savepoint.statebackends.evolution.rewriting.values import KeyRows, Values
from pyspark_savepoint.statebackends.evolution.shapes import Layout, StateShape
from pyspark_savepoint.statebackends.rows.descriptors import WINDOW_COLUMN, KeyedDescriptor
from pyspark_savepoint.statebackends.rows.groups import group_numbers
from pyspark_savepoint.statebackends.rows.key_codec import KeyCodec
from pyspark_savepoint.statebackends.rows.sorting import RowSorter, SortedBatch
from pyspark_savepoint.statebackends.rows.state_column import LAST_ACCESS as ACCESS_SUFFIX


@dataclass(frozen=True)
class Rekeyed:
    """Function of batches: rows of OLD's states under the keys of NEW, still as OLD has them.

    ``key`` are the fields of NEW's key by OLD's key; ``by_row`` those by the rows of a state, of states whose rows move
    to keys of their own. ``old_key`` is the column that OLD's key stays in.
    """

    old: OldStates
    key: tuple[FieldSource, ...]
    by_row: Mapping[str, tuple[FieldSource, ...]]
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows with the key of NEW, as many as there are keys."""
        for batch in batches:
            if not len(batch):
                continue
            keys = KeyRows(len(batch), tuple(batch.column(KEY).flatten()), self.old.rows(batch))
            if self.by_row:
                yield from self._by_row(batch, keys)
            else:
                columns = {name: batch.column(name) for name in batch.schema.names}
                columns[KEY] = self._struct(key_values(self.key, keys), keys.count)
                yield self._batch(columns, keys.count)

    def _by_row(self, batch: pa.RecordBatch, keys: KeyRows) -> Iterator[pa.RecordBatch]:
        for shape, column in self.old.shapes:
            rows = keys.states[shape.name]
            if not len(rows) or not column or shape.name not in self.by_row:
                continue  # a state whose rows do not have the key is lost
            values = Values(keys, rows, shape.name)
            fields = [values.of(_expression(one), one.kind, one.name) for one in self.by_row[shape.name]]
            number = group_numbers(fields, len(rows), rows.owner)
            count = int(number.max()) + 1
            first = np.zeros(count, np.int64)
            first[number[::-1]] = np.arange(len(rows))[::-1]
            kind = self.schema.field(column).type
            moved, access = put_together(shape, replace(rows, owner=number), kind, count)
            key = self._struct([field.take(pa.array(first)) for field in fields], count)
            columns = {KEY: key, column: moved}
            if access is not None:
                columns[column + ACCESS_SUFFIX] = access
            if WINDOW_COLUMN in batch.schema.names:
                columns[WINDOW_COLUMN] = batch.column(WINDOW_COLUMN).take(pa.array(rows.owner[first]))
            yield self._batch(columns, count)

    def _struct(self, fields: list[pa.Array], count: int) -> pa.Array:
        return struct_array(self.schema.field(KEY).type, [pa.concat_arrays([one]) for one in fields], count)

    def _batch(self, columns: Mapping[str, pa.Array], count: int) -> pa.RecordBatch:
        arrays = [columns[one.name] if one.name in columns else pa.nulls(count, one.type) for one in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _expression(one: FieldSource) -> Expression:
    assert one.source is not None, f"{one.name} is decided before anything is written"
    return one.source


@dataclass(frozen=True)
class MergedRows:
    """Function of batches that have all rows of their keys: sorts them by key, and merges those of each.

    ``rewrites`` are NEW's states by OLD's, whose keys are those of NEW already.
    """

    rewrites: RewrittenRows
    descriptor: KeyedDescriptor
    max_parallelism: int
    schema: pa.Schema
    memory: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one row for each key."""
        for whole in rows_by_key(batches, self.descriptor, self.max_parallelism, self.schema, self.memory):
            try:
                yield self._merged(whole)
            except SavepointError as error:
                raise error.with_facts(operator=self.rewrites.label) from None

    def _merged(self, batch: SortedBatch) -> pa.RecordBatch:
        numbers = np.cumsum(_begins(batch)) - 1
        count, first = int(numbers[-1]) + 1, np.flatnonzero(_begins(batch))
        rows = batch.rows.take(pa.array(first))
        states = self.states_of(batch.rows, numbers)
        key = tuple(rows.column(KEY).flatten())
        keys = KeyRows(count, key, states, now=self.rewrites.now, window=window_ends(rows))
        return self.of_keys(keys, rows, batch.rows, numbers)

    def states_of(self, rows: pa.RecordBatch, numbers: Longs) -> dict[str, StateRows]:
        """Return the states of the rows, which belong to keys of these numbers, with those of one key merged."""
        merges, states = self.merges, {}
        for name, apart in self.rewrites.old.rows(rows).items():
            shape = next(one for one, _ in self.rewrites.old.shapes if one.name == name)
            moved = replace(apart, owner=numbers[apart.owner])
            try:
                states[name] = moved if name not in merges else merged(shape, moved, merges[name])
            except DuplicateKeyError as error:
                owners = np.sort(moved.owner)
                row = int(np.flatnonzero(numbers == owners[:-1][np.diff(owners) == 0][0])[0])
                values = rows.column(KEY)[row].as_py().values()
                raise error.with_facts(key=", ".join(map(repr, values)) or "the only key") from None
        return states

    @property
    def merges(self) -> Mapping[str, StateChange]:
        """How rows of states of OLD that have one key are made one."""
        return {change.old.name: change for change in self.rewrites.changes if change.old is not None}

    def of_keys(self, keys: KeyRows, rows: pa.RecordBatch, every: pa.RecordBatch, numbers: Longs) -> pa.RecordBatch:
        """Return the rows of NEW; ``rows`` has one for each key, ``every`` all of these numbers."""
        return self.rewrites.of_keys(keys, rows)


@dataclass(frozen=True)
class DistinctRows:
    """Function of batches that have all rows of their keys and namespaces: one row of each."""

    descriptor: KeyedDescriptor
    max_parallelism: int
    schema: pa.Schema
    memory: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the first row of each."""
        for whole in rows_by_key(batches, self.descriptor, self.max_parallelism, self.schema, self.memory):
            yield whole.rows.take(pa.array(np.flatnonzero(_begins(whole))))


@dataclass(frozen=True)
class UniqueRows:
    """Function of batches that have all rows of their keys: equal rows once, such as timers of keys that become one."""

    descriptor: KeyedDescriptor
    max_parallelism: int
    schema: pa.Schema
    memory: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows by key."""
        for whole in rows_by_key(batches, self.descriptor, self.max_parallelism, self.schema, self.memory):
            others = [whole.rows.column(name) for name in whole.rows.schema.names if name != KEY]
            numbers = group_numbers(others, len(whole), np.cumsum(_begins(whole)))
            yield whole.rows.take(pa.array(np.sort(np.unique(numbers, return_index=True)[1])))


def _begins(batch: SortedBatch) -> np.ndarray:
    """Return which rows are the first of their key."""
    keys = batch.key.dictionary_encode().indices.to_numpy()
    groups = batch.key_group
    begins = np.ones(len(batch), np.bool_)
    begins[1:] = (keys[1:] != keys[:-1]) | (groups[1:] != groups[:-1])
    return begins


def rows_by_key(
    batches: Iterable[pa.RecordBatch],
    descriptor: KeyedDescriptor,
    max_parallelism: int,
    schema: pa.Schema,
    memory: int,
) -> Iterator[SortedBatch]:
    """Sort rows by key, if necessary on disk, and yield batches that have all rows of their keys."""
    codec = KeyCodec(descriptor, max_parallelism)
    with RowSorter(schema, memory) as sorter:
        for batch in batches:
            encoded = codec.encode(batch)
            sorter.add(encoded.key_group, encoded.key, batch)
        yield from _whole_keys(sorter.sorted())


def _whole_keys(batches: Iterator[SortedBatch]) -> Iterator[SortedBatch]:
    """Yield sorted rows in batches that have all rows of their keys."""
    held: list[SortedBatch] = []
    for batch in batches:
        if not len(batch):
            continue
        last = int(np.flatnonzero(_begins(batch))[-1])
        same = bool(held) and held[-1].place(len(held[-1]) - 1) == batch.place(0)
        if last or not same:
            head = batch.cut(0, last) if same or last else None
            done = [*held, *([head] if head is not None and len(head) else [])] if same else held
            if done:
                yield _joined(done)
            if not same and last:
                yield batch.cut(0, last)
            held = [batch.cut(last, len(batch))]
        else:
            held.append(batch)
    if held:
        yield _joined(held)


def _joined(batches: list[SortedBatch]) -> SortedBatch:
    if len(batches) == 1:
        return batches[0]
    rows = pa.Table.from_batches([one.rows for one in batches]).combine_chunks().to_batches()[0]
    groups = np.concatenate([one.key_group for one in batches])
    return SortedBatch(groups, pa.concat_arrays([one.key for one in batches]), rows)


# -- one state --------------------------------------------------------------------------------------------------


def merged(shape: StateShape, rows: StateRows, change: StateChange) -> StateRows:
    """Return the rows of a state with those of one key merged, as far as the state has one row for a key."""
    rows = rows.take(np.argsort(rows.owner, kind="stable"))
    several = bool((np.diff(rows.owner) == 0).any())
    if shape.layout in SINGLE:
        return _one_row(shape, rows, change) if several else rows
    if shape.layout in (Layout.DISTINCT_NULLS, Layout.OTHER) and shape.kind == "value":
        return _one_value(shape, rows, change) if several else rows
    if shape.layout is Layout.DISTINCT_VALUES and change.merge is not None:
        return _united(rows, UNITING[change.merge])
    return rows


def _one_row(shape: StateShape, rows: StateRows, change: StateChange) -> StateRows:
    how: dict[int, Merge] = {}
    for one in change.fields:
        for place in _old_fields(one.source, shape.name):
            how[place] = one.merge or Merge.NEVER
    if not change.fields:
        how = dict.fromkeys(range(len(rows.fields)), change.merge or Merge.NEVER)
    if shape.layout is not Layout.ACCUMULATORS and Merge.NEVER in how.values():
        raise DuplicateKeyError(
            "two keys become one, of which the new query keeps one row",
            state=shape.name,
            expected="one row for each new key",
            found="several rows, whose order is not known",
            remedy="let the new query have the old key, or leave one of these keys in the savepoint: remove_keys "
            "removes the others",
        )
    owners, firsts = np.unique(rows.owner, return_index=True)
    count = int(owners[-1]) + 1
    fields = [
        _field(column, rows.owner, count, how[place], shape.columns[place].name).take(pa.array(owners))
        if place in how
        else column.take(pa.array(firsts))
        for place, column in enumerate(rows.fields)
    ]
    parts = {name: _latest(part, rows.owner, count).take(pa.array(owners)) for name, part in rows.parts.items()}
    return StateRows(owners, tuple(fields), parts)


def _latest(part: pa.Array, owner: Longs, count: int) -> pa.Array:
    return aggregates.extreme(part, owner, count, largest=True)


def _field(column: pa.Array, owner: Longs, count: int, how: Merge, name: str) -> pa.Array:
    if how is Merge.SUM:
        total = aggregates.total(column, owner, count)
        try:
            return total.cast(column.type)
        except pa.ArrowInvalid:
            raise DuplicateKeyError(
                f"the sum of {name} of keys that become one does not fit its type",
                expected=str(column.type),
                remedy="let the new query have a wider type",
            ) from None
    if how in (Merge.MIN, Merge.MAX):
        return aggregates.extreme(column, owner, count, largest=how is Merge.MAX)
    least, greatest = (aggregates.extreme(column, owner, count, largest=one) for one in (False, True))
    if how is Merge.SAME and least.equals(greatest):
        return least
    raise DuplicateKeyError(
        f"two keys become one, and their values of {name} cannot be merged",
        expected="COUNT, SUM, AVG, MIN, MAX, or DISTINCT",
        remedy="leave the aggregate out, or let the new query have the old key",
    )


def _old_fields(source: object, state: str) -> list[int]:
    """Return the fields of a state of OLD that an expression has."""
    return [part.index for part in parts_of(source) if isinstance(part, OldField) and part.state == state]


def _one_value(shape: StateShape, rows: StateRows, change: StateChange) -> StateRows:
    owners = np.unique(rows.owner)
    (part,) = PARTS[shape.layout]
    values = np.asarray(rows.parts[part].cast(pa.int64()), np.int64)
    firsts = np.flatnonzero(np.diff(rows.owner, prepend=-1))
    if change.merge is Merge.UNION:
        one = np.bitwise_or.reduceat(values, firsts)
    elif change.merge in (Merge.ADD, Merge.SUM):
        one = np.add.reduceat(values, firsts)
    elif change.merge in (Merge.MAX, Merge.MIN):
        one = (np.maximum if change.merge is Merge.MAX else np.minimum).reduceat(values, firsts)
    else:
        raise DuplicateKeyError(
            f"two keys become one, and their values of state {shape.name!r} cannot be merged", state=shape.name
        )
    parts = {part: fixed_array(pa.int64(), one).cast(rows.parts[part].type)}
    return StateRows(owners, (), parts)


#: How the numbers of equal values become one: bits of calls by OR, counts are added.
UNITING: Mapping[Merge, np.ufunc] = {Merge.UNION: np.bitwise_or, Merge.ADD: np.add}


def _united(rows: StateRows, how: np.ufunc) -> StateRows:
    """Return entries with equal ones of a key as one."""
    number = group_numbers(rows.fields, len(rows), rows.owner)
    order = np.argsort(number, kind="stable")
    firsts = np.flatnonzero(np.diff(number[order], prepend=-1))
    if len(firsts) == len(rows):
        return rows
    bits = how.reduceat(np.asarray(rows.parts[NUMBER], np.int64)[order], firsts)
    one = rows.take(order[firsts])
    parts = {**one.parts, NUMBER: fixed_array(pa.int64(), bits)}
    if LAST_ACCESS in parts:
        times = np.asarray(rows.parts[LAST_ACCESS].cast(pa.int64()), np.int64)[order]
        parts[LAST_ACCESS] = fixed_array(pa.int64(), np.maximum.reduceat(times, firsts))
    return replace(one, parts=parts)
