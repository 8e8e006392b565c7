"""The order of the snapshots of a folder, and which of them are one history.

**Order.** Snapshots are in the order in which they were complete, which is when their ``_metadata`` was written. Times
are compared in whole seconds, since stores tell no more; in one second the higher checkpoint id is newer. Checkpoints
of one start of a job are in the order of their ids, whatever clocks say. The newest is the last of this order:
``latest``, the first that ``ls`` lists, and what a report is about.

**Starts.** A job is known by the folder that has its checkpoints, by the job id in the paths of their files, and by the
beginning of that id in the name of a savepoint. A job that begins without state counts from 1 again, in the same folder
if its id is fixed: where an id is below all before it, another start begins.

**Copies.** Tools that copy a folder write each ``_metadata`` at a time of their own, in any order. Nothing in it tells
the time of the job. Two things show a copy, whose checkpoints are of one start:

- Checkpoints of two starts need the same file in ``shared`` or ``taskowned``. What begins without state needs none of
  an earlier start.
- An id of one start is between those of another. A job that begins anew cannot replace a ``_metadata``: its checkpoint
  of that id fails, and Flink deletes the folder of the older one with it. So all that is left of an earlier start has
  higher ids.

Where neither is so, times are taken, and :meth:`Histories.set_aside` warns of higher ids.

**History.** A job that is restored goes on counting, in the folder of its new job id. So the history of a snapshot has
those of its start up to it, and, back in time, each snapshot of another whose id is below all that the history has so
far. Two jobs that took checkpoints at the same time are no history, and neither is the newest.

Flink: ``CheckpointIDCounter``, ``FsCheckpointStorageAccess``, ``FsCheckpointMetadataOutputStream`` (which replaces no
``_metadata``, so that ids of one folder are there once), ``FsCheckpointStorageLocation#disposeOnFailure``.
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NoReturn

from pyspark_savepoint.formats.errors import SnapshotNotFoundError
from pyspark_savepoint.formats.metadata import SnapshotKind
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.snapshot.snapshot_location import is_checkpoint_directory

#: How many snapshots or ranges of ids an error lists.
MAX_LISTED = 20
#: How many jobs a warning names.
MAX_JOBS = 3
#: The folder of a savepoint as Flink names it, with the beginning of the id of its job.
SAVEPOINT_DIRECTORY = re.compile(r"savepoint-([0-9a-f]{6})-[0-9a-f]{12}")
#: The folder of a job, as Flink names it.
JOB_DIRECTORY = re.compile(r"[0-9a-f]{32}")


@redacted
@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """One snapshot of a folder. If it cannot be read, it has only a path, a time and a ``problem``.

    ``size`` is the size of its state according to the handles: including files shared with other checkpoints, as in
    Flink's web interface.
    """

    path: str
    modified: float | None
    checkpoint_id: int | None = None
    kind: SnapshotKind = SnapshotKind.UNKNOWN
    size: int | None = None
    problem: str | None = None
    #: Checksum of its ``_metadata``, or of that of the snapshot that it is a copy of, whose time it has too.
    digest: bytes = b""
    is_copy: bool = False
    #: The id of its job, where the paths of its files have one and the name of its folder does not.
    job_id: str | None = None
    #: Checksums of the paths of files in the folders ``shared`` and ``taskowned`` of its job, of some if they are many.
    shared_files: frozenset[int] = field(default=frozenset(), repr=False)

    @property
    def number(self) -> int:
        """Return the checkpoint id, of one that cannot be read that of its folder's name; 0 if there is none."""
        if self.checkpoint_id is not None:
            return self.checkpoint_id
        name = posixpath.basename(self.path)
        return int(name.removeprefix("chk-")) if is_checkpoint_directory(name) else 0

    @property
    def identity(self) -> bytes:
        """Return what copies of one snapshot have in common."""
        return self.digest or self.path.encode()


def job_of(snapshot: SnapshotInfo) -> str | None:
    """Return the folder of the job that took a checkpoint; None if it is a savepoint."""
    directory, name = posixpath.split(snapshot.path)
    return directory if is_checkpoint_directory(name) else None


def _is_timed(snapshot: SnapshotInfo) -> bool:
    """Return whether the time of a snapshot is that when its job had completed it."""
    return job_of(snapshot) is None or snapshot.kind in (SnapshotKind.CHECKPOINT, SnapshotKind.UNKNOWN)


def ranges(ids: Sequence[int]) -> str:
    """Return the ids of snapshots, ranges as one: ``3-7, 9``.

    >>> ranges([9, 3, 4, 5])
    '3-5, 9'
    """
    ranges: list[list[int]] = []
    for number in sorted(set(ids)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in ranges]
    return ", ".join(texts if len(texts) <= MAX_LISTED else ["...", *texts[-MAX_LISTED:]])


#: The second in which a snapshot and those before it were complete, and its id.
Place = tuple[int, int]


@dataclass
class Start:
    """The snapshots of one start of a job by their ids, or one whose job is not known."""

    #: The folder of its checkpoints, or the beginning of the id in the names of its savepoints; None if not known.
    job: str | None
    members: list[SnapshotInfo] = field(default_factory=list)
    #: Where each is in the order of all: when those up to it were complete, and its id.
    places: list[Place] = field(default_factory=list)


def _job_id_of(start: Sequence[SnapshotInfo]) -> str | None:
    """Return the job id that the paths of a start have."""
    return next((one.job_id for one in start if one.job_id is not None), None)


def _were_copied(starts: Sequence[Sequence[SnapshotInfo]]) -> bool:
    """Return whether the times by which checkpoints are of several starts cannot be those of their job."""
    shared_files: set[int] = set()
    bounds: list[tuple[int, int]] = []
    for start in starts:
        own_files = {file for one in start for file in one.shared_files}
        if not shared_files.isdisjoint(own_files):
            return True
        shared_files |= own_files
        # Savepoints are copied and moved one by one: their times tell nothing about a folder of checkpoints.
        ids = [one.number for one in start if job_of(one) is not None]
        if ids:
            first, last = min(ids), max(ids)
            if any(first < high and low < last for low, high in bounds):
                return True
            bounds.append((first, last))
    return False


class Histories:
    """The snapshots of a folder in their order, and their histories.

    Args:
        folder: The folder, for errors.
        snapshots: The snapshots, copies of one snapshot too.

    """

    def __init__(self, folder: str, snapshots: Iterable[SnapshotInfo]) -> None:
        self.folder = folder
        in_order = sorted(snapshots, key=lambda one: (one.number, one.path))
        #: A copy that another tool made has its own time, which is later than that of what it is a copy of.
        self._seconds: dict[bytes, int] = {}
        self._alike: dict[bytes, list[SnapshotInfo]] = {}
        for one in in_order:
            seconds = int(one.modified or 0.0)
            self._seconds[one.identity] = min(seconds, self._seconds.get(one.identity, seconds))
            self._alike.setdefault(one.identity, []).append(one)
        self._starts = self._found_starts(in_order)
        self._start = {one.identity: start for start in self._starts for one in start.members}
        self._place = {
            one.identity: place
            for start in self._starts
            for one, place in zip(start.members, start.places, strict=True)
        }
        #: The snapshots, oldest first.
        self.ordered = sorted(in_order, key=lambda one: (*self._place[one.identity], one.modified or 0.0, one.path))

    def _found_starts(self, snapshots: Sequence[SnapshotInfo]) -> list[Start]:
        """Return the starts of all jobs, each snapshot in one of them."""
        folders = {job for one in snapshots if (job := job_of(one)) is not None}
        starts_by_job: dict[str, list[str]] = {}
        for folder in folders:
            starts_by_job.setdefault(posixpath.basename(folder)[:6], []).append(folder)
        jobs: dict[str, dict[bytes, SnapshotInfo]] = {}
        for one in snapshots:
            job = job_of(one)
            match = SAVEPOINT_DIRECTORY.fullmatch(posixpath.basename(one.path))
            if job is None and match is not None:
                own = starts_by_job.get(match[1], [])
                job = own[0] if len(own) == 1 else match[0][: match.end(1)]
            if job is not None:
                jobs.setdefault(job, {}).setdefault(one.identity, one)
        starts, placed = [], set[bytes]()
        # What was copied from the folder of a job, without more, is not a job.
        for job, members in sorted(jobs.items(), key=lambda item: (-len(item[1]), item[0])):
            if not members.keys() <= placed:
                own_members = [one for identity, one in members.items() if identity not in placed]
                starts += self._split(job, own_members)
                placed |= members.keys()
        alone = [several[0] for identity, several in self._alike.items() if identity not in placed]
        return [*starts, *(Start(None, [one], [self._raw(one)]) for one in alone)]

    def _raw(self, one: SnapshotInfo) -> Place:
        return self._seconds[one.identity], one.number

    def _split(self, job: str, members: Sequence[SnapshotInfo]) -> list[Start]:
        """Return the starts of one job."""
        starts: list[list[SnapshotInfo]] = []
        lowest, known = -1, None
        # The time of what this package wrote in the place of a checkpoint is not that of the job.
        timed = [one for one in members if _is_timed(one)] or members
        for one in sorted(timed, key=self._raw):
            other = known is not None and one.job_id is not None and one.job_id != known
            if not starts or one.number < lowest or other:
                starts.append([])
                lowest, known = one.number, None
            starts[-1].append(one)
            known = one.job_id or known
        starts = self._without_copies(starts)
        bounds = [(min(one.number for one in each), max(one.number for one in each)) for each in starts]
        for one in members if timed is not members else ():
            if not _is_timed(one):
                below = [at for at, (low, _) in enumerate(bounds) if low < one.number]
                around = [at for at in below if one.number < bounds[at][1]]
                starts[[len(starts) - 1, *below, *around][-1]].append(one)
        parts, ids = [], {one.job_id for one in members if one.job_id is not None}
        for each in starts:
            start = Start(job if len(ids) < 2 else f"{job} (job {_job_id_of(each)})")
            by_number = sorted(each, key=lambda one: one.number)
            times = [self._seconds[one.identity] for one in each if _is_timed(one) or timed is members]
            complete = max(times)
            for one in reversed(by_number):
                if _is_timed(one) or timed is members:
                    complete = min(complete, self._seconds[one.identity])
                start.members.append(one)
                start.places.append((complete, one.number))
            start.members.reverse()
            start.places.reverse()
            parts.append(start)
        return parts

    def _without_copies(self, starts: Sequence[list[SnapshotInfo]]) -> list[list[SnapshotInfo]]:
        """Return starts by their times, those of a job whose folder was copied as one."""
        by_job: dict[str | None, list[list[SnapshotInfo]]] = {}
        for each in starts:
            by_job.setdefault(_job_id_of(each), []).append(each)
        result: list[list[SnapshotInfo]] = []
        for several in by_job.values():
            result += [[one for each in several for one in each]] if _were_copied(several) else several
        return sorted(result, key=lambda each: self._raw(each[-1]))

    def newest(self) -> SnapshotInfo:
        """Return the newest snapshot.

        Returns:
            The last in the order.

        Raises:
            SnapshotNotFoundError: If another job took checkpoints while its job did, or another tool copied it.

        """
        last = self.ordered[-1]
        self.refuse_others_meanwhile()
        return self.only(last.number, self._alike[last.identity])

    def only(self, number: int, snapshots: Sequence[SnapshotInfo]) -> SnapshotInfo:
        """Return the only snapshot of those that have a checkpoint id.

        Args:
            number: The id.
            snapshots: The snapshots.

        Returns:
            The snapshot.

        Raises:
            SnapshotNotFoundError: If there are several.

        """
        if len(snapshots) > 1:
            raise SnapshotNotFoundError(
                f"{len(snapshots)} snapshots below this folder have checkpoint id {number}: a job was started twice "
                "from one snapshot, another job was started anew, or a snapshot was copied",
                path=self.folder,
                found=", ".join(snapshot.path for snapshot in snapshots[:MAX_LISTED]),
                remedy="name the folder of one job, or one of these snapshots",
            )
        return snapshots[0]

    def refuse_others_meanwhile(self) -> None:
        """Raise SnapshotNotFoundError if another job took checkpoints while the job of the newest snapshot did.

        Raises:
            SnapshotNotFoundError: If so; it names both.

        """
        last = self.ordered[-1]
        start = self._start[last.identity]
        if start.job is None:
            return
        first, end = start.places[0][0], self._place[last.identity][0]
        for other in self._starts:
            if other.job is None or other.job == start.job:
                continue
            if other.places[0][0] < end and first < other.places[-1][0]:
                raise self._between(other.job, start.job)

    def _between(self, one: str, other: str) -> SnapshotNotFoundError:
        return SnapshotNotFoundError(
            "checkpoints of another job are between those of one: their states are no history, and none is the newest",
            path=self.folder,
            found=f"{one} among those of {other}",
            remedy="name the folder of one job",
        )

    def history(self, last: SnapshotInfo) -> list[SnapshotInfo]:
        """Return the snapshots that are one history up to one of them.

        Args:
            last: The snapshot.

        Returns:
            The snapshots by their ids; several with one id where another tool copied one.

        """
        start = self._start[last.identity]
        chain = [one for one in start.members if one.number <= last.number]
        lowest = chain[0].number
        identities = {one.identity for one in chain}
        older = self.ordered[: self.ordered.index(chain[0])]
        for one in reversed(older):
            other = self._start[one.identity]
            # Savepoints that no job took have one id.
            same = other.job is None and start.job is None and one.number == lowest
            if other is not start and (one.number < lowest or same):
                chain.insert(0, one)
                identities.add(one.identity)
                lowest = one.number
        numbers = [one.number for one in chain]
        for other in self._starts:
            alone = other.members[0]
            if other.job is None and alone.identity not in identities and alone.number <= last.number:
                at = bisect_left(numbers, alone.number)
                before = self._place[chain[at - 1].identity][0] if at else 0
                after = self._place[chain[at].identity][0]
                if at and numbers[at] != alone.number and before <= other.places[0][0] <= after:
                    identities.add(alone.identity)
        members = [one for identity in identities for one in self._alike[identity]]
        return sorted(members, key=lambda one: (one.number, *self._place[one.identity], one.path))

    def refuse_other_jobs(self, chosen: Sequence[SnapshotInfo], left: Sequence[str] = ()) -> None:
        """Raise SnapshotNotFoundError if checkpoints of one job are between those of another.

        Args:
            chosen: The snapshots, oldest first.
            left: Folders of jobs whose checkpoints are before all of them.

        """
        jobs = [*left, *(self._start[one.identity].job for one in chosen)]
        runs = [job for job, _ in groupby(job for job in jobs if job is not None)]
        again = next((job for job in runs if runs.count(job) > 1), None) if len(set(runs)) < len(runs) else None
        if again is not None:
            raise self._between(runs[runs.index(again) + 1], again)

    def set_aside(self, history: Sequence[SnapshotInfo], above: int, remedy: str) -> str | None:
        """Return a warning about snapshots that are older than the last of a history, and are not in it.

        Args:
            history: The history.
            above: Those with ids above this one are meant.
            remedy: How the one with the highest id is taken, which has ``{id}`` and ``{path}``.

        Returns:
            The warning, None if there are none.

        """
        last, identities = history[-1], {one.identity for one in history}
        end = self._place[last.identity]
        aside = [
            one
            for one in self.ordered
            if one.number > above and self._place[one.identity] < end and one.identity not in identities
        ]
        if not aside:
            return None
        start = self._start[last.identity]
        first = next(one for one in history if self._start[one.identity] is start)
        jobs = sorted({self._start[one.identity].job or one.path for one in aside})
        more = f" and {len(jobs) - MAX_JOBS} more" if len(jobs) > MAX_JOBS else ""
        highest = max(aside, key=lambda one: one.number)
        of = "" if jobs == [start.job] else f" of {start.job or first.path}"
        return (
            f"checkpoint {last.number} is the last, and checkpoint ids {ranges([one.number for one in aside])} of "
            f"{', '.join(jobs[:MAX_JOBS])}{more} are left out: the _metadata of checkpoint {first.number}{of} is "
            "later, as when a job begins anew; if another tool copied the folder, times tell nothing: "
            f"{remedy.format(id=highest.number, path=highest.path)}"
        )

    def after(self, before: SnapshotInfo) -> list[SnapshotInfo]:
        """Return the snapshots of the history that goes on after one of them.

        Args:
            before: The snapshot, which is among those of this object.

        Returns:
            The snapshots by their ids.

        Raises:
            SnapshotNotFoundError: If the job was started anew since then.

        """
        start = self._start[before.identity]
        own = [one for one in start.members if one.number > before.number]
        last, history = before, [before]
        for last in reversed(self.ordered):
            history = self.history(last)
            identities = {one.identity for one in history}
            if before.identity in identities or self._start[last.identity].job is not None:
                break  # else somebody wrote a savepoint there
        if own and own[0].identity not in identities:
            history = self.history(own[-1])
        elif before.identity not in identities and self._place[last.identity] > self._place[before.identity]:
            self._refuse_anew(before, self._start[last.identity])
        return [one for one in history if one.number > before.number]

    def _refuse_anew(self, before: SnapshotInfo, begins: Start) -> NoReturn:
        """Raise SnapshotNotFoundError for a start that does not go on where another one was."""
        job = self._start[before.identity].job
        if begins.places[0] <= self._place[before.identity] and begins.job is not None and job is not None:
            raise self._between(begins.job, job)
        first = begins.members[0]
        raise SnapshotNotFoundError(
            f"the job was started anew, or from an older snapshot: checkpoint {first.number}, complete after "
            f"checkpoint {before.number}, is not of its history",
            path=self.folder,
            found=f"{first.path}, after {before.path}",
            remedy="begin with the new job: a stream with a new checkpointLocation, 'changes' with --from 0",
        )
