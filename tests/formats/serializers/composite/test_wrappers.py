"""Nullable, either, option, try, traversable and union against real Flink's bytes, and over whole columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError, UndecodableStateError, ValueRangeError
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_enveloped
from pyspark_savepoint.formats.serializers.composite.fields import TupleSerializer
from pyspark_savepoint.formats.serializers.composite.wrappers import (
    EitherSerializer,
    NullableSerializer,
    TraversableSerializer,
    scala,
)
from pyspark_savepoint.formats.serializers.registry import known_serializers, read_serializer
from tests.formats.serializers.codec_checks import (
    base,
    check_column,
    check_resources,
    check_value,
    decode,
    encode,
    kind,
)
from tests.formats.serializers.composite_zoo import check_zoo

LONG, STRING, INT = base("Long"), base("String"), base("Int")
RUNTIME = "org.apache.flink.api.java.typeutils.runtime."


def either(left: TypeSerializer, right: TypeSerializer) -> EitherSerializer:
    return EitherSerializer.of(left, right)


def test_fixtures_of_flink(flink_resources: Path) -> None:
    check_resources(flink_resources, "nullable-padded-serializer", None, 5)
    check_resources(flink_resources, "union-serializer-one", {"one": "flink", "two": None}, 5)


def test_values_of_real_flink() -> None:
    check_zoo("nullable", "NULLABLE<LONG>", [5, None])
    check_zoo("nullablepad", "NULLABLE<LONG>(PADDED)", [5, None])
    check_zoo("either", "EITHER<STRING, LONG>", [{"left": "l", "right": None}, {"left": None, "right": 1 << 40}])
    check_zoo("union", "UNION<LONG, INT>", [{"one": 4, "two": None}, {"one": None, "two": 5}])


def test_values_of_scala() -> None:
    check_zoo("option", "OPTION<LONG>", [5, None])
    check_zoo("scalaeither", "SCALA_EITHER<LONG, INT>", [{"left": 1, "right": None}, {"left": None, "right": 2}])
    check_zoo("try", "TRY<LONG, STRING>", [{"success": 5, "failure": None}])
    serializer = check_zoo("traversable", "TRAVERSABLE<LONG>", [[1, None, 3]])
    assert isinstance(serializer, TraversableSerializer)
    assert serializer.builder_code.startswith("implicitly[scala.collection.generic.CanBuildFrom")


def test_scala_has_two_homes() -> None:
    for name in ("ScalaOption", "ScalaEither", "ScalaTry", "Traversable", "ScalaCaseClass", "Tuple2CaseClass"):
        for home in ("org.apache.flink.api.scala.typeutils.", "org.apache.flink.table.api.typeutils."):
            assert f"{home}{name}SerializerSnapshot" in known_serializers()


def test_the_snapshot_of_either_before_1_8() -> None:
    parts = [LONG.snapshot_class, INT.snapshot_class]
    nested = b"".join(len(name).to_bytes(2, "big") + name.encode() + b"\0\0\0\3" for name in parts)
    name = RUNTIME + "EitherSerializerSnapshot"
    head = bytes.fromhex("00000002") + len(name).to_bytes(2, "big") + name.encode() + bytes.fromhex("00000002")
    snapshot = head + bytes.fromhex("001457fd0000000100000002") + nested
    serializer = read_serializer(snapshot)
    view = DataOutputView()
    write_enveloped(serializer, view)
    assert view.getvalue() == snapshot
    assert serializer.flink_type == "EITHER<LONG, INT>"
    check_value(serializer, bytes.fromhex("0000000007"), {"left": None, "right": 7})


def test_length_of_nullable() -> None:
    assert NullableSerializer.of(LONG).length == -1
    assert NullableSerializer.of(LONG, padded=True).length == 9
    assert NullableSerializer.of(STRING, padded=True).length == -1


@pytest.mark.parametrize("padding", ["ffffffff", "7fffffff"])
def test_padding_is_bounded(padding: str) -> None:
    name = RUNTIME + "NullableSerializer$NullableSerializerSnapshot"
    head = bytes.fromhex("00000002") + len(name).to_bytes(2, "big") + name.encode() + b"\0\0\0\3"
    with pytest.raises(CorruptStateError, match="padding"):
        read_serializer(head + bytes.fromhex("000de70400000002" + padding))


@pytest.mark.parametrize("padded", [True, False])
def test_columns_of_nullables(padded: bool) -> None:
    for inner in (INT, TupleSerializer.of(LONG, INT), NullableSerializer.of(LONG)):
        serializer = NullableSerializer.of(inner, padded)
        value = {"f0": 7, "f1": 8} if inner.length == 12 else 7
        rows = [None if n % 3 == 0 else value for n in range(500)]
        check_column(serializer, pa.array(rows, serializer.arrow_type(DecodeOptions())))
        check_column(serializer, pa.array([None] * 5, serializer.arrow_type(DecodeOptions())))


def test_columns_of_eithers() -> None:
    serializer = either(NullableSerializer.of(STRING), either(INT, STRING))
    column = pa.array(
        [
            {"left": "\u00e9" * (n % 9)} if n % 3 else {"right": {"left": n} if n % 2 else {"right": f"{n}"}}
            for n in range(500)
        ],
        serializer.arrow_type(DecodeOptions()),
    )
    check_column(serializer, column)
    assert serializer.java_hash(column).tolist()[1:4] == [233, 2 * 233 + 0 * 31 + 30 * 233, 3]


def test_columns_of_unions_and_traversables() -> None:
    union = kind("UNION", LONG, STRING)
    rows = [{"one": n} if n % 2 else {"two": f"\U0001f600{n}"} for n in range(500)]
    check_column(union, pa.array(rows, union.arrow_type(DecodeOptions())))
    many = TraversableSerializer(scala("TraversableSerializerSnapshot")[0], 3, 2, (union,), "")
    lists = [[rows[n], None][: n % 3] for n in range(500)]
    check_column(many, pa.array(lists, many.arrow_type(DecodeOptions())))


def test_a_side_that_is_always_null() -> None:
    serializer = either(LONG, base("Void"))
    column = decode(serializer, bytes.fromhex("010000000000000007"), bytes.fromhex("0000"))
    assert column.to_pylist() == [{"left": 7, "right": None}, {"left": None, "right": None}]
    assert encode(serializer, column) == [bytes.fromhex("010000000000000007"), bytes.fromhex("0000")]


@pytest.mark.parametrize("row", [{}, {"left": 1, "right": 2}, None])
def test_exactly_one_side_is_set(row: dict[str, int] | None) -> None:
    serializer = either(LONG, INT)
    with pytest.raises(ValueRangeError):
        serializer.sizes(pa.array([row], serializer.arrow_type(DecodeOptions())))


@pytest.mark.parametrize("tag", [2, 0x7F, 0xFF])
def test_flags_and_tags_that_cannot_be(tag: int) -> None:
    data = bytes([tag]) + bytes(8)
    union = kind("UNION", LONG, LONG)
    for serializer in (either(LONG, LONG), NullableSerializer.of(LONG), union):
        if tag == 2 and serializer is union:
            continue
        with pytest.raises(CorruptStateError):
            decode(serializer, data)


def test_hashes() -> None:
    column = pa.array([None, 1 << 40], pa.int64())
    assert NullableSerializer.of(LONG).java_hash(column).tolist() == [0, 256]
    scala = EitherSerializer("org.apache.flink.api.scala.typeutils.ScalaEitherSerializerSnapshot", 3, 1, (LONG, INT))
    with pytest.raises(UndecodableStateError):
        scala.java_hash(pa.array([{"left": 1, "right": None}]))
