"""Big numbers against the bytes, texts and hashes of real Java, and Arrow's way against the one by one."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.errors import CorruptStateError, ValueRangeError
from pyspark_savepoint.formats.serializers.basic.java_math import EXACT, rescaled, to_bytes, to_decimal, to_text
from tests.formats.serializers.codec_checks import (
    base,
    check_column,
    check_prefixes,
    check_resources,
    check_value,
    decode,
    encode,
)

INTEGER, DECIMAL = base("BigInt"), base("BigDec")

# Value, bytes, hash: from Java 17 and Flink 1.16.3 and 2.3.0.
INTEGERS = [
    ("0", "00000001", 0),
    ("1", "00000002", 1),
    ("10", "00000003", 10),
    ("2", "0000000502", 2),
    ("-1", "00000005ff", -1),
    ("127", "000000057f", 127),
    ("128", "000000060080", 128),
    ("-128", "0000000580", -128),
    ("-129", "00000006ff7f", -129),
    ("9223372036854775808", "0000000d008000000000000000", -2147483648),
    ("-9223372036854775808", "0000000c8000000000000000", -2147483648),
    ("9223372036854775807", "0000000c7fffffffffffffff", 2147483616),
    ("-9223372036854775809", "0000000dff7fffffffffffffff", 2147483647),
    ("123456789012345678901234567890", "00000011018ee90ff6c373e0ee4e3f0ad2", 1915528825),
    ("-123456789012345678901234567890", "00000011fe7116f0093c8c1f11b1c0f52e", -1915528825),
    ("9" * 38, "000000144b3b4ca85a86c47a098a223fffffffff", -983611918),
    ("-" + "9" * 38, "00000014b4c4b357a5793b85f675ddc000000001", 983611918),
    ("-4294967296", "00000009ff00000000", -31),
    (None, "00000000", 0),
]
LONGER = [
    ("1" + "0" * 38, "000000144b3b4ca85a86c47a098a224000000000", -983611886),
    ("170141183460469231731687303715884105728", "000000150080000000000000000000000000000000", -2147483648),
    (
        "-1606938044258990275541962092341162602522202993782792835301376",
        "0000001eff00000000000000000000000000000000000000000000000000",
        432324352,
    ),
]
DECIMALS = [
    ("0", "0000000100000000", 0),
    ("1", "0000000200000000", 31),
    ("10", "0000000300000000", 310),
    ("0.0", "0000000100000001", 1),
    ("10.0", "000000056400000001", 3101),
    ("1.0", "0000000300000001", 311),
    ("12.30", "0000000604ce00000002", 38132),
    ("-5E+3", "00000005fbfffffffd", -158),
    ("0E-7", "0000000100000007", 7),
    ("0E+3", "00000001fffffffd", -3),
    ("0.000001", "0000000200000006", 37),
    ("1E-7", "0000000200000007", 38),
    ("1E-10", "000000020000000a", 41),
    ("-1.23E-10", "00000005850000000c", -3801),
    ("123456789012345678901234567890.12345", "000000130260b05ffbe7fcb117a024f1e2df7900000005", 1497695748),
    ("9223372036854775.808", "0000000d00800000000000000000000003", -2147483645),
    ("-9223372036854775.808", "0000000c800000000000000000000003", -2147483645),
    ("1.8446744073709551616E+23", "0000000d010000000000000000fffffffc", 29787),
    ("1E-2147483647", "000000027fffffff", -2147483618),
    ("-1.2E+2147483649", "00000005f480000000", 2147483276),
    ("1.0E+2147483649", "0000000380000000", -2147483338),
    ("1E+1", "00000002ffffffff", 30),
    ("0.00010", "0000000300000005", 315),
    (None, "00000000", 0),
]


def test_values_of_real_flink(flink_resources: Path) -> None:
    digits = "123456789012345678901234567890123456"
    assert check_resources(flink_resources, "big-int-serializer", Decimal(digits), 5).length == -1
    check_resources(flink_resources, "big-int-serializer", digits, 5, decimals="string")
    assert check_resources(flink_resources, "big-dec-serializer", digits + ".789", 5).length == -1


@pytest.mark.parametrize(("text", "data", "java_hash"), INTEGERS)
def test_integers(text: str | None, data: str, java_hash: int) -> None:
    value = bytes.fromhex(data)
    check_value(INTEGER, value, None if text is None else Decimal(text))
    check_value(INTEGER, value, text, decimals="string")
    for decimals in ("auto", "string"):
        assert INTEGER.java_hash(decode(INTEGER, value, decimals=decimals)).tolist() == [java_hash]


@pytest.mark.parametrize(("text", "data", "java_hash"), LONGER)
def test_integers_of_more_than_38_digits(text: str, data: str, java_hash: int) -> None:
    value = bytes.fromhex(data)
    with pytest.raises(ValueRangeError, match=r'not exactly a decimal128(.|\n)*option."decimals", "string"'):
        decode(INTEGER, b"\0\0\0\1", value)
    check_value(INTEGER, value, text, decimals="string")
    assert INTEGER.java_hash(decode(INTEGER, value, decimals="string")).tolist() == [java_hash]


@pytest.mark.parametrize(("text", "data", "java_hash"), DECIMALS)
def test_decimals(text: str | None, data: str, java_hash: int) -> None:
    value = bytes.fromhex(data)
    check_value(DECIMAL, value, text)
    assert DECIMAL.java_hash(decode(DECIMAL, value)).tolist() == [java_hash]


def test_decimals_of_one_scale() -> None:
    values = [
        bytes.fromhex(data) for data in ("0000000604ce00000002", "0000000100000007", "00000000", "00000005fbfffffffd")
    ]
    column = decode(DECIMAL, *values, decimals="10,2")
    assert column.to_pylist() == [Decimal("12.30"), Decimal("0.00"), None, Decimal("-5000.00")]
    assert encode(DECIMAL, column)[0] == values[0]
    assert DECIMAL.java_hash(column).tolist()[0] == 38132
    assert decode(INTEGER, b"\0\0\0\3", decimals="10,2").to_pylist() == [Decimal("10.00")]
    assert encode(INTEGER, decode(INTEGER, b"\0\0\0\3", decimals="10,2")) == [b"\0\0\0\3"]


@pytest.mark.parametrize("data", ["000000020000000a", "0000000380000000", "000000027fffffff", "00000002fffffff8"])
def test_decimals_that_do_not_fit(data: str) -> None:
    with pytest.raises(ValueRangeError, match=r"not exactly a decimal128\(10, 2\)"):
        decode(DECIMAL, b"\0\0\0\0", bytes.fromhex(data), decimals="10,2")


def test_long_forms_of_the_constants_read_as_well() -> None:
    assert decode(INTEGER, bytes.fromhex("0000000500"), bytes.fromhex("000000050a")).to_pylist() == [0, 10]


numbers = st.one_of(st.none(), st.tuples(st.integers(-(2**140), 2**140), st.integers(-60, 60)))


@given(st.lists(numbers, min_size=1, max_size=30))
@settings(max_examples=100, deadline=None)
def test_texts_and_decimals_are_the_same_in_arrow_and_one_by_one(pairs: list[tuple[int, int] | None]) -> None:
    values = [
        bytes(4) if pair is None else to_bytes(pair[0]) + pair[1].to_bytes(4, "big", signed=True) for pair in pairs
    ]
    texts = [None if pair is None else to_text(*pair) for pair in pairs]
    column = decode(DECIMAL, *values)
    assert column.to_pylist() == texts
    assert encode(DECIMAL, column) == values
    for pair, value in zip(pairs, values, strict=True):
        exact = None if pair is None else rescaled(*pair, 6)
        if pair is not None and (exact is None or abs(exact) >= 10**30):
            with pytest.raises(ValueRangeError):
                decode(DECIMAL, value, decimals="30,6")
        else:
            expected = None if exact is None else EXACT.scaleb(Decimal(exact), -6)
            assert decode(DECIMAL, value, decimals="30,6").to_pylist() == [expected]


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1), max_size=30))
@settings(max_examples=50, deadline=None)
def test_any_integer(values: list[int]) -> None:
    column = pa.array([Decimal(value) for value in values], pa.decimal128(38, 0))
    written = check_column(INTEGER, column)
    assert written == [to_bytes(value) for value in values]
    texts = pa.array([str(value) for value in values], pa.string())
    assert encode(INTEGER, texts) == written
    assert INTEGER.java_hash(texts).tolist() == INTEGER.java_hash(column).tolist()


def test_columns() -> None:
    texts = pa.array([None if i % 7 == 0 else to_text(37**i * (-1) ** i, i % 23 - 11) for i in range(500)])
    check_column(DECIMAL, texts)
    check_column(INTEGER, pa.array([None if i % 7 == 0 else str(-(31**i)) for i in range(200)]), decimals="string")
    decimals = pa.array([None if i % 7 == 0 else Decimal(i * 7919) / 100 for i in range(500)], pa.decimal128(20, 4))
    check_column(DECIMAL, decimals, decimals="20,4")


def test_thousands_of_digits() -> None:
    number = 7**20_000
    assert to_decimal(-number) == Decimal(-number)
    text = to_text(number, 0)
    assert len(text) == 16_902
    assert text[-9:] == str(number % 10**9).zfill(9)
    assert encode(INTEGER, pa.array([text])) == [to_bytes(number)]
    assert decode(INTEGER, to_bytes(number), decimals="string").to_pylist() == [text]


def test_damage() -> None:
    for data in ("00000004", "ffffffff", "7fffffff00", "80000000"):
        with pytest.raises(CorruptStateError):
            decode(INTEGER, bytes.fromhex(data))
    check_prefixes(DECIMAL, bytes.fromhex("000000130260b05ffbe7fcb117a024f1e2df7900000005"))


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=4), st.sampled_from(["auto", "string", "10,2"]))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_read_or_refused(values: list[bytes], decimals: str) -> None:
    for serializer in (INTEGER, DECIMAL):
        try:
            decode(serializer, *values, decimals=decimals)
        except (CorruptStateError, ValueRangeError):
            continue


@pytest.mark.parametrize("text", ["", "x", "NaN", "1_0", " 1", "1E99999999999", "1e-3000000000"])
def test_texts_that_are_no_numbers(text: str) -> None:
    for serializer in (INTEGER, DECIMAL):
        with pytest.raises(ValueRangeError):
            serializer.sizes(pa.array([text]))


def test_integers_with_places() -> None:
    with pytest.raises(ValueRangeError, match="fraction digits"):
        INTEGER.sizes(pa.array([Decimal("1.5")], pa.decimal128(10, 2)))
