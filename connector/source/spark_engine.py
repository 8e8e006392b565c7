"""Spark's engine: tables are DataFrames, parts of a table are tasks, and rows are distributed by Spark's shuffle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pyarrow as pa
from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from pyspark_savepoint.options.paths import located
from pyspark_savepoint.options.schema import arrow_schema, spark_schema, struct_type, table_schema
from pyspark_savepoint.options.worker_python import explaining_worker_python
from pyspark_savepoint.source.arrow_batches import unmeasured_batches
from pyspark_savepoint.source.copy_tasks import copy_large
from pyspark_savepoint.source.distribution import by_described_key, by_key_group, cores, layout_of
from pyspark_savepoint.source.given_source import format_of
from pyspark_savepoint.source.session_joins import joined_state_windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_savepoint.formats.snapshot.publication import Staging
    from pyspark_savepoint.formats.snapshot.relocation import FileCopy
    from pyspark_savepoint.plan.engine import BatchFunction, Pieces, SessionLookup
    from pyspark_savepoint.statebackends.model.descriptors import KeyedDescriptor

A = TypeVar("A")
B = TypeVar("B")
NUMBER, RESULT = "number", "result"
#: Tasks for each that runs at a time, so that long pieces do not end last.
WAVES = 4


@dataclass(frozen=True)
class SparkRows:
    """A DataFrame as the rows of a plan (``plan.engine.Rows``)."""

    frame: DataFrame

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the batches that functions and writers get."""
        return arrow_schema(self.frame.schema)

    @property
    def laid_out(self) -> bool:
        """Whether ``key_by`` distributed the rows."""
        return layout_of(self.frame.schema) is not None

    def select(self, *names: str) -> SparkRows:
        """Return some columns."""
        return SparkRows(self.frame.select(*(f"`{name.replace('`', '``')}`" for name in names)))

    def renamed(self, names: Mapping[str, str]) -> SparkRows:
        """Return the rows with new names of columns."""
        return SparkRows(self.frame.withColumnsRenamed(dict(names)))

    def mapped(self, function: BatchFunction, schema: pa.Schema) -> SparkRows:
        """Return what a function makes of the batches of each partition."""
        mapped: Any = function
        return SparkRows(self.frame.mapInArrow(mapped, spark_schema(schema)))

    def union(self, other: SparkRows) -> SparkRows:
        """Return the rows of both."""
        return SparkRows(self.frame.unionByName(other.frame))

    def without(self, keys: SparkRows, column: str) -> SparkRows:
        """Return the rows whose value of a column is not in another table."""
        return SparkRows(self.frame.join(keys.frame, column, "left_anti"))

    def joined(self, other: SparkRows, column: str) -> SparkRows:
        """Return the rows with the columns of another table, NULL where it has no such value."""
        return SparkRows(self.frame.join(other.frame, column, "left"))

    def collected(self) -> list[dict[str, Any]]:
        """Return all rows as dictionaries."""
        return [row.asDict(recursive=True) for row in self.frame.collect()]

    def first(self) -> dict[str, Any] | None:
        """Return one of the rows as a dictionary; None if there is none."""
        found = self.frame.limit(1).collect()
        return found[0].asDict(recursive=True) if found else None


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
class SparkEngine:
    """The engine of a session (``plan.engine.Engine``)."""

    spark: SparkSession
    rows_are: str = "a DataFrame of Spark"
    make_rows: str = "spark.createDataFrame(...), or a table of the savepoint: sp.keyed_state(uid)"
    writers: int = 4

    def rows(self, given: object) -> SparkRows | None:
        """Return a DataFrame as rows; None for anything else."""
        return SparkRows(given) if isinstance(given, DataFrame) else None

    def of_arrow(self, table: pa.Table) -> SparkRows:
        """Return the rows of a small Arrow table."""
        columns = [column.to_pylist() for column in table.columns]
        rows = list(zip(*columns, strict=True))
        return SparkRows(self.spark.createDataFrame(rows, spark_schema(table.schema)))

    def read(self, options: Mapping[str, str]) -> SparkRows:
        """Return the table that options select."""
        return SparkRows(self.spark.read.format(format_of(self.spark, options)).options(**options).load())

    def table(self, options: Mapping[str, str]) -> DataFrame:
        """Return the table that options select."""
        return self.read(options).frame

    def shown(self, table: pa.Table) -> DataFrame:
        """Return a small Arrow table as a DataFrame."""
        return self.spark.createDataFrame(table)

    def schema(self, table: DataFrame) -> pa.Schema:
        """Return the columns of a DataFrame, with their comments as metadata."""
        return table_schema(table.schema)

    def summed(self, table: DataFrame, function: BatchFunction, schema: pa.Schema) -> DataFrame:
        """Return what a function makes of all batches in one task."""
        mapped: Any = function
        return table.repartition(1).mapInArrow(mapped, spark_schema(schema))

    def function_schema(self, given: Any) -> pa.Schema:
        """Return the columns of a StructType, or of its text."""
        return arrow_schema(struct_type(given))

    def numbered(self, function: BatchFunction, count: int, given: Any) -> DataFrame:
        """Return what tasks yield that each get a number; NOT NULL in the schema stays."""
        schema, mapped = struct_type(given), cast("Any", function)
        if not count:
            return self.spark.createDataFrame([], schema)
        return self.spark.range(0, count, 1, count).mapInArrow(mapped, schema)

    def with_state_windows(self, rows: SparkRows, lookup: SessionLookup) -> SparkRows:
        """Return rows of sessions with their state windows."""
        return SparkRows(joined_state_windows(rows.frame, self.read(lookup.options).frame, lookup))

    def located(self, path: str | PathLike[str]) -> str:
        """Return the absolute form of a user's path."""
        return located(self.spark, path)

    def by_key(self, rows: SparkRows, descriptor: KeyedDescriptor, limit: int, parallelism: int | None) -> SparkRows:
        """Distribute rows by their key."""
        return SparkRows(by_described_key(rows.frame, descriptor, limit, parallelism))

    def by_key_group(self, rows: SparkRows, column: str, key: str, limit: int, parallelism: int | None) -> SparkRows:
        """Distribute rows by a column of key groups."""
        wanted = parallelism or min(limit, cores(rows.frame))
        return SparkRows(by_key_group(rows.frame, column, key, limit, wanted))

    def no_rows(self, schema: pa.Schema, limit: int, parallelism: int) -> SparkRows:
        """Return a table without rows, with a partition for each subtask."""
        none = self.spark.range(0, parallelism, 1, parallelism).where("id < 0")
        columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in spark_schema(schema)]
        return SparkRows(none.select(*columns))

    def write(self, rows: SparkRows, key: Sequence[str], path: str, options: Mapping[str, str]) -> None:
        """Write a table by the data source."""
        # Makes the user's session active in this thread: Spark looks up Python data sources there.
        self.spark.createDataFrame([], "nothing INT")
        source = format_of(self.spark, options)
        with unmeasured_batches(rows.frame, key):
            rows.frame.write.format(source).options(**options).mode("append").save(path)

    def run(self, work: Pieces) -> dict[int, bytes]:
        """Run the pieces of some work in tasks."""
        count = len(work.pieces)
        if not count:
            return {}
        tasks = min(count, WAVES * cores(self.spark.range(0)))
        schema = f"{NUMBER} LONG, {RESULT} BINARY"
        frame = self.spark.range(0, count, 1, tasks).mapInArrow(PieceTask(work.unopened()), schema)
        return {row[NUMBER]: bytes(row[RESULT]) for row in frame.collect()}

    def copy(self, copies: Sequence[FileCopy], staging: Staging, shared: bool) -> None:
        """Copy untouched files, by tasks if they are large."""
        copy_large(self.spark, copies, staging, shared)

    def runner(self, run: Callable[[A], B]) -> Callable[[A], B]:
        """Return a function for another thread, where the session's local properties are those of this one."""
        inherited: Callable[[A], B] = inheritable_thread_target(self.spark)(run)
        return inherited

    def expect_functions(self, operator: str) -> None:
        """Accept: functions run in tasks."""

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Explain errors of a Python without this package."""
        with explaining_worker_python(self.spark):
            yield
