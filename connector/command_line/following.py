"""The changes of a running job, from checkpoint to checkpoint without end: ``changes --follow``.

A job deletes checkpoints while they are read. So what changed up to a checkpoint is read whole, into a local file,
before any of it is printed. Of a checkpoint that is deleted meanwhile nothing is printed: its changes are among those
of the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from time import sleep
from typing import IO

import pyarrow as pa

from pyspark_savepoint.api.local_tables import SnapshotTable, changes_between
from pyspark_savepoint.command_line.output import Output, Row
from pyspark_savepoint.formats.errors import (
    SavepointError,
    SnapshotGoneError,
    SnapshotNotFoundError,
    StateFileNotFoundError,
)
from pyspark_savepoint.formats.filesystems.storage_options import StoragePath
from pyspark_savepoint.formats.io.one_verb import look_again
from pyspark_savepoint.formats.snapshot.as_of import Followed, is_deleted
from pyspark_savepoint.formats.snapshot.histories import SnapshotInfo, job_of
from pyspark_savepoint.statebackends.rows.json_values import kinds_of, row_to_json

#: Seconds between looks at a folder that is followed.
SECONDS_BETWEEN_LOOKS = 2


def following(table: SnapshotTable, output: Output) -> Iterator[Row]:
    """Yield changes without end: those of a table, then those of each snapshot that is completed.

    Args:
        table: Changes between the snapshots that are there.
        output: Where warnings are told.

    Yields:
        The changes as JSON.

    Raises:
        SnapshotNotFoundError: If the job was started anew, or another job takes checkpoints in the folder.

    """
    followed, left = Followed(table.options.located), list[str]()
    before = table.options.versions[0]
    later = [snapshot for snapshot in table.options.versions[1:] if snapshot is not None]
    while True:
        if not later:
            output.results.flush()
            sleep(SECONDS_BETWEEN_LOOKS)
            look_again(anew=True)
            later = [*followed.after(before, left, followed.versions())]
            numbers = range(0 if before is None else before.number, later[-1].number if later else 0)
            for warning in followed.left_out(numbers):
                output.remark(f"warning: {warning}")
            continue
        newer = later.pop(0)
        try:
            with _changes(table, before, newer) as rows:
                yield from rows
        except (SnapshotNotFoundError, StateFileNotFoundError) as error:
            deleted_snapshot = _deleted_snapshot(table, error, before, newer)
            if deleted_snapshot is None:
                raise
            if before is not None and deleted_snapshot is before:
                # What has changed since is not known.
                output.remark(
                    f"warning: checkpoint {before.number}, up to which changes are shown, was deleted: what changed "
                    f"from it to checkpoint {newer.number} is not shown"
                )
            else:
                output.remark(
                    f"warning: checkpoint {newer.number} was deleted while it was read: its changes are among those of "
                    "the next one"
                )
                continue
        job = None if before is None else job_of(before)
        if job is not None and job_of(newer) not in (None, job):
            left.append(job)
        before = newer


@contextmanager
def _changes(table: SnapshotTable, before: SnapshotInfo | None, newer: SnapshotInfo) -> Iterator[Iterator[Row]]:
    """Yield the changes from one snapshot to another, after all of them were read."""
    own = changes_between(table, before, newer)
    if own.options.versions != (before, newer):  # those that are there now: one of the two is not
        raise SnapshotGoneError("a checkpoint was deleted while it was opened", path=newer.path)
    with TemporaryFile() as file:
        with pa.ipc.new_stream(file, own.schema) as sink:
            for batch in own.batches():
                sink.write_batch(batch)
        file.seek(0)
        yield _rows(file)


def _deleted_snapshot(
    table: SnapshotTable, error: SavepointError, before: SnapshotInfo | None, newer: SnapshotInfo
) -> SnapshotInfo | None:
    """Return which of two snapshots was deleted, None if the error is about something else."""
    read = [snapshot for snapshot in (before, newer) if snapshot is not None]
    storage = table.options.storage_options
    result = next((snapshot for snapshot in read if is_deleted(StoragePath.of(snapshot.path, storage))), None)
    if result is None and isinstance(error, SnapshotGoneError):
        return newer
    return result


def _rows(file: IO[bytes]) -> Iterator[Row]:
    with pa.ipc.open_stream(file) as batches:
        kinds = kinds_of(batches.schema)
        for batch in batches:
            yield from (row_to_json(row, kinds) for row in batch.to_pylist())
