"""Conversion between columns and the Python objects of user functions.

Arrow                      Python
integers, floats, bool     int, float, bool
string, binary             str, bytes
decimal128                 decimal.Decimal
large_string               decimal.Decimal of any scale: a BigDecimal (``DecodeOptions.decimals`` = objects)
date32                     datetime.date
timestamp (UTC, none)      datetime.datetime (aware in UTC, naive)
duration                   datetime.timedelta
list                       list
map                        dict; lists in its keys are tuples, and no key is None
struct                     Row (row.py)
null                       None

In the other direction, a struct may be a Row, dict (by name), tuple or list (by position), dataclass or any object with
attributes of these names; a list may be a list, tuple, set, frozenset or deque; a map may be a mapping. Scalars must
have the right type and range: no cast loses information.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from pyspark_savepoint.formats.columns import (
    DecodeOptions,
    binary_parts,
    list_array,
    map_array,
    struct_array,
    valid_rows,
)
from pyspark_savepoint.formats.errors import ValueRangeError
from pyspark_savepoint.statebackends.processing.runtime.row import Row, make_row, rows_of_columns

# -- columns to objects --------------------------------------------------------------------------------------


def to_python(array: pa.Array) -> list[Any]:
    """Return the values of a column as Python objects, with None for nulls."""
    kind = array.type
    if pt.is_struct(kind):
        values: list[Any] = _rows(array)
    elif pt.is_map(kind):
        first, last, spans = _spans(array)
        keys, items = to_python(array.keys[first:last]), to_python(array.items[first:last])
        if has_lists(kind.key_type):
            keys = [hashable(key) for key in keys]
        values = [dict(zip(keys[a:b], items[a:b], strict=True)) for a, b in spans]
        if pt.is_large_string(kind.key_type) and any(len(d) < b - a for d, (a, b) in zip(values, spans, strict=True)):
            raise ValueRangeError(
                "a map has keys that are the same number with different scales, which are one key in a Python dict",
                remedy="option 'decimals' = 'string' returns them as strings",
            )
    elif pt.is_list(kind) or pt.is_large_list(kind):
        first, last, spans = _spans(array)
        items = to_python(array.values[first:last])
        values = [items[a:b] for a, b in spans]
    elif pt.is_large_string(kind):
        return [None if text is None else Decimal(text) for text in array.to_pylist()]
    elif pt.is_string(kind) or pt.is_binary(kind):
        return list(array.to_numpy(zero_copy_only=False).tolist())
    elif (pt.is_integer(kind) or pt.is_floating(kind)) and not array.null_count:
        return list(array.to_numpy().tolist())
    else:
        return list(array.to_pylist())
    if array.null_count:
        for row in np.flatnonzero(~valid_rows(array)).tolist():
            values[row] = None
    return values


def has_lists(kind: pa.DataType) -> bool:
    """Return whether values of a type contain lists, which cannot be keys of a dict."""
    return pt.is_list(kind) or (pt.is_struct(kind) and any(has_lists(field.type) for field in kind))


def hashable(key: Any) -> Any:
    """Return a map key in a form that a dict accepts: its lists become tuples."""
    if isinstance(key, list):
        return tuple(hashable(element) for element in key)
    return make_row(key._fields, [hashable(element) for element in key]) if isinstance(key, Row) else key


def _rows(array: pa.StructArray) -> list[Any]:
    fields = tuple(field.name for field in array.type)
    return list(rows_of_columns(fields, [to_python(array.field(i)) for i in range(len(fields))], len(array)))


def _spans(array: pa.Array) -> tuple[int, int, list[tuple[int, int]]]:
    """Return the first and last item of a list or map column in its child, and every row's span among them."""
    if not len(array):
        return 0, 0, []
    offsets = array.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    return first, last, list(pairwise((offsets - first).tolist()))


# -- objects to columns --------------------------------------------------------------------------------------


def from_python(values: Sequence[Any], kind: pa.DataType, name: str) -> pa.Array:
    """Return the column of some values; raise ValueRangeError for one that the type cannot hold."""
    if pt.is_struct(kind):
        return _structs(values, kind, name)
    if pt.is_map(kind):
        return _maps(values, kind, name)
    if pt.is_list(kind):
        return _lists(values, kind, name)
    if pt.is_timestamp(kind):
        values = [_instant(value, kind, name) for value in values]
    else:
        _check_types(values, kind, name)
    if pt.is_large_string(kind):
        values = [None if value is None else _number(value, name) for value in values]
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
        for value in values:
            _check_one(value, kind, name)
        raise


#: Accepted Python classes by column type: Arrow would cast others with loss, or misinterpret them.
_CLASSES: tuple[tuple[Callable[[pa.DataType], bool], frozenset[type]], ...] = (
    (pt.is_integer, frozenset({int})),
    (pt.is_floating, frozenset({float, int})),
    (pt.is_boolean, frozenset({bool})),
    (pt.is_string, frozenset({str})),
    (pt.is_binary, frozenset({bytes, bytearray})),
    (pt.is_decimal, frozenset({Decimal, int})),
    (pt.is_large_string, frozenset({Decimal, int})),
    (pt.is_date, frozenset({datetime.date})),
    (pt.is_duration, frozenset({datetime.timedelta})),
)
#: Subclasses that are not accepted in place of their base class.
_NEVER = {int: (bool,), datetime.date: (datetime.datetime,)}


def for_functions(options: DecodeOptions) -> DecodeOptions:
    """Return the decode options for columns that become objects."""
    return replace(options, decimals="objects") if options.decimals == "auto" else options


def text_of(number: Decimal | int) -> str:
    """Return all digits of a number, with its scale."""
    return str(Decimal(number))


def _number(value: Any, name: str) -> str:
    if not Decimal(value).is_finite():
        raise _refuse(value, pa.large_string(), name, "a BigDecimal must be finite")
    return text_of(value)


def _check_types(values: Sequence[Any], kind: pa.DataType, name: str) -> None:
    """Raise an error for values of a class that the column does not accept; checks the set of types first."""
    wanted = next((classes for matches, classes in _CLASSES if matches(kind)), None)
    if wanted is None or set(map(type, values)) - {type(None)} <= wanted:
        return
    numbers = (np.integer,) if wanted == {int} else (np.floating, np.integer) if float in wanted else ()
    excluded = tuple(part for accepted in wanted for part in _NEVER.get(accepted, ()))
    for value in values:
        fits = value is None or isinstance(value, (*wanted, *numbers))
        if not fits or isinstance(value, excluded):
            raise _refuse(value, kind, name)


def _check_one(value: Any, kind: pa.DataType, name: str) -> None:
    try:
        pa.array([value], kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
        raise _refuse(value, kind, name) from None


def _refuse(value: Any, kind: pa.DataType, name: str, remedy: str | None = None) -> ValueRangeError:
    return ValueRangeError(
        f"{name} cannot hold a value that the function returned",
        expected=str(kind).replace("large_string", "decimal"),
        found=f"{value!r:.200} ({type(value).__name__})",
        remedy=remedy or "give a value of the declared type, or declare the type of the value",
    )


def _instant(value: Any, kind: pa.TimestampType, name: str) -> Any:
    """Return a datetime whose time zone fits the type: aware for TIMESTAMP, naive for TIMESTAMP_NTZ."""
    if value is None:
        return None
    if not isinstance(value, datetime.datetime):
        raise _refuse(value, kind, name)
    if (value.tzinfo is None) != (kind.tz is None):
        wanted = "a naive datetime" if kind.tz is None else "a datetime with a time zone"
        raise _refuse(value, kind, name, f"give {wanted}")
    return value if kind.tz is None else value.astimezone(datetime.UTC)


def _valid(values: Sequence[Any]) -> Any:
    return np.fromiter((value is not None for value in values), np.bool_, len(values))


def _structs(values: Sequence[Any], kind: pa.StructType, name: str) -> pa.Array:
    fields = [kind.field(i) for i in range(kind.num_fields)]
    names = tuple(field.name for field in fields)
    empty = (None,) * len(fields)
    tuples = [empty if value is None else struct_fields(value, names, kind, name) for value in values]
    columns = list(zip(*tuples, strict=True)) if tuples else [()] * len(fields)
    arrays = [
        from_python(column, field.type, f"{name}.{field.name}") for column, field in zip(columns, fields, strict=True)
    ]
    return struct_array(kind, arrays, len(values), _valid(values))


def struct_fields(value: Any, names: tuple[str, ...], kind: pa.DataType, name: str) -> Sequence[Any]:
    """Return the fields of one struct, in the type's order."""
    if isinstance(value, Row):
        if value._fields == names or (len(value) == len(names) and not set(value._fields) & set(names)):
            return tuple(value)
        value = Row.as_dict(value)
    elif isinstance(value, tuple | list):
        # Rows of Spark and named tuples have field names; plain tuples and lists are matched by position.
        known: tuple[str, ...] = getattr(value, "__fields__", getattr(value, "_fields", ()))
        if set(known) == set(names):
            value = dict(zip(known, value, strict=True))
        elif len(value) == len(names):
            return value
        else:
            raise _refuse(value, kind, name, f"there are {len(names)} fields, not {len(value)}")
    by_name = value if isinstance(value, Mapping) else _attributes(value)
    if by_name is None:
        how = "a tuple, dict, Row, dataclass or object that has these fields"
        raise _refuse(value, kind, name, how)
    if not by_name.keys() <= set(names):
        unknown = next(field for field in by_name if field not in names)
        raise _refuse(value, kind, name, f"there is no field {unknown!r}")
    return [by_name.get(field) for field in names]


def _attributes(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object, from its dict and its slots."""
    if isinstance(value, str | bytes | int | float):
        return None
    attributes = dict(value.__dict__) if hasattr(value, "__dict__") else {}
    for part_of in type(value).__mro__:
        slots = part_of.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if slot in part_of.__dict__ and not slot.startswith("__"):
                attributes[slot] = part_of.__dict__[slot].__get__(value)
    return attributes or None


def as_list(value: Any, kind: pa.DataType, name: str) -> Collection[Any]:
    """Return a value that is a valid list; raise ValueRangeError for others, such as a string."""
    if not isinstance(value, Collection) or isinstance(value, str | bytes | Mapping):
        raise _refuse(value, kind, name)
    return value


def as_map(value: Any, kind: pa.DataType, name: str) -> Mapping[Any, Any]:
    """Return a value that is a valid map; raise ValueRangeError for others."""
    if not isinstance(value, Mapping):
        raise _refuse(value, kind, name)
    return value


def _lists(values: Sequence[Any], kind: pa.ListType, name: str) -> pa.Array:
    for value in values:
        if value is not None:
            as_list(value, kind, name)
    counts = np.fromiter((len(value or ()) for value in values), np.int64, len(values))
    items = from_python(list(chain.from_iterable(value or () for value in values)), kind.value_type, f"{name}[]")
    return list_array(kind, counts, items, _valid(values))


def _maps(values: Sequence[Any], kind: pa.MapType, name: str) -> pa.Array:
    for value in values:
        if value is not None:
            as_map(value, kind, name)
    counts = np.fromiter((len(value or ()) for value in values), np.int64, len(values))
    plain = list(chain.from_iterable(value or () for value in values))
    if None in plain:
        raise _refuse(None, kind.key_type, f"{name}.key")
    keys = from_python(plain, kind.key_type, f"{name}.key")
    flat = list(chain.from_iterable(value.values() for value in values if value))
    return map_array(kind, counts, keys, from_python(flat, kind.item_type, f"{name}.value"), _valid(values))


def binary_values(array: pa.Array) -> list[bytes]:
    """Return the rows of a binary column as bytes."""
    offsets, data = binary_parts(array)
    whole = data.tobytes()
    return [whole[a:b] for a, b in pairwise(offsets.tolist())]
