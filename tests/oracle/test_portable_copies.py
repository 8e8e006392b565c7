"""``cp --portable``: Flink restores each native savepoint and checkpoint with the other state backend."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_savepoint.command_line.main import main
from tests.oracle.compare import differences
from tests.oracle.flink import SavepointOf, restore

pytestmark = pytest.mark.flink


@pytest.mark.parametrize(
    ("written", "form", "other"),
    [
        ("rocksdb", "native", "hashmap"),
        ("rocksdb-incremental", "checkpoint", "hashmap"),
        ("hashmap", "native", "rocksdb"),
    ],
)
def test_the_other_backend_restores_a_copy(
    flink_version: str, savepoint_of: SavepointOf, tmp_path: Path, written: str, form: str, other: str
) -> None:
    generated = savepoint_of(flink_version, "keys", backend=written, format=form)
    assert main(["cp", str(generated.path), str(tmp_path / "copy"), "--portable"]) == 0
    found = restore(flink_version, "keys", tmp_path / "copy", tmp_path / "work", backend=other, parallelism=3)
    assert found
    assert differences(generated.expected, found) == []
