"""Reads ahead and writes behind of the RocksDB state backend, in a few megabytes of memory.

What is read for the records at hand is read at once, in the order of the keys; what is written waits until there is a
batch. No other process uses the database, so pending writes are found here first. Iterating writes them first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

#: Most bytes of pending writes, counted with what Python needs for them.
MOST_BEHIND = 16 << 20
#: Bytes of values that are read ahead, and the most keys.
MOST_AHEAD, MOST_KEYS = 8 << 20, 1 << 16
#: Bytes that Python needs for the objects of a key and a value, in addition to their content.
OBJECTS = 200
#: Chunks of records without reading ahead, after few of those values were used.
PAUSE = 16
_UNKNOWN: Any = object()


class BufferedDatabase:
    """A database of bytes."""

    def __init__(self, database: Any, new_batch: Callable[[], Any]) -> None:
        self._db = database
        #: Reads an entry that is not in memory.
        self.read: Callable[[bytes], bytes | None] = database.get
        self._new_batch = new_batch
        self._behind: dict[bytes, bytes | None] = {}
        self._bytes = 0
        self._ahead: dict[bytes, bytes | None] = {}
        #: How often a value was used that was read ahead.
        self.used = 0

    def get(self, key: bytes) -> bytes | None:
        found = self._behind.get(key, _UNKNOWN)
        if found is _UNKNOWN:
            found = self._ahead.get(key, _UNKNOWN)
            if found is _UNKNOWN:
                return self.read(key)
            self.used += 1
        return found  # type: ignore[no-any-return]

    def put(self, key: bytes, value: bytes) -> None:
        self._behind[key] = value
        self._bytes += len(key) + len(value) + OBJECTS
        if self._bytes > MOST_BEHIND:
            self.write()

    def delete(self, key: bytes) -> None:
        self._behind[key] = None
        self._bytes += len(key) + OBJECTS
        if self._bytes > MOST_BEHIND:
            self.write()

    def entries(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries whose keys begin with some bytes, in order."""
        from rocksdict import ReadOptions

        self.write()
        cursor = self._db.iter(ReadOptions())
        cursor.seek(prefix)
        while cursor.valid():
            key = cursor.key()
            if not key.startswith(prefix):
                break
            yield key, cursor.value()
            cursor.next()
        cursor.status()

    def write(self) -> None:
        """Write all pending entries, in the order of the keys."""
        if self._behind:
            behind = self._behind
            self.write_all((key, behind[key]) for key in sorted(behind))
            # What was read before is older.
            self._behind, self._ahead, self._bytes = {}, {}, 0

    def write_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Write entries at once; None deletes."""
        batch = self._new_batch()
        put, delete = batch.put, batch.delete
        for key, value in entries:
            if value is None:
                delete(key)
            else:
                put(key, value)
        self._db.write(batch)

    def read_all(self, keys: list[bytes]) -> list[bytes | None]:
        """Read entries at once."""
        return self._db.get(keys) if keys else []

    def read_ahead(self, keys: Sequence[bytes]) -> tuple[int, int]:
        """Read some keys at once; return how many there were to read, and the bytes of their values."""
        if self._bytes > MOST_BEHIND // 2:
            self.write()
        wanted = sorted({key for key in keys if key not in self._behind})
        values = self.read_all(wanted)
        self._ahead = dict(zip(wanted, values, strict=True))
        self.used = 0
        return len(wanted), sum(len(value) for value in values if value is not None)

    def close(self) -> None:
        """Close the database; pending writes are dropped, because the task is over."""
        self._db.close()


class Source(Protocol):
    """Source of values that are read ahead by place."""

    @property
    def used(self) -> int:
        """Return how often a value was used that was read ahead."""

    def read_ahead(self, places: Sequence[bytes]) -> tuple[int, int]:
        """Read the values of some places at once; return how many there were to read, and their bytes."""


class Ahead:
    """Which places of a chunk of records are read next: fewer if values are large, none if few are used."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._places: Sequence[bytes] = ()
        self._at = 0
        self._size = 64
        self._asked = 0
        self._pause = 0

    def expect(self, places: Sequence[bytes]) -> bool:
        """Begin with the places of a chunk; return whether to read them ahead."""
        self._places, self._at = places, 0
        if self._pause:
            self._pause -= 1
        elif 4 * sum(source.used for source in self._sources) < self._asked:
            self._pause, self._asked = PAUSE, 0
        return not self._pause

    def read(self) -> int:
        """Read the states of the next places; return how many places, 0 at the end."""
        places = self._places[self._at : self._at + self._size]
        self._at += len(places)
        if places:
            read = [source.read_ahead(places) for source in self._sources]
            self._asked = sum(asked for asked, _ in read)
            each = sum(size for _, size in read) // max(1, self._asked) * len(self._sources) + 1
            self._size = max(1, min(8 * self._size, MOST_KEYS, MOST_AHEAD // each))
        return len(places)
