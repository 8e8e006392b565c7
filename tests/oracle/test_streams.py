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
#: Milliseconds that the job waits for each kill, so that it still runs when the last one comes.
PER_KILL = 8_000


def test_a_query_that_is_killed_while_a_job_runs(spark: SparkSession, flink_version: str, tmp_path: Path) -> None:
    folder, moments = tmp_path / "job", random.Random(SEED)
    pause = max(2_000, PER_KILL * KILLS // STEPS)
    arguments = [f"--out={folder}", "--backend=rocksdb-incr", "--retained=3", f"--pause={pause}", f"--steps={STEPS}"]
    ended = folder / "history.json"
    running = threading.Thread(
        target=LAB.run, args=(flink_version, "flinklab.History", arguments), kwargs={"wanted": ended}
    )
    running.start()
    while running.is_alive() and not list(folder.glob("checkpoints/*/chk-*/_metadata")):
        time.sleep(0.2)
    query = Query(folder / "checkpoints", tmp_path)
    for _ in range(KILLS):
        query.kill(moments.uniform(0, 2))
    running.join()
    taken = json.loads(ended.read_text())["checkpoints"]
    assert len(taken) == STEPS
    assert len(list(folder.glob("checkpoints/*/chk-*"))) == 3
    query.finish(taken[-1]["id"])
    newest = folder / taken[-1]["path"]
    expect_state(spark.read.parquet(str(tmp_path / "sink")).toArrow(), newest)
    assert held(newest) == of_truth(json.loads((folder / "truth" / f"{taken[-1]['id']}.json").read_text()))
