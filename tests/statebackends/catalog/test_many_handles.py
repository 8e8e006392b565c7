"""Listings of many handles: equal headers are parsed once, and partitions together have the rows of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.errors import FileReplacedError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.keyed_plan import distinct
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from tests.benchmarks.data import write_savepoint, write_wide_savepoint

SURVEYS = ("sizes", "heaviest_keys", "verification")
OPERATORS, SUBTASKS = 7, 4


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wide_savepoint(tmp_path_factory.mktemp("wide") / "savepoint", OPERATORS, SUBTASKS, keys=50)


def rows(path: Path, table: str, parts: int) -> list[list[dict[str, Any]]]:
    partitions = open_table(TableRequest(str(path), table=table)).partitions(parts)
    return [[row for batch in part.batches() for row in batch.to_pylist()] for part in partitions]


def test_equal_headers_are_one_object(wide: Path) -> None:
    savepoint = Snapshot.open(str(wide))
    headers = [header for each in savepoint.operators for header in OpenOperator(savepoint, each).keyed.headers]
    assert len(headers) == OPERATORS * SUBTASKS
    assert len(distinct(headers)) == 1


def test_a_process_keeps_the_metadata_that_it_parsed(wide: Path) -> None:
    assert Snapshot.open(str(wide)).metadata is Snapshot.open(str(wide)).metadata


@pytest.mark.parametrize("table", ["states", *SURVEYS])
def test_partitions_together_have_the_rows_of_one(wide: Path, table: str) -> None:
    (whole,) = rows(wide, table, 1)
    parts = rows(wide, table, 3)
    assert len(parts) >= 3
    assert all(parts)
    assert [row for part in parts for row in part] == whole
    assert len({row["operator_uid_hash"] for row in whole}) == OPERATORS


@pytest.mark.parametrize("table", ["states", "sizes"])
def test_partitions_of_two_versions_are_not_mixed(tmp_path: Path, table: str) -> None:
    path = write_wide_savepoint(tmp_path / "savepoint", 3, 2, keys=10)
    planned = open_table(TableRequest(str(path), table=table)).partitions(2)
    other = write_savepoint(tmp_path / "other", "long", 10)
    (path / "_metadata").write_bytes((other / "_metadata").read_bytes())
    with pytest.raises(FileReplacedError, match="run the query again"):
        list(planned[0].batches())
