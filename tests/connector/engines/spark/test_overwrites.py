"""An overwrite through Spark replaces what its options name; below Spark, ``test_overwrites`` tries every case."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_savepoint import Savepoint
from pyspark_savepoint.formats.errors import UnsupportedStateError
from tests.statebackends.writing.whole_operator import KEYS, contents, with_subtasks, written_base

pytestmark = pytest.mark.spark


def by_writer(rows: DataFrame, path: str, table: str, state: str) -> None:
    """A write of a DataFrame."""
    options = {"uid": "op", "table": table, "state": state}
    rows.write.format("savepoint").options(**options).mode("overwrite").save(path)


def by_sql(rows: DataFrame, path: str, table: str, state: str) -> None:
    """``INSERT OVERWRITE`` of a view."""
    spark = rows.sparkSession
    options = f"OPTIONS (path '{path}', uid 'op', table '{table}', state '{state}')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW one_state USING savepoint {options}")
    rows.createOrReplaceTempView("new_rows")
    spark.sql("INSERT OVERWRITE one_state SELECT * FROM new_rows")
    for view in ("one_state", "new_rows"):
        spark.catalog.dropTempView(view)


@pytest.mark.parametrize("overwrite", [by_writer, by_sql])
def test_one_state_is_overwritten_and_all_others_stay(
    spark: SparkSession, tmp_path: Path, overwrite: Callable[..., None]
) -> None:
    path = written_base(tmp_path / "sp")
    before = contents(path)
    values = spark.range(len(KEYS)).selectExpr("id AS key", "-id AS x")
    overwrite(values, str(path), "keyed_state", "x")
    overwrite(spark.range(3).selectExpr("id AS value"), str(path), "operator_state", "pending")
    after = contents(path)
    assert after.keys() == before.keys()
    assert {part for part in before if after[part] != before[part]} == {"keyed_state x", "operator_state pending"}
    with pytest.raises(PySparkException, match="would remove state for which there are no rows"):
        values.write.format("savepoint").option("uid", "op").mode("overwrite").save(str(path))
    assert contents(path) == after


def test_changes_of_a_plan_keep_all_other_state(spark: SparkSession, tmp_path: Path) -> None:
    path = written_base(tmp_path / "sp")
    before = contents(path)
    rows = spark.range(len(KEYS)).selectExpr("id AS key", "-id AS x")
    elements = spark.range(3).selectExpr("id AS value")
    plan = Savepoint.load(spark, str(path))
    plan.with_state("op", "x", rows).with_state("op", "pending", elements).write(str(tmp_path / "changed"))
    after = contents(tmp_path / "changed")
    assert after.keys() == before.keys()
    assert {part for part in before if after[part] != before[part]} == {"keyed_state x", "operator_state pending"}
    plan.remove_state("op", "x").remove_state("op", "rates").remove_state("op", "a").write(str(tmp_path / "less"))
    less = contents(tmp_path / "less")
    assert before.keys() - less.keys() == {"keyed_state x", "operator_state rates", "timers a"}
    assert all(less[part] == before[part] for part in less)


def test_a_merge_refuses_what_it_would_lose(spark: SparkSession, tmp_path: Path) -> None:
    path = written_base(tmp_path / "sp")
    raw = None
    for kept, refused in (("raw_operator_state", "raw operator state"), (None, "coordinator state")):
        with_subtasks(
            path,
            lambda subtask, kept=kept: type(subtask)(
                managed_keyed_state=subtask.managed_keyed_state,
                raw_operator_state=subtask.raw_operator_state if kept else raw,
            ),
        )
        plan = Savepoint.load(spark, str(path))
        if kept:
            plan = plan.with_coordinator_state("op", None)
        both = plan.with_operator("into", spark.range(3).selectExpr("id AS key", "id AS z"), maxParallelism="16")
        with pytest.raises(UnsupportedStateError, match=f"also has {refused}, which a merge would lose"):
            both.merge_operator("op", into="into")
    merged = both.with_coordinator_state("op", None).merge_operator("op", into="into")
    assert [operator.label for operator in merged.plan.operators] == ["into"]
