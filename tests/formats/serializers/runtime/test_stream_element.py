"""Elements of a stream against real Flink's bytes, and over whole columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import CorruptStateError, ValueRangeError
from tests.formats.serializers.codec_checks import base, check_column, check_resources, decode, kind
from tests.formats.serializers.composite_zoo import check_zoo

STRING = base("String")
FIELDS = ("timestamp", "value", "operator_id", "index", "status", "is_backlog")
SERIALIZER = kind("STREAM_ELEMENT", STRING)


def element(kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, **dict.fromkeys(FIELDS), **fields}


def column_of(*rows: dict[str, Any] | None) -> pa.Array:
    return pa.array(rows, SERIALIZER.arrow_type(DecodeOptions()))


def test_fixtures_of_flink(flink_resources: Path) -> None:
    check_resources(flink_resources, "stream-element-serializer", element("record", timestamp=123456, value="key"), 5)


def test_values_of_real_flink() -> None:
    operator = bytes.fromhex("01020304050607081112131415161718")
    values = [
        element("record", timestamp=77, value=5),
        element("record", value=6),
        element("watermark", timestamp=99),
        element("latency_marker", timestamp=11, operator_id=operator, index=4),
        element("watermark_status", status=-1),
        element("record_attributes", is_backlog=True),
        element("internal_watermark", index=2, timestamp=123),
    ]
    check_zoo("stream", "STREAM_ELEMENT<LONG>", values)


def test_columns() -> None:
    mixed = [
        element("record", timestamp=5, value="a"),
        element("record", value=None),
        element("watermark", timestamp=-(2**63)),
        element("latency_marker", timestamp=1, operator_id=bytes(range(16)), index=0),
        element("record", timestamp=6, value="\u00e9\U0001f600"),
        element("record_attributes", is_backlog=False),
    ]
    check_column(SERIALIZER, column_of(*mixed * 80))
    check_column(SERIALIZER, column_of(*mixed[:1] * 300))
    check_column(SERIALIZER, column_of())


@pytest.mark.parametrize(
    "row",
    [
        None,
        element("recrod", value="a"),
        element("watermark"),
        element("watermark", timestamp=1, value="lost"),
        element("latency_marker", timestamp=1, operator_id=b"short", index=0),
        {**element("record"), "kind": None},
    ],
)
def test_what_cannot_be_written(row: dict[str, Any] | None) -> None:
    with pytest.raises(ValueRangeError):
        SERIALIZER.sizes(column_of(element("record", value="a"), row))


@pytest.mark.parametrize("data", ["07", "ff", "0502", "03"])
def test_what_cannot_be_read(data: str) -> None:
    with pytest.raises(CorruptStateError):
        decode(SERIALIZER, bytes.fromhex(data))
