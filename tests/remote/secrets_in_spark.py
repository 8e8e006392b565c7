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

from pyspark_savepoint import Savepoint
from pyspark_savepoint.formats.errors import SavepointError

SECRET = "mArKeR"
KEY = json.dumps({"accountKey": SECRET})
PATH = f"s3://KEY:{SECRET}@bucket/sp"


def attempt(action: Callable[[], Any]) -> None:
    """Run what fails, and print its error without the traceback of Python, which has its source."""
    try:
        action()
    except (PySparkException, SavepointError) as error:
        print("error", str(error).replace(__file__, ""))


def edit(spark: SparkSession, savepoint: str, folder: str) -> None:
    """Edits and erasures: of keys that are secrets themselves, with a salt, and at a path with a secret."""
    sp = Savepoint.load(spark, savepoint)
    report = sp.erase(keys=[f"{SECRET}-person", 1042], to=f"{folder}/erased", salt=f"{SECRET}-salt")
    erased = Savepoint.load(spark, f"{folder}/erased")
    found = erased.verify_erasure(report.to_json(), [f"{SECRET}-person", 1042], salt=f"{SECRET}-salt")
    print("proved", [row for row in found if row["severity"] == "error"])
    names = sp.keyed_state("accounts").selectExpr("key", "total AS name")
    sp.with_state("accounts", "name", names).remove_keys("accounts", [1043]).write(f"{folder}/edited")
    attempt(lambda: sp.rename_state("accounts", "total", "sum").write(PATH))
    attempt(lambda: sp.erase(keys=[1042], to=PATH))
    attempt(lambda: Savepoint.load(spark, PATH).keyed_state("accounts").collect())
    attempt(lambda: Savepoint.load(spark, savepoint, storage_options=json.loads(KEY)).erase(keys=[1], dry_run=True))
    attempt(lambda: sp.migrate("2.3").write(PATH))


def stream(spark: SparkSession, savepoint: str, folder: str) -> None:
    """A stream that runs, and streams of secrets."""
    source = spark.readStream.format("savepoint").option("uid", "accounts")
    rows = source.option("storageOptions", '{"region": "eu-west-1"}').load(str(Path(savepoint).parent))
    query = rows.writeStream.format("noop").option("checkpointLocation", f"{folder}/query")
    running = query.trigger(availableNow=True).start()
    running.awaitTermination()
    print("progress", [progress.json for progress in running.recentProgress])
    attempt(lambda: source.load(PATH))
    attempt(lambda: source.option("storageOptions", KEY).load(savepoint))
    named = source.schema(rows.schema).load(PATH)  # its folder is looked at when the query runs
    attempt(lambda: named.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination())


def main(folder: str, savepoint: str, regex: str | None = None) -> None:
    """Run the queries, and print all texts."""
    Path(folder, "events").mkdir()
    conf = {
        "spark.ui.enabled": "true", "spark.ui.port": "0", "spark.eventLog.enabled": "true", "spark.log.level": "OFF",
        "spark.eventLog.dir": f"file://{folder}/events", "spark.eventLog.compress": "false",
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
    edit(spark, savepoint, folder)
    stream(spark, savepoint, folder)
    options = f"OPTIONS (path '{savepoint}', uid 'accounts', storageOptions '{KEY}')"
    attempt(lambda: spark.sql(f"CREATE TEMPORARY VIEW told USING savepoint {options}"))
    place = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}"
    for what in ("sql?details=true&planDescription=true&length=1000", "jobs", "stages", "environment"):
        with urllib.request.urlopen(f"{place}/{what}") as answer:
            told = json.load(answer)
        for one in told if isinstance(told, list) else [told]:
            print("UI", json.dumps(one))
    spark.stop()
    for file in Path(folder, "events").rglob("*"):
        if file.is_file():
            print("\n".join(f"log {line}" for line in file.read_text().splitlines()))


if __name__ == "__main__":
    main(*sys.argv[1:])
