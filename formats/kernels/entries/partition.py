"""Partition of entries of the canonical format by the hash of their keys; their bytes are not changed."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import kernel
from pyspark_savepoint.formats.kernels.hashing import hash_span
from pyspark_savepoint.formats.kernels.load import be_i32, be_u64, put_u64


@kernel
def parts_of(
    buf: Any, pos: int, end: int, prefix: int, tail: int, secret: Any, parts: int, part_of: Any, bytes_of: Any,
    entries_of: Any
) -> int:  # fmt: skip
    """Compute the part of every entry in [pos, end), and add its bytes and itself to those of the part.

    ``parts`` is a power of two. Keys are hashed without the prefix and their last ``tail`` bytes. Return -1, or the
    position of an entry whose key is too short.
    """
    mask = np.uint64(parts - 1)
    entry = 0
    while pos < end:
        a = pos + 4 + prefix
        a_end = pos + 4 + be_i32(buf, pos)
        if a_end - tail < a:
            return pos
        after = a_end + 4 + be_i32(buf, a_end)
        # The lowest bits are the slots of hash tables, and must still vary within a part.
        part = np.int64((hash_span(buf, a, a_end - tail, secret) >> np.uint64(40)) & mask)
        part_of[entry] = part
        bytes_of[part] += after - pos
        entries_of[part] += 1
        entry += 1
        pos = after
    return -1


@kernel
def divide(buf: Any, pos: int, end: int, part_of: Any, at: Any, out: Any) -> None:
    """Copy every entry in [pos, end) to the next position of its part in ``at``, which is moved past it."""
    entry = 0
    while pos < end:
        size = be_i32(buf, pos)
        after = pos + 8 + size + be_i32(buf, pos + 4 + size)
        part = part_of[entry]
        to = at[part]
        n = after - pos
        # An entry has at least nine bytes; the last word may overlap the previous one.
        i = 0
        while i < n:
            i = min(i, n - 8)
            put_u64(out, to + i, be_u64(buf, pos + i))
            i += 8
        at[part] = to + n
        entry += 1
        pos = after
