"""The session of the benchmarks: as the README's section on speed sets it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Without the first, Spark 4.1 and later measure the batch for Python anew after every row (0.4 µs a row); with the
#: last, keys of fixed width are counted in generated code, as many as a task has here.
TUNED = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.codegen.aggregate.fastHashMap.capacityBit": "22",
}


@pytest.fixture
def tuned(spark: SparkSession) -> Iterator[SparkSession]:
    """The session of all tests, set for speed while one test runs."""
    before = {name: spark.conf.get(name, None) for name in TUNED}
    for name, value in TUNED.items():
        spark.conf.set(name, value)
    yield spark
    for name, old in before.items():
        if old is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, old)
