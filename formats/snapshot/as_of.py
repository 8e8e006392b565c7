"""Time travel: the snapshot below a folder that a version or a time chooses, as in Delta and Iceberg.

A version is a checkpoint id; where two snapshots have one id, neither is chosen. Which snapshot is the newest, and
which are one history, :mod:`~pyspark_savepoint.formats.snapshot.histories` defines. A snapshot has no time of its own:
its time is when its ``_metadata`` was written, which completed it.

Flink deletes checkpoints while they are read, their files in any order; what cannot be read for that reason is a
SnapshotGoneError (:func:`explained`), which names the newest snapshot. Copies that ``pin`` and ``cp`` made are the
snapshots that they are copies of: of those of one snapshot one is chosen, which does not vanish meanwhile.
"""

from __future__ import annotations

import posixpath
import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark_savepoint.formats.errors import (
    SavepointError,
    SnapshotGoneError,
    SnapshotNotFoundError,
    StateFileNotFoundError,
)
from pyspark_savepoint.formats.filesystems.filesystem import locate
from pyspark_savepoint.formats.filesystems.storage_options import StoragePath
from pyspark_savepoint.formats.io.run_ahead import ahead
from pyspark_savepoint.formats.snapshot.histories import MAX_LISTED, Histories, SnapshotInfo, ranges
from pyspark_savepoint.formats.snapshot.savepoint import METADATA_FILE_NAME, Described, find_snapshots
from pyspark_savepoint.formats.snapshot.snapshot_location import is_checkpoint_directory

#: The version that is the newest snapshot.
LATEST = "latest"
#: How a snapshot is taken that is not the newest by its time: of one, of changes, of a stream, and by its path.
BY_VERSION, BY_END = "give 'versionAsOf' = {id}", "give 'endingVersion' = {id}"
BY_TIMES, BY_PATH = "copy it again with its times", "name {path}"
#: Above all checkpoint ids.
ANY = 1 << 63
LINE = "\n"
#: How often a folder without a readable snapshot is listed: a job deletes the old ones when there is a new one, which
#: was not there yet when the folder was listed.
LISTINGS = 3
#: Seconds between looks at a checkpoint of which a file is missing: Flink deletes its files one after the other.
PAUSES = (0.1, 0.3, 0.6, 1.0)


def snapshot_as_of(
    folder: str, version: int | str | None, time: datetime | None = None
) -> tuple[SnapshotInfo, tuple[str, ...]]:
    """Return the readable snapshot at or below a folder that has a version, or was the newest at a time.

    Args:
        folder: A folder of snapshots, such as that of a job's checkpoints, or a snapshot.
        version: A checkpoint id, or ``latest``; None if a time is given.
        time: A time with a zone.

    Returns:
        The snapshot, and warnings about newer ones that cannot be read, if the newest is wanted, and about higher ids
        of snapshots that are older.

    Raises:
        SnapshotNotFoundError: If there is none, or several snapshots have the id; the error says what there is.

    """
    if version == LATEST and time is None:
        newest = newest_of(folder, BY_VERSION)
        return newest.history[-1], newest.warnings
    readable, unreadable = _in_order_of(folder, version)
    if time is not None:
        chosen, aside = _last_of(_at(time, readable, folder), BY_VERSION)
        return chosen, () if aside is None else (aside,)
    same_number = [snapshot for snapshot in readable if snapshot.checkpoint_id == version]
    if not same_number:
        raise _no_version(folder, version, [snapshot.checkpoint_id or 0 for snapshot in readable], unreadable)
    return Histories(folder, readable).only(int(version or 0), same_number), ()


def _last_of(histories: Histories, remedy: str) -> tuple[SnapshotInfo, str | None]:
    """Return the newest snapshot, and a warning if snapshots with higher ids are older."""
    newest = histories.newest()
    return newest, histories.set_aside(histories.history(newest), newest.number, remedy)


def _unreadable_checkpoints(folder: str, unreadable: Sequence[SnapshotInfo], numbers: range) -> tuple[str, ...]:
    """Return a warning for each checkpoint with one of some numbers that is there and cannot be read."""
    options, is_remote = StoragePath.options_of(folder), locate(folder)[0].is_remote
    numbered = [(one.number, one.path, str(one.problem)) for one in unreadable if one.number in numbers]
    numbered.sort(key=lambda one: one[:2])
    deleted = ahead(is_deleted, (StoragePath.of(path, options) for _, path, _ in numbered), remote=is_remote)
    return tuple(
        f"checkpoint {number} cannot be read, and is left out: {path}: {problem.partition(LINE)[0]}"
        for (number, path, problem), is_gone in zip(numbered, deleted, strict=True)
        if not is_gone
    )


@dataclass(frozen=True)
class VersionRange:
    """Ends of a range of versions, both inclusive, each by a version or a time; without an end to the newest."""

    start: int | None = None
    end: int | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None


def versions_between(folder: str, span: VersionRange) -> tuple[tuple[SnapshotInfo | None, ...], tuple[str, ...]]:
    """Return the versions in a range in their order, after the one before the first, to which changes are relative.

    Args:
        folder: A folder of snapshots, such as that of a job's checkpoints, or a snapshot.
        span: The range. Version 0 is before all snapshots. A time is that of the first version that was complete
            then or later, or as the end of the last that was complete by then.

    Returns:
        At least two: the one before the range, None if it begins with version 0, and those of the range; and warnings
        about checkpoints among them that cannot be read.

    Raises:
        SnapshotNotFoundError: If the folder has no such versions, or not the one before them; if several snapshots have
            one id, or there are checkpoints of another job in between. The error says what there is.

    """
    readable, unreadable = in_order(folder)
    there = [snapshot.checkpoint_id or 0 for snapshot in readable]
    for number in (span.start, span.end):
        if number and number not in there:
            raise _no_version(folder, number, there, unreadable)
    histories = Histories(folder, readable)
    end = _last(histories, readable, span)
    history = histories.history(end)
    by_checkpoint = by_id(history)
    checkpoint_ids, last = [*by_checkpoint], end.checkpoint_id or 0
    first = _first(histories, by_checkpoint, span, end)
    base = [number for number in checkpoint_ids if number < first][-1:]
    if not base and first:
        raise SnapshotNotFoundError(
            f"the changes of version {first} are those since the version before it, which this folder has not",
            path=folder,
            found=f"checkpoint ids {ranges(there)}",
            remedy=f"startingVersion {checkpoint_ids[1]} is the first with one before it; 0 shows all rows of version "
            f"{checkpoint_ids[0]} as inserts"
            if len(checkpoint_ids) > 1
            else f"startingVersion 0 shows all rows of version {checkpoint_ids[0]} as inserts",
        )
    numbers = [*base, *(number for number in checkpoint_ids if first <= number)]
    versions = [histories.only(number, by_checkpoint[number]) for number in numbers]
    histories.refuse_other_jobs(versions)
    newest = span.end is None and span.end_time is None
    left_out = _unreadable_checkpoints(folder, unreadable, range(base[0] if base else 0, ANY if newest else last))
    aside = histories.set_aside(history, base[0] if base else 0, BY_END)
    return ((*versions,) if base else (None, *versions)), (*left_out, *([aside] if aside else []))


def _first(histories: Histories, by_id: Mapping[int, list[SnapshotInfo]], span: VersionRange, end: SnapshotInfo) -> int:
    """Return the first version of a range, 0 for what is before all snapshots."""
    last = end.checkpoint_id or 0
    if span.start_time is None:
        first = span.start or 0
        if first > last and (span.end is not None or span.end_time is not None):
            raise _none(histories.folder, first, last, [*by_id])
        if first and first not in by_id:
            others = [one for one in histories.ordered if one.checkpoint_id == first]
            raise SnapshotNotFoundError(
                f"version {first} is not of the history of version {last}: it is of another job, or of an earlier "
                "start of the job",
                path=histories.folder,
                found=f"{', '.join(one.path for one in others[:MAX_LISTED])}; the newest is {end.path}",
                remedy=f"begin with one of its history (checkpoint ids {ranges([*by_id])}), or end the range with one "
                f"of the history of version {first}",
            )
        return first
    later = [number for number in by_id if _time(by_id[number]) >= span.start_time.timestamp()]
    if later:
        return later[0]
    beyond = [one.checkpoint_id or 0 for one in histories.ordered if _time([one]) >= span.start_time.timestamp()]
    if beyond and beyond[0] > last:
        raise _none(histories.folder, beyond[0], last, [*by_id])
    raise SnapshotNotFoundError(
        f"no snapshot {'of the history ' if beyond else ''}below this folder is of {span.start_time.isoformat()} or "
        "later",
        path=histories.folder,
        found=f"the newest is of {_time_text(max(map(_time, by_id.values())))}",
        remedy="give an earlier time",
    )


def _none(folder: str, first: int, last: int, numbers: Sequence[int]) -> SnapshotNotFoundError:
    return SnapshotNotFoundError(
        f"the changes of versions {first} to {last} are none",
        path=folder,
        found=f"checkpoint ids {ranges(numbers)}",
        remedy="the first version must not be after the last",
    )


def _last(histories: Histories, readable: Sequence[SnapshotInfo], span: VersionRange) -> SnapshotInfo:
    """Return the snapshot that a range ends with."""
    if span.end_time is not None:
        return _at(span.end_time, readable, histories.folder).newest()
    if span.end is None:
        return histories.newest()
    return histories.only(span.end, [one for one in readable if one.checkpoint_id == span.end])


def _time(snapshots: Sequence[SnapshotInfo]) -> float:
    """Return the time of a version; where a store tells none, a time before all others."""
    return snapshots[0].modified or 0.0


class Followed:
    """A folder whose snapshots are looked up again and again; metadata that did not change is read once.

    Args:
        folder: A folder of snapshots, such as that of a job's checkpoints.

    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._known: Described = {}
        self._unreadable: list[SnapshotInfo] = []
        self._aside: str | None = None

    def versions(self) -> dict[int, list[SnapshotInfo]]:
        """Return the snapshots that can be read now by their checkpoint ids, in ascending order.

        Returns:
            The snapshots; several where a job was started twice from one snapshot.

        Raises:
            SnapshotNotFoundError: If there is no such folder.

        """
        snapshots = find_snapshots(self.folder, described=self._known)
        self._unreadable = [snapshot for snapshot in snapshots if snapshot.checkpoint_id is None]
        return by_id(_once([snapshot for snapshot in snapshots if snapshot.checkpoint_id is not None]))

    def left_out(self, numbers: range) -> tuple[str, ...]:
        """Return warnings about checkpoints that could not be read when the folder was looked up last.

        Args:
            numbers: Their checkpoint ids.

        Returns:
            A sentence for each that is still there; one about those of other histories, if the history or the newest
            was looked up since.

        """
        aside, self._aside = self._aside, None
        return (*_unreadable_checkpoints(self.folder, self._unreadable, numbers), *([] if aside is None else [aside]))

    def after(
        self, before: SnapshotInfo | None, left: Sequence[str], versions: Mapping[int, list[SnapshotInfo]]
    ) -> list[SnapshotInfo]:
        """Return the snapshots of the history that goes on after one, up to the first id that several have.

        Args:
            before: The snapshot, which need not be there any more; None for the history of the newest.
            left: Folders of jobs whose checkpoints are before those of the snapshot's job.
            versions: What :meth:`versions` returned.

        Returns:
            The snapshots, oldest first.

        Raises:
            SnapshotNotFoundError: If several snapshots have the next id, if there are checkpoints of another job in
                between, or if the job was started anew since ``before``.

        """
        snapshots_of_all = [snapshot for several in versions.values() for snapshot in several]
        if before is not None and not any(snapshot.identity == before.identity for snapshot in snapshots_of_all):
            snapshots_of_all.append(before)
        if not snapshots_of_all:
            return []
        histories = Histories(self.folder, snapshots_of_all)
        if before is None:
            histories.refuse_others_meanwhile()
            later = histories.history(histories.ordered[-1])
            self._aside = histories.set_aside(later, 0, BY_TIMES)
        else:
            later = histories.after(before)
        snapshots: list[SnapshotInfo] = []
        for number, several in by_id(later).items():
            if snapshots and len(several) > 1:
                break
            snapshots.append(histories.only(number, several))
        histories.refuse_other_jobs([*([] if before is None else [before]), *snapshots], left)
        return snapshots

    def newest(self, versions: Mapping[int, list[SnapshotInfo]]) -> SnapshotInfo | None:
        """Return the newest snapshot.

        Args:
            versions: What :meth:`versions` returned.

        Returns:
            The snapshot, None if there is none.

        Raises:
            SnapshotNotFoundError: If two jobs took checkpoints at the same time.

        """
        snapshots_of_all = [snapshot for several in versions.values() for snapshot in several]
        if not snapshots_of_all:
            return None
        newest, self._aside = _last_of(Histories(self.folder, snapshots_of_all), BY_TIMES)
        return newest


@dataclass(frozen=True)
class Newest:
    """The newest snapshot of a folder, and what else is there.

    Args:
        history: The snapshots that are one history up to the newest, which is the last.
        readable: All that can be read, oldest first.
        unreadable: Those that cannot.
        warnings: What is left out.

    """

    history: Sequence[SnapshotInfo]
    readable: Sequence[SnapshotInfo]
    unreadable: Sequence[SnapshotInfo]
    warnings: tuple[str, ...]


def newest_of(folder: str, remedy: str = BY_PATH) -> Newest:
    """Return the newest snapshot at or below a folder, with its history.

    Args:
        folder: A folder of snapshots, such as that of a job's checkpoints, or a snapshot.
        remedy: How one with a higher id is taken, for the warning about it.

    Returns:
        What :func:`snapshot_as_of` chooses as ``latest``.

    Raises:
        SnapshotNotFoundError: If there is none, or two jobs took checkpoints at the same time.

    """
    readable, unreadable = in_order(folder)
    histories = Histories(folder, readable)
    newest, aside = _last_of(histories, remedy)
    left_out = _unreadable_checkpoints(folder, unreadable, range(newest.number, ANY))
    warnings = left_out if aside is None else (*left_out, aside)
    return Newest(histories.history(newest), readable, unreadable, warnings)


def history_up_to(folder: str, path: str) -> list[SnapshotInfo]:
    """Return the snapshots of a folder that are one history up to one of them; none if it is not there."""
    readable, _ = in_order(folder)
    last = next((snapshot for snapshot in readable if snapshot.path == path), None)
    return [] if last is None else Histories(folder, readable).history(last)


def readable_snapshots(folder: str) -> list[SnapshotInfo]:
    """Return the first of :func:`in_order`."""
    return in_order(folder)[0]


def _in_order_of(folder: str, version: int | str | None) -> tuple[list[SnapshotInfo], list[SnapshotInfo]]:
    """Return what :func:`in_order` does, in stores without checkpoints of other numbers if the version is one."""
    if isinstance(version, int):
        snapshots = find_snapshots(folder, only=version)
        if any(snapshot.checkpoint_id == version for snapshot in snapshots):
            return _sorted_out(folder, snapshots)
    return in_order(folder)


def in_order(folder: str) -> tuple[list[SnapshotInfo], list[SnapshotInfo]]:
    """Return the snapshots at and below a folder that can be read, oldest first, and those that cannot.

    Of copies of one snapshot one is returned.

    Raises:
        SnapshotNotFoundError: If none can be read; the error says what there is.

    """
    snapshots, readable = [], []
    for _ in range(LISTINGS):
        snapshots = find_snapshots(folder)
        readable = [snapshot for snapshot in snapshots if snapshot.checkpoint_id is not None]
        if readable:
            break
    if not snapshots:
        raise SnapshotNotFoundError(
            "there is no snapshot below this folder",
            path=folder,
            expected=f"folders with a file {METADATA_FILE_NAME}, such as chk-42 or savepoint-2f1a3c",
            remedy="name the folder that contains a job's checkpoints or savepoints",
        )
    if not readable:
        raise SnapshotNotFoundError(
            f"none of the {len(snapshots)} snapshots below this folder can be read",
            path=folder,
            found=snapshots[0].problem,
            remedy=f"pyspark-savepoint ls {folder} shows the problem of each",
        )
    return _sorted_out(folder, snapshots)


def _sorted_out(folder: str, snapshots: Sequence[SnapshotInfo]) -> tuple[list[SnapshotInfo], list[SnapshotInfo]]:
    readable = [snapshot for snapshot in snapshots if snapshot.checkpoint_id is not None]
    unreadable = [snapshot for snapshot in snapshots if snapshot.checkpoint_id is None]
    return Histories(folder, _once(readable)).ordered, unreadable


def by_id(snapshots: Sequence[SnapshotInfo]) -> dict[int, list[SnapshotInfo]]:
    """Return snapshots by their checkpoint ids, in ascending order."""
    versions: dict[int, list[SnapshotInfo]] = {}
    for snapshot in sorted(snapshots, key=lambda one: one.checkpoint_id or 0):
        versions.setdefault(snapshot.checkpoint_id or 0, []).append(snapshot)
    return versions


def _once(readable: Sequence[SnapshotInfo]) -> list[SnapshotInfo]:
    """Return snapshots, of copies of one snapshot one."""
    once: dict[bytes, SnapshotInfo] = {}
    for snapshot in sorted(readable, key=lambda one: (not one.is_copy, one.path)):
        earlier = once.get(snapshot.digest)
        if earlier is None:
            once[snapshot.digest] = snapshot
        elif not earlier.is_copy:
            once[snapshot.path.encode()] = snapshot  # another tool copied it: which one is meant is not known
    return [*once.values()]


def explained(
    error: SavepointError, paths: Sequence[str], folder: str | None = None, *, there: bool = True
) -> SavepointError:
    """Return the error for what is missing of some snapshots: a SnapshotGoneError if one of them was deleted.

    Args:
        error: The error of a read of the snapshots.
        paths: The snapshots.
        folder: The folder that they were chosen from; that of the job's checkpoints by default.
        there: Whether the snapshots have been there; else a checkpoint is only missed where there are others.

    Returns:
        A SnapshotGoneError, or the error, if all snapshots are there.

    """
    if not isinstance(error, StateFileNotFoundError | SnapshotNotFoundError):
        return error
    waits = there and any(is_checkpoint_directory(posixpath.basename(path)) for path in paths)
    for pause in (*(PAUSES if waits else ()), None):
        deleted_path = next((path for path in paths if is_deleted(path)), None)
        if deleted_path is not None:
            return _deleted_snapshot(deleted_path, folder) if there else _not_there(deleted_path) or error
        if pause is not None:
            clock.sleep(pause)
    return error


def is_deleted(path: str) -> bool:
    """Return whether there is no snapshot at a path."""
    filesystem, located = locate(path)
    try:
        return not any(map(filesystem.is_file, (posixpath.join(located, METADATA_FILE_NAME), located)))
    except SavepointError:
        return False


def _not_there(path: str) -> SnapshotGoneError | None:
    """Return the error for a checkpoint that is not beside others of its job; None for anything else."""
    name = posixpath.basename(path)
    newest = _newest(path, None) if is_checkpoint_directory(name) else None
    if newest is None:
        return None
    return _error(f"{_what(name)} is not there: its job has deleted it, or has not completed it", path, newest)


def _deleted_snapshot(path: str, folder: str | None) -> SnapshotGoneError:
    """Return the error for a snapshot that was deleted."""
    newest = _newest(path, folder) or "no snapshot is there now"
    return _error(f"{_what(posixpath.basename(path))} was deleted while it was read", path, newest)


def _what(name: str) -> str:
    return f"checkpoint {name.removeprefix('chk-')}" if is_checkpoint_directory(name) else "the snapshot"


def _newest(path: str, folder: str | None) -> str | None:
    """Return what the newest snapshot of a folder is, or of the job of a checkpoint; None if there is none."""
    job = StoragePath.of(posixpath.dirname(path), StoragePath.options_of(path))
    try:
        newest = readable_snapshots(folder or job)[-1]
    except SavepointError:
        return None
    return f"the newest that is there now is checkpoint {newest.checkpoint_id}: {newest.path}"


def _error(message: str, path: str, found: str) -> SnapshotGoneError:
    return SnapshotGoneError(
        message,
        path=path,
        found=found,
        remedy="read the newest again ('versionAsOf' = 'latest' of the folder); let the job retain more checkpoints "
        "(execution.checkpointing.num-retained), or hold one while it is read: pyspark-savepoint pin",
    )


def _no_version(
    folder: str, version: int | str | None, numbers: Sequence[int], unreadable: Sequence[SnapshotInfo]
) -> SnapshotNotFoundError:
    damaged = next((each for each in unreadable if each.number == version), None)
    if damaged is not None:
        return SnapshotNotFoundError(
            f"checkpoint {version} cannot be read",
            path=damaged.path,
            found=str(damaged.problem).partition(LINE)[0],
            remedy=f"verify it (pyspark-savepoint verify); those that can be read are checkpoint ids {ranges(numbers)}",
        )
    return SnapshotNotFoundError(
        f"no snapshot below this folder has checkpoint id {version}",
        path=folder,
        found=f"checkpoint ids {ranges(numbers)}",
        remedy="checkpoints that the job has deleted cannot be read; its setting for retained checkpoints says how "
        "many it keeps",
    )


def _at(time: datetime, readable: Sequence[SnapshotInfo], folder: str) -> Histories:
    """Return the snapshots that were complete at a time.

    A time that a store does not tell is as good as none: such snapshots are not chosen.
    """
    timed = [(snapshot.modified, snapshot) for snapshot in readable if snapshot.modified]
    before = [snapshot for modified, snapshot in timed if modified <= time.timestamp()]
    if before:
        return Histories(folder, before)
    raise _none_as_old(folder, time, min((modified for modified, _ in timed), default=None))


def _none_as_old(folder: str, time: datetime, first: float | None) -> SnapshotNotFoundError:
    return SnapshotNotFoundError(
        f"no snapshot below this folder is as old as {time.isoformat()}",
        path=folder,
        found=f"the oldest is of {_time_text(first)}" if first else None,
        remedy="give a later time, or a checkpoint id",
    )


def _time_text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
