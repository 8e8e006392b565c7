"""Entries in memory as bytes, in front of a database: about 20 bytes each in addition to key and value.

When the memory is full, all of its entries are written to the database.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pyspark_savepoint.formats.columns import Bytes, Ints, Longs
from pyspark_savepoint.formats.keyed.keyed_block import binary_column
from pyspark_savepoint.statebackends.processing.backends.rocksdb.buffer import BufferedDatabase
from pyspark_savepoint.statebackends.processing.runtime.values import binary_values
from pyspark_savepoint.statebackends.sorting.sort_order import order_within

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
        from pyspark_savepoint.formats.kernels import hashing
        from pyspark_savepoint.formats.kernels.entries import entry_table

        start, end = entry_table.find_entry(self._entries, self._table, np.frombuffer(key, np.uint8), hashing.SECRET)
        if start < 0:
            return self._database.read(key) if self._is_written else None
        return self._entries[start:end].tobytes() if start <= end else None

    def read_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of keys."""
        from pyspark_savepoint.formats.kernels import hashing
        from pyspark_savepoint.formats.kernels.entries import entry_table

        start, end = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        entry_table.find_entries(self._entries, self._table, *_spans(keys), hashing.SECRET, start, end)
        values = self._values(start, end)
        if self._is_written:
            unknown = sorted(np.flatnonzero(start < 0).tolist(), key=keys.__getitem__)
            found = self._database.read_all([keys[i] for i in unknown])
            for i, value in zip(unknown, found, strict=True):
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
        from pyspark_savepoint.formats.kernels import hashing
        from pyspark_savepoint.formats.kernels.entries import entry_table

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
        from pyspark_savepoint.formats.kernels.entries import entry_table

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
