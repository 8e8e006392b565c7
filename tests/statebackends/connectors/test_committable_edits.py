"""Changes of committables and of queues of asynchronous calls, in savepoints of real Flink (restored: tests/oracle)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.connectors.payloads.kind import ASYNC_STATE, COMMITTER_STATE, read_element
from pyspark_savepoint.formats.connectors.sinks.committer import SINK_COMMITTABLES, requests
from pyspark_savepoint.formats.errors import OptionError, StateNotFoundError
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.connectors.connector_states import state_elements
from pyspark_savepoint.statebackends.connectors.edits.committables import (
    marked_committables,
    without_committables,
    without_in_flight,
)
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from tests.statebackends.connectors.test_connector_tables import case


def opened(corpus: Path, name: str, operator_id: str | None = None) -> OpenOperator:
    """The committer of a case, or another operator."""
    path, expected = case(corpus, name)
    savepoint = Snapshot.open(path)
    wanted = operator_id or expected["committer"]["operatorId"]
    return OpenOperator(savepoint, next(each for each in savepoint.operators if each.operator_id.hex == wanted))


def committed(before: OpenOperator, operator: OperatorState) -> list[tuple[int, int, str, int, bytes]]:
    """Subtask, checkpoint, status, expected and bytes of each committable of a changed operator."""
    after = OpenOperator(before.savepoint, operator)
    elements = state_elements(after, COMMITTER_STATE, TableRequest(before.savepoint.path))
    return [
        (subtask, common["checkpoint_id"], request["state"], common["expected"], request["committable"])
        for subtask, data in elements
        for common, request in requests(SINK_COMMITTABLES.read(read_element(data)).frame)
    ]


@pytest.mark.parametrize("name", ["1.20.5-txnsink", "2.3.0-txnsink"])
def test_committables_are_removed_with_their_number_and_marked(corpus: Path, name: str) -> None:
    sink = opened(corpus, name)
    before = committed(sink, sink.operator)
    assert [expected for _, _, _, expected, _ in before] == [3, 3, 3]
    with pytest.raises(OptionError, match=r"1 committables are to be removed(.|\n)*lose_data=True"):
        without_committables(sink, [{"committable": b"txn-1"}], lose_data=False)
    removed = committed(sink, without_committables(sink, [{"committable": bytearray(b"txn-1")}], lose_data=True))
    assert [(expected, data) for _, _, _, expected, data in removed] == [(2, b"txn-0"), (2, b"txn-2")]
    assert not committed(sink, without_committables(sink, None, lose_data=True))
    marked = marked_committables(sink, [{"position": 2, "checkpoint_id": 1}, {"committable": b"txn-0"}], "COMMITTED")
    assert [(status, expected) for _, _, status, expected, _ in committed(sink, marked)] == [
        ("COMMITTED", 3), ("RECEIVED", 3), ("COMMITTED", 3),
    ]  # fmt: skip


def test_what_is_not_selected_stays_byte_for_byte(corpus: Path) -> None:
    sink = opened(corpus, "2.3.0-filesink")
    # Nothing selected, or another word in place of the same one: the same handles.
    assert without_committables(sink, [], lose_data=False) == sink.operator
    assert marked_committables(sink, None, "RECEIVED") == sink.operator
    changed = without_committables(sink, [{"bucket": "odd", "subtask": 1}], lose_data=True)
    assert changed.subtasks[0] == sink.operator.subtasks[0]
    kept = [row for row in committed(sink, sink.operator) if row[0] == 0 or b"/even/" in row[4]]
    assert [row[4] for row in committed(sink, changed)] == [row[4] for row in kept]
    # Only the queue's own state differs, and its number of committables.
    assert [row[3] for row in committed(sink, changed)] == [2, 2, 1]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"transaction": "txn-1"}], "no column 'transaction'"),
        ([{"committable": b"txn-1"}, {"committable": b"txn-9"}], "no committable has these values(.|\n)*txn-9"),
        ([{"fields": {}}], "no column 'fields'"),
    ],
)
def test_rows_that_select_nothing_are_refused(corpus: Path, rows: Any, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        without_committables(opened(corpus, "2.3.0-txnsink"), rows, lose_data=True)


def test_an_operator_that_is_no_committer_is_named(corpus: Path) -> None:
    _, expected = case(corpus, "2.3.0-txnsink")
    source = expected["operatorIds"][0]["operatorId"]
    with pytest.raises(StateNotFoundError, match="not a committer of a sink"):
        without_committables(opened(corpus, "2.3.0-txnsink", source), None, lose_data=True)
    with pytest.raises(StateNotFoundError, match="no asynchronous function"):
        without_in_flight(opened(corpus, "2.3.0-txnsink"), lose_data=True)
    with pytest.raises(OptionError, match="cannot be marked as 'FAILED'"):
        marked_committables(opened(corpus, "2.3.0-txnsink"), None, "FAILED")


@pytest.mark.parametrize("name", ["1.20.5-async", "2.3.0-async"])
def test_a_queue_of_asynchronous_calls_is_cleared_only_if_records_may_be_lost(corpus: Path, name: str) -> None:
    _, expected = case(corpus, name)
    wanted = next(each["operatorId"] for each in expected["operatorIds"] if each["uid"] == "async")
    queue = opened(corpus, name, wanted)
    with pytest.raises(OptionError, match=r"16 elements wait(.|\n)*lose_data=True"):
        without_in_flight(queue, lose_data=False)
    cleared = without_in_flight(queue, lose_data=True)
    after = OpenOperator(queue.savepoint, cleared)
    assert ASYNC_STATE in after.operator_state_names
    assert not state_elements(after, ASYNC_STATE, TableRequest(queue.savepoint.path))
