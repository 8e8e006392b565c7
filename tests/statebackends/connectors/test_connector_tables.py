"""Tables of sources, from savepoints that real Flink wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.connectors.payloads.kind import CoordinatorFrame, Payload, write_element
from pyspark_savepoint.formats.connectors.registry import recognise_coordinator, recognise_elements
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot, find_snapshots
from pyspark_savepoint.statebackends.connectors.connector_states import connector_states, list_states, state_elements
from pyspark_savepoint.statebackends.connectors.operator_streams import with_elements
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from tests.data import every_metadata
from tests.formats.connectors.test_sinks import i32, i64, utf

KAFKA = ("1.20.5-kafka-v3.4.0", "2.2.1-kafka-v4.0.1", "2.3.0-kafka-v5.0.0")


def case(corpus: Path, name: str) -> tuple[str, Any]:
    folder = corpus / "connectors" / name
    return find_snapshots(str(folder))[0].path, json.loads((folder / "expected.json").read_text())


def rows(path: str, table: str, **options: Any) -> list[dict[str, Any]]:
    opened = open_table(TableRequest(path, table=table, **options))
    return [row for part in opened.partitions(2) for batch in part.batches() for row in batch.to_pylist()]


@pytest.mark.parametrize("name", KAFKA)
def test_kafka_is_read_to_the_expected_values(corpus: Path, name: str) -> None:
    path, expected = case(corpus, name)

    splits = rows(path, "splits")
    assert {(r["topic"], r["partition"], r["offset"]) for r in splits} == {
        (split["topic"], split["partition"], split["offset"]) for split in expected["source"]["readers"]
    }
    assert {row["connector"] for row in splits} == {"kafka"}
    assert {row["stop_marker"] for row in splits} == {"none"}
    assert {row["subtask"] for row in splits} == {0, 1}
    known = rows(path, "source_coordinator")
    assert {row["split_id"] for row in known} == {row["split_id"] for row in splits}
    assert {row["status"] for row in known} == {"assigned"}
    assert all(row["initial_discovery_finished"] for row in known)


@pytest.mark.parametrize("name", ["1.20.5-seq", "2.3.0-seq", "2.3.0-datagen"])
def test_sequences_are_read_to_the_expected_values(corpus: Path, name: str) -> None:
    path, expected = case(corpus, name)

    found = {(row["subtask"], row["split_id"], row["next"], row["to"]) for row in rows(path, "splits")}
    readers = expected["source"]["readers"]
    assert found == {(split["subtask"], split["id"], split["from"], split["to"]) for split in readers}
    assert rows(path, "source_coordinator") == []
    assert {row["connector"] for row in rows(path, "splits", connector="datagen")} == {"datagen"}


@pytest.mark.parametrize("name", ["1.20.5-files", "2.3.0-files", "2.3.0-files-continuous"])
def test_files_are_read_to_the_expected_values(corpus: Path, name: str) -> None:
    path, expected = case(corpus, name)

    def values(row: dict[str, Any]) -> tuple[Any, ...]:
        offset = -1 if row["position_offset"] is None else row["position_offset"]
        position = None if row["position_records"] is None else (offset, row["position_records"])
        return row["split_id"], row["path"].rpartition("/")[2], row["start"], row["length"], position

    def wanted(split: dict[str, Any]) -> tuple[Any, ...]:
        position = split["position"] and tuple(split["position"])
        return split["id"], split["file"], split["offset"], split["length"], position

    assert {values(row) for row in rows(path, "splits") if row["connector"]} == {
        wanted(split) for split in expected["source"]["readers"]
    }
    known = rows(path, "source_coordinator")
    enumerator = expected["source"]["enumerator"]
    assert [values(row) for row in known if row["status"] == "unassigned"] == [
        wanted(split) for split in enumerator["splits"]
    ]
    processed = [row["path"].rpartition("/")[2] for row in known if row["status"] == "processed"]
    assert processed == enumerator["processed"]


@pytest.mark.parametrize("name", KAFKA)
def test_offsets_are_where_the_job_goes_on(corpus: Path, name: str) -> None:
    path, expected = case(corpus, name)
    found = {(row["stream"], row["partition"], row["offset"], row["position"]) for row in rows(path, "offsets")}
    assert found == {
        (split["topic"], str(split["partition"]), split["offset"], str(split["offset"]))
        for split in expected["source"]["readers"]
    }


def test_offsets_of_splits_that_no_reader_has_are_the_enumerators(corpus: Path) -> None:
    path, _ = case(corpus, "2.3.0-files-continuous")
    found = {row["partition"]: (row["subtask"], row["position"]) for row in rows(path, "offsets")}
    assert found == {"0000000004": (0, "15"), "0000000003": (1, "18"), "0000000002": (None, "0")}
    assert rows(case(corpus, "2.3.0-txnsink")[0], "offsets") == []


def test_only_what_a_known_source_wrote_is_taken_for_it(corpus: Path) -> None:
    """Read all operator states of the other snapshots as splits and coordinators: only known sources match."""
    seen, known = set(), set()
    for metadata in every_metadata():
        if metadata.is_relative_to(corpus / "connectors"):
            continue
        savepoint = Snapshot.open(str(metadata.parent), allow_outside=True)
        for operator in savepoint.operators:
            opened = OpenOperator(savepoint, operator)
            for state in list_states(operator):
                elements = [data for _, data in state_elements(opened, state, TableRequest(savepoint.path))]
                if (state, *elements) in seen:
                    continue
                seen.add((state, *elements))
                if state == "SourceReaderState":
                    kind = recognise_elements("splits", state, elements).kind
                    known.add(None if kind is None else kind.name)
                    continue
                assert recognise_elements("splits", "SourceReaderState", elements).kind is None, (metadata, state)
                for version in range(4):
                    framed = [write_element(Payload(version, data)) for data in elements]
                    assert recognise_elements("splits", "SourceReaderState", framed).kind is None, (metadata, state)
                    coordinator = CoordinatorFrame(Payload(version, elements[0])).bytes()
                    assert recognise_coordinator(coordinator).kind is None, (metadata, state)
    assert len(seen) > 50
    assert known == {"file", "number_sequence", None}


def test_a_connector_that_is_named_is_the_only_one_tried(corpus: Path) -> None:
    path, _ = case(corpus, "2.3.0-txnsink")
    shown = rows(path, "splits")
    assert [row["connector"] for row in shown] == [None]
    assert (shown[0]["length"], shown[0]["version"], len(shown[0]["payload"])) == (8, 1, 8)
    named = rows(path, "splits", connector="kafka")
    assert named[0]["reason"].startswith("not kafka: version 1")
    with pytest.raises(OptionError, match="there is no connector"):
        rows(path, "splits", connector="cassandra")


def test_a_coordinator_is_not_guessed_where_its_splits_are_of_no_known_kind(corpus: Path) -> None:
    path, _ = case(corpus, "2.3.0-txnsink")
    assert rows(path, "source_coordinator")[0]["reason"].startswith("no known connector")


def test_splits_that_look_like_kafkas_are_bytes_where_the_coordinator_is_not_kafkas(corpus: Path) -> None:
    """A source of the job's own may write a text, an int and two longs, too."""
    path, _ = case(corpus, "2.3.0-kafka-v5.0.0")
    savepoint = Snapshot.open(path)
    (source,) = [OpenOperator(savepoint, each) for each in savepoint.operators if each.coordinator_state is not None]
    split = write_element(Payload(0, utf("pages") + i32(3) + i64(40) + i64(90)))
    operator = with_elements(source, "SourceReaderState", {0: [split]})
    assert operator.coordinator_state is not None

    kafkas = CoordinatorFrame.read(operator.coordinator_state.data).payload

    def shown(coordinator: Payload, **options: Any) -> tuple[str | None, str | None]:
        frame = ByteStreamStateHandle("coordinator", CoordinatorFrame(coordinator).bytes())
        request = TableRequest(path, **options)
        (found,) = connector_states(savepoint, replace(operator, coordinator_state=frame), "splits", request)
        return found.recognition.kind and found.recognition.kind.name, found.recognition.reason

    own = Payload(0, utf("next page") + i64(91))
    kind, reason = shown(own)
    assert kind is None
    assert str(reason).startswith("its splits fit kafka, but not the state of the source's coordinator (not kafka: ")
    assert shown(own, connector="kafka")[0] == "kafka"
    assert shown(kafkas)[0] == "kafka"
