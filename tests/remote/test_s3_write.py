"""Savepoints written to an object store: complete or not at all, and no other objects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyspark_savepoint import Savepoint, history
from pyspark_savepoint.formats.errors import OutputError
from pyspark_savepoint.formats.filesystems.filesystem import locate
from pyspark_savepoint.formats.filesystems.storage_options import StorageOptions, StoragePath
from tests.remote.conftest import SHOP
from tests.remote.storage import FaultyProxy

pytestmark = pytest.mark.spark


def of(proxy: FaultyProxy) -> dict[str, Any]:
    return {"endpoint": proxy.endpoint, "maxAttempts": 3}


def objects(proxy: FaultyProxy, name: str) -> set[str]:
    """The objects below a folder."""
    filesystem, path = locate(StoragePath.of(f"s3://bucket/{name}", StorageOptions.of(of(proxy))))
    return {one.rpartition("/")[2] for one in filesystem.first_names(path, 1000)}


def test_a_table_is_written_and_read_back(spark: Any, proxy: FaultyProxy) -> None:
    seen: set[str] = set()

    def once(method: str, path: str) -> int | None:
        """Refuse the first request of each kind that writes."""
        if method not in ("PUT", "POST") or method in seen:
            return None
        seen.add(method)
        return 503

    proxy.fault = once
    table = spark.range(1000).selectExpr("id AS key", "id * 2 AS total")
    options = {"uid": "totals", "storageOptions": json.dumps(of(proxy))}
    table.write.format("savepoint").options(**options).mode("append").save("s3://bucket/fresh")
    assert seen == {"PUT", "POST"}
    read = spark.read.format("savepoint").options(**options).load("s3://bucket/fresh")
    assert (read.count(), read.selectExpr("sum(total)").first()[0]) == (1000, 999_000)
    names = objects(proxy, "fresh")
    assert "_metadata" in names
    assert not [name for name in names if "run" in name]


def test_a_savepoint_is_copied_there_and_changed(spark: Any, proxy: FaultyProxy) -> None:
    changed = Savepoint.load(spark, str(SHOP)).remove_operator("currency-converter")
    there = changed.write("s3://bucket/copy", storage_options=of(proxy))
    assert there.keyed_state("accounts").count() == 200
    key = there.keyed_state("accounts").select("key").first()[0]
    again = there.remove_keys("accounts", spark.createDataFrame([(key,)], "key long")).write("s3://bucket/copy-2")
    assert again.keyed_state("accounts").count() == 199
    assert history(spark, "s3://bucket/copy-2", "accounts", storage_options=of(proxy)).count() == 199


def test_a_store_that_takes_nothing_gets_nothing(spark: Any, proxy: FaultyProxy) -> None:
    proxy.fault = lambda method, path: 403 if method in ("PUT", "POST") else None
    with pytest.raises(OutputError, match="cannot be written") as raised:
        Savepoint.load(spark, str(SHOP)).remove_operator("currency-converter").write(
            "s3://bucket/denied", storage_options=of(proxy)
        )
    assert "denies access" in raised.value.facts["found"]
    assert "credentials" in raised.value.facts["remedy"]
    proxy.fault = lambda method, path: None
    assert objects(proxy, "denied") == set()
