"""Bases of this package with a flipped bit: what is made of them gets no checksums that match the damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.errors import CorruptStateError, OptionError
from tests.benchmarks.data import UID, write_savepoint

OF_LISTS = "operator state"
NUMBER = (1_000_003).to_bytes(8, "big")
Edit = Callable[[LocalSavepoint], LocalSavepoint]
EDITS: dict[str, Edit] = {
    "copy": lambda sp: sp,
    "remove a key of the file": lambda sp: sp.remove_keys(UID, [keys(sp, 0, 31)[0]]),
    "remove a key of another file": lambda sp: sp.remove_keys(UID, [keys(sp, 96, 127)[0]]),
    "update": lambda sp: sp.update_state(UID, "total", pa.table({"key": keys(sp, 0, 31)[:1], "total": [1]})),
    "add a state": lambda sp: sp.with_state(UID, "more", pa.table({"key": [1], "more": [1]})),
    "new name": lambda sp: sp.rename_state(UID, "total", "sum"),
    "other key groups": lambda sp: sp.with_max_parallelism(256),
    OF_LISTS: lambda sp: sp.with_list_state("lists", "second", pa.table({"value": [1]})),
}


def keys(savepoint: LocalSavepoint, first: int, last: int) -> list[int]:
    """The keys in some key groups."""
    rows = savepoint.keyed_state(UID, include_key_group=True).rows()
    return [row["key"] for row in rows if first <= row["key_group"] <= last]


@pytest.fixture
def base(tmp_path: Path, name: str) -> Path:
    """A savepoint with checksums, and a flipped bit in the last value of a file, or of a list."""
    lists = pa.table({"value": pa.array([7, int.from_bytes(NUMBER, "big")])})
    opened = pyspark_savepoint.open(write_savepoint(tmp_path / "first", "long", 2000, parallelism=4))
    opened.with_operator("lists").with_list_state("lists", "list", lists).write(tmp_path / "base")
    files = [one for one in (tmp_path / "base").iterdir() if one.name != "_metadata"]
    of_lists = next(one for one in files if NUMBER in one.read_bytes())
    file = of_lists if name == OF_LISTS else next(one for one in files if one.name.endswith("-copy-0"))
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)
    return tmp_path / "base"


@pytest.mark.parametrize("name", EDITS)
def test_damaged_files_get_no_checksums_of_their_own(base: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(CorruptStateError, match="its checksum differs"):
        EDITS[name](pyspark_savepoint.open(base)).write(tmp_path / "new")
    assert not (tmp_path / "new" / "_metadata").exists()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", EDITS)
def test_damaged_files_are_taken_as_they_are_if_asked_for(base: Path, tmp_path: Path, name: str) -> None:
    EDITS[name](pyspark_savepoint.open(base, checksums="ignore")).write(tmp_path / "new")
    assert {row["status"] for row in pyspark_savepoint.open(tmp_path / "new").inspect.verify().rows()} == {"ok"}


def test_what_is_left_of_a_damaged_file_is_salvaged(tmp_path: Path) -> None:
    pyspark_savepoint.open(write_savepoint(tmp_path / "first", "long", 2000, parallelism=4)).write(tmp_path / "base")
    (file,) = (tmp_path / "base").glob("*-copy-0")
    sound = file.read_bytes()
    file.write_bytes(sound[:-5] + bytes([sound[-5] ^ 1]) + sound[-4:])
    with pytest.raises(OptionError, match="if the checksum of a file alone differs, checksums='verify'"):
        pyspark_savepoint.open(tmp_path / "base").salvage()
    file.write_bytes(sound[:-40] + bytes([0x7F]) * 40)
    pyspark_savepoint.open(tmp_path / "base").salvage().write(tmp_path / "new")
    left = pyspark_savepoint.open(tmp_path / "new", checksums="require").keyed_state(UID).to_arrow().num_rows
    assert 2000 - 60 < left < 2000


@pytest.mark.parametrize("max_parallelism", [256, 1009], ids=["merged by tasks", "read as a table"])
def test_a_key_that_cannot_be_read_is_shown_with_its_file(tmp_path: Path, max_parallelism: int) -> None:
    """Its place among keys that were gathered from many files says nothing."""
    rows = pa.table({"key": [f"key-{number:05}" for number in range(2000)], "total": range(2000)})
    pyspark_savepoint.create().with_operator("op").with_state("op", "total", rows).write(tmp_path / "base")
    (file,) = (one for one in (tmp_path / "base").iterdir() if one.name != "_metadata")
    file.write_bytes(file.read_bytes().replace(b"\x0akey-01000", b"\x7fkey-01000"))
    opened = pyspark_savepoint.open(tmp_path / "base", checksums="ignore")
    with pytest.raises(CorruptStateError, match="the bytes of a value do not match") as raised:
        opened.with_max_parallelism(max_parallelism).write(tmp_path / "new")
    facts = raised.value.facts
    assert (facts["path"], facts["key"]) == (str(file), "of bytes 7f6b65792d3031303030")
    assert "offset" not in facts
    assert facts["operator"].startswith("op ")
