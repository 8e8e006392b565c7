"""How fast a savepoint of many small files is listed: tables ``states``, ``sizes`` and ``metadata``.

    pytest tests/benchmarks/test_listing.py -s                             20 operators of 16 subtasks, as a test
    BENCH_HANDLES=25600 pytest tests/benchmarks/test_listing.py -s         200 operators of 128 subtasks

The rival is plain Python that opens every file and reads its first kilobyte.
"""

from __future__ import annotations

import os
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from tests.benchmarks.data import write_wide_savepoint

OPERATORS, SUBTASKS = (200, 128) if os.environ.get("BENCH_HANDLES") else (20, 16)
TIMES = 5
#: Rows of each table.
TABLES = {"states": 2 * OPERATORS, "sizes": 256 * OPERATORS, "metadata": OPERATORS}


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wide_savepoint(tmp_path_factory.mktemp("wide") / "savepoint", OPERATORS, SUBTASKS)


def measured(work: Callable[[], Any]) -> str:
    """Median and minimum of the seconds, and the median of the seconds of processor time of this process."""
    wall, processor = [], []
    for _ in range(TIMES):
        start, used = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
    return f"{statistics.median(wall):.2f} s (min {min(wall):.2f} s, processor {statistics.median(processor):.2f} s)"


def read_starts(path: Path) -> None:
    for name in os.listdir(path):
        with (path / name).open("rb") as file:
            file.read(1024)


@pytest.mark.parametrize("table", TABLES)
def test_one_process(wide: Path, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    def read() -> int:
        parts = open_table(TableRequest(str(wide), table=table)).partitions(2)
        return sum(batch.num_rows for part in parts for batch in part.batches())

    assert read() == TABLES[table]
    ours, rival = measured(read), measured(lambda: read_starts(wide))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    with capsys.disabled():
        print(f"\n{table}: {ours} in one process, opening every file {rival}; peak so far {peak} MB")


def test_spark(wide: Path, spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for table, rows in TABLES.items():

        def read(table: str = table) -> int:
            return len(spark.read.format("savepoint").option("table", table).load(str(wide)).collect())

        start = time.perf_counter()
        assert read() == rows
        first = time.perf_counter() - start
        with capsys.disabled():
            print(f"\n{table}: {measured(read)} with Spark, first {first:.2f} s")
