"""Shows why filters are not pushed down; fails when Spark has fixed that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import datasource as api
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pyspark_savepoint.source.reader import SavepointDataSourceReader

CONF = "spark.sql.python.filterPushdown.enabled"
NEEDS_PUSH_DOWN = hasattr(DataSourceReader, "pushFilters")


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
            f"PySpark {pyspark.__version__} pushes filters down rightly when a DataFrame is used twice: the reader can "
            "implement pushFilters for this version on, and take keys from filters as it does from option 'keys'."
        )


def test_our_reader_takes_no_filters() -> None:
    assert "pushFilters" not in vars(SavepointDataSourceReader)
