"""Leftovers of dead writers are deleted, and nothing else."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from pyspark_savepoint import Savepoint
from pyspark_savepoint.formats.errors import CorruptStateError, OptionError, SavepointWarning, SnapshotNotFoundError
from pyspark_savepoint.formats.metadata import write_metadata
from pyspark_savepoint.formats.snapshot.vacuum import vacuum
from tests.formats.snapshot.test_publication import KEPT, NEW, OF_FLINK, OLD, TOKEN, metadata_of, names

DAY = 86_400
DEAD, BUSY = "dddddddddddd", "bbbbbbbbbbbb"


def aged(path: Path, days: float, data: bytes = b"1234") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    at = time.time() - days * DAY
    for part in (path, path.parent):
        os.utime(part, (at, at))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A savepoint; what a dead writer, a busy one, an overwrite and others left beside it, all of it old but little."""
    aged(tmp_path / "_metadata", 9, write_metadata(metadata_of(KEPT, NEW)))
    for name in (KEPT, NEW, OF_FLINK, "_checksums", "id_rsa", "notes-1", f"{DEAD}-notes.txt", f"{DEAD}"):
        aged(tmp_path / name, 9)
    aged(tmp_path / f".pending-{DEAD}" / "a.d" / f"{DEAD}-a-run-00000000", 5)
    aged(tmp_path / f"{DEAD}-0-00000000", 5)
    aged(tmp_path / f"._metadata.{DEAD}", 5)
    aged(tmp_path / f".pending-{BUSY}" / f"{BUSY}-run-00000000", 5)
    aged(tmp_path / f".pending-{BUSY}" / f"{BUSY}-run-11111111", 0)
    aged(tmp_path / f"{BUSY}-0-00000000", 5)
    aged(tmp_path / ".pending-of-somebody" / "x", 9)
    return tmp_path


GONE = {f".pending-{DEAD}": "pending", f"{DEAD}-0-00000000": "unreferenced", f"._metadata.{DEAD}": "temporary"}


def test_what_a_dead_writer_left_is_found_and_removed(folder: Path) -> None:
    before = names(folder)
    dry = Savepoint.vacuum(str(folder), dry_run=True)
    assert names(folder) == before
    removed = Savepoint.vacuum(str(folder), timedelta(days=1))
    assert removed == dry
    assert {Path(left.path).name: left.kind for left in removed} == GONE
    assert all(left.size == 4 and left.modified for left in removed)
    assert names(folder) == [name for name in before if DEAD not in name or name in (DEAD, f"{DEAD}-notes.txt")]
    assert Savepoint.vacuum(str(folder)) == []


def test_what_is_younger_stays(folder: Path) -> None:
    before = names(folder)
    assert vacuum(str(folder), 6 * DAY) == []
    assert names(folder) == before
    with pytest.raises(OptionError):
        vacuum(str(folder), -1)


@pytest.mark.parametrize(("until", "age", "goes"), [(-1, 2, True), (60, 2, False), (-1, 0, False)])
def test_replaced_files_go_when_their_time_is_over(tmp_path: Path, until: int, age: int, goes: bool) -> None:
    aged(tmp_path / "_metadata", 9, write_metadata(metadata_of(KEPT)))
    for name in (KEPT, OLD, OF_FLINK, "id_rsa"):
        aged(tmp_path / name, 9)
    record = f".replaced-{int(time.time()) + until}-{TOKEN}"
    aged(tmp_path / record, age, f'["{OLD}", "{OF_FLINK}", "{KEPT}", "id_rsa", "../x"]'.encode())
    before = names(tmp_path)
    removed = [Path(left.path).name for left in vacuum(str(tmp_path), DAY)]
    assert removed == (sorted([record, OLD, OF_FLINK]) if goes else [])
    assert names(tmp_path) == [name for name in before if name not in removed]


def test_nothing_is_removed_where_it_is_not_known_what_is_needed(folder: Path, tmp_path: Path) -> None:
    (folder / "_metadata").write_bytes(b"damaged")
    before = names(folder)
    with pytest.raises(CorruptStateError):
        vacuum(str(folder), 0)
    assert names(folder) == before
    with pytest.raises(SnapshotNotFoundError):
        vacuum(str(tmp_path / "none"), 0)
    (tmp_path / "of others").mkdir()
    assert vacuum(str(tmp_path / "of others"), 0) == []
    (tmp_path / "of others" / "notes.txt").touch()
    with pytest.raises(SnapshotNotFoundError, match="is not a savepoint") as caught:
        vacuum(str(tmp_path / "of others"), 0)
    assert caught.value.facts["found"] == "notes.txt"


def test_what_cannot_be_removed_is_a_warning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "unlink", denied)
    with pytest.warns(SavepointWarning, match="Permission denied"):
        removed = vacuum(str(folder), DAY)
    assert f"{DEAD}-0-00000000" not in {Path(left.path).name for left in removed}
