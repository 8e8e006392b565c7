"""FLIP-140's WordCount: records with a tenth as many keys, from Spark's range to a savepoint that Flink restores.

    pytest tests/benchmarks/test_word_count.py -s                                   20,000 records, as a test
    BENCH_RECORDS=40000000 pytest tests/benchmarks/test_word_count.py -s -k "int or string"
    BENCH_RECORDS=40000000 BENCH_TIMES=10 ...                                       ten times as many records and keys

Four ways to the same state, count LONG by key INT or STRING: a Python function over sorted records (single_key), a
DataFrame aggregation, and the function over records as they arrive, on the heap and on RocksDB.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_savepoint import KeyedStateBootstrapFunction, OperatorTransformation, Savepoint, ValueStateDescriptor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
RECORDS = int(os.environ.get("BENCH_RECORDS", "20000")) * int(os.environ.get("BENCH_TIMES", "1"))
KEYS = RECORDS // 10
PREFIX = "a-word-"


class WordCount(KeyedStateBootstrapFunction):
    """Counts the records of every key."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "LONG"))

    def process_element(self, value: Any, ctx: Any) -> None:
        count = self.count.value()
        self.count.update(1 if count is None else count + 1)


def words(spark: SparkSession, kind: str) -> DataFrame:
    """Records: keys in no order."""
    key = f"cast(id * 7919 % {KEYS} as int)"
    text = f"concat('{PREFIX}', lpad(cast({key} as string), 9, '0'))"
    return spark.range(0, RECORDS, 1, 2).selectExpr(f"{key if kind == 'int' else text} as word")


def by_function(spark: SparkSession, kind: str, path: str, **options: Any) -> None:
    """The Python function."""
    transformed = OperatorTransformation.bootstrap_with(words(spark, kind)).options(**options).key_by("word")
    Savepoint.create(spark).with_operator("count", transformed.transform(WordCount())).write(path)


def by_aggregation(spark: SparkSession, kind: str, path: str) -> None:
    """The same, declared."""
    from pyspark_savepoint.distribution import key_by

    counts = words(spark, kind).groupBy("word").count()
    Savepoint.create(spark).with_operator("count", key_by(counts, "word"), key="word").write(path)


WAYS: dict[str, Callable[[SparkSession, str, str], None]] = {
    "function, sorted": by_function,
    "DataFrame": by_aggregation,
    "function, heap": lambda spark, kind, path: by_function(spark, kind, path, sorted=False, state_backend="heap"),
    "function, rocksdb": lambda spark, kind, path: by_function(
        spark, kind, path, sorted=False, state_backend="rocksdb"
    ),
}
ONLY = os.environ.get("BENCH_WAYS", ",".join(WAYS).replace(", ", "/")).replace("/", ", ")


@pytest.mark.parametrize("kind", ["int", "string"])
def test_word_count(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    wanted = [way for way in WAYS if way in ONLY]
    seconds: dict[str, float] = {}
    answers = {}
    for way in wanted:
        path = str(tmp_path / way.replace(", ", "-"))
        start = time.perf_counter()
        WAYS[way](spark, kind, path)
        seconds[way] = time.perf_counter() - start
        counts = Savepoint.load(spark, path).keyed_state("count")
        answers[way] = counts.selectExpr("count(*)", "sum(count)", "sum(hash(key, count))").first()
        assert answers[way] is not None
        assert answers[way][:2] == (KEYS, RECORDS)
        shutil.rmtree(path)
    assert len(set(answers.values())) == 1, answers
    print(f"\nWordCount, {kind} keys: {RECORDS:,} records, {KEYS:,} keys")
    for way, took in seconds.items():
        ratio = took / seconds[wanted[0]]
        print(f"{way:20}{took:9.1f} s{RECORDS / took / 1e6:9.2f} M records/s{ratio:8.2f}")
