"""A query that follows a running job of real Flink: it is killed while the job takes and deletes checkpoints."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.corpus.test_history import held, of_truth
from tests.faults.test_killed_streams import Query, expect_state
from tests.oracle.make_data import Running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.flink, pytest.mark.spark]
#: How many checkpoints the job takes, how often the query is killed, and what its moments are drawn with.
STEPS, KILLS, SEED = (
    int(os.environ.get(name, usual))
    for name, usual in (("STREAM_CHECKPOINTS", "20"), ("STREAM_KILLS", "5"), ("STREAM_SEED", "11"))
)
#: Milliseconds between two checkpoints that the job may take.
PAUSE = 2_000


def test_a_query_that_is_killed_while_a_job_runs(spark: SparkSession, flink_version: str, tmp_path: Path) -> None:
    moments = random.Random(SEED)
    job = Running(tmp_path / "job", flink_version, STEPS, [f"--pause={PAUSE}"])
    job.take()
    query = Query(job.folder / "checkpoints", tmp_path)
    try:
        for kill in range(1, KILLS + 1):
            # The last checkpoint comes after the last kill: the job still runs at each of them.
            job.allow(max(0, min(kill * STEPS // KILLS, STEPS - 1) - job.allowed))
            began = time.monotonic()
            assert query.kill(moments.uniform(0, 2), waiting=600)
            print(f"kill {kill} of {KILLS} after {time.monotonic() - began:.1f} s")
            assert job.running
    finally:
        query.close()
    taken = job.end()
    assert len(taken) == STEPS
    assert len(list(job.folder.glob("checkpoints/*/chk-*"))) == job.retained
    query.finish(taken[-1]["id"])
    newest = job.folder / taken[-1]["path"]
    expect_state(spark.read.parquet(str(tmp_path / "sink")).toArrow(), newest)
    assert held(newest) == of_truth(json.loads((job.folder / "truth" / f"{taken[-1]['id']}.json").read_text()))
