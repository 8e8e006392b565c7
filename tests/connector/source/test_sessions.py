"""What users do with a savepoint, on Connect and on a cluster of two workers: SQL alone, surveys, differences, code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.connector.source.test_discovery import run

pytestmark = pytest.mark.spark

LIVE = """
import io, json, shutil, sys
from contextlib import redirect_stderr, redirect_stdout
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
import pyspark_savepoint
from pyspark_savepoint import KeyedStateReaderFunction, Savepoint, show_progress
master, shop, folder = sys.argv[1:]
builder = SparkSession.builder
if master == "connect":
    builder = builder.remote("local[2]")
else:
    builder = builder.master(master).config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
    builder = builder.config("spark.python.daemon.module", "pyspark_savepoint.daemon")
builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.sql.warehouse.dir", f"{folder}/warehouse")
spark = builder.getOrCreate()

class Totals(KeyedStateReaderFunction):
    def open(self, ctx):
        self.total = ctx.get_state("total")
    def read_key(self, key, ctx):
        yield {"id": key, "total": self.total.value()}

sp = Savepoint.load(spark, shop)
found = {"tree": "accounts" in sp._repr_html_() and "<" in sp._repr_html_()}
sp.create_tables()
found["sql"] = list(spark.sql("SELECT count(*), sum(total) FROM accounts.keyed_state").first())
found["rates"] = spark.sql("SELECT count(*) FROM currency_converter.rates").first()[0]
sp.drop_tables()
found["left"] = [row[0] for row in spark.sql("SHOW DATABASES").collect()]
pyspark_savepoint.register(spark)
found["states"] = spark.sql(f"SELECT count(*) FROM savepoint_states('{shop}')").first()[0]
found["metadata"] = spark.sql(f"SELECT count(*) FROM savepoint_metadata('{shop}')").first()[0]
sizes = sp.sizes("accounts").where("state = 'total'")
found["sizes"] = sizes.selectExpr("sum(entries)").first()[0]
found["heaviest"] = sp.heaviest_keys("accounts", top=2).where("state = 'total'").count()
found["ages"] = sp.ttl_ages("accounts").where("units > 0").count()
read = sp.read_keyed_state("accounts", Totals(), "id long, total long")
found["function"] = list(read.selectExpr("count(*)", "sum(total)").first())
said = io.StringIO()
with redirect_stdout(said), redirect_stderr(said), show_progress(spark, "writing"):
    fixed = sp.remove_keys("accounts", sp.keyed_state("accounts").where("key < 1010").select("key"))
    fixed = fixed.write(f"{folder}/job/savepoint-2")
found["progress"] = said.getvalue()
shutil.copytree(shop, f"{folder}/job/savepoint-1")
found["changed"] = sp.diff(fixed, "accounts").count()
found["history"] = pyspark_savepoint.history(spark, f"{folder}/job", "accounts", state="total").count()
daemon = udf(lambda _: sys.modules["__main__"].__spec__.name)
found["daemon"] = spark.range(1).select(daemon("id")).first()[0]
spark.stop()
print(json.dumps(found))
"""


@pytest.mark.parametrize("master", ["connect", "local-cluster[2,1,1024]"])
def test_a_savepoint_is_lived_with(master: str, shop: Path, shop_states: dict[str, Any], tmp_path: Path) -> None:
    found, _ = run(LIVE, master, str(shop), str(tmp_path))
    total = sum(value for _, _, value in shop_states["total"])
    assert found.pop("daemon") == ("pyspark.daemon" if master == "connect" else "pyspark_savepoint.daemon")
    assert found.pop("progress").startswith("writing: ")
    assert found == {
        "tree": True,
        "sql": [200, total],
        "rates": len(shop_states["rates"]),
        "left": ["default"],
        "states": 17,
        "metadata": 7,
        "sizes": 200,
        "heaviest": 2,
        "ages": 1,
        "function": [200, total],
        "changed": 9,
        "history": 391,
    }
