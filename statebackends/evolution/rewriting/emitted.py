"""Rows that an operator would emit by now, computed from its state: those that an operator behind it has, or gets.

An aggregate emits its key and its results, one row for each key; a deduplication emits its row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import struct_array
from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.statebackends.evolution.changes import FieldSource, StateChange
from pyspark_savepoint.statebackends.evolution.exact import WHOLE_NUMBERS, exactly
from pyspark_savepoint.statebackends.evolution.rewriting.batches import of_each
from pyspark_savepoint.statebackends.evolution.rewriting.keyed_rows import KEY, LONG, OldStates
from pyspark_savepoint.statebackends.evolution.rewriting.state_rows import PARTS, RANK, StateRows, put_together
from pyspark_savepoint.statebackends.evolution.rewriting.values import KeyRows, Values
from pyspark_savepoint.statebackends.evolution.shapes import Column, Layout, StateShape


@dataclass(frozen=True)
class Result:
    """A field that an aggregate emits: of a key, or of a function and the fields of its accumulator.

    ``counted``: the accumulator of a SUM has the number of values beside it, because rows are taken out of it.
    """

    column: Column
    function: str
    fields: tuple[int, ...]
    counted: bool = False


@dataclass(frozen=True)
class Emission:
    """What an operator emits of its state ``state``.

    ``results`` are the fields of its output if it aggregates, else its rows are emitted as they are. ``rows`` is the
    field of an accumulator that counts rows: without any, nothing is emitted.
    """

    uid: str
    state: StateShape
    results: tuple[Result, ...] = ()
    rows: int | None = None

    def rows_of(self, key: Sequence[pa.Array], states: Mapping[str, StateRows]) -> StateRows:
        """Return the emitted rows; their owners are the keys."""
        own = states[self.state.name]
        if self.rows is not None:
            own = own.take(np.flatnonzero(np.asarray(pc.greater(own.fields[self.rows], 0))))
        if not self.results:
            return StateRows(own.owner, own.fields)
        owner = pa.array(own.owner)
        fields = tuple(
            key[one.fields[0]].take(owner) if one.function == KEY else _result(one, own) for one in self.results
        )
        return StateRows(own.owner, fields)


def _result(result: Result, rows: StateRows) -> pa.Array:
    function, kind = result.function, result.column.kind
    first = rows.fields[result.fields[0]]
    if function == "AVG":
        return _average(first, rows.fields[result.fields[1]], result)
    if function == "SUM" and result.counted:
        there = pc.not_equal(rows.fields[result.fields[1]], 0)
        first = pc.if_else(there, first, pa.scalar(None, first.type))
    elif function in ("MIN", "MAX", "FIRST_VALUE", "LAST_VALUE") and pa.types.is_struct(first.type):
        first = first.flatten()[0]
    elif function == "LISTAGG":
        first = rows.fields[result.fields[1]]
    return exactly(first, replace(kind, nullable=True), result.column.name)


def _average(total: pa.Array, count: pa.Array, result: Result) -> pa.Array:
    """Return the average of whole numbers, which Flink cuts towards zero; NULL of none."""
    if result.column.kind.root not in WHOLE_NUMBERS:
        raise UnsupportedStateError(
            "an average of numbers that are not whole cannot be computed as Flink does",
            found=f"{result.column.name} {result.column.kind}",
            remedy="give the values in argument 'backfill'",
        )
    counts = np.asarray(count.fill_null(0), np.int64)
    totals = np.asarray(total.fill_null(0), np.int64)
    divisor = np.where(counts == 0, 1, counts)
    values = np.sign(totals) * (np.abs(totals) // divisor)
    return exactly(pa.array(values, mask=counts == 0), replace(result.column.kind, nullable=True), result.column.name)


@dataclass(frozen=True)
class EmittedRows:
    """Function of batches: states of an operator to rows of a state behind it, one for each row that was emitted.

    ``old`` are the states of the operator that emits; ``key`` are the fields of the key of the operator behind it.
    """

    old: OldStates
    emission: Emission
    change: StateChange
    key: tuple[FieldSource, ...]
    schema: pa.Schema
    label: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows under their keys; those of one key are to be merged."""
        yield from of_each(self.of_batch, batches, self.label)

    def of_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch."""
        key = batch.column(KEY).flatten()
        emitted = self.emission.rows_of(key, self.old.rows(batch))
        count = len(emitted)
        rows = StateRows(np.arange(count), emitted.fields)
        values = Values(KeyRows(count, (), {}), rows, self.emission.uid)
        shape = self.change.new
        assert shape is not None
        fields = tuple(values.of(_expression(one), one.kind, one.name) for one in self.change.fields)
        parts = {name: values.plain(source, LONG) for name, source in self.change.parts.items()}
        if shape.layout in (Layout.COUNTED_ROWS, Layout.COUNTED_ROWS_ASSOCIATED) and "count" not in parts:
            parts["count"] = pa.array(np.ones(count, np.int64))
        if shape.layout is Layout.RANKED_ROWS:
            parts[RANK] = pa.array(np.ones(count, np.int64))  # counted when all rows of a key are there
        missing = set(PARTS.get(shape.layout, ())) - parts.keys()
        if missing:
            raise UnsupportedStateError(
                "a state cannot be made of the rows that another operator has emitted: it has more than they tell",
                operator=self.label,
                state=shape.name,
                found=", ".join(sorted(missing)),
                remedy="let the operator keep what it has: the query without this change, or a new job for it",
            )
        column, _ = put_together(shape, replace(rows, fields=fields, parts=parts), self.schema.field(1).type, count)
        kind = self.schema.field(KEY).type
        keys = [pa.concat_arrays([values.of(_expression(one), one.kind, one.name)]) for one in self.key]
        return pa.RecordBatch.from_arrays([struct_array(kind, keys, count), column], schema=self.schema)


def _expression(one: FieldSource) -> Any:
    assert one.source is not None, f"{one.name} is decided before anything is written"
    return one.source
