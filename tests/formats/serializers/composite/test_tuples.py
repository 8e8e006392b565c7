"""Tuples and case classes against real Flink's bytes, and over whole columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import CorruptStateError, UndecodableStateError, ValueRangeError
from pyspark_savepoint.formats.serializers.composite.fields import CaseClassSerializer, TupleSerializer
from tests.formats.serializers.codec_checks import base, check_column, check_resources, decode, encode
from tests.formats.serializers.composite_zoo import check_zoo

LONG, STRING, INT = base("Long"), base("String"), base("Int")


def test_fixtures_of_flink(flink_resources: Path) -> None:
    serializer = check_resources(flink_resources, "tuple-serializer", {"f0": "hello Gordon", "f1": "ciao", "f2": 14}, 5)
    assert serializer.flink_type == "TUPLE<STRING, STRING, INT>"


def test_values_of_real_flink() -> None:
    values = [{"f0": "a", "f1": 7, "f2": 3.14}, {"f0": None, "f1": -1, "f2": -0.0}]
    check_zoo("tuple", "TUPLE<STRING, LONG, DOUBLE>", values)
    check_zoo("tuplefix", "TUPLE<INT, BOOLEAN>", [{"f0": 5, "f1": True}])
    check_zoo("tuple0", "TUPLE<>", [{}])


def test_values_of_scala() -> None:
    serializer = check_zoo("caseclass", "CASE_CLASS<scala.Tuple2>(_1 LONG, _2 INT)", [{"_1": 1, "_2": 2}])
    assert isinstance(serializer, CaseClassSerializer)
    with pytest.raises(UndecodableStateError):
        serializer.java_hash(pa.array([{"_1": 1, "_2": 2}]))


def test_length_needs_every_field_to_be_longer_than_0() -> None:
    assert TupleSerializer.of(LONG, INT).length == 12
    assert TupleSerializer.of(LONG, STRING).length == -1
    assert TupleSerializer.of(LONG, TupleSerializer.of()).length == -1
    assert TupleSerializer.of(TupleSerializer.of(LONG), INT).length == 12


def test_columns() -> None:
    serializer = TupleSerializer.of(LONG, STRING, TupleSerializer.of(STRING, INT))
    rows = [
        {"f0": n - 250, "f1": None if n % 3 else "h\u00e9" * (n % 5), "f2": {"f0": f"\U0001f600{n}", "f1": -n}}
        for n in range(500)
    ]
    column = pa.array(rows, serializer.arrow_type(DecodeOptions()))
    check_column(serializer, column)
    assert serializer.java_hash(column[3:5]).tolist() == serializer.java_hash(column).tolist()[3:5]


def test_twenty_five_fields() -> None:
    serializer = TupleSerializer.of(*[INT] * 25)
    check_column(serializer, pa.array([{f"f{n}": n for n in range(25)}] * 3, serializer.arrow_type(DecodeOptions())))


def test_nulls_without_bytes_for_them_name_the_field() -> None:
    serializer = TupleSerializer.of(LONG, TupleSerializer.of(STRING, INT))
    kind = serializer.arrow_type(DecodeOptions())
    for row, state in [({"f0": None, "f1": {}}, "f0"), ({"f0": 1, "f1": None}, "f1"), ({"f0": 1, "f1": {}}, "f1.f1")]:
        with pytest.raises(ValueRangeError, match="cannot be null") as caught:
            serializer.sizes(pa.array([row], kind))
        assert caught.value.facts["state"] == state
    with pytest.raises(ValueRangeError, match="cannot be null"):
        serializer.sizes(pa.array([None], kind))


def test_the_hash_of_null_is_0() -> None:
    serializer = TupleSerializer.of(STRING, INT)
    column = pa.array([None, {"f0": "a", "f1": 7}, {"f0": None, "f1": 7}], serializer.arrow_type(DecodeOptions()))
    assert serializer.java_hash(column).tolist() == [0, 3014, 7]


def test_the_byte_of_tuple0() -> None:
    serializer = check_zoo("tuple0", "TUPLE<>", [{}])
    assert encode(serializer, decode(serializer, b"\x2a", b"\x2a")) == [b"\x2a", b"\x2a"]
    with pytest.raises(CorruptStateError):
        decode(serializer, b"\x2b")
    with pytest.raises(ValueRangeError):
        serializer.sizes(pa.array([None], pa.struct([])))


def test_errors_name_the_field() -> None:
    serializer = TupleSerializer.of(LONG, TupleSerializer.of(INT, INT))
    with pytest.raises(CorruptStateError) as caught:
        decode(serializer, bytes(13))
    assert caught.value.facts["state"] == "value.f1.f1"
    assert caught.value.facts["offset"] == 12
