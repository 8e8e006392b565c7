"""Reads of one table, from options to partitions: the same for Spark's data source and for reads in this process."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from pyspark_savepoint.formats.errors import FileReplacedError, StateFileNotFoundError
from pyspark_savepoint.formats.metadata.key_groups import UPPER_BOUND_MAX_PARALLELISM
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.statebackends.model.request import Table, TablePartition
from pyspark_savepoint.statebackends.open_table import open_table

T = TypeVar("T")
#: Target size of a partition, that of Spark's file sources (``spark.sql.files.maxPartitionBytes``).
BYTES_PER_PARTITION = 128 << 20
#: Below this, starting a task costs more than reading its bytes.
MIN_BYTES_PER_PARTITION = 1 << 20


def table_of(options: SavepointReadOptions) -> Table:
    """Return the table that the options select; errors name the existing tables, operators and states."""
    request = options.request()
    return of_one_version(lambda: open_table(request))


def partitions_of(
    options: SavepointReadOptions, columns: Callable[[pa.Schema], list[str]], workers: int
) -> tuple[Table, list[TablePartition]]:
    """Return the table restricted to some columns, and its partitions for a number of workers."""

    def plan() -> tuple[Table, list[TablePartition]]:
        table = open_table(options.request())
        chosen = table.select(columns(table.schema))
        count = options.parallelism or default_parallelism(chosen.state_bytes, chosen.max_parallelism, workers)
        return chosen, chosen.partitions(count)

    return of_one_version(plan)


def default_parallelism(state_bytes: int, max_parallelism: int | None, workers: int) -> int:
    """Return the number of partitions of a read without option ``parallelism``.

    One partition per worker; more if that would exceed :data:`BYTES_PER_PARTITION` each, fewer if each would have less
    than :data:`MIN_BYTES_PER_PARTITION`.
    """
    by_workers = min(workers, -(-state_bytes // MIN_BYTES_PER_PARTITION))
    wanted = max(1, by_workers, -(-state_bytes // BYTES_PER_PARTITION))
    return min(wanted, max_parallelism or UPPER_BOUND_MAX_PARALLELISM)


def cpus() -> int:
    """Return the number of CPUs that this process may use.

    Spark does not pass its configuration or number of cores to the process that plans a Python source: these are the
    CPUs of the driver's machine, all of a local session.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def of_one_version(plan: Callable[[], T]) -> T:
    """Plan a query; plan it again if files of the snapshot were replaced meanwhile, so that all are of one version."""
    try:
        return plan()
    except (StateFileNotFoundError, FileReplacedError):
        return plan()
