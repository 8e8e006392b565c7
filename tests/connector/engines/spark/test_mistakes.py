"""Mistakes with DataFrames: one plain error with what to do, before a task runs if planning knows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_savepoint import Savepoint
from pyspark_savepoint.errors import SavepointError

pytestmark = pytest.mark.spark


class Tried:
    """Reads of the shop, and writes to a new folder."""

    def __init__(self, spark: SparkSession, shop: Path, folder: Path) -> None:
        self.spark, self.shop, self.folder = spark, str(shop), folder

    def read(self, schema: str | None = None, **options: str) -> DataFrame:
        reader = self.spark.read.format("savepoint").options(**options)
        return (reader if schema is None else reader.schema(schema)).load(self.shop)

    def accounts(self, schema: str | None = None, **options: str) -> Any:
        return self.read(schema, uid="accounts", **options).collect()

    def write(self, columns: str, mode: str = "append", **options: str) -> Any:
        frame = self.spark.sql(f"SELECT 1L AS id, {columns}").write.format("savepoint")
        given = {"uid": "x", "key": "id", "maxParallelism": "128"} | options
        frame.options(**given).mode(mode).save(str(self.folder / "new"))

    def sql(self, query: str) -> Any:
        self.read(uid="accounts").createOrReplaceTempView("read_of_mistakes")
        return self.spark.sql(query.replace("VIEW", "read_of_mistakes")).collect()


MISTAKES: list[tuple[Callable[[Tried], Any], str]] = [
    (lambda tried: tried.accounts("key LONG, nope LONG"), "there is no column 'nope'"),
    (lambda tried: tried.accounts("key STRING"), "key: the table has bigint, the schema says string"),
    (lambda tried: tried.accounts("profile STRUCT<tier: STRING>"), "field 'birthYear' (int) is not in the schema"),
    (lambda tried: tried.accounts("key LONG, KEY LONG"), "column 'key' is there twice"),
    (lambda tried: tried.accounts(state="totl"), "the operator has no state 'totl'"),
    (lambda tried: tried.accounts(table="timer"), "(did you mean 'timers'?)"),
    (lambda tried: tried.accounts(memory="64 bananas"), "expected a size from 1m to 1t, such as 64m"),
    (lambda tried: tried.accounts(keys="1042,1043"), "expected a JSON list of keys, such as [1, 2]"),
    (lambda tried: tried.accounts(keys='["a"]'), "key must be a value of int64"),
    (lambda tried: tried.accounts(keyGroups="0-999"), "out of the range of the operator's key groups"),
    (lambda tried: tried.accounts(includeInternal="maybe"), "expected true or false"),
    (lambda tried: tried.accounts(versionAsOf="3"), "no snapshot below this folder has checkpoint id 3"),
    (lambda tried: tried.accounts(classes="/nowhere/job.jar"), "there is no jar or folder of class files"),
    (lambda tried: tried.accounts(key="key"), "option 'key' is for writes"),
    (lambda tried: tried.read(uid="accounts,orders-source").collect(), "a table is of one operator"),
    (lambda tried: tried.write("2L AS n", typesFrom=tried.shop), "/savepoint#orders-source'"),
    (lambda tried: tried.write("2L AS n", uid=" "), "option 'uid' is ' ', expected not to be empty"),
    (lambda tried: tried.write("2L AS n", key="idd"), "there is no column 'idd' for the key"),
    (lambda tried: tried.write("2L AS n", maxParallelism="many"), "expected a whole number from 1 to 32768"),
    (lambda tried: tried.write("NULL AS n"), "column 'n' has a type without a counterpart in Flink"),
    (lambda tried: tried.write("INTERVAL 1 DAY AS n"), "column 'n' has a type without a counterpart in Flink"),
    (lambda tried: tried.write("'a' AS n", types='{"n": "INT"}'), "column 'n' cannot be written as INT"),
    (lambda tried: tried.write("2L AS total", types='{"totl": "INT"}'), "did you mean 'total'?"),
    (lambda tried: tried.write("2L AS n", types="n:INT"), "expected a JSON object of texts"),
    (lambda tried: tried.write("2L AS n, 3L AS n"), "several columns have the same name"),
    (lambda tried: tried.write("2L AS n", table="metadata"), "option 'table' is 'metadata', expected keyed_state"),
    (lambda tried: tried.write("2L AS n", table="timers"), "table 'timers' takes no column 'n'"),
    (lambda tried: tried.write("2L AS n", flinkVersion="1.2"), "expected a release from 1.16"),
    (lambda tried: tried.write("2L AS n", keys="[1]"), "did you mean 'key' or 'keyGroup'?"),
    (lambda tried: tried.write("2L AS n", mode="ignore"), 'use either the "Append" or "Overwrite" mode'),
    (lambda tried: tried.sql("INSERT INTO VIEW SELECT * FROM VIEW"), "the savepoint has this state already"),
    (lambda tried: tried.sql("DELETE FROM VIEW WHERE key = 1042"), "does not support"),
    (lambda tried: tried.sql("SELECT * FROM VIEW WHERE key = 'x'"), "cannot be cast to"),
]


@pytest.mark.parametrize(("mistake", "told"), MISTAKES, ids=[told for _, told in MISTAKES])
def test_a_mistake(spark: SparkSession, shop: Path, tmp_path: Path, mistake: Callable[[Tried], Any], told: str) -> None:
    with pytest.raises(PySparkException) as raised:
        mistake(Tried(spark, shop, tmp_path))
    said = str(raised.value).partition("JVM stacktrace")[0]
    assert told in said
    assert said.count("pyspark_savepoint/") <= 1  # where it is raised
    assert len(said.splitlines()) <= 14
    assert not (tmp_path / "new").exists()


@pytest.mark.thorough  # a failing query for each
def test_values_that_only_tasks_see_are_named_with_what_to_do(spark: SparkSession, shop: Path, tmp_path: Path) -> None:
    tried = Tried(spark, shop, tmp_path)
    for columns, options, told in (
        ("5000000000L AS n", {"types": '{"n": "INT"}'}, "a value of column 'n' does not fit exactly"),
        ("array(1L, NULL) AS n", {}, "a value of LONG cannot be null"),
        ("2L AS n, CAST(NULL AS BIGINT) AS k", {"key": "k"}, "leave the rows out in which 'k' is NULL"),
    ):
        with pytest.raises(PySparkException) as raised:
            tried.write(columns, **options)
        said = str(raised.value).partition("JVM stacktrace")[0]
        assert told in said
        assert "  to do: " in said
        assert not (tmp_path / "new").exists()


def test_what_a_savepoint_lacks(spark: SparkSession, shop: Path) -> None:
    savepoint = Savepoint.load(spark, shop)
    for mistake, error, told in (
        (lambda: savepoint.show(), AttributeError, "did you mean states().show(), metadata().show()?"),
        (lambda: savepoint.sql("SELECT 1"), AttributeError, "create_tables(prefix)"),
        (lambda: savepoint.select("total"), AttributeError, "tables are read by keyed_state(uid)"),
        (lambda: savepoint["accounts"], TypeError, "a savepoint has no items; tables are read by keyed_state(uid)"),
        (lambda: savepoint.write(""), SavepointError, "a path must not be empty"),
    ):
        with pytest.raises(error) as raised:
            mistake()
        assert told in str(raised.value)
