"""Kernels that check every index: numba's ``NUMBA_BOUNDSCHECK`` has precedence over their decorator.

Such machine code has a cache of its own, because numba does not tell it from code without checks. An index out of
bounds is an IndexError, which fuzzing reports as it does every error that is not of this package.
"""

from __future__ import annotations

import os
from pathlib import Path

#: Targets whose inputs reach kernels: files of state, and values.
TARGETS = ("canonical", "heap", "rocksdb", "changelog", "kryo", "avro")
#: Where machine code with checks is kept, so that only the first run compiles; about a minute.
CACHE = "~/.cache/pyspark-savepoint/numba-bounds"


def checked() -> dict[str, str]:
    """Return the environment of processes whose kernels check every index; they are compiled for small inputs too."""
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or CACHE).expanduser()
    cache = folder if folder.name.endswith("bounds") else folder.with_name(f"{folder.name}-bounds")
    return {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache), "PYSPARK_SAVEPOINT_KERNELS": "compiled"}
