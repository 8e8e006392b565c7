"""Windows against the bytes and hashes of real Flink."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import ValueRangeError
from pyspark_savepoint.formats.serializers.runtime.operators import (
    COUNT_WINDOW,
    SORTED_LONG,
    STREAM_WINDOW,
    TABLE_WINDOW,
    WINDOW,
)
from tests.formats.serializers.codec_checks import check_column, check_resources, check_value, decode, encode, simple

WINDOWS = [simple(STREAM_WINDOW), simple(TABLE_WINDOW)]
FIVE_SIX = bytes.fromhex("00000000000013880000000000001770")
UNBOUNDED = bytes.fromhex("ffffffffffffffff7fffffffffffffff")


def test_values_of_real_flink(flink_resources: Path) -> None:
    expected = {
        "start": datetime(1970, 1, 1, 0, 0, 12, 345000, UTC),
        "end": datetime(1970, 1, 1, 0, 1, 7, 890000, UTC),
    }
    serializer = check_resources(flink_resources, "time-window-serializer", expected, 5)
    assert (serializer.flink_type, serializer.length) == ("TIME_WINDOW", 16)
    check_resources(flink_resources, "time-window-serializer", {"start": 12345, "end": 67890}, 5, timestamps="raw")


@pytest.mark.parametrize("serializer", WINDOWS)
def test_time_windows(serializer: object) -> None:
    second = datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)
    check_value(serializer, FIVE_SIX, {"start": second, "end": second.replace(second=6)})
    check_value(serializer, UNBOUNDED, {"start": -1, "end": 2**63 - 1}, timestamps="raw")
    for mode in ("micros", "truncate"):
        with pytest.raises(ValueRangeError, match=r"years 1 to 9999(.|\n)*end(.|\n)*option..timestamps., .raw."):
            decode(serializer, FIVE_SIX, UNBOUNDED, timestamps=mode)
    starts = np.random.default_rng(5).integers(-(6 * 10**10), 2 * 10**11, 500) * 1_000_000
    rows = [{"start": int(start), "end": int(start) + 60_000_000} for start in starts]
    check_column(serializer, pa.array(rows, WINDOW))
    check_column(serializer, pa.array(rows, serializer.arrow_type(DecodeOptions(timestamps="raw"))), timestamps="raw")


def test_hashes_of_time_windows() -> None:
    hashes = []
    for serializer in WINDOWS:
        raw = decode(serializer, FIVE_SIX, UNBOUNDED, timestamps="raw")
        assert serializer.java_hash(decode(serializer, FIVE_SIX)).tolist() == serializer.java_hash(raw)[:1].tolist()
        hashes.append(serializer.java_hash(raw).tolist())
    assert hashes == [[-1472369174, 778698535], [2144446633, -2]]


@pytest.mark.parametrize(
    ("name", "flink_type", "data", "value", "java_hash"),
    [
        (COUNT_WINDOW, "COUNT_WINDOW", "0000000000000007", 7, 2065162004),
        (COUNT_WINDOW, "COUNT_WINDOW", "ffffffffffffffff", -1, -221528709),
        (SORTED_LONG, "SORTED_LONG", "8000000000000000", 0, 0),
        (SORTED_LONG, "SORTED_LONG", "7fffffffffffffff", -1, 0),
        (SORTED_LONG, "SORTED_LONG", "8000000000000005", 5, 5),
        (SORTED_LONG, "SORTED_LONG", "0000000000000000", -(2**63), -2147483648),
        (SORTED_LONG, "SORTED_LONG", "ffffffffffffffff", 2**63 - 1, -2147483648),
    ],
)
def test_longs(name: str, flink_type: str, data: str, value: int, java_hash: int) -> None:
    serializer = simple(name)
    assert (serializer.flink_type, serializer.length) == (flink_type, 8)
    check_value(serializer, bytes.fromhex(data), value)
    assert serializer.java_hash(pa.array([value, None], pa.int64())).tolist() == [java_hash, 0]
    check_column(serializer, pa.array(np.random.default_rng(6).integers(-(2**63), 2**63 - 1, 500)))


def test_what_cannot_be_written() -> None:
    with pytest.raises(ValueRangeError, match="TIME_WINDOW cannot be null"):
        WINDOWS[0].sizes(pa.array([None], WINDOW))
    with pytest.raises(ValueRangeError, match="a field of TIME_WINDOW cannot be null"):
        WINDOWS[0].sizes(pa.array([{"start": 0, "end": None}], WINDOW))
    with pytest.raises(ValueRangeError, match="whole milliseconds"):
        encode(WINDOWS[0], pa.array([{"start": 1, "end": 1000}], WINDOW))
    with pytest.raises(ValueRangeError, match="COUNT_WINDOW cannot be null"):
        simple(COUNT_WINDOW).sizes(pa.array([None], pa.int64()))
