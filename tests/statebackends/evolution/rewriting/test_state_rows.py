"""Every layout of a state is taken apart into rows, and the rows are put together to the same column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint.formats.errors import DuplicateKeyError
from pyspark_savepoint.formats.serializers.notation.lexer import Tokens
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.serializers.notation.sql import logical_type
from pyspark_savepoint.statebackends.evolution.rewriting.descriptors import EXACT
from pyspark_savepoint.statebackends.evolution.rewriting.state_rows import (
    LAST_ACCESS,
    PARTS,
    StateRows,
    put_together,
    rows_of_column,
)
from pyspark_savepoint.statebackends.evolution.shapes import Column, Layout, StateShape

ROW = {"f0": 7, "f1": "a"}
OTHER = {"f0": None, "f1": "b"}
BY_A, BY_B = {"f0": "a"}, {"f0": "b"}
#: By layout: kind and type of the state, and two values of it, between which a key has none.
STATES: dict[Layout, tuple[str, str, list[Any]]] = {
    Layout.ACCUMULATORS: ("value", "ROWDATA<BIGINT, STRING>", [ROW, None, OTHER]),
    Layout.ROW: ("value", "ROWDATA<BIGINT, STRING>", [ROW, None, OTHER]),
    Layout.ROW_ASSOCIATED: (
        "value", "TUPLE<ROWDATA<BIGINT, STRING>, INT>", [{"f0": ROW, "f1": 2}, None, {"f0": OTHER, "f1": 0}],
    ),
    Layout.COUNTED_ROWS: ("map", "MAP<ROWDATA<BIGINT, STRING>, INT>", [[(ROW, 2), (OTHER, 1)], None, [(OTHER, 3)]]),
    Layout.COUNTED_ROWS_ASSOCIATED: (
        "map",
        "MAP<ROWDATA<BIGINT, STRING>, TUPLE<INT, INT>>",
        [[(ROW, {"f0": 2, "f1": 5}), (OTHER, {"f0": 1, "f1": 0})], None, [(OTHER, {"f0": 3, "f1": 1})]],
    ),
    Layout.UNIQUE_ROWS: (
        "map", "MAP<ROWDATA<STRING>, ROWDATA<BIGINT, STRING>>", [[(BY_A, ROW), (BY_B, OTHER)], None, [(BY_B, OTHER)]],
    ),
    Layout.UNIQUE_ROWS_ASSOCIATED: (
        "map",
        "MAP<ROWDATA<STRING>, TUPLE<ROWDATA<BIGINT, STRING>, INT>>",
        [[(BY_A, {"f0": ROW, "f1": 1})], None, [(BY_B, {"f0": OTHER, "f1": 0})]],
    ),
    Layout.ROWS_BY_TIME: (
        "map",
        "MAP<LONG, LIST<ROWDATA<BIGINT, STRING>>>",
        [[(2000, [ROW, OTHER]), (1000, [ROW, ROW])], None, [(1000, [OTHER])]],
    ),
    Layout.FLAGGED_ROWS_BY_TIME: (
        "map",
        "MAP<LONG, LIST<TUPLE<ROWDATA<BIGINT, STRING>, BOOLEAN>>>",
        [[(2000, [{"f0": ROW, "f1": True}, {"f0": OTHER, "f1": False}])], None, [(1, [{"f0": ROW, "f1": True}])]],
    ),
    Layout.DISTINCT_COUNTS: (
        "map", "MAP<STRING, ARRAYDATA<BIGINT NOT NULL>>", [[("a", [1, 2]), ("b", [0, 3])], None, [("b", [4, 0])]],
    ),
    Layout.DISTINCT_NULL_COUNTS: ("value", "ARRAYDATA<BIGINT NOT NULL>", [[1, 2], None, [0, 3]]),
    Layout.ROW_BY_NUMBER: ("map", "MAP<LONG, ROWDATA<BIGINT, STRING>>", [[(5, ROW), (3, OTHER)], None, [(5, ROW)]]),
    Layout.ROWS_BY_SORT_KEY: (
        "map",
        "MAP<ROWDATA<STRING>, LIST<ROWDATA<BIGINT, STRING>>>",
        [[(BY_B, [OTHER]), (BY_A, [ROW, ROW])], None, [(BY_B, [OTHER, OTHER])]],
    ),
    Layout.RANKED_ROWS: (
        "map",
        "MAP<ROWDATA<STRING>, TUPLE<ROWDATA<BIGINT, STRING>, INT>>",
        [[(BY_A, {"f0": ROW, "f1": 1}), (BY_B, {"f0": OTHER, "f1": 2})], None, [(BY_A, {"f0": ROW, "f1": 1})]],
    ),
    Layout.ROW_LIST: ("list", "LIST<ROWDATA<BIGINT, STRING>>", [[ROW, OTHER, ROW], None, [OTHER]]),
    Layout.DISTINCT_VALUES: ("map", "MAP<INT, LONG>", [[(3, 1), (4, 3)], None, [(3, 2)]]),
    Layout.DISTINCT_NULLS: ("value", "LONG", [1, None, 3]),
    Layout.VALUE_COUNTS: ("map", "MAP<STRINGDATA, LONG>", [[("x", 1), ("y", 2)], None, [("x", 9)]]),
    Layout.OTHER: ("value", "BOOLEAN", [True, None, False]),
}  # fmt: skip


def shape(layout: Layout) -> StateShape:
    kind, value_type, _ = STATES[layout]
    counted = {Layout.DISTINCT_VALUES: "INT", Layout.DISTINCT_COUNTS: "STRING", Layout.VALUE_COUNTS: "STRING"}
    types = (counted[layout],) if layout in counted else ()
    columns = tuple(Column("c", logical_type(Tokens(one))) for one in types or ("BIGINT", "STRING"))
    by = (1,) if "ROWDATA<STRING>" in value_type else ()
    return StateShape("state", kind, layout, value_type, columns, by)


def column_of(layout: Layout, values: list[Any]) -> pa.Array:
    return pa.array(values, parse_type(STATES[layout][1]).arrow_type(EXACT))


@pytest.mark.parametrize("layout", STATES, ids=str)
def test_rows_become_the_same_state(layout: Layout) -> None:
    column = column_of(layout, STATES[layout][2])
    rows = rows_of_column(shape(layout), column)
    assert set(rows.owner.tolist()) == {0, 2}
    assert set(PARTS.get(layout, ())) <= rows.parts.keys()
    again, access = put_together(shape(layout), rows, column.type, len(column))
    assert again.to_pylist() == column.to_pylist()
    assert access is None
    again.validate(full=True)


@pytest.mark.parametrize("layout", [one for one in STATES if STATES[one][0] == "map"], ids=str)
def test_times_of_entries_stay(layout: Layout) -> None:
    column = column_of(layout, STATES[layout][2])
    keys = [None if entries is None else [key for key, _ in entries] for entries in column.to_pylist()]
    times = [None if given is None else [(key, 100 + i) for i, key in enumerate(given)] for given in keys]
    access = pa.array(times, pa.map_(column.type.key_type, pa.int64()))
    rows = rows_of_column(shape(layout), column, access)
    assert len(rows.parts[LAST_ACCESS]) == len(rows)
    _, again = put_together(shape(layout), rows, column.type, len(column))
    assert again is not None
    assert again.to_pylist() == access.to_pylist()


def test_rows_that_become_equal_are_counted_together() -> None:
    counted = shape(Layout.COUNTED_ROWS)
    rows = StateRows(np.array([0, 0, 1]), (pa.array(["a", "a", "a"]),), {"count": pa.array([2, 3, 1], pa.int32())})
    kind = parse_type("MAP<ROWDATA<STRING>, INT>").arrow_type(EXACT)
    column, _ = put_together(counted, rows, kind, 2, adds=True)
    assert column.to_pylist() == [[({"f0": "a"}, 5)], [({"f0": "a"}, 1)]]


def test_two_values_of_a_key_are_refused() -> None:
    rows = StateRows(np.array([0, 0]), (pa.array([1, 2]), pa.array(["a", "b"])))
    kind = parse_type("ROWDATA<BIGINT, STRING>").arrow_type(EXACT)
    with pytest.raises(DuplicateKeyError, match="two values"):
        put_together(shape(Layout.ROW), rows, kind, 1)
