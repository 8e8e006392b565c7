"""Table functions for SQL: ``SELECT * FROM savepoint_states('/savepoints/savepoint-2f1a3c')``.

=============================================  =======================================================================
``savepoint_states(path)``                     one row per state: its operator, its types, the options that read it
``savepoint_metadata(path)``                   one row per operator (FLIP-512)
``savepoint_snapshots(path)``                  one row per snapshot below a folder
``savepoint_statements(path)``                 the SQL statements that create a database of the snapshot, or drop it
``savepoint_state(path, uid)``                 the state of an operator, or another table of it
``savepoint_changes(path, uid, start[, end])``  the changes of a table from snapshot to snapshot below a folder
=============================================  =======================================================================

The last two take options of a read by name: ``savepoint_state('/checkpoints/7d2e', 'accounts', versionAsOf =>
'latest')``. Spark asks for their columns when it analyzes a query, and the query reads the snapshots that were there
then. A table function without a table as its input runs in one task, which passes rows in bounded memory one by one: it
refuses more than :data:`MAX_BYTES` of state, for which the data source has tasks.

``pyspark_savepoint.register(spark)`` registers them in a session, and the format too on platforms that do not find it.
They run on an executor, which needs the package as for every read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.types import ArrayType, DataType, MapType, StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from pyspark_savepoint.formats.errors import OptionError, SavepointError
from pyspark_savepoint.formats.snapshot.as_of import LATEST
from pyspark_savepoint.local.local_table import SnapshotTable
from pyspark_savepoint.options.option_values import feed_options, to_options
from pyspark_savepoint.options.options import DROP_CARRYOVERS, SavepointReadOptions
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
#: Bytes of state that a table function reads in its one task.
MAX_BYTES = 1 << 30
#: Options that read a few keys of large state.
OF_SOME_KEYS = frozenset({"keys", "keygroups"})


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
    for name, kind in OF_STATE.items():
        spark.udtf.register(name, cast("UserDefinedTableFunction", udtf(kind)))
    return [*FUNCTIONS, *OF_STATE]


def handler(table: str) -> type:
    """Return a handler class of a table function; Spark creates an object of it for each call."""

    class CatalogFunction:
        """Handler of one table about a snapshot."""

        def eval(self, path: str) -> Iterator[tuple[Any, ...]]:
            return rows_of(path, table)

    return CatalogFunction


def rows_of(path: str, table: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table about a snapshot as tuples."""
    from pyspark_savepoint.statebackends.model.request import TableRequest
    from pyspark_savepoint.statebackends.open_table import open_table

    try:
        for partition in open_table(TableRequest(path, table=table)).partitions(1):
            for batch in partition.batches():
                for row in batch.to_pylist(maps_as_pydicts="strict"):
                    yield tuple(row.values())
    except SavepointError as error:
        raise error.with_traceback(None) from None


@dataclass
class Analyzed(AnalyzeResult):
    """The columns of a call, and what it reads."""

    table: SnapshotTable | None = None


class OfState:
    """Handler of a table whose columns depend on the arguments."""

    def __init__(self, analyzed: Analyzed) -> None:
        assert analyzed.table is not None
        self.table = analyzed.table

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows as tuples, batch by batch."""
        batches: Iterator[Any] = self.table.batches()
        for batch in batches:
            for row in batch.to_pylist(maps_as_pydicts="strict"):
                yield tuple(row.values())


class StateFunction(OfState):
    """Handler of ``savepoint_state``."""

    @staticmethod
    def analyze(path: AnalyzeArgument, uid: AnalyzeArgument | None = None, **options: AnalyzeArgument) -> AnalyzeResult:
        """Return the columns of the table that the arguments choose."""
        return analyzed("savepoint_state", {"path": path, "uid": uid, **options}, {})

    def eval(self, path: str, uid: str | None = None, **options: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the rows."""
        yield from self.rows()


class ChangesFunction(OfState):
    """Handler of ``savepoint_changes``."""

    @staticmethod
    def analyze(
        path: AnalyzeArgument,
        uid: AnalyzeArgument,
        start: AnalyzeArgument,
        end: AnalyzeArgument | None = None,
        **options: AnalyzeArgument,
    ) -> AnalyzeResult:
        """Return the columns of the changes that the arguments choose."""
        name = "savepoint_changes"
        ends = constants(name, {"start": start, "end": end})
        modes = [option for option in options if option.casefold() == "deduplicationmode"]
        mode = constants(name, {option: options.pop(option) for option in modes})
        start_at, end_at = _end(ends.get("start", 0)), _end(ends.get("end", LATEST))
        feed = feed_options(start_at, end_at, str(next(iter(mode.values()), DROP_CARRYOVERS)))
        return analyzed(name, {"path": path, "uid": uid, **options}, feed)

    def eval(
        self, path: str, uid: str | None, start: Any, end: Any = None, **options: Any
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows."""
        yield from self.rows()


#: The table functions whose columns depend on their arguments.
OF_STATE = {"savepoint_state": StateFunction, "savepoint_changes": ChangesFunction}


def _end(given: Any) -> int | str | datetime:
    return given if isinstance(given, int | datetime) else str(given)


def constants(name: str, arguments: Mapping[str, AnalyzeArgument | None]) -> dict[str, Any]:
    """Return the values of arguments that are given; raise OptionError for one that only a row would tell."""
    found = {}
    for argument, given in arguments.items():
        if given is None:
            continue
        if given.isTable or not given.isConstantExpression:
            raise OptionError(
                f"argument {argument!r} of {name}() is not constant: it decides which columns there are",
                remedy="give a text or a number; for another path in each row use the data source",
            )
        if given.value is not None:
            found[argument] = given.value
    return found


def analyzed(name: str, arguments: Mapping[str, AnalyzeArgument | None], feed: Mapping[str, Any]) -> Analyzed:
    """Open the table of a call, without reading its state."""
    try:
        texts = to_options({**constants(name, arguments), **feed})
        table = SnapshotTable.of(SavepointReadOptions.parse(texts))
        _refuse_large(name, table, texts)
        schema = spark_schema(table.schema)
        if _has_variant(schema):
            raise OptionError(
                f"{name}() cannot return a VARIANT",
                remedy="CREATE TEMPORARY VIEW ... USING savepoint OPTIONS (path '...', uid '...')",
            )
        return Analyzed(schema=schema, table=table)
    except SavepointError as error:
        raise error.with_traceback(None) from None


def _refuse_large(name: str, table: SnapshotTable, texts: Mapping[str, str]) -> None:
    """Raise OptionError for more state than one task should read."""
    if OF_SOME_KEYS & {option.casefold() for option in texts} or table.state_bytes <= MAX_BYTES:
        return
    raise OptionError(
        f"{name}() runs in one task, and this is more state than it reads",
        path=table.options.path,
        expected=f"at most {MAX_BYTES} bytes",
        found=f"{table.state_bytes} bytes",
        remedy="CREATE TEMPORARY VIEW ... USING savepoint OPTIONS (path '...', uid '...') reads it in many tasks; or "
        "name some keys: keys => '[1042, 1043]'",
    )


def _has_variant(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_variant(field.dataType) for field in kind)
    if isinstance(kind, ArrayType):
        return _has_variant(kind.elementType)
    if isinstance(kind, MapType):
        return _has_variant(kind.keyType) or _has_variant(kind.valueType)
    return kind.typeName() == "variant"
