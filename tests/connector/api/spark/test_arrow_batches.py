"""Batches of a write through the Python API are not measured by Spark, without a change of the session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pyspark_savepoint import Savepoint
from pyspark_savepoint.engines.spark.spark_engine import MAX_BYTES, UNMEASURED, is_narrow, unmeasured_batches


@pytest.mark.thorough("the batches themselves")
@pytest.mark.spark
def test_tasks_of_a_write_do_not_measure(spark: SparkSession, tmp_path: Path) -> None:
    name = MAX_BYTES

    def limits(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            limit = int(context.getLocalProperty(name) or -1)
            yield pa.record_batch([batch.column(0), pa.array([limit] * len(batch))], names=["id", "limit"])

    rows = spark.range(0, 100, 1, 2).mapInArrow(limits, "id LONG, limit LONG")
    context = spark.sparkContext

    def limits_of(number: int) -> set[int]:
        path = str(tmp_path / str(number))
        Savepoint.create(spark).with_operator("a", rows, key="id").write(path)
        return {row["limit"] for row in Savepoint.load(spark, path).keyed_state("a").collect()}

    assert limits_of(0) == {int(UNMEASURED)}
    assert context.getLocalProperty(name) is None
    before = spark.conf.get(name, None)
    try:
        spark.conf.set(name, "1000000")
        assert limits_of(1) == {1_000_000}
    finally:
        spark.conf.unset(name) if before is None else spark.conf.set(name, before)
    wide = rows.selectExpr("id", "repeat('x', 10) AS text")
    with unmeasured_batches(wide, ["id"]):
        assert context.getLocalProperty(name) is None


@pytest.mark.parametrize(
    ("columns", "narrow"),
    [
        (
            "k LONG, a INT, b DOUBLE, c DECIMAL(38, 2), d DATE, e TIMESTAMP, f BOOLEAN, g STRUCT<x: INT, y: TINYINT>",
            True,
        ),
        ("k STRING, a INT", True),
        ("k STRUCT<x: STRING, y: INT>, a INT", True),
        ("k LONG, a STRING", False),
        ("k LONG, a BINARY", False),
        ("k LONG, a ARRAY<INT>", False),
        ("k LONG, a MAP<INT, INT>", False),
        ("k LONG, a STRUCT<x: STRING>", False),
    ],
)
def test_only_rows_of_bounded_size(spark: SparkSession, columns: str, narrow: bool) -> None:
    assert is_narrow(spark.createDataFrame([], columns).schema, ["k"]) is narrow
