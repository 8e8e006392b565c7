"""FLIP-140's WordCount: records with a tenth as many keys, from Spark's range to a savepoint that Flink restores.

    pytest tests/benchmarks/test_word_count.py -s                                   20,000 records, as a test
    BENCH_RECORDS=40000000 pytest tests/benchmarks/test_word_count.py -s            FLIP-140's figures
    BENCH_RECORDS=40000000 BENCH_TIMES=10 BENCH_WAYS="sorted function" ... -k int   ten times as many records and keys

Beside the times (Spark compiles the code of a first run as it goes) is the peak memory of the largest Python worker.

Four ways to the same state, count LONG by key INT or STRING: a Python function over sorted records (single_key), a
DataFrame aggregation, and the function over records as they arrive, on the heap and on RocksDB.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from cloudpickle import register_pickle_by_value

from pyspark_savepoint import KeyedStateBootstrapFunction, OperatorTransformation, Savepoint, ValueStateDescriptor
from pyspark_savepoint.statebackends.processing.api.state import ObjectReuseMode
from pyspark_savepoint.statebackends.processing.operators.bootstrap import BootstrapPlan, BootstrapTask
from pyspark_savepoint.statebackends.processing.runtime.user_code import relaxed_gc
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor
from pyspark_savepoint.statebackends.writing.planning.flink_types import default_serializer
from tests.benchmarks.measure import Memory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Workers have no such module to import.
register_pickle_by_value(sys.modules[__name__])
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
    """The same, declared; the rows are sorted where the aggregation leaves them, which saves another shuffle."""
    counts = words(spark, kind).groupBy("word").count()
    counts.write.format("savepoint").option("uid", "count").option("key", "word").mode("append").save(path)


WAYS: dict[str, Callable[[SparkSession, str, str], None]] = {
    "sorted function": by_function,
    "DataFrame": by_aggregation,
    "function on the heap": lambda spark, kind, path: by_function(
        spark, kind, path, sorted=False, state_backend="heap"
    ),
    "function on rocksdb": lambda spark, kind, path: by_function(
        spark, kind, path, sorted=False, state_backend="rocksdb"
    ),
}
#: Seconds: what takes longer is not repeated.
WORTH_ANOTHER_RUN = 90
ONLY = os.environ.get("BENCH_WAYS", ",".join(WAYS)).split(",")


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["int", "string"] if "BENCH_RECORDS" in os.environ else ["string"])
def test_word_count(tuned: SparkSession, tmp_path: Path, kind: str) -> None:
    wanted = [way for way in WAYS if way in ONLY]
    seconds: dict[str, list[float]] = {}
    memory: dict[str, int] = {}
    answers = {}
    for way in wanted:
        path = str(tmp_path / way.replace(" ", "-"))
        with Memory() as watched:
            seconds[way] = [timed(WAYS[way], tuned, kind, path)]
            if 1 < seconds[way][0] < WORTH_ANOTHER_RUN:
                shutil.rmtree(path)
                seconds[way].append(timed(WAYS[way], tuned, kind, path))
        memory[way] = watched.worker
        counts = Savepoint.load(tuned, path).keyed_state("count")
        answers[way] = counts.selectExpr("count(*)", "sum(count)", "sum(hash(key, count))").first()
        assert answers[way] is not None
        assert answers[way][:2] == (KEYS, RECORDS)
        shutil.rmtree(path)
    assert len(set(answers.values())) == 1, answers
    print(f"\nWordCount, {kind} keys: {RECORDS:,} records, {KEYS:,} keys; the first time, and again")
    for way, took in seconds.items():
        again = f"{took[-1]:9.1f} s" if len(took) > 1 else " " * 11
        ratio = took[-1] / seconds[wanted[0]][-1]
        rate = RECORDS / took[-1] / 1e6
        print(f"{way:22}{took[0]:9.1f} s{again}{rate:9.2f} M records/s{ratio:8.2f}{memory[way]:8d} MB")


def timed(way: Callable[[SparkSession, str, str], None], spark: SparkSession, kind: str, path: str) -> float:
    """Seconds of one run."""
    start = time.perf_counter()
    way(spark, kind, path)
    return time.perf_counter() - start


# -- where the time goes -----------------------------------------------------------------------------------------


class Nothing(WordCount):
    """What calling costs."""

    def process_element(self, value: Any, ctx: Any) -> None:
        pass


def profile(kind: str, records: int) -> dict[str, float]:
    """Nanoseconds of a record, on one core without Spark: of every step beside those before it.

    Then of the other ways to reuse objects, beside DEFAULT.
    """
    words = np.arange(records, dtype=np.int64) * 7919 % (records // 10)
    column = pa.array(words, pa.int32()) if kind == "int" else pa.array([f"{PREFIX}{word:09}" for word in words])
    batches = pa.table({"word": column}).to_batches(max_chunksize=10_000)
    descriptor = KeyedDescriptor(("word",), default_serializer(column.type), ())

    def task(function: KeyedStateBootstrapFunction, reuse: ObjectReuseMode = ObjectReuseMode.DEFAULT) -> BootstrapTask:
        return BootstrapTask(BootstrapPlan(function, descriptor, ("word",), 128, reuse=reuse).describe(), 0)

    def objects() -> None:
        found = task(Nothing())
        with relaxed_gc():
            for batch in found.records.sorted(batches):
                for chunk in found.records.chunks(batch, ObjectReuseMode.DEFAULT, found.registry.unshared):
                    deque(chunk.values, maxlen=0)

    steps: dict[str, Callable[[], Any]] = {
        "hash and sort": lambda: deque(task(Nothing()).records.sorted(batches), maxlen=0),
        "Python objects": objects,
        "call of a function": lambda: deque(task(Nothing()).run(batches), maxlen=0),
        "state, and entries": lambda: deque(task(WordCount()).run(batches), maxlen=0),
    }
    found, before = {}, 0.0
    for name, step in steps.items():
        took = quickest(step) * 1e9 / records
        found[name], before = took - before, took
    for reuse in list(ObjectReuseMode)[1:]:
        took = quickest(lambda way=reuse: deque(task(WordCount(), way).run(batches), maxlen=0))  # type: ignore[misc]
        found[reuse.name] = took * 1e9 / records - before
    return found


def quickest(step: Callable[[], Any]) -> float:
    """Seconds of the quickest of three runs, after one that compiles."""
    step()
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


@pytest.mark.parametrize("kind", ["int", "string"])
def test_cost_of_a_record(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = profile(kind, min(2_000_000, RECORDS))
    other = {reuse.name: found.pop(reuse.name) for reuse in list(ObjectReuseMode)[1:]}
    with capsys.disabled():
        steps = ", ".join(f"{name} {cost:.0f}" for name, cost in found.items())
        more = ", ".join(f"{name} {cost:+.0f}" for name, cost in other.items())
        print(f"\nWordCount, {kind} keys, ns a record on one core: {steps}; in all {sum(found.values()):.0f}; {more}")
    assert sum(found.values()) > 0
