"""Table functions for SQL: ``SELECT * FROM savepoint_states('/savepoints/savepoint-2f1a3c')``.

==============================  ======================================================================================
``savepoint_states(path)``      one row per state: its operator, its types, and the options that read it
``savepoint_metadata(path)``    one row per operator (FLIP-512)
``savepoint_snapshots(path)``   one row per snapshot below a folder
``savepoint_statements(path)``  the SQL statements that create a database of the snapshot, and those that drop it
==============================  ======================================================================================

``pyspark_savepoint.register(spark)`` registers them in a session, and the format too on platforms that do not find it.
They run on an executor, which needs the package as for every read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from pyspark_savepoint.options.schema import spark_schema
from pyspark_savepoint.options.worker_python import check_worker_python, expect_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.udtf import UserDefinedTableFunction

FUNCTIONS = {
    "savepoint_states": "states",
    "savepoint_metadata": "metadata",
    "savepoint_snapshots": "snapshots",
    "savepoint_statements": "statements",
}


def register(spark: SparkSession) -> list[str]:
    """Register the data source and the table functions in a session.

    The data source needs this only on platforms that do not find it by themselves.

    Args:
        spark: The session, classic or Connect.

    Returns:
        The names of the table functions.

    Example::

        pyspark_savepoint.register(spark)
        spark.sql("SELECT * FROM savepoint_states('/savepoints/savepoint-2f1a3c')").show()

    """
    from pyspark.errors import AnalysisException
    from pyspark.sql.functions import udtf

    from pyspark_savepoint.source.datasource import SavepointDataSource
    from pyspark_savepoint.statebackends.catalog.table import SCHEMAS

    expect_session(spark, "pyspark_savepoint.register(spark)")
    check_worker_python(spark)
    try:
        spark.dataSource.register(SavepointDataSource)
    except AnalysisException as error:
        # Spark 4.0 has found the format already, and refuses a second one of that name.
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise
    for name, table in FUNCTIONS.items():
        function = udtf(handler(table), returnType=spark_schema(SCHEMAS[table]))
        spark.udtf.register(name, cast("UserDefinedTableFunction", function))
    return list(FUNCTIONS)


def handler(table: str) -> type:
    """Return a handler class of a table function; Spark creates an object of it for each call."""

    class CatalogFunction:
        """Handler of one table about a snapshot."""

        def eval(self, path: str) -> Iterator[tuple[Any, ...]]:
            return rows_of(path, table)

    return CatalogFunction


def rows_of(path: str, table: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table about a snapshot as tuples."""
    from pyspark_savepoint.formats.errors import SavepointError
    from pyspark_savepoint.statebackends.model.request import TableRequest
    from pyspark_savepoint.statebackends.open_table import open_table

    try:
        for partition in open_table(TableRequest(path, table=table)).partitions(1):
            for batch in partition.batches():
                for row in batch.to_pylist(maps_as_pydicts="strict"):
                    yield tuple(row.values())
    except SavepointError as error:
        raise error.with_traceback(None) from None
