"""Convert values of one logical type to another without loss."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import DecodeOptions, struct_array
from pyspark_savepoint.formats.errors import UnsupportedStateError, ValueRangeError
from pyspark_savepoint.formats.serializers.sql.logical_types import (
    MAX_LENGTH,
    RAW_TIMESTAMP,
    STRINGS,
    TIMESTAMPS,
    LogicalType,
    arrow_type,
)

#: Times are the numbers that Flink stores, so that none is lost.
RAW = DecodeOptions(timestamps="raw")
WHOLE_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
NANOS_PER_MILLI, MILLIS_PER_SECOND = 1_000_000, 1000
#: How many of Arrow's units a millisecond has; none of the longer one.
UNITS_PER_MILLI = {"ns": NANOS_PER_MILLI, "us": 1000, "ms": 1, "s": 0}


def raw_type(kind: LogicalType) -> pa.DataType:
    """Return the Arrow type of values of a logical type, with times as Flink stores them."""
    return arrow_type(kind, RAW)


def exactly(column: pa.Array, kind: LogicalType, name: str) -> pa.Array:
    """Return a column as values of a type; raise ValueRangeError for the first that does not fit, or is NULL."""
    wanted = raw_type(kind)
    if pa.types.is_null(column.type):
        column = pa.nulls(len(column), wanted)
    elif kind.root in TIMESTAMPS:
        column = _timestamps(column, kind, name)
    elif kind.root in STRINGS and not pa.types.is_string(column.type):
        column = _texts(column, kind, name)
    elif column.type != wanted:
        column = _cast(column, wanted, name, kind)
    if kind.root in STRINGS and kind.length < MAX_LENGTH:
        _expect_length(column, kind, name)
    # The reader fills a NOT NULL field of processing time with NULL, as Flink does.
    if not kind.nullable and kind.kind != "PROCTIME" and column.null_count:
        raise ValueRangeError(
            f"{name} is NULL, and the new query has it as {kind}",
            found=f"NULL in {column.null_count} of {len(column)} rows",
            remedy="give it a value in argument 'backfill', or let the query have it without NOT NULL",
        )
    return column


def _cast(column: pa.Array, wanted: pa.DataType, name: str, kind: LogicalType) -> pa.Array:
    try:
        if pa.types.is_integer(column.type) and pa.types.is_decimal(wanted):
            # Arrow asks for the digits of all numbers of the type, not of those that are there.
            column = pa.array(column.to_pylist(), pa.decimal128(38, wanted.scale))
        cast = column.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise _does_not_fit(name, kind, str(error).splitlines()[0]) from None
    if pa.types.is_floating(wanted) and not cast.cast(column.type, safe=False).equals(column):
        raise _does_not_fit(name, kind, f"a {column.type} that a {wanted} does not hold")
    return cast


def _does_not_fit(name: str, kind: LogicalType, found: str) -> ValueRangeError:
    return ValueRangeError(
        f"a value of {name} does not fit its new type",
        expected=str(kind),
        found=found,
        remedy="let the new query have a wider type, or give the values in argument 'backfill'",
    )


def _expect_length(column: pa.Array, kind: LogicalType, name: str) -> None:
    longest = pc.max(pc.utf8_length(column)).as_py()
    if longest is not None and longest > kind.length:
        raise _does_not_fit(name, kind, f"a text of {longest} characters")


def _timestamps(column: pa.Array, kind: LogicalType, name: str) -> pa.Array:
    """Return times in another precision: milliseconds alone, or milliseconds and the nanoseconds within one."""
    wanted = raw_type(kind)
    valid = np.asarray(column.is_valid())
    if pa.types.is_timestamp(column.type):
        numbers = np.asarray(column.cast(pa.int64()).fill_null(0), np.int64)
        per_milli = UNITS_PER_MILLI[column.type.unit]
        millis = numbers // per_milli if per_milli else numbers * MILLIS_PER_SECOND
        rest = numbers % per_milli * (NANOS_PER_MILLI // per_milli) if per_milli else np.zeros_like(numbers)
        parts = [pa.array(millis, mask=~valid), pa.array(rest.astype(np.int32), mask=~valid)]
        column = struct_array(RAW_TIMESTAMP, parts, len(column), valid)
    if column.type == wanted:
        return column
    if column.type not in (RAW_TIMESTAMP, pa.int64()):
        raise _does_not_fit(name, kind, f"values of {column.type}")
    if pa.types.is_struct(wanted):
        nothing = pa.array(np.zeros(len(column), np.int32))
        return struct_array(wanted, [pa.concat_arrays([column.cast(pa.int64())]), nothing], len(column), valid)
    millis, nanos = column.flatten()
    if pc.any(pc.not_equal(nanos, 0)).as_py():
        raise ValueRangeError(
            f"{name} has a time with parts of a millisecond, which its new type has not",
            remedy="let the new query keep the precision",
        )
    return millis


def _texts(column: pa.Array, kind: LogicalType, name: str) -> pa.Array:
    """Return whole numbers, decimals and booleans as Flink's CAST to STRING shows them."""
    types = pa.types
    if types.is_integer(column.type):
        return column.cast(pa.string())
    if types.is_boolean(column.type):
        return pc.if_else(column, "TRUE", "FALSE").cast(pa.string())
    if types.is_decimal(column.type):
        values = (None if value is None else format(value, "f") for value in column.to_pylist())
        return pa.array(values, pa.string())
    raise UnsupportedStateError(
        f"{name} cannot become text: how Flink shows values of its type is not known here",
        found=str(column.type),
        expected=str(kind),
        remedy="give the values in argument 'backfill'",
    )
