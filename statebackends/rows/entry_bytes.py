"""Keyed state entries as bytes of the canonical format, converted from any format without decoding values.

::

    RecordBatch of (state, key_group, key, value[, serialized_key])

    key            key [vlen] namespace [vlen] [userKey], or a timer: the composite key without its key-group prefix
    value          as in the canonical format; empty for a timer
    serialized_key the bytes of the key alone

Entries of the canonical format, RocksDB and ForSt already have this form. The heap format has whole lists and maps, and
the namespace before the key: lists are joined by the delimiter and maps become an entry per user key. Their bytes are
parsed only to find where elements end. Flink: ``CompositeKeySerializationUtils``, ``ListDelimitedSerializer``,
``HeapKeyValueStateIterator``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import (
    Bytes,
    Cursors,
    DecodeOptions,
    Ints,
    Longs,
    binary_array,
    fixed_array,
    list_array,
)
from pyspark_savepoint.formats.errors import CorruptStateError, SavepointError
from pyspark_savepoint.formats.keyed.keyed_block import HEAP, KeyedBlock, binary_column, constant_width
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.serializers.basic.primitives import read_numbers
from pyspark_savepoint.formats.serializers.basic.shapes import Flagged
from pyspark_savepoint.formats.serializers.layout import locate, skip_rows
from pyspark_savepoint.statebackends.rows.state_column import unit_serializers

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.base import TypeSerializer

STATE, KEY_GROUP, KEY, VALUE, SERIALIZED_KEY = "state", "key_group", "key", "value", "serialized_key"
ENTRIES = pa.schema(
    [
        pa.field(STATE, pa.int32()),
        pa.field(KEY_GROUP, pa.int32()),
        pa.field(KEY, pa.binary()),
        pa.field(VALUE, pa.binary()),
    ]
)
KEYED_ENTRIES = ENTRIES.append(pa.field(SERIALIZED_KEY, pa.binary()))
TIMESTAMP_BYTES = 8
#: What joined parts have between them: as bytes, for a scalar of Arrow would import pandas where it is installed.
NOTHING = b""


@dataclass(frozen=True)
class EntryReader:
    """Converter from the blocks of one file to entries.

    ``numbers`` has the number of every state by its id; -1: skip the state. ``contiguous``: the parts of a key are
    adjacent in a block, as in files of the canonical format.
    """

    header: KeyedBackendHeader
    numbers: Ints
    with_keys: bool
    contiguous: bool
    options: DecodeOptions
    batch_rows: int

    def batches(self, block: KeyedBlock) -> Iterator[pa.RecordBatch]:
        """Yield the selected entries of a block."""
        if self.contiguous:
            for rows in self._pieces(np.flatnonzero(self.numbers[block.state] >= 0)):
                yield self._full(block, rows)
            return
        for state in np.unique(block.state).tolist():
            if self.numbers[state] >= 0:
                for rows in self._pieces(block.entries_of(state)):
                    yield self._in_parts(block, state, rows)

    def _pieces(self, rows: Longs) -> Iterator[Longs]:
        for low in range(0, len(rows), self.batch_rows):
            yield rows[low : low + self.batch_rows]

    def _batch(self, state: Ints, key_group: Ints, *columns: pa.Array) -> pa.RecordBatch:
        numbers = fixed_array(pa.int32(), self.numbers[state])
        groups = fixed_array(pa.int32(), np.ascontiguousarray(key_group))
        schema = KEYED_ENTRIES if self.with_keys else ENTRIES
        return pa.RecordBatch.from_arrays([numbers, groups, *columns], schema=schema)

    # -- canonical format -----------------------------------------------------------------------------------------

    def _full(self, block: KeyedBlock, rows: Longs) -> pa.RecordBatch:
        key = binary_column(block.buffer, block.key_start[rows], block.user_end[rows])
        value = binary_column(block.buffer, block.value_start[rows], block.value_end[rows])
        columns = [key, value]
        if self.with_keys:
            start, end = self.serial_keys(block)
            columns.append(binary_column(block.buffer, start[rows], end[rows]))
        return self._batch(block.state[rows], block.key_group[rows], *columns)

    def serial_keys(self, block: KeyedBlock) -> tuple[Longs, Longs]:
        """Return the spans of the keys alone, of the selected entries of a contiguous block."""
        timers = [state for state in np.flatnonzero(self.numbers >= 0).tolist() if is_timer(self.header.states[state])]
        if not timers:
            return block.key_start, block.key_end
        start, end = block.key_start.copy(), block.key_end.copy()
        for state in timers:
            rows = block.entries_of(state)
            start[rows], end[rows] = self._key_of_timers(block, state, rows, block.user_end[rows])
        return start, end

    def _key_of_timers(self, block: KeyedBlock, state: int, rows: Longs, end: Longs) -> tuple[Longs, Longs]:
        """Timer := i64 timestamp  key  namespace; they end at ``end``."""
        start = block.key_start[rows] + TIMESTAMP_BYTES
        parts = self.header.states[state].value_serializer.children
        width = constant_width(parts[1]) if len(parts) == 2 else -1
        if width >= 0:
            return start, end - width
        at = self._cursors(block, state, start, end)
        skip_rows(self.header.key_serializer, at)
        return start, at.position

    # -- heap format, and blocks assembled in memory ----------------------------------------------------------

    def _in_parts(self, block: KeyedBlock, state: int, rows: Longs) -> pa.RecordBatch:
        """Return the entries of one state whose key parts are not adjacent; in the heap format, convert values."""
        meta = self.header.states[state]
        key = binary_column(block.buffer, block.key_start[rows], block.key_end[rows])
        start, end = block.value_start[rows], block.value_end[rows]
        kept = np.arange(len(rows))
        if is_timer(meta):
            composite, value = key, binary_column(block.buffer, end, end)
            if self.with_keys:
                # What is replayed from a changelog has no bytes of a user key besides those of the timer.
                key = binary_column(block.buffer, *self._key_of_timers(block, state, rows, block.key_end[rows]))
        else:
            composite = self._composite(block, rows, key, meta.namespace_serializer)
            if block.form == HEAP and meta.state_type == "LIST":
                kept, value = self._joined_lists(block, state, start, end)
            elif block.form == HEAP and meta.state_type == "MAP":
                kept, composite, value = self._map_entries(block, state, composite, start, end)
            else:
                value = binary_column(block.buffer, start, end)
        if len(composite) != len(kept):
            composite = composite.take(pa.array(kept))
        columns = [composite, value, key.take(pa.array(kept))] if self.with_keys else [composite, value]
        return self._batch(block.state[rows][kept], block.key_group[rows][kept], *columns)

    def _composite(self, block: KeyedBlock, rows: Longs, key: pa.Array, namespace: TypeSerializer) -> pa.Array:
        start, end = block.namespace_start[rows], block.namespace_end[rows]
        spaces = binary_column(block.buffer, start, end)
        user = binary_column(block.buffer, block.user_start[rows], block.user_end[rows])
        if self.header.key_serializer.length >= 0 or namespace.length >= 0:
            return pc.binary_join_element_wise(key, spaces, user, NOTHING)
        key_length = length_column(block.key_end[rows] - block.key_start[rows])
        return pc.binary_join_element_wise(key, key_length, spaces, length_column(end - start), user, NOTHING)

    def _joined_lists(self, block: KeyedBlock, state: int, start: Longs, end: Longs) -> tuple[Longs, pa.Array]:
        """List := i32 n  element[n] becomes element (',' element)*; an empty list has no entry."""
        counts, starts, stops = self._units(block, state, start, end)
        kept = np.flatnonzero(counts)
        if not len(kept):
            return kept, pa.array([], pa.binary())
        elements = binary_column(block.buffer, starts[0], stops[0])
        lists = list_array(pa.list_(pa.binary()), counts[kept], elements)
        return kept, pc.binary_join(lists, pa.scalar(b",", pa.binary()))

    def _map_entries(
        self, block: KeyedBlock, state: int, composite: pa.Array, start: Longs, end: Longs
    ) -> tuple[Longs, pa.Array, pa.Array]:
        """Map := i32 n  (key  isNull  value)[n] becomes an entry for each user key, whose value begins with isNull."""
        counts, starts, stops = self._units(block, state, start, end)
        rows = np.repeat(np.arange(len(start)), counts)
        if not len(rows):
            return rows, composite.slice(0, 0), pa.array([], pa.binary())
        user = binary_column(block.buffer, starts[0], stops[0])
        keys = pc.binary_join_element_wise(composite.take(pa.array(rows)), user, NOTHING)
        return rows, keys, binary_column(block.buffer, starts[1], stops[1])

    def _units(self, block: KeyedBlock, state: int, start: Longs, end: Longs) -> tuple[Longs, Any, Any]:
        """Return the number of elements or entries of each row, and where their parts begin and end.

        No length tells the ends of values, whichever fields of inner classes Kryo 2 wrote.
        """
        at = self._cursors(block, state, start, end)
        try:
            return self._located(state, at)
        except CorruptStateError as error:
            if self.options.kryo == 2:
                with suppress(SavepointError):
                    other = self._cursors(block, state, start, end)
                    other.options = replace(self.options, synthetic=False)
                    return self._located(state, other)
            raise error from None

    def _located(self, state: int, at: Cursors) -> tuple[Longs, Any, Any]:
        units = unit_serializers(self.header.states[state])
        counts = self._counted(at)
        starts, stops = locate([*units[:-1], Flagged(units[-1])] if len(units) > 1 else units, at, counts)
        at.expect_end()
        return counts, starts, stops

    def _counted(self, at: Cursors) -> Longs:
        counts = read_numbers(at, "read_i32", np.int32, "a number of elements").astype(np.int64)
        wrong = np.flatnonzero((counts < 0) | (counts > at.end - at.position))
        if len(wrong):
            at.fail(int(wrong[0]), "a number of elements that there is room for", int(counts[wrong[0]]))
        return counts

    def _cursors(self, block: KeyedBlock, state: int, start: Longs, end: Longs) -> Cursors:
        origin = replace(block.origin, state=self.header.states[state].name)
        return Cursors(block.buffer, start.copy(), end, origin, self.options)


def is_timer(meta: StateMetaInfoSnapshot) -> bool:
    """Return whether the state is a queue of timers."""
    return meta.kind is BackendStateType.PRIORITY_QUEUE


def length_column(lengths: Longs) -> pa.Array:
    r"""Encode ``vlen``: lengths in base 256, lowest digit first, in as few bytes as possible but at least one.

    >>> length_column(np.array([0, 255, 256])).to_pylist()
    [b'\x00', b'\xff', b'\x00\x01']
    """
    digits = np.ones(len(lengths), np.int64)
    for size in range(1, 4):
        digits[lengths >> 8 * size > 0] = size + 1
    offsets = np.concatenate([[0], np.cumsum(digits)]).astype(np.int64)
    data: Bytes = np.empty(int(offsets[-1]), np.uint8)
    for digit in range(int(digits.max(initial=0))):
        here = np.flatnonzero(digits > digit)
        data[offsets[here] + digit] = lengths[here] >> 8 * digit & 0xFF
    return binary_array(pa.binary(), offsets, data)


def map_namespaces(states: Sequence[StateMetaInfoSnapshot]) -> dict[int, int]:
    """Return the numbers of map states with the bytes of their namespaces, -1 if these vary."""
    maps = [(number, meta) for number, meta in enumerate(states) if not is_timer(meta) and meta.state_type == "MAP"]
    return {number: constant_width(meta.namespace_serializer) for number, meta in maps}
