"""Real Flink 2.3 restores migrated savepoints of 1.20.5; the data set has the results without a migration."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle.conftest import failing_in_one_line
from tests.oracle.migration import EQUAL, migrated, next_differences, restored

pytestmark = pytest.mark.flink

CASES = (
    "pojo-all",
    "liststate-pojo-list",
    "mapstate-list-key",
    "key-kryo-uuid",
    "broadcast-hint-list",
    "kryo-u-generics",
)


def test_flink_restores_what_was_migrated_and_its_next_savepoint_is_the_same(tmp_path: Path) -> None:
    with failing_in_one_line():
        said = migrated(CASES, tmp_path, "rocksdb")
        found = restored("2.3.0", "rocksdb", tmp_path, tmp_path / "out", "|".join(CASES))
    assert all(outcome != "refused" for outcome in said.values())
    assert {case: result["outcome"] for case, result in found.items()} == dict.fromkeys(CASES, EQUAL)
    assert next_differences(tmp_path, tmp_path / "out", CASES) == {}
