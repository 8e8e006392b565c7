"""Writes in sessions of their own: Connect, and a cluster whose tasks fail, are killed, and run twice."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.connector.source.test_discovery import run

pytestmark = pytest.mark.spark

#: The kind of session, and what it found.
Outcome = tuple[str, dict[str, Any]]

START = """
import json, os, signal, sys, time
from pathlib import Path
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark_savepoint import Savepoint, key_by
master, folder = sys.argv[1:]
os.chdir(folder)
builder = SparkSession.builder
if master == "connect":
    builder = builder.remote("local[2]")
else:
    builder = builder.master(master).config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
    builder = builder.config("spark.speculation", "true").config("spark.speculation.interval", "100ms")
    builder = builder.config("spark.speculation.multiplier", "1.1").config("spark.speculation.quantile", "0.3")
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
"""

RETRIED = """
def broken(batches):
    # The first attempt of one task fails with rows written, that of another is killed, that of a third takes too long.
    context = TaskContext.get()
    place = (context.partitionId(), context.attemptNumber())
    for batch in batches:
        yield batch
    if place == (0, 0):
        raise RuntimeError("first attempt")
    if place == (1, 0):
        os.kill(os.getpid(), signal.SIGKILL)
    if place == (2, 0):
        time.sleep(8)

def save(name, frame, **options):
    path = f"{folder}/saved/{name}"
    frame.write.format("savepoint").options(uid="op", **options).mode("append").save(path)
    back = spark.read.format("savepoint").option("uid", "op").load(path)
    return [back.count(), back.selectExpr("sum(n)").first()[0], sorted(os.listdir(path)).index("_metadata") >= 0,
            sum(entry.startswith(".") for entry in os.listdir(path)), len(os.listdir(path))]

frame = spark.range(0, 20000, 1, 4).selectExpr("id AS key", "id * 2 AS n")
laid_out = key_by(frame, "key", max_parallelism=128, parallelism=4)
text = frame.selectExpr("concat('k', key) AS key", "n")
written = {}
if master == "connect":
    written["plain"] = save("plain", frame, parallelism="2")
    written["laid out"] = save("laid_out", laid_out)
    written["by arrow"] = save("by_arrow", key_by(text, "key", parallelism=2))
else:
    written["retried"] = save("retried", frame.mapInArrow(broken, frame.schema), parallelism="2")
    written["retried final"] = save("final", laid_out.mapInArrow(broken, laid_out.schema), parallelism="4")
"""

FLUENT = """
frame = spark.range(0, 20, 1, 2).selectExpr("id AS key", "id * 2 AS n", "concat('t', id) AS t")
timers = frame.selectExpr("key", "n AS timestamp", "'event' AS domain")

def read(path, **options):
    return spark.read.format("savepoint").options(**options).load(path)

def here(path):
    # Connect has a folder for the session's processes, where nothing is to be written.
    return f"{folder}/{path}" if master == "connect" else path

def rows(frame):
    return sorted(json.dumps(row.asDict()) for row in frame.collect())

# Relative, where the JVM began: the plain writer, and the tasks of a table that opens the path again.
frame.write.format("savepoint").options(uid="a").mode("append").save(here("out/sp"))
timers.write.format("savepoint").options(uid="a", table="timers").mode("append").save(here("./out/sp"))
frame.write.format("savepoint").options(uid="b", typesFrom=here("out/sp#a")).mode("append").save(here("out/../out/sp"))
found = {"tables": read(here("out/sp")).count()}
found["read"] = rows(read(here("out/sp"), uid="a", state="n")) == rows(frame.select("key", "n"))
found["uid hashes"] = read(here("out/sp"), table="metadata").count()

if master == "connect":
    try:
        frame.write.format("savepoint").options(uid="a").mode("append").save("out/lost")
    except Exception as error:
        found["refused"] = "an absolute path or a URI" in str(error)

# A notebook that goes elsewhere stays in the same session.
if master != "connect":
    os.mkdir("elsewhere")
    os.chdir("elsewhere")
sp = Savepoint.load(spark, "out/sp")
fixed = sp.keyed_state("a", state="n").selectExpr("key", "n + 1 AS n")
changed = (sp.with_state("a", "n", fixed).remove_keys("a", spark.range(3, 4)).remove_operator("b")
    .with_operator("c", key_by(frame, "key", types_from="out/sp#a"), key="key", types_from="out/sp#a")
    .with_timers("c", timers).write("out/next"))
wanted = frame.where("key <> 3").selectExpr("key", "n + 1 AS n", "t")
found["fluent"] = rows(read(here("out/next"), uid="a")) == rows(wanted)
found["timers"] = [read(here("out/next"), uid=uid, table="timers").count() for uid in "ac"]
found["new"] = rows(changed.keyed_state("c")) == rows(frame)
created = Savepoint.create(spark).with_operator("d", frame).write("out/own")
found["created"] = rows(created.keyed_state("d")) == rows(frame)
"""

END = """
spark.stop()
found["folders"] = sorted(
    str(path.parent.relative_to(folder)) for path in Path(folder).rglob("_metadata") if "saved" not in path.parts
)
print(json.dumps({"written": written, "fluent": found}))
"""


@pytest.fixture(scope="module", params=["connect", "local-cluster[2,1,1024]"])
def outcome(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """What one session wrote and read, by kind of session."""
    found, _ = run(START + RETRIED + FLUENT + END, request.param, str(tmp_path_factory.mktemp("session")))
    return request.param, found


def test_writes_in_a_session_of_its_own(outcome: Outcome) -> None:
    master, found = outcome
    assert len(found["written"]) == (3 if master == "connect" else 2)
    for what, (count, total, published, hidden, files) in found["written"].items():
        assert (count, total, published, hidden) == (20000, 19999 * 20000, True, 0), what
        assert files == 1 + (4 if what in ("laid out", "retried final") else 2), what


def test_fluent_writes_and_relative_paths(outcome: Outcome) -> None:
    """On Connect too; and every process means the same folder, also where tasks run in one of their own."""
    master, found = outcome[0], dict(outcome[1]["fluent"])
    assert found.pop("refused", False) == (master == "connect")
    assert found == {
        "tables": 6,
        "read": True,
        "uid hashes": 2,
        "fluent": True,
        "timers": [19, 20],
        "new": True,
        "created": True,
        "folders": ["out/next", "out/own", "out/sp"],
    }


KILLED = """
import os, sys
from pyspark_savepoint.statebackends.writing.commit import committer as module
from tests.statebackends.writing.written_operators import planned
import pyarrow as pa
from pyspark_savepoint.statebackends.writing.commit.write_task import write_rows
table = pa.table({"key": [1, 2, 3], "n": [1, 2, 3]})
plan = planned(sys.argv[1], table.schema, overwrite=True)
outputs = [write_rows(plan, 0, table.to_batches())]
module.publish_metadata = lambda *_: os._exit(7)
module.commit(plan, outputs)
"""


def test_a_driver_that_dies_before_the_end_publishes_nothing(tmp_path: Path) -> None:
    """Its files are there, but no snapshot; where there was one, it is the old one."""
    import subprocess
    import sys

    from pyspark_savepoint.formats.errors import SnapshotNotFoundError
    from pyspark_savepoint.formats.snapshot.savepoint import Snapshot

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    path = tmp_path / "sp"
    command = [sys.executable, "-c", KILLED, str(path)]
    assert subprocess.run(command, env=environment, check=False).returncode == 7
    assert path.exists()
    with pytest.raises(SnapshotNotFoundError, match="never completed"):
        Snapshot.open(str(path))
    # The same write again, to its end, is not in the way of what the first has left.
    finished = KILLED.replace("module.publish_metadata", "unused")
    subprocess.run([sys.executable, "-c", finished, str(path)], env=environment, check=True)
    before = (path / "_metadata").read_bytes()
    assert subprocess.run(command, env=environment, check=False).returncode == 7
    assert (path / "_metadata").read_bytes() == before
    assert json.dumps(Snapshot.open(str(path)).metadata.version) == "4"
