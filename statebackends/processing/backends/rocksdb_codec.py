"""Encoding of single values as bytes, for state in RocksDB while a task runs; internal to this package.

integer, date, timestamp, duration := i64     float := f64     bool := u8     string := UTF-8     decimal := ASCII
list   := frame[n]          struct := frame[fields]          map := (frame key  frame value)[n]
frame  := i32 length (-1: None)  bytes
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from pyspark_savepoint.formats.errors import UndecodableStateError
from pyspark_savepoint.statebackends.processing.runtime.row import make_row
from pyspark_savepoint.statebackends.processing.runtime.values import (
    as_list,
    as_map,
    from_python,
    has_lists,
    hashable,
    struct_fields,
    text_of,
    to_python,
)

Encoder = Callable[[Any], bytes]
Decoder = Callable[[bytes], Any]
Codec = tuple[Encoder, Decoder]

_LONG, _DOUBLE, _LENGTH = struct.Struct(">q"), struct.Struct(">d"), struct.Struct(">i")
_MICROSECOND = datetime.timedelta(microseconds=1)
_NONE = _LENGTH.pack(-1)


def codec(kind: pa.DataType) -> Codec:
    """Return the encoder and decoder of a type."""
    if pt.is_struct(kind):
        return _struct(kind)
    if pt.is_map(kind):
        return _map(kind)
    if pt.is_list(kind):
        return _list(kind)
    if pt.is_timestamp(kind):
        return _timestamp(kind)
    for matches, plain, pair in _SCALARS:
        if matches(kind):
            return _strict(kind, plain, *pair)
    raise UndecodableStateError(
        f"values of {kind} cannot be kept in RocksDB",
        remedy="process sorted input (the default), or on the heap backend",
    )


def _strict(kind: pa.DataType, plain: type, encode: Encoder, decode: Decoder) -> Codec:
    """Return a codec that rejects values which a column of the type cannot hold, and never casts with loss."""

    def write(value: Any) -> bytes:
        if type(value) is not plain:
            value = as_stored(value, kind)
        try:
            return encode(value)
        except struct.error:
            as_stored(value, kind)
            raise

    return write, decode


def as_stored(value: Any, kind: pa.DataType) -> Any:
    """Return a value as a column of its type returns it; raise ValueRangeError if the column cannot hold it."""
    return to_python(from_python([value], kind, "a state"))[0]


def _timestamp(kind: pa.TimestampType) -> Codec:
    epoch = datetime.datetime(1970, 1, 1, tzinfo=None if kind.tz is None else datetime.UTC)
    return (
        lambda value: _LONG.pack((value - epoch) // _MICROSECOND),
        lambda data: epoch + datetime.timedelta(microseconds=_LONG.unpack(data)[0]),
    )


#: By type: the class of nearly all values, and their codec.
_SCALARS: tuple[tuple[Callable[[pa.DataType], bool], type, Codec], ...] = (
    (pt.is_integer, int, (_LONG.pack, lambda data: _LONG.unpack(data)[0])),
    (pt.is_floating, float, (_DOUBLE.pack, lambda data: _DOUBLE.unpack(data)[0])),
    (pt.is_boolean, bool, (lambda value: b"\1" if value else b"\0", lambda data: data == b"\1")),
    (pt.is_string, str, (str.encode, bytes.decode)),
    (pt.is_binary, bytes, (bytes, bytes)),
    (pt.is_large_string, Decimal, (lambda value: text_of(value).encode("ascii"), lambda data: Decimal(data.decode()))),
    (pt.is_decimal, Decimal, (lambda value: str(value).encode("ascii"), lambda data: Decimal(data.decode("ascii")))),
    (
        pt.is_date,
        datetime.date,
        (
            lambda value: _LONG.pack(value.toordinal()),
            lambda data: datetime.date.fromordinal(_LONG.unpack(data)[0]),
        ),
    ),
    (
        pt.is_duration,
        datetime.timedelta,
        (
            lambda value: _LONG.pack(value // _MICROSECOND),
            lambda data: datetime.timedelta(microseconds=_LONG.unpack(data)[0]),
        ),
    ),
    (pt.is_null, type(None), (lambda _: b"", lambda _: None)),
)


def _frame(value: Any, encode: Encoder) -> bytes:
    if value is None:
        return _NONE
    data = encode(value)
    return _LENGTH.pack(len(data)) + data


def _frames(data: bytes) -> Iterator[bytes | None]:
    position = 0
    while position < len(data):
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        yield None if length < 0 else data[position : position + length]
        position += max(length, 0)


def _list(kind: pa.ListType) -> Codec:
    encode, decode = codec(kind.value_type)

    def write(value: Any) -> bytes:
        if type(value) is not list:
            value = as_list(value, kind, "a state")
        return b"".join([_frame(element, encode) for element in value])

    return write, lambda data: [None if part is None else decode(part) for part in _frames(data)]


def key_codec(kind: pa.DataType) -> Codec:
    """Return the codec of a map's keys, which are hashable when they are decoded."""
    encode, decode = codec(kind)
    return (encode, lambda data: hashable(decode(data))) if has_lists(kind) else (encode, decode)


def _map(kind: pa.MapType) -> Codec:
    encode_key, decode_key = key_codec(kind.key_type)
    encode, decode = codec(kind.item_type)

    def read(data: bytes) -> dict[Any, Any]:
        parts = _frames(data)
        return {
            None if key is None else decode_key(key): None if part is None else decode(part)
            for key, part in zip(parts, parts, strict=True)
        }

    def write(value: Any) -> bytes:
        return b"".join([_frame(k, encode_key) + _frame(v, encode) for k, v in as_map(value, kind, "a state").items()])

    return write, read


def _struct(kind: pa.StructType) -> Codec:
    fields = [kind.field(i) for i in range(kind.num_fields)]
    names = tuple(field.name for field in fields)
    parts = [codec(field.type) for field in fields]

    def write(value: Any) -> bytes:
        values = struct_fields(value, names, kind, "a state")
        return b"".join([_frame(part, encode) for part, (encode, _) in zip(values, parts, strict=True)])

    def read(data: bytes) -> Any:
        values = zip(_frames(data), parts, strict=True)
        return make_row(names, [None if part is None else decode(part) for part, (_, decode) in values])

    return write, read
