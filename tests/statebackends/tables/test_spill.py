"""Key groups larger than memory: partitioned by key on disk, and the same rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint.formats.errors import SpillError
from pyspark_savepoint.formats.keyed import key_partitions
from pyspark_savepoint.formats.keyed.key_partitions import KeyedRows, KeyPartitions, Parts
from pyspark_savepoint.formats.keyed.keyed_block import KeyedBlock
from pyspark_savepoint.statebackends.rows.rows import join
from pyspark_savepoint.statebackends.sources.changelog_units import UNITS
from pyspark_savepoint.statebackends.sources.keyed_plan import KeyedSpec
from pyspark_savepoint.statebackends.tables import keyed_table
from pyspark_savepoint.statebackends.tables.keyed_table import LargeKeyGroup
from tests.open_files import open_files
from tests.statebackends.keyed_models import KEYED, RAW, Model, Written, by_key, expected, write

pytestmark = pytest.mark.many_sets

WINDOW = 2000
FORMS = pytest.mark.parametrize("heap", [False, True], ids=["full", "heap"])


def large_model(keys: int = 400, entries: int = 5) -> Model:
    shuffled = random.Random(7)
    return {
        shuffled.getrandbits(60): {
            "total": i,
            "name": f"n{i}" if i % 3 else None,
            "items": list(range(i % 5 + 1)),
            "by_name": {f"m{j}": i * j if j else None for j in range(entries)},
            "sums": {(j, j + i): i for j in range(2)},
        }
        for i in range(keys)
    }


def blocks_of(written: Written, states: tuple[str, ...], window: int) -> Iterator[KeyedBlock]:
    """What the stream gives in windows of some bytes."""
    spec = KeyedSpec(states, states == ("sums",), frozenset(), RAW, 1000, window)
    with written.source.open(RAW) as stream:
        selected = {state for state, _ in spec.bind(stream.header, stream.form).values()}
        yield from stream.blocks(set(written.source.key_group_range), selected, spec.namespaced, window)


@FORMS
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("states", [KEYED, ("by_name",), ("sums",)], ids=str)
def test_the_rows_of_a_large_key_group(heap: bool, compressed: bool, states: tuple[str, ...]) -> None:
    model = large_model()
    written = write(model, heap=heap, compressed=compressed, max_parallelism=1, shuffle=random.Random(1))
    assert not next(blocks_of(written, states, WINDOW)).complete

    assert by_key(written.rows(states, WINDOW)) == expected(model, states)


@FORMS
@pytest.mark.parametrize("states", [KEYED, ("sums",)], ids=str)
def test_parts_are_small_and_have_whole_keys(heap: bool, states: tuple[str, ...]) -> None:
    model = large_model()
    written = write(model, heap=heap, max_parallelism=1, shuffle=random.Random(1))
    pieces = list(blocks_of(written, states, WINDOW))
    header = written.source.header()

    with LargeKeyGroup(pieces[0], header, WINDOW) as joined:
        for piece in pieces:
            assert joined.takes(piece)
            joined.add(piece)
        blocks = list(joined.blocks())

    assert len(blocks) > 10
    assert all(block.complete and len(block.buffer) < 4 * WINDOW for block in blocks)
    assert sum(len(join(block)) for block in blocks) == len(expected(model, states))


def test_a_part_that_is_still_too_large_is_divided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_partitions, "FANOUT", 2)
    monkeypatch.setattr(keyed_table, "IN_MEMORY", 1)
    depths: set[int] = set()
    add = KeyPartitions.add

    def noted(self: KeyPartitions, rows: KeyedRows, of: int = 0) -> None:
        depths.add(self.depth)
        add(self, rows, of)

    monkeypatch.setattr(KeyPartitions, "add", noted)
    model = large_model(200)
    written = write(model, heap=True, max_parallelism=1)

    assert by_key(written.rows(KEYED, WINDOW)) == expected(model, KEYED)
    assert depths == {0, 1, 2, 3, 4}


def test_one_enormous_key_is_not_divided_for_ever() -> None:
    model: Model = {7: {"by_name": {f"name {i}": i for i in range(2000)}}, 8: {"total": 1}}
    for shuffle in (None, random.Random(3)):
        written = write(model, heap=False, max_parallelism=1, shuffle=shuffle)

        assert by_key(written.rows(KEYED, 500)) == expected(model, KEYED)


@FORMS
def test_no_file_is_left(heap: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    written = write(large_model(100), heap=heap, max_parallelism=1, shuffle=random.Random(1))

    rows = written.rows(("by_name",), WINDOW)

    assert len(rows) == 100
    assert list(tmp_path.iterdir()) == []
    assert open_files(tmp_path) == []


def test_entries_keep_their_order_within_a_key() -> None:
    model: Model = {1: {"by_name": {f"{i:04}": i for i in range(500)}}}
    written = write(model, heap=False, max_parallelism=1)
    (row,) = written.rows(("by_name",), 300)

    assert [name for name, _ in row["by_name"]] == sorted(model[1]["by_name"])
    assert np.all(np.diff([value for _, value in row["by_name"]]) == 1)


def full(*_: object) -> Any:
    """A file on a disk without room."""
    return open("/dev/full", "w+b")


@FORMS
def test_a_full_disk_says_which_and_what_to_do(heap: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"/nowhere,{tmp_path}")
    monkeypatch.setattr(key_partitions, "temporary_file", full)
    written = write(large_model(), heap=heap, max_parallelism=1, shuffle=random.Random(1))
    with pytest.raises(SpillError, match="No space left") as raised:
        written.rows(KEYED, WINDOW)
    assert raised.value.facts["path"] == str(tmp_path)
    assert "'memory' of reads" in raised.value.facts["remedy"]


def test_a_full_disk_for_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_partitions, "temporary_file", full)
    units = pa.record_batch([pa.array([None] * 9, field.type) for field in UNITS], schema=UNITS)
    with Parts(UNITS, 1, 0) as parts, pytest.raises(SpillError, match="No space left"):
        parts.add(np.zeros(90_000, np.int64), lambda _: pa.concat_batches([units] * 10_000))


def test_spilled_files_are_in_the_folders_of_sparks_executors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    pieces = list(blocks_of(written := write(large_model(), heap=False, max_parallelism=1), KEYED, WINDOW))
    with LargeKeyGroup(pieces[0], written.source.header(), WINDOW) as joined:
        for piece in pieces:
            joined.add(piece)
        (parts,) = joined.entries.inputs
        assert {Path(f"/proc/self/fd/{file.fileno()}").readlink().parent for file in parts._files} == {tmp_path}
