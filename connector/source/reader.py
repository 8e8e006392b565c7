"""The reader of one query: plans partitions on the driver, reads them on executors.

Filters are not pushed down: PySpark hands the filters of one use of a DataFrame to another use of it, so a source that
takes them returns wrong rows. What is opened is chosen by options (``keys``, ``keyGroups``, ``state``) and ``.schema``.

Errors are raised again without the frames below, which mean nothing to a user: Spark shows a traceback in full.
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
#: A task is given about so much state, as Spark's own file sources give it (``spark.sql.files.maxPartitionBytes``).
BYTES_PER_PARTITION = 128 << 20
#: Below this, starting a task costs more than reading its bytes.
MIN_BYTES_PER_PARTITION = 1 << 20


@dataclass(frozen=True)
class StatePartition(InputPartition):
    """One restored execution vertex, or one part of a listing: picklable, holds no open thing."""

    state: TablePartition


def default_parallelism(state_bytes: int, max_parallelism: int | None) -> int:
    """How many partitions a read has when nobody says.

    Spark tells a Python source nothing of the cluster: neither its conf nor its number of cores reaches the process
    that plans. So: one partition per CPU of the driver's machine (all of a local session), more where that would be
    more than :data:`BYTES_PER_PARTITION` each (a cluster), fewer where less than :data:`MIN_BYTES_PER_PARTITION`.
    """
    by_cpus = min(cpus(), -(-state_bytes // MIN_BYTES_PER_PARTITION))
    wanted = max(1, by_cpus, -(-state_bytes // BYTES_PER_PARTITION))
    return min(wanted, max_parallelism or UPPER_BOUND_MAX_PARALLELISM)


def cpus() -> int:
    """The CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class SavepointDataSourceReader(DataSourceReader):
    """Reads the columns of a schema from one table. Spark pickles it, so it holds nothing that is open or large."""

    def __init__(self, options: SavepointReadOptions, schema: StructType, shown_warnings: tuple[str, ...] = ()) -> None:
        self.options = options
        self.schema = schema
        self.shown_warnings = shown_warnings

    def partitions(self) -> list[InputPartition]:
        """One per execution vertex that has state to read."""
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
        """The batches of a partition, with exactly the schema that Spark wants."""
        # Where there is no partition, Spark reads one that it makes up.
        if not isinstance(partition, StatePartition):
            return
        schema = arrow_schema(self.schema)
        try:
            for batch in partition.state.batches():
                yield relabel(batch, schema)
        except SavepointError as error:
            raise error.with_traceback(None) from None


def of_one_version(plan: Callable[[], T]) -> T:
    """Plan a query; once more where what it began with was replaced, and is gone: what is there now is whole."""
    try:
        return plan()
    except (StateFileNotFoundError, FileReplacedError):
        return plan()


def warn(warnings: Iterator[str]) -> None:
    """Tell the user. Planning is not in the user's process; what it prints is shown with the driver's output."""
    for warning in warnings:
        print(f"WARNING savepoint: {shown(warning)}", file=sys.stderr, flush=True)
