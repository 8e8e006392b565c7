"""A planned savepoint, written: edited operators by Spark, untouched files copied, ``_metadata`` last.

::

    1  edited parts    every one a write of the data source, which leaves a fragment in the pending folder
    2  the others      their files are copied (``files="copy"``), or referred to where they are (``"reference"``)
    3  ``_metadata``   put together and published, if the path is still free
"""

from __future__ import annotations

import posixpath
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.changes import assemble, identified, target_version
from pyspark_savepoint.formats.errors import OptionError, StateExistsError
from pyspark_savepoint.formats.metadata import CheckpointMetadata, OperatorState, write_metadata
from pyspark_savepoint.formats.publication import Staging, publish_metadata, read_published, relative_files
from pyspark_savepoint.formats.relocation import FileCopy, Relocation, referenced
from pyspark_savepoint.operator_plan import OperatorPlan
from pyspark_savepoint.savepoint_plan import SavepointPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COPY, REFERENCE = "copy", "reference"
COPIERS = 8
#: Seconds between two lines about long copying.
TELL_EVERY = 5.0


@dataclass
class SavepointWriter:
    """One ``write``. ``given`` is the path as the user wrote it, for Spark."""

    spark: SparkSession
    plan: SavepointPlan
    given: str
    staging: Staging
    files: str
    flink_version: tuple[int, int] | None
    relocation: Relocation

    @classmethod
    def to(
        cls, spark: SparkSession, plan: SavepointPlan, path: str, files: str, flink_version: tuple[int, int] | None
    ) -> SavepointWriter:
        """For a path that is free."""
        if files not in (COPY, REFERENCE):
            raise OptionError(f"files are not {files!r}", expected=f"'{COPY}' or '{REFERENCE}'")
        staging = Staging.at(path)
        if read_published(staging.filesystem, staging.directory) is not None:
            raise StateExistsError(
                "there is a savepoint at this path already",
                path=staging.filesystem.uri(staging.directory),
                remedy="write to a new path: a savepoint is not changed in place",
            )
        return cls(spark, plan, path, staging, files, flink_version, Relocation(f"{staging.token}-copy"))

    def run(self) -> None:
        """Write everything, or leave nothing."""
        filesystem, directory = self.staging.filesystem, self.staging.directory
        was_there = filesystem.info(directory) is not None
        names: list[str] = []
        try:
            filesystem.create_directory(self.staging.pending)
            metadata = self._assembled()
            copy_files(list(self.relocation.copies.values()), self.staging)
            names = sorted(relative_files(metadata))
            self.staging.adopt(names)
            publish_metadata(filesystem, directory, write_metadata(metadata), None)
        except BaseException:
            self.staging.forsake(names)
            self.staging.discard()
            if not was_there:
                filesystem.delete_empty_directory(directory)
            raise
        self.staging.discard(keep=names)

    def _assembled(self) -> CheckpointMetadata:
        version = target_version(self.plan.bases, self.flink_version)
        operators = [self._operator(number, plan) for number, plan in enumerate(self.plan.operators)]
        return assemble(operators, self.plan.bases, version)

    def _operator(self, number: int, plan: OperatorPlan) -> OperatorState:
        operator = identified(self._kept(plan), plan.identifier)
        return replace(operator, name=plan.name)

    def _kept(self, plan: OperatorPlan) -> OperatorState:
        """What stays of the base, with handles of its files where they will be."""
        assert plan.base is not None
        operator = plan.base.operator
        if self.files == REFERENCE:
            return referenced(plan.base.snapshot, operator, plan.base.path)
        return self.relocation.copied(plan.base.snapshot, operator)


def copy_files(copies: Sequence[FileCopy], staging: Staging) -> None:
    """All files, some at a time, the largest first; a line now and then where it takes long."""
    target = posixpath.dirname(staging.state_path("_"))
    progress = Progress(len(copies), sum(copy.size for copy in copies))

    def run(copy: FileCopy) -> None:
        progress.add(copy.run(staging.filesystem, target))

    with ThreadPoolExecutor(COPIERS) as pool:
        for _ in pool.map(run, sorted(copies, key=lambda copy: -copy.size)):
            pass


class Progress:
    """Says how far long copying is, on standard error."""

    def __init__(self, files: int, size: int) -> None:
        self.files, self.size = files, size
        self._done, self._copied = 0, 0
        self._said = time.monotonic()
        self._lock = threading.Lock()

    def add(self, size: int) -> None:
        """One file was copied."""
        with self._lock:
            self._done, self._copied = self._done + 1, self._copied + size
            now = time.monotonic()
            if now - self._said >= TELL_EVERY:
                self._said = now
                print(
                    f"savepoint: copied {self._done} of {self.files} files, "
                    f"{self._copied / 1e9:.1f} of {self.size / 1e9:.1f} GB",
                    file=sys.stderr,
                    flush=True,
                )
