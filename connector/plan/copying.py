"""Copies of the files of untouched operators in a new savepoint, made by the driver, several at a time."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from pyspark_savepoint.formats.snapshot.publication import Staging
from pyspark_savepoint.formats.snapshot.relocation import FileCopy

COPIERS = 8
#: Seconds between two reports of progress.
TELL_EVERY = 5.0


def copy_files(copies: Sequence[FileCopy], staging: Staging) -> None:
    """Copy all files, several at a time, the largest first; long copying prints its progress."""
    progress = Progress(len(copies), sum(copy.size for copy in copies))

    def run(copy: FileCopy) -> None:
        progress.add(copy.run(staging.create_state))

    with ThreadPoolExecutor(COPIERS) as pool:
        for _ in pool.map(run, sorted(copies, key=lambda copy: -copy.size)):
            pass


class Progress:
    """Prints the progress of long copying to standard error."""

    def __init__(self, files: int, size: int) -> None:
        self.files, self.size = files, size
        self._done, self._copied = 0, 0
        self._said = time.monotonic()
        self._lock = threading.Lock()

    def add(self, size: int) -> None:
        """Count a copied file."""
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
