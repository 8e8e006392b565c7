"""Verification: no errors in files of Flink, and every kind of damage is found, while intact state is still checked."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.keyed.keyed_block import KeyedBlock
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle
from pyspark_savepoint.formats.snapshot.relocation import streams_of
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.keyed_sources import KeyedSource, keyed_sources

#: Where a file of RocksDB's ends.
TABLE_MAGIC = bytes.fromhex("f7cff485b741e288")
SHIPPED = Path(__file__).parents[2] / "oracle" / "savepoints"
SHOP = SHIPPED / "shop" / "savepoint"
Row = dict[str, Any]


def verify(path: Path, parts: int = 3, **options: Any) -> list[Row]:
    table = open_table(TableRequest(str(path), table="verification", allow_outside=True, **options))
    return [row for part in table.partitions(parts) for batch in part.batches() for row in batch.to_pylist()]


def bad(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["status"] != "ok"]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHOP, tmp_path / "shop"))


def entry(shop: Path, state: str, n: int = 0) -> tuple[Path, KeyedBlock, int]:
    """A file of ``accounts``, a block of it that begins at its byte 0, and the number of an entry of a state."""
    savepoint = Snapshot.open(str(shop))
    source = keyed_sources(savepoint, savepoint.operator(uid="accounts"))[0]
    assert isinstance(source, KeyedSource)
    with source.open(DecodeOptions()) as stream:
        number = next(i for i, meta in enumerate(stream.header.states) if meta.name == state)
        for block in stream.blocks(set(source.key_group_range), {number}, False, 1 << 20):
            entries = block.entries_of(number)
            if len(entries) > n:
                for spans in (block.key_start, block.key_end, block.value_start, block.value_end):
                    spans += block.origin.base
                return Path(source.location.path), block, int(entries[n])
    raise AssertionError(state)


def flip(path: Path, byte: int, mask: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= mask
    path.write_bytes(data)


# -- what is sound -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 5])
def test_of_the_shop_everything_is_walked_and_sound(parts: int) -> None:
    found = verify(SHOP, parts)
    assert bad(found) == []
    counts: dict[tuple[str, str], int] = {}
    for row in found:
        if row["operator_uid"] == "accounts":
            at = row["table"], row["state"]
            counts[at] = counts.get(at, 0) + row["entries"]
    assert counts["keyed_state", "total"] == counts["keyed_state", "profile"] == 200
    assert counts["timers", "_timer_state/event_user-timers"] == 200
    assert counts["files", None] == 2  # type: ignore[index]
    sizes = open_table(TableRequest(str(SHOP), table="sizes", uid="accounts")).partitions(1)
    whole = sum(row["bytes"] for part in sizes for batch in part.batches() for row in batch.to_pylist())
    walked = [row for row in found if row["operator_uid"] == "accounts" and row["table"] in ("keyed_state", "timers")]
    assert sum(row["bytes"] for row in walked) == whole
    assert {row["table"] for row in found} == {
        "keyed_state",
        "window_state",
        "timers",
        "operator_state",
        "coordinator_state",
        "files",
    }


@pytest.mark.parametrize(
    "case",
    [
        "1.18.1-rocksdb-canonical",
        "1.20.5-hashmap-native",
        "2.2.1-rocksdb-incr-checkpoint",
        "2.3.0-hashmap-canonical-compressed",
    ],
)
def test_nothing_is_found_in_what_flink_wrote(corpus: Path, case: str) -> None:
    found = verify(next((corpus / "lab" / case).rglob("_metadata")).parent)
    assert [row for row in found if row["status"] == "error"] == []
    # Without the user's code, state after opaque values in a hashmap file cannot be read: this is reported.
    assert all("not checked at all" in row["note"] for row in bad(found))
    assert bool(bad(found)) == (case == "1.20.5-hashmap-native")
    assert sum(row["entries"] or 0 for row in found) > 1000


def test_changelogs_are_replayed_and_sound() -> None:
    path = next((SHIPPED / "changelog").rglob("_metadata")).parent
    found = verify(path)
    assert bad(found) == []
    assert sum(row["entries"] for row in found if row["table"] == "timers") > 0


# -- what is damaged ---------------------------------------------------------------------------------------------


def key_of_another_group(shop: Path) -> None:
    path, block, at = entry(shop, "total")
    flip(path, int(block.key_start[at]) + 7)


def timer_of_another_group(shop: Path) -> None:
    path, block, at = entry(shop, "_timer_state/event_user-timers")
    flip(path, int(block.key_start[at]) + 15)


def a_length(shop: Path) -> None:
    path, block, at = entry(shop, "profile")
    flip(path, int(block.value_start[at]) - 1)


def a_value_that_no_serializer_writes(shop: Path) -> None:
    path, block, at = entry(shop, "profile")
    flip(path, int(block.value_start[at]), 0x40)


def a_namespace_that_is_none(shop: Path) -> None:
    path, block, at = entry(shop, "total")
    flip(path, int(block.key_start[at]) + 8)


@pytest.mark.parametrize(
    "damage",
    [
        key_of_another_group,
        timer_of_another_group,
        a_length,
        a_value_that_no_serializer_writes,
        a_namespace_that_is_none,
    ],
)
def test_one_flipped_bit_is_one_error_and_hides_nothing_else(damage: Callable[[Path], None], shop: Path) -> None:
    sound = verify(shop)
    damage(shop)
    found = verify(shop)
    (error,) = bad(found)
    assert error["status"] == "error"
    assert error["operator_uid"] == "accounts"
    assert error["first_key_group"] == error["last_key_group"]
    assert "file: " in error["note"]
    assert len(found) == len(sound) + 1
    lost = sum(row["entries"] for row in sound) - sum(row["entries"] or 0 for row in found)
    assert 0 < lost < 40  # one key group of one handle, of all states


def test_a_key_that_comes_twice(shop: Path) -> None:
    path, block, at = entry(shop, "total")
    data = bytearray(path.read_bytes())
    group = block.key_group == block.key_group[at]
    first, second = [int(i) for i in block.entries_of(int(block.state[at])) if group[i]][:2]
    low, high = int(block.key_start[first]), int(block.key_start[second])
    data[high : high + 8] = data[low : low + 8]
    path.write_bytes(data)
    (error,) = bad(verify(shop))
    assert "occurs twice" in error["note"]
    assert error["state"] == "total"


def test_files_that_are_missing_short_or_long(shop: Path) -> None:
    first, second = sorted(file for file in shop.iterdir() if file.name != "_metadata")
    first.write_bytes(first.read_bytes() + b"\0")
    found = bad(verify(shop))
    assert [(row["table"], row["status"]) for row in found if row["table"] == "files"] == [("files", "warning")]
    first.write_bytes(first.read_bytes()[:-2])
    second.unlink()
    notes = [row["note"] for row in bad(verify(shop)) if row["table"] == "files"]
    assert any("shorter than the size in its handle" in note for note in notes)
    assert any("no such file" in note or "missing" in note for note in notes)


def test_operator_state_and_what_is_inline(shop: Path) -> None:
    metadata = shop / "_metadata"
    data = metadata.read_bytes()
    at = data.index(b"EUR", data.index(b"currency-converter"))
    metadata.write_bytes(data[: at - 1] + b"\x7f" + data[at:])
    (error,) = bad(verify(shop))
    assert (error["operator_uid"], error["table"], error["state"]) == ("currency-converter", "operator_state", "rates")


def test_blocks_of_rocksdb_have_checksums(corpus: Path, tmp_path: Path) -> None:
    origin = corpus / "lab" / "2.2.1-rocksdb-native"
    snapshot = next(Path(shutil.copytree(origin, tmp_path / "native")).rglob("_metadata")).parent
    assert [row for row in verify(snapshot) if row["status"] == "error"] == []
    operator = Snapshot.open(str(snapshot)).operator(uid="kv-long")
    table = next(
        stream.data
        for stream in streams_of(operator)
        if isinstance(stream, ByteStreamStateHandle) and stream.data.endswith(TABLE_MAGIC)
    )
    metadata = snapshot / "_metadata"
    metadata.chmod(0o644)
    flip(metadata, metadata.read_bytes().index(table) + 40)
    errors = bad(verify(snapshot, uid="kv-long"))
    assert errors
    assert all("checksum" in row["note"] for row in errors)
