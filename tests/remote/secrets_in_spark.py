"""All that Spark prints of failed reads and writes (log, plans, errors), for a test that has planted secrets.

python -m tests.remote.secrets_in_spark PORT    stores at that port, which deny everything
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_savepoint import Savepoint
from pyspark_savepoint.formats.errors import SavepointError

PATHS = ("s3://denied/sp", "abfss://denied@account.dfs.core.windows.net/sp")


def told(what: str, action: Callable[[], object]) -> None:
    """Print all that an error says."""
    try:
        action()
        print(what, "gave a result")
    except (SavepointError, PySparkException) as error:
        print(what, "raised", type(error).__name__)
        print(str(error), repr(error), error.args)
        print("".join(traceback.format_exception(error)))


def ask(spark: SparkSession, rows: DataFrame, path: str, options: dict[str, str]) -> None:
    """Read and write at a path, through the data source and the fluent API."""
    store = path.partition(":")[0]
    writer = rows.write.format("savepoint").options(**options, uid="u", key="id", maxParallelism="8").mode("append")
    told(f"{store} read", lambda: spark.read.format("savepoint").options(**options).load(path).collect())
    told(f"{store} write", lambda: writer.save(path))
    told(f"{store} fluent", lambda: Savepoint.load(spark, path, storageOptions=options["storageOptions"]))


def main(port: int) -> None:
    """Ask each store."""
    storage = {"endpoint": f"http://127.0.0.1:{port}", "region": "us-east-1", "maxAttempts": 1, "retryLimit": 1}
    options = {"storageOptions": json.dumps(storage)}
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("DEBUG")
    for path in PATHS:
        ask(spark, spark.range(10), path, options)
    for name, value in spark.sparkContext.getConf().getAll():
        print(name, value)
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]))
