"""check-migration and migrate: exit codes, what is listed, and the way from one to the other."""

from __future__ import annotations

from pathlib import Path

from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from tests.connector.command_line.conftest import Run
from tests.data import unpacked

MIGRATION = unpacked() / "migration"
OLD = MIGRATION / "cases" / "pojo-all" / "1.20.5-hashmap"
CLASSES = ("--flink", "2.3", "--classes", MIGRATION / "classes")


def test_a_savepoint_is_checked_migrated_and_checked_again(run: Run, tmp_path: Path) -> None:
    done = run("check-migration", OLD, *CLASSES, "--json")
    assert done.code == 1
    tags = next(row for row in done.records if row["part"] == "tags")
    assert (tags["verdict"], tags["hashmap"], tags["rocksdb"]) == (
        "rewritten",
        "fails when the state is registered",
        "fails when the state is registered",
    )
    assert "2 as is, 6 rewritten, 1 is lost" in run("check-migration", OLD, *CLASSES).out
    migrated = run("migrate", OLD, tmp_path / "new", *CLASSES, "--json")
    assert migrated.code == 0
    written = [operator.state_size for operator in Snapshot.open(str(tmp_path / "new")).operators]
    assert migrated.records[0]["state_bytes"] == sum(written)
    done = run("check-migration", tmp_path / "new", "--flink", "2.3", "--all")
    assert done.code == 0
    assert "restores" in done.out


def test_what_is_missing_is_listed_before_anything_is_written(run: Run, tmp_path: Path) -> None:
    done = run("migrate", OLD, tmp_path / "new", "--flink", "2.3")
    assert done.code == 2
    assert "5 parts of the state cannot be migrated with the given types and classes; nothing was written" in done.err
    assert not (tmp_path / "new").exists()
    assert run("migrate", OLD, tmp_path / "new", "--flink", "2.3", "--type", "v").code == 2
