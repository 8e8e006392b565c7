"""Numbers as people read them, and files that people read."""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark_savepoint.formats.errors import OutputError, SavepointError
from pyspark_savepoint.formats.io.outputs import REMEDIES

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
#: What is not a file, by the type of its mode.
NO_FILES = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def readable_size(size: float) -> str:
    """Return a number of bytes in a readable unit.

    >>> readable_size(900), readable_size(1012), readable_size(57_344), readable_size(3 << 31)
    ('900 bytes', '1012 bytes', '56 KiB', '6 GiB')
    """
    unit = 0
    while size >= 1024 and unit < len(UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.3g} {UNITS[unit]}" if size < 999.5 else f"{size:.0f} {UNITS[unit]}"


def numbered(number: int, one: str, several: str | None = None) -> str:
    """Return a number of things.

    >>> numbered(1, "operator"), numbered(2, "operator"), numbered(0, "entry", "entries")
    ('1 operator', '2 operators', '0 entries')
    """
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def is_integer(word: str) -> bool:
    """Return whether a word is what Python writes for an integer, of at most a thousand digits.

    >>> is_integer("-7"), is_integer("07"), is_integer("7.0")
    (True, False, False)
    """
    digits = word.removeprefix("-")
    return len(digits) <= 1000 and digits.isdecimal() and digits.isascii() and str(int(word)) == word


def writable(target: Path) -> Path:
    """Return where a file is written: the target itself, or what a link names.

    Raises:
        OutputError: If there is no such folder, or what is there is no file: a rename would put a file in the place of
            a device, and a pipe would wait for a reader.

    """
    kind = stat.S_IFREG
    try:
        file = target.resolve() if target.is_symlink() else target
        with suppress(FileNotFoundError, NotADirectoryError):
            kind = stat.S_IFMT(file.stat().st_mode)
    except (OSError, RuntimeError, ValueError) as error:  # a link to itself, a name of too many bytes, a NUL in it
        number = getattr(error, "errno", None)
        raise OutputError("the file cannot be written", path=str(target), found=_why(number, error)) from None
    if kind != stat.S_IFREG:
        raise OutputError(
            "the file cannot be written",
            path=str(target),
            found=NO_FILES.get(kind, "no file"),
            expected="a file, or a new name",
            remedy="name another file",
        )
    if not file.absolute().parent.is_dir():
        raise OutputError(
            "there is no such folder", path=str(file.absolute().parent), remedy="make it, or name another file"
        )
    return file


@contextmanager
def replacing(target: Path, mode: int = 0o666) -> Iterator[Path]:
    """Yield an empty file beside the target; rename it to the target at the end, remove it on failure.

    The file has a random name. In a shared folder nobody can put a link or a pipe there beforehand.
    """
    target = writable(target)
    pending = target.with_name(f".{secrets.token_hex(8)}.pending")
    try:
        os.close(os.open(pending, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        yield pending
        pending.replace(target)
    except OSError as error:
        if isinstance(error, SavepointError):
            raise
        raise OutputError(
            "the file cannot be written",
            path=str(target),
            found=_why(error.errno, error),
            remedy=REMEDIES.get(error.errno or 0, "name a file in another folder"),
        ) from None
    finally:
        with suppress(OSError):
            pending.unlink()


def _why(number: int | None, error: Exception) -> str:
    return os.strerror(number) if number else str(error)


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
