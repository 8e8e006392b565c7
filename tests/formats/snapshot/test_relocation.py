"""Snapshots assembled from operators of others: files copied or referred to, ids and versions."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pyspark_savepoint.formats.errors import (
    StateExistsError,
    UnsafePathError,
    UnsupportedStateError,
    UnsupportedVersionError,
)
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem, RemoteFileSystem
from pyspark_savepoint.formats.metadata import (
    FINISHED_SUBTASK,
    NULL_PROPERTIES,
    CheckpointMetadata,
    OperatorState,
    OperatorSubtaskState,
    read_metadata,
    write_metadata,
)
from pyspark_savepoint.formats.metadata.identifiers import OperatorID, OperatorIdentifier
from pyspark_savepoint.formats.metadata.keyed_handles import IncrementalRemoteKeyedStateHandle
from pyspark_savepoint.formats.metadata.operator_handles import (
    FileMergingOperatorStreamStateHandle,
    MergedChannelStateHandle,
    Mode,
    OperatorStreamStateHandle,
    StateMetaInfo,
)
from pyspark_savepoint.formats.metadata.stream_handles import (
    ByteStreamStateHandle,
    CheckpointedStateScope,
    FileStateHandle,
    RelativeFileStateHandle,
    SegmentFileStateHandle,
    StreamStateHandle,
)
from pyspark_savepoint.formats.snapshot.changes import (
    assemble,
    has_channel_state,
    metadata_version,
    target_version,
    with_identifier,
    with_keyed_state,
    with_operator_state,
)
from pyspark_savepoint.formats.snapshot.relocation import (
    Relocation,
    absolute,
    is_state,
    raw_streams_of,
    referenced,
    replace_streams,
    streams_of,
)
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot

ID = OperatorID.from_uid("a")


def checkpoint(tmp_path: Path, corpus: Path) -> Snapshot:
    """An incremental checkpoint of RocksDB with files of its own and shared ones."""
    case = corpus / "lab" / "2.2.1-rocksdb-incr-checkpoint" / "checkpoints"
    copied = tmp_path / "checkpoints"
    shutil.copytree(case, copied)
    (found,) = copied.rglob("_metadata")
    return Snapshot.open(str(found.parent))


def digests(folder: Path) -> dict[str, str]:
    """Hashes of all files below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def snapshot_of(metadata: CheckpointMetadata, folder: Path) -> Snapshot:
    """Metadata in a folder, opened."""
    (folder / "_metadata").write_bytes(write_metadata(metadata))
    return Snapshot.open(str(folder))


# -- files --------------------------------------------------------------------------------------------------


def test_a_checkpoint_that_is_copied_stands_alone(tmp_path: Path, corpus: Path) -> None:
    base = checkpoint(tmp_path, corpus)
    before = digests(tmp_path / "checkpoints")
    relocation = Relocation("token")
    operators = [relocation.copied(base, operator) for operator in base.operators]
    target = tmp_path / "new"
    target.mkdir()
    for copy in relocation.copies.values():
        assert copy.run(lambda name: LocalFileSystem().open_output(str(target / name))) == copy.size
    moved = snapshot_of(assemble(operators, [base.metadata], base.metadata.version), target)

    assert digests(tmp_path / "checkpoints") == before
    assert len(relocation.copies) == len(list(target.iterdir())) - 1 > 10
    assert set(digests(target).values()) - set(before.values()) == {digests(target)["_metadata"]}
    shutil.rmtree(tmp_path / "checkpoints")
    for old, new in zip(base.operators, moved.operators, strict=True):
        assert new.state_size == old.state_size
        for handle in streams_of(new):
            assert isinstance(handle, RelativeFileStateHandle | ByteStreamStateHandle)
            with moved.open_state(handle) as source:
                assert source.size == handle.state_size
        keyed = [subtask.managed_keyed_state for subtask in new.subtasks.values()]
        assert all(not k.shared_state for k in keyed if isinstance(k, IncrementalRemoteKeyedStateHandle))


def test_a_file_of_several_handles_is_copied_once(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"0123456789")
    handle = OperatorStreamStateHandle((), RelativeFileStateHandle("state", 10))
    subtasks = {i: OperatorSubtaskState(managed_operator_state=handle) for i in range(3)}
    base = snapshot_of(CheckpointMetadata(4, 1, (), (OperatorState(ID, 3, 128, subtasks=subtasks),)), tmp_path)
    relocation = Relocation("t")
    copied = relocation.copied(base, base.operators[0])
    assert {handle.relative_path for handle in streams_of(copied)} == {"t-0"}  # type: ignore[union-attr]
    assert relocation.size == 10


def test_a_segment_of_a_merged_file_becomes_a_file(tmp_path: Path) -> None:
    (tmp_path / "merged").write_bytes(b"\0ab\x00defghi")
    segment = SegmentFileStateHandle(f"file:{tmp_path}/merged", 3, 4, CheckpointedStateScope.EXCLUSIVE, "id")
    states = (StateMetaInfo("s", Mode.UNION, (0, 2)),)
    handle = FileMergingOperatorStreamStateHandle(states, "/owned", "/shared", False, segment)
    subtasks = {0: OperatorSubtaskState(managed_operator_state=handle)}
    base = snapshot_of(CheckpointMetadata(4, 1, (), (OperatorState(ID, 1, 128, subtasks=subtasks),)), tmp_path)

    relocation = Relocation("t")
    copied = relocation.copied(base, base.operators[0]).subtasks[0].managed_operator_state
    assert copied == OperatorStreamStateHandle(states, RelativeFileStateHandle("t-0", 4))
    (copy,) = relocation.copies.values()
    out = tmp_path / "out"
    out.mkdir()
    copy.run(lambda name: LocalFileSystem().open_output(str(out / name)))
    assert (out / "t-0").read_bytes() == b"\x00def"

    pointed = referenced(base, base.operators[0], str(tmp_path)).subtasks[0].managed_operator_state
    assert pointed == handle


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"short")
    handle = OperatorStreamStateHandle((), RelativeFileStateHandle("state", 10))
    subtasks = {0: OperatorSubtaskState(managed_operator_state=handle)}
    base = snapshot_of(CheckpointMetadata(4, 1, (), (OperatorState(ID, 1, 128, subtasks=subtasks),)), tmp_path)
    relocation = Relocation("t")
    relocation.copied(base, base.operators[0])
    (copy,) = relocation.copies.values()
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(ValueError, match="shorter than the size in its handle"):
        copy.run(lambda name: LocalFileSystem().open_output(str(out / name)))
    assert os.listdir(out) == []


def test_references_are_absolute(tmp_path: Path, corpus: Path) -> None:
    base = checkpoint(tmp_path, corpus)
    for operator in base.operators:
        for handle in streams_of(referenced(base, operator, base.path)):
            if isinstance(handle, FileStateHandle):
                assert Path(handle.path.removeprefix("file:")).stat().st_size >= handle.size
            else:
                assert isinstance(handle, ByteStreamStateHandle)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("s3a://bucket/base", "s3a://bucket/base/f"),
        ("s3://bucket/base", "s3://bucket/base/f"),
        ("/elsewhere", "s3://bucket/base/f"),
    ],
)
def test_references_keep_the_scheme_that_the_user_gave(given: str, expected: str) -> None:
    assert absolute(RemoteFileSystem("s3", "bucket"), "/base/f", given) == expected


def test_replacing_nothing_changes_nothing(corpus: Path) -> None:
    def same(handle: StreamStateHandle) -> StreamStateHandle:
        return handle

    count = 0
    for path in sorted((corpus / "lab").rglob("_metadata")):
        for operator in Snapshot.open(str(path)).operators:
            changed = replace_streams(operator, same)
            assert sorted(streams_of(changed), key=repr) == sorted(streams_of(operator), key=repr)
            assert changed.state_size == operator.state_size
            count += 1
    assert count > 100


# -- metadata -----------------------------------------------------------------------------------------------


def test_versions_follow_the_oldest_flink() -> None:
    versions = {(1, 8): 3, (1, 15): 3, (1, 16): 4, (1, 20): 4, (2, 0): 5, (2, 1): 6, (2, 9): 6}
    assert {flink: metadata_version(flink) for flink in versions} == versions
    old, new = CheckpointMetadata(4, 1), CheckpointMetadata(6, 1)
    assert target_version([old, new], None) == 6
    assert target_version([new], (1, 16)) == 4
    assert target_version([], None) == 4
    assert target_version([CheckpointMetadata(2, 1)], None) == 3


def test_a_name_and_a_uid_are_written_where_there_is_room_for_them() -> None:
    operator = with_identifier(OperatorState(ID, 1, 128, name="n", uid="a"), OperatorIdentifier.for_uid("b"))
    for version, uid in ((4, None), (6, "b")):
        written = read_metadata(write_metadata(assemble([operator], [], version)))
        assert written.operators[0].operator_id == OperatorID.from_uid("b")
        assert written.operators[0].uid == uid
    assert with_identifier(operator, OperatorIdentifier.for_uid_hash("00" * 16)).uid is None


def test_two_operators_of_one_id_are_refused() -> None:
    operator = OperatorState(ID, 1, 128)
    with pytest.raises(StateExistsError, match="same id"):
        assemble([operator, replace(operator, name="other")], [], 4)


def test_properties_of_a_savepoint_stay_and_those_of_a_checkpoint_do_not(tmp_path: Path, corpus: Path) -> None:
    savepoint = Snapshot.open(str(corpus / "lab" / "2.2.1-rocksdb-native" / "savepoint")).metadata
    taken = checkpoint(tmp_path, corpus).metadata
    assert assemble([], [savepoint], 6).properties == savepoint.properties != NULL_PROPERTIES
    assert assemble([], [savepoint], 4).properties == NULL_PROPERTIES
    assert assemble([], [savepoint, taken], 6).properties == NULL_PROPERTIES
    assert assemble([], [taken], 6).properties == NULL_PROPERTIES
    assert assemble([], [savepoint, taken], 6).checkpoint_id == max(savepoint.checkpoint_id, taken.checkpoint_id)


def test_merged_channel_state_does_not_go_to_old_flinks() -> None:
    channels = (MergedChannelStateHandle(0, 1, ByteStreamStateHandle("c", b"x"), b""),)
    operator = OperatorState(ID, 1, 128, subtasks={0: OperatorSubtaskState(input_channel_state=channels)})
    assert has_channel_state(operator)
    assert assemble([operator], [], 6).operators == (operator,)
    with pytest.raises(UnsupportedVersionError, match="in-flight"):
        assemble([operator], [], 5)


def test_a_finished_subtask_gets_no_state(corpus: Path) -> None:
    """Operators of one task have finished alike: one that runs again beside others is refused by Flink."""
    shop = Snapshot.open(str(corpus / "lab" / "2.2.1-hashmap-canonical" / "savepoint"))
    written = next(o for o in shop.operators if any(s.managed_keyed_state for s in o.subtasks.values()))
    part = OperatorState(ID, 2, 128, subtasks={0: FINISHED_SUBTASK, 1: OperatorSubtaskState()})
    with pytest.raises(UnsupportedStateError, match="subtask 0 of the operator has finished"):
        with_keyed_state(part, replace(written, subtasks={0: written.subtasks[0]}))
    kept = with_keyed_state(part, replace(written, subtasks={1: written.subtasks[1]})).subtasks
    assert (kept[0], kept[1].managed_keyed_state) == (FINISHED_SUBTASK, written.subtasks[1].managed_keyed_state)
    whole = OperatorState(ID, 2, 128, is_fully_finished=True)
    with pytest.raises(UnsupportedStateError, match="the operator has finished"):
        with_keyed_state(whole, written)
    assert with_keyed_state(whole, replace(written, subtasks={})).is_fully_finished


def test_operator_state_of_a_finished_subtask_goes_to_one_that_runs() -> None:
    handle = OperatorStreamStateHandle((), ByteStreamStateHandle("state", b"bytes"))
    part = OperatorState(ID, 3, 128, subtasks={0: FINISHED_SUBTASK, 1: OperatorSubtaskState()})
    moved = with_operator_state(part, {0: handle}).subtasks
    assert (moved[0], moved[1].managed_operator_state) == (FINISHED_SUBTASK, handle)
    with pytest.raises(UnsupportedStateError, match="the others have operator state that stays"):
        with_operator_state(part, dict.fromkeys(range(3), handle))


# -- what is not a state ---------------------------------------------------------------------------------------

KEY = b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU\n"


def naming(home: Path, handle: StreamStateHandle, raw: bool = False) -> Snapshot:
    """A snapshot in a folder that is not its own, with an operator whose state is said to be a file there."""
    state = OperatorStreamStateHandle((), handle)
    subtask = OperatorSubtaskState(raw_operator_state=state) if raw else OperatorSubtaskState(state)
    return snapshot_of(CheckpointMetadata(4, 1, (), (OperatorState(ID, 1, 128, subtasks={0: subtask}),)), home)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user's home, with a key, a link to it and a folder."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / "work").mkdir()
    for name in (".ssh/id_rsa", ".netrc", "key.pem", "work/key"):
        (home / name).write_bytes(KEY)
    (home / "notes.txt").write_text("remember the milk")
    (home / "link").symlink_to(home / ".ssh" / "id_rsa")
    (home / "inner").symlink_to(home / "work" / "key")
    os.mkfifo(home / "fifo")
    return home


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("name", [".ssh/id_rsa", ".netrc", "key.pem", "work/key", "link", "inner", "fifo"])
def test_a_snapshot_in_a_home_carries_no_key_along(home: Path, name: str, raw: bool) -> None:
    out = home / "out"
    out.mkdir()
    for handle in (RelativeFileStateHandle(name, 10), FileStateHandle(f"file:{home}/{name}", 10)):
        base = naming(home, handle, raw)
        with pytest.raises(UnsafePathError):
            copy_all(base, out)
    assert os.listdir(out) == []


def copy_all(base: Snapshot, out: Path) -> None:
    relocation = Relocation("t")
    for operator in base.operators:
        relocation.copied(base, operator)
    for copy in relocation.copies.values():
        copy.run(lambda name: LocalFileSystem().open_output(str(out / name)))


def test_raw_state_may_be_text_and_other_state_may_not(home: Path) -> None:
    with pytest.raises(UnsafePathError, match="not Flink state") as raised:
        copy_all(naming(home, RelativeFileStateHandle("notes.txt", 17)), home)
    assert "remove_operator" in raised.value.facts["remedy"]
    copy_all(naming(home, RelativeFileStateHandle("notes.txt", 17), raw=True), home)
    assert (home / "t-0").read_text() == "remember the milk"


def test_a_segment_of_what_is_no_state_is_none_either(home: Path) -> None:
    (home / "keytab").write_bytes(b"\5\2secret\0\0\0\5rest")
    segment = SegmentFileStateHandle(f"file:{home}/keytab", 8, 8, CheckpointedStateScope.EXCLUSIVE, "id")
    with pytest.raises(UnsafePathError, match="not Flink state"):
        copy_all(naming(home, segment), home)


def test_everything_that_flink_wrote_is_state(corpus: Path) -> None:
    count = 0
    for path in sorted((corpus / "lab").rglob("_metadata")):
        base = Snapshot.open(str(path))
        for operator in base.operators:
            raw = raw_streams_of(operator)
            for handle in streams_of(operator):
                if isinstance(handle, FileStateHandle | RelativeFileStateHandle | SegmentFileStateHandle):
                    with base.open_state(handle) as source:
                        assert is_state(source, handle in raw), (path, handle)
                    count += 1
    assert count > 90
