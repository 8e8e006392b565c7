"""Timers, join buffers and two-phase commits against real Flink's bytes, and over whole columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import ValueRangeError
from pyspark_savepoint.formats.serializers.base import write_nested
from pyspark_savepoint.formats.serializers.composite.fields import TupleSerializer
from pyspark_savepoint.formats.serializers.registry import snapshot_reader
from pyspark_savepoint.formats.serializers.runtime.operators import (
    TimerSerializer,
    TwoPhaseCommitSerializer,
)
from tests.formats.serializers.codec_checks import base, check_column, check_resources, check_value, encode, kind
from tests.formats.serializers.composite_zoo import check_zoo, values_of

LONG, STRING, INT = base("Long"), base("String"), base("Int")
SINK = "org.apache.flink.streaming.api.functions.sink.TwoPhaseCommitSinkFunction$StateSerializerSnapshot"


def test_fixtures_of_flink(flink_resources: Path) -> None:
    check_resources(flink_resources, "timer-serializer", {"timestamp": 12345, "key": "key", "namespace": 678}, 5)
    check_resources(flink_resources, "buffer-entry-serializer", {"has_been_joined": False, "element": "hello"}, 5)


def test_timers_of_real_flink() -> None:
    serializer = check_zoo("timerint", "TIMER<LONG, INT>", [{"timestamp": 12, "key": 3, "namespace": 9}])
    assert isinstance(serializer, TimerSerializer)
    assert (serializer.key, serializer.namespace) == (LONG, INT)
    serializer, values = values_of("timer")
    assert serializer.length == 16
    assert [value[:8].hex() for value in values] == ["7ffffffffffffffb", "ffffffffffffffff"]


def test_length_of_timers() -> None:
    assert TimerSerializer.of(LONG, INT).length == 20
    assert TimerSerializer.of(STRING, INT).length == -1
    assert TimerSerializer.of(INT, TupleSerializer.of()).length == 12


def test_timers_sort_as_their_bytes() -> None:
    serializer = TimerSerializer.of(STRING, TupleSerializer.of(INT, LONG))
    times = [-(2**63), -1, 0, 1, 1_700_000_000_000, 2**63 - 1]
    rows = [{"timestamp": time, "key": f"k{time}", "namespace": {"f0": 1, "f1": time}} for time in times] * 80
    values = check_column(serializer, pa.array(rows, serializer.arrow_type(DecodeOptions())))
    assert sorted(values[: len(times)]) == values[: len(times)]


def test_buffer_entries() -> None:
    serializer = kind("BUFFER_ENTRY", STRING)
    rows = [{"has_been_joined": n % 2 == 0, "element": None if n % 5 == 0 else f"{n}\u00e9"} for n in range(500)]
    check_column(serializer, pa.array(rows, serializer.arrow_type(DecodeOptions())))
    check_value(serializer, bytes.fromhex("01026b"), {"has_been_joined": True, "element": "k"})


TX = {"handle": "tx", "transaction_start_time": 100}


def test_two_phase_commits_of_real_flink() -> None:
    values = [
        {"pending_transaction": TX, "pending_commit_transactions": [TX, TX], "context": 3},
        {"pending_transaction": None, "pending_commit_transactions": [], "context": None},
    ]
    check_zoo("twophase", "TWO_PHASE_COMMIT<STRING, INT>", values)


@pytest.mark.parametrize(("outer", "flagged"), [("00000002", False), ("00000003", True), ("0000000400", False)])
def test_versions_of_two_phase_commits(outer: str, flagged: bool) -> None:
    view = DataOutputView()
    view.write(bytes.fromhex("000de704" + outer))
    write_nested((LONG, INT), view)
    reader = snapshot_reader(DataInputView(view.getvalue()))
    serializer = TwoPhaseCommitSerializer.read_snapshot(SINK, 3, reader)
    again = DataOutputView()
    serializer.write_payload(again)
    assert again.getvalue() == view.getvalue()
    value = bytes([1] * flagged) + np.array([7, 8], ">i8").tobytes() + bytes(4) + b"\0"
    pending = {"handle": 7, "transaction_start_time": 8}
    check_value(serializer, value, {"pending_transaction": pending, "pending_commit_transactions": [], "context": None})
    absent: Any = {"pending_transaction": None, "pending_commit_transactions": [], "context": 1}
    column = pa.array([absent], serializer.arrow_type(DecodeOptions()))
    if flagged:
        assert encode(serializer, column) == [bytes.fromhex("00000000000100000001")]
    else:
        with pytest.raises(ValueRangeError) as caught:
            serializer.sizes(column)
        assert caught.value.facts["state"] == "pending_transaction"


def test_columns_of_two_phase_commits() -> None:
    serializer = TwoPhaseCommitSerializer(SINK, 3, 4, (STRING, TupleSerializer.of(STRING)))
    rows = [
        {
            "pending_transaction": None if n % 4 == 0 else {"handle": f"t{n}", "transaction_start_time": n},
            "pending_commit_transactions": [TX] * (n % 3),
            "context": None if n % 2 else {"f0": "c"},
        }
        for n in range(500)
    ]
    check_column(serializer, pa.array(rows, serializer.arrow_type(DecodeOptions())))
