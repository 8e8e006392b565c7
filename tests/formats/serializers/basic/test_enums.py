"""Enum constants: real Flink's values, lists in another order, ids that are no indices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError, UndecodableStateError, ValueRangeError
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.enums import ENUM
from pyspark_savepoint.formats.serializers.registry import read_serializer
from tests.formats.serializers.codec_checks import (
    check_column,
    check_resources,
    check_value,
    decode,
    encode,
    read_and_written_again,
)

SCALA = "org.apache.flink.api.scala.typeutils.ScalaEnumSerializerSnapshot"
# Flink's own bytes for enum W$Color {RED, GREEN, BLUE}.
COLORS = bytes.fromhex(
    "0000000200506f72672e6170616368652e666c696e6b2e6170692e636f6d6d6f6e2e747970657574696c732e62617365"
    "2e456e756d53657269616c697a657224456e756d53657269616c697a6572536e617073686f740000000300075724436f"
    "6c6f720000000300035245440005475245454e0004424c5545"
)


def java(*constants: str) -> TypeSerializer:
    return _read(ENUM, "com.shop.Color", [(name, None) for name in constants])


def scala(*constants: tuple[str, int]) -> TypeSerializer:
    return _read(SCALA, "com.shop.Color$", list(constants))


def _read(snapshot: str, enum_class: str, constants: list[tuple[str, int | None]]) -> TypeSerializer:
    view = DataOutputView()
    view.write_i32(2)
    view.write_utf(snapshot)
    view.write_i32(3)
    view.write_utf(enum_class)
    view.write_i32(len(constants))
    for name, number in constants:
        view.write_utf(name)
        if number is not None:
            view.write_i32(number)
    return read_and_written_again(view.getvalue())


def test_values_of_real_flink(flink_resources: Path) -> None:
    serializer = check_resources(flink_resources, "enum-serializer", "EMMA", 5)
    assert serializer.flink_type == (
        "ENUM<org.apache.flink.api.common.typeutils.base.TestEnum>(FOO, BAR, PETER, PAULA, NATHANIEL, EMMA)"
    )
    assert serializer.length == 4
    assert serializer.constants == ("FOO", "BAR", "PETER", "PAULA", "NATHANIEL", "EMMA")


def test_bytes() -> None:
    colors = read_serializer(COLORS)
    assert colors.flink_type == "ENUM<W$Color>(RED, GREEN, BLUE)"
    for index, name in enumerate(("RED", "GREEN", "BLUE")):
        check_value(colors, bytes([0, 0, 0, index]), name)


def test_scala() -> None:
    colors = scala(("RED", 7), ("GREEN", -2), ("BLUE", 3))
    assert colors.flink_type == "SCALA_ENUM<com.shop.Color$>(RED = 7, GREEN = -2, BLUE = 3)"
    for data, name in (("00000007", "RED"), ("fffffffe", "GREEN"), ("00000003", "BLUE")):
        check_value(colors, bytes.fromhex(data), name)
    check_column(colors, pa.array((["RED", "BLUE", "GREEN"] * 200)[:500]))


def test_columns() -> None:
    names = [f"C{i}" for i in range(40)]
    column = pa.array([names[i * 7 % 40] for i in range(500)])
    written = check_column(java(*names), column)
    assert [int.from_bytes(value, "big") for value in written] == [i * 7 % 40 for i in range(500)]


@pytest.mark.parametrize("number", [3, -1, 2**31 - 1, -(2**31)])
def test_numbers_of_no_constant(number: int) -> None:
    data = np.array([number], ">i4").tobytes()
    for serializer in (java("A", "B", "C"), scala(("A", 0), ("B", 1), ("C", 7)), java()):
        with pytest.raises(CorruptStateError, match="constants of com"):
            decode(serializer, data)


def test_constants_that_are_none() -> None:
    with pytest.raises(ValueRangeError, match=r"'GREN' is not a constant of com.shop.Color(.|\n)*'GREEN'"):
        encode(java("RED", "GREEN"), pa.array(["RED", "GREN"]))
    with pytest.raises(ValueRangeError, match="cannot be null"):
        java("RED").sizes(pa.array([None], pa.string()))
    with pytest.raises(UndecodableStateError, match="hashCode of ENUM"):
        java("RED").java_hash(pa.array(["RED"]))


def test_damaged_snapshots() -> None:
    for size in range(len(COLORS)):
        with pytest.raises(CorruptStateError):
            read_serializer(COLORS[:size])
    half = COLORS[:-6] + bytes.fromhex("0003eda0bd")
    with pytest.raises(CorruptStateError, match="name of an enum constant"):
        read_serializer(half)
