"""List or map state with one row per element: option ``flatten``.

    list   key, [window], [state_window], list_index, list_value, [last_access]
    map    key, [window], [state_window], map_key, map_value, [last_access]

No row is larger than one element, so a map of a hundred million entries under one key is read in bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Longs
from pyspark_savepoint.formats.errors import OptionError, UndecodableStateError
from pyspark_savepoint.formats.keyed.keyed_block import CANONICAL, KeyedBlock
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader
from pyspark_savepoint.formats.name_lists import join_names
from pyspark_savepoint.statebackends.requests.request import TablePartition, TableRequest, with_columns
from pyspark_savepoint.statebackends.rows.descriptors import STATE_WINDOW
from pyspark_savepoint.statebackends.rows.state_column import (
    LAST_ACCESS,
    LIST_INDEX,
    LIST_VALUE,
    MAP_KEY,
    MAP_VALUE,
    StateColumn,
    elements_of,
)
from pyspark_savepoint.statebackends.sources.keyed_plan import vertices
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.tables.keyed_table import (
    KEY,
    KEY_GROUP,
    SUBTASK,
    WINDOW,
    KeyedPartition,
    KeyedTable,
    column_names,
    key_columns,
    key_cursors,
    place_columns,
    shows_ttl,
)
from pyspark_savepoint.statebackends.tables.keys import check_key_groups
from pyspark_savepoint.statebackends.tables.session_windows import SessionWindows
from pyspark_savepoint.statebackends.types.unify import conform, merge_registrations

ELEMENT_LAST_ACCESS = "last_access"
FLAT = ("LIST", "MAP")


class FlatTable:
    """``keyed_state`` or ``window_state`` of one list or map state, with one row per element."""

    def __init__(self, opened: OpenOperator, request: TableRequest, namespaced: bool) -> None:
        self.inner = KeyedTable(opened, _only_flat(opened, request, namespaced), namespaced, sessions=namespaced)
        self.max_parallelism = self.inner.max_parallelism
        self.warnings = self.inner.warnings
        self.state_bytes = self.inner.state_bytes
        (state,) = self.inner.spec.states
        metas = self.inner.headers.metas()[state, False]
        self.column = StateColumn(
            merge_registrations(metas) or metas[0], CANONICAL, self.inner.spec.options, state in request.raw
        )
        self.schema = pa.schema(list(self._fields(column_names((state,), namespaced)[state])))

    def _fields(self, name: str) -> Iterator[pa.Field]:
        column = self.inner.schema.field(name)
        for field in self.inner.schema:
            if field.name in (KEY, WINDOW, STATE_WINDOW) and field.name != name:
                yield field
        if pa.types.is_map(column.type):
            yield pa.field(MAP_KEY, column.type.key_type, metadata=column.metadata)
            yield pa.field(MAP_VALUE, column.type.item_type)
        elif pa.types.is_list(column.type):
            yield pa.field(LIST_INDEX, pa.int32(), metadata=column.metadata)
            yield pa.field(LIST_VALUE, column.type.value_type)
        else:
            raise UndecodableStateError(
                f"the elements of state {self.column.meta.name!r} can only be delimited by the job's own serializer",
                operator=self.inner.headers.operator.label,
                state=self.column.meta.name,
                remedy="read it without 'flatten', as BINARY, or plug in a serializer "
                "(entry point group 'pyspark_savepoint.serializers')",
            )
        if shows_ttl(self.column):
            times = self.inner.schema.field(name + LAST_ACCESS).type
            yield pa.field(ELEMENT_LAST_ACCESS, times.item_type if pa.types.is_map(times) else times.value_type)
        for field in self.inner.schema:
            if field.name in (KEY_GROUP, SUBTASK):
                yield field

    def select(self, columns: Sequence[str]) -> FlatTable:
        """Return this table restricted to some columns."""
        return with_columns(self, columns)

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        """Return one partition per execution vertex that has state to read."""
        keyed = self.inner
        operator = keyed.headers.operator
        only = keyed.lookup.key_groups if keyed.lookup is not None else None
        count = min(parallelism or 1, operator.max_parallelism)
        splits = [keyed.headers.split(groups) for groups in vertices(operator, keyed.request, only, count)]
        parallelisms = (operator.parallelism, operator.max_parallelism)
        return [
            FlatPartition(KeyedPartition(split, keyed.spec, self.schema, keyed.lookup, *parallelisms, keyed.sessions))
            for split in splits
            if split.sources
        ]


def _only_flat(opened: OpenOperator, request: TableRequest, namespaced: bool) -> TableRequest:
    """Return the request for one list or map state: the named one, or the only one of the operator."""
    registrations = opened.keyed.choose(namespaced, request.states)
    flat = [name for name, metas in registrations.items() if metas[0].state_type in FLAT]
    if len(flat) != 1 or (request.states is not None and len(registrations) != 1):
        raise OptionError(
            "'flatten' reads one list or map state",
            operator=opened.operator.label,
            found=", ".join(f"{name} ({metas[0].state_type})" for name, metas in registrations.items()),
            remedy="name it with option 'state'" if flat else "read the state without 'flatten'",
        )
    return replace(request, state=join_names(flat))


@dataclass(frozen=True)
class FlatPartition:
    """One execution vertex of a flattened table."""

    keyed: KeyedPartition

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield elements in the order of the file."""
        for block, header, sessions in self.keyed.blocks():
            assert isinstance(block, KeyedBlock)
            ((state, column),) = self.keyed.spec.bind(header, block.form).values()
            entries = block.runs.entries()
            entries = entries[block.state[entries] == state]
            if self.keyed.lookup is not None:
                spans = block.key_start[entries], block.key_end[entries]
                entries = entries[self.keyed.lookup.matches(block.buffer, *spans)]
            for low in range(0, len(entries), self.keyed.spec.batch_rows):
                part = entries[low : low + self.keyed.spec.batch_rows]
                yield from self._batch(block, header, column, part, sessions)

    def _batch(
        self,
        block: KeyedBlock,
        header: KeyedBackendHeader,
        column: StateColumn,
        entries: Longs,
        sessions: SessionWindows | None,
    ) -> Iterator[pa.RecordBatch]:
        counts, arrays = elements_of(block, column, entries)
        owner = np.repeat(np.arange(len(entries)), counts)
        total = len(owner)
        if shows_ttl(column):
            name = MAP_VALUE if MAP_KEY in arrays else LIST_VALUE
            arrays[name], arrays[ELEMENT_LAST_ACCESS] = arrays[name].flatten()
        schema = self.keyed.schema
        keys = (block.key_start[entries], block.key_end[entries])
        namespaces = (block.namespace_start[entries], block.namespace_end[entries])
        namespace = column.meta.namespace_serializer
        per_entry = key_columns(block, keys, namespaces, header, namespace, self.keyed.spec)
        if STATE_WINDOW in schema.names and sessions is not None:
            windows = sessions.state_windows_of(block, keys, namespaces, namespace, self.keyed.spec)
            per_entry[STATE_WINDOW] = windows
        if KEY in schema.names and KEY not in self.keyed.spec.raw:
            expected = block.key_group[entries], self.keyed.max_parallelism
            at = key_cursors(block, keys, self.keyed.spec)
            check_key_groups(at, header.key_serializer, *expected, per_entry[KEY])
        per_entry |= place_columns(block.key_group[entries], self.keyed)
        step = self.keyed.spec.batch_rows
        for low in range(0, total, step):
            index = pa.array(owner[low : low + step])
            columns = [
                conform(
                    per_entry[field.name].take(index)
                    if field.name in per_entry
                    else arrays[field.name].slice(low, step),
                    field.type,
                    block.origin,
                )
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
