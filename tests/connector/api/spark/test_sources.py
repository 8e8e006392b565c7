"""Positions of sources in Spark: changed in one line or by a DataFrame, written, and read again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_savepoint import Savepoint, history
from pyspark_savepoint.formats.errors import OptionError, SavepointWarning
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.snapshot.savepoint import find_snapshots

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow("a source rewound in every way, and read again after each")]


def load(spark: SparkSession, corpus: Path, case: str) -> Savepoint:
    return Savepoint.load(spark, find_snapshots(str(corpus / "connectors" / case))[0].path)


def offsets(savepoint: Savepoint) -> dict[Any, Any]:
    rows = savepoint.table(table="splits").collect()
    return {(row["topic"], row["partition"]): row["offset"] for row in rows}


def operator(savepoint: Savepoint) -> OperatorState:
    base = savepoint.plan.operator("source").base
    assert base is not None
    return base.operator


def test_kafka_is_rewound_by_a_mapping_a_table_and_another_savepoint(
    spark: SparkSession, corpus: Path, tmp_path: Path
) -> None:
    savepoint = load(spark, corpus, "2.3.0-kafka-v5.0.0")
    before = offsets(savepoint)

    with pytest.warns(SavepointWarning, match="source: records are read again"):
        rewound = savepoint.sources.with_offsets("source", {("orders", 1): 10})
    rewound = rewound.write(tmp_path / "rewound", checkpoint_id=41)
    assert offsets(rewound) == before | {("orders", 1): 10}
    assert {row["checkpoint_id"] for row in rewound.metadata().collect()} == {41}
    with pytest.raises(OptionError, match="checkpoint id"):
        savepoint.write(tmp_path / "x", checkpoint_id=-1)

    earlier = rewound.table(table="splits", uid="source").selectExpr(
        "operator_uid_hash", "topic", "partition", "offset + 1 AS offset", "partition * 1000L AS stop_offset"
    )
    with pytest.warns(SavepointWarning):
        moved = savepoint.sources.with_offsets("source", earlier.where("topic = 'orders'"))
    assert operator(moved) != operator(savepoint)
    moved = moved.sources.with_offsets("source", {("clicks", 0): "latest"}).write(tmp_path / "moved")
    assert offsets(moved) == before | {
        ("orders", 0): before["orders", 0] + 1,
        ("orders", 1): 11,
        ("orders", 2): before["orders", 2] + 1,
        ("clicks", 0): None,
    }
    progress = history(spark, str(tmp_path), table="offsets").where("stream = 'orders' AND partition = '1'")
    found = {(row["checkpoint_id"], row["offset"]) for row in progress.collect()}
    assert found == {(41, 10), (moved.metadata().first()["checkpoint_id"], 11)}  # type: ignore[index]
    with pytest.raises(OptionError, match="two rows have the same split"):
        savepoint.sources.with_offsets("source", earlier.union(earlier))
    with pytest.raises(OptionError, match="column 'topic'"):
        savepoint.sources.with_offsets("source", earlier.drop("topic"))

    with pytest.warns(SavepointWarning):
        back = moved.sources.with_offsets("source", savepoint)
    assert operator(back) == operator(savepoint)


def test_splits_come_and_go_and_a_coordinator_is_replaced(spark: SparkSession, corpus: Path, tmp_path: Path) -> None:
    savepoint = load(spark, corpus, "2.3.0-kafka-v5.0.0")
    before = offsets(savepoint)
    changed = savepoint.sources.add_splits("source", [{"topic": "orders", "partition": 7, "offset": 5}])
    changed = changed.sources.remove_splits("source", [("orders", 1)], forget=False).write(tmp_path / "changed")

    wanted = before | {("orders", 7): 5}
    del wanted["orders", 1]
    assert offsets(changed) == wanted
    over = savepoint.sources.start_over("source")
    with pytest.warns(SavepointWarning, match="replaced without a check"):
        over = over.with_coordinator_state("source", b"bytes")
    over = over.write(tmp_path / "over")
    assert over.table(table="splits").count() == 0
    assert [bytes(row["value"]) for row in over.table(table="coordinator_state").collect()] == [b"bytes"]
    with pytest.warns(SavepointWarning, match="starts from the beginning"):
        assert (
            over.with_coordinator_state("source", None).plan.operator("source").base.operator.coordinator_state is None
        )  # type: ignore[union-attr]

    # A state that was replaced as a table cannot also be changed as splits.
    state = savepoint.list_state("source", "SourceReaderState")
    replaced = savepoint.with_state("source", "SourceReaderState", state)
    with pytest.raises(OptionError, match="cannot be changed in the same write"):
        replaced.sources.with_offsets("source", reset="latest")


def test_splits_are_overwritten_by_sql(spark: SparkSession, corpus: Path, tmp_path: Path) -> None:
    path = load(spark, corpus, "2.3.0-kafka-v5.0.0").write(tmp_path / "sp").path
    options = f"OPTIONS (path '{path}', uid 'source', table 'splits')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders_splits USING savepoint {options}")
    columns = spark.table("orders_splits").columns
    chosen = ", ".join("offset - 5L AS offset" if name == "offset" else name for name in columns)
    before = {row["split_id"]: row["offset"] for row in spark.table("orders_splits").collect()}

    spark.sql(f"INSERT OVERWRITE orders_splits SELECT {chosen} FROM orders_splits")

    after = {row["split_id"]: row["offset"] for row in spark.table("orders_splits").collect()}
    assert after == {name: offset - 5 for name, offset in before.items()}
    spark.catalog.dropTempView("orders_splits")
