"""Loads and stores of big-endian and little-endian numbers at any byte position.

Written as shifts of single bytes: LLVM combines them into one (byte-swapped) load, and without numba they are plain
Python. Indices are unsigned, because numba checks signed ones for Python's negative indexing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import inline

U8, U16, U24, U32 = np.uint64(8), np.uint64(16), np.uint64(24), np.uint64(32)
U40, U48, U56 = np.uint64(40), np.uint64(48), np.uint64(56)
ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
FIVE, SIX, SEVEN = np.uint64(5), np.uint64(6), np.uint64(7)
BYTE = np.uint64(0xFF)


@inline
def be_u16(buf: Any, at: Any) -> Any:
    """Load an unsigned short at ``at`` as int64."""
    p = np.uint64(at)
    return np.int64((np.uint64(buf[p]) << U8) | np.uint64(buf[p + ONE]))


@inline
def be_u32(buf: Any, at: Any) -> Any:
    """Load an unsigned int at ``at`` as uint64."""
    p = np.uint64(at)
    return (
        (np.uint64(buf[p]) << U24)
        | (np.uint64(buf[p + ONE]) << U16)
        | (np.uint64(buf[p + TWO]) << U8)
        | np.uint64(buf[p + THREE])
    )


@inline
def be_i32(buf: Any, at: Any) -> Any:
    """Load a signed int at ``at`` as int64."""
    return (np.int64(be_u32(buf, at)) ^ np.int64(0x80000000)) - np.int64(0x80000000)


@inline
def be_u64(buf: Any, at: Any) -> Any:
    """Load an unsigned long at ``at``."""
    p = np.uint64(at)
    return (
        (np.uint64(buf[p]) << U56)
        | (np.uint64(buf[p + ONE]) << U48)
        | (np.uint64(buf[p + TWO]) << U40)
        | (np.uint64(buf[p + THREE]) << U32)
        | (np.uint64(buf[p + FOUR]) << U24)
        | (np.uint64(buf[p + FIVE]) << U16)
        | (np.uint64(buf[p + SIX]) << U8)
        | np.uint64(buf[p + SEVEN])
    )


@inline
def be_i64(buf: Any, at: Any) -> Any:
    """Load a signed long at ``at``."""
    return np.int64(be_u64(buf, at))


@inline
def le_u32(buf: Any, at: Any) -> Any:
    """Load an unsigned little-endian int at ``at`` as int64."""
    p = np.uint64(at)
    return np.int64(
        (np.uint64(buf[p + THREE]) << U24)
        | (np.uint64(buf[p + TWO]) << U16)
        | (np.uint64(buf[p + ONE]) << U8)
        | np.uint64(buf[p])
    )


@inline
def le_i64(buf: Any, at: Any) -> Any:
    """Load a signed little-endian long at ``at``."""
    p = np.uint64(at)
    return np.int64(
        (np.uint64(buf[p + SEVEN]) << U56)
        | (np.uint64(buf[p + SIX]) << U48)
        | (np.uint64(buf[p + FIVE]) << U40)
        | (np.uint64(buf[p + FOUR]) << U32)
        | (np.uint64(buf[p + THREE]) << U24)
        | (np.uint64(buf[p + TWO]) << U16)
        | (np.uint64(buf[p + ONE]) << U8)
        | np.uint64(buf[p])
    )


@inline
def put_be(buf: Any, at: Any, value: Any, width: Any) -> None:
    """Store the low ``width`` bytes of an int64, big-endian."""
    v = np.uint64(value)
    for i in range(width):
        buf[at + i] = np.uint8((v >> np.uint64(8 * (width - 1 - i))) & np.uint64(0xFF))


@inline
def put_u64(buf: Any, at: Any, value: Any) -> None:
    """Store an unsigned long, big-endian."""
    p = np.uint64(at)
    v = np.uint64(value)
    buf[p] = np.uint8(v >> U56)
    buf[p + ONE] = np.uint8((v >> U48) & BYTE)
    buf[p + TWO] = np.uint8((v >> U40) & BYTE)
    buf[p + THREE] = np.uint8((v >> U32) & BYTE)
    buf[p + FOUR] = np.uint8((v >> U24) & BYTE)
    buf[p + FIVE] = np.uint8((v >> U16) & BYTE)
    buf[p + SIX] = np.uint8((v >> U8) & BYTE)
    buf[p + SEVEN] = np.uint8(v & BYTE)
