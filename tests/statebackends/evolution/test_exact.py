"""Values of one logical type as values of another: without loss, or one error."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.errors import ValueRangeError
from pyspark_savepoint.statebackends.evolution.exact import exactly
from pyspark_savepoint.statebackends.evolution.logical_types import logical_type_of

#: What tables of history have for a time without an end: nanoseconds of 64 bits do not reach it.
FAR = datetime(9999, 12, 31, tzinfo=UTC)
MILLIS = int(FAR.timestamp()) * 1000


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_times_far_in_the_future(unit: str) -> None:
    column = pa.array([FAR, None, datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)], pa.timestamp(unit, "UTC"))
    assert exactly(column, logical_type_of("TIMESTAMP(3)"), "at").to_pylist() == [MILLIS, None, -1000]
    parts = exactly(column, logical_type_of("TIMESTAMP_LTZ(6)"), "at").to_pylist()
    assert [None if one is None else tuple(one.values()) for one in parts] == [(MILLIS, 0), None, (-1000, 0)]


def test_parts_of_a_millisecond() -> None:
    column = pa.array([1_234_567, -1], pa.timestamp("ns"))
    parts = exactly(column, logical_type_of("TIMESTAMP(9)"), "at").to_pylist()
    assert [tuple(one.values()) for one in parts] == [(1, 234_567), (-1, 999_999)]
    with pytest.raises(ValueRangeError, match="parts of a millisecond"):
        exactly(column, logical_type_of("TIMESTAMP(3)"), "at")


@pytest.mark.parametrize("values", [pa.array([b"x"]), pa.array(["2026-01-01"]), pa.array([1.5]), pa.array([[1]])])
@pytest.mark.parametrize("kind", ["TIMESTAMP(3)", "TIMESTAMP(6)"])
def test_what_is_no_time(values: pa.Array, kind: str) -> None:
    with pytest.raises(ValueRangeError, match="a value of at does not fit its new type") as raised:
        exactly(values, logical_type_of(kind), "at")
    assert raised.value.facts["found"] == f"values of {values.type}"
