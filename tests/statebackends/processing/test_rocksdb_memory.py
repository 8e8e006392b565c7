"""What is read ahead and written behind is what the database would return."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.errors import ValueRangeError
from pyspark_savepoint.statebackends.processing.backends import rocksdb_memory
from pyspark_savepoint.statebackends.processing.backends.rocksdb_backend import buffered, open_database
from pyspark_savepoint.statebackends.processing.backends.rocksdb_memory import MEMORY, Ahead, EntryMemory
from pyspark_savepoint.statebackends.processing.backends.rocksdb_states import (
    BytesTable,
    NumberTable,
    StoredTable,
)

KEYS = [b"key %d" % number for number in range(40)]
PREFIX = b"\0\1"


@pytest.mark.parametrize("most", [1, 3000, 1 << 20])
def test_answers_are_those_of_a_dictionary(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocksdb_memory, "MOST_BEHIND", most)
    database, model, chosen = buffered(open_database(str(tmp_path))), dict[bytes, bytes](), random.Random(most)
    ahead = Ahead([database])
    for number in range(3000):
        key = chosen.choice(KEYS)
        match chosen.randrange(8):
            case 0:
                database.delete(key)
                model.pop(key, None)
            case 1 | 2:
                database.put(key, b"%d" % number)
                model[key] = b"%d" % number
            case 3 if number % 10 == 0:
                if ahead.expect(chosen.sample(KEYS, 20)):
                    while ahead.read():
                        pass
            case 4 if number % 50 == 0:
                assert dict(database.entries(b"")) == model
            case _:
                assert database.get(key) == model.get(key)
    assert {key: database.get(key) for key in KEYS} == {key: model.get(key) for key in KEYS}
    database.close()


def test_large_values_are_read_ahead_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocksdb_memory, "MOST_AHEAD", 1000)
    database = buffered(open_database(str(tmp_path)))
    for key in KEYS * 10:
        database.put(key, bytes(2000))
    database.write()
    ahead = Ahead([database])
    assert ahead.expect(KEYS * 10)
    assert ahead.read() == 64
    assert ahead.read() == 1
    # None of them is used: the next records are read one by one.
    assert not ahead.expect(KEYS)
    database.close()


def table_of(kind: pa.DataType, folder: Path, most: int) -> StoredTable:
    """Return an empty table whose generations have at most some bytes."""
    memory = EntryMemory(buffered(open_database(str(folder))), size=300)
    created = (NumberTable if pa.types.is_integer(kind) else BytesTable)(memory, PREFIX, kind)
    created.most = most
    return created


@pytest.mark.parametrize("most", [1, 2000, 1 << 20])
@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.list_(pa.int64())], ids=str)
def test_tables_are_dictionaries(kind: pa.DataType, most: int, tmp_path: Path) -> None:
    table, model, chosen = table_of(kind, tmp_path, most), dict[bytes, Any](), random.Random(most)
    ahead = Ahead([table])
    for number in range(4000):
        key = chosen.choice(KEYS)
        match chosen.randrange(8):
            case 0:
                table.pop(key, None)
                model.pop(key, None)
            case 1 | 2:
                value = number if kind == pa.int64() else str(number) if kind == pa.string() else [number, None]
                table[key] = value
                model[key] = value
            case 3 if number % 10 == 0:
                if ahead.expect(chosen.sample(KEYS, 20)):
                    while ahead.read():
                        pass
            case 4 if number % 50 == 0:
                assert list(table.entries()) == sorted(model.items())
            case _:
                assert table.get(key) == model.get(key)
    assert list(table.entries()) == sorted(model.items())


def test_a_table_that_fits_into_memory_is_not_written(tmp_path: Path) -> None:
    database = buffered(open_database(str(tmp_path)))
    table = NumberTable(EntryMemory(database, MEMORY), PREFIX, pa.int64())
    for number, key in enumerate(KEYS):
        table[key] = number
    assert list(table.entries()) == sorted(zip(KEYS, range(40), strict=True))
    assert not list(database.entries(b""))


def test_values_that_were_read_ahead_are_those_of_later_changes(tmp_path: Path) -> None:
    table = table_of(pa.int64(), tmp_path, most=1)
    for key in KEYS:
        table[key] = 1
    assert table.read_ahead(KEYS) == (40, 40 * 8)
    # Each of these is encoded at once, because there is room for none.
    for number, key in enumerate(KEYS[:4], 2):
        table[key] = number
    assert [table.get(key) for key in KEYS[:6]] == [2, 3, 4, 5, 1, 1]


def test_values_read_one_by_one_are_bounded(tmp_path: Path) -> None:
    table = table_of(pa.string(), tmp_path, most=3000)
    for key in KEYS:
        table[key] = "x" * 500
    assert list(table.entries()) == [(key, "x" * 500) for key in sorted(KEYS)]
    assert all(table.get(key) == "x" * 500 for key in KEYS)
    assert len(table._ahead) < 6


@pytest.mark.parametrize("size", [20, 300, 3000, 1 << 20])
def test_entries_in_memory_and_in_the_database_are_those_of_a_dictionary(size: int, tmp_path: Path) -> None:
    memory, model = EntryMemory(buffered(open_database(str(tmp_path))), size), dict[bytes, bytes | None]()
    chosen = random.Random(size)
    for number in range(3000):
        keys = chosen.sample(KEYS, chosen.randrange(1, 8))
        if chosen.random() < 0.6:
            values = [None if chosen.random() < 0.3 else b"%d" % number * chosen.choice([1, 1, 5]) for _ in keys]
            memory.write_all(keys, values)
            model.update(zip(keys, values, strict=True))
        else:
            assert memory.read_all(keys) == [model.get(key) for key in keys]
            assert memory.read(keys[0]) == model.get(keys[0])
    there = {key: value for key, value in model.items() if value is not None}
    assert list(memory.entries(b"key 1")) == sorted(item for item in there.items() if item[0].startswith(b"key 1"))
    assert list(memory.entries(b"")) == sorted(there.items())


def test_a_value_changes_by_update_only(tmp_path: Path) -> None:
    table = table_of(pa.list_(pa.int64()), tmp_path, 1 << 20)
    value = [1]
    table[b"key"] = value
    value.append(2)
    table.get(b"key").append(3)
    assert table.get(b"key") == [1]


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1, "1", 1.5])
def test_a_number_that_does_not_fit_is_refused_when_it_is_set(value: Any, tmp_path: Path) -> None:
    table = table_of(pa.int64(), tmp_path, 1 << 20)
    with pytest.raises(ValueRangeError):
        table[b"key"] = value
    assert table.get(b"key") is None


def test_numbers_of_other_types_are_those_of_a_column(tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    table = table_of(pa.int64(), tmp_path, 1 << 20)
    table[b"key"] = np.int64(5)
    assert type(table.get(b"key")) is int
