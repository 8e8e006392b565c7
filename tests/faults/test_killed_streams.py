"""A query that follows a job is killed again and again: nothing is lost, and nothing is there twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from tests.corpus.test_change_feed import counted, versions
from tests.played import Played

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A query into files, which ends after the changes of a checkpoint.
QUERY = """
import json, sys
from pyspark.sql import SparkSession
folder, work, last = sys.argv[1:]
conf = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.sql.session.timeZone": "UTC"}
spark = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
options = {"uid": "accounts", "allowOutside": "true", "pinFolder": f"{work}/held", "maxCheckpointsPerTrigger": "2"}
changes = spark.readStream.format("savepoint").options(**options).load(folder)
writer = changes.writeStream.format("parquet").option("checkpointLocation", f"{work}/log")
query = writer.trigger(processingTime="200 milliseconds").start(f"{work}/sink")
print("started", flush=True)
while True:
    query.awaitTermination(1)
    if query.exception() is not None:
        raise query.exception()
    progress = query.lastProgress
    if progress and progress.sources[0].endOffset:
        if json.loads(progress.sources[0].endOffset)["checkpoint"] >= int(last):
            break
query.stop()
"""
KILLS = 6


@pytest.mark.spark
def test_a_query_that_is_killed_while_checkpoints_come_and_go(
    spark: SparkSession, corpus: Path, tmp_path: Path
) -> None:
    job = Played(corpus / "history" / "1.20.5-rocksdb-incr-rescaled" / "checkpoints", tmp_path / "job", retained=3)
    job.take()
    moments = random.Random(7)
    ended = threading.Event()

    def play() -> None:
        while job.waiting and not ended.wait(moments.uniform(3, 10)):
            job.take()

    playing = threading.Thread(target=play)
    playing.start()
    command = [sys.executable, "-c", QUERY, str(job.folder), str(tmp_path), "8"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    try:
        for _ in range(KILLS):
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, env=environment, start_new_session=True, text=True
            ) as query:
                assert query.stdout is not None
                query.stdout.readline()
                time.sleep(moments.uniform(0, 8))
                os.killpg(query.pid, signal.SIGKILL)
        subprocess.run(command, check=True, env=environment, timeout=240)
    finally:
        ended.set()
        playing.join()
    found = spark.read.parquet(str(tmp_path / "sink")).toArrow()
    expect_state(found, next(job.folder.glob("*/chk-8")))
    assert [path.name for path in (tmp_path / "held").iterdir()][-1:] == ["chk-8"]


def expect_state(found: pa.Table, newest: Path) -> None:
    """What the changes give, of which none is of a row that is not there, is the state of a checkpoint."""
    expected = pyspark_savepoint.open(newest, allow_outside=True).keyed_state("accounts").to_arrow()
    have: Any = counted(expected.slice(0, 0))
    for version in sorted(set(found["_commit_version"].to_pylist())):
        mine = found.filter(pa.compute.equal(found["_commit_version"], version))
        gone = pa.array(
            [kind in ("delete", "update_preimage") for kind in mine["_change_type"].to_pylist()], pa.bool_()
        )
        values = mine.select(expected.schema.names).cast(expected.schema)
        removed, added = counted(values.filter(gone)), counted(values.filter(pa.compute.invert(gone)))
        assert not removed - have
        have = have - removed + added
    assert have == counted(expected)
    assert versions(newest.parent)
