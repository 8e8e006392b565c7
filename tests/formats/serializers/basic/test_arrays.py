"""Arrays against the bytes of real Flink, and over whole columns."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.columns import Cursors
from pyspark_savepoint.formats.errors import CorruptStateError, UndecodableStateError, ValueRangeError
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.arrays import value_array
from tests.formats.serializers.codec_checks import (
    BASE,
    base,
    check_column,
    check_resources,
    check_value,
    decode,
    encode,
    simple,
)

TEN = list(range(10))
PRIMITIVES = ["Boolean", "Short", "Int", "Long", "Float", "Double", "Char"]


def primitive(stem: str) -> TypeSerializer:
    return base(f"array.{stem}PrimitiveArray")


def array(kind: pa.DataType, *rows: Any) -> pa.Array:
    return pa.array(rows, pa.list_(pa.field("element", kind)))


STRING_ARRAY = simple(f"{BASE}array.StringArraySerializer$StringArraySerializerSnapshot")
PYFLINK = "org.apache.flink.streaming.api.utils.ByteArrayWrapperSerializer$ByteArrayWrapperSerializerSnapshot"
BYTE_ARRAYS = [primitive("Byte"), base("Bitmap"), simple(PYFLINK), simple(value_array("Byte"))]


@pytest.mark.parametrize(
    ("stem", "expected", "flink_type"),
    [
        ("boolean-primitive", [True, False], "PRIMITIVE_ARRAY<BOOLEAN>"),
        ("byte-primitive", bytes(TEN), "PRIMITIVE_ARRAY<BYTE>"),
        ("short-primitive", TEN, "PRIMITIVE_ARRAY<SHORT>"),
        ("int-primitive", TEN, "PRIMITIVE_ARRAY<INT>"),
        ("long-primitive", TEN, "PRIMITIVE_ARRAY<LONG>"),
        ("char-primitive", [chr(i) for i in TEN], "PRIMITIVE_ARRAY<CHAR>"),
        ("string", [str(i) for i in TEN], "BASIC_ARRAY<STRING>"),
    ],
)
def test_values_of_real_flink(flink_resources: Path, stem: str, expected: object, flink_type: str) -> None:
    serializer = check_resources(flink_resources, f"{stem}-array-serializer", expected, 5)
    assert (serializer.flink_type, serializer.length) == (flink_type, -1)


def test_doubles_of_real_flink(flink_resources: Path) -> None:
    for folder in (flink_resources / "serializers").glob("double-primitive-array-serializer-*"):
        data = (folder / "test-data").read_bytes()
        column = decode(primitive("Double"), data)
        assert np.allclose(column[0].as_py(), [0.1 + i for i in range(10)], atol=1e-6)
        assert encode(primitive("Double"), column) == [data]


@pytest.mark.parametrize(
    ("stem", "expected"),
    [
        ("byte", b"{Y"),
        ("char", ["\x17", '"', "-"]),
        ("double", [1.2, 3.4]),
        ("float", [np.float32(1.2).item(), np.float32(3.4).item()]),
        ("int", [123, 456]),
        ("long", [123, 456]),
        ("short", [123, 456]),
        ("null", [None, None]),
    ],
)
def test_values_of_gelly(flink_resources: Path, stem: str, expected: object) -> None:
    serializer = check_resources(flink_resources, f"{stem}-value-array-serializer", expected, 1)
    assert serializer.flink_type.startswith("VALUE_ARRAY<")
    with pytest.raises(UndecodableStateError):
        serializer.java_hash(pa.nulls(0, serializer.arrow_type(Cursors.over([]).options)))


@pytest.mark.parametrize(
    ("serializer", "data", "expected"),
    [
        (primitive("Boolean"), "000000020100", [True, False]),
        (primitive("Byte"), "0000000201fe", b"\1\xfe"),
        (primitive("Short"), "000000020001fffe", [1, -2]),
        (primitive("Int"), "0000000200000001fffffffe", [1, -2]),
        (primitive("Long"), "000000020000000000000001fffffffffffffffe", [1, -2]),
        (primitive("Double"), "000000023ff00000000000008000000000000000", [1.0, -0.0]),
        (primitive("Char"), "00000003006100e96f22", ["a", "\u00e9", "\u6f22"]),
        (primitive("Int"), "00000000", []),
        (STRING_ARRAY, "0000000302610002e901", ["a", None, "\u00e9"]),
        (base("Bitmap"), "000000083a30000000000000", bytes.fromhex("3a30000000000000")),
        (simple(PYFLINK), "00000003010203", b"\1\2\3"),
    ],
)
def test_bytes(serializer: TypeSerializer, data: str, expected: object) -> None:
    check_value(serializer, bytes.fromhex(data), expected)


def test_strings_of_gelly() -> None:
    serializer = simple(value_array("String"))
    check_value(serializer, bytes.fromhex("0000000300000007" + "0161" + "00" + "02e90162"), ["a", "", "\u00e9b"])
    check_value(serializer, bytes(8), [])
    for data in ("0000000200000002" + "0161", "0000000100000003" + "016161", "ffffffff00000000", "00000001ffffffff01"):
        with pytest.raises(CorruptStateError):
            decode(serializer, bytes.fromhex(data))


def test_variants() -> None:
    serializer = base("Variant")
    value, metadata = bytes.fromhex("1968c3a96c6c6f"), bytes.fromhex("010000")
    written = b"\0\0\0\7\0\0\0\3" + value + metadata
    check_value(serializer, written, {"value": value, "metadata": metadata})
    rows = [{"value": b"v" * (i % 5), "metadata": b"m" * (i % 3)} for i in range(500)]
    check_column(serializer, pa.array(rows, serializer.arrow_type(Cursors.over([]).options)))
    with pytest.raises(CorruptStateError):
        decode(serializer, b"\0\0\0\1\xff\xff\xff\xffab")


def test_columns() -> None:
    random = np.random.default_rng(3)
    rows = [random.integers(-100, 100, i % 9).tolist() for i in range(500)]
    kinds = [("Short", pa.int16()), ("Int", pa.int32()), ("Long", pa.int64()), ("Float", pa.float32())]
    for stem, kind in [*kinds, ("Double", pa.float64())]:
        check_column(primitive(stem), array(kind, *rows))
    check_column(primitive("Boolean"), array(pa.bool_(), *([v > 0 for v in row] for row in rows)))
    check_column(primitive("Char"), array(pa.string(), *([chr(200 + v * 2) for v in row] for row in rows)))
    check_column(simple(value_array("Null")), array(pa.null(), *([None] * len(row) for row in rows)))
    texts = [[None if v == 7 else "\u00e9" * (v % 4) for v in row] for row in rows]
    check_column(STRING_ARRAY, array(pa.string(), *texts))
    check_column(simple(value_array("String")), array(pa.string(), *([t or "" for t in row] for row in texts)))
    for serializer in BYTE_ARRAYS:
        check_column(serializer, pa.array([bytes(abs(v) for v in row) for row in rows]))


def test_not_a_number_is_one_value() -> None:
    odd = np.array([0x7FC00001], np.int32).view(np.float32)
    column = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(odd, pa.float32(), from_pandas=False))
    assert encode(primitive("Float"), column) == [bytes.fromhex("000000017fc00000")]
    read = decode(primitive("Float"), bytes.fromhex("000000017fc00000"))
    assert math.isnan(read[0].as_py()[0])


@pytest.mark.parametrize(
    ("serializer", "column", "expected"),
    [
        (primitive("Int"), array(pa.int32(), [1, 2, 3], [], None), [30817, 1, 0]),
        (primitive("Long"), array(pa.int64(), [2**40, -1]), [31 * (31 + 256)]),
        (primitive("Boolean"), array(pa.bool_(), [True]), [31 + 1231]),
        (primitive("Double"), array(pa.float64(), [-0.0]), [31 - 2147483648]),
        (primitive("Char"), array(pa.string(), ["a", "b"]), [31 * (31 + 97) + 98]),
        (primitive("Byte"), pa.array([b"\1\2\3", b"\xff", None]), [30817, 30, 0]),
    ],
)
def test_hashes(serializer: TypeSerializer, column: pa.Array, expected: list[int]) -> None:
    assert serializer.java_hash(column).tolist() == expected


@pytest.mark.parametrize("stem", [*PRIMITIVES, "Byte"])
def test_counts_that_cannot_be(stem: str) -> None:
    for count in ("ffffffff", "7fffffff", "00000003"):
        with pytest.raises(CorruptStateError):
            decode(primitive(stem), bytes(4), bytes.fromhex(count + "01" * 2))


def test_null_arrays_are_bounded() -> None:
    for count in ("ffffffff", "7fffffff", "00100001"):
        with pytest.raises(CorruptStateError):
            decode(simple(value_array("Null")), bytes.fromhex(count))


def test_elements_that_cannot_be() -> None:
    with pytest.raises(CorruptStateError, match="0 or 1") as damaged:
        decode(primitive("Boolean"), bytes.fromhex("0000000101"), bytes.fromhex("000000020102"))
    assert damaged.value.facts["offset"] == 5
    with pytest.raises(ValueRangeError, match="surrogate") as lone:
        decode(primitive("Char"), bytes.fromhex("000000010041"), bytes.fromhex("000000020041d800"), text="error")
    assert lone.value.facts["offset"] == 6


def test_what_cannot_be_written() -> None:
    for serializer in (primitive("Int"), STRING_ARRAY, simple(value_array("String")), simple(value_array("Null"))):
        kind = serializer.arrow_type(Cursors.over([]).options)
        with pytest.raises(ValueRangeError, match="cannot be null"):
            serializer.sizes(pa.array([None], kind))
    with pytest.raises(ValueRangeError, match="an element of PRIMITIVE_ARRAY<INT> cannot be null"):
        primitive("Int").sizes(array(pa.int32(), [1, None]))
    with pytest.raises(ValueRangeError, match="PRIMITIVE_ARRAY<BYTE> cannot be null"):
        primitive("Byte").sizes(pa.array([None], pa.binary()))
    with pytest.raises(ValueRangeError, match="field of VARIANT"):
        base("Variant").sizes(pa.array([{"value": None, "metadata": b""}], base("Variant").arrow_type(None)))


@given(st.lists(st.binary(max_size=16), min_size=1, max_size=4), st.sampled_from(PRIMITIVES))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_read_or_refused(values: list[bytes], stem: str) -> None:
    for serializer in (primitive(stem), STRING_ARRAY, simple(value_array("String")), base("Variant"), *BYTE_ARRAYS):
        try:
            column = serializer.decode(Cursors.over(values))
        except (CorruptStateError, ValueRangeError):
            continue
        column.validate(full=True)
