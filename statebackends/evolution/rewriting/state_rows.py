"""A state's column taken apart into rows, and rows put together to a state's column, by the layout alone.

A row belongs to one row of the batch, its owner: a key, or a key and window. It has the fields of the state's rows, and
what the layout has besides them (:class:`Layout`): its count, its associations, its time, its last access, ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import (
    Longs,
    fixed_array,
    list_array,
    map_array,
    scatter,
    struct_array,
    valid_rows,
)
from pyspark_savepoint.formats.errors import DuplicateKeyError
from pyspark_savepoint.formats.serializers.basic.shapes import list_parts, map_parts
from pyspark_savepoint.statebackends.evolution.shapes import Layout, StateShape
from pyspark_savepoint.statebackends.rows.groups import group_numbers

COUNT, ASSOCIATIONS, NUMBER, COUNTS, TIME, EMITTED, RANK, VALUE = (
    "count", "associations", "number", "counts", "time", "emitted", "rank", "value",
)  # fmt: skip
LAST_ACCESS = "last access"
#: Layouts whose state is a value with one row.
SINGLE = (Layout.ACCUMULATORS, Layout.ROW, Layout.ROW_ASSOCIATED)
#: Layouts whose state is a map from something to a list of rows.
LISTS_IN_MAP = (Layout.ROWS_BY_TIME, Layout.FLAGGED_ROWS_BY_TIME, Layout.ROWS_BY_SORT_KEY)
#: Layouts whose entries have some fields of their row as key: perhaps none, of rows that have no order.
BY_FIELDS = (Layout.ROWS_BY_SORT_KEY, Layout.UNIQUE_ROWS, Layout.UNIQUE_ROWS_ASSOCIATED, Layout.RANKED_ROWS)
#: What rows have besides their fields, in layouts whose rows have something.
PARTS: Mapping[Layout, tuple[str, ...]] = {
    Layout.ROW_ASSOCIATED: (ASSOCIATIONS,),
    Layout.COUNTED_ROWS: (COUNT,),
    Layout.COUNTED_ROWS_ASSOCIATED: (COUNT, ASSOCIATIONS),
    Layout.UNIQUE_ROWS_ASSOCIATED: (ASSOCIATIONS,),
    Layout.DISTINCT_VALUES: (NUMBER,),
    Layout.DISTINCT_COUNTS: (COUNTS,),
    Layout.DISTINCT_NULL_COUNTS: (COUNTS,),
    Layout.VALUE_COUNTS: (NUMBER,),
    Layout.SORT_KEY_COUNTS: (NUMBER,),
    Layout.ROWS_BY_TIME: (TIME,),
    Layout.FLAGGED_ROWS_BY_TIME: (TIME, EMITTED),
    Layout.ROW_BY_NUMBER: (NUMBER,),
    Layout.RANKED_ROWS: (RANK,),
    Layout.DISTINCT_NULLS: (VALUE,),
    Layout.OTHER: (VALUE,),
}
#: Layouts whose entries have a value as key, and numbers of it.
OF_VALUES = (Layout.DISTINCT_VALUES, Layout.DISTINCT_COUNTS, Layout.VALUE_COUNTS)
#: Parts that are added where two entries become one.
NUMBERS = (COUNT, NUMBER)


@dataclass(frozen=True)
class StateRows:
    """Rows of a state: ``owner`` are row numbers of the batch, ``fields`` and ``parts`` have as many values."""

    owner: Longs
    fields: tuple[pa.Array, ...] = ()
    parts: Mapping[str, pa.Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.owner)

    def take(self, rows: Longs) -> StateRows:
        """Return some rows, in another order."""
        places = pa.array(rows)
        fields = tuple(column.take(places) for column in self.fields)
        return StateRows(self.owner[rows], fields, {name: part.take(places) for name, part in self.parts.items()})


def rows_of_column(shape: StateShape, column: pa.Array, access: pa.Array | None = None) -> StateRows:
    """Return the rows of a state's column; ``access`` has the times of last access of its values, if it has them."""
    present = np.flatnonzero(valid_rows(column))
    if len(present) < len(column):
        column = column.take(pa.array(present))
        access = None if access is None else access.take(pa.array(present))
    if shape.kind == "map" or shape.layout is Layout.SORT_KEY_COUNTS:
        rows = _of_map(shape, column, access)
    elif shape.layout is Layout.ROW_LIST:
        rows = _of_list(column, access)
    else:
        rows = _of_value(shape, column, access)
    return replace(rows, owner=present[rows.owner])


def _of_value(shape: StateShape, column: pa.Array, access: pa.Array | None) -> StateRows:
    times = {} if access is None else {LAST_ACCESS: access}
    owner = np.arange(len(column))
    if shape.layout not in SINGLE:
        return StateRows(owner, (), {PARTS[shape.layout][0]: column, **times})
    if shape.layout is Layout.ROW_ASSOCIATED:
        column, associations = column.flatten()
        times[ASSOCIATIONS] = associations
    return StateRows(owner, tuple(column.flatten()), times)


def _of_list(column: pa.Array, access: pa.Array | None) -> StateRows:
    counts, items = list_parts(column)
    owner = np.repeat(np.arange(len(column)), counts)
    times: dict[str, pa.Array] = {}
    if access is not None:
        # A value that is a list has one time, the elements of a list state have one each.
        whole = not pa.types.is_list(access.type)
        times[LAST_ACCESS] = access.take(pa.array(owner)) if whole else list_parts(access)[1]
    return StateRows(owner, tuple(items.flatten()), times)


def _of_map(shape: StateShape, column: pa.Array, access: pa.Array | None) -> StateRows:
    counts, keys, values = map_parts(column)
    owner = np.repeat(np.arange(len(column)), counts)
    parts: dict[str, pa.Array] = {}
    if access is not None:
        # A value that is a map has one time, the entries of a map state have one each.
        whole = not pa.types.is_map(access.type)
        parts[LAST_ACCESS] = access.take(pa.array(owner)) if whole else map_parts(access)[2]
    layout, row = shape.layout, values
    if layout in LISTS_IN_MAP:
        lengths, row = list_parts(values)
        entry = np.repeat(np.arange(len(owner)), lengths)
        owner, keys = owner[entry], keys.take(pa.array(entry))
        parts = {name: part.take(pa.array(entry)) for name, part in parts.items()}
        if layout is not Layout.ROWS_BY_SORT_KEY:
            parts[TIME] = keys
    if layout is Layout.FLAGGED_ROWS_BY_TIME:
        row, parts[EMITTED] = row.flatten()
    elif layout in (Layout.UNIQUE_ROWS_ASSOCIATED, Layout.RANKED_ROWS):
        row, parts[PARTS[layout][0]] = row.flatten()
    elif layout is Layout.ROW_BY_NUMBER:
        parts[NUMBER] = keys
    elif layout is Layout.COUNTED_ROWS_ASSOCIATED:
        row, (parts[COUNT], parts[ASSOCIATIONS]) = keys, values.flatten()
    elif layout in (Layout.COUNTED_ROWS, Layout.SORT_KEY_COUNTS):
        row, parts[PARTS[layout][0]] = keys, values
    elif layout in OF_VALUES:
        parts[PARTS[layout][0]] = values
        return StateRows(owner, tuple(keys.flatten()) if len(shape.columns) > 1 else (keys,), parts)
    elif layout is Layout.OTHER:
        return StateRows(owner, (keys,), {**parts, VALUE: values})
    return StateRows(owner, tuple(row.flatten()), parts)


# -- put together ---------------------------------------------------------------------------------------------


def put_together(
    shape: StateShape, rows: StateRows, kind: pa.DataType, count: int, *, adds: bool = False
) -> tuple[pa.Array, pa.Array | None]:
    """Return a state's column of ``count`` rows of this type, and its times of last access if the rows have them.

    Rows of one owner stay in their order. ``adds``: entries of a map that are equal become one, and their numbers are
    added; without it equal entries are an error of the write.
    """
    if len(rows) and (np.diff(rows.owner) < 0).any():
        rows = rows.take(np.argsort(rows.owner, kind="stable"))
    if adds:
        rows = _added(shape, rows)
    if shape.kind == "map" or shape.layout is Layout.SORT_KEY_COUNTS:
        return _as_map(shape, rows, kind, count)
    if shape.layout is Layout.ROW_LIST:
        return _as_list(shape, rows, kind, count)
    return _as_value(shape, rows, kind, count)


def row_struct(fields: Sequence[pa.Array], kind: pa.DataType, count: int) -> pa.Array:
    """Return a struct column of some fields, of a type with these fields."""
    columns = [_whole(column.cast(one.type)) for column, one in zip(fields, kind, strict=True)]
    return struct_array(kind, columns, count)


def _whole(column: pa.Array) -> pa.Array:
    """Return a column without an offset, which a struct of it would not have."""
    return pa.concat_arrays([column]) if column.offset else column


def _placed(column: pa.Array, owner: Longs, count: int) -> pa.Array:
    valid = np.zeros(count, np.bool_)
    valid[owner] = True
    return scatter(column, valid)


def _as_value(shape: StateShape, rows: StateRows, kind: pa.DataType, count: int) -> tuple[pa.Array, pa.Array | None]:
    twice = np.flatnonzero(np.diff(rows.owner) == 0)
    if len(twice):
        raise DuplicateKeyError(
            "a key would have two values of a state that has one",
            state=shape.name,
            found=", ".join(str(column[int(twice[0])]) for column in rows.fields[:4]),
            remedy="the new query has another unique key, of which the old rows have several: begin without them",
        )
    if shape.layout not in SINGLE:
        values = rows.parts[PARTS[shape.layout][0]].cast(kind)
    elif shape.layout is Layout.ROW_ASSOCIATED:
        row = row_struct(rows.fields, kind.field(0).type, len(rows))
        values = row_struct([row, rows.parts[ASSOCIATIONS]], kind, len(rows))
    else:
        values = row_struct(rows.fields, kind, len(rows))
    access = rows.parts.get(LAST_ACCESS)
    return _placed(values, rows.owner, count), None if access is None else _placed(access, rows.owner, count)


def _lengths(owner: Longs, count: int) -> tuple[Longs, Longs, np.ndarray]:
    """Return the owners that have rows, how many of them, and which of all owners have some."""
    lengths = np.bincount(owner, minlength=count).astype(np.int64)
    return np.flatnonzero(lengths), lengths, lengths > 0


def _as_list(shape: StateShape, rows: StateRows, kind: pa.DataType, count: int) -> tuple[pa.Array, pa.Array | None]:
    owners, lengths, present = _lengths(rows.owner, count)
    items = row_struct(rows.fields, kind.value_type, len(rows))
    column = list_array(kind, lengths, items, present)
    access = rows.parts.get(LAST_ACCESS)
    if access is None:
        return column, None
    if shape.kind == "value":
        last = np.cumsum(lengths)[owners] - 1
        return column, _placed(access.take(pa.array(last)), owners, count)
    return column, list_array(pa.list_(access.type), lengths, _whole(access), present)


def _as_map(shape: StateShape, rows: StateRows, kind: pa.DataType, count: int) -> tuple[pa.Array, pa.Array | None]:
    layout, item = shape.layout, kind.item_type
    owner, access = rows.owner, rows.parts.get(LAST_ACCESS)
    if layout in LISTS_IN_MAP:
        keys = _entry_keys(shape, rows, kind.key_type)
        number = group_numbers([keys], len(rows), owner)
        order = np.argsort(number, kind="stable")
        firsts = np.flatnonzero(np.diff(number[order], prepend=-1))
        lengths = np.diff(np.append(firsts, len(order)))
        row = _list_items(shape, rows.take(order), item.value_type)
        values = list_array(item, lengths, row)
        # Entries in the order of their first rows.
        first_rows = order[firsts]
        by_first = np.argsort(first_rows, kind="stable")
        values, first_rows = values.take(pa.array(by_first)), first_rows[by_first]
        keys, owner = keys.take(pa.array(first_rows)), owner[first_rows]
        access = None if access is None else access.take(pa.array(first_rows))
    else:
        keys, values = _entry_keys(shape, rows, kind.key_type), _entry_values(shape, rows, item)
    _, lengths, present = _lengths(owner, count)
    column = map_array(kind, lengths, _whole(keys), _whole(values), present)
    if access is None:
        return column, None
    if shape.kind == "value":
        owners = np.flatnonzero(lengths)
        last = np.cumsum(lengths)[owners] - 1
        return column, _placed(access.take(pa.array(last)), owners, count)
    times = pa.map_(kind.key_type, access.type)
    return column, map_array(times, lengths, _whole(keys), _whole(access), present)


def _entry_keys(shape: StateShape, rows: StateRows, kind: pa.DataType) -> pa.Array:
    layout = shape.layout
    single = layout in OF_VALUES and len(rows.fields) == 1
    if single or layout is Layout.OTHER:
        return rows.fields[0].cast(kind)
    if layout in (Layout.ROWS_BY_TIME, Layout.FLAGGED_ROWS_BY_TIME):
        return rows.parts[TIME].cast(kind)
    if layout is Layout.ROW_BY_NUMBER:
        return rows.parts[NUMBER].cast(kind)
    fields = [rows.fields[i] for i in shape.by] if shape.layout in BY_FIELDS else rows.fields
    return row_struct(fields, kind, len(rows))


def _entry_values(shape: StateShape, rows: StateRows, kind: pa.DataType) -> pa.Array:
    layout, parts, count = shape.layout, rows.parts, len(rows)
    if layout is Layout.COUNTED_ROWS_ASSOCIATED:
        return row_struct([parts[COUNT], parts[ASSOCIATIONS]], kind, count)
    if layout in (Layout.UNIQUE_ROWS_ASSOCIATED, Layout.RANKED_ROWS):
        row = row_struct(rows.fields, kind.field(0).type, count)
        return row_struct([row, parts[PARTS[layout][0]]], kind, count)
    if layout in (Layout.UNIQUE_ROWS, Layout.ROW_BY_NUMBER):
        return row_struct(rows.fields, kind, count)
    return parts[PARTS[layout][0]].cast(kind)


def _list_items(shape: StateShape, rows: StateRows, kind: pa.DataType) -> pa.Array:
    if shape.layout is not Layout.FLAGGED_ROWS_BY_TIME:
        return row_struct(rows.fields, kind, len(rows))
    row = row_struct(rows.fields, kind.field(0).type, len(rows))
    return row_struct([row, rows.parts[EMITTED]], kind, len(rows))


def _added(shape: StateShape, rows: StateRows) -> StateRows:
    """Return the rows with equal ones of an owner as one, whose numbers are added."""
    fields = [rows.fields[i] for i in shape.by] if shape.layout in BY_FIELDS else list(rows.fields)
    number = group_numbers(fields, len(rows), rows.owner)
    order = np.argsort(number, kind="stable")
    firsts = np.flatnonzero(np.diff(number[order], prepend=-1))
    if len(firsts) == len(rows):
        return rows
    summed = {
        name: fixed_array(
            part.type, np.add.reduceat(np.asarray(part)[order], firsts).astype(part.type.to_pandas_dtype())
        )
        for name, part in rows.parts.items()
        if name in NUMBERS
    }
    if LAST_ACCESS in rows.parts:
        latest = np.maximum.reduceat(np.asarray(pc.cast(rows.parts[LAST_ACCESS], pa.int64()))[order], firsts)
        summed[LAST_ACCESS] = fixed_array(pa.int64(), latest).cast(rows.parts[LAST_ACCESS].type)
    one = rows.take(order[firsts])
    one = replace(one, parts={**one.parts, **summed})
    return one.take(np.argsort(order[firsts], kind="stable"))
