"""Queries of ``ls --sql``: a temporary view for every table, in a session of Spark that ends with the command.

Views are ``accounts`` for the keyed state of uid ``accounts`` (or its windows, if it has only these),
``accounts_timers``, and ``currency_converter_rates`` for an operator state; characters that SQL names cannot contain
become ``_``.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from pyspark_savepoint.command_line.commands import Ls
from pyspark_savepoint.command_line.java_notes import without_java_notes
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.command_line.read_options import read_options
from pyspark_savepoint.command_line.reading import DONE, ls, table_of
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.statebackends.rows.json_values import kinds_of, row_to_json
from pyspark_savepoint.statebackends.rows.json_variants import json_of_variants
from pyspark_savepoint.text.texts import without_traces

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_SPARK = 'pip install "pyspark-savepoint[spark]"'
NO_JAVA = "apt-get install openjdk-17-jre-headless, brew install openjdk@17, or conda install openjdk=17; or JAVA_HOME"
MAX_ROWS = 50


def ls_with_queries(arguments: Ls, output: Output, leave: Callable[..., NoReturn] | None = None) -> int:
    """List the states, the names of the views, and the results of the queries; only these as JSON or CSV.

    ``leave`` ends this process when it is interrupted, once Spark starts.
    """
    if not all(query.strip() for query in arguments.sql):
        raise OptionError("--sql needs a query", remedy='such as --sql "SELECT * FROM accounts"')
    if output.is_text:
        ls(arguments, output)
    if not has_java():
        raise OptionError("--sql needs Java 17 or later, which was not found", remedy=NO_JAVA)
    # Else Spark's workers use the first python3 of the PATH, which may lack PySpark and this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        import pyspark.sql.datasource  # noqa: F401 (PySpark 3 has none)
        from pyspark.errors import PySparkException
    except ModuleNotFoundError:
        version = getattr(sys.modules.get("pyspark"), "__version__", "none")
        raise OptionError(
            "--sql needs PySpark 4", expected="4.0 or later", found=f"{version} is installed", remedy=NO_SPARK
        ) from None
    if leave is not None:
        signal.signal(signal.SIGINT, leave)
    try:
        with without_java_notes():
            spark = start_spark()
    except PySparkException as error:
        raise OptionError(
            "Spark did not start",
            found=without_traces(str(error)),
            remedy="Java, whose own words stand above, must be 17 or later; this machine's name needs an address",
        ) from None
    if leave is not None:
        signal.signal(signal.SIGINT, leave)  # again: Spark has set its own
    # Errors are printed once, without the JVM's stack trace.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        views = ", ".join(create_views(spark, arguments, output))
        for line in ("", f"views: {views}"):
            output.say(line)
        for query in arguments.sql:
            for line in ("", *query.splitlines()):
                output.say(line)
            table = json_of_variants(spark.sql(query).toArrow())
            kinds = kinds_of(table.schema, parsed=output.as_json)
            limit = MAX_ROWS if output.is_text else 0
            rows = (row_to_json(row, kinds) for row in table.to_pylist())
            output.table(table.schema.names, rows, True, limit, "--json or --csv shows all", lines=1)
    except PySparkException as error:
        raise OptionError(without_traces(str(error))) from None
    finally:
        spark.stop()
    return DONE


def has_java() -> bool:
    """Return whether Spark will find Java."""
    home = os.environ.get("JAVA_HOME")
    return bool(home and (Path(home) / "bin" / "java").exists()) or shutil.which("java") is not None


def start_spark() -> SparkSession:
    """Start a local session that logs errors only."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").appName("pyspark_savepoint")
    builder = builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    return builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()


def create_views(spark: SparkSession, arguments: Ls, output: Output) -> list[str]:
    """Create a temporary view for every table of every operator; return their names."""
    option_texts = to_options(read_options(arguments))
    tables: dict[tuple[str, str], dict[str, str]] = {}
    for row in table_of(arguments, output, table="states").rows():
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
        reader = spark.read.format("savepoint").options(**option_texts).options(**options)
        reader.load(absolute(arguments.path)).createOrReplaceTempView(name)
    return sorted(views)


def view_name(operator: str, table: str, tables: Iterable[tuple[str, str]]) -> str:
    """Return the operator's name for its main table, else operator and table, as a SQL name.

    >>> view_name("orders-per-minute", "timers", [("orders-per-minute", "timers")])
    'orders_per_minute_timers'
    """
    main = "keyed_state" if (operator, "keyed_state") in tables else "window_state"
    name = re.sub(r"\W+", "_", operator if table == main else f"{operator} {table}")
    return f"_{name}" if name[0].isdigit() else name
