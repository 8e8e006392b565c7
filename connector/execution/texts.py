"""Numbers as people read them, and files that people read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark_savepoint.formats.errors import OutputError, SavepointError

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def readable_size(size: float) -> str:
    """Return a number of bytes in a readable unit.

    >>> readable_size(900), readable_size(57_344), readable_size(3 << 31)
    ('900 bytes', '56 KiB', '6 GiB')
    """
    unit = 0
    while size >= 1024 and unit < len(UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.3g} {UNITS[unit]}"


def numbered(number: int, one: str, several: str | None = None) -> str:
    """Return a number of things.

    >>> numbered(1, "operator"), numbered(2, "operator"), numbered(0, "entry", "entries")
    ('1 operator', '2 operators', '0 entries')
    """
    return f"{number:,} {one if number == 1 else several or one + 's'}"


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside the target; rename it to the target at the end, remove it on failure."""
    pending = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        yield pending
        pending.replace(target)
    except OSError as error:
        if isinstance(error, SavepointError):
            raise
        found = os.strerror(error.errno) if error.errno else str(error)
        raise OutputError("the file cannot be written", path=str(target), found=found) from None
    finally:
        with suppress(FileNotFoundError, NotADirectoryError):
            pending.unlink()


def without_traces(text: str) -> str:
    r"""Return an error of Spark without its plan and stack traces; of one in a task, the error of Python.

    >>> without_traces("[UNRESOLVED_COLUMN] no column `totl`; line 1 pos 7;\n'Project ['totl]\n+- Relation [key#1]\n")
    '[UNRESOLVED_COLUMN] no column `totl`; line 1 pos 7'
    """
    text = text.strip().partition("\n\nJVM stacktrace")[0]
    raised = text.rfind("\npyspark_savepoint.")
    if raised >= 0:
        text = text[raised:].partition(": ")[2].partition("\n\n")[0]
    return re.split(r";\n(?='?[A-Z]\w*\b[ \[(])", text)[0].rstrip()
