"""State of pattern matching against real Flink's bytes, and over whole columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.serializers.base import write_nested
from pyspark_savepoint.formats.serializers.basic.kinds import ShapedKindSerializer
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer
from pyspark_savepoint.formats.serializers.registry import snapshot_reader
from pyspark_savepoint.formats.serializers.runtime.cep import (
    NFA,
    NfaStateSerializer,
)
from tests.formats.serializers.codec_checks import base, check_column, check_resources, check_value, decode, kind
from tests.formats.serializers.composite_zoo import check_zoo, values_of

EVENT = {"id": 7, "timestamp": 1000}
NODE = {"event_id": EVENT, "page_name": "start\u00e4"}
EDGE, FIRST_EDGE = {"target": NODE, "dewey_number": [1, 0, 2]}, {"target": None, "dewey_number": [1, 0, 2]}


def test_fixtures_of_flink(flink_resources: Path) -> None:
    check_resources(flink_resources, "lockable-type-serializer", {"ref_count": 10, "element": "flink"}, 1)
    node = {"event_id": {"id": 42, "timestamp": 42}, "page_name": "ciao"}
    check_resources(flink_resources, "node-id-serializer", node, 1)


def test_values_of_real_flink() -> None:
    check_zoo("eventid", "EVENT_ID", [EVENT])
    check_zoo("dewey", "DEWEY_NUMBER", [[1, 0, 2]])
    check_zoo("nodeid", "NODE_ID", [NODE, None])
    check_zoo("edge", "SHARED_BUFFER_EDGE", [EDGE, FIRST_EDGE])
    check_zoo("lockable", "LOCKABLE<LONG>", [{"ref_count": 2, "element": 5}])
    edges = [{"ref_count": 0, "element": EDGE}, {"ref_count": 0, "element": FIRST_EDGE}]
    check_zoo("node", "SHARED_BUFFER_NODE", [edges, []])


START = {
    "state": "start",
    "previous_buffer_entry": None,
    "version": [1],
    "start_timestamp": -1,
    "previous_timestamp": -1,
    "start_event_id": None,
}
MIDDLE = {
    "state": "mid",
    "previous_buffer_entry": NODE,
    "version": [1, 0, 2],
    "start_timestamp": 50,
    "previous_timestamp": 60,
    "start_event_id": EVENT,
}


def test_the_automaton_of_real_flink() -> None:
    check_zoo("nfa", "NFA_STATE", [{"partial_matches": [MIDDLE, START], "completed_matches": []}])


@pytest.mark.parametrize(("outer", "previous"), [("00000001", False), ("0000000200", False), ("0000000201", True)])
def test_versions_of_the_automaton(outer: str, previous: bool) -> None:
    newest = values_of("nfa")[0]
    view = DataOutputView()
    view.write(bytes.fromhex("000de704" + outer))
    write_nested(newest.children, view)
    reader = snapshot_reader(DataInputView(view.getvalue()))
    serializer = NfaStateSerializer.read_snapshot(newest.snapshot_class, 3, reader)
    again = DataOutputView()
    serializer.write_payload(again)
    assert again.getvalue() == view.getvalue()
    rows = [START, MIDDLE] if previous else [{k: v for k, v in MIDDLE.items() if k != "previous_timestamp"}]
    values = [{"partial_matches": rows * (n % 3), "completed_matches": rows[: n % 2]} for n in range(100)]
    check_column(serializer, pa.array(values, serializer.arrow_type(DecodeOptions())))


def test_nodes_of_earlier_releases_are_lists_of_edges() -> None:
    edge, values = values_of("edge")
    legacy = NFA + "sharedbuffer.SharedBufferNode$SharedBufferNodeSerializer$SharedBufferNodeSerializerSnapshot"
    serializer = ShapedKindSerializer(legacy, 3, 1, (ListSerializer.of(edge),))
    check_value(serializer, b"\0\0\0\2" + b"".join(values), [EDGE, FIRST_EDGE])


def test_columns() -> None:
    serializer = values_of("nodeid")[0]
    nodes = [None if n % 3 == 0 else {"event_id": {"id": n, "timestamp": -n}, "page_name": f"{n}"} for n in range(500)]
    check_column(serializer, pa.array(nodes, serializer.arrow_type(DecodeOptions())))
    counted = kind("LOCKABLE", base("String"))
    rows = [{"ref_count": n, "element": None if n % 2 else "e"} for n in range(500)]
    check_column(counted, pa.array(rows, counted.arrow_type(DecodeOptions())))


def test_a_flag_that_cannot_be() -> None:
    with pytest.raises(CorruptStateError):
        decode(values_of("nodeid")[0], b"\2" + bytes(20))
