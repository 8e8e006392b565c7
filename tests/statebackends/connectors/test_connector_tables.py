"""Tables of sources, from savepoints that real Flink wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.snapshot.savepoint import find_snapshots
from pyspark_savepoint.statebackends.model.request import TableRequest
from pyspark_savepoint.statebackends.open_table import open_table

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
