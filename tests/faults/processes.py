"""The processes of a Spark application on this machine, by what they do."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from tests.faults.session import DAEMON

#: What the command line of a process has, by role. Forked Python workers have the command line of their daemon.
MARKS = {
    "driver JVM": "org.apache.spark.deploy.SparkSubmit",
    "executor": "CoarseGrainedExecutorBackend",
    "worker": DAEMON,
}


def running(role: str, driver: int) -> list[int]:
    """Return the processes of a role below a driver, the youngest first."""
    if role == "driver Python":
        return [driver]
    found = [pid for pid in descendants(driver) if MARKS[role] in command_line(pid)]
    return sorted(found, reverse=True)


def descendants(pid: int) -> Iterator[int]:
    """Yield all processes that a process has started, and those that these have."""
    for child in children(pid):
        yield child
        yield from descendants(child)


def children(pid: int) -> list[int]:
    """Return the processes that the threads of a process have started."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found


def command_line(pid: int) -> str:
    """Return the command line of a process; nothing where it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def kill(pid: int) -> bool:
    """End a process at once; whether it was there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def kill_all(driver: int) -> None:
    """End a driver and all that it has started."""
    for pid in [*descendants(driver), driver]:
        kill(pid)
