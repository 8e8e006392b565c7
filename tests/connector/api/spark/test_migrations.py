"""check_migration and migrate of the fluent API: a DataFrame of verdicts, and a savepoint that Spark reads on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyspark_savepoint import Savepoint
from pyspark_savepoint.formats.errors import UnsupportedStateError
from tests.connector.comparing import assert_same_rows
from tests.data import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIGRATION = unpacked() / "migration"
CASE = MIGRATION / "cases" / "pojo-list-string"


def test_a_savepoint_is_checked_and_migrated(spark: SparkSession, tmp_path: Path) -> None:
    old = Savepoint.load(spark, CASE / "1.20.5-rocksdb")
    classes = [MIGRATION / "classes"]
    (worst,) = old.check_migration("2.3", classes=classes).limit(1).collect()
    assert (worst.state, worst.part, worst.rocksdb) == ("v", "v", "fails when the state is registered")
    with pytest.raises(UnsupportedStateError, match="nothing was written"):
        old.migrate("2.3").write(tmp_path / "new")
    new = old.migrate("2.3", classes=classes).write(tmp_path / "new")
    expected = Savepoint.load(spark, CASE / "2.3.0-hashmap")
    uid = worst.operator_uid_hash
    assert_same_rows(new.keyed_state(uid), expected.keyed_state(uid))
