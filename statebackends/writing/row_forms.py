"""Forms of DataFrame rows in a write: sortable rows, and the entries of the canonical format that sorted rows become.

    keyed_state, window_state   key [vlen] window [vlen]      the columns of states
    timers                      state number, timer           nothing: a timer is its key
    entries                     state number, composite key   the value

A sortable row is a key group, a key of bytes, and the columns that belong to it; values are checked before they are
sorted. Each form has the sink that converts its sorted rows to entries, the last step before bytes:

    ColumnSink   one row per key (and namespace), a column per state
    EntrySink    raw entries: (state number, composite key) and value

    VALUE, REDUCING, AGGREGATING   one entry, none where the column is NULL
    LIST                           one entry: elements with a comma between them; none where NULL or empty
    MAP                            an entry per user key, in the order of its bytes: bool isNull, value unless null

Flink: ``RocksDBValueState``, ``RocksDBListState``, ``RocksDBMapState`` and the entries that they write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Protocol

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import (
    Bytes,
    DecodeOptions,
    Ints,
    Longs,
    binary_array,
    fixed_values,
    spans_of,
    struct_array,
)
from pyspark_savepoint.formats.errors import DuplicateKeyError, SavepointError, ValueRangeError, did_you_mean
from pyspark_savepoint.formats.keyed.canonical_writer import CanonicalKeyedStreamWriter, Entries, read_only
from pyspark_savepoint.formats.serializers.basic.shapes import naming
from pyspark_savepoint.statebackends.rows.descriptors import (
    NAMESPACE_COLUMN,
    TIMER_DOMAINS,
    KeyedDescriptor,
    StateDescriptor,
)
from pyspark_savepoint.statebackends.rows.entry_bytes import KEY, KEY_GROUP, STATE, VALUE
from pyspark_savepoint.statebackends.rows.key_codec import KeyCodec, entry_keys, key_text, refuse_null
from pyspark_savepoint.statebackends.rows.sorting import SortedBatch, group_bounds
from pyspark_savepoint.statebackends.rows.state_entries import (
    KeySpans,
    RefusedRow,
    StateEntries,
    encode_column,
    state_entries,
)
from pyspark_savepoint.statebackends.writing.planning.exact_casts import (
    access_serializer,
    conform_column,
    form_of,
    timer_millis,
)
from pyspark_savepoint.statebackends.writing.planning.write_request import ENTRIES, TIMERS

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.base import TypeSerializer
    from pyspark_savepoint.statebackends.writing.planning.planned_write import WritePlan

DUPLICATE = "one row per key: aggregate, or drop duplicates before writing"
PLAIN = DecodeOptions(timestamps="raw")
TIMESTAMP, DOMAIN, SERVICE = "timestamp", "domain", "service"
NOTHING = pa.schema([])
VALUES = pa.schema([pa.field(VALUE, pa.binary())])


class _UniqueKeys:
    """Detects repeated keys, within a batch and across batches."""

    def __init__(self) -> None:
        self._last: tuple[int, bytes] | None = None

    def repeated(self, batch: SortedBatch) -> int:
        """Return the first row whose key equals that of the row before it, or -1."""
        from pyspark_savepoint.formats.kernels import keys

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

    def __init__(
        self,
        writer: CanonicalKeyedStreamWriter,
        states: Sequence[str],
        operator: str | None = None,
        key: TypeSerializer | None = None,
    ) -> None:
        self.writer = writer
        self.states = states
        self.operator = operator
        self.key = key
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
        state = self.states[int.from_bytes(key[:2], "big")]
        raise DuplicateKeyError(
            "a state has more than one entry, or timer, of the same key",
            operator=self.operator,
            state=state,
            expected="every composite key of a state once",
            found=f"{key_text(self.key, key[2:], state)} again, in key group {batch.key_group[row]}",
            remedy=DUPLICATE,
        )


SortRows = tuple[Ints, pa.BinaryArray, pa.RecordBatch]


class StreamSink(Protocol):
    """Sink that writes sorted rows to a state file."""

    def add(self, batch: SortedBatch) -> None:
        """Add the next rows in order."""


class RowForm(Protocol):
    """Sort and write form of one table's rows."""

    @property
    def schema(self) -> pa.Schema:
        """Return the columns that follow the key."""

    def rows(self, batch: pa.RecordBatch) -> SortRows:
        """Return key groups, keys and columns of some rows."""

    def sink(self, writer: CanonicalKeyedStreamWriter) -> StreamSink:
        """Return the sink for sorted rows."""


def row_form(plan: WritePlan) -> RowForm:
    """Return the form of a plan's rows."""
    if plan.request.table == ENTRIES:
        return EntryForm(plan)
    assert plan.keyed is not None
    rows = DescribedRows(plan.keyed, plan.schema, plan.max_parallelism, plan.label)
    return TimerForm(rows) if plan.request.table == TIMERS else ColumnForm(rows)


@dataclass(frozen=True)
class DescribedRows:
    """Rows of keyed state or timers: the states that they are, and the schema in which they come."""

    descriptor: KeyedDescriptor
    schema: pa.Schema
    max_parallelism: int
    label: str


class ColumnForm:
    """Form with a row for every key (and window), and a column for every state."""

    def __init__(self, rows: DescribedRows) -> None:
        self.descriptor = rows.descriptor
        self.label = rows.label
        self.codec = KeyCodec(self.descriptor, rows.max_parallelism)
        self.schema = pa.schema(
            [field for state in self.descriptor.states for field in self._fields(state, rows.schema)]
        )

    @staticmethod
    def _fields(state: StateDescriptor, schema: pa.Schema) -> list[pa.Field]:
        fields = [pa.field(state.column, form_of(schema.field(state.column).type, state.serializer, state.column))]
        name = state.last_access
        if name is not None:
            fields.append(pa.field(name, form_of(schema.field(name).type, access_serializer(state), name)))
        return fields

    def rows(self, batch: pa.RecordBatch) -> SortRows:
        """Return keys, and columns in the types that the serializers encode."""
        keys = self.codec.encode(keyed_columns(batch, self.descriptor))
        columns = []
        for state in self.descriptor.states:
            columns.append(conform_column(batch.column(state.column), state.serializer, state.column))
            name = state.last_access
            if name is not None:
                columns.append(conform_column(batch.column(name), access_serializer(state), name))
        return keys.key_group, keys.key, pa.record_batch(columns, schema=self.schema)

    def sink(self, writer: CanonicalKeyedStreamWriter) -> StreamSink:
        """Return the sink; states are numbered in their order."""
        return ColumnSink(self.descriptor, writer, self.codec, self.label)


def keyed_columns(batch: pa.RecordBatch, descriptor: KeyedDescriptor) -> pa.RecordBatch:
    """Return the columns of key, namespace and key group, in the types that ``KeyCodec`` encodes."""
    names = descriptor.key_columns
    serializer = descriptor.key_serializer
    if not descriptor.is_composite:
        columns = {names[0]: conform_column(batch.column(names[0]), serializer, names[0])}
    else:
        whole = serializer.arrow_type(PLAIN)
        key_columns = [batch.column(name) for name in names]
        fields = [pa.field(whole.field(i).name, column.type) for i, column in enumerate(key_columns)]
        struct = struct_array(pa.struct(fields), key_columns, len(batch))
        columns = dict(zip(names, conform_column(struct, serializer, "key").flatten(), strict=True))
    name = descriptor.namespace_column
    if name is not None and descriptor.namespace is not None:
        columns[name] = conform_column(batch.column(name), descriptor.namespace, name)
    if descriptor.key_group is not None:
        columns[descriptor.key_group] = batch.column(descriptor.key_group)
    return pa.record_batch(columns)


class TimerForm:
    """Form with a row for every timer, which is entirely in its key: the queue (domain and service) and the timer."""

    schema = NOTHING

    def __init__(self, rows: DescribedRows) -> None:
        self.descriptor = rows.descriptor
        self.label = rows.label
        self.codec = KeyCodec(self.descriptor, rows.max_parallelism)
        self.services = list(dict.fromkeys(state.service for state in self.descriptor.states))
        self.numbers = {(state.domain, state.service): i for i, state in enumerate(self.descriptor.states)}

    def rows(self, batch: pa.RecordBatch) -> SortRows:
        """Return timers as entries of their queues."""
        keyed = keyed_columns(batch, self.descriptor)
        keys = self.codec.key_column(keyed)
        key_group = self.codec.key_groups(keys, keyed)
        refuse_null(batch.column(TIMESTAMP), TIMESTAMP, "timestamp")
        serializer = self.descriptor.states[0].serializer
        name = self.descriptor.namespace_column
        namespace = pa.nulls(len(batch)) if name is None else keyed.column(name)
        if name is not None:
            refuse_null(namespace, name, "namespace")
        timestamp = timer_millis(batch.column(TIMESTAMP))
        kind = pa.struct([(TIMESTAMP, pa.int64()), (KEY, keys.type), (NAMESPACE_COLUMN, namespace.type)])
        timers = struct_array(kind, [timestamp, keys, namespace], len(batch))
        buffer, start, end = encode_column(serializer, timers)
        offsets = np.append(start, end[-1:] if len(end) else 0).astype(np.int64)
        composite = binary_array(pa.binary(), offsets, buffer)
        none = pa.RecordBatch.from_struct_array(pa.array([{}] * len(batch), pa.struct([])))
        return key_group, entry_keys(self._numbers(batch), composite), none

    def _numbers(self, batch: pa.RecordBatch) -> Ints:
        """Return the number of every row's queue."""
        domain = self._codes(batch, DOMAIN, list(TIMER_DOMAINS))
        service = self._codes(batch, SERVICE, self.services)
        table = np.array([[self.numbers[name, queue] for queue in self.services] for name in TIMER_DOMAINS], np.int32)
        return table[domain, service]

    def _codes(self, batch: pa.RecordBatch, name: str, names: list[str]) -> Ints:
        if name not in batch.schema.names:
            return np.zeros(len(batch), np.int32)
        refuse_null(batch.column(name), name, name)
        codes = pc.index_in(batch.column(name), pa.array(names))
        if codes.null_count:
            wrong = batch.column(name).filter(codes.is_null())[0].as_py()
            raise ValueRangeError(
                f"column {name!r} has a timer {name} that was not expected",
                expected=", ".join(names),
                found=repr(wrong),
                remedy=did_you_mean(wrong, names)
                if name == DOMAIN
                else "option 'state' lists the timer services, separated by commas",
            )
        return np.asarray(codes, np.int32)

    def sink(self, writer: CanonicalKeyedStreamWriter) -> StreamSink:
        """Return the sink for timers, which are entries without values."""
        return EntrySink(
            writer, [state.name for state in self.descriptor.states], self.label, self.descriptor.key_serializer
        )


@dataclass(frozen=True)
class EntryForm:
    """Form of raw entries as they were read; ``first`` is added to their state numbers."""

    plan: WritePlan
    first: int = 0
    schema: pa.Schema = VALUES

    def rows(self, batch: pa.RecordBatch) -> SortRows:
        """Return entries with their state number before the key."""
        state = fixed_values(batch.column(STATE), np.int32) + self.first
        key_group = fixed_values(batch.column(KEY_GROUP), np.int32)
        values = pa.record_batch([batch.column(VALUE)], schema=VALUES)
        return key_group, entry_keys(state, batch.column(KEY)), values

    def sink(self, writer: CanonicalKeyedStreamWriter) -> EntrySink:
        header = self.plan.header()
        return EntrySink(writer, [meta.name for meta in header.states], self.plan.label, header.key_serializer)
