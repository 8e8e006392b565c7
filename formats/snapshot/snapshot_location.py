"""Resolution of handles to bytes: the folders of a snapshot, and the files that its handles may name.

::

    <checkpoint root>/chk-42/_metadata      the exclusive folder: "directory"
    <checkpoint root>/shared/<uuid>         files shared by several checkpoints
    <checkpoint root>/taskowned/...         files owned by tasks
    <checkpoint root>/dstl/<uuid>           changelogs, if ``dstl.dfs.base-path`` is the path of the checkpoints
    <anywhere>/<job id>/dstl/<uuid>         changelogs, if it is another path
    <anywhere>/savepoint-ab12cd/_metadata   a savepoint is a separate folder

A relative handle names a file directly in the exclusive folder. An absolute one may also name files below the four
kinds of folders of the checkpoint root. Flink creates no subfolders in the exclusive folder and no hidden files, so
these are rejected: a snapshot in a home folder cannot name files in ``.ssh``. If a handle names another location, the
checkpoint was moved, or the state really is elsewhere (entropy in S3 paths, state of a claimed snapshot). First, the
tail of the recorded path (from ``shared``, ``taskowned``, ``dstl`` or ``chk-N`` on, or the file name) is looked up in
this snapshot's folders; the recorded path itself is used only if the user allows that. Allowed changelogs of the same
job are found at their recorded path, or, after a move, next to the parents of the checkpoint folder. Flink:
``AbstractFsCheckpointStorageAccess``, ``FsCheckpointStorageLocation``, ``FsStateChangelogStorage``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark_savepoint.formats.errors import UNREADABLE, OptionError, SavepointError, UnsafePathError
from pyspark_savepoint.formats.filesystems.filesystem import REMOTE_SCHEMES, URI, RemoteFileSystem, is_encodable, locate
from pyspark_savepoint.formats.filesystems.storage_options import NO_OPTIONS, StorageOptions
from pyspark_savepoint.formats.io.byte_source import ByteSource, Elsewhere, FileLocation, InlineLocation, StateLocation
from pyspark_savepoint.formats.io.one_verb import cached_for_verb
from pyspark_savepoint.formats.io.snapshot_files import Anchor, SnapshotFileSystem
from pyspark_savepoint.formats.metadata.stream_handles import (
    UNKNOWN_SIZE,
    ByteStreamStateHandle,
    EmptySegmentFileStateHandle,
    FileStateHandle,
    KeyGroupsStreamStateHandle,
    RelativeFileStateHandle,
    SegmentFileStateHandle,
    StreamStateHandle,
)
from pyspark_savepoint.formats.redaction import redacted

if TYPE_CHECKING:
    from pyspark_savepoint.formats.metadata.manifest import FileChecksums, Manifest

CHECKPOINT_DIRECTORY = re.compile(r"chk-[0-9]+")
JOB_ID = re.compile(r"[0-9a-f]{32}")
CHANGELOG_DIRECTORY = "dstl"
#: Number of parents of the checkpoint root to search for a changelog, and of path segments that may have stayed.
ABOVE, STAYED = 4, 6
#: Maximum number of candidates for a moved file, and of bytes in a recorded path (Linux's limit; stores have less).
MAX_TAILS = 4
MAX_PATH_BYTES = 4096
SHARED_STATE_DIRECTORY = "shared"
TASK_OWNED_STATE_DIRECTORY = "taskowned"
ALLOW_OUTSIDE = "allowOutside"


@redacted
@dataclass(frozen=True, slots=True)
class SnapshotLocation:
    """The location of a snapshot and the limits on what may be read; it pickles, so executors resolve handles.

    Data of files that have ``checksums`` is verified as it is read; if checksums are required, other files are errors.
    The storage options, which the user gave with the path, also apply to paths in the handles.
    """

    filesystem: SnapshotFileSystem
    directory: str
    allow_outside: bool = False
    checksums: Manifest | None = None
    checksums_required: bool = False
    options: StorageOptions = NO_OPTIONS
    #: The identities of the files that files in the folder are copies of.
    copies: Mapping[str, bytes] = field(default_factory=dict, hash=False, repr=False)
    #: Handles whose size is not that of the file (:attr:`CheckpointMetadata.changelogs`).
    changelogs: frozenset[StreamStateHandle] = field(default=frozenset(), repr=False)
    #: Descriptions of the user's classes, to read values of generic types in the snapshot's streams.
    classes: Any = None

    @property
    def uri(self) -> str:
        """Return the exclusive folder in the form in which a user would write it."""
        return self.filesystem.uri(self.directory)

    @property
    def checkpoint_root(self) -> str | None:
        """Return the job's folder of checkpoints; None for a savepoint."""
        parent, name = posixpath.split(self.directory)
        return parent if is_checkpoint_directory(name) else None

    def open(self, handle: StreamStateHandle, operator: str | None = None) -> ByteSource:
        """Open the bytes of a handle."""
        return self.resolve(handle, operator).open()

    def resolve(self, handle: StreamStateHandle, operator: str | None = None) -> StateLocation:
        """Return the location of a handle's bytes; ``operator`` is used in errors only."""
        try:
            location = self._resolve(handle, operator)
            return location if self.classes is None else replace(location, classes=self.classes)
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
                target = self.filesystem, self._relative(handle.relative_path), Anchor(self.directory)
                checksums = self._checksums_of(handle.relative_path)
                copy_of = self.copies.get(handle.relative_path)
                size = self._size_of(handle)
                return FileLocation(*target, size, operator=operator, checksums=checksums, copy_of=copy_of)
            case FileStateHandle():
                self._checksums_of(None)
                filesystem, path, anchor, elsewhere = self._absolute(handle.path)
                size = self._size_of(handle)
                return FileLocation(filesystem, path, anchor, size, operator=operator, elsewhere=elsewhere)
            case SegmentFileStateHandle():
                self._checksums_of(None)
                filesystem, path, anchor, elsewhere = self._absolute(handle.path)
                return FileLocation(
                    filesystem,
                    path,
                    anchor,
                    handle.size,
                    handle.start,
                    segment=True,
                    operator=operator,
                    elsewhere=elsewhere,
                )

    def _size_of(self, handle: RelativeFileStateHandle | FileStateHandle) -> int:
        """Return the size of a file, as far as its handle tells it."""
        return UNKNOWN_SIZE if self.changelogs and handle in self.changelogs else handle.size

    def _checksums_of(self, name: str | None) -> FileChecksums | None:
        """Return the checksums of a file in the snapshot's folder; other files have none."""
        checksums = self.checksums.get(name) if self.checksums is not None and name is not None else None
        if checksums is None and self.checksums_required:
            raise OptionError(
                "option 'checksums' is 'require', and a file of the snapshot has none",
                path=self.uri if name is None else posixpath.join(self.uri, name),
                remedy="only this package writes checksums, Flink does not: rewrite the savepoint with it, or read "
                "with option('checksums', 'verify')",
            )
        return checksums

    def _relative(self, name: str) -> str:
        """Return the path of a relative handle; raise UnsafePathError if it leaves the folder."""
        if "/" in name or not _is_visible(name) or not is_encodable(name):
            raise UnsafePathError(
                "a relative handle leads out of the snapshot",
                path=self.uri,
                found=ascii(name),
                expected="the name of a file in the snapshot's folder",
                remedy=UNREADABLE,
            )
        return posixpath.join(self.directory, name)

    def _absolute(self, recorded: str) -> tuple[SnapshotFileSystem, str, Anchor | None, Elsewhere | None]:
        """Return file system, path and anchor of an absolute handle.

        In a store it is where its text says, and opening the file tells whether it is elsewhere: to ask for each file
        would take as long as to read it.
        """
        if self.filesystem.is_remote:
            here = self._path_here(recorded)
            for candidate in ([here] if here else []) + list(self._rebased(recorded_parts(recorded))):
                anchor = self._anchor(candidate)
                if anchor is not None:
                    plain = replace(self, checksums=None, copies={}, changelogs=frozenset(), classes=None)
                    return self.filesystem, candidate, anchor, Recorded(plain, recorded)
        return (*self.find(recorded), None)

    def find(self, recorded: str) -> tuple[SnapshotFileSystem, str, Anchor | None]:
        """Return where the file of an absolute handle is, or where it is missed."""
        parts = recorded_parts(recorded)
        here = self._path_here(recorded)
        for candidate in ([here] if here else []) + list(self._rebased(parts)):
            anchor = self._anchor(candidate)
            if anchor is not None and self.filesystem.is_file(candidate):
                return self.filesystem, candidate, anchor
        changelogs = list(self._changelogs(here, parts))
        for candidate, anchor in changelogs:
            if self.filesystem.info(candidate) is not None:
                return self.filesystem, candidate, anchor
        if here is not None and self._anchor(here) is not None:
            return self.filesystem, here, self._anchor(here)  # missing: opening it raises the error
        if changelogs:
            return self.filesystem, *changelogs[0]
        if not self.allow_outside:
            missing = self._missing(parts)
            if missing is not None:
                return missing
            raise self._outside(recorded, parts)
        return (*self._locate_outside(recorded), None)

    def _missing(self, parts: list[str]) -> tuple[SnapshotFileSystem, str, Anchor] | None:
        """Return where a file was that is gone: if the checkpoint was moved with its folder, which has others."""
        root = self.checkpoint_root
        for candidate in self._rebased(parts) if root is not None else ():
            anchor, folder = self._anchor(candidate), posixpath.dirname(candidate)
            if anchor is not None and folder != self.directory and self._is_there(folder):
                return self.filesystem, candidate, anchor  # opening it raises the error
        return None

    def _is_there(self, folder: str) -> bool:
        """Return whether there is a folder, for which a verb asks once for all files that are gone."""
        key = "folder", self.filesystem.uri(folder)
        return cached_for_verb(key, lambda: self.filesystem.info(folder) is not None)

    def _locate_outside(self, recorded: str) -> tuple[SnapshotFileSystem, str]:
        """Locate a recorded path outside of the snapshot; another store does not get the credentials of this one."""
        filesystem, path = locate(recorded)
        if isinstance(filesystem, RemoteFileSystem):
            filesystem = replace(filesystem, options=self.options, recorded=filesystem != self.filesystem)
        return filesystem, path

    def _path_here(self, recorded: str) -> str | None:
        """Return a recorded path on the snapshot's own file system; None if it is on another or an unknown one."""
        try:
            filesystem, path = locate(recorded)
        except OptionError:
            return None
        return path if filesystem == self.filesystem else None

    def _anchor(self, path: str) -> Anchor | None:
        """Return the folder of this snapshot that contains a path; None if there is none."""
        directory = self.directory.rstrip("/") + "/"
        if path.startswith(directory) and "/" not in path[len(directory) :] and _is_visible(path[len(directory) :]):
            return Anchor(self.directory)
        root = self.checkpoint_root
        if root is None or not path.startswith(root.rstrip("/") + "/"):
            return None
        folder, _, rest = path[len(root.rstrip("/")) + 1 :].partition("/")
        return Anchor(root, folder) if _is_state_folder(folder) and _is_visible(rest) else None

    def _rebased(self, parts: list[str]) -> Iterator[str]:
        """Yield the paths of a recorded file if everything was moved together, the longest tail first."""
        base = self.checkpoint_root or self.directory
        positions = [position for position, part in enumerate(parts[:-1]) if _is_state_folder(part)]
        for position in positions[-MAX_TAILS:]:
            yield posixpath.join(base, *parts[position:])
        yield posixpath.join(self.directory, parts[-1])

    def _changelogs(self, here: str | None, parts: list[str]) -> Iterator[tuple[str, Anchor]]:
        """Yield the possible paths of this job's changelog file: as recorded, or relative to a parent after a move."""
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
        for path in places:
            yield path, Anchor(posixpath.dirname(posixpath.dirname(path)), CHANGELOG_DIRECTORY)

    def _outside(self, recorded: str, parts: list[str]) -> UnsafePathError:
        looked = ", ".join(self.filesystem.uri(path) for path in self._rebased(parts))
        return UnsafePathError(
            "a handle names a file outside of the snapshot",
            path=recorded,
            expected=f"a file below {self.uri}, or moved along with the snapshot to {looked}",
            remedy=f"if you trust the snapshot, set option '{ALLOW_OUTSIDE}' = true; "
            "if it was moved, move its checkpoint folder as a whole (chk-N, shared, taskowned, dstl)",
        )


@redacted
@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded path, to be looked for in the places of a snapshot."""

    location: SnapshotLocation
    path: str

    def find(self) -> tuple[SnapshotFileSystem, str, Anchor | None]:
        """Return where the file is, or where it is missed."""
        return self.location.find(self.path)


def is_checkpoint_directory(name: str) -> bool:
    """Return whether a folder has the name of a checkpoint, ``chk-N``."""
    return CHECKPOINT_DIRECTORY.fullmatch(name) is not None


def _is_visible(path: str) -> bool:
    """Return whether no segment of a path is hidden, empty, or a reference to the parent."""
    return not any(part.startswith(".") or not part for part in path.split("/"))


def _is_state_folder(name: str) -> bool:
    return name in (SHARED_STATE_DIRECTORY, TASK_OWNED_STATE_DIRECTORY, CHANGELOG_DIRECTORY) or is_checkpoint_directory(
        name
    )


def recorded_parts(recorded: str) -> list[str]:
    """Return the segments of a recorded absolute path; raise UnsafePathError if it has ``..`` or is invalid."""
    if len(recorded) > MAX_PATH_BYTES:
        raise UnsafePathError("the path is not valid", path=recorded, found=f"{len(recorded)} characters")
    match = URI.fullmatch(recorded)
    path = match[3] if match else recorded
    if match and match[1].lower() in REMOTE_SCHEMES and "?" in path:
        raise _not_valid(recorded, "a path without '?'")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or not path.startswith("/") or not parts or not is_encodable(path):
        raise _not_valid(ascii(recorded), "an absolute path")
    return parts


def _not_valid(recorded: str, expected: str) -> UnsafePathError:
    return UnsafePathError("the path of a handle is not valid", path=recorded, expected=expected, remedy=UNREADABLE)
