"""Databases after any history of writes, against a dictionary."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rocksdict import DBCompressionType

from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.io.byte_source import ByteSource, InlineByteSource, StateLocation
from pyspark_savepoint.formats.rocksdb.database import Database
from tests.formats.rocksdb.rocksdb_files import FAMILY, Pairs, locations, pairs_of, read_all, writer

KEYS = st.tuples(st.integers(0, 5), st.integers(0, 9)).map(lambda pair: bytes([pair[0]]) + b"k%d" % pair[1])
STEPS = st.one_of(
    st.tuples(st.just("put"), KEYS, st.binary(max_size=30)),
    st.tuples(st.just("put"), KEYS, st.binary(max_size=30)),
    st.tuples(st.just("put"), KEYS, st.binary(max_size=30)),
    st.tuples(st.just("delete"), KEYS, st.none()),
    st.tuples(st.just("range"), KEYS, KEYS),
    st.tuples(st.just("flush"), st.none(), st.none()),
    st.tuples(st.just("compact"), st.none(), st.none()),
)


def play(family: Any, model: dict[bytes, bytes], step: tuple[str, Any, Any]) -> None:
    """Do one step to the database and to the model."""
    match step:
        case ("put", key, value):
            family[key] = value
            model[key] = value
        case ("delete", key, _):
            family.delete(key)
            model.pop(key, None)
        case ("range", one, other):
            low, high = sorted([one, other])
            family.delete_range(low, high)
            for key in [key for key in model if low <= key < high]:
                del model[key]
        case ("flush", _, _):
            family.flush()
        case ("compact", _, _):
            family.flush()
            family.compact_range(None, None)


@settings(max_examples=30)
@given(st.lists(STEPS, max_size=60))
def test_any_history(steps: list[tuple[str, Any, Any]]) -> None:
    model: dict[bytes, bytes] = {}
    with tempfile.TemporaryDirectory() as folder, writer(Path(folder), block_size=64) as opened:
        for step in steps:
            play(opened.family, model, step)
        files = opened.files()

    assert read_all(files) == sorted(model.items())
    assert read_all(files, 2, 4) == [(key, value) for key, value in sorted(model.items()) if 2 <= key[0] <= 4]


def filled(folder: Path, groups: int, keys: int) -> tuple[dict[str, bytes], Pairs]:
    pairs = [(bytes([group]) + b"key-%05d" % i, b"value-%d" % i) for group in range(groups) for i in range(keys)]
    with writer(folder, compression=DBCompressionType.snappy()) as opened:
        for start in (0, 1):
            for key, value in pairs[start::2]:
                opened.family[key] = value
            opened.family.flush()
        return opened.files(), pairs


class Counting(InlineByteSource):
    """Bytes that count how many of them were read."""

    read_bytes = 0

    def _fill(self, start: int, buffer: Any) -> None:
        Counting.read_bytes += len(memoryview(buffer))
        super()._fill(start, buffer)


class Counted:
    """A location of :class:`Counting` bytes."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = self.path = name
        self.data = data
        self.size = len(data)

    def open(self, *_: object) -> ByteSource:
        return Counting(self.name, self.data)


def test_only_blocks_of_the_wanted_key_groups_are_read(tmp_path: Path) -> None:
    files, pairs = filled(tmp_path, 100, 400)
    counted: dict[str, Any] = {name: Counted(name, data) for name, data in files.items()}
    total = sum(len(data) for data in files.values())

    with Database(counted, 1) as database:
        family = database.family(FAMILY, 50, 50)
        opening, Counting.read_bytes = Counting.read_bytes, 0
        found = pairs_of(family.read(50, 50))

    assert found == [pair for pair in pairs if pair[0][0] == 50]
    # Two percent of the data are less than opening costs: the ends of two files.
    assert Counting.read_bytes < total / 20
    assert opening < 4 * (1 << 16) + total / 4


def test_steps_are_small(tmp_path: Path) -> None:
    files, pairs = filled(tmp_path, 2, 4000)

    with Database(locations(files), 1) as database:
        family = database.family(FAMILY, 0, 1)
        sizes = family.sizes(0, 1)
        parts = [pairs_of(part) for part in family.steps(1, 1, 1 << 14)]

    assert [pair for part in parts for pair in part] == pairs[4000:]
    assert len(parts) > 5
    assert sizes.sum() == pytest.approx(sum(len(key) + len(value) + 8 for key, value in pairs), rel=0.1)
    assert abs(sizes[0] - sizes[1]) < 5000


def test_more_files_than_are_open_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_savepoint.formats.rocksdb.database.MAX_OPEN", 2)
    with writer(tmp_path) as opened:
        for i in range(8):
            opened.family[bytes([i])] = b"v"
            opened.family.flush()
        files = opened.files()

    assert len(files) == 10
    assert read_all(files) == [(bytes([i]), b"v") for i in range(8)]


def test_a_family_that_is_not_there(tmp_path: Path) -> None:
    with writer(tmp_path) as opened:
        files: dict[str, StateLocation] = locations(opened.files())

    with Database(files, 1) as database, pytest.raises(CorruptStateError, match="no column family 'other'") as raised:
        database.family("other", 0, 1)
    assert raised.value.facts["found"] == "'default', 'state'"
