"""Numbers of distinct keys, found by their bytes in a hash table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pyspark_savepoint.formats.columns import Bytes, Ints, Longs
from pyspark_savepoint.statebackends.merging.entry_chunk import EntryChunk


@dataclass(frozen=True)
class KeyNumbers:
    """Distinct keys with numbers from 0 to ``count``."""

    keys: Bytes
    start: Longs
    end: Longs
    first: Longs
    table: Any
    count: int

    @classmethod
    def of(cls, chunk: EntryChunk) -> KeyNumbers:
        """Number the keys of some entries."""
        from pyspark_savepoint.formats.kernels import hashing
        from pyspark_savepoint.formats.kernels.entries import merging

        start, end = _keys(chunk)
        first = np.empty(len(chunk), np.int64)
        table = np.empty(1 << (2 * len(chunk)).bit_length(), np.int32)
        count = int(merging.number_keys(chunk.keys, start, end, first, table, hashing.SECRET))
        return cls(chunk.keys, start, end, first, table, count)

    def find(self, chunk: EntryChunk) -> Ints:
        """Return the numbers of the keys of some entries, -1 for unknown keys."""
        from pyspark_savepoint.formats.kernels import hashing
        from pyspark_savepoint.formats.kernels.entries import merging

        out = np.empty(len(chunk), np.int32)
        known = self.keys, self.start, self.end, self.first
        merging.find_keys(chunk.keys, *_keys(chunk), *known, self.table, hashing.SECRET, out)
        return out


def _keys(chunk: EntryChunk) -> tuple[Longs, Longs]:
    return np.ascontiguousarray(chunk.serial_start), np.ascontiguousarray(chunk.serial_end)
