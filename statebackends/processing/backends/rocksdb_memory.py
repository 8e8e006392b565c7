"""What the RocksDB state backend keeps in memory in front of its database.

:class:`BufferedDatabase` reads ahead and writes behind, in a few megabytes. What is read for the records at hand is
read at once, in the order of the keys; what is written waits until there is a batch. No other process uses the
database, so pending writes are found here first. Iterating writes them first.

:class:`EntryMemory` has entries as bytes: about 20 bytes each in addition to key and value. When it is full, all of its
entries are written to the database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from pyspark_savepoint.formats.columns import Bytes, Ints, Longs
from pyspark_savepoint.formats.keyed.keyed_block import binary_column
from pyspark_savepoint.statebackends.processing.runtime.values import binary_values
from pyspark_savepoint.statebackends.rows.sorting import order_within

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
        cached = self._behind.get(key, _UNKNOWN)
        if cached is _UNKNOWN:
            cached = self._ahead.get(key, _UNKNOWN)
            if cached is _UNKNOWN:
                return self.read(key)
            self.used += 1
        return cached  # type: ignore[no-any-return]

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
    """Source of values that are read ahead by grouped key."""

    @property
    def used(self) -> int:
        """Return how often a value was used that was read ahead."""

    def read_ahead(self, grouped_keys: Sequence[bytes]) -> tuple[int, int]:
        """Read the values of some keys at once; return how many there were to read, and their bytes."""


class Ahead:
    """Which keys of a chunk of records are read next: fewer if values are large, none if few are used."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._grouped_keys: Sequence[bytes] = ()
        self._at = 0
        self._size = 64
        self._asked = 0
        self._pause = 0

    def expect(self, grouped_keys: Sequence[bytes]) -> bool:
        """Begin with the keys of a chunk; return whether to read them ahead."""
        self._grouped_keys, self._at = grouped_keys, 0
        if self._pause:
            self._pause -= 1
        elif 4 * sum(source.used for source in self._sources) < self._asked:
            self._pause, self._asked = PAUSE, 0
        return not self._pause

    def read(self) -> int:
        """Read the states of the next keys; return how many keys, 0 at the end."""
        grouped_keys = self._grouped_keys[self._at : self._at + self._size]
        self._at += len(grouped_keys)
        if grouped_keys:
            read = [source.read_ahead(grouped_keys) for source in self._sources]
            self._asked = sum(asked for asked, _ in read)
            key_size = sum(size for _, size in read) // max(1, self._asked) * len(self._sources) + 1
            self._size = max(1, min(8 * self._size, MOST_KEYS, MOST_AHEAD // key_size))
        return len(grouped_keys)


#: Bytes of entries in memory.
MEMORY = 80 << 20
#: Bytes of an entry for each slot of the hash table.
EACH = 16
#: Entries that become Python objects at a time, and slots of the table that are written at a time.
BATCH, SLOTS = 1 << 14, 1 << 18


class EntryMemory:
    """Entries of a task; ``size`` is the number of bytes that they may need in memory."""

    def __init__(self, database: BufferedDatabase, size: int) -> None:
        self._database = database
        #: Pages of memory are allocated by the system when they are written first.
        self._entries: Bytes = np.empty(size, np.uint8)
        self._table = np.zeros(1 << max(2, (size // EACH).bit_length() - 1), np.int32)
        self._used = np.zeros(2, np.int64)
        self._is_written = False

    def read(self, key: bytes) -> bytes | None:
        """Return the value of a key."""
        from pyspark_savepoint.formats.kernels import entry_table, hashing

        start, end = entry_table.find_entry(self._entries, self._table, np.frombuffer(key, np.uint8), hashing.SECRET)
        if start < 0:
            return self._database.read(key) if self._is_written else None
        return self._entries[start:end].tobytes() if start <= end else None

    def read_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of keys."""
        from pyspark_savepoint.formats.kernels import entry_table, hashing

        start, end = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        entry_table.find_entries(self._entries, self._table, *_spans(keys), hashing.SECRET, start, end)
        values = self._values(start, end)
        if self._is_written:
            unknown = sorted(np.flatnonzero(start < 0).tolist(), key=keys.__getitem__)
            stored = self._database.read_all([keys[i] for i in unknown])
            for i, value in zip(unknown, stored, strict=True):
                values[i] = value
        return values

    def _values(self, start: Longs, end: Longs) -> list[bytes | None]:
        """Return spans of the entries; None for those that end before their start."""
        values: list[bytes | None] = [*binary_values(binary_column(self._entries, start, np.maximum(start, end)))]
        for i in np.flatnonzero(end < start).tolist():
            values[i] = None
        return values

    def write_all(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Set the values of keys; None deletes."""
        from pyspark_savepoint.formats.kernels import entry_table, hashing

        data, start, end = _spans([value or b"" for value in values])
        end = np.where([value is None for value in values], start - 1, end)
        done = 0
        while True:
            done = entry_table.put_entries(
                self._entries, self._table, self._used, *_spans(keys), data, start, end, done, hashing.SECRET
            )
            if done == len(keys):
                break
            if self._used[0]:
                self._write()
            else:
                self._database.write_all([(keys[done], values[done])])
                self._is_written = True
                done += 1

    def entries(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries whose keys begin with some bytes, in order."""
        if self._is_written:
            self._write()
            yield from self._database.entries(prefix)
        else:
            for key, value in self._sorted(self._table, prefix):
                if value is not None:
                    yield key, value

    def _write(self) -> None:
        """Write all entries to the database; they are sorted in parts, which take less memory."""
        for low in range(0, len(self._table), SLOTS):
            self._database.write_all(self._sorted(self._table[low : low + SLOTS]))
        self._is_written |= bool(self._used[0])
        self._table[:] = 0
        self._used[:] = 0

    def _sorted(self, table: Ints, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes | None]]:
        """Yield the entries of a part of the table, whose keys begin with some bytes, in order; None is deleted."""
        from pyspark_savepoint.formats.kernels import entry_table

        count = np.count_nonzero(table)
        key_start, key_end, value_end = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
        entry_table.list_entries(self._entries, table, key_start, key_end, value_end)
        chosen = key_end - key_start >= len(prefix)
        for i, byte in enumerate(prefix):
            chosen[chosen] &= self._entries[key_start[chosen] + i] == byte
        key_start, key_end, value_end = key_start[chosen], key_end[chosen], value_end[chosen]
        order = order_within(np.array([0, len(key_start)]), self._entries, key_start, key_end)
        for low in range(0, len(order), BATCH):
            rows = order[low : low + BATCH]
            start, middle, end = key_start[rows], key_end[rows], value_end[rows]
            keys = binary_values(binary_column(self._entries, start, middle))
            yield from zip(keys, self._values(middle, end), strict=True)


def _spans(values: Sequence[bytes]) -> tuple[Bytes, Longs, Longs]:
    """Return values in one buffer, and where each begins and ends."""
    bounds = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=bounds[1:])
    return np.frombuffer(b"".join(values) + bytes(8), np.uint8), bounds[:-1], bounds[1:]
