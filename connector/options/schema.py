"""Conversion between Arrow schemas and Spark schemas.

A table has an Arrow schema, from which the :class:`StructType` for Spark is derived. Spark then accepts only batches
with exactly the Arrow schema that *it* derives from that: the same layout, but other names of list elements,
nullability, and metadata (which distinguish a VARIANT from a struct). So batches get that schema before they are
returned, without copying.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from pyspark_savepoint.formats.columns import with_schema
from pyspark_savepoint.formats.errors import OptionError, ValueRangeError, did_you_mean
from pyspark_savepoint.statebackends.rows.descriptors import SESSIONS

COMMENT = b"comment"
#: Metadata of columns that Spark keeps: comments, and whether windows are sessions.
SPARK_METADATA = (COMMENT, SESSIONS)


def spark_schema(schema: pa.Schema) -> StructType:
    """Return Spark's schema of a table: all columns nullable, with their comments."""
    return StructType([_spark_field(field) for field in schema])


def _spark_field(field: pa.Field) -> StructField:
    known = field.metadata or {}
    metadata = {name.decode(): known[name].decode() for name in SPARK_METADATA if name in known}
    return StructField(field.name, from_arrow_type(field.type, prefer_timestamp_ntz=True), True, metadata or None)


def table_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a table of Spark, with comments as :func:`spark_schema` takes them."""
    known = [
        {name: str(text).encode() for name in SPARK_METADATA if (text := field.metadata.get(name.decode()))}
        for field in schema
    ]
    fields = zip(arrow_schema(schema), known, strict=True)
    return pa.schema([column.with_metadata(metadata or None) for column, metadata in fields])


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark derives from its own. Timestamps are UTC in every version."""
    try:
        if "timezone" in inspect.signature(to_arrow_schema).parameters:
            return to_arrow_schema(schema, timezone="UTC")
        return to_arrow_schema(schema)  # PySpark 4.0 and 4.1
    except PySparkException as error:
        raise OptionError(
            "a column has a type that Spark cannot pass to Python",
            found=", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema),
            remedy=f"cast it, such as to STRING or BIGINT: {error.getMessage() or error}",
        ) from None


def struct_type(schema: str | StructType) -> StructType:
    """Return a schema given as a StructType or as text such as ``key int, timers array<bigint>``."""
    struct = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(struct, StructType) or not len(struct):
        raise OptionError(
            "a schema for the rows that the function yields is missing",
            found=repr(schema),
            remedy="name the columns with their types: 'key int, value string'",
        )
    return struct


# -- batches with Spark's schema ----------------------------------------------------------------------------


def relabel(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with Spark's schema, without copying, or raise ValueRangeError for NULL in a NOT NULL column."""
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    for column, field in zip(batch.columns, schema, strict=True):
        if column.null_count and not field.nullable:
            raise ValueRangeError(
                f"column {field.name!r} has NULLs, but the given schema says NOT NULL",
                remedy="leave NOT NULL out of the schema",
            )
    return with_schema(batch, schema)


# -- schemas of users ---------------------------------------------------------------------------------------


def choose_columns(table: pa.Schema, requested: StructType) -> list[str]:
    """Return the names of the table's columns that a user's schema selects, in its order. Types must match."""
    columns = _columns(table, requested.names)
    known = {field.name: field.dataType for field in spark_schema(table)}
    problems = []
    for column, field in zip(columns, requested, strict=True):
        if column is None:
            problems.append(f"there is no column {field.name!r}: {did_you_mean(field.name, known)}")
        else:
            problems += differences(field.name, known[column], field.dataType)
    names = [column for column in columns if column is not None]
    problems += [f"column {name!r} is there twice" for name, count in Counter(names).items() if count > 1]
    if problems:
        raise OptionError(
            "\n".join(["the given schema does not match the table:", *(f"  {p}" for p in problems)]),
            remedy="leave the schema out to see all columns with their types, then select and reorder",
        )
    return names


def _columns(table: pa.Schema, names: Sequence[str]) -> list[str | None]:
    """Return the columns with some names: exactly, or in any case as Spark compares names."""
    folded: dict[str, list[str]] = {}
    for known in table.names:
        folded.setdefault(known.casefold(), []).append(known)
    exact = frozenset(table.names)

    def column(name: str) -> str | None:
        if name in exact:
            return name
        matches = folded.get(name.casefold(), [])
        return matches[0] if len(matches) == 1 else None

    return [column(name) for name in names]


def differences(path: str, table: DataType, expected: DataType) -> Iterator[str]:
    """Yield a sentence for each position at which two types differ."""
    if isinstance(table, StructType) and isinstance(expected, StructType):
        yield from _field_differences(path, table, expected)
    elif isinstance(table, ArrayType) and isinstance(expected, ArrayType):
        yield from _not_null(path, "elements", expected.containsNull)
        yield from differences(f"{path}[]", table.elementType, expected.elementType)
    elif isinstance(table, MapType) and isinstance(expected, MapType):
        yield from _not_null(path, "values", expected.valueContainsNull)
        yield from differences(f"{path}.key", table.keyType, expected.keyType)
        yield from differences(f"{path}.value", table.valueType, expected.valueType)
    elif table != expected:
        yield f"{path}: the table has {table.simpleString()}, the schema says {expected.simpleString()}"


def _field_differences(path: str, table: StructType, expected: StructType) -> Iterator[str]:
    known, given = {field.name: field.dataType for field in table}, frozenset(expected.names)
    missing = [name for name in table.names if name not in given]
    unknown = [name for name in expected.names if name not in known]
    yield from (f"{path}: no field {name!r} in the table: {did_you_mean(name, table.names)}" for name in unknown)
    yield from (f"{path}: field {name!r} ({known[name].simpleString()}) is not in the schema" for name in missing)
    if not missing and not unknown and table.names != expected.names:
        yield f"{path}: the fields are {', '.join(table.names)}, in this order"
    for field in expected:
        if field.name in known:
            yield from _not_null(path, f"field {field.name!r}", field.nullable)
            yield from differences(f"{path}.{field.name}", known[field.name], field.dataType)


def _not_null(path: str, what: str, nullable: bool) -> Iterator[str]:
    if not nullable:
        yield f"{path}: {what} can be NULL, so NOT NULL cannot be declared"
