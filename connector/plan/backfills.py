"""What a user gives for a changed query: tables by name, as values that are looked up by key or by columns of rows.

A table has the columns that find a value (those of the operator's key, or of the state's rows) and the value itself, in
a column of its name or in the only other one. With the key's columns its rows are distributed and sorted by the key,
together with those of the savepoint. Without them a few rows are held in memory, by every task that rewrites state, and
many are sorted by the columns that find them, together with the rows of the state, which gives them the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import OptionError, did_you_mean, type_name
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType, arrow_type
from pyspark_savepoint.plan.engine import Engine, Rows, gathered
from pyspark_savepoint.plan.joined_states import FoundTableRows, KeyedTable
from pyspark_savepoint.statebackends.evolution.changes import (
    Backfilled,
    Call,
    Cast,
    Evolution,
    Expression,
    FieldSource,
    Nested,
    OldKey,
    OldPart,
    OldState,
    OperatorChange,
    StateChange,
    parts_of,
)
from pyspark_savepoint.statebackends.evolution.exact import as_given, expect_held, holds
from pyspark_savepoint.statebackends.evolution.rewriting.found_rows import SORTED, FoundTable
from pyspark_savepoint.statebackends.evolution.rewriting.joined_rows import GivenTable
from pyspark_savepoint.statebackends.evolution.rewriting.lookups import Lookup, two_values
from pyspark_savepoint.statebackends.evolution.shapes import VIEWS, VOID_NAMESPACE, Column, Layout, StateShape
from pyspark_savepoint.statebackends.rows.groups import group_numbers
from pyspark_savepoint.statebackends.writing.planning.exact_casts import expect_each_name_once

#: The column of the ends of windows, as SQL calls it, and its types: in SQL, and in tables of windows.
WINDOW_END = "window_end"
WINDOW_END_TYPES = tuple(LogicalType(f"TIMESTAMP_{kind}_TIME_ZONE", precision=3) for kind in ("WITHOUT", "WITH_LOCAL"))
#: Layouts whose values are found by the key alone.
BY_KEY = (Layout.ACCUMULATORS, *VIEWS)


@dataclass(frozen=True)
class RequiredField:
    """A field of NEW that a table gives."""

    operator: OperatorChange
    state: StateChange
    field: FieldSource

    @property
    def of_key(self) -> bool:
        """Whether its values are found by the key alone."""
        return self.state.new is not None and (self.state.new.layout in BY_KEY or not self.state.old)

    def by_key(self, names: Sequence[str]) -> bool:
        """Return whether a table with these columns has those of the key, as the rows of the state have them."""
        new, state = self.operator.new, self.state.new
        assert new is not None
        assert state is not None
        if self.of_key:
            return True
        own = {column.name: source for column, source in _finding(self)}
        plain = new.namespace == VOID_NAMESPACE and not self.state.key
        return plain and bool(new.key) and all(column.name in names and column.name in own for column in new.key)


def own_name(name: str, field: FieldSource) -> str:
    """Return a name for the values of one field: an AVG has two under one name of the user's."""
    return f"{name}\0{field.name}"


def with_own_names(evolution: Evolution) -> Evolution:
    """Return the changes with a name of its own for the given values of each field."""
    return replace(
        evolution, operators=tuple(replace(one, states=_own_names(one.states)) for one in evolution.operators)
    )


def _own_names(states: Sequence[StateChange]) -> tuple[StateChange, ...]:
    return tuple(replace(state, fields=tuple(_own(one) for one in state.fields)) for state in states)


def _own(field: FieldSource) -> FieldSource:
    def renamed(source: Any) -> Any:
        if isinstance(source, Backfilled):
            return Backfilled(own_name(source.name, field))
        if isinstance(source, Cast):
            return replace(source, source=renamed(source.source))
        if isinstance(source, Call):
            return replace(source, arguments=tuple(renamed(one) for one in source.arguments))
        if isinstance(source, Nested):
            inner = tuple(replace(one, source=renamed(one.source)) for one in source.fields)
            return replace(source, fields=inner)
        return source

    return replace(field, source=renamed(field.source))


def required_fields(evolution: Evolution) -> dict[str, list[RequiredField]]:
    """Return the fields of NEW that are given, by the names under which they are."""
    result: dict[str, list[RequiredField]] = {}
    for operator in evolution.operators:
        for state in operator.states:
            for one in state.fields:
                for name in backfilled_names(one.source):
                    result.setdefault(name, []).append(RequiredField(operator, state, one))
    return result


def backfilled_names(source: object) -> Iterator[str]:
    """Yield the names of given values in an expression."""
    for part in parts_of(source):
        if isinstance(part, Backfilled):
            yield part.name
        elif isinstance(part, Nested):
            for one in part.fields:
                yield from backfilled_names(one.source)


def with_views(evolution: Evolution) -> Evolution:
    """Return the changes with aggregates that follow from a view which is given under the same name."""
    return replace(
        evolution, operators=tuple(replace(one, states=_of_views(one.states)) for one in evolution.operators)
    )


def _of_views(states: Sequence[StateChange]) -> tuple[StateChange, ...]:
    views = {
        one.source.name: state.new.name
        for state in states
        if state.new is not None and state.old is None and state.new.layout in VIEWS
        if state.new.layout not in (Layout.DISTINCT_NULLS, Layout.DISTINCT_NULL_COUNTS)
        for one in state.fields
        if isinstance(one.source, Backfilled)
    }

    def of_view(field: FieldSource) -> FieldSource:
        if not isinstance(field.source, Backfilled) or field.source.name not in views:
            return field
        source = _aggregate_of(field.name, OldState(views[field.source.name]))
        return field if source is None else replace(field, source=source)

    return tuple(
        replace(state, fields=tuple(map(of_view, state.fields)))
        if state.new is not None and state.new.layout is Layout.ACCUMULATORS
        else state
        for state in states
    )


def _aggregate_of(name: str, view: OldState) -> Expression | None:
    """Return what the field of an accumulator has of the values of its view; None if it does not follow from them."""
    function = name.partition("(")[0]
    if name.endswith(" count of values") or function == "COUNT":
        return Call("count_of_values", (view,))
    if name.endswith(" sum"):
        return Call("zero_if_null", (Call("sum_of_values", (view,)),))
    if function in ("MIN", "MAX") and "DISTINCT" not in name:
        return Call(f"{function.lower()}_structure_of_rows", (view, 0))
    known = {"SUM": "sum_of_values", "MIN": "min_of_values", "MAX": "max_of_values"}
    return Call(known[function], (view,)) if function in known else None


#: Columns by which rows are found, with where a row of a state has the same.
By = tuple[tuple[Column, Expression], ...]
#: Rows of a table that each task holds; more are sorted, together with those of the state.
MOST_HELD = 100_000
T = TypeVar("T")
#: Lookups by the uid of an operator, its state and the name under which the user gave them.
Lookups = Mapping[tuple[str, str, str], Lookup]


@dataclass(frozen=True)
class BackfillInput:
    """What a user gave: ``tables`` by the uid of the operator, ``lookups`` of rows without a key, ``rows`` of history.

    Lookups are held in memory, by every task that rewrites state. ``by_rows`` are those with too many rows for that.
    """

    tables: Mapping[str, tuple[KeyedTable, ...]]
    lookups: Lookups
    rows: Mapping[str, Rows]
    by_rows: Mapping[str, tuple[FoundTableRows, ...]]


def types_of_texts(evolution: Evolution) -> dict[str, dict[str, pa.DataType]]:
    """Return the types of columns that are given as text, such as CSV, by the name under which they are given."""
    columns: dict[str, list[Column]] = {}
    for name, fields in required_fields(evolution).items():
        for one in fields:
            assert one.operator.new is not None
            own = columns.setdefault(name, [*one.operator.new.key])
            own += [] if one.of_key else [column for column, _ in _finding(one)]
            parts = [part for end, part in PARTS_OF_NAMES.items() if one.field.name.endswith(end)]
            own += [Column(each, one.field.kind) for each in (name, name.rpartition(".")[2], one.field.name, *parts)]
    for history in evolution.histories.values():
        for branches in history.inputs:
            for branch in branches:
                columns.setdefault(branch.table, []).extend(one for one in branch.columns if one is not None)
    return {
        name: {column.name: arrow_type(column.kind, DecodeOptions()) for column in own} for name, own in columns.items()
    }


def backfill_input(engine: Engine, backfill: Mapping[str, object], evolution: Evolution) -> BackfillInput:
    """Return what a user gave; raise OptionError for a table that does not fit."""
    wanted = required_fields(evolution)
    lookups: dict[tuple[str, str, str], Lookup] = {}
    tables: dict[str, list[KeyedTable]] = {}
    by_rows: dict[str, list[FoundTableRows]] = {}
    history: dict[str, Rows] = {}
    for name, given in backfill.items():
        rows = engine.rows(given)
        if rows is None:
            raise OptionError(
                f"backfill {name!r} must be given as {engine.rows_are}",
                found=type_name(given),
                remedy=engine.make_rows,
            )
        expect_each_name_once(rows.schema)
        if name in evolution.given_rows and name not in wanted:
            history[name] = rows
            continue
        for together in _together(wanted[name]):
            uid = together[0].operator.new_uid or ""
            if together[0].by_key(rows.schema.names):
                place = f"__given_{len(tables.get(uid, ()))}"
                tables.setdefault(uid, []).append(_keyed_table(name, place, rows, together))
                continue
            for one in together:
                assert one.state.new is not None
                shares = sum(1 for other in wanted[name] if other.state is one.state) > 1
                by, value = _by_and_value(name, rows.schema.names, one, shares=shares)
                types = {column.name: column.kind for column, _ in by}
                expect_held(rows.schema, {**types, value: one.field.kind}, name)
                table: pa.Table | None = None
                if _can_be_sorted(one, by):
                    table, rows = engine.at_most(rows, MOST_HELD)
                else:
                    table = gathered(engine, rows)
                if table is None:
                    place = f"__given_{len(tables.get(uid, ()))}_{len(by_rows.get(uid, ()))}"
                    by_rows.setdefault(uid, []).append(_found_table(name, place, rows, one, by, value))
                    continue
                own = own_name(name, one.field)
                lookups[uid, one.state.new.name, own] = _lookup(name, own, table, one, by, value)
    return BackfillInput(_frozen(tables), lookups, history, _frozen(by_rows))


def _frozen(tables: Mapping[str, Sequence[T]]) -> dict[str, tuple[T, ...]]:
    return {uid: tuple(of_operator) for uid, of_operator in tables.items()}


def _together(fields: Sequence[RequiredField]) -> list[list[RequiredField]]:
    """Return fields that one table gives: of one operator all that are found by the key, others by themselves."""
    found: dict[object, list[RequiredField]] = {}
    for place, one in enumerate(fields):
        found.setdefault(one.operator.new_uid if one.of_key else place, []).append(one)
    return list(found.values())


def _keyed_table(name: str, place: str, rows: Rows, fields: Sequence[RequiredField]) -> KeyedTable:
    """Return a table whose rows are distributed by the key of NEW."""
    first, names = fields[0], rows.schema.names
    assert first.operator.new is not None
    key = first.operator.new.key
    windowed = first.operator.new.namespace != VOID_NAMESPACE
    finding: list[tuple[Column, Expression]] = [(column, OldKey(index)) for index, column in enumerate(key)]
    if windowed:
        finding.append((Column(WINDOW_END, LogicalType("BIGINT")), OldPart("", "window end")))
    if not first.of_key:
        others = [pair for pair in _finding(first) if pair[0].name not in {column.name for column in key}]
        finding += [pair for pair in others if pair[0].name in names and pair[0].name != name]
    _expect_columns(name, finding, names)
    columns, values, kinds = [], [], []
    for one in fields:
        shares = sum(1 for other in fields if other.state is one.state) > 1
        known = [column.name for column, _ in finding]
        value = _part_column(name, names, one.field) if shares else _value_column(name, names, known)
        assert one.state.new is not None
        columns.append(Column(value, one.field.kind))
        kinds.append(Column(one.field.name, replace(one.field.kind, nullable=True)))
        values.append((one.state.new.name, own_name(name, one.field)))
    types = {column.name: column.kind for column in (*(column for column, _ in finding), *columns)}
    if windowed:
        end = rows.schema.field(WINDOW_END).type
        types[WINDOW_END] = next((kind for kind in WINDOW_END_TYPES if holds(end, kind)), WINDOW_END_TYPES[0])
    expect_held(rows.schema, types, name)
    of_rows = [Column(column.name, replace(column.kind, nullable=True)) for column, _ in finding]
    shape = StateShape(place, "list", Layout.ROW_LIST, "", (*of_rows, *kinds))
    once = any(one.state.new is None or one.state.new.layout not in VIEWS for one in fields)
    by = tuple((column.name, source) for column, source in finding)
    table = GivenTable(name, shape, by, tuple(values), once, known=first.of_key)
    own = tuple(column for column, _ in finding)
    return KeyedTable(table, rows, key, (*own, *columns), WINDOW_END if windowed else None)


def _expect_columns(name: str, finding: Sequence[tuple[Column, Expression]], names: Sequence[str]) -> None:
    """Raise OptionError for a table without the columns that find its rows."""
    expected = [column.name for column, _ in finding]
    missing = [one for one in expected if one not in names]
    if not missing:
        return
    none = len(missing) == len(expected)
    raise OptionError(
        f"backfill {name!r} has no column by which its values are found"
        if none
        else f"backfill {name!r} lacks a column of the key",
        expected=", ".join(expected),
        found=", ".join(names),
        remedy=f"give {'the' if none else 'all'} columns of the key under these names",
    )


def _by_and_value(name: str, names: Sequence[str], required: RequiredField, *, shares: bool) -> tuple[By, str]:
    """Return the columns of a table by which its rows are found, which need not be the key, and that of the value."""
    columns = _finding(required)
    finding = [column.name for column, _ in columns]
    value = _part_column(name, names, required.field) if shares else _value_column(name, names, finding)
    by = tuple((column, place) for column, place in columns if column.name in names and column.name != value)
    if not by:
        _expect_columns(name, columns, ())
    return by, value


def _can_be_sorted(required: RequiredField, by: By) -> bool:
    """Return whether the rows of a state and of a table can be sorted by these columns, and rows have the key."""
    new, state = required.operator.new, required.state
    assert new is not None
    names = {column.name for column, _ in _finding(required)}
    has_key = bool(new.key) and all(column.name in names for column in new.key)
    plain = new.namespace == VOID_NAMESPACE and not state.key and state.old is not None
    return has_key and plain and all(column.kind.root in SORTED for column, _ in by)


def _found_table(name: str, place: str, rows: Rows, required: RequiredField, by: By, value: str) -> FoundTableRows:
    """Return a table whose rows are found by columns that are not the key, and then by the key."""
    new = required.operator.new
    assert new is not None

    def keyed(with_key: Rows) -> KeyedTable:
        table = _keyed_table(name, place, with_key, [required])
        return replace(table, table=replace(table.table, once=False))  # equal rows of a state ask for the same

    return FoundTableRows(
        FoundTable(name, by, Column(value, required.field.kind), required.state, new.key), rows, keyed
    )


def _lookup(name: str, own: str, table: pa.Table, required: RequiredField, by: By, value: str) -> Lookup:
    """Return a table whose rows are found by columns of the rows of a state."""

    def values(column: str, kind: LogicalType) -> pa.Array:
        return as_given(table.column(column).combine_chunks(), replace(kind, nullable=True), column, name)

    arrays = {column.name: values(column.name, column.kind) for column, _ in by}
    given = pa.table({**arrays, own: values(value, required.field.kind)})
    _expect_once(name, given, [column.name for column, _ in by])
    return Lookup(given, tuple((column.name, place) for column, place in by))


def _finding(required: RequiredField) -> list[tuple[Column, Expression]]:
    """Return the columns that find a value of a row: its other ones."""
    state = required.state
    assert state.new is not None
    return [
        (column, one.source)
        for column, one in zip(state.new.columns, state.fields, strict=True)
        if one.source is not None and not any(backfilled_names(one.source))
    ]


#: Columns of the parts of an average, by the end of the names of its fields.
PARTS_OF_NAMES = {" sum": "sum", " count of values": "count"}


def _part_column(name: str, names: Sequence[str], field: FieldSource) -> str:
    """Return the column of one of several fields that are given under one name."""
    parts = [part for end, part in PARTS_OF_NAMES.items() if field.name.endswith(end)]
    for one in (field.name, *parts):
        if one in names:
            return one
    raise OptionError(
        f"backfill {name!r} has no column {(parts or [field.name])[0]!r}, because it is kept in parts",
        expected="columns sum and count, for an average" if parts else field.name,
        found=", ".join(names),
        remedy="give SUM and COUNT of the values instead of their average",
    )


def _value_column(name: str, names: Sequence[str], finding: Sequence[str]) -> str:
    short = name.rpartition(".")[2]
    for one in (name, short):
        if one in names:
            return one
    others = [column for column in names if column not in finding]
    if len(others) == 1:
        return others[0]
    raise OptionError(
        f"backfill {name!r} has no column for its value",
        expected=f"column {short!r}, and {', '.join(finding)}",
        found=", ".join(names),
        remedy=did_you_mean(short, names),
    )


def _expect_once(name: str, table: pa.Table, by: Sequence[str]) -> None:
    numbers = group_numbers([table.column(one).combine_chunks() for one in by], len(table))
    order = np.argsort(numbers, kind="stable")
    twice = np.flatnonzero(np.diff(numbers[order]) == 0)
    if len(twice):
        row = int(order[twice[0]])
        raise two_values(name, by, [table.column(one)[row].as_py() for one in by])
