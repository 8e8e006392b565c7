"""One run: a write begins, one of its processes is killed, and the files are compared with old and new.

The savepoint must be the old one or the new one, complete: every file is there, every entry is read. If the
write succeeded for the driver, it must be the new one; if it failed, the old one, unless the killed process may have
published just before. Victim ``disk`` kills nothing: the savepoint is on a disk
that becomes full at some byte of the write.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.writing.committer import commit
from pyspark_savepoint.statebackends.writing.planning.write_request import WriteRequest
from pyspark_savepoint.statebackends.writing.write_task import write_rows
from pyspark_savepoint.write.in_place import plan_write
from tests.data import unpacked
from tests.faults.processes import kill, kill_all, running
from tests.faults.session import ROWS, STEP

ROOT = Path(__file__).parents[2]
#: A state of a real job whose values Kryo wrote, so that a migration to Flink 2 rewrites them.
KRYO_STATES = unpacked() / "real" / "kryo-120" / "sp"
#: Seconds after which a session, or a write that was attacked, counts as stuck. Spark notices a lost executor and tries
#: its tasks again in a few seconds, which were more than 90 on a machine with seven other jobs on two cores.
PATIENCE = 600.0
WRITES = ("append", "overwrite", "fluent", "migrate")
#: Those that write to another path.
COPIES = ("fluent", "migrate")
DISK = "disk"
#: Bytes of the disk that becomes full.
DISK_SIZE = 128 << 20
#: One of so many runs kills what ends its session: the next one has to start another.
ENDING = 8
#: What is killed, and of which kind of session.
VICTIMS = {
    "worker": "local[2,4]",
    "driver JVM": "local[2,4]",
    "driver Python": "local[2,4]",
    "executor": "local-cluster[2,1,1024]",
    DISK: "local[2,4]",
}
#: An operator's name and the sum of its values.
Content = dict[str, int]


@dataclass
class Driver:
    """A running driver, with one request at a time."""

    master: str
    process: subprocess.Popen[str] = field(init=False)
    answers: list[dict[str, Any]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        command = [sys.executable, "-m", "tests.faults.session", self.master]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        env = {**os.environ, "PYSPARK_PYTHON": sys.executable}  # else the workers of a cluster take that of PATH
        self.process = subprocess.Popen(command, cwd=ROOT, env=env, text=True, start_new_session=True, **pipes)
        threading.Thread(target=self._listen, daemon=True).start()
        assert self.wait_for("ready"), "the session does not start"

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                self.answers.append(json.loads(line))

    def ask(self, **request: Any) -> None:
        """Start a write."""
        self.answers.clear()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        self.wait_for("began")  # nothing if it has ended before: what is left is judged all the same

    def wait_for(self, name: str, seconds: float = PATIENCE) -> Any:
        """Return what the driver printed under a name; None if it ended or took too long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for answer in list(self.answers):
                if name in answer:
                    return answer[name]
            if self.process.poll() is not None:
                time.sleep(0.1)  # for its last output
                return next((answer[name] for answer in self.answers if name in answer), None)
            time.sleep(0.005)
        return None

    @property
    def alive(self) -> bool:
        """Return whether it can run another write."""
        return self.process.poll() is None and bool(running("driver JVM", self.process.pid))

    def stop(self) -> None:
        """End it and all that it has started."""
        kill_all(self.process.pid)
        self.process.wait(30)


def content_of(path: Path) -> Content | None:
    """Read all entries of a savepoint: the sum of the values by operator; None where there is no savepoint."""
    if not (path / "_metadata").exists():
        return None
    sums: Content = {}
    for operator in Snapshot.open(str(path)).operators:
        request = TableRequest(str(path), uid_hash=operator.operator_id.hex)
        rows = total = 0
        for partition in open_table(request).partitions(1):
            for batch in partition.batches():
                rows += batch.num_rows
                if "uuid" in batch.column_names:
                    assert batch.column("uuid").to_pylist() == uuids(batch.column("key").to_pylist()), path
                total += pc.sum(batch.column("n")).as_py() or 0
        assert rows == ROWS, f"{rows} rows of {ROWS} in operator {operator.operator_id.hex} of {path}"
        sums[operator.operator_id.hex] = total
    return sums


def sum_of(version: int) -> int:
    """The sum of an operator's values in one version."""
    return ROWS * (ROWS - 1) // 2 + ROWS * version * STEP


@dataclass
class Attack:
    """Runs one after another, in sessions that last until they are killed."""

    folder: Path
    random: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    drivers: dict[str, Driver] = field(default_factory=dict)
    #: Seconds and bytes of an undisturbed write, by session and kind.
    undisturbed: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    version: int = 0

    def driver(self, master: str) -> Driver:
        """Return a session that works, with a savepoint to change."""
        found = self.drivers.get(master)
        if found is None or not found.alive:
            if found is not None:
                found.stop()
            found = self.drivers[master] = Driver(master)
            for kind in ("append", "overwrite"):  # Python workers start, code is compiled
                self.undisturbed[master, kind] = self._measure(found, kind)
        return found

    def run(self, victim: str, kind: str) -> None:
        """Attack one write."""
        master = VICTIMS[victim]
        driver = self.driver(master)
        if (master, kind) not in self.undisturbed:
            self.undisturbed[master, kind] = self._measure(driver, kind)
        seconds, written = self.undisturbed[master, kind]
        if victim == DISK:
            self._fill_disk(driver, kind, written)
            return
        path, target = self._prepare(kind)
        old = content_of(path)
        driver.ask(kind=kind, path=str(path), target=str(target), version=self.version)
        time.sleep(self.random.uniform(0, 1.1) * seconds)
        hit = self._kill(driver, victim)
        ended = driver.wait_for("ended")
        if victim.startswith("driver") or not driver.alive:
            driver.stop()  # also where the write had ended before: a session without its JVM goes down a little later
        self._judge(f"{kind}, {victim} killed, version {self.version}", kind, victim, hit, ended, path, target, old)

    def _fill_disk(self, driver: Driver, kind: str, written: int) -> None:
        disk = self._disk()
        path, target = self._prepare(kind, disk)
        old = content_of(path)
        room = int(self.random.uniform(0, 2.5) * written)  # tasks write files that the commit merges
        filler = disk / "filler"
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(disk).free - room)
        driver.ask(kind=kind, path=str(path), target=str(target), version=self.version)
        ended = driver.wait_for("ended")
        filler.unlink()
        what = f"{kind}, disk full after {room} bytes, version {self.version}"
        self._judge(what, kind, DISK, False, ended, path, target, old)
        self._empty(disk)

    def _disk(self) -> Path:
        """A small disk in memory, mounted once; it needs the rights of root."""
        disk = self.folder / "disk"
        if not disk.exists():
            disk.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_SIZE}", "tmpfs", disk], check=True)
        return disk

    def _empty(self, disk: Path) -> None:
        for path in disk.iterdir():
            shutil.rmtree(path)

    def stop(self) -> None:
        """End all sessions, and unmount the disk."""
        for driver in self.drivers.values():
            driver.stop()
        if (self.folder / "disk").exists():
            subprocess.run(["umount", self.folder / "disk"], check=True)

    def _measure(self, driver: Driver, kind: str) -> tuple[float, int]:
        """Return seconds and bytes of an undisturbed write."""
        path, target = self._prepare(kind)
        before = time.monotonic()
        driver.ask(kind=kind, path=str(path), target=str(target), version=self.version)
        ended = driver.wait_for("ended")
        assert ended == "written", driver.answers
        seconds = time.monotonic() - before
        files = [file for folder in (path, target) for file in folder.rglob("*") if file.is_file()]
        return seconds, sum(file.stat().st_size for file in files) // 2  # about half of them existed before

    def _prepare(self, kind: str, folder: Path | None = None) -> tuple[Path, Path]:
        """A copy of the base to be changed, and where a changed copy of it goes."""
        self.version += 1
        folder = folder or self.folder
        path, target = folder / f"sp-{self.version}", folder / f"copy-{self.version}"
        shutil.copytree(self.base(), path)
        return path, target

    def base(self) -> Path:
        """The savepoint that every run begins with, written once."""
        path = self.folder / "base"
        if not path.exists():
            write_base(path)
        return path

    def _kill(self, driver: Driver, victim: str) -> bool:
        pids = running(victim, driver.process.pid)
        return bool(pids) and kill(self.random.choice(pids))

    def _judge(
        self, what: str, kind: str, victim: str, hit: bool, ended: str | None, path: Path, target: Path, old: Any
    ) -> None:
        published = target if kind in COPIES else path
        before = None if kind in COPIES else old
        try:
            found = content_of(published)
            untouched = kind not in COPIES or content_of(path) == old
        except Exception as error:  # a savepoint that cannot be read is what is looked for
            self.problems.append(f"{what}: {type(error).__name__}: {error}")
            return
        outcome = "old" if found == before else "new" if self._is_new(found, old, kind) else "neither"
        told = ended or ("nothing" if victim.startswith("driver") else "no end")
        happened = "full" if victim == DISK and told == "failed" else "killed" if hit else "not met"
        self.counts[f"{victim}: {happened}, told {told}, found the {outcome}"] += 1
        allowed = {
            "written": {"new"},
            "failed": {"old", "new"} if hit else {"old"},
            "nothing": {"old", "new"},
            "no end": set(),
        }[told]
        if outcome not in allowed or not untouched:
            self.problems.append(f"{what}: told {told}, found the {outcome}, base untouched: {untouched}: {found}")
        else:
            shutil.rmtree(path)
            shutil.rmtree(target, ignore_errors=True)

    def _is_new(self, found: Content | None, old: Content, kind: str) -> bool:
        if found is None:
            return False
        expected = Counter(old.values())
        if kind == "migrate":
            return Counter(found.values()) == expected
        if kind != "append":
            expected[sum_of(0)] -= 1
        expected[sum_of(self.version)] += 1
        return Counter(found.values()) == +expected


def write_base(path: Path) -> None:
    """Two operators: ``changed``, and ``kept``, which no write touches but a migration, for values of Kryo."""
    keys = list(range(ROWS))
    for uid, version in (("changed", 0), ("kept", -1)):
        columns: dict[str, Any] = {"key": keys, "n": [key + version * STEP for key in keys]}
        request = WriteRequest(str(path), uid=uid, flink_version=(1, 20))
        if uid == "kept" and KRYO_STATES.is_dir():
            columns["uuid"] = uuids(keys)
            job = next(KRYO_STATES.iterdir())
            request = replace(request, types={"n": "LONG"}, type_source=f"{job}#kryo")
        table = pa.table(columns)
        plan = plan_write(request, table.schema, None)
        commit(plan, [write_rows(plan, 0, table.to_batches())])


def uuids(keys: list[int]) -> list[str]:
    """The UUIDs of keys."""
    return [str(UUID(int=key)) for key in keys]


def attack(
    folder: Path, runs: int, seed: int, victims: Sequence[str], report: Callable[[str], object] | None = None
) -> tuple[Counter[str], list[str]]:
    """Make some runs; return how often what was found, and what must not be.

    Most runs kill workers, which leaves the session; one in ``ENDING`` kills what ends it, each such victim in turn.
    """
    chance = random.Random(seed)
    attacks = Attack(folder, chance)
    lasting = [victim for victim in victims if not victim.startswith("driver")]
    ending = [victim for victim in victims if victim.startswith("driver")]
    # One kind of session after the other, so that two are never up at a time.
    planned = [
        ending[number // ENDING % len(ending)]
        if ending and (not lasting or number % ENDING == ENDING - 1)
        else chance.choice(lasting)
        for number in range(runs)
    ]
    planned.sort(key=lambda victim: VICTIMS[victim])
    try:
        for number, victim in enumerate(planned):
            attacks.run(victim, WRITES[number % len(WRITES)])
            if report is not None and number % 10 == 9:
                report(f"{number + 1} of {runs} runs, {len(attacks.problems)} problems")
    finally:
        attacks.stop()
    return attacks.counts, attacks.problems
