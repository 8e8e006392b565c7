"""Random shapes of state through Spark: what columns become, Flink finds as it was. In the gate the newest release."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.oracle.conftest import NEWEST, VERSIONS, failing_in_one_line
from tests.oracle.flink import newest_version
from tests.oracle.shapes import made_up, made_up_of_classes, restored, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.flink, pytest.mark.spark]
SEED, COUNT = 14, 20


def test_random_shapes_are_restored(spark: SparkSession, tmp_path: Path) -> None:
    operators = made_up(SEED, COUNT)
    write(spark, operators, tmp_path / "savepoint")
    for version in VERSIONS if "FLINK_VERSIONS" in os.environ else [NEWEST]:
        with failing_in_one_line():
            release = newest_version() if version == NEWEST else version
            lines, values = restored(release, operators, tmp_path / "savepoint", tmp_path / release)
        assert not lines, "\n".join(lines)
        assert values == 2 * sum(len(entries) for each in operators for entries in each.entries.values())


@pytest.mark.parametrize("version", VERSIONS)
def test_types_that_a_release_infers_are_restored(version: str, spark: SparkSession, tmp_path: Path) -> None:
    """Words, class files, both, and what is left out: Flink infers the same types from the classes."""
    if "FLINK_VERSIONS" not in os.environ and version != VERSIONS[0]:
        pytest.skip("other releases are asked where FLINK_VERSIONS names them")
    with failing_in_one_line():
        release = newest_version() if version == NEWEST else version
        operators = made_up_of_classes(SEED, COUNT, release, tmp_path / "classes")
    write(spark, operators, tmp_path / "savepoint")
    lines, values = restored(release, operators, tmp_path / "savepoint", tmp_path / release)
    assert not lines, "\n".join(lines)
    assert values == 2 * sum(len(entries) for each in operators for entries in each.entries.values())
