"""JSON text of variants: for people, and for tools that do not read Spark's VARIANT.

null, true, false, numbers   as JSON has them; a decimal has all of its digits, NaN and infinities are text
date, timestamp              ISO 8601 text; a TIMESTAMP ends with ``+00:00``, a TIMESTAMP_NTZ has no time zone
binary                       text of hexadecimal digits
object, array                the same

These are the forms of ``statebackends/rows/json_values.py``. JSON does not tell all types apart (a date is a text), so
that a variant cannot be made of it again. Layout of the bytes: ``variant.py``. Bytes come from a snapshot: parts may
overlap or be anywhere, so the text is limited in proportion to the bytes, and nesting takes no stack.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.variant import (
    ARRAY,
    BINARY,
    DATE,
    DECIMAL4,
    DECIMAL8,
    DECIMAL16,
    DOUBLE,
    FALSE,
    FLOAT,
    INT8,
    INT16,
    INT32,
    INT64,
    MAX_GROWTH,
    NULL,
    OBJECT,
    SHORT_STRING,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TRUE,
)

#: Characters of a batch's texts, beside ``MAX_GROWTH`` for each byte of its variants.
FREE_TEXT = 1 << 20
#: Metadata of a field of Arrow whose texts are JSON. It is no extension type (``arrow.json``): Polars 2 has no function
#: for columns of that, and DuckDB's operators take texts too.
JSON_FIELD = MappingProxyType({b"json": b"true"})
WORDS = MappingProxyType({NULL: "null", TRUE: "true", FALSE: "false"})
EPOCH, EPOCH_DAY = datetime(1970, 1, 1), date(1970, 1, 1)
DECIMALS = Context(prec=64)


def json_texts(column: pa.StructArray) -> pa.Array:
    """Return the JSON text of each variant of a column; null for a null row.

    Raises:
        CorruptStateError: If a variant is damaged, or becomes far larger than its bytes.

    """
    room = _Room(FREE_TEXT + MAX_GROWTH * column.nbytes)
    keys: dict[bytes, list[str]] = {}
    texts: list[str | None] = []
    for row, pair in enumerate(column.to_pylist()):
        if pair is None:
            texts.append(None)
            continue
        try:
            if pair["metadata"] not in keys:
                keys[pair["metadata"]] = _keys(pair["metadata"])
            texts.append("".join(_parts(pair["value"], keys[pair["metadata"]], room)))
        except (_DamagedError, struct.error, IndexError, UnicodeDecodeError) as error:
            found = str(error) if isinstance(error, _DamagedError) else "it ends too early, or has no UTF-8"
            raise CorruptStateError(
                f"a VARIANT cannot be shown as JSON (row {row} of its batch)",
                found=found,
                remedy="option 'variants' with 'variant' returns its bytes",
            ) from None
    return pa.array(texts, pa.string())


class _DamagedError(Exception):
    """Bytes that no writer makes."""


class _Room:
    """How many characters may still be made."""

    def __init__(self, characters: int) -> None:
        self.left = characters

    def take(self, text: str) -> str:
        self.left -= len(text)
        if self.left < 0:
            raise _DamagedError(f"its text is more than {MAX_GROWTH} times as large as its bytes")
        return text


def _parts(data: bytes, keys: list[str], room: _Room) -> Iterator[str]:
    """Yield the text of a value in parts; what follows waits: a text, the position of a value, or ``~`` id of a key."""
    waiting: list[str | int] = [0]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield room.take(part)
            continue
        if part < 0:
            yield room.take(f"{json.dumps(keys[~part], ensure_ascii=False)}: ")
            continue
        kind, header = data[part] & 3, data[part] >> 2
        if kind == SHORT_STRING:
            yield room.take(_quoted(_span(data, part + 1, header)))
        elif kind == ARRAY:
            waiting += _array(data, part, header)
        elif kind == OBJECT:
            waiting += _object(data, part, header)
        else:
            yield room.take(_scalar(data, part + 1, header))


def _array(data: bytes, start: int, header: int) -> list[str | int]:
    """Return the parts of an array, the last first."""
    width, large = (header & 3) + 1, header >> 2 & 1
    count, first = _count(data, start, large)
    places = _offsets(data, first, count, width)
    parts: list[str | int] = ["["]
    for number, place in enumerate(places):
        parts += [place] if number == 0 else [", ", place]
    return [*parts, "]"][::-1]


def _object(data: bytes, start: int, header: int) -> list[str | int]:
    """Return the parts of an object, the last first."""
    width, id_width, large = (header & 3) + 1, (header >> 2 & 3) + 1, header >> 4 & 1
    count, first = _count(data, start, large)
    ids = _numbers(data, first, count, id_width)
    places = _offsets(data, first + count * id_width, count, width)
    parts: list[str | int] = ["{"]
    for number, (key, place) in enumerate(zip(ids, places, strict=True)):
        parts += [~key, place] if number == 0 else [", ", ~key, place]
    return [*parts, "}"][::-1]


def _count(data: bytes, start: int, large: int) -> tuple[int, int]:
    """Return how many elements there are, and where their ids or offsets begin."""
    width = 4 if large else 1
    return int.from_bytes(_span(data, start + 1, width), "little"), start + 1 + width


def _offsets(data: bytes, start: int, count: int, width: int) -> list[int]:
    """Return the positions of the values, which follow their offsets and the offset of the end."""
    base = start + (count + 1) * width
    return [base + offset for offset in _numbers(data, start, count + 1, width)[:-1]]


def _numbers(data: bytes, start: int, count: int, width: int) -> list[int]:
    span = _span(data, start, count * width)
    return [int.from_bytes(span[at : at + width], "little") for at in range(0, len(span), width)]


def _span(data: bytes, start: int, length: int) -> bytes:
    span = data[start : start + length]
    if len(span) < length:
        raise _DamagedError("it ends too early")
    return span


def _keys(data: bytes) -> list[str]:
    """Return the keys of objects by their ids."""
    if data[0] & 15 != 1:
        raise _DamagedError(f"its metadata are of version {data[0] & 15}")
    width = (data[0] >> 6) + 1
    count = int.from_bytes(_span(data, 1, width), "little")
    offsets = _numbers(data, 1 + width, count + 1, width)
    base = 1 + width + (count + 1) * width
    if any(low > high for low, high in pairwise(offsets)):
        raise _DamagedError("its keys overlap")
    return [str(_span(data, base + low, high - low), "utf-8") for low, high in pairwise(offsets)]


def _quoted(text: bytes) -> str:
    return json.dumps(str(text, "utf-8"), ensure_ascii=False)


def _scalar(data: bytes, start: int, kind: int) -> str:
    if kind in WORDS:
        return WORDS[kind]
    if kind not in SCALARS:
        raise _DamagedError(f"a value of type {kind}")
    return SCALARS[kind](data, start)


def _integer(code: str) -> Callable[[bytes, int], str]:
    return lambda data, start: str(struct.unpack_from(code, data, start)[0])


def _double(data: bytes, start: int) -> str:
    return _finite(struct.unpack_from("<d", data, start)[0])


def _float(data: bytes, start: int) -> str:
    return _finite(float(str(np.float32(struct.unpack_from("<f", data, start)[0]))))


def _finite(number: float) -> str:
    text = repr(number)
    return text if text[-1].isdigit() else f'"{text}"'


def _decimal(width: int) -> Callable[[bytes, int], str]:
    def text(data: bytes, start: int) -> str:
        unscaled = int.from_bytes(_span(data, start + 1, width), "little", signed=True)
        return f"{DECIMALS.scaleb(Decimal(unscaled), -data[start]):f}"

    return text


def _date(data: bytes, start: int) -> str:
    (days,) = struct.unpack_from("<i", data, start)
    try:
        return f'"{(EPOCH_DAY + timedelta(days=days)).isoformat()}"'
    except OverflowError:
        return f'"{np.datetime64(days, "D")}"'


def _timestamp(zone: str) -> Callable[[bytes, int], str]:
    def text(data: bytes, start: int) -> str:
        (micros,) = struct.unpack_from("<q", data, start)
        try:
            return f'"{(EPOCH + timedelta(microseconds=micros)).isoformat()}{zone}"'
        except OverflowError:
            return f'"{np.datetime64(micros, "us")}{zone}"'

    return text


def _counted(data: bytes, start: int) -> bytes:
    return _span(data, start + 4, struct.unpack_from("<I", data, start)[0])


#: Texts of values by their types.
SCALARS: Mapping[int, Callable[[bytes, int], str]] = MappingProxyType(
    {
        INT8: _integer("<b"),
        INT16: _integer("<h"),
        INT32: _integer("<i"),
        INT64: _integer("<q"),
        DOUBLE: _double,
        FLOAT: _float,
        DECIMAL4: _decimal(4),
        DECIMAL8: _decimal(8),
        DECIMAL16: _decimal(16),
        DATE: _date,
        TIMESTAMP: _timestamp("+00:00"),
        TIMESTAMP_NTZ: _timestamp(""),
        BINARY: lambda data, start: f'"{_counted(data, start).hex()}"',
        STRING: lambda data, start: _quoted(_counted(data, start)),
    }
)
