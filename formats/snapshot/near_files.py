"""Intermediate files of a write to a store, on the local disk of the machine that commits.

Sorted runs are read by the commit alone. Where a task runs on the machine that planned the write (a local session, a
process without Spark), they need no way through the store and back. A task on another machine does not find the folder,
whose name is random, and writes to the store, since the commit does not reach that machine's disk. So does a task whose
local disk is full, with what it has written so far.

A folder is removed by its write, and that of a process that was killed by a later write of the same user: the process
that plans a write is not the one that commits it, so that age alone tells that a folder is left over.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark_savepoint.formats.errors import OutputError
from pyspark_savepoint.formats.io.local_files import LocalInputFile, local_directory
from pyspark_savepoint.formats.io.outputs import LocalOutputFile

if TYPE_CHECKING:
    from pyspark_savepoint.formats.io.snapshot_files import OutputFile

PREFIX = "savepoint-write-"
COPY_BUFFER = 8 << 20
#: Seconds without a change after which a folder is left over.
MAX_AGE = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class NearFolder:
    """A local folder for the files of one write."""

    path: str = field(repr=False)

    @classmethod
    def make(cls) -> NearFolder | None:
        """Create a folder that only this user can read; None if there is no place for it."""
        try:
            place = local_directory()
            _remove_old_folders(place)
            return cls(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        except OSError:
            return None

    def create(self, name: str, there: Callable[[], OutputFile]) -> OutputFile:
        """Create a file here, if this machine has the folder; else, or if the disk is full, ``there``."""
        if not os.access(self.path, os.W_OK | os.X_OK):
            return there()
        return _NearFile(os.path.join(self.path, name), there)

    def open(self, name: str) -> LocalInputFile | None:
        """Open a file; None if it is not here."""
        path = os.path.join(self.path, name)
        return LocalInputFile(path, path) if os.path.exists(path) else None

    def delete(self, name: str) -> bool:
        """Delete a file, and return whether it was here."""
        try:
            os.unlink(os.path.join(self.path, name))
        except OSError:
            return False
        return True

    def remove(self) -> None:
        """Delete the folder and its files, as far as that is possible."""
        shutil.rmtree(self.path, ignore_errors=True)


def _remove_old_folders(place: str) -> None:
    """Remove folders of this user in which nothing has changed for long."""
    before = time.time() - MAX_AGE
    with os.scandir(place) as scan:
        folders = [one for one in scan if one.name.startswith(PREFIX) and one.is_dir(follow_symlinks=False)]
    for folder in folders:
        with contextlib.suppress(OSError):
            own = not hasattr(os, "getuid") or folder.stat(follow_symlinks=False).st_uid == os.getuid()
            if own and max(os.lstat(path).st_mtime for path in (folder.path, *_files(folder.path))) < before:
                shutil.rmtree(folder.path, ignore_errors=True)


def _files(folder: str) -> list[str]:
    return [os.path.join(folder, name) for name in os.listdir(folder)]


class _NearFile:
    """A new local file, which becomes one of the store if the disk is full."""

    def __init__(self, path: str, there: Callable[[], OutputFile]) -> None:
        self._there = there
        self._file: OutputFile = LocalOutputFile(path, durable=False)
        self._is_local = True
        self.path, self.size = path, 0

    def write(self, buffer: Any) -> None:
        """Write all bytes of a buffer."""
        try:
            self._file.write(buffer)
        except OutputError:
            if not self._is_local:
                raise
            self._move()
            self._file.write(buffer)
        self.size = self._file.size

    def _move(self) -> None:
        """Continue in the store, after the bytes that were written before."""
        here, self._file, self._is_local = self._file, self._there(), False
        try:
            with open(self.path, "rb") as file:
                for start in range(0, self.size, COPY_BUFFER):
                    self._file.write(file.read(min(COPY_BUFFER, self.size - start)))
        finally:
            here.abort()
        self.path = self._file.path

    def close(self) -> None:
        self._file.close()

    def abort(self) -> None:
        """Delete the file; does nothing if it is already closed or aborted."""
        self._file.abort()
