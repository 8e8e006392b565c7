"""The folder that a write is for: new, empty, or that of a savepoint, and not inside of a snapshot.

In an object store all of this is asked at the same time.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import OptionError, SavepointError, StateExistsError
from pyspark_savepoint.formats.filesystems.filesystem import locate
from pyspark_savepoint.formats.io.one_verb import begin_for_verb, cached_for_verb
from pyspark_savepoint.formats.snapshot.leftovers import FLINK_NAME, OWN_NAME, PENDING_NAME, leftovers, some_of
from pyspark_savepoint.formats.snapshot.publication import Staging, mark, mark_path
from pyspark_savepoint.formats.snapshot.savepoint import METADATA_FILE_NAME

if TYPE_CHECKING:
    from pyspark_savepoint.formats.io.snapshot_files import Published, SnapshotFileSystem

#: What a folder with such a name in it is, if it has no ``_metadata``.
FOREIGN_FOLDERS = (
    (re.compile(r"_delta_log/.*"), "a Delta table"),
    (re.compile(r"\.hoodie/.*"), "a Hudi table"),
    (re.compile(r"metadata/.*(\.metadata\.json(\.gz)?|version-hint\.text)"), "an Iceberg table"),
    (re.compile(r"(.*/)?_spark_metadata/.*"), "the output of a streaming query"),
    (re.compile(r"(savepoint-[^/]*|chk-[0-9]+|[^/]*/_metadata)(/.*)?"), "a folder of snapshots"),
    (FLINK_NAME, "a snapshot without its file _metadata, so not a complete one"),
    (re.compile(r".*\.parquet"), "Parquet files"),
    (re.compile(r"_SUCCESS|part-.*"), "the output of a job"),
)
#: Names that may be in a folder that is new for all purposes, besides hidden files.
IGNORED_NAMES = frozenset({"lost+found/"})
#: Number of names that are looked at in the folder of a write.
MAX_LISTED = 1000
#: Characters of a path that no filesystem takes: Linux has 4,096 bytes, HDFS 8,000, object stores about 1,024.
LONGEST_PATH = 8192
#: Requests at the same time.
MOST_REQUESTS = 64


def expect_folder(staging: Staging) -> tuple[bool, bytes | None]:
    """Return whether the folder of a write exists, and the bytes of its ``_metadata``; None if it is new or empty.

    Raises:
        OptionError: If there is a file at the path.
        StateExistsError: If the folder has files, and they are not of a snapshot, or if it is inside of a snapshot.
        OutputError: If the user requires conditional writes, and the store has none or ignores their conditions.

    """
    existed, published = folder_of(staging)
    return existed, None if published is None else published.data


def look_ahead(path: str) -> None:
    """Begin to ask an object store what is at the path of a write, for the verb that is running.

    :func:`folder_of` waits for the answer, and raises what is wrong.
    """
    with contextlib.suppress(SavepointError):  # so is a path that cannot be one
        filesystem, directory = locate(path)
        if filesystem.is_remote and not filesystem.renames:
            begin_for_verb(_key(filesystem, directory), lambda: _looked_at_together(filesystem, directory))


def _key(filesystem: SnapshotFileSystem, directory: str) -> object:
    return filesystem.uri(directory), "folder"


def folder_of(staging: Staging) -> tuple[bool, Published | None]:
    """Return as :func:`expect_folder` does, with the version of ``_metadata`` if the store tells it."""
    filesystem, directory = staging.filesystem, staging.directory
    if filesystem.renames:
        existed, published = _looked_at(filesystem, directory)
    else:
        # Commands look before and after they have surveyed: what is published meanwhile is seen at the publication.
        existed, published = cached_for_verb(
            _key(filesystem, directory), lambda: _looked_at_together(filesystem, directory)
        )
    if filesystem.requires_conditions:
        _try_conditions(staging, existed, replacing=published is not None)
    return existed, published


def to_free_path(path: str, checkpoint_id: int | None = None) -> Staging:
    """Return the staging location of a new savepoint; raise StateExistsError if there is one at the path.

    ``checkpoint_id``: the number that the new savepoint is to have, if not that of what it is made of.
    """
    if checkpoint_id is not None and (
        isinstance(checkpoint_id, bool) or not isinstance(checkpoint_id, int) or not 0 <= checkpoint_id < 1 << 63
    ):
        raise OptionError(
            "a checkpoint id is a whole number from 0",
            expected="at most 9223372036854775807",
            found=repr(checkpoint_id),
        )
    staging = replace(Staging.at(path), checkpoint_id=checkpoint_id)
    if expect_folder(staging)[1] is not None:
        raise StateExistsError(
            "a savepoint exists at this path already",
            path=staging.filesystem.uri(staging.directory),
            remedy="write to a new path: a savepoint is not changed in place",
        )
    return staging


def _looked_at(filesystem: SnapshotFileSystem, directory: str) -> tuple[bool, Published | None]:
    at = filesystem.info(directory)
    if at is not None and not at.is_directory:
        raise _is_a_file(filesystem, directory)
    path = posixpath.join(directory, METADATA_FILE_NAME)
    published = None if at is None else filesystem.read_published(path)
    if published is None:
        for above in _above(directory):
            is_snapshot = False
            with contextlib.suppress(SavepointError, OSError):  # a folder that may not be searched
                is_snapshot = filesystem.is_file(posixpath.join(above, METADATA_FILE_NAME))
            if is_snapshot:
                raise _is_inside(filesystem, directory, above)
        if at is not None:
            _refuse_others(filesystem, directory, filesystem.first_names(directory, MAX_LISTED))
    return at is not None, published


def _looked_at_together(filesystem: SnapshotFileSystem, directory: str) -> tuple[bool, Published | None]:
    """Return what is at the path in an object store, by requests at the same time."""
    parts = _above(directory)
    with ThreadPoolExecutor(min(len(parts) + 2, MOST_REQUESTS)) as pool:
        asked = pool.submit(filesystem.is_file, directory)
        above = [(one, pool.submit(filesystem.is_file, posixpath.join(one, METADATA_FILE_NAME))) for one in parts]
        listed = filesystem.first_names(directory, MAX_LISTED)
        path = posixpath.join(directory, METADATA_FILE_NAME)
        published = filesystem.read_published(path) if listed else None
    if asked.result():
        raise _is_a_file(filesystem, directory)
    if published is None:
        for one, is_snapshot in above:
            if is_snapshot.exception() is None and is_snapshot.result():  # a folder may not be searched
                raise _is_inside(filesystem, directory, one)
        _refuse_others(filesystem, directory, listed)
    return bool(listed), published


def _is_a_file(filesystem: SnapshotFileSystem, directory: str) -> OptionError:
    return OptionError(
        "a savepoint is a folder, but there is a file at this path",
        path=filesystem.uri(directory),
        remedy="name a new folder, or that of a savepoint (without /_metadata)",
    )


def _try_conditions(staging: Staging, existed: bool, replacing: bool) -> None:
    """Raise OutputError if the store does not compare versions; an empty file with which that is tried is deleted."""
    filesystem, directory = staging.filesystem, staging.directory
    try:
        mark(staging)
        filesystem.lacks_conditions(posixpath.join(directory, METADATA_FILE_NAME), mark_path(staging), replacing)
    finally:
        with leftovers(filesystem, directory):
            filesystem.delete_directory(staging.pending)
            if not existed:
                filesystem.delete_empty_directory(directory)


def _above(directory: str) -> list[str]:
    """Return the folders that contain a folder, without the root and those whose paths are too long to exist."""
    result: list[str] = []
    above = posixpath.dirname(directory.rstrip("/")[:LONGEST_PATH])
    while above and above != posixpath.dirname(above):
        result.append(above)
        above = posixpath.dirname(above)
    return result


def _is_inside(filesystem: SnapshotFileSystem, directory: str, above: str) -> StateExistsError:
    """Return the error for a folder inside of a snapshot, whose owner may delete it with all that is in it."""
    uri = filesystem.uri(above)
    return StateExistsError(
        "the new savepoint would be inside of the folder of a snapshot",
        path=filesystem.uri(directory),
        found=f"a snapshot: {uri}",
        remedy=f"name a folder beside it, such as {uri.rstrip('/')}-new; nothing was written",
    )


def _refuse_others(filesystem: SnapshotFileSystem, directory: str, listed: Iterable[str]) -> None:
    """Raise StateExistsError if a folder without ``_metadata`` has other files than writes of this package left."""
    names = [name for name in listed if not _is_nobodys(name)]
    if not names:
        return
    if "metadata/" in names:
        names += [f"metadata/{name}" for name in filesystem.first_names(f"{directory}/metadata", MAX_LISTED)]
    kinds = (kind for pattern, kind in FOREIGN_FOLDERS if any(pattern.fullmatch(name) for name in names))
    listed = list(dict.fromkeys(re.sub("/.*", "/", name) for name in names))
    uri = filesystem.uri(directory)
    raise StateExistsError(
        "this folder is not that of a savepoint, and it is not empty",
        path=uri,
        expected="a savepoint, or a new or empty folder",
        found=f"{next(kinds, 'other files')}: {some_of(listed)}",
        remedy=f"name a new folder, such as {uri.rstrip('/')}/savepoint-new; nothing was written",
    )


def _is_nobodys(name: str) -> bool:
    """Return whether a write of this package left a file or folder, or it is hidden."""
    first, slash, _ = name.partition("/")
    if slash:
        return PENDING_NAME.fullmatch(first) is not None or f"{first}/" in IGNORED_NAMES
    return not first or first.startswith(".") or OWN_NAME.fullmatch(first) is not None
