"""A cluster of two workers: executors are killed, and the package only comes with the job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.faults.runner import ROOT, attack

pytestmark = pytest.mark.spark

SHOP = ROOT / "tests" / "oracle" / "savepoints" / "shop" / "savepoint"
START = """
import json, sys
from pyspark.sql import SparkSession
conf = {
    "spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "2",
    "spark.sql.warehouse.dir": sys.argv[1] + "/warehouse",
}
spark = SparkSession.builder.master("local-cluster[2,1,1024]").config(map=conf).getOrCreate()
found = {}
"""
SHIPPED = """
folder, archive, shop = sys.argv[1:]
try:
    import pyspark_savepoint
except ImportError:
    found["installed"] = False
spark.addArtifact(archive, pyfile=True)
import pyspark_savepoint
from pyspark_savepoint import Savepoint
pyspark_savepoint.register(spark)
found["archive"] = archive.rpartition("/")[2] in pyspark_savepoint.__file__
source = spark.read.format("savepoint")
found["read"] = source.option("uid", "accounts").load(shop).selectExpr("count(*)", "sum(total)").collect()[0][:]
rows = spark.range(100).selectExpr("id AS key", "id AS n")
rows.write.format("savepoint").option("uid", "a").mode("append").save(f"{folder}/new")
found["written"] = Savepoint.load(spark, f"{folder}/new").keyed_state("a").selectExpr("sum(n)").collect()[0][0]
Savepoint.load(spark, shop).remove_state("accounts", "coupon").write(f"{folder}/changed")
found["changed"] = Savepoint.load(spark, f"{folder}/changed").keyed_state("accounts").columns
print(json.dumps(found))
"""


def run(python: str, script: str, *arguments: str) -> dict[str, Any]:
    """Return what a script prints last."""
    gone = ("PYTHONPATH", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "PYSPARK_DRIVER_PYTHON")
    env = {name: text for name, text in os.environ.items() if name not in gone} | {"PYSPARK_PYTHON": python}
    command = [python, "-c", START + script, *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_executors_are_killed_while_they_write(tmp_path: Path) -> None:
    counts, problems = attack(tmp_path, 3, 21, ["executor"])
    assert not problems
    assert sum(counts.values()) == 3


def test_a_package_that_only_comes_with_the_job(tmp_path: Path) -> None:
    """Driver and workers have all other packages; machine code is cached in the user's folder, not in the archive."""
    archive = tmp_path / "job.zip"
    folders = {"connector": "", "statebackends": "statebackends/", "formats": "formats/"}
    with zipfile.ZipFile(archive, "w") as job:
        for folder, package in folders.items():
            for file in sorted((ROOT / folder).rglob("*.py")):
                job.write(file, f"pyspark_savepoint/{package}{file.relative_to(ROOT / folder).as_posix()}")
    packages = tmp_path / "packages"
    packages.mkdir()
    for folder in (Path(folder) for folder in sys.path if "site-packages" in folder):
        for entry in folder.iterdir():
            is_ours = "pyspark_savepoint" in entry.name.replace("-", "_") or entry.suffix == ".pth"
            if not is_ours and not (packages / entry.name).exists():
                (packages / entry.name).symlink_to(entry)
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={packages}:$PYTHONPATH exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)

    found = run(str(python), SHIPPED, str(tmp_path), str(archive), str(SHOP))

    columns = found.pop("changed")
    assert "total" in columns
    assert "coupon" not in columns
    assert found == {"installed": False, "archive": True, "read": [200, 12240600], "written": 4950}
