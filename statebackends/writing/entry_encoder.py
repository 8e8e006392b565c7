"""Encoding of DataFrame rows as entries, for states added to existing ones and for keys to delete.

A row of keyed state becomes an entry for every state that is not NULL (for a map, one per user key), a row of timers
one entry. Rows may come in any order: entries are sorted when they are written. Entries of an operator that is merged
with another are renumbered to the state ids of the header of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import (
    Cursors,
    DecodeOptions,
    Ints,
    binary_array,
    binary_parts,
    fixed_array,
    fixed_values,
    spans_of,
    struct_array,
)
from pyspark_savepoint.formats.errors import OptionError, SavepointError, ValueRangeError, did_you_mean
from pyspark_savepoint.formats.keyed.keyed_block import binary_column
from pyspark_savepoint.formats.metadata.key_groups import key_groups_for_hashes
from pyspark_savepoint.formats.serializers.basic.shapes import naming
from pyspark_savepoint.formats.serializers.layout import skip_rows
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor, StateKind
from pyspark_savepoint.statebackends.rows.entry_bytes import (
    ENTRIES,
    KEY,
    KEY_GROUP,
    KEYED_ENTRIES,
    SERIALIZED_KEY,
    STATE,
    TIMESTAMP_BYTES,
    VALUE,
)
from pyspark_savepoint.statebackends.rows.key_codec import KeyCodec, entry_keys, groups_of_serialized, refuse_null
from pyspark_savepoint.statebackends.rows.state_entries import RefusedRow, encode_column, state_entries
from pyspark_savepoint.statebackends.writing.planning.exact_casts import conform_column, form_of
from pyspark_savepoint.statebackends.writing.planning.write_request import DELETED, mark_of
from pyspark_savepoint.statebackends.writing.row_forms import ColumnForm, DescribedRows, TimerForm, keyed_columns

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.base import TypeSerializer
    from pyspark_savepoint.statebackends.requests.request import BatchFunction

KEY_COLUMN = "key"
PLAIN = DecodeOptions(timestamps="raw")
KEYS = pa.schema([pa.field(SERIALIZED_KEY, pa.binary())])


@dataclass(frozen=True)
class EntryEncoder:
    """Function for ``mapInArrow``; ``numbers`` has the numbers of the rows' states in the new header; -1: skip.

    ``marked`` are the numbers of states of which every row's key is a row too (``mark_of``), with or without a value.
    """

    rows: DescribedRows
    timers: bool
    numbers: tuple[int, ...]
    with_keys: bool
    marked: tuple[int, ...] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the entries of all rows."""
        form = TimerForm(self.rows) if self.timers else ColumnForm(self.rows)
        numbers = np.array(self.numbers, np.int32)
        try:
            for batch in batches:
                if len(batch) and isinstance(form, TimerForm):
                    yield self._timers(form, batch, numbers)
                elif len(batch) and isinstance(form, ColumnForm):
                    yield from self._states(form, batch)
        except SavepointError as error:
            raise error.with_facts(operator=self.rows.label) from None

    def _states(self, form: ColumnForm, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        key_group, key, rows = form.rows(batch)
        spans = spans_of(key)
        serialized = self._serialized(form.codec, batch) if self.with_keys else None
        for number, state in zip(self.numbers, form.descriptor.states, strict=True):
            if number < 0:
                continue
            access = rows.column(state.last_access) if state.last_access is not None else None
            try:
                with naming(state.name):
                    encoded = state_entries(state, rows.column(state.column), access, spans)
            except RefusedRow as refused:
                text = form.codec.describe(key[refused.row].as_py())
                raise refused.error.with_facts(state=state.name, key=text) from None
            entries = encoded.entries
            row = np.arange(len(batch)) if encoded.row is None else encoded.row
            columns = [
                fixed_array(pa.int32(), np.full(len(row), number, np.int32)),
                fixed_array(pa.int32(), np.ascontiguousarray(key_group[row])),
                binary_column(entries.buffer, entries.key_start, entries.key_end),
                binary_column(entries.value_buffer, entries.value_start, entries.value_end),
            ]
            yield self._batch(columns, None if serialized is None else serialized.take(pa.array(row)))
            if number in self.marked:
                nothing = binary_array(pa.binary(), np.zeros(len(batch) + 1, np.int64), np.empty(0, np.uint8))
                mark = fixed_array(pa.int32(), np.full(len(batch), mark_of(number), np.int32))
                groups = fixed_array(pa.int32(), np.ascontiguousarray(key_group))
                yield self._batch([mark, groups, pc.cast(key, pa.binary()), nothing], serialized)

    def _timers(self, form: TimerForm, batch: pa.RecordBatch, numbers: Ints) -> pa.RecordBatch:
        key_group, key, _ = form.rows(batch)
        buffer, start, end = spans_of(key)
        # Every timer follows the number of its queue.
        state = numbers[buffer[start].astype(np.int32) << 8 | buffer[start + 1]]
        columns = [
            fixed_array(pa.int32(), state),
            fixed_array(pa.int32(), key_group),
            binary_column(buffer, start + 2, end),
            binary_column(buffer, end, end),
        ]
        timers = self._batch(columns, self._serialized(form.codec, batch) if self.with_keys else None)
        return timers.filter(pa.array(state >= 0)) if (state < 0).any() else timers

    def _batch(self, columns: list[pa.Array], serialized: pa.Array | None) -> pa.RecordBatch:
        if serialized is None:
            return pa.RecordBatch.from_arrays(columns, schema=ENTRIES)
        return pa.RecordBatch.from_arrays([*columns, serialized], schema=KEYED_ENTRIES)

    @staticmethod
    def _serialized(codec: KeyCodec, batch: pa.RecordBatch) -> pa.Array:
        return serialized(codec.serializer, codec.key_column(keyed_columns(batch, codec.descriptor)))


#: The place of an entry among those of an operator: its state's number, its key and namespace.
PLACE = "__savepoint_place"
PLACES = pa.schema([pa.field(PLACE, pa.binary())])
ORDER = "__savepoint_order"
ORDERED_PLACES = PLACES.append(pa.field(ORDER, pa.int32()))


@dataclass(frozen=True)
class PlacedRows:
    """Function for ``mapInArrow`` from rows to the places of their entries, whether they have a value or not.

    ``order`` is the number of their table: of several, the last has the values that stay.
    """

    rows: DescribedRows
    numbers: tuple[int, ...]
    order: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the places that all rows have in each state."""
        form = ColumnForm(self.rows)
        for batch in batches:
            _, key, _ = form.rows(batch)
            for number in self.numbers:
                places = entry_keys(np.full(len(batch), number, np.int32), key)
                order = pa.array(np.full(len(batch), self.order, np.int32))
                yield pa.RecordBatch.from_arrays([places, order], schema=ORDERED_PLACES)


@dataclass(frozen=True)
class LaterPlaces:
    """Function for ``mapInArrow`` from places to those of tables after one."""

    order: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the places, as :data:`PLACES`."""
        for batch in batches:
            later = batch.filter(pc.greater(batch.column(ORDER), self.order))
            yield later.select(PLACES.names)


@dataclass(frozen=True)
class PlacedEntries:
    """Function for ``mapInArrow`` that adds the places of entries.

    ``maps`` are the numbers of map states, with the bytes of a namespace: their entries have a user key after it. A
    mark has the place of its entries.
    """

    maps: tuple[tuple[int, int], ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the entries with column ``PLACE``."""
        for batch in batches:
            given = fixed_values(batch.column(STATE), np.int32)
            state = np.where(given < DELETED, mark_of(0) - given, given)
            buffer, start, end = spans_of(batch.column(KEY))
            offsets, _ = binary_parts(batch.column(SERIALIZED_KEY))
            end = end.copy()
            for number, namespace in self.maps:
                rows = np.flatnonzero(given == number)
                end[rows] = start[rows] + np.diff(offsets)[rows] + namespace
            places = entry_keys(state, binary_column(buffer, start, end))
            columns = [batch.column(name) for name in KEYED_ENTRIES.names]  # a join may have moved them
            yield pa.RecordBatch.from_arrays([*columns, places], schema=KEYED_ENTRIES.append(PLACES.field(0)))


#: How many places there are, and two hashes of all.
DIGESTS = pa.schema([pa.field("count", pa.int64()), pa.field("first", pa.int64()), pa.field("second", pa.int64())])
#: The keys of both: nobody can write places that have the hashes of others.
Secrets = tuple[Any, Any]


def new_secrets() -> Secrets:
    """Return other keys of both hashes."""
    from pyspark_savepoint.formats.kernels.hashing import new_secret

    return new_secret(), new_secret()


@dataclass(frozen=True)
class DigestedPlaces:
    """Function for ``mapInArrow`` from what ``places`` takes to one row: how many places it yields, and two hashes.

    Neighbours with the same place, as entries of a map are, count once.
    """

    places: BatchFunction
    secrets: Secrets

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the digest of all places."""
        from pyspark_savepoint.formats.kernels import keys

        count, digest, last = 0, np.zeros(2, np.uint64), None
        for batch in self.places(batches):
            if not len(batch):
                continue
            buffer, start, end = spans_of(batch.column(PLACE))
            seen = int(last == buffer[start[0] : end[0]].tobytes())
            count += keys.digest_spans(buffer, start, end, seen, *self.secrets, digest)
            last = buffer[start[-1] : end[-1]].tobytes()
        yield pa.RecordBatch.from_arrays([pa.array([n]) for n in (count, *digest.view(np.int64))], schema=DIGESTS)


@dataclass(frozen=True)
class KeyEncoder:
    """Function for ``mapInArrow`` from keys to their bytes in column ``serialized_key``, then ``more`` columns.

    Column ``serialized_key`` has these bytes already.
    """

    serializer: TypeSerializer
    columns: tuple[str, ...]
    more: tuple[str, ...]
    operator: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the bytes of all keys."""
        for batch in batches:
            try:
                columns = [self._keys(batch), *(batch.column(name) for name in self.more)]
                yield pa.RecordBatch.from_arrays(columns, names=[SERIALIZED_KEY, *self.more])
            except SavepointError as error:
                raise error.with_facts(operator=self.operator) from None

    def _keys(self, batch: pa.RecordBatch) -> pa.Array:
        given = [batch.column(name) for name in self.columns]
        if self.columns == (SERIALIZED_KEY,):
            return given[0]
        if len(given) == 1:
            refuse_null(given[0], self.columns[0], KEY_COLUMN)
            if self.serializer.opaque_parts():
                return given[0]
            return serialized(self.serializer, conform_column(given[0], self.serializer, self.columns[0]))
        fields = [pa.field(name, column.type) for name, column in zip(self.columns, given, strict=True)]
        whole = struct_array(pa.struct(fields), given, len(batch))
        return serialized(self.serializer, conform_column(whole, self.serializer, KEY_COLUMN))


@dataclass(frozen=True)
class DeletionEncoder:
    """Function for ``mapInArrow`` from keys to rows of table ``entries`` that delete these keys from the base.

    ``options`` decode keys for their hash codes.
    """

    keys: KeyEncoder
    serializer: TypeSerializer
    max_parallelism: int
    options: DecodeOptions

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row for every key, with its key group."""
        for batch in self.keys(batches):
            key = batch.column(SERIALIZED_KEY)
            groups = _groups_of(self.serializer, key, self.max_parallelism, self.options)
            columns = [
                fixed_array(pa.int32(), np.full(len(batch), DELETED, np.int32)),
                groups,
                key,
                binary_array(pa.binary(), np.zeros(len(batch) + 1, np.int64), np.empty(0, np.uint8)),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=ENTRIES)


@dataclass(frozen=True)
class RegroupByKey:
    """Function for ``mapInArrow`` from entries with their keys to those of the key groups of another max parallelism.

    ``options`` decode keys for their hash codes.
    """

    serializer: TypeSerializer
    max_parallelism: int
    options: DecodeOptions

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the entries, as :data:`ENTRIES`."""
        for batch in batches:
            columns = {name: batch.column(name) for name in ENTRIES.names}
            keys = batch.column(SERIALIZED_KEY)
            columns[KEY_GROUP] = _groups_of(self.serializer, keys, self.max_parallelism, self.options)
            yield pa.RecordBatch.from_arrays(list(columns.values()), schema=ENTRIES)


def _groups_of(serializer: TypeSerializer, keys: pa.Array, limit: int, options: DecodeOptions) -> pa.Array:
    """Return the key groups of keys that are given as bytes."""
    offsets, data = binary_parts(keys)
    at = Cursors(data.copy(), offsets[:-1].copy(), offsets[1:], options=options)
    return fixed_array(pa.int32(), groups_of_serialized(serializer, at, limit))


@dataclass(frozen=True)
class Regroup:
    """Function for ``mapInArrow`` that sets the key groups of entries from a column ``hash_code``."""

    max_parallelism: int
    operator: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the entries with their new key groups."""
        for batch in batches:
            hashes = batch.column("hash_code")
            if hashes.null_count:
                key = batch.column(SERIALIZED_KEY).filter(hashes.is_null())[0].as_py()
                raise ValueRangeError(
                    "the given rows have no hash_code for a key of the operator",
                    operator=self.operator,
                    found=f"key of bytes {key.hex()}",
                    remedy="give the hashCode of every key",
                )
            groups = key_groups_for_hashes(np.asarray(hashes.cast(pa.int32()), np.int32), self.max_parallelism)
            columns = {name: batch.column(name) for name in KEYED_ENTRIES.names}
            columns[KEY_GROUP] = fixed_array(pa.int32(), groups)
            yield pa.RecordBatch.from_arrays(list(columns.values()), schema=KEYED_ENTRIES)


def serialized(serializer: TypeSerializer, column: pa.Array) -> pa.Array:
    """Return every row's bytes as a binary column."""
    buffer, start, end = encode_column(serializer, column)
    return binary_array(pa.binary(), np.append(start, end[-1:] if len(end) else 0).astype(np.int64), buffer)


def key_columns(serializer: TypeSerializer, schema: pa.Schema, operator: str) -> tuple[str, ...]:
    """Return the key columns of a table of keys: ``key``, the only column, or the fields of a composite key.

    Raise OptionError if there are none, or keys of their types never fit the operator's.
    """
    columns = _key_columns(serializer, schema, operator)
    if not serializer.opaque_parts():
        fields = [schema.field(name) for name in columns]
        kind, name = (fields[0].type, columns[0]) if len(fields) == 1 else (pa.struct(fields), KEY_COLUMN)
        try:
            form_of(kind, serializer, name)
        except OptionError as error:
            raise error.with_facts(operator=operator) from None
    return columns


def _key_columns(serializer: TypeSerializer, schema: pa.Schema, operator: str) -> tuple[str, ...]:
    if KEY_COLUMN in schema.names:
        return (KEY_COLUMN,)
    if len(schema) == 1:
        return (schema.names[0],)
    kind = serializer.arrow_type(PLAIN)
    fields = [kind.field(i).name for i in range(kind.num_fields)] if pa.types.is_struct(kind) else []
    missing = [name for name in fields if name not in schema.names]
    if fields and (not missing or len(fields) == len(schema)):
        return tuple(schema.names if missing else fields)
    raise OptionError(
        "columns of the key are missing",
        operator=operator,
        expected="column 'key', or one column" + (f", or columns {', '.join(fields)}" if fields else ""),
        found=", ".join(schema.names),
        remedy=did_you_mean(missing[0], schema.names) if missing else "select the column of the key",
    )


@dataclass(frozen=True)
class RemapStateIds:
    """Function for ``mapInArrow``; ``numbers`` has the new numbers of the descriptor's states; -1: skip."""

    descriptor: KeyedDescriptor
    numbers: tuple[int, ...]
    with_keys: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = np.array(self.numbers, np.int32)
        for batch in batches:
            state = np.asarray(batch.column(STATE), np.int32)
            is_selected = numbers[state] >= 0
            if not is_selected.all():
                batch, state = batch.filter(pa.array(is_selected)), state[is_selected]
            columns = [
                fixed_array(pa.int32(), numbers[state]),
                batch.column(KEY_GROUP),
                batch.column(KEY),
                batch.column(VALUE),
            ]
            if self.with_keys:
                yield pa.RecordBatch.from_arrays([*columns, self._keys(batch, state)], schema=KEYED_ENTRIES)
            else:
                yield pa.RecordBatch.from_arrays(columns, schema=ENTRIES)

    def _keys(self, batch: pa.RecordBatch, state: Ints) -> pa.Array:
        """Return the keys alone: the beginning of a composite key, for a timer after its timestamp."""
        timers = np.array([meta.kind is StateKind.TIMER for meta in self.descriptor.states])
        buffer, start, end = spans_of(batch.column(KEY))
        start = start + np.where(timers[state], TIMESTAMP_BYTES, 0)
        at = Cursors(np.array(buffer), start.copy(), end)
        skip_rows(self.descriptor.key_serializer, at)
        return binary_column(at.buffer, start, at.position)
