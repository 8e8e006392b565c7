"""Data sets that real Flink wrote: an archive each, unpacked once per machine (README.md says what is in them).

A data set ``NAME`` is the archive ``NAME.tar.xz`` beside this file, whose entries begin with ``NAME/``. All of them are
unpacked beside one another into a folder that the SHA-256 of the archives names, in ``~/.cache/pyspark-savepoint``.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import lzma
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

from pyspark_savepoint.command_line.warming import unpack as unpack_archive

ARCHIVES = Path(__file__).parent
CACHE = Path("~/.cache/pyspark-savepoint/test-data")
#: The time of all unpacked files, 2000-01-01: archives have none, and ZIP files know none before 1980.
TIME = 946_684_800
#: Names a folder with test resources of Flink itself (tests/README.md); tests that need them are left out without it.
RESOURCES = "FLINK_TEST_RESOURCES"


def archives() -> list[Path]:
    """The archives of all data sets."""
    return sorted(ARCHIVES.glob("*.tar.xz"))


@functools.cache
def unpacked() -> Path:
    """Unpack all data sets unless an earlier run did, and return the folder that has one folder for each.

    Processes that do it at the same time do not disturb one another. Tests only read the folder: what a test changes,
    it copies. Where no folder of the user's can be written, it is a temporary one of this process.
    """
    mark = hashlib.sha256(str(TIME).encode())
    for archive in archives():
        mark.update(archive.name.encode() + hashlib.sha256(archive.read_bytes()).digest())
    try:
        folder = CACHE.expanduser() / mark.hexdigest()[:16]
        folder.parent.mkdir(parents=True, exist_ok=True)
        if not folder.is_dir():
            _fill(folder)
    except (OSError, RuntimeError):  # RuntimeError: nobody's home is known
        folder = Path(tempfile.mkdtemp(prefix="pyspark-savepoint-test-data-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        unpack(folder)
    return folder


def every_metadata() -> list[Path]:
    """Return the `_metadata` of each snapshot of the data sets, and of Flink's test resources where they are given.

    Not those of histories: they are of one job, again and again.
    """
    folders = [unpacked(), *([Path(os.environ[RESOURCES]).resolve(strict=True)] if RESOURCES in os.environ else [])]
    found = sorted(path for folder in folders for path in folder.rglob("_metadata"))
    return [path for path in found if not path.is_relative_to(unpacked() / "history")]


def located(name: str) -> Path:
    """Return a file or folder of the data sets or, where they have none of this name, of Flink's test resources."""
    own = unpacked() / name
    return own if own.exists() or RESOURCES not in os.environ else Path(os.environ[RESOURCES]).resolve() / name


def _fill(folder: Path) -> None:
    """Make `folder` with all of its files at once; of several processes, the first one wins."""
    scratch = Path(tempfile.mkdtemp(prefix=folder.name + ".", dir=folder.parent))
    try:
        unpack(scratch)
        scratch.chmod(0o755)
        scratch.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def unpack(folder: Path) -> None:
    """Unpack all data sets into a folder."""
    for archive in archives():
        unpack_archive(archive, folder)
    for path in folder.rglob("*"):
        os.utime(path, (TIME, TIME))


def pack(name: str, folder: Path) -> Path:
    """Make the archive of a data set of what a folder holds; equal files make equal archives.

    Times, owners and modes of the files are not kept.
    """
    paths = sorted(folder.rglob("*"))
    if not paths:
        raise ValueError(f"there are no files in {folder}")
    archive = ARCHIVES / f"{name}.tar.xz"
    scratch = archive.with_suffix(f".{os.getpid()}")
    with (
        lzma.open(scratch, "wb", preset=9 | lzma.PRESET_EXTREME) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in paths:
            entry = tarfile.TarInfo(f"{name}/{path.relative_to(folder).as_posix()}")
            if path.is_dir():
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(entry)
                continue
            entry.size = path.stat().st_size
            with path.open("rb") as content:
                tar.addfile(entry, content)
    scratch.rename(archive)
    return archive
