"""Files of untouched operators, copied into a new savepoint from the driver, some at a time."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from pyspark_savepoint.formats.snapshot.publication import Staging
from pyspark_savepoint.formats.snapshot.relocation import FileCopy

COPIERS = 8
#: Seconds between two lines about long copying.
TELL_EVERY = 5.0


def copy_files(copies: Sequence[FileCopy], staging: Staging) -> None:
    """All files, some at a time, the largest first; a line now and then where it takes long."""
    progress = Progress(len(copies), sum(copy.size for copy in copies))

    def run(copy: FileCopy) -> None:
        progress.add(copy.run(staging.create_state))

    with ThreadPoolExecutor(COPIERS) as pool:
        for _ in pool.map(run, sorted(copies, key=lambda copy: -copy.size)):
            pass


class Progress:
    """Says how far long copying is, on standard error."""

    def __init__(self, files: int, size: int) -> None:
        self.files, self.size = files, size
        self._done, self._copied = 0, 0
        self._said = time.monotonic()
        self._lock = threading.Lock()

    def add(self, size: int) -> None:
        """One file was copied."""
        with self._lock:
            self._done, self._copied = self._done + 1, self._copied + size
            now = time.monotonic()
            if now - self._said >= TELL_EVERY:
                self._said = now
                print(
                    f"savepoint: copied {self._done} of {self.files} files, "
                    f"{self._copied / 1e9:.1f} of {self.size / 1e9:.1f} GB",
                    file=sys.stderr,
                    flush=True,
                )
