"""Work in processes of this machine: the same results, the first error, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

import pyspark_savepoint
from pyspark_savepoint.engines.migrating import migration_of, run_here
from pyspark_savepoint.errors import OptionError, SavepointError
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.migration.migration_work import ScanWork
from tests.statebackends.migration.test_migrate import CLASSES, source

pytestmark = pytest.mark.thorough("migrations by one process")

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Squares:
    """Work whose pieces from some number on fail, or end their process, or take long."""

    pieces: list[int] = field(default_factory=lambda: list(range(20)))
    fails_from: int = 99
    dies_at: int = 99
    seconds: float = 0.0

    def unopened(self) -> Squares:
        return self

    def run(self, number: int) -> bytes:
        print("not a reply")
        time.sleep(self.seconds)
        if number >= self.fails_from:
            raise CorruptStateError("a piece failed", offset=number)
        if number == self.dies_at:
            os._exit(9)
        return b"%d %d" % (number * number, os.getpid() if self.seconds else 0)


def test_results_are_those_of_this_process() -> None:
    assert run_here(Squares(), 3) == run_here(Squares(), 1)
    assert run_here(Squares([]), 3) == {}
    others = {result.split()[1] for result in run_here(Squares(seconds=0.05), 2).values()}
    assert len(others) == 2
    assert b"%d" % os.getpid() not in others


def test_the_first_error_is_raised() -> None:
    for _ in range(2):
        with pytest.raises(CorruptStateError) as failed:
            run_here(Squares(fails_from=7), 3)
        assert failed.value.facts == {"offset": 7}
    with pytest.raises(SavepointError, match="ended before it was done") as ended:
        run_here(Squares(dies_at=3), 2)
    assert "exit code 9" in str(ended.value)
    for wrong in (0, -1):
        with pytest.raises(OptionError, match="number of processes"):
            run_here(Squares(), wrong)


def test_an_interrupt_ends_all_processes() -> None:
    # Shells have commands in the background ignore interrupts, and so do the processes that these start.
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program += "from tests.statebackends.migration.test_processes import *; run_here(Squares(seconds=2), 2)"
    run = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert run.stdin is None
    time.sleep(0.1)
    deadline = time.monotonic() + 120
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children")
    if not children.exists():
        run.kill()
        pytest.skip("children of a process are listed on Linux only")
    found: list[str] = []
    while len(found) < 2 and time.monotonic() < deadline:
        found = children.read_text().split()
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    _, error = run.communicate(timeout=120)
    lines = error.splitlines()
    assert [line for line in lines if line != "not a reply"][-1] == "KeyboardInterrupt"
    assert lines.count("not a reply") < 20
    assert not [each for each in found if Path(f"/proc/{each}").exists()]


@pytest.mark.parametrize("case", ["pojo-all", "oplist-pojo-list", "key-kryo-uuid"])
def test_a_migration_writes_the_same(case: str, tmp_path: Path) -> None:
    """Of a savepoint with copies of an operator, so that there are several pieces."""
    base = pyspark_savepoint.open(source(case).path)
    for row in base.metadata().to_arrow().to_pylist():
        base = base.copy_operator(row["operator_uid_hash"], f"copy of {row['operator_uid_hash']}")
    path = base.write(tmp_path / "base").path
    assert path is not None
    migration = migration_of(Snapshot.open(path), "2.3", classes=[CLASSES])
    assert len(ScanWork(migration._planned()).pieces) > 1
    alone, together = (
        migration.write(str(tmp_path / f"of-{count}"), partial(run_here, parallelism=count)) for count in (1, 3)
    )
    assert alone.to_arrow() == together.to_arrow()
    files = [
        sorted(each.read_bytes() for each in (tmp_path / f"of-{count}").iterdir() if each.name != "_metadata")
        for count in (1, 3)
    ]
    assert files[0] == files[1]
    assert len(files[0]) > 1
    checked = [
        pyspark_savepoint.open(path).check_migration("2.3", classes=[CLASSES], parallelism=count).to_arrow()
        for count in (1, 2)
    ]
    assert checked[0] == checked[1]
