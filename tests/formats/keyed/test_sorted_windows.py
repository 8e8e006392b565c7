"""Key groups larger than memory are merged by windows: rows as those of a dict, whatever the window and the entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyspark_savepoint.formats.io.byte_source import InlineByteSource
from pyspark_savepoint.formats.keyed.key_group_reader import Extent, KeyGroupContent
from pyspark_savepoint.formats.keyed.large_key_groups import SortedStates

GROUP = 5
Values = dict[bytes, bytes]


def blob(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def written(states: dict[int, list[tuple[bytes, bytes]]], prefix: int) -> bytes:
    """A key group of the canonical format, entries as they are given."""
    out = []
    for state, entries in states.items():
        out.append(state.to_bytes(2, "big"))
        for i, (key, value) in enumerate(entries):
            whole = bytearray(GROUP.to_bytes(prefix, "big") + key)
            whole[0] |= 0x80 if i == len(entries) - 1 else 0
            out.append(blob(bytes(whole)) + blob(value))
    return b"".join(out) + b"\xff\xff"


def read(data: bytes, sorted_states: SortedStates) -> list[tuple[Any, ...]] | None:
    source = InlineByteSource("test", b"\0" * 7 + data)
    extent = Extent(GROUP, 7, 7 + len(data))
    content = KeyGroupContent(source, extent.start, extent.end, False)
    ranges = sorted_states.ranges(content, extent)
    if ranges is None:
        return None
    found: list[tuple[Any, ...]] = []
    for buffer, rows in sorted_states.rows(content, ranges):
        for row in range(rows.count):
            key = buffer[rows.key_start[row] : rows.key_end[row]].tobytes()
            places = zip(rows.value_start[:, row].tolist(), rows.value_end[:, row].tolist(), strict=True)
            found.append((key, *(None if low < 0 else buffer[low:high].tobytes() for low, high in places)))
    return found


def some_keys(random: np.random.Generator, fixed: bool) -> list[bytes]:
    width = (lambda: 9) if fixed else (lambda: int(random.integers(1, 25)))
    return sorted({random.integers(0, 3, width(), np.uint8).tobytes() + b"\0" for _ in range(300)})


@pytest.mark.parametrize("window", [1, 100, 3000, 1 << 20])
@pytest.mark.parametrize("prefix", [1, 2])
@pytest.mark.parametrize("fixed", [True, False], ids=["keys of one size", "keys of any size"])
def test_rows_are_those_of_a_dict(window: int, prefix: int, fixed: bool) -> None:
    random = np.random.default_rng(window + prefix)
    keys = some_keys(random, fixed)
    states: dict[int, Values] = {}
    for state, share in ((0, 0.9), (1, 0.5), (2, 1.0), (4, 0.02)):
        mine = [key for key in keys if random.random() < share] or keys[-1:]
        states[state] = {key: random.bytes(int(random.integers(0, 40))) for key in mine}
    states[1][min(states[1])] = bytes(5000)
    data = written({state: list(values.items()) for state, values in states.items()}, prefix)
    # State 3 has no entries, and state 2 is not asked for: it may have any order.
    columns = [0, 1, 3, 4]
    chosen = set().union(*(states.get(state, {}) for state in columns))
    expected = [(key, *(states.get(state, {}).get(key) for state in columns)) for key in sorted(chosen)]
    assert read(data, SortedStates(columns, 5, prefix, 1, window)) == expected
    unsorted = {**{s: list(v.items()) for s, v in states.items()}, 2: list(states[2].items())[::-1]}
    assert read(written(unsorted, prefix), SortedStates(columns, 5, prefix, 1, window)) == expected


@pytest.mark.parametrize("window", [1, 100, 1 << 20])
def test_what_is_not_sorted_is_left_to_others(window: int) -> None:
    keys = some_keys(np.random.default_rng(3), fixed=False)
    entries = [(key, b"value") for key in keys]
    whole = SortedStates([0, 1], 2, 1, 1, window)
    good = {0: entries, 1: entries}
    assert read(written(good, 1), whole) is not None
    swapped = [*entries[:200], entries[201], entries[200], *entries[202:]]
    assert read(written({0: entries, 1: swapped}, 1), whole) is None
    assert read(written({0: entries, 1: [*entries, entries[-1]]}, 1), whole) is None
    assert read(written({0: entries, 7: entries}, 1), whole) is None
    data = written(good, 1)
    assert read(data[:-2], whole) is None
    assert read(data + b"\0", whole) is None
    assert read(data[: len(data) // 2], whole) is None
