"""Places of bytes in a column, found by their hashes: the column is hashed once, however many look-ups follow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

#: Values that are Python objects at a time.
SLICE = 1 << 16


class ByteIndex:
    """Index of a column of bytes without NULLs; of equal values the first counts."""

    def __init__(self, values: pa.Array, digest: Callable[[bytes], int] = xxhash.xxh3_64_intdigest) -> None:
        self.values, self.digest = values, digest
        hashes = self._hashes(values)
        self.order = np.argsort(hashes, kind="stable")
        self.hashes = hashes[self.order]

    def places(self, keys: pa.Array) -> pa.Array:
        """Return the place of each key. NULL for one that is not there."""
        if not len(self.values):
            return pa.nulls(len(keys), pa.int64())
        hashes = self._hashes(keys)
        at = np.searchsorted(self.hashes, hashes)
        at[at == len(self.hashes)] = 0
        places = self.order[at]
        candidates = self.hashes[at] == hashes
        same = np.asarray(pc.equal(self.values.take(pa.array(places)), keys)) & candidates
        if not same[candidates].all():  # two values of one hash
            others = np.flatnonzero(candidates & ~same)
            indices = pc.index_in(keys.take(pa.array(others)), value_set=self.values)
            there = np.asarray(indices.is_valid())
            places[others[there]] = np.asarray(indices.drop_null())
            same[others] = there
        return pa.array(places, pa.int64(), mask=~same)

    def _hashes(self, values: pa.Array) -> np.ndarray:
        parts = [
            np.fromiter(map(self.digest, values[low : low + SLICE].to_pylist()), np.uint64)
            for low in range(0, len(values), SLICE)
        ]
        return np.concatenate([np.zeros(0, np.uint64), *parts])
