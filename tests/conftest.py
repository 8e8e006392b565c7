"""What all tests share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# An example that is the first to call a kernel waits for its compilation.
settings.register_profile("project", deadline=None)
settings.load_profile("project")

CORPUS = Path(__file__).parents[2] / "shared" / "corpus"


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Files that real Flink wrote. Where they should lie beside the checkout, their absence is a failure."""
    if not CORPUS.is_dir() and not CORPUS.parent.is_dir() and not os.environ.get("CI"):
        pytest.skip(f"the corpus of real snapshots does not lie beside this checkout, at {CORPUS}")
    assert CORPUS.is_dir(), f"the corpus of real snapshots is not at {CORPUS}"
    return CORPUS


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests, in which Spark finds the installed package by itself."""
    from pyspark.sql import SparkSession

    # Spark would take the python3 of PATH, which need not be the one that has this package.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # Benchmarks of real size aggregate more than the default of 1g holds.
        "spark.driver.memory": "4g" if {"BENCH_KEYS", "BENCH_RECORDS"} & set(os.environ) else "1g",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("pyspark-savepoint tests")
    session = builder.config(map=conf).getOrCreate()
    yield session
    session.stop()
