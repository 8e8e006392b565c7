"""Spark's names of Arrow types, as ``DESCRIBE`` prints them, without Spark: for the listing of states."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa

SIMPLE: Mapping[pa.DataType, str] = MappingProxyType(
    {
        pa.bool_(): "boolean",
        pa.int8(): "tinyint",
        pa.int16(): "smallint",
        pa.int32(): "int",
        pa.int64(): "bigint",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.string(): "string",
        pa.binary(): "binary",
        pa.date32(): "date",
        pa.time64("ns"): "time",
        pa.null(): "void",
        pa.timestamp("us", tz="UTC"): "timestamp",
        pa.timestamp("us"): "timestamp_ntz",
        pa.duration("us"): "interval day to second",
    }
)


def spark_type(kind: pa.DataType) -> str:
    """Return Spark's name of a type.

    >>> spark_type(pa.map_(pa.string(), pa.list_(pa.int64())))
    'map<string,array<bigint>>'
    """
    if kind in SIMPLE:
        return SIMPLE[kind]
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_type(kind.key_type)},{spark_type(kind.item_type)}>"
    if is_variant(kind):
        return "variant"
    if pa.types.is_struct(kind):
        return "struct<" + ",".join(f"{field.name}:{spark_type(field.type)}" for field in kind) + ">"
    return str(kind)


def is_variant(kind: pa.DataType) -> bool:
    """Return whether a struct is Arrow's form of Spark's VARIANT."""
    if not pa.types.is_struct(kind) or kind.num_fields != 2:
        return False
    return [field.name for field in kind] == ["value", "metadata"] and (kind.field(1).metadata or {}).get(
        b"variant"
    ) == b"true"
