"""Savepoints written to an object store: whole, or not at all, and nothing beside them."""

from __future__ import annotations

from typing import Any

import pytest
from pyarrow import fs as arrow_fs

from pyspark_savepoint import Savepoint
from pyspark_savepoint.formats.errors import OutputError
from pyspark_savepoint.formats.filesystem import locate
from remote.conftest import SHOP
from remote.storage import FaultyProxy

pytestmark = pytest.mark.spark


def of(proxy: FaultyProxy, name: str) -> str:
    return f"s3://bucket/{name}?endpoint_override={proxy.endpoint}&max_attempts=3"


def objects(proxy: FaultyProxy, name: str) -> set[str]:
    """The objects below a folder."""
    filesystem, path = locate(of(proxy, name))
    live, prefix = filesystem.connected()
    selector = arrow_fs.FileSelector(prefix + path, recursive=True, allow_not_found=True)
    found = live.get_file_info(selector)
    return {info.base_name for info in found if info.type == arrow_fs.FileType.File}


def test_a_table_is_written_and_read_back(spark: Any, proxy: FaultyProxy) -> None:
    seen: set[str] = set()

    def once(method: str, path: str) -> int | None:
        """The first request of each kind that writes is turned away."""
        if method not in ("PUT", "POST") or method in seen:
            return None
        seen.add(method)
        return 503

    proxy.fault = once
    table = spark.range(1000).selectExpr("id AS key", "id * 2 AS total")
    table.write.format("savepoint").option("uid", "totals").mode("append").save(of(proxy, "fresh"))
    assert seen == {"PUT", "POST"}
    read = spark.read.format("savepoint").option("uid", "totals").load(of(proxy, "fresh"))
    assert (read.count(), read.selectExpr("sum(total)").first()[0]) == (1000, 999_000)
    names = objects(proxy, "fresh")
    assert "_metadata" in names
    assert not [name for name in names if "run" in name]


def test_a_savepoint_is_copied_there_and_changed(spark: Any, proxy: FaultyProxy) -> None:
    changed = Savepoint.load(spark, str(SHOP)).remove_operator("currency-converter")
    there = changed.write(of(proxy, "copy"))
    assert there.keyed_state("accounts").count() == 200
    again = there.remove_operator("warehouse-export").write(of(proxy, "copy-2"))
    assert again.timers("accounts").count() == 400


def test_a_store_that_takes_nothing_gets_nothing(spark: Any, proxy: FaultyProxy) -> None:
    proxy.fault = lambda method, path: 403 if method in ("PUT", "POST") else None
    with pytest.raises(OutputError, match="cannot be written") as raised:
        Savepoint.load(spark, str(SHOP)).remove_operator("currency-converter").write(of(proxy, "denied"))
    assert "denies access" in raised.value.facts["found"]
    assert "credentials" in raised.value.facts["remedy"]
    proxy.fault = lambda method, path: None
    assert objects(proxy, "denied") == set()
