"""A driver: runs the writes that it reads from standard input, one line of JSON each, and prints how each ended.

It is a separate process, because it is killed. ``write`` makes the calls of a user:

``append``     one more operator in the savepoint at the path
``overwrite``  the operator ``changed`` of the savepoint at the path
``fluent``     a changed copy of the savepoint at the path, at another path
``migrate``    the savepoint at the path for Flink 2.3, at another path
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pyspark_savepoint import Savepoint

ROWS, TASKS = 20_000, 4
#: The daemon with the package loaded, from which workers are forked: sessions are restarted often here.
DAEMON = "pyspark_savepoint.daemon"
#: What a version adds to every value, so that the sum of an operator's values shows its version.
STEP = 1_000_000


def start(master: str) -> SparkSession:
    """A session whose tasks are tried four times."""
    conf = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.log.level": "OFF",
        "spark.python.daemon.module": DAEMON,
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    return SparkSession.builder.master(master).config(map=conf).getOrCreate()


def rows_of(spark: SparkSession, version: int) -> DataFrame:
    """The rows of one version."""
    return spark.range(0, ROWS, 1, TASKS).selectExpr("id AS key", f"id + {version * STEP}L AS n")


def write(spark: SparkSession, kind: str, path: str, target: str, version: int) -> None:
    """One write, as a user calls it."""
    rows = rows_of(spark, version)
    if kind == "fluent":
        Savepoint.load(spark, path).with_state("changed", "n", rows).write(target)
        return
    if kind == "migrate":
        Savepoint.load(spark, path).migrate("2.3").write(target)
        return
    uid = "changed" if kind == "overwrite" else f"added-{version}"
    rows.write.format("savepoint").option("uid", uid).mode(kind).save(path)


def main() -> None:
    """Answer requests until the input ends."""
    spark = start(sys.argv[1])
    say({"ready": True})
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        say({"began": True})
        try:
            write(spark, **request)
        except Exception as error:  # any error: the caller checks the files on the disk
            say({"ended": "failed", "error": f"{type(error).__name__}: {error}"[:2000]})
        else:
            say({"ended": "written"})


def say(answer: dict[str, Any]) -> None:
    """Print one line for the caller."""
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
