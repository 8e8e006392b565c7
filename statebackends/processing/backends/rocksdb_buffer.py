"""Reads ahead and writes behind of the RocksDB state backend, in a few megabytes of memory.

What is read for the records at hand is read at once, in the order of the keys; what is written waits until there is a
batch. Nobody else reads the database, so that what waits is found here first. Iterating writes it first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

#: Bytes that wait to be written, counted with what Python needs for them.
MOST_BEHIND = 16 << 20
#: Bytes of values that are read ahead, and the most keys.
MOST_AHEAD, MOST_KEYS = 8 << 20, 8192
#: Bytes of a key and a value as Python objects, beside their own.
OBJECTS = 200
#: Chunks of records without reading ahead, after few of those values were used.
PAUSE = 16
_UNKNOWN: Any = object()


class BufferedDatabase:
    """A database of bytes."""

    def __init__(self, database: Any, new_batch: Callable[[], Any]) -> None:
        self._db = database
        self._read: Callable[[bytes], bytes | None] = database.get
        self._new_batch = new_batch
        self._behind: dict[bytes, bytes | None] = {}
        self._bytes = 0
        self._ahead: dict[bytes, bytes | None] = {}
        self._used = 0

    def get(self, key: bytes) -> bytes | None:
        found = self._behind.get(key, _UNKNOWN)
        if found is _UNKNOWN:
            found = self._ahead.get(key, _UNKNOWN)
            if found is _UNKNOWN:
                return self._read(key)
            self._used += 1
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

    def iter(self, options: Any) -> Any:
        """Return a cursor over all entries."""
        self.write()
        return self._db.iter(options)

    def write(self) -> None:
        """Write what waits, in the order of the keys."""
        if self._behind:
            batch = self._new_batch()
            for key, value in sorted(self._behind.items()):
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)
            self._db.write(batch)
            # What was read before is older.
            self._behind, self._ahead, self._bytes = {}, {}, 0

    def read_ahead(self, keys: Sequence[bytes]) -> tuple[int, int]:
        """Read some keys at once; return how many there were to read, and the bytes of their values."""
        if self._bytes > MOST_BEHIND // 2:
            self.write()
        wanted = sorted({key for key in keys if key not in self._behind})
        values: list[bytes | None] = self._db.get(wanted) if wanted else []
        self._ahead = dict(zip(wanted, values, strict=True))
        self._used = 0
        return len(wanted), sum(len(value) for value in values if value is not None)

    @property
    def used(self) -> int:
        """Return how often a value was used that was read ahead."""
        return self._used

    def close(self) -> None:
        """Close the database; what waits belongs to a task that is over."""
        self._db.close()


class Ahead:
    """Which keys of a chunk of records are read next: fewer if values are large, none if few are used."""

    def __init__(self, database: BufferedDatabase) -> None:
        self._database = database
        self._places: Sequence[bytes] = ()
        self._at = 0
        self._size = 64
        self._asked = 0
        self._pause = 0

    def expect(self, places: Sequence[bytes]) -> bool:
        """Begin with the keys of a chunk; return whether to read them ahead."""
        self._places, self._at = places, 0
        if self._pause:
            self._pause -= 1
        elif 4 * self._database.used < self._asked:
            self._pause, self._asked = PAUSE, 0
        return not self._pause

    def read(self, keys_of: Callable[[Sequence[bytes]], Sequence[bytes]]) -> int:
        """Read the states of the next keys; return how many keys, 0 at the end."""
        places = self._places[self._at : self._at + self._size]
        self._at += len(places)
        if places:
            keys = keys_of(places)
            self._asked, size = self._database.read_ahead(keys)
            each = size // max(1, self._asked) * len(keys) // len(places) + 1
            self._size = max(1, min(8 * self._size, MOST_KEYS, MOST_AHEAD // each))
        return len(places)
