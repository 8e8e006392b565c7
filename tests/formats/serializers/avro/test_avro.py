"""Avro: real values, every type of the specification, hostile schemas."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError, UndecodableStateError, ValueRangeError
from pyspark_savepoint.formats.serializers.avro.serializer import AvroSerializer, OpaqueAvroSerializer
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_enveloped
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer
from pyspark_savepoint.formats.serializers.layout import skip_rows
from pyspark_savepoint.formats.serializers.registry import read_serializer
from tests.formats.serializers.codec_checks import (
    check_column,
    check_prefixes,
    check_resources,
    check_value,
    decode,
    encode,
)

SNAPSHOT = "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot"
*ORDERS, ORDER_SCHEMA = (Path(__file__).parent / "avro_orders.txt").read_text().splitlines()[1:]
VALUES = [bytes.fromhex(line) for line in ORDERS]


def snapshot(schema: Any, version: int = 3) -> bytes:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    view = DataOutputView()
    view.write_i32(2)
    view.write_utf(SNAPSHOT)
    view.write_i32(version)
    write = view.write_string_value if version == 3 else view.write_utf
    if version > 1:
        write("org.apache.avro.generic.GenericRecord")
    write(text)
    return view.getvalue()


def avro(schema: Any) -> TypeSerializer:
    return read_serializer(snapshot(schema))


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


def test_fixtures_of_flink(flink_resources: Path) -> None:
    address = {"num": 239, "street": "Baker Street", "city": "London", "state": "London", "zip": "NW1 6XE"}
    serializer = check_resources(flink_resources, "generic-avro-serializer", address, 5)
    assert serializer.flink_type == "AVRO<org.apache.flink.formats.avro.generated.Address>"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_snapshots_of_every_version(version: int) -> None:
    data = snapshot(record(("a", "int")), version)
    serializer = read_serializer(data)
    view = DataOutputView()
    write_enveloped(serializer, view)
    assert view.getvalue() == data
    for length in range(len(data)):
        with pytest.raises(CorruptStateError):
            read_serializer(data[:length])


def test_a_record_of_every_type() -> None:
    serializer = avro(ORDER_SCHEMA)
    column = decode(serializer, *VALUES)
    first, second, third = column.to_pylist()
    assert first == {
        "id": 5,
        "ok": True,
        "n": None,
        "f": 1.5,
        "d": -2.25,
        "raw": b"",
        "color": "RED",
        "color2": "GREEN",
        "hash": b"\xff\0\0",
        "tags": [],
        "attrs": [("k", 9)],
        "any": None,
        "lines": [],
        "price": Decimal("12.30"),
        "fix": Decimal("-1.0000"),
        "day": datetime.date(2024, 2, 29),
        "tm": 3723004,
        "ts": datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, datetime.UTC),
        "tu": datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, datetime.UTC),
        "lts": None,
        "u": "123e4567-e89b-12d3-a456-426614174000",
    }
    assert second["any"] == {"member0": None, "member1": 8, "member2": None}
    assert second["tags"] == ["a", None, "hé😀"]
    assert second["lts"] == datetime.datetime(2023, 11, 14, 22, 13, 20, 123456)
    assert third["any"] == {"member0": None, "member1": None, "member2": {"x": 77}}
    assert third["lines"] == [{"x": 77}] * 130
    assert third["price"] == Decimal("99999999.99")
    assert third["raw"] == b"\1\2"
    assert encode(serializer, column) == VALUES
    check_column(serializer, pa.concat_arrays([column] * 70))


def test_cut_off_values() -> None:
    check_prefixes(avro(ORDER_SCHEMA), VALUES[1])


def test_times_as_numbers() -> None:
    serializer = avro(ORDER_SCHEMA)
    column = decode(serializer, *VALUES, timestamps="raw")
    value = column.to_pylist()[1]
    assert (value["day"], value["ts"], value["lts"]) == (-20218, 1700000000123, 1700000000123456)
    assert encode(serializer, column) == VALUES


def test_inside_a_list() -> None:
    serializer = ListSerializer.of(avro(ORDER_SCHEMA))
    data = (2).to_bytes(4, "big") + VALUES[0] + VALUES[2]
    assert [item["id"] for item in decode(serializer, data, bytes(4)).to_pylist()[0]] == [5, 7]


@pytest.mark.parametrize(
    ("schema", "data", "value"),
    [
        ('"int"', "fffffffe", -2),
        ('"string"', "0000000468c3a921", "hé!"),
        ('"null"', "", None),
        ({"type": "string", "avro.java.string": "String"}, "0000000161", "a"),
        ({"type": {"type": "long"}}, "0000000000000009", 9),
        (["null", "long"], "00000000", None),
        (["long", "null"], "000000000000000000000003", 3),
        (["null"], "00000000", None),
        (["int"], "0000000000000007", 7),
        (["int", "string"], "000000010000000161", {"member0": None, "member1": "a"}),
        ({"type": "array", "items": {"type": "array", "items": "int"}}, "020001000000050000", [[], [5]]),
        ({"type": "map", "values": ["null", "int"]}, "010000000161" + "00000000" + "00", [("a", None)]),
        (record(), "", {}),
        (record(("r", record(("x", "boolean"), name="Inner"))), "01", {"r": {"x": True}}),
        ({"type": "int", "logicalType": "date"}, "00000001", datetime.date(1970, 1, 2)),
        ({"type": "long", "logicalType": "time-micros"}, "0000000000000001", 1),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 5}, "0000000101", b"\1"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, "0000000101", b"\1"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38}, "00000001ff", Decimal(-1)),
        ({"type": "string", "logicalType": "date"}, "00000000", ""),
        (
            {"type": "fixed", "name": "F", "size": 3, "logicalType": "decimal", "precision": 5, "scale": 1},
            "fffff6",
            Decimal("-1.0"),
        ),
        (
            {"type": "long", "logicalType": "timestamp-nanos"},
            "00000000000003e8",
            datetime.datetime(1970, 1, 1, 0, 0, 0, 1, datetime.UTC),
        ),
    ],
)
def test_types(schema: Any, data: str, value: Any) -> None:
    check_value(avro(schema), bytes.fromhex(data), value)


def test_more_blocks_than_one() -> None:
    serializer = avro({"type": "array", "items": "int"})
    data = [bytes.fromhex(text) for text in ("0100000001020000000200000003" + "00", "00", "010000000400")]
    assert decode(serializer, *data).to_pylist() == [[1, 2, 3], [], [4]]
    with pytest.raises(CorruptStateError, match="blocks"):
        serializer.decode(Cursors.over([bytes.fromhex("0100000001") * 70 + b"\0"]))


def test_names_are_found_by_namespace() -> None:
    inner = {"type": "enum", "name": "a.b.E", "symbols": ["X"]}
    schema = {**record(("e", inner), ("f", "a.b.E"), ("g", record(("h", "E"), name="a.b.I"))), "namespace": "n"}
    assert decode(avro(schema), bytes(12)).to_pylist() == [{"e": "X", "f": "X", "g": {"h": "X"}}]


def test_a_record_inside_itself_is_opaque_and_delimited() -> None:
    serializer = avro(record(("v", "int"), ("next", ["null", "R"]), ("kids", {"type": "array", "items": "R"})))
    assert isinstance(serializer, OpaqueAvroSerializer)
    assert serializer.opaque_parts() == [serializer]
    assert "contains itself" in serializer.reason
    assert serializer.arrow_type(DecodeOptions()) == pa.binary()
    with pytest.raises(UndecodableStateError, match="contains itself"):
        serializer.decode(Cursors.over([bytes(9)]))
    leaf = bytes(4) + bytes(4) + b"\0"
    value = bytes(4) + b"\0\0\0\1" + leaf + b"\2" + leaf + leaf + b"\0"
    at = Cursors.over([value + b"rest"])
    skip_rows(serializer, at)
    assert at.position[0] == len(value)


def test_a_schema_of_too_many_columns_is_opaque() -> None:
    fields: Any = "int"
    for level in range(30):
        fields = record(("a", fields), ("b", fields if level == 0 else f"R{level - 1}"), name=f"R{level}")
    serializer = avro(fields)
    assert isinstance(serializer, OpaqueAvroSerializer)
    assert "parts" in serializer.reason


@pytest.mark.parametrize(
    "schema",
    [
        "{",
        "nothing",
        '"nothing"',
        "5",
        "[" * 100_000,
        "[" * 200 + "]" * 200,
        '{"type":' * 200 + '"int"' + "}" * 200,
        "1" * 5000,
        [],
        ["null", "null"],
        [["int"]],
        {},
        {"type": "record", "name": "R"},
        {"type": "record", "fields": []},
        record(("a", "int"), ("a", "int")),
        record(("a", "R")),
        record(("a", record(name="R"))),
        record(("a", "unknown")),
        {"type": "fixed", "name": "F"},
        {"type": "fixed", "name": "F", "size": -1},
        {"type": "fixed", "name": "F", "size": True},
        {"type": "enum", "name": "E", "symbols": [1]},
        {"type": "enum", "name": "E", "symbols": "XY"},
        {"type": "enum", "name": "E", "symbols": ["\ud800"]},
        {"type": "array"},
        {"type": "map", "values": None},
        {"type": "record", "name": "R", "fields": [1]},
    ],
)
def test_hostile_schemas(schema: Any) -> None:
    with pytest.raises(CorruptStateError, match="an Avro schema"):
        avro(schema)


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ('"boolean"', "02"),
        ('"string"', "ffffffff"),
        ('"string"', "00000001ff"),
        (["null", "int"], "00000002"),
        (["null", "int"], "ffffffff"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "00000001"),
        ({"type": "array", "items": "null"}, "ffffffff0f"),
        ({"type": "array", "items": "int"}, "ffffffffff01"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, "0000000164"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, "00000000"),
    ],
)
def test_damaged_values(schema: Any, data: str) -> None:
    with pytest.raises(CorruptStateError):
        avro(schema).decode(Cursors.over([bytes.fromhex(data)]))


@pytest.mark.parametrize(
    ("schema", "kind", "value"),
    [
        ('"int"', pa.int32(), None),
        (["int"], pa.int32(), None),
        ({"type": "fixed", "name": "F", "size": 2}, pa.binary(), b"abc"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, pa.string(), "B"),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("us", tz="UTC"), 1001),
        ({"type": "long", "logicalType": "timestamp-nanos"}, pa.timestamp("us", tz="UTC"), 2**54),
        ({"type": "int", "logicalType": "time-millis"}, pa.int64(), 2**40),
        (["int", "string"], pa.struct([("member0", pa.int32()), ("member1", pa.string())]), {"member0": None}),
        (
            {"type": "fixed", "name": "F", "size": 1, "logicalType": "decimal", "precision": 3},
            pa.decimal128(3, 0),
            Decimal(200),
        ),
    ],
)
def test_values_that_cannot_be_written(schema: Any, kind: pa.DataType, value: Any) -> None:
    serializer = avro(schema)
    assert isinstance(serializer, AvroSerializer)
    with pytest.raises(ValueRangeError):
        serializer.sizes(pa.array([value], kind))


def test_times_that_spark_cannot_hold() -> None:
    serializer = avro({"type": "long", "logicalType": "timestamp-nanos"})
    with pytest.raises(ValueRangeError, match="truncate"):
        serializer.decode(Cursors.over([b"\0\0\0\0\0\0\0\1"]))
    assert decode(serializer, b"\0\0\0\0\0\0\0\1", timestamps="raw").to_pylist() == [1]
    with pytest.raises(ValueRangeError, match="raw"):
        avro({"type": "long", "logicalType": "timestamp-millis"}).decode(Cursors.over([b"\x7f" * 8]))
