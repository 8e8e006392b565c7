"""Migration of a :class:`Savepoint` to another release of Flink: what ``Savepoint.migrate`` returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa

from pyspark_savepoint.execution.migrating import Migration, Work
from pyspark_savepoint.options.paths import located, reached
from pyspark_savepoint.source.distribution import cores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


S = TypeVar("S")
NUMBER, RESULT = "number", "result"
#: Tasks for each that runs at a time, so that long pieces do not end last.
WAVES = 4


@dataclass(frozen=True)
class SavepointMigration(Generic[S]):
    """A migration that is not written yet; made by ``Savepoint.migrate``."""

    spark: SparkSession
    options: Mapping[str, str]
    migration: Migration
    load: Callable[[str], S]

    def check(self) -> DataFrame:
        """Return the verdicts about all parts of the state, the worst first."""
        checked = self.migration.check(partial(run_in_tasks, self.spark))
        return self.spark.createDataFrame(checked.to_arrow())

    def write(self, path: str | PathLike[str]) -> S:
        """Write the migrated savepoint to a new path, and load it from there.

        Spark's tasks read all values that Kryo wrote, and then write one file per subtask; ``show_progress`` shows
        how far they are. ``_metadata`` is written last: before, nothing is visible.

        Args:
            path: The folder of the new savepoint.

        Returns:
            The new savepoint.

        Raises:
            UnsupportedStateError: If information that a part of the state needs is missing; nothing is written then.
            StateExistsError: If there is a savepoint at the path.

        Example::

            sp.migrate("2.3", classes=["job.jar"]).write("/savepoints/for-2.3")

        """
        target = located(self.spark, path)
        run = partial(run_in_tasks, self.spark)
        self.migration.write(reached(target, self.options), run)
        return self.load(target)


@dataclass(frozen=True)
class PieceTask:
    """Task of ``mapInArrow``: its input rows are the numbers of pieces, its output rows their results."""

    work: Work

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the results of some pieces."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pydict({NUMBER: [number], RESULT: [self.work.run(number)]})


def run_in_tasks(spark: SparkSession, work: Work) -> dict[int, bytes]:
    """Run the pieces of some work in Spark's tasks."""
    count = len(work.pieces)
    if not count:
        return {}
    tasks = min(count, WAVES * cores(spark.range(0)))
    frame = spark.range(0, count, 1, tasks).mapInArrow(PieceTask(work.unopened()), f"{NUMBER} LONG, {RESULT} BINARY")
    return {row[NUMBER]: bytes(row[RESULT]) for row in frame.collect()}
