"""What each snapshot below a folder holds, and files that none of them needs: which can be deleted.

Only ``_metadata`` is read, and folders are listed: no file of state is opened, and none outside of the folder.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import SavepointError, SnapshotNotFoundError, StateFileNotFoundError
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem, locate
from pyspark_savepoint.formats.io.local_files import real_path
from pyspark_savepoint.formats.redaction import redact, redacted
from pyspark_savepoint.formats.snapshot.needed_files import needed_files
from pyspark_savepoint.formats.snapshot.relocation import streams_of
from pyspark_savepoint.formats.snapshot.savepoint import METADATA_FILE_NAME, Snapshot, find_snapshots
from pyspark_savepoint.formats.snapshot.snapshot_location import is_checkpoint_directory
from pyspark_savepoint.formats.snapshot.vacuum import below

if TYPE_CHECKING:
    from pyspark_savepoint.formats.io.snapshot_files import FileInfo
    from pyspark_savepoint.formats.snapshot.histories import SnapshotInfo


@redacted
@dataclass(frozen=True, slots=True)
class RetainedSnapshot:
    """A snapshot, and the bytes of the files that it needs: alone, with others below the folder, and outside of it.

    The bytes are None if the snapshot cannot be read.
    """

    snapshot: SnapshotInfo
    alone: int | None = None
    shared: int | None = None
    outside: int | None = None


@redacted
@dataclass(frozen=True, slots=True)
class Unneeded:
    """A file that no snapshot below the folder needs; ``modified`` in seconds since 1970, None if unknown."""

    path: str
    size: int
    modified: float | None
    note: str | None


@dataclass(frozen=True, slots=True)
class Retained:
    """The snapshots below a folder, newest first, and files that none of them needs.

    ``unknown`` says why the latter are not known: then there are none.
    """

    snapshots: tuple[RetainedSnapshot, ...]
    unneeded: tuple[Unneeded, ...]
    unknown: tuple[str, ...]


def retained(path: str, reached: Callable[[str], str] = str) -> Retained:
    """Find the snapshots below a folder, and which of the files there they need.

    Args:
        path: The folder.
        reached: Puts the options of the store to the path of a snapshot.

    Returns:
        What each snapshot holds, and files that none needs.

    Raises:
        SnapshotNotFoundError: If there is no folder at the path.

    """
    filesystem, folder = locate(path)
    if isinstance(filesystem, LocalFileSystem):
        try:
            folder = path = real_path(folder)
        except StateFileNotFoundError:
            raise SnapshotNotFoundError("there is no folder at this path", path=folder) from None
        info = filesystem.info(folder)
        if info is None or not info.is_directory:
            raise SnapshotNotFoundError("there is no folder at this path", path=folder)
    # Files are listed first: those that a running job writes meanwhile are not in the list.
    entries = list(below(filesystem, folder))
    files = {redact(filesystem.uri(entry.path)): entry for entry in entries if not entry.is_directory}
    by_name: dict[str, list[str]] = {}
    for name in files:
        by_name.setdefault(posixpath.basename(name), []).append(name)
    unknown = [f"{redact(entry.path)} is a link" for entry in entries if entry.is_link]
    needs: list[tuple[SnapshotInfo, set[str], int] | None] = []
    snapshots = find_snapshots(path)
    for snapshot in snapshots:
        try:
            needs.append((snapshot, *_needs(Snapshot.open(reached(snapshot.path)), files, by_name)))
        except SavepointError as error:
            unknown.append(f"{redact(snapshot.path)} cannot be read: {error.message}")
            needs.append(None)
    users = Counter(name for need in needs if need is not None for name in need[1])
    known = {redact(posixpath.join(snapshot.path, METADATA_FILE_NAME)) for snapshot in snapshots}
    complete = {posixpath.dirname(name) for name in files if posixpath.basename(name) == METADATA_FILE_NAME}
    unknown += [
        f"{name} is of a snapshot that is too deep in the folder"
        for name in files
        if posixpath.basename(name) == METADATA_FILE_NAME and name not in known
    ]
    held = []
    for snapshot, need in zip(snapshots, needs, strict=True):
        if need is None:
            held.append(RetainedSnapshot(snapshot))
            continue
        sizes = {one: sum(files[name].size for name in need[1] if (users[name] == 1) is one) for one in (True, False)}
        held.append(RetainedSnapshot(snapshot, sizes[True], sizes[False], need[2]))
    unneeded = [
        Unneeded(name, entry.size, entry.modified, _note(name, complete))
        for name, entry in files.items()
        if not users[name]
    ]
    return Retained(tuple(held), () if unknown else tuple(unneeded), tuple(unknown))


def _needs(snapshot: Snapshot, files: dict[str, FileInfo], by_name: dict[str, list[str]]) -> tuple[set[str], int]:
    """Return which of the files a snapshot needs, and how many bytes of files that are not among them."""
    location = snapshot.location
    names = {redact(location.filesystem.uri(posixpath.join(location.directory, METADATA_FILE_NAME)))} & files.keys()
    outside: dict[str, int] = {}
    for operator in snapshot.operators:
        for file in needed_files(snapshot, list(streams_of(operator))):
            # Names are unique in Flink: one of a file that cannot be found, such as after a move, is that file.
            here = [file.path] if file.path in files else by_name.get(posixpath.basename(file.path), [])
            names.update(here)
            if not here:
                outside[file.path] = outside.get(file.path, 0) + (file.size or 0)
    return names, sum(outside.values())


def _note(name: str, complete: set[str]) -> str | None:
    folder = posixpath.dirname(name)
    if is_checkpoint_directory(posixpath.basename(folder)) and folder not in complete:
        return "its checkpoint has no _metadata: the job is still writing it, or it failed"
    return None
