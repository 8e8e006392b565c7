"""What a read with Spark asks of a store: ``_metadata`` twice, the rest once, in few requests one after the other.

The process that opens the table reads ``_metadata`` and the headers. The one that plans asks whether ``_metadata`` is
still the same, and reads the catalogs of databases meanwhile. Tasks begin with the bytes of state.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.benchmarks.data import UID, write_savepoint
from tests.benchmarks.rocksdb_data import IncrementalJob
from tests.remote.measured_store import MeasuredStore, chain, measured_store

pytestmark = pytest.mark.spark
KEYS, FILES, DATABASES = 20_000, 20, 6


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredStore]:
    """A savepoint of some files, a checkpoint of some databases, and another one that replaces it."""
    folder = tmp_path_factory.mktemp("inputs")
    write_savepoint(folder / "wide", "long", KEYS, parallelism=FILES)
    for name, value in (("job", 1), ("newer", 2)):
        job = IncrementalJob(folder / name, "long", KEYS, parallelism=DATABASES)
        for number in (1, 2):
            job.put(np.arange(KEYS), np.full(KEYS, value * number))
            job.checkpoint(number)
        job.close()
    with measured_store() as store:
        store.upload(folder, "")
        store.objects = {name.lstrip("/"): data for name, data in store.objects.items()}
        yield store


def reading(spark: Any, store: MeasuredStore) -> Any:
    options = {"storageOptions": json.dumps({"endpoint": store.endpoint}), "uid": UID, "parallelism": 1}
    return spark.read.format("savepoint").options(**options)


@pytest.mark.parametrize(("path", "most"), [("wide", 4), ("job/chk-2", 5)], ids=["canonical", "RocksDB"])
def test_a_read_is_a_few_requests_one_after_the_other(
    spark: Any, measured: MeasuredStore, path: str, most: int
) -> None:
    read = reading(spark, measured)
    read.load("s3://bucket/job/chk-1").count()  # Python workers start
    measured.requests.clear()
    measured.latency = 0.3
    assert read.load(f"s3://bucket/{path}").count() == KEYS
    measured.latency = 0.0
    asked = [one for one in measured.requests if one.key.endswith("_metadata")]
    assert [one.kind for one in asked] == ["GET", "GET"], "for the schema, and where the tasks are planned"
    assert asked[1].status == 304, "without its bytes, also where this process has not read it"
    times = Counter(one.key for one in measured.requests if not one.key.endswith("_metadata"))
    headers = {f"wide/state-{number}" for number in range(FILES)} | {f"job/chk-2/meta-{n}" for n in range(DATABASES)}
    assert {key for key, count in times.items() if count > 1} <= headers, "nothing but headers is asked for twice"
    catalogs = [one for one in measured.requests if "MANIFEST" in one.key or "CURRENT" in one.key]
    tables = [one for one in measured.requests if one.key.endswith(".sst")]
    if catalogs:
        assert chain([asked[1], *catalogs]) == 1, "the catalogs are read while the version is looked at"
        assert max(one.end for one in catalogs) < min(one.begin for one in tables)
    assert chain(measured.requests) <= most


def test_a_savepoint_that_is_replaced_before_the_tasks_are_planned(spark: Any, measured: MeasuredStore) -> None:
    """What the first process sent along is not believed."""
    read, before = reading(spark, measured), dict(measured.objects)
    assert {row.total for row in read.load("s3://bucket/job/chk-2").select("total").distinct().collect()} == {2}
    rows = read.load("s3://bucket/job/chk-2")
    other = {name.replace("newer/", "job/", 1): data for name, data in before.items() if name.startswith("newer/")}
    try:
        measured.objects = {**{name: data for name, data in before.items() if not name.startswith("job/")}, **other}
        assert {row.total for row in rows.select("total").distinct().collect()} == {4}
    finally:
        measured.objects = before
