"""Key groups larger than a window, or than memory, are joined while they are read, and give the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.keyed.canonical_stream import CanonicalKeyedStream
from pyspark_savepoint.formats.keyed.keyed_block import SortedRows
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from tests.benchmarks.data import UID, write_savepoint

KEYS = 3000
#: With two key groups of about 70 KB each: one window, several windows in memory, more than memory.
ONE_WINDOW, SEVERAL, TOO_LARGE = 4 << 20, 1 << 18, 1 << 14


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("memory", [ONE_WINDOW, SEVERAL, TOO_LARGE])
def test_rows_do_not_depend_on_how_a_key_group_is_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ordered: bool, memory: int
) -> None:
    path = write_savepoint(tmp_path / "savepoint", "long", KEYS, max_parallelism=2, parallelism=1, ordered=ordered)
    kinds = set()
    read = CanonicalKeyedStream.rows_or_blocks

    def noted(self: CanonicalKeyedStream, *wanted: Any) -> Any:
        for block in read(self, *wanted):
            kinds.add(isinstance(block, SortedRows))
            yield block

    def rows(memory: int) -> list[tuple[Any, ...]]:
        partitions = open_table(TableRequest(str(path), uid=UID, memory=memory)).partitions(1)
        found = [row for part in partitions for batch in part.batches() for row in batch.to_pylist()]
        return sorted(tuple(row.values()) for row in found)

    expected = rows(1 << 30)
    monkeypatch.setattr(CanonicalKeyedStream, "rows_or_blocks", noted)
    assert rows(memory) == expected
    assert len(expected) == KEYS
    assert kinds == {True}
