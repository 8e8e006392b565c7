"""File systems: which one a path is on, and how local files are read."""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from pyarrow import fs as arrow_fs

from pyspark_savepoint.formats.errors import (
    AccessDeniedError,
    CorruptStateError,
    OptionError,
    SavepointError,
    SnapshotNotFoundError,
    StateFileNotFoundError,
    StorageError,
    UnsafePathError,
)
from pyspark_savepoint.formats.filesystems import filesystem
from pyspark_savepoint.formats.filesystems.arrow_store import ArrowStore
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem, RemoteFileSystem, is_encodable, locate
from pyspark_savepoint.formats.filesystems.storage_options import StorageOptions, StoragePath
from pyspark_savepoint.formats.io.local_files import local_error
from pyspark_savepoint.formats.io.snapshot_files import Anchor
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/a/b", "/a/b"),
        ("/a//b/./c/", "/a/b/c"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b/", "/a/b"),
        ("file://localhost/a b%20c", "/a b%20c"),
        ("FILE:/a", "/a"),
        ("dbfs:/Volumes/main/x", "/Volumes/main/x"),
        ("dbfs:/x/y", "/dbfs/x/y"),
    ],
)
def test_local_paths(text: str, path: str) -> None:
    assert locate(text) == (LocalFileSystem(), path)


def test_relative_paths_are_made_absolute() -> None:
    assert locate("some/savepoint")[1] == os.path.abspath("some/savepoint")


@pytest.mark.parametrize(
    ("text", "scheme", "authority", "path"),
    [
        ("s3://bucket/key/x/", "s3", "bucket", "/key/x"),
        ("s3a://bucket/key", "s3", "bucket", "/key"),
        ("gs://bucket/k", "gs", "bucket", "/k"),
        ("abfss://c@acc.dfs.core.windows.net/p/q", "abfss", "c@acc.dfs.core.windows.net", "/p/q"),
        ("hdfs://namenode:8020/p", "hdfs", "namenode:8020", "/p"),
        ("hdfs:///p", "hdfs", "", "/p"),
        ("s3://bucket", "s3", "bucket", "/"),
    ],
)
def test_remote_paths(text: str, scheme: str, authority: str, path: str) -> None:
    assert locate(text) == (RemoteFileSystem(scheme, authority), path)
    assert locate(text)[0].uri(path) == f"{scheme}://{authority}{path}"


def test_options_of_a_store_belong_to_the_file_system_but_not_to_its_identity() -> None:
    path = pickle.loads(pickle.dumps(StoragePath.of("s3://bucket/key", '{"endpoint": "http://localhost:9000/"}')))
    found, located = locate(path)
    assert (path, located) == ("s3://bucket/key", "/key")
    assert isinstance(found, RemoteFileSystem)
    assert pickle.loads(pickle.dumps(found)).options == StorageOptions(endpoint="http://localhost:9000")
    assert found == RemoteFileSystem("s3", "bucket")


def test_other_schemes_and_machines_are_option_errors() -> None:
    with pytest.raises(OptionError, match="no file system"):
        locate("ftp://host/x")
    with pytest.raises(OptionError, match="another machine"):
        locate("file://host/x")


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_names_that_no_file_can_have(name: str) -> None:
    assert not is_encodable(name)
    with pytest.raises(UnsafePathError):
        locate("/tmp/" + name)


def test_a_local_file_is_read_into_any_buffer(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(bytes(range(100)))
    opened = LocalFileSystem().open_input(str(file))
    assert opened.size == 100
    array = np.zeros(10, np.uint8)
    opened.read_into(5, array[2:])
    assert array.tolist() == [0, 0, 5, 6, 7, 8, 9, 10, 11, 12]
    wide = np.zeros(2, np.int64)
    opened.read_into(0, wide)
    assert wide.tobytes() == bytes(range(16))
    with pytest.raises(CorruptStateError, match="truncated") as raised:
        opened.read_into(95, bytearray(10))
    assert raised.value.facts["path"] == str(file)
    opened.close()


def test_listing_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"123")
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    listed = {info.name: (info.is_directory, info.size) for info in LocalFileSystem().list(str(tmp_path))}
    assert set(listed) == {"file", "folder", "link"}
    assert listed["file"] == (False, 3)
    assert listed["folder"][0]
    assert not listed["link"][0]


def test_what_is_not_there_is_none_or_an_error_of_ours(tmp_path: Path) -> None:
    local = LocalFileSystem()
    (tmp_path / "file").write_bytes(b"")
    for missing in ("nothing", "file/below", "x" * 5000):
        assert local.info(str(tmp_path / missing)) is None
        with pytest.raises(StateFileNotFoundError):
            local.open_input(str(tmp_path / missing))


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(UnsafePathError, match="not a regular file"):
            LocalFileSystem().open_input(str(tmp_path / name))


def test_links_may_stay_inside_but_not_lead_outside(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.write_bytes(b"secret")
    (inside / "data").write_bytes(b"data")
    (inside / "good").symlink_to(inside / "data")
    (inside / "bad").symlink_to(outside)
    (inside / "loop").symlink_to(inside / "loop")
    local, anchor = LocalFileSystem(), Anchor(str(inside))
    local.open_input(str(inside / "good"), anchor).close()
    for name in ("bad", "loop"):
        with pytest.raises(UnsafePathError):
            local.open_input(str(inside / name), anchor)
    local.open_input(str(inside / "bad")).close()  # without an anchor it is the user's own word


def test_a_folder_that_becomes_another_is_resolved_again(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "state").write_bytes(name.encode())
    latest = tmp_path / "latest"
    local, anchor, sizes = LocalFileSystem(), Anchor(str(latest)), []
    for name in ("first", "second"):
        latest.unlink(missing_ok=True)
        latest.symlink_to(tmp_path / name)
        with contextlib.closing(local.open_input(str(latest / "state"), anchor)) as opened:
            sizes.append(opened.size)
    assert sizes == [len("first"), len("second")]
    (tmp_path / "second").rename(tmp_path / "first-no-more")
    latest.unlink()
    latest.symlink_to(tmp_path / "first-no-more")
    local.open_input(str(latest / "state"), anchor).close()


def test_a_folder_of_an_anchor_may_not_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x").write_bytes(b"x")
    (tmp_path / "root" / "shared").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafePathError):
        LocalFileSystem().open_input(str(tmp_path / "root" / "shared" / "x"), Anchor(str(tmp_path / "root"), "shared"))


def test_pyarrow_file_systems_read_list_and_pickle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The description is of a real pyarrow file system over local files, so no network is needed."""
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "x").write_bytes(bytes(range(50)))
    store = ArrowStore(arrow_fs.LocalFileSystem(), str(tmp_path), "s3://bucket", "")
    monkeypatch.setattr(filesystem, "store_of", lambda _: store)
    remote = RemoteFileSystem("s3", "bucket")
    assert pickle.loads(pickle.dumps(remote)) == remote
    (entry,) = remote.list("/dir")
    assert (entry.path, entry.size, entry.is_directory) == ("/dir/x", 50, False)
    info = remote.info("/dir")
    assert info is not None
    assert info.is_directory
    assert remote.info("/none") is None
    opened = remote.open_input("/dir/x")
    buffer = bytearray(5)
    opened.read_into(10, buffer)
    assert (opened.size, opened.path, bytes(buffer)) == (50, "s3://bucket/dir/x", bytes(range(10, 15)))
    with pytest.raises(CorruptStateError):
        opened.read_into(48, buffer)
    opened.close()
    with pytest.raises(StateFileNotFoundError):
        remote.open_input("/dir/none")


@pytest.mark.parametrize(
    ("number", "kind", "message"),
    [
        (errno.EACCES, AccessDeniedError, "no permission"),
        (errno.EPERM, AccessDeniedError, "no permission"),
        (errno.EIO, StorageError, "cannot read"),
        (errno.ESTALE, StorageError, "cannot read"),
        (errno.ENOENT, StateFileNotFoundError, "is missing"),
        (errno.ELOOP, UnsafePathError, "link"),
    ],
)
def test_what_the_operating_system_says(number: int, kind: type[SavepointError], message: str) -> None:
    error = local_error(OSError(number, os.strerror(number)), "/x")
    assert type(error) is kind
    assert message in error.message
    assert error.facts["path"] == "/x"


def test_a_folder_that_is_gone_is_no_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(StateFileNotFoundError):
        LocalFileSystem().list(str(tmp_path / "gone"))


def test_dbfs_that_is_not_mounted_is_said() -> None:
    with pytest.raises(SnapshotNotFoundError) as raised:
        Snapshot.open("dbfs:/some/savepoint")
    assert "/Volumes/" in raised.value.facts["remedy"]
