"""The one decorator of all kernels, and where compiled code is kept.

Kernels are module-level functions over numpy arrays: no objects, no exceptions, no bounds checks by numba. Every
kernel takes the end, stops at it, and returns the failing row (or -1). Input buffers are always writable arrays that
we own, so that numba sees one type per argument and compiles once.

numba keeps machine code beside the sources; where that folder cannot be written (a read-only install), and no
``NUMBA_CACHE_DIR`` says otherwise, it goes to the user's cache folder, else to a folder of the system's temporary one.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def _cache_folder() -> str | None:
    """A writable folder for machine code, or None where numba's own choice (beside the source) is fine."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        return None
    beside = Path(__file__).parent / "__pycache__"
    if os.access(beside if beside.exists() else beside.parent, os.W_OK):
        return None
    user = getattr(os, "getuid", lambda: 0)()
    candidates = [
        Path("~/.cache/pyspark-savepoint/numba"),
        Path(tempfile.gettempdir()) / f"pyspark-savepoint-{user}",
    ]
    for candidate in candidates:
        try:
            folder = candidate.expanduser()
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (OSError, RuntimeError):
            continue
        # A folder of somebody else could hold code of somebody else's choice.
        if os.access(folder, os.W_OK) and (not hasattr(os, "getuid") or folder.stat().st_uid == user):
            return str(folder)
    return ""


_folder = _cache_folder()
if _folder:
    os.environ["NUMBA_CACHE_DIR"] = _folder

import numba  # noqa: E402  (reads NUMBA_CACHE_DIR when it is imported)


def kernel(function: F) -> F:
    """Compile on first call, without the GIL; kept on disk where a folder can be written."""
    compiled: Any = numba.njit(nogil=True, cache=_folder != "", boundscheck=False, error_model="numpy")(function)
    return compiled  # type: ignore[no-any-return]


def inline(function: F) -> F:
    """A helper that other kernels call: always inlined, so that loads of bytes become one instruction."""
    compiled: Any = numba.njit(nogil=True, inline="always", boundscheck=False, error_model="numpy")(function)
    return compiled  # type: ignore[no-any-return]
