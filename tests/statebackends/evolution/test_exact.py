"""Values of one logical type as values of another: without loss, or one error."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint.formats.errors import OptionError, ValueRangeError
from pyspark_savepoint.statebackends.evolution.exact import as_given, exactly, expect_held, holds
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


NESTED_DOUBLES = [
    (pa.array([[0.5], None, [], [0.1]]), "ARRAY<FLOAT>", "0.1 of type DOUBLE"),
    (pa.array([[0.5], [0.126]]), "ARRAY<DECIMAL(3, 2)>", "0.126 of type DOUBLE"),
    (pa.array([{"a": 0.5}, None, {"a": 0.1}]), "ROW<`a` FLOAT>", "0.1 of type DOUBLE"),
    (pa.array([[(1, 0.1)]], pa.map_(pa.int32(), pa.float64())), "MAP<INT, FLOAT>", "0.1 of type DOUBLE"),
    (pa.array([[[0.1]]]), "ARRAY<ARRAY<FLOAT>>", "0.1 of type DOUBLE"),
    (pa.array([["abc", "abcd"]]), "ARRAY<VARCHAR(3)>", "'abcd', which has 4 characters"),
    (pa.array([{"a": None}]).cast(pa.struct([("a", pa.int64())])), "ROW<`a` BIGINT NOT NULL>", "NULL in 1 of 1 rows"),
    (pa.array([[1, 2**40]]), "ARRAY<INT>", f"{2**40} of type BIGINT"),
]


@pytest.mark.parametrize(("values", "kind", "found"), NESTED_DOUBLES, ids=[kind for _, kind, _ in NESTED_DOUBLES])
def test_values_in_others_are_not_rounded(values: pa.Array, kind: str, found: str) -> None:
    assert holds(values.type, logical_type_of(kind))
    with pytest.raises(ValueRangeError) as raised:
        as_given(values, logical_type_of(kind), "of", "given")
    assert raised.value.facts["found"] == found


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([[0.5, None], None, []]), "ARRAY<FLOAT>"),
        (pa.array([None, [(1, 0.5)], []], pa.map_(pa.int32(), pa.float64())), "MAP<BIGINT, FLOAT>"),
        (pa.array([None, {"a": 0.5, "b": None}, {"a": None, "b": [1]}]), "ROW<`a` FLOAT, `b` ARRAY<INT>>"),
        (pa.array([None, {"a": 1}], pa.struct([("a", pa.int32())])), "ROW<`a` BIGINT NOT NULL>"),
        (pa.array([[b"ab"], None], pa.large_list(pa.binary())), "ARRAY<VARBINARY(2)>"),
        (pa.array([[1, 2], None], pa.list_(pa.int32(), 2)), "ARRAY<BIGINT>"),
        (pa.array(["a", None, "a"]).dictionary_encode(), "STRING"),
        (pa.array([np.float16(0.5)]), "DOUBLE"),
        (pa.array([10**7, None]), "DECIMAL(38, 30)"),
    ],
)
def test_values_that_fit_are_taken(values: pa.Array, kind: str) -> None:
    assert holds(values.type, logical_type_of(kind))
    for column in (values, values.slice(1), pa.concat_arrays([values, values]).slice(len(values))):
        taken = as_given(column, logical_type_of(kind), "of", "given")
        taken.validate(full=True)
        assert taken.to_pylist() == column.to_pylist()


def test_times_in_others_have_their_parts() -> None:
    kind = logical_type_of("ARRAY<TIMESTAMP(6)>")
    taken = as_given(pa.array([[1001], None], pa.list_(pa.timestamp("us"))), kind, "of", "given")
    assert taken.to_pylist() == [[{"millis": 1, "nanos": 1000}], None]


def test_fields_of_rows_have_the_names_of_the_query() -> None:
    """Arrow fills fields of other names with NULL, and leaves out those that are not asked for."""
    values, kind = pa.array([{"a": 1, "b": 2}]), "ROW<`a` BIGINT, `c` BIGINT>"
    assert not holds(values.type, logical_type_of(kind))
    assert holds(values.type, logical_type_of("ROW<`a` BIGINT, `b` INT>"))
    # CAST takes them by their places, as SQL does.
    assert exactly(values, logical_type_of(kind), "of").to_pylist() == [{"a": 1, "c": 2}]
    for one in ("ROW<`a` BIGINT>", "ROW<`a` BIGINT, `b` BIGINT, `c` BIGINT>"):
        assert not holds(values.type, logical_type_of(one))
        with pytest.raises(ValueRangeError, match="does not fit its new type"):
            exactly(values, logical_type_of(one), "of")


@pytest.mark.parametrize(
    ("values", "kind", "found"),
    [
        (pa.array([2**60], pa.timestamp("s")), "TIMESTAMP(3)", f"{2**60} seconds since 1970"),
        (pa.array([1000, 1500], pa.timestamp("ms")), "TIMESTAMP(0)", "1500 milliseconds and 0 nanoseconds"),
        (pa.array([1000, 1001], pa.timestamp("ns")), "TIMESTAMP(6)", "0 milliseconds and 1001 nanoseconds"),
        (pa.array([1500], pa.timestamp("us")), "TIMESTAMP(3)", "500000 nanoseconds beyond a millisecond"),
        (pa.array([1500], pa.time32("ms")), "TIME(0)", "1500 milliseconds and 0 nanoseconds"),
        (pa.array([86_400_000]), "TIME(0)", "86400000 milliseconds and 0 nanoseconds"),
        (pa.array([b"abcd"]), "VARBINARY(3)", "b'abcd', which has 4 bytes"),
        (pa.array([10**9]), "DECIMAL(38, 30)", "1000000000 of type BIGINT"),
        (pa.array([1000]), "DECIMAL(5, 2)", "1000 of type BIGINT"),
        (pa.array([Decimal("1.55")]), "DECIMAL(3, 1)", "Decimal('1.55') of type DECIMAL(3,2)"),
    ],
)
def test_what_a_type_does_not_hold(values: pa.Array, kind: str, found: str) -> None:
    with pytest.raises(ValueRangeError, match="a value of column 'of' does not fit") as raised:
        as_given(values, logical_type_of(kind), "of", "given")
    assert raised.value.facts["found"] == found


@pytest.mark.parametrize(("kind", "zone", "other"), [("TIMESTAMP(3)", None, "UTC"), ("TIMESTAMP_LTZ(3)", "UTC", None)])
def test_no_time_zone_is_guessed(kind: str, zone: str | None, other: str | None) -> None:
    wanted = {"at": logical_type_of(kind)}
    expect_held(pa.schema([("at", pa.timestamp("us", zone))]), wanted, "given")
    with pytest.raises(OptionError, match="has column 'at' in another type") as raised:
        expect_held(pa.schema([("at", pa.timestamp("us", other))]), wanted, "given")
    found = "TIMESTAMP of a zone" if other else "TIMESTAMP_NTZ without a time zone"
    assert (raised.value.facts["expected"], raised.value.facts["found"]) == (kind, found)
