"""Tables whose VARIANT columns are JSON text: for tools that do not know Spark's VARIANT.

A column of JSON is text whose field has the metadata ``json`` = ``true``, at any depth. It is plain text for all tools.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pyspark_savepoint.formats.columns import list_array, map_array, struct_array, valid_rows
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.variant_json import JSON_FIELD, json_texts
from pyspark_savepoint.statebackends.requests.request import Described, Table, TablePartition
from pyspark_savepoint.statebackends.types.type_names import is_variant


def in_json(table: Table) -> Table:
    """Return the table with JSON instead of variants; the table itself if it has none."""
    return JsonTable(table) if any(_has_variant(field.type) for field in table.schema) else table


class JsonTable:
    """A table with JSON instead of variants."""

    def __init__(self, inner: Table) -> None:
        self.inner = inner
        self.schema = pa.schema([json_field(field) for field in inner.schema])

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.inner.warnings

    @property
    def max_parallelism(self) -> int | None:
        return self.inner.max_parallelism

    @property
    def state_bytes(self) -> int:
        return self.inner.state_bytes

    @property
    def description(self) -> str:
        return self.inner.description if isinstance(self.inner, Described) else ""

    def select(self, columns: Sequence[str]) -> Table:
        return in_json(self.inner.select(columns))

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        return [JsonPartition(part) for part in self.inner.partitions(parallelism)]


@dataclass(frozen=True)
class JsonPartition:
    """A partition with JSON instead of variants."""

    inner: TablePartition

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the partition."""
        yield from map(_in_json, self.inner.batches())


def json_of_variants(table: pa.Table) -> pa.Table:
    """Return a table in memory with JSON instead of variants."""
    schema = pa.schema([json_field(field) for field in table.schema])
    return pa.Table.from_batches(map(_in_json, table.to_batches()), schema)


def _in_json(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [_json_column(*pair) for pair in zip(batch.columns, batch.schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([json_field(field) for field in batch.schema]))


def is_json(field: pa.Field) -> bool:
    """Return whether the texts of a field are JSON."""
    return (field.metadata or {}).get(b"json") == JSON_FIELD[b"json"]


def holds_json(field: pa.Field) -> bool:
    """Return whether a field has JSON, at any depth."""
    return is_json(field) or any(holds_json(field.type.field(i)) for i in range(field.type.num_fields))


def json_field(field: pa.Field) -> pa.Field:
    """Return a field with JSON instead of variants."""
    kind = field.type
    if is_variant(kind):
        return field.with_type(pa.string()).with_metadata({**(field.metadata or {}), **JSON_FIELD})
    return field.with_type(_json_type(kind)) if _has_variant(kind) else field


def _json_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([json_field(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(json_field(kind.key_field), json_field(kind.item_field))
    return pa.list_(json_field(kind.value_field))


def _has_variant(kind: pa.DataType) -> bool:
    return is_variant(kind) or any(_has_variant(kind.field(i).type) for i in range(kind.num_fields))


def _json_column(column: pa.Array, field: pa.Field) -> pa.Array:
    kind = column.type
    if not _has_variant(kind):
        return column
    if is_variant(kind):
        try:
            return json_texts(column)
        except SavepointError as error:
            raise error.with_facts(column=field.name) from None
    from pyspark_savepoint.formats.serializers.sql.binary_data import list_parts, map_parts

    target, valid = _json_type(kind), valid_rows(column)
    if pa.types.is_struct(kind):
        parts = [_json_column(*pair) for pair in zip(column.flatten(), kind, strict=True)]
        return struct_array(target, parts, len(column), valid)
    if pa.types.is_map(kind):
        counts, keys, items = map_parts(column)
        keys, items = _json_column(keys, kind.key_field), _json_column(items, kind.item_field)
        return map_array(target, counts, keys, items, valid)
    counts, values = list_parts(column)
    return list_array(target, counts, _json_column(values, kind.value_field), valid)
