"""Spark carries a SQL job's state over to its new query as the other face does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pyspark_savepoint
from pyspark_savepoint import Savepoint
from pyspark_savepoint.errors import OptionError
from tests.connector.api.test_evolve import arguments, evolved, folder_of, keyed_rows
from tests.connector.api.test_evolve_history import orders, place, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "name",
    [
        "sum-backfilled",
        "grouping-column-removed",
        "join-becomes-left",
        "window-sum-added",
        "top-5-to-3",
        "window-keys-merged",
        "growing-top-2-to-4",
    ],
)
def test_both_faces_write_the_same_state(spark: SparkSession, tmp_path: Path, name: str) -> None:
    folder = folder_of("1.20.5", name)
    given = arguments(folder)
    if "backfill" in given:
        given["backfill"] = {
            one: spark.createDataFrame(table.to_pylist(), "shop STRING, total INT")
            for one, table in given["backfill"].items()
        }
    sp = Savepoint.load(spark, folder / "before")
    new = sp.evolve(folder / "old.json", folder / "new.json", **given).write(tmp_path / "spark")
    assert new.evolution.rows() == evolved(folder, tmp_path / "local").evolution.rows()
    assert keyed_rows(pyspark_savepoint.open(tmp_path / "spark")) == keyed_rows(
        pyspark_savepoint.open(tmp_path / "local")
    )


@pytest.mark.parametrize(("old", "new"), [("count", "distinct"), ("top 3", "top 5")])
def test_history_is_a_table_of_spark(spark: SparkSession, tmp_path: Path, old: str, new: str) -> None:
    (old_plan, savepoint), (new_plan, golden) = place("2.3.0", old), place("2.3.0", new)
    history = spark.createDataFrame(orders()).repartition(3).orderBy("id")
    sp = Savepoint.load(spark, savepoint)
    if "top" in old:  # which needs the times, and Spark makes those of a time zone of them
        with pytest.raises(OptionError, match="TIMESTAMP of a zone"):
            sp.evolve(old_plan, new_plan, backfill={"orders": history}).write(tmp_path / "refused")
    history = history.withColumn("ts", history["ts"].cast("timestamp_ntz"))
    sp.evolve(old_plan, new_plan, backfill={"orders": history}).write(tmp_path / "spark")
    assert rows_of(pyspark_savepoint.open(tmp_path / "spark")) == rows_of(pyspark_savepoint.open(golden))
    changes = sp.catch_up(tmp_path / "spark", old_plan, new_plan).toArrow().to_pylist()
    local = pyspark_savepoint.open(savepoint).catch_up(golden, old_plan, new_plan).to_arrow().to_pylist()
    assert sorted(map(repr, changes)) == sorted(map(repr, local))
