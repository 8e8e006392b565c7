"""Comparison of an operator's keyed state in two snapshots by the bytes of its entries; equal entries are not decoded.

::

    entries of both (side, state, key_group, key, value, serialized_key), sorted by serialized_key, state, key, side
      -> pairs with equal bytes are dropped; keys with remaining entries are decoded with the serializers of each side
      -> key, [window], change, changed_states, <state>_before, <state>_after

``change`` is ``added``, ``removed`` or ``changed``. Bytes are those of the canonical format, so snapshots of different
backends can be compared. A value whose bytes changed but whose meaning did not (a renewed time to live, a serializer
that writes more fields) counts as changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import Flags, Ints, Longs, Origin, binary_parts
from pyspark_savepoint.formats.keyed.composite_key import split_composite_keys
from pyspark_savepoint.formats.keyed.keyed_block import CANONICAL, KeyedBlock, binary_column, runs_of
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange
from pyspark_savepoint.statebackends.model.entry_bytes import KEY, KEY_GROUP, SERIALIZED_KEY, STATE, VALUE
from pyspark_savepoint.statebackends.model.rows import join
from pyspark_savepoint.statebackends.sources.keyed_plan import KeyedSplit
from pyspark_savepoint.statebackends.tables.keyed_table import WINDOW, KeyedPartition, KeyedTable, column_names

SIDE, CHANGE, CHANGED_STATES = "side", "change", "changed_states"
BEFORE, AFTER = 0, 1
ADDED, REMOVED, CHANGED = "added", "removed", "changed"
#: First byte of the value of a map entry that is null.
NULL_FLAG = b"\x01"
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

    def column(self, state: str) -> str:
        """Return the column name of a state."""
        return column_names(self.partition.spec.states, self.partition.spec.namespaced)[state]


@dataclass(frozen=True)
class EntryDiff:
    """Function for ``mapInArrow`` from sorted entries of both sides to the rows that differ.

    ``states`` are the state names by entry number, ``maps`` the numbers of map states. Of a map entry whose value is
    null, only the null flag is compared, because backends write different bytes after it.
    """

    states: tuple[str, ...]
    maps: tuple[int, ...]
    sides: tuple[DiffSide | None, DiffSide | None]
    schema: pa.Schema

    @classmethod
    def of(cls, before: KeyedTable | None, after: KeyedTable | None, states: Sequence[str]) -> EntryDiff:
        """Build the comparison from the tables of both snapshots; None where a snapshot has no such table."""
        sides = tuple(DiffSide.of(table) if table is not None else None for table in (before, after))
        schema = pa.schema(list(_fields((before, after), states)))
        metas = {
            name: found
            for table in (before, after)
            if table is not None
            for (name, _), found in table.headers.metas().items()
        }
        maps = tuple(number for number, name in enumerate(states) if metas[name][0].state_type == "MAP")
        return cls(tuple(states), maps, (sides[0], sides[1]), schema)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Compare key by key; the entries of one key may continue in the next batch."""
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            keys = batch.column(SERIALIZED_KEY)
            if not len(keys):
                continue
            first = int(np.flatnonzero(~_equal_to_last(keys))[-1])
            if first == 0 and waiting and waiting[-1].column(SERIALIZED_KEY)[-1] == keys[0]:
                waiting.append(batch)
                continue
            yield from self._of_keys([*waiting, batch.slice(0, first)])
            waiting = [batch.slice(first)]
        yield from self._of_keys(waiting)

    def _of_keys(self, parts: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the rows of keys whose entries are complete."""
        if not any(len(part) for part in parts):
            return
        table = pa.Table.from_batches(parts).combine_chunks()
        differs = ~_in_equal_pairs(table, self.maps)
        key_number = np.cumsum(~_equal_to_last(_one(table.column(SERIALIZED_KEY))))
        wanted = np.isin(key_number, key_number[differs])
        if wanted.any():
            found = self._decoded(table.filter(pa.array(wanted)).combine_chunks(), differs[wanted])
            if len(found):
                yield found

    def _decoded(self, table: pa.Table, differs: Flags) -> pa.RecordBatch:
        side = np.asarray(table.column(SIDE))
        halves = []
        for number, about in enumerate(self.sides):
            rows = np.flatnonzero(side == number)
            parts = [] if about is None else self._half(about, table.take(pa.array(rows)), differs[rows])
            halves.append(_Half.joined(parts, len(self.states)))
        return self._aligned(*halves)

    def _half(self, about: DiffSide, table: pa.Table, differs: Flags) -> list[_Half]:
        """Return the rows of one side, file by file."""
        group = np.asarray(table.column(KEY_GROUP))
        found = []
        for key_groups, header in about.headers:
            rows = np.flatnonzero((group >= key_groups.start) & (group <= key_groups.end))
            if len(rows):
                found.append(self._of_file(about, header, table.take(pa.array(rows)), differs[rows]))
        return found

    def _of_file(self, about: DiffSide, header: KeyedBackendHeader, table: pa.Table, differs: Flags) -> _Half:
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
        return _Half(identity, flags, about.partition.decode(rows, header))

    def _aligned(self, before: _Half, after: _Half) -> pa.RecordBatch:
        """Join the rows of both sides by key; rows that do not differ are left out."""
        identity = pc.unique(pa.concat_arrays([before.identity, after.identity]))
        places = [_places(identity, half.identity) for half in (before, after)]
        flags = np.zeros((len(identity), len(self.states)), np.bool_)
        for place, half in zip(places, (before, after), strict=True):
            there = place >= 0
            flags[there] |= half.flags[place[there]]
        kept = np.flatnonzero(flags.any(axis=1))
        places, flags = [place[kept] for place in places], flags[kept]
        change = np.where(places[BEFORE] < 0, ADDED, np.where(places[AFTER] < 0, REMOVED, CHANGED))
        changed = [[self.states[at] for at in np.flatnonzero(row)] for row in flags]
        arrays: list[pa.Array] = []
        for field in self.schema:
            if field.name == CHANGE:
                arrays.append(pa.array(change.tolist(), pa.string()))
            elif field.name == CHANGED_STATES:
                arrays.append(pa.array(changed, field.type))
            elif len(arrays) < self.schema.get_field_index(CHANGE):
                both = [
                    half.take(field.name, place, field.type)
                    for half, place in zip((before, after), places, strict=True)
                ]
                arrays.append(_first_of(both[BEFORE], both[AFTER], places[BEFORE] >= 0))
            else:
                arrays.append(self._state(len(arrays), (before, after), places, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _state(self, at: int, halves: tuple[_Half, _Half], places: Sequence[Longs], kind: pa.DataType) -> pa.Array:
        number, side = divmod(at - self.schema.get_field_index(CHANGED_STATES) - 1, 2)
        about, state = self.sides[side], self.states[number]
        if about is None or state not in about.partition.spec.states:
            return pa.nulls(len(places[side]), kind)
        return halves[side].take(about.column(state), places[side], kind)


@dataclass(frozen=True)
class _Half:
    """Rows of one side: the bytes of their keys (and windows), which states differ, and their columns."""

    identity: pa.Array
    flags: Flags
    columns: pa.RecordBatch | None

    @classmethod
    def joined(cls, parts: Sequence[_Half], states: int) -> _Half:
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
    known = [table for table in tables if table is not None]
    for name in ("key", WINDOW):
        if name in known[-1].schema.names:
            yield known[-1].schema.field(name).remove_metadata()
    yield pa.field(CHANGE, pa.string())
    yield pa.field(CHANGED_STATES, pa.list_(pa.string()))
    shown = column_names(states, known[-1].spec.namespaced)
    for state in states:
        having = [table for table in known if state in table.spec.states]
        for suffix, table in zip(SUFFIXES, tables, strict=True):
            source = table if table is not None and state in table.spec.states else having[0]
            field = source.schema.field(column_names(source.spec.states, source.spec.namespaced)[state])
            yield pa.field(shown[state] + suffix, field.type, metadata=field.metadata)


def _one(column: pa.ChunkedArray) -> pa.Array:
    """Return a table's column as one array, whatever its number of chunks."""
    joined = column.combine_chunks()
    return pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined


def _equal_to_last(column: pa.Array) -> Flags:
    """Return whether each value equals the one before it."""
    same = pc.equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    return np.concatenate([[False], same]).astype(np.bool_)


def _in_equal_pairs(table: pa.Table, maps: Sequence[int]) -> Flags:
    """Return which entries have the same key and value on both sides; such entries are adjacent."""
    same = np.ones(len(table), np.bool_)
    for name in (SERIALIZED_KEY, STATE, KEY):
        same &= _equal_to_last(_one(table.column(name)))
    value = _one(table.column(VALUE))
    of_map = pc.is_in(_one(table.column(STATE)), value_set=pa.array(maps, pa.int32()))
    null = pc.and_(of_map, pc.starts_with(value, NULL_FLAG))
    same &= _equal_to_last(pc.if_else(null, pa.scalar(NULL_FLAG, pa.binary()), value))
    paired: Flags = same | np.concatenate([same[1:], [False]])
    return paired


def _places(wanted: pa.Array, known: pa.Array) -> Longs:
    found = pc.index_in(wanted, value_set=known)
    places: Longs = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return places


def _first_of(before: pa.Array, after: pa.Array, has_before: Flags) -> pa.Array:
    both = pa.concat_arrays([before, after])
    index = np.arange(len(before))
    return both.take(pa.array(np.where(has_before, index, index + len(before))))


def _block(
    table: pa.Table, state: Ints, group: Ints, header: KeyedBackendHeader, operator: str, namespaced: bool
) -> KeyedBlock:
    """Build a block in the canonical format from entries sorted by key group and state."""
    buffers, spans, base = [], {}, 0
    for name in (KEY, VALUE):
        offsets, data = binary_parts(_one(table.column(name).cast(pa.large_binary())))
        low, high = int(offsets[0]), int(offsets[-1])
        buffers.append(data[low:high])
        spans[name] = offsets.astype(np.int64) - low + base
        base += high - low
    start, end = spans[KEY][:-1].copy(), spans[KEY][1:].copy()
    bounds = [0, *(1 + np.flatnonzero(np.diff(group))).tolist(), len(group)]
    groups = [(int(group[low]), runs_of(state, low, high)) for low, high in pairwise(bounds)]
    return KeyedBlock(
        CANONICAL, header.states, np.concatenate(buffers), Origin(None, 0, operator), state, group,
        start, end, end, end, end, end, spans[VALUE][:-1], spans[VALUE][1:], start, end, groups, namespaced=namespaced,
    )  # fmt: skip
