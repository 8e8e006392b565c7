"""Tables whose structs have names of the user's: option ``fieldNames``.

Only the schema differs: batches get it without a copy. Rows with these names are written as they are, since fields that
Flink does not name are written by position.

Tables of SQL's windows get columns for their starts and ends, besides the number that Flink keeps:

window_state   key, window, window_start, window_end, state...        slices: slice_start, slice_end
timers         key, namespace, window_start, window_end, timestamp...
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import fixed_values, with_schema
from pyspark_savepoint.formats.errors import OptionError, did_you_mean
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.statebackends.requests.request import Table, TablePartition, choose_columns
from pyspark_savepoint.statebackends.rows.descriptors import NAMESPACE_COLUMN, WINDOW_COLUMN
from pyspark_savepoint.statebackends.sql_plans.compiled_plan import (
    NAMED_STATES,
    WRAPPED,
    CompiledPlan,
    PlanNode,
    WindowSpan,
    names_of,
)
from pyspark_savepoint.statebackends.sql_plans.explained_plan import nodes_for

#: A time as in SQL, which has no zone.
TIME = pa.timestamp("us")
MICROS = 1_000
#: Milliseconds beyond these are no microseconds of 64 bits.
LIMIT = (2**63 - 1) // MICROS
COMMENTS = {
    "window_start": b"start of the window",
    "window_end": b"end of the window, exclusive",
    "slice_start": b"start of the slice of windows",
    "slice_end": b"end of the slice of windows, exclusive",
}
#: Columns of a flattened state, which have the names of its rows.
KEY_OF_ELEMENT = "map_key"
ELEMENTS = ("list_value", "map_value", KEY_OF_ELEMENT)
#: Names that Flink makes up for fields.
NUMBERED = re.compile("[f_][0-9]+")
#: Suffix of a column's name, for the keys of its map.
MAP_KEY = ".key"


@dataclass(frozen=True)
class WindowColumns:
    """Starts and ends of windows, from the numbers in another column."""

    span: WindowSpan
    source: str
    schema: pa.Schema

    def added(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with the columns of the schema."""
        ends = batch.column(self.source)
        valid = np.asarray(ends.is_valid())
        numbers = fixed_values(ends.fill_null(0), np.int64)
        starts = numbers - self.span.size
        if self.span.cumulates:
            before = numbers - self.span.offset - 1
            starts = before - before % self.span.size + self.span.offset
        new_columns = dict(zip(self.span.columns, (starts, numbers), strict=True))
        columns = [
            _times(new_columns[field.name], valid) if field.name in new_columns else batch.column(field.name)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _times(millis: np.ndarray, valid: np.ndarray) -> pa.Array:
    fits = valid & (millis > -LIMIT) & (millis < LIMIT)
    return pa.array(np.where(fits, millis, 0) * MICROS, pa.int64(), mask=~fits).cast(TIME)


@dataclass(frozen=True)
class PartitionOfWindows:
    """Partition whose batches get the columns."""

    inner: TablePartition
    columns: WindowColumns

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the partition."""
        for batch in self.inner.batches():
            yield self.columns.added(batch)


class TableOfWindows:
    """Table with columns for starts and ends of its windows."""

    def __init__(self, inner: Table, columns: WindowColumns) -> None:
        self.inner = inner
        self.columns = columns
        self.schema = columns.schema
        self.warnings = inner.warnings
        self.max_parallelism = inner.max_parallelism
        self.state_bytes = inner.state_bytes

    def select(self, columns: Sequence[str]) -> Table:
        """Return this table restricted to some columns."""
        selected_schema = choose_columns(self.schema, columns)
        own = self.columns.span.columns
        if not set(columns) & set(own):
            return self.inner.select(columns)
        stored = [name for name in columns if name not in own]
        inner_names = stored if self.columns.source in stored else [*stored, self.columns.source]
        return TableOfWindows(self.inner.select(inner_names), replace(self.columns, schema=selected_schema))

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        """Return the partitions."""
        return [PartitionOfWindows(partition, self.columns) for partition in self.inner.partitions(parallelism)]


def with_window_columns(table: Table, span: WindowSpan | None) -> Table:
    """Return the table with starts and ends of windows, if it has numbers for windows and no columns of that name."""
    source = next((name for name in (WINDOW_COLUMN, NAMESPACE_COLUMN) if name in table.schema.names), None)
    lower_names = {name.lower() for name in table.schema.names}
    if span is None or source is None or lower_names & set(span.columns):
        return table
    if table.schema.field(source).type != pa.int64():
        return table
    fields = list(table.schema)
    behind = table.schema.get_field_index(source) + 1
    fields[behind:behind] = [pa.field(name, TIME, metadata={b"comment": COMMENTS[name]}) for name in span.columns]
    return TableOfWindows(table, WindowColumns(span, source, pa.schema(fields)))


#: The place of a row in a struct, and the names of that struct's fields.
Wrapper = tuple[int, tuple[str, str]]


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


def named_fields(table: Table, text: str, operator: OperatorState, state: str | None, uid: str | None) -> Table:
    """Return the table with the names that a compiled plan, EXPLAIN or the user gives; ``state`` is flattened.

    ``uid`` is that by which the user named the operator.
    """
    naming = names_of(text)
    if naming is None:
        return _by_node(table, _explained(table, text, operator, state, uid), state)
    fields = {field.name: _struct(field.type) for field in table.schema}
    structs = {name: kind for name, kind in fields.items() if kind is not None}
    if "nodes" in naming:
        node = CompiledPlan(naming).node(operator.operator_id)
        if node is None:
            raise OptionError(
                "the compiled plan of option 'fieldNames' has no node of this operator",
                operator=operator.label,
                found=", ".join(f"{plan_node.get('id')} {plan_node.get('type')}" for plan_node in naming["nodes"][:20]),
                remedy="""give the names by hand: {"key": ["user"], "accState": ["count(*)", "sum(amount)"]}""",
            )
        return _by_node(table, node, state)
    for name, listed in naming.items():
        column, _, part = name.rpartition(".") if name.endswith(MAP_KEY) else (name, "", "")
        kind = (
            structs.get(name) if not part else _map_key(table.schema.field(column).type) if column in fields else None
        )
        if kind is None:
            raise OptionError(
                f"option 'fieldNames' names {name!r}, which is not a column with fields",
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
    return _named(table, naming, {}, [])


def _explained(table: Table, text: str, operator: OperatorState, state: str | None, uid: str | None) -> PlanNode:
    """Return the node of EXPLAIN that an operator is: that with a name for every field."""
    nodes = list(nodes_for(text, operator, uid))
    columns, numbers = _Columns.of(table.schema, state), _Numbers()
    fitting = {}
    for node in nodes:
        names, wrapped, missing = columns.named(node)
        if not missing:
            named = tuple((column, numbers.of(given)) for column, given in names.items())
            fitting[named, tuple(wrapped.items())] = node
    if len(fitting) == 1 or len(nodes) == 1:
        return next(iter([*fitting.values(), *nodes]))
    raise OptionError(
        f"{len(fitting) or 'none'} of the nodes in the text of EXPLAIN may be this operator",
        operator=operator.label,
        found="; ".join(node.description for node in fitting.values() or nodes)[:400],
        remedy="give the line of the operator's node and those below it, or a compiled plan, which has uids",
    )


def _by_node(table: Table, node: PlanNode, state: str | None) -> Table:
    names, wrapped, missing = _Columns.of(table.schema, state).named(node)
    nameless = frozenset(missing)
    missing = [name for name in table.schema.names if name in nameless]
    note = [f"the plan has no names for {', '.join(map(repr, missing))}: its fields keep their numbers"]
    return with_window_columns(_named(table, names, wrapped, note if missing else []), node.span)


class _Numbers:
    """Numbers of equal tuples of names, each of which is compared once: many nodes have the same tuple."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[Sequence[str], int]] = {}
        self._numbers: dict[Sequence[str], int] = {}

    def of(self, names: Sequence[str]) -> int:
        """Return the number of a tuple, that of the first one that is equal."""
        if id(names) not in self._seen:
            self._seen[id(names)] = names, self._numbers.setdefault(names, len(self._numbers))
        return self._seen[id(names)][1]


@dataclass(frozen=True)
class _Column:
    """A column with a struct, or with keys of a map that are one: the state that it is of, and what is around rows."""

    name: str
    state: str
    kind: pa.StructType | None
    key: pa.StructType | None
    wrapper: Wrapper | None
    numbered: tuple[bool, bool]


@dataclass(frozen=True)
class _Columns:
    """The columns of a table that a plan may have names for, and those with fields that no plan names."""

    named_by_plans: tuple[_Column, ...]
    nameless: tuple[str, ...]

    @classmethod
    def of(cls, schema: pa.Schema, state: str | None) -> _Columns:
        columns, nameless = [], []
        for field in schema:
            own = state if field.name in ELEMENTS and state else field.name
            kind, key, wrapper = _struct(field.type), _map_key(field.type), None
            if kind is not None and own in WRAPPED and _is_wrapped(kind, WRAPPED[own][0]):
                wrapper = WRAPPED[own]
                kind = kind.field(wrapper[0]).type
            numbered = _is_numbered(kind), _is_numbered(key)
            if own in NAMED_STATES or field.name == KEY_OF_ELEMENT:
                columns.append(_Column(field.name, own, kind, key, wrapper, numbered))
            elif any(numbered):
                nameless.append(field.name)
        return cls(tuple(columns), tuple(nameless))

    def named(self, node: PlanNode) -> tuple[dict[str, Sequence[str]], dict[str, Wrapper], list[str]]:
        """Return names by column, and by column and ``.key``; what is around rows, by column; what has no names."""
        names: dict[str, Sequence[str]] = {}
        wrapped: dict[str, Wrapper] = {}
        missing = list(self.nameless)
        for column in self.named_by_plans:
            if column.wrapper is not None:
                wrapped[column.name] = column.wrapper
            naming = node.fields_of_map_key if column.name == KEY_OF_ELEMENT else node.fields_of
            field_names = None if column.kind is None else naming(column.state, column.kind.num_fields)
            known_key = None if column.key is None else node.fields_of_map_key(column.state, column.key.num_fields)
            if field_names is not None:
                names[column.name] = field_names
            if known_key is not None:
                names[column.name + MAP_KEY] = known_key
            if (field_names is None and column.numbered[0]) or (known_key is None and column.numbered[1]):
                missing.append(column.name)
        return names, wrapped, missing


def _is_wrapped(kind: pa.StructType, position: int) -> bool:
    return bool(kind.num_fields == 2 and pa.types.is_struct(kind.field(position).type))


def _is_numbered(kind: pa.StructType | None) -> bool:
    """Return whether a struct has fields without names of their own."""
    return kind is not None and any(NUMBERED.fullmatch(field.name) for field in kind)


def _named(table: Table, names: Mapping[str, Sequence[str]], wrapped: Mapping[str, Wrapper], notes: list[str]) -> Table:
    schema = pa.schema(
        [
            field.with_type(
                _renamed(field.type, names.get(field.name), names.get(field.name + MAP_KEY), wrapped.get(field.name))
            )
            for field in table.schema
        ]
    )
    return NamedFields(table, schema, (*table.warnings, *notes))


def _struct(kind: pa.DataType) -> pa.StructType | None:
    """Return the struct of a column: itself, or that of its elements or values."""
    if pa.types.is_struct(kind):
        return kind
    if pa.types.is_list(kind):
        return _struct(kind.value_type)
    return _struct(kind.item_type) if pa.types.is_map(kind) else None


def _map_key(kind: pa.DataType) -> pa.StructType | None:
    """Return the struct of a map's keys."""
    return kind.key_type if pa.types.is_map(kind) and pa.types.is_struct(kind.key_type) else None


def _renamed(
    kind: pa.DataType, names: Sequence[str] | None, key: Sequence[str] | None, wrapper: Wrapper | None
) -> pa.DataType:
    if pa.types.is_map(kind):
        key_field = kind.key_field.with_type(_renamed(kind.key_type, key, None, None))
        return pa.map_(key_field, kind.item_field.with_type(_renamed(kind.item_type, names, None, wrapper)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_renamed(kind.value_type, names, None, wrapper)))
    if wrapper is not None:
        index, around = wrapper
        fields = [field.with_name(name) for field, name in zip(kind, around, strict=True)]
        fields[index] = fields[index].with_type(_renamed(fields[index].type, names, None, None))
        return pa.struct(fields)
    if names is None:
        return kind
    return pa.struct([field.with_name(name) for field, name in zip(kind, names, strict=True)])
