"""Values with a time to live: real Flink's bytes, and both shapes of their columns."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import ValueRangeError
from pyspark_savepoint.formats.serializers.base import write_enveloped
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer, MapSerializer
from pyspark_savepoint.formats.serializers.registry import read_serializer
from pyspark_savepoint.formats.serializers.runtime.ttl import ASYNC_TTL, TTL, TtlAwareSerializer, TtlSerializer
from tests.formats.serializers.codec_checks import base, check_column, check_resources, decode, encode
from tests.formats.serializers.composite_zoo import check_zoo

LONG, STRING = base("Long"), base("String")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
AWARE = "org.apache.flink.runtime.state.ttl.TtlAwareSerializerSnapshot"


def shown(value: object, millis: int) -> dict[str, object]:
    return {"value": value, "last_access": EPOCH + timedelta(milliseconds=millis)}


def test_fixtures_of_flink(flink_resources: Path) -> None:
    serializer = check_resources(flink_resources, "ttl-serializer", shown("hello Gordon", 13), 5, ttl=True)
    assert serializer.flink_type == "TTL<STRING>"
    check_resources(flink_resources, "ttl-aware-serializer-string-value", "hello Gordon", 5)


def test_values_of_real_flink() -> None:
    values = [shown("v", 1700000000123), shown(None, 5)]
    serializer = check_zoo("ttl", "TTL<STRING>", values, ttl=True)
    raw = decode(serializer, *encode(serializer, ttl_column(serializer, values)), ttl=True, timestamps="raw")
    assert raw.to_pylist() == [{"value": "v", "last_access": 1700000000123}, {"value": None, "last_access": 5}]
    assert decode(serializer, *encode(serializer, raw)).to_pylist() == ["v", None]


def ttl_column(serializer: TtlSerializer | object, rows: list[object]) -> pa.Array:
    return pa.array(rows, serializer.arrow_type(DecodeOptions(ttl=True)))  # type: ignore[attr-defined]


def test_length() -> None:
    assert TtlSerializer.of(LONG).length == 16
    assert TtlSerializer.of(STRING).length == -1


def test_both_snapshot_classes() -> None:
    for name in (TTL, ASYNC_TTL):
        view = DataOutputView()
        write_enveloped(TtlSerializer(name, 3, 2, (LONG, STRING)), view)
        assert read_serializer(view.getvalue()) == TtlSerializer(name, 3, 2, (LONG, STRING))


def test_columns() -> None:
    for serializer in (TtlSerializer.of(STRING), TtlSerializer.of(ListSerializer.of(LONG))):
        value = "h\u00e9\U0001f600" if serializer.value is STRING else [1, 2]
        rows = [shown(value, n * 1001 - 9999) for n in range(500)]
        check_column(serializer, ttl_column(serializer, rows), ttl=True)


def test_inside_of_map_state() -> None:
    serializer = MapSerializer.of(STRING, TtlSerializer.of(ListSerializer.of(LONG)))
    rows = [[("a", shown([n], n)), ("b", None)] for n in range(50)]
    check_column(serializer, ttl_column(serializer, rows), ttl=True)


def test_what_has_no_last_access_was_accessed_now() -> None:
    serializer = TtlSerializer.of(STRING)
    before = time.time_ns() // 1_000_000
    plain = encode(serializer, pa.array(["a", None]))
    partly = encode(serializer, ttl_column(serializer, [{"value": "a", "last_access": None}, shown("b", 7)]))
    after = time.time_ns() // 1_000_000
    for data in (*plain, partly[0]):
        assert before <= int.from_bytes(data[:8], "big") <= after
    assert partly[1] == bytes(7) + b"\7\2b"
    assert decode(serializer, *plain).to_pylist() == ["a", None]


def test_a_value_with_the_same_fields() -> None:
    inner = TtlSerializer.of(LONG)
    serializer = TtlSerializer.of(inner)
    rows = [shown(shown(n, n), 2 * n) for n in range(5)]
    check_column(serializer, ttl_column(serializer, rows), ttl=True)


def test_last_access_that_cannot_be() -> None:
    serializer = TtlSerializer.of(LONG)
    micros = {"value": 1, "last_access": EPOCH + timedelta(microseconds=1)}
    with pytest.raises(ValueRangeError) as caught:
        encode(serializer, ttl_column(serializer, [micros]))
    assert caught.value.facts["state"] == "last_access"
    with pytest.raises(ValueRangeError):
        decode(serializer, b"\x7f" + bytes(15), ttl=True)
    assert decode(serializer, b"\x7f" + bytes(15)).to_pylist() == [0]
    with pytest.raises(ValueRangeError, match="cannot be null"):
        serializer.sizes(ttl_column(serializer, [None]))
    with pytest.raises(ValueRangeError, match="cannot be null"):
        serializer.sizes(pa.array([None], pa.int64()))


def test_ttl_aware_is_what_is_inside() -> None:
    for inner in (STRING, TtlSerializer.of(LONG)):
        serializer = TtlAwareSerializer(AWARE, 1, isinstance(inner, TtlSerializer), inner)
        view = DataOutputView()
        write_enveloped(serializer, view)
        assert read_serializer(view.getvalue()) == serializer
        assert (serializer.flink_type, serializer.length) == (inner.flink_type, inner.length)
        assert serializer.children == (inner,)
    text = TtlAwareSerializer(AWARE, 1, False, STRING)
    check_column(text, pa.array(["a", None, ""]))
    assert text.java_hash(pa.array(["a"])).tolist() == [97]
