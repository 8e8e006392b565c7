"""Types of one value: bytes, lengths and hashes as real Flink has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import Cursors
from pyspark_savepoint.formats.errors import CorruptStateError
from tests.formats.serializers.codec_checks import BASE, check_column, check_resources, check_value, decode, simple

STREAMING = "org.apache.flink.streaming.api.windowing.windows."
TABLE = "org.apache.flink.table."


def test_values_of_real_flink(flink_resources: Path) -> None:
    assert check_resources(flink_resources, "void-namespace-serializer", None, 5).length == 0
    assert check_resources(flink_resources, "global-window-serializer", None, 5).length == 1
    assert check_resources(flink_resources, "null-value-serializer", None, 5).length == 0


@pytest.mark.parametrize(
    ("name", "flink_type", "data", "length", "java_hash"),
    [
        (f"{BASE}VoidSerializer$VoidSerializerSnapshot", "VOID", b"\0", 1, 0),
        (f"{BASE}NullValueSerializer$NullValueSerializerSnapshot", "NULL_VALUE", b"", 0, 53),
        (TABLE + "dataview.NullSerializer$NullSerializerSnapshot", "NULL", b"\0", 1, 0),
        ("org.apache.flink.api.scala.typeutils.UnitSerializer$UnitSerializerSnapshot", "UNIT", b"\0", 1, 0),
        (
            "org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot",
            "VOID_NAMESPACE",
            b"\0",
            0,
            99,
        ),
        (
            "org.apache.flink.queryablestate.client.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot",
            "VOID_NAMESPACE",
            b"\0",
            0,
            99,
        ),
        (STREAMING + "GlobalWindow$Serializer$GlobalWindowSerializerSnapshot", "GLOBAL_WINDOW", b"\0", 1, 0),
        (
            TABLE + "runtime.operators.window.GlobalWindow$Serializer$GlobalWindowSerializerSnapshot",
            "TABLE_GLOBAL_WINDOW",
            b"\0",
            1,
            0,
        ),
    ],
)
def test_constants(name: str, flink_type: str, data: bytes, length: int, java_hash: int) -> None:
    serializer = simple(name)
    assert (serializer.flink_type, serializer.length) == (flink_type, length)
    check_value(serializer, data, None)
    check_column(serializer, pa.nulls(500))
    assert serializer.java_hash(pa.nulls(2)).tolist() == [java_hash, java_hash]
    if data:
        with pytest.raises(CorruptStateError, match=f"a zero for {flink_type}"):
            decode(serializer, b"\0", b"\1")


def test_no_bytes_move_no_cursor() -> None:
    at = Cursors.over([b"ab", b""])
    before = at.position.copy()
    assert simple(f"{BASE}NullValueSerializer$NullValueSerializerSnapshot").decode(at).equals(pa.nulls(2))
    assert np.array_equal(at.position, before)
