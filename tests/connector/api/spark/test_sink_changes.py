"""Sinks, queues of asynchronous functions and older sources, changed through Spark and read again."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import pyspark_savepoint
from pyspark_savepoint import Savepoint
from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.errors import OptionError
from tests.statebackends.connectors.test_connector_tables import case


def test_committables_are_a_table_that_selects_what_is_changed(
    spark: SparkSession, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, expected = case(corpus, "2.3.0-txnsink")
    committer = expected["committer"]["operatorId"]
    sp = Savepoint.load(spark, path)
    for before in (sp.remove_state, lambda uid, name: sp.rename_state(uid, name, "another")):
        with pytest.raises(OptionError, match="cannot be changed in the same write"):
            before(committer, "streaming_committer_raw_states").sinks.mark_committables(committer)
    found = sp.table(uid_hash=committer, table="committables").where("checkpoint_id = 1")
    assert sorted(bytes(row["committable"]) for row in found.collect()) == [b"txn-0", b"txn-1", b"txn-2"]

    first, last = found.where("committable = 'txn-0'"), [{"committable": b"txn-2"}]
    changed = sp.sinks.remove_committables(committer, first, lose_data=True).sinks.mark_committables(committer, last)
    written = changed.write(tmp_path / "changed")

    table = pyspark_savepoint.open(written.path).table("committables", committer).to_arrow().to_pylist()
    assert [(row["committable"], row["status"], row["expected"]) for row in table] == [
        (b"txn-1", "RECEIVED", 2), (b"txn-2", "COMMITTED", 2),
    ]  # fmt: skip
    # Everything else has the same bytes.
    before, after = (pyspark_savepoint.open(each) for each in (path, written.path))
    for name in ("splits", "source_coordinator"):
        assert before.table(name).to_arrow() == after.table(name).to_arrow()
    assert main(["show", str(written.path), committer, "--table", "committables"]) == 0
    assert "COMMITTED" in capsys.readouterr().out


def test_a_queue_is_cleared_and_a_consumer_becomes_a_kafka_source(
    spark: SparkSession, corpus: Path, tmp_path: Path
) -> None:
    path, expected = case(corpus, "2.3.0-async")
    sp = Savepoint.load(spark, path)
    with pytest.raises(OptionError, match="lose_data=True"):
        sp.sinks.clear_in_flight("async")
    written = sp.sinks.clear_in_flight("async", lose_data=True).write(tmp_path / "cleared")
    assert written.list_state("async", "_async_wait_operator_state_").count() == 0
    assert sp.list_state("async", "_async_wait_operator_state_").count() == len(expected["async"])

    folder = corpus / "migration" / "flows" / "legacy-source-union-kryo" / "1.20.5-hashmap"
    consumer = "2e10a607b4c70e691d47ead33ce714c9"
    old = Savepoint.load(spark, folder)
    assert old.table(table="splits").where("topic = 'topic'").select("offset").distinct().first() == (51,)
    with pytest.raises(OptionError, match="to a KafkaSource only"):
        old.sources.migrate_source(consumer, to="pulsar")
    with pytest.raises(OptionError, match="is not a position"):
        old.sources.migrate_source(consumer, not_set="first")
    new = old.sources.migrate_source(consumer, new_uid="orders-source", connector_version="5.0.0").write(
        tmp_path / "migrated"
    )
    splits = new.table(uid="orders-source", table="splits").orderBy("partition").collect()
    assert [(row["connector"], row["topic"], row["partition"], row["offset"]) for row in splits] == [
        ("kafka", "topic", 0, 51), ("kafka", "topic", 1, 51),
    ]  # fmt: skip
    known = new.table(uid="orders-source", table="source_coordinator").collect()
    assert {(row["partition"], row["status"], row["version"]) for row in known} == {
        (0, "assigned", 3),
        (1, "assigned", 3),
    }
    assert {row["operator_uid_hash"] for row in new.states().collect()}.isdisjoint({consumer})
