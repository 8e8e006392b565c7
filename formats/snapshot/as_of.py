"""Time travel: the snapshot below a folder that a version or a time chooses, as in Delta and Iceberg.

A version is a checkpoint id. A job that was restored goes on counting in the folder of its new job id, so that several
folders are one history; where a job was started twice from one snapshot, two snapshots have one id, and neither is
chosen. A snapshot has no time of its own: its time is when its ``_metadata`` was written, which completed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark_savepoint.formats.errors import SnapshotNotFoundError
from pyspark_savepoint.formats.snapshot.savepoint import SnapshotInfo, find_snapshots

#: The version that is the newest snapshot.
LATEST = "latest"
#: How many snapshots or ranges of ids an error lists.
MAX_LISTED = 20


def snapshot_as_of(folder: str, version: int | str | None, time: datetime | None = None) -> SnapshotInfo:
    """Return the readable snapshot at or below a folder that has a version, or was the newest at a time.

    Args:
        folder: A folder of snapshots, such as that of a job's checkpoints, or a snapshot.
        version: A checkpoint id, or ``latest``; None if a time is given.
        time: A time with a zone.

    Returns:
        The snapshot.

    Raises:
        SnapshotNotFoundError: If there is none, or several snapshots have the id; the error says what there is.

    """
    found = find_snapshots(folder)
    readable = [snapshot for snapshot in found if snapshot.checkpoint_id is not None]
    if not readable:
        raise SnapshotNotFoundError(
            "there is no snapshot below this folder that can be read",
            path=folder,
            found=found[0].problem if found else None,
            remedy="name the folder that contains a job's checkpoints or savepoints",
        )
    if version == LATEST:
        version = max(snapshot.checkpoint_id or 0 for snapshot in readable)
    if time is not None:
        return _newest_at(time, readable, folder)
    chosen = [snapshot for snapshot in readable if snapshot.checkpoint_id == version]
    if len(chosen) == 1:
        return chosen[0]
    if not chosen:
        raise SnapshotNotFoundError(
            f"no snapshot below this folder has checkpoint id {version}",
            path=folder,
            found=f"checkpoint ids {_ranges(readable)}",
            remedy="checkpoints that the job has deleted cannot be read; its setting for retained checkpoints says how "
            "many it keeps",
        )
    raise SnapshotNotFoundError(
        f"{len(chosen)} snapshots below this folder have checkpoint id {version}: the job was started twice from one "
        "snapshot, or a snapshot was copied",
        path=folder,
        found=", ".join(snapshot.path for snapshot in chosen[:MAX_LISTED]),
        remedy="name the folder of one job, or one of these snapshots",
    )


def _newest_at(time: datetime, readable: Sequence[SnapshotInfo], folder: str) -> SnapshotInfo:
    """Return the snapshot that was completed last at or before a time; of those of one moment, that of the highest id.

    A time that a store does not tell is as good as none: such snapshots are not chosen.
    """
    timed = [(snapshot.modified, snapshot.checkpoint_id or 0, snapshot) for snapshot in readable if snapshot.modified]
    before = [each for each in timed if each[0] <= time.timestamp()]
    if before:
        return max(before, key=lambda each: each[:2])[2]
    first = min((each[0] for each in timed), default=None)
    raise SnapshotNotFoundError(
        f"no snapshot below this folder is as old as {time.isoformat()}",
        path=folder,
        found=None if first is None else f"the oldest is of {datetime.fromtimestamp(first, UTC).isoformat()}",
        remedy="give a later time, or a checkpoint id with versionAsOf",
    )


def _ranges(snapshots: Sequence[SnapshotInfo]) -> str:
    """Return the ids of snapshots, ranges as one: ``3-7, 9``.

    >>> _ranges([SnapshotInfo("", None, number) for number in (9, 3, 4, 5)])
    '3-5, 9'
    """
    ranges: list[list[int]] = []
    for number in sorted({snapshot.checkpoint_id or 0 for snapshot in snapshots}):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in ranges]
    return ", ".join(texts if len(texts) <= MAX_LISTED else ["...", *texts[-MAX_LISTED:]])
