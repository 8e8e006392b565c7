"""Spark's VARIANT: values that carry their own type.

    metadata := u8 (1 | (w - 1) << 6)  n  offset[n + 1]  keys             each number of w bytes, little-endian
    value    := u8 (id << 2)          payload                             null, true, false, numbers, dates, text ...
              | u8 (length << 2 | 1)  utf8                                text of at most 63 bytes
              | u8 (L << 6 | (i - 1) << 4 | (w - 1) << 2 | 2)  n  id[n]  offset[n + 1]  values       object
              | u8 (L << 4 | (w - 1) << 2 | 3)                 n         offset[n + 1]  values       array

n is one byte, four where L is set; ids have i bytes, offsets w. The fields of an object are sorted by key in Java's
string order, because Spark searches them in that order. Source: the variant encoding of Parquet and Spark, version 1.

Python values are encoded as their natural type; a ``numpy.float32`` is a 32-bit float. An int of more than 64 bits and
a ``Decimal`` are decimals of at most 38 digits, and strings beyond that.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

#: Arrow type of a variant column for Spark.
VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)
#: Largest variant that Spark 4.0 accepts.
MAX_SIZE = (1 << 24) - 1
MAX_DEPTH = 100
#: Limit on the variants of a batch: ``FREE_GROWTH`` bytes, and ``MAX_GROWTH`` more for each byte of their source.
MAX_GROWTH, FREE_GROWTH = 64, 1 << 26
MAX_DIGITS = 38
SHORT_TEXT = 63

PRIMITIVE, SHORT_STRING, OBJECT, ARRAY = 0, 1, 2, 3
NULL, TRUE, FALSE, INT8, INT16, INT32, INT64, DOUBLE, DECIMAL4, DECIMAL8, DECIMAL16 = range(11)
DATE, TIMESTAMP, TIMESTAMP_NTZ, FLOAT, BINARY, STRING = range(11, 17)


class VariantError(ValueError):
    """A value that a variant cannot hold: too large, too deep, or text that is not Unicode."""


class LoneSurrogateError(VariantError):
    """A string has half of a surrogate pair."""


@dataclass(frozen=True, slots=True)
class Date:
    """A date, as days since 1970."""

    days: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A timestamp, as microseconds since 1970; TIMESTAMP if ``zoned``, else TIMESTAMP_NTZ."""

    micros: int
    zoned: bool = True


def variant_array(values: Iterable[Any], source: int, instead: Sequence[bytes | None] | None = None) -> pa.Array:
    """Return a column of variants; None is a null row. A VariantError names the row.

    ``instead``: bytes that take the place of values that a variant cannot hold.

    ``source`` is the size in bytes of the encoded values. Values may share parts and variants cannot, so the total
    size of the variants is limited in proportion to ``source``.
    """
    pairs: list[tuple[bytes, bytes] | None] = []
    room = FREE_GROWTH + MAX_GROWTH * source
    for row, value in enumerate(values):
        try:
            pair = None if value is None else _encoded(value, None if instead is None else instead[row])
            if pair is not None:
                room -= len(pair[0]) + len(pair[1])
            if room < 0:
                raise VariantError(f"the variants of a batch are more than {MAX_GROWTH} times as large as their source")
        except VariantError as error:
            error.add_note(f"row {row}")
            raise
        pairs.append(pair)
    mask = pa.array([pair is None for pair in pairs], pa.bool_())
    parts = [pa.array([pair[part] if pair else b"" for pair in pairs], pa.binary()) for part in (0, 1)]
    return pa.StructArray.from_arrays(parts, fields=list(VARIANT), mask=mask)


def _encoded(value: Any, instead: bytes | None) -> tuple[bytes, bytes]:
    try:
        return encode_variant(value)
    except VariantError:
        if instead is None:
            raise
        return encode_variant(instead)


def encode_variant(value: Any) -> tuple[bytes, bytes]:
    encoder = _Encoder()
    data = encoder.encode(value, 0)
    metadata = encoder.metadata()
    if max(len(data), len(metadata)) > MAX_SIZE:
        raise VariantError(f"a variant has at most {MAX_SIZE} bytes")
    return data, metadata


@dataclass
class _Encoder:
    """Encoder of one variant: the ids of its keys, and the encoded containers, because containers may be shared."""

    ids: dict[str, int] = field(default_factory=dict)
    done: dict[int, bytes] = field(default_factory=dict)

    def encode(self, value: Any, depth: int) -> bytes:
        plain = PLAIN.get(type(value))
        if plain is not None:
            return plain(value)
        if isinstance(value, (list, tuple, dict)):
            return self._container(value, depth)
        return _scalar(value)

    def _container(self, value: Any, depth: int) -> bytes:
        if depth >= MAX_DEPTH:
            raise VariantError(f"a variant is nested at most {MAX_DEPTH} deep")
        known = self.done.get(id(value))
        if known is None:
            known = self._object(value, depth) if isinstance(value, dict) else self._array(value, depth)
            self.done[id(value)] = known
        return known

    def _array(self, values: Sequence[Any], depth: int) -> bytes:
        offsets, body = self._join(values, depth)
        large = len(values) > 255
        width = _width(offsets[-1])
        header = large << 4 | (width - 1) << 2 | ARRAY
        return b"".join([bytes([header]), _number(len(values), 4 if large else 1), _numbers(offsets, width), body])

    def _object(self, fields: Mapping[str, Any], depth: int) -> bytes:
        # Java's order of strings is Python's, but for what UTF-16 needs two units for.
        keys = sorted(fields) if "".join(fields).isascii() else sorted(fields, key=_java_order)
        ids = [self.ids.setdefault(key, len(self.ids)) for key in keys]
        offsets, body = self._join([fields[key] for key in keys], depth)
        large = len(keys) > 255
        width, id_width = _width(offsets[-1]), _width(max(ids, default=0))
        header = large << 6 | (id_width - 1) << 4 | (width - 1) << 2 | OBJECT
        count = _number(len(keys), 4 if large else 1)
        return b"".join([bytes([header]), count, _numbers(ids, id_width), _numbers(offsets, width), body])

    def _join(self, values: Sequence[Any], depth: int) -> tuple[list[int], bytes]:
        parts, offsets = [], [0]
        for value in values:
            parts.append(self.encode(value, depth + 1))
            offsets.append(offsets[-1] + len(parts[-1]))
            if offsets[-1] > MAX_SIZE:
                raise VariantError(f"a variant has at most {MAX_SIZE} bytes")
        return offsets, b"".join(parts)

    def metadata(self) -> bytes:
        """Return the metadata: the keys in the order of their ids."""
        keys = tuple(self.ids)
        if len(keys) <= FEW_KEYS and sum(map(len, keys)) <= SHORT_KEYS:
            return _cached_metadata(keys)
        return _metadata(keys)


def _metadata(keys: Sequence[str]) -> bytes:
    texts = [_utf8(key) for key in keys]
    offsets = [0]
    for text in texts:
        offsets.append(offsets[-1] + len(text))
    width = _width(max(offsets[-1], len(texts)))
    header = bytes([1 | (width - 1) << 6])
    return b"".join([header, _number(len(texts), width), _numbers(offsets, width), *texts])


#: Keys whose metadata is kept, for the values of a column have mostly the same: as many, of so many characters in all.
FEW_KEYS, SHORT_KEYS = 64, 2048
_cached_metadata = lru_cache(256)(_metadata)


def _scalar(value: Any) -> bytes:
    if isinstance(value, np.float32):
        return struct.pack("<Bf", FLOAT << 2, float(value))
    match value:
        case None:
            return bytes([NULL << 2])
        case bool():
            return bytes([(TRUE if value else FALSE) << 2])
        case int():
            return _integer(value)
        case float():
            return struct.pack("<Bd", DOUBLE << 2, value)
        case str():
            return _text(value)
        case bytes():
            return struct.pack("<BI", BINARY << 2, len(value)) + value
        case Decimal():
            return _decimal(value)
        case Date():
            return struct.pack("<Bi", DATE << 2, value.days)
        case Timestamp():
            return struct.pack("<Bq", (TIMESTAMP if value.zoned else TIMESTAMP_NTZ) << 2, value.micros)
    raise TypeError(f"a {type(value).__name__} cannot be a VARIANT")


def _integer(value: int) -> bytes:
    if -128 <= value < 128:
        return bytes((INT8 << 2, value & 0xFF))
    for kind, code, bits in ((INT8, "<Bb", 7), (INT16, "<Bh", 15), (INT32, "<Bi", 31), (INT64, "<Bq", 63)):
        if -(1 << bits) <= value < 1 << bits:
            return struct.pack(code, kind << 2, value)
    return _unscaled(value, 0) if abs(value) < 10**MAX_DIGITS else _text(_digits(value))


def _decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return _text(str(value))
    if len(digits) <= MAX_DIGITS and -MAX_DIGITS <= exponent <= 0:
        number = int("".join(map(str, digits)))
        return _unscaled(-number if sign else number, -exponent)
    if 0 < exponent <= MAX_DIGITS - len(digits):
        return _integer(int(value))
    return _text(str(value))


def _unscaled(number: int, scale: int) -> bytes:
    size = abs(number)
    kind, width = (DECIMAL4, 4) if size < 10**9 else (DECIMAL8, 8) if size < 10**18 else (DECIMAL16, 16)
    return bytes([kind << 2, scale]) + number.to_bytes(width, "little", signed=True)


def _digits(number: int) -> str:
    """Return the decimal digits; ``str`` refuses very long ints."""
    return f"{Decimal(number):f}"


def _text(text: str) -> bytes:
    data = _utf8(text)
    if len(data) <= SHORT_TEXT:
        return bytes([len(data) << 2 | SHORT_STRING]) + data
    return struct.pack("<BI", STRING << 2, len(data)) + data


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise LoneSurrogateError("a string has half of a surrogate pair, which UTF-8 cannot hold") from None


def _java_order(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def _width(number: int) -> int:
    """Return the number of bytes that hold a number: 1 to 4."""
    return max(1, (number.bit_length() + 7) // 8)


def _number(number: int, width: int) -> bytes:
    return number.to_bytes(width, "little")


def _numbers(numbers: Sequence[int], width: int) -> bytes:
    if width == 1:
        return bytes(numbers)
    return b"".join(_number(number, width) for number in numbers)


_DOUBLE = struct.Struct("<Bd").pack
#: How values of the usual types are written; those of others, and of subclasses, are asked what they are.
PLAIN: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda _: bytes((NULL << 2,)),
    bool: lambda value: bytes(((TRUE if value else FALSE) << 2,)),
    int: _integer,
    float: lambda value: _DOUBLE(DOUBLE << 2, value),
    str: _text,
}
