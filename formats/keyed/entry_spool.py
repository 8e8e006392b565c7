"""Entries that wait for their turn, by state: in memory up to a bound, then in one temporary file without a name.

Within a key group states must follow one another, but rows bring all their states at once. What waits is at most one
key group, and a large one goes to local disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark_savepoint.formats.columns import Bytes
from pyspark_savepoint.formats.io.local_disk import discard, local_directory, spilling, temporary_file

READ = 1 << 20


class EntrySpool:
    """Bytes per state, drained in the order in which they came."""

    def __init__(self, memory: int, directory: str | None = None) -> None:
        self.memory = memory
        self.directory = directory or local_directory()
        self._pieces: dict[int, list[Bytes]] = {}
        self._size = 0
        self._file: Any = None
        self._end = 0
        self._extents: dict[int, list[tuple[int, int]]] = {}

    def append(self, state: int, data: Bytes) -> None:
        """Keep bytes of a state; they must not change afterwards."""
        self._pieces.setdefault(state, []).append(data)
        self._size += len(data)
        if self._size > self.memory:
            self._spill()

    def _spill(self) -> None:
        with spilling(self.directory):
            if self._file is None:
                self._file = temporary_file("spool", self.directory)
            for state, pieces in self._pieces.items():
                size = sum(len(piece) for piece in pieces)
                self._extents.setdefault(state, []).append((self._end, size))
                for piece in pieces:
                    self._file.write(piece.data)
                self._end += size
            self._file.flush()
        self._pieces.clear()
        self._size = 0

    def drain(self, state: int) -> Iterator[memoryview | bytes]:
        """All bytes of a state."""
        for start, size in self._extents.get(state, ()):
            self._file.seek(start)
            left = size
            while left:
                data = self._file.read(min(left, READ))
                left -= len(data)
                yield data
            self._file.seek(self._end)
        for piece in self._pieces.get(state, ()):
            yield piece.data

    def clear(self) -> None:
        """Forget everything; the file's room is given back."""
        self._pieces.clear()
        self._extents.clear()
        self._size = 0
        if self._end:
            self._file.seek(0)
            self._file.truncate()
            self._end = 0

    def close(self) -> None:
        self._pieces.clear()
        self._extents.clear()
        if self._file is not None:
            discard(self._file)
            self._file = None
