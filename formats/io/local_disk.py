"""Local disk for data that does not fit into memory: unnamed temporary files in the local folders of executors."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any

from pyspark_savepoint.formats.errors import SavepointError, SpillError


def local_directory() -> str:
    """Return the folder for temporary files: the first existing local folder of the executor, else the system's."""
    folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return next((folder for folder in folders if folder and os.path.isdir(folder)), tempfile.gettempdir())


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
