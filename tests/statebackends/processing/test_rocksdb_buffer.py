"""What is read ahead and written behind is what the database would have said."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from rocksdict import ReadOptions

from pyspark_savepoint.statebackends.processing.backends import rocksdb_buffer
from pyspark_savepoint.statebackends.processing.backends.rocksdb import buffered, open_database
from pyspark_savepoint.statebackends.processing.backends.rocksdb_buffer import Ahead

KEYS = [b"key %d" % number for number in range(40)]


@pytest.mark.parametrize("most", [1, 3000, 1 << 20])
def test_answers_are_those_of_a_dictionary(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocksdb_buffer, "MOST_BEHIND", most)
    database, model, chosen = buffered(open_database(str(tmp_path))), dict[bytes, bytes](), random.Random(most)
    ahead = Ahead(database)
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
                    while ahead.read(lambda places: places):
                        pass
            case 4 if number % 50 == 0:
                cursor = database.iter(ReadOptions())
                cursor.seek(b"")
                found = {}
                while cursor.valid():
                    found[cursor.key()] = cursor.value()
                    cursor.next()
                assert found == model
            case _:
                assert database.get(key) == model.get(key)
    assert {key: database.get(key) for key in KEYS} == {key: model.get(key) for key in KEYS}
    database.close()


def test_large_values_are_read_ahead_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocksdb_buffer, "MOST_AHEAD", 1000)
    database = buffered(open_database(str(tmp_path)))
    for key in KEYS * 10:
        database.put(key, bytes(2000))
    database.write()
    ahead = Ahead(database)
    assert ahead.expect(KEYS * 10)
    assert ahead.read(lambda places: places) == 64
    assert ahead.read(lambda places: places) == 1
    # None of them is used: the next records are read one by one.
    assert not ahead.expect(KEYS)
    database.close()
