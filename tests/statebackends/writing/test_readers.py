"""A read during an overwrite gets the complete old savepoint or the complete new one."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.statebackends.writing.planning.write_request import DEFAULT_RETENTION
from tests.statebackends.writing.written_operators import read, write

ROUNDS, READERS = 12, 2


def rows(value: int) -> pa.Table:
    return pa.table({"key": list(range(50)), "n": [value] * 50})


def test_readers_during_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "sp"
    write(path, [rows(0)])
    read(path)  # compile kernels before the test
    over = threading.Event()
    seen: set[int] = set()
    problems: list[str] = []

    def reader() -> None:
        while not over.is_set():
            try:
                found = read(path)
            except SavepointError as error:
                problems.append(str(error))
                continue
            values = {row["n"] for row in found}
            if len(found) != 50 or len(values) != 1:
                problems.append(f"{len(found)} rows of {values}")
            seen.update(values)

    readers = [threading.Thread(target=reader) for _ in range(READERS)]
    for thread in readers:
        thread.start()
    try:
        for value in range(1, ROUNDS):
            write(path, [rows(value)], overwrite=True, retention=DEFAULT_RETENTION)
    finally:
        over.set()
        for thread in readers:
            thread.join()
    assert problems == []
    assert len(seen) > 2
