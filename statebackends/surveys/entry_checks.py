"""Checks of keyed state entries, block by block, without building rows.

key          in its key group, unless only user code defines its hash; complete
namespace    complete
user key     complete
value        decoded at full precision; if no column can hold it, walked from end to end
entry        no other of its state has the same key (and namespace, and user key)
order        a run that is sorted except for a few entries gives a warning, because no format requires the order
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Ints, Longs
from pyspark_savepoint.formats.errors import (
    CorruptStateError,
    UndecodableStateError,
    UnsupportedStateError,
    ValueRangeError,
)
from pyspark_savepoint.formats.keyed.keyed_block import CANONICAL, HEAP, KeyedBlock, binary_column
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.layout import skip_rows
from pyspark_savepoint.statebackends.rows.descriptors import TimerQueue
from pyspark_savepoint.statebackends.rows.state_column import StateColumn
from pyspark_savepoint.statebackends.sources.keyed_plan import is_key_value
from pyspark_savepoint.statebackends.tables.keys import check_key_groups

#: Errors of valid values that no column can hold or only the user's code can read.
UNREADABLE = (UndecodableStateError, UnsupportedStateError, ValueRangeError)
#: Runs of fewer entries may be in order by chance.
MIN_SORTED = 16
#: A run counts as sorted with fewer than one descent per this many entries; random order has one per two entries.
SORTED_BUT_FOR = 8
TIMESTAMP_BYTES = 8


@dataclass(slots=True)
class Tally:
    """Findings about one state: counts, parts that were not checked (``notes``), and suspicious ones (``warnings``)."""

    entries: int = 0
    bytes: int = 0
    notes: dict[str, None] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Add the findings of another part of the same state."""
        self.entries += other.entries
        self.bytes += other.bytes
        self.notes |= other.notes
        self.warnings |= other.warnings


@dataclass(frozen=True, slots=True)
class EntryChecks:
    """Checks of the entries of one file, described by its header."""

    header: KeyedBackendHeader
    max_parallelism: int
    options: DecodeOptions

    def check(self, block: KeyedBlock, state: int, entries: Longs, tally: Tally) -> None:
        """Check the entries of a state in a block; raise CorruptStateError for the first invalid one."""
        meta = self.header.states[state]
        if is_key_value(meta):
            self._keys(block, meta, entries, tally)
            self._namespaces(block, meta, entries, tally)
            self._values(block, meta, entries, tally)
        else:
            self._timers(block, meta, entries, tally)
        self._order(block, meta, entries, tally)

    # -- parts of an entry -------------------------------------------------------------------------------------

    def _keys(self, block: KeyedBlock, meta: StateMetaInfoSnapshot, entries: Longs, tally: Tally) -> None:
        at = self._cursors(block, meta, block.key_start[entries], block.key_end[entries])
        check_keys(at, self.header.key_serializer, block.key_group[entries], self.max_parallelism, tally)

    def _namespaces(self, block: KeyedBlock, meta: StateMetaInfoSnapshot, entries: Longs, tally: Tally) -> None:
        at = self._cursors(block, meta, block.namespace_start[entries], block.namespace_end[entries])
        check_complete(meta.namespace_serializer, at, "namespaces", tally)

    def _values(self, block: KeyedBlock, meta: StateMetaInfoSnapshot, entries: Longs, tally: Tally) -> None:
        column = StateColumn(meta, block.form, self.options)
        for part in column.opaque:
            tally.notes[f"values of {part.flink_type}: only the user's code can read them"] = None
        start, end = block.value_start[entries], block.value_end[entries]
        try:
            if column.many:
                column.decode_map_entries(block, entries)
            elif meta.state_type == "LIST" and block.form == CANONICAL and not column.is_bytes:
                column.decode_list(block, start, end)
            else:
                column.decode_values(block, start, end)
        except UNREADABLE as error:
            tally.notes[f"values are not decoded: {error.message}"] = None

    def _timers(self, block: KeyedBlock, meta: StateMetaInfoSnapshot, entries: Longs, tally: Tally) -> None:
        parts = meta.value_serializer.children
        if len(parts) != 2:
            tally.notes[f"timers of {meta.value_serializer.flink_type}: only the user's code can read them"] = None
            return
        at = self._cursors(block, meta, block.key_start[entries] + TIMESTAMP_BYTES, block.key_end[entries])
        if (at.position > at.end).any():
            at.fail(int((at.position > at.end).argmax()), "a timer with a timestamp")
        queue = TimerQueue(None, meta.name, *parts)
        TimerChecks(self.max_parallelism).check(at, queue, block.key_group[entries], 0, tally)

    # -- order and repetition of entries -----------------------------------------------------------------------

    def _order(self, block: KeyedBlock, meta: StateMetaInfoSnapshot, entries: Longs, tally: Tally) -> None:
        from pyspark_savepoint.formats.kernels import frames

        spans = self._whole_keys(block, entries)
        if spans is None:
            return
        start, end = spans
        groups = block.key_group[entries]
        bounds = np.concatenate([[0], np.flatnonzero(groups[1:] != groups[:-1]) + 1, [len(entries)]]).astype(np.int64)
        all_falls, all_repeats = np.zeros((2, len(bounds) - 1), np.int64)
        frames.count_orders(block.buffer, start, end, bounds, all_falls, all_repeats)
        for at in np.flatnonzero(all_falls | all_repeats).tolist():
            low, high = int(bounds[at]), int(bounds[at + 1])
            falls, repeats = int(all_falls[at]), int(all_repeats[at])
            if falls and not repeats:
                repeats = self._repeats(block, start[low:high], end[low:high])
            if repeats:
                raise CorruptStateError(
                    f"a key of key group {int(block.key_group[entries[low]])} occurs twice in a state that holds "
                    f"each key once",
                    expected="every key (with its namespace, and in maps its user key) once",
                    remedy="copy the file from its origin again: it is damaged",
                    **block.origin.facts(int(start[low])),
                ).with_facts(state=meta.name)
            count = high - low
            if 0 < falls < count / SORTED_BUT_FOR and count >= MIN_SORTED and is_key_value(meta):
                group = int(block.key_group[entries[low]])
                tally.warnings[
                    f"key group {group} is sorted but for {falls} of {count} entries: if its writer sorts, as RocksDB "
                    "and this package do, a key was changed"
                ] = None

    @staticmethod
    def _whole_keys(block: KeyedBlock, entries: Longs) -> tuple[Longs, Longs] | None:
        """Return the spans of key, namespace and user key together, or None if they are not adjacent."""
        key, space, user = block.key_start[entries], block.namespace_start[entries], block.user_start[entries]
        key_end, space_end = block.key_end[entries], block.namespace_end[entries]
        user_end = block.user_end[entries]
        if block.form == HEAP:
            return (space, key_end) if bool((space_end == key).all()) else None
        return (key, user_end) if bool(((key_end <= space) & (space_end <= user) & (user <= user_end)).all()) else None

    @staticmethod
    def _repeats(block: KeyedBlock, start: Longs, end: Longs) -> int:
        """Return the number of spans that equal another one, in any order."""
        keys = binary_column(block.buffer, start, end)
        ordered = keys.take(pc.array_sort_indices(keys))
        return int(pc.sum(pc.equal(ordered[1:], ordered[:-1])).as_py() or 0)

    def _cursors(self, block: KeyedBlock, meta: StateMetaInfoSnapshot, start: Longs, end: Longs) -> Cursors:
        return Cursors(block.buffer, start.copy(), end, block.origin.of_state(meta.name), self.options)


@dataclass(frozen=True, slots=True)
class TimerChecks:
    """Checks of timers of any source."""

    max_parallelism: int

    def check(self, at: Cursors, queue: TimerQueue, key_group: Ints, behind: int, tally: Tally) -> None:
        """Check timers from their keys on; ``behind`` is the number of bytes after their namespaces."""
        namespace = at.at(at.position.copy(), at.end - behind)
        try:
            skip_rows(queue.key, namespace)
        except UNREADABLE:
            tally.notes[f"timers whose keys are {queue.key.flink_type}: only the user's code can read them"] = None
            return
        keys = at.at(at.position, namespace.position.copy())
        check_keys(keys, queue.key, key_group, self.max_parallelism, tally)
        check_complete(queue.namespace, namespace, "namespaces", tally)


def check_keys(at: Cursors, serializer: TypeSerializer, key_group: Ints, max_parallelism: int, tally: Tally) -> None:
    """Check that keys are complete, and in their key groups if their hash is known."""
    if not check_key_groups(at, serializer, key_group, max_parallelism):
        tally.notes[f"key groups of keys of {serializer.flink_type}: only user code defines their hash"] = None
        check_complete(serializer, at, "keys", tally)


def check_complete(serializer: TypeSerializer, at: Cursors, what: str, tally: Tally) -> None:
    """Decode values that fill their spans; walk them if no column can hold them."""
    if serializer.opaque_parts():
        tally.notes[f"{what} of {serializer.flink_type}: only the user's code can read them"] = None
        return
    again = at.at(at.position.copy(), at.end)
    try:
        serializer.decode(again)
    except UNREADABLE as error:
        tally.notes[f"{what} are not decoded: {error.message}"] = None
        again = at.at(at.position.copy(), at.end)
        skip_rows(serializer, again)
    again.expect_end()
