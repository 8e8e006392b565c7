"""Local disk for what does not fit into memory: temporary files without names, where Spark's executors keep theirs."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any

from pyspark_savepoint.formats.errors import SavepointError, SpillError


def local_directory() -> str:
    """Where a Spark executor keeps temporary files: the first of its local folders, else the system's."""
    folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return next((folder for folder in folders if folder and os.path.isdir(folder)), tempfile.gettempdir())


def temporary_file(what: str, directory: str | None = None) -> Any:
    """A new file that nobody else sees, and that is gone when it is closed."""
    return tempfile.TemporaryFile(prefix=f"savepoint-{what}-", dir=directory or local_directory())


@contextlib.contextmanager
def spilling(directory: str | None = None) -> Iterator[None]:
    """Raise SpillError where the local disk does not take more, or does not give back what it took."""
    try:
        yield
    except OSError as error:
        if isinstance(error, SavepointError):
            raise
        raise SpillError(
            f"rows that do not fit into memory cannot be kept on local disk: {error.strerror or error}",
            path=directory or local_directory(),
            expected="space for all rows of a task, as bytes of their state",
            remedy="free space there, or name a larger disk: SPARK_LOCAL_DIRS, else TMPDIR, of the executors; "
            "more memory per task (option 'sortMemory' of writes, 'memory' of reads) needs less disk",
        ) from error


def discard(file: Any) -> None:
    """Close a temporary file, which is its end; what a full disk has not taken needs no second complaint."""
    with contextlib.suppress(OSError):
        file.close()
