"""Columns larger than Arrow's offsets reach are refused, with what to do."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import MAX_OFFSET, binary_array, distinct, list_array, map_array, placed, scatter
from pyspark_savepoint.formats.errors import ValueRangeError

LONGS = pa.list_(pa.field("element", pa.int64()))
TOO_MANY = np.array([1 << 30, 1 << 30], np.int64)


def test_offsets_are_refused_before_they_wrap() -> None:
    with pytest.raises(ValueRangeError, match="batchSize") as error:
        list_array(LONGS, TOO_MANY, pa.array([], pa.int64()))
    assert error.value.facts["found"] == f"{MAX_OFFSET + 1} in 2 rows"
    with pytest.raises(ValueRangeError, match="batchSize"):
        map_array(pa.map_(pa.int64(), pa.int64()), TOO_MANY, pa.array([], pa.int64()), pa.array([], pa.int64()))
    with pytest.raises(ValueRangeError, match="batchSize"):
        binary_array(pa.binary(), np.array([0, MAX_OFFSET + 1]), np.zeros(0, np.uint8))


def test_offsets_of_either_width() -> None:
    data = np.frombuffer(bytearray(b"abc"), np.uint8)
    for width in (np.int32, np.int64):
        column = binary_array(pa.string(), np.array([0, 1, 1, 3], width), data, np.array([True, False, True]))
        column.validate(full=True)
        assert column.to_pylist() == ["a", None, "bc"]
    lists = list_array(LONGS, np.array([2, 0, 1]), pa.array([1, 2, 3]))
    lists.validate(full=True)
    assert lists.to_pylist() == [[1, 2], [], [3]]


def test_distinct_values_are_ascending() -> None:
    assert distinct(np.array([7, 3, 7, -1, 3], np.int64)).tolist() == [-1, 3, 7]
    assert distinct(np.zeros(0, np.int64)).tolist() == []


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, None, -3], pa.int64()),
        pa.array([1.5, 2.5, float("nan")], pa.float32()),
        pa.array([1, 2, None], pa.timestamp("us")),
        pa.array([True, None, False]),
        pa.array(["a", None, "ccc"]),
        pa.array([[1], None, []], pa.list_(pa.int64())),
        pa.array([1, 2, 3, 4, 5], pa.int16())[1:4],
    ],
    ids=lambda values: str(values.type),
)
def test_values_are_placed_as_they_are_scattered(values: pa.Array) -> None:
    """At few of many rows, with nulls among the values, and with none left out."""
    for rows, count in (([0, 1, 2], 3), ([2, 5, 11], 12), ([0, 64, 99], 100)):
        valid = np.zeros(count, np.bool_)
        valid[rows] = True
        column = placed(values, np.array(rows, np.int64), count)
        column.validate(full=True)
        assert column.type == values.type
        assert str(column.to_pylist()) == str(scatter(values, valid).to_pylist())
