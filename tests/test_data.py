"""The data sets: archives that equal files make equal, unpacked once, by however many processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests import data

ROOT = Path(__file__).parents[1]


def unpacking(home: Path) -> subprocess.Popen[str]:
    """A process that unpacks all data sets for a user with this home."""
    command = [sys.executable, "-m", "tests.data"]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "HOME": str(home)}, stdout=subprocess.PIPE, text=True)


def test_archives_are_plain() -> None:
    archives = data.archives()
    assert {path.name.partition(".")[0] for path in archives} >= {"connectors", "history", "lab", "migration", "real"}
    for archive in archives:
        assert archive.stat().st_size < 1_000_000
        with tarfile.open(archive) as tar:
            for entry in tar:
                assert entry.name.startswith(archive.name.partition(".")[0] + "/")
                assert (entry.mtime, entry.uid, entry.gid, entry.uname) == (0, 0, 0, "")
                assert entry.mode == (0o755 if entry.isdir() else 0o644)


def test_equal_files_make_equal_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "ARCHIVES", tmp_path)
    made = []
    for name, mode in (("one", 0o600), ("two", 0o755)):
        (tmp_path / name / "chk-1").mkdir(parents=True)
        (tmp_path / name / "taskowned").mkdir()
        (tmp_path / name / "chk-1" / "_metadata").write_bytes(b"state")
        (tmp_path / name / "chk-1" / "_metadata").chmod(mode)
        os.utime(tmp_path / name / "chk-1" / "_metadata", (mode, mode))
        made.append(data.pack("set", tmp_path / name).read_bytes())
    assert made[0] == made[1]
    data.unpack(tmp_path / "out")
    assert (tmp_path / "out" / "set" / "chk-1" / "_metadata").read_bytes() == b"state"
    assert (tmp_path / "out" / "set" / "chk-1" / "_metadata").stat().st_mtime == data.TIME
    assert (tmp_path / "out" / "set" / "taskowned").is_dir()
    with pytest.raises(ValueError, match="no files"):
        data.pack("set", tmp_path / "two" / "taskowned")


@pytest.mark.thorough  # data sets are unpacked by many processes
def test_processes_that_unpack_at_once_share_one_folder(tmp_path: Path) -> None:
    processes = [unpacking(tmp_path) for _ in range(3)]
    (folder,) = {process.communicate()[0].strip() for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert list(Path(folder).parent.iterdir()) == [Path(folder)], "nothing is left of those that came second"
    assert (Path(folder) / "lab" / "2.2.1-hashmap-canonical" / "expected.json").exists()


def test_without_a_home_they_are_in_a_temporary_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    process = unpacking(tmp_path / "file")
    folder = process.communicate()[0].strip()
    assert process.returncode == 0
    assert "pyspark-savepoint-test-data-" in folder
    assert not Path(folder).exists(), "it ends with the process"
