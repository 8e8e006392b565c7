"""Hashes of spans that are keyed with a secret of the process: what hash tables over bytes of a snapshot go by.

A snapshot may be written to make its keys collide, under any hash that its writer can compute. Here every word is
masked by the secret before it meets another one in a product of 128 bits, as in wyhash and xxh3: what a change of a
word does to the product depends on secret bits in every place.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import inline
from pyspark_savepoint.formats.kernels.load import be_u32, be_u64

Secret = tuple[Any, Any, Any]
#: The key of the hash tables of this process: an argument of kernels, for compiled code outlives the process; a tuple,
#: for its words then stay in registers.
SECRET: Secret = (np.uint64(secrets.randbits(64)), np.uint64(secrets.randbits(64)), np.uint64(secrets.randbits(64)))
LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def secret_of(level: int) -> Secret:
    """Return the key of a level of partitions: what one level puts together, the next one separates."""
    return SECRET[0] ^ np.uint64(level), SECRET[1], SECRET[2]


@inline
def multiply(a: Any, b: Any) -> Any:
    """The low and the high word of a product of two words without sign."""
    a_low, a_high = a & LOW, a >> HALF
    b_low, b_high = b & LOW, b >> HALF
    low, cross = a_low * b_low, a_low * b_high
    middle = a_high * b_low + (low >> HALF) + (cross & LOW)
    return (middle << HALF) | (low & LOW), a_high * b_high + (cross >> HALF) + (middle >> HALF)


@inline
def hash_span(buf: Any, p: Any, end: Any, secret: Any) -> Any:
    """The hash of a span: 64 bits, of which any may be used alone."""
    size = end - p
    state = secret[0]
    while end - p > 16:
        low, high = multiply(be_u64(buf, p) ^ secret[1], be_u64(buf, p + 8) ^ state)
        state = low ^ high
        p += 16
    a, b = np.uint64(0), np.uint64(0)
    if size >= 8:
        # The last words may overlap those before.
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
