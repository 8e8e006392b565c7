"""Print what Spark tells of queries whose options and paths have secrets: plans, UI, event log; for a test.

python -m tests.remote.secrets_in_spark FOLDER SAVEPOINT [REGEX]    REGEX: spark.sql.redaction.options.regex
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

SECRET = "mArKeR"
KEY = json.dumps({"accountKey": SECRET})
PATH = f"s3://KEY:{SECRET}@bucket/sp"


def attempt(action: Callable[[], Any]) -> None:
    """Run a query that fails, and print its error without the traceback of Python, which has its source."""
    try:
        action()
    except PySparkException as error:
        print("error", str(error).replace(__file__, ""))


def main(folder: str, savepoint: str, regex: str | None = None) -> None:
    """Run the queries, and print all texts."""
    conf = {
        "spark.ui.enabled": "true", "spark.ui.port": "0", "spark.eventLog.enabled": "true", "spark.log.level": "OFF",
        "spark.eventLog.dir": f"file://{folder}", "spark.eventLog.compress": "false",
        "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1",
        **({"spark.sql.redaction.options.regex": regex} if regex else {}),
    }  # fmt: skip
    spark = SparkSession.builder.master("local[1]").config(map=conf).getOrCreate()
    read, rows = spark.read.format("savepoint"), spark.range(3).selectExpr("id AS key", "id AS n")
    read.option("uid", "accounts").option("storageOptions", '{"region": "eu-west-1"}').load(savepoint).count()
    attempt(lambda: read.option("storageOptions", KEY).load(savepoint).collect())
    attempt(lambda: spark.read.format("savepoint").load(PATH).collect())
    attempt(lambda: rows.write.format("savepoint").option("uid", "a").mode("append").save(PATH))
    table = spark.read.format("savepoint").schema("key LONG, total LONG").option("uid", "accounts").load(PATH)
    with contextlib.redirect_stdout(io.StringIO()) as plan:
        table.explain("extended")
    print("plan", plan.getvalue())
    attempt(table.collect)
    options = f"OPTIONS (path '{savepoint}', uid 'accounts', storageOptions '{KEY}')"
    attempt(lambda: spark.sql(f"CREATE TEMPORARY VIEW told USING savepoint {options}"))
    place = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}"
    for what in ("sql?details=true&planDescription=true&length=1000", "jobs", "stages", "environment"):
        with urllib.request.urlopen(f"{place}/{what}") as answer:
            print("UI", json.dumps(json.load(answer)))
    spark.stop()
    for file in Path(folder).rglob("*"):
        if file.is_file():
            print("\n".join(f"log {line}" for line in file.read_text().splitlines()))


if __name__ == "__main__":
    main(*sys.argv[1:])
