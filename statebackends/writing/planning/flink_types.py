"""Default Flink types of Spark types, from one documented table.

Flink's serializers allow no null inside lists, tuples and keys of maps, except for types with an encoding of null
(STRING, BIG_DECIMAL, times). The jobs that restore the state have the plain types too. So arrays become plain lists
even if Spark declares their elements nullable, which it does almost always. A null value is then an error, whose remedy
is the type NULLABLE<T> in option ``types``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError, TypeNotationError
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer, MapSerializer
from pyspark_savepoint.formats.serializers.composite.fields import ROW_KIND, RowSerializer, TupleSerializer
from pyspark_savepoint.formats.serializers.notation.names import NEEDS
from pyspark_savepoint.formats.serializers.notation.notation import DEFAULT_VERSION, MAX_TUPLE, parse_type
from pyspark_savepoint.statebackends.types.type_names import is_variant, spark_type

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.base import TypeSerializer
    from pyspark_savepoint.formats.serializers.registry import GivenSerializers
    from pyspark_savepoint.statebackends.type_extraction.words import TypeInference

#: Flink types of Spark's simple types, by Arrow type.
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
    pa.time64("us"): "LOCAL_TIME",
    pa.timestamp("us"): "LOCAL_DATE_TIME",
}

#: The table for the documentation: Spark's type, Flink's, and a note.
DEFAULTS: tuple[tuple[str, str, str], ...] = (
    ("BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, STRING", "the same", ""),
    ("BINARY", "PRIMITIVE_ARRAY<BYTE>", "`byte[]`"),
    ("DECIMAL", "BIG_DECIMAL", "with the column's scale; BIG_INTEGER on request"),
    ("DATE", "LOCAL_DATE", ""),
    ("TIMESTAMP", "INSTANT", "DATE (`java.util.Date`), SQL_TIMESTAMP, ... on request"),
    ("TIMESTAMP_NTZ", "LOCAL_DATE_TIME", ""),
    ("TIME", "LOCAL_TIME", ""),
    (
        "ARRAY",
        "LIST<T>",
        "elements that are NULL need `LIST<NULLABLE<T>>`, unless [T itself encodes NULL](../formats/README.md#null)",
    ),
    ("MAP", "MAP<K, V>", "values may be NULL"),
    ("STRUCT `f0`, `f1` ...", "TUPLE<A, B>", "as tuples are read; up to 25 fields"),
    ("any other STRUCT", "ROW<name A, ...>", "fields may be NULL; POJOs and SQL's rows on request"),
    ("VARIANT", "VARIANT", "`flinkVersion` 2.1 or later"),
    ("intervals, VOID", "none", "cast them"),
)

REMEDIES: Mapping[str, str] = {
    "interval": "cast it to BIGINT (only rows of SQL jobs hold intervals: ROWDATA in option 'types')",
    "void": "its values are all NULL: give the column a type, such as CAST(NULL AS STRING), or in option 'types'",
    "variant": "option('flinkVersion', '2.1') if no older Flink has to restore, or cast it to STRING: to_json(...)",
}


def defaults_table() -> str:
    """Return the table as Markdown."""
    lines = ["| Spark | Flink, unless option `types` says another | |", "| --- | --- | --- |"]
    for spark, flink, note in DEFAULTS:
        lines.append(f"| {spark} | {flink if flink in ('the same', 'none') else f'`{flink}`'} | {note} |")
    return "\n".join(lines)


def default_serializer(
    kind: pa.DataType,
    name: str = "value",
    version: tuple[int, int] = DEFAULT_VERSION,
    types: Mapping[str, str] = MappingProxyType({}),
    inference: TypeInference | None = None,
    serializers: GivenSerializers | None = None,
    *,
    container: bool = False,
) -> TypeSerializer:
    """Return the serializer of a column's type; raise OptionError if Flink has none for it.

    ``types`` are types of parts, by path: a field of a struct is ``column.field``, elements are ``column.element``,
    keys and values of maps ``column.key`` and ``column.value``. With ``inference`` they are the types that a release
    infers from the named classes. ``serializers`` are those of the user. ``container``: a list or map at the top is
    that of list or map state.

    >>> default_serializer(pa.list_(pa.int64())).flink_type
    'LIST<LONG>'
    >>> default_serializer(pa.struct([("id", pa.int32()), ("name", pa.string())])).flink_type
    'ROW<id INT, name STRING>'
    """
    return _Defaults(version, types, inference, serializers).of(kind, name, container=container)


def type_of(
    text: str,
    column: str,
    version: tuple[int, int],
    inference: TypeInference | None = None,
    serializers: GivenSerializers | None = None,
    *,
    container: bool = False,
) -> TypeSerializer:
    """Return the type that option ``types`` has for a column or a part of one."""
    try:
        if inference is None:
            return parse_type(text, version, given=serializers)
        return inference.written(text, version, container=container)
    except TypeNotationError as error:
        error.message = f"option 'types', {column!r}: {error.message}"
        raise error from None


def parts_of(kind: pa.DataType, path: str) -> Iterator[str]:
    """Yield the paths of a type's parts, its own first."""
    yield path
    if pa.types.is_struct(kind):
        for field in kind:
            yield from parts_of(field.type, f"{path}.{field.name}")
    elif pa.types.is_map(kind):
        yield from parts_of(kind.key_type, f"{path}.key")
        yield from parts_of(kind.item_type, f"{path}.value")
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from parts_of(kind.value_type, f"{path}.element")


@dataclass(frozen=True)
class _Defaults:
    """The table, applied to a type and its parts."""

    version: tuple[int, int]
    types: Mapping[str, str]
    inference: TypeInference | None
    serializers: GivenSerializers | None = None

    def of(self, kind: pa.DataType, path: str, *, container: bool = False) -> TypeSerializer:
        """Return the serializer of a type."""
        if path in self.types:
            return type_of(self.types[path], path, self.version, self.inference, self.serializers, container=container)
        if kind in SIMPLE:
            return parse_type(SIMPLE[kind])
        if pa.types.is_decimal(kind):
            return parse_type("BIG_DECIMAL")
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            return parse_type("INSTANT")
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return ListSerializer.of(self.of(kind.value_type, f"{path}.element"))
        if pa.types.is_map(kind):
            return MapSerializer.of(self.of(kind.key_type, f"{path}.key"), self.of(kind.item_type, f"{path}.value"))
        if is_variant(kind) and self.version >= NEEDS["VARIANT"]:
            return parse_type("VARIANT", self.version)
        if pa.types.is_struct(kind) and not is_variant(kind):
            return self.struct(kind, path)
        raise _no_type(kind, path)

    def struct(self, kind: pa.StructType, path: str) -> TypeSerializer:
        """Return a tuple or a row, by the names of the fields."""
        names = tuple(field.name for field in kind if field.name != ROW_KIND)
        if not names:
            raise OptionError(
                f"column {path!r} is a struct without fields",
                remedy="leave it out, or name its type in option 'types': ROW<> or TUPLE<>",
            )
        fields = [self.of(kind.field(part).type, f"{path}.{part}") for part in names]
        numbered = names == tuple(f"f{index}" for index in range(len(names)))
        if numbered and len(names) <= MAX_TUPLE and len(names) == kind.num_fields:
            return TupleSerializer.of(*fields)
        return RowSerializer.of(*fields, names=() if numbered else names)


def _no_type(kind: pa.DataType, name: str) -> OptionError:
    type_name = spark_type(kind)
    why = next(
        (remedy for word, remedy in REMEDIES.items() if type_name.startswith(word)), "cast it to a type of the table"
    )
    return OptionError(
        f"column {name!r} has a type without a counterpart in Flink",
        expected="one of " + "; ".join(spark for spark, flink, _ in DEFAULTS if flink != "none"),
        found=type_name,
        remedy=why,
    )
