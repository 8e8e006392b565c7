"""The one way in which a write of any kind becomes a snapshot, or leaves nothing.

State files are moved into the savepoint first. Then ``_metadata`` is published, unless another writer published
meanwhile; last, files that nothing references are released. A failure before publication leaves the previous savepoint,
a failure after it the published one (``publication``).
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.metadata import CheckpointMetadata, write_published
from pyspark_savepoint.formats.snapshot.leftovers import put_small
from pyspark_savepoint.formats.snapshot.publication import (
    Staging,
    conditions_tried,
    finish,
    publish_metadata,
    relative_files,
    roll_back,
)

if TYPE_CHECKING:
    from pyspark_savepoint.formats.io.snapshot_files import FileInfo
    from pyspark_savepoint.formats.metadata.manifest import Manifest


@dataclass(frozen=True)
class NewVersion:
    """What is published: the metadata, and what is known of its files.

    ``before`` is the published version that it replaces. ``checksums`` are those of files that stay, ``copies`` the
    identities of files that were copied as a whole, ``unread`` the sizes of files whose checksums are not known.
    """

    metadata: CheckpointMetadata
    before: CheckpointMetadata | None = None
    checksums: Manifest | None = None
    copies: Mapping[str, bytes] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)


def publish(
    staging: Staging,
    assembled: Callable[[], NewVersion],
    *,
    existed: bool,
    seen: str | None = None,
    retention: int = 0,
) -> None:
    """Publish a version; on failure, remove everything that the write has left.

    Args:
        staging: The write.
        assembled: Writes what is left to write, and returns the version.
        existed: Whether the folder existed before.
        seen: The fingerprint of the published version that is replaced; None if there is none.
        retention: The seconds for which files that the version before has stay.

    Raises:
        ConcurrentWriteError: If another writer published meanwhile; nothing was changed.
        UncertainOutcomeError: If the store does not say whether it published; nothing was deleted.

    """
    published = False
    try:
        with conditions_tried(staging, seen is not None) as wait_for_trial:
            version = assembled()
            names, checksums = _adopted(staging, version)
            data = write_published(version.metadata, checksums, version.copies)
            entries: list[FileInfo] | None = None

            def ready() -> None:
                nonlocal entries
                if not staging.filesystem.renames:
                    entries = staging.expect(_own(staging, names), version.unread)
                wait_for_trial()

            folder = publish_metadata(staging, data, seen, ready)
            published = True
    finally:
        # Spark aborts a write whose commit raises an error, but not one that is interrupted.
        if not published:
            roll_back(staging, existed)
    finish(staging, version.before, version.metadata, retention, folder, entries)


def publish_part(staging: Staging, assembled: Callable[[], NewVersion], *, existed: bool, is_held: bool) -> None:
    """Make one of several writes complete, for the one that publishes them together; on failure, remove what it left.

    Args:
        staging: The write of the part.
        assembled: As for :func:`publish`.
        existed: Whether the folder existed before.
        is_held: Whether this process publishes all parts, so that it keeps the metadata, and cleans up.

    """
    complete = False
    try:
        version = assembled()
        names, checksums = _adopted(staging, version)
        data = write_published(version.metadata, checksums, version.copies)
        if is_held:
            staging.hold_part(data)
        else:
            _put_part(staging, data)
        complete = True
    finally:
        if not complete:
            roll_back(staging, existed)
    if not is_held:
        staging.discard(names)


def _adopted(staging: Staging, version: NewVersion) -> tuple[list[str], Manifest]:
    """Move the files of a version to where it has them; return the names of all of its files, and their checksums."""
    names = sorted(relative_files(version.metadata))
    staging.adopt(_own(staging, names))
    return names, staging.checksums([name for name in names if name not in version.unread], version.checksums)


def _own(staging: Staging, names: Collection[str]) -> list[str]:
    return [name for name in names if name.startswith(f"{staging.token}-")]


def _put_part(staging: Staging, data: bytes) -> None:
    """Write the metadata of a part for another process: no other has its name."""
    path = posixpath.join(staging.pending, staging.part)
    if staging.filesystem.renames:
        staging.filesystem.publish(path, data)
    else:
        put_small(staging.filesystem, path, data)
