"""Spark in a store that is busy for long, or refuses the keys of before: reads and ``df.write`` end as without it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyspark_savepoint import key_by
from tests.benchmarks.data import UID, write_savepoint
from tests.benchmarks.rocksdb_data import IncrementalJob
from tests.remote.faulty_writes import busy_from, expect_whole
from tests.remote.measured_store import MeasuredStore, measured_store

pytestmark = pytest.mark.spark
HOME = Path(__file__).parents[2]
KEYS, FILES, ROWS = 20_000, 20, 300_000
NEW = "s3://bucket/out/new"


@pytest.fixture
def measured(tmp_path: Path) -> Iterator[MeasuredStore]:
    """A savepoint of some files, and a checkpoint of some databases."""
    write_savepoint(tmp_path / "wide", "long", KEYS, parallelism=FILES)
    job = IncrementalJob(tmp_path / "job", "long", KEYS, parallelism=6)
    job.put(np.arange(KEYS), np.arange(KEYS) * 3)
    job.checkpoint(1)
    job.close()
    with measured_store() as store:
        for name in ("wide", "job"):
            store.upload(tmp_path / name, name)
        yield store


def queries(spark: Any, store: MeasuredStore) -> dict[str, Callable[[], int]]:
    """Return reads, and writes of a new savepoint; each returns a sum."""
    options = {"storageOptions": json.dumps({"endpoint": store.endpoint}), "uid": UID}

    def reading(path: str) -> int:
        rows = spark.read.format("savepoint").options(**options).load(path)
        return int(rows.selectExpr("sum(total)").first()[0])

    def writing(by_key: bool) -> int:
        frame = spark.range(0, ROWS, 1, 2).selectExpr("id AS key", "id * 7 AS total")
        rows = key_by(frame, "key", max_parallelism=128, parallelism=2) if by_key else frame
        rows.write.format("savepoint").options(**options, maxParallelism=128).mode("append").save(NEW)
        return len(store.requests)

    return {
        "read": lambda: reading("s3://bucket/wide"),
        "read of RocksDB": lambda: reading("s3://bucket/job/chk-1"),
        "write": lambda: writing(False),
        "write after key_by": lambda: writing(True),
    }


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["read", "read of RocksDB", "write", "write after key_by"])
def test_a_burst_of_thirty_seconds_is_waited_for(spark: Any, measured: MeasuredStore, name: str) -> None:
    query, before = queries(spark, measured)[name], dict(measured.objects)
    expected, whole = query(), dict(measured.objects)
    number = random.Random(name).randint(1, len(measured.requests))
    measured.objects = dict(before)
    measured.requests.clear()
    measured.fault = busy_from(number, 30)
    begin = time.monotonic()
    found = query()
    assert time.monotonic() - begin > 30
    assert any(one.status == 503 for one in measured.requests)
    if name.startswith("read"):
        assert found == expected
    else:
        expect_whole(measured, before, 0)
        assert state_of(measured.objects) == state_of(whole)


def state_of(objects: dict[str, bytes]) -> list[bytes]:
    """Return all files but ``_metadata``, which has their names: each write draws new ones."""
    return sorted(data for name, data in objects.items() if not name.endswith("_metadata"))


def test_keys_of_a_profile_are_replaced_while_spark_reads_and_writes(measured: MeasuredStore, tmp_path: Path) -> None:
    """Again and again, at random requests of the driver and of tasks: the store refuses all keys of before."""
    keys, lock, draw = tmp_path / "keys", threading.Lock(), random.Random(48)
    state = {"key": 0, "next": 5, "seen": 0, "at": 0.0}

    def rotate() -> None:
        measured.refused.add(f"key-{state['key']}")
        state["key"] += 1
        keys.write_text(f"[default]\naws_access_key_id = key-{state['key']}\naws_secret_access_key = s\n")

    def replacing(kind: str, key: str) -> None:
        with lock:
            state["seen"] += 1
            if state["seen"] >= state["next"] and time.monotonic() - state["at"] > 0.5:
                rotate()
                state["next"], state["at"] = state["seen"] + draw.randint(1, 12), time.monotonic()

    rotate()
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("AWS_", "PYSPARK_GATEWAY"))}
    environment |= {"AWS_SHARED_CREDENTIALS_FILE": str(keys), "AWS_CONFIG_FILE": str(tmp_path / "none")}
    environment |= {"AWS_REGION": "us-east-1", "PYSPARK_PYTHON": sys.executable}
    measured.fault = replacing
    words = (measured.endpoint, "s3://bucket/job/chk-1", str(ROWS))
    command = [sys.executable, "-m", "tests.remote.spark_in_store", *words]
    done = subprocess.run(command, cwd=HOME, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    read, written = 3 * KEYS * (KEYS - 1) // 2, 7 * ROWS * (ROWS - 1) // 2
    assert done.stdout.split() == [str(read), str(written)] * 3
    assert state["key"] > 8, "replaced often"
    assert sum(one.status == 400 for one in measured.requests) > 8
