"""Buffer for framed entries, by state: in memory up to a limit, then in one unnamed temporary file.

Within a key group, states must be written one after another, but rows contain all their states at once. The buffer
holds at most one key group; a large one is spilled to local disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark_savepoint.formats.columns import Bytes
from pyspark_savepoint.formats.io.local_disk import discard, local_directory, spilling, temporary_file

READ = 1 << 20


class EntrySpool:
    """Bytes per state, drained in insertion order."""

    def __init__(self, memory: int, directory: str | None = None) -> None:
        self.memory = memory
        self.directory = directory or local_directory()
        self._pieces: dict[int, list[Bytes]] = {}
        self._size = 0
        self._file: Any = None
        self._end = 0
        self._extents: dict[int, list[tuple[int, int]]] = {}

    def append(self, state: int, data: Bytes) -> None:
        """Add bytes of a state; they must not change afterwards."""
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
        """Yield all bytes of a state."""
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
        """Remove everything and truncate the file."""
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
