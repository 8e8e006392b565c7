"""How fast a canonical savepoint of 4,000,000 keys reads, against walls that nobody passes and the obvious way.

    pytest tests/benchmarks -s                       200,000 keys, as a test
    BENCH_KEYS=4000000 pytest tests/benchmarks -s    the figures of the README

Every figure is printed beside a rival of the same run: a copy of the same bytes (``memcpy``), the same file decoded
by plain Python, Spark's own range into the same sink. Two value states, LONG and INT, keys LONG or 13-character
STRING; sorted within a key group as RocksDB writes it, and shuffled as the hashmap does.
"""

from __future__ import annotations

import os
import resource
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from tests.benchmarks.data import UID, write_savepoint
from tests.benchmarks.measure import best

KEYS = int(os.environ.get("BENCH_KEYS", "200000"))
CASES = [("long", True), ("long", False), ("string", True), ("string", False)]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}-{'sorted' if case[1] else 'shuffled'}")
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    kind, ordered = request.param
    name = f"{kind}-{'sorted' if ordered else 'shuffled'}"
    return name, write_savepoint(tmp_path_factory.mktemp("bench") / name, kind, KEYS, ordered=ordered)


def read_all(path: Path, parallelism: int = 2) -> int:
    table = open_table(TableRequest(str(path), uid=UID))
    return sum(batch.num_rows for part in table.partitions(parallelism) for batch in part.batches())


def read_in_plain_python(data: bytes, offsets: list[int]) -> int:
    """The obvious way: one entry after the other, a dict per key group."""
    rows = 0
    for at in offsets:
        found: dict[bytes, list[Any]] = {}
        (state,) = struct.unpack_from(">H", data, at)
        at += 2
        while state != 0xFFFF:
            (size,) = struct.unpack_from(">i", data, at)
            last = data[at + 4] & 0x80
            key = data[at + 5 : at + 4 + size]
            (length,) = struct.unpack_from(">i", data, at + 4 + size)
            value = data[at + 8 + size : at + 8 + size + length]
            found.setdefault(key, [None, None])[state] = int.from_bytes(value, "big", signed=True)
            at += 8 + size + length
            if last:
                (state,) = struct.unpack_from(">H", data, at)
                at += 2
        rows += len(found)
    return rows


def test_decode_rate(case: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    name, path = case
    assert read_all(path) == KEYS
    size = sum(file.stat().st_size for file in path.iterdir())
    ours = best(lambda: read_all(path))
    bytes_of_it = np.fromfile(path / "state-0", np.uint8)
    copy = best(lambda: bytes_of_it.copy()) * size / len(bytes_of_it)
    (source,) = open_table(TableRequest(str(path), uid=UID)).partitions(1)[0].split.sources[:1]
    few = [offset for offset in source.offsets.offsets if offset][:2]
    data = bytes_of_it.tobytes()
    share = read_in_plain_python(data, few) / KEYS
    plain = best(lambda: read_in_plain_python(data, few), 1) / share
    with capsys.disabled():
        print(
            f"\n{name}: {KEYS / ours / 1e6:.1f} M rows/s, {size / ours / 1e6:.0f} MB/s on one core; "
            f"plain Python : ours = {plain / ours:.0f} : 1; ours : memcpy = {ours / copy:.0f} : 1"
        )
    assert plain > 5 * ours or KEYS < 1_000_000


def test_spark_noop(case: tuple[str, Path], spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    name, path = case

    def read() -> None:
        frame = spark.read.format("savepoint").option("uid", UID).option("parallelism", "2").load(str(path))
        frame.write.format("noop").mode("overwrite").save()

    def rival() -> None:
        spark.range(0, KEYS, 1, 2).selectExpr("id", "id * 2", "int(id % 7)").write.format("noop").mode(
            "overwrite"
        ).save()

    first = best(read, 1)
    ours, floor = best(read, 5), best(rival, 5)
    with capsys.disabled():
        print(
            f"\n{name}: Spark noop {ours:.2f} s ({KEYS / ours / 1e6:.1f} M rows/s), first query {first:.2f} s; "
            f"ours : spark.range = {ours / floor:.1f} : 1"
        )
    assert spark.read.format("savepoint").option("uid", UID).load(str(path)).count() == KEYS


# The peak of this process alone: ru_maxrss would begin with that of the process which started it.
MEMORY = """
import re, sys
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.open_table import open_table
parts = open_table(TableRequest(sys.argv[1], uid="bench")).partitions(1)
rows = sum(batch.num_rows for part in parts for batch in part.batches())
print(rows, int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024)
"""


def test_peak_memory(case: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """A worker's memory does not grow with the savepoint; most of it is numba and Arrow.

    Measured with compiled kernels on disk: to compile them takes memory of its own, once on a machine.
    """
    name, path = case
    read_all(path)
    done = subprocess.run([sys.executable, "-c", MEMORY, str(path)], capture_output=True, text=True, check=True)
    rows, megabytes = map(int, done.stdout.split())
    with capsys.disabled():
        print(f"\n{name}: peak memory of one process {megabytes} MB, for {KEYS} keys")
    assert rows == KEYS
    assert megabytes < 500


@pytest.mark.parametrize("ordered", [True, False], ids=["sorted", "shuffled"])
def test_large_key_groups(tmp_path: Path, ordered: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """The cost of a row by the size of a key group, joined in memory, and in windows or through local disk."""
    told = []
    for groups, memory in ((128, 64), (8, 64), (8, 1)):
        name = tmp_path / f"{groups}"
        if not name.exists():
            write_savepoint(name, "long", KEYS, max_parallelism=groups, parallelism=1, ordered=ordered)
        (part,) = open_table(TableRequest(str(name), uid=UID, memory=memory << 20)).partitions(1)
        assert sum(batch.num_rows for batch in part.batches()) == KEYS
        seconds = []
        for _ in range(5):
            start = time.process_time()
            for _ in part.batches():
                pass
            seconds.append(time.process_time() - start)
        nanoseconds = [1e9 * each / KEYS for each in (statistics.median(seconds), min(seconds))]
        told.append(f"{groups} key groups, memory {memory}m: {nanoseconds[0]:.0f} ns (min {nanoseconds[1]:.0f})")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    with capsys.disabled():
        print(f"\n{'sorted' if ordered else 'shuffled'}, processor time of a row: {'; '.join(told)}; peak {peak} MB")
