"""What writes leave in the folder of a savepoint: names of their files, and how they are deleted without errors."""

from __future__ import annotations

import contextlib
import json
import posixpath
import re
import warnings
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import SavepointError, SavepointWarning, StateFileNotFoundError, UnsafePathError

if TYPE_CHECKING:
    from pyspark_savepoint.formats.io.snapshot_files import FileInfo, SnapshotFileSystem

PENDING, REPLACED = ".pending-", ".replaced-"
#: File names that only this package uses: token, optional part, kind of file, and a random suffix per attempt.
OWN_NAME = re.compile(r"([0-9a-f]{12})-(?:copy-[0-9]+|(?:[a-z0-9]+-)?[a-z0-9]+-[0-9a-f]{8})")
#: File names of state that Flink writes to a snapshot's own folder.
FLINK_NAME = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
PENDING_NAME = re.compile(rf"{re.escape(PENDING)}([0-9a-f]{{12}})")
TEMPORARY_NAME = re.compile(r"\._metadata\.([0-9a-f]{12})")
RECORD_NAME = re.compile(r"\.replaced-([0-9]{1,12})-([0-9a-f]{12})")
#: Number of files to delete in parallel.
DELETERS = 8
#: Maximum size of a record of replaced files, in bytes.
MAX_RECORD = 1 << 26


def put_small(filesystem: SnapshotFileSystem, path: str, data: bytes) -> None:
    """Write a small file."""
    file = filesystem.open_output(path, durable=False)
    try:
        file.write(data)
        file.close()
    finally:
        file.abort()


def entries_of(filesystem: SnapshotFileSystem, directory: str) -> list[FileInfo]:
    """Return the entries of a folder; an empty list if it does not exist."""
    try:
        return filesystem.list(directory)
    except StateFileNotFoundError:
        return []


def is_state_name(name: str) -> bool:
    """Return whether only a file of state can have this name."""
    return OWN_NAME.fullmatch(name) is not None or FLINK_NAME.fullmatch(name) is not None


def is_due(entry: FileInfo, now: float) -> bool:
    """Return whether a file is a record of replaced files whose retention has ended."""
    match = RECORD_NAME.fullmatch(entry.name)
    return match is not None and not entry.is_directory and int(match[1]) <= now


def replaced_names(filesystem: SnapshotFileSystem, record: FileInfo, named: Collection[str]) -> list[str]:
    """Return the files listed in a record, without those in ``named``, which are still referenced."""
    try:
        published = filesystem.read_published(record.path, MAX_RECORD)
        names = json.loads(published.data) if published is not None else []
    except (UnsafePathError, ValueError, RecursionError):
        names = []  # no record of this package, whatever it is
    texts = (name for name in names if isinstance(name, str)) if isinstance(names, list) else ()
    return sorted({name for name in texts if is_state_name(name) and name not in named})


def delete_replaced(
    filesystem: SnapshotFileSystem, directory: str, record: FileInfo, named: Collection[str]
) -> list[str]:
    """Delete the files listed in a record, then the record; return their names."""
    names = replaced_names(filesystem, record, named)
    if not delete_files(filesystem, directory, names):
        delete_files(filesystem, directory, [record.name])
    return names


def delete_files(filesystem: SnapshotFileSystem, directory: str, names: Iterable[str]) -> list[str]:
    """Delete files of a folder; return those that could not be deleted, after a warning."""

    def refused(name: str) -> SavepointError | None:
        try:
            filesystem.delete_file(posixpath.join(directory, name))
        except SavepointError as error:
            return error
        return None

    listed = list(names)
    if not listed:
        return []
    with ThreadPoolExecutor(min(DELETERS, len(listed))) as pool:
        errors = dict(zip(listed, pool.map(refused, listed), strict=True))
    failed = {name: error for name, error in errors.items() if error is not None}
    if failed:
        error = next(iter(failed.values()))
        why = f"{some_of(sorted(failed))}: {one_line(error)}"
        warn_of_leftovers(filesystem, directory, why)
    return list(failed)


@contextlib.contextmanager
def leftovers(filesystem: SnapshotFileSystem, directory: str) -> Iterator[None]:
    """Turn errors during cleanup into a warning."""
    try:
        yield
    except SavepointError as error:
        warn_of_leftovers(filesystem, directory, one_line(error), is_certain=False)
    except OSError as error:
        warn_of_leftovers(filesystem, directory, str(error), is_certain=False)


def warn_of_leftovers(filesystem: SnapshotFileSystem, directory: str, why: str, is_certain: bool = True) -> None:
    """Warn the user of files that remain, or may remain if that is not ``is_certain``."""
    # Publication must succeed even if Python is configured to turn warnings into errors.
    with contextlib.suppress(SavepointWarning):
        warnings.warn(
            f"files that no savepoint needs {'were' if is_certain else 'may have been'} left in "
            f"{filesystem.uri(directory)} ({why}); Savepoint.vacuum(path) deletes those that this package wrote",
            SavepointWarning,
            stacklevel=2,
        )


def one_line(error: SavepointError) -> str:
    """Return an error on one line: its message, and what was found."""
    found = error.facts.get("found")
    return error.message if found is None else f"{error.message}: {found}"


def some_of(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
