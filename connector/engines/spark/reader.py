"""Reader of one query: plans partitions on the driver, reads them on executors.

Filters are not pushed down here: PySpark up to 4.3 passes the filters of one use of a DataFrame to another use of it,
so a source that accepts them returns wrong rows (``pushed_reader`` is for the release that does not). Options
(``keys``, ``keyGroups``, ``state``) and ``.schema`` choose what is read.

Errors are raised again without the frames below, which do not help users: Spark shows the full traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_savepoint.engines.spark.output import warn
from pyspark_savepoint.engines.table_reads import (
    explaining_missing_files,
    partitions_of,
    warning_of_escaped_texts,
)
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.io.local_files import cpus
from pyspark_savepoint.formats.io.run_ahead import BytesAhead
from pyspark_savepoint.options.schema import arrow_schema, choose_columns, relabel
from pyspark_savepoint.statebackends.requests.request import Described

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyspark_savepoint.options.options import SavepointReadOptions
    from pyspark_savepoint.statebackends.requests.request import TablePartition


P = ParamSpec("P")
T = TypeVar("T")


def with_short_traceback(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function so that its errors are raised again without the frames below."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except SavepointError as error:
            raise error.with_traceback(None) from None

    return run


@dataclass(frozen=True)
class StatePartition(InputPartition):
    """One execution vertex that restores state, or one part of a listing: picklable, without open files."""

    state: TablePartition


class SavepointDataSourceReader(DataSourceReader):
    """Reader of columns of one table. Spark pickles it, so it contains nothing open or large."""

    def __init__(
        self,
        options: SavepointReadOptions,
        schema: StructType,
        shown_warnings: tuple[str, ...] = (),
        key: str | None = None,
    ) -> None:
        self.options = options
        self.key = key
        self.schema = schema
        self.shown_warnings = shown_warnings

    @with_short_traceback
    def partitions(self) -> list[InputPartition]:
        """Return a partition for each execution vertex that has state to read."""
        read, table, partitions = partitions_of(self.options, self._columns, cpus(), for_tasks=True)
        if read.path != self.options.path:
            warn(iter((f"{self.options.path} was deleted since: {read.path}, the newest now, is read",)))
            self.options = read
        warn(each for each in (*read.unread, *table.warnings) if each not in self.shown_warnings)
        if isinstance(table, Described) and table.description:
            print(f"INFO savepoint: {table.description}", file=sys.stderr, flush=True)
        return [StatePartition(partition) for partition in partitions]

    def _columns(self, table: pa.Schema) -> list[str]:
        """Return the names of the table's columns. That of the key may have another name in the schema."""
        if self.key is None:
            return choose_columns(table, self.schema)
        schema = pa.schema([field.with_name(self.key) if field.name == "key" else field for field in table])
        return ["key" if name == self.key else name for name in choose_columns(schema, self.schema)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a partition, with exactly the schema that Spark expects."""
        # If there is no partition, Spark reads a default one.
        if not isinstance(partition, StatePartition):
            return
        try:
            with explaining_missing_files(self.options):
                yield from batches_of(partition, self.schema, self.options)
        except SavepointError as error:
            raise error.with_traceback(None) from None


def batches_of(
    partition: StatePartition, schema: StructType, options: SavepointReadOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a partition, with exactly the schema that Spark expects."""
    shown = arrow_schema(schema)
    BytesAhead.within(options.memory, task=True)
    for batch in warning_of_escaped_texts(partition.state.batches(), options.text, _warn_one, options.uid):
        yield relabel(batch, shown)


def _warn_one(warning: str) -> None:
    warn(iter((warning,)))
