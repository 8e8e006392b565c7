"""Progress of Spark jobs: counted by Spark itself, for one block only."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_savepoint import Savepoint, show_progress
from pyspark_savepoint.api.spark.progress import GROUP, moving

pytestmark = pytest.mark.spark


def test_tasks_of_the_block_are_counted(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    spark.range(10, numPartitions=5).count()
    with show_progress(spark, "counting"):
        assert spark.range(10, numPartitions=3).rdd.count() == 10
    assert capsys.readouterr().err.startswith("counting: 3 tasks, ")


def test_what_threads_of_a_write_run_counts(
    spark: SparkSession, shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    savepoint = Savepoint.load(spark, str(shop))
    fewer = savepoint.remove_keys("accounts", savepoint.keyed_state("accounts").where("key < 1010").select("key"))
    with show_progress(spark, "writing"):
        fewer.write(str(tmp_path / "savepoint"))
    counted = int(capsys.readouterr().err.removeprefix("writing: ").split(" task")[0])
    assert counted > 0


def test_an_error_passes_and_the_group_is_put_back(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    spark.sparkContext.setJobGroup("mine", "my jobs")
    try:
        with pytest.raises(ValueError, match="stop"), show_progress(spark, "failing"):
            raise ValueError("stop")
        assert spark.sparkContext.getLocalProperty(GROUP) == "mine"
    finally:
        spark.sparkContext.setLocalProperty(GROUP, None)  # type: ignore[arg-type]
        spark.sparkContext.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
    assert capsys.readouterr().err.startswith("failing: 0 tasks, ")


def test_a_terminal_has_a_line_that_moves(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with show_progress(spark, "waiting", interval=0.01):
        spark.range(4, numPartitions=4).rdd.count()
    lines = capsys.readouterr().err.split("\r")
    assert len(lines) > 2
    assert lines[-1].startswith("waiting: 4 tasks, ")
    assert lines[-1].endswith("\n")


def test_the_line_says_what_is_done_and_known() -> None:
    assert moving("reading", (0, 0), 0.4).endswith(" 0 of 0 tasks, 0 s")
    assert moving("reading", (1, 1), 61).endswith("█ 1 of 1 task, 61 s")
