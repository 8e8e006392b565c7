"""Conditions and limits of queries: who takes them, and why not all PySpark releases may hand them over."""

from __future__ import annotations

import base64
import importlib
import io
import json
import operator
import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyspark
import pytest
from pyspark import serializers
from pyspark.sql import SparkSession
from pyspark.sql import datasource as api
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import VariantVal

from pyspark_savepoint.engines.spark.datasource import SavepointDataSource
from pyspark_savepoint.engines.spark.pushed_reader import PushedReader
from pyspark_savepoint.options.options import SavepointReadOptions

CONF = "spark.sql.python.filterPushdown.enabled"
NEEDS_PUSH_DOWN, HAS_LIMIT = hasattr(DataSourceReader, "pushFilters"), hasattr(DataSourceReader, "pushLimit")


def filtering_source() -> type[DataSource]:
    """A source of the numbers 0 to 9 that takes over filters of equality, as PySpark's documentation shows it."""

    class NumbersReader(DataSourceReader):
        def __init__(self) -> None:
            self.only: set[object] = set()

        def pushFilters(self, filters: list[api.Filter]) -> Iterable[api.Filter]:  # noqa: N802
            for pushed in filters:
                if isinstance(pushed, api.EqualTo):
                    self.only.add(pushed.value)
                else:
                    yield pushed

        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            return iter([(number,) for number in range(10) if not self.only - {number}])

    class Numbers(DataSource):
        @classmethod
        def name(cls) -> str:
            return "numbers"

        def schema(self) -> str:
            return "number int"

        def reader(self, schema: object) -> DataSourceReader:
            return NumbersReader()

    return Numbers


def test_spark_gives_a_filter_to_a_use_that_did_not_ask_for_it(spark: SparkSession) -> None:
    if HAS_LIMIT:
        return  # it keeps filters with their scan
    if not NEEDS_PUSH_DOWN:
        assert pyspark.__version__.startswith("4.0."), "PySpark 4.0 is the only one without push-down"
        return
    before = spark.conf.get(CONF)
    spark.conf.set(CONF, "true")
    try:
        spark.dataSource.register(filtering_source())
        numbers = spark.read.format("numbers").load()
        assert [row.number for row in numbers.filter("number = 1").collect()] == [1]
        both = numbers.filter("number = 2").union(numbers.filter("number = 3"))
        found = sorted(row.number for row in both.collect())
    finally:
        spark.conf.set(CONF, str(before))
    if found == [2, 3]:
        pytest.fail(
            f"PySpark {pyspark.__version__} pushes filters down rightly when a DataFrame is used twice: PushedReader "
            "may be the reader from this version on."
        )


def reader_of(path: Path, **options: str) -> DataSourceReader:
    given = {"path": str(path), "uid": "accounts", **options}
    source = SavepointDataSource(given)
    return source.reader(source.schema())


def test_conditions_are_taken_where_spark_keeps_them_with_their_scan(shop: Path) -> None:
    """Fails with the first PySpark that has pushLimit if nothing takes limits and conditions there."""
    kind = type(reader_of(shop))
    assert ("pushLimit" in vars(kind)) == HAS_LIMIT
    assert ("pushFilters" in vars(kind)) == HAS_LIMIT, "a query of a reader with it fails while the conf is off"


def rows_of(reader: DataSourceReader) -> list[dict[str, Any]]:
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return [row for batch in batches for row in batch.to_pylist()]


of_filters = pytest.mark.skipif(not NEEDS_PUSH_DOWN, reason="PySpark 4.0 has no filters")


@pytest.fixture
def pushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PySpark with pushLimit, as far as readers are concerned."""
    monkeypatch.setattr(DataSourceReader, "pushLimit", lambda self, limit: False, raising=False)


def plan(path: Path, conditions: list[dict[str, Any]], **options: str) -> tuple[PushedReader, int]:
    """Plan a read by PySpark's own worker; return the reader of its tasks, and how many conditions are claimed."""
    worker = importlib.import_module("pyspark.sql.worker.data_source_pushdown_filters")
    source = SavepointDataSource({"path": str(path), "uid": "accounts", **options})
    given, taken = io.BytesIO(), io.BytesIO()
    schema = source.schema()
    serializers.write_with_length(serializers.CloudPickleSerializer().dumps(source), given)
    for one in (schema.json(), json.dumps(conditions)):
        serializers.write_with_length(one.encode(), given)
    serializers.write_int(10_000, given)
    serializers.write_int(1, given)
    given.seek(0)
    with mock.patch.object(worker, "write_read_func_and_partitions") as written:
        worker._main(given, taken)
    reader = written.call_args.kwargs["reader"]
    assert isinstance(reader, PushedReader)
    claimed = int.from_bytes(taken.getvalue()[:4], "big")
    return pickle.loads(pickle.dumps(reader)), claimed


def condition(name: str, value: Any, *column: str) -> dict[str, Any]:
    variant = VariantVal.parseJson(json.dumps(value))
    encoded = {part: base64.b64encode(getattr(variant, part)).decode() for part in ("value", "metadata")}
    return {"name": name, "columnPath": list(column), "value": encoded, "isNegated": False}


@of_filters
@pytest.mark.parametrize(
    ("conditions", "keys", "groups"),
    [
        ([("EqualTo", 1158, "key")], "[1158]", None),
        ([("EqualNullSafe", 1158, "key")], "[1158]", None),
        ([("In", [1158, 1159], "key")], "[1158, 1159]", None),
        ([("EqualTo", 7, "key")], "[7]", None),
        ([("EqualTo", 64, "key_group")], None, ((64, 64),)),
        ([("LessThan", 64, "key_group")], None, ((0, 64),)),
        ([("GreaterThanOrEqual", 64, "key_group"), ("EqualTo", 1159, "key")], "[1159]", ((64, 127),)),
        ([("GreaterThan", 4000, "key_group")], None, None),
        ([("GreaterThan", 1158, "key")], None, None),
        ([("EqualTo", "half \ufffd", "key")], None, None),
        ([("EqualTo", "Toronto", "profile", "city")], None, None),
    ],
)
def test_conditions_choose_what_is_read_and_spark_evaluates_all(
    shop: Path, pushed: None, conditions: list[Any], keys: str | None, groups: Any
) -> None:
    everything = rows_of(reader_of(shop, includeKeyGroup="true"))
    reader, claimed = plan(shop, [condition(*one) for one in conditions], includeKeyGroup="true")
    assert (reader.options.keys, reader.options.key_groups, claimed) == (keys, groups, 0)
    found = rows_of(reader)
    assert [row for row in everything if row in found] == found
    wanted = [row for row in everything if all(_holds(row, *one) for one in conditions)]
    assert all(row in found for row in wanted)
    if keys or groups:
        assert len(found) < len(everything)


def _holds(row: dict[str, Any], name: str, value: Any, column: str, *inner: str) -> bool:
    if inner:
        return True
    kinds = {"LessThan": operator.lt, "GreaterThan": operator.gt, "GreaterThanOrEqual": operator.ge}
    if name == "In":
        return row[column] in value
    if name in ("EqualTo", "EqualNullSafe"):
        return bool(row[column] == value)
    return type(row[column]) is type(value) and bool(kinds[name](row[column], value))


@of_filters
def test_options_of_the_user_stay(shop: Path) -> None:
    reader = PushedReader(SavepointReadOptions.parse({"path": str(shop), "uid": "accounts", "keys": "[1158]"}), ...)  # type: ignore[arg-type]
    reader.pushFilters([api.EqualTo(("key",), 1159)])
    assert reader.options.keys == "[1158]"


def test_a_task_ends_after_the_limit(shop: Path, pushed: None) -> None:
    reader = reader_of(shop)
    assert isinstance(reader, PushedReader)
    everything = rows_of(reader)
    assert len(everything) > 2
    assert reader.pushLimit(2)
    tasks = len(reader.partitions())
    assert 2 <= len(rows_of(reader)) <= 2 * tasks
    assert all(row in everything for row in rows_of(reader))
