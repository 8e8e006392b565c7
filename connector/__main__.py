"""Command line ``python -m pyspark_savepoint PATH``: list the states of a snapshot, and run SQL over its tables.

Every table gets a temporary view: ``accounts`` for the keyed state of uid ``accounts`` (or its windows, if it has only
these), ``accounts_timers``, and ``currency_converter_rates`` for an operator state; characters that SQL names cannot
contain become ``_``.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import SavepointError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_JAVA = """Java 17 or later is needed by Spark and was not found. Install it, for example
  apt-get install openjdk-17-jre-headless     brew install openjdk@17     conda install openjdk=17
or point JAVA_HOME at one."""


def main(arguments: list[str] | None = None) -> int:
    """List a snapshot, and run the queries; return the exit code, 1 on failure."""
    parser = argparse.ArgumentParser("pyspark_savepoint", description="What is in a Flink savepoint, as Spark tables.")
    parser.add_argument("path", help="a savepoint, a retained checkpoint (chk-N), or a folder of several")
    parser.add_argument("--sql", action="append", default=[], help="a query over the views that are listed")
    chosen = parser.parse_args(arguments)
    if not has_java():
        print(NO_JAVA, file=sys.stderr)
        return 1
    # Else Spark's workers use the first python3 of the PATH, which may lack PySpark and this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.errors import PySparkException

    spark = start_spark()
    # Errors are printed once, below, without the JVM's stack trace.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        show(spark, chosen.path, chosen.sql)
    except (SavepointError, PySparkException) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        spark.stop()
    return 0


def has_java() -> bool:
    """Return whether Spark will find Java."""
    home = os.environ.get("JAVA_HOME")
    return bool(home and (Path(home) / "bin" / "java").exists()) or shutil.which("java") is not None


def start_spark() -> SparkSession:
    """Start a local session that logs errors only."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").appName("pyspark_savepoint")
    builder = builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
    return builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()


def show(spark: SparkSession, path: str, queries: list[str]) -> None:
    """Print the states, the names of the views, and the results of the queries."""
    listing = spark.read.format("savepoint").load(path)
    if "operator_uid" not in listing.columns:
        listing.show(1000, truncate=False)
        return
    views = create_views(spark, path)
    listed = ("operator_uid", "operator_uid_hash", "table", "state", "kind", "key_type", "spark_value_type")
    listing.select(*listed).orderBy("operator_uid", "table", "state").show(1000, truncate=60)
    print("views: " + ", ".join(views) + "\n")
    for query in queries:
        print(query)
        spark.sql(query).show(50, truncate=60)


def create_views(spark: SparkSession, path: str) -> list[str]:
    """Create a temporary view for every table of every operator; return their names."""
    from pyspark_savepoint.statebackends.model.request import TableRequest
    from pyspark_savepoint.statebackends.open_table import open_table

    tables: dict[tuple[str, str], dict[str, str]] = {}
    for partition in open_table(TableRequest(path)).partitions(1):
        for batch in partition.batches():
            for row in batch.to_pylist():
                operator = row["operator_uid"] or row["operator_uid_hash"]
                if operator is None or row["table"] is None:
                    continue
                options = dict(row["options"])
                if row["table"] == "operator_state":
                    tables[operator, row["state"]] = options
                else:
                    options.pop("state", None)
                    tables[operator, row["table"]] = options
    views = {view_name(operator, table, tables): options for (operator, table), options in tables.items()}
    for name, options in views.items():
        spark.read.format("savepoint").options(**options).load(path).createOrReplaceTempView(name)
    return sorted(views)


def view_name(operator: str, table: str, tables: Iterable[tuple[str, str]]) -> str:
    """Return the operator's name for its main table, else operator and table, as a SQL name.

    >>> view_name("orders-per-minute", "timers", [("orders-per-minute", "timers")])
    'orders_per_minute_timers'
    """
    main = "keyed_state" if (operator, "keyed_state") in tables else "window_state"
    name = re.sub(r"\W+", "_", operator if table == main else f"{operator} {table}")
    return f"_{name}" if name[0].isdigit() else name


if __name__ == "__main__":
    sys.exit(main())
