"""Table ``committables``, of savepoints that real Flink wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from posixpath import basename
from typing import Any

import pytest

from pyspark_savepoint.formats.connectors.payloads.kind import COMMITTABLES, Payload, write_element
from pyspark_savepoint.formats.connectors.registry import KINDS, recognise_coordinator, recognise_elements
from pyspark_savepoint.formats.errors import OptionError, SavepointError
from pyspark_savepoint.formats.metadata import OperatorState, OperatorSubtaskState
from pyspark_savepoint.formats.serializers.registry import OpaqueSerializer
from pyspark_savepoint.formats.serializers.runtime.operators import TwoPhaseCommitSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.connectors.connector_states import (
    connector_states,
    list_states,
    state_elements,
    transactions_of,
)
from pyspark_savepoint.statebackends.connectors.operator_streams import with_elements
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from tests.data import every_metadata
from tests.formats.connectors.test_sinks import i32, i64, utf
from tests.statebackends.connectors.test_connector_tables import case, rows

COMMITTER = "streaming_committer_raw_states"


def committed(expected: Any) -> list[tuple[int, int, Any, dict[str, Any]]]:
    """Subtask, checkpoint, writer's subtask and request of every committable of a case."""
    return [
        (element["subtask"], checkpoint["checkpoint"], subtask, request)
        for element in expected["committer"]["elements"]
        for checkpoint in element["checkpoints"]
        for subtask in checkpoint["subtasks"]
        for request in subtask["requests"]
    ]


@pytest.mark.parametrize("name", ["1.20.5-txnsink", "2.3.0-txnsink"])
def test_committables_of_a_sink_of_the_users_own(corpus: Path, name: str) -> None:
    path, expected = case(corpus, name)
    found = rows(path, COMMITTABLES, uid_hash=expected["committer"]["operatorId"])
    assert [
        (row["subtask"], row["checkpoint_id"], row["writer_subtask"], row["committable"], row["committable_version"])
        for row in found
    ] == [
        (subtask, checkpoint, common["subtask"], request["committable"].encode(), request["version"])
        for subtask, checkpoint, common, request in committed(expected)
    ]
    assert {(row["status"], row["retries"], row["connector"]) for row in found} == {("RECEIVED", 0, "sink")}
    assert {(row["expected"], row["failed"]) for row in found} == {(3, 0)}
    # With its writers, whose state only the user's code can read.
    every = rows(path, COMMITTABLES)
    assert sorted(row["payload"].decode() for row in every if row["state"] == "writer_raw_states") == sorted(
        element["state"] for element in expected["writer"]["elements"]
    )
    assert [row["fields"] for row in every if row["state"] == COMMITTER]


@pytest.mark.parametrize("name", ["1.20.5-filesink", "2.3.0-filesink", "1.20.5-streamingfilesink"])
def test_files_of_file_sinks(corpus: Path, name: str) -> None:
    path, expected = case(corpus, name)
    every = rows(path, COMMITTABLES)
    assert {row["connector"] for row in every} == {"file"}
    counters = [row["part_counter"] for row in every if row["state"] == "max-part-counter"]
    assert counters == ([4, 4] if "streaming" in name else [])
    every = [row for row in every if row["state"] != "max-part-counter"]
    wanted = []
    if "committer" in expected:
        for subtask, checkpoint, _, request in committed(expected):
            own = request["committable"]
            file, role = (own["pending"], "PENDING") if own["pending"] else (own["inProgressToCleanup"], "CLEANUP")
            wanted.append((subtask, checkpoint, own["bucket"], role, *shown(file)))
    for element in expected["writer"]["elements"]:
        head = element["subtask"], None, element["bucket"]
        wanted.append((*head, "IN_PROGRESS", *shown(element["inProgress"])))
        for checkpoint, files in element["pending"].items():
            wanted += [(head[0], int(checkpoint), head[2], "PENDING", *shown(file)) for file in files]
    columns = ("subtask", "checkpoint_id", "bucket", "role")
    found = [
        (
            *(row[column] for column in columns),
            basename(row["target"]),
            basename(row["temp"]),
            row["length"],
            row["size"],
        )
        for row in every
    ]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


def shown(file: dict[str, Any]) -> tuple[Any, ...]:
    return file["target"], file["temp"], file["offset"], file.get("size")


def test_nothing_else_is_taken_for_a_connector(corpus: Path) -> None:
    """The elements of all operator states of the other data sets, as if each had the name of each connector's state."""
    elements: dict[tuple[str, tuple[bytes, ...], tuple[str, ...]], str] = {}
    states = 0
    for metadata in every_metadata():
        if metadata.is_relative_to(corpus / "connectors"):
            continue
        with suppress(SavepointError):  # damaged ones, and those of releases that are not read
            for name, data, beside in operator_states(str(metadata.parent)):
                states += bool(data)
                elements |= {(name, data, beside): str(metadata.parent)} if data else {}
    assert states > 500
    for (name, data, beside), path in elements.items():
        for kind in KINDS:
            for state in kind.states:
                found_kind = recognise_elements(kind.table, state, data, None, beside).kind
                assert found_kind is None or name in found_kind.states, (path, name, state)
        assert all(recognise_coordinator(element).kind is None for element in data), (path, name)


def operator_states(path: str) -> Iterator[tuple[str, tuple[bytes, ...], tuple[str, ...]]]:
    """Yield name and elements of each list and union state of a savepoint, and the names of all of its operator."""
    savepoint = Snapshot.open(path, allow_outside=True)
    for operator in savepoint.operators:
        opened = OpenOperator(savepoint, operator)
        for meta in {meta.name: meta for meta in opened.operator_states}.values():
            if meta.state_type != "BROADCAST":
                data = tuple(data for _, data in state_elements(opened, meta.name, TableRequest(path)))
                yield meta.name, data, tuple(opened.operator_state_names)


def test_a_state_named_as_any_may_be_is_read_only_with_the_serializer_of_a_sink(corpus: Path) -> None:
    path = str(corpus / "migration" / "flows" / "two-phase-sink" / "1.20.5-hashmap")
    savepoint = Snapshot.open(path)
    opened = [OpenOperator(savepoint, operator) for operator in savepoint.operators]
    (sink,) = [each for each in opened if "state" in each.operator_state_names]

    def shown(operator: OperatorState) -> list[Any]:
        found = connector_states(savepoint, operator, COMMITTABLES, TableRequest(path))
        return [state.recognition.kind and state.recognition.kind.name for state in found]

    # Transactions of a sink of the user's own; then those of FlinkKafkaProducer.
    assert shown(sink.operator) == ["two_phase_commit"]
    pending = b"\0" + i32(1) + b"\1" + utf("p-1") + i64(11) + b"\0\3" + i64(1700) + b"\0"
    assert shown(with_elements(sink, "state", {0: [pending]})) == ["kafka_producer"]
    # The same bytes in a list that is of another type.
    subtasks = dict.fromkeys(sink.operator.subtasks, OperatorSubtaskState())
    empty = OpenOperator(savepoint, replace(sink.operator, subtasks=subtasks))
    assert shown(with_elements(empty, "state", {0: [pending]})) == []


def test_transactions_of_a_two_phase_sink_of_the_users_own(corpus: Path) -> None:
    path = str(corpus / "migration" / "flows" / "two-phase-sink" / "1.20.5-hashmap")
    (sink,) = [each for each in Snapshot.open(path).operators if "state" in list_states(each)]
    uid_hash = sink.operator_id.hex
    states = rows(path, "operator_state", uid_hash=uid_hash, state="state")
    wanted = [
        (role, each["handle"], each["transaction_start_time"])
        for value in (row["value"] for row in states)
        for role, each in (
            *(("OPEN", each) for each in [value["pending_transaction"]] if each),
            *(("PENDING", each) for each in value["pending_commit_transactions"]),
        )
    ]
    assert {role for role, *_ in wanted} == {"OPEN", "PENDING"}
    found = rows(path, COMMITTABLES, uid_hash=uid_hash)
    assert sorted((row["role"], row["transaction"], row["started"]) for row in found) == sorted(wanted)
    assert {(row["connector"], row["state"]) for row in found} == {("two_phase_commit", "state")}
    assert rows(path, COMMITTABLES, uid_hash=uid_hash, connector="Two_Phase_Commit") == found
    with pytest.raises(OptionError, match=r"there is no connector 'two_phase_commits'(.|\n)*two_phase_commit(?!s)"):
        rows(path, COMMITTABLES, uid_hash=uid_hash, connector="two_phase_commits")


def test_transactions_that_only_the_job_reads_are_bytes_with_the_reason(corpus: Path) -> None:
    path = str(corpus / "migration" / "flows" / "two-phase-sink" / "1.20.5-hashmap")
    savepoint = Snapshot.open(path)
    (sink,) = [OpenOperator(savepoint, each) for each in savepoint.operators if "state" in list_states(each)]
    (serializer,) = {meta.value_serializer for meta in sink.operator_states if meta.name == "state"}
    assert isinstance(serializer, TwoPhaseCommitSerializer)
    unknown = OpaqueSerializer("com.shop.TransactionSnapshot", 1, b"")
    own = replace(serializer, nested=(unknown, serializer.nested[1]))
    found = transactions_of(own, (Payload(None, b"anything"),), TableRequest(path))
    assert found.kind is None
    assert str(found.reason).startswith("only the job's own serializer reads ")


def test_a_long_is_a_counter_of_files_only_beside_buckets() -> None:
    long = [i64(4)]
    assert recognise_elements(COMMITTABLES, "max-part-counter", long).kind is None
    found = recognise_elements(COMMITTABLES, "max-part-counter", long, None, ["bucket-states", "max-part-counter"])
    assert found.values == ({"part_counter": 4},)
    assert recognise_elements(COMMITTABLES, "max-part-counter", [i64(-1)], None, ["bucket-states"]).kind is None


def test_bytes_that_another_sink_may_have_written_say_so() -> None:
    element = write_element(Payload(1, utf("orders")))
    found = recognise_elements(COMMITTABLES, "writer_raw_states", [element])
    assert found.kind is not None
    assert (found.kind.name, found.doubt) == ("kafka", "any sink whose writers keep a text")
    assert recognise_elements(COMMITTABLES, "writer_raw_states", [element], "kafka").doubt is None
