"""``spark.read.format("savepoint")`` in a real session, on a savepoint that real Flink wrote."""

from __future__ import annotations

import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pyspark_savepoint.engines.spark.reader import SavepointDataSourceReader
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.schema import spark_schema
from pyspark_savepoint.statebackends.open_table import open_table

pytestmark = pytest.mark.spark

ORDERS = {"uid": "warehouse-export", "state": "pending_orders"}
RATES = {"uid": "currency-converter", "state": "rates"}


@pytest.fixture
def read(spark: SparkSession, shop: Path) -> Any:
    def load(schema: str | None = None, **options: Any) -> DataFrame:
        reader = spark.read.format("savepoint").options(**options)
        return (reader if schema is None else reader.schema(schema)).load(str(shop))

    return load


def error_of(frame: Any) -> str:
    with pytest.raises(PySparkException) as raised:
        frame().collect()
    return str(raised.value)


# -- what is read -------------------------------------------------------------------------------------------


def test_a_path_alone_lists_what_is_inside(read: Any) -> None:
    listed = {(row.operator_uid, row.state): row for row in read().collect()}
    assert listed["currency-converter", "rates"].kind == "BROADCAST"
    assert listed["accounts", "total"].spark_value_type == "bigint"


def test_the_options_that_are_listed_read_what_they_say(read: Any, shop: Path) -> None:
    listed = [row.options for row in read().collect() if row.options]
    assert len(listed) > 10
    for options in listed:
        assert open_table(SavepointReadOptions.parse({"path": str(shop), **options}).request()).schema.names


def test_operator_state(read: Any, shop_states: dict[str, Any]) -> None:
    assert {row.key: row.value for row in read(**RATES).collect()} == dict(shop_states["rates"])
    orders = read(**ORDERS).select("value.orderId", "value.product", "value.cents").collect()
    assert sorted(map(tuple, orders)) == sorted(
        (fields["orderId"], fields["product"], fields["cents"])
        for fields in (entry["fields"] for entry in shop_states["pending_orders"])
    )


def test_keyed_state(read: Any, shop_states: dict[str, Any]) -> None:
    accounts = read(uid="accounts")
    assert accounts.columns[0] == "key"
    assert accounts.schema["total"].metadata == {"comment": "VALUE LONG"}
    rows = {row.key: row for row in accounts.collect()}
    assert {key: row.total for key, row in rows.items()} == {key: value for key, _, value in shop_states["total"]}
    assert {key: row.recent_amounts for key, row in rows.items() if row.recent_amounts} == {
        key: value for key, _, value in shop_states["recent_amounts"]
    }
    assert {key: row.spent_by_currency for key, row in rows.items() if row.spent_by_currency} == {
        key: dict(value["map"]) for key, _, value in shop_states["spent_by_currency"]
    }
    assert {key: row.coupon for key, row in rows.items() if row.coupon} == {
        key: value for key, _, value in shop_states["coupon"]
    }


def test_option_names_are_case_insensitive(read: Any) -> None:
    assert read(UID="currency-converter", STATE="rates").count() == read(**RATES).count()


def test_parallelism_is_the_number_of_partitions(read: Any) -> None:
    accounts = read(uid="accounts", parallelism=3, includeKeyGroup=True)
    assert accounts.rdd.getNumPartitions() == 3
    of_key_group = {
        row.key_group: row.p for row in accounts.select("key_group", F.spark_partition_id().alias("p")).collect()
    }
    assert of_key_group == {key_group: key_group * 3 // 128 for key_group in of_key_group}


def test_a_small_state_is_one_task(read: Any) -> None:
    assert read(uid="accounts").rdd.getNumPartitions() == 1


def test_where_there_is_no_partition_there_is_no_row(read: Any, shop: Path) -> None:
    options = {"uid": "accounts", "keyGroups": "127", "state": "total", "keys": "[1001]"}
    reader = SavepointDataSourceReader(
        SavepointReadOptions.parse({"path": str(shop), **options}), read(**options).schema
    )
    assert reader.partitions() == []
    assert read(**options).collect() == []


def test_keys_are_looked_up(read: Any, shop_states: dict[str, Any]) -> None:
    found = read(uid="accounts", keys="[1002, 1001, 5]").select("key", "total").collect()
    assert {tuple(row) for row in found} == {(key, value) for key, _, value in shop_states["total"][:2]}


def test_both_uses_of_one_frame_are_right(read: Any, shop_states: dict[str, Any]) -> None:
    rates = read(**RATES)
    both = rates.filter("key = 'USD'").union(rates.filter("key = 'CHF'"))
    expected = dict(shop_states["rates"])
    assert [row.value for row in both.collect()] == [expected["USD"], expected["CHF"]]


# -- schemas that the user gives ----------------------------------------------------------------------------


def test_a_schema_selects_and_reorders(read: Any, shop_states: dict[str, Any]) -> None:
    totals = read("total LONG, Key LONG", uid="accounts")
    assert totals.columns == ["total", "Key"]
    assert {row.Key: row.total for row in totals.collect()} == {key: value for key, _, value in shop_states["total"]}


def test_a_schema_that_is_not_the_tables_shows_both_types(read: Any) -> None:
    text = error_of(lambda: read("value double, key int", **RATES))
    assert "key: the table has string, the schema says int" in text
    assert "value" not in text.split("OptionError")[1].replace("  to do", "").splitlines()[1]


def test_not_null_is_a_promise_that_is_checked(read: Any) -> None:
    assert read("key STRING NOT NULL", **RATES).count() > 0
    assert "column 'coupon' has NULLs" in error_of(lambda: read("coupon STRING NOT NULL", uid="accounts"))


# -- SQL ----------------------------------------------------------------------------------------------------


def test_temporary_views(spark: SparkSession, shop: Path, shop_states: dict[str, Any]) -> None:
    options = f"OPTIONS (path '{shop}', Uid 'currency-converter', STATE 'rates')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW rates USING savepoint {options}")
    spark.sql(f"CREATE OR REPLACE GLOBAL TEMPORARY VIEW rates USING savepoint {options}")
    for name in ("rates", "global_temp.rates"):
        assert spark.sql(f"SELECT count(*) AS n FROM {name}").collect()[0].n == len(shop_states["rates"])
    comments = {row.col_name: row.comment for row in spark.sql("DESCRIBE rates").collect()}
    assert comments["value"] == "BROADCAST DOUBLE"


def test_tables_are_queried_with_options(spark: SparkSession, shop: Path, shop_states: dict[str, Any]) -> None:
    options = f"path '{shop}', uid 'currency-converter', state 'rates'"
    spark.sql(f"CREATE TABLE rates_src USING savepoint OPTIONS ({options})")
    try:
        named = options.replace(" '", " = '")
        spark.sql(f"CREATE VIEW rates_of_flink AS SELECT * FROM rates_src WITH ({named})")
        found = spark.sql("SELECT key, value FROM rates_of_flink").collect()
        assert dict(map(tuple, found)) == dict(shop_states["rates"])
        assert "Spark keeps no options of CREATE TABLE" in error_of(lambda: spark.table("rates_src"))
    finally:
        spark.sql("DROP VIEW IF EXISTS rates_of_flink")
        spark.sql("DROP TABLE rates_src")


# -- errors as a person reads them --------------------------------------------------------------------------


def our_frames(text: str) -> list[str]:
    return re.findall(r"pyspark_savepoint/([a-z_/]+\.py)", text)


def test_an_operator_that_is_not_there(read: Any) -> None:
    text = error_of(lambda: read(uid="acounts"))
    assert "OperatorNotFoundError" in text
    assert "did you mean 'accounts'" in text
    assert our_frames(text) == ["engines/spark/datasource.py"]


def test_a_setting_leaves_the_error_alone(spark: SparkSession, read: Any) -> None:
    setting = "spark.sql.execution.pyspark.udf.hideTraceback.enabled"
    assert setting in (Path(__file__).parents[4] / "connector" / "README.md").read_text()
    spark.conf.set(setting, "true")
    try:
        text = error_of(lambda: read(uid="acounts"))
    finally:
        spark.conf.unset(setting)
    assert "OperatorNotFoundError: the snapshot has no such operator" in text.splitlines()[0]
    assert text.count("to do: ") == 1
    assert our_frames(text) == []


def test_options_that_are_wrong(read: Any) -> None:
    text = error_of(lambda: read(udi="accounts", parallelism="0"))
    assert "there is no option 'udi', did you mean 'uid' or 'uids'?" in text
    assert "option 'parallelism' is '0', expected a whole number from 1 to 32768" in text
    assert our_frames(text) == ["engines/spark/datasource.py"]


def test_several_paths(spark: SparkSession, shop: Path) -> None:
    assert "load() takes one path" in error_of(lambda: spark.read.format("savepoint").load([str(shop), str(shop)]))


def test_a_path_that_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    text = error_of(lambda: spark.read.format("savepoint").load(str(tmp_path / "none")))
    assert "SnapshotNotFoundError" in text
    assert str(tmp_path / "none") in text


def test_a_state_file_that_is_damaged(spark: SparkSession, shop: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "savepoint"
    shutil.copytree(shop, damaged)
    largest = max(
        (path for path in damaged.iterdir() if path.name != "_metadata"), key=lambda path: path.stat().st_size
    )
    content = bytearray(largest.read_bytes())
    content[-200:-100] = b"\xff" * 100
    largest.write_bytes(content)
    text = error_of(lambda: spark.read.format("savepoint").option("uid", "accounts").load(str(damaged)))
    assert "CorruptStateError" in text
    for fact in (f"  file: {damaged}", "  at byte: ", "  operator: accounts", "  expected: ", "  to do: "):
        assert fact in text
    assert our_frames(text) == ["engines/spark/reader.py"]


# -- what crosses to executors ------------------------------------------------------------------------------


def test_readers_and_partitions_are_small_and_hold_nothing_open(shop: Path) -> None:
    options = SavepointReadOptions.parse({"path": str(shop), "uid": "accounts", "parallelism": "5"})
    reader = SavepointDataSourceReader(options, spark_schema(open_table(options.request()).schema))
    partitions = reader.partitions()
    assert len(pickle.dumps(reader)) < 10_000
    assert len(partitions) == 5
    assert all(len(pickle.dumps(partition)) < 50_000 for partition in partitions)
    again = pickle.loads(pickle.dumps(reader))
    rows = [len(list(again.read(pickle.loads(pickle.dumps(partition))))) for partition in partitions]
    assert sum(rows) > 0


def test_pyspark_is_a_version_that_is_supported() -> None:
    assert int(pyspark.__version__.split(".")[0]) == 4
