"""What Spark's tasks are given, and how many there are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from pyspark_savepoint.formats.metadata.key_groups import UPPER_BOUND_MAX_PARALLELISM

if TYPE_CHECKING:
    from pyspark_savepoint.statebackends.model.request import TablePartition

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
