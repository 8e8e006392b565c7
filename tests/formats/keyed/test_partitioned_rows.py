"""Large key groups that are not sorted are divided by the hash of their keys: rows as those of a dict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyspark_savepoint.formats.columns import Origin
from pyspark_savepoint.formats.errors import CorruptStateError, SpillError
from pyspark_savepoint.formats.io.byte_source import InlineByteSource
from pyspark_savepoint.formats.keyed import large_key_groups
from pyspark_savepoint.formats.keyed.key_group_reader import Extent, KeyGroupContent
from pyspark_savepoint.formats.keyed.large_key_groups import PartitionedStates
from tests.formats.keyed.test_sorted_windows import GROUP, some_keys, written

Entries = list[tuple[bytes, bytes]]
#: Bytes that stay in memory: all, or none.
ALL, NONE = 1 << 30, 0


def read(data: bytes, parted: PartitionedStates) -> dict[bytes, tuple[Any, ...]] | None:
    source = InlineByteSource("test", b"\0" * 7 + data)
    extent = Extent(GROUP, 7, 7 + len(data))
    if not parted.divide(KeyGroupContent(source, extent.start, extent.end, False), extent, extent.size):
        return None
    found: dict[bytes, tuple[Any, ...]] = {}
    for buffer, rows in parted.rows(Origin("test", 7)):
        for row in range(rows.count):
            key = buffer[rows.key_start[row] : rows.key_end[row]].tobytes()
            places = zip(rows.value_start[:, row].tolist(), rows.value_end[:, row].tolist(), strict=True)
            assert key not in found
            found[key] = tuple(None if low < 0 else buffer[low:high].tobytes() for low, high in places)
    return found


@pytest.mark.parametrize("held", [ALL, NONE], ids=["in memory", "on disk"])
@pytest.mark.parametrize("piece", [1, 500, 1 << 20])
@pytest.mark.parametrize("prefix", [1, 2])
def test_rows_are_those_of_a_dict(held: int, piece: int, prefix: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_key_groups, "PART_BYTES", 256)
    random = np.random.default_rng(piece + prefix)
    keys = some_keys(random, fixed=False)
    states: dict[int, Entries] = {}
    for state, share in ((0, 0.9), (1, 0.5), (2, 1.0), (4, 0.02)):
        mine = [keys[i] for i in random.permutation(len(keys)) if random.random() < share] or keys[-1:]
        states[state] = [(key, random.bytes(int(random.integers(0, 40)))) for key in mine]
    states[1][0] = states[1][0][0], bytes(5000)
    # State 3 has no entries, and state 2 is not asked for.
    columns = [0, 1, 3, 4]
    chosen = [dict(states.get(state, ())) for state in columns]
    expected = {key: tuple(of.get(key) for of in chosen) for key in set().union(*chosen)}
    assert read(written(states, prefix), PartitionedStates(columns, 5, prefix, 1, piece, held)) == expected


def test_damaged_bytes_and_repeated_keys_are_found() -> None:
    entries = [(key, b"value") for key in some_keys(np.random.default_rng(3), fixed=False)[::-1]]

    def parted(tail: int = 1) -> PartitionedStates:
        return PartitionedStates([0, 1], 2, 1, tail, 100, ALL)

    data = written({0: entries, 1: entries}, 1)
    assert read(data, parted()) is not None
    for damaged in (data[:-2], data + b"\0", data[: len(data) // 2], written({0: entries, 7: entries}, 1)):
        assert read(damaged, parted()) is None
    assert read(data + data, parted()) is None
    assert read(data, parted(tail=30)) is None
    with pytest.raises(CorruptStateError, match="two values"):
        read(written({0: entries, 1: [*entries, entries[5]]}, 1), parted())


def test_a_full_disk_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [(key, b"value") for key in some_keys(np.random.default_rng(3), fixed=True)]
    with open("/dev/full", "r+b", buffering=0) as full:
        monkeypatch.setattr(large_key_groups, "temporary_file", lambda _: full)
        with pytest.raises(SpillError, match="No space left"):
            read(written({0: entries}, 1), PartitionedStates([0], 1, 1, 1, 100, NONE))
