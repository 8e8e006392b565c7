"""Rows, and values between columns and Python: arguments and results of functions."""

from __future__ import annotations

import copy
import datetime
import pickle
from collections import namedtuple
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_savepoint.formats.errors import UndecodableStateError, ValueRangeError
from pyspark_savepoint.statebackends.processing.backends.adapters import copied
from pyspark_savepoint.statebackends.processing.backends.rocksdb_codec import codec
from pyspark_savepoint.statebackends.processing.runtime.row import Row, make_row, refilled, rows_of_columns
from pyspark_savepoint.statebackends.processing.runtime.values import from_python, to_python

UTC = datetime.UTC
SCALARS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=5),
    pa.binary(): st.binary(max_size=5),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(UTC)),
    pa.timestamp("us"): st.datetimes(),
    pa.decimal128(10, 2): st.integers(-(10**9), 10**9).map(lambda number: Decimal(number) / 100),
    pa.large_string(): st.decimals(allow_nan=False, allow_infinity=False),
    pa.duration("us"): st.timedeltas(datetime.timedelta(-9999), datetime.timedelta(9999)),
}


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a type as functions see them."""
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        names = tuple(field.name for field in fields)
        return st.tuples(*(st.none() | values_of(field.type) for field in fields)).map(
            lambda values: make_row(names, values)
        )
    if pa.types.is_map(kind):
        return st.dictionaries(values_of(kind.key_type), st.none() | values_of(kind.item_type), max_size=3)
    if pa.types.is_list(kind):
        return st.lists(st.none() | values_of(kind.value_type), max_size=3)
    return SCALARS[kind]


def composites(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    keys = st.sampled_from([pa.int64(), pa.string(), pa.date32()])
    return (
        inner.map(pa.list_)
        | st.tuples(keys, inner).map(lambda pair: pa.map_(*pair))
        | st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: pa.struct([(f"f{i}", k) for i, k in enumerate(kinds)])
        )
    )


kinds = st.recursive(st.sampled_from(list(SCALARS)), composites, max_leaves=4)
columns = kinds.flatmap(lambda kind: st.tuples(st.just(kind), st.lists(st.none() | values_of(kind), max_size=6)))


@given(columns, st.integers(0, 3))
def test_values_become_columns_and_values_again(column: tuple[pa.DataType, list[Any]], cut: int) -> None:
    kind, values = column
    array = from_python(values, kind, "column")
    array.validate(full=True)
    assert array.type == kind
    assert to_python(array) == values
    assert to_python(array[cut:]) == values[cut:]


@given(columns)
def test_values_become_bytes_and_values_again(column: tuple[pa.DataType, list[Any]]) -> None:
    kind, values = column
    encode, decode = codec(kind)
    for value in values:
        if value is not None:
            assert decode(encode(value)) == value


@given(columns)
def test_copies_are_equal_and_share_nothing(column: tuple[pa.DataType, list[Any]]) -> None:
    for value in column[1]:
        other = copied(value)
        assert other == value
        assert type(other) is type(value)
        if isinstance(value, Row | list | dict):
            assert other is not value


def test_a_row_is_what_its_fields_are() -> None:
    row = make_row(("id", "name"), (1, "a"))
    assert (row.id, row["name"], row[1], len(row)) == (1, "a", "a", 2)
    assert row == (1, "a") == tuple(row)
    assert row == {"id": 1, "name": "a"}
    assert row == make_row(("id", "name"), (1, "a"))
    assert row != make_row(("id", "other"), (1, "a"))
    assert {row: "x"}[make_row(("id", "name"), (1, "a"))] == "x"
    assert repr(row) == "Row(id=1, name='a')"
    row.id = 5
    row["name"] = "b"
    assert row.as_dict() == {"id": 5, "name": "b"}
    assert pickle.loads(pickle.dumps(row)) == copy.deepcopy(row) == row
    with pytest.raises(KeyError, match="there are id, name"):
        row["nam"]


def test_any_name_is_a_field() -> None:
    names = ("window-contents", "class", "_hidden", "as_dict", "id", "id", "__class")
    row = make_row(names, tuple(range(7)))
    assert list(row) == list(range(7))
    assert (row["window-contents"], row["class"], row["_hidden"], row["__class"], row["id"]) == (0, 1, 2, 6, 4)
    assert copied(row) == row
    assert from_python([row], pa.struct([(f"f{i}", pa.int64()) for i in range(7)]), "x").to_pylist() == [
        {f"f{i}": i for i in range(7)}
    ]


def test_one_row_is_refilled() -> None:
    row = make_row(("a", "b"), (None, None))
    seen = [(id(each), tuple(each)) for each in refilled(row, [[1, 2], ["x", "y"]], 2)]
    assert seen == [(id(row), (1, "x")), (id(row), (2, "y"))]
    single = make_row(("a",), (None,))
    assert [tuple(each) for each in refilled(single, [[1, 2]], 2)] == [(1,), (2,)]
    assert len(list(refilled(make_row((), ()), [], 3))) == 3
    assert [tuple(each) for each in rows_of_columns((), [], 2)] == [(), ()]


@dataclass
class Order:
    """A class of a user."""

    id: int
    tags: set[str]


class Slotted:
    """Another, without a dict."""

    __slots__ = ("id", "tags")

    def __init__(self) -> None:
        self.id, self.tags = 3, ("z",)


Named = namedtuple("Named", "tags id")


def test_structs_are_taken_from_whatever_has_the_fields() -> None:
    kind = pa.struct([("id", pa.int64()), ("tags", pa.list_(pa.string()))])
    given_values = [Order(1, {"x"}), {"id": 2}, Slotted(), Named(["n"], 4), (5, []), [6, None], None]
    assert from_python(given_values, kind, "order").to_pylist() == [
        {"id": 1, "tags": ["x"]},
        {"id": 2, "tags": None},
        {"id": 3, "tags": ["z"]},
        {"id": 4, "tags": ["n"]},
        {"id": 5, "tags": []},
        {"id": 6, "tags": None},
        None,
    ]
    # Fields of a tuple go by position, whatever their names in the source.
    assert from_python(
        [
            make_row(("a", "b"), (1, [])),
        ],
        kind,
        "order",
    ).to_pylist() == [{"id": 1, "tags": []}]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, pa.int64()),
        ("1", pa.int64()),
        (1.5, pa.int64()),
        (1.0, pa.int64()),
        (True, pa.float64()),
        (b"a", pa.string()),
        ("a", pa.binary()),
        (1, pa.bool_()),
        (datetime.datetime(2020, 1, 1, 5), pa.date32()),
        (2**53 + 1, pa.float64()),
        (2**63, pa.int64()),
        (300, pa.int8()),
        (1, pa.string()),
        (1, pa.timestamp("us")),
        (datetime.datetime(2020, 1, 1), pa.timestamp("us", "UTC")),
        (datetime.datetime(2020, 1, 1, tzinfo=UTC), pa.timestamp("us")),
        ("ab", pa.list_(pa.string())),
        ({"a": 1}, pa.list_(pa.string())),
        ([1], pa.map_(pa.int64(), pa.int64())),
        ((1, 2, 3), pa.struct([("a", pa.int64()), ("b", pa.int64())])),
        ({"c": 1}, pa.struct([("a", pa.int64()), ("b", pa.int64())])),
        (7, pa.struct([("a", pa.int64())])),
        (Decimal("1.234"), pa.decimal128(5, 2)),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(value: Any, kind: pa.DataType) -> None:
    with pytest.raises(ValueRangeError, match="state 's' cannot hold a value that the function returned") as caught:
        from_python([None, value], kind, "state 's'")
    assert type(value).__name__ in str(caught.value)


def test_numbers_of_numpy_are_numbers() -> None:
    assert from_python([np.int32(1), None, 2], pa.int64(), "x").to_pylist() == [1, None, 2]
    assert from_python([np.float32(0.5), np.int8(1), 2], pa.float64(), "x").to_pylist() == [0.5, 1.0, 2.0]


def test_a_type_without_codec_says_what_to_do() -> None:
    with pytest.raises(UndecodableStateError, match="heap backend"):
        codec(pa.time64("ns"))


def test_big_decimals_are_decimals_of_any_scale() -> None:
    numbers = [Decimal("1.50"), Decimal("1E+3"), Decimal("-0.001"), 10**5000, None]
    column = from_python(numbers, pa.large_string(), "n")
    found = to_python(column)
    assert found == numbers
    assert [each.as_tuple() for each in found[:3]] == [each.as_tuple() for each in numbers[:3]]
    for wrong, remedy in (
        (Decimal("NaN"), "finite"),
        (Decimal("Infinity"), "finite"),
        ("1.5", "declared"),
        (1.5, "declared"),
    ):
        with pytest.raises(ValueRangeError) as caught:
            from_python([wrong], pa.large_string(), "n")
        assert caught.value.facts["expected"] == "decimal"
        assert remedy in caught.value.facts["remedy"]
    encode, decode = codec(pa.large_string())
    assert [decode(encode(number)) for number in numbers[:4]] == numbers[:4]


def test_keys_of_a_map_that_are_one_number_are_not_lost() -> None:
    kind = pa.map_(pa.large_string(), pa.int64())
    assert to_python(pa.array([[("1.0", 1), ("2", 2)], []], kind)) == [{Decimal("1.0"): 1, Decimal(2): 2}, {}]
    with pytest.raises(ValueRangeError, match="the same number with different scales"):
        to_python(pa.array([[("1.0", 1), ("1.00", 2)]], kind))
