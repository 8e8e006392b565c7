"""Removal of files that aborted writers have left in a savepoint's folder.

=====================================  ==============================================================================
kind                                   removed when it and all other files of the same write are older than the limit
=====================================  ==============================================================================
``pending``                            a folder ``.pending-<token>``, with all that is in it
``unreferenced``                       a file of state with a name of this package that ``_metadata`` does not reference
``temporary``                          a file that was to become ``_metadata``, ``._metadata.<random>``
``replaced``                           files that an overwrite replaced, and the record of them, once their retention
                                       has ended
=====================================  ==============================================================================

Files that ``_metadata`` references are never removed, and neither are files without a name of this package. Parts of
incomplete uploads are not files: no client here lists them. A lifecycle rule of the bucket removes them
(``AbortIncompleteMultipartUpload``; Google and Azure drop them after a week).
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import OptionError, SnapshotNotFoundError
from pyspark_savepoint.formats.filesystems.filesystem import locate
from pyspark_savepoint.formats.io.run_ahead import ahead
from pyspark_savepoint.formats.metadata import read_metadata
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.snapshot.leftovers import (
    OWN_NAME,
    PENDING_NAME,
    RECORD_NAME,
    TEMPORARY_NAME,
    delete_files,
    entries_of,
    is_due,
    leftovers,
    replaced_names,
)
from pyspark_savepoint.formats.snapshot.publication import read_published, relative_files

if TYPE_CHECKING:
    from pyspark_savepoint.formats.io.snapshot_files import FileInfo, SnapshotFileSystem


@redacted
@dataclass(frozen=True, slots=True)
class Leftover:
    """A file or folder that no savepoint needs; ``modified`` in seconds since 1970, None if unknown."""

    path: str
    kind: str
    size: int
    modified: float | None


@dataclass(frozen=True, slots=True)
class _Leftover:
    """A removable entry of the folder, the token of its write, and its content if it is a folder."""

    entry: FileInfo
    kind: str
    token: str
    inside: tuple[FileInfo, ...] = ()

    @property
    def newest(self) -> float | None:
        """Return the time of its newest file; None if unknown."""
        times = [info.modified for info in self.inside] or [self.entry.modified]
        modified_times = [modified for modified in times if modified is not None]
        return max(modified_times) if len(modified_times) == len(times) else None

    @property
    def size(self) -> int:
        """Return the total size in bytes."""
        return (
            sum(info.size for info in self.inside if not info.is_directory)
            if self.entry.is_directory
            else self.entry.size
        )


def vacuum(path: str, older_than: float, dry_run: bool = False) -> list[Leftover]:
    """Remove leftovers of aborted writes that are older than ``older_than`` seconds.

    Returns the entries that were removed, or with ``dry_run`` those that would be. Raise SnapshotNotFoundError for a
    folder that has files of others only.
    """
    filesystem, directory = locate(path)
    if older_than < 0:
        raise OptionError("'older_than' must not be negative", expected="a time of 0 or more", found=f"{older_than} s")
    info = filesystem.info(directory)
    if info is None or not info.is_directory:
        raise SnapshotNotFoundError("there is no folder at this path", path=filesystem.uri(directory))
    published = read_published(filesystem, directory)
    named = relative_files(read_metadata(published, filesystem.uri(directory))) if published is not None else set()
    listed = entries_of(filesystem, directory)
    now = time.time()
    unfinished = list(_leftovers(filesystem, listed, named))
    # A write has ended if all its files are old: its first files may be old while it is still running.
    busy = {part.token for part in unfinished if part.newest is None or part.newest > now - older_than}
    abandoned = [part for part in unfinished if part.token not in busy]
    abandoned += _replaced(filesystem, listed, named, now, older_than)
    if published is None and listed and not unfinished and not abandoned:
        raise SnapshotNotFoundError(
            "the folder is not a savepoint, and nothing in it is of an aborted write",
            path=filesystem.uri(directory),
            found=", ".join(sorted(entry.name for entry in listed)[:5]),
            remedy="give the folder of the savepoint, the one with _metadata",
        )
    removed = {part.entry.path: part for part in abandoned}
    if not dry_run:
        stayed = _remove(filesystem, directory, list(removed.values()))
        removed = {path: part for path, part in removed.items() if path not in stayed}
    parts = sorted(removed.values(), key=lambda part: part.entry.path)
    return [Leftover(filesystem.uri(part.entry.path), part.kind, part.size, part.newest) for part in parts]


def _leftovers(filesystem: SnapshotFileSystem, listed: list[FileInfo], named: set[str]) -> Iterator[_Leftover]:
    """Yield the leftovers of writes, of any age."""
    recorded = {name for entry in listed if RECORD_NAME.fullmatch(entry.name) for name in _of(filesystem, entry, named)}
    for entry in listed:
        pending, temporary = PENDING_NAME.fullmatch(entry.name), TEMPORARY_NAME.fullmatch(entry.name)
        own = OWN_NAME.fullmatch(entry.name)
        if pending and entry.is_directory:
            yield _Leftover(entry, "pending", pending[1], tuple(below(filesystem, entry.path)))
        elif temporary and not entry.is_directory:
            yield _Leftover(entry, "temporary", temporary[1])
        elif own and not entry.is_directory and entry.name not in named and entry.name not in recorded:
            yield _Leftover(entry, "unreferenced", own[1])


def _of(filesystem: SnapshotFileSystem, record: FileInfo, named: set[str]) -> list[str]:
    return [] if record.is_directory else replaced_names(filesystem, record, named)


def below(filesystem: SnapshotFileSystem, path: str) -> Iterator[FileInfo]:
    """Yield the files and folders in a folder, at any depth; links to folders are not followed."""
    level = [path]
    while level:
        folders: list[str] = []
        for entries in ahead(partial(entries_of, filesystem), level, remote=filesystem.is_remote):
            yield from entries
            folders += [entry.path for entry in entries if entry.is_directory]
        level = folders


def _replaced(
    filesystem: SnapshotFileSystem, listed: list[FileInfo], named: set[str], now: float, older_than: float
) -> Iterator[_Leftover]:
    """Yield the files of records whose retention has ended, and the records."""
    by_name = {entry.name: entry for entry in listed if not entry.is_directory}
    for record in listed:
        if is_due(record, now) and record.modified is not None and record.modified <= now - older_than:
            for name in replaced_names(filesystem, record, named):
                if name in by_name:
                    yield _Leftover(by_name[name], "replaced", "")
            yield _Leftover(record, "replaced", "")


def _remove(filesystem: SnapshotFileSystem, directory: str, parts: list[_Leftover]) -> set[str]:
    """Remove files and folders; return the paths of those that could not be removed, after a warning."""
    stayed = {part.entry.path for part in parts if part.entry.is_directory}
    for path in sorted(stayed):
        with leftovers(filesystem, directory):
            filesystem.delete_directory(path)
            stayed.discard(path)
    files = [part.entry.name for part in parts if not part.entry.is_directory]
    # Delete records last, because they are needed to find their files.
    for names in ([n for n in files if not RECORD_NAME.fullmatch(n)], [n for n in files if RECORD_NAME.fullmatch(n)]):
        failed = delete_files(filesystem, directory, names)
        stayed |= {posixpath.join(directory, name) for name in failed}
        if failed:
            break
    return stayed
