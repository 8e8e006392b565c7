"""Merged comparison of two snapshots, against dictionaries of all entries of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint.formats.metadata import read_metadata, write_metadata
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.statebackends.merging.change_counts import COUNTS
from pyspark_savepoint.statebackends.merging.comparison import compare
from pyspark_savepoint.statebackends.merging.entry_chunk import Division, EntryChunk, paired_chunks, together
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import ComparisonRequest, EntriesRequest, TableRequest
from pyspark_savepoint.statebackends.rows.entry_bytes import KEYED_ENTRIES
from tests.benchmarks import data

Entry = tuple[int, int, bytes, bytes]
#: State 1 is a map: of a null only the flag counts.
MAP = 1


def chunk(entries: list[Entry]) -> EntryChunk:
    columns = list(zip(*entries, strict=True)) if entries else [()] * 4
    kinds = (pa.int32(), pa.int32(), pa.binary(), pa.binary())
    arrays = [pa.array(list(column), kind) for column, kind in zip(columns, kinds, strict=True)]
    # The key alone is the first two bytes.
    serial = pa.array([key[:2] for key in columns[2]], pa.binary())
    return EntryChunk.of_batch(pa.RecordBatch.from_arrays([*arrays, serial], schema=KEYED_ENTRIES))


def random_entries(random: np.random.Generator, modulus: int, number: int) -> list[Entry]:
    keys = {int(key) for key in random.integers(0, 400, number)}
    found: list[Entry] = []
    for key in keys:
        for state in range(3):
            for more in range(2 if state == MAP else 1):
                if random.random() < 0.7:
                    value = bytes(random.integers(0, 2, random.integers(1, 3), dtype=np.uint8))
                    tail = b"" if state != MAP else bytes([more])
                    found.append((state, key % modulus, key.to_bytes(2, "big") + tail, value))
    return found


def content(entry: Entry) -> tuple[int, bytes, bytes]:
    state, _, key, value = entry
    return state, key, b"\x01" if state == MAP and value[:1] == b"\x01" else value


def expected_counts(before: list[Entry], after: list[Entry]) -> dict[int, list[int]]:
    found = {}
    for state in {entry[0] for entry in before + after}:
        old, new = ({e[2]: content(e)[2] for e in side if e[0] == state} for side in (before, after))
        changed = sum(old[key] != new[key] for key in old.keys() & new.keys())
        found[state] = [len(old), len(new), len(new.keys() - old.keys()), len(old.keys() - new.keys()), changed]
    return found


@pytest.mark.parametrize("order", ["sorted", "shuffled", "one of each", "not grouped"])
@pytest.mark.parametrize("seed", range(4))
def test_random_chunks(order: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    modulus = 3
    sides = [random_entries(random, modulus, number) for number in (300, 250)]
    for side, entries in enumerate(sides):
        if order in ("shuffled", "not grouped") or (order == "one of each" and side):
            random.shuffle(entries)  # type: ignore[arg-type]
        else:
            entries.sort(key=lambda entry: (entry[1], entry[0], entry[2]))
        if order != "not grouped":
            entries.sort(key=lambda entry: (entry[1], entry[0]))
    sides = [[(int(e[0]), int(e[1]), bytes(e[2]), bytes(e[3])) for e in side] for side in sides]
    found = compare(chunk(sides[0]), chunk(sides[1]), modulus, {MAP})
    assert {state: numbers.tolist() for state, numbers in found.counts.items()} == expected_counts(*sides)
    contents = [Counter(map(content, side)) for side in sides]
    for which, (mine, other, flags) in enumerate(
        ((found.before, contents[1], found.before_differs), (found.after, contents[0], found.after_differs))
    ):
        rows = [tuple(row.values()) for row in mine.entries().to_pylist()]
        assert sorted(row[:4] for row in rows) == sorted(sides[which])
        assert [content(row[:4]) not in other for row in rows] == flags.tolist()


def test_elements_that_are_repeated_are_counted() -> None:
    before = [(0, 0, key, b"") for key in (b"a", b"b", b"a", b"a", b"c")]
    after = [(0, 0, key, b"") for key in (b"c", b"a", b"d")]
    found = compare(chunk(before), chunk(after), 1, ())
    assert found.counts[0].tolist() == [5, 3, 1, 3, 0]


@pytest.mark.parametrize(
    ("memory", "serial", "max_parallelisms"),
    [
        (1 << 9, False, (5, 7)),
        (1 << 10, True, (4, 6)),
        (1 << 10, False, (12, 12)),
        (1 << 30, True, (12, 18)),
        (1 << 30, False, (5, 7)),
    ],
)
def test_pairs_have_all_entries_of_their_keys(memory: int, serial: bool, max_parallelisms: tuple[int, int]) -> None:
    """In memory, divided, and partitioned on disk; with equal and different max parallelism."""
    random = np.random.default_rng(7)
    division = Division(max_parallelisms)
    sides = [random_entries(random, number, 200) for number in max_parallelisms]

    def reader(side: int) -> Any:
        def read(key_groups: set[int]) -> Iterator[EntryChunk]:
            mine = [entry for entry in sides[side] if entry[1] in key_groups]
            for low in range(0, len(mine), 50):
                yield chunk(mine[low : low + 50])

        return read

    seen: list[list[Entry]] = [[], []]
    places: dict[tuple[int, bytes], int] = {}
    number = 0
    for share in division.shares(2):
        sizes = np.full(division.modulus, 100, np.int64)
        for pair in paired_chunks((reader(0), reader(1)), division, share, sizes, memory, serial):
            number += 1
            for side in (0, 1):
                for row in pair[side].entries().to_pylist():
                    state, group, key, value, alone = row.values()
                    seen[side].append((state, group, key, value))
                    assert places.setdefault((0, alone) if serial else (state, key), number) == number
                    assert alone == key[:2]
    assert [sorted(side) for side in seen] == [sorted(side) for side in sides]
    assert number > 1 or memory > 1 << 10


@pytest.mark.parametrize("estimate", [0, 1, 500])
@pytest.mark.parametrize("hot", [None, 3])
def test_little_is_read_in_vain(estimate: int, hot: int | None) -> None:
    """Key groups are larger than their sizes say, as entries of compressed files are; one may be larger than memory."""
    division, memory = Division((64, 64)), 1 << 15
    sizes_of = [20_000 if group == hot else 2_000 for group in range(64)]
    read_bytes = 0

    def read(key_groups: set[int]) -> Iterator[EntryChunk]:
        nonlocal read_bytes
        for group in sorted(key_groups):
            one = chunk([(0, group, b"%06d" % group, b"v" * sizes_of[group])])
            read_bytes += one.nbytes
            yield one

    pairs = list(paired_chunks((read, read), division, range(64), np.full(64, estimate, np.int64), memory, serial=True))
    assert [sum(len(pair[side]) for pair in pairs) for side in (0, 1)] == [64, 64]
    assert read_bytes < 2 * sum(sizes_of) * 1.75
    # After one that is too large alone, others are read together again.
    assert len(pairs) < 40


def test_sizes_that_damaged_metadata_declares_are_added() -> None:
    sizes = np.array([1, 2, (1 << 63) - 1, (1 << 63) - 1, 3], np.int64)
    assert list(together(range(5), sizes, 10)) == [range(2), range(2, 3), range(3, 4), range(4, 5)]


# -- whole snapshots -------------------------------------------------------------------------------------------------


def snapshot(corpus: Path, case: str) -> str:
    return str(next((corpus / "lab" / case).rglob("_metadata")).parent)


def all_entries(path: str, uid: str, states: tuple[str, ...]) -> dict[tuple[str, bytes], bytes]:
    table = open_table(TableRequest(path, uid=uid, entries=EntriesRequest(tuple((name, False) for name in states))))
    rows = [row for part in table.partitions(1) for batch in part.batches() for row in batch.to_pylist()]
    return {(states[row["state"]], row["key"]): row["value"] for row in rows}


def states_of(path: str, uid: str) -> tuple[tuple[str, ...], set[str]]:
    table = open_table(TableRequest(path, uid=uid, table="states"))
    rows = [row for part in table.partitions(1) for batch in part.batches() for row in batch.to_pylist()]
    keyed = [row for row in rows if row["table"] == "keyed_state"]
    return tuple(row["state"] for row in keyed), {row["state"] for row in keyed if row["kind"] == "MAP"}


CASES = [
    ("2.2.1-hashmap-canonical", "2.2.1-rocksdb-native", 1 << 15),
    ("2.2.1-rocksdb-canonical-maxp1000", "2.2.1-hashmap-canonical", 32 << 20),
    ("2.2.1-rocksdb-incr-checkpoint", "2.3.0-hashmap-canonical-compressed", 32 << 20),
    ("2.2.1-forst-native", "1.20.5-hashmap-native", 32 << 20),
]


@pytest.mark.parametrize(("old", "new", "memory"), CASES)
def test_backends_max_parallelisms_and_memory_make_no_difference(corpus: Path, old: str, new: str, memory: int) -> None:
    paths, uid = (snapshot(corpus, old), snapshot(corpus, new)), "kv-long"
    known = [states_of(path, uid) for path in paths]
    states = tuple(dict.fromkeys(known[0][0] + known[1][0]))
    before, after = (all_entries(path, uid, mine) for path, (mine, _) in zip(paths, known, strict=True))
    for side in (before, after):
        for (name, key), value in side.items():
            if name in known[0][1] | known[1][1] and value[:1] == b"\x01":
                side[name, key] = b"\x01"
    everything = before.keys() | after.keys()
    # Keys are longs.
    differing = {(name, key[:8]) for name, key in everything if before.get((name, key)) != after.get((name, key))}
    sides = [
        TableRequest(path, uid=uid, table="keyed_state", state=",".join(mine), memory=memory)
        for path, (mine, _) in zip(paths, known, strict=True)
    ]
    request = TableRequest(paths[0], memory=memory, compared=ComparisonRequest((sides[0], sides[1]), states))
    table = open_table(request)
    for parallelism in (3,):
        rows = [row for part in table.partitions(parallelism) for batch in part.batches() for row in batch.to_pylist()]
        found = {(name, row["key"].to_bytes(8, "big", signed=True)) for row in rows for name in row["changed_states"]}
        assert found == differing
        assert len({row["key"] for row in rows}) == len(rows)
    bare = (TableRequest(paths[0]), TableRequest(paths[1]))
    counts = open_table(TableRequest(paths[0], compared=ComparisonRequest(bare, None)))
    sums: dict[str, Counter[str]] = {}
    for part in counts.partitions(5):
        for batch in part.batches():
            for row in batch.to_pylist():
                if row["operator_uid_hash"] == OperatorID.from_uid(uid).hex and row["table"] == "keyed_state":
                    sums.setdefault(row["state"], Counter()).update({name: row[name] for name in COUNTS})
    for name in states:
        old_keys, new_keys = ({key for state, key in side if state == name} for side in (before, after))
        changed = sum(before[name, key] != after[name, key] for key in old_keys & new_keys)
        numbers = [len(old_keys), len(new_keys), len(new_keys - old_keys), len(old_keys - new_keys), changed]
        assert [sums[name][each] for each in COUNTS] == numbers


def test_a_key_group_larger_than_memory_is_compared_in_parts(tmp_path: Path) -> None:
    """All keys in one key group, sorted in one snapshot and shuffled in the other, through local disk."""
    one = {"max_parallelism": 1, "parallelism": 1}
    paths = [str(data.write_savepoint(tmp_path / str(i), "string", 5_000, ordered=not i, **one)) for i in (0, 1)]
    file = Path(paths[1]) / "state-0"
    content = bytearray(file.read_bytes())
    # The value of the last entry, before the end mark.
    content[-3] ^= 1
    file.write_bytes(content)
    sides = [TableRequest(path, uid="bench", table="keyed_state", state="total,count") for path in paths]
    for memory in (1 << 16, 32 << 20):
        request = TableRequest(
            paths[0], memory=memory, compared=ComparisonRequest((sides[0], sides[1]), ("total", "count"))
        )
        rows = [r for part in open_table(request).partitions(2) for batch in part.batches() for r in batch.to_pylist()]
        assert [(row["change"], row["changed_states"]) for row in rows] == [("changed", ["count"])]
        assert rows[0]["count_before"] ^ rows[0]["count_after"] == 1
        assert rows[0]["total_before"] == rows[0]["total_after"]


def test_operators_of_one_snapshot_only(tmp_path: Path) -> None:
    path = data.write_savepoint(tmp_path / "old", "long", 100)
    other = data.write_savepoint(tmp_path / "new", "long", 50)
    metadata = read_metadata(memoryview((other / "_metadata").read_bytes()), str(other))
    (operator,) = metadata.operators
    renamed = replace(metadata, operators=(replace(operator, operator_id=OperatorID.from_uid("other")),))
    (other / "_metadata").write_bytes(write_metadata(renamed))
    sides = ComparisonRequest((TableRequest(str(path)), TableRequest(str(other))), None)
    table = open_table(TableRequest(str(path), compared=sides))
    rows = [row for part in table.partitions(1) for batch in part.batches() for row in batch.to_pylist()]
    found = {
        (row["operator_uid_hash"], row["operator_change"], row["state"]): [row[name] for name in COUNTS]
        for row in rows
        if row["table"]
    }
    old, new = OperatorID.from_uid("bench").hex, OperatorID.from_uid("other").hex
    assert found == {
        (old, "removed", "total"): [100, 0, 0, 100, 0],
        (old, "removed", "count"): [100, 0, 0, 100, 0],
        (new, "added", "total"): [0, 50, 50, 0, 0],
        (new, "added", "count"): [0, 50, 50, 0, 0],
    }
