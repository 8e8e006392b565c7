"""How fast the native savepoint of RocksDB reads, beside the canonical one of the same state in the same run.

BENCH_KEYS=4000000 pytest tests/benchmarks/test_read_rocksdb.py -s
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from tests.benchmarks.data import UID, write_savepoint
from tests.benchmarks.rocksdb_data import write_native_savepoint
from tests.benchmarks.test_read import KEYS, best, read_all

Pair = tuple[str, Path, Path]


@pytest.fixture(scope="module", params=["long", "string"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("bench")
    kind = request.param
    return kind, write_native_savepoint(folder / "native", kind, KEYS), write_savepoint(folder / "full", kind, KEYS)


def sums(path: Path) -> tuple[int, dict[str, int], set[Any]]:
    """Of all rows: how many, the sums of their values, and some of the keys with theirs."""
    table = open_table(TableRequest(str(path), uid=UID))
    whole = pa.Table.from_batches([batch for part in table.partitions(2) for batch in part.batches()])
    some = whole.filter(pa.compute.less(whole.column("total"), 100))
    rows = {tuple(row.values()) for row in some.to_pylist()}
    return len(whole), {name: pa.compute.sum(whole.column(name)).as_py() for name in ("total", "count")}, rows


def test_decode_rate(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    kind, native, full = pair
    assert sums(native) == sums(full)
    ours, rival = best(lambda: read_all(native)), best(lambda: read_all(full))
    size = sum(file.stat().st_size for file in native.iterdir())
    with capsys.disabled():
        print(
            f"\n{kind}, native: {KEYS / ours / 1e6:.1f} M rows/s, {size / 1e6:.0f} MB in {ours:.2f} s on one core; "
            f"canonical: {rival:.2f} s"
        )


def test_spark_noop(pair: Pair, spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    kind, native, full = pair

    def read(path: Path) -> None:
        frame = spark.read.format("savepoint").option("uid", UID).option("parallelism", "2").load(str(path))
        frame.write.format("noop").mode("overwrite").save()

    ours, rival = best(lambda: read(native)), best(lambda: read(full))
    with capsys.disabled():
        print(f"\n{kind}, native: Spark noop {ours:.2f} s; canonical: {rival:.2f} s")
