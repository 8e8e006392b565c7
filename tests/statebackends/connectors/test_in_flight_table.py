"""Table ``in_flight``: queues of asynchronous functions, of savepoints that real Flink wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.metadata import write_metadata
from pyspark_savepoint.formats.snapshot.changes import assemble
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from tests.statebackends.connectors.test_connector_tables import case, rows


@pytest.mark.parametrize("name", ["1.20.5-async", "2.3.0-async"])
@pytest.mark.parametrize("batch_rows", [5, 100])
def test_queues_have_the_expected_records_in_order(corpus: Path, name: str, batch_rows: int) -> None:
    path, expected = case(corpus, name)
    found = rows(path, "in_flight", batch_rows=batch_rows)
    assert [(row["subtask"], row["kind"], row["timestamp"], row["value"]) for row in found] == [
        (each["subtask"], each["kind"], each["timestamp"], each.get("value")) for each in expected["async"]
    ]
    assert [row["position"] for row in found] == list(range(len(expected["async"])))
    table = open_table(TableRequest(path, table="in_flight")).select(["value", "position"])
    (part,) = table.partitions(4)
    assert next(iter(part.batches())).schema.names == ["value", "position"]


def test_a_snapshot_without_queues_has_none(corpus: Path) -> None:
    path, _ = case(corpus, "2.3.0-txnsink")
    assert rows(path, "in_flight") == []


def test_rows_of_sql_wait_as_rows_and_types_that_differ_are_refused(corpus: Path, tmp_path: Path) -> None:
    sql = Snapshot.open(str(corpus / "sql" / "async-calc-waiting-1.20"))
    waiting = rows(sql.path, "in_flight")
    assert {row["kind"] for row in waiting} == {"record", "watermark"}
    numbers_in = [row["value"]["f0"] for row in waiting if row["kind"] == "record"]
    assert numbers_in == [0, 1, 2, 3, 4]

    path, _ = case(corpus, "2.3.0-async")
    numbers = Snapshot.open(path)
    both = [*numbers.operators, *sql.operators]
    merged = write_metadata(assemble(both, [numbers.metadata, sql.metadata], numbers.metadata.version))
    (tmp_path / "_metadata").write_bytes(merged)
    with pytest.raises(OptionError, match=r"different types(.|\n)*name one operator"):
        rows(str(tmp_path), "in_flight")
    named = rows(str(tmp_path), "in_flight", uid_hash=waiting[0]["operator_uid_hash"])
    assert [each["value"]["f0"] for each in named if each["kind"] == "record"] == numbers_in
