"""State of serializers whose snapshots have no known ends, as real Flink wrote it: all beside them is read and edited.

The savepoints are of ``oracle.Foreign``; ``python -m tests.oracle.foreign`` made them, and restores what is edited.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import pyspark_savepoint
from pyspark_savepoint.errors import UndecodableStateError
from tests.oracle.foreign import KEY_UIDS, KEYS, NUMBERS, UIDS, WITH_LENGTHS, snapshot_of, unpacked

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*have no uid here"),
    pytest.mark.filterwarnings("ignore:state .* has values of UNKNOWN"),
]


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the savepoints, by backend and format."""
    return unpacked(tmp_path_factory.mktemp("foreign"))


def utf(text: str) -> bytes:
    """Return a value as the job's serializer writes it."""
    return len(text).to_bytes(2, "big") + text.encode()


def expected(key: int) -> dict[str, object]:
    numbers = range(key, NUMBERS, KEYS)
    return {
        "key": key,
        "count": len(numbers),
        "total": sum(numbers),
        "bytes": utf(f"bytes {numbers[-1]}"),
        "length": utf(f"length {numbers[-1]}"),
        "large": b",".join(utf(f"large {number}") for number in numbers),
        "adapter": [("k", utf(f"adapter {numbers[-1]}"))],
    }


@pytest.mark.parametrize("case", WITH_LENGTHS)
def test_every_state_of_the_operator_is_read(foreign: Path, case: str) -> None:
    sp = pyspark_savepoint.open(foreign / case, uids=UIDS)

    rows = {row["key"]: row for row in sp.keyed_state("keyed").rows()}

    assert rows == {key: expected(key) for key in range(KEYS)}
    assert {row["value"] for row in sp.operator_state("listed", "longs").rows()} == {*range(NUMBERS)}
    for name in ("bytes", "adapter"):
        values = sorted(row["value"] for row in sp.operator_state("listed", name).rows())
        assert values == sorted(utf(f"{name} {number}") for number in range(NUMBERS))


@pytest.mark.parametrize("case", WITH_LENGTHS)
def test_unknown_states_are_carried_over_byte_for_byte(foreign: Path, tmp_path: Path, case: str) -> None:
    sp = pyspark_savepoint.open(foreign / case, uids=UIDS)

    edited = sp.rename_state("keyed", "total", "sum").remove_state("keyed", "count").remove_keys("keyed", [3])
    new = edited.remove_state("listed", "longs").with_max_parallelism(256).write(tmp_path / "new")

    rows = {row["key"]: row for row in new.keyed_state("keyed").rows()}
    want = {key: expected(key) for key in range(KEYS) if key != 3}
    for row in want.values():
        row["sum"] = row.pop("total")
        del row["count"]
    assert rows == want
    assert {row["state"] for row in new.states().rows() if row["operator_uid"] == "listed"} == {
        "adapter", "bytes", "large",
    }  # fmt: skip
    assert [row for row in new.inspect.verify().rows() if row["status"] != "ok"] == []


def test_values_without_lengths_hide_what_follows_them(foreign: Path) -> None:
    sp = pyspark_savepoint.open(foreign / "hashmap-native", uids=UIDS)

    with pytest.raises(UndecodableStateError, match="only the job's own serializer can delimit") as raised:
        list(sp.keyed_state("keyed").rows())

    assert "take a canonical savepoint" in raised.value.facts["remedy"]
    (count,) = (row for row in sp.states().rows() if row["state"] == "count")
    assert (count["flink_value_type"] if "flink_value_type" in count else count["value_type"]) == "LONG"
    assert {row["value"] for row in sp.operator_state("listed", "longs").rows()} == {*range(NUMBERS)}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the snapshots of the job whose keys are of an unknown serializer."""
    return unpacked(tmp_path_factory.mktemp("foreign-keys"), "keys-1.20.5")


OF_UNKNOWN_KEYS = ("hashmap-canonical", "rocksdb-native", "changelog-checkpoint")


@pytest.mark.parametrize("case", OF_UNKNOWN_KEYS)
def test_keys_are_bytes_and_all_behind_them_is_read(keys: Path, case: str) -> None:
    sp = pyspark_savepoint.open(snapshot_of(keys / case), uids=KEY_UIDS, allow_outside=True)

    rows = {row["key"]: row for row in sp.keyed_state("keyed").rows()}

    for key in range(KEYS):
        numbers = [*range(key, NUMBERS, KEYS)]
        row = rows.pop(utf(f"customer {key}"))
        assert (row["count"], row["name"], row["list"]) == (len(numbers), f"name {numbers[-1]}", numbers)
        assert dict(row["map"]) == {f"k{number}": number for number in numbers}
    assert rows == {}
    timers = sorted((row["key"], row["timestamp"]) for row in sp.timers("keyed").rows())
    assert timers == sorted((utf(f"customer {n % KEYS}"), n * 1000 + 10**9) for n in range(NUMBERS))
    assert [row for row in sp.inspect.verify().rows() if row["status"] not in ("ok", "warning")] == []


@pytest.mark.parametrize("case", [*OF_UNKNOWN_KEYS, "hashmap-native"])
def test_keys_of_windows_are_read_beside_values_of_an_unknown_serializer(keys: Path, case: str) -> None:
    sp = pyspark_savepoint.open(snapshot_of(keys / case), uids=KEY_UIDS, allow_outside=True)

    timers = list(sp.timers("windowed").rows())

    assert sorted(row["key"] for row in timers) == [*range(KEYS)]
    assert {row["namespace"]["end"].day for row in timers} == {2}
    if case == "hashmap-native":  # one list of several values, without lengths
        with pytest.raises(UndecodableStateError, match="values that only the job's own serializer can delimit"):
            list(sp.window_state("windowed").rows())
        return
    windows = {row["key"]: row["window-contents"] for row in sp.window_state("windowed").rows()}
    want = {key: b",".join(utf(f"number {n}") for n in range(key, NUMBERS, KEYS)) for key in range(KEYS)}
    assert windows == want
