"""Sorting: unsigned bytes within key groups, stable, in bounded memory, without leftover files."""

from __future__ import annotations

import io
import random
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_savepoint.formats.errors import SpillError
from pyspark_savepoint.formats.io import local_files
from pyspark_savepoint.formats.io.local_files import local_directory
from pyspark_savepoint.statebackends.rows import sorting
from pyspark_savepoint.statebackends.rows.sorting import (
    RowSorter,
    SortedBatch,
    merge_runs,
    order_within,
    read_run,
    sort_by_key_group,
    write_run,
)
from tests.open_files import open_files

Row = tuple[int, bytes, int]
SCHEMA = pa.schema([pa.field("value", pa.int64())])
NOTHING, SOME, PLENTY = 1, 4000, 1 << 30


def batch_of(rows: list[Row]) -> SortedBatch:
    groups = np.array([row[0] for row in rows], np.int32)
    values = pa.record_batch([pa.array([row[2] for row in rows], pa.int64())], schema=SCHEMA)
    return SortedBatch(groups, pa.array([row[1] for row in rows], pa.binary()), values)


def rows_of(batches: Iterator[SortedBatch]) -> list[Row]:
    found: list[Row] = []
    for batch in batches:
        assert 0 < len(batch) == batch.rows.num_rows == len(batch.key_group)
        batch.key.validate(full=True)
        found += zip(batch.key_group.tolist(), batch.key.to_pylist(), batch.rows.column(0).to_pylist(), strict=True)
    return found


def in_order(rows: list[Row]) -> list[Row]:
    """Return the order of Python: tuples of ints and bytes compare as key groups and unsigned bytes do."""
    return sorted(rows, key=lambda row: row[:2])


def spans(keys: list[bytes]) -> tuple[Any, Any, Any]:
    end = np.cumsum([len(key) for key in keys], dtype=np.int64)
    return np.frombuffer(b"".join(keys), np.uint8), end - np.array([len(key) for key in keys], np.int64), end


#: Few letters and few lengths make equal keys and keys that begin alike; the rest is anything.
keys = st.one_of(
    st.binary(max_size=30),
    st.text("ab\0\x7f", max_size=12).map(str.encode),
    st.integers(0, 40).map(lambda n: b"a shared beginning of keys" + bytes(n)),
)
rows = st.lists(st.tuples(st.sampled_from([0, 1, 2, 127, 32767]), keys), max_size=40).map(
    lambda pairs: [(*pair, i) for i, pair in enumerate(pairs)]
)


@given(rows, st.integers(1, 20), st.sampled_from([NOTHING, SOME, PLENTY]))
def test_rows_come_in_order_whatever_fits_into_memory(given_rows: list[Row], size: int, memory: int) -> None:
    with RowSorter(SCHEMA, memory) as sorter:
        for low in range(0, len(given_rows), size):
            batch = batch_of(given_rows[low : low + size])
            sorter.add(batch.key_group, batch.key, batch.rows)
        assert sorter.rows == len(given_rows)
        assert rows_of(sorter.sorted()) == in_order(given_rows)


@given(st.lists(st.tuples(st.integers(0, 3), keys), max_size=40), st.integers(1, 5), st.integers(1, 9))
def test_merged_runs_keep_the_order_of_equal_keys(pairs: list[tuple[int, bytes]], count: int, size: int) -> None:
    given_rows = [(*pair, i) for i, pair in enumerate(pairs)]
    step = max(1, -(-len(given_rows) // count))
    parts = [in_order(given_rows[low : low + step]) for low in range(0, len(given_rows), step)]
    runs = [iter([batch_of(part[low : low + size]) for low in range(0, len(part), size)]) for part in parts]

    assert rows_of(merge_runs(runs)) == in_order(given_rows)


@pytest.mark.parametrize("alphabet", [1, 2, 256])
@pytest.mark.parametrize("beginning", [b"", b"a long beginning that all keys have"])
@pytest.mark.parametrize("end", [b"", b"\0"])
@pytest.mark.parametrize("groups", [1, 300])
def test_the_order_of_many_keys(alphabet: int, beginning: bytes, end: bytes, groups: int) -> None:
    chance = random.Random(alphabet)
    some = [bytes(chance.randrange(alphabet) for _ in range(chance.randrange(25))) for _ in range(4000)]
    many = [beginning + chance.choice(some) + end for _ in range(20000)]
    key_group = np.array([chance.randrange(groups) for _ in many], np.int32)

    found = sort_by_key_group(key_group, *spans(many))

    expected = sorted(range(len(many)), key=lambda i: (key_group[i], many[i]))
    assert found.rows.tolist() == expected
    for low, high in ((0, 20000), (0, 0), (777, 778), (4000, 12345)):
        assert found.take(low, high).to_pylist() == [many[i] for i in expected[low:high]]
        assert found.groups(low, high).tolist() == [key_group[i] for i in expected[low:high]]


def test_words_that_only_a_few_bits_tell_apart() -> None:
    # Nearly all in one bucket, which then is sorted a byte at a time.
    skewed = [(0).to_bytes(8, "big")] * 5000 + [i.to_bytes(8, "big") for i in range(3000)] + [b"\xff" * 8]
    random.Random(1).shuffle(skewed)

    found = sort_by_key_group(np.zeros(len(skewed), np.int32), *spans(skewed))

    assert found.rows.tolist() == sorted(range(len(skewed)), key=lambda i: skewed[i])


def test_order_within_groups_that_are_there_already() -> None:
    bounds = np.array([0, 3, 3, 5], np.int64)

    assert order_within(bounds, *spans([b"c", b"a", b"b", b"b", b"a"])).tolist() == [1, 2, 0, 4, 3]
    assert not len(order_within(np.zeros(1, np.int64), *spans([])))


def test_nested_rows_spilled() -> None:
    kind = pa.struct(
        [("a", pa.list_(pa.string())), ("m", pa.map_(pa.string(), pa.int64())), ("d", pa.decimal128(9, 2))]
    )
    schema = pa.schema([pa.field("s", kind), pa.field("n", pa.null()), pa.field("b", pa.bool_())])
    chance = random.Random(2)
    values = [
        {
            "s": {"a": ["x" * (i % 5), None], "m": [(str(i), i)], "d": None} if i % 3 else None,
            "n": None,
            "b": i % 2 == 0,
        }
        for i in range(500)
    ]
    numbers = list(range(500))
    chance.shuffle(numbers)
    with RowSorter(schema, 20000) as sorter:
        for low in range(0, 500, 50):
            part = numbers[low : low + 50]
            batch = pa.RecordBatch.from_pylist([values[i] for i in part], schema=schema)
            key = pa.array([i.to_bytes(2, "big") for i in part], pa.binary())
            sorter.add(np.zeros(50, np.int32), key, batch)
        assert sorter.spilled
        found = [row for batch in sorter.sorted(100) for row in batch.rows.to_pylist()]

    assert found == values


def test_rows_without_columns_spilled() -> None:
    nothing = pa.RecordBatch.from_arrays([], schema=pa.schema([]))
    with RowSorter(pa.schema([]), NOTHING) as sorter:
        for i in range(9, -1, -1):
            sorter.add(np.array([i % 2] * 2, np.int32), pa.array([bytes([i]), b"z"], pa.binary()), nothing)
        found = [
            (g, k) for batch in sorter.sorted(3) for g, k in zip(batch.key_group, batch.key.to_pylist(), strict=True)
        ]

    assert found == sorted([(i % 2, bytes([i])) for i in range(10)] + [(i % 2, b"z") for i in range(10)])


def test_slices_of_larger_batches() -> None:
    everything = batch_of([(i % 3, bytes([i]), i) for i in range(50, 0, -1)])
    part = everything.cut(10, 40)
    with RowSorter(SCHEMA, PLENTY) as sorter:
        sorter.add(part.key_group, part.key, part.rows)
        found = rows_of(sorter.sorted())

    assert found == in_order(rows_of(iter([part])))


def test_a_run_is_a_file_that_says_what_it_holds() -> None:
    given_rows = [(i % 7, bytes([i % 50]), i) for i in range(300)]
    file = io.BytesIO()
    with RowSorter(SCHEMA, SOME) as sorter:
        batch = batch_of(given_rows)
        sorter.add(batch.key_group, batch.key, batch.rows)
        info = sorter.write_run(file)
    file.seek(0)

    assert rows_of(read_run(file)) == in_order(given_rows)
    assert info.rows == 300
    assert info.key_groups == {group: sum(row[0] == group for row in given_rows) for group in range(7)}


def test_a_run_read_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with path.open("wb") as file:
        write_run(file, SCHEMA, iter([batch_of([(1, b"k", 2)]), batch_of([])]))

    assert rows_of(read_run(str(path))) == [(1, b"k", 2)]


def test_many_runs_are_merged_into_one_of_the_next_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "FAN_IN", 3)
    given_rows = [(0, bytes([i * 37 % 251]), i) for i in range(200)]
    with RowSorter(SCHEMA, NOTHING, str(tmp_path)) as sorter:
        for row in given_rows:
            batch = batch_of([row])
            sorter.add(batch.key_group, batch.key, batch.rows)
        assert len(open_files(tmp_path)) == 1 + 0 + 1 + 1 + 2  # 199 = 1 + 0*3 + 1*9 + 1*27 + 2*81

        assert rows_of(sorter.sorted()) == in_order(given_rows)


def test_batches_are_bounded_by_rows_and_by_bytes() -> None:
    schema = pa.schema([pa.field("value", pa.binary())])
    batch = pa.record_batch([pa.array([bytes(1 << 20)] * 40, pa.binary())], schema=schema)
    key = pa.array([bytes([i]) for i in range(40)], pa.binary())
    with RowSorter(schema, PLENTY) as sorter:
        sorter.add(np.zeros(40, np.int32), key, batch)
        sizes = [len(found) for found in sorter.sorted()]
    assert sum(sizes) == 40
    assert max(sizes) <= sorting.MAX_BATCH >> 20

    with RowSorter(SCHEMA, PLENTY) as sorter:
        rows_in = batch_of([(0, bytes([i]), i) for i in range(100)])
        sorter.add(rows_in.key_group, rows_in.key, rows_in.rows)
        assert [len(found) for found in sorter.sorted(30)] == [30, 30, 30, 10]


def test_temporary_files_go_away_whatever_happens(tmp_path: Path) -> None:
    batch = batch_of([(0, b"k%d" % i, i) for i in range(100)])
    with RowSorter(SCHEMA, NOTHING, str(tmp_path)) as sorter:
        for _ in range(40):
            sorter.add(batch.key_group, batch.key, batch.rows)
        # Files without names: even a process that is killed leaves none.
        assert not list(tmp_path.iterdir())
        assert open_files(tmp_path)
        next(sorter.sorted())
    assert not open_files(tmp_path)


@pytest.mark.parametrize("count", [1, 50_000])
def test_a_full_disk_says_which_and_what_to_do(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def full(**_: object) -> Any:
        opened.append(open("/dev/full", "w+b"))  # noqa: SIM115  (the sorter closes it)
        return opened[-1]

    monkeypatch.setattr(local_files.tempfile, "TemporaryFile", full)
    batch = batch_of([(0, b"k", i) for i in range(count)])
    with RowSorter(SCHEMA, NOTHING, str(tmp_path)) as sorter:
        sorter.add(batch.key_group, batch.key, batch.rows)
        with pytest.raises(SpillError, match="No space left") as caught:
            sorter.add(batch.key_group, batch.key, batch.rows)
    assert caught.value.facts["path"] == str(tmp_path)
    assert "sortMemory" in caught.value.facts["remedy"]
    assert [file.closed for file in opened] == [True]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "gone")
    batch = batch_of([(0, b"k", 1)])
    with RowSorter(SCHEMA, NOTHING, missing) as sorter:
        sorter.add(batch.key_group, batch.key, batch.rows)
        with pytest.raises(SpillError) as caught:
            sorter.add(batch.key_group, batch.key, batch.rows)
    assert caught.value.facts["path"] == missing


def test_the_folder_is_the_executors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"/nowhere/at/all,{tmp_path}")
    assert local_directory() == str(tmp_path)


MEASURED = """
    import resource, sys
    import numpy as np, pyarrow as pa
    from pyspark_savepoint.statebackends.rows.sorting import RowSorter

    rows, memory = int(sys.argv[1]), int(sys.argv[2])
    schema = pa.schema([("a", pa.int64()), ("b", pa.int32())])
    random = np.random.default_rng(1)

    def sort(rows):
        with RowSorter(schema, memory) as sorter:
            for low in range(0, rows, 50000):
                n = min(50000, rows - low)
                numbers = random.permutation(n) + low
                offsets = pa.py_buffer(np.arange(n + 1, dtype=np.int32) * 8)
                key = pa.Array.from_buffers(pa.binary(), n, [None, offsets, pa.py_buffer(numbers.astype(">i8"))])
                values = pa.record_batch([pa.array(numbers), pa.array(numbers.astype(np.int32))], schema=schema)
                sorter.add(random.integers(0, 128, n).astype(np.int32), key, values)
            count = before = 0
            for batch in sorter.sorted():
                place = batch.key_group.astype(np.int64) << 40 | batch.rows.column(0).to_numpy()
                assert place[0] >= before and np.all(np.diff(place) > 0)
                before, count = place[-1], count + len(batch)
            assert count == rows and sorter.spilled == (rows > 200000)

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

    sort(200000)
    idle = peak()
    sort(rows)
    print(peak() - idle)
"""


def test_memory_is_what_was_said() -> None:
    memory = 48 << 20
    command = [sys.executable, "-c", textwrap.dedent(MEASURED), str(3_000_000), str(memory)]
    grown = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    assert grown < memory + (16 << 20)
