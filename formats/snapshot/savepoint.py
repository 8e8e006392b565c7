"""An opened snapshot: the content of ``_metadata``, its operators, and the locations of their bytes.

A path may be the snapshot's folder (a savepoint, or a retained checkpoint ``chk-N``), or its metadata file under any
name. No file stays open; executors use :attr:`Snapshot.location`, which pickles. Flink:
``SavepointLoader``, ``AbstractFsCheckpointStorageAccess#resolveCheckpointPointer``.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

import xxhash

from pyspark_savepoint.formats.errors import (
    CorruptStateError,
    FileReplacedError,
    OperatorNotFoundError,
    OptionError,
    SavepointError,
    SnapshotNotFoundError,
    StateFileNotFoundError,
    did_you_mean,
)
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem, locate
from pyspark_savepoint.formats.filesystems.storage_options import NO_OPTIONS, StorageOptions, StoragePath
from pyspark_savepoint.formats.io.local_files import real_path
from pyspark_savepoint.formats.io.one_verb import cached_for_verb, one_verb
from pyspark_savepoint.formats.io.run_ahead import ahead
from pyspark_savepoint.formats.metadata import (
    CheckpointMetadata,
    OperatorState,
    SnapshotKind,
    read_metadata,
    snapshot_kind,
)
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.keyed_handles import (
    ChangelogStateBackendHandle,
    IncrementalRemoteKeyedStateHandle,
    KeyGroupsSavepointStateHandle,
)
from pyspark_savepoint.formats.metadata.manifest import Origin
from pyspark_savepoint.formats.metadata.stream_handles import (
    FileStateHandle,
    SegmentFileStateHandle,
    StreamStateHandle,
)
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.snapshot.histories import JOB_DIRECTORY, Histories, SnapshotInfo
from pyspark_savepoint.formats.snapshot.metadata_reading import load
from pyspark_savepoint.formats.snapshot.snapshot_location import (
    SHARED_STATE_DIRECTORY,
    TASK_OWNED_STATE_DIRECTORY,
    SnapshotLocation,
    is_checkpoint_directory,
)

if TYPE_CHECKING:
    from pyspark_savepoint.formats.io.byte_source import ByteSource, StateLocation
    from pyspark_savepoint.formats.io.snapshot_files import FileInfo, SnapshotFileSystem
    from pyspark_savepoint.formats.serializers.base import ClassDescriptions

METADATA_FILE_NAME = "_metadata"
IGNORE, VERIFY, REQUIRE = CHECKSUMS = ("ignore", "verify", "require")
# A folder of checkpoints contains folders of jobs, which contain chk-N: two levels, and two more for parents of these.
SEARCH_DEPTH = 4
SEARCH_LIMIT = 10_000
#: Of how many shared files the checksums of paths are kept for each checkpoint.
MAX_SHARED_FILES = 256
NO_SNAPSHOTS_INSIDE = frozenset({SHARED_STATE_DIRECTORY, TASK_OWNED_STATE_DIRECTORY})


@redacted
@dataclass(frozen=True, slots=True)
class Snapshot:
    """One opened snapshot, read-only."""

    location: SnapshotLocation
    metadata_path: str
    metadata: CheckpointMetadata
    #: Checksum of the metadata file, which shows whether another process opened the same version.
    digest: bytes = field(default=b"", repr=False, compare=False)
    #: When the metadata file was written, in seconds since 1970; None if that is not known.
    modified: float | None = field(default=None, repr=False, compare=False)
    #: What the metadata file was in its store when it was read; None on other file systems.
    identity: str | None = field(default=None, repr=False, compare=False)

    @classmethod
    def open(
        cls,
        path: str,
        *,
        allow_outside: bool = False,
        checksums: str = IGNORE,
        located: tuple[SnapshotFileSystem, str] | None = None,
        classes: ClassDescriptions | None = None,
    ) -> Snapshot:
        """Open the snapshot at a path; ``located`` is what :meth:`find` returned for it.

        ``checksums``: ``ignore``, ``verify`` (the files that have checksums, as they are read), or ``require`` (files
        without checksums are errors). ``classes`` describe the user's classes in generic types. Raises
        SnapshotNotFoundError, which names the snapshots below the path, if any.
        """
        with one_verb():
            filesystem, metadata_path = located or cls.find(path)
            read = load(filesystem, metadata_path, allow_outside=allow_outside)
        metadata = read.metadata
        directory = _directory(filesystem, metadata_path)
        options = StoragePath.options_of(path)
        required = checksums == REQUIRE
        beside = (options, metadata.copies, metadata.changelogs)
        location = SnapshotLocation(filesystem, directory, allow_outside, None, required, *beside)
        opened = cls(location, metadata_path, metadata, read.digest, read.modified, read.identity).with_classes(classes)
        return opened if checksums == IGNORE else opened.verified()

    def with_classes(self, classes: ClassDescriptions | None) -> Snapshot:
        """Return the same snapshot with descriptions of the user's classes, by which values are read."""
        if classes is None:
            return self
        classes_of_version = classes.of_snapshot(self.metadata.version, _describes_all_subclasses(self.metadata))
        return replace(self, location=replace(self.location, classes=classes_of_version))

    @staticmethod
    def find(path: str) -> tuple[SnapshotFileSystem, str]:
        """Return the file system of the snapshot at a path, and its metadata file there."""
        filesystem, located = locate(os.fspath(path))
        return filesystem, _resolve_pointer(filesystem, located)

    @classmethod
    def of_bytes(
        cls, filesystem: SnapshotFileSystem, directory: str, data: bytes, options: StorageOptions = NO_OPTIONS
    ) -> Snapshot:
        """Return the snapshot of a folder whose ``_metadata`` has been read already."""
        path = posixpath.join(directory, METADATA_FILE_NAME)
        metadata = read_metadata(memoryview(data), filesystem.uri(path))
        location = SnapshotLocation(filesystem, _directory(filesystem, path), options=options)
        return cls(location, path, metadata)

    def expect_version(self, digest: bytes) -> None:
        """Raise FileReplacedError if the metadata is not the version with this digest."""
        if self.digest != digest:
            raise FileReplacedError(
                "the savepoint was replaced while it was read",
                path=self.metadata_path,
                remedy="run the query again",
            )

    def verified(self) -> Snapshot:
        """Return the same snapshot with verification of all data read from files that have checksums."""
        return replace(self, location=replace(self.location, checksums=self.metadata.checksums))

    @property
    def path(self) -> str:
        """Return the snapshot's folder in the form in which a user would write it."""
        return self.location.uri

    @property
    def origin(self) -> Origin:
        """Return the snapshot that this one is a copy of, or itself."""
        if self.metadata.origin is not None:
            return self.metadata.origin
        return Origin(self.digest, self.modified)

    @property
    def operators(self) -> tuple[OperatorState, ...]:
        """Return all operators, in the order of the file."""
        return self.metadata.operators

    @property
    def kind(self) -> SnapshotKind:
        """Return the kind of snapshot: savepoint or checkpoint, and the format of a savepoint."""
        return kind_of(self.metadata, posixpath.basename(self.location.directory))

    def resolve(self, handle: StreamStateHandle, operator: OperatorState | None = None) -> StateLocation:
        """Return the location of a handle's bytes."""
        return self.location.resolve(handle, operator.label if operator else None)

    def open_state(self, handle: StreamStateHandle, operator: OperatorState | None = None) -> ByteSource:
        """Open the bytes of a handle."""
        return self.resolve(handle, operator).open()

    def operator(
        self, *, uid: str | None = None, uid_hash: str | None = None, name: str | None = None
    ) -> OperatorState:
        """Return the operator with a uid, a uid hash, or a name: exactly one of the three is required."""
        names = {"uid": uid, "uidHash": uid_hash, "operatorName": name}
        if sum(value is not None for value in names.values()) != 1:
            raise OptionError("select the operator by exactly one of 'uid', 'uidHash' and 'operatorName'")
        if uid is not None:
            return self._by_uid(uid)
        if uid_hash is not None:
            return self._by_id(OperatorID.from_hex(uid_hash))
        return self._by_name(str(name))

    def _by_uid(self, uid: str) -> OperatorState:
        operator_id = OperatorID.from_uid(uid)
        # If a job sets uid and uid hash, the hash is the id, and the uid is recorded.
        operator = self.metadata.by_id.get(operator_id) or self.metadata.by_uid.get(uid)
        if operator is not None:
            return operator
        self.expect_no_hash(uid)
        uids = [operator.uid for operator in self.operators if operator.uid]
        raise self._not_found(f"uid {uid!r} (uid hash {operator_id})", uid, uids or self._hashes())

    def expect_no_hash(self, uid: str) -> None:
        """Raise OptionError if a text that is given as a uid is no uid, but the uid hash of an operator."""
        uid_hash = uid.strip().lower()
        operator = next((one for one in self.operators if one.operator_id.hex == uid_hash), None)
        if operator is not None and uid not in self.metadata.by_uid:
            raise OptionError(
                "option 'uid' is the uid hash of an operator",
                path=self.path,
                operator=operator.label,
                remedy=f"name it by option 'uidHash' = '{uid_hash}'"
                + (f", or by its uid, {operator.uid!r}" if operator.uid else ""),
            )

    def _by_id(self, operator_id: OperatorID) -> OperatorState:
        # A uid may have the form of a hash: it was hashed once more.
        operator = self.metadata.by_id.get(operator_id) or self.metadata.by_uid.get(operator_id.hex)
        if operator is not None:
            return operator
        raise self._not_found(f"uid hash {operator_id}", operator_id.hex, self._hashes())

    def _by_name(self, name: str) -> OperatorState:
        matches = [operator for operator in self.operators if operator.name == name]
        if len(matches) > 1:
            raise OptionError(
                f"{len(matches)} operators have the name {name!r}",
                path=self.path,
                found=", ".join(operator.label for operator in matches),
                remedy="name the operator by 'uid' or 'uidHash'",
            )
        if matches:
            return matches[0]
        names = [operator.name for operator in self.operators if operator.name]
        if not names and self.operators:
            raise OperatorNotFoundError(
                f"this snapshot does not record operator names (metadata version {self.metadata.version})",
                path=self.path,
                operator=f"name {name!r}",
                remedy="name the operator by 'uid' or 'uidHash'",
            )
        raise self._not_found(f"name {name!r}", name, names)

    def _hashes(self) -> list[str]:
        return [operator.operator_id.hex for operator in self.operators]

    def _not_found(self, what: str, name: str, names: Iterable[str]) -> OperatorNotFoundError:
        parts = {part.strip() for part in name.split(",")}
        if len(parts) > 1 and parts <= {*(names := list(names))}:
            return OperatorNotFoundError(
                "a table is of one operator, and these are several",
                path=self.path,
                operator=what,
                remedy="read one after the other; 'table' = 'states' lists the states of all",
            )
        return OperatorNotFoundError(
            "the snapshot has no such operator",
            path=self.path,
            operator=what,
            remedy=f"{did_you_mean(name, names)} (the path without options lists all operators)",
        )


#: Snapshots by their metadata files, each with the identity of that file when it was read.
Described = dict[str, tuple[str, SnapshotInfo]]


def find_snapshots(
    path: str, depth: int = SEARCH_DEPTH, described: Described | None = None, only: int | None = None
) -> list[SnapshotInfo]:
    """Return the snapshots at and below a path, newest first (:mod:`~pyspark_savepoint.formats.snapshot.histories`).

    Args:
        path: A folder, or a metadata file.
        depth: How many folders below each other are searched.
        described: What earlier searches found, which is not read again as long as it is the same; this one adds to it.
        only: Checkpoints whose folders are of another number than this need not be read.

    Returns:
        The snapshots.

    Raises:
        SnapshotNotFoundError: If there is nothing at the path.

    """
    filesystem, located = locate(os.fspath(path))
    if filesystem.is_remote:
        snapshots = cached_for_verb(
            (filesystem.uri(located), depth, only), lambda: _find_remote(filesystem, located, depth, described, only)
        )
        return Histories(path, snapshots).ordered[::-1]
    info = filesystem.info(located)
    if info is None:
        raise _nothing(filesystem, located)
    if not info.is_directory:
        if posixpath.basename(located) != METADATA_FILE_NAME:
            # A file that is not metadata is an error, not a reference to its folder; metadata may have any name.
            Snapshot.open(path)
            return [_describe(filesystem, located)]
        located = posixpath.dirname(located)
    metadata_files = list(_metadata_files(filesystem, located, depth))
    if described is None:
        snapshots = [_describe(filesystem, metadata) for metadata in metadata_files]
    else:
        for missing in described.keys() - set(metadata_files):
            del described[missing]
        snapshots = [_described(filesystem, metadata, described) for metadata in metadata_files]
    return Histories(path, snapshots).ordered[::-1]


def _find_remote(
    filesystem: SnapshotFileSystem, path: str, depth: int, existing: Described | None, only: int | None
) -> list[SnapshotInfo]:
    """Find snapshots in a store: ``_metadata`` is asked for by name in many folders at a time, not looked for."""
    if posixpath.basename(path) == METADATA_FILE_NAME:
        path = posixpath.dirname(path)

    def described(folder: str, keep: bool = False) -> SnapshotInfo | None:
        return _described_if_there(filesystem, posixpath.join(folder, METADATA_FILE_NAME), existing, keep)

    def folders_in(folder: str) -> list[str]:
        entries = _entries(filesystem, folder)
        return [one.path for one in entries if one.is_directory and _may_have(one.name, only)]

    def listed() -> None:
        if not is_checkpoint_directory(posixpath.basename(path)):
            with suppress(SavepointError):  # whoever needs the list is told what is wrong with it
                _entries(filesystem, path)

    # A verb that is given a snapshot opens it; a folder is listed at the same time.
    top = next(ahead(lambda work: work(), [lambda: described(path, True), listed], remote=True))
    if top is not None:
        return [top]
    result: list[SnapshotInfo] = []
    level, looked = [path], 1
    for _ in range(depth):
        level = [name for names in ahead(folders_in, level, remote=True) for name in names]
        looked += len(level)
        if looked > SEARCH_LIMIT:
            raise _too_many(filesystem, path)
        rest = []
        for folder, snapshot in zip(level, ahead(described, level, remote=True), strict=True):
            if snapshot is not None:
                result.append(snapshot)
            elif not is_checkpoint_directory(posixpath.basename(folder)):
                rest.append(folder)
        level = rest
    if not result and not _entries(filesystem, path):
        try:
            load(filesystem, path)  # a file, which may be metadata of any name
        except StateFileNotFoundError:
            raise _nothing(filesystem, path) from None
        return [_describe(filesystem, path)]
    if existing is not None:
        there = {filesystem.uri(posixpath.join(one.path, METADATA_FILE_NAME)) for one in result}
        for missing in [path for path in existing if filesystem.uri(path) not in there]:
            del existing[missing]
    return result


def _may_have(name: str, only: int | None) -> bool:
    """Return whether a folder may be or have a snapshot that is looked for."""
    other = only is not None and is_checkpoint_directory(name) and name != f"chk-{only}"
    return name not in NO_SNAPSHOTS_INSIDE and not other


def _described_if_there(
    filesystem: SnapshotFileSystem, metadata_path: str, described: Described | None, keep: bool
) -> SnapshotInfo | None:
    """Describe a snapshot, by one request if nothing is known of it; None if it is not there."""
    if described is not None:
        return None if filesystem.identity(metadata_path) is None else _described(filesystem, metadata_path, described)
    try:
        return _describe(filesystem, metadata_path, there=False, keep=keep)
    except StateFileNotFoundError as error:
        if "bucket" in error.message:
            raise
        return None


def kind_of(metadata: CheckpointMetadata, directory_name: str = "") -> SnapshotKind:
    """Return the kind of a snapshot: from its properties, else from its handles, else from the name of its folder."""
    kind = snapshot_kind(metadata.properties)
    if kind is not SnapshotKind.UNKNOWN:
        return kind
    subtasks = (subtask for operator in metadata.operators for subtask in operator.subtasks.values())
    if any(isinstance(subtask.managed_keyed_state, KeyGroupsSavepointStateHandle) for subtask in subtasks):
        return SnapshotKind.CANONICAL_SAVEPOINT
    if is_checkpoint_directory(directory_name):
        return SnapshotKind.CHECKPOINT
    return SnapshotKind.SAVEPOINT if directory_name.startswith("savepoint-") else SnapshotKind.UNKNOWN


def _describes_all_subclasses(metadata: CheckpointMetadata) -> bool:
    """Return whether the serializers in a snapshot describe every subclass of POJOs that has values.

    RocksDB and ForSt write with the serializers that they record. The hashmap backend, also behind a canonical
    savepoint, writes with copies of them.
    """
    subtasks = (subtask for operator in metadata.operators for subtask in operator.subtasks.values())
    for handle in (subtask.managed_keyed_state for subtask in subtasks):
        parts = handle.materialized if isinstance(handle, ChangelogStateBackendHandle) else (handle,)
        if any(isinstance(part, IncrementalRemoteKeyedStateHandle) for part in parts):
            return True
    return False


def _resolve_pointer(filesystem: SnapshotFileSystem, path: str) -> str:
    """Return the metadata file of a snapshot's folder, or the path itself if it is a file."""
    if filesystem.is_remote:
        return _resolve_remote(filesystem, path)
    info = filesystem.info(path)
    if info is None:
        raise _nothing(filesystem, path)
    if not info.is_directory:
        return path
    metadata_path = posixpath.join(path, METADATA_FILE_NAME)
    metadata = filesystem.info(metadata_path)
    if metadata is None or metadata.is_directory:
        raise _no_snapshot(filesystem, path)
    return metadata_path


def _resolve_remote(filesystem: SnapshotFileSystem, path: str) -> str:
    """Resolve a pointer in a store: what it most likely names is read at once."""
    inside = posixpath.join(path, METADATA_FILE_NAME)
    is_metadata = posixpath.basename(path) == METADATA_FILE_NAME
    if is_metadata and _is_there(filesystem, path):
        return path
    if _is_there(filesystem, inside):
        return inside
    if _entries(filesystem, path):
        raise _no_snapshot(filesystem, path)
    if not is_metadata and _is_there(filesystem, path):
        return path
    raise _nothing(filesystem, path)


def _is_there(filesystem: SnapshotFileSystem, path: str) -> bool:
    try:
        load(filesystem, path)
    except StateFileNotFoundError as error:
        if "bucket" in error.message:
            raise _nothing(filesystem, path) from None
        return False
    except CorruptStateError:
        pass  # it is there: whoever opens it is told what is wrong with it
    return True


def _entries(filesystem: SnapshotFileSystem, path: str) -> list[FileInfo]:
    """Return what is in a folder of a store, which is listed once for a verb; nothing if it cannot be listed."""

    def listed() -> list[FileInfo]:
        try:
            return filesystem.list(path)
        except (PermissionError, StateFileNotFoundError):
            return []  # folders without permission are skipped, and so are checkpoints that a job has just deleted

    return cached_for_verb(("entries", filesystem.uri(path)), listed)


def _nothing(filesystem: SnapshotFileSystem, path: str) -> SnapshotNotFoundError:
    uri, why = filesystem.uri(path), filesystem.absence(path)
    if re.search("@(v[0-9]+|[0-9]{17})$", path):
        why = "a version is no part of a path, as it is in Delta: choose it with 'versionAsOf' or 'timestampAsOf'"
    return SnapshotNotFoundError("there is no file or folder at this path", path=uri, remedy=why)


def _no_snapshot(filesystem: SnapshotFileSystem, path: str) -> SnapshotNotFoundError:
    uris = [filesystem.uri(posixpath.dirname(metadata)) for metadata in _metadata_files(filesystem, path, SEARCH_DEPTH)]
    if not uris:
        return SnapshotNotFoundError(
            "there is no snapshot in this folder",
            path=filesystem.uri(path),
            expected=f"a file {METADATA_FILE_NAME}",
            remedy="give the folder of a completed snapshot: a folder without this file is not a snapshot, or was not "
            "completed",
        )
    return SnapshotNotFoundError(
        "this folder is not a snapshot, but contains snapshots",
        path=filesystem.uri(path),
        found=", ".join(uris[:10]) + (f" and {len(uris) - 10} more" if len(uris) > 10 else ""),
        remedy="give the path of one of them, or choose one: option 'versionAsOf' takes a checkpoint id or latest",
    )


def _directory(filesystem: SnapshotFileSystem, metadata_path: str) -> str:
    """Return the exclusive folder. Links in the user's path are resolved once, because the user is trusted."""
    directory = posixpath.dirname(metadata_path)
    return real_path(directory) if isinstance(filesystem, LocalFileSystem) else directory


def _metadata_files(filesystem: SnapshotFileSystem, path: str, depth: int) -> Iterator[str]:
    """Yield the metadata files at and below a folder, breadth first; folders of snapshots are not searched."""

    def listed(folder: str) -> list[FileInfo]:
        try:
            return filesystem.list(folder)
        except (PermissionError, StateFileNotFoundError):
            return []  # folders without permission are skipped, and so are checkpoints that a job has just deleted

    level, looked = [path], 0
    for _ in range(depth + 1):
        looked += len(level)
        if looked > SEARCH_LIMIT:
            raise _too_many(filesystem, path)
        below: list[str] = []
        for folder, entries in zip(level, ahead(listed, level, remote=filesystem.is_remote), strict=True):
            if any(entry.name == METADATA_FILE_NAME and not entry.is_directory for entry in entries):
                yield posixpath.join(folder, METADATA_FILE_NAME)
            else:
                below += [one.path for one in entries if one.is_directory and one.name not in NO_SNAPSHOTS_INSIDE]
        level = below


def _too_many(filesystem: SnapshotFileSystem, path: str) -> OptionError:
    return OptionError(
        f"there are more than {SEARCH_LIMIT} folders below this one to search for snapshots",
        path=filesystem.uri(path),
        remedy="give a folder closer to the snapshots",
    )


def _described(filesystem: SnapshotFileSystem, metadata_path: str, described: Described) -> SnapshotInfo:
    """Describe a snapshot, unless its metadata file is the same as when it was described."""
    identity = filesystem.identity(metadata_path)
    before = described.get(metadata_path)
    if before is not None and before[0] == identity:
        return before[1]
    info = _describe(filesystem, metadata_path)
    if identity is not None and info.problem is None:
        described[metadata_path] = identity, info
    return info


def _describe(
    filesystem: SnapshotFileSystem, metadata_path: str, there: bool = True, keep: bool = True
) -> SnapshotInfo:
    """Describe a snapshot that is ``there``, or raise StateFileNotFoundError."""
    directory = posixpath.dirname(metadata_path)
    facts: dict[str, Any] = {"path": filesystem.uri(directory)}
    try:
        read = load(filesystem, metadata_path, keep=keep)
    except SavepointError as error:
        if not there and isinstance(error, StateFileNotFoundError):
            raise
        info = None
        with suppress(SavepointError):
            info = filesystem.info(metadata_path)
        return SnapshotInfo(**facts, modified=info.modified if info else None, problem=str(error))
    metadata, digest, facts["modified"] = read.metadata, read.digest, read.modified
    name = posixpath.basename(directory)
    kind = kind_of(metadata, name)
    is_named_checkpoint = metadata.origin is None and is_checkpoint_directory(name)
    if kind is SnapshotKind.CHECKPOINT and is_named_checkpoint and name != f"chk-{metadata.checkpoint_id}":
        # Nothing else of the file shows that its id is damaged, and changes would be those of a version that never was.
        damaged = CorruptStateError(
            "the checkpoint id in this file is not that of its folder",
            path=filesystem.uri(metadata_path),
            expected=name,
            found=f"checkpoint id {metadata.checkpoint_id}",
            remedy="if the folder was renamed, give it the name that Flink gave it, or one that does not begin with "
            "chk-",
        )
        return SnapshotInfo(**facts, problem=str(damaged))
    if metadata.origin is not None:
        facts["modified"], digest = metadata.origin.modified, metadata.origin.digest
    return SnapshotInfo(
        **facts,
        checkpoint_id=metadata.checkpoint_id,
        kind=kind,
        size=metadata.state_size,
        digest=digest,
        is_copy=metadata.origin is not None,
        **(_of_job(metadata, directory) if is_named_checkpoint else {}),
    )


def _of_job(metadata: CheckpointMetadata, directory: str) -> dict[str, Any]:
    """Return what the paths of a checkpoint's files tell about its job."""
    folder = posixpath.basename(posixpath.dirname(directory))
    job_id = None if JOB_DIRECTORY.fullmatch(folder) else _job_id(metadata, directory)
    return {"job_id": job_id, "shared_files": _shared_files(metadata, job_id or folder)}


def _shared_files(metadata: CheckpointMetadata, job: str) -> frozenset[int]:
    """Return checksums of the paths of files that checkpoints of a job share: the smallest, if they are many.

    Of two checkpoints that have most files in common, the smallest are the same.
    """
    handles = [subtask.managed_keyed_state for operator in metadata.operators for subtask in operator.subtasks.values()]
    checksums: set[int] = set()
    for handle in handles:
        if isinstance(handle, ChangelogStateBackendHandle):
            handles += handle.materialized
        elif isinstance(handle, IncrementalRemoteKeyedStateHandle):
            files = (*handle.shared_state, *handle.private_state)
            for stream in (handle.meta_state, *(file.handle for file in files)):
                if isinstance(stream, FileStateHandle | SegmentFileStateHandle):
                    *_, owner, folder, _ = ("", "", *stream.path.rsplit("/", 3))
                    if owner == job and folder in NO_SNAPSHOTS_INSIDE:
                        checksums.add(xxhash.xxh3_64_intdigest(stream.path))
    return frozenset(nsmallest(MAX_SHARED_FILES, checksums))


def _job_id(metadata: CheckpointMetadata, directory: str) -> str | None:
    """Return the id of a checkpoint's job by the paths of its files."""
    own, shared = posixpath.basename(directory), set[str]()
    for path in _recorded_paths(metadata.operators):
        folder = posixpath.dirname(path)
        job = posixpath.basename(posixpath.dirname(folder))
        if JOB_DIRECTORY.fullmatch(job):
            if posixpath.basename(folder) == own:
                return job
            shared.add(job)
    return shared.pop() if len(shared) == 1 else None  # of several: a job has taken over files of another


def _recorded_paths(part: Any) -> Iterator[str]:
    """Yield the absolute paths of the files in handles."""
    if isinstance(part, FileStateHandle | SegmentFileStateHandle):
        yield part.path
    elif is_dataclass(part):
        for each in fields(part):
            yield from _recorded_paths(getattr(part, each.name))
    elif isinstance(part, tuple | list):
        for each in part:
            yield from _recorded_paths(each)
    elif isinstance(part, Mapping):
        yield from _recorded_paths(tuple(part.values()))
