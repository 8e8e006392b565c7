"""Variants: Spark's own reader returns the written values."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.variant_utils import VariantUtils

from pyspark_savepoint.formats.variant import (
    MAX_SIZE,
    VARIANT,
    Date,
    Timestamp,
    VariantError,
    encode_variant,
    variant_array,
)


def read(value: Any) -> Any:
    return VariantUtils.to_python(*encode_variant(value))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (False, False),
        (0, 0),
        (-128, -128),
        (128, 128),
        (-(2**31), -(2**31)),
        (2**63 - 1, 2**63 - 1),
        (2**63, Decimal(2**63)),
        (-(10**27), Decimal(-(10**27))),
        (10**38, str(10**38)),
        (1.5, 1.5),
        (math.inf, math.inf),
        (np.float32(0.25), 0.25),
        (Decimal("12.30"), Decimal("12.30")),
        (Decimal("-0.01"), Decimal("-0.01")),
        (Decimal("1E+5"), 100000),
        (Decimal("1E+40"), "1E+40"),
        (Decimal("1E-39"), "1E-39"),
        (Decimal("123456789012345678.901"), Decimal("123456789012345678.901")),
        ("", ""),
        ("hé😀", "hé😀"),
        ("x" * 64, "x" * 64),
        ("x" * 300, "x" * 300),
        (b"\0\xff", b"\0\xff"),
        (Date(19782), datetime.date(2024, 2, 29)),
        (Timestamp(-1, zoned=False), datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)),
        (Timestamp(1), datetime.datetime(1970, 1, 1, 0, 0, 0, 1, datetime.UTC)),
        ([], []),
        ({}, {}),
        ((1, "a", None), [1, "a", None]),
        ({"b": 1, "a": [{"c": {}}], "": None}, {"": None, "a": [{"c": {}}], "b": 1}),
        (list(range(1000)), list(range(1000))),
        ({f"k{i}": i for i in range(1000)}, {f"k{i}": i for i in range(1000)}),
        (["y" * 1000] * 70, ["y" * 1000] * 70),
        (["z" * 70000, 1], ["z" * 70000, 1]),
    ],
)
def test_values(value: Any, expected: Any) -> None:
    found = read(value)
    assert found == expected
    assert type(found) is type(expected)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.binary() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@settings(deadline=None, max_examples=50)
@given(json_like)
def test_anything_nested(value: Any) -> None:
    assert read(value) == value


def test_fields_are_sorted_as_java_sorts() -> None:
    value, _ = encode_variant({"\U0001f600": 1, "\uffff": 2})
    assert value[2:4] == b"\0\1"
    assert value[-4:] == bytes([3 << 2, 1, 3 << 2, 2])


def test_shared_parts_are_encoded_once_and_bounded() -> None:
    value: Any = [1]
    for _ in range(60):
        value = [value, value]
    with pytest.raises(VariantError, match=str(MAX_SIZE)):
        encode_variant(value)


def test_limits() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    for value in (deep, "\ud800", {"\udc00": 1}, b"x" * (MAX_SIZE + 1)):
        with pytest.raises(VariantError):
            encode_variant(value)
    with pytest.raises(TypeError):
        encode_variant(object())


def test_columns() -> None:
    column = variant_array([1, None, {"a": "b"}], 9)
    assert column.type == VARIANT
    assert column.type.field("metadata").metadata == {b"variant": b"true"}
    assert [row and VariantUtils.to_python(row["value"], row["metadata"]) for row in column.to_pylist()] == [
        1,
        None,
        {"a": "b"},
    ]
    with pytest.raises(VariantError) as error:
        variant_array([1, "\ud800"], 9)
    assert error.value.__notes__ == ["row 1"]
