"""Sessions of window operators whose windows merge.

Flink keeps the contents of a session under one of the windows that were merged into it, the state window; its timers
and the states of its trigger are under the session. A state without namespace maps them:

    merging-window-set        list of (session, state window)      DataStream
    session-window-mapping    map of session to state window       group windows of SQL

Entries of contents get the session as their namespace, so that all states of a session are one row. An entry whose
window belongs to no session keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import Cursors, Longs, binary_parts, scatter
from pyspark_savepoint.formats.keyed.keyed_block import (
    SCHEMA,
    KeyedBlock,
    SortedRows,
    binary_column,
    block_of,
    take_entries,
)
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.statebackends.rows.descriptors import SESSIONS, STATE_WINDOW, WINDOW_COLUMN, WINDOW_CONTENTS
from pyspark_savepoint.statebackends.rows.state_column import (
    LIST_VALUE,
    MAP_KEY,
    MAP_VALUE,
    elements_of,
    unit_serializers,
)
from pyspark_savepoint.statebackends.rows.state_entries import encode_column
from pyspark_savepoint.statebackends.sources.keyed_plan import KeyedSpec, KeyedSplit, Places, is_namespaced

#: States that say which session has which state window.
MERGING = ("merging-window-set", "session-window-mapping")

Spans = tuple[Longs, Longs]


def merging_state(metas: Mapping[tuple[str, bool], Sequence[StateMetaInfoSnapshot]]) -> str | None:
    """Return the name of the state that has the sessions, or None if windows do not merge."""
    for name in MERGING:
        registrations = metas.get((name, False))
        if registrations and not is_namespaced(registrations[0]) and _window_serializer(registrations[0]) is not None:
            return name
    return None


def has_sessions(schema: pa.Schema) -> bool:
    """Return whether the windows of a table are sessions: those of an operator whose windows merge are marked so."""
    return WINDOW_COLUMN in schema.names and SESSIONS in (schema.field(WINDOW_COLUMN).metadata or {})


def _window_serializer(meta: StateMetaInfoSnapshot) -> TypeSerializer | None:
    """Return the serializer of windows, or None if the state is not pairs of windows."""
    units = unit_serializers(meta) if meta.state_type in ("LIST", "MAP") else ()
    pair = units if len(units) == 2 else units[0].children if units else ()
    if len(pair) != 2 or pair[0] != pair[1] or pair[0].opaque_parts():
        return None
    return pair[0]


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """The state that has the sessions, and the number of key groups whose sessions are held at a time."""

    state: str
    groups: int

    def read(self, split: KeyedSplit, spec: KeyedSpec, places: Places) -> Iterator[tuple[KeyedSplit, SessionWindows]]:
        """Yield the key groups of a split in parts, each with its sessions."""
        for low in range(0, len(split.key_groups), self.groups):
            part = replace(split, key_groups=split.key_groups[low : low + self.groups])
            yield part, SessionWindows.of(part, replace(spec, states=(self.state,)), places)


def _joined(keys: pa.Array, windows: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(keys, windows, pa.scalar(b"", pa.binary()))


@dataclass(frozen=True)
class SessionWindows:
    """Sessions of some key groups: keys with windows, as bytes, and the window under which they are stored."""

    by_state_window: pa.Array
    by_session: pa.Array
    sessions: pa.Array
    state_windows: pa.Array

    @classmethod
    def of(cls, split: KeyedSplit, spec: KeyedSpec, places: Places) -> SessionWindows:
        """Read the sessions of a split."""
        spec = replace(spec, namespaced=False, raw=frozenset(), options=replace(spec.options, timestamps="raw"))
        parts: list[tuple[pa.Array, ...]] = []
        for block, header in split.blocks(spec, places):
            for state, column in spec.bind(header, block.form).values():
                entries = block.runs.entries()
                entries = entries[block.state[entries] == state]
                counts, elements = elements_of(block, column, entries)
                pair = (
                    (elements[MAP_KEY], elements[MAP_VALUE])
                    if MAP_KEY in elements
                    else tuple(elements[LIST_VALUE].flatten())
                )
                serializer = _window_serializer(column.meta)
                assert serializer is not None, "the state was chosen for its windows"
                owner = np.repeat(entries, counts)
                keys = binary_column(block.buffer, block.key_start[owner], block.key_end[owner])
                session, state_window = (binary_column(*encode_column(serializer, windows)) for windows in pair)
                parts.append((_joined(keys, state_window), _joined(keys, session), session, state_window))
        columns = zip(*parts, strict=True) if parts else [[pa.array([], pa.binary())]] * 4
        return cls(*(pa.concat_arrays(list(column)) for column in columns))

    def named(self, block: KeyedBlock, header: KeyedBackendHeader) -> KeyedBlock:
        """Return the block with sessions as the namespaces of contents."""
        entries = block.runs.entries()
        contents = [i for i, meta in enumerate(header.states) if meta.name in WINDOW_CONTENTS]
        if not len(entries) or not np.isin(block.state[entries], contents).any():
            return block
        batch = take_entries(block, entries)
        indices = pc.index_in(_joined(batch.column("key"), batch.column("namespace")), value_set=self.by_state_window)
        merged = pc.and_(
            pc.is_in(batch.column("state"), value_set=pa.array(contents, pa.int32())), pc.is_valid(indices)
        )
        columns = {name: batch.column(name) for name in SCHEMA.names}
        columns["namespace"] = pc.if_else(merged, self.sessions.take(indices), columns["namespace"])
        return block_of([pa.record_batch(columns, schema=SCHEMA)], block, block.complete)

    def state_windows_of(
        self, block: KeyedBlock | SortedRows, keys: Spans, sessions: Spans, serializer: TypeSerializer, spec: KeyedSpec
    ) -> pa.Array:
        """Return the state windows of rows, NULL where a window is none of the sessions."""
        windows = _joined(binary_column(block.buffer, *keys), binary_column(block.buffer, *sessions))
        state_windows = self.state_windows.take(pc.index_in(windows, value_set=self.by_session))
        if WINDOW_COLUMN in spec.raw:
            return state_windows
        offsets, data = binary_parts(state_windows.drop_null())
        origin = replace(block.origin, state=STATE_WINDOW)
        column = serializer.decode(Cursors(data, offsets[:-1].copy(), offsets[1:], origin, spec.options))
        return scatter(column, np.asarray(state_windows.is_valid()))
