"""Spark Connect: verbs that show a few rows show none, too, with their columns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_savepoint.api.spark.savepoint import Savepoint

SHOP = Path(__file__).parents[3] / "oracle" / "savepoints" / "shop" / "savepoint"

#: What has no rows. A client of Connect has no JVM, so it has a process of its own.
NOTHING = """
def nothing(sp, small):
    import pyspark_savepoint

    return {
        "doctor": small.inspect.doctor(),
        "check_migration": small.check_migration("2.3"),
        "migrate": small.migrate("2.3").check(),
        "check_restore": small.job(small).check_restore(),
        "restore_plan": small.job(small).restore_plan(),
        "diff": sp.diff(sp.path, "accounts"),
        "diff of all": small.diff(small.path),
        "sizes": small.inspect.sizes(),
        "heaviest_keys": small.inspect.heaviest_keys(),
        "verify": small.inspect.verify(),
        "ttl_ages": small.inspect.ttl_ages(),
        "offsets": small.sources.offsets(),
        "keyed_state": sp.keyed_state("accounts", keys=[]),
    }
"""

RUN = """
import json, sys
import pytest
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("local[2]").getOrCreate()
from pyspark_savepoint import Savepoint
found = nothing(Savepoint.load(spark, sys.argv[1]), Savepoint.load(spark, sys.argv[2]))
print(json.dumps({name: [table.columns, len(table.collect())] for name, table in found.items()}))
"""


@pytest.mark.thorough  # a server of Connect starts
def test_verbs_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    small = Savepoint.load(spark, SHOP)
    for operator in small.metadata().collect():
        if operator["operator_uid"] != "currency-converter":
            small = small.remove_operator(operator["operator_uid"])
    small.write(tmp_path / "small")
    given = [str(SHOP), str(tmp_path / "small")]
    done = subprocess.run(
        [sys.executable, "-c", NOTHING + RUN, *given],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    names: dict[str, object] = {}
    exec(NOTHING, names)
    classic = names["nothing"](*(Savepoint.load(spark, path) for path in given))  # type: ignore[operator]
    expected = {name: [table.columns, table.count()] for name, table in classic.items()}
    assert json.loads(done.stdout.splitlines()[-1]) == expected
    assert {"doctor", "diff", "heaviest_keys", "ttl_ages", "offsets"} <= {
        name for name, (_, n) in expected.items() if not n
    }
