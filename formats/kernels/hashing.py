"""Hashes of spans with a secret key per process, for hash tables over bytes of a snapshot.

A malicious snapshot may contain keys that collide under any hash that its writer can compute. Here, every word is
masked with the secret before it is multiplied with another word to 128 bits, as in wyhash and xxh3: the effect of a
changed word on the product depends on secret bits in every position.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import inline
from pyspark_savepoint.formats.kernels.load import be_u32, be_u64

Secret = tuple[Any, Any, Any]


def new_secret() -> Secret:
    """Return another key."""
    return np.uint64(secrets.randbits(64)), np.uint64(secrets.randbits(64)), np.uint64(secrets.randbits(64))


#: The key of this process's hash tables. It is an argument of kernels, because cached machine code outlives the
#: process, and a tuple, because its words then stay in registers.
SECRET = new_secret()
LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def secret_of(level: int) -> Secret:
    """Return the key for a partition level; keys differ so that each level separates spans that collided before."""
    return SECRET[0] ^ np.uint64(level), SECRET[1], SECRET[2]


@inline
def multiply(a: Any, b: Any) -> Any:
    """Return the low and the high word of a product of two unsigned words."""
    a_low, a_high = a & LOW, a >> HALF
    b_low, b_high = b & LOW, b >> HALF
    low, cross = a_low * b_low, a_low * b_high
    middle = a_high * b_low + (low >> HALF) + (cross & LOW)
    return (middle << HALF) | (low & LOW), a_high * b_high + (cross >> HALF) + (middle >> HALF)


@inline
def hash_span(buf: Any, p: Any, end: Any, secret: Any) -> Any:
    """Return the 64-bit hash of a span; any of its bits can be used alone."""
    size = end - p
    state = secret[0]
    while end - p > 16:
        low, high = multiply(be_u64(buf, p) ^ secret[1], be_u64(buf, p + 8) ^ state)
        state = low ^ high
        p += 16
    a, b = np.uint64(0), np.uint64(0)
    if size >= 8:
        # The last words may overlap the previous ones.
        a = be_u64(buf, max(end - size, end - 16))
        b = be_u64(buf, end - 8)
    elif size >= 4:
        a, b = be_u32(buf, p), be_u32(buf, end - 4)
    else:
        for i in range(size):
            a = (a << np.uint64(8)) | np.uint64(buf[p + i])
    low, high = multiply(a ^ secret[1], b ^ state)
    low, high = multiply(low ^ secret[2] ^ np.uint64(size), high ^ secret[1])
    return low ^ high
