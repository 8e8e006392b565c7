"""Exact conversion between JSON and Arrow values of a known type: keys given as an option, rows of text files.

number, string, boolean   as they are; longs and decimals may also be strings
timestamp, date           ISO 8601 text
binary                    text of hexadecimal digits
struct                    an object by field names, or a list in field order; without a row kind it is +I
list, map                 a list; an object, or a list of [key, value]
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError, did_you_mean
from pyspark_savepoint.formats.serializers.composite.fields import ROW_KIND, ROW_KINDS
from pyspark_savepoint.statebackends.rows.json_variants import is_json


def _refuse(value: Any, kind: pa.DataType, where: str) -> OptionError:
    return OptionError(
        f"{where} must be a value of {kind}",
        found=repr(value)[:200],
        expected=str(kind),
        remedy=f"give {_json_form(kind)}",
    )


def _json_form(kind: pa.DataType) -> str:
    """Return how a value of a type is given."""
    types = pa.types
    given = (
        (types.is_struct, "an object by field names, or a list in the order of the fields"),
        (types.is_map, "an object, or a list of [key, value]"),
        (types.is_list, "a list"),
        (types.is_boolean, "true or false"),
        (types.is_integer, "a whole number that the type holds, such as 1042"),
        (types.is_floating, "a number that the type holds, such as 0.5"),
        (types.is_decimal, "a number that the type holds, such as 0.5"),
        (types.is_date, "an ISO 8601 date, such as '2026-01-31'"),
        (types.is_time, "an ISO 8601 time, such as '12:30:00'"),
        (types.is_timestamp, "an ISO 8601 time, such as '2026-01-31T12:30:00'"),
        (types.is_binary, "a text of hexadecimal digits, such as '0a1f'"),
    )
    return next((how for is_kind, how in given if is_kind(kind)), "a text, in quotes")


def from_json(value: Any, kind: pa.DataType, where: str) -> Any:
    """Convert a JSON value to a Python value for ``pa.array``; raise OptionError if it does not fit the type."""
    if value is None:
        return None
    try:
        return _convert(value, kind, where)
    except OptionError:
        raise  # it is a ValueError too, with a more specific message
    except (ValueError, TypeError, OverflowError, decimal.InvalidOperation):
        raise _refuse(value, kind, where) from None


def _convert(value: Any, kind: pa.DataType, where: str) -> Any:
    types = pa.types
    if types.is_struct(kind):
        return _struct(value, kind, where)
    if types.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else value
        return [(from_json(k, kind.key_type, where), from_json(v, kind.item_type, where)) for k, v in pairs]
    if types.is_list(kind):
        if not isinstance(value, list):
            raise _refuse(value, kind, where)
        return [from_json(item, kind.value_type, where) for item in value]
    if types.is_boolean(kind) != isinstance(value, bool):
        raise _refuse(value, kind, where)
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    if isinstance(value, str) and is_number and ("_" in value or not value.isascii()):
        raise _refuse(value, kind, where)  # Python's own notation of numbers, and digits of other scripts
    if types.is_integer(kind):
        if isinstance(value, float | decimal.Decimal):
            raise _refuse(value, kind, where)
        number = int(value)
        pa.scalar(number, kind)
        return number
    if types.is_floating(kind):
        return _float(value)
    if types.is_decimal(kind):
        return decimal.Decimal(str(value))
    if types.is_date(kind):
        return dt.date.fromisoformat(value)
    if types.is_time(kind):
        return dt.time.fromisoformat(_micros(value))
    if types.is_timestamp(kind):
        moment = dt.datetime.fromisoformat(_micros(value))
        if kind.tz is None:
            if moment.tzinfo is not None:
                raise ValueError("a time zone")
            return moment
        return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    if types.is_binary(kind):
        return bytes.fromhex(value)
    if types.is_string(kind) and not isinstance(value, str):
        raise _refuse(value, kind, where)
    return value


def _float(value: Any) -> float:
    """Return a number, or the text of one; raise ValueError for a whole number that would lose digits."""
    number = float(value)
    if isinstance(value, int) and int(number) != value:
        raise ValueError("a whole number that no double is")
    if math.isinf(number) and not (isinstance(value, str) and value.strip("+-").lower().startswith("inf")):
        raise OverflowError("a number that no double is")
    return number


def _micros(text: str) -> str:
    """Return the text of a time; raise ValueError for digits after the microseconds, which Python would cut."""
    if re.search(r"[.,][0-9]{6}[0-9]*[1-9]", text):
        raise ValueError("more digits than microseconds have")
    return text


def _struct(value: Any, kind: pa.StructType, where: str) -> dict[str, Any]:
    fields = list(kind)
    names = [field.name for field in fields]
    if isinstance(value, list) and len(value) in (len(names), len([name for name in names if name != ROW_KIND])):
        value = dict(zip(names, value, strict=False))
    if not isinstance(value, dict):
        raise _refuse(value, kind, where)
    known = set(names)
    for name in value:
        if name not in known:
            raise OptionError(f"{where} has no field {name!r}", remedy=did_you_mean(name, names))
    value = {ROW_KIND: ROW_KINDS[0], **value}
    return {field.name: from_json(value.get(field.name), field.type, f"{where}.{field.name}") for field in fields}


def to_json(value: Any) -> Any:
    """Convert a value of Arrow's ``to_pylist`` to the JSON that :func:`from_json` reads.

    >>> to_json({"at": dt.date(2026, 1, 2), "raw": b"flink"})
    {'at': '2026-01-02', 'raw': '666c696e6b'}
    """
    if isinstance(value, dict):
        return {name: to_json(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(part) for part in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (dt.datetime, dt.date)):
        return value.isoformat()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def kinds_of(schema: pa.Schema, parsed: bool = True) -> dict[str, pa.DataType]:
    """Return the types of columns by name; those of JSON text are ``pa.json_()`` if it becomes values."""
    return {field.name: _kind(field) if parsed else field.type for field in schema}


def _kind(field: pa.Field) -> pa.DataType:
    return pa.json_() if is_json(field) else field.type


def _number(text: str) -> float | str:
    """Return a number of JSON; as text, like other decimals, if a double does not keep its digits."""
    number = float(text)
    return number if decimal.Decimal(text) == decimal.Decimal(repr(number)) else text


def row_to_json(row: Mapping[str, Any], kinds: Mapping[str, pa.DataType]) -> dict[str, Any]:
    """Convert a row of Arrow's ``to_pylist`` to JSON; maps whose keys are strings become objects, texts of JSON values.

    >>> row_to_json({"spent": [("EUR", 5)], "sent": [(1, None)]},
    ...             {"spent": pa.map_(pa.string(), pa.int64()), "sent": pa.map_(pa.int64(), pa.string())})
    {'spent': {'EUR': 5}, 'sent': [[1, None]]}
    """
    return {name: _typed(value, kinds[name]) if name in kinds else to_json(value) for name, value in row.items()}


def _typed(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if isinstance(kind, pa.JsonType):
        return json.loads(value, parse_float=_number)
    if pa.types.is_struct(kind):
        return {field.name: _typed(value[field.name], _kind(field)) for field in kind}
    if pa.types.is_list(kind):
        return [_typed(item, _kind(kind.value_field)) for item in value]
    if not pa.types.is_map(kind):
        return to_json(value)
    entries = value.items() if isinstance(value, dict) else value
    key_kind, item_kind = _kind(kind.key_field), _kind(kind.item_field)
    pairs = [[_typed(key, key_kind), _typed(item, item_kind)] for key, item in entries]
    if not pa.types.is_string(kind.key_type):
        return pairs
    named = dict(pairs)
    # Damaged bytes can repeat a key: an object would show only one of its values.
    return named if len(named) == len(pairs) else pairs
