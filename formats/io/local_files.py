"""Local files: regular ones, read at any position into the caller's buffer, and unnamed temporary ones.

Temporary files hold data that does not fit into memory, in the local folders of executors.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from typing import Any

from pyspark_savepoint.formats.errors import (
    MISSING,
    AccessDeniedError,
    CorruptStateError,
    SavepointError,
    SpillError,
    StateFileNotFoundError,
    StorageError,
    UnsafePathError,
)

NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL})
#: Errors of opening sockets, and devices that do not exist.
NO_FILE = frozenset({errno.ENXIO, errno.ENODEV})
# Links are resolved before and not followed here, and opening a named pipe must not block.
OPEN_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)


def local_error(error: OSError, path: str) -> SavepointError:
    """Return the SavepointError for an error of the operating system."""
    if error.errno in NOT_THERE:
        return StateFileNotFoundError("a file of the snapshot is missing", path=path, remedy=MISSING)
    if error.errno in NO_FILE:
        return UnsafePathError("not a regular file", path=path, expected="a file of the snapshot")
    if error.errno == errno.ELOOP:
        return UnsafePathError("a symbolic link is broken, or leads out of the snapshot", path=path)
    if isinstance(error, PermissionError):
        return AccessDeniedError(
            "this user has no permission to read the file",
            path=path,
            remedy="give read permission to the user that runs Spark's driver and executors",
        )
    return StorageError("the file system cannot read this file", path=path, found=error.strerror or str(error))


def real_path(path: str, file: str | None = None) -> str:
    """Return the path of an existing file or folder without links; raise a SavepointError if there is none.

    The error names ``file``, the file in that folder that is looked for.

    Strictly: else every part below one that does not exist would be looked up, at a cost of the whole path each.
    """
    try:
        return os.path.realpath(path, strict=True)
    except OSError as error:
        raise local_error(error, file or path) from None


class LocalInputFile:
    """An unbuffered regular file."""

    def __init__(self, real: str, path: str) -> None:
        try:
            descriptor = os.open(real, OPEN_FLAGS)
        except OSError as error:
            raise local_error(error, path) from None
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise UnsafePathError("not a regular file", path=path, expected="a file of the snapshot")
        self.path, self.real = path, real
        self.size = status.st_size
        self.modified: float | None = status.st_mtime
        self._file = os.fdopen(descriptor, "rb", buffering=0)

    def read_into(self, start: int, buffer: Any) -> None:
        """Fill the whole writable buffer with the bytes from ``start`` on."""
        try:
            self._file.seek(start)
            fill(self._file, buffer, self.path, start)
        except OSError as error:
            if isinstance(error, SavepointError):
                raise
            raise local_error(error, self.path) from None

    def expect(self, start: int, count: int) -> None:
        """Do nothing: the operating system reads ahead."""

    def is_at(self, path: str) -> bool:
        """Return whether a path is another name of this very file."""
        return os.path.samestat(os.fstat(self._file.fileno()), os.lstat(path))

    def flush(self) -> None:
        """Make the file durable, whoever wrote it."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def read_regular(path: str, limit: int, *, in_folder: bool = False) -> bytes:
    """Return the content of a regular file; links to one are followed, with ``in_folder`` only in the file's folder.

    Raises UnsafePathError for a named pipe, a device or anything else that could block or never end, and for a file of
    more than ``limit`` bytes.
    """
    real = real_path(path)
    if in_folder and os.path.dirname(real) != real_path(os.path.dirname(path), path):
        raise leads_out(path, real, os.path.dirname(path))
    file = LocalInputFile(real, path)
    try:
        if file.size > limit:
            raise too_large(path, file.size, limit)
        data = bytearray(file.size)
        file.read_into(0, data)
    finally:
        file.close()
    return bytes(data)


def leads_out(path: str, real: str, folder: object) -> UnsafePathError:
    """Return the error for a link to a file elsewhere, which whoever wrote the folder must not name."""
    return UnsafePathError(
        "a symbolic link leads out of the snapshot", path=path, found=real, expected=f"a file below {folder}"
    )


def too_large(path: str, size: int, limit: int) -> UnsafePathError:
    """Return the error for a file that cannot be what its name says."""
    return UnsafePathError("the file is too large", path=path, expected=f"at most {limit} bytes", found=f"{size} bytes")


def fill(file: Any, buffer: Any, path: str, start: int) -> None:
    """Read until the buffer is full; raise CorruptStateError if the file ends before that."""
    target = memoryview(buffer).cast("B")
    done = 0
    while done < len(target):
        count = file.readinto(target[done:])
        if not count:
            raise truncated(path, start + done, f"{len(target) - done} more bytes")
        done += count


def truncated(path: str, offset: int, expected: str, found: str = "the end of the file") -> CorruptStateError:
    """Return the error for a file that ends too early."""
    return CorruptStateError(
        "the file is truncated",
        path=path,
        offset=offset,
        expected=expected,
        found=found,
        remedy="copy the file from its origin again",
    )


def local_directory() -> str:
    """Return the folder for temporary files: the first existing local folder of the executor, else the system's."""
    folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return next((folder for folder in folders if folder and os.path.isdir(folder)), None) or _temporary_folder()


def _temporary_folder() -> str:
    try:
        return tempfile.gettempdir()
    except FileNotFoundError as error:
        raise SpillError(
            "there is no folder for temporary files",
            expected="a folder in which this user can write",
            found=str(error.strerror or error),
            remedy="set TMPDIR to such a folder (with Spark: SPARK_LOCAL_DIRS of the executors)",
        ) from None


def temporary_file(what: str, directory: str | None = None) -> Any:
    """Open a new unnamed temporary file, which is deleted when it is closed."""
    return tempfile.TemporaryFile(prefix=f"savepoint-{what}-", dir=directory or local_directory())


@contextlib.contextmanager
def spilling(directory: str | None = None) -> Iterator[None]:
    """Raise SpillError if reading or writing on the local disk fails."""
    try:
        yield
    except OSError as error:
        if isinstance(error, SavepointError):
            raise
        raise SpillError(
            f"rows that do not fit into memory could not be spilled to local disk: {error.strerror or error}",
            path=directory or local_directory(),
            expected="free space for the serialized state of all rows of a task",
            remedy="free space there, or set SPARK_LOCAL_DIRS (else TMPDIR) of the executors to a larger disk; "
            "more memory per task (option 'sortMemory' of writes, 'memory' of reads) spills less",
        ) from error


def discard(file: Any) -> None:
    """Close and thereby delete a temporary file; errors are ignored, because a full disk was already reported."""
    with contextlib.suppress(OSError):
        file.close()


def cpus() -> int:
    """Return the number of CPUs that this process may use.

    Spark does not pass its configuration or number of cores to the process that plans a Python source: these are the
    CPUs of the driver's machine, all of a local session.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
