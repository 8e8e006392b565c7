"""A query that follows a job is killed again and again: nothing is lost, and nothing is there twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
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
import pyspark_savepoint
from pyspark.sql import SparkSession
folder, work, last = sys.argv[1:]
conf = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.sql.session.timeZone": "UTC"}
spark = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
print("ready", flush=True)
sys.stdin.readline()
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
#: Seconds after which a query that plans no micro-batch is killed.
WAITING = 30


@dataclass
class Query:
    """A query that follows the job of a folder, in processes of its own; the next ones are started ahead."""

    folder: Path
    work: Path
    ahead: subprocess.Popen[str] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The environment, with this Python."""
        return {**os.environ, "PYSPARK_PYTHON": sys.executable}

    def batches(self) -> list[Path]:
        """The micro-batches in the log."""
        return [*(self.work / "log" / "offsets").glob("[0-9]*")]

    def command(self, last: int) -> list[str]:
        """The command of a query that ends after a checkpoint."""
        return [sys.executable, "-c", QUERY, str(self.folder), str(self.work), str(last)]

    def kill(self, seconds: float, waiting: float = WAITING) -> bool:
        """Start the query, and kill all of its processes some time after it has planned another micro-batch.

        Args:
            seconds: The time after it.
            waiting: Seconds after which a query that plans no micro-batch is killed, too.

        Returns:
            Whether it has planned one.

        """
        planned = len(self.batches())
        query = self.ahead or self._start(1 << 40)
        with query:
            assert query.stdout is not None
            assert query.stdin is not None
            assert query.stdout.readline() == "ready\n"
            query.stdin.write("go\n")
            query.stdin.flush()
            assert query.stdout.readline() == "started\n"
            # The session of the next one starts while this one plans and runs.
            self.ahead = self._start(1 << 40)
            waited = time.monotonic() + waiting
            while len(self.batches()) == planned and time.monotonic() < waited:
                time.sleep(0.05)
            time.sleep(seconds)
            os.killpg(query.pid, signal.SIGKILL)
        return len(self.batches()) > planned

    def _start(self, last: int) -> subprocess.Popen[str]:
        """Start the processes of a query, which waits for a line before it begins."""
        return subprocess.Popen(
            self.command(last),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self.environment,
            start_new_session=True,
            text=True,
        )

    def close(self) -> None:
        """End the processes that were started ahead."""
        if self.ahead is not None:
            with self.ahead:
                os.killpg(self.ahead.pid, signal.SIGKILL)
            self.ahead = None

    def finish(self, last: int) -> None:
        """Run the query until it has the changes of a checkpoint."""
        self.close()
        subprocess.run(self.command(last), check=True, env=self.environment, timeout=600, input="go\n", text=True)


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
    query = Query(job.folder, tmp_path)
    try:
        for _ in range(KILLS):
            query.kill(moments.uniform(0, 2))
        query.finish(8)
    finally:
        query.close()
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
