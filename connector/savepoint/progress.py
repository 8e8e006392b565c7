"""How far Spark is with what runs in a block: a line that moves, in notebooks and on terminals.

::

    with show_progress(spark, "writing"):
        savepoint.write("/savepoints/new")

Shows tasks that are done, of those that are known so far: Spark plans stages as it goes, so there may come more. When
the block ends, one line stays: how many tasks there were, and how long it took. Other outputs than notebooks and
terminals, such as logs, are given that line alone.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUP, DESCRIPTION = "spark.jobGroup.id", "spark.job.description"
WIDTH = 24
#: Tasks: done, and known so far.
Tasks = tuple[int, int]


@contextmanager
def show_progress(spark: SparkSession, what: str, *, interval: float = 0.2) -> Iterator[None]:
    """Show how far the jobs of a block are, on a classic session or on Connect.

    ``interval`` is in seconds. Jobs that threads of the block start count if the threads inherit Spark's properties.
    """
    with _tasks_of(spark) as tasks:
        started, over = time.monotonic(), threading.Event()
        line = _Line()

        def follow() -> None:
            while not over.wait(interval):
                line.show(moving(what, tasks(), time.monotonic() - started))

        follower = threading.Thread(target=follow, daemon=True)
        if line.moves:
            follower.start()
        try:
            yield
        finally:
            over.set()
            if line.moves:
                follower.join()
            line.end(f"{what}: {_counted(tasks()[0])}, {time.monotonic() - started:.1f} s")


def moving(what: str, tasks: Tasks, seconds: float) -> str:
    """The line while jobs run.

    >>> moving("writing", (3, 4), 2)
    'writing ██████████████████       3 of 4 tasks, 2 s'
    """
    done, known = tasks
    filled = WIDTH * done // known if known else 0
    return f"{what} {'█' * filled}{' ' * (WIDTH - filled)} {done} of {_counted(known)}, {seconds:.0f} s"


def _counted(tasks: int) -> str:
    return f"{tasks} task" + ("" if tasks == 1 else "s")


# -- what Spark tells ----------------------------------------------------------------------------------------


@contextmanager
def _tasks_of(spark: SparkSession) -> Iterator[Callable[[], Tasks]]:
    """What tells of the tasks that the block has started."""
    counted = _classic(spark) if hasattr(spark, "_jsparkSession") else _connect(spark)
    with counted as tasks:
        yield tasks


@contextmanager
def _classic(spark: SparkSession) -> Iterator[Callable[[], Tasks]]:
    """By a job group, which the block has for itself; that of before is back after it."""
    # Any, for None removes a property, which the annotation does not say.
    context: Any = spark.sparkContext
    tracker, group = context.statusTracker(), f"progress-{uuid.uuid4().hex}"
    before = {name: context.getLocalProperty(name) for name in (GROUP, DESCRIPTION)}
    known: dict[int, Tasks] = {}

    def tasks() -> Tasks:
        jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
        for stage in (stage for job in jobs if job is not None for stage in job.stageIds):
            info = tracker.getStageInfo(stage)
            # Stages that are skipped never start.
            if info is not None and (info.numActiveTasks or info.numCompletedTasks):
                known[stage] = (info.numCompletedTasks, info.numTasks)
        return _sum(known.values())

    context.setLocalProperty(GROUP, group)
    try:
        yield tasks
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)


@contextmanager
def _connect(spark: Any) -> Iterator[Callable[[], Tasks]]:
    """By what the server reports of each operation."""
    known: dict[str, Tasks] = {}

    def report(stages: Iterable[Any] | None, operation_id: str | None, **_: Any) -> None:
        found = _sum((stage.num_completed_tasks, stage.num_tasks) for stage in stages or ())
        if found[1]:
            known[operation_id or ""] = found

    spark.registerProgressHandler(report)
    try:
        yield lambda: _sum(list(known.values()))
    finally:
        spark.removeProgressHandler(report)


def _sum(all_tasks: Iterable[Tasks]) -> Tasks:
    done = known = 0
    for some_done, some_known in all_tasks:
        done, known = done + some_done, known + some_known
    return done, known


# -- where it is shown ---------------------------------------------------------------------------------------


class _Line:
    """One line of output, written over and over: of a notebook's cell, or of a terminal."""

    def __init__(self) -> None:
        self.handle: Any = None
        self.length = 0
        ipython: Any = sys.modules.get("IPython")
        # Only what a kernel shows can be changed later.
        if ipython is not None and hasattr(ipython.get_ipython(), "kernel"):
            self.handle = ipython.display.display(_Plain(""), display_id=True)
        self.moves = self.handle is not None or sys.stderr.isatty()

    def show(self, text: str) -> None:
        """In place of what is shown."""
        if self.handle is not None:
            self.handle.update(_Plain(text))
        else:
            sys.stderr.write("\r" + text.ljust(self.length))
            sys.stderr.flush()
        self.length = len(text)

    def end(self, text: str) -> None:
        """The last of it."""
        if self.handle is not None:
            self.handle.update(_Plain(text))
        elif self.moves:
            self.show(text)
            sys.stderr.write("\n")
        else:
            sys.stderr.write(text + "\n")


class _Plain:
    """Text that notebooks show as it is, without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text
