"""Copies of untouched files by Spark's tasks, so that a large savepoint does not pass through the driver."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from pyspark_savepoint.execution.copying import copy_files
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_savepoint.formats.snapshot.publication import Staging
    from pyspark_savepoint.formats.snapshot.relocation import FileCopy

#: Bytes from which tasks copy files, and those that a task copies, unless a file is larger.
LARGE, OF_A_TASK = 1 << 30, 256 << 20


@dataclass(frozen=True)
class CopyTasks:
    """Function of ``mapInArrow`` that copies the files of the tasks whose numbers it gets.

    On a local file system an attempt writes a file of its own, which the driver renames: two attempts may run at the
    same time. Object stores show complete files only, and those of all attempts are the same.
    """

    files: Sequence[Sequence[tuple[int, FileCopy]]]
    staging: Staging

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the number and the written name of every file."""
        staging = self.staging.begin()
        for batch in batches:
            for task in batch.column(0).to_pylist():
                numbers, names = [], []
                for number, copy in self.files[task]:
                    name = f"{copy.name}-{secrets.token_hex(4)}" if staging.filesystem.renames else copy.name
                    replace(copy, name=name).run(staging.create_state)
                    numbers.append(number)
                    names.append(name)
                yield pa.record_batch([pa.array(numbers, pa.int32()), pa.array(names, pa.string())], ["number", "name"])


def copy_large(spark: SparkSession, copies: Sequence[FileCopy], staging: Staging, shared: bool) -> None:
    """Copy all files: by tasks if they are large, and tasks reach them; else by this process.

    ``shared``: tasks write to local paths of this savepoint anyway.
    """
    total = sum(copy.size for copy in copies)
    local = any(
        isinstance(each, LocalFileSystem) for each in (staging.filesystem, *(c.source.filesystem for c in copies))
    )
    if total < LARGE or (local and not shared):
        copy_files(copies, staging)
        return
    count = min(len(copies), -(-total // OF_A_TASK))
    numbered = sorted(enumerate(copies), key=lambda each: -each[1].size)
    tasks = CopyTasks([numbered[task::count] for task in range(count)], staging)
    for row in spark.range(0, count, 1, count).mapInArrow(tasks, "number INT, name STRING").collect():
        staging.rename_state(row["name"], copies[row["number"]].name)
