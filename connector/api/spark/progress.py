"""Progress of the Spark jobs of a block of code, as one line that is updated in notebooks and on terminals.

::

    with show_progress(spark, "writing"):
        savepoint.write("/savepoints/new")

The line shows the completed tasks and the tasks known so far. Spark plans stages as it goes, so their number may grow.
When the block ends, a last line shows the number of tasks and the duration. Other outputs than notebooks and terminals,
such as logs, get only that line.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark_savepoint.formats.redaction import printable
from pyspark_savepoint.text.progress import columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUP, DESCRIPTION = "spark.jobGroup.id", "spark.job.description"
WIDTH = 24
#: Numbers of tasks: completed, and known so far.
Tasks = tuple[int, int]


@contextmanager
def show_progress(spark: SparkSession, what: str, *, interval: float = 0.2) -> Iterator[None]:
    """Show the progress of the Spark jobs that a ``with`` block runs.

    Jobs that other threads start are counted if these threads inherit Spark's local properties.

    Args:
        spark: The session, classic or Connect.
        what: The text that precedes the progress.
        interval: Seconds between two updates.

    Returns:
        A context manager.

    Example::

        with show_progress(spark, "writing"):
            savepoint.write("/savepoints/new")

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
    """Return the line that is shown while jobs run.

    >>> moving("writing", (3, 4), 2)
    'writing ██████████████████       3 of 4 tasks, 2 s'
    """
    completed, total = tasks
    filled = WIDTH * completed // total if total else 0
    return f"{what} {'█' * filled}{' ' * (WIDTH - filled)} {completed} of {_counted(total)}, {seconds:.0f} s"


def _counted(tasks: int) -> str:
    return f"{tasks} task" + ("" if tasks == 1 else "s")


# -- task counts --------------------------------------------------------------------------------------------


@contextmanager
def _tasks_of(spark: SparkSession) -> Iterator[Callable[[], Tasks]]:
    """Provide a function that counts the tasks that the block has started."""
    counted = _classic(spark) if hasattr(spark, "_jsparkSession") else _connect(spark)
    with counted as tasks:
        yield tasks


@contextmanager
def _classic(spark: SparkSession) -> Iterator[Callable[[], Tasks]]:
    """Count the tasks of a job group that is set for the block, then restore the previous group."""
    # Any: None removes a property, which the annotation does not allow.
    context: Any = spark.sparkContext
    tracker, group = context.statusTracker(), f"progress-{uuid.uuid4().hex}"
    before = {name: context.getLocalProperty(name) for name in (GROUP, DESCRIPTION)}
    stages: dict[int, Tasks] = {}

    def tasks() -> Tasks:
        jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
        for stage in (stage for job in jobs if job is not None for stage in job.stageIds):
            info = tracker.getStageInfo(stage)
            # Stages that are skipped never start.
            if info is not None and (info.numActiveTasks or info.numCompletedTasks):
                stages[stage] = (info.numCompletedTasks, info.numTasks)
        return _sum(stages.values())

    context.setLocalProperty(GROUP, group)
    try:
        yield tasks
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)


@contextmanager
def _connect(spark: Any) -> Iterator[Callable[[], Tasks]]:
    """Count the tasks that the server reports for each operation."""
    operations: dict[str, Tasks] = {}

    def report(stages: Iterable[Any] | None, operation_id: str | None, **_: Any) -> None:
        tasks = _sum((stage.num_completed_tasks, stage.num_tasks) for stage in stages or ())
        if tasks[1]:
            operations[operation_id or ""] = tasks

    spark.registerProgressHandler(report)
    try:
        yield lambda: _sum(list(operations.values()))
    finally:
        spark.removeProgressHandler(report)


def _sum(all_tasks: Iterable[Tasks]) -> Tasks:
    completed = total = 0
    for some_done, some_known in all_tasks:
        completed, total = completed + some_done, total + some_known
    return completed, total


# -- output -------------------------------------------------------------------------------------------------


class _Line:
    """One line of output that is overwritten, in the cell of a notebook or on a terminal."""

    def __init__(self) -> None:
        self.handle: Any = None
        self.length = 0
        ipython: Any = sys.modules.get("IPython")
        # Only the output of a kernel can be updated later.
        if ipython is not None and hasattr(ipython.get_ipython(), "kernel"):
            self.handle = ipython.display.display(_Plain(""), display_id=True)
        self.moves = self.handle is not None or sys.stderr.isatty()

    def show(self, text: str) -> None:
        """Replace the line."""
        text = printable(text, line=True)
        if self.handle is not None:
            self.handle.update(_Plain(text))
        else:
            text = text[: max(1, columns() - 1)]
            sys.stderr.write("\r" + text.ljust(self.length))
            sys.stderr.flush()
        self.length = len(text)

    def end(self, text: str) -> None:
        """Replace the line for the last time, or print it where lines cannot be replaced."""
        text = printable(text, line=True)
        if self.handle is not None:
            self.handle.update(_Plain(text))
        elif self.moves:
            self.show(text)
            sys.stderr.write("\n")
        else:
            sys.stderr.write(text + "\n")


class _Plain:
    """Text that notebooks show without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text
