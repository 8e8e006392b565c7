"""What Spark's processes print where a user works: one line about compiling, and no traceback after Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pyspark_savepoint.formats.kernels import interpretation

pytestmark = [pytest.mark.spark, pytest.mark.slow("Spark starts three times, and compiles")]

READ = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
read = spark.read.format("savepoint").schema("total LONG").options(uid="accounts", parallelism="4")
print(read.load(sys.argv[1]).selectExpr("sum(total)").first()[0])
"""
#: Takes hours.
QUERY = (
    "SELECT count(*) FROM accounts a, accounts b, accounts c, accounts d WHERE a.total + b.total > c.total + d.total"
)
#: Seconds after which it runs in tasks.
STARTED = 5


@pytest.mark.skipif(not interpretation.KEEPS_TYPES, reason="before numpy 2 every kernel is compiled")
def test_tasks_say_once_that_they_compile(shop: Path, tmp_path: Path) -> None:
    """Two workers compile at the same time; with compiled kernels on disk nothing is said."""
    environment = {**os.environ, interpretation.VARIABLE: interpretation.COMPILED, "NUMBA_CACHE_DIR": str(tmp_path)}
    environment["PYSPARK_PYTHON"] = sys.executable
    command = [sys.executable, "-c", READ, str(shop)]
    said = []
    for _ in range(2):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=True)
        assert int(done.stdout) > 0
        said.append(done.stderr.splitlines().count(interpretation.ONCE))
    assert said == [1, 0]


def test_ctrl_c_ends_a_query_without_a_traceback(shop: Path) -> None:
    """All processes of the terminal get the signal: the command, the JVM, Spark's Python workers."""
    command = [sys.executable, "-m", "pyspark_savepoint", "ls", str(shop), "--sql", "SELECT 1", "--sql", QUERY]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert any("accounts d" in line for line in process.stdout)
    time.sleep(STARTED)
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert told.splitlines()[-1] == "interrupted"
    assert "Traceback" not in told
