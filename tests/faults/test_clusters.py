"""Clusters of two workers: executors are killed, tasks run twice, and the package only comes with the job.

Spark runs a slow task a second time on another host only. ``local-cluster`` has one host, so that it does not happen
there: a standalone cluster here has a master and two workers on hosts of their own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

import pyspark_savepoint
from pyspark_savepoint.formats.kernels.interpretation import VARIABLE as KERNELS
from tests.faults.processes import kill_all
from tests.faults.runner import ROOT, attack

pytestmark = pytest.mark.spark

SHOP = ROOT / "tests" / "oracle" / "savepoints" / "shop" / "savepoint"
SPARK = Path(pyspark.__file__).parent
MASTER, *WORKERS = "127.0.0.1", "127.0.0.2", "127.0.0.3"
#: Seconds in which a process of the cluster starts, and in which a job ends.
PATIENCE, JOB_PATIENCE = 120, 600

START = """
import json, os, re, signal, sys, time
from pathlib import Path
from pyspark import TaskContext
from pyspark.sql import SparkSession
master, folder, conf, *arguments = sys.argv[1:]
conf = json.loads(conf) | {
    "spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "2",
    "spark.sql.warehouse.dir": f"{folder}/warehouse", "spark.cores.max": "2",
}
spark = SparkSession.builder.master(master).config(map=conf).getOrCreate()
found = {}
"""

#: Several writes and one read: ``fault`` makes what goes on in their tasks, and leaves marks in the folder of its name.
ATTACKED = """
from pyspark_savepoint import key_by

def marks_of(name):
    marks = Path(folder, "marks", name)
    marks.mkdir(parents=True)
    return marks

def save(name, frame, mode="append", **options):
    changed = frame.mapInArrow(fault(marks_of(name)), frame.schema)
    changed.write.format("savepoint").options(uid="op", **options).mode(mode).save(f"{folder}/{name}")

frame = spark.range(0, 20000, 1, 4).selectExpr("id AS key", "id * 2 AS n")
save("plain", frame, parallelism="2")
save("final", key_by(frame, "key", max_parallelism=128, parallelism=4), parallelism="4")
frame.selectExpr("key", "-1L AS n").write.format("savepoint").options(uid="op").mode("append").save(f"{folder}/changed")
save("changed", frame, "overwrite")
rows = spark.read.format("savepoint").options(uid="op", parallelism="4").load(f"{folder}/plain")
rows = rows.mapInArrow(fault(marks_of("read")), rows.schema)
found["read"] = rows.selectExpr("count(*)", "count(DISTINCT key)", "sum(n)").first()[:]
print(json.dumps(found))
"""

#: The first task with rows kills its executor, with these rows on their way.
KILLED = """
def fault(marks):
    def killed(batches):
        for batch in batches:
            yield batch
            try:
                mark = os.open(marks / "killed", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                continue
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
            executor = int(daemon.rpartition(")")[2].split()[1])
            os.write(mark, Path(f"/proc/{executor}/cmdline").read_bytes())
            os.close(mark)
            os.kill(executor, signal.SIGKILL)
    return killed
"""

#: The first attempt of one task has given its rows, and waits for the second: the two race, or it never ends by itself.
SLOW = """
def fault(marks):
    def slow(batches):
        context = TaskContext.get()
        place = (context.partitionId(), context.attemptNumber())
        (marks / f"{place[0]}-{place[1]}-{os.getpid()}").touch()
        yield from batches
        end = time.monotonic() + 100
        while place == (0, 0) and time.monotonic() < end:
            if marks.name != "final" and list(marks.glob("0-1-*")):
                break
            time.sleep(0.02)
    return slow
"""

SHIPPED = """
way, archive, shop = arguments
source = spark.read.format("savepoint")
try:
    found["found"] = source.option("uid", "accounts").load(shop).columns
except Exception as error:
    found["found"] = re.findall("DATA_SOURCE_NOT_FOUND", str(error))[:1] or str(error)
if way == "addArtifact":
    spark.addArtifact(archive, pyfile=True)
import pyspark_savepoint
from pyspark.sql.functions import udf
from pyspark_savepoint import Savepoint
pyspark_savepoint.register(spark)

@udf
def place(_):
    import pyspark_savepoint
    return pyspark_savepoint.__file__

name = archive.rpartition("/")[2]
places = [pyspark_savepoint.__file__, spark.range(1).select(place("id")).first()[0]]
found["archive"] = [f"/{name}/" in file for file in places]
found["read"] = source.option("uid", "accounts").load(shop).selectExpr("count(*)", "sum(total)").collect()[0][:]
rows = spark.range(100).selectExpr("id AS key", "id AS n")
rows.write.format("savepoint").option("uid", "a").mode("append").save(f"{folder}/new")
found["written"] = Savepoint.load(spark, f"{folder}/new").keyed_state("a").selectExpr("sum(n)").collect()[0][0]
Savepoint.load(spark, shop).remove_state("accounts", "coupon").write(f"{folder}/changed")
found["changed"] = Savepoint.load(spark, f"{folder}/changed").keyed_state("accounts").columns
print(json.dumps(found))
"""


def environment(**more: str) -> dict[str, str]:
    """That of a process of Spark which knows nothing of this one's session, and compiles kernels as a user's does."""
    gone = ("PYTHONPATH", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "PYSPARK_DRIVER_PYTHON", KERNELS)
    return {name: text for name, text in os.environ.items() if name not in gone} | {"SPARK_HOME": str(SPARK)} | more


def said(log: Path, pattern: str, count: int) -> list[str]:
    """Wait until a log has a pattern so many times."""
    end = time.monotonic() + PATIENCE
    while len(found := re.findall(pattern, log.read_text())) < count:
        assert time.monotonic() < end, log.read_text()[-4000:]
        time.sleep(0.1)
    return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a master with two workers of one core; all end with the tests."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "conf").mkdir()
    variables = environment(
        SPARK_DAEMON_MEMORY="256m", SPARK_CONF_DIR=str(folder / "conf"), SPARK_LOCAL_DIRS=str(folder)
    )
    started: list[subprocess.Popen[Any]] = []

    def start(role: str, host: str, *arguments: str) -> Path:
        log = folder / f"{host}.log"
        ports = ["--host", host, "--port", "0", "--webui-port", "0"]
        command = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", *ports, *arguments]
        with log.open("wb") as out:
            pipes: dict[str, Any] = {"stdout": out, "stderr": subprocess.STDOUT}
            started.append(subprocess.Popen(command, env=variables, start_new_session=True, **pipes))
        return log

    try:
        log = start("master.Master", MASTER)
        (master,) = said(log, r"Starting Spark master at (spark://\S+)", 1)
        for host in WORKERS:
            start("worker.Worker", host, "--cores", "1", "--memory", "1g", "--work-dir", str(folder / host), master)
        assert sorted(said(log, r"Registering worker ([\d.]+):", len(WORKERS))) == WORKERS
        yield master
    finally:
        for process in reversed(started):
            kill_all(process.pid)
            process.wait(30)


def run(
    command: list[str], python: str, script: str, master: str, folder: Path, conf: dict[str, str], *arguments: str
) -> dict[str, Any]:
    """Return what a job prints last."""
    job = folder / "job.py"
    job.write_text(START + script)
    command = [*command, str(job), master, str(folder), json.dumps(conf), *arguments]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(
        command, env=environment(PYSPARK_PYTHON=python), cwd=folder, start_new_session=True, **pipes
    )
    try:
        out, messages = process.communicate(timeout=JOB_PATIENCE)
    finally:
        kill_all(process.pid)
    assert process.returncode == 0, (out + messages)[-8000:]
    return dict(json.loads(out.splitlines()[-1]))


def marks(folder: Path) -> dict[str, list[Path]]:
    """What the tasks of each write and of the read left."""
    return {path.name: sorted(path.iterdir()) for path in (folder / "marks").iterdir()}


def check(folder: Path, found: dict[str, Any]) -> None:
    """Every row is there once; each savepoint is complete, and nothing else is in its folder."""
    assert found == {"read": [20000, 20000, 19999 * 20000]}
    for name, parallelism in {"plain": 2, "final": 4, "changed": None}.items():
        savepoint = pyspark_savepoint.open(str(folder / name))
        table = savepoint.keyed_state("op").to_arrow()
        rows = sorted(zip(*(table.column(column).to_pylist() for column in ("key", "n")), strict=True))
        assert rows == [(key, 2 * key) for key in range(20000)], name
        reports = savepoint.inspect.verify().to_arrow().to_pylist()
        assert reports, name
        assert [report for report in reports if report["status"] != "ok"] == [], name
        files = sorted(path.name for path in (folder / name).rglob("*"))
        replaced = [file for file in files if file.startswith(".")]
        assert len(replaced) == (name == "changed"), (name, files)
        assert all(file.startswith(".replaced-") for file in replaced), (name, files)
        assert "_metadata" in files, name
        assert parallelism is None or len(files) == 1 + parallelism, (name, files)


def test_executors_are_killed_while_they_write(tmp_path: Path) -> None:
    counts, problems = attack(tmp_path, 3, 21, ["executor"])
    assert not problems
    assert sum(counts.values()) == 3


def test_an_executor_is_killed_in_every_query(cluster: str, tmp_path: Path) -> None:
    """On two hosts; with it go the rows that its task has given, and what it had shuffled for others."""
    found = run([sys.executable], sys.executable, KILLED + ATTACKED, cluster, tmp_path, {})
    left = marks(tmp_path)
    assert sorted(left) == ["changed", "final", "plain", "read"]
    for name, (mark,) in left.items():
        assert b"CoarseGrainedExecutorBackend" in mark.read_bytes(), name
    check(tmp_path, found)


def test_slow_tasks_run_twice(cluster: str, tmp_path: Path) -> None:
    """The second attempt runs while the first waits with all of its rows given: one of them is taken."""
    conf = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.3",
    }
    found = run([sys.executable], sys.executable, SLOW + ATTACKED, cluster, tmp_path, conf)
    left = marks(tmp_path)
    assert sorted(left) == ["changed", "final", "plain", "read"]
    for name, attempts in left.items():
        places = [attempt.name.rpartition("-")[0] for attempt in attempts]
        assert {"0-0", "0-1"} <= set(places), (name, places)
    check(tmp_path, found)


@pytest.mark.parametrize("way", ["addArtifact", "--py-files", "spark.submit.pyFiles"])
def test_a_package_that_only_comes_with_the_job(cluster: str, tmp_path: Path, way: str) -> None:
    """Driver and workers have all other packages; machine code is cached in the user's folder, not in the archive."""
    archive = tmp_path / "job.zip"
    folders = {"connector": "", "statebackends": "statebackends/", "formats": "formats/"}
    with zipfile.ZipFile(archive, "w") as job:
        for folder, package in folders.items():
            for file in sorted(one for one in (ROOT / folder).rglob("*.py*") if one.suffix in (".py", ".pyi")):
                job.write(file, f"pyspark_savepoint/{package}{file.relative_to(ROOT / folder).as_posix()}")
    packages = tmp_path / "packages"
    packages.mkdir()
    for place in (Path(place) for place in sys.path if "site-packages" in place):
        for entry in place.iterdir():
            is_ours = "pyspark_savepoint" in entry.name.replace("-", "_") or entry.suffix == ".pth"
            if not is_ours and not (packages / entry.name).exists():
                (packages / entry.name).symlink_to(entry)
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={packages}:$PYTHONPATH exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    without = subprocess.run(
        [python, "-c", "import pyspark, pyspark_savepoint"], env=environment(), stderr=subprocess.PIPE
    )
    assert b"No module named 'pyspark_savepoint'" in without.stderr

    submit = [str(SPARK / "bin" / "spark-submit"), "--master", cluster, way, str(archive)]
    command = submit if way == "--py-files" else [str(python)]
    confs = {"addArtifact": {f"spark.executorEnv.{KERNELS}": "compiled"}, "spark.submit.pyFiles": {way: str(archive)}}
    found = run(command, str(python), SHIPPED, cluster, tmp_path, confs.get(way, {}), way, str(archive), str(SHOP))

    columns = found.pop("changed")
    assert "total" in columns
    assert "coupon" not in columns
    assert found == {
        "found": ["DATA_SOURCE_NOT_FOUND"],
        "archive": [True, True],
        "read": [200, 12240600],
        "written": 4950,
    }
