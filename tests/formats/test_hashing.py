"""Keys of a snapshot that were written to collide do not: hashes are keyed with a secret of the process."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest

from pyspark_savepoint.formats.columns import Cursors
from pyspark_savepoint.formats.kernels import frames, hashing

BITS = 13
KEYS = 1 << BITS


def family(pairs: Sequence[tuple[bytes, bytes]]) -> Cursors:
    """All keys that choose one of two texts at each of some places."""
    keys = [b""]
    for pair in pairs:
        keys = [key + part for key in keys for part in pair]
    return Cursors.over(keys)


def words(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "big") for value in values)


TOP = 1 << 63
FAMILIES = {
    # The next word cancels the effect of one multiplication and a shift by 29 on the highest bit.
    "words that cancel": [(words(0, 0), words(TOP, TOP | 1 << 34))] * BITS,
    "the highest bit": [(words(0), words(TOP))] * BITS,
    "both words of a step": [(words(0, 0), words(TOP, TOP))] * BITS,
    "words that change places": [(words(1, 2), words(2, 1))] * BITS,
    "one byte": [(b"a", b"b")] * BITS,
    "lengths": [(b"", b"\0" * (1 << i)) for i in range(BITS)],
}


@pytest.mark.parametrize("name", FAMILIES)
def test_keys_that_were_written_to_collide(name: str) -> None:
    at = family(FAMILIES[name])
    bucket = np.empty(KEYS, np.int64)
    frames.bucket_of(at.buffer, at.position, at.end, hashing.SECRET, 1024, bucket)
    # Of 8 keys on average, a bucket of 40 comes once in 10^12 tries.
    assert np.bincount(bucket).max() < 40
    assert 0 < seconds_to_join(at) < 0.05 + 10 * seconds_to_join(random_keys(at))


def random_keys(at: Cursors) -> Cursors:
    """As many keys of the same lengths."""
    return Cursors(np.random.default_rng(1).integers(0, 256, len(at.buffer), np.uint8), at.position, at.end)


def seconds_to_join(at: Cursors) -> float:
    """The processor time of numbering keys by a hash table."""
    n = len(at)
    row_of, first, table = np.empty(n, np.int32), np.empty(n, np.int64), np.empty(4 * n, np.int32)
    bounds = np.zeros(1, np.int64), np.full(1, n, np.int64)
    best = float("inf")
    for _ in range(2):
        start = time.process_time()
        rows = frames.hash_rows(at.buffer, at.position, at.end, *bounds, 0, row_of, first, table, hashing.SECRET)
        best = min(best, time.process_time() - start)
    assert rows > 0.9 * n
    return best


def test_levels_of_partitions_divide_what_the_level_before_did_not() -> None:
    at = family(FAMILIES["one byte"])
    buckets = []
    for level in (1, 2):
        bucket = np.empty(KEYS, np.int64)
        frames.bucket_of(at.buffer, at.position, at.end, hashing.secret_of(level), 16, bucket)
        buckets.append(bucket)
    within = np.bincount(buckets[1][buckets[0] == 3], minlength=16)
    assert within.min() > 8
