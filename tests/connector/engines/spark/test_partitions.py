from __future__ import annotations

import pytest

from pyspark_savepoint.engines.table_reads import (
    BYTES_PER_PARTITION,
    MIN_BYTES_PER_PARTITION,
    default_parallelism,
)
from pyspark_savepoint.formats.io.local_files import cpus

MANY = 32768


def test_a_small_state_is_one_partition() -> None:
    assert default_parallelism(0, 128, cpus()) == 1
    assert default_parallelism(MIN_BYTES_PER_PARTITION, 128, cpus()) == 1


def test_every_cpu_has_work_where_there_is_enough() -> None:
    assert default_parallelism(cpus() * MIN_BYTES_PER_PARTITION, MANY, cpus()) == cpus()


def test_large_state_is_cut_by_bytes() -> None:
    assert default_parallelism(1000 * BYTES_PER_PARTITION, MANY, cpus()) == max(1000, cpus())


@pytest.mark.parametrize("state_bytes", [1, 1 << 30, 1 << 62, -1])
def test_never_more_than_max_parallelism(state_bytes: int) -> None:
    assert 1 <= default_parallelism(state_bytes, 3, cpus()) <= 3


def test_tables_without_key_groups_are_bounded_too() -> None:
    assert default_parallelism(1 << 62, None, cpus()) == MANY
