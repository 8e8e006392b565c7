"""Keyed rows of an operator as those of another plan: a batch of keys with their states gives a batch of keys.

A row has the key, the window of namespaced states, and a column for each state, as tables ``keyed_state`` and
``window_state`` show them. States that need no other state are computed from their own rows; others of the same key are
at hand, because they are in the same row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import struct_array
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType
from pyspark_savepoint.statebackends.evolution.changes import Expression, FieldSource, StateChange
from pyspark_savepoint.statebackends.evolution.rewriting.descriptors import StateColumns
from pyspark_savepoint.statebackends.evolution.rewriting.lookups import Lookup
from pyspark_savepoint.statebackends.evolution.rewriting.state_rows import (
    LAST_ACCESS,
    PARTS,
    SINGLE,
    StateRows,
    put_together,
    taken_apart,
)
from pyspark_savepoint.statebackends.evolution.rewriting.values import KeyRows, Values
from pyspark_savepoint.statebackends.evolution.shapes import StateShape
from pyspark_savepoint.statebackends.model.descriptors import WINDOW_COLUMN
from pyspark_savepoint.statebackends.model.state_column import LAST_ACCESS as ACCESS_SUFFIX

KEY = "key"
LONG = LogicalType("BIGINT")


@dataclass(frozen=True)
class OldStates:
    """The states of OLD that a table has, with their columns in it."""

    shapes: tuple[tuple[StateShape, str], ...]

    def rows(self, batch: pa.RecordBatch) -> Mapping[str, StateRows]:
        """Return the rows of all states."""
        return {shape.name: self._rows(batch, shape, column) for shape, column in self.shapes}

    @staticmethod
    def _rows(batch: pa.RecordBatch, shape: StateShape, column: str) -> StateRows:
        access = column + ACCESS_SUFFIX
        times = batch.column(access) if shape.ttl and access in batch.schema.names else None
        return taken_apart(shape, batch.column(column), times)


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
    lookups: Mapping[str, Lookup] = field(default_factory=dict)
    now: int = 0
    label: str = ""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of NEW."""
        for batch in batches:
            if not len(batch):
                continue
            try:
                yield self._rewritten(batch)
            except SavepointError as error:
                raise error.with_facts(operator=self.label) from None

    def _rewritten(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return self.of_keys(self.keys(batch), batch)

    def of_keys(self, keys: KeyRows, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of NEW for some keys; ``batch`` has as many rows, with their key and window."""
        columns = [self._key(batch, keys)]
        if WINDOW_COLUMN in self.schema.names:
            columns.append(batch.column(WINDOW_COLUMN))
        for change, one in zip(self.changes, self.columns, strict=True):
            rows = rewritten(change, keys)
            values, access = put_together(_shape(change), rows, one.kind, keys.count, adds=change.merge is not None)
            columns.append(values)
            if one.access is not None:
                columns.append(pa.nulls(keys.count, one.access) if access is None else access.cast(one.access))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def keys(self, batch: pa.RecordBatch) -> KeyRows:
        """Return the keys of a batch with their states."""
        key = tuple(batch.column(KEY).flatten())
        return KeyRows(len(batch), key, self.old.rows(batch), self.lookups, self.now)

    def _key(self, batch: pa.RecordBatch, keys: KeyRows) -> pa.Array:
        if not self.key:
            return batch.column(KEY)
        values = key_values(self.key, keys)
        kind = self.schema.field(KEY).type
        return struct_array(kind, [pa.concat_arrays([value]) for value in values], keys.count)


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
    if change.old is None:
        rows, state = _new_rows(change, keys), None
    else:
        rows, state = keys.states[change.old.name], change.old.name
    values = Values(keys, rows, state)
    fields = rows.fields
    if change.fields:
        fields = tuple(values.of(_source(one), one.kind, one.name) for one in change.fields)
    parts = dict(rows.parts)
    for name, source in change.parts.items():
        parts[name] = values.plain(source, LONG)
    kept = {*PARTS.get(change.new.layout, ()), *([LAST_ACCESS] if change.new.ttl else [])}
    return replace(rows, fields=fields, parts={name: part for name, part in parts.items() if name in kept})


def _new_rows(change: StateChange, keys: KeyRows) -> StateRows:
    """Return the rows of a state that OLD does not have: one for each key of a row, none of others."""
    assert change.new is not None
    count = keys.count if change.new.layout in SINGLE and change.fields else 0
    return StateRows(np.arange(count))
