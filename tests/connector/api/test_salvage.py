"""What can be read of damaged snapshots of real Flink is kept, exactly that, and what is lost is listed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import pyspark_savepoint
from pyspark_savepoint import LocalSavepoint
from pyspark_savepoint.errors import OptionError, UnsafePathError
from pyspark_savepoint.formats.metadata.key_groups import key_group_for_hash
from pyspark_savepoint.formats.metadata.keyed_handles import (
    IncrementalRemoteKeyedStateHandle,
    KeyGroupsSavepointStateHandle,
)
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle, RelativeFileStateHandle
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from tests.connector.api.test_foreign_serializers import expected
from tests.data import unpacked as data_sets
from tests.oracle.foreign import KEYS, UIDS, unpacked

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*have no uid here"),
    pytest.mark.filterwarnings("ignore:state .* has values of UNKNOWN"),
]
SALVAGED = r"of the state cannot be kept"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with whole savepoints, by backend and format."""
    return unpacked(tmp_path_factory.mktemp("foreign"))


@pytest.fixture
def damaged(whole: Path, tmp_path: Path) -> Path:
    """A copy of them."""
    return Path(shutil.copytree(whole, tmp_path / "damaged"))


def opened(path: Path) -> LocalSavepoint:
    return pyspark_savepoint.open(path, uids=UIDS)


def rows_of(savepoint: LocalSavepoint) -> dict[int, dict[str, Any]]:
    return {row["key"]: row for row in savepoint.keyed_state("keyed").rows()}


def key_group(key: int) -> int:
    """Return the key group of a long that is its own hash."""
    return key_group_for_hash(key, 128)


def salvaged(path: Path, target: Path) -> LocalSavepoint:
    with pytest.warns(UserWarning, match=SALVAGED):
        return opened(path).salvage().write(target)


def test_a_missing_file_loses_its_key_groups(damaged: Path, tmp_path: Path) -> None:
    path = damaged / "hashmap-canonical"
    (lost,) = [file for file in path.iterdir() if file.name != "_metadata" and is_keyed(file)][:1]
    lost.unlink()
    (loss,) = opened(path).losses().rows()
    assert (loss["table"], loss["state"], loss["first_key"]) == ("keyed_state", None, None)

    new = salvaged(path, tmp_path / "new")

    lost_groups = range(loss["first_key_group"], loss["last_key_group"] + 1)
    want = {key for key in range(KEYS) if key_group(key) not in lost_groups}
    assert 0 < len(want) < KEYS
    assert rows_of(new) == {key: expected(key) for key in want}
    assert [row for row in new.inspect.verify().rows() if row["status"] == "error"] == []
    assert {row["value"] for row in new.operator_state("listed", "longs").rows()} == {*range(200)}


def is_keyed(file: Path) -> bool:
    """Return whether a file begins as keyed state does, with the version and the serializer of keys."""
    return b"KEYED_STATE_TYPE" in file.read_bytes()


def test_a_damaged_key_group_is_lost_alone(damaged: Path, tmp_path: Path) -> None:
    path = damaged / "hashmap-canonical"
    handles = [
        subtask.managed_keyed_state
        for operator in Snapshot.open(str(path)).operators
        for subtask in operator.subtasks.values()
    ]
    handle = next(each for each in handles if isinstance(each, KeyGroupsSavepointStateHandle))
    group, offset = next((group, offset) for group, offset in handle.offsets if offset)
    assert isinstance(handle.delegate, RelativeFileStateHandle)
    file = path / handle.delegate.relative_path
    data = bytearray(file.read_bytes())
    data[offset + 2 : offset + 6] = b"\xff" * 4
    file.write_bytes(data)
    losses = list(opened(path).losses().rows())
    lost = {group for row in losses for group in range(row["first_key_group"], row["last_key_group"] + 1)}
    assert lost == {group}

    new = salvaged(path, tmp_path / "new")

    assert rows_of(new) == {key: expected(key) for key in range(KEYS) if key_group(key) not in lost}


def test_a_damaged_table_file_loses_one_state_between_its_keys(damaged: Path, tmp_path: Path) -> None:
    path = damaged / "rocksdb-native"
    metadata = path / "_metadata"
    handles = [
        file.handle
        for operator in Snapshot.open(str(path)).operators
        for subtask in operator.subtasks.values()
        if isinstance(subtask.managed_keyed_state, IncrementalRemoteKeyedStateHandle)
        for file in (*subtask.managed_keyed_state.shared_state, *subtask.managed_keyed_state.private_state)
        if file.local_path.endswith(".sst")
    ]
    (first, *_) = [handle for handle in handles if isinstance(handle, ByteStreamStateHandle)]
    data = bytearray(metadata.read_bytes())
    at = data.index(first.data)
    data[at + 8] ^= 0xFF
    metadata.write_bytes(data)
    (loss,) = opened(path).losses().rows()
    assert loss["state"] in expected(0)
    assert loss["first_key"] is not None

    new = salvaged(path, tmp_path / "new")

    found = rows_of(new)
    assert set(found) == {*range(KEYS)}
    groups = {key: row for key, row in found.items() if row[loss["state"]] is None or row[loss["state"]] == []}
    assert 0 < len(groups) < KEYS
    for key, row in found.items():
        want = expected(key)
        if key in groups:
            del row[loss["state"]], want[loss["state"]]
        assert row == want


def test_operator_state_of_a_missing_file(damaged: Path, tmp_path: Path) -> None:
    path = damaged / "rocksdb-native"
    listed = [file for file in path.iterdir() if file.name != "_metadata" and b"adapter 1" in file.read_bytes()]
    lost = next(file for file in listed if not is_keyed(file))
    lost.unlink()

    new = salvaged(path, tmp_path / "new")

    assert len(list(new.operator_state("listed", "longs").rows())) == 100
    assert rows_of(new) == {key: expected(key) for key in range(KEYS)}


def test_nothing_is_lost(whole: Path) -> None:
    for case in ("hashmap-canonical", "hashmap-native", "rocksdb-native"):
        assert list(opened(whole / case).losses().rows()) == []
        with pytest.raises(OptionError, match="nothing is damaged"):
            opened(whole / case).salvage()


@pytest.mark.thorough  # a process for each case
def test_files_outside_of_the_snapshot_are_not_lost(tmp_path: Path) -> None:
    source = data_sets() / "real" / "old-110-incr"
    folder = Path(shutil.copytree(source, tmp_path / "moved"))
    (metadata,) = folder.rglob("chk-1/_metadata")
    shutil.rmtree(metadata.parents[1] / "shared")
    with pytest.raises(UnsafePathError):
        pyspark_savepoint.open(metadata.parent).losses()
    rows = list(pyspark_savepoint.open(metadata.parent, allow_outside=True).losses().rows())
    assert {row["table"] for row in rows} == {"files"}
    assert all(row["note"].startswith("no state is lost: OPTIONS-") for row in rows)


def test_changes_are_written_first(whole: Path) -> None:
    with pytest.raises(OptionError, match="changes that are not written yet"):
        opened(whole / "hashmap-canonical").remove_operator("listed").salvage()


def test_verify_says_a_missing_table_file_once(tmp_path: Path) -> None:
    folder = shutil.copytree(data_sets() / "datastream" / "custom-rocksdb-checkpoint-1.15", tmp_path / "copy")
    (metadata,) = folder.rglob("_metadata")
    min((folder / "shared").iterdir(), key=lambda file: file.stat().st_size).unlink()
    sp = pyspark_savepoint.open(metadata.parent, allow_outside=True)
    (error,) = (row for row in sp.inspect.verify().rows() if row["status"] == "error")
    assert (error["table"], error["state"], error["subtask"]) == ("keyed_state", "weight", 0)
    assert "000014.sst of column family 'weight': key groups 7 to 127, keys 000000000000000400 to" in error["note"]
    (loss,) = sp.losses().rows()
    assert (loss["state"], loss["first_key_group"], loss["last_key_group"]) == ("weight", 7, 127)
    assert (loss["first_key"].hex(), loss["last_key"].hex()) == ("000000000000000400", "000000000000000200")
