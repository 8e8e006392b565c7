"""Intermediate files of a write to a store stay on the machine that commits, as long as its disk takes them."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import pytest

from pyspark_savepoint.formats.filesystems.filesystem import locate
from pyspark_savepoint.formats.filesystems.storage_options import StorageOptions, StoragePath
from pyspark_savepoint.formats.snapshot.near_files import MAX_AGE, PREFIX, NearFolder
from pyspark_savepoint.formats.snapshot.publication import Staging
from tests.remote.measured_store import MeasuredStore

DATA = os.urandom(300_000)


def staging_of(store: MeasuredStore, near: NearFolder | None) -> Staging:
    path = StoragePath.of("s3://bucket/new", StorageOptions.of({"endpoint": store.endpoint}))
    filesystem, directory = locate(path)
    return Staging(filesystem, directory, "0123456789ab", begun=True, near=near)


def written(staging: Staging, *parts: bytes) -> bytes:
    """Write a file in parts, and read it as the commit does."""
    file = staging.create_work("run")
    for part in parts:
        file.write(part)
    file.close()
    assert file.size == sum(map(len, parts))
    opened = staging.open_work("run")
    data = bytearray(opened.size)
    opened.read_into(0, data)
    opened.close()
    return bytes(data)


def test_a_file_is_local_and_gone_in_the_end(measured: MeasuredStore) -> None:
    near = NearFolder.make()
    assert near is not None
    staging = staging_of(measured, near)
    assert written(staging, DATA[:1000], DATA[1000:]) == DATA
    assert measured.requests == []
    assert os.stat(near.path).st_mode & 0o077 == 0
    staging.delete_work("run")
    assert os.listdir(near.path) == []
    near.remove()
    near.remove()
    assert not Path(near.path).exists()


def test_a_task_of_another_machine_writes_to_the_store(measured: MeasuredStore, tmp_path: Path) -> None:
    staging = staging_of(measured, NearFolder(str(tmp_path / "not-here")))
    assert written(staging, DATA) == DATA
    assert measured.kinds() == {"PUT": 1, "GET": 2}
    staging.delete_work("run")
    assert measured.objects == {}


def test_a_full_disk_moves_the_file_to_the_store(measured: MeasuredStore) -> None:
    near = NearFolder.make()
    assert near is not None
    staging = staging_of(measured, near)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        assert written(staging, *(DATA[low : low + 70_000] for low in range(0, len(DATA), 70_000))) == DATA
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert measured.kinds()["PUT"] == 1
    assert os.listdir(near.path) == []
    near.remove()


def test_folders_of_killed_processes_are_removed_after_a_week(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those in which nothing has changed; neither new ones nor what others named so."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    old, used, other = (NearFolder.make() for _ in range(3))
    assert old is not None
    assert used is not None
    assert other is not None
    link, file = tmp_path / f"{PREFIX}link", tmp_path / f"{PREFIX}file"
    link.symlink_to(other.path)
    file.write_text("x")
    for near in (old, used):
        (Path(near.path) / "run").write_text("x")
    past = time.time() - MAX_AGE - 10
    for path in (Path(old.path, "run"), Path(old.path), Path(used.path), file):
        os.utime(path, (past, past))
    new = NearFolder.make()
    assert new is not None
    assert {one.name for one in tmp_path.iterdir()} == {Path(near.path).name for near in (used, other, new)} | {
        link.name,
        file.name,
    }
