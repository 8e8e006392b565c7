"""Spark finds the source by itself, in every kind of session, and at little cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

LOOK_UP = """
import json, sys, time
import pyspark.sql.datasource
from importlib import import_module
from pkgutil import iter_modules
before = set(sys.modules)
start = time.process_time()
names = [info.name for info in iter_modules() if info.name == "pyspark_savepoint"]
source = import_module(names[0]).DefaultSource
seconds = time.process_time() - start
new = sorted(set(sys.modules) - before)
print(json.dumps({"names": names, "source": source.name(), "new": new, "seconds": seconds}))
"""

NO_SPARK = """
import json, sys
import pyspark_savepoint, pyspark_savepoint.formats.snapshot.savepoint, pyspark_savepoint.statebackends.open_table
print(json.dumps([name for name in sys.modules if name.split(".")[0] == "pyspark"]))
"""

QUERY = """
import json, sys
from pyspark.sql import SparkSession
master, shop, lab = sys.argv[1:]
builder = SparkSession.builder
if master == "connect":
    builder = builder.remote("local[2]")
else:
    builder = builder.master(master).config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
spark = builder.getOrCreate()
rates = spark.read.format("savepoint").options(uid="currency-converter", state="rates").load(shop)
opaque = spark.read.format("savepoint").options(uid="kv-kryo", state="no-default").load(lab)
opaque.count()
opaque.filter("key = 1").count()
spark.sql(f"CREATE TEMPORARY VIEW orders USING savepoint OPTIONS (path '{shop}', uid 'warehouse-export', "
          "state 'pending_orders', parallelism 2)")
found = {
    "rates": {row.key: row.value for row in rates.collect()},
    "orders": spark.sql("SELECT count(*) FROM orders").first()[0],
    "partitions": spark.sql("SELECT count(DISTINCT p) FROM (SELECT spark_partition_id() AS p FROM orders)").first()[0],
    "totals": spark.read.format("savepoint").option("uid", "accounts").load(shop).selectExpr("sum(total)").first()[0],
}
spark.stop()
print(json.dumps(found))
"""


def run(script: str, *arguments: str) -> tuple[Any, str]:
    """What a script prints last, as JSON, and what it and all its processes say on stderr."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    # This process may have a JVM of its own, which the script's Spark must not take for its own.
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE"):
        environment.pop(name, None)
    if "connect" in arguments:
        # Spark's own word for a server on any free port: by default it is the same for all.
        environment["SPARK_TESTING"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], env=environment, capture_output=True, text=True, timeout=600
    )
    said = [line for line in done.stderr.splitlines() if not line.startswith(("\tat ", "Caused by"))]
    assert done.returncode == 0, "\n".join(said)[-4000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_the_scan_for_sources_finds_it_and_imports_no_more() -> None:
    found, _ = run(LOOK_UP)
    assert found["names"] == ["pyspark_savepoint"]
    assert found["source"] == "savepoint"
    modules = ["", ".options", ".options.release", ".source", ".source.datasource"]
    assert found["new"] == ["pyspark_savepoint" + name for name in modules]
    assert found["seconds"] < 1


def test_the_package_and_its_formats_do_not_import_spark() -> None:
    names, _ = run(NO_SPARK)
    assert names == []


@pytest.mark.spark
@pytest.mark.parametrize("master", ["connect", "local-cluster[2,1,1024]"])
def test_a_session_of_its_own(master: str, shop: Path, shop_states: dict[str, Any], corpus: Path) -> None:
    lab = corpus / "lab" / "2.2.1-hashmap-canonical" / "savepoint"
    found, said = run(QUERY, master, str(shop), str(lab))
    assert found["rates"] == dict(shop_states["rates"])
    assert found["orders"] == len(shop_states["pending_orders"])
    assert found["partitions"] == 2
    assert found["totals"] == sum(value for _, _, value in shop_states["total"])
    # Once for one load, however often it is queried; Connect may analyse each query anew (PySpark 4.0 does).
    assert 1 <= said.count("WARNING savepoint: ") <= (2 if master == "connect" else 1)
