"""UUIDs of a column, read together; :mod:`.bodies` reads those that are written in another way.

value := 0 null | u8 (the id of the class, plus 2)  1  high  low      Kryo 2: signed varlongs, Kryo 5: fixed longs
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_savepoint.formats.columns import Bytes, Cursors, Flags, Longs, binary_array

Words: TypeAlias = npt.NDArray[np.uint64]

#: Bytes of a UUID's text without its hyphens, and the two hexadecimal digits of each byte.
DIGITS = np.array([place for place in range(36) if place not in (8, 13, 18, 23)])
HEX = np.frombuffer(bytes(range(256)).hex().encode(), np.uint8).reshape(256, 2)
HEAD = 2


def read_uuids(at: Cursors, class_id: int) -> tuple[Flags, pa.Array, Flags]:
    """Read what can be read together: whose rows, their texts, and which of the others are null.

    Cursors of these rows move past their values; those of all others stay.
    """
    start, buffer = at.position.copy(), at.buffer
    room = at.end - start
    first = _bytes_at(buffer, start)
    nulls: Flags = (room > 0) & (first == 0)
    rows: Flags = (room > HEAD) & (first == class_id) & (_bytes_at(buffer, start + 1) == 1)
    position, end = start[rows] + HEAD, at.end[rows]
    if at.options.kryo == 2:
        high, after, complete = _signed_longs(buffer, position, end)
        low, after, complete_too = _signed_longs(buffer, after, end)
        complete &= complete_too
    else:
        after = position + 16
        complete = after <= end
        high, low = (_fixed_longs(buffer, position[complete] + each) for each in (0, 8))
    if not complete.all():
        rows[rows] = complete
        after = after[complete]
        if at.options.kryo == 2:
            high, low = high[complete], low[complete]
    at.position[rows] = after
    at.position[nulls] += 1
    return rows, uuid_texts(high, low), nulls


def _bytes_at(buffer: Bytes, places: Longs) -> Bytes:
    """Return the byte at each place; the last one for places beyond the buffer, which callers refuse."""
    return buffer.take(places, mode="clip") if len(buffer) else np.zeros(len(places), np.uint8)


def _fixed_longs(buffer: Bytes, places: Longs) -> Words:
    longs: Words = buffer[places[:, None] + np.arange(8)].view("<u8").ravel()
    return longs


def _signed_longs(buffer: Bytes, position: Longs, end: Longs) -> tuple[Words, Longs, Flags]:
    """Read a varlong of each row: the numbers, the positions after them, and whether they end in time."""
    value, after = np.zeros(len(position), np.uint64), position.copy()
    more = np.ones(len(position), np.bool_)
    for group in range(9):
        byte = _bytes_at(buffer, after)
        bits = byte if group == 8 else byte & 0x7F
        value |= np.where(more, bits.astype(np.uint64) << np.uint64(7 * group), 0).astype(np.uint64)
        after += more
        more &= byte >= 0x80
        if not more.any():
            break
    return value >> np.uint64(1) ^ -(value & np.uint64(1)), after, after <= end


def uuid_texts(high: Words, low: Words) -> pa.Array:
    """Return the texts of UUIDs."""
    numbers = np.stack([high, low], 1).astype(">u8").view(np.uint8).reshape(-1, 16)
    texts = np.full((len(high), 36), ord("-"), np.uint8)
    texts[:, DIGITS] = HEX[numbers].reshape(-1, 32)
    return binary_array(pa.string(), np.arange(len(high) + 1, dtype=np.int64) * 36, texts.ravel())
