"""Real Flink reads values of listed classes that were written here, as what they are, and writes the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_enveloped
from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses
from pyspark_savepoint.formats.serializers.kryo.described.serializer import MANY, KryoSerializer
from pyspark_savepoint.formats.serializers.kryo.objects import (
    STRING,
    KryoObject,
    list_of,
    map_of,
    object_format,
    write_object,
)
from tests.formats.serializers.codec_checks import encode
from tests.formats.serializers.kryo.test_one_list import decode, shown
from tests.oracle.flink import Oracle

pytestmark = pytest.mark.flink

RELEASES = {"1.20.5": 2, "2.3.0": 5}
NODE = "org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node."
LANG3 = "org.apache.commons.lang3."
#: Columns by class, and what Java prints for each value.
COLUMNS: dict[str, tuple[pa.Array, list[str]]] = {
    "java.awt.Point": (
        pa.array([{"x": 1, "y": -2}], pa.struct({"x": pa.int32(), "y": pa.int32()})),
        ["java.awt.Point[x=1,y=-2]"],
    ),
    "java.util.IntSummaryStatistics": (
        pa.array(
            [{"count": 2, "max": 7, "min": -1, "sum": 6}],
            pa.struct([("count", pa.int64()), ("max", pa.int32()), ("min", pa.int32()), ("sum", pa.int64())]),
        ),
        ["IntSummaryStatistics{count=2, sum=6, min=-1, average=3.000000, max=7}"],
    ),
    "java.util.concurrent.atomic.AtomicLong": (pa.array([1, -1 << 40]), ["1", "-1099511627776"]),
    "java.util.concurrent.atomic.AtomicBoolean": (pa.array([True, False]), ["true", "false"]),
    "java.io.File": (pa.array(["/a/b"]), ["/a/b"]),
    LANG3 + "mutable.MutableInt": (pa.array([1, -2], pa.int32()), ["1", "-2"]),
    LANG3 + "mutable.MutableLong": (pa.array([1, -2]), ["1", "-2"]),
    LANG3 + "mutable.MutableDouble": (pa.array([0.5]), ["0.5"]),
    LANG3 + "mutable.MutableBoolean": (pa.array([True, False]), ["true", "false"]),
}


@pytest.fixture(scope="module", params=RELEASES)
def oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    with Oracle(request.param) as oracle:
        yield oracle


def of_flink(oracle: Oracle, serializer: TypeSerializer, values: list[bytes]) -> list[dict[str, Any]]:
    """Return what Flink reads. It writes the same bytes again."""
    view = DataOutputView()
    write_enveloped(serializer, view)
    answers: list[dict[str, Any]] = oracle.serializer(view.getvalue(), values)["values"]
    assert [answer["again"] for answer in answers] == values
    return answers


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_objects_of_flink(oracle: Oracle, name: str) -> None:
    column, texts = COLUMNS[name]
    serializer = KryoSerializer.of(name)
    kryo = RELEASES[oracle.version]
    values = encode(JobClasses(kryo=kryo).described(serializer), column)
    assert [answer["text"] for answer in of_flink(oracle, serializer, values)] == texts
    assert pa.concat_arrays([decode(serializer, value, kryo) for value in values]) == column
    assert encode(JobClasses(kryo=kryo).described(serializer), pa.concat_arrays([column] * MANY)) == values * MANY


@pytest.mark.parametrize("size", [1, 2, 31, 32, 33, 62, 63, 64, 65, 300])
def test_texts_of_any_length_are_written_as_flink_does(oracle: Oracle, size: int) -> None:
    kryo = RELEASES[oracle.version]
    serializer = KryoSerializer.of("java.lang.Object")
    text = KryoObject(STRING, "x" * size)
    of_flink(oracle, serializer, [write_object(text, object_format(2 if kryo == 2 else 5, serializer.classes))])


def test_rows_of_texts_that_are_written_together_are_flinks(oracle: Oracle) -> None:
    serializer = KryoSerializer.of("[Ljava.lang.String;")
    texts = [each * size for size in (1, 2, 31, 32, 33, 63, 64, 65, 300) for each in ("x", "\u00e9")]
    column = pa.array([texts[at % 18 :] for at in range(2 * MANY)])
    values = encode(JobClasses(kryo=RELEASES[oracle.version]).described(serializer), column)
    of_flink(oracle, serializer, values)


@pytest.mark.parametrize(
    ("name", "fields", "text"),
    [
        ("tuple.ImmutablePair", {"left": "a", "right": 5}, "(a,5)"),
        ("tuple.MutablePair", {"left": None, "right": 5}, "(null,5)"),
        ("tuple.ImmutableTriple", {"left": "a", "middle": 5, "right": None}, "(a,5,null)"),
        ("tuple.MutableTriple", {"left": "a", "middle": 5, "right": 6}, "(a,5,6)"),
        ("mutable.MutableObject", {"value": "x"}, "x"),
    ],
)
def test_classes_with_objects_are_variants(oracle: Oracle, name: str, fields: dict[str, Any], text: str) -> None:
    kryo = RELEASES[oracle.version]
    name = LANG3 + name
    serializer = KryoSerializer.of(name)
    content = {
        (name, key): None if each is None else KryoObject("int" if isinstance(each, int) else STRING, each)
        for key, each in fields.items()
    }
    value = write_object(KryoObject(name, content), object_format(2 if kryo == 2 else 5, serializer.classes))
    (answer,) = of_flink(oracle, serializer, [value])
    assert answer["text"] == text
    assert shown(decode(serializer, value, kryo)) == fields.get("value", fields)


def test_json_nodes_are_json(oracle: Oracle) -> None:
    kryo = RELEASES[oracle.version]
    serializer = KryoSerializer.of(NODE.replace("node.", "JsonNode"))
    found = node({"a": [1, "x", None, True, 2.5], "b": {"c": 1 << 40, "d": []}, "e": 1 << 80})
    value = write_object(found, object_format(2 if kryo == 2 else 5, serializer.classes))
    (answer,) = of_flink(oracle, serializer, [value])
    assert json.loads(answer["text"]) == shown(decode(serializer, value, kryo))


FACTORY = KryoObject(
    NODE + "JsonNodeFactory", {(NODE + "JsonNodeFactory", "_cfgBigDecimalExact"): KryoObject("boolean", False)}
)


def node(value: Any) -> KryoObject:
    """Return a node of Jackson."""
    if isinstance(value, dict):
        children = map_of(
            [(KryoObject(STRING, key), node(each)) for key, each in value.items()],
            "java.util.LinkedHashMap",
        )
        return of_fields("ObjectNode", _children=children, _nodeFactory=FACTORY)
    if isinstance(value, list):
        return of_fields("ArrayNode", _children=list_of(map(node, value)), _nodeFactory=FACTORY)
    if value is None:
        return NULL
    if isinstance(value, bool):
        return of_fields("BooleanNode", _value=KryoObject("boolean", value))
    if isinstance(value, str):
        return of_fields("TextNode", _value=KryoObject(STRING, value))
    if isinstance(value, float):
        return of_fields("DoubleNode", _value=KryoObject("double", value))
    size = value.bit_length()
    name, kind = (
        ("Int", "int") if size < 32 else ("Long", "long") if size < 64 else ("BigInteger", "java.math.BigInteger")
    )
    return of_fields(f"{name}Node", _value=KryoObject(kind, value))


def of_fields(name: str, **fields: KryoObject) -> KryoObject:
    return KryoObject(NODE + name, {(NODE + name, key): value for key, value in fields.items()})


NULL = of_fields("NullNode")
