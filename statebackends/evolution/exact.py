"""Convert values of one logical type to another without loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import (
    DecodeOptions,
    list_array,
    map_array,
    scatter,
    struct_array,
    valid_rows,
)
from pyspark_savepoint.formats.errors import OptionError, UnsupportedStateError, ValueRangeError
from pyspark_savepoint.formats.serializers.sql.logical_types import (
    BINARIES,
    MAX_LENGTH,
    RAW_TIMESTAMP,
    STRINGS,
    TIMESTAMPS,
    LogicalType,
    arrow_type,
)
from pyspark_savepoint.statebackends.types.type_names import spark_type

#: Times are the numbers that Flink stores, so that none is lost.
RAW = DecodeOptions(timestamps="raw")
WHOLE_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
NANOS_PER_MILLI, MILLIS_PER_SECOND, NANO_DIGITS = 1_000_000, 1000, 9
MILLIS_PER_DAY = 24 * 60 * 60 * MILLIS_PER_SECOND
#: The last second whose milliseconds are a number of 64 bits.
LAST_SECOND = (2**63 - 1) // MILLIS_PER_SECOND
#: Digits of Arrow's widest decimals.
WIDEST = 76
TIME = "TIME_WITHOUT_TIME_ZONE"
#: How many of Arrow's units a millisecond has; none of the longer one.
UNITS_PER_MILLI = {"ns": NANOS_PER_MILLI, "us": 1000, "ms": 1, "s": 0}


TYPES = pa.types


def _is_number(kind: pa.DataType) -> bool:
    return bool(TYPES.is_integer(kind) or TYPES.is_floating(kind) or TYPES.is_decimal(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(TYPES.is_string(kind) or TYPES.is_large_string(kind) or TYPES.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    fixed = TYPES.is_fixed_size_binary(kind)
    return bool(fixed or TYPES.is_binary(kind) or TYPES.is_large_binary(kind) or TYPES.is_binary_view(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(TYPES.is_list(kind) or TYPES.is_large_list(kind) or TYPES.is_fixed_size_list(kind))


def _is_moment(kind: pa.DataType) -> bool:
    return bool(TYPES.is_timestamp(kind) or kind in (RAW_TIMESTAMP, pa.int64()))


def _is_local(kind: pa.DataType) -> bool:
    """Return whether values are times of a clock: which instants these are depends on where it is."""
    return _is_moment(kind) and not (TYPES.is_timestamp(kind) and kind.tz is not None)


def _is_instant(kind: pa.DataType) -> bool:
    return _is_moment(kind) and not (TYPES.is_timestamp(kind) and kind.tz is None)


def _is_time(kind: pa.DataType) -> bool:
    return bool(TYPES.is_time(kind) or TYPES.is_integer(kind))


def _is_duration(kind: pa.DataType) -> bool:
    return bool(TYPES.is_duration(kind) or TYPES.is_integer(kind))


NESTED: Mapping[str, Callable[[pa.DataType], bool]] = {
    "ARRAY": _is_list,
    "MAP": TYPES.is_map,
    "ROW": TYPES.is_struct,
}
#: Which types of a user's column hold values of a type. Other types, such as of a Java class, are not told apart.
HOLDING: Mapping[str, Callable[[pa.DataType], bool]] = {
    **dict.fromkeys((*WHOLE_NUMBERS, "DECIMAL", "FLOAT", "DOUBLE", "INTERVAL_YEAR_MONTH"), _is_number),
    **dict.fromkeys(STRINGS, _is_text),
    **dict.fromkeys(BINARIES, _is_bytes),
    "TIMESTAMP_WITHOUT_TIME_ZONE": _is_local,
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": _is_instant,
    "BOOLEAN": TYPES.is_boolean,
    "DATE": TYPES.is_date,
    TIME: _is_time,
    "INTERVAL_DAY_TIME": _is_duration,
    **NESTED,
}
#: How long texts and bytes are, and in which unit.
LENGTHS: Mapping[str, tuple[Callable[[pa.Array], pa.Array], str]] = {
    **dict.fromkeys(STRINGS, (pc.utf8_length, "characters")),
    **dict.fromkeys(BINARIES, (pc.binary_length, "bytes")),
}


def holds(column_type: pa.DataType, kind: LogicalType) -> bool:
    """Return whether a column of a user may have values of a type: no text becomes a number, and no number a text.

    >>> from pyspark_savepoint.statebackends.evolution.logical_types import logical_type_of
    >>> [holds(one, logical_type_of("BIGINT")) for one in (pa.int32(), pa.float64(), pa.string())]
    [True, True, False]
    """
    if TYPES.is_dictionary(column_type):
        column_type = column_type.value_type
    if TYPES.is_null(column_type) or kind.root not in HOLDING:
        return True
    if not HOLDING[kind.root](column_type):
        return False
    if kind.root == "ROW" and [field.name for field in column_type] != [*kind.names]:
        return False
    return all(map(holds, _parts(column_type, kind), kind.children))


def _parts(column_type: pa.DataType, kind: LogicalType) -> list[pa.DataType]:
    """Return the types within an Arrow type that holds values of an array, a map or a row."""
    if kind.root == "ARRAY":
        return [column_type.value_type]
    if kind.root == "MAP":
        return [column_type.key_type, column_type.item_type]
    return [field.type for field in column_type] if kind.root == "ROW" else []


def expect_held(schema: pa.Schema, columns: Mapping[str, LogicalType], backfill: str) -> None:
    """Raise OptionError for a column of a user's table whose type holds no values of the one that is wanted."""
    for name, kind in columns.items():
        if name in schema.names and not holds(schema.field(name).type, kind):
            given = schema.field(name).type
            zone, remedy = "", "convert the column to this type first"
            if TYPES.is_timestamp(given):
                zone = " without a time zone" if given.tz is None else " of a zone"
                remedy += ": in Spark TIMESTAMP_NTZ is Flink's TIMESTAMP, and TIMESTAMP its TIMESTAMP_LTZ"
            raise OptionError(
                f"backfill {backfill!r} has column {name!r} in another type",
                expected=str(replace(kind, nullable=True)),
                found=spark_type(given).upper() + zone,
                remedy=remedy,
            )


def raw_type(kind: LogicalType) -> pa.DataType:
    """Return the Arrow type of values of a logical type, with times as Flink stores them."""
    return arrow_type(kind, RAW)


def exactly(column: pa.Array, kind: LogicalType, name: str, *, digits: bool = False) -> pa.Array:
    """Return a column as values of a type; raise ValueRangeError for the first that does not fit, or is NULL.

    ``digits``: a time does not fit either that has more digits of a second than its type. Flink lets such values be.
    """
    wanted = raw_type(kind)
    column = _plain(column)
    if TYPES.is_null(column.type):
        column = pa.nulls(len(column), wanted)
    elif kind.root in TIMESTAMPS:
        column = _timestamps(column, kind, name)
    elif kind.root in STRINGS and not TYPES.is_string(column.type):
        column = _texts(column, kind, name)
    elif kind.root in NESTED and NESTED[kind.root](column.type) and kind.children:
        column = _nested(column, kind, name, digits=digits)
    elif column.type != wanted:
        column = _converted(_as_stored(column, name, kind), wanted, name, kind)
    if kind.root in LENGTHS and kind.length < MAX_LENGTH:
        _expect_length(column, kind, name)
    if digits and kind.root in (*TIMESTAMPS, TIME):
        _expect_digits(column, kind, name)
    # The reader fills a NOT NULL field of processing time with NULL, as Flink does.
    if not kind.nullable and kind.kind != "PROCTIME" and column.null_count:
        raise ValueRangeError(
            f"{name} is NULL, and the new query has it as {kind}",
            found=f"NULL in {column.null_count} of {len(column)} rows",
            remedy="give it a value in argument 'backfill', or let the query have it without NOT NULL",
        )
    return column


def _plain(column: pa.Array) -> pa.Array:
    """Return a column without the encodings of Arrow that no type of Flink has: dictionaries, and floats of 16 bits."""
    if TYPES.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.float32()) if TYPES.is_float16(column.type) else column


def _nested(column: pa.Array, kind: LogicalType, name: str, *, digits: bool) -> pa.Array:
    """Return arrays, maps or rows with each value in them as one of its type. Fields of rows are those at their places.

    A row or an array that is NULL has no values.
    """

    def parts(columns: Sequence[pa.Array]) -> list[pa.Array]:
        if len(columns) != len(kind.children):
            raise _does_not_fit(name, kind, f"values of {column.type}")
        return [exactly(one, child, name, digits=digits) for one, child in zip(columns, kind.children, strict=True)]

    wanted, valid, present = raw_type(kind), valid_rows(column), column.drop_null()
    if kind.root == "ROW":
        return scatter(struct_array(wanted, parts(present.flatten()), len(present)), valid)
    if kind.root == "MAP":
        present = present.cast(pa.list_(pa.struct([column.type.key_field, column.type.item_field])))
    counts = np.asarray(pc.list_value_length(present), np.int64)
    values = pc.list_flatten(present)
    if kind.root == "MAP":
        return scatter(map_array(wanted, counts, *parts(values.flatten())), valid)
    return scatter(list_array(wanted, counts, *parts([values])), valid)


def as_given(column: pa.Array, kind: LogicalType, name: str, backfill: str) -> pa.Array:
    """Return a column of a user's table as values of a type; raise ValueRangeError for the first that does not fit."""
    try:
        return exactly(column, kind, name, digits=True)
    except ValueRangeError as error:
        raise ValueRangeError(
            f"backfill {backfill!r}: a value of column {name!r} does not fit",
            expected=str(kind),
            found=error.facts.get("found"),
            remedy="give values that the type holds, without rounding them",
        ) from None


def _as_stored(column: pa.Array, name: str, kind: LogicalType) -> pa.Array:
    """Return times of day and durations in milliseconds, which is what Flink stores; any other column as it is."""
    if TYPES.is_time(column.type) and kind.root == TIME:
        return _converted(column, pa.time32("ms"), name, kind)
    if TYPES.is_duration(column.type) and kind.root == "INTERVAL_DAY_TIME":
        return _converted(column, pa.duration("ms"), name, kind)
    return column


def _converted(column: pa.Array, target: pa.DataType, name: str, kind: LogicalType) -> pa.Array:
    """Return a column as another Arrow type; raise ValueRangeError for the first value that it does not hold."""
    cast = _without_loss(column, target)
    if cast is not None:
        return cast
    low, high = 0, len(column)  # all before the first one fit, and not all before the second
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _without_loss(column[low:middle], target) is None else (middle, high)
    value = column[low].as_py() if len(column) else ""
    raise _does_not_fit(name, kind, f"{value!r} of type {spark_type(column.type).upper()}")


def _without_loss(column: pa.Array, target: pa.DataType) -> pa.Array | None:
    """Return a column as another type; None if that would lose something, or there is no way."""
    try:
        if TYPES.is_integer(column.type) and TYPES.is_decimal(target):
            # Arrow asks for the digits of all numbers of the type, not of those that are there.
            column = column.cast(pa.decimal256(WIDEST, target.scale))
        cast = column.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        return None
    may_round = TYPES.is_floating(target) or (TYPES.is_floating(column.type) and TYPES.is_decimal(target))
    if not may_round:
        return cast
    same = pc.equal(cast.cast(column.type, safe=False), column)
    if TYPES.is_floating(column.type):
        same = pc.or_(same, pc.is_nan(column))
    return cast if pc.all(same).as_py() in (True, None) else None


def _does_not_fit(name: str, kind: LogicalType, found: str) -> ValueRangeError:
    return ValueRangeError(
        f"a value of {name} does not fit its new type",
        expected=str(kind),
        found=found,
        remedy="let the new query have a wider type, or give the values in argument 'backfill'",
    )


def _expect_length(column: pa.Array, kind: LogicalType, name: str) -> None:
    count, unit = LENGTHS[kind.root]
    lengths = count(column)
    longest = pc.max(lengths).as_py()
    if longest is not None and longest > kind.length:
        value = column[pc.index(lengths, longest).as_py()].as_py()
        raise _does_not_fit(name, kind, f"{value!r}, which has {longest} {unit}")


def _expect_digits(column: pa.Array, kind: LogicalType, name: str) -> None:
    """Raise ValueRangeError for a time that has more digits of a second than its type, or is no time of a day."""
    millis, nanos = column.flatten() if TYPES.is_struct(column.type) else (column, None)
    numbers = np.asarray(millis.cast(pa.int64()).fill_null(0), np.int64)
    within = numbers % MILLIS_PER_SECOND * NANOS_PER_MILLI
    if nanos is not None:
        within += np.asarray(nanos.fill_null(0), np.int64)
    wrong = within % 10 ** (NANO_DIGITS - kind.precision) != 0
    if kind.root == TIME:
        wrong |= (numbers < 0) | (numbers >= MILLIS_PER_DAY)
    if wrong.any():
        row = int(wrong.argmax())
        raise _does_not_fit(name, kind, f"{numbers[row]} milliseconds and {within[row] % NANOS_PER_MILLI} nanoseconds")


def _timestamps(column: pa.Array, kind: LogicalType, name: str) -> pa.Array:
    """Return times in another precision: milliseconds alone, or milliseconds and the nanoseconds within one."""
    wanted = raw_type(kind)
    valid = np.asarray(column.is_valid())
    if TYPES.is_timestamp(column.type):
        numbers = np.asarray(column.cast(pa.int64()).fill_null(0), np.int64)
        per_milli = UNITS_PER_MILLI[column.type.unit]
        if not per_milli and (far := np.abs(numbers) > LAST_SECOND).any():
            raise _does_not_fit(name, kind, f"{numbers[far][0]} seconds since 1970")
        millis = numbers // per_milli if per_milli else numbers * MILLIS_PER_SECOND
        rest = numbers % per_milli * (NANOS_PER_MILLI // per_milli) if per_milli else np.zeros_like(numbers)
        parts = [pa.array(millis, mask=~valid), pa.array(rest.astype(np.int32), mask=~valid)]
        column = struct_array(RAW_TIMESTAMP, parts, len(column), valid)
    if column.type == wanted:
        return column
    if column.type not in (RAW_TIMESTAMP, pa.int64()):
        raise _does_not_fit(name, kind, f"values of {column.type}")
    if TYPES.is_struct(wanted):
        nothing = pa.array(np.zeros(len(column), np.int32))
        return struct_array(wanted, [pa.concat_arrays([column.cast(pa.int64())]), nothing], len(column), valid)
    millis, nanos = column.flatten()
    parts = nanos.filter(pc.not_equal(nanos, 0))
    if len(parts):
        raise ValueRangeError(
            f"{name} has a time with parts of a millisecond, which its new type has not",
            found=f"{parts[0]} nanoseconds beyond a millisecond",
            remedy="let the new query keep the precision",
        )
    return millis


def _texts(column: pa.Array, kind: LogicalType, name: str) -> pa.Array:
    """Return whole numbers, decimals and booleans as Flink's CAST to STRING shows them."""
    if _is_text(column.type) or TYPES.is_integer(column.type):
        return column.cast(pa.string())
    if TYPES.is_boolean(column.type):
        return pc.if_else(column, "TRUE", "FALSE").cast(pa.string())
    if TYPES.is_decimal(column.type):
        values = (None if value is None else format(value, "f") for value in column.to_pylist())
        return pa.array(values, pa.string())
    raise UnsupportedStateError(
        f"{name} cannot become text: how Flink shows values of its type is not known here",
        found=str(column.type),
        expected=str(kind),
        remedy="give the values in argument 'backfill'",
    )
