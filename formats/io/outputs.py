"""Files that are written: whole or not at all, and never over one another.

A file is created under a name of its own, written from the front, and either closed, which makes it last, or aborted,
which leaves nothing. What makes a snapshot visible is published: it appears at once, whole. A folder is locked while
what is in it is compared and replaced. Here are the local files; ``arrow_outputs`` has what pyarrow reaches.
Flink: ``FsCheckpointStreamFactory``, ``FsCheckpointMetadataOutputStream``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

from pyspark_savepoint.formats.errors import ConcurrentWriteError, OutputError, SavepointError
from pyspark_savepoint.formats.io.local_input import NOT_THERE, local_error
from pyspark_savepoint.formats.io.snapshot_files import Published

if sys.platform != "win32":  # Windows has no locks on folders: there only the names of files keep two writers apart.
    import fcntl

CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
#: How often a folder is deleted that others still write to.
DELETIONS = 10
#: File systems without hard links say one of these.
NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})
REMEDIES = {
    errno.ENOSPC: "free space there, or write elsewhere; nothing was published, and what was there is as it was",
    errno.EDQUOT: "the quota of this user is used up: free space there, or write elsewhere",
    errno.EFBIG: "the limit on the size of files (ulimit -f) is too low, or the file system has one: "
    "raise it, or write with a greater parallelism",
    errno.EACCES: "give the user that runs Spark's executors and driver the right to write there",
    errno.EPERM: "give the user that runs Spark's executors and driver the right to write there",
    errno.EROFS: "the file system is read-only: write elsewhere",
}


def refuse(error: OSError, path: str) -> NoReturn:
    """Raise what a user can act on."""
    raise OutputError(
        "a file of the savepoint cannot be written",
        path=path,
        found=error.strerror or str(error),
        remedy=REMEDIES.get(error.errno or 0),
    ) from None


# -- local --------------------------------------------------------------------------------------------------


class LocalOutputFile:
    """A new file of this machine, without a buffer of its own."""

    def __init__(self, path: str, durable: bool = True) -> None:
        self.path = path
        self.size = 0
        self._durable = durable
        try:
            self._descriptor = os.open(path, CREATE_FLAGS, 0o666)
        except OSError as error:
            refuse(error, path)

    def write(self, buffer: Any) -> None:
        """All bytes of a buffer."""
        rest = memoryview(buffer).cast("B")
        try:
            while rest:
                count = os.write(self._descriptor, rest)
                self.size += count
                rest = rest[count:]
        except OSError as error:
            refuse(error, self.path)

    def close(self) -> None:
        """Flush to the disk: a savepoint is not published before its files would outlive a power failure."""
        try:
            if self._durable:
                os.fsync(self._descriptor)
            self._close()
        except OSError as error:
            refuse(error, self.path)

    def abort(self) -> None:
        if self._descriptor >= 0:
            self._close()
            _delete(self.path)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)


class LocalOutputs:
    """What a local file system does to write."""

    __slots__ = ()

    @property
    def renames(self) -> bool:
        """Whether :meth:`move` costs nothing."""
        return True

    def open_output(self, path: str, *, durable: bool = True) -> LocalOutputFile:
        """A new file; OutputError where one is there, or none can be. Only a durable one outlives a power failure."""
        return LocalOutputFile(path, durable)

    def create_directory(self, path: str) -> None:
        """The folder, and those above it that are missing."""
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            refuse(error, path)

    def delete_file(self, path: str) -> None:
        """The file, where it is there."""
        try:
            _delete(path)
        except OSError as error:
            refuse(error, path)

    def delete_directory(self, path: str) -> None:
        """The folder and all in it, where it is there; links in it are not followed."""
        for attempt in range(DELETIONS):
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                return
            except OSError as error:
                # Somebody has put a file there meanwhile.
                if error.errno != errno.ENOTEMPTY or attempt == DELETIONS - 1:
                    refuse(error, path)

    def delete_empty_directory(self, path: str) -> None:
        """The folder, where it is there and empty."""
        with contextlib.suppress(OSError):
            os.rmdir(path)

    def move(self, source: str, target: str) -> None:
        """Give a file another name on the same file system; nothing may have that name."""
        try:
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            os.rename(source, target)
        except OSError as error:
            refuse(error, target)

    def read_published(self, path: str) -> Published | None:
        """A published file as it is now, whole; None where there is none."""
        try:
            with open(path, "rb") as file:
                return Published(file.read())
        except OSError as error:
            if error.errno in NOT_THERE:
                return None
            raise local_error(error, path) from None

    def publish(self, path: str, data: bytes, over: Published | None = None) -> None:
        """A file that appears whole; ConcurrentWriteError if one is there, and none was read."""
        folder, name = os.path.split(path)
        temporary = LocalOutputFile(os.path.join(folder, temporary_name(name)))
        try:
            temporary.write(data)
            temporary.close()
            if over is not None:
                os.replace(temporary.path, path)
            else:
                _link(temporary.path, path)
        except SavepointError:
            raise
        except OSError as error:
            refuse(error, path)
        finally:
            # What is published is published, also where this cannot be deleted.
            with contextlib.suppress(OSError):
                temporary.abort()
                _delete(temporary.path)
        _flush_directory(folder)

    @contextlib.contextmanager
    def lock(self, directory: str) -> Iterator[None]:
        """Hold a folder against other writers of this package; the system lets go where a process dies."""
        if sys.platform == "win32":
            yield
            return
        descriptor = os.open(directory, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            with contextlib.suppress(OSError):  # a file system without locks: the publishing itself stays exclusive
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def temporary_name(name: str) -> str:
    """What a file is called before it is published."""
    return f".{name}.{secrets.token_hex(6)}"


def _delete(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _link(temporary: str, path: str) -> None:
    """Give the finished file its name, which nobody else may have taken."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise already_there(path) from None
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        _claim(temporary, path)


def _claim(temporary: str, path: str) -> None:
    """Without hard links: take the name first, then put the finished file over it."""
    try:
        os.close(os.open(path, CREATE_FLAGS, 0o666))
    except FileExistsError:
        raise already_there(path) from None
    os.replace(temporary, path)


def _flush_directory(folder: str) -> None:
    """Make names last, where a folder can be flushed."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def already_there(path: str) -> ConcurrentWriteError:
    """Somebody else published there."""
    return ConcurrentWriteError(
        "another writer has published a savepoint at this path",
        path=path,
        remedy="nothing of this write was published: see what is there now, and write again",
    )
