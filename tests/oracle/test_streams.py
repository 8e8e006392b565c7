"""A query that follows a running job of real Flink: it is killed while the job takes and deletes checkpoints."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.corpus.test_history import held, of_truth
from tests.faults.test_killed_streams import Query, expect_state
from tests.oracle.make_data import LAB

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
    folder, allowed, moments = tmp_path / "job", tmp_path / "allowed", random.Random(SEED)
    allowed.mkdir()

    def allow(steps: int) -> None:
        """Let the job take checkpoints until there are so many."""
        for step in range(steps):
            (allowed / str(step)).touch()

    arguments = [f"--out={folder}", "--backend=rocksdb-incr", "--retained=3", f"--pause={PAUSE}", f"--steps={STEPS}"]
    ended = folder / "history.json"
    running = threading.Thread(
        target=LAB.run,
        args=(flink_version, "flinklab.History", [*arguments, f"--allowed={allowed}"]),
        kwargs={"wanted": ended},
    )
    running.start()
    allow(1)
    while running.is_alive() and not list(folder.glob("checkpoints/*/chk-*/_metadata")):
        time.sleep(0.2)
    query = Query(folder / "checkpoints", tmp_path)
    for kill in range(1, KILLS + 1):
        # The last checkpoint comes after the last kill: the job still runs at each of them.
        allow(min(kill * STEPS // KILLS, STEPS - 1))
        query.kill(moments.uniform(0, 2))
        assert running.is_alive()
    allow(STEPS)
    running.join()
    taken = json.loads(ended.read_text())["checkpoints"]
    assert len(taken) == STEPS
    assert len(list(folder.glob("checkpoints/*/chk-*"))) == 3
    query.finish(taken[-1]["id"])
    newest = folder / taken[-1]["path"]
    expect_state(spark.read.parquet(str(tmp_path / "sink")).toArrow(), newest)
    assert held(newest) == of_truth(json.loads((folder / "truth" / f"{taken[-1]['id']}.json").read_text()))
