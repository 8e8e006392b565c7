"""Tables ``keyed_state`` and ``window_state``: one row per key (and window), one column per state.

keyed_state    key, state...                    every key once, NULL where it lacks a state
window_state   key, window, state...            every key and namespace once; state_window besides a session
extra          <state>__last_access (TTL), key_group, subtask

Spark compares column names without case. A state whose name is taken (by one of these columns, or by an earlier state)
gets another column name, ``state_key`` for ``key``, and the table has a warning about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, Ints, Longs, fixed_array
from pyspark_savepoint.formats.errors import OptionError, UnsupportedStateError
from pyspark_savepoint.formats.keyed.key_partitions import KeyedRows, KeyPartitions
from pyspark_savepoint.formats.keyed.keyed_block import (
    CANONICAL,
    SCHEMA,
    KeyedBlock,
    SortedRows,
    binary_column,
    block_of,
    take_entries,
)
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.statebackends.requests.request import TablePartition, TableRequest, with_columns
from pyspark_savepoint.statebackends.rows.descriptors import SESSIONS, STATE_WINDOW
from pyspark_savepoint.statebackends.rows.rows import RowsOfBlock, rows_of
from pyspark_savepoint.statebackends.rows.state_column import (
    LAST_ACCESS,
    StateColumn,
    decode_either,
    has_ttl,
    split_ttl,
    split_ttl_type,
)
from pyspark_savepoint.statebackends.sources.keyed_plan import (
    KeyedSpec,
    KeyedSplit,
    Places,
    check_decodable,
    check_decodable_key,
    key_type,
    state_type,
    united_states,
    vertices,
)
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.tables.keys import KeyLookup, check_key_groups
from pyspark_savepoint.statebackends.tables.session_windows import (
    MERGING,
    SessionPlan,
    SessionWindows,
    merging_state,
)
from pyspark_savepoint.statebackends.types.unify import conform, merge_registrations, unify

#: Cells of a batch: tables of very many columns have fewer rows in a batch.
MAX_CELLS = 1 << 24
#: Blocks of a large key group that are divided in memory, and the size from which a part is divided again.
IN_MEMORY = 4
KEY, WINDOW, KEY_GROUP, SUBTASK = "key", "window", "key_group", "subtask"


def column_names(states: Sequence[str], namespaced: bool) -> dict[str, str]:
    """Give every state a distinct column: its own name, else ``state_NAME``, ``state_NAME_``, ``state_NAME_3`` ...

    >>> column_names(["key", "total", "Total", "TOTAL", "window"], namespaced=False)
    {'total': 'total', 'window': 'window', 'key': 'state_key', 'Total': 'state_Total', 'TOTAL': 'state_TOTAL_'}
    """
    reserved = {KEY, KEY_GROUP, SUBTASK, *([WINDOW] if namespaced else [])}

    def take(name: str) -> bool:
        mine = {name.lower(), (name + LAST_ACCESS).lower()}
        free = not reserved & mine
        reserved.update(mine if free else ())
        return free

    # States that can keep their own name come first; then new names are made for the others.
    names = {state: state for state in states if take(state)}
    # How many names were tried for states that differ only in case: every name is tried once.
    tried: Counter[str] = Counter()
    for state in states:
        while state not in names:
            tried[state.lower()] += 1
            number = tried[state.lower()]
            name = f"state_{state}" + ("", "", "_")[number] if number < 3 else f"state_{state}_{number}"
            if take(name):
                names[state] = name
    return names


class KeyedTable:
    """``keyed_state`` or, where ``namespaced``, ``window_state`` of an operator.

    With ``sessions``, session windows are shown as merged, not as Flink stores them.
    """

    def __init__(
        self, opened: OpenOperator, request: TableRequest, namespaced: bool, *, sessions: bool = False
    ) -> None:
        self.request = request
        self.headers = opened.keyed
        operator, label = opened.operator, opened.operator.label
        self.max_parallelism: int | None = operator.max_parallelism
        self.state_bytes = operator.state_size
        registrations = self.headers.choose(namespaced, request.states)
        common = {name: merge_registrations(metas) for name, metas in registrations.items()}
        internal = request.include_internal or not namespaced
        options = replace(request.decode, ttl=request.include_ttl, internal=internal)
        if KEY not in request.raw:
            check_decodable_key(self.headers.key_serializers, request.undecodable, label, "keys")
        self.spec = KeyedSpec(
            tuple(registrations), namespaced, frozenset(request.raw), options, request.batch_rows, request.block_bytes,
            united_states(registrations, common),
        )  # fmt: skip
        notes: list[str | None] = [*self.headers.notes]
        notes += [check_decodable(metas, request.undecodable, label) for metas in registrations.values()]
        names = column_names(self.spec.states, namespaced)
        for state, name in names.items():
            if state != name:
                notes.append(f"state {state!r} is in column {name!r}, because another column has its name")
        self.warnings = tuple(note for note in notes if note)
        self.sessions = self._session_plan() if sessions else None
        if request.include_state_window and self.sessions is None:
            raise OptionError(
                "option 'includeStateWindow' is for windows that merge, such as sessions",
                operator=operator.label,
                found="no state " + " or ".join(MERGING),
                remedy="leave the option out: the windows of this operator are stored as they are",
            )
        hidden = [state for state, name in names.items() if name.lower() == STATE_WINDOW]
        if hidden and request.include_state_window:
            raise OptionError(
                f"state {hidden[0]!r} has column {STATE_WINDOW!r} already",
                operator=operator.label,
                remedy="name other states with option 'state'",
            )
        self.schema = pa.schema(list(self._fields(registrations, common, names)))
        self.lookup: KeyLookup | None = None
        if request.keys is not None:
            key = self.headers.headers[0].key_serializer
            self.lookup = KeyLookup.of(request.keys, key, operator.max_parallelism, options)

    def _fields(
        self,
        chosen: dict[str, list[StateMetaInfoSnapshot]],
        common: dict[str, StateMetaInfoSnapshot | None],
        names: dict[str, str],
    ) -> Iterator[pa.Field]:
        operator = self.headers.operator.label
        options = self.spec.options
        kind = key_type(self.headers.key_serializers, options, KEY in self.spec.raw)
        yield pa.field(KEY, kind, metadata=_comment(self._key_comment()))
        if self.spec.namespaced:
            namespaces = {name: metas[0].namespace_serializer for name, metas in chosen.items()}
            kind = self._window_type(namespaces, operator)
            if not pa.types.is_null(kind):
                first = next(iter(namespaces.values()))
                mark = {SESSIONS: self.sessions.state.encode()} if self.sessions is not None else {}
                yield pa.field(WINDOW, kind, metadata=_comment(first.flink_type) | mark)
                if self.request.include_state_window:
                    yield pa.field(STATE_WINDOW, kind, metadata=_comment("the window under which Flink keeps contents"))
        united = {meta.name: meta for meta in self.spec.united}
        for state, metas in chosen.items():
            name = names[state]
            kind = state_type(metas, common[state], options, state in self.spec.raw)
            shown = united.get(state, metas[0])
            comment = _comment(f"{shown.state_type} {shown.value_serializer.flink_type}")
            if self._shows_ttl(metas[0]):
                kind, time = split_ttl_type(kind)
                yield pa.field(name, kind, metadata=comment)
                yield pa.field(name + LAST_ACCESS, time, metadata=_comment(f"last access of {state}"))
            else:
                yield pa.field(name, kind, metadata=comment)
        if self.request.include_key_group:
            yield pa.field(KEY_GROUP, pa.int32())
            yield pa.field(SUBTASK, pa.int32())

    def _session_plan(self) -> SessionPlan | None:
        """Return how sessions are found, some key groups at a time, so that those of a task fit into its memory."""
        state = merging_state(self.headers.metas())
        if state is None:
            return None
        groups = self.spec.block_bytes * (self.max_parallelism or 1) // max(1, self.state_bytes)
        return SessionPlan(state, max(1, groups))

    def _key_comment(self) -> str:
        return "key " + self.headers.headers[0].key_serializer.flink_type

    def _shows_ttl(self, meta: StateMetaInfoSnapshot) -> bool:
        return shows_ttl(StateColumn(meta, CANONICAL, self.spec.options, meta.name in self.spec.raw))

    def _window_type(self, namespaces: dict[str, TypeSerializer], operator: str) -> pa.DataType:
        kinds = {name: serializer.arrow_type(self.spec.options) for name, serializer in namespaces.items()}
        if len({serializer.flink_type for serializer in namespaces.values()}) > 1:
            listed = ", ".join(f"{name} ({namespaces[name].flink_type})" for name in kinds)
            raise UnsupportedStateError(
                "the operator has states with namespaces of different types, which cannot be one table",
                operator=operator,
                found=listed,
                remedy="select states with the same type of namespace by option 'state'",
            )
        return pa.binary() if WINDOW in self.spec.raw else unify(list(kinds.values()), WINDOW)

    def select(self, columns: Sequence[str]) -> KeyedTable:
        """Return this table restricted to some columns."""
        return with_columns(self, columns)

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        """Return one partition per execution vertex that has state to read."""
        only = self.lookup.key_groups if self.lookup is not None else None
        operator = self.headers.operator
        count = min(parallelism or 1, operator.max_parallelism)
        splits = [self.headers.split(groups) for groups in vertices(operator, self.request, only, count)]
        return [
            KeyedPartition(
                split,
                self.spec,
                self.schema,
                self.lookup,
                operator.parallelism,
                operator.max_parallelism,
                self.sessions,
            )
            for split in splits
            if split.sources
        ]


def _comment(text: str) -> dict[bytes, bytes]:
    return {b"comment": text.encode()}


def shows_ttl(column: StateColumn) -> bool:
    """Return whether a column holds TTL structs, which are split into values and times of last access."""
    return column.options.ttl and has_ttl(column.meta) and not column.is_bytes


@dataclass(frozen=True)
class KeyedPartition:
    """One execution vertex of a keyed table."""

    split: KeyedSplit
    spec: KeyedSpec
    schema: pa.Schema
    lookup: KeyLookup | None
    parallelism: int
    max_parallelism: int
    sessions: SessionPlan | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the key groups."""
        if self.sessions is None:
            blocks = self.split.rows_or_blocks(self.spec, self._places(self.split))
            yield from self._joined(((block, header, None) for block, header in blocks))
        else:
            yield from self._joined(self.blocks())

    def blocks(self) -> Iterator[tuple[KeyedBlock, KeyedBackendHeader, SessionWindows | None]]:
        """Yield the entries of the key groups, with the sessions that are their windows."""
        if self.sessions is None:
            for block, header in self.split.blocks(self.spec, self._places(self.split)):
                yield block, header, None
            return
        for split, sessions in self.sessions.read(self.split, self.spec, self._places(self.split)):
            for block, header in split.blocks(self.spec, self._places(split)):
                yield sessions.named(block, header), header, sessions

    def _places(self, split: KeyedSplit) -> Places:
        return self.lookup.places(split.key_groups) if self.lookup is not None else None

    def _joined(
        self, blocks: Iterable[tuple[KeyedBlock | SortedRows, KeyedBackendHeader, SessionWindows | None]]
    ) -> Iterator[pa.RecordBatch]:
        large: LargeKeyGroup | None = None
        named: SessionWindows | None = None
        for block, header, sessions in blocks:
            if large is not None and not large.takes(block):
                yield from self._large(large, named)
                large = None
            if isinstance(block, SortedRows) or block.complete:
                yield from self._rows(rows_of(block), header, sessions)
                continue
            large, named = large or LargeKeyGroup(block, header, self.spec.block_bytes), sessions
            large.add(block)
        if large is not None:
            yield from self._large(large, named)

    def decode(self, rows: RowsOfBlock, header: KeyedBackendHeader) -> pa.RecordBatch:
        """Return the columns of all rows of a block, whatever the source of its entries."""
        return _BatchBuilder(self, rows, header).build(0, len(rows))

    def _large(self, large: LargeKeyGroup, sessions: SessionWindows | None) -> Iterator[pa.RecordBatch]:
        with large:
            for block in large.blocks():
                yield from self._rows(rows_of(block), large.header, sessions)

    def _rows(
        self, rows: RowsOfBlock, header: KeyedBackendHeader, sessions: SessionWindows | None
    ) -> Iterator[pa.RecordBatch]:
        if self.lookup is not None:
            rows = rows.select(self.lookup.matches(rows.block.buffer, *rows.keys(0, len(rows))))
        builder = _BatchBuilder(self, rows, header, sessions)
        # Batches of equal size, instead of full ones and a small last one. Most cells of very wide tables are NULL.
        most = max(1, min(self.spec.batch_rows, MAX_CELLS // max(1, len(self.schema))))
        count = -(-len(rows) // most)
        bounds = [len(rows) * i // count for i in range(count + 1)] if count else []
        for low, high in pairwise(bounds):
            yield builder.build(low, high)


class LargeKeyGroup:
    """Context manager that turns the entries of a key group larger than memory, added in blocks, into complete blocks.

    The resulting blocks have about ``block_bytes`` bytes each.
    """

    def __init__(self, first: KeyedBlock, header: KeyedBackendHeader, block_bytes: int) -> None:
        self.first = first
        self.header = header
        large = IN_MEMORY * block_bytes
        self.entries = KeyPartitions(SCHEMA, self._read, piece=block_bytes, limit=large, capacity=large)

    def takes(self, block: KeyedBlock | SortedRows) -> bool:
        """Return whether a block belongs to the same key group of the same file."""
        if isinstance(block, SortedRows) or block.complete:
            return False
        return block.origin.path == self.first.origin.path and block.runs.key_group[0] == self.first.runs.key_group[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.entries.close()

    def add(self, block: KeyedBlock) -> None:
        """Add the selected entries of a block."""
        entries = block.runs.entries()
        if len(entries):
            spans = block.span_start[entries], block.span_end[entries]
            self.entries.add(KeyedRows(block.buffer, *spans, lambda rows: take_entries(block, entries[rows])))

    def _read(self, batch: pa.RecordBatch) -> KeyedRows:
        block = block_of([batch], self.first)
        return KeyedRows(block.buffer, block.span_start, block.span_end, lambda rows: take_entries(block, rows))

    def blocks(self) -> Iterator[KeyedBlock]:
        """Yield the entries as complete blocks."""
        for (batches,) in self.entries.pieces():
            yield block_of(batches, self.first)


class _BatchBuilder:
    """Columns of the rows of one block."""

    def __init__(
        self,
        partition: KeyedPartition,
        rows: RowsOfBlock,
        header: KeyedBackendHeader,
        sessions: SessionWindows | None = None,
    ) -> None:
        self.partition = partition
        self.rows = rows
        self.header = header
        self.sessions = sessions
        bound = partition.spec.bind(header, rows.block.form)
        names = set(partition.schema.names)
        columns = column_names(partition.spec.states, partition.spec.namespaced)
        self.columns = {
            columns[name]: (column, column.plan(rows, state), state)
            for name, (state, column) in bound.items()
            if columns[name] in names or columns[name] + LAST_ACCESS in names
        }
        self.namespace = next(column.meta.namespace_serializer for _, column in bound.values())

    def build(self, low: int, high: int) -> pa.RecordBatch:
        """Build one batch from the rows [low, high)."""
        arrays: dict[str, pa.Array] = {}
        schema = self.partition.schema
        names = set(schema.names)
        if names & {KEY, WINDOW, STATE_WINDOW}:
            keys, namespaces = self.rows.keys(low, high), self.rows.namespaces(low, high)
            spec = self.partition.spec
            arrays |= key_columns(self.rows.block, keys, namespaces, self.header, self.namespace, spec)
            if STATE_WINDOW in names and self.sessions is not None:
                block = self.rows.block
                windows = self.sessions.state_windows_of(block, keys, namespaces, self.namespace, spec)
                arrays[STATE_WINDOW] = windows
            if KEY in names and KEY not in spec.raw:
                expected = self.rows.key_groups(low, high), self.partition.max_parallelism
                at = key_cursors(self.rows.block, keys, spec)
                check_key_groups(at, self.header.key_serializer, *expected, arrays[KEY])
        for name, (column, plan, state) in self.columns.items():
            if not column.has_values(self.rows, state, plan, low, high):
                continue
            array = column.decode(self.rows, state, plan, low, high)
            if shows_ttl(column):
                arrays[name], arrays[name + LAST_ACCESS] = split_ttl(array)
            else:
                arrays[name] = array
        if KEY_GROUP in names or SUBTASK in names:
            arrays |= place_columns(self.rows.key_groups(low, high), self.partition)
        origin = self.rows.block.origin
        # One array of NULLs for all columns of a type: where most of many states have no values, only they count.
        missing = {field.type for field in schema if field.name not in arrays}
        nulls = {kind: pa.nulls(high - low, kind) for kind in missing}
        finished = [
            conform(arrays[field.name], field.type, origin) if field.name in arrays else nulls[field.type]
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(finished, schema=schema)


def place_columns(key_group: Ints, partition: KeyedPartition) -> dict[str, pa.Array]:
    """Return the key group, and the subtask that owns it at the snapshot's own parallelism."""
    subtask = key_group.astype(np.int64) * partition.parallelism // partition.max_parallelism
    return {
        KEY_GROUP: fixed_array(pa.int32(), key_group),
        SUBTASK: fixed_array(pa.int32(), subtask.astype(np.int32)),
    }


def key_columns(
    block: KeyedBlock | SortedRows,
    keys: tuple[Longs, Longs],
    namespaces: tuple[Longs, Longs],
    header: KeyedBackendHeader,
    namespace: TypeSerializer,
    spec: KeyedSpec,
) -> dict[str, pa.Array]:
    """Decode keys and windows from their spans."""
    columns = {KEY: _column(block, keys, header.key_serializer, spec, KEY)}
    if spec.namespaced:
        columns[WINDOW] = _column(block, namespaces, namespace, spec, WINDOW)
    return columns


def key_cursors(block: KeyedBlock | SortedRows, keys: tuple[Longs, Longs], spec: KeyedSpec) -> Cursors:
    """Return cursors over the spans of keys, with the options to decode them."""
    return Cursors(block.buffer, *keys, replace(block.origin, state=KEY), spec.options)


def _column(
    block: KeyedBlock | SortedRows, spans: tuple[Longs, Longs], serializer: TypeSerializer, spec: KeyedSpec, name: str
) -> pa.Array:
    if name in spec.raw or (name == KEY and serializer.opaque_parts()):
        return binary_column(block.buffer, *spans)
    at = Cursors(block.buffer, spans[0].copy(), spans[1], block.origin.of_state(name), spec.options)
    return decode_either(serializer, at, serializer.decode)
