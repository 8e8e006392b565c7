"""What ``df.write`` sends to a store and gets: each byte of state once up, and none back."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from pyspark_savepoint import key_by
from pyspark_savepoint.formats.snapshot.near_files import PREFIX
from tests.remote.measured_store import MeasuredStore, measured_store

pytestmark = pytest.mark.spark
ROWS = 300_000


@pytest.fixture
def measured() -> Iterator[MeasuredStore]:
    with measured_store() as store:
        yield store


def written(store: MeasuredStore, frame: Any, mode: str = "append") -> dict[str, int]:
    """Write a table, and return the number of requests of each kind."""
    store.requests.clear()
    options = {
        "uid": "totals",
        "key": "id",
        "maxParallelism": 128,
        "storageOptions": f'{{"endpoint": "{store.endpoint}"}}',
    }
    frame.write.format("savepoint").options(**options).mode(mode).save("s3://bucket/out/new")
    return store.kinds()


@pytest.mark.parametrize("by_key", [False, True], ids=["runs", "key_by"])
def test_each_byte_goes_up_once(spark: Any, measured: MeasuredStore, by_key: bool) -> None:
    """Sorted runs of tasks stay on this machine; no folder is left."""
    before = {name for name in os.listdir(tempfile.gettempdir()) if name.startswith(PREFIX)}
    frame = spark.range(0, ROWS, 1, 2).selectExpr("id", "id * 7 AS total")
    kinds = written(measured, key_by(frame, "id", max_parallelism=128, parallelism=2) if by_key else frame)
    state = {name: data for name, data in measured.objects.items() if not name.endswith("_metadata")}
    size = sum(map(len, state.values()))
    up = sum(one.taken for one in measured.requests)
    assert size < up < size + 20_000
    assert sum(one.given for one in measured.requests if "_metadata" not in one.key) < 20_000
    metadata = len(measured.objects["out/new/_metadata"])
    down = sum(one.given for one in measured.requests if one.key.endswith("_metadata") and one.status < 300)
    assert down == metadata, "once, after it was published"
    tasks = 2
    assert kinds["GET"] == tasks + 2
    assert kinds["LIST"] == 3, "what is there, whether the new files are, and what is left"
    after = {name for name in os.listdir(tempfile.gettempdir()) if name.startswith(PREFIX)}
    assert after <= before
    measured.requests.clear()
    read = spark.read.format("savepoint").option("storageOptions", f'{{"endpoint": "{measured.endpoint}"}}')
    assert (
        read.load("s3://bucket/out/new", uid="totals").selectExpr("sum(total)").first()[0] == 7 * ROWS * (ROWS - 1) // 2
    )
    looks = [one.kind for one in measured.requests if one.key.endswith("_metadata")]
    assert looks == ["GET", "GET"], "for the schema, and where the tasks are planned"


def test_tasks_ask_whether_the_savepoint_is_the_one_before_without_its_bytes(
    spark: Any, measured: MeasuredStore
) -> None:
    frame = spark.range(0, 1000, 1, 3).selectExpr("id", "id * 7 AS total")
    written(measured, frame)
    before = len(measured.objects["out/new/_metadata"])
    written(measured, frame, "overwrite")
    asked = [one for one in measured.requests if one.key == "out/new/_metadata" and one.kind == "GET"]
    assert [one.status for one in asked].count(304) == 3 + 1, "the tasks, and once before the publication"
    assert sum(one.given for one in asked) <= 2 * before + len(measured.objects["out/new/_metadata"])
    assert [one.status for one in measured.requests if one.kind == "PUT" and one.key == "out/new/_metadata"] == [200]


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_requests_of_reads_and_writes_fail_at_random(spark: Any, measured: MeasuredStore, seed: int) -> None:
    """By errors with a body, resets, silence, and answers that are lost after the request was done."""
    chance, seen, done = random.Random(seed), set[tuple[str, str]](), []

    def fault(kind: str, key: str) -> int | str | None:
        if (kind, key) in seen or chance.random() < 0.5:
            return None
        seen.add((kind, key))
        done.append(chance.choice([503, "reset", "stall", "lost", "vanished"]))
        return done[-1]

    measured.silence = 1.0
    measured.fault = fault
    frame = spark.range(0, ROWS, 1, 2).selectExpr("id", "id * 7 AS total")
    written(measured, frame)
    read = spark.read.format("savepoint").option("storageOptions", f'{{"endpoint": "{measured.endpoint}"}}')
    rows = read.load("s3://bucket/out/new", uid="totals")
    assert rows.selectExpr("count(*)", "sum(total)").first()[:] == (ROWS, 7 * ROWS * (ROWS - 1) // 2)
    assert len(done) > 5
    measured.fault = lambda kind, key: None
    assert not [name for name in measured.objects if "/." in name]
