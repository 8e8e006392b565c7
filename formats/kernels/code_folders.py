"""Where machine code of kernels is: what came with the job, then the cache of this machine.

Compiled code is kept in the folder of ``NUMBA_CACHE_DIR``, else next to the sources, else (a read-only install) in the
user's cache folder, else in the system's temporary folder: the first of these that is writable, and that nobody else
may write to (:mod:`~pyspark_savepoint.formats.kernels.cache_folders`). That is looked at again whenever a kernel is
loaded: if it is no longer so, the kernel is compiled in memory.

``PYSPARK_SAVEPOINT_CODE`` names a folder, or the zip file, that ``pyspark-savepoint warm-up --file`` made on another
machine. It is used under the same rules, if it was made with the same Python, numba and kernels, for a processor that
has no more than this one.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pyspark_savepoint.formats.kernels.cache_folders import reason_against, reason_against_file
from pyspark_savepoint.formats.kernels.object_code import Target, builds, features, this_machine

#: Names what came with the job.
VARIABLE = "PYSPARK_SAVEPOINT_CODE"
#: The file of a pack that says what its code is for.
MANIFEST = "target.json"
SUFFIX = ".code"

#: Processors that others of a family can do at least, and what their code uses: the levels of x86-64's psABI.
_V2 = ("cx16", "sahf", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
BASELINES: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {"x86-64": (), "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4},
    "aarch64": {"generic": ()},
    "arm64": {"generic": ()},
}


def baselines() -> dict[str, tuple[str, ...]]:
    """Return the names of the baselines of this machine's family, and what each needs."""
    return BASELINES.get(this_machine().triple.partition("-")[0], {"generic": ()})


def lacking(cpu: str) -> tuple[str, ...]:
    """Return the features of a baseline that this machine has not."""
    here = features()
    return tuple(each for each in baselines().get(cpu, ()) if not here.get(each, False))


# -- the cache -------------------------------------------------------------------------------------------------------


def cache_folder() -> Path | None:
    """Return the folder for machine code; None if there is none that can be written."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given and _can_be_written(Path(given)):
        return Path(given)
    beside = Path(__file__).parent / "__pycache__"
    if os.access(beside if beside.exists() else beside.parent, os.W_OK) and reason_against(beside) is None:
        return beside
    user = getattr(os, "getuid", lambda: 0)()
    for candidate in ("~/.cache/pyspark-savepoint/kernels", f"{tempfile.gettempdir()}/pyspark-savepoint-{user}"):
        try:
            folder = Path(candidate).expanduser()
        except RuntimeError:  # the user has no home folder
            continue
        if _can_be_written(folder) and reason_against(folder) is None:
            return folder
    return None


def _can_be_written(folder: Path) -> bool:
    """Return whether a folder can be written; create it if it does not exist."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def read_file(file: Path) -> tuple[bytes | None, str | None]:
    """Return what a file of code has, and why it is not used although it is there."""
    reason = reason_against(file.parent) or reason_against_file(file)
    if reason is not None:
        return None, reason
    try:
        return file.read_bytes(), None
    except OSError:
        return None, None


def write_file(file: Path, data: bytes) -> None:
    """Write a file of code at once, unless its folder can no longer be written."""
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
            os.replace(name, file)
        except OSError:
            os.unlink(name)
            raise


@contextmanager
def one_process(lock: Path | None) -> Iterator[None]:
    """Let one process at a time compile a kernel: the others find it in the cache afterwards. None: without a cache."""
    if lock is None:
        yield
        return
    import fcntl

    try:
        lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:  # it can no longer be written
        yield
        return
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


# -- what came with the job ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pack:
    """Machine code that was made elsewhere: a folder, or a zip file."""

    path: Path
    target: Target

    def read(self, name: str) -> bytes | None:
        """Return a file of it; None if it has none of this name, or if others may have written it since."""
        return _member(self.path, name)[0]


def _member(path: Path, name: str) -> tuple[bytes | None, str | None]:
    if path.is_dir():
        return read_file(path / name)
    data, reason = read_file(path)
    if data is None:
        return None, reason
    with suppress(KeyError, zipfile.BadZipFile, OSError), zipfile.ZipFile(path) as archive:
        return archive.read(name), None
    return None, None


@cache
def shipped(path: str) -> tuple[Pack | None, str | None]:
    """Return the code at a path, or why it is not used."""
    folder = Path(os.path.realpath(path))
    data, reason = _member(folder, MANIFEST)
    if data is None:
        return None, reason or f"{path} has no {MANIFEST}"
    try:
        told = json.loads(data)
        target = Target(**told["target"])
        made = {str(name): str(value) for name, value in told["made with"].items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return None, f"{MANIFEST} of {path} says not what its code is for"
    for name, here in builds().items():
        if made.get(name) != here:
            return None, f"it was made with {name} {made.get(name)!r}, and this is {here!r}"
    if target.triple != this_machine().triple:
        return None, f"it was made for {target.triple}, and this is {this_machine().triple}"
    missing = lacking(target.cpu) if target.cpu in baselines() else (target.cpu,)
    if missing:
        return None, f"it was made for {target.cpu}, and this processor has no {', '.join(missing)}"
    return Pack(folder, target), None


def write_pack(folder: Path, file: Any) -> int:
    """Pack the code of a cache folder that was compiled for this process's processor; return the number of kernels."""
    names = sorted(path.name for path in folder.iterdir() if path.suffix == SUFFIX)
    told = {"target": asdict(this_machine()), "made with": builds()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in [
            (MANIFEST, json.dumps(told, indent=1).encode()),
            *((name, (folder / name).read_bytes()) for name in names),
        ]:
            entry = zipfile.ZipInfo(name)  # of 1980: the same code is the same file
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
            archive.writestr(entry, data)
    return len(names)
