"""Rows of an operator's keyed state that differ in two snapshots; ``merging`` finds the entries by their bytes.

::

    entries of keys that differ (state, key_group, key, value) before and after, decoded with the serializers of each
    side -> key, [window], change, changed_states, <state>_before, <state>_after

``change`` is ``added``, ``removed`` or ``changed``. Bytes are those of the canonical format, so snapshots of different
backends can be compared. A value whose bytes changed but whose meaning did not (a renewed time to live, a serializer
that writes more fields) counts as changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import Flags, Ints, Longs, Origin, binary_parts, list_array
from pyspark_savepoint.formats.keyed.keyed_block import (
    CANONICAL,
    KeyedBlock,
    Runs,
    binary_column,
    split_composite_keys,
)
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange
from pyspark_savepoint.statebackends.rows.entry_bytes import KEY, KEY_GROUP, STATE, VALUE
from pyspark_savepoint.statebackends.rows.rows import join
from pyspark_savepoint.statebackends.sources.keyed_plan import KeyedSplit
from pyspark_savepoint.statebackends.tables.keyed_table import WINDOW, KeyedPartition, KeyedTable, column_names

CHANGE, CHANGED_STATES = "change", "changed_states"
BEFORE, AFTER = 0, 1
ADDED, REMOVED, CHANGED = "added", "removed", "changed"
SUFFIXES = ("_before", "_after")


@dataclass(frozen=True)
class DiffSide:
    """Table of one snapshot in the form that tasks need: how to decode rows, by the files that key groups come from."""

    partition: KeyedPartition
    headers: tuple[tuple[KeyGroupRange, KeyedBackendHeader], ...]
    operator: str

    @classmethod
    def of(cls, table: KeyedTable) -> DiffSide:
        """Build a side from a table that the driver opened."""
        operator = table.headers.operator
        numbers = operator.parallelism, operator.max_parallelism
        partition = KeyedPartition(KeyedSplit((), ()), table.spec, table.schema, None, *numbers)
        pairs = zip(table.headers.sources, table.headers.headers, strict=True)
        return cls(partition, tuple((source.key_group_range, header) for source, header in pairs), operator.label)

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """The column name of every state."""
        return column_names(self.partition.spec.states, self.partition.spec.namespaced)


@dataclass(frozen=True)
class EntryDiff:
    """Decoder of keys with entries that differ. ``states`` are the state names by entry number."""

    states: tuple[str, ...]
    sides: tuple[DiffSide | None, DiffSide | None]
    schema: pa.Schema

    @classmethod
    def of(cls, before: KeyedTable | None, after: KeyedTable | None, states: Sequence[str]) -> EntryDiff:
        """Build the comparison from the tables of both snapshots; None where a snapshot has no such table."""
        sides = tuple(DiffSide.of(table) if table is not None else None for table in (before, after))
        schema = pa.schema(list(_fields((before, after), states)))
        return cls(tuple(states), (sides[0], sides[1]), schema)

    def decoded(self, halves: tuple[tuple[pa.RecordBatch, Flags], tuple[pa.RecordBatch, Flags]]) -> pa.RecordBatch:
        """Return the rows of some keys, from all of their entries before and after, and which of these differ."""
        joined = []
        for about, (entries, differs) in zip(self.sides, halves, strict=True):
            parts = [] if about is None else self._half(about, entries, differs)
            joined.append(Half.joined(parts, len(self.states)))
        return self.aligned(*joined)

    def _half(self, about: DiffSide, table: pa.RecordBatch, differs: Flags) -> list[Half]:
        """Return the rows of one side, file by file."""
        group = np.asarray(table.column(KEY_GROUP))
        halves = []
        for key_groups, header in about.headers:
            rows = np.flatnonzero((group >= key_groups.start) & (group <= key_groups.end))
            if len(rows):
                halves.append(self._of_file(about, header, table.take(pa.array(rows)), differs[rows]))
        return halves

    def _of_file(self, about: DiffSide, header: KeyedBackendHeader, table: pa.RecordBatch, differs: Flags) -> Half:
        spec = about.partition.spec
        ids = {name: i for name, (i, _) in spec.bind(header, CANONICAL).items()}
        numbers = np.array([ids.get(name, -1) for name in self.states], np.int32)
        state = numbers[np.asarray(table.column(STATE))]
        group = np.asarray(table.column(KEY_GROUP)).astype(np.int32)
        order = np.lexsort((state, group))
        table, state, group = table.take(pa.array(order)), state[order], group[order]
        block = _block(table, state, group, header, about.operator, spec.namespaced)
        split_composite_keys(block, header.key_serializer, set(ids.values()), spec.options)
        block.span_end = block.namespace_end if spec.namespaced else block.key_end
        rows = join(block)
        flags = np.zeros((len(rows), len(self.states)), np.bool_)
        # A state can have many entries per key: one that differs marks the state as changed.
        marked = differs[order]
        flags[rows.row_of[marked], np.asarray(table.column(STATE))[marked]] = True
        identity = binary_column(block.buffer, block.span_start[rows.first], block.span_end[rows.first])
        return Half(identity, flags, about.partition.decode(rows, header))

    def aligned(self, before: Half, after: Half) -> pa.RecordBatch:
        """Join the rows of both sides by key; rows that do not differ are left out."""
        identity = pc.unique(pa.concat_arrays([before.identity, after.identity]))
        places = [places_in(identity, half.identity) for half in (before, after)]
        flags = np.zeros((len(identity), len(self.states)), np.bool_)
        for indices, half in zip(places, (before, after), strict=True):
            present = indices >= 0
            flags[present] |= half.flags[indices[present]]
        kept = np.flatnonzero(flags.any(axis=1))
        places, flags = [indices[kept] for indices in places], flags[kept]
        change = np.where(places[BEFORE] < 0, ADDED, np.where(places[AFTER] < 0, REMOVED, CHANGED))
        _, state = np.nonzero(flags)
        names = pa.array(self.states, pa.string()).take(pa.array(state))
        changed = list_array(pa.list_(pa.string()), np.count_nonzero(flags, axis=1).astype(np.int64), names)
        arrays: list[pa.Array] = []
        for field in self.schema:
            if field.name == CHANGE:
                arrays.append(pa.array(change.tolist(), pa.string()))
            elif field.name == CHANGED_STATES:
                arrays.append(changed)
            elif len(arrays) < self.schema.get_field_index(CHANGE):
                both = [
                    half.take(field.name, indices, field.type)
                    for half, indices in zip((before, after), places, strict=True)
                ]
                arrays.append(_first_of(both[BEFORE], both[AFTER], places[BEFORE] >= 0))
            else:
                arrays.append(self._state(len(arrays), (before, after), places, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _state(self, at: int, halves: tuple[Half, Half], places: Sequence[Longs], kind: pa.DataType) -> pa.Array:
        number, side = divmod(at - self.schema.get_field_index(CHANGED_STATES) - 1, 2)
        about, state = self.sides[side], self.states[number]
        column = about.columns.get(state) if about is not None else None
        if column is None:
            return pa.nulls(len(places[side]), kind)
        return halves[side].take(column, places[side], kind)


@dataclass(frozen=True)
class Half:
    """Rows of one side: the bytes of their keys (and windows), which states differ, and their columns."""

    identity: pa.Array
    flags: Flags
    columns: pa.RecordBatch | None

    @classmethod
    def joined(cls, parts: Sequence[Half], states: int) -> Half:
        """Concatenate the rows of all files of one side."""
        if not parts:
            return cls(pa.array([], pa.binary()), np.zeros((0, states), np.bool_), None)
        columns = pa.Table.from_batches([part.columns for part in parts]).combine_chunks().to_batches()
        identity = pa.concat_arrays([part.identity for part in parts])
        return cls(identity, np.concatenate([part.flags for part in parts]), columns[0])

    def take(self, name: str, places: Longs, kind: pa.DataType) -> pa.Array:
        """Return a column at some row numbers; -1 gives NULL."""
        if self.columns is None:
            return pa.nulls(len(places), kind)
        return self.columns.column(name).take(pa.array(places, mask=places < 0))


def _fields(tables: tuple[KeyedTable | None, KeyedTable | None], states: Sequence[str]) -> Iterator[pa.Field]:
    """Yield the columns; a state that one side lacks has the type of the other side."""
    both_tables = [table for table in tables if table is not None]
    for name in ("key", WINDOW):
        if name in both_tables[-1].schema.names:
            yield both_tables[-1].schema.field(name).remove_metadata()
    yield pa.field(CHANGE, pa.string())
    yield pa.field(CHANGED_STATES, pa.list_(pa.string()))
    names = column_names(states, both_tables[-1].spec.namespaced)
    own = {id(table): column_names(table.spec.states, table.spec.namespaced) for table in both_tables}
    for state in states:
        having = [table for table in both_tables if state in own[id(table)]]
        for suffix, table in zip(SUFFIXES, tables, strict=True):
            source = table if table is not None and state in own[id(table)] else having[0]
            field = source.schema.field(own[id(source)][state])
            yield pa.field(names[state] + suffix, field.type, metadata=field.metadata)


def places_in(values: pa.Array, domain: pa.Array) -> Longs:
    """Return the place of each wanted value among the known ones, -1 for none."""
    indices = pc.index_in(values, value_set=domain)
    places: Longs = pc.fill_null(indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return places


def _first_of(before: pa.Array, after: pa.Array, has_before: Flags) -> pa.Array:
    both = pa.concat_arrays([before, after])
    index = np.arange(len(before))
    return both.take(pa.array(np.where(has_before, index, index + len(before))))


def _block(
    table: pa.RecordBatch, state: Ints, group: Ints, header: KeyedBackendHeader, operator: str, namespaced: bool
) -> KeyedBlock:
    """Build a block in the canonical format from entries sorted by key group and state."""
    buffers, spans, base = [], {}, 0
    for name in (KEY, VALUE):
        offsets, data = binary_parts(table.column(name))
        low, high = int(offsets[0]), int(offsets[-1])
        buffers.append(data[low:high])
        spans[name] = offsets - low + base
        base += high - low
    start, end = spans[KEY][:-1].copy(), spans[KEY][1:].copy()
    return KeyedBlock(
        CANONICAL, header.states, np.concatenate(buffers), Origin(None, 0, operator), state, group,
        start, end, end, end, end, end, spans[VALUE][:-1], spans[VALUE][1:], start, end, Runs.of_sorted(state, group),
        namespaced=namespaced,
    )  # fmt: skip
