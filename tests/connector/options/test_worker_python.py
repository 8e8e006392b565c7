"""A session whose tasks run outside of the virtual environment says so, before Spark finds no format."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"
SCRIPT = """
import sys
sys.prefix = sys.prefix if sys.prefix != sys.base_prefix else sys.prefix + "-venv"
from pyspark.sql import SparkSession
from pyspark_savepoint import Savepoint
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
Savepoint.load(spark, sys.argv[1])
"""


@pytest.mark.spark
def test_an_environment_that_is_not_activated_is_named(tmp_path: Path) -> None:
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.symlink_to(sys.executable)
    env = {name: text for name, text in os.environ.items() if name != "PYSPARK_PYTHON"}
    path = f"{other.parent}{os.pathsep}{env['PATH']}"

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(SHOP)],
        env={**env, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr
    assert f"Spark starts {other} for its tasks" in done.stderr
    assert f"set PYSPARK_PYTHON={sys.executable}" in done.stderr
