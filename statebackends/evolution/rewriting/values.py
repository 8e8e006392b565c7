"""Values of expressions (``changes.Expression``) for rows of a state, a column at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import Longs, struct_array, valid_rows
from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType
from pyspark_savepoint.statebackends.evolution.changes import (
    Backfilled,
    Call,
    Cast,
    Condition,
    Constant,
    Emitted,
    Expression,
    Nested,
    OldField,
    OldKey,
    OldPart,
    OldState,
    Rex,
)
from pyspark_savepoint.statebackends.evolution.exact import exactly, raw_type
from pyspark_savepoint.statebackends.evolution.rewriting import aggregates
from pyspark_savepoint.statebackends.evolution.rewriting.lookups import Lookup
from pyspark_savepoint.statebackends.evolution.rewriting.state_rows import COUNT, COUNTS, NUMBER, TIME, VALUE, StateRows
from pyspark_savepoint.statebackends.evolution.rex import RexValues
from pyspark_savepoint.statebackends.rows.groups import group_numbers


@dataclass(frozen=True)
class KeyRows:
    """The keys of a batch: fields of their key, the rows of their states, and what the user gave for them."""

    count: int
    key: tuple[pa.Array, ...]
    states: Mapping[str, StateRows]
    #: What was given for the state that is computed, by name; and for all states, by state and name.
    lookups: Mapping[str, Lookup] = field(default_factory=dict)
    by_state: Mapping[tuple[str, str], Lookup] = field(default_factory=dict)
    now: int = 0
    #: The watermark of OLD, as far as its rows tell it.
    watermark: int = 0
    #: The end of each key's window.
    window: pa.Array | None = None
    #: States of NEW that OLD does not have, which are among ``states``.
    made: frozenset[str] = frozenset()
    #: Names of states in OLD by those in NEW, where they have a partner.
    partners: Mapping[str, str] = field(default_factory=dict)

    def of_state(self, name: str) -> KeyRows:
        """Return the keys with what was given for one state of NEW."""
        given = {one: lookup for (state, one), lookup in self.by_state.items() if state == name}
        return replace(self, lookups={**self.lookups, **given})


@dataclass(frozen=True)
class Values:
    """Values for the rows of one state, or for the keys themselves (``state`` is None)."""

    keys: KeyRows
    rows: StateRows
    state: str | None = None

    @cached_property
    def owner(self) -> pa.Array:
        return pa.array(self.rows.owner)

    def of(self, source: Expression, kind: LogicalType, name: str) -> pa.Array:
        """Return the values of an expression as those of a type; raise ValueRangeError where one does not fit."""
        return exactly(self.plain(source, kind), kind, name)

    def plain(self, source: Expression, kind: LogicalType) -> pa.Array:
        """Return the values of an expression; ``kind`` is the type that is wanted in the end."""
        match source:
            case OldField():
                return self._field(source)
            case OldKey():
                return self.keys.key[source.index].take(self.owner)
            case OldPart(part="window end"):
                assert self.keys.window is not None
                return self.keys.window.take(self.owner)
            case OldPart():
                return self._of_state(source.state, lambda rows: rows.parts[source.part])
            case Emitted():
                return self.rows.fields[source.index]
            case Constant():
                return self._constant(source.value, kind)
            case Backfilled():
                return self._backfilled(source)
            case Cast():
                plain = self.plain(source.source, source.kind)
                return exactly(plain, source.kind, _field_name(source.source), digits=True)
            case Nested():
                return self._nested(source, kind)
            case Call():
                return self._call(source, kind)
            case Rex():
                operands = [self.plain(operand, kind) for operand in source.operands]
                return RexValues(operands, len(self.rows)).of(source.node)
        return _unknown(type(source).__name__)

    def _field(self, source: OldField) -> pa.Array:
        return self._of_state(source.state, lambda rows: rows.fields[source.index])

    def _of_state(self, state: str, column: Callable[[StateRows], pa.Array]) -> pa.Array:
        """Return a column of this state's rows, or of the one row that another state has for the key."""
        if state == self.state or self.state == NESTED:
            return column(self.rows)
        other = self.keys.states[state]
        return aggregates.placed(column(other), other.owner, self.keys.count).take(self.owner)

    def _constant(self, value: Any, kind: LogicalType) -> pa.Array:
        wanted = raw_type(kind)
        if value is None:
            return pa.nulls(len(self.rows), wanted)
        return pa.repeat(pa.scalar(value, wanted), len(self.rows))

    def _backfilled(self, source: Backfilled) -> pa.Array:
        lookup = self.keys.lookups[source.name]
        if self.state is None and len(self.rows.fields) == 1:
            # Rows that the user gave, by their numbers.
            return lookup.table.column(source.name).combine_chunks().take(self.rows.fields[0])
        columns = [self._by(name, place) for name, place in lookup.by]
        return lookup.values(source.name, columns)

    def _by(self, name: str, place: Expression) -> pa.Array:
        return self.plain(place, LogicalType("NULL"))

    def _nested(self, source: Nested, kind: LogicalType) -> pa.Array:
        whole = self.plain(source.source, kind)
        valid = valid_rows(whole)
        inner = Values(self.keys, StateRows(self.rows.owner, tuple(whole.flatten())), NESTED)
        fields = []
        for one in source.fields:
            expression = one.source if one.source is not None else Constant(None)
            nullable = LogicalType(**{**one.kind.__dict__, "nullable": True})
            fields.append(pa.concat_arrays([inner.of(expression, nullable, one.name)]))
        return struct_array(raw_type(kind), fields, len(whole), valid)

    def _call(self, call: Call, kind: LogicalType) -> pa.Array:
        function = FUNCTIONS.get(call.function)
        if function is None:
            return _unknown(call.function)
        return function(Called(self, call.arguments, kind))


#: The state's name inside of a nested row.
NESTED = "\0nested"


def _unknown(what: str) -> NoReturn:
    raise UnsupportedStateError(
        f"a value of the new query is computed in a way that is not known here: {what}",
        remedy="give its values in argument 'backfill'",
    )


def _field_name(source: Expression) -> str:
    return getattr(source, "name", "") or "a field"


#: The state of OVER that has the time up to which rows were processed.
LAST_TIME = "lastTriggeringTsState"


def without_waiting(rows: StateRows, states: Mapping[str, StateRows]) -> StateRows:
    """Return the rows that OVER keeps without those that wait for their time: they are not in its aggregates."""
    last = states.get(LAST_TIME)
    if last is None:
        return rows
    times = np.full(max(int(rows.owner.max(initial=-1)), int(last.owner.max(initial=-1))) + 1, -(2**63), np.int64)
    times[last.owner] = np.asarray(last.parts[VALUE].cast(pa.int64()), np.int64)
    return rows.take(np.flatnonzero(np.asarray(rows.parts[TIME].cast(pa.int64()), np.int64) <= times[rows.owner]))


# -- functions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Called:
    """A call of a function: what it has as arguments, and the type that is wanted."""

    values: Values
    arguments: tuple[Any, ...]
    kind: LogicalType

    @property
    def columns(self) -> list[pa.Array]:
        """The arguments as columns."""
        return [self.values.plain(one, self.kind) for one in self.arguments]

    @property
    def rows(self) -> StateRows:
        """The rows of the state that is the first argument."""
        (state, *_) = self.arguments
        assert isinstance(state, OldState)
        states = self.values.keys.states
        rows = states[state.state]
        return without_waiting(rows, states) if TIME in rows.parts else rows

    @property
    def column(self) -> pa.Array:
        """The column of these rows that is the second argument, or their only one."""
        return self.rows.fields[self.arguments[1] if len(self.arguments) > 1 else 0]

    @property
    def weights(self) -> Longs:
        """How often each row is there."""
        rows = self.rows
        return np.asarray(rows.parts[COUNT], np.int64) if COUNT in rows.parts else np.ones(len(rows), np.int64)

    def counted(self, weights: Longs) -> pa.Array:
        """Return the sum of the weights of the rows of a key."""
        return self.of_key(pa.array(aggregates.summed(weights, self.rows.owner, self.values.keys.count)))

    def extreme(self, *, largest: bool) -> pa.Array:
        """Return the smallest or largest value of the column by key."""
        count = self.values.keys.count
        return self.of_key(aggregates.extreme(self.column, self.rows.owner, count, largest=largest))

    def of_key(self, values: pa.Array) -> pa.Array:
        """Return the values of the keys for the rows."""
        return values.take(self.values.owner)


def _sum_if_counted(call: Called) -> pa.Array:
    total, count = call.columns
    return pc.if_else(pc.equal(count, 0), pa.scalar(None, total.type), total)


def _zero_if_null(call: Called) -> pa.Array:
    (total,) = call.columns
    return pc.fill_null(total, pa.scalar(0).cast(total.type))


def _count_of_field(call: Called) -> pa.Array:
    return call.counted(call.weights * valid_rows(call.column))


def _sum_of_values(call: Called) -> pa.Array:
    return call.of_key(aggregates.total(call.column, call.rows.owner, call.values.keys.count))


def _sum_of_rows(call: Called) -> pa.Array:
    if COUNT in call.rows.parts:
        _unknown("a sum of rows that are there several times")
    return _sum_of_values(call)


def _set_bits(call: Called) -> pa.Array:
    return pa.array(np.full(len(call.values.rows), call.arguments[0], np.int64))


def _moved_bits(call: Called) -> pa.Array:
    parts = call.values.rows.parts
    old = np.asarray(parts[NUMBER] if NUMBER in parts else parts[VALUE], np.int64)
    new = np.zeros(len(old), np.int64)
    for before, after in zip(call.arguments[::2], call.arguments[1::2], strict=True):
        new |= (old >> before & 1) << after
    return pa.array(new)


def _counts(call: Called) -> pa.Array:
    """Return how often each call of OLD has counted a value, as a list: of one call it is a number."""
    parts = call.values.rows.parts
    if COUNTS in parts:
        return parts[COUNTS]
    number = parts[NUMBER] if NUMBER in parts else parts[VALUE]
    return pa.FixedSizeListArray.from_arrays(number.cast(pa.int64()), 1)


def _counts_of_calls(call: Called) -> pa.Array:
    counts = _counts(call)
    by_call = [np.asarray(pc.list_element(counts, place), np.int64) for place in call.arguments]
    values = np.stack(by_call, axis=1).reshape(-1) if by_call else np.zeros(0, np.int64)
    offsets = np.arange(len(counts) + 1, dtype=np.int32) * len(by_call)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


def _of_partner(call: Called) -> Called:
    """Return the call with the state of OLD whose rows a state of NEW has: there are as many."""
    state = call.arguments[0]
    name = call.values.keys.partners.get(state.state)
    if name is None:
        _unknown("the number of rows that match rows which another operator has emitted")
    return replace(call, arguments=(OldState(name),))


def _associations(call: Called) -> pa.Array:
    """Return how many rows of the other side each row matches; none of a key with NULL, where that matches nothing."""
    partner = _of_partner(call)
    numbers = partner.counted(partner.weights)
    for place in call.arguments[1:]:
        there = call.of_key(call.values.keys.key[place].is_valid())
        numbers = pc.if_else(there, numbers, pa.scalar(0, numbers.type))
    return numbers


#: How many pairs of rows are compared at once.
PAIRS = 1 << 20


def _matching(call: Called) -> pa.Array:
    """Return how many rows of the other side each row matches by the whole condition of a join."""
    partner, condition = _of_partner(call), call.arguments[1]
    assert isinstance(condition, Condition)
    name = partner.arguments[0].state
    values = call.values, Values(call.values.keys.of_state(call.arguments[0].state), partner.rows, name)
    sides = values if condition.of_left else values[::-1]
    columns = [
        one.of(each.source if each.source is not None else Constant(None), replace(each.kind, nullable=True), each.name)
        for one, fields in zip(sides, (condition.left, condition.right), strict=True)
        for each in fields
    ]
    own, other = (one.rows.owner for one in values)
    order = np.argsort(other, kind="stable")
    begins = np.searchsorted(other[order], own, "left")
    lengths = np.searchsorted(other[order], own, "right") - begins
    ends, found, row = np.cumsum(lengths), np.zeros(len(own), np.int64), 0
    while row < len(own):
        before = int(ends[row - 1]) if row else 0
        stop = max(int(np.searchsorted(ends, before + PAIRS, "right")), row + 1)
        count = lengths[row:stop]
        mine = np.repeat(np.arange(row, stop), count)
        theirs = order[np.arange(len(mine)) + np.repeat(begins[row:stop] - (ends[row:stop] - count - before), count)]
        places = [pa.array(one) for one in ((mine, theirs) if condition.of_left else (theirs, mine))]
        left = len(condition.left)
        paired = [column.take(places[number >= left]) for number, column in enumerate(columns)]
        true = np.asarray(pc.fill_null(RexValues(paired, len(mine)).of(condition.node), False))
        found[row:stop] = np.bincount(mine - row, weights=partner.weights[theirs] * true, minlength=stop - row)
        row = stop
    numbers = pa.array(found)
    for place in call.arguments[2:]:
        there = call.of_key(call.values.keys.key[place].is_valid())
        numbers = pc.if_else(there, numbers, pa.scalar(0, numbers.type))
    return numbers


def _structure(call: Called, *, largest: bool) -> pa.Array:
    """Return the accumulator of MIN or MAX with retraction: the extreme, the number of values, and a view."""
    kind = raw_type(call.kind)
    rows, count = call.rows, call.values.keys.count
    if NUMBER in rows.parts:  # a value that was taken out before it came is there less than no times
        rows = rows.take(np.flatnonzero(np.asarray(rows.parts[NUMBER], np.int64) > 0))
    column = rows.fields[call.arguments[1]]
    there = np.asarray(column.is_valid())
    numbers = group_numbers([column], len(rows), rows.owner)
    firsts = np.unique(np.where(there, numbers, -1), return_index=True)[1]
    firsts = firsts[there[firsts]]
    sizes = aggregates.summed(np.ones(len(firsts), np.int64), rows.owner[firsts], count)
    extreme = aggregates.extreme(column, rows.owner, count, largest=largest)
    parts = [call.of_key(extreme), call.of_key(pa.array(sizes)), pa.nulls(len(call.values.rows), kind[2].type)]
    columns = [pa.concat_arrays([part.cast(one.type)]) for part, one in zip(parts, kind, strict=True)]
    return struct_array(kind, columns, len(call.values.rows))


FUNCTIONS: Mapping[str, Callable[[Called], pa.Array]] = {
    "sum_if_counted": _sum_if_counted,
    "zero_if_null": _zero_if_null,
    "count_of_values": _count_of_field,
    "sum_of_values": _sum_of_values,
    "min_of_values": lambda call: call.extreme(largest=False),
    "max_of_values": lambda call: call.extreme(largest=True),
    "set_bits": _set_bits,
    "moved_bits": _moved_bits,
    "counts_of_calls": _counts_of_calls,
    "count_of_call": lambda call: pc.list_element(_counts(call), call.arguments[0]),
    "count_of_rows": lambda call: call.counted(call.weights),
    "sum_of_rows": _sum_of_rows,
    "count_of_field": _count_of_field,
    "min_of_rows": lambda call: call.extreme(largest=False),
    "max_of_rows": lambda call: call.extreme(largest=True),
    "min_structure_of_rows": lambda call: _structure(call, largest=False),
    "max_structure_of_rows": lambda call: _structure(call, largest=True),
    "associations": lambda call: _associations(call),
    "new_associations": lambda call: _associations(call),
    "matching": lambda call: _matching(call),
    "true": lambda call: pa.array(np.ones(len(call.values.rows), np.bool_)),
}
