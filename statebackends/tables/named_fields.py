"""Tables whose structs have names of the user's: option ``fieldNames``.

Only the schema differs: batches get it without a copy. Rows with these names are written as they are, since fields that
Flink does not name are written by position.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pyspark_savepoint.formats.columns import with_schema
from pyspark_savepoint.formats.errors import OptionError, did_you_mean
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.statebackends.model.compiled_plan import PlanNode, node_of
from pyspark_savepoint.statebackends.model.request import Table, TablePartition, choose_columns

#: Columns of a flattened state, which have the names of its rows.
ELEMENTS = ("list_value", "map_value")


@dataclass(frozen=True)
class NamedPartition:
    """Partition whose batches have the names of the table."""

    inner: TablePartition
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the partition."""
        for batch in self.inner.batches():
            yield with_schema(batch, self.schema)


class NamedFields:
    """Table with other names for the fields of its structs."""

    def __init__(self, inner: Table, schema: pa.Schema, warnings: tuple[str, ...]) -> None:
        self.inner = inner
        self.schema = schema
        self.warnings = warnings
        self.max_parallelism = inner.max_parallelism
        self.state_bytes = inner.state_bytes

    def select(self, columns: Sequence[str]) -> NamedFields:
        """Return this table restricted to some columns."""
        return NamedFields(self.inner.select(columns), choose_columns(self.schema, columns), self.warnings)

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        """Return the partitions."""
        return [NamedPartition(partition, self.schema) for partition in self.inner.partitions(parallelism)]


def named_fields(table: Table, text: str, operator: OperatorState, state: str | None) -> Table:
    """Return the table with the names that a compiled plan, or the user, gives; ``state`` is flattened."""
    given = json.loads(text)
    fields = {field.name: _struct(field.type) for field in table.schema}
    structs = {name: kind for name, kind in fields.items() if kind is not None}
    if "nodes" in given:
        node = node_of(given, operator.operator_id)
        if node is None:
            raise OptionError(
                "the compiled plan of option 'fieldNames' has no node of this operator",
                operator=operator.label,
                found=", ".join(f"{each.get('id')} {each.get('type')}" for each in given["nodes"][:20]),
                remedy="""give the names by hand: {"key": ["user"], "accState": ["count(*)", "sum(amount)"]}""",
            )
        names, missing = _of_plan(node, structs, state)
        note = [f"the plan has no names for {', '.join(map(repr, missing))}: its fields keep their numbers"]
        return _named(table, names, note if missing else [])
    for name, listed in given.items():
        kind = structs.get(name)
        if kind is None:
            raise OptionError(
                f"option 'fieldNames' names {name!r}, which is no column with fields",
                operator=operator.label,
                remedy=did_you_mean(name, list(structs)),
            )
        if len(listed) != kind.num_fields:
            raise OptionError(
                f"option 'fieldNames' has {len(listed)} names for the {kind.num_fields} fields of {name!r}",
                operator=operator.label,
                found=", ".join(listed),
                expected=", ".join(field.name for field in kind),
            )
    return _named(table, given, [])


def _of_plan(
    node: PlanNode, structs: Mapping[str, pa.StructType], state: str | None
) -> tuple[dict[str, Sequence[str]], list[str]]:
    names: dict[str, Sequence[str]] = {}
    missing = []
    for column, kind in structs.items():
        known = node.fields_of(state if column in ELEMENTS and state else column, kind.num_fields)
        if known is not None:
            names[column] = known
        elif column not in ("window", "state_window") and kind.num_fields:
            missing.append(column)
    return names, missing


def _named(table: Table, names: Mapping[str, Sequence[str]], notes: list[str]) -> Table:
    schema = pa.schema(
        [field.with_type(_renamed(field.type, names[field.name])) if field.name in names else field
         for field in table.schema]
    )  # fmt: skip
    return NamedFields(table, schema, (*table.warnings, *notes))


def _struct(kind: pa.DataType) -> pa.StructType | None:
    """Return the struct of a column: itself, or that of its elements or values."""
    if pa.types.is_struct(kind):
        return kind
    if pa.types.is_list(kind):
        return _struct(kind.value_type)
    return _struct(kind.item_type) if pa.types.is_map(kind) else None


def _renamed(kind: pa.DataType, names: Sequence[str]) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_name(name) for field, name in zip(kind, names, strict=True)])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_renamed(kind.value_type, names)))
    return pa.map_(kind.key_field, kind.item_field.with_type(_renamed(kind.item_type, names)))
