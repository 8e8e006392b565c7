"""Time, processor time and memory of work in Spark, of the JVM and of its Python processes."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

TICKS = os.sysconf("SC_CLK_TCK")
MB = 1024


def best(work: Callable[[], Any], times: int = 3) -> float:
    """Return the seconds of the quickest of some runs."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


@dataclass(frozen=True)
class Process:
    """A process as ``/proc`` shows it; ``seconds`` of the processor include children that have ended."""

    number: int
    parent: int
    name: str
    seconds: float


def processes() -> dict[int, Process]:
    """Return all processes of this machine."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            text = (path / "stat").read_text()
        except OSError:
            continue  # it has ended meanwhile
        name, rest = text[text.index("(") + 1 :].rsplit(") ", 1)
        fields = rest.split()
        ticks = sum(int(field) for field in fields[11:15])
        number = int(path.name)
        found[number] = Process(number, int(fields[1]), name, ticks / TICKS)
    return found


def family() -> list[Process]:
    """Return this process and all that descend from it."""
    everything = processes()
    children: dict[int, list[Process]] = {}
    for process in everything.values():
        children.setdefault(process.parent, []).append(process)
    members = [everything[os.getpid()]]
    for member in members:
        members.extend(children.get(member.number, ()))
    return members


def used() -> tuple[float, float]:
    """Return seconds of the processor so far: of Java, and of Python, this process included."""
    java = python = 0.0
    for process in family():
        if process.name == "java":
            java += process.seconds
        else:
            python += process.seconds
    return java, python


class Memory(threading.Thread):
    """Watches resident memory: ``worker`` is the most of a Python process of Spark, ``java`` that of the JVM, in MB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.worker = self.java = 0
        self._done = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self.join()

    def run(self) -> None:
        own = os.getpid()
        while not self._done.wait(0.25):
            for process in family():
                if process.number == own:
                    continue
                try:
                    status = Path(f"/proc/{process.number}/status").read_text()
                    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
                except (OSError, StopIteration):
                    continue
                size = int(resident.split()[1]) // MB
                if process.name == "java":
                    self.java = max(self.java, size)
                else:
                    self.worker = max(self.worker, size)


@dataclass(frozen=True)
class Figure:
    """What was measured of one piece of work: seconds, of the processor too where known, and megabytes."""

    name: str
    aim: float | None
    first: float
    #: The runs after the first.
    again: tuple[float, ...]
    #: Medians of the seconds of the processor: of Java, and of Python.
    processor: tuple[float, float] | None = None
    worker: int | None = None

    @property
    def median(self) -> float:
        """Return the median of the runs after the first, or the first if there is no other."""
        return statistics.median(self.again or (self.first,))

    def row(self) -> str:
        """Return the figure as a row of a Markdown table."""
        aim = f"{self.aim:g}" if self.aim is not None else ""
        least = f"{min(self.again):.2f}" if self.again else ""
        processor = f"{self.processor[0]:.1f} + {self.processor[1]:.1f}" if self.processor is not None else ""
        cells = [self.name, aim, f"{self.first:.2f}", f"{self.median:.2f}" if self.again else "", least]
        cells += [f"{len(self.again)}", processor, f"{self.worker or ''}"]
        return "| " + " | ".join(cells) + " |"


HEAD = """\
| | aim | first | median | minimum | runs | processor: Java + Python | largest worker, MB |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


def measured(
    name: str, work: Callable[[], Any], *, aim: float | None = None, runs: int = 5, limit: float = 200.0
) -> Figure:
    """Run work once, and then ``runs`` times more, as long as less than ``limit`` seconds have passed."""
    times: list[float] = []
    spent: list[tuple[float, float]] = []
    began = time.perf_counter()
    with Memory() as memory:
        while len(times) <= runs and time.perf_counter() - began < limit:
            before, start = used(), time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
            after = used()
            spent.append((after[0] - before[0], after[1] - before[1]))
    java, python = (statistics.median(each) for each in zip(*(spent[1:] or spent), strict=True))
    return Figure(name, aim, times[0], tuple(times[1:]), (java, python), memory.worker)


def of_times(name: str, times: Sequence[float], aim: float | None = None) -> Figure:
    """Return the figure of work that measures itself."""
    return Figure(name, aim, times[0], tuple(times[1:]))
