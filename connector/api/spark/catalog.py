"""Snapshots in SQL: table functions, and databases in Spark's catalog.

``SELECT * FROM savepoint_states('/savepoints/savepoint-2f1a3c')``, and the other functions:

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
then. A table function without a table as its input runs in one task, in bounded memory: it refuses more than
:data:`MAX_BYTES` of state, for which the data source has tasks. The task passes record batches, and before PySpark 4.1
rows one by one.

``pyspark_savepoint.register(spark)`` registers them in a session, and the format too on platforms that do not find it.
They run on an executor, which needs the package as for every read.

Databases are created and dropped by SQL statements that run one by one. This works on classic sessions and on Connect,
as only ``spark.sql`` and ``spark.catalog`` are used. A namespace belongs to one snapshot, recorded in its comment:
namespaces of other snapshots are neither used nor dropped. In a folder, each snapshot has one namespace. The newest has
another, ``latest``: each query looks up which one it is.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack, cast

from pyspark.sql.types import ArrayType, DataType, MapType, StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult
from pyspark.util import PythonEvalType

from pyspark_savepoint.api.summaries import expect_last
from pyspark_savepoint.engines.arrow.local_table import SnapshotTable
from pyspark_savepoint.engines.spark.output import warn
from pyspark_savepoint.formats.errors import OptionError, SavepointError, StateExistsError
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.formats.snapshot.as_of import LATEST, readable_snapshots
from pyspark_savepoint.options.option_values import feed_options, to_options
from pyspark_savepoint.options.options import DROP_CARRYOVERS, SavepointReadOptions
from pyspark_savepoint.options.paths import located, reached, snapshot_path
from pyspark_savepoint.options.schema import spark_schema
from pyspark_savepoint.options.worker_python import check_worker_python, expect_session
from pyspark_savepoint.statebackends.catalog.statements import (
    MARK,
    SOURCE_SUFFIX,
    Names,
    create_statements,
    in_one_namespace,
    name_tables,
    quoted,
)
from pyspark_savepoint.text.doors import in_words, of_sql

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.udtf import UserDefinedTableFunction

    from pyspark_savepoint.options.keywords import OpenOptions

FUNCTIONS = {
    "savepoint_states": "states",
    "savepoint_metadata": "metadata",
    "savepoint_snapshots": "snapshots",
    "savepoint_statements": "statements",
}
#: Bytes of state that a table function reads in its one task.
MAX_BYTES = 1 << 30
#: From PySpark 4.1 on a table function may return record batches. ``arrow_udtf`` asks for columns that are known before
#: (SPARK-53286); the evaluation itself also takes those that ``analyze`` returns.
TAKES_BATCHES = hasattr(PythonEvalType, "SQL_ARROW_UDTF")
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

    from pyspark_savepoint.engines.spark.datasource import SavepointDataSource
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
        of_state = cast("UserDefinedTableFunction", udtf(kind))
        if TAKES_BATCHES:
            of_state.evalType = PythonEvalType.SQL_ARROW_UDTF
        spark.udtf.register(name, of_state)
    return [*FUNCTIONS, *OF_STATE]


def handler(table: str) -> type:
    """Return a handler class of a table function. Spark creates an object of it for each call."""

    class CatalogFunction:
        """Handler of one table about a snapshot."""

        def eval(self, path: str) -> Iterator[tuple[Any, ...]]:
            return rows_of(path, table)

    return CatalogFunction


def rows_of(path: str, table: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table about a snapshot as tuples."""
    from pyspark_savepoint.statebackends.open_table import open_table
    from pyspark_savepoint.statebackends.requests.request import TableRequest

    with in_words_of_sql():
        for partition in open_table(TableRequest(snapshot_path(path), table=table)).partitions(1):
            for batch in partition.batches():
                yield from as_tuples(batch)


def as_tuples(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a batch."""
    for row in batch.to_pylist(maps_as_pydicts="strict"):
        yield tuple(row.values())


@dataclass
class Analyzed(AnalyzeResult):
    """The columns of a call, and what it reads."""

    table: SnapshotTable | None = None


class OfState:
    """Handler of a table whose columns depend on the arguments."""

    def __init__(self, analyzed: Analyzed) -> None:
        assert analyzed.table is not None
        self.table = analyzed.table

    def results(self) -> Iterator[Any]:
        """Yield record batches where Spark takes them, else their rows as tuples."""
        batches: Iterator[Any] = self.table.batches()
        for batch in batches:
            if TAKES_BATCHES:
                yield batch
            else:
                yield from as_tuples(batch)


class StateFunction(OfState):
    """Handler of ``savepoint_state``."""

    @staticmethod
    def analyze(path: AnalyzeArgument, uid: AnalyzeArgument | None = None, **options: AnalyzeArgument) -> AnalyzeResult:
        """Return the columns of the table that the arguments choose."""
        return analyzed("savepoint_state", {"path": path, "uid": uid, **options}, {})

    def eval(self, path: str, uid: str | None = None, **options: Any) -> Iterator[Any]:
        """Yield the rows, as :meth:`results` does."""
        yield from self.results()


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
        with in_words_of_sql():
            ends = constants(name, {"start": start, "end": end})
            _expect(name, ends, "start", "the version before the changes, such as 3")
            modes = [option for option in options if option.casefold() == "deduplicationmode"]
            mode = constants(name, {option: options.pop(option) for option in modes})
            start_at, end_at = _end(ends["start"]), _end(ends.get("end", LATEST))
            feed = feed_options(start_at, end_at, str(next(iter(mode.values()), DROP_CARRYOVERS)))
        return analyzed(name, {"path": path, "uid": uid, **options}, feed)

    def eval(self, path: str, uid: str | None, start: Any, end: Any = None, **options: Any) -> Iterator[Any]:
        """Yield the rows, as :meth:`results` does."""
        yield from self.results()


#: The table functions whose columns depend on their arguments.
OF_STATE = {"savepoint_state": StateFunction, "savepoint_changes": ChangesFunction}


def _end(end: Any) -> int | str | datetime:
    return end if isinstance(end, int | datetime) else str(end)


def constants(name: str, arguments: Mapping[str, AnalyzeArgument | None]) -> dict[str, Any]:
    """Return the values of the given arguments. Raise OptionError unless each is a constant."""
    values = {}
    for argument, expression in arguments.items():
        if expression is None:
            continue
        if expression.isTable or not expression.isConstantExpression:
            raise OptionError(
                f"argument {argument!r} of {name}() is not constant: it decides which columns there are",
                remedy="give a text or a number; for another path in each row use the data source",
            )
        if expression.value is not None:
            values[argument] = expression.value
    return values


def analyzed(name: str, arguments: Mapping[str, AnalyzeArgument | None], feed: Mapping[str, Any]) -> Analyzed:
    """Open the table of a call, without reading its state."""
    with in_words_of_sql():
        values = constants(name, arguments)
        _expect(name, values, "path", "a text, such as '/savepoints/savepoint-2f1a3c'")
        texts = to_options({**values, **feed})
        table = SnapshotTable.of(SavepointReadOptions.parse(texts))
        _refuse_large(name, table, texts)
        schema = spark_schema(table.schema)
        if _has_variant(schema):
            raise OptionError(
                f"{name}() cannot return a VARIANT",
                remedy="leave option 'variants' out: it returns JSON as text; or CREATE TEMPORARY VIEW ... USING "
                "savepoint OPTIONS (path '...', uid '...')",
            )
        warn(iter(table.warnings))
        return Analyzed(schema=schema, table=table)


@contextmanager
def in_words_of_sql() -> Iterator[None]:
    """Raise errors of this package in the words of SQL, without the frames that they came through."""
    try:
        with in_words(of_sql):
            yield
    except SavepointError as error:
        raise error.with_traceback(None) from None


def _expect(name: str, arguments: Mapping[str, Any], argument: str, what: str) -> None:
    """Raise OptionError for an argument that is NULL."""
    if argument not in arguments:
        raise OptionError(f"argument {argument!r} of {name}() is NULL", expected=what)


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


def create_tables(
    spark: SparkSession,
    folder: str | PathLike[str],
    *,
    last: int | None = None,
    prefix: str | None = None,
    **options: Unpack[OpenOptions],
) -> list[str]:
    """Create a namespace for each snapshot below a folder, and views for its tables, in Spark's catalog.

    ``chk_42.accounts_keyed_state``, ``chk_42.states``, ``latest.accounts_keyed_state`` and so on. The views of
    ``latest`` read the newest snapshot that is there when a query runs, all others the one that they are named after:
    their comments say which. The columns are those of now. Namespaces that were created from the folder before are
    dropped, also those of snapshots that are gone.

    Args:
        spark: The session, classic or Connect.
        folder: A folder of savepoints or retained checkpoints, such as that of a job's checkpoints.
        last: The number of newest snapshots. All by default.
        prefix: Letters, digits and ``_`` that precede the names of namespaces.
        **options: Options of the data source, which apply to all tables.

    Returns:
        The names of the views, as SQL takes them.

    Raises:
        SnapshotNotFoundError: If no snapshot below the folder can be read.
        StateExistsError: If a namespace exists that was not created from this folder.
        OptionError: If ``last`` is below 1, or the prefix has other characters.

    Example::

        pyspark_savepoint.create_tables(spark, "/checkpoints/7d2e", last=3)
        spark.sql("SELECT * FROM latest.accounts_keyed_state")

    """
    expect_session(spark, "pyspark_savepoint.create_tables(spark, folder)")
    check_worker_python(spark)
    expect_last(last)
    _expect_prefix(prefix)
    texts, path = to_options(options), located(spark, folder)
    paths = [one.path for one in readable_snapshots(reached(path, texts))][-(last or 0) :]
    names, statements = Names(), list[str]()
    below = f" in {path}"
    catalogs = []
    for location, at in [*((one, posixpath.basename(one)) for one in paths), (path, LATEST)]:
        follows = at == LATEST
        name = names.take(f"{prefix}_{at}" if prefix else at)
        states = SnapshotTable.of(
            SavepointReadOptions.parse({**texts, "path": paths[-1] if follows else location, "table": "states"})
        )
        mark = f"{MARK}{'the newest snapshot' if follows else location}{below}"
        table_options = {**texts, "asOf": LATEST} if follows else texts
        catalogs.append((in_one_namespace(name_tables(states.rows()), name), location, table_options, mark))
    _refuse_others(spark, {tables[0].namespace: mark for tables, _, _, mark in catalogs}, path)
    _drop(spark, lambda comment: comment.startswith(MARK) and comment.endswith(below))
    for tables, location, table_options, mark in catalogs:
        for _, statement in create_statements(tables, location, table_options, mark):
            spark.sql(statement)
        statements += [table.sql for table in tables]
    return statements


def drop_tables(spark: SparkSession, folder: str | PathLike[str]) -> list[str]:
    """Drop the views and namespaces that :func:`pyspark_savepoint.create_tables` created from a folder.

    Args:
        spark: The session, classic or Connect.
        folder: The folder.

    Returns:
        The names of the namespaces that were dropped. One that contains other tables remains.

    Example::

        pyspark_savepoint.drop_tables(spark, "/checkpoints/7d2e")

    """
    expect_session(spark, "pyspark_savepoint.drop_tables(spark, folder)")
    below = f" in {located(spark, folder)}"
    return _drop(spark, lambda comment: comment.startswith(MARK) and comment.endswith(below))


def create_tables_of_snapshot(
    spark: SparkSession, states: DataFrame, path: str, options: Mapping[str, str], prefix: str | None
) -> list[str]:
    """Create namespaces and views for the tables that ``states`` lists, and return the views' names as SQL takes them.

    Those created from the same snapshot before are replaced. Raises StateExistsError if a namespace exists that was not
    created from this snapshot.
    """
    _expect_prefix(prefix)
    path = absolute(path)
    tables = name_tables([row.asDict() for row in states.collect()], prefix)
    mine = {table.namespace: MARK + path for table in tables}
    _refuse_others(spark, mine, path)
    _drop(spark, lambda comment: comment == MARK + path, {name.lower() for name in mine})
    for _, statement in create_statements(tables, path, options):
        spark.sql(statement)
    return [table.sql for table in tables]


def drop_tables_of_snapshot(spark: SparkSession, path: str) -> list[str]:
    """Drop the views and namespaces that were created from a snapshot, and return the names of those namespaces."""
    mark = MARK + absolute(path)
    return _drop(spark, lambda comment: comment == mark)


def _expect_prefix(prefix: Any) -> None:
    if prefix is not None and not prefix.replace("_", "a").isalnum():
        raise OptionError("a prefix may contain letters, digits and _ only", found=prefix)


def _namespaces(spark: SparkSession) -> dict[str, str]:
    """Return the comments of the namespaces of the current catalog, by name in lower case."""
    return {database.name.strip("`").lower(): database.description or "" for database in spark.catalog.listDatabases()}


def _refuse_others(spark: SparkSession, tables: Mapping[str, str], path: str) -> None:
    """Raise StateExistsError if a namespace exists whose comment is another one than wanted."""
    namespaces = _namespaces(spark)
    others = [name for name, mark in tables.items() if namespaces.get(name.lower(), mark) != mark]
    if others:
        raise StateExistsError(
            "namespaces with these names exist already and belong to something else",
            path=path,
            found=", ".join(f"{name} ({namespaces[name.lower()] or 'without a comment'})" for name in others),
            remedy="give a prefix, such as create_tables(prefix='shop'); if they belong to another snapshot, call "
            "its drop_tables() first",
        )


def _drop(spark: SparkSession, is_mine: Callable[[str], bool], requested: Collection[str] | None = None) -> list[str]:
    """Drop views and namespaces with some comments and names, and return the names of the dropped namespaces.

    A namespace that contains other tables remains, with these tables.
    """
    result = []
    for name, comment in _namespaces(spark).items():
        if not is_mine(comment) or (requested is not None and name not in requested):
            continue
        tables = [table for table in spark.catalog.listTables(quoted(name)) if not table.isTemporary]
        views = {table.name for table in tables if table.tableType == "VIEW" and table.description == comment}
        sources = {table.name for table in tables if table.name.endswith(SOURCE_SUFFIX) and table.name not in views}
        for kind, names in (("VIEW", views), ("TABLE", sources)):
            for table in sorted(names):
                spark.sql(f"DROP {kind} IF EXISTS {quoted(name)}.{quoted(table)}")
        if len(views) + len(sources) == len(tables):
            spark.sql(f"DROP SCHEMA IF EXISTS {quoted(name)}")
            result.append(name)
    return result
