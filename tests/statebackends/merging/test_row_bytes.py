"""Bytes of rows: equal for equal rows and for no others."""

from __future__ import annotations

import datetime
import decimal
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint.statebackends.merging.row_bytes import row_bytes

MAP = pa.map_(pa.string(), pa.list_(pa.int32()))
STRUCT = pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string()), pa.field("m", MAP)])
DAY = datetime.date(2026, 11, 25)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [None, 0, 1, -1]),
        (pa.bool_(), [None, True, False]),
        (pa.float64(), [None, 0.0, -0.0, 1.5, float("inf")]),
        (pa.string(), [None, "", "a", "b", "ab"]),
        (pa.binary(), [None, b"", b"\0", b"\0\0"]),
        (pa.date32(), [None, DAY, DAY.replace(day=1)]),
        (pa.decimal128(38, 2), [None, decimal.Decimal("1.10"), decimal.Decimal("-1.10")]),
        (pa.list_(pa.string()), [None, [], [None], [""], ["a", "b"], ["ab"], ["b", "a"]]),
        (pa.list_(pa.list_(pa.int32())), [None, [], [None], [[]], [[], []], [[1], [2]], [[1, 2]]]),
        (STRUCT, [None, {"a": None, "b": None, "m": None}, {"a": 1, "b": "x", "m": []}, {"a": 1, "b": "x", "m": None}]),
        (MAP, [None, [], [("a", None)], [("a", [1])], [("a", [1]), ("b", [2])], [("a", [2]), ("b", [1])]]),
        (pa.null(), [None]),
    ],
    ids=str,
)
def test_rows_are_equal_if_their_bytes_are(kind: pa.DataType, values: list[Any]) -> None:
    assert len(set(row_bytes([pa.array(values, kind)]).to_pylist())) == len(values)
    # Of slices, in another order, and beside others, with the same result.
    twice = pa.array([*values, *reversed(values)], kind)
    found = row_bytes([twice, pa.array(range(len(twice)), pa.int64())])
    assert len(found.unique()) == len(twice)
    second = row_bytes([twice.slice(len(values))]).to_pylist()
    assert second == list(reversed(row_bytes([twice.slice(0, len(values))]).to_pylist()))


def test_values_of_two_columns_are_told_apart() -> None:
    pairs = list(itertools.product(["", "a", "aa", None], repeat=2))
    first, second = (pa.array(column, pa.string()) for column in zip(*pairs, strict=True))
    assert len(row_bytes([first, second]).unique()) == len(pairs)


def test_a_map_has_no_order() -> None:
    maps = pa.array([[("a", [1]), ("b", None)], [("b", None), ("a", [1])], [("b", [1]), ("a", None)]], MAP)
    first, second, third = row_bytes([maps]).to_pylist()
    assert first == second != third


def test_elements_behind_nulls_do_not_count() -> None:
    elements = pa.array([1, 2, 3, 4], pa.int32())
    valid = pa.py_buffer(np.packbits([1, 0, 1], bitorder="little"))
    offsets = pa.py_buffer(np.array([0, 1, 3, 4], np.int32))
    hidden = pa.Array.from_buffers(pa.list_(pa.int32()), 3, [valid, offsets], children=[elements])
    assert row_bytes([hidden]) == row_bytes([pa.array([[1], None, [4]], pa.list_(pa.int32()))])
