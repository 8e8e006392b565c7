"""Keys of PyFlink that are pickles: one type for all of them, where all are of one.

PyFlink pickles keys without a declared type. A key that is a number, a text, bytes, a boolean, a date, a datetime, or a
tuple of these becomes a column of that type; keys of several types are VARIANT. Spark groups and joins by the former.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.pickle_walker import decode_pickled_or_binary, is_pickle, read_pickle
from pyspark_savepoint.formats.serializers.basic.calendar import TIMESTAMP, TIMESTAMP_NTZ
from pyspark_savepoint.formats.variant import VARIANT, Date, Timestamp

MAX_LONG = (1 << 63) - 1
#: Frames of protocol 4 and 5: the shortest that CPython writes, and the size at which it begins another.
FIRST_WITH_FRAMES, MIN_FRAME, MAX_FRAME = 4, 4, 1 << 16
SIMPLE: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    Date: pa.date32(),
    Decimal: pa.string(),
}


def type_of(value: Any) -> pa.DataType:
    """Return the type of a key; VARIANT for one that has no other."""
    if isinstance(value, list) and value:
        parts = [type_of(part) for part in value]
        fields = [pa.field(f"f{index}", part) for index, part in enumerate(parts)]
        return VARIANT if VARIANT in parts else pa.struct(fields)
    if isinstance(value, Timestamp):
        return TIMESTAMP if value.zoned else TIMESTAMP_NTZ
    if isinstance(value, int) and not isinstance(value, bool):
        return pa.int64() if -MAX_LONG - 1 <= value <= MAX_LONG else VARIANT
    return SIMPLE.get(type(value), VARIANT)


def _converted(value: Any) -> Any:
    if isinstance(value, list):
        return {f"f{index}": _converted(part) for index, part in enumerate(value)}
    if isinstance(value, Timestamp):
        return value.micros
    if isinstance(value, Date):
        return value.days
    return str(value) if isinstance(value, Decimal) else value


@dataclass
class PickledKeys:
    """Evidence that keys are pickles, and of which type."""

    kind: pa.DataType | None = None
    pickled: bool = True
    #: The protocol of all keys, if :func:`write_pickle` gives the same bytes for their values; else None.
    protocol: int | None = None
    exact: bool = True

    def add(self, column: pa.Array) -> None:
        """Add keys."""
        for data in column.to_pylist() if self.pickled else ():
            if not is_pickle(data):
                self.pickled = False
                return
            if self.kind != VARIANT:
                value = _plain(data)
                kind = type_of(value)
                self.kind = kind if self.kind in (None, kind) else VARIANT
                self.protocol = self.protocol or data[1]
                self.exact = self.exact and kind != VARIANT and write_pickle(value, self.protocol) == data


def _plain(data: bytes) -> Any:
    try:
        return read_pickle(data)
    except SavepointError:
        return None


def decode_keys(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert pickled keys to a column of their type."""
    if kind == VARIANT:
        return decode_pickled_or_binary(column)
    return pa.array([_converted(read_pickle(data, row)) for row, data in enumerate(column.to_pylist())], kind)


def shown_keys(column: pa.Array) -> pa.Array:
    """Return some keys as tables show them; a column that is not of pickles, or of several types, is unchanged."""
    if not pa.types.is_binary(column.type):
        return column
    found = PickledKeys()
    found.add(column)
    return decode_keys(column, found.kind) if found.pickled and found.kind not in (None, VARIANT) else column


def encode_keys(column: pa.Array, protocol: int) -> pa.Array:
    """Convert a column of keys to pickles of a protocol, as CPython writes them."""
    return pa.array([write_pickle(_tuples(value), protocol) for value in column.to_pylist()], pa.binary())


def _tuples(value: Any) -> Any:
    return [_tuples(part) for part in value.values()] if isinstance(value, dict) else value


def write_pickle(value: Any, protocol: int) -> bytes | None:
    """Return the pickle of a boolean, number, text, bytes, or a tuple of these, given as a list; None for others.

    Protocols before 4, which Python 3.8 and later do not choose, have other opcodes.
    """
    body = _body(value)
    if body is None or len(body) >= MAX_FRAME or protocol < FIRST_WITH_FRAMES:
        return None
    body += b"."
    frame = b"\x95" + len(body).to_bytes(8, "little") if len(body) >= MIN_FRAME else b""
    return bytes([0x80, protocol]) + frame + body


def _body(value: Any) -> bytes | None:
    match value:
        case bool():
            return b"\x88" if value else b"\x89"
        case int():
            return _whole(value)
        case float():
            return b"G" + struct.pack(">d", value)
        case str():
            return _sized(value.encode("utf-8", "surrogatepass"), b"\x8c", b"X")
        case bytes():
            return _sized(value, b"C", b"B")
        case list() if value:
            return _tuple([_body(part) for part in value])
    return None


def _whole(value: int) -> bytes:
    if 0 <= value < 1 << 8:
        return b"K" + bytes([value])
    if 0 <= value < 1 << 16:
        return b"M" + value.to_bytes(2, "little")
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + value.to_bytes(4, "little", signed=True)
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    if value < 0 and len(data) > 1 and data[-1] == 0xFF and data[-2] & 0x80:
        data = data[:-1]
    return b"\x8a" + bytes([len(data)]) + data


def _sized(data: bytes, short: bytes, long: bytes) -> bytes:
    size = short + bytes([len(data)]) if len(data) < 1 << 8 else long + len(data).to_bytes(4, "little")
    return size + data + b"\x94"


def _tuple(parts: list[bytes | None]) -> bytes | None:
    found = [part for part in parts if part is not None]
    if len(found) < len(parts):
        return None
    if len(found) <= 3:
        return b"".join(found) + bytes([0x84 + len(found)]) + b"\x94"
    return b"(" + b"".join(found) + b"t\x94"
