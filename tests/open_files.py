"""The files that this process has open, those without names too."""

from __future__ import annotations

import os
from pathlib import Path


def open_files(folder: Path) -> list[Path]:
    """Return the descriptors of files that were opened in a folder; ``stat`` follows them."""
    descriptors = [path for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return [path for path in descriptors if os.readlink(path).startswith(str(folder))]
