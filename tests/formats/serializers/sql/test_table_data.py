"""Texts, decimals, timestamps and wrappers of SQL state against real Flink's bytes, and over whole columns."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError, UnsupportedVersionError, ValueRangeError
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.registry import read_serializer
from pyspark_savepoint.formats.serializers.sql.internal import internal_serializer
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType
from pyspark_savepoint.formats.serializers.sql.table_data import DECIMAL_DATA, STRING_DATA, TIMESTAMP_DATA
from tests.formats.serializers.codec_checks import check_column, check_prefixes, check_value, decode, encode, simple
from tests.formats.serializers.sql import sql_zoo

STRINGDATA = simple(STRING_DATA)


def decimal(precision: int, scale: int) -> TypeSerializer:
    return internal_serializer(LogicalType("DECIMAL", precision=precision, scale=scale))


def timestamp(precision: int) -> TypeSerializer:
    return internal_serializer(LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=precision))


@pytest.mark.parametrize(
    ("name", "flink_type", "expected"),
    [
        ("string", "STRINGDATA", ["h\u00e9", "", "a longer string \U0001f600"]),
        ("decimal compact", "DECIMAL(10, 2)", [Decimal("12.34"), Decimal("-0.01")]),
        (
            "decimal",
            "DECIMAL(38, 10)",
            [Decimal("12.34"), Decimal("-9999999999999999999999999999.9999999999"), Decimal(0)],
        ),
        (
            "timestamp 3",
            "TIMESTAMP(3)",
            [datetime(1970, 1, 1, 0, 0, 0, 5000), datetime(1969, 12, 31, 23, 59, 59, 999000)],
        ),
        (
            "timestamp 9",
            "TIMESTAMP(9)",
            [
                datetime(1970, 1, 1, 0, 0, 0, 5006),
                datetime(1969, 12, 31, 23, 59, 59, 999999),
                datetime(2004, 11, 3, 19, 53, 47, 776000),
            ],
        ),
        ("raw", "RAW<INT>", [77]),
        ("window key", "WINDOW_KEY<ROWDATA<STRING>>", [{"window": 1000, "key": {"f0": "key"}}]),
        ("external long", "LONG", [5]),
        ("external array", "ARRAYDATA<STRING>", [["a", None]]),
        (
            "node",
            "NODE<row ROWDATA<STRING>, sqn LONG, prev_sqn NULLABLE<LONG>(PADDED), next_sqn NULLABLE<LONG>(PADDED), "
            "next_sqn_for_record NULLABLE<LONG>(PADDED), timestamp LONG>",
            [
                {
                    "row": {"f0": "k"},
                    "sqn": 5,
                    "prev_sqn": None,
                    "next_sqn": 7,
                    "next_sqn_for_record": None,
                    "timestamp": 9,
                }
            ],
        ),
        ("rowsqn", "ROW_SQN_INFO<first_sqn LONG, last_sqn LONG>", [{"first_sqn": 1, "last_sqn": 2}]),
        ("metasqn", "META_SQN_INFO<high_sqn LONG, size LONG>", [{"high_sqn": 3, "size": 4}]),
        ("rowkey", "ROWDATA<STRING>", [{"f0": "k"}]),
    ],
)
def test_values_of_real_flink(name: str, flink_type: str, expected: list[Any]) -> None:
    exhibit = sql_zoo.exhibits()[name]
    assert exhibit.serializer.flink_type == flink_type
    assert exhibit.serializer.length == exhibit.length
    assert decode(exhibit.serializer, *exhibit.values).to_pylist() == expected
    for data, value in zip(exhibit.values, expected, strict=True):
        check_value(exhibit.serializer, data, value)


@pytest.mark.parametrize("name", ["string", "timestamp 3", "timestamp 9", "binaryrow"])
def test_hash_codes_of_real_flink(name: str) -> None:
    exhibit = sql_zoo.exhibits()[name]
    column = decode(exhibit.serializer, *exhibit.values)
    column = pa.concat_arrays([column, pa.nulls(1, column.type)])
    assert exhibit.serializer.java_hash(column).tolist() == [*exhibit.hashes, 0]


def test_every_prefix_of_a_snapshot_is_refused() -> None:
    for name in ("decimal", "timestamp 9", "raw", "window key", "external long", "rowsqn", "rowkey", "map", "simple"):
        snapshot = sql_zoo.exhibits()[name].snapshot
        for size in range(len(snapshot)):
            with pytest.raises((CorruptStateError, UnsupportedVersionError)):
                read_serializer(snapshot[:size])


def test_columns() -> None:
    texts = ["", "a", "h\u00e9\U0001f600", "x" * 300, "\0"]
    check_column(STRINGDATA, pa.array([texts[index % 5] for index in range(500)], pa.string()))
    numbers = [0, 1, -1, 127, 128, -128, -129, 10**18, -(10**18), 2**63, -(2**63), 2**64, 10**37, -(10**38) + 1]
    wide = pa.array([Decimal(numbers[index % 14]) for index in range(500)], pa.decimal128(38, 0))
    sizes = [len(data) - 4 for data in check_column(decimal(38, 0), wide)[:14]]
    assert sizes == [max(1, (number if number >= 0 else ~number).bit_length() // 8 + 1) for number in numbers]
    narrow = pa.array([Decimal(index - 250).scaleb(-2) for index in range(500)], pa.decimal128(5, 2))
    check_column(decimal(5, 2), narrow)
    micros = pa.array(range(-250_000, 250_000, 1000), pa.timestamp("us"))
    check_column(timestamp(3), micros)
    check_column(timestamp(6), pa.array(range(-250, 250), pa.timestamp("us")))


def test_raw_timestamps() -> None:
    check_value(timestamp(3), (2**62).to_bytes(8, "big"), 2**62, timestamps="raw")
    fine = (5).to_bytes(8, "big") + (999_999).to_bytes(4, "big")
    check_value(timestamp(9), fine, {"millis": 5, "nanos": 999_999}, timestamps="raw")
    assert decode(timestamp(9), fine, timestamps="truncate").to_pylist() == [datetime(1970, 1, 1, 0, 0, 0, 5999)]
    with pytest.raises(ValueRangeError, match="999999 ns"):
        decode(timestamp(9), fine)
    with pytest.raises(ValueRangeError, match="9999"):
        decode(timestamp(3), (2**62).to_bytes(8, "big"))


@pytest.mark.parametrize(
    ("serializer", "data"),
    [
        (STRINGDATA, "00000001 ff"),
        (STRINGDATA, "ffffffff"),
        (STRINGDATA, "7fffffff 00"),
        (decimal(5, 2), "00000000000186a0"),
        (decimal(5, 2), "8000000000000000"),
        (decimal(20, 0), "00000000"),
        (decimal(20, 0), "00000011" + "00" * 17),
        (decimal(20, 0), "00000009" + "7f" * 9),
        (timestamp(6), "0000000000000000 000f4240"),
        (timestamp(6), "0000000000000000 ffffffff"),
    ],
)
def test_damaged_values(serializer: TypeSerializer, data: str) -> None:
    with pytest.raises(CorruptStateError):
        decode(serializer, bytes.fromhex(data))


@pytest.mark.parametrize(
    ("name", "numbers"),
    [(DECIMAL_DATA, (0, 0)), (DECIMAL_DATA, (39, 0)), (DECIMAL_DATA, (5, 6)), (TIMESTAMP_DATA, (10,))],
)
def test_impossible_parameters(name: str, numbers: tuple[int, ...]) -> None:
    view = DataOutputView()
    view.write_i32(2)
    view.write_utf(name)
    view.write_i32(3 if name == DECIMAL_DATA else 1)
    for number in numbers:
        view.write_i32(number)
    with pytest.raises(CorruptStateError):
        read_serializer(view.getvalue())


def test_nulls_and_text_that_is_none() -> None:
    for serializer in (
        STRINGDATA,
        sql_zoo.exhibits()["sorted long"].serializer,
        decimal(5, 2),
        decimal(38, 0),
        timestamp(3),
    ):
        with pytest.raises(ValueRangeError, match="cannot be null"):
            encode(serializer, pa.nulls(1, serializer.arrow_type(DecodeOptions())))
    bad = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    with pytest.raises(ValueRangeError, match="UTF-8"):
        encode(STRINGDATA, bad)
    with pytest.raises(ValueRangeError, match="whole milliseconds"):
        encode(timestamp(3), pa.array([1], pa.timestamp("us")))


def test_raw_values_hide_what_is_inside() -> None:
    """A RAW value of an unknown class is BINARY like any other, and does not make its row opaque."""
    raw = sql_zoo.exhibits()["raw"]
    unknown = raw.snapshot.replace(b"IntSerializer$IntSerializer", b"OddSerializer$OddSerializer")
    serializer = read_serializer(unknown)
    assert serializer.flink_type.startswith("RAW<UNKNOWN<")
    assert serializer.opaque_parts() == []
    assert serializer.children[0].opaque_parts()
    check_value(serializer, raw.values[0], b"\0\0\0M")
    check_prefixes(serializer, raw.values[0])


def test_too_few_parts() -> None:
    snapshot = sql_zoo.exhibits()["rowsqn"].snapshot
    long = b"\0\x50org.apache.flink.api.common.typeutils.base.LongSerializer$LongSerializerSnapshot\0\0\0\3"
    assert snapshot.endswith(long + long)
    fewer = snapshot.removesuffix(long).replace(b"\0\0\0\2" + long, b"\0\0\0\1" + long)
    with pytest.raises(CorruptStateError, match="2 nested serializers"):
        read_serializer(fewer)
