"""From handles to bytes: where a snapshot lies, and which files its handles may name.

::

    <checkpoint root>/chk-42/_metadata      the exclusive folder: "directory"
    <checkpoint root>/shared/<uuid>         files that several checkpoints share
    <checkpoint root>/taskowned/...         files that tasks own
    <checkpoint root>/dstl/<uuid>           changelogs, where ``dstl.dfs.base-path`` is that of the checkpoints
    <anywhere>/<job id>/dstl/<uuid>         changelogs, where it is not
    <anywhere>/savepoint-ab12cd/_metadata   a savepoint is a folder of its own

A relative handle names a file in the exclusive folder itself. An absolute one may also name files below the four kinds
of folders of the checkpoint root. Flink makes no folders in the exclusive one and hides nothing: a snapshot that was
put into somebody's home does not reach ``.ssh``. When it names another place, the checkpoint was moved, or the state
really lies elsewhere (entropy in S3 paths, state of a claimed snapshot): the tail of the recorded path (from
``shared``, ``taskowned``, ``dstl`` or ``chk-N`` on, or the file's name) is looked up here first, and only what the user
allowed is read out there. Allowed changelogs of this very job are found where they were recorded, or where they are
beside the folders above the checkpoint after a move. Flink:
``AbstractFsCheckpointStorageAccess``, ``FsCheckpointStorageLocation``, ``FsStateChangelogStorage``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pyspark_savepoint.formats.errors import OptionError, SavepointError, UnsafePathError
from pyspark_savepoint.formats.io.byte_source import ByteSource, FileLocation, InlineLocation, StateLocation
from pyspark_savepoint.formats.io.filesystem import ARROW_SCHEMES, URI, ArrowFileSystem, is_encodable, locate
from pyspark_savepoint.formats.io.snapshot_files import Anchor, SnapshotFileSystem
from pyspark_savepoint.formats.io.storage_options import NO_OPTIONS, StorageOptions
from pyspark_savepoint.formats.metadata.manifest import FileChecksums, Manifest
from pyspark_savepoint.formats.metadata.stream_handles import (
    ByteStreamStateHandle,
    EmptySegmentFileStateHandle,
    FileStateHandle,
    KeyGroupsStreamStateHandle,
    RelativeFileStateHandle,
    SegmentFileStateHandle,
    StreamStateHandle,
)

CHECKPOINT_DIRECTORY = re.compile(r"chk-[0-9]+")
JOB_ID = re.compile(r"[0-9a-f]{32}")
CHANGELOG_DIRECTORY = "dstl"
#: Folders above the checkpoint root beside which a changelog is looked for, and names of its path that may have stayed.
ABOVE, STAYED = 4, 6
#: Where a moved file is looked for, at most; and the longest path that is recorded (Linux's limit; stores have less).
MAX_TAILS = 4
MAX_PATH_BYTES = 4096
SHARED_STATE_DIRECTORY = "shared"
TASK_OWNED_STATE_DIRECTORY = "taskowned"
ALLOW_OUTSIDE = "allowOutside"


@dataclass(frozen=True, slots=True)
class SnapshotLocation:
    """Where a snapshot lies, and what else may be read; pickles, so that executors resolve handles themselves.

    Files that have ``checksums`` are held against them as they are read; where they are required, others are refused.
    """

    filesystem: SnapshotFileSystem
    directory: str
    allow_outside: bool = False
    checksums: Manifest | None = None
    checksums_required: bool = False

    @property
    def options(self) -> StorageOptions:
        """How stores are reached: what the user said of the snapshot's holds for what it names elsewhere."""
        return self.filesystem.options if isinstance(self.filesystem, ArrowFileSystem) else NO_OPTIONS

    @property
    def uri(self) -> str:
        """The exclusive folder as a user would write it."""
        return self.filesystem.uri(self.directory)

    @property
    def checkpoint_root(self) -> str | None:
        """The job's folder of checkpoints; None for a savepoint."""
        parent, name = posixpath.split(self.directory)
        return parent if is_checkpoint_directory(name) else None

    def open(self, handle: StreamStateHandle, operator: str | None = None) -> ByteSource:
        """The bytes of a handle, open."""
        return self.resolve(handle, operator).open()

    def resolve(self, handle: StreamStateHandle, operator: str | None = None) -> StateLocation:
        """Where the bytes of a handle are; ``operator`` is for errors."""
        try:
            return self._resolve(handle, operator)
        except SavepointError as error:
            raise error.with_facts(operator=operator) from None

    def _resolve(self, handle: StreamStateHandle, operator: str | None) -> StateLocation:
        match handle:
            case ByteStreamStateHandle():
                return InlineLocation(f"{self.uri}/_metadata (inline {handle.handle_name!a})", handle.data)
            case EmptySegmentFileStateHandle():
                return InlineLocation(f"{self.uri}/_metadata (empty segment)", b"")
            case KeyGroupsStreamStateHandle():
                return self._resolve(handle.delegate, operator)
            case RelativeFileStateHandle():
                place = self.filesystem, self._relative(handle.relative_path), Anchor(self.directory)
                checksums = self._checksums_of(handle.relative_path)
                return FileLocation(*place, handle.size, operator=operator, checksums=checksums)
            case FileStateHandle():
                self._checksums_of(None)
                return FileLocation(*self._absolute(handle.path), handle.size, operator=operator)
            case SegmentFileStateHandle():
                self._checksums_of(None)
                absolute = self._absolute(handle.path)
                return FileLocation(*absolute, handle.size, handle.start, segment=True, operator=operator)

    def _checksums_of(self, name: str | None) -> FileChecksums | None:
        """The checksums of a file in the snapshot's folder; other files have none."""
        found = self.checksums.get(name) if self.checksums is not None and name is not None else None
        if found is None and self.checksums_required:
            raise OptionError(
                "option 'checksums' is 'require', and a file of the snapshot has none",
                path=self.uri if name is None else posixpath.join(self.uri, name),
                remedy="this package writes checksums of all files that a savepoint owns, Flink of none: write the "
                "savepoint anew with it, or read with option('checksums', 'verify')",
            )
        return found

    def _relative(self, name: str) -> str:
        """The path of a relative handle; it may not climb out."""
        if "/" in name or not _is_visible(name) or not is_encodable(name):
            raise UnsafePathError(
                "a relative handle leads out of the snapshot",
                path=self.uri,
                found=ascii(name),
                expected="the name of a file in the snapshot's folder",
            )
        return posixpath.join(self.directory, name)

    def _absolute(self, recorded: str) -> tuple[SnapshotFileSystem, str, Anchor | None]:
        """File system, path and anchor of an absolute handle."""
        parts = recorded_parts(recorded)
        here = self._path_here(recorded)
        for candidate in ([here] if here else []) + list(self._rebased(parts)):
            anchor = self._anchor(candidate)
            if anchor is not None and self.filesystem.info(candidate) is not None:
                return self.filesystem, candidate, anchor
        changelogs = list(self._changelogs(here, parts))
        for candidate, anchor in changelogs:
            if self.filesystem.info(candidate) is not None:
                return self.filesystem, candidate, anchor
        if here is not None and self._anchor(here) is not None:
            return self.filesystem, here, self._anchor(here)  # missing: opening it says so
        if changelogs:
            return self.filesystem, *changelogs[0]
        if not self.allow_outside:
            raise self._outside(recorded, parts)
        return (*self._locate_outside(recorded), None)

    def _locate_outside(self, recorded: str) -> tuple[SnapshotFileSystem, str]:
        """A recorded path wherever it is; a store is not given keys that are for another one."""
        filesystem, path = locate(recorded)
        if isinstance(filesystem, ArrowFileSystem):
            filesystem = replace(filesystem, options=self.options, recorded=filesystem != self.filesystem)
        return filesystem, path

    def _path_here(self, recorded: str) -> str | None:
        """A recorded path on the snapshot's own file system; None when it is on another, or on one unknown."""
        try:
            filesystem, path = locate(recorded)
        except OptionError:
            return None
        return path if filesystem == self.filesystem else None

    def _anchor(self, path: str) -> Anchor | None:
        """The folder of this snapshot that a path lies in; None when it lies in none."""
        directory = self.directory.rstrip("/") + "/"
        if path.startswith(directory) and "/" not in path[len(directory) :] and _is_visible(path[len(directory) :]):
            return Anchor(self.directory)
        root = self.checkpoint_root
        if root is None or not path.startswith(root.rstrip("/") + "/"):
            return None
        folder, _, rest = path[len(root.rstrip("/")) + 1 :].partition("/")
        return Anchor(root, folder) if _is_state_folder(folder) and _is_visible(rest) else None

    def _rebased(self, parts: list[str]) -> Iterator[str]:
        """Where a recorded file would be now if everything was moved together, the longest tail first."""
        base = self.checkpoint_root or self.directory
        positions = [position for position, part in enumerate(parts[:-1]) if _is_state_folder(part)]
        for position in positions[-MAX_TAILS:]:
            yield posixpath.join(base, *parts[position:])
        yield posixpath.join(self.directory, parts[-1])

    def _changelogs(self, here: str | None, parts: list[str]) -> Iterator[tuple[str, Anchor]]:
        """Where a recorded file of this job's changelog may be: there, or in the same place beside a folder above."""
        root = self.checkpoint_root
        job = posixpath.basename(root or "")
        if (
            not self.allow_outside
            or root is None
            or not JOB_ID.fullmatch(job)
            or parts[-3:-1] != [job, CHANGELOG_DIRECTORY]
        ):
            return
        places = [here] if here is not None else []
        above = root
        for _ in range(ABOVE):
            above = posixpath.dirname(above)
            places += [posixpath.join(above, *parts[-count:]) for count in range(3, min(STAYED, len(parts)) + 1)]
        for place in places:
            yield place, Anchor(posixpath.dirname(posixpath.dirname(place)), CHANGELOG_DIRECTORY)

    def _outside(self, recorded: str, parts: list[str]) -> UnsafePathError:
        looked = ", ".join(self.filesystem.uri(path) for path in self._rebased(parts))
        return UnsafePathError(
            "a handle names a file outside of the snapshot",
            path=recorded,
            expected=f"a file below {self.uri}, or moved along with the snapshot to {looked}",
            remedy=f"if the snapshot is to be trusted, set option '{ALLOW_OUTSIDE}' to true; "
            "if it was moved, move its checkpoint folder as a whole (chk-N, shared, taskowned, dstl)",
        )


def is_checkpoint_directory(name: str) -> bool:
    """Whether a folder has the name of a checkpoint, ``chk-N``."""
    return CHECKPOINT_DIRECTORY.fullmatch(name) is not None


def _is_visible(path: str) -> bool:
    """Whether no name in a path is hidden, nothing, or a way up."""
    return not any(part.startswith(".") or not part for part in path.split("/"))


def _is_state_folder(name: str) -> bool:
    return name in (SHARED_STATE_DIRECTORY, TASK_OWNED_STATE_DIRECTORY, CHANGELOG_DIRECTORY) or is_checkpoint_directory(
        name
    )


def recorded_parts(recorded: str) -> list[str]:
    """The names in a recorded absolute path; it has no reason to climb, so it may not."""
    if len(recorded) > MAX_PATH_BYTES:
        raise UnsafePathError("a path that no file can have", path=recorded, found=f"{len(recorded)} characters")
    match = URI.fullmatch(recorded)
    path = match[3] if match else recorded
    if match and match[1].lower() in ARROW_SCHEMES and "?" in path:
        raise UnsafePathError("a path that no snapshot records", path=recorded, expected="a path without '?'")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or not path.startswith("/") or not parts or not is_encodable(path):
        raise UnsafePathError("a path that no snapshot records", path=ascii(recorded), expected="an absolute path")
    return parts
