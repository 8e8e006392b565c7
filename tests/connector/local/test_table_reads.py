"""Planning of a read while the savepoint is overwritten: the plan is of one version."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.errors import StateFileNotFoundError
from pyspark_savepoint.formats.snapshot.savepoint import Savepoint
from pyspark_savepoint.local.table_reads import of_one_version
from pyspark_savepoint.statebackends.sources.keyed_sources import keyed_sources
from tests.statebackends.writing.written_operators import write


def rows(state: str) -> pa.Table:
    return pa.table({"key": pa.array(range(100), pa.int64()), state: pa.array(range(100), pa.int64())})


def test_an_overwrite_between_metadata_and_headers_is_planned_again(tmp_path: Path) -> None:
    path = tmp_path / "sp"
    write(path, [rows("total")])
    attempts: list[str] = []

    def plan() -> list[str]:
        """Read ``_metadata``; the first time, all its files are replaced before their headers are read."""
        snapshot = Savepoint.open(str(path))
        attempts.append(str(snapshot.metadata.checkpoint_id))
        if len(attempts) == 1:
            write(path, [rows("sum")], overwrite=True, drop=("total",))
        (source,) = keyed_sources(snapshot, snapshot.operators[0])
        return [meta.name for meta in source.header().states]

    assert of_one_version(plan) == ["sum"]
    assert len(attempts) == 2


def test_a_file_that_stays_missing_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "sp"
    write(path, [rows("total")])
    for file in path.iterdir():
        if file.name != "_metadata":
            file.unlink()

    def plan() -> object:
        snapshot = Savepoint.open(str(path))
        return keyed_sources(snapshot, snapshot.operators[0])[0].header()

    with pytest.raises(StateFileNotFoundError, match="missing"):
        of_one_version(plan)
