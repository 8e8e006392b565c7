"""Columns of the state of a streaming query: keys, windows, values, variables and accumulators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DecimalType, MapType, StructField, StructType, TimestampType

from pyspark_savepoint.api.spark.streaming_log import (
    StreamingOperator,
    StreamingState,
)
from pyspark_savepoint.engines.spark.distribution import quoted
from pyspark_savepoint.formats.errors import (
    OptionError,
)
from pyspark_savepoint.statebackends.rows.state_column import LAST_ACCESS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


VALUE_COLUMNS: Mapping[str, str] = MappingProxyType({"value": "value", "list": "list_value", "map": "map_value"})
#: Columns of the buffers of aggregates, in order.
BUFFERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "sum": ("sum",),
        "count": ("count",),
        "avg": ("sum", "count"),
        "min": ("min",),
        "max": ("max",),
        "first": ("first", "valueSet"),
        "last": ("last", "valueSet"),
    }
)
AggregateName = Literal["sum", "count", "avg", "min", "max", "first", "last"]
KEY, WINDOW, LAST_SEEN, EXPIRES, STATE = "key", "window", "seen", "expires_at", "state"
#: Columns of a table of timers beside those of the key; timers of windows have the namespace before them.
OF_TIMERS, NAMESPACE = ("timestamp", "domain", "service"), "namespace"
EXPIRY, ENTRY = "ttlExpirationMs", "value"


def fields_of(frame: DataFrame, column: str) -> list[str]:
    """Return the names of the fields of a column; none of a column that is no struct."""
    kind = frame.schema[column].dataType
    return kind.names if isinstance(kind, StructType) else []


def key_columns(frame: DataFrame, window: str | None = None) -> dict[str, Column]:
    """Return the columns of the key by name, but the window; if there are none, the key of operators without keys.

    A column is ``key_<name>`` if tables of timers and windows have another of its name.
    """
    fields = [name for name in fields_of(frame, KEY) if name != window]
    if not fields:
        return {KEY: F.lit(0).cast("tinyint").alias(KEY)}
    reserved = (*OF_TIMERS, NAMESPACE, *[WINDOW] * (window is not None))
    names = [f"{KEY}_{name}" if name.casefold() in reserved else name for name in fields]
    return {
        name: F.col(f"{KEY}.{quoted(field)}").alias(name) for name, field in zip(_distinct(names), fields, strict=True)
    }


def free_name(name: str, keys: Iterable[str]) -> str:
    """Return the name of a state's column: another one if a key has it."""
    return f"state_{name}" if name.casefold() in {KEY, *map(str.casefold, keys)} else name


def window_of(frame: DataFrame) -> str | None:
    """Return the key column that is an event-time window."""
    kind = frame.schema[KEY].dataType
    assert isinstance(kind, StructType)
    return next((field.name for field in kind if _is_window(field)), None)


def _is_window(field: StructField) -> bool:
    kind = field.dataType
    return (
        isinstance(kind, StructType)
        and kind.names == ["start", "end"]
        and all(isinstance(part.dataType, TimestampType) for part in kind)
    )


def value_column(column: Column, kind: Any) -> Column:
    """Return a value; of a struct of one field that field."""
    return column.getField(kind[0].name) if isinstance(kind, StructType) and len(kind) == 1 else column


def variable_columns(frame: DataFrame, state: StreamingState, name: str, duration: timedelta | None) -> list[Column]:
    """Return the column of a variable, and with a duration that of the times of last access."""
    column = VALUE_COLUMNS[state.kind]
    kind: Any = frame.schema[column].dataType
    entry: Any = kind.elementType if state.kind == "list" else kind.valueType if state.kind == "map" else kind
    expires = state.ttl and EXPIRY in entry.names

    def value(entry_column: Column) -> Column:
        inner = entry_column.getField(ENTRY) if expires else entry_column
        return value_column(inner, entry[ENTRY].dataType if expires else entry)

    def access(entry_column: Column) -> Column:
        assert duration is not None
        millis = entry_column.getField(EXPIRY) - round(duration.total_seconds() * 1000)
        return F.timestamp_millis(millis)

    def over(function: Callable[[Column], Column]) -> Column:
        whole = F.col(column)
        if state.kind == "value":
            return function(whole)
        if state.kind == "list":
            return F.transform(whole, function)
        assert isinstance(kind, MapType)
        keys: Any = kind.keyType
        return F.map_from_entries(
            F.transform(
                F.map_entries(whole),
                lambda pair: F.struct(
                    value_column(pair["key"], keys).alias("key"), function(pair["value"]).alias("value")
                ),
            )
        )

    columns = [over(value).alias(name)]
    if duration is not None and expires:
        columns.append(over(access).alias(f"{name}{LAST_ACCESS}"))
    return columns


def opaque_columns(frame: DataFrame) -> list[str]:
    """Return the parts of an aggregation's buffers that only Spark can read."""
    names = fields_of(frame, "value")
    parts = ["buffers of collect_list, collect_set, percentiles, sketches or user functions"] * ("buf" in names)
    return parts + ["buffers of approx_count_distinct"] * any(name.startswith("MS[") for name in names)


def accumulator_columns(
    frame: DataFrame,
    operator: StreamingOperator,
    aggregates: Mapping[str, AggregateName] | None,
    keys: Iterable[str],
) -> list[Column]:
    """Return the columns of an aggregation: those of its buffers, or one for each aggregate."""
    kind = frame.schema["value"].dataType
    assert isinstance(kind, StructType)
    # Buffers of several aggregates have fields of the same name.
    parts = StructType([StructField(f"_{i}", field.dataType) for i, field in enumerate(kind)])
    buffer = F.col("value").cast(parts)
    if aggregates is None:
        names = _distinct([free_name(name, keys) for name in kind.names])
        return [buffer.getField(f"_{i}").alias(name) for i, name in enumerate(names)]
    columns, at = [], 0
    for name, aggregate in aggregates.items():
        if aggregate not in BUFFERS:
            raise OptionError(
                f"there is no accumulator for {aggregate!r}",
                operator=str(operator),
                expected=", ".join(BUFFERS),
                remedy="without aggregates= the columns are those of the buffers",
            )
        buffers = BUFFERS[aggregate]
        if aggregate == "sum" and at < len(kind) and isinstance(kind[at].dataType, DecimalType):
            buffers = ("sum", "isEmpty")
        if tuple(kind.names[at : at + len(buffers)]) != buffers:
            raise _other_buffers(operator, kind, f"{name}: {aggregate}", at)
        columns.append(_accumulator(buffer, aggregate, at, buffers).alias(free_name(name, keys)))
        at += len(buffers)
    if at != len(kind):
        raise _other_buffers(operator, kind, "no more", at)
    return columns


def _accumulator(buffer: Column, aggregate: str, at: int, parts: Sequence[str]) -> Column:
    first = buffer.getField(f"_{at}")
    if aggregate == "avg":
        return F.struct(first.alias("f0"), buffer.getField(f"_{at + 1}").alias("f1"))
    if parts[-1] == "isEmpty":
        return F.when(~buffer.getField(f"_{at + 1}"), first)
    return first


def _other_buffers(operator: StreamingOperator, kind: StructType, name: str, at: int) -> OptionError:
    return OptionError(
        "the aggregates do not fit the buffers of the query",
        operator=str(operator),
        expected=f"{name}, after {at} columns",
        found=", ".join(f"{field.name} {field.dataType.simpleString()}" for field in kind),
        remedy="name all aggregates of the query, in its order; equal ones are kept once",
    )


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names that differ: of those that are equal, the second gets ``_2``.

    >>> _distinct(["sum", "count", "sum"])
    ['sum', 'count', 'sum_2']
    """
    return [name if (n := names[: i + 1].count(name)) == 1 else f"{name}_{n}" for i, name in enumerate(names)]
