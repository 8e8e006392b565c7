"""Opening snapshots: real ones in place, moved, incomplete and hostile ones."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.errors import (
    CorruptStateError,
    OperatorNotFoundError,
    OptionError,
    SavepointError,
    SnapshotNotFoundError,
    StateFileNotFoundError,
    UnsafePathError,
)
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem, absolute
from pyspark_savepoint.formats.metadata import CheckpointMetadata, OperatorState, SnapshotKind, write_metadata
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.keyed_handles import (
    ChangelogStateBackendHandle,
    IncrementalRemoteKeyedStateHandle,
    InMemoryChangelogStateHandle,
)
from pyspark_savepoint.formats.metadata.stream_handles import (
    ByteStreamStateHandle,
    CheckpointedStateScope,
    EmptySegmentFileStateHandle,
    FileStateHandle,
    KeyGroupsStreamStateHandle,
    RelativeFileStateHandle,
    SegmentFileStateHandle,
    StreamStateHandle,
)
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot, find_snapshots
from pyspark_savepoint.formats.snapshot.snapshot_location import SnapshotLocation
from tests.data import every_metadata

CANONICAL = "lab/2.2.1-hashmap-canonical/savepoint"
INCREMENTAL = "lab/2.2.1-rocksdb-incr-checkpoint"


def streams(handle: Any) -> Iterator[StreamStateHandle]:
    """All stream handles that a state handle leads to."""
    match handle:
        case ChangelogStateBackendHandle():
            for part in handle.materialized + handle.non_materialized:
                yield from streams(part)
        case IncrementalRemoteKeyedStateHandle():
            yield handle.meta_state
            yield from (file.handle for file in handle.shared_state + handle.private_state)
        case InMemoryChangelogStateHandle():
            return
        case _:
            yield handle.delegate


def check_all_state(savepoint: Snapshot) -> int:
    """Open the bytes of every handle; the number of them."""
    count = 0
    for operator in savepoint.operators:
        for subtask in operator.subtasks.values():
            for handle in subtask.handles:
                for stream in streams(handle):
                    with savepoint.open_state(stream, operator) as source:
                        assert source.size == stream.state_size
                        data = bytearray(source.size)
                        source.read_into(0, data)
                        assert source.read(source.size // 2, source.size - source.size // 2) == data[source.size // 2 :]
                    count += 1
    return count


def test_every_state_of_every_real_snapshot_is_found() -> None:
    count = 0
    for metadata in every_metadata():
        savepoint = Snapshot.open(str(metadata.parent))
        assert pickle.loads(pickle.dumps(savepoint)) == savepoint
        count += check_all_state(savepoint)
    assert count > 2000


@pytest.mark.parametrize("suffix", ["", "/", "/_metadata"])
@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_a_path_is_a_folder_or_its_metadata(corpus: Path, prefix: str, suffix: str) -> None:
    savepoint = Snapshot.open(f"{prefix}{corpus.resolve() / CANONICAL}{suffix}")
    assert savepoint.path == str((corpus / CANONICAL).resolve())
    assert savepoint.kind is SnapshotKind.CANONICAL_SAVEPOINT


def test_a_metadata_file_may_have_any_name(corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(corpus / CANONICAL, tmp_path / "sp")
    (tmp_path / "sp" / "_metadata").rename(tmp_path / "sp" / "renamed")
    assert check_all_state(Snapshot.open(str(tmp_path / "sp" / "renamed"))) > 10


# -- several snapshots --------------------------------------------------------------------------------------


def test_a_folder_of_snapshots_lists_them(corpus: Path) -> None:
    (found,) = find_snapshots(str(corpus / INCREMENTAL))
    assert found.path.endswith("/chk-2")
    assert (found.checkpoint_id, found.kind, found.problem) == (2, SnapshotKind.CHECKPOINT, None)
    assert found.size == Snapshot.open(found.path).metadata.state_size
    assert find_snapshots(found.path) == find_snapshots(found.path + "/_metadata") == [found]
    assert len(find_snapshots(str(corpus / "migration" / "sql"))) == 19


def test_a_folder_of_snapshots_is_not_opened_but_named(corpus: Path) -> None:
    with pytest.raises(SnapshotNotFoundError, match="chk-2"):
        Snapshot.open(str(corpus / INCREMENTAL / "checkpoints"))


def test_snapshots_that_cannot_be_read_are_listed_with_their_problem(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "_metadata").write_bytes(b"nonsense")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "_metadata").write_bytes(b"not a snapshot's folder")
    (found,) = find_snapshots(str(tmp_path))
    assert found.checkpoint_id is None
    assert "not the _metadata of a Flink snapshot" in str(found.problem)


def test_paths_without_a_snapshot(tmp_path: Path) -> None:
    with pytest.raises(SnapshotNotFoundError, match="there is no snapshot in this folder"):
        Snapshot.open(str(tmp_path))
    for look in (Snapshot.open, find_snapshots):
        with pytest.raises(SnapshotNotFoundError, match="no file or folder at this path"):
            look(str(tmp_path / "none"))


# -- operators ----------------------------------------------------------------------------------------------


def test_operators_are_found_by_uid_hash_and_name(corpus: Path) -> None:
    savepoint = Snapshot.open(str(corpus / CANONICAL))
    operator = savepoint.operator(uid="kv-long")
    assert operator.uid == "kv-long"
    assert savepoint.operator(uid_hash=operator.operator_id.hex.upper()) is operator
    assert savepoint.operator(name="kv-long") is operator
    with pytest.raises(OperatorNotFoundError, match="did you mean 'kv-long'"):
        savepoint.operator(uid="kv-lnog")
    with pytest.raises(OperatorNotFoundError, match="uid hash " + "ab" * 16):
        savepoint.operator(uid_hash="ab" * 16)
    with pytest.raises(OperatorNotFoundError, match="did you mean 'kv-long'"):
        savepoint.operator(name="KV-Long")
    for wrong in ({}, {"uid": "a", "name": "b"}):
        with pytest.raises(OptionError, match="one of"):
            savepoint.operator(**wrong)


def test_older_snapshots_name_their_operators_by_hash(corpus: Path) -> None:
    savepoint = Snapshot.open(str(corpus / "lab/1.18.1-rocksdb-canonical/savepoint"))
    assert savepoint.operator(uid="kv-long").uid is None
    with pytest.raises(OperatorNotFoundError, match=r"[0-9a-f]{32}"):
        savepoint.operator(uid="nothing")
    with pytest.raises(OperatorNotFoundError, match="does not record operator names"):
        savepoint.operator(name="kv-long")


def test_an_ambiguous_name_is_refused_with_the_operators_that_have_it(corpus: Path) -> None:
    savepoint = Snapshot.open(str(corpus / CANONICAL))
    operators = tuple(replace(operator, name="same") for operator in savepoint.operators)
    doubled = replace(savepoint, metadata=replace(savepoint.metadata, operators=operators))
    with pytest.raises(OptionError, match="kv-long"):
        doubled.operator(name="same")


# -- where bytes are ----------------------------------------------------------------------------------------


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Return a job's folder of checkpoints with one checkpoint, and an unrelated file beside it."""
    job = tmp_path / "checkpoints" / "65a294ca136017d8ec4399f050e1b402"
    for folder in ("chk-2", "shared", "taskowned"):
        (job / folder).mkdir(parents=True)
        (job / folder / "x").write_bytes(folder.encode())
    (job / "chk-2" / "_metadata").write_bytes(write_metadata(CheckpointMetadata(6, 2)))
    (tmp_path / "secret").write_bytes(b"secret")
    return job


def content(job: Path, handle: StreamStateHandle, allow_outside: bool = False) -> bytes:
    savepoint = Snapshot.open(str(job / "chk-2"), allow_outside=allow_outside)
    operator = OperatorState(OperatorID(bytes(16)), 1, 1, uid="sums")
    with savepoint.open_state(handle, operator) as source:
        return source.read(0, source.size)


@pytest.mark.parametrize("folder", ["chk-2", "shared", "taskowned"])
@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_absolute_files_of_the_checkpoint_are_read(job: Path, folder: str, scheme: str) -> None:
    assert content(job, FileStateHandle(f"{scheme}{job}/{folder}/x", len(folder))) == folder.encode()


@pytest.mark.parametrize("folder", ["chk-2", "shared", "taskowned"])
@pytest.mark.parametrize(
    "root", ["file:/gone/checkpoints/65a294ca136017d8ec4399f050e1b402", "s3://b/r/other", "oss://b"]
)
def test_a_moved_checkpoint_is_rebased(job: Path, folder: str, root: str) -> None:
    assert content(job, FileStateHandle(f"{root}/{folder}/x", -1)) == folder.encode()


def test_a_copied_checkpoint_prefers_its_own_files(job: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy" / job.name
    shutil.copytree(job, copy)
    (copy / "shared" / "x").write_bytes(b"of the copy")
    assert content(copy, FileStateHandle(f"{job}/shared/x", -1)) == b"of the copy"


def test_a_real_incremental_checkpoint_reads_after_a_move(corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(corpus / INCREMENTAL / "checkpoints", tmp_path / "moved")
    (chk,) = (tmp_path / "moved").glob("*/chk-2")
    savepoint = Snapshot.open(str(chk))
    recorded = [
        stream
        for operator in savepoint.operators
        for subtask in operator.subtasks.values()
        for handle in subtask.handles
        for stream in streams(handle)
        if isinstance(stream, FileStateHandle)
    ]
    assert recorded
    assert check_all_state(savepoint) > len(recorded)


def test_files_outside_need_the_users_word(job: Path, tmp_path: Path) -> None:
    for outside in (f"{tmp_path}/secret", f"file:{job}/other", f"{job.parent}/chk-2x/y"):
        with pytest.raises(UnsafePathError, match="allowOutside") as raised:
            content(job, FileStateHandle(outside, -1))
        assert raised.value.facts["operator"].startswith("sums")
    assert content(job, FileStateHandle(f"{tmp_path}/secret", 6), allow_outside=True) == b"secret"
    with pytest.raises(StateFileNotFoundError, match="sums"):
        content(job, FileStateHandle("/nowhere/x-y-z", -1), allow_outside=True)


@pytest.mark.parametrize("path", ["/a/../b", "relative/path", "", "/", "file:", "/a\0b", "/a/\ud800"])
def test_recorded_paths_that_climb_or_lead_nowhere_are_refused(job: Path, path: str) -> None:
    for allow_outside in (False, True):
        with pytest.raises(UnsafePathError):
            content(job, FileStateHandle(path, -1), allow_outside)


@pytest.mark.parametrize("name", ["../other/x", "..", ".", "", "/etc/passwd", "a//b", "a/../x", "\0", "\udfff"])
def test_relative_handles_stay_in_the_snapshot(job: Path, name: str) -> None:
    for allow_outside in (False, True):
        with pytest.raises(UnsafePathError):
            content(job, RelativeFileStateHandle(name, -1), allow_outside)


def test_links_out_of_the_snapshot_are_refused(job: Path, tmp_path: Path) -> None:
    (job / "chk-2" / "link").symlink_to(tmp_path / "secret")
    (job / "shared" / "link").symlink_to(tmp_path / "secret")
    (job / "chk-2" / "across").symlink_to(job / "shared" / "x")
    for handle in (
        RelativeFileStateHandle("link", -1),
        RelativeFileStateHandle("across", -1),
        FileStateHandle(f"{job}/shared/link", -1),
    ):
        with pytest.raises(UnsafePathError):
            content(job, handle)


def test_a_link_to_the_snapshot_is_the_users_own(job: Path, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(job / "chk-2")
    savepoint = Snapshot.open(str(tmp_path / "latest"))
    with savepoint.open_state(FileStateHandle(f"{job}/shared/x", 6)) as source:
        assert source.read(0, 6) == b"shared"


def test_a_missing_file_is_named_with_its_operator(job: Path) -> None:
    for handle in (RelativeFileStateHandle("gone", 3), FileStateHandle(f"{job}/shared/gone", 3)):
        with pytest.raises(StateFileNotFoundError, match="gone") as raised:
            content(job, handle)
        assert raised.value.facts["operator"].startswith("sums")


def test_a_file_shorter_than_recorded_is_truncated(job: Path) -> None:
    assert content(job, RelativeFileStateHandle("x", 4)) == b"chk-2"
    with pytest.raises(CorruptStateError, match="shorter than the size in its handle") as raised:
        content(job, RelativeFileStateHandle("x", 6))
    assert raised.value.facts["expected"] == "6 bytes"
    assert raised.value.facts["found"] == "5 bytes"


def test_a_segment_is_a_part_of_a_file(job: Path) -> None:
    def segment(start: int, size: int) -> SegmentFileStateHandle:
        return SegmentFileStateHandle(f"{job}/taskowned/x", start, size, CheckpointedStateScope.EXCLUSIVE, "id")

    assert content(job, segment(4, 3)) == b"own"
    assert content(job, EmptySegmentFileStateHandle()) == b""
    with pytest.raises(CorruptStateError, match="shorter"):
        content(job, segment(4, 6))
    savepoint = Snapshot.open(str(job / "chk-2"))
    with savepoint.open_state(segment(4, 3)) as source, pytest.raises(CorruptStateError, match="after the end"):
        source.read(1, 3)


def test_inline_bytes_and_nested_handles_are_the_delegates(job: Path) -> None:
    inline = ByteStreamStateHandle("name", b"0123456789")
    assert content(job, KeyGroupsStreamStateHandle(None, inline)) == b"0123456789"  # type: ignore[arg-type]
    with Snapshot.open(str(job / "chk-2")).open_state(inline) as source:
        buffer = bytearray(4)
        source.read_into(3, memoryview(buffer)[1:])
        assert buffer == b"\x00345"
        for start, count in ((-1, 1), (8, 3), (0, 2**62), (0, -1)):
            with pytest.raises(CorruptStateError):
                source.read(start, count)


def test_locations_resolve_after_pickling(job: Path) -> None:
    location: SnapshotLocation = pickle.loads(pickle.dumps(Snapshot.open(str(job / "chk-2")).location))
    resolved = pickle.loads(pickle.dumps(location.resolve(FileStateHandle("/old/shared/x", 6), "sums")))
    with resolved.open() as source:
        assert source.read(0, 6) == b"shared"


def test_a_metadata_file_of_impossible_size_is_not_read(job: Path) -> None:
    with (job / "chk-2" / "_metadata").open("r+b") as file:
        file.truncate(1 << 40)  # sparse: it takes no room on the disk
    with pytest.raises(UnsafePathError, match="larger than Flink writes"):
        Snapshot.open(str(job / "chk-2"))


def test_a_stray_file_is_not_taken_for_its_folder(tmp_path: Path, corpus: Path) -> None:
    source = corpus / "lab" / "2.2.1-hashmap-canonical" / "savepoint" / "_metadata"
    (tmp_path / "_metadata").write_bytes(source.read_bytes())
    (tmp_path / "notes.txt").write_text("not a snapshot")
    (tmp_path / "copy-of-metadata").write_bytes(source.read_bytes())
    with pytest.raises(SavepointError):
        find_snapshots(str(tmp_path / "notes.txt"))
    for name in ("_metadata", "copy-of-metadata", ""):
        assert len(find_snapshots(str(tmp_path / name))) == 1


def test_a_path_of_windows_is_not_below_the_working_directory() -> None:
    for path in ("C:\\savepoints\\sp", "d:/savepoints/sp"):
        with pytest.raises(OptionError, match="a Windows path"):
            absolute(path)


def test_metadata_that_is_a_link_out_of_its_folder_is_refused(job: Path, tmp_path: Path) -> None:
    """As state files are; nothing of what it names is read."""
    secret = tmp_path / "private"
    secret.write_text("do not quote me")
    for target in (secret, job / "chk-2" / "_metadata"):
        folder = tmp_path / f"linked-{target.name}"
        folder.mkdir()
        (folder / "_metadata").symlink_to(target)
        for path in (folder, folder / "_metadata"):
            with pytest.raises(UnsafePathError, match="leads out of the snapshot") as raised:
                Snapshot.open(str(path))
            assert "quote" not in str(raised.value)
    assert Snapshot.open(str(folder), allow_outside=True).metadata.checkpoint_id == 2
    (folder / "named").symlink_to(job / "chk-2" / "_metadata")
    assert Snapshot.open(str(folder / "named")).metadata.checkpoint_id == 2  # the user named it
    with pytest.raises(UnsafePathError):
        LocalFileSystem().read_published(str(folder / "_metadata"))
