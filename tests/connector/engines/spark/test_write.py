"""``df.write.format("savepoint")`` in a real session."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.classic.dataframe import DataFrame as Classic

import pyspark_savepoint
from pyspark_savepoint import key_by
from pyspark_savepoint.engines.spark.distribution import hashed_to, layout_of, spark_hash
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.java import string_hash
from pyspark_savepoint.formats.metadata.key_groups import key_group_for_hash, operator_index_for_key_group
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from tests.connector.comparing import assert_same_rows

pytestmark = pytest.mark.spark


@pytest.fixture
def read(spark: SparkSession, tmp_path: Path) -> Callable[..., DataFrame]:
    def load(**options: Any) -> DataFrame:
        return spark.read.format("savepoint").options(**{"uid": "op", **options}).load(str(tmp_path / "sp"))

    return load


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., None]:
    def save(frame: DataFrame, mode: str = "append", **options: Any) -> None:
        frame.write.format("savepoint").options(**{"uid": "op", **options}).mode(mode).save(str(tmp_path / "sp"))

    return save


def left(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


EVERYTHING = """
    id AS key, id % 2 = 0 AS flag, CAST(id AS TINYINT) AS b, CAST(id AS SMALLINT) AS s, CAST(id AS INT) AS i,
    id * 1000000007 AS l, CAST(id AS FLOAT) / 3 AS f, CAST(id AS DOUBLE) / 7 AS d, concat('é', id) AS text,
    CAST(concat('x', id) AS BINARY) AS bytes, CAST(id AS DECIMAL(20, 4)) / 8 AS amount,
    date_add(DATE '1969-12-20', CAST(id AS INT)) AS day, timestamp_millis(id * 86400123 - 5) AS at,
    TIMESTAMP_NTZ '2024-02-29 12:34:56.789' AS local,
    array(id, NULL, id + 1) AS list, map(concat('k', id), id, 'n', NULL) AS dict,
    named_struct('a', id, 'b', array(concat('y', id)), 'c', CAST(NULL AS INT)) AS struct,
    CASE WHEN id % 3 > 0 THEN named_struct('x', map('m', named_struct('z', id))) END AS deep,
    CASE WHEN id % 4 = 0 THEN id END AS sparse
"""


def test_columns_of_every_type_read_as_they_were_written(spark: SparkSession, write: Any, read: Any) -> None:
    frame = spark.range(50).selectExpr(*[part.strip() for part in split_columns(EVERYTHING)]).repartition(3)
    write(frame, types=json.dumps({"list": "LIST<NULLABLE<LONG>>"}))
    back = read()
    assert back.columns == frame.columns
    assert sorted(map(plain, back.collect())) == sorted(map(plain, frame.collect()))


def plain(value: Any) -> str:
    """Return rows as the values of their fields, since a Row of Flink has no names."""
    if isinstance(value, tuple):
        return f"({', '.join(map(plain, value))})"
    if isinstance(value, list):
        return f"[{', '.join(map(plain, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{key}: {plain(item)}' for key, item in value.items()))}}}"
    return str(value)


def split_columns(text: str) -> list[str]:
    """Split at commas outside of parentheses."""
    depth, start, parts = 0, 0, []
    for i, char in enumerate(text):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]


def test_every_table_is_written_the_same_way(spark: SparkSession, write: Any, read: Any, tmp_path: Path) -> None:
    accounts = spark.range(100).selectExpr("concat('k', id) AS account", "id * 3 AS total")
    timers = spark.range(100).selectExpr("concat('k', id) AS account", "id * 10 - 7 AS timestamp", "'event' AS domain")
    spans = "named_struct('start', timestamp_millis(id * 1000), 'end', timestamp_millis(id * 1000 + 60000)) AS window"
    windows = spark.range(100).selectExpr("concat('k', id % 7) AS account", spans, "id AS `window-contents`")
    write(accounts, key="account", maxParallelism=64)
    write(timers, key="account", table="timers")
    write(windows, key="account", table="window_state", states='{"window-contents": "reducing"}')
    write(spark.range(9).selectExpr("id AS value"), table="operator_state", state="offsets")
    write(spark.range(9).selectExpr("id AS value"), table="operator_state", state="parts", kind="union")
    write(spark.range(9).selectExpr("concat('c', id) AS key", "id / 2 AS value"), table="operator_state", state="rates")
    assert_same_rows(read().withColumnRenamed("key", "account"), accounts)
    assert_same_rows(read(table="timers").selectExpr("key AS account", "timestamp", "domain"), timers)
    assert_same_rows(read(table="window_state").withColumnRenamed("key", "account"), windows)
    for state in ("offsets", "parts"):
        assert [row.value for row in read(state=state).orderBy("value").collect()] == list(range(9))
    assert {row.key: row.value for row in read(state="rates").collect()}["c3"] == 1.5
    kinds = {row.state: row.kind for row in read(table="states").collect()}
    assert kinds["window-contents"] == "REDUCING"
    assert kinds["_timer_state/processing_user-timers"] == "TIMER"
    metadata = Snapshot.open(str(tmp_path / "sp")).metadata
    assert (metadata.version, len(metadata.operators), metadata.operators[0].max_parallelism) == (4, 1, 64)


# -- layouts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key", ["id", "CAST(id AS INT)", "CAST(id AS SMALLINT)", "CAST(id AS TINYINT)", "id % 2 = 0", "concat('ü', id)"]
)
def test_key_by_puts_every_key_where_flink_will_own_it(spark: SparkSession, key: str) -> None:
    frame = spark.range(-120, 120).selectExpr(f"{key} AS k", "id AS n").dropDuplicates(["k"])
    laid_out = key_by(frame, "k", max_parallelism=200, parallelism=3)
    assert laid_out.columns == frame.columns
    layout = layout_of(laid_out.schema)
    assert layout is not None
    assert (layout.max_parallelism, layout.parallelism) == (200, 3)
    found = laid_out.withColumn("p", F.spark_partition_id()).collect()
    assert len(found) == frame.count()
    for row in found:
        assert row.p == operator_index_for_key_group(200, 3, expected_key_group(row.k, 200))


def expected_key_group(key: Any, max_parallelism: int) -> int:
    if isinstance(key, bool):
        return key_group_for_hash(1231 if key else 1237, max_parallelism)
    if isinstance(key, str):
        return key_group_for_hash(string_hash(key), max_parallelism)
    code = (key ^ key >> 32) & 0xFFFFFFFF if key >= 0 else None
    # A negative int is its own hash; a negative long is not, but the smaller types are only ints here.
    return key_group_for_hash(code if code is not None else HASHES[key], max_parallelism)


class _Hashes(dict[int, int]):
    """Hashes of negative keys: of longs by default."""

    narrow = False

    def __missing__(self, key: int) -> int:
        if self.narrow:
            return key & 0xFFFFFFFF
        bits = key & (1 << 64) - 1
        return (bits ^ bits >> 32) & 0xFFFFFFFF


HASHES = _Hashes()


@pytest.fixture(autouse=True)
def hashes(request: pytest.FixtureRequest) -> None:
    HASHES.narrow = "CAST" in request.node.name


def test_a_laid_out_dataframe_is_written_by_its_tasks(
    spark: SparkSession, write: Any, read: Any, tmp_path: Path
) -> None:
    frame = spark.range(1000).selectExpr("id AS a", "concat('k', id % 10) AS b", "id * 2 AS n")
    write(key_by(frame, "a", "b", max_parallelism=64, parallelism=3), key="a,b")
    operator = Snapshot.open(str(tmp_path / "sp")).operators[0]
    assert (operator.parallelism, operator.max_parallelism) == (3, 64)
    assert_same_rows(read().selectExpr("key.f0 AS a", "key.f1 AS b", "n"), frame)


def test_without_repartition_by_id_hashes_are_found_that_go_there(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark.range(5).selectExpr("hash(CAST(id AS INT)) AS h").collect() == [
        (spark_hash(value),) for value in range(5)
    ]
    assert [spark_hash(value) % 7 for value in hashed_to(7)] == list(range(7))
    for base in (Classic, DataFrame):
        if "repartitionById" in vars(base):
            monkeypatch.delattr(base, "repartitionById")
    laid_out = key_by(spark.range(500), "id", max_parallelism=128, parallelism=5)
    for row in laid_out.withColumn("p", F.spark_partition_id()).collect():
        assert row.p == operator_index_for_key_group(128, 5, expected_key_group(row.id, 128))


def test_key_by_names_columns_that_there_are(spark: SparkSession) -> None:
    with pytest.raises(OptionError, match=r"no column 'idd'(.|\n)*'id'"):
        key_by(spark.range(1), "idd")
    with pytest.raises(OptionError, match="needs the columns"):
        key_by(spark.range(1))
    with pytest.raises(OptionError, match="parallelism"):
        key_by(spark.range(1), "id", max_parallelism=2, parallelism=3)
    assert "key_by" in pyspark_savepoint.__all__


# -- what is refused ----------------------------------------------------------------------------------------


def refused(action: Callable[[], Any]) -> str:
    with pytest.raises(PySparkException) as raised:
        action()
    return str(raised.value)


def test_everything_wrong_is_said_before_a_task_runs(spark: SparkSession, write: Any, tmp_path: Path) -> None:
    frame = spark.range(3).selectExpr("id", "id AS n", "raise_error('a task ran') AS e")
    assert "no column 'key'" in refused(lambda: write(frame))
    said = refused(lambda: write(frame, key="id", typs="{}", compression="zip"))
    assert "did you mean 'types'" in said
    assert "expected none or snappy" in said
    interval = spark.range(3).selectExpr("id AS key", "make_interval(1) AS i")
    assert "i" in refused(lambda: write(interval))
    twice = refused(lambda: write(spark.range(3).selectExpr("id AS key", "id AS n", "id AS m", "id + 1 AS n")))
    assert "several columns have the same name" in twice
    assert "found: 'n'" in twice
    assert not (tmp_path / "sp").exists()


def test_a_key_twice_is_named_and_nothing_is_left(spark: SparkSession, write: Any, tmp_path: Path) -> None:
    frame = spark.range(10).selectExpr("id % 9 AS key", "id AS n").repartition(4)
    said = refused(lambda: write(frame))
    assert "more than one row has the same key" in said
    assert "key 0 again" in said
    assert not (tmp_path / "sp").exists()


def test_a_task_that_fails_leaves_what_was_there(spark: SparkSession, write: Any, read: Any, tmp_path: Path) -> None:
    write(spark.range(10).selectExpr("id AS key", "id AS n"))
    before = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (tmp_path / "sp").iterdir()}
    fails = "CASE WHEN id = 99 THEN raise_error('broken row') ELSE id END AS n"
    frame = spark.range(0, 100, 1, 4).selectExpr("id AS key", fails)
    assert "broken row" in refused(lambda: write(frame, mode="overwrite"))
    after = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (tmp_path / "sp").iterdir()}
    assert after == before
    assert "broken row" in refused(
        lambda: frame.write.format("savepoint").option("uid", "x").mode("append").save(str(tmp_path / "new"))
    )
    assert not (tmp_path / "new").exists()


def test_saving_without_a_mode_fails_in_spark_itself(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(1).selectExpr("id AS key", "id AS n").write.format("savepoint").option("uid", "a")
    refused(lambda: frame.save(str(tmp_path / "sp")))
    assert left(tmp_path) == []


@pytest.mark.thorough  # many queries
def test_tables_of_sparks_catalog_are_answered_with_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    """Spark passes no options of them on; a path that saveAsTable has is written, and then read by its path."""
    path = tmp_path / "sp"
    created = f"CREATE TABLE made USING savepoint OPTIONS (path '{path}', uid 'a', key 'id') AS SELECT 1L id, 2L n"
    frame = spark.range(3).selectExpr("id AS key", "id AS n").write.format("savepoint").option("uid", "a")
    for action in (lambda: spark.sql(created), lambda: frame.mode("append").saveAsTable("made")):
        told = refused(action)
        assert "write by save(path), and read by load(path)" in told
        assert "Traceback" not in told.partition("OptionError")[2]
    assert left(tmp_path) == []
    frame.option("path", str(path)).mode("append").saveAsTable("made")
    assert "the table WITH (path = '...'" in refused(lambda: spark.table("made").collect())
    named = f"SELECT sum(n) FROM made WITH (path = '{path}', uid = 'a')"
    loaded = spark.read.format("savepoint").option("uid", "a").load(str(path))
    assert spark.sql(named).first()[0] == loaded.selectExpr("sum(n)").first()[0] == 3
    spark.sql("DROP TABLE made")


# -- SQL ----------------------------------------------------------------------------------------------------


def test_insert_into_a_view(spark: SparkSession, read: Any, write: Any, tmp_path: Path) -> None:
    write(spark.range(3).selectExpr("id AS key", "id AS n"))
    options = f"OPTIONS (path '{tmp_path / 'sp'}', uid 'op')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW written USING savepoint {options}")
    spark.sql("INSERT OVERWRITE written SELECT id AS key, id * 2 AS n FROM range(5)")
    assert_same_rows(read(), spark.range(5).selectExpr("id AS key", "id * 2 AS n"))
    assert "has this state" in refused(lambda: spark.sql("INSERT INTO written SELECT 9 AS key, 9 AS n"))
    spark.sql("DROP VIEW written")


def test_one_state_is_overwritten_by_sql(spark: SparkSession, shop: Path, tmp_path: Path) -> None:
    """The other states of the operator, and its timers, stay."""
    path = shutil.copytree(shop, tmp_path / "sp")
    opened = pyspark_savepoint.open(path)
    others, timers = opened.keyed_state("accounts").to_arrow(), opened.timers("accounts").to_arrow()
    options = f"OPTIONS (path '{path}', uid 'accounts', state 'total')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW account_totals USING savepoint {options}")
    spark.sql("INSERT OVERWRITE account_totals SELECT key, total + 1 AS total FROM account_totals")
    spark.sql("DROP VIEW account_totals")
    after = pyspark_savepoint.open(path).keyed_state("accounts").to_arrow()
    raised = pc.add(others.column("total"), 1)
    assert after.sort_by("key").equals(
        others.set_column(others.schema.get_field_index("total"), "total", raised).sort_by("key")
    )
    assert pyspark_savepoint.open(path).timers("accounts").to_arrow().num_rows == timers.num_rows == 400


def test_a_view_that_creates_an_operator_is_read_too(spark: SparkSession, tmp_path: Path) -> None:
    options = f"OPTIONS (path '{tmp_path / 'sp'}', uid 'totals', key 'id', maxParallelism 64, flinkVersion '2.0')"
    create = f"CREATE OR REPLACE TEMPORARY VIEW totals (id BIGINT, n BIGINT) USING savepoint {options}"
    spark.sql(create)
    spark.sql("INSERT INTO totals SELECT id, id * 2 FROM range(5)")
    assert_same_rows(spark.table("totals"), spark.range(5).selectExpr("id", "id * 2 AS n"))
    spark.sql("INSERT OVERWRITE totals SELECT id, n + 1 FROM totals WHERE id < 3")
    spark.sql(create)  # Spark plans the files of a view once
    assert_same_rows(spark.table("totals").select("n", "id"), spark.range(3).selectExpr("id * 2 + 1 AS n", "id"))
    told = refused(lambda: spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW unnamed USING savepoint {options}"))
    assert "names its columns" in told
    spark.sql("DROP VIEW totals")
    months = spark.sql("SELECT 1L AS key, INTERVAL 1 MONTH AS n").write.format("savepoint").option("uid", "a")
    assert "cannot pass to Python" in refused(lambda: months.mode("append").save(str(tmp_path / "months")))
