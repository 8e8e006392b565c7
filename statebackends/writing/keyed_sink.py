"""Conversion of sorted rows to entries of the canonical format, the last step before bytes.

    ColumnSink   one row per key (and namespace), a column per state
    EntrySink    raw entries: (state number, composite key) and value

    VALUE, REDUCING, AGGREGATING   one entry, none where the column is NULL
    LIST                           one entry: elements with a comma between them; none where NULL or empty
    MAP                            an entry per user key, in the order of its bytes: bool isNull, value unless null

Flink: ``RocksDBValueState``, ``RocksDBListState``, ``RocksDBMapState`` and the entries that they write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from pyspark_savepoint.formats.columns import Bytes, Longs, spans_of
from pyspark_savepoint.formats.errors import DuplicateKeyError, SavepointError
from pyspark_savepoint.formats.keyed.canonical_writer import CanonicalKeyedStreamWriter, Entries, read_only
from pyspark_savepoint.formats.serializers.basic.elements import naming
from pyspark_savepoint.statebackends.model.descriptors import KeyedDescriptor, StateDescriptor
from pyspark_savepoint.statebackends.model.key_codec import KeyCodec
from pyspark_savepoint.statebackends.model.state_entries import (
    KeySpans,
    RefusedRow,
    StateEntries,
    state_entries,
)
from pyspark_savepoint.statebackends.sorting.sort_runs import SortedBatch, group_bounds

VALUE = "value"
DUPLICATE = "one row per key: aggregate, or drop duplicates (df.dropDuplicates) before writing"


class _UniqueKeys:
    """Detects repeated keys, within a batch and across batches."""

    def __init__(self) -> None:
        self._last: tuple[int, bytes] | None = None

    def repeated(self, batch: SortedBatch) -> int:
        """Return the first row whose key equals that of the row before it, or -1."""
        from pyspark_savepoint.formats.kernels.entries import keys

        before, self._last = self._last, batch.place(len(batch) - 1)
        if before is not None and before == batch.place(0):
            return 0
        buffer, start, end = spans_of(batch.key)
        return int(keys.first_repeated_span(batch.key_group, read_only(buffer), start, end))


class ColumnSink:
    """Sink for rows of a descriptor, sorted by ``KeyCodec``'s keys; the writer's states are the descriptor's."""

    def __init__(
        self,
        descriptor: KeyedDescriptor,
        writer: CanonicalKeyedStreamWriter,
        codec: KeyCodec,
        operator: str | None = None,
    ) -> None:
        self.descriptor = descriptor
        self.writer = writer
        self.codec = codec
        self.operator = operator
        self._keys = _UniqueKeys()

    def add(self, batch: SortedBatch) -> None:
        """Add the next rows in order; raise DuplicateKeyError if a key repeats."""
        if not len(batch):
            return
        row = self._keys.repeated(batch)
        if row >= 0:
            self._refuse(batch, row)
        key_groups, bounds = group_bounds(batch.key_group)
        keys = spans_of(batch.key)
        parts = []
        for number, state in enumerate(self.descriptor.states):
            with_rows = self._entries(state, batch, keys)
            places = np.searchsorted(with_rows.row, bounds) if with_rows.row is not None else bounds
            parts.append((number, with_rows.entries, places.astype(np.int64)))
        self.writer.add_groups(key_groups, parts)

    def _entries(self, state: StateDescriptor, batch: SortedBatch, keys: KeySpans) -> StateEntries:
        column = batch.rows.column(state.column)
        access = batch.rows.column(state.last_access) if state.last_access is not None else None
        try:
            with naming(state.name):
                return state_entries(state, column, access, keys)
        except RefusedRow as refused:
            key = self._key(batch, refused.row)
            raise refused.error.with_facts(operator=self.operator, state=state.name, key=key) from None
        except SavepointError as error:
            raise error.with_facts(operator=self.operator, state=state.name) from None

    def _refuse(self, batch: SortedBatch, row: int) -> NoReturn:
        what = "key" if self.descriptor.namespace_column is None else f"key and {self.descriptor.namespace_column}"
        raise DuplicateKeyError(
            f"more than one row has the same {what}",
            operator=self.operator,
            expected=f"one row per {what}",
            found=f"key {self._key(batch, row)} again, in key group {batch.key_group[row]}",
            remedy=DUPLICATE,
        )

    def _key(self, batch: SortedBatch, row: int) -> str:
        return self.codec.describe(batch.key[row].as_py())


class EntrySink:
    """Sink for raw entries, sorted by ``key_codec.entry_keys``: their bytes are written unchanged.

    Rows have the values in a binary column ``value``; without that column values are empty, as for timers.
    """

    def __init__(self, writer: CanonicalKeyedStreamWriter, states: Sequence[str], operator: str | None = None) -> None:
        self.writer = writer
        self.states = states
        self.operator = operator
        self._keys = _UniqueKeys()

    def add(self, batch: SortedBatch) -> None:
        """Add the next entries in order; raise DuplicateKeyError if a state's entry repeats."""
        if not len(batch):
            return
        row = self._keys.repeated(batch)
        if row >= 0:
            self._refuse(batch, row)
        key_groups, bounds = group_bounds(batch.key_group)
        buffer, start, end = spans_of(batch.key)
        number = buffer[start].astype(np.int32) << 8 | buffer[start + 1]
        values = self._values(batch)
        parts = []
        for state in np.unique(number).tolist():
            rows = np.flatnonzero(number == state)
            entries = Entries(buffer, start[rows] + 2, end[rows], values[0], values[1][rows], values[2][rows])
            parts.append((state, entries, np.searchsorted(rows, bounds)))
        self.writer.add_groups(key_groups, parts)

    @staticmethod
    def _values(batch: SortedBatch) -> tuple[Bytes, Longs, Longs]:
        if VALUE in batch.rows.schema.names:
            return spans_of(batch.rows.column(VALUE))
        nothing = np.zeros(len(batch), np.int64)
        return np.zeros(0, np.uint8), nothing, nothing

    def _refuse(self, batch: SortedBatch, row: int) -> NoReturn:
        key = batch.key[row].as_py()
        raise DuplicateKeyError(
            "a state has more than one entry, or timer, of the same key",
            operator=self.operator,
            state=self.states[int.from_bytes(key[:2], "big")],
            expected="every composite key of a state once",
            found=f"bytes {key[2:].hex()} again, in key group {batch.key_group[row]}",
            remedy=DUPLICATE,
        )
