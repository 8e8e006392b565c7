"""Output files: written completely or not at all, and never over an existing file.

A file is created under a unique name, written sequentially, and either closed, which makes it durable, or aborted,
which deletes it. The file that makes a snapshot visible is published: it appears at once, as a whole. A folder is
locked while its content is compared and replaced. This module has the local files, ``arrow_outputs`` those of pyarrow.
Flink: ``FsCheckpointStreamFactory``, ``FsCheckpointMetadataOutputStream``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NoReturn

from pyspark_savepoint.formats.errors import (
    ConcurrentWriteError,
    FileReplacedError,
    OutputError,
    SavepointError,
    StateFileNotFoundError,
)
from pyspark_savepoint.formats.io.local_files import LocalInputFile, local_error, read_regular
from pyspark_savepoint.formats.io.snapshot_files import MAX_PUBLISHED, Anchor, Published, SnapshotFileSystem

if sys.platform != "win32":  # Windows has no locks on folders: there only unique file names separate two writers.
    import fcntl

CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# A folder that was replaced by a named pipe must not block.
FOLDER_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NONBLOCK", 0)
#: Attempts to delete a folder that other processes still write to.
DELETIONS = 10
#: Attempts to create a folder whose parent is there.
CREATIONS = 3
#: Errors of file systems without hard links.
NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})
REMEDIES = {
    errno.ENOSPC: "free space there, or write elsewhere; nothing was published, and an existing savepoint is unchanged",
    errno.EDQUOT: "the quota of this user is used up: free space there, or write elsewhere",
    errno.EFBIG: "the limit on the size of files (ulimit -f) is too low, or the file system has one: "
    "raise it, or write with a greater parallelism",
    errno.EACCES: "give the user that runs this (with Spark: its driver and executors) the right to write there",
    errno.EPERM: "give the user that runs this (with Spark: its driver and executors) the right to write there",
    errno.ENOENT: "no folder can be made there: check the path, or write elsewhere",
    errno.ENOTDIR: "a part of the path is a file, not a folder: check the path, or write elsewhere",
    errno.ENAMETOOLONG: "a name in the path is too long: write to a shorter one",
    errno.ELOOP: "links of the path lead in a circle: write elsewhere",
    errno.EROFS: "the file system is read-only: write elsewhere",
}


def refuse(error: OSError, path: str) -> NoReturn:
    """Raise an OSError as an OutputError with a remedy."""
    raise OutputError(
        "a file of the savepoint cannot be written",
        path=path,
        found=error.strerror or str(error),
        remedy=REMEDIES.get(error.errno or 0),
    ) from None


# -- local --------------------------------------------------------------------------------------------------


class LocalOutputFile:
    """A new unbuffered local file."""

    def __init__(self, path: str, durable: bool = True) -> None:
        self.path = path
        self.size = 0
        self._durable = durable
        try:
            self._descriptor = os.open(path, CREATE_FLAGS, 0o666)
        except OSError as error:
            refuse(error, path)

    def write(self, buffer: Any) -> None:
        """Write all bytes of a buffer."""
        rest = memoryview(buffer).cast("B")
        try:
            while rest:
                count = os.write(self._descriptor, rest)
                self.size += count
                rest = rest[count:]
        except OSError as error:
            refuse(error, self.path)

    def close(self) -> None:
        """Flush to disk and close: the files of a published savepoint must survive a power failure."""
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
    """Write operations of the local file system."""

    __slots__ = ()

    @property
    def renames(self) -> bool:
        """Return whether :meth:`move` is a cheap rename."""
        return True

    def open_output(self, path: str, *, durable: bool = True) -> LocalOutputFile:
        """Create a file; OutputError if that is impossible. Only a durable file survives a power failure."""
        return LocalOutputFile(path, durable)

    def create_directory(self, path: str) -> None:
        """Create the folder and its missing parents."""
        wanted = [path]  # os.makedirs calls itself for every part, and a path can have more of them than Python frames
        refused: Counter[str] = Counter()
        while wanted:
            try:
                os.mkdir(wanted[-1])
            except FileNotFoundError as error:
                # Another process may delete the parent meanwhile; folders of automounters, FUSE and /proc are there and
                # take none.
                refused[wanted[-1]] += 1
                if refused[wanted[-1]] > CREATIONS:
                    refuse(error, path)
                wanted.append(os.path.dirname(wanted[-1]))
                continue
            except OSError as error:
                if not os.path.isdir(wanted[-1]):
                    refuse(error, path)
            wanted.pop()

    def delete_file(self, path: str) -> None:
        """Delete the file if it exists."""
        try:
            _delete(path)
        except OSError as error:
            refuse(error, path)

    def delete_directory(self, path: str) -> None:
        """Delete the folder and its content if it exists; links are not followed."""
        for attempt in range(DELETIONS):
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                return
            except NotADirectoryError:
                if not os.path.lexists(path):  # a part of the path is a file
                    return
                raise
            except OSError as error:
                # Another process has created a file there in the meantime.
                if error.errno != errno.ENOTEMPTY or attempt == DELETIONS - 1:
                    refuse(error, path)

    def deletion(self, path: str) -> Callable[[], None]:
        """Return what deletes the folder and its content if it exists."""
        return partial(self.delete_directory, path)

    def delete_empty_directory(self, path: str) -> None:
        """Delete the folder if it exists and is empty."""
        with contextlib.suppress(OSError):
            os.rmdir(path)

    def move(self, source: str, target: str) -> None:
        """Rename a file within the same file system; the new name must not exist."""
        try:
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            os.rename(source, target)
        except OSError as error:
            refuse(error, target)

    def holds(self, source: SnapshotFileSystem) -> bool:
        """Return whether files of the other file system may be linked here."""
        return isinstance(source, LocalOutputs)

    def hold(self, source: SnapshotFileSystem, path: str, anchor: Anchor | None, target: str, size: int) -> bool:
        """Give a file another name, a hard link; return whether that is possible."""
        file = source.open_input(path, anchor)
        assert isinstance(file, LocalInputFile)
        try:
            os.link(file.real, target)
            if not file.is_at(target):
                os.unlink(target)
                raise FileReplacedError("a file was replaced while it was linked", path=path)
            file.flush()
        except FileNotFoundError as error:
            raise local_error(error, path) from None
        except OSError as error:
            if isinstance(error, SavepointError):
                raise
            if error.errno in NO_LINKS:
                return False
            refuse(error, target)
        finally:
            file.close()
        return True

    def read_published(
        self, path: str, limit: int = MAX_PUBLISHED, unless: Published | None = None
    ) -> Published | None:
        """Return the whole current content of a published file, a regular one; None if it does not exist."""
        try:
            return Published(read_regular(path, limit, in_folder=True))
        except StateFileNotFoundError:
            return None

    def publish(self, path: str, data: bytes, over: Published | None = None) -> None:
        """Write a file that appears as a whole; ConcurrentWriteError if it exists and ``over`` is None."""
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
            # The file is published even if its temporary name cannot be deleted.
            with contextlib.suppress(OSError):
                temporary.abort()
                _delete(temporary.path)
        _flush_directory(folder)

    @property
    def retry_seconds(self) -> float:
        """Return 0: the operating system makes requests of network file systems again."""
        return 0.0

    @property
    def verifies_uploads(self) -> bool:
        """Return False: a disk does not say what it has stored."""
        return False

    @property
    def requires_conditions(self) -> bool:
        """Return False: local files are published under a lock."""
        return False

    def lacks_conditions(self, path: str, probe: str, replacing: bool) -> bool:
        """Return False: the lock and exclusive names separate writers."""
        return False

    def try_conditions(self, probe: str, replacing: bool) -> None:
        """Do nothing: there is nothing to try."""

    @contextlib.contextmanager
    def lock(self, directory: str) -> Iterator[None]:
        """Lock a folder against other writers of this package; the lock ends when the process ends."""
        if sys.platform == "win32":
            yield
            return
        descriptor = os.open(directory, FOLDER_FLAGS)
        try:
            with contextlib.suppress(OSError):  # file systems without locks: publication itself is still exclusive
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def temporary_name(name: str) -> str:
    """Return a unique name for a file before it is published."""
    return f".{name}.{secrets.token_hex(6)}"


def _delete(path: str) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(path)


def _link(temporary: str, path: str) -> None:
    """Give the finished file its final name, which must not exist yet."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise already_there(path) from None
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        _claim(temporary, path)


def _claim(temporary: str, path: str) -> None:
    """Publish without hard links: create the final name exclusively, then replace it by the finished file."""
    try:
        os.close(os.open(path, CREATE_FLAGS, 0o666))
    except FileExistsError:
        raise already_there(path) from None
    os.replace(temporary, path)


def _flush_directory(folder: str) -> None:
    """Make new file names durable, where a folder can be flushed."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, FOLDER_FLAGS)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def already_there(path: str) -> ConcurrentWriteError:
    """Return the error for a file that another writer has published."""
    return ConcurrentWriteError(
        "another writer has published a savepoint at this path",
        path=path,
        remedy="nothing of this write was published: check the savepoint that is there now, then write again",
    )
