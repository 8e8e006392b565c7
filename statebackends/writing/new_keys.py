"""Entries of keyed state that move to new keys: functions of batches, which tasks run.

    old entry   key [vlen] namespace [vlen] [userKey]      timers: i64 timestamp  key  namespace
    new entry   the same with the new key, in the key group of its hash

The lengths are there if key and namespace both have variable length, so they come and go with the type of the key.
Values, namespaces and keys of maps are copied as bytes. Keys are decoded to compute the new ones. Two keys that become
one are found by sorting all pairs (new key, old key).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, as_python, binary_parts, fixed_array, spans_of
from pyspark_savepoint.formats.errors import SavepointError, ValueRangeError
from pyspark_savepoint.formats.keyed.keyed_block import binary_column
from pyspark_savepoint.formats.serializers.layout import skip_rows
from pyspark_savepoint.statebackends.rows.entry_bytes import (
    ENTRIES,
    KEY,
    KEY_GROUP,
    KEYED_ENTRIES,
    NOTHING,
    SERIALIZED_KEY,
    STATE,
    TIMESTAMP_BYTES,
    VALUE,
    is_timer,
    length_column,
)
from pyspark_savepoint.statebackends.rows.key_codec import KeyCodec, key_text
from pyspark_savepoint.statebackends.rows.sorting import RowSorter
from pyspark_savepoint.statebackends.writing.entry_encoder import serialized
from pyspark_savepoint.statebackends.writing.row_forms import keyed_columns

if TYPE_CHECKING:
    from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
    from pyspark_savepoint.formats.serializers.base import TypeSerializer
    from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor

#: The columns that users see: a key as it is read, and the one that it becomes.
OLD, NEW = "key", "new_key"
#: The bytes of the new key, and its key group.
NEW_BYTES, NEW_GROUP = "__savepoint_new_key", "__savepoint_new_key_group"
#: Columns of entries beside those of the user.
_INTERNAL = "__savepoint_"
INTERNAL_ENTRIES = pa.schema([field.with_name(_INTERNAL + field.name) for field in KEYED_ENTRIES])
#: Entries with the bytes of their new keys.
MOVING = pa.schema([*INTERNAL_ENTRIES, pa.field(NEW_BYTES, pa.binary()), pa.field(NEW_GROUP, pa.int32())])
#: A new key in its key group, and the old one.
PAIRS = pa.schema([pa.field(KEY_GROUP, pa.int32()), pa.field(NEW_BYTES, pa.binary()), pa.field(OLD, pa.binary())])
#: Two old keys that become one.
BOTH = pa.schema([pa.field(name, pa.binary()) for name in ("one", "other", "both")])


def internal_name(name: str) -> str:
    """Return the name that a column of entries has beside those of a user."""
    return _INTERNAL + name


@dataclass(frozen=True)
class KeyDecoder:
    """Function from entries with the bytes of their keys to the same with column ``key``, as it is read."""

    serializer: TypeSerializer
    options: DecodeOptions

    @property
    def schema(self) -> pa.Schema:
        """The columns of the batches that it yields."""
        return pa.schema([*INTERNAL_ENTRIES, pa.field(OLD, self.serializer.arrow_type(self.options))])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the entries with their keys."""
        for batch in batches:
            keys = self.decoded(batch.column(SERIALIZED_KEY))
            yield pa.RecordBatch.from_arrays([*_entry_columns(batch), keys], schema=self.schema)

    def decoded(self, keys: pa.Array) -> pa.Array:
        """Return keys by their bytes."""
        offsets, data = binary_parts(keys)
        at = Cursors(data.copy(), offsets[:-1].copy(), offsets[1:], options=self.options)
        column = self.serializer.decode(at)
        at.expect_end()
        return column


@dataclass(frozen=True)
class HeldEntries:
    """Function that gives the columns of entries names which no column of a user has."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the entries."""
        for batch in batches:
            yield pa.RecordBatch.from_arrays(_entry_columns(batch), schema=INTERNAL_ENTRIES)


def _entry_columns(batch: pa.RecordBatch) -> list[pa.Array]:
    return [batch.column(name) for name in KEYED_ENTRIES.names]


@dataclass(frozen=True)
class NewKeyEncoder:
    """Encoder of new keys, column ``new_key``: their bytes and key groups.

    ``cast`` is what the values are first converted to, if they are the old keys; ``old`` shows keys in errors.
    """

    key: KeyedDescriptor
    max_parallelism: int
    label: str
    cast: pa.DataType | None = None

    def encoded(self, column: pa.Array, old: pa.Array) -> list[pa.Array]:
        """Return bytes and key groups of new keys; a SavepointError names the first old key that has none."""
        try:
            return self._encoded(column)
        except (SavepointError, pa.ArrowException) as error:
            row = self._first_refused(column)
            raise ValueRangeError(
                "a key cannot become a key of the new type" if len(column) else "keys cannot be of the new type",
                operator=self.label,
                key=f"{as_python(old[row])!r:.200}" if len(old) else None,
                expected=_fact(error, "expected") or self.key.key_serializer.flink_type,
                found=_fact(error, "found") or str(error),
                remedy="remove the key first (remove_keys), give another type, or say what it becomes: rows with "
                f"columns {OLD!r} and {NEW!r}",
            ) from None

    def _first_refused(self, column: pa.Array) -> int:
        low, high = 0, len(column)
        while high - low > 1:
            middle = (low + high) // 2
            try:
                self._encoded(column[low:middle])
            except (SavepointError, pa.ArrowException):
                high = middle
            else:
                low = middle
        return low

    def _encoded(self, column: pa.Array) -> list[pa.Array]:
        if column.null_count:
            raise ValueRangeError("a key cannot be NULL", found="NULL")
        if self.cast is not None:
            column = exact_text(column, self.cast)
        (name,) = self.key.key_columns
        keyed = keyed_columns(pa.record_batch([column], names=[name]), self.key)
        codec = KeyCodec(self.key, self.max_parallelism)
        keys = codec.key_column(keyed)
        groups = fixed_array(pa.int32(), np.ascontiguousarray(codec.key_groups(keys, keyed)))
        return [serialized(self.key.key_serializer, keys), groups]


def _fact(error: Exception, fact: str) -> str | None:
    value = error.facts.get(fact) if isinstance(error, SavepointError) else None
    return None if value is None else str(value)


@dataclass(frozen=True)
class NewKeys:
    """Function from entries with columns ``key`` and ``new_key`` to entries with the bytes of their new keys.

    Without column ``new_key`` the key itself is converted.
    """

    encoder: NewKeyEncoder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the entries."""
        for batch in batches:
            column = batch.column(NEW if NEW in batch.schema.names else OLD)
            new = self.encoder.encoded(column, batch.column(OLD))
            yield pa.RecordBatch.from_arrays(
                [*(batch.column(name) for name in INTERNAL_ENTRIES.names), *new], schema=MOVING
            )


@dataclass(frozen=True)
class PairEncoder:
    """Function from rows ``key``, ``new_key`` to the bytes of both, and the key group of the new one."""

    old: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    encoder: NewKeyEncoder

    @property
    def schema(self) -> pa.Schema:
        """The columns of the batches that it yields."""
        return pa.schema([INTERNAL_ENTRIES.field(_INTERNAL + SERIALIZED_KEY), *list(MOVING)[-2:]])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the pairs."""
        for batch in batches:
            (old,) = self.old(iter([batch.select([OLD])]))
            new = self.encoder.encoded(batch.column(NEW), batch.column(OLD))
            yield pa.RecordBatch.from_arrays([old.column(0), *new], schema=self.schema)


@dataclass(frozen=True)
class FoundKeys:
    """Function from entries joined with pairs to entries with new keys; one without a pair stays, or is an error."""

    old: TypeSerializer
    stays: bool
    label: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the entries."""
        for batch in batches:
            new, group = batch.column(NEW_BYTES), batch.column(NEW_GROUP)
            old = batch.column(_INTERNAL + SERIALIZED_KEY)
            if new.null_count and not self.stays:
                key = old.filter(new.is_null())[0].as_py()
                raise ValueRangeError(
                    "the rows do not say what a key of the operator becomes",
                    operator=self.label,
                    found=key_text(self.old, key, ""),
                    remedy="give a row for each key, since the keys get another type; or remove the key first",
                )
            columns = {name: batch.column(name) for name in INTERNAL_ENTRIES.names}  # a join may have moved them
            columns[NEW_BYTES] = pc.coalesce(new, old)
            columns[NEW_GROUP] = pc.coalesce(group, columns[_INTERNAL + KEY_GROUP])
            yield pa.RecordBatch.from_arrays(list(columns.values()), schema=MOVING)


@dataclass(frozen=True)
class MovedEntries:
    """Function from entries with the bytes of their new keys to entries of these keys.

    ``states`` are the registrations by number, before; ``old`` and ``new`` the serializers of the keys.
    """

    states: tuple[StateMetaInfoSnapshot, ...]
    old: TypeSerializer
    new: TypeSerializer

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the entries, those of each state together."""
        for batch in batches:
            numbers = np.asarray(batch.column(_INTERNAL + STATE), np.int32)
            for number in np.unique(numbers).tolist():
                rows = np.flatnonzero(numbers == number)
                own = batch if len(rows) == len(batch) else batch.take(pa.array(rows))
                columns = [
                    own.column(_INTERNAL + STATE),
                    own.column(NEW_GROUP),
                    self._composite(own, self.states[number]),
                    own.column(_INTERNAL + VALUE),
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=ENTRIES)

    def _composite(self, batch: pa.RecordBatch, meta: StateMetaInfoSnapshot) -> pa.Array:
        buffer, start, end = spans_of(batch.column(_INTERNAL + KEY))
        offsets, _ = binary_parts(batch.column(_INTERNAL + SERIALIZED_KEY))
        sizes = np.diff(offsets)
        new = batch.column(NEW_BYTES)
        if is_timer(meta):
            time = binary_column(buffer, start, start + TIMESTAMP_BYTES)
            rest = binary_column(buffer, start + TIMESTAMP_BYTES + sizes, end)
            return pc.binary_join_element_wise(time, new, rest, NOTHING)
        namespace = meta.namespace_serializer
        after = start + sizes
        if namespace.length >= 0 or (self.old.length >= 0 and self.new.length >= 0):
            return pc.binary_join_element_wise(new, binary_column(buffer, after, end), NOTHING)
        if self.old.length < 0:
            old_lengths, _ = binary_parts(length_column(sizes))
            after = after + np.diff(old_lengths)
        at = Cursors(np.array(buffer), after.copy(), end.copy())
        skip_rows(namespace, at)
        spaces, space_end = binary_column(buffer, after, at.position), at.position.copy()
        length = length_column(space_end - after)
        rest_start = space_end
        if self.old.length < 0:
            lengths, _ = binary_parts(length)
            rest_start = space_end + np.diff(lengths)
        rest = binary_column(buffer, rest_start, end)
        if self.new.length >= 0:
            return pc.binary_join_element_wise(new, spaces, rest, NOTHING)
        new_offsets, _ = binary_parts(new)
        return pc.binary_join_element_wise(new, length_column(np.diff(new_offsets)), spaces, length, rest, NOTHING)


# -- keys that become one ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeyPairs:
    """Function from entries with new keys to pairs (key group, new key, old key), one for entries of a key in a row."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the pairs."""
        for batch in batches:
            old = batch.column(_INTERNAL + SERIALIZED_KEY)
            columns = [batch.column(NEW_GROUP), batch.column(NEW_BYTES), old]
            pairs = pa.RecordBatch.from_arrays(columns, schema=PAIRS)
            if len(pairs) > 1:
                changes = pc.not_equal(old[1:], old[:-1])
                pairs = pairs.filter(pa.concat_arrays([pa.array([True]), changes]))
            yield pairs


@dataclass(frozen=True)
class GivenPairs:
    """Function from pairs of keys as bytes to pairs by the old key, by which those that are given twice are found."""

    max_parallelism: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield (a number of the old key, old key, place of the pair, which no other part of the rows has)."""
        place, part = 0, secrets.token_bytes(8)
        for batch in batches:
            old = batch.column(0)
            hashes = np.fromiter(map(crc32, old.to_pylist()), np.int64, len(old)) % self.max_parallelism
            places = pa.array([part + str(place + row).encode() for row in range(len(batch))], pa.binary())
            place += len(batch)
            columns = [fixed_array(pa.int32(), hashes.astype(np.int32)), old, places]
            yield pa.RecordBatch.from_arrays(columns, schema=PAIRS)


@dataclass(frozen=True)
class Collisions:
    """Function from pairs to those two whose first key is the same and whose second is not: the first such two.

    All pairs of a key are in one part. They are sorted in bounded memory.
    """

    memory: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row for two pairs, or nothing."""
        with RowSorter(pa.schema([PAIRS.field(OLD)]), self.memory) as sorter:
            for batch in batches:
                groups = np.asarray(batch.column(KEY_GROUP), np.int32)
                if len(batch):
                    sorter.add(groups, batch.column(NEW_BYTES), batch.select([OLD]))
            if sorter.rows:
                yield from self._first(sorter)

    @staticmethod
    def _first(sorter: RowSorter) -> Iterator[pa.RecordBatch]:
        last: tuple[pa.Array, pa.Array] | None = None
        for batch in sorter.sorted():
            new, old = batch.key, batch.rows.column(OLD)
            if last is not None:
                new, old = pa.concat_arrays([last[0], new]), pa.concat_arrays([last[1], old])
            same = pc.and_(pc.equal(new[1:], new[:-1]), pc.not_equal(old[1:], old[:-1]))
            at = same.index(True).as_py() if len(same) else -1
            if at >= 0:
                yield pa.RecordBatch.from_arrays(
                    [old[at : at + 1], old[at + 1 : at + 2], new[at : at + 1]], schema=BOTH
                )
                return
            last = new[-1:], old[-1:]


# -- casts ---------------------------------------------------------------------------------------------------------


def between(kind: pa.DataType, target: pa.DataType) -> pa.DataType | None:
    """Return a type to which keys are converted first, with numbers as text and back; None if there is none.

    >>> between(pa.int64(), pa.string())
    DataType(string)
    """
    if pa.types.is_struct(kind) and pa.types.is_struct(target) and kind.num_fields == target.num_fields:
        fields = [(source.name, between(source.type, wanted.type)) for source, wanted in zip(kind, target, strict=True)]
        kinds = [inner if inner is not None else source.type for (_, inner), source in zip(fields, kind, strict=True)]
        return pa.struct(list(zip((name for name, _ in fields), kinds, strict=True)))
    one, other = pa.types.is_integer, pa.types.is_string
    if (one(kind) and other(target)) or (other(kind) and one(target)):
        return target
    return None


def exact_text(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert whole numbers to text and back; raise ValueRangeError for a text that is not the number's own."""
    if column.type == kind:
        return column
    if pa.types.is_struct(kind):
        children = [exact_text(child, field.type) for child, field in zip(column.flatten(), kind, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(kind))
    try:
        result = column.cast(kind)
    except pa.ArrowInvalid as error:
        raise ValueRangeError("a key is no such number", expected=str(kind), found=str(error)) from None
    if pa.types.is_integer(kind):
        changed = pc.not_equal(result.cast(column.type), column)
        if pc.any(changed).as_py():
            value = column[changed.index(True).as_py()].as_py()
            raise ValueRangeError("a key is not a number as it is written", expected=str(kind), found=repr(value))
    return result
