"""Rows of the user as states of NEW: computed in batches, and made one for each key after they were sorted by it.

A batch gives one row for each of its keys (:class:`HistoryRows`): sums, numbers and extremes of the batch's rows, sets
of their values, or the rows themselves. Those of a key are merged as keys that become one are (:mod:`merging`). What
follows from all rows of a key alone is computed then (:meth:`Computed.finished`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import Longs, struct_array
from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.statebackends.evolution.accumulators import BIGINT, NO_ORDER, WAITING, Buffer
from pyspark_savepoint.statebackends.evolution.changes import FieldSource, Merge, OldField, StateChange, Verdict
from pyspark_savepoint.statebackends.evolution.exact import as_given, exactly, raw_type
from pyspark_savepoint.statebackends.evolution.expected_rows import COUNTER
from pyspark_savepoint.statebackends.evolution.histories import (
    HISTORY,
    ORDERED,
    ROWS,
    Aggregates,
    Branch,
    OperatorHistory,
    Slices,
    Step,
)
from pyspark_savepoint.statebackends.evolution.plans import AggregateCall
from pyspark_savepoint.statebackends.evolution.rewriting import aggregates
from pyspark_savepoint.statebackends.evolution.rewriting.batches import of_each
from pyspark_savepoint.statebackends.evolution.rewriting.descriptors import EXACT
from pyspark_savepoint.statebackends.evolution.rewriting.keyed_rows import KEY, Order, best_rows
from pyspark_savepoint.statebackends.evolution.rewriting.state_rows import (
    ASSOCIATIONS,
    COUNT,
    NUMBER,
    RANK,
    VALUE,
    StateRows,
    put_together,
)
from pyspark_savepoint.statebackends.evolution.rex import RexValues
from pyspark_savepoint.statebackends.evolution.shapes import VIEWS, Column, Layout, StateShape
from pyspark_savepoint.statebackends.rows.descriptors import WINDOW_COLUMN
from pyspark_savepoint.statebackends.rows.groups import group_numbers

#: The column of the place of a row among all that the user gives.
ORDER = "__order"


def input_rows(branch: Branch, batch: pa.RecordBatch) -> tuple[tuple[pa.Array, ...], Longs]:
    """Return the fields of an operator's input for rows of the user, and which of these they are of."""
    columns = [
        pa.nulls(len(batch))
        if column is None
        else as_given(batch.column(column.name), replace(column.kind, nullable=True), column.name, branch.table)
        for column in branch.columns
    ]
    return through(branch.steps, columns, len(batch))


def through(steps: Sequence[Step], columns: Sequence[pa.Array], count: int) -> tuple[tuple[pa.Array, ...], Longs]:
    """Return rows after some steps, and which of the rows before they are."""
    places = np.arange(count)
    for step in steps:
        values = RexValues(columns, count)
        if step.condition is not None:
            there = pc.fill_null(values.of(step.condition), False)
            columns = [column.filter(there) for column in columns]
            places = places[np.asarray(there)]
            count = len(places)
            values = RexValues(columns, count)
        if step.projection is not None:
            columns = [_projected(values, one, count) for one in step.projection]
    return tuple(pa.concat_arrays([column]) for column in columns), places


def _projected(values: RexValues, rex: Mapping[str, Any] | None, count: int) -> pa.Array:
    if rex is None:
        return pa.nulls(count)
    if rex.get("kind") == "CALL" and str(rex.get("internalName", "")).startswith("$PROCTIME$"):
        return pa.nulls(count, pa.int64())  # it is NULL in state, whatever the time
    return values.of(rex)


def slice_ends(slices: Slices, times: pa.Array, watermark: int | None) -> tuple[Longs, np.ndarray]:
    """Return the ends of the slices that rows of these times are in, and which of these are not over."""
    numbers = np.asarray(times.cast(pa.int64()), np.int64) - slices.offset
    ends = numbers - np.mod(numbers, slices.length) + slices.length
    begins = ends - slices.length
    last = begins - np.mod(begins, slices.slide) + slices.size
    if watermark is None:
        return ends + slices.offset, np.ones(len(ends), np.bool_)
    if slices.cumulates:
        # Windows that fired have been added to the first slice.
        first = begins - np.mod(begins, slices.size) + slices.length
        last = first - slices.length + slices.size
        ends = np.where(ends + slices.offset - 1 <= watermark, first, ends)
    return ends + slices.offset, last + slices.offset - 1 > watermark


def next_ends(slices: Slices, ends: Longs, watermark: int) -> Longs:
    """Return the end of the next window that each slice is in, after the watermark."""
    step = slices.length if slices.cumulates else slices.slide
    ahead = ends - slices.size - slices.offset
    least = ends + np.mod(-ahead, step)
    late = np.maximum(watermark + 2 - least, 0)
    return np.where(ends - 1 > watermark, ends, least + -(-late // step) * step)


@dataclass(frozen=True)
class Computed:
    """The states that are computed for an operator; ``orders`` are those of its rank."""

    history: OperatorHistory
    orders: tuple[Order, ...] = ()

    @property
    def partial(self) -> tuple[StateShape, ...]:
        """The states that batches give: accumulators and views, or rows."""
        history, shapes = self.history, []
        for state in history.operator.states if history.aggregates is not None else ():
            if state.layout is Layout.ACCUMULATORS or state.layout in VIEWS:
                shapes.append(replace(state, name=HISTORY + state.name, ttl=0))
        if history.aggregates is None or history.aggregates.in_order:
            shapes += [self._rows(number) for number in range(len(history.inputs))]
        return tuple(shapes)

    def _rows(self, number: int) -> StateShape:
        """Return the state of the rows of an input, in the end with their place among all of them if it matters."""
        columns = self._columns(number)
        if self.history.in_order:
            columns = (*columns, Column(ORDER, BIGINT))
        kind = f"LIST<ROWDATA<{', '.join(str(column.kind) for column in columns)}>>"
        return StateShape(f"{ROWS}{number}", "list", Layout.ROW_LIST, kind, columns, input=number)

    def _columns(self, number: int) -> tuple[Column, ...]:
        if self.history.aggregates is not None:
            calls = self.history.aggregates.calls
            buffers = self.history.aggregates.accumulator.buffers
            kinds = {one.call: one.column for one in buffers if one.call is not None}
            return tuple(
                replace(_argument(kinds[index]), name=str(index))
                for index, call in enumerate(calls)
                if call.function in ORDERED
            )
        states = [state for state in self.history.operator.states if state.input == number]
        return tuple(replace(one, kind=replace(one.kind, nullable=True)) for one in states[0].columns) if states else ()

    def fields(self, shapes: Sequence[StateShape]) -> list[pa.Field]:
        """Return the columns of these states."""
        return [pa.field(shape.name, parse_type(shape.value_type).arrow_type(EXACT)) for shape in shapes]

    def merges(self) -> dict[str, StateChange]:
        """Return how values of batches are made one."""
        found = {}
        for shape in self.partial:
            fields: tuple[FieldSource, ...] = ()
            merge = None
            if shape.layout is Layout.ACCUMULATORS:
                assert self.history.aggregates is not None
                fields = tuple(
                    FieldSource(one.column.name, one.column.kind, Verdict.AS_IS, OldField(shape.name, place), _how(one))
                    for place, one in enumerate(self.history.aggregates.accumulator.buffers)
                )
            elif shape.layout in VIEWS:
                counted = shape.layout is Layout.VALUE_COUNTS or self._retracts
                merge = Merge.ADD if counted else Merge.UNION
            found[shape.name] = StateChange(Verdict.AS_IS, shape, shape, fields, merge=merge)
        return found

    @property
    def _retracts(self) -> bool:
        return self.history.aggregates is not None and self.history.aggregates.retracts

    # -- of a batch ------------------------------------------------------------------------------------------------

    def of_rows(
        self, number: int, columns: Sequence[pa.Array], owner: Longs, count: int, order: pa.Array | None = None
    ) -> dict[str, StateRows]:
        """Return what rows of an input, which belong to these keys, give of each state."""
        found: dict[str, StateRows] = {}
        given = self.history.aggregates
        for shape in self.partial:
            if shape.layout is Layout.ACCUMULATORS:
                assert given is not None
                fields = tuple(_partial(given, one, columns, owner, count) for one in given.accumulator.buffers)
                found[shape.name] = StateRows(np.arange(count), fields)
            elif shape.layout in VIEWS:
                assert given is not None
                found[shape.name] = _view(given, shape, columns, owner)
            elif shape.name == f"{ROWS}{number}":
                own = tuple(self._kept_columns(columns, shape.columns))
                found[shape.name] = StateRows(owner, own if order is None else (*own, order))
        return found

    def _kept_columns(self, columns: Sequence[pa.Array], kept: Sequence[Column]) -> Iterator[pa.Array]:
        kept = [one for one in kept if one.name != ORDER]
        if self.history.aggregates is None:
            # A counter or a flag needs no column of its rows.
            for column, one in zip(columns if kept else (), kept, strict=True):
                yield exactly(column, one.kind, one.name)
            return
        calls = [call for call in self.history.aggregates.calls if call.function in ORDERED]
        for call, one in zip(calls, kept, strict=True):
            column = columns[call.arguments[0]]
            if call.filter >= 0:
                column = pc.if_else(pc.fill_null(columns[call.filter], False), column, pa.scalar(None, column.type))
            yield exactly(column, one.kind, one.name)

    # -- of all rows of a key --------------------------------------------------------------------------------------

    def finished(self, states: Mapping[str, StateRows], count: int) -> dict[str, StateRows]:
        """Return the states with what follows from all rows of their keys."""
        found = {shape.name: states[shape.name] for shape in self.partial}
        if self.history.in_order:
            rows = [shape.name for shape in self.partial if shape.name.startswith(ROWS)]
            found |= {name: _as_they_came(found[name]) for name in rows}
        given = self.history.aggregates
        for state in self.history.operator.states:
            name = HISTORY + state.name
            if given is not None and state.layout is Layout.ACCUMULATORS:
                found[name] = self._accumulators(given, found, name, count)
            elif given is not None and state.layout in VIEWS:
                found[name] = _as_one(found[name])
        if given is None and self.history.whole:
            found |= self._of_input(found, count)
        return found

    def _accumulators(self, given: Aggregates, found: Mapping[str, StateRows], name: str, count: int) -> StateRows:
        rows = found[name]
        fields = list(rows.fields)
        ordered = [index for index, call in enumerate(given.calls) if call.function in ORDERED]
        for place, buffer in enumerate(given.accumulator.buffers):
            if buffer.call is None or buffer.call < 0:
                continue
            call = given.calls[buffer.call]
            values = None
            if call.function in ORDERED:
                own = found[f"{ROWS}0"]
                values = _in_order(call, buffer, own.fields[ordered.index(buffer.call)], own.owner, count)
            elif call.distinct:
                values = _of_set(given, buffer, call, found, count)
            elif buffer.part == "extreme":
                view = _as_one(found[f"{HISTORY}agg{buffer.call}$map"])
                values = _structure(call, buffer, view, count)
            if values is not None:
                fields[place] = exactly(values.take(pa.array(rows.owner)), buffer.column.kind, buffer.column.name)
        return replace(rows, fields=tuple(fields))

    def over(self, rows: StateRows, count: int) -> dict[str, StateRows]:
        """Return the accumulators, and the views, of OVER over these rows."""
        given = self.history.over
        assert given is not None
        found: dict[str, StateRows] = {}
        for state in self.history.operator.states:
            if state.layout is Layout.VALUE_COUNTS:
                found[HISTORY + state.name] = _view(
                    given, replace(state, name=HISTORY + state.name), rows.fields, rows.owner
                )
        fields = [_partial(given, one, rows.fields, rows.owner, count) for one in given.accumulator.buffers]
        for place, buffer in enumerate(given.accumulator.buffers):
            if buffer.part == "extreme":
                view = found[f"{HISTORY}agg{buffer.call}$map"]
                fields[place] = _structure(given.calls[buffer.call or 0], buffer, view, count)
        owners = np.unique(rows.owner)
        own = tuple(field.take(pa.array(owners)) for field in fields)
        return {**found, HISTORY + "accState": StateRows(owners, own)}

    def _of_input(self, found: Mapping[str, StateRows], count: int) -> dict[str, StateRows]:
        """Return the states of an operator that keeps rows of its inputs."""
        own: dict[str, StateRows] = {}
        for state in self.history.operator.states:
            name = HISTORY + state.name
            if state.layout is Layout.OTHER:
                owners, counts = np.unique(found[f"{ROWS}0"].owner, return_counts=True)
                values = pa.array(np.ones(len(owners), np.bool_))
                if state.name == COUNTER:
                    assert self.history.limit is not None
                    values = pa.array(np.minimum(counts, self.history.limit))
                own[name] = StateRows(owners, (), {VALUE: values})
            elif state.layout is Layout.SORT_KEY_COUNTS:
                own[name] = _sort_keys(found[f"{ROWS}0"], self.orders)
            else:
                own[name] = self._rows_of(state, found)
        if self.history.join is not None:
            own = _associated(self.history, own, count)
        return own

    def _rows_of(self, state: StateShape, found: Mapping[str, StateRows]) -> StateRows:
        rows = found[f"{ROWS}{state.input}"]
        kept = self.history.kept
        if kept.in_order:
            rows = _chosen(rows, kept.which, kept.time)
        if state.layout in (Layout.ROW, Layout.ROW_ASSOCIATED) and not kept.in_order and self.history.limit is None:
            rows = rows.take(np.argsort(rows.owner, kind="stable"))
        if self.history.limit is not None:
            rows = best_rows(rows, self.history.limit, self.orders)
        if state.layout in (Layout.COUNTED_ROWS, Layout.COUNTED_ROWS_ASSOCIATED):
            return replace(rows, parts={COUNT: pa.array(np.ones(len(rows), np.int64))})
        if state.layout is Layout.RANKED_ROWS:
            return replace(rows, parts={RANK: pa.array(_ranks(rows, self.orders))})
        return rows


@dataclass(frozen=True)
class HistoryRows:
    """Function of batches: rows of the user to rows of the states that are computed, one for each key of a batch.

    ``watermark``: windows that ended by then are left out.
    """

    computed: Computed
    number: int
    branch: Branch
    schema: pa.Schema
    label: str
    watermark: int | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows, under the keys of NEW."""
        yield from of_each(self.of_batch, batches, self.label)

    def of_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch."""
        history = self.computed.history
        columns, rows = input_rows(self.branch, batch)
        windows = None
        if history.slices is not None:
            times = columns[history.slices.time]
            there = np.asarray(times.is_valid())
            ends, is_open = slice_ends(history.slices, times.fill_null(0), self.watermark)
            there &= is_open
            places = pa.array(np.flatnonzero(there))
            columns, windows = tuple(column.take(places) for column in columns), pa.array(ends[there])
            rows = rows[there]
        count = len(rows)
        keys = history.keys[self.number]
        fields = [
            exactly(columns[place], column.kind, column.name)
            for place, column in zip(keys, history.operator.key, strict=True)
        ]
        owner = group_numbers([*fields, *([windows] if windows is not None else [])], count)
        keys_count = int(owner.max(initial=-1)) + 1
        first = pa.array(np.unique(owner, return_index=True)[1])
        order = batch.column(ORDER).take(pa.array(rows)) if history.in_order else None
        found = self.computed.of_rows(self.number, columns, owner, keys_count, order)
        shapes = {shape.name: shape for shape in self.computed.partial}
        arrays = []
        for one in self.schema:
            if one.name == KEY:
                arrays.append(struct_array(one.type, [field.take(first) for field in fields], keys_count))
            elif one.name == WINDOW_COLUMN and windows is not None:
                arrays.append(windows.take(first).cast(one.type))
            elif one.name in found:
                arrays.append(put_together(shapes[one.name], found[one.name], one.type, keys_count)[0])
            else:
                arrays.append(pa.nulls(keys_count, one.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


#: The columns of the newest times.
TIMES = pa.schema([pa.field("time", pa.int64())])


@dataclass(frozen=True)
class NewestTimes:
    """Function of batches: the newest time, by which windows are made, of the rows of each batch."""

    computed: Computed
    branch: Branch

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row for each batch that has a time."""
        slices = self.computed.history.slices
        assert slices is not None
        for batch in batches:
            newest = pc.max(input_rows(self.branch, batch)[0][slices.time]).as_py()
            if newest is not None:
                yield pa.RecordBatch.from_arrays([pa.array([newest], pa.int64())], schema=TIMES)


def _how(buffer: Buffer) -> Merge:
    """Return how two values of a key are made one; of those that are computed in the end either stays."""
    return buffer.merge if buffer.merge in (Merge.SUM, Merge.MIN, Merge.MAX) else Merge.SAME


def _argument(column: Column) -> Column:
    """Return the argument of an aggregate that depends on the order, which has the type of what it keeps."""
    kind = column.kind
    if kind.root == "ROW":
        kind = kind.children[0]
    return Column(column.name, replace(kind, nullable=True))


def _where(call: AggregateCall, columns: Sequence[pa.Array], count: int) -> np.ndarray:
    if call.filter < 0:
        return np.ones(count, np.bool_)
    return np.asarray(pc.fill_null(columns[call.filter], False))


def _partial(given: Aggregates, buffer: Buffer, columns: Sequence[pa.Array], owner: Longs, count: int) -> pa.Array:
    """Return a field of the accumulators of some rows, one for each key."""
    kind = replace(buffer.column.kind, nullable=True)
    if buffer.call is None:
        return pa.nulls(count, raw_type(kind))
    if buffer.call < 0:
        return pa.array(np.bincount(owner, minlength=count).astype(np.int64))
    call = given.calls[buffer.call]
    if call.distinct or call.function in ORDERED or buffer.part == "extreme":
        return pa.nulls(count, raw_type(kind))
    where = _where(call, columns, len(owner))
    if not call.arguments:
        return pa.array(np.bincount(owner[where], minlength=count).astype(np.int64))
    column = columns[call.arguments[0]]
    for place in call.arguments:
        where = where & np.asarray(columns[place].is_valid())
    if call.function == "COUNT" or buffer.part == "count":
        return pa.array(np.bincount(owner[where], minlength=count).astype(np.int64))
    there = pa.array(np.flatnonzero(where))
    return _of_values(call, buffer, column.take(there), owner[where], count)


def _of_values(call: AggregateCall, buffer: Buffer, column: pa.Array, owner: Longs, count: int) -> pa.Array:
    """Return SUM, the sum of AVG, MIN or MAX of values by key."""
    kind = replace(buffer.column.kind, nullable=True)
    if pa.types.is_nested(column.type) or (
        call.function not in ("MIN", "MAX")
        and not (
            pa.types.is_integer(column.type) or pa.types.is_decimal(column.type) or pa.types.is_floating(column.type)
        )
    ):
        raise UnsupportedStateError(
            "an aggregate of history is not computed here",
            found=f"{buffer.column.name} of {column.type}",
            remedy="give its values by key in argument 'backfill'",
        )
    if call.function in ("MIN", "MAX"):
        return exactly(aggregates.extreme(column, owner, count, largest=call.function == "MAX"), kind, call.name)
    total = exactly(aggregates.total(column, owner, count), kind, buffer.column.name)
    return total if call.function == "SUM" else pc.fill_null(total, pa.scalar(0).cast(total.type))


# -- sets of values -----------------------------------------------------------------------------------------------


def _users(given: Aggregates, shape: StateShape) -> tuple[int, tuple[int, ...]]:
    """Return the argument of a set of DISTINCT values, and the calls that have it."""
    number = int(shape.name.removeprefix(HISTORY).split("_")[1])
    arguments, users = given.accumulator.distinct[number]
    return arguments[0], users


def _view(given: Aggregates, shape: StateShape, columns: Sequence[pa.Array], owner: Longs) -> StateRows:
    """Return the values of a view: each once for a key, with its bits, or with how often it is there."""
    if shape.layout is Layout.VALUE_COUNTS:
        number = int(shape.name.removeprefix(HISTORY + "agg").partition("$")[0])
        call = given.calls[number]
        where = _where(call, columns, len(owner))
        return _counted(columns[call.arguments[0]], owner, where, np.ones(len(owner), np.int64), given)
    argument, users = _users(given, shape)
    column = columns[argument]
    bits = np.zeros(len(owner), np.int64)
    for bit, user in enumerate(users):
        bits |= _where(given.calls[user], columns, len(owner)).astype(np.int64) << bit
    if given.retracts:
        bits = np.ones(len(owner), np.int64)
    if shape.layout is Layout.DISTINCT_VALUES:
        return _counted(column, owner, bits != 0, bits, given)
    where = np.asarray(column.is_null()) & (bits != 0)
    owners, firsts = np.unique(owner[where], return_index=True)
    order = np.argsort(owner[where], kind="stable")
    if not len(owners):
        return StateRows(owners, (), {VALUE: pa.array(np.zeros(0, np.int64))})
    begins = np.flatnonzero(np.diff(owner[where][order], prepend=-1))
    reduce = np.add if given.retracts else np.bitwise_or
    del firsts
    return StateRows(owners, (), {VALUE: pa.array(reduce.reduceat(bits[where][order], begins))})


def _counted(column: pa.Array, owner: Longs, where: np.ndarray, numbers: Longs, given: Aggregates) -> StateRows:
    """Return each value of a key once, without NULL, with its numbers made one."""
    there = np.flatnonzero(where & np.asarray(column.is_valid()))
    rows = StateRows(owner[there], (column.take(pa.array(there)),), {NUMBER: pa.array(numbers[there])})
    return _united(rows, adds=given.retracts)


def _united(rows: StateRows, *, adds: bool) -> StateRows:
    if not len(rows):
        return rows
    number = group_numbers(rows.fields, len(rows), rows.owner)
    order = np.argsort(number, kind="stable")
    firsts = np.flatnonzero(np.diff(number[order], prepend=-1))
    reduce = np.add if adds else np.bitwise_or
    numbers = reduce.reduceat(np.asarray(rows.parts[NUMBER], np.int64)[order], firsts)
    return replace(rows.take(order[firsts]), parts={NUMBER: pa.array(numbers)})


def _as_one(rows: StateRows) -> StateRows:
    """Return a view whose equal values of a key, of several batches, are one: their numbers are added."""
    return _united(rows, adds=True) if NUMBER in rows.parts else rows


def _of_set(
    given: Aggregates, buffer: Buffer, call: AggregateCall, found: Mapping[str, StateRows], count: int
) -> pa.Array:
    """Return a field of a DISTINCT aggregate, of the set of its values."""
    number = next(place for place, (_, users) in enumerate(given.accumulator.distinct) if (buffer.call or 0) in users)
    users = given.accumulator.distinct[number][1]
    view = found[f"{HISTORY}distinctAcc_{number}"]
    if not given.retracts:
        bit = users.index(buffer.call or 0)
        view = view.take(np.flatnonzero(np.asarray(view.parts[NUMBER], np.int64) >> bit & 1))
    if call.function == "COUNT" or buffer.part == "count":
        return pa.array(np.bincount(view.owner, minlength=count).astype(np.int64))
    return _of_values(call, buffer, view.fields[0], view.owner, count)


def _structure(call: AggregateCall, buffer: Buffer, view: StateRows, count: int) -> pa.Array:
    """Return accumulators of MIN or MAX over rows that are also taken out: the extreme, the number of values."""
    kind = raw_type(buffer.column.kind)
    parts = [
        aggregates.extreme(view.fields[0], view.owner, count, largest=call.function == "MAX").cast(kind[0].type),
        pa.array(np.bincount(view.owner, minlength=count).astype(np.int64)).cast(kind[1].type),
        pa.nulls(count, kind[2].type),
    ]
    return struct_array(kind, parts, count)


def _as_they_came(rows: StateRows) -> StateRows:
    """Return rows in the order of their last field, without it."""
    order = np.lexsort([np.asarray(rows.fields[-1].cast(pa.int64()), np.int64), rows.owner])
    return replace(rows, fields=rows.fields[:-1]).take(order)


# -- in the order of rows -----------------------------------------------------------------------------------------


def _in_order(call: AggregateCall, buffer: Buffer, column: pa.Array, owner: Longs, count: int) -> pa.Array:
    """Return a field of LISTAGG, FIRST_VALUE or LAST_VALUE."""
    there = np.flatnonzero(np.asarray(column.is_valid()))
    order = there[np.argsort(owner[there], kind="stable")]
    owners = owner[order]
    if call.function == "LISTAGG":
        if buffer.part == "delimiter":
            return pa.repeat(pa.scalar(","), count)
        lengths = np.bincount(owners, minlength=count)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(offsets), column.take(pa.array(order)))
        joined = pc.binary_join(lists, ",")
        return pc.if_else(pa.array(lengths > 0), joined, pa.scalar(None, pa.string()))
    begins = np.flatnonzero(np.diff(owners, prepend=-1)) if len(owners) else np.zeros(0, np.int64)
    ends = np.append(begins[1:], len(owners)) - 1 if len(owners) else begins
    chosen = order[begins if call.function == "FIRST_VALUE" else ends]
    values = aggregates.placed(column.take(pa.array(chosen)), owner[chosen], count)
    kind = raw_type(buffer.column.kind)
    waits = np.asarray(values.is_null()) & (call.function == "FIRST_VALUE")
    numbers = pa.array(np.where(waits, WAITING, NO_ORDER))
    return struct_array(kind, [values.cast(kind[0].type), numbers], count)


def _chosen(rows: StateRows, which: str, time: int | None) -> StateRows:
    """Return the first or the last row of each key, as they come or by a time."""
    columns = [np.arange(len(rows))]
    if time is not None:
        columns.append(np.asarray(rows.fields[time].cast(pa.int64()).fill_null(0), np.int64))
    order = np.lexsort([*columns, rows.owner])
    owner = rows.owner[order]
    begins = np.flatnonzero(np.diff(owner, prepend=-1)) if len(owner) else np.zeros(0, np.int64)
    places = begins if which == "first" else np.append(begins[1:], len(owner))[: len(begins)] - 1
    return rows.take(order[places])


# -- ranks and joins ----------------------------------------------------------------------------------------------


def _sort_keys(rows: StateRows, orders: Sequence[Order]) -> StateRows:
    """Return how many rows a key has of each sort key, in their order."""
    fields = [rows.fields[one.field] for one in orders]
    rows = best_rows(StateRows(rows.owner, rows.fields), len(rows), orders)
    fields = [rows.fields[one.field] for one in orders]
    number = group_numbers(fields, len(rows), rows.owner)
    counts = np.bincount(number)
    firsts = np.sort(np.unique(number, return_index=True)[1])
    taken = tuple(field.take(pa.array(firsts)) for field in fields)
    return StateRows(rows.owner[firsts], taken, {NUMBER: pa.array(counts[number[firsts]].astype(np.int64))})


def _ranks(rows: StateRows, orders: Sequence[Order]) -> Longs:
    """Return the place of each row among those of its sort key."""
    number = group_numbers([rows.fields[one.field] for one in orders], len(rows), rows.owner)
    order = np.argsort(number, kind="stable")
    begins = np.flatnonzero(np.diff(number[order], prepend=-1))
    lengths = np.diff(np.append(begins, len(order)))
    ranks = np.zeros(len(rows), np.int64)
    ranks[order] = np.arange(len(order)) - np.repeat(begins, lengths)
    return ranks


def _associated(history: OperatorHistory, own: Mapping[str, StateRows], count: int) -> dict[str, StateRows]:
    """Return the sides of a join with the numbers of rows of the other side that match."""
    states = [state for state in history.operator.states if HISTORY + state.name in own]
    sizes = [np.bincount(own[HISTORY + state.name].owner, minlength=count) for state in states]
    found = {}
    for state, matching in zip(states, sizes[::-1], strict=True):
        rows = own[HISTORY + state.name]
        if "associations" in state.layout.value:
            numbers = matching[rows.owner].astype(np.int64)
            rows = replace(rows, parts={**rows.parts, ASSOCIATIONS: pa.array(numbers)})
        found[HISTORY + state.name] = rows
    return found
