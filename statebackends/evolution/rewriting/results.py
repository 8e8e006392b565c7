"""The result that a sink has by now, as far as it follows from the state of the last operator before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import Longs, struct_array
from pyspark_savepoint.formats.errors import OptionError, UnsupportedStateError, did_you_mean
from pyspark_savepoint.formats.serializers.sql.logical_types import TIMESTAMPS, LogicalType
from pyspark_savepoint.statebackends.evolution.connectors import short
from pyspark_savepoint.statebackends.evolution.exact import exactly, raw_type
from pyspark_savepoint.statebackends.evolution.expected import operators_of
from pyspark_savepoint.statebackends.evolution.expected_rows import primary_key, sink_table, table_columns
from pyspark_savepoint.statebackends.evolution.histories import Step
from pyspark_savepoint.statebackends.evolution.lineage import PASSING
from pyspark_savepoint.statebackends.evolution.plans import Node, Plan
from pyspark_savepoint.statebackends.evolution.rewriting.emissions import emissions_of, orders_of
from pyspark_savepoint.statebackends.evolution.rewriting.emitted import Emission
from pyspark_savepoint.statebackends.evolution.rewriting.history_rows import through
from pyspark_savepoint.statebackends.evolution.rewriting.keyed_rows import KEY, OldStates, Order, best_rows
from pyspark_savepoint.statebackends.evolution.rewriting.merging import rows_by_key
from pyspark_savepoint.statebackends.evolution.rewriting.state_rows import COUNT, StateRows
from pyspark_savepoint.statebackends.evolution.shapes import Column, Layout, OperatorShape
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor
from pyspark_savepoint.statebackends.rows.groups import group_numbers

#: By which keys are distributed; nothing of it is written.
MAX_PARALLELISM = 128
#: Joins, and which of their sides stay without a match.
OUTER = {"LEFT": (True, False), "RIGHT": (False, True), "FULL": (True, True)}


@dataclass(frozen=True)
class SinkResult:
    """What a sink has: the state of one operator, what it emits, and the steps from there; ``key`` are its columns."""

    operator: OperatorShape
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    steps: tuple[Step, ...]
    emission: Emission | None = None
    orders: tuple[Order, ...] = ()
    limit: int | None = None
    join: str | None = None
    residual: Mapping[str, object] | None = field(default=None, hash=False)

    def rows(self, key: tuple[pa.Array, ...], states: Mapping[str, StateRows]) -> tuple[pa.Array, ...]:
        """Return the columns of the result, of some keys of the operator with their states."""
        if self.join is not None:
            columns = self._joined(states)
        elif self.emission is not None:
            columns = self.emission.rows_of(key, states).fields
        else:
            (state,) = [one for one in self.operator.states if one.layout is not Layout.SORT_KEY_COUNTS]
            rows = states[state.name]
            columns = (rows if self.limit is None else best_rows(rows, self.limit, self.orders)).fields
        count = len(columns[0]) if columns else 0
        found, _ = through(self.steps, columns, count)
        kinds = [Column(one.name, one.kind) for one in self.columns]
        return tuple(exactly(column, one.kind, one.name) for column, one in zip(found, kinds, strict=True))

    def _joined(self, states: Mapping[str, StateRows]) -> tuple[pa.Array, ...]:
        """Return the rows of a join: pairs that match, and rows without a match where they stay."""
        left, right = (_repeated(states[one.name]) for one in self.operator.states)
        one, other = _pairs(left.owner, right.owner)
        if self.residual is not None:
            fields = (*(column.take(pa.array(one)) for column in left.fields),)
            fields += tuple(column.take(pa.array(other)) for column in right.fields)
            _, kept = through((Step(None, self.residual),), fields, len(one))
            one, other = one[kept], other[kept]
        sides = OUTER.get(self.join or "", (False, False))
        lonely = [np.setdiff1d(np.arange(len(rows)), taken) for rows, taken in ((left, one), (right, other))]
        if self.join in ("SEMI", "ANTI"):
            chosen = np.unique(one) if self.join == "SEMI" else lonely[0]
            return tuple(column.take(pa.array(chosen)) for column in left.fields)
        more = [alone if stays else alone[:0] for alone, stays in zip(lonely, sides, strict=True)]
        first = pa.array([*one.tolist(), *more[0].tolist(), *[None] * len(more[1])], pa.int64())
        second = pa.array([*other.tolist(), *[None] * len(more[0]), *more[1].tolist()], pa.int64())
        return (*(column.take(first) for column in left.fields), *(column.take(second) for column in right.fields))


def _repeated(rows: StateRows) -> StateRows:
    """Return rows as often as they are there."""
    if COUNT not in rows.parts:
        return StateRows(rows.owner, rows.fields)
    counts = np.asarray(rows.parts[COUNT].cast(pa.int64()), np.int64)
    return StateRows(rows.owner, rows.fields).take(np.repeat(np.arange(len(rows)), counts))


def _pairs(left: Longs, right: Longs) -> tuple[Longs, Longs]:
    """Return all pairs of rows with the same owner."""
    order = np.argsort(right, kind="stable")
    begins = np.searchsorted(right[order], left, "left")
    counts = np.searchsorted(right[order], left, "right") - begins
    one = np.repeat(np.arange(len(left)), counts)
    places = np.arange(len(one)) - np.repeat(np.cumsum(counts) - counts, counts)
    return one, order[np.repeat(begins, counts) + places]


def sink_result(plan: Plan, sink: str | None, argument: str) -> SinkResult:
    """Return how the result of a sink follows from a state.

    Raises:
        OptionError: If the plan has no such sink, or several and none is named.
        UnsupportedStateError: If the result does not follow from one state.

    """
    node = _sink(plan, sink, argument)
    steps: list[Step] = []
    below = plan.inputs(node)[0]
    while below.kind in (*PASSING, "calc"):
        if below.kind == "calc":
            steps.insert(0, Step(tuple(below.attributes["projection"]), below.attributes.get("condition")))
        (below,) = plan.inputs(below)
    table = sink_table(node)
    columns = table_columns(table) or node.output
    upsert = [node.output[int(place)].name for place in node.attributes.get("inputUpsertKey") or ()]
    names = [column.name for column in node.output]
    key = primary_key(table) or tuple(columns[names.index(name)].name for name in upsert)
    own = tuple(Column(one.name, replace(one.kind, nullable=True)) for one in columns)
    shape = next((one for one in operators_of(plan, below) if not one.of_connector), None)
    emission = emissions_of(plan).get(shape.uid) if shape is not None else None
    if shape is None or not shape.known or len(own) != len(node.output):
        raise _unknown(below)
    if below.kind == "join":
        spec = below.attributes["joinSpec"]
        return SinkResult(
            shape, own, key, tuple(steps), join=str(spec["joinType"]), residual=spec.get("nonEquiCondition")
        )
    if below.kind == "rank" and not below.attributes.get("outputRowNumber"):
        orders, limit = orders_of(plan)[shape.uid], int(below.attributes["rankRange"]["end"])
        return SinkResult(shape, own, key, tuple(steps), orders=orders, limit=limit)
    if emission is None:
        raise _unknown(below)
    return SinkResult(shape, own, key, tuple(steps), emission)


def _sink(plan: Plan, named: str | None, argument: str) -> Node:
    sinks = {short(str(sink_table(node).get("identifier") or node.description)): node for node in plan.of_kind("sink")}
    if named is None and len(sinks) == 1:
        return next(iter(sinks.values()))
    if named is None or short(named) not in sinks:
        raise OptionError(
            f"argument 'sink' must name a sink of {argument}",
            expected=" or ".join(map(repr, sinks)),
            found=repr(named),
            remedy=did_you_mean(str(named or ""), sinks),
        )
    return sinks[short(named)]


def _unknown(node: Node) -> UnsupportedStateError:
    return UnsupportedStateError(
        "the result of a sink does not follow from the state of the operator before it",
        found=str(node),
        expected="an aggregate, a join, a deduplication or a Top-N without its rank, and expressions behind it",
        remedy="run the new query over its history once, into a new sink",
    )


@dataclass(frozen=True)
class ResultRows:
    """Function of batches: keyed state of an operator to rows of the sink, in the columns of ``columns``."""

    result: SinkResult
    states: OldStates
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    schema: pa.Schema
    is_new: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows under the key of the sink."""
        for batch in batches:
            yield self.of_batch(batch)

    def of_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch."""
        own = dict(
            zip(
                [one.name for one in self.result.columns],
                self.result.rows(tuple(batch.column(KEY).flatten()), self.states.rows(batch)),
                strict=True,
            )
        )
        count = len(next(iter(own.values()))) if own else 0
        found = {
            one.name: pa.concat_arrays([exactly(own[one.name], one.kind, one.name)])
            if one.name in own
            else pa.nulls(count, raw_type(one.kind))
            for one in self.columns
        }
        kind = self.schema.field(KEY).type
        key = struct_array(kind, [found[name] for name in self.key], count)
        side = pa.array(np.full(count, self.is_new))
        return pa.RecordBatch.from_arrays([key, *found.values(), side], schema=self.schema)


#: The column of the kind of a change, and its values; and the column of the side that a row is of.
CHANGE_TYPE, IS_NEW = "_change_type", "__is_new"
INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_preimage", "update_postimage"


@dataclass(frozen=True)
class ChangedRows:
    """Function of batches that have all rows of their keys: the rows of both sides to the changes between them."""

    descriptor: KeyedDescriptor
    kinds: tuple[Column, ...]
    schema: pa.Schema
    rows: pa.Schema
    memory: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the changes."""
        for whole in rows_by_key(batches, self.descriptor, MAX_PARALLELISM, self.rows, self.memory):
            yield self._changes(whole.rows)

    def _changes(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = [rows.column(one.name) for one in self.kinds]
        is_new = np.asarray(rows.column(IS_NEW))
        owner = group_numbers([rows.column(KEY)], len(rows))
        number = group_numbers(columns, len(rows), owner)
        # As many rows as both sides have are no change.
        places = np.lexsort([is_new, number])
        counts = [np.bincount(number, weights=side, minlength=len(rows)).astype(np.int64) for side in (~is_new, is_new)]
        same = np.minimum(*counts)
        stays = np.zeros(len(rows), np.bool_)
        for side in (False, True):
            own = places[is_new[places] == side]
            begins = np.flatnonzero(np.diff(number[own], prepend=-1))
            lengths = np.diff(np.append(begins, len(own)))
            stays[own] = np.arange(len(own)) - np.repeat(begins, lengths) >= same[number[own]]
        changed = np.flatnonzero(stays)
        gone, came = (
            np.bincount(owner[changed], weights=side[changed], minlength=len(rows)) for side in (~is_new, is_new)
        )
        updates = (gone == 1) & (came == 1)
        order = changed[np.lexsort([is_new[changed], owner[changed]])]
        words = np.where(is_new[order], INSERT, DELETE).astype(object)
        of_update = updates[owner[order]]
        words[of_update] = np.where(is_new[order], AFTER, BEFORE)[of_update]
        taken = pa.array(order)
        shown = [_as_times(column.take(taken), one) for column, one in zip(columns, self.kinds, strict=True)]
        return pa.RecordBatch.from_arrays([*shown, pa.array(words, pa.string())], schema=self.schema)


def user_type(kind: LogicalType) -> pa.DataType:
    """Return the type in which users get values."""
    if kind.root in TIMESTAMPS:
        return pa.timestamp("us", "UTC") if "LOCAL" in kind.root else pa.timestamp("us")
    return raw_type(kind)


def _as_times(column: pa.Array, one: Column) -> pa.Array:
    """Return times that are numbers, as Flink stores them, as times."""
    if one.kind.root not in TIMESTAMPS:
        return column
    millis, nanos = column.flatten() if pa.types.is_struct(column.type) else (column, None)
    micros = pc.multiply(millis, 1000)
    if nanos is not None:
        micros = pc.add(micros, pc.divide(nanos.cast(pa.int64()), 1000))
    return micros.cast(user_type(one.kind))
