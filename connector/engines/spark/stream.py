"""Reader of a stream: the changes of each checkpoint of a job, as micro-batches of Structured Streaming.

An offset is a place between two checkpoints: after one of them. It names the folder, the checkpoint, those of the same
micro-batch before it, their times and the digests of their metadata, so that another process plans the same rows::

    {"folder": "/checkpoints", "of": "uid accounts", "checkpoint": 7, "snapshot": "7d2e/chk-7",
     "digest": "0d84e72f...", "time": 1764028800000000, "previous": 5,
     "between": {"6": {"snapshot": "7d2e/chk-6", "digest": "a1c0930b...", "time": 1764028740000000}}}

``checkpoint`` 0 is before all checkpoints. If the micro-batch before has read up to another checkpoint than its offset
says, since that one was gone, ``from`` is that other one. Spark calls all methods but ``read`` in one process on the
driver. From PySpark 4.2 on it says where a micro-batch begins and how much it may have. Before, it only asks for the
newest offset.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pyspark_savepoint.engines.spark.output import warn
from pyspark_savepoint.engines.spark.reader import StatePartition, batches_of, with_short_traceback
from pyspark_savepoint.engines.table_reads import partitions_of
from pyspark_savepoint.formats.errors import (
    OperatorNotFoundError,
    OptionError,
    SavepointError,
    SnapshotGoneError,
    SnapshotNotFoundError,
    StateFileNotFoundError,
    StateNotFoundError,
    UnsupportedStateError,
)
from pyspark_savepoint.formats.filesystems.filesystem import locate
from pyspark_savepoint.formats.filesystems.storage_options import StoragePath
from pyspark_savepoint.formats.io.local_files import cpus
from pyspark_savepoint.formats.json_text import number_of
from pyspark_savepoint.formats.redaction import printable
from pyspark_savepoint.formats.snapshot.as_of import LATEST, Followed, versions_between
from pyspark_savepoint.formats.snapshot.histories import Histories, SnapshotInfo, job_of, ranges
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.formats.snapshot.snapshot_location import is_checkpoint_directory
from pyspark_savepoint.options.options import MAX_VERSION, one_is_no_stream
from pyspark_savepoint.options.schema import choose_columns
from pyspark_savepoint.statebackends.merging.change_feed import COLUMNS_CHANGED, FeedPartition
from pyspark_savepoint.write.copying import pin_snapshot

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyspark_savepoint.options.options import SavepointReadOptions

try:
    from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
except ImportError:  # PySpark 4.0 and 4.1
    PARENTS: tuple[type, ...] = (DataSourceStreamReader,)
else:
    PARENTS = (DataSourceStreamReader, SupportsTriggerAvailableNow)

MICROS = 1_000_000
#: What the name of a checkpoint's folder begins with.
CHECKPOINT_PREFIX = "chk-"
#: How often a micro-batch is planned anew because checkpoints vanish meanwhile.
PLANNINGS = 10


@dataclass(frozen=True)
class Place:
    """A place in the history of a job: after a snapshot, or before all of them.

    Args:
        snapshot: The snapshot, None for the place before all.
        between: The snapshots between the one where its micro-batch begins and this one.
        previous: The checkpoint id where its micro-batch begins, None if that is not known.
        left: Folders of the jobs that the history has left: it does not return to them.
        begins: The snapshot where its micro-batch begins, None for before all, if that is not the one of ``previous``.

    """

    snapshot: SnapshotInfo | None = None
    between: tuple[SnapshotInfo, ...] = ()
    previous: int | None = None
    left: tuple[str, ...] = ()
    begins: tuple[SnapshotInfo | None, ...] = ()

    @property
    def version(self) -> int:
        """Return the checkpoint id, 0 before all."""
        return 0 if self.snapshot is None else _number(self.snapshot)


def _number(snapshot: SnapshotInfo) -> int:
    return snapshot.checkpoint_id or 0


@dataclass(frozen=True)
class Offsets:
    """Offsets of one table below one folder, as JSON.

    Args:
        folder: The folder, as its file system writes it.
        table: What names the table.

    """

    folder: str
    table: str

    def written(self, place: Place) -> dict[str, Any]:
        """Return a place as JSON, of numbers, texts and objects.

        Args:
            place: The place.

        Returns:
            The offset.

        """
        offset: dict[str, Any] = {"folder": self.folder, "of": self.table, "checkpoint": place.version}
        if place.snapshot is not None:
            offset |= self._snapshot(place.snapshot)
        if place.previous is not None:
            offset["previous"] = place.previous
        if place.between:
            offset["between"] = {str(_number(checkpoint)): self._snapshot(checkpoint) for checkpoint in place.between}
        if place.left:
            offset["left"] = {str(i): self._relative(checkpoint) for i, checkpoint in enumerate(place.left)}
        for checkpoint in place.begins:
            offset["from"] = (
                {} if checkpoint is None else {"checkpoint": _number(checkpoint), **self._snapshot(checkpoint)}
            )
        return offset

    def _snapshot(self, snapshot: SnapshotInfo) -> dict[str, Any]:
        time = {} if snapshot.modified is None else {"time": round(snapshot.modified * MICROS)}
        return {"snapshot": self._relative(snapshot.path), "digest": snapshot.digest.hex(), **time}

    def _relative(self, path: str) -> str:
        return path.removeprefix(f"{self.folder}/")

    def read(self, offset: Mapping[str, Any]) -> Place:
        """Return the place of an offset.

        Args:
            offset: The offset, as the log of a query has it.

        Returns:
            The place.

        Raises:
            OptionError: If it is of another folder or table, or no offset of this source.

        """
        try:
            folder, table = offset["folder"], offset["of"]
            version, previous = offset["checkpoint"], offset.get("previous")
            if not _is_number(version) or not (previous is None or _is_number(previous)):
                raise TypeError(version, previous)
            snapshot = None if not version else self._read(version, offset)
            between = tuple(
                self._read(number_of(number, MAX_VERSION), encoded)
                for number, encoded in offset.get("between", {}).items()
            )
            left = tuple(self._path(encoded) for encoded in offset.get("left", {}).values())
            begins = tuple(self._read(encoded["checkpoint"], encoded) if encoded else None for encoded in _from(offset))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise OptionError(
                "the log of the query has an offset that is none of this source",
                found=str(offset)[:300],
                remedy="give the query a checkpointLocation of its own",
            ) from None
        if (folder, table) != (self.folder, self.table):
            raise OptionError(
                "the log of the query has offsets of another folder or table",
                expected=f"{self.table} below {self.folder}",
                found=f"{table} below {folder}",
                remedy="load what the query has read before, with the same options, or give this one a "
                "checkpointLocation of its own",
            )
        return Place(snapshot, between, previous, left, begins)

    def _read(self, number: object, described: Mapping[str, Any]) -> SnapshotInfo:
        time = described.get("time")
        if not isinstance(number, int) or not _is_number(number) or not (time is None or _is_number(time)):
            raise TypeError(number, time)
        path, digest = self._path(described["snapshot"]), bytes.fromhex(described["digest"])
        return SnapshotInfo(path, None if time is None else time / MICROS, number, digest=digest)

    def _path(self, relative: str) -> str:
        if posixpath.normpath(relative) != relative or relative.startswith(("/", "..")):
            raise ValueError(relative)
        return posixpath.join(self.folder, relative)


def _is_number(value: object) -> bool:
    """Return whether something is a checkpoint id, or 0; or microseconds since 1970."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_VERSION


def _from(offset: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the other checkpoint where the micro-batch of an offset begins, if there is one."""
    starts = [offset["from"]] if "from" in offset else []
    if not all(isinstance(start, Mapping) for start in starts):
        raise TypeError(starts)
    return starts


@dataclass(frozen=True)
class Pins:
    """The snapshots that a query holds, in a folder of its own: those of a micro-batch, and that where it begins."""

    options: SavepointReadOptions

    def check(self) -> None:
        """Raise OptionError if the folder is one in which a query must delete nothing.

        Raises:
            OptionError: If it is in the folder that the stream reads, or has checkpoints that no query holds.

        """
        folders = [locate(folder) for folder in (self._at(self.folder), self.options.located)]
        places = [f"{filesystem.uri(located).rstrip('/')}/" for filesystem, located in folders]
        if places[0].startswith(places[1]):
            raise OptionError(
                "option 'pinFolder' is in the folder that the stream reads",
                path=self.options.path,
                found=self.folder,
                remedy="name a folder beside it",
            )
        for number in self._numbers():
            path = self._at(f"{self.folder}/{CHECKPOINT_PREFIX}{number}")
            if is_snapshot(path) and Snapshot.open(path).metadata.origin is None:
                raise OptionError(
                    "option 'pinFolder' has a checkpoint that no query holds, and checkpoints there would be deleted",
                    path=self.options.path,
                    found=f"{self.folder}/{CHECKPOINT_PREFIX}{number}",
                    remedy="name an empty folder, which is this query's own",
                )

    def _at(self, path: str) -> str:
        return StoragePath.of(path, self.options.storage_options)

    def _numbers(self) -> list[int]:
        """Return the checkpoint ids of what is in the folder."""
        filesystem, located = locate(self._at(self.folder))
        if filesystem.info(located) is None:
            return []
        names = [entry.name for entry in filesystem.list(located)]
        return [int(name.removeprefix(CHECKPOINT_PREFIX)) for name in names if is_checkpoint_directory(name)]

    @property
    def folder(self) -> str:
        """Return the folder."""
        return str(self.options.pin_folder).rstrip("/")

    def path(self, snapshot: SnapshotInfo) -> str:
        """Return where a snapshot is held.

        Args:
            snapshot: The snapshot.

        Returns:
            Its folder.

        """
        return f"{self.folder}/{CHECKPOINT_PREFIX}{_number(snapshot)}"

    def hold(self, snapshot: SnapshotInfo) -> None:
        """Hold a snapshot.

        Args:
            snapshot: The snapshot.

        Raises:
            SnapshotNotFoundError: If the job has deleted it.
            StateFileNotFoundError: If the job deletes it meanwhile.

        """
        if self.holds(snapshot):
            return  # an earlier run of the query was interrupted
        source = Snapshot.open(self._at(snapshot.path), allow_outside=self.options.allow_outside)
        pin_snapshot(source, self._at(self.path(snapshot)))

    def holds(self, snapshot: SnapshotInfo) -> bool:
        """Return whether a snapshot is held. Another one in its place, of an earlier query, is deleted.

        Args:
            snapshot: The snapshot.

        Returns:
            Whether it is held.

        """
        path = self._at(self.path(snapshot))
        if not is_snapshot(path):
            return False
        if Snapshot.open(path).origin.digest == snapshot.digest:
            return True
        filesystem, located = locate(path)
        filesystem.delete_directory(located)
        return False

    def release(self, version: int) -> None:
        """Delete the snapshots before one.

        Args:
            version: Its checkpoint id.

        """
        for number in self._numbers():
            if number < version:
                filesystem, located = locate(self._at(f"{self.folder}/{CHECKPOINT_PREFIX}{number}"))
                filesystem.delete_directory(located)


def is_snapshot(path: str) -> bool:
    """Return whether there is a snapshot at a path, with its storage options."""
    try:
        Snapshot.find(path)
    except SnapshotNotFoundError:
        return False
    return True


class SavepointStreamReader(*PARENTS):  # type: ignore[misc]  # as the PySpark that runs has them
    """Reader of the changes of one table, from checkpoint to checkpoint.

    Args:
        options: Those of the stream.
        schema: The columns of the stream.
        columns_of: The checkpoint whose columns they are, all that it has. None if they were given.

    Raises:
        OptionError: If the path is that of one snapshot.

    """

    def __init__(self, options: SavepointReadOptions, schema: StructType, columns_of: int | None) -> None:
        self.options, self.schema, self.columns_of = options, schema, columns_of
        if not _table(options):
            raise OptionError(
                "a stream needs an operator, or a table",
                path=options.path,
                remedy="name the operator with 'uid', 'uidHash' or 'operatorName', or 'table' = 'splits' or 'offsets'",
            )
        filesystem, located = locate(options.located)
        # Spark shows offsets in the progress of a query as they are.
        self.offsets = Offsets(filesystem.uri(located).rstrip("/"), printable(_table(options), line=True))
        self.followed = Followed(options.located)
        #: The snapshots that a query with the trigger availableNow reads, by their digests.
        self.until: frozenset[bytes] | None = None
        #: Where the last micro-batch ends; None if only Spark knows that, from an earlier run.
        self.returned: Place | None = None
        #: Whether PySpark 4.0 or 4.1 has asked for the newest offset.
        self.asked = False
        self.pins = None if options.pin_folder is None else Pins(options)
        if self.pins is not None:
            self.pins.check()
        #: The snapshots of the folder when it was listed last.
        self.listed: dict[int, list[SnapshotInfo]] = {}
        #: Snapshots that have lost files.
        self.gone: set[str] = set()
        #: What is read up to a checkpoint that was stepped over.
        self.instead: dict[int, SnapshotInfo | None] = {}
        if is_snapshot(options.located):
            raise one_is_no_stream(options.path)

    @with_short_traceback
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new query begins: before the first snapshot, or as the options say.

        Returns:
            The offset.

        Raises:
            SnapshotNotFoundError: If there is no such version.

        """
        options = self.options
        if options.starting_version == LATEST:
            position = Place(self.followed.newest(self._versions()))
            warn(iter(self.followed.left_out(range(0))))
        elif options.starting_version or options.starting_timestamp is not None:
            position = Place(versions_between(options.located, options.first)[0][0])
        else:
            position = Place()
        if self.pins is not None and position.snapshot is not None:
            self.pins.hold(position.snapshot)
        self.returned = position
        return self.offsets.written(position)

    @with_short_traceback
    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """Return where the next micro-batch ends.

        Args:
            start: Where it begins. None in PySpark 4.0 and 4.1.
            limit: How many checkpoints it may have. None in PySpark 4.0 and 4.1.

        Returns:
            The offset. ``start`` if there is no newer checkpoint.

        Raises:
            SnapshotNotFoundError: If several snapshots have the next checkpoint id, if there are checkpoints of another
                job in between, or if the folder has only older ones than the query has read.

        """
        if start is not None:
            position = self.offsets.read(start)
            end = self._next(position, getattr(limit, "max_files", None))
            self.returned = end or position
            return start if end is None else self.offsets.written(end)
        if self.returned is None:
            # Of an earlier run: where it ended is not known here. What it has read is left out by partitions().
            end = self._next(Place(), None)
            if end is None:
                self._lost(None, self.offsets.folder)
            self.returned = replace(end, previous=None)
        else:
            # The trigger availableNow asks once, so the first micro-batch of a run has all.
            count = self.options.max_checkpoints_per_trigger if self.asked else None
            self.returned = self._next(self.returned, count) or self.returned
        self.asked = True
        return self.offsets.written(self.returned)

    def _next(self, place: Place, count: int | None) -> Place | None:
        """Return the end of a micro-batch of at most some checkpoints, or None if there is no newer one."""
        versions = self._versions()
        base = self.instead.get(place.version, place.snapshot)
        later = self.followed.after(base, place.left, versions)
        snapshots = self._held(
            [snapshot for snapshot in later if self.until is None or snapshot.digest in self.until], count
        )
        if not snapshots:
            # Checkpoints, but older ones alone: the job was started anew.
            older = max(versions, default=0) < place.version and any(job_of(one[0]) for one in versions.values())
            if base is not None and older and self.options.fail_on_data_loss and not self._has(base):
                self._lost(base, f"checkpoint ids {ranges(list(versions))}")
            return None
        warn(iter(self.followed.left_out(range(place.version, _number(snapshots[-1])))))
        left = [*place.left]
        for before, after in zip([base, *snapshots], snapshots, strict=False):
            job = None if before is None else job_of(before)
            if job is not None and job_of(after) not in (None, job):
                left.append(job)
        begins = () if base == place.snapshot else (base,)
        return Place(snapshots[-1], tuple(snapshots[:-1]), place.version, tuple(left), begins)

    def _held(self, later: Sequence[SnapshotInfo], count: int | None) -> list[SnapshotInfo]:
        """Return the next snapshots, which are held from now on if there is a folder for that."""
        if self.pins is None:
            return [*later[:count]]
        result: list[SnapshotInfo] = []
        for snapshot in later:
            try:
                self.pins.hold(snapshot)
            except (SnapshotNotFoundError, StateFileNotFoundError):
                # The job deletes it: what has changed up to it is in the changes up to the next one.
                self.gone.add(snapshot.path)
                continue
            result.append(snapshot)
            if len(result) == count:
                break
        return result

    def _versions(self) -> dict[int, list[SnapshotInfo]]:
        listed = self.followed.versions()
        kept = {
            number: [snapshot for snapshot in several if snapshot.path not in self.gone]
            for number, several in listed.items()
        }
        self.listed = {number: several for number, several in kept.items() if several}
        return self.listed

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return of how many checkpoints a micro-batch has the changes.

        Returns:
            The limit. A checkpoint counts as a file.

        """
        return ReadMaxFiles(self.options.max_checkpoints_per_trigger)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the newest checkpoint, for the progress of the query, and how far behind it the query is.

        Returns:
            ``checkpoint``, ``snapshot`` and ``time`` of the newest, ``checkpointsBehind`` and, in milliseconds between
            the times of both checkpoints, ``millisBehind``, or None if there is no checkpoint.

        """
        versions = self._versions()
        if not versions:
            return None
        newest = Histories(self.offsets.folder, [each for several in versions.values() for each in several]).ordered[-1]
        read = Place() if self.returned is None else self.returned
        behind = {"checkpointsBehind": sum(number > read.version for number in versions)}
        if read.snapshot is not None and read.snapshot.modified and newest.modified:
            behind["millisBehind"] = max(0, round((newest.modified - read.snapshot.modified) * 1000))
        return {**self.offsets.written(Place(newest)), **behind}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read no checkpoints that are completed from now on."""
        self.until = frozenset(each.digest for several in self._versions().values() for each in several)

    @with_short_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the comparisons of a micro-batch, each with a partition per subtask that restores state.

        Args:
            start: The offset where it begins.
            end: The offset where it ends.

        Returns:
            The partitions, none if both are the same place.

        Raises:
            SnapshotGoneError: If a checkpoint is gone, without ``failOnDataLoss`` = false.
            UnsupportedStateError: If a state is new, gone or of another type.

        """
        first, last = self.offsets.read(start), self.offsets.read(end)
        self.returned = last
        if last.version < first.version:
            self._lost(first.snapshot, f"the newest checkpoint is {last.version}")
        if last.version == first.version:
            return []
        for _ in range(PLANNINGS):
            self._versions()
            chosen_snapshots = self._chosen(first, last)
            self.instead[last.version] = chosen_snapshots[-1]
            if len(chosen_snapshots) == 1:
                return []
            snapshots = [
                snapshot and replace(snapshot, path=self._place_of(snapshot) or snapshot.path)
                for snapshot in chosen_snapshots
            ]
            try:
                return self._planned(snapshots)
            except (StateFileNotFoundError, SnapshotNotFoundError) as error:
                vanished = _vanished(snapshots, error)
                if vanished is None:
                    raise
                self.gone.add(vanished)
        raise SnapshotGoneError(
            f"checkpoints up to {last.version} are deleted faster than they can be opened",
            path=self.offsets.folder,
            remedy="let the job retain more checkpoints",
        )

    def _chosen(self, first: Place, last: Place) -> list[SnapshotInfo | None]:
        """Return the snapshots to compare, from that where a micro-batch begins on, without those that are gone."""
        base = last.begins[0] if last.begins else self.instead.get(first.version, first.snapshot)
        snapshots = [snapshot for snapshot in (*last.between, last.snapshot) if snapshot is not None]
        snapshots = [snapshot for snapshot in snapshots if base is None or _number(snapshot) > _number(base)]
        available = [snapshot for snapshot in snapshots if self._is_there(snapshot)]
        missing = [snapshot for snapshot in snapshots if snapshot not in available]
        if base is not None and not self._is_there(base):
            missing.insert(0, base)
        if not missing:
            return [base, *snapshots]
        newer = self.followed.after(last.snapshot, (), self.listed)
        if self.options.fail_on_data_loss:
            self._lost(missing[0], f"checkpoint ids {ranges([_number(snapshot) for snapshot in (*available, *newer)])}")
        if last.snapshot in missing:
            available += newer[:1]
        missing_ids = ranges([_number(snapshot) for snapshot in missing])
        warn(iter([f"checkpoints {missing_ids} below {self.offsets.folder} are gone, and are stepped over"]))
        if base is None or base not in missing:
            return [base, *available]
        # What has changed since is not known.
        if not available:
            return [base]
        lost = f"{_number(base)}, up to which the query has read, is gone: its changes up to checkpoint"
        warn(iter([f"checkpoint {lost} {_number(available[0])} are lost"]))
        return [*available]

    def _is_there(self, snapshot: SnapshotInfo) -> bool:
        return self._place_of(snapshot) is not None

    def _place_of(self, snapshot: SnapshotInfo) -> str | None:
        """Return where a snapshot is held, which no job deletes, else where the job has it. None if it is gone."""
        if self.pins is not None and self.pins.path(snapshot) not in self.gone and self.pins.holds(snapshot):
            return self.pins.path(snapshot)
        return snapshot.path if self._has(snapshot) else None

    def _has(self, snapshot: SnapshotInfo) -> bool:
        """Return whether the job had a snapshot when its folder was listed last."""
        listed = self.listed.get(_number(snapshot), ())
        return any((candidate.path, candidate.digest) == (snapshot.path, snapshot.digest) for candidate in listed)

    def _planned(self, chosen: Sequence[SnapshotInfo | None]) -> list[InputPartition]:
        newest = chosen[-1]
        assert newest is not None
        older = self.columns_of is not None and _number(newest) < self.columns_of
        remedy = EARLIER if older else RESTART

        def columns(table: pa.Schema) -> list[str]:
            new = [name for name in table.names if self.columns_of is not None and name not in self.schema.names]
            try:
                if new:
                    raise OptionError(f"column {new[0]!r} is {'not in the newest checkpoint' if older else 'new'}")
                return choose_columns(table, self.schema)
            except OptionError as error:
                number = _number(newest)
                raise UnsupportedStateError(
                    f"the columns of the stream have changed {'since' if older else 'in'} checkpoint {number}",
                    path=newest.path,
                    found=error.message,
                    remedy=remedy,
                ) from None

        try:
            _, table, partitions = partitions_of(self.options.between(chosen), columns, cpus(), for_tasks=True)
        except UnsupportedStateError as error:
            if error.message.startswith(COLUMNS_CHANGED):
                error.facts["remedy"] = remedy
            raise
        except (OperatorNotFoundError, StateNotFoundError) as error:
            error.facts["remedy"] = "load the folder of one job, whose checkpoints have what the options name"
            raise
        warn(iter(table.warnings))
        return [StatePartition(partition) for partition in partitions]

    def _lost(self, missing: SnapshotInfo | None, evidence: str) -> NoReturn:
        number = "" if missing is None else f" {_number(missing)}"
        raise SnapshotGoneError(
            f"checkpoint{number} is gone: the job deleted it before the query has read what changed up to it, or since",
            path=None if missing is None else missing.path,
            found=evidence,
            remedy="let the job retain more checkpoints, or trigger the query more often. With failOnDataLoss = false "
            "the query goes on with the next that exists; with a new checkpointLocation it begins anew",
        )

    @with_short_traceback
    def commit(self, end: dict[str, Any]) -> None:
        """Let go of the checkpoints before one up to which everything is read.

        Args:
            end: The offset where a micro-batch has ended.

        """
        version = self.offsets.read(end).version
        self.instead = {number: snapshot for number, snapshot in self.instead.items() if number >= version}
        if self.pins is not None:
            self.pins.release(version)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a partition, with exactly the schema that Spark expects.

        Args:
            partition: One of :meth:`partitions`.

        Yields:
            The changes.

        Raises:
            SnapshotGoneError: If the job has deleted the checkpoint meanwhile.

        """
        assert isinstance(partition, StatePartition)
        try:
            yield from batches_of(partition, self.schema, self.options)
        except StateFileNotFoundError as error:
            changes = partition.state
            assert isinstance(changes, FeedPartition)
            raise SnapshotGoneError(
                f"checkpoint {changes.version}, or the one before, was deleted while it was read",
                path=error.facts.get("path"),
                found=f"checkpoint ids {ranges(list(self._versions()))}",
                remedy="let the job retain more checkpoints. With failOnDataLoss = false the query, started again, "
                "goes on with the next that exists",
            ) from None


def _vanished(snapshots: Sequence[SnapshotInfo | None], error: SavepointError) -> str | None:
    """Return the path of the snapshot of which a file is gone. A file of several goes with the oldest of them."""
    path = str(error.facts.get("path"))
    places = [candidate.path for candidate in snapshots if candidate is not None]
    own = [candidate for candidate in places if path == candidate or path.startswith(f"{candidate}/")]
    near = [candidate for candidate in places if path.startswith(f"{posixpath.dirname(candidate)}/")]
    return next(iter([*own, *near]), None)


#: What there is to do about columns that changed.
RESTART = (
    "start the query again: load() finds the new columns, and .schema(...) or option 'state' chooses some of them. "
    "After a change of a type, with a new checkpointLocation"
)
#: What there is to do about columns that changed before the query started.
EARLIER = (
    "begin after the change, with 'startingVersion' and a new checkpointLocation; or choose columns that all "
    "checkpoints have, with .schema(...) or option 'state'"
)


def _table(options: SavepointReadOptions) -> str:
    """Return what names the table of a stream, or raise OptionError if nothing does."""
    identity = {
        "uid": options.uid,
        "uidHash": options.uid_hash,
        "operatorName": options.operator_name,
        "node": options.node,
    }
    parts = [f"{name} {value}" for name, value in {**identity, "table": options.table}.items() if value is not None]
    return ", ".join(parts)
