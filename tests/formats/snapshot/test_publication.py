"""Files appear whole or not at all; of two writers one wins; a full disk is reported as such."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest
from pyarrow import fs as arrow_fs

from pyspark_savepoint.formats.errors import ConcurrentWriteError, OutputError, SavepointError, SavepointWarning
from pyspark_savepoint.formats.filesystems.arrow_store import ArrowOutputFile, ArrowStore
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem, RemoteFileSystem
from pyspark_savepoint.formats.io import outputs
from pyspark_savepoint.formats.io.snapshot_files import Published, SnapshotFileSystem
from pyspark_savepoint.formats.metadata import CheckpointMetadata, OperatorState, OperatorSubtaskState, write_metadata
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, KeyGroupRangeOffsets
from pyspark_savepoint.formats.metadata.keyed_handles import KeyGroupsSavepointStateHandle
from pyspark_savepoint.formats.metadata.stream_handles import RelativeFileStateHandle
from pyspark_savepoint.formats.snapshot.leftovers import warn_of_leftovers
from pyspark_savepoint.formats.snapshot.publication import (
    Staging,
    fingerprint,
    finish,
    publish_metadata,
    read_published,
    read_unchanged,
    roll_back,
)


class OnDisk(RemoteFileSystem):
    """pyarrow's own local file system, without renames and conditions, so that its files can be looked at and denied.

    Real stores, and each fault that one can answer with, are in ``tests/remote/test_publication.py``.
    """

    __slots__ = ()

    @property
    def store(self) -> ArrowStore:
        return ArrowStore(arrow_fs.LocalFileSystem(), "", self.uri(""), "a local file system has no conditions")

    def open_output(self, path: str, *, durable: bool = True) -> ArrowOutputFile:
        Path(path).parent.mkdir(parents=True, exist_ok=True)  # as object stores have it: a file makes its folders
        return self.store.create(path)


SYSTEMS = [LocalFileSystem(), OnDisk("s3", "bucket")]
systems = pytest.mark.parametrize("system", SYSTEMS, ids=["local", "pyarrow"])


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# -- files --------------------------------------------------------------------------------------------------


@systems
def test_a_file_is_written_from_the_front(tmp_path: Path, system: SnapshotFileSystem) -> None:
    file = system.open_output(str(tmp_path / "a"))
    file.write(b"abc")
    file.write(memoryview(bytearray(b"def")))
    assert file.size == 6
    file.close()
    file.abort()
    assert (tmp_path / "a").read_bytes() == b"abcdef"


@systems
def test_an_aborted_file_leaves_nothing(tmp_path: Path, system: SnapshotFileSystem) -> None:
    file = system.open_output(str(tmp_path / "a"))
    file.write(b"abc")
    file.abort()
    file.abort()
    assert names(tmp_path) == []


def test_a_new_file_replaces_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(OutputError, match=r"cannot be written(.|\n)*exists"):
        LocalFileSystem().open_output(str(tmp_path / "a"))
    (tmp_path / "b").write_bytes(b"new")
    with pytest.raises(OutputError, match="exists"):
        LocalFileSystem().move(str(tmp_path / "b"), str(tmp_path / "a"))
    assert (tmp_path / "a").read_bytes() == b"old"


def test_folders_come_and_go(tmp_path: Path) -> None:
    system, folder = LocalFileSystem(), str(tmp_path / "a" / "b")
    system.create_directory(folder)
    system.create_directory(folder)
    system.delete_empty_directory(str(tmp_path / "a"))
    assert names(tmp_path) == ["a", "a/b"]
    system.delete_empty_directory(folder)
    assert names(tmp_path) == ["a"]
    system.delete_directory(str(tmp_path / "a"))
    system.delete_directory(str(tmp_path / "a"))
    system.delete_file(str(tmp_path / "none"))
    assert names(tmp_path) == []


def test_object_stores_have_folders_of_files_only(tmp_path: Path) -> None:
    system, folder = SYSTEMS[1], str(tmp_path / "a")
    system.create_directory(folder)
    assert names(tmp_path) == []
    system.open_output(f"{folder}/b").close()
    system.delete_directory(folder)
    system.delete_directory(folder)
    system.delete_file(str(tmp_path / "none"))
    assert names(tmp_path) == []


def test_who_may_not_write_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match="cannot be written"):
        LocalFileSystem().create_directory(str(tmp_path / "file" / "below"))
    with pytest.raises(OutputError, match="cannot be written"):
        LocalFileSystem().open_output(str(tmp_path / "none" / "a"))


FULL_DISK = """
import resource, signal, sys
from pyspark_savepoint.formats.errors import OutputError
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
file = LocalFileSystem().open_output(sys.argv[1])
try:
    for _ in range(100):
        file.write(bytes(1 << 12))
except OutputError as error:
    print(error)
finally:
    file.abort()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits on files are POSIX")
def test_a_file_that_cannot_grow_says_why_and_goes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / "a")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"file: {tmp_path / 'a'}" in said
    assert "ulimit -f" in said
    assert names(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full")
def test_a_full_disk_is_said_to_be_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "CREATE_FLAGS", os.O_WRONLY)
    (tmp_path / "file").symlink_to("/dev/full")
    file = LocalFileSystem().open_output(str(tmp_path / "file"))
    with pytest.raises(OutputError, match=r"No space left(.|\n)*free space"):
        file.write(b"x")
    file.abort()
    assert names(tmp_path) == []


# -- publishing ---------------------------------------------------------------------------------------------


@systems
@pytest.mark.filterwarnings("ignore:.*published without a conditional write")
def test_a_published_file_is_not_replaced_unless_it_may_be(tmp_path: Path, system: SnapshotFileSystem) -> None:
    path = str(tmp_path / "_metadata")
    assert system.read_published(path) is None
    system.publish(path, b"one")
    with pytest.raises(ConcurrentWriteError, match="another writer has published"):
        system.publish(path, b"two")
    assert system.read_published(path) == Published(b"one")
    system.publish(path, b"three", Published(b"one"))
    assert (tmp_path / "_metadata").read_bytes() == b"three"
    assert names(tmp_path) == ["_metadata"]


def test_without_hard_links_a_name_is_taken_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    system = LocalFileSystem()
    system.publish(str(tmp_path / "a"), b"one")
    with pytest.raises(ConcurrentWriteError):
        system.publish(str(tmp_path / "a"), b"two")
    assert (tmp_path / "a").read_bytes() == b"one"
    assert names(tmp_path) == ["a"]


def test_metadata_replace_only_what_was_seen(tmp_path: Path) -> None:
    system, folder = LocalFileSystem(), str(tmp_path / "sp")
    publish_metadata(Staging.at(folder), b"one", None)
    seen = fingerprint(read_published(system, folder))
    with pytest.raises(ConcurrentWriteError, match="another writer published a savepoint at this path"):
        publish_metadata(Staging.at(folder), b"two", None)
    publish_metadata(Staging.at(folder), b"two", seen)
    with pytest.raises(ConcurrentWriteError):
        publish_metadata(Staging.at(folder), b"three", seen)
    assert read_published(system, folder) == b"two"
    (tmp_path / "sp" / "_metadata").unlink()
    with pytest.raises(ConcurrentWriteError, match="does not exist any more"):
        publish_metadata(Staging.at(folder), b"three", seen)


def test_a_write_goes_by_the_metadata_that_it_was_planned_with(tmp_path: Path) -> None:
    staging = Staging.at(str(tmp_path), TOKEN)
    (tmp_path / "_metadata").write_bytes(b"planned with")
    seen = fingerprint(b"planned with")
    assert read_unchanged(staging, seen) == b"planned with"
    (tmp_path / "_metadata").write_bytes(b"of another writer")
    with pytest.raises(ConcurrentWriteError, match=r"another writer changed the savepoint(.|\n)*write again"):
        read_unchanged(staging, seen)
    (tmp_path / "_metadata").unlink()
    with pytest.raises(ConcurrentWriteError):
        read_unchanged(staging, seen)


def test_of_many_writers_at_once_one_wins(tmp_path: Path) -> None:
    system, folder = LocalFileSystem(), str(tmp_path / "sp")
    publish_metadata(Staging.at(folder), b"base", None)
    seen = fingerprint(b"base")
    start, won, lost = threading.Barrier(8), [], []

    def writer(number: int) -> None:
        start.wait()
        try:
            publish_metadata(Staging.at(folder), b"%d" % number, seen)
            won.append(number)
        except ConcurrentWriteError:
            lost.append(number)

    threads = [threading.Thread(target=writer, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 7)
    assert read_published(system, folder) == b"%d" % won[0]
    assert names(tmp_path / "sp") == ["_metadata"]


# -- staging ------------------------------------------------------------------------------------------------


@systems
def test_files_are_staged_adopted_and_discarded(tmp_path: Path, system: SnapshotFileSystem) -> None:
    staging = Staging(system, str(tmp_path), "token")
    kept, lost = staging.unique("0"), staging.unique("0")
    for name in (kept, lost):
        file = staging.create_state(name)
        file.write(b"state")
        file.close()
    work = staging.create_work("run")
    work.close()
    staging.adopt([kept])
    staging.discard([kept])
    assert names(tmp_path) == [kept]
    staging.discard()
    assert names(tmp_path) == []


@systems
def test_parts_wait_for_whoever_publishes_them(tmp_path: Path, system: SnapshotFileSystem) -> None:
    whole = Staging(system, str(tmp_path), "token")
    part, other = (Staging(system, str(tmp_path), "token", name) for name in ("a", "b"))
    name = part.unique("0")
    for staging, named in ((part, name), (part, part.unique("0")), (other, other.unique("0"))):
        file = staging.create_state(named)
        file.close()
    part.adopt([name])
    part.discard([name])
    other.discard()
    assert system.info(whole.state_path(name)) is not None
    whole.adopt([name])
    whole.discard([name])
    assert names(tmp_path) == [name]


def test_a_late_task_finds_no_folder(tmp_path: Path) -> None:
    staging = Staging(LocalFileSystem(), str(tmp_path), "token").begin()
    file = staging.create_state("a")
    staging.discard()
    for create in (staging.create_state, staging.create_work):
        with pytest.raises(SavepointError, match="cannot be written"):
            create("b")
    file.abort()
    assert names(tmp_path) == []


def metadata_of(*files: str) -> CheckpointMetadata:
    """A savepoint with a file of its own for each key group."""
    handles = [
        KeyGroupsSavepointStateHandle(KeyGroupRangeOffsets(KeyGroupRange(i, i), (0,)), RelativeFileStateHandle(name, 1))
        for i, name in enumerate(files)
    ]
    subtasks = {i: OperatorSubtaskState(managed_keyed_state=handle) for i, handle in enumerate(handles)}
    return CheckpointMetadata(4, 0, (), (OperatorState(OperatorID(bytes(16)), 3, 3, subtasks=subtasks),))


TOKEN, EARLIER = "0123456789ab", "ba9876543210"
OLD, KEPT, NEW = f"{EARLIER}-0-00000000", f"{EARLIER}-copy-1", f"{TOKEN}-op1-0-11111111"
OF_FLINK = "0e0a4e0c-33a7-4f3a-8d3e-0d6f8f1f2a3b"


def test_files_that_nothing_names_any_more_are_deleted_if_they_are_state(tmp_path: Path) -> None:
    """A savepoint from elsewhere may refer to any file beside it: such files stay, and are listed."""
    outside = tmp_path / "outside"
    outside.write_bytes(b"")
    folder = tmp_path / "sp"
    folder.mkdir()
    for name in (OLD, KEPT, OF_FLINK, "id_rsa", "_metadata"):
        (folder / name).write_bytes(b"")
    before = metadata_of(OLD, KEPT, OF_FLINK, "id_rsa", "_metadata", "../outside")
    with pytest.warns(SavepointWarning, match=r"\.\./outside, _metadata, id_rsa"):
        finish(Staging.at(str(folder), TOKEN), before, metadata_of(KEPT), 0)
    assert names(folder) == ["_metadata", KEPT, "id_rsa"]
    assert outside.exists()


def test_files_that_were_replaced_stay_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (OLD, KEPT, NEW):
        (tmp_path / name).write_bytes(b"")
    before, after = metadata_of(OLD, KEPT), metadata_of(KEPT, NEW)
    finish(Staging.at(str(tmp_path), TOKEN), before, after, 60)
    assert [name for name in names(tmp_path) if not name.startswith(".replaced")] == sorted([OLD, KEPT, NEW])
    finish(Staging.at(str(tmp_path), "cdcdcdcdcdcd"), after, after, 60)
    assert (tmp_path / OLD).exists()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 61)
    finish(Staging.at(str(tmp_path), "cdcdcdcdcdcd"), after, after, 60)
    assert names(tmp_path) == sorted([KEPT, NEW])


@pytest.mark.parametrize("text", [b"", b"{", b"7", b'[1, null, {"a": 1}]', b"[" * 100_000, b'["../x", "id_rsa"]'])
def test_a_record_from_elsewhere_deletes_nothing_but_state(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "id_rsa").write_bytes(b"")
    (tmp_path / ".replaced-1-0123456789ab").write_bytes(text)
    finish(Staging.at(str(tmp_path), TOKEN), metadata_of(KEPT), metadata_of(KEPT), 60)
    assert names(tmp_path) == ["id_rsa"]


# -- faults -------------------------------------------------------------------------------------------------


def published(folder: Path) -> Staging:
    """A write that published a savepoint over an older one."""
    staging = Staging.at(str(folder), TOKEN)
    staging.filesystem.create_directory(str(folder))
    for name in (OLD, NEW):
        (folder / name).write_bytes(b"")
    (folder / "_metadata").write_bytes(write_metadata(metadata_of(NEW)))
    return staging


def test_a_write_that_is_published_cannot_be_rolled_back(tmp_path: Path) -> None:
    staging = published(tmp_path)
    (tmp_path / f"{TOKEN}-7-22222222").write_bytes(b"")
    assert roll_back(staging)
    assert names(tmp_path) == sorted(["_metadata", OLD, NEW])
    assert not roll_back(Staging.at(str(tmp_path), EARLIER))
    assert names(tmp_path) == sorted(["_metadata", NEW])


def test_what_cannot_be_read_is_not_cleaned_up(tmp_path: Path) -> None:
    staging = published(tmp_path)
    (tmp_path / "_metadata").write_bytes(b"damaged")
    with pytest.warns(SavepointWarning, match="files that no savepoint needs"):
        assert not roll_back(staging)
    assert names(tmp_path) == sorted(["_metadata", OLD, NEW])


def test_deletions_that_fail_are_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staging = published(tmp_path)

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "unlink", denied)
    monkeypatch.setattr(shutil, "rmtree", denied)
    with pytest.warns(SavepointWarning, match=rf"{OLD}(.|\n)*Permission denied"):
        finish(staging, metadata_of(OLD), metadata_of(NEW), 0)
    assert (tmp_path / NEW).exists()


@pytest.mark.parametrize("fault", ["before", "after"])
def test_a_publication_that_fails_late_is_found_by_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """The link may exist or not: the error does not show which."""
    link = os.link

    def failing(source: str, target: str) -> None:
        if fault == "after":
            link(source, target)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "link", failing)
    staging = Staging.at(str(tmp_path), TOKEN)
    (tmp_path / NEW).write_bytes(b"")
    if fault == "after":
        publish_metadata(staging, write_metadata(metadata_of(NEW)), None)
        assert roll_back(staging)
        assert names(tmp_path) == sorted(["_metadata", NEW])
    else:
        with pytest.raises(OutputError, match="Input/output"):
            publish_metadata(staging, write_metadata(metadata_of(NEW)), None)
        assert not roll_back(staging)
        assert names(tmp_path) == []


def test_a_warning_that_is_made_an_error_does_not_fail_what_is_published() -> None:
    filesystem, directory = LocalFileSystem(), "/somewhere"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_leftovers(filesystem, directory, "a file cannot be deleted")
    with pytest.warns(SavepointWarning, match="a file cannot be deleted"):
        warn_of_leftovers(filesystem, directory, "a file cannot be deleted")
