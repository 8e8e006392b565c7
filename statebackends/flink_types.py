"""Which Flink type a Spark type becomes where nobody says: by one documented table.

Flink's serializers hold no null inside of lists, tuples and keys of maps but for types that have bytes for one (STRING,
BIG_DECIMAL, times), and neither do the jobs that will restore: their types are the plain ones. So arrays become plain
lists, whatever Spark says about their elements, for Spark says "may be null" about nearly everything. A null that is
met is an error with its remedy, the type NULLABLE<T> in option ``types``.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.collections import ListSerializer, MapSerializer
from pyspark_savepoint.formats.serializers.notation import DEFAULT_VERSION, MAX_TUPLE, parse_type
from pyspark_savepoint.formats.serializers.row import ROW_KIND, RowSerializer
from pyspark_savepoint.formats.serializers.tuples import TupleSerializer
from pyspark_savepoint.statebackends.lossless import conform_column as conform_column
from pyspark_savepoint.statebackends.lossless import form_of as form_of
from pyspark_savepoint.statebackends.type_names import is_variant, spark_type

#: Spark's simple types by Arrow's, and Flink's.
SIMPLE: Mapping[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "BYTE",
    pa.int16(): "SHORT",
    pa.int32(): "INT",
    pa.int64(): "LONG",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.large_string(): "STRING",
    pa.binary(): "PRIMITIVE_ARRAY<BYTE>",
    pa.large_binary(): "PRIMITIVE_ARRAY<BYTE>",
    pa.date32(): "LOCAL_DATE",
    pa.time64("ns"): "LOCAL_TIME",
    pa.timestamp("us"): "LOCAL_DATE_TIME",
}

#: The table for people: Spark's type, Flink's, and what to know.
DEFAULTS: tuple[tuple[str, str, str], ...] = (
    ("BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, STRING", "the same", ""),
    ("BINARY", "PRIMITIVE_ARRAY<BYTE>", "`byte[]`"),
    ("DECIMAL", "BIG_DECIMAL", "with the column's scale; BIG_INTEGER on request"),
    ("DATE", "LOCAL_DATE", ""),
    ("TIMESTAMP", "INSTANT", "DATE (`java.util.Date`), SQL_TIMESTAMP, ... on request"),
    ("TIMESTAMP_NTZ", "LOCAL_DATE_TIME", ""),
    ("TIME", "LOCAL_TIME", ""),
    ("ARRAY", "LIST<T>", "elements that are NULL need LIST<NULLABLE<T>>, where T is no STRING, time or big number"),
    ("MAP", "MAP<K, V>", "values may be NULL"),
    ("STRUCT `f0`, `f1` ...", "TUPLE<A, B>", "as tuples are read; up to 25 fields"),
    ("any other STRUCT", "ROW<name A, ...>", "fields may be NULL; POJOs and SQL's rows on request"),
    ("VARIANT", "VARIANT", "`flinkVersion` 2.1 or later"),
    ("intervals, VOID, CHAR/VARCHAR as STRING", "none", "cast them"),
)

REMEDIES: Mapping[str, str] = {
    "interval": "cast it to BIGINT (only rows of SQL jobs hold intervals: ROWDATA in option 'types')",
    "void": "give the column a type, such as CAST(NULL AS STRING), or leave it out",
    "variant": "option('flinkVersion', '2.1') if no older Flink has to restore, or cast it to STRING: to_json(...)",
}


def defaults_table() -> str:
    """The table as Markdown."""
    lines = ["| Spark | Flink, unless option `types` says another | |", "| --- | --- | --- |"]
    return "\n".join(lines + [f"| {spark} | {flink} | {note} |" for spark, flink, note in DEFAULTS])


def default_serializer(
    kind: pa.DataType, name: str = "value", version: tuple[int, int] = DEFAULT_VERSION
) -> TypeSerializer:
    """The serializer of a column's type; OptionError names the column where Flink has none for it.

    >>> default_serializer(pa.list_(pa.int64())).flink_type
    'LIST<LONG>'
    >>> default_serializer(pa.struct([("id", pa.int32()), ("name", pa.string())])).flink_type
    'ROW<id INT, name STRING>'
    """
    if kind in SIMPLE:
        return parse_type(SIMPLE[kind])
    if pa.types.is_decimal(kind):
        return parse_type("BIG_DECIMAL")
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return parse_type("INSTANT")
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return ListSerializer.of(default_serializer(kind.value_type, f"{name}.element", version))
    if pa.types.is_map(kind):
        key = default_serializer(kind.key_type, f"{name}.key", version)
        return MapSerializer.of(key, default_serializer(kind.item_type, f"{name}.value", version))
    if is_variant(kind) and version >= (2, 1):
        return parse_type("VARIANT", version)
    if pa.types.is_struct(kind) and not is_variant(kind):
        return _struct(kind, name, version)
    raise _no_type(kind, name)


def _struct(kind: pa.StructType, name: str, version: tuple[int, int]) -> TypeSerializer:
    names = tuple(field.name for field in kind if field.name != ROW_KIND)
    if not names:
        raise OptionError(
            f"column {name!r} is a struct without fields",
            remedy="leave it out, or name its type in option 'types': ROW<> or TUPLE<>",
        )
    fields = [default_serializer(kind.field(part).type, f"{name}.{part}", version) for part in names]
    numbered = names == tuple(f"f{place}" for place in range(len(names)))
    if numbered and len(names) <= MAX_TUPLE and len(names) == kind.num_fields:
        return TupleSerializer.of(*fields)
    return RowSerializer.of(*fields, names=() if numbered else names)


def _no_type(kind: pa.DataType, name: str) -> OptionError:
    found = spark_type(kind)
    why = next(
        (remedy for word, remedy in REMEDIES.items() if found.startswith(word)), "cast it to a type of the table"
    )
    return OptionError(
        f"column {name!r} is of a type that has no counterpart in Flink",
        expected="one of " + "; ".join(spark for spark, flink, _ in DEFAULTS if flink != "none"),
        found=found,
        remedy=why,
    )
