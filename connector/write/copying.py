"""Copies of a snapshot's files in a new savepoint, and its publication: by this process, several files at a time.

Both engines use it for untouched operators, Spark's if they are small (``engines.spark.spark_engine``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Self

from pyspark_savepoint.formats.io.one_verb import in_context
from pyspark_savepoint.formats.metadata import CheckpointMetadata, OperatorState
from pyspark_savepoint.formats.snapshot import publisher
from pyspark_savepoint.formats.snapshot.changes import assemble, target_version
from pyspark_savepoint.formats.snapshot.publication import Staging, relative_files
from pyspark_savepoint.formats.snapshot.publisher import NewVersion
from pyspark_savepoint.formats.snapshot.relocation import (
    FileCopy,
    Relocation,
)
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.formats.snapshot.write_folder import to_free_path
from pyspark_savepoint.text import progress

COPIERS = 8
#: Bytes of the files that are copied at a time through this process, if they are as large as the largest.
COPIED = 64 << 20
#: Copies of a store at a time, which do not pass this process.
HOLDERS = 64
#: Copies files into the folder of a write, and returns the sizes of those that it has not read.
Copy = Callable[[Sequence[FileCopy], Staging], Mapping[str, int]]


def pin_snapshot(
    source: Snapshot, target: str, copy: Copy | None = None, checkpoint_id: int | None = None
) -> tuple[int, int]:
    """Hold a snapshot at a free path: a savepoint whose files stay when those of the snapshot are deleted.

    Files get another name: a hard link on one local file system, a copy by the store itself in an object store. What
    cannot, such as parts of larger files, is copied by ``copy``, by default in this process.

    Returns:
        How many files were held without their bytes passing this process, and how many were copied.

    """
    staging = to_free_path(target, checkpoint_id)
    relocation = Relocation(f"{staging.token}-copy")
    numbers = [0, 0]

    def hold(copies: Sequence[FileCopy], staging: Staging) -> Mapping[str, int]:
        if staging.filesystem.renames:
            # A file that is younger than those held: their age does not tell vacuum that this write has ended.
            staging.create_work(staging.unique("pin")).close()
        rest, unread = held(copies, staging)
        numbers[:] = len(copies) - len(rest), len(rest)
        return {**unread, **(copy or copy_files)(rest, staging)}

    publish(staging, lambda _: copied(source, relocation), relocation, hold)
    return numbers[0], numbers[1]


def copied(source: Snapshot, relocation: Relocation) -> CheckpointMetadata:
    """Return the metadata of a copy of all files of a snapshot."""
    return like(source, [relocation.copied(source, one) for one in source.operators])


def like(source: Snapshot, operators: Sequence[OperatorState]) -> CheckpointMetadata:
    """Return the metadata of a copy, which knows the snapshot that it is of."""
    metadata = assemble(operators, [source.metadata], target_version([source.metadata], None))
    return replace(metadata, origin=source.origin)


def publish(
    staging: Staging,
    assembled: Callable[[CopiesAhead], CheckpointMetadata],
    relocation: Relocation,
    copy: Copy | None = None,
) -> None:
    """Write the files of a new savepoint, and then its metadata; on failure, remove everything.

    ``assembled`` writes files, and may begin copies meanwhile. ``copy`` copies the others, by default in this process.
    """
    staging = staging.here()

    def version() -> NewVersion:
        staging.filesystem.create_directory(staging.pending)
        with CopiesAhead(staging) as ahead:  # after a failure none of them is running
            metadata = assembled(ahead)
            rest, sizes = ahead.wait_for(list(relocation.copies.values()))
        if staging.checkpoint_id is not None:
            metadata = replace(metadata, checkpoint_id=staging.checkpoint_id)
        unread = {**sizes, **(copy or copy_files)(rest, staging)}
        names = relative_files(metadata)
        whole = [one for one in relocation.copies.values() if one.header is None and one.name in names]
        return NewVersion(metadata, copies={one.name: one.source.identity for one in whole}, unread=unread)

    # Object stores have no folders that would be left.
    existed = not staging.filesystem.renames or staging.filesystem.info(staging.directory) is not None
    publisher.publish(staging, version, existed=existed)


def _copiers(copies: Sequence[FileCopy], staging: Staging) -> int:
    """Return how many files are copied at a time: more to a store, if they are small, for each may be in memory."""
    largest = max((copy.size for copy in copies), default=0)
    return max(COPIERS, min(HOLDERS, COPIED // max(largest, 1))) if staging.filesystem.is_remote else COPIERS


def held(copies: Sequence[FileCopy], staging: Staging) -> tuple[Sequence[FileCopy], Mapping[str, int]]:
    """Give files another name that the file system can give without their bytes passing this process.

    Returns:
        The files that are still to be copied, and the sizes of those held whose checksums are not known, by name.

    """
    with CopiesAhead(staging) as ahead:
        ahead.begin(copies)
        return ahead.wait_for(copies)


class CopiesAhead:
    """Files that get another name in the background, while others are written; see :func:`held`."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self._pool = ThreadPoolExecutor(HOLDERS if staging.filesystem.is_remote else COPIERS)
        self._begun: dict[str, Future[int | None]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def begin(self, copies: Iterable[FileCopy]) -> None:
        """Begin with those files that were not begun yet."""
        for one in copies:
            if one.name not in self._begun:
                hold = in_context(one.hold)  # the verb may have read the beginning before
                target = self._staging.state_path(one.name)
                self._begun[one.name] = self._pool.submit(hold, self._staging.filesystem, target)

    def wait_for(self, copies: Sequence[FileCopy]) -> tuple[Sequence[FileCopy], Mapping[str, int]]:
        """Wait for those files that were begun; return what :func:`held` returns."""
        rest, unread = [], {}
        for one in copies:
            size = self._begun[one.name].result() if one.name in self._begun else None
            if size is None:
                rest.append(one)
            elif one.source.checksums is not None:
                self._staging.keep_checksums(one.name, one.source.checksums)
            else:
                unread[one.name] = size
        return rest, unread


def copy_files(copies: Sequence[FileCopy], staging: Staging) -> Mapping[str, int]:
    """Copy all files, several at a time, the largest first; a store copies what is in it already.

    Returns:
        The sizes of files that were not read, and whose checksums are not known, by name.

    """
    unread: Mapping[str, int] = {}
    if not staging.filesystem.renames:
        copies, unread = held(copies, staging)
    size = sum(copy.size for copy in copies)
    copied = 0
    with ThreadPoolExecutor(_copiers(copies, staging)) as pool:
        sizes = pool.map(lambda copy: copy.run(staging.create_state), sorted(copies, key=lambda copy: -copy.size))
        for done, one in enumerate(sizes, 1):
            copied += one
            progress.detail(f"copied {done} of {len(copies)} files, {copied / 1e9:.1f} of {size / 1e9:.1f} GB")
    return unread
