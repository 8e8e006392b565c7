"""Reads and writes with Spark in a store, whose keys are in a profile; for a test that replaces them meanwhile.

python -m tests.remote.spark_in_store ENDPOINT PATH ROWS    sums of a savepoint and of each that it writes, three times
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from pyspark_savepoint import key_by
from tests.benchmarks.data import UID


def main(endpoint: str, path: str, rows: int) -> None:
    """Run the queries, and print their sums."""
    conf = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
    spark = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
    options = {"storageOptions": json.dumps({"endpoint": endpoint}), "uid": UID}
    read = spark.read.format("savepoint").options(**options)
    for number in range(3):
        print(read.load(path).selectExpr("sum(total)").first()[0], flush=True)
        frame = spark.range(0, rows, 1, 2).selectExpr("id AS key", "id * 7 AS total")
        if number % 2:
            frame = key_by(frame, "key", max_parallelism=128, parallelism=2)
        new = f"s3://bucket/out/{number}"
        frame.write.format("savepoint").options(**options, maxParallelism=128).mode("append").save(new)
        print(read.load(new).selectExpr("sum(total)").first()[0], flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
