"""How long operations on whole savepoints of 4,000,000 keys take: comparing two of them, and editing one.

    pytest tests/benchmarks/test_whole_savepoint.py -s                       100,000 keys, as a test
    BENCH_KEYS=4000000 pytest tests/benchmarks/test_whole_savepoint.py -s    the figures of the README

Two value states, LONG and INT, sorted as RocksDB writes them or shuffled as the hashmap does; 1 % of the keys differ or
are deleted. The rival of ``diff`` in the same run is what is written without it: a full outer join of both tables by
key. That of edits is a copy of the bytes. Before tasks merged key groups (November 2026, two cores), ``diff`` took 70
to 93 s in numbers and 31 to 37 s in rows, ``remove_keys`` 20 s, ``with_state`` 11 s, ``with_max_parallelism`` 11.6 s.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pyspark_savepoint import Savepoint
from tests.benchmarks import data
from tests.benchmarks.measure import Memory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS = int(os.environ.get("BENCH_KEYS", "100000"))
#: Runs of each operation, and seconds after which no further run begins.
RUNS, LIMIT = (5, 60.0) if KEYS > 1_000_000 else (1, 0.0)
ORDERS = pytest.mark.parametrize("order", ["sorted", "shuffled"] if "BENCH_KEYS" in os.environ else ["sorted"])

pytestmark = pytest.mark.spark


def pair(folder: Path, ordered: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two savepoints: in the second one, each state has another value for 1 % of the keys."""
    old = data.write_savepoint(folder / "old", "long", KEYS, ordered=ordered)
    entries = data.entries

    def changed(keys: Any, group: int, prefix: int, values: Any) -> bytearray:
        # By the key's bytes, so that both states change for the same keys.
        return entries(keys, group, prefix, values + (keys[:, -2:].astype(np.int64) @ [256, 1] % 100 == 0))

    monkeypatch.setattr(data, "entries", changed)
    new = data.write_savepoint(folder / "new", "long", KEYS, ordered=ordered, parallelism=3)
    return old, new


def timed(name: str, run: Callable[[], Any], runs: int = RUNS) -> float:
    """Print the first run, then median and minimum of the others; return the median."""
    times = []
    began = time.perf_counter()
    for _ in range(runs + 1):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
        if time.perf_counter() - began > LIMIT and len(times) > 1:
            break
    middle = statistics.median(times[1:])
    print(
        f"\n{name}: first {times[0]:.2f} s, median {middle:.2f} s, minimum {min(times[1:]):.2f} s of {len(times) - 1}"
    )
    return middle


def joined(old: Savepoint, new: Savepoint) -> DataFrame:
    """What is obvious in Spark: both tables, joined by key."""
    before, after = (each.keyed_state(data.UID).alias(name) for each, name in ((old, "b"), (new, "a")))
    both = before.join(after, "key", "full")
    return both.where("NOT (b.total <=> a.total AND b.count <=> a.count)")


@ORDERS
def test_differences(tuned: SparkSession, tmp_path: Path, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = pair(tmp_path, order == "sorted", monkeypatch)
    old, new = (Savepoint.load(tuned, str(path)) for path in paths)
    numbers = {row["state"]: row for row in old.diff(new).collect()}
    found = old.diff(new, data.UID).count()
    assert 0 < found < KEYS // 20
    assert {state: row["changed"] for state, row in numbers.items()} == {"total": found, "count": found}
    assert joined(old, new).count() == found
    print(f"\n{KEYS:,} keys, {order}, {found:,} changed")
    with Memory() as memory:
        timed("diff in numbers", lambda: old.diff(new).collect())
        rows = timed("diff in rows", lambda: old.diff(new, data.UID).write.format("noop").mode("overwrite").save())
    join = timed("join of both tables", lambda: joined(old, new).write.format("noop").mode("overwrite").save())
    print(f"join : diff in rows = {join / rows:.1f} : 1; largest worker {memory.worker} MB")


@ORDERS
def test_edits(tuned: SparkSession, tmp_path: Path, order: str) -> None:
    path = data.write_savepoint(tmp_path / "old", "long", KEYS, ordered=order == "sorted")
    old = Savepoint.load(tuned, str(path))
    rows = old.keyed_state(data.UID)
    gone = [row["key"] for row in rows.where("count % 100 = 0").select("key").collect()]
    keys = tuned.createDataFrame([(key,) for key in gone], "key bigint").localCheckpoint()
    totals = rows.selectExpr("key", "total + 1 AS total")
    verbs = {
        "remove_keys": lambda: old.remove_keys(data.UID, keys),
        "with_state": lambda: old.with_state(data.UID, "total", totals),
        "with_max_parallelism": lambda: old.with_max_parallelism(512),
    }
    number = iter(range(1000))
    print(f"\n{KEYS:,} keys, {order}")
    for name, verb in verbs.items():
        written = verb().write(str(tmp_path / f"{name}-checked")).keyed_state(data.UID)
        assert written.count() == KEYS - (len(gone) if name == "remove_keys" else 0)
        if KEYS <= 200_000:
            assert written.exceptAll(rows).count() == (KEYS if name == "with_state" else 0)

        def run(name: str = name, verb: Callable[[], Savepoint] = verb) -> None:
            target = tmp_path / f"{name}-{next(number)}"
            verb().write(str(target))
            shutil.rmtree(target)

        with Memory() as memory:
            seconds = timed(name, run)
        start = time.perf_counter()
        shutil.copytree(path, tmp_path / f"copy-{name}")
        copied = time.perf_counter() - start
        print(f"{name} : copy of the files = {seconds / copied:.1f} : 1; largest worker {memory.worker} MB")
