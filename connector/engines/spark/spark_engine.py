"""Spark's engine: tables are DataFrames, parts of a table are tasks, and rows are distributed by Spark's shuffle.

Large untouched files are copied by tasks, so that a large savepoint does not pass through the driver.

Spark cuts the Arrow batches of a write by their number of rows, where rows cannot be large. From Spark 4.1 on a batch
for Python also ends at ``spark.sql.execution.arrow.maxBytesPerBatch``, for which Spark measures the batch after every
row: 0.4 µs a row, more than all else that it does with a row of a few numbers.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, reduce
from math import isfinite
from os import PathLike
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark import TaskContext, inheritable_thread_target
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_savepoint.engines.spark.datasource import SavepointDataSource
from pyspark_savepoint.engines.spark.distribution import (
    KEY_GROUP,
    by_described_key,
    by_key_group,
    cores,
    layout_of,
    mapped_in_arrow,
    quoted,
    with_hashed_key_groups,
    with_key_groups,
    with_layout,
)
from pyspark_savepoint.engines.spark.session_plans import PLAN, SessionPlans, sealed
from pyspark_savepoint.formats.errors import OptionError, SavepointError, StorageError, type_name
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.paths import located
from pyspark_savepoint.options.pickled_serializers import texts_in
from pyspark_savepoint.options.schema import arrow_schema, spark_schema, struct_type, table_schema
from pyspark_savepoint.options.worker_python import explaining_worker_python
from pyspark_savepoint.plan.engine import CHECKPOINT_ID, HASHED, SNAPSHOT
from pyspark_savepoint.statebackends.rows.descriptors import STATE_WINDOW, WINDOW_COLUMN
from pyspark_savepoint.text.conditions import with_expression
from pyspark_savepoint.text.texts import without_traces
from pyspark_savepoint.write.copying import copy_files, held

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from pyspark_savepoint.formats.snapshot.publication import Staging
    from pyspark_savepoint.formats.snapshot.relocation import FileCopy
    from pyspark_savepoint.plan.engine import Cell, PartTask, Pieces, ReadOptions, SessionLookup
    from pyspark_savepoint.statebackends.requests.request import BatchFunction
    from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor
    from pyspark_savepoint.statebackends.writing.planning.planned_write import Distribution, PartOfWrite

A = TypeVar("A")
B = TypeVar("B")
NUMBER, RESULT = "number", "result"
SESSION_KEY, SESSION, GIVEN = "__session_key", "__session", "__given"
#: Tasks for each that runs at a time, so that long pieces do not end last.
WAVES = 4
#: Operators that are written at a time.
WRITERS = 4
#: What fails in a task is none of Spark's own exceptions in a session of this process. Connect's client has no Py4J.
SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException,)
with suppress(ModuleNotFoundError):
    from py4j.protocol import Py4JError

    SPARK_ERRORS = (PySparkException, Py4JError)
#: What an error of Spark's state stores has: its name, or the exception of a file that is read later.
STATE_STORE = re.compile(r"CANNOT_LOAD_STATE_STORE|org\.rocksdb\.RocksDBException")


@contextmanager
def readable_state() -> Iterator[None]:
    """Raise StorageError if Spark cannot read the files of a streaming query's state, of which rows are made."""
    try:
        yield
    except SPARK_ERRORS as error:
        if not STATE_STORE.search(text := str(error)):
            raise
        cause = text.rpartition("\nCaused by: ")[2].partition("\n")[0] if "\nCaused by: " in text else ""
        raise StorageError(
            "Spark cannot read a file of the streaming query's state",
            found=first_line(error) + (cause and f" Cause: {cause}"),
            remedy="it is damaged, gone, or must not be read by this session: restore it from a copy, "
            "or take a batch before it (batch_id=...)",
        ) from error


def first_line(error: Exception) -> str:
    """Return the first line of an error that says what happened: Py4J says before it which call failed."""
    first, _, others = str(error).strip().partition("\n")
    return others.partition("\n")[0].lstrip(": ") if first.startswith("An error occurred while calling") else first


@dataclass(frozen=True)
class SparkRows:
    """A DataFrame as the rows of a plan (``plan.engine.Rows``)."""

    frame: DataFrame

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the batches that functions and writers get."""
        return table_schema(self.frame.schema)

    @property
    def laid_out(self) -> bool:
        """Whether ``key_by`` distributed the rows."""
        return layout_of(self.frame.schema) is not None

    def select(self, *names: str) -> SparkRows:
        """Return some columns."""
        return SparkRows(self.frame.select(*map(quoted, names)))

    def renamed(self, names: Mapping[str, str]) -> SparkRows:
        """Return the rows with new names of columns."""
        return SparkRows(self.frame.withColumnsRenamed(dict(names)))

    def mapped(self, function: BatchFunction, schema: pa.Schema) -> SparkRows:
        """Return what a function makes of the batches of each partition."""
        return SparkRows(mapped_in_arrow(self.frame, function, spark_schema(schema)))

    def union(self, other: SparkRows) -> SparkRows:
        """Return the rows of both."""
        return SparkRows(self.frame.unionByName(other.frame))

    def without(self, keys: SparkRows, column: str) -> SparkRows:
        """Return the rows whose value of a column is not in another table."""
        return SparkRows(self.frame.join(keys.frame, column, "left_anti"))

    def joined(self, other: SparkRows, column: str) -> SparkRows:
        """Return the rows with the columns of another table, NULL where it has no such value."""
        return SparkRows(self.frame.join(other.frame, column, "left"))

    def held(self) -> SparkRows:
        """Return the same rows: Spark decides what it reads again."""
        return self

    def collected(self) -> list[dict[str, Any]]:
        """Return all rows as dictionaries, with the values that rows of Arrow have: moments have their zone."""
        rows: list[dict[str, Any]] = self.frame.toArrow().to_pylist()
        return rows

    def first(self) -> dict[str, Any] | None:
        """Return one of the rows as a dictionary, or None if there is none."""
        rows = self.frame.limit(1).collect()
        return rows[0].asDict(recursive=True) if rows else None


@dataclass(frozen=True)
class PieceTask:
    """Task of ``mapInArrow``: its input rows are the numbers of pieces, its output rows their results."""

    work: Pieces

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the results of some pieces."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pydict({NUMBER: [number], RESULT: [self.work.run(number)]})


@dataclass(frozen=True)
class NumberedPart:
    """Task of ``mapInArrow`` that does some work on its partition, with the number of the partition."""

    task: PartTask

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the work makes of the rows."""
        context = TaskContext.get()
        yield from self.task.run(context.partitionId() if context is not None else 0, batches)


def _packed(names: Sequence[str], is_struct: bool) -> Column:
    """Return a column, or several as a struct."""
    columns = [F.col(quoted(name)) for name in names]
    return F.struct(*columns) if is_struct else columns[0]


#: Functions of Spark's columns that conditions have in words.
_SIGNS = {
    "=": "=",
    "==": "=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
    "!=": "<>",
    "<>": "<>",
}
_JOINS = {"and": "AND", "or": "OR"}
_TESTS = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}


def _words(node: Any) -> str | None:
    """Return an expression of Spark in the words of ``--where``, or None if these do not have it.

    A node is one of the JVM's (``org.apache.spark.sql.internal.ColumnNode``) or of Spark Connect's client.
    """
    remote = not hasattr(node, "getClass")
    kind = type(node).__name__ if remote else node.getClass().getSimpleName()
    if kind in ("UnresolvedAttribute", "ColumnReference"):
        if remote:
            return str(node._unparsed_identifier)  # no public name
        parts = node.nameParts()
        return ".".join(quoted(parts.apply(number)) for number in range(parts.size()))
    if kind in ("Literal", "LiteralExpression"):
        # The client has times as numbers.
        data_type = node._dataType if remote else None  # no public name
        timed = remote and not isinstance(data_type, BinaryType | BooleanType | NumericType | StringType)
        return None if timed else _literal(node._value if remote else node.value())  # no public name
    if kind in ("SqlExpression", "SQLExpression"):
        return f"({node._expr if remote else node.expression()})"  # no public name
    if kind == "UnresolvedExtractValue":
        child, name = (node._child, node._extraction) if remote else (node.child(), node.extraction())  # no public name
        parent, field = _words(child), _words(name)
        if parent is None or field is None or not field.startswith("'"):
            return None
        return f"{parent}.{quoted(field[1:-1].replace(chr(39) * 2, chr(39)))}"
    if kind != "UnresolvedFunction":
        return None
    name = _function(node)
    arguments = _arguments(node)
    if name in _JOINS:
        arguments = _joined(node, name)
    words = [_words(one) for one in arguments]
    texts = [one for one in words if one is not None]
    if len(texts) < len(words):
        return None
    if name in _JOINS:
        return "(" + f" {_JOINS[name]} ".join(texts) + ")"
    if name in _SIGNS and len(texts) == 2:
        return f"({texts[0]} {_SIGNS[name]} {texts[1]})"
    if name in ("!", "not") and len(texts) == 1:
        return f"(NOT {texts[0]})"
    if name in _TESTS and len(texts) == 1:
        return f"({texts[0]} {_TESTS[name]})"
    if name == "like" and len(texts) == 2:
        return f"({texts[0]} LIKE {texts[1]})"
    if name == "in" and len(texts) > 1:
        return f"({texts[0]} IN ({', '.join(texts[1:])}))"
    return None


def _function(node: Any) -> str | None:
    """Return the name of the function that a node calls, or None if it is no call."""
    if hasattr(node, "getClass"):
        is_call = node.getClass().getSimpleName() == "UnresolvedFunction"
        return str(node.functionName()).lower() if is_call else None
    is_call = type(node).__name__ == "UnresolvedFunction"
    return str(node._name).lower() if is_call else None  # no public name


def _arguments(node: Any) -> list[Any]:
    """Return the arguments of a call."""
    if hasattr(node, "getClass"):
        return [node.arguments().apply(number) for number in range(node.arguments().size())]
    return list(node._args)  # no public name


def _joined(node: Any, name: str) -> list[Any]:
    """Return the parts of ``a & b & c``, which is ``(a & b) & c``: any number, in their order."""
    parts = []
    while _function(node) == name:
        node, *rest = _arguments(node)
        parts += reversed(rest)
    return [node, *reversed(parts)]


def _literal(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes | bytearray):
        return f"X'{value.hex()}'"
    if isinstance(value, int | Decimal):
        return format(value, "f") if isinstance(value, Decimal) else str(value)
    if isinstance(value, float) and isfinite(value):
        return repr(value) if "e" in repr(value) or "." in repr(value) else None
    return None


@dataclass(frozen=True)
class SparkEngine:
    """The engine of a session (``plan.engine.Engine``)."""

    spark: SparkSession
    rows_are: str = "a DataFrame of Spark"
    make_rows: str = "spark.createDataFrame(...), or a table of the savepoint: sp.keyed_state(uid)"

    def rows(self, source: object) -> SparkRows | None:
        """Return a DataFrame as rows, and rows as they are. None for anything else."""
        if isinstance(source, SparkRows):
            return source
        return SparkRows(source) if isinstance(source, DataFrame) else None

    def of_arrow(self, table: pa.Table) -> SparkRows:
        """Return the rows of a small Arrow table."""
        columns = [column.to_pylist() for column in table.columns]
        rows = list(zip(*columns, strict=True))
        return SparkRows(self.spark.createDataFrame(rows, spark_schema(table.schema)))

    def with_column(self, rows: SparkRows, name: str, expression: object) -> SparkRows | None:
        """Return a few rows with the value of a column, or of an expression of Arrow. None for anything else."""
        if isinstance(expression, Column):
            return SparkRows(rows.frame.withColumn(name, expression))
        table = with_expression(rows.frame.toArrow(), name, expression)
        return None if table is None else self.of_arrow(table)

    def in_order(self, rows: SparkRows, name: str) -> SparkRows:
        """Return rows with numbers that increase from partition to partition, which sorted DataFrames have in order."""
        return SparkRows(rows.frame.withColumn(name, F.monotonically_increasing_id()))

    def worded(self, condition: object) -> object:
        """Return a column in the words of ``--where``. One that these do not have, and all else, as it is."""
        if not isinstance(condition, Column):
            return condition
        own = condition.__dict__  # as attributes, columns have the fields of their values
        words = _words(own["_jc"].node() if "_jc" in own else own["_expr"])
        return condition if words is None else words

    def read(self, options: ReadOptions) -> SparkRows:
        """Return the table that options select."""
        return SparkRows(self.table(options))

    def table(self, options: ReadOptions) -> DataFrame:
        """Return the table that options select."""
        if isinstance(options, SavepointReadOptions):
            source, secret = planned_format(self.spark)
            return self.spark.read.format(source).option(PLAN, sealed(options, secret)).load()
        return self.spark.read.format(format_of(self.spark, options)).options(**options).load()

    def opened(self, options: Mapping[str, str]) -> DataFrame:
        """Return the table that options select."""
        return self.table(options)

    def where(self, table: DataFrame, column: str, value: str) -> DataFrame:
        """Return the rows whose column has a value."""
        return table.where(F.col(column) == value)

    def joined(self, parts: Sequence[tuple[int, str, DataFrame]]) -> DataFrame:
        """Return the union by name of tables of several snapshots."""
        frames = []
        for number, path, table in parts:
            own = F.lit(number).cast("bigint").alias(CHECKPOINT_ID), F.lit(path).alias(SNAPSHOT)
            # Table "metadata" has the checkpoint id, too.
            frames.append(table.drop(CHECKPOINT_ID, SNAPSHOT).select(*own, "*"))
        return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)

    def shown(self, table: pa.Table) -> DataFrame:
        """Return a small Arrow table as a DataFrame. Connect takes none without rows, unless it gets their schema."""
        if not len(table):
            return self.spark.createDataFrame([], spark_schema(table.schema))
        return self.spark.createDataFrame(table)

    def listed(self, rows: Callable[[], Iterator[dict[str, Any]]], schema: pa.Schema) -> DataFrame:
        """Return rows that this process reads as a DataFrame."""
        return self.shown(pa.Table.from_pylist(list(rows()), schema))

    def as_table(self, rows: SparkRows) -> DataFrame:
        """Return rows as users get tables."""
        return rows.frame

    def schema(self, table: DataFrame) -> pa.Schema:
        """Return the columns of a DataFrame, with their comments as metadata."""
        return table_schema(table.schema)

    def gathered(self, table: Callable[[], DataFrame | SparkRows]) -> pa.Table:
        """Return all rows of a small table, or raise an error of Spark as SavepointError."""
        try:
            rows = table()
            return (rows.frame if isinstance(rows, SparkRows) else rows).toArrow()
        except PySparkException as error:
            raise SavepointError(without_traces(str(error))) from None

    def at_most(self, rows: SparkRows, count: int) -> tuple[pa.Table | None, SparkRows]:
        """Return rows in memory if they are few; at least one more tells that they are not."""
        table = self.gathered(lambda: rows.frame.limit(count + 1))
        return (table if len(table) <= count else None), rows

    def summed(self, table: DataFrame, function: BatchFunction, schema: pa.Schema) -> DataFrame:
        """Return what a function makes of all batches in one task."""
        return mapped_in_arrow(table.repartition(1), function, spark_schema(schema))

    def function_schema(self, columns: Any) -> pa.Schema:
        """Return the columns of a StructType, or of its text."""
        return arrow_schema(struct_type(columns))

    def numbered(self, function: BatchFunction, count: int, columns: Any) -> DataFrame:
        """Return what tasks yield that each get a number. NOT NULL in the schema stays."""
        schema, mapped = struct_type(columns), cast("Any", function)
        if not count:
            return self.spark.createDataFrame([], schema)
        return self.spark.range(0, count, 1, count).mapInArrow(mapped, schema)

    def with_state_windows(self, rows: SparkRows, lookup: SessionLookup) -> SparkRows:
        """Return rows of sessions with their state windows."""
        return SparkRows(joined_state_windows(rows.frame, self.read(lookup.options).frame, lookup))

    def sessions(self, rows: SparkRows, keys: Sequence[str], name: str, *, is_map: bool) -> SparkRows:
        """Return the sessions of each key."""
        under = STATE_WINDOW if STATE_WINDOW in rows.schema.names else WINDOW_COLUMN
        pair = F.struct(F.col(WINDOW_COLUMN).alias("f0"), F.col(under).alias("f1"))
        pairs = F.sort_array(F.collect_set(pair))
        complete_rows = rows.frame.where(F.col(WINDOW_COLUMN).isNotNull() & F.col(under).isNotNull())
        column = F.map_from_entries(pairs) if is_map else pairs
        return SparkRows(complete_rows.groupBy(*map(quoted, keys)).agg(column.alias(name)))

    def located(self, path: str | PathLike[str]) -> str:
        """Return the absolute form of a user's path."""
        return located(self.spark, path)

    def by_key(self, rows: SparkRows, descriptor: KeyedDescriptor, limit: int, parallelism: int | None) -> SparkRows:
        """Distribute rows by their key."""
        return SparkRows(by_described_key(rows.frame, descriptor, limit, parallelism))

    def by_key_group(self, rows: SparkRows, column: str, key: str, limit: int, parallelism: int | None) -> SparkRows:
        """Distribute rows by a column of key groups."""
        partition_count = parallelism or min(limit, cores(rows.frame))
        return SparkRows(by_key_group(rows.frame, column, key, limit, partition_count))

    def no_rows(self, schema: pa.Schema, limit: int, parallelism: int) -> SparkRows:
        """Return a table without rows, with a partition for each subtask."""
        none = self.spark.range(0, parallelism, 1, parallelism).where("id < 0")
        columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in spark_schema(schema)]
        return SparkRows(none.select(*columns))

    def write(self, rows: SparkRows, part: PartOfWrite) -> None:
        """Write a table by a data source that carries out plans of this session."""
        # Makes the user's session active in this thread: Spark looks up Python data sources there.
        self.spark.createDataFrame([], "nothing INT")
        plan = part.plan(rows.schema, layout_of(rows.frame.schema))
        source, secret = planned_format(self.spark)
        with unmeasured_batches(rows.frame, plan.request.key), readable_state():
            rows.frame.write.format(source).option(PLAN, sealed(plan, secret)).mode("append").save()

    def run(self, work: Pieces, parallelism: int | None) -> dict[int, bytes]:
        """Run the pieces of some work in tasks."""
        if parallelism is not None:
            raise OptionError(
                "parallelism is that of processes of this machine, but Spark's tasks do the work",
                remedy="leave it out, or use pyspark_savepoint.open(path)",
            )
        count = len(work.pieces)
        if not count:
            return {}
        tasks = min(count, WAVES * cores(self.spark.range(0)))
        schema = f"{NUMBER} LONG, {RESULT} BINARY"
        frame = self.spark.range(0, count, 1, tasks).mapInArrow(PieceTask(work.unopened()), schema)
        return {row[NUMBER]: bytes(row[RESULT]) for row in frame.collect()}

    def copy(self, copies: Sequence[FileCopy], staging: Staging, shared: bool) -> Mapping[str, int]:
        """Copy untouched files: those of the same store by the store, others by tasks if they are large."""
        return copy_large(self.spark, copies, staging, shared)

    def written(
        self, write: Callable[[A], B], operators: Sequence[A], size: Callable[[A], int], *, together: bool
    ) -> list[B]:
        """Write some operators at a time, in threads where the session's local properties are those of this one.

        An edited operator takes one or two jobs, whose planning takes most of the time if state is small.
        """
        run: Callable[[A], B] = inheritable_thread_target(self.spark)(write)
        with ThreadPoolExecutor(WRITERS) as pool:
            writing = [pool.submit(run, operator) for operator in operators]
            try:
                return [future.result() for future in writing]
            finally:
                pool.shutdown(cancel_futures=True)

    def with_selected(self, rows: SparkRows, selector: object, name: str) -> SparkRows:
        """Return a DataFrame with a column that an expression of Spark, or its text, computes."""
        column: Any = selector(rows.frame) if callable(selector) else selector
        if isinstance(column, str):
            column = F.expr(column)
        if not isinstance(column, Column):
            raise OptionError(
                "a column must be a name, an expression, or a function that returns an expression for a DataFrame",
                found=type_name(column),
                remedy="for example key_by('id', 'day'), or key_by(lambda account: account.id): Spark runs the "
                "expression, Python is not called for every record",
            )
        return SparkRows(rows.frame.withColumn(name, column))

    def with_hashed(
        self, rows: SparkRows, keys: Sequence[str], hash_code: Callable[[Any], int], limit: int
    ) -> SparkRows:
        """Return a DataFrame with the key groups that a function leads to."""
        return SparkRows(with_hashed_key_groups(rows.frame, keys, hash_code, limit, HASHED))

    def tasks(self, rows: SparkRows, limit: int) -> int:
        """Return how many tasks run at a time."""
        return min(limit, cores(rows.frame))

    def presorted(
        self, rows: SparkRows, descriptor: KeyedDescriptor, limit: int, parallelism: int | None
    ) -> tuple[SparkRows, int]:
        """Return rows that ``key_by`` distributed: only sorting them inside of partitions leaves them there."""
        layout = layout_of(rows.frame.schema)
        if layout is None or layout.max_parallelism != limit or parallelism not in (None, layout.parallelism):
            raise OptionError(
                "presorted records must be partitioned by key_by first",
                expected=f"max parallelism {limit}" + (f", parallelism {parallelism}" if parallelism else ""),
                found=str(layout),
                remedy=f"key_by(df, {descriptor.key_columns[0]!r}, max_parallelism={limit}).sortWithinPartitions(...)",
            )
        return rows, layout.parallelism

    def spread(self, rows: SparkRows, parallelism: int | None, limit: int) -> SparkRows:
        """Return a DataFrame of as many partitions."""
        frame = rows.frame if parallelism is None else rows.frame.repartition(min(parallelism, limit))
        return SparkRows(frame.coalesce(min(parallelism or limit, limit)))

    def packed(self, rows: SparkRows, input_column: str, number: int, cells: Sequence[Cell]) -> SparkRows:
        """Return the rows of one input, with NULL in the columns of the others."""
        columns = [F.lit(number).cast("int").alias(input_column)]
        for cell in cells:
            if cell.columns is None:
                typed = cast("SparkRows", cell.typed).frame.select(_packed(cell.like, cell.is_struct).alias("typed"))
                value = F.lit(None).cast(typed.schema["typed"].dataType)
            else:
                value = _packed(cell.columns, cell.is_struct)
            columns.append(value.alias(cell.name))
        return SparkRows(rows.frame.select(*columns))

    def connected(
        self,
        keyed: SparkRows,
        broadcast: SparkRows | None,
        order: str,
        descriptor: KeyedDescriptor,
        limit: int,
        parallelism: int,
    ) -> SparkRows:
        """Distribute rows by key. Broadcast ones are repeated for every subtask."""
        table = with_key_groups(keyed.frame, descriptor, limit)
        if broadcast is not None:
            # Each subtask is identified by its first key group.
            firsts = [(task * limit + parallelism - 1) // parallelism for task in range(parallelism)]
            groups = F.explode(F.array(*(F.lit(group).cast("int") for group in firsts)))
            every = broadcast.frame.withColumn(order, F.monotonically_increasing_id()).withColumn(KEY_GROUP, groups)
            table = table.withColumn(order, F.lit(None).cast("long")).unionByName(every)
        key = descriptor.key_columns[0]
        return SparkRows(by_key_group(table, KEY_GROUP, key, limit, parallelism).drop(KEY_GROUP))

    def made(self, rows: SparkRows, task: PartTask, schema: pa.Schema, layout: Distribution | None) -> SparkRows:
        """Return what tasks of ``mapInArrow`` yield."""
        struct = spark_schema(schema)
        column = struct if layout is None else with_layout(struct, layout)
        return SparkRows(mapped_in_arrow(rows.frame, NumberedPart(task), column))

    def yielded(self, rows: SparkRows, task: PartTask, columns: Any) -> DataFrame:
        """Return what tasks yield. NOT NULL in the schema stays."""
        return mapped_in_arrow(rows.frame, NumberedPart(task), struct_type(columns))

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Explain errors of a Python without this package."""
        with explaining_worker_python(self.spark):
            yield

    def showing(self, what: str) -> AbstractContextManager[None]:
        """Show nothing: Spark does, on its console."""
        return nullcontext()


# -- serializers of the user's, and sessions ------------------------------------------------------------------------

# An option is text, which anyone who can write SQL can set, and serializers are code. So the code travels inside a data
# source that the Python API registers in its session, as user functions travel inside a plan; the option only names it.
_REGISTERED: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()


def format_of(spark: SparkSession, options: Mapping[str, str]) -> str:
    """Return the name of the format that reads or writes with some options."""
    texts = texts_in(options)
    if not texts:
        return SavepointDataSource.format_name
    name = f"savepoint_{hashlib.sha256(','.join(texts).encode()).hexdigest()[:16]}"
    registered = _REGISTERED.setdefault(spark, set())
    if name not in registered:
        spark.dataSource.register(
            type("GivenDataSource", (SavepointDataSource,), {"format_name": name, "serializers": texts})
        )
        registered.add(name)
    return name


#: The names of the data source of plans and its secret, by session.
_PLANNED: WeakKeyDictionary[SparkSession, tuple[str, bytes]] = WeakKeyDictionary()
_REGISTERING = Lock()


def planned_format(spark: SparkSession) -> tuple[str, bytes]:
    """Return the name of the format that carries out the plans of this session, and the secret that seals them."""
    with _REGISTERING:
        if spark not in _PLANNED:
            name, secret = f"savepoint_plans_{secrets.token_hex(8)}", secrets.token_bytes(32)
            spark.dataSource.register(
                type("PlannedDataSource", (SessionPlans,), {"format_name": name, "secret": secret})
            )
            _PLANNED[spark] = name, secret
        return _PLANNED[spark]


def joined_state_windows(frame: DataFrame, sets: DataFrame, lookup: SessionLookup) -> DataFrame:
    """Return rows of sessions with column ``state_window``. ``sets`` are the merging window sets of all keys."""
    sessions = _sessions(sets, lookup)
    key = F.col(SESSION_KEY)
    parts = [key] if len(lookup.keys) == 1 else [key[name] for name in _fields(sessions)]
    same = F.lit(True)
    for name, part in zip(lookup.keys, parts, strict=True):
        same = same & frame[quoted(name)].eqNullSafe(part)
    has_state_window = STATE_WINDOW in frame.columns
    if has_state_window:
        frame = frame.withColumnRenamed(STATE_WINDOW, GIVEN)
    joined = frame.join(sessions, same & (frame[WINDOW_COLUMN] == F.col(SESSION)), "left")
    session = F.to_json(F.struct(WINDOW_COLUMN))
    unknown = F.concat(F.lit(lookup.unknown), session, F.lit(f". {lookup.remedy(has_state_window)}"))
    state_window = F.coalesce(STATE_WINDOW, F.raise_error(unknown))
    if has_state_window:
        other = F.concat(F.lit(lookup.other), session, F.lit(" is stored under "), F.to_json(F.struct(STATE_WINDOW)))
        other = F.concat(other, F.lit(", not under "), F.to_json(F.struct(GIVEN)), F.lit(f". {lookup.drop}"))
        state_window = F.when(state_window.eqNullSafe(F.col(GIVEN)), state_window).otherwise(F.raise_error(other))
    return joined.withColumn(STATE_WINDOW, state_window).drop(SESSION_KEY, SESSION, GIVEN)


def _fields(sessions: DataFrame) -> list[str]:
    kind = sessions.schema[SESSION_KEY].dataType
    return kind.fieldNames() if isinstance(kind, StructType) else []


def _sessions(sets: DataFrame, lookup: SessionLookup) -> DataFrame:
    """Return the key, session and state window of every session, and of every state window itself."""
    pairs = F.col(quoted(lookup.state))
    if lookup.is_map:
        pairs = F.map_entries(pairs)

    def both(pair: Column) -> Column:
        names = ("key", "value") if lookup.is_map else ("f0", "f1")
        session, state_window = (pair[name] for name in names)
        return F.array(
            F.struct(session.alias(SESSION), state_window.alias(STATE_WINDOW)),
            F.struct(state_window.alias(SESSION), state_window.alias(STATE_WINDOW)),
        )

    every = F.array_distinct(F.flatten(F.transform(pairs, both)))
    return sets.select(F.col("key").alias(SESSION_KEY), F.inline(every))


#: Bytes from which tasks copy files, and those that a task copies, unless a file is larger.
LARGE, OF_A_TASK = 1 << 30, 256 << 20


@dataclass(frozen=True)
class CopyTasks:
    """Function of ``mapInArrow`` that copies the files of the tasks whose numbers it gets.

    On a local file system an attempt writes a file of its own, which the driver renames: two attempts may run at the
    same time. Object stores show complete files only, and those of all attempts are the same.
    """

    files: Sequence[Sequence[tuple[int, FileCopy]]]
    staging: Staging

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the number and the written name of every file."""
        staging = self.staging.elsewhere().begin()
        for batch in batches:
            for task in batch.column(0).to_pylist():
                numbers, names = [], []
                for number, copy in self.files[task]:
                    name = f"{copy.name}-{secrets.token_hex(4)}" if staging.filesystem.renames else copy.name
                    replace(copy, name=name).run(staging.create_state)
                    numbers.append(number)
                    names.append(name)
                yield pa.record_batch([pa.array(numbers, pa.int32()), pa.array(names, pa.string())], ["number", "name"])


def copy_large(spark: SparkSession, copies: Sequence[FileCopy], staging: Staging, shared: bool) -> Mapping[str, int]:
    """Copy all files: by tasks if they are large, and tasks reach them. Else by this process.

    ``shared``: tasks write to local paths of this savepoint anyway. Returns the sizes of files that were not read.
    """
    unread: Mapping[str, int] = {}
    if not staging.filesystem.renames:
        copies, unread = held(copies, staging)
    total = sum(copy.size for copy in copies)
    local = any(
        isinstance(each, LocalFileSystem) for each in (staging.filesystem, *(c.source.filesystem for c in copies))
    )
    if total < LARGE or (local and not shared):
        return {**unread, **copy_files(copies, staging)}
    count = min(len(copies), -(-total // OF_A_TASK))
    numbered = sorted(enumerate(copies), key=lambda each: -each[1].size)
    tasks = CopyTasks([numbered[task::count] for task in range(count)], staging)
    for row in spark.range(0, count, 1, count).mapInArrow(tasks, "number INT, name STRING").collect():
        staging.rename_state(row["name"], copies[row["number"]].name)
    return unread


MAX_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
#: The value with which Spark does not measure.
UNMEASURED = str((1 << 31) - 1)


@contextmanager
def unmeasured_batches(frame: DataFrame, key: Collection[str]) -> Iterator[None]:
    """End batches by row count alone, in queries of this thread, if all columns but the key's have a fixed width.

    A local property does not override a value that the user has set, and does not change the session.
    """
    if not hasattr(frame.sparkSession, "_jsparkSession") or not is_narrow(frame.schema, key):
        yield
        return
    # Any: None removes a property, which the annotation does not allow.
    context: Any = frame.sparkSession.sparkContext
    before = context.getLocalProperty(MAX_BYTES)
    context.setLocalProperty(MAX_BYTES, UNMEASURED)
    try:
        yield
    finally:
        context.setLocalProperty(MAX_BYTES, before)


def is_narrow(schema: StructType, key: Collection[str]) -> bool:
    """Return whether the values of all columns have a fixed width. Keys may be text."""
    return all(_is_narrow(field.dataType, field.name in key) for field in schema)


def _is_narrow(kind: DataType, text: bool) -> bool:
    if isinstance(kind, StructType):
        return all(_is_narrow(field.dataType, text) for field in kind)
    if isinstance(kind, StringType | BinaryType):
        return text
    return isinstance(kind, NumericType | BooleanType | DateType | TimestampType | TimestampNTZType)
