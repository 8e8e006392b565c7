"""SQL and CEP jobs continue from corrected state: some of them, on the newest release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.oracle.conftest import failing_in_one_line
from tests.oracle.flink import newest_version
from tests.oracle.sql_jobs import mistakes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.flink, pytest.mark.spark]


def test_jobs_emit_what_the_corrections_say(spark: SparkSession, tmp_path: Path) -> None:
    with failing_in_one_line():
        lines, rows = mistakes(spark, newest_version(), tmp_path / "jobs", ["aggregate", "join", "pattern"])
    assert not lines, "\n".join(lines)
    assert rows > 100
