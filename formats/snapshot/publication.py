"""How a snapshot comes to be visible: its files first, ``_metadata`` last, at once, and against nobody else's.

::

    <savepoint>/.pending-<token>/       what one write has made so far; gone when it is over, however it ends
    <savepoint>/<token>-<name>          a file of state, moved here when all of them are whole
    <savepoint>/_metadata               published under a lock, if it is still what was there when the write began

Object stores copy where others rename: there files of state are written where they stay, and what is not referred to
in the end is found by the token in its name. Flink: ``FsCheckpointStorageLocation``,
``FsCheckpointMetadataOutputStream``.
"""

from __future__ import annotations

import hashlib
import posixpath
import secrets
from collections.abc import Collection
from dataclasses import dataclass, replace

from pyspark_savepoint.formats.errors import ConcurrentWriteError
from pyspark_savepoint.formats.io.filesystem import locate
from pyspark_savepoint.formats.io.outputs import OutputFile
from pyspark_savepoint.formats.io.snapshot_files import SnapshotFileSystem
from pyspark_savepoint.formats.metadata import CheckpointMetadata
from pyspark_savepoint.formats.metadata.stream_handles import RelativeFileStateHandle
from pyspark_savepoint.formats.snapshot.handle_streams import streams_of
from pyspark_savepoint.formats.snapshot.savepoint import METADATA_FILE_NAME

PENDING = ".pending-"


@dataclass(frozen=True, slots=True)
class Staging:
    """Where one write keeps its files until it is published: by description, so tasks have it too.

    ``part`` is the name of one write of several that are published together: its files stay in the pending folder of
    the token until whoever publishes takes them. Where it has ``begun``, its folder is not made again: whoever finds it
    gone is too late.
    """

    filesystem: SnapshotFileSystem
    directory: str
    token: str
    part: str = ""
    begun: bool = False

    @classmethod
    def at(cls, path: str, token: str | None = None, part: str = "") -> Staging:
        """For a savepoint at a path, new or existing."""
        filesystem, directory = locate(path)
        return cls(filesystem, directory, token or secrets.token_hex(6), part)

    @property
    def pending(self) -> str:
        """The folder of the token."""
        return posixpath.join(self.directory, PENDING + self.token)

    @property
    def folder(self) -> str:
        """The folder of this write."""
        return posixpath.join(self.pending, f"{self.part}.d") if self.part else self.pending

    def unique(self, name: str) -> str:
        """A name for a file of state that no other attempt, task or write has."""
        return "-".join(part for part in (self.token, self.part, name, secrets.token_hex(4)) if part)

    def state_path(self, name: str) -> str:
        """Where a file of state is written, and is until it is adopted."""
        return posixpath.join(self.folder if self.filesystem.renames else self.directory, name)

    def begin(self) -> Staging:
        """Make the folder, once for a task, and for the commit."""
        self.filesystem.create_directory(self.folder)
        return replace(self, begun=True)

    def create_state(self, name: str) -> OutputFile:
        """A new file of state."""
        if not self.begun:
            self.filesystem.create_directory(self.folder)
        return self.filesystem.open_output(self.state_path(name))

    def work_path(self, name: str) -> str:
        """Where a file is that only this write needs."""
        return posixpath.join(self.folder, name)

    def create_work(self, name: str) -> OutputFile:
        """A new file that only this write needs."""
        if not self.begun:
            self.filesystem.create_directory(self.folder)
        return self.filesystem.open_output(self.work_path(name), durable=False)

    def adopt(self, names: Collection[str]) -> None:
        """Move finished files of state to where they stay: into the savepoint, or to the other parts'."""
        if self.filesystem.renames:
            target = self.pending if self.part else self.directory
            for name in names:
                self.filesystem.move(self.state_path(name), posixpath.join(target, name))

    def discard(self, keep: Collection[str] = ()) -> None:
        """Delete everything of this write but the files of state to keep."""
        self.filesystem.delete_directory(self.folder)
        if not self.filesystem.renames and self.filesystem.info(self.directory) is not None:
            mine = f"{self.token}-{self.part}-" if self.part else f"{self.token}-"
            for entry in self.filesystem.list(self.directory):
                if entry.name.startswith(mine) and entry.name not in keep:
                    self.filesystem.delete_file(entry.path)

    def rollback(self, names: Collection[str]) -> None:
        """Delete files of state that were adopted into the savepoint before it could not be published."""
        for name in names:
            self.filesystem.delete_file(posixpath.join(self.directory, name))


# -- what is published --------------------------------------------------------------------------------------


def read_published(filesystem: SnapshotFileSystem, directory: str) -> bytes | None:
    """The bytes of ``_metadata``; None where there is none."""
    path = posixpath.join(directory, METADATA_FILE_NAME)
    if filesystem.info(path) is None:
        return None
    file = filesystem.open_input(path)
    try:
        data = bytearray(file.size)
        file.read_into(0, data)
    finally:
        file.close()
    return bytes(data)


def fingerprint(published: bytes | None) -> str | None:
    """What tells one ``_metadata`` from another; None for none."""
    return None if published is None else hashlib.sha256(published).hexdigest()


def publish_metadata(filesystem: SnapshotFileSystem, directory: str, data: bytes, seen: str | None) -> None:
    """Make a snapshot visible, or replace it, if what is there is still what the fingerprint was taken of.

    ConcurrentWriteError otherwise: then nothing changed.
    """
    path = posixpath.join(directory, METADATA_FILE_NAME)
    filesystem.create_directory(directory)
    with filesystem.lock(directory):
        found = fingerprint(read_published(filesystem, directory))
        if found != seen:
            raise ConcurrentWriteError(
                "another writer published a savepoint at this path while this write was working"
                if found is not None
                else "the savepoint that this write was to change is gone",
                path=filesystem.uri(path),
                remedy="nothing of this write was published: see what is there now, and write again",
            )
        filesystem.publish(path, data, replace=seen is not None)


def delete_unreferenced(
    filesystem: SnapshotFileSystem, directory: str, before: CheckpointMetadata, after: CheckpointMetadata
) -> None:
    """Delete the files of a savepoint that its ``_metadata`` named before, and does not name now."""
    for name in sorted(relative_files(before) - relative_files(after)):
        if "/" not in name and name not in (METADATA_FILE_NAME, ".", ".."):
            filesystem.delete_file(posixpath.join(directory, name))


def relative_files(metadata: CheckpointMetadata) -> set[str]:
    """The names of all files in a snapshot's own folder that its handles name."""
    streams = (stream for operator in metadata.operators for stream in streams_of(operator))
    return {stream.relative_path for stream in streams if isinstance(stream, RelativeFileStateHandle)}
