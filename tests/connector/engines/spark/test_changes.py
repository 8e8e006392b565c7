"""Changes between checkpoints, read by Spark: a part of what ``tests/corpus`` does with every history and table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.corpus.test_change_feed import TABLES, expect_spark_replays

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("kind", ["accounts", "elements of a map", "log", "offsets"])
def test_the_first_snapshot_and_its_changes_are_every_later_one(spark: SparkSession, corpus: Path, kind: str) -> None:
    expect_spark_replays(spark, corpus / "history" / "2.3.0-hashmap" / "checkpoints", TABLES[kind])
