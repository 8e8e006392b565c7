"""Keys of PyFlink that are pickles: one type for all of them, where all are of one.

PyFlink pickles keys without a declared type. A key that is a number, a text, bytes, a boolean, a date, a datetime, or a
tuple of these becomes a column of that type; keys of several types are VARIANT. Spark groups and joins by the former.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.pickle_walker import decode_pickled_or_binary, is_pickle, read_pickle
from pyspark_savepoint.formats.serializers.basic.calendar import TIMESTAMP, TIMESTAMP_NTZ
from pyspark_savepoint.formats.variant import VARIANT, Date, Timestamp

MAX_LONG = (1 << 63) - 1
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

    def add(self, column: pa.Array) -> None:
        """Add keys."""
        for data in column.to_pylist() if self.pickled else ():
            if not is_pickle(data):
                self.pickled = False
                return
            if self.kind != VARIANT:
                kind = _type_of_pickle(data)
                self.kind = kind if self.kind in (None, kind) else VARIANT


def _type_of_pickle(data: bytes) -> pa.DataType:
    try:
        return type_of(read_pickle(data))
    except SavepointError:
        return VARIANT


def decode_keys(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert pickled keys to a column of their type."""
    if kind == VARIANT:
        return decode_pickled_or_binary(column)
    return pa.array([_converted(read_pickle(data, row)) for row, data in enumerate(column.to_pylist())], kind)
