"""JSON text of variants: Spark's values as JSON, and bytes that no writer makes are refused."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.variant_utils import VariantUtils

from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.variant import VARIANT, Date, Timestamp, encode_variant, variant_array
from pyspark_savepoint.formats.variant_json import json_texts


def texts(*values: Any) -> list[str | None]:
    found: list[str | None] = json_texts(variant_array(values, 100)).to_pylist()
    return found


def raw(*pairs: tuple[bytes, bytes]) -> pa.StructArray:
    parts = [pa.array([pair[part] for pair in pairs], pa.binary()) for part in (0, 1)]
    return pa.StructArray.from_arrays(parts, fields=list(VARIANT))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "true"),
        (-128, "-128"),
        (2**62, "4611686018427387904"),
        (10**37, f"1{'0' * 37}"),
        (1.5, "1.5"),
        (1e300, "1e+300"),
        (math.inf, '"inf"'),
        (np.float32(0.1), "0.1"),
        (Decimal("12.30"), "12.30"),
        (Decimal("-0.00000000000000000000000000000000000001"), "-0.00000000000000000000000000000000000001"),
        ('hé😀"\n', '"hé😀\\"\\n"'),
        ("x" * 70, f'"{"x" * 70}"'),
        (b"\0\xff", '"00ff"'),
        (Date(19782), '"2024-02-29"'),
        (Date(2**31 - 1), '"5881580-07-11"'),
        (Timestamp(1), '"1970-01-01T00:00:00.000001+00:00"'),
        (Timestamp(0, zoned=False), '"1970-01-01T00:00:00"'),
        ([1, [None, []], {}], "[1, [null, []], {}]"),
        ({"b": 1, "a": {"c": [True]}}, '{"a": {"c": [true]}, "b": 1}'),
        ([0] * 300, json.dumps([0] * 300)),
    ],
)
def test_texts(value: Any, expected: str) -> None:
    assert texts(value, None) == [expected, None]


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=40,
).filter(lambda value: value is not None)


@given(json_like)
@settings(max_examples=150, deadline=None)
def test_what_json_can_hold_is_what_spark_reads(value: Any) -> None:
    (text,) = texts(value)
    spark = VariantUtils.to_python(*encode_variant(value))
    assert text is not None
    assert json.loads(text) == (str(spark) if isinstance(spark, float) and math.isinf(spark) else _finite(spark))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list) else value


@given(st.binary(max_size=40), st.binary(max_size=12))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_json_or_refused(value: bytes, metadata: bytes) -> None:
    for given_metadata in (metadata, encode_variant({"a": 1})[1]):
        try:
            (text,) = json_texts(raw((value, given_metadata))).to_pylist()
        except CorruptStateError:
            continue
        json.loads(text)


def test_every_prefix_is_refused() -> None:
    value, metadata = encode_variant({"a": [1, "text", {"b": b"bytes"}], "c": Decimal("1.5")})
    for end in range(len(value)):
        with pytest.raises(CorruptStateError, match="a VARIANT cannot be shown as JSON"):
            json_texts(raw((value[:end], metadata)))


def test_parts_that_overlap_do_not_multiply() -> None:
    """30 levels of arrays whose two elements are the same: a billion numbers in 200 bytes."""
    value = bytes([0b1100, 7])
    for _ in range(30):
        value = bytes([0b000011, 2, 0, 0, len(value)]) + value
    with pytest.raises(CorruptStateError, match="64 times as large as its bytes"):
        json_texts(raw((value, encode_variant(1)[1])))


def test_nesting_takes_no_stack() -> None:
    value = bytes([0b1100, 7])
    for _ in range(5_000):
        value = bytes([0b001111, 1, 0, 0, 0, 0]) + len(value).to_bytes(4, "little") + value
    (text,) = json_texts(raw((value, encode_variant(1)[1]))).to_pylist()
    assert text == "[" * 5_000 + "7" + "]" * 5_000
