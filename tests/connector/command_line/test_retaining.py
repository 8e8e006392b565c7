"""Command retained: what each checkpoint holds alone, and files that none needs; nothing is deleted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import pyspark_savepoint
from pyspark_savepoint.formats.errors import SavepointWarning
from tests.connector.command_line.conftest import Run
from tests.data import unpacked


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The folder of a job of real Flink with three incremental checkpoints of RocksDB."""
    (found,) = (unpacked() / "history" / "2.3.0-rocksdb-incr-retained-3" / "checkpoints").iterdir()
    return Path(shutil.copytree(found, tmp_path / "checkpoints" / found.name))


def sizes(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def test_alone_is_what_becomes_free(run: Run, job: Path) -> None:
    before = run("retained", job.parent, "--json").records
    assert [row["checkpoint_id"] for row in before] == [9, 8, 7]
    assert all(row["shared"] > 0 and row["outside"] == 0 for row in before)
    assert run("retained", job, "--unneeded", "--json").records == []
    there = sizes(job)
    shutil.rmtree(job / "chk-8")
    unneeded = run("retained", job, "--unneeded", "--json").records
    assert unneeded
    for row in unneeded:
        assert Path(row["path"]).parent == job / "shared"
        Path(row["path"]).unlink()
    assert sum(there.values()) - sum(sizes(job).values()) == before[1]["alone"]
    for number in (7, 9):
        assert run("verify", job / f"chk-{number}").code == 0


def test_a_checkpoint_that_is_not_complete(run: Run, job: Path) -> None:
    (job / "chk-9" / "_metadata").unlink()
    there = sizes(job)
    done = run("retained", job)
    assert "that no snapshot below the folder needs; --unneeded lists them" in done.out
    assert "nothing was deleted: a running job, or snapshots elsewhere, may still need these files" in done.err
    rows = run("retained", job, "--unneeded", "--json").records
    own = {str(path) for path in (job / "chk-9").iterdir()}
    assert {row["path"] for row in rows if row["note"]} == own
    assert {Path(row["path"]).parent for row in rows if not row["note"]} == {job / "shared"}
    assert sizes(job) == there


@pytest.mark.parametrize("what", ["damaged", "deep", "link"])
def test_nothing_is_unneeded_as_long_as_that_is_not_certain(run: Run, job: Path, what: str) -> None:
    shutil.rmtree(job / "chk-8")
    if what == "damaged":
        (job / "chk-9" / "_metadata").write_bytes(b"damaged")
    elif what == "deep":
        deep = job / "a" / "b" / "c" / "d" / "e"
        deep.parent.mkdir(parents=True)
        (job / "chk-9").rename(deep)
    else:
        (job / "shared" / "other").symlink_to(job / "chk-9")
    done = run("retained", job, "--unneeded", "--json")
    assert done.records == []
    assert "which files none needs is not known, and none is listed: " in done.err


def test_paths_out_of_the_folder_are_not_opened(run: Run, job: Path, tmp_path: Path) -> None:
    for path in (job / "shared").iterdir():
        path.rename(tmp_path / path.name)
    rows = run("retained", job, "--json").records
    assert all(row["outside"] > 0 and row["shared"] == 0 for row in rows)
    assert run("retained", tmp_path / "missing").code == 2


def test_the_function_has_the_same_rows(run: Run, job: Path) -> None:
    shutil.rmtree(job / "chk-8")
    for unneeded in (False, True):
        rows = run("retained", job.parent, "--json", *["--unneeded"] * unneeded).records
        found = pyspark_savepoint.open_retained(job.parent, unneeded=unneeded)
        assert rows
        assert [row["path"] for row in found.rows()] == [row["path"] for row in rows]
        column = "bytes" if unneeded else "alone"
        assert [row[column] for row in found.rows()] == [row[column] for row in rows]


def test_the_function_says_what_is_not_known(job: Path) -> None:
    (job / "chk-9" / "_metadata").write_bytes(b"damaged")
    with pytest.warns(SavepointWarning, match="is not known, and none is listed"):
        assert pyspark_savepoint.open_retained(job.parent, unneeded=True).to_arrow().num_rows == 0
