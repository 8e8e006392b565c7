"""Decorators of all kernels, and the cache folder of compiled code.

A kernel is interpreted while its inputs are small (:mod:`~pyspark_savepoint.formats.kernels.interpretation`).

Kernels are module-level functions over numpy arrays: no objects, no exceptions, no bounds checks by numba. Every
kernel gets the ends of its input, never reads beyond them, and returns the failing row (or -1). Input buffers are
always writable arrays allocated by this package, so that numba sees one type per argument and compiles once.

numba caches machine code in the folder of ``NUMBA_CACHE_DIR``, else next to the sources, else (a read-only install) in
the user's cache folder, else in the system's temporary folder: the first of these that is writable, and that nobody
else may write to (:mod:`~pyspark_savepoint.formats.kernels.cache_folders`). That is looked at again whenever a kernel
is loaded: if it is no longer so, the kernel is compiled in memory.
"""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pyspark_savepoint.formats.kernels.cache_folders import reason_against, reason_against_file
from pyspark_savepoint.formats.kernels.interpretation import EVERY_TIME, NOT_SAFE, Kernel, notice, one_process

F = TypeVar("F", bound=Callable[..., Any])


def _cache_folder() -> str | None:
    """Return a writable folder for machine code; None if numba's default (next to the source) is usable."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given and _can_be_written(Path(given)):
        return None
    compiled = Path(__file__).parent / "__pycache__"
    if os.access(compiled if compiled.exists() else compiled.parent, os.W_OK) and reason_against(compiled) is None:
        return None
    user = getattr(os, "getuid", lambda: 0)()
    candidates = [
        Path("~/.cache/pyspark-savepoint/numba"),
        Path(tempfile.gettempdir()) / f"pyspark-savepoint-{user}",
    ]
    for candidate in candidates:
        try:
            folder = candidate.expanduser()
        except RuntimeError:  # the user has no home folder
            continue
        if _can_be_written(folder) and reason_against(folder) is None:
            return str(folder)
    return ""


def _can_be_written(folder: Path) -> bool:
    """Return whether a folder can be written; create it if it does not exist."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


_folder = _cache_folder()
if _folder:
    os.environ["NUMBA_CACHE_DIR"] = _folder

import numba  # noqa: E402  (reads NUMBA_CACHE_DIR when it is imported)
from numba.core import event  # noqa: E402
from numba.core.caching import NullCache  # noqa: E402


def has_cache() -> bool:
    """Return whether machine code is kept on disk."""
    return _folder != ""


def kernel(function: F) -> F:
    """Compile on the first call that is not small, without the GIL; cached on disk if there is a writable folder."""
    compiled: Any = numba.njit(nogil=True, cache=has_cache(), boundscheck=False, error_model="numpy")(function)
    if not hasattr(compiled, "_compile_for_args"):  # with NUMBA_DISABLE_JIT it is the function itself
        return function
    compile_for = compiled._compile_for_args

    def compiled_for(*arguments: Any) -> Any:
        _expect_safe(compiled)
        with one_process(_lock_of(compiled)):
            return compile_for(*arguments)

    # numba calls this where it has no machine code for the types of the arguments, and then what it returns. Calls of
    # kernels that are loaded do not pass here, and take no longer.
    compiled._compile_for_args = Kernel(function, compiled_for, lambda: _is_cached(compiled))
    return compiled  # type: ignore[no-any-return]


def _has_cache_file(compiled: Any) -> bool:
    return hasattr(compiled._cache, "_cache_file")


def _expect_safe(compiled: Any) -> None:
    """Compile a kernel in memory from now on if others could have written its machine code."""
    if not _has_cache_file(compiled):
        return
    file = compiled._cache._cache_file
    folder, index = Path(file._cache_path), Path(file._index_path)
    reason = reason_against(folder) or next(
        filter(None, map(reason_against_file, (index, *folder.glob(f"{glob.escape(index.stem)}.*.nbc")))), None
    )
    if reason is not None:
        compiled._cache = NullCache()
        if notice.text is not None:
            notice.text = NOT_SAFE.format(reason=reason)


def _is_cached(compiled: Any) -> bool:
    """Return whether the cache has machine code of a kernel: of its source as it is, not of one before an upgrade."""
    _expect_safe(compiled)
    if not _has_cache_file(compiled):
        return False
    try:
        return bool(compiled._cache._cache_file._load_index())
    except OSError:
        return False


def _lock_of(compiled: Any) -> Path | None:
    """Return the file that a process locks while it compiles a kernel; None without a cache."""
    if not _has_cache_file(compiled):
        return None
    index = Path(compiled._cache._cache_file._index_path)
    with suppress(OSError):
        index.parent.mkdir(parents=True, exist_ok=True)
    return index.with_suffix(".lock")


def inline(function: F) -> F:
    """Compile a helper of kernels that is always inlined, so that loads of bytes become one instruction.

    LLVM inlines it. If numba did (``inline="always"``), it would infer the types of each copy, which takes twice as
    long for the same machine code.
    """
    compiled: Any = numba.njit(nogil=True, forceinline=True, boundscheck=False, error_model="numpy")(function)
    return compiled  # type: ignore[no-any-return]


class _Compilations(event.Listener):
    """Tells the notice when numba compiles; loading from the cache is none."""

    def on_start(self, event: Any) -> None:
        notice.begin()

    def on_end(self, event: Any) -> None:
        notice.end()


_register: Any = event.register
_register("numba:compile", _Compilations())
if not has_cache() and notice.text is not None:
    notice.text = EVERY_TIME
