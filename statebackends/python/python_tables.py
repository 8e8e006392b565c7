"""Tables of PyFlink operators: the tables of what Flink stores, with values in place of byte arrays.

Each batch of the table below is converted: the state columns by their :class:`PythonState`, the key to what the job's
``key_by`` returned. Rows, key groups, windows and times of last access are those of the table below.

Of rows that differ, entries are compared as bytes. The states before and after are decoded by the types of their own
snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions, struct_array
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.name_lists import join_names
from pyspark_savepoint.formats.variant import VARIANT
from pyspark_savepoint.statebackends.python.python_state import (
    PythonState,
    decode_keys,
    flat_entries,
    job_name_of,
    lengths,
    python_states,
)
from pyspark_savepoint.statebackends.python.resolve import (
    PythonKey,
    PythonOperator,
    python_key,
    registered_names,
    resolve,
)
from pyspark_savepoint.statebackends.requests.request import (
    Table,
    TablePartition,
    TableRequest,
    choose_columns,
    with_columns,
)
from pyspark_savepoint.statebackends.rows.descriptors import STATE_WINDOW
from pyspark_savepoint.statebackends.rows.state_column import (
    LAST_ACCESS,
    LIST_INDEX,
    LIST_VALUE,
    MAP_KEY,
    MAP_VALUE,
    repeat_index,
)
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.tables.entry_diff import CHANGED_STATES, SUFFIXES
from pyspark_savepoint.statebackends.tables.flat_table import ELEMENT_LAST_ACCESS
from pyspark_savepoint.statebackends.tables.keyed_table import KEY, KEY_GROUP, SUBTASK, WINDOW, KeyedTable, column_names
from pyspark_savepoint.statebackends.tables.keys import KeyLookup, keys_of
from pyspark_savepoint.statebackends.tables.timers_table import TimersTable

#: Columns that are the same in every row of a key.
EVERY_ROW = (KEY, WINDOW, STATE_WINDOW, KEY_GROUP, SUBTASK)


def python_keyed_table(opened: OpenOperator, request: TableRequest, namespaced: bool) -> Table:
    """Return ``keyed_state`` or ``window_state`` of a PyFlink operator, flattened if the request asks for it."""
    below = _below(opened, request)
    inner = KeyedTable(opened, below, namespaced)
    names = [name for name in inner.spec.states if name in python_states(opened)]
    operator = resolve(opened, request, namespaced, [name for name in names if name not in below.raw])
    columns = column_names(inner.spec.states, namespaced)
    shown = [job_name_of(name) for name in inner.spec.states]
    if len(set(shown)) < len(shown):
        raise OptionError("a state of PyFlink and another state of the operator have one name", found=", ".join(shown))
    titles = column_names(shown, namespaced)
    states = {columns[name]: (titles[job_name_of(name)], operator.states.get(name)) for name in inner.spec.states}
    table = PythonTable(inner, request, operator, states, namespaced)
    return PythonFlatTable(table, request) if request.flatten else table


def python_timers_table(opened: OpenOperator, request: TableRequest) -> Table:
    """Return ``timers`` of a PyFlink operator."""
    inner = TimersTable(opened, replace(_below(opened, request), state=request.state))
    return PythonTable(inner, request, PythonOperator({}, python_key(opened, request)), {}, False)


def _below(opened: OpenOperator, request: TableRequest) -> TableRequest:
    """Return the request for what Flink stores."""
    states = None if request.states is None else join_names(registered_names(opened, request.states))
    return replace(
        request,
        state=states,
        raw=registered_names(opened, request.raw),
        keys=None,
        flatten=False,
        decode=replace(request.decode, pickle=False),
    )


@dataclass(frozen=True)
class Conversion:
    """How the batches of the table below become those of a PyFlink operator. It pickles."""

    states: Mapping[str, tuple[str, PythonState | None]]
    key: PythonKey | None
    options: DecodeOptions
    schema: pa.Schema
    #: Keys to keep, where only their decoded values tell them.
    keys: pa.Array | None = None

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch."""
        if self.keys is not None:
            wanted = {repr(key) for key in self.keys.to_pylist()}
            keys = self.key_values(batch.column(KEY)).to_pylist()
            batch = batch.filter(pa.array([repr(key) in wanted for key in keys], pa.bool_()))
        columns: dict[str, pa.Array] = {}
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name == KEY:
                columns[KEY] = self.key_values(column) if KEY in self.schema.names else column
            elif name in self.states:
                shown, state = self.states[name]
                columns[shown] = column if state is None else state.decode(column, self.options)
            elif name.removesuffix(LAST_ACCESS) in self.states and name.endswith(LAST_ACCESS):
                below = name.removesuffix(LAST_ACCESS)
                shown, state = self.states[below]
                values = batch.column(below)
                columns[shown + LAST_ACCESS] = column if state is None else state.times(values, column)
            else:
                columns[name] = column
        arrays = [columns[field.name] for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def key_values(self, column: pa.Array) -> pa.Array:
        """Convert a column of keys."""
        if self.key is None:
            return column
        inner = column.field(0)
        return inner if self.key.pickled is None else decode_keys(inner, self.key.pickled)

    def needed(self, columns: Sequence[str], names: Sequence[str]) -> list[str]:
        """Return the columns of the table below from which some columns are made."""
        below = {shown: name for name, (shown, _) in self.states.items()}
        needed = []
        for name in columns:
            stem = name.removesuffix(LAST_ACCESS)
            if stem != name and stem in below:
                needed += [below[stem], below[stem] + LAST_ACCESS]
            else:
                needed.append(below.get(name, name))
        if self.keys is not None:
            needed.append(KEY)
        return [name for name in names if name in needed]


class PythonTable:
    """Table of a PyFlink operator."""

    def __init__(
        self,
        inner: KeyedTable | TimersTable,
        request: TableRequest,
        operator: PythonOperator,
        states: Mapping[str, tuple[str, PythonState | None]],
        namespaced: bool,
    ) -> None:
        self.inner: KeyedTable | TimersTable = inner
        self.max_parallelism = inner.max_parallelism
        self.state_bytes = inner.state_bytes
        self.warnings = (*(_named_as_shown(note, states) for note in inner.warnings), *operator.warnings)
        options = replace(request.decode, pickle=False)
        self.key_type = _key_type(inner, operator.key)
        schema = pa.schema(list(self._fields(inner.schema, states, options, operator)))
        self.conversion = Conversion(dict(states), operator.key, options, schema)
        self.schema: pa.Schema = schema
        if request.keys is not None:
            self._look_up(request.keys, operator.key)

    def _fields(
        self,
        schema: pa.Schema,
        states: Mapping[str, tuple[str, PythonState | None]],
        options: DecodeOptions,
        operator: PythonOperator,
    ) -> Iterator[pa.Field]:
        for field in schema:
            stem = field.name.removesuffix(LAST_ACCESS)
            if field.name == KEY:
                yield field.with_type(self.key_type).with_metadata({b"comment": b"key of PyFlink"})
            elif field.name in states:
                shown, state = states[field.name]
                yield field.with_name(shown) if state is None else _field(shown, state, options)
            elif stem != field.name and stem in states:
                shown, state = states[stem]
                yield field.with_name(shown + LAST_ACCESS).with_type(_times_type(field.type, state, options))
            else:
                yield field

    def _look_up(self, text: str, key: PythonKey | None) -> None:
        """Set the keys to look up: by their bytes, or by their values where several pickles have one value."""
        keys = keys_of(text, self.key_type)
        if key is None:
            serializer = _key_serializer(self.inner)
            self.inner.lookup = KeyLookup.of_column(keys, serializer, self.inner.max_parallelism or 1)
        elif key.pickled is None:
            row = pa.struct([pa.field("f0", self.key_type)])
            column = struct_array(row, [keys], len(keys))
            self.inner.lookup = KeyLookup.of_column(column, key.wrapped, self.inner.max_parallelism or 1)
        elif key.pickled == VARIANT:
            raise OptionError(
                "option 'keys' cannot name pickled keys of several types", remedy="filter the rows by column 'key'"
            )
        else:
            self.conversion = replace(self.conversion, keys=keys)

    def select(self, columns: Sequence[str]) -> PythonTable:
        """Return this table restricted to some columns."""
        result = with_columns(self, columns)
        result.conversion = replace(self.conversion, schema=result.schema)
        needed = result.conversion.needed(columns, self.inner.schema.names)
        result.inner = self.inner.select(needed)
        return result

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        """Return those of the table below."""
        return [PythonPartition(part, self.conversion) for part in self.inner.partitions(parallelism)]


def _key_serializer(inner: KeyedTable | TimersTable) -> Any:
    return inner.headers.headers[0].key_serializer


def _key_type(inner: KeyedTable | TimersTable, key: PythonKey | None) -> pa.DataType:
    kind = inner.schema.field(KEY).type
    if key is None:
        return kind
    return kind.field(0).type if key.pickled is None else key.pickled


def _field(name: str, state: PythonState, options: DecodeOptions) -> pa.Field:
    return pa.field(name, state.arrow_type(options), metadata={b"comment": f"{state.kind} {state.flink_type}".encode()})


def _times_type(kind: pa.DataType, state: PythonState | None, options: DecodeOptions) -> pa.DataType:
    """Return the type of times of last access: one of a value, a list of a list's."""
    if state is None or state.kind == "LIST":
        return kind
    if state.kind == "MAP":
        return pa.map_(state.arrow_type(options).key_type, kind.item_type)
    return kind.value_type


def _named_as_shown(note: str, states: Mapping[str, tuple[str, PythonState | None]]) -> str:
    for name, (shown, _) in states.items():
        note = note.replace(repr(name), repr(shown))
    return note


@dataclass(frozen=True)
class PythonPartition:
    """One partition: that of the table below, and how its batches are converted."""

    inner: TablePartition
    conversion: Conversion

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the converted batches."""
        for batch in self.inner.batches():
            yield self.conversion.batch(batch)


class PythonFlatTable:
    """``keyed_state`` or ``window_state`` of one list or map state of PyFlink, with one row per element."""

    def __init__(self, table: PythonTable, request: TableRequest) -> None:
        flat = [
            (shown, state)
            for shown, state in table.conversion.states.values()
            if state is not None and state.kind in ("LIST", "MAP")
        ]
        if len(flat) != 1 or (request.states is not None and len(table.conversion.states) != 1):
            listed = ", ".join(f"{name} ({state.kind})" for name, state in table.conversion.states.values() if state)
            raise OptionError(
                "'flatten' reads one list or map state", found=listed, remedy="name it with option 'state'"
            )
        self.title, state = flat[0]
        extra = [self.title + LAST_ACCESS] if self.title + LAST_ACCESS in table.schema.names else []
        others = [name for name in table.schema.names if name in EVERY_ROW]
        self.inner = table.select([*others, self.title, *extra])
        self.warnings, self.max_parallelism, self.state_bytes = table.warnings, table.max_parallelism, table.state_bytes
        self.schema = pa.schema(list(self._fields(state.kind == "MAP")))

    def _fields(self, is_map: bool) -> Iterator[pa.Field]:
        for field in self.inner.schema:
            if field.name == self.title and is_map:
                yield pa.field(MAP_KEY, field.type.key_type, metadata=field.metadata)
                yield pa.field(MAP_VALUE, field.type.item_type)
            elif field.name == self.title:
                yield pa.field(LIST_INDEX, pa.int32(), metadata=field.metadata)
                yield pa.field(LIST_VALUE, field.type.value_type)
            elif field.name == self.title + LAST_ACCESS:
                yield pa.field(ELEMENT_LAST_ACCESS, field.type.item_type if is_map else field.type.value_type)
            else:
                yield field

    def select(self, columns: Sequence[str]) -> PythonFlatTable:
        """Return this table restricted to some columns."""
        return with_columns(self, columns)

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        """Return those of the table with one row per key."""
        return [PythonFlatPartition(part, self.title, self.schema) for part in self.inner.partitions(parallelism)]


@dataclass(frozen=True)
class PythonFlatPartition:
    """One partition of a flattened table."""

    inner: TablePartition
    title: str
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the elements of the lists or maps."""
        for batch in self.inner.batches():
            column = batch.column(self.title)
            counts = lengths(column)
            owner = pa.array(np.repeat(np.arange(len(batch)), counts))
            columns: dict[str, pa.Array] = {}
            for name in batch.schema.names:
                if name in EVERY_ROW:
                    columns[name] = batch.column(name).take(owner)
            if pa.types.is_map(column.type):
                columns[MAP_KEY], columns[MAP_VALUE] = flat_entries(column)
            else:
                columns[LIST_INDEX], columns[LIST_VALUE] = repeat_index(counts), column.flatten()
            if ELEMENT_LAST_ACCESS in self.schema.names:
                times = batch.column(self.title + LAST_ACCESS)
                columns[ELEMENT_LAST_ACCESS] = (
                    flat_entries(times)[1] if pa.types.is_map(times.type) else times.flatten()
                )
            yield pa.RecordBatch.from_arrays([columns[field.name] for field in self.schema], schema=self.schema)


Sides = tuple[Conversion | None, Conversion | None]


@dataclass(frozen=True)
class PythonDifferences:
    """Differences of two PyFlink operators, over those of the tables below them."""

    inner: Table
    sides: Sides
    schema: pa.Schema
    columns: tuple[str, ...]

    @classmethod
    def of(cls, inner: Table, tables: Sequence[PythonTable | None]) -> PythonDifferences:
        """Return the differences; None for a side that has no such table."""
        before, after = (None if table is None else table.conversion for table in tables)
        types = {KEY: next(table.key_type for table in tables if table is not None)}
        sides = (before, after)
        for suffix, table in zip(SUFFIXES, tables, strict=True):
            for below, (shown, _) in {} if table is None else dict(table.conversion.states).items():
                if table is not None and shown in table.schema.names:
                    types[below + suffix] = table.schema.field(shown).type
        fields = [
            field.with_name(_user_name(field.name, sides)).with_type(types.get(field.name, field.type))
            for field in inner.schema
        ]
        return cls(inner, sides, pa.schema(fields), tuple(inner.schema.names))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the warnings of the table below."""
        return self.inner.warnings

    @property
    def max_parallelism(self) -> int | None:
        """Return that of the table below."""
        return self.inner.max_parallelism

    @property
    def state_bytes(self) -> int:
        """Return those of the table below."""
        return self.inner.state_bytes

    def select(self, columns: Sequence[str]) -> PythonDifferences:
        """Return this table restricted to some columns."""
        below = dict(zip(self.schema.names, self.columns, strict=True))
        schema = choose_columns(self.schema, columns)
        chosen = tuple(below[name] for name in columns)
        return PythonDifferences(self.inner.select(chosen), self.sides, schema, chosen)

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        """Return those of the table below."""
        return [DifferencesPartition(part, self.sides, self.schema) for part in self.inner.partitions(parallelism)]


@dataclass(frozen=True)
class DifferencesPartition:
    """Rows of some key groups."""

    inner: TablePartition
    sides: Sides
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that differ."""
        for batch in self.inner.batches():
            arrays = [
                self._converted(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _converted(self, name: str, column: pa.Array) -> pa.Array:
        if name == KEY:
            return next(side for side in self.sides if side is not None).key_values(column)
        if name == CHANGED_STATES:
            names = pa.array([job_name_of(state_name) for state_name in column.flatten().to_pylist()], pa.string())
            return pa.ListArray.from_arrays(column.offsets, names)
        for suffix, side in zip(SUFFIXES, self.sides, strict=True):
            below = name.removesuffix(suffix)
            if side is not None and below != name and below in side.states:
                _, state = side.states[below]
                return column if state is None else state.decode(column, side.options)
        return column


def _user_name(name: str, sides: Sides) -> str:
    for suffix in SUFFIXES:
        below = name.removesuffix(suffix)
        for side in sides:
            if side is not None and below != name and below in side.states:
                return side.states[below][0] + suffix
    return name
