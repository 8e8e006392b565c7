"""Savepoints that are written have checksums of all of their files; a flipped bit is found where they are looked at."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import xxhash

from pyspark_savepoint.formats.errors import CorruptStateError, OptionError
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem
from pyspark_savepoint.formats.snapshot.publication import relative_files
from pyspark_savepoint.formats.snapshot.relocation import Relocation
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from tests.statebackends.writing.written_operators import read, write

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"


def table(count: int, of: int = 3) -> pa.Table:
    return pa.table(
        {"key": pa.array(range(count), pa.int64()), "total": pa.array([of * k for k in range(count)], pa.int64())}
    )


def verify(path: Path) -> list[dict[str, Any]]:
    parts = open_table(TableRequest(str(path), table="verification")).partitions(2)
    return [row for part in parts for batch in part.batches() for row in batch.to_pylist()]


def checksums(path: Path) -> dict[str, bytes]:
    return {name: one.digest for name, one in (Snapshot.open(str(path)).metadata.checksums or {}).items()}


def digests(path: Path) -> dict[str, bytes]:
    return {file.name: xxhash.xxh3_128_digest(file.read_bytes()) for file in path.iterdir() if file.name != "_metadata"}


def test_every_file_has_checksums_whatever_comes_and_goes(tmp_path: Path) -> None:
    path = tmp_path / "savepoint"
    write(path, [table(100), table(0)], uid="a")
    write(path, [pa.table({"value": pa.array(["x", "y"])})], uid="b", table="operator_state", state="s")
    first = checksums(path)
    assert first == digests(path)
    assert len(first) > 1
    write(path, [table(50)], uid="a", overwrite=True)
    again = checksums(path)
    assert {name: one for name, one in digests(path).items() if name in again} == again
    assert set(again) == relative_files(Snapshot.open(str(path)).metadata)
    assert set(again) & set(first)
    assert all(row["status"] == "ok" for row in verify(path))
    assert any("have checksums" in (row["note"] or "") for row in verify(path))


def test_a_flipped_value_is_seen_by_those_who_look(tmp_path: Path) -> None:
    path = tmp_path / "savepoint"
    write(path, [table(100)])
    sound = read(path)
    assert read(path, checksums="verify") == read(path, checksums="require") == sound
    file = max((file for file in path.iterdir() if file.name != "_metadata"), key=lambda file: file.stat().st_size)
    data = bytearray(file.read_bytes())
    data[data.index((3 * 99).to_bytes(8, "big")) + 7] ^= 1
    file.write_bytes(data)

    assert read(path) != sound
    for checked in ("verify", "require"):
        with pytest.raises(CorruptStateError, match="its checksum differs"):
            read(path, checksums=checked)
    (found,) = [row for row in verify(path) if row["status"] != "ok"]
    assert (found["table"], found["status"]) == ("files", "error")
    assert file.name in found["note"]


def test_damage_hides_no_more_of_files_that_have_checksums(tmp_path: Path) -> None:
    """A file is read once, for its entries and its checksums: damaged blocks are read as they are all the same."""
    path = tmp_path / "savepoint"
    write(path, [table(100)])
    file = max((file for file in path.iterdir() if file.name != "_metadata"), key=lambda file: file.stat().st_size)
    sound = file.read_bytes()
    at = sound.index((3 * 99).to_bytes(8, "big"))
    file.write_bytes(sound[: at - 4] + b"\x7f" + sound[at - 3 :])  # the length of the value
    errors = [row for row in verify(path) if row["status"] == "error"]
    (entries,) = [row for row in errors if row["table"] == "keyed_state"]
    assert entries["first_key_group"] == entries["last_key_group"]
    assert [file.name in row["note"] for row in errors if row["table"] == "files"] == [True]
    file.write_bytes(sound + b"\0")
    (longer,) = [row for row in verify(path) if row["table"] == "files"]
    assert "its checksum differs" in longer["note"]


def test_what_is_damaged_is_not_copied_with_checksums_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "savepoint"
    write(path, [table(100)])
    snapshot = Snapshot.open(str(path))
    relocation = Relocation("copy")
    relocation.copied(snapshot, snapshot.operators[0])
    copy = next(iter(relocation.copies.values()))
    file = Path(copy.source.path)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptStateError, match="its checksum differs"):
        copy.run(lambda name: LocalFileSystem().open_output(str(tmp_path / name)))
    assert not (tmp_path / copy.name).exists()


def test_what_flink_wrote_has_none(tmp_path: Path) -> None:
    path = Path(shutil.copytree(SHOP, tmp_path / "shop"))
    assert read(path, uid="accounts", checksums="verify") == read(path, uid="accounts")
    with pytest.raises(OptionError, match="has none"):
        read(path, uid="accounts", checksums="require")
    # State in the metadata itself needs none; what is added has some.
    write(path, [table(10)], uid="new")
    assert read(path, uid="new", checksums="require") == read(path, uid="new")
    assert set(checksums(path)) < relative_files(Snapshot.open(str(path)).metadata)
    assert all(row["status"] == "ok" for row in verify(path))
