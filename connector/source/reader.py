"""Reader of one query: plans partitions on the driver, reads them on executors.

Filters are not pushed down: PySpark passes the filters of one use of a DataFrame to another use of it, so a source that
accepts them returns wrong rows. Options (``keys``, ``keyGroups``, ``state``) and ``.schema`` choose what is read.

Errors are raised again without the frames below, which do not help users: Spark shows the full traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_savepoint.formats.errors import FileReplacedError, SavepointError, StateFileNotFoundError
from pyspark_savepoint.formats.metadata.key_groups import UPPER_BOUND_MAX_PARALLELISM
from pyspark_savepoint.formats.redaction import shown
from pyspark_savepoint.options.schema import arrow_schema, choose_columns, relabel
from pyspark_savepoint.statebackends.open_table import open_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_savepoint.options.options import SavepointReadOptions
    from pyspark_savepoint.statebackends.model.request import TablePartition


T = TypeVar("T")
#: Target size of a partition, that of Spark's file sources (``spark.sql.files.maxPartitionBytes``).
BYTES_PER_PARTITION = 128 << 20
#: Below this, starting a task costs more than reading its bytes.
MIN_BYTES_PER_PARTITION = 1 << 20


@dataclass(frozen=True)
class StatePartition(InputPartition):
    """One execution vertex that restores state, or one part of a listing: picklable, without open files."""

    state: TablePartition


def default_parallelism(state_bytes: int, max_parallelism: int | None) -> int:
    """Return the number of partitions of a read without option ``parallelism``.

    Spark does not pass its configuration or number of cores to the process that plans a Python source. So the number
    is one partition per CPU of the driver's machine (all of a local session); more if that would exceed
    :data:`BYTES_PER_PARTITION` each (a cluster), fewer if each would have less than :data:`MIN_BYTES_PER_PARTITION`.
    """
    by_cpus = min(cpus(), -(-state_bytes // MIN_BYTES_PER_PARTITION))
    wanted = max(1, by_cpus, -(-state_bytes // BYTES_PER_PARTITION))
    return min(wanted, max_parallelism or UPPER_BOUND_MAX_PARALLELISM)


def cpus() -> int:
    """Return the number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class SavepointDataSourceReader(DataSourceReader):
    """Reader of columns of one table. Spark pickles it, so it contains nothing open or large."""

    def __init__(self, options: SavepointReadOptions, schema: StructType, shown_warnings: tuple[str, ...] = ()) -> None:
        self.options = options
        self.schema = schema
        self.shown_warnings = shown_warnings

    def partitions(self) -> list[InputPartition]:
        """Return a partition for each execution vertex that has state to read."""
        try:
            return of_one_version(self._plan)
        except SavepointError as error:
            raise error.with_traceback(None) from None

    def _plan(self) -> list[InputPartition]:
        table = open_table(self.options.request())
        warn(warning for warning in table.warnings if warning not in self.shown_warnings)
        chosen = table.select(choose_columns(table.schema, self.schema))
        parallelism = self.options.parallelism or default_parallelism(chosen.state_bytes, chosen.max_parallelism)
        return [StatePartition(partition) for partition in chosen.partitions(parallelism)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a partition, with exactly the schema that Spark expects."""
        # If there is no partition, Spark reads a default one.
        if not isinstance(partition, StatePartition):
            return
        schema = arrow_schema(self.schema)
        try:
            for batch in partition.state.batches():
                yield relabel(batch, schema)
        except SavepointError as error:
            raise error.with_traceback(None) from None


def of_one_version(plan: Callable[[], T]) -> T:
    """Plan a query; plan it again if files of the snapshot were replaced meanwhile, so that all are of one version."""
    try:
        return plan()
    except (StateFileNotFoundError, FileReplacedError):
        return plan()


def warn(warnings: Iterator[str]) -> None:
    """Print warnings: planning runs in a process of its own, whose output appears in the driver's."""
    for warning in warnings:
        print(f"WARNING savepoint: {shown(warning)}", file=sys.stderr, flush=True)
