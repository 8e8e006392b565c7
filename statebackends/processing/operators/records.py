"""Keyed records as input of a function: in the order of the keys' bytes, or as they arrive.

    RecordBatch -> key groups and serialized keys -> [RowSorter] -> runs of one key -> Python objects, some thousands

Records of one key stay in the order of arrival, or are sorted by timestamp if they have one: the timestamp is eight
more bytes after the key. No other key sorts in between, because serialized keys are self-delimiting.

Records that Spark has already sorted by key within every task are processed as they come, and the order is checked.
``sortWithinPartitions("id")`` sorts rows by the key, not by its serialized bytes. Functions only need that a key does
not come back, so both orders are correct; the check compares the key column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyspark_savepoint.formats.columns import Bytes, Flags, Longs, binary_array, binary_parts
from pyspark_savepoint.formats.errors import OptionError, ValueRangeError
from pyspark_savepoint.formats.larger_batches import gathered
from pyspark_savepoint.formats.serializers.basic.temporal import millis_of
from pyspark_savepoint.statebackends.processing.api.state import ObjectReuseMode
from pyspark_savepoint.statebackends.processing.backends.adapters import copied
from pyspark_savepoint.statebackends.processing.operators.state_registry import Unshared
from pyspark_savepoint.statebackends.processing.runtime.row import refilled, rows_of_columns
from pyspark_savepoint.statebackends.processing.runtime.values import binary_values, to_python
from pyspark_savepoint.statebackends.rows.key_codec import KeyCodec
from pyspark_savepoint.statebackends.rows.sorting import RowSorter, SortedBatch
from pyspark_savepoint.statebackends.writing.entry_encoder import serialized
from pyspark_savepoint.statebackends.writing.row_forms import keyed_columns


class SortedKeys:
    """Check over several batches that keys ascend and, within each key, timestamps."""

    def __init__(self) -> None:
        self._last: tuple[pa.Array, int | None] | None = None

    def check(self, keys: pa.Array, times: Longs | None) -> None:
        """Check the keys of one batch, without nulls; raise ValueRangeError for one that is out of order."""
        refuse_type(keys.type)
        if self._last is not None:
            last, time = self._last
            keys = pa.concat_arrays([last, keys])
            times = np.concatenate([[time], times]).astype(np.int64) if times is not None else None
        self._last = keys[-1:], int(times[-1]) if times is not None else None
        before, after = keys[:-1], keys[1:]
        back = _flags(pc.less(after, before))
        if times is not None:
            back |= _flags(pc.equal(after, before)) & (np.diff(times) < 0)
        if back.any():
            row = int(back.argmax())
            raise ValueRangeError(
                "the records are not in the order of their keys, but option 'presorted' promises it",
                expected="keys ascending in every partition"
                + (", of each key the timestamps" if times is not None else ""),
                found=f"key {after[row].as_py()!r} after key {before[row].as_py()!r}",
                remedy="key_by(df, 'id').sortWithinPartitions('id'), without Spark table.sort_by('id'); or leave "
                "presorted out: then they are sorted here",
            )


def refuse_type(kind: pa.DataType) -> None:
    """Raise OptionError for key types whose order in Spark does not put equal keys together."""
    plain = (pt.is_integer, pt.is_string, pt.is_binary, pt.is_boolean, pt.is_date, pt.is_timestamp, pt.is_decimal)
    if not any(matches(kind) for matches in plain):
        raise OptionError(
            "records can be presorted only by one key column of integers, strings, bytes or timestamps",
            found=str(kind),
            remedy="leave presorted out: then the tasks sort by the serialized keys",
        )


def _flags(column: pa.BooleanArray) -> Flags:
    return np.array(column.to_numpy(zero_copy_only=False), np.bool_)


#: Number of rows converted to Python objects at a time.
CHUNK = 8192
TIME_BYTES = 8
SIGN = np.int64(-(2**63))


@dataclass(frozen=True)
class RecordOrder:
    """Order of the records of a function; ``presorted``: they arrive in the order of their keys."""

    sort: bool = True
    presorted: bool = False
    sort_memory: int = 256 << 20
    timestamp: str | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records as Python objects, run by run: keys in both forms, and the number of records of each.

    ``inputs`` has the number of each record's input, from 0, if there are several.
    """

    keys: list[Any]
    grouped_keys: list[bytes]
    counts: list[int]
    values: Iterable[Any]
    timestamps: list[int | None] | None
    inputs: list[int] | None = None


class Records:
    """Records of one task.

    ``columns`` are the columns of the function's rows; a ``plain`` record is not a row, but the value of the one
    column.
    """

    def __init__(self, codec: KeyCodec, order: RecordOrder, columns: tuple[str, ...], plain: bool = False) -> None:
        self.codec = codec
        self.order = order
        self.columns = columns
        self.plain = plain
        self._prefixes = [number.to_bytes(2, "big") for number in range(codec.max_parallelism)]

    def sorted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[SortedBatch]:
        """Yield all records in order."""
        if not self.order.sort:
            yield from map(self._keyed, gathered(batches))
        elif self.order.presorted:
            yield from self._checked(batches)
        else:
            yield from self._in_order(batches)

    def is_broadcast(self, batch: SortedBatch) -> bool:
        """Return whether the records of a batch are broadcast: never, of one input."""
        return False

    def _keyed(self, batch: pa.RecordBatch, suffix: Bytes | None = None) -> SortedBatch:
        rows = self._keys(batch)
        keys = self.codec.key_column(rows)
        key = serialized(self.codec.serializer, keys)
        return SortedBatch(
            self.codec.key_groups(keys, rows), key if suffix is None else with_suffix(key, suffix), batch
        )

    def _keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return keyed_columns(batch, self.codec.descriptor)

    def _times(self, batch: pa.RecordBatch) -> Longs:
        assert self.order.timestamp is not None
        return timestamps_of(batch, self.order.timestamp)

    def _suffix(self, batch: pa.RecordBatch) -> Bytes | None:
        """Return the bytes by which the records of a key are sorted, a row each; None if they stay as they come."""
        return sortable(self._times(batch)) if self.order.timestamp is not None else None

    def _in_order(self, batches: Iterable[pa.RecordBatch]) -> Iterator[SortedBatch]:
        source = iter(batches)
        first = next((batch for batch in source if batch.num_rows), None)
        if first is None:
            return
        width = 0
        with RowSorter(first.schema, self.order.sort_memory) as sorter:
            for batch in chain([first], source):
                if batch.num_rows:
                    suffix = self._suffix(batch)
                    width = 0 if suffix is None else suffix.shape[1]
                    keyed = self._keyed(batch, suffix)
                    sorter.add(keyed.key_group, keyed.key, keyed.rows)
            yield from without_suffix(sorter.sorted(), width)

    def _checked(self, batches: Iterable[pa.RecordBatch]) -> Iterator[SortedBatch]:
        order = SortedKeys()
        for batch in batches:
            if batch.num_rows:
                times = self._times(batch) if self.order.timestamp is not None else None
                order.check(self.codec.key_column(self._keys(batch)), times)
                yield self._keyed(batch)

    def chunks(self, batch: SortedBatch, reuse: ObjectReuseMode, unshared: Unshared) -> Iterator[Chunk]:
        """Yield a batch as Python objects, some at a time."""
        size = CHUNK if self.order.sort else max(1, len(batch))
        for low in range(0, len(batch), size):
            yield self._chunk(batch.cut(low, min(low + size, len(batch))), reuse, unshared)

    def _chunk(self, batch: SortedBatch, reuse: ObjectReuseMode, unshared: Unshared) -> Chunk:
        starts = run_starts(batch)
        counts = np.diff(np.append(starts, len(batch))).tolist()
        first = pa.array(starts)
        keys = to_python(self.codec.key_column(self._keys(batch.rows)).take(first))
        groups = batch.key_group[starts].tolist()
        grouped_keys = [
            self._prefixes[group] + key for group, key in zip(groups, binary_values(batch.key.take(first)), strict=True)
        ]
        return self._filled(Chunk(keys, grouped_keys, counts, (), None), batch.rows, reuse, unshared)

    def _filled(self, chunk: Chunk, rows: pa.RecordBatch, reuse: ObjectReuseMode, unshared: Unshared) -> Chunk:
        """Return the runs of a chunk with their records."""
        times = self._times(rows).tolist() if self.order.timestamp is not None else None
        return replace(chunk, values=self._values(rows, reuse, unshared), timestamps=times)

    def _values(self, rows: pa.RecordBatch, reuse: ObjectReuseMode, unshared: Unshared) -> Iterable[Any]:
        if not self.plain:
            return values_of(rows, self.columns, reuse, unshared)
        values = to_python(rows.column(self.columns[0]))
        return map(copied, values) if reuse is ObjectReuseMode.COPY_PER_OPERATOR else values


def values_of(
    rows: pa.RecordBatch, names: tuple[str, ...], reuse: ObjectReuseMode, unshared: Unshared
) -> Iterable[Any]:
    """Return rows as functions get them."""
    columns = [to_python(rows.column(name)) for name in names]
    if reuse is ObjectReuseMode.FULL_REUSE:
        return refilled(unshared.row_of(names), columns, rows.num_rows)
    values = rows_of_columns(names, columns, rows.num_rows)
    return map(copied, values) if reuse is ObjectReuseMode.COPY_PER_OPERATOR else values


def plain_values(
    batch: pa.RecordBatch, names: tuple[str, ...], timestamp: str | None, reuse: ObjectReuseMode, unshared: Unshared
) -> Iterator[tuple[Any, int | None]]:
    """Yield rows with their timestamps, for functions without keys."""
    for low in range(0, batch.num_rows, CHUNK):
        rows = batch.slice(low, CHUNK)
        times = timestamps_of(rows, timestamp).tolist() if timestamp is not None else repeat(None)
        yield from zip(values_of(rows, names, reuse, unshared), times, strict=False)


def timestamps_of(batch: pa.RecordBatch, name: str) -> Longs:
    """Return the timestamps of records in milliseconds; raise ValueRangeError for a null."""
    column = batch.column(name)
    if pa.types.is_integer(column.type):
        column = column.cast(pa.int64())
    millis, valid = millis_of(column, "timestamp")
    if not valid.all():
        raise ValueRangeError(
            f"column {name!r} is NULL in some rows, and a timestamp cannot be",
            remedy=f"leave the rows out in which {name!r} is NULL",
        )
    return millis


def run_starts(batch: SortedBatch) -> Longs:
    """Return where the runs of equal keys begin; equal keys have equal key groups."""
    if not len(batch):
        return np.zeros(0, np.int64)
    same = pc.equal(batch.key[1:], batch.key[:-1])
    changed = ~np.asarray(same.to_numpy(zero_copy_only=False), np.bool_)
    return np.concatenate([[0], 1 + np.flatnonzero(changed)]).astype(np.int64)


def sortable(times: Longs) -> Bytes:
    """Return timestamps as bytes that sort as the numbers do, a row each."""
    digits: Bytes = (times ^ SIGN).astype(">i8").view(np.uint8).reshape(-1, TIME_BYTES)
    return digits


def serialized_numbers(numbers: Longs) -> pa.BinaryArray:
    """Return numbers as keys that sort as they do."""
    places = np.arange(len(numbers) + 1, dtype=np.int64) * TIME_BYTES
    return binary_array(pa.binary(), places, sortable(numbers).reshape(-1))


def with_suffix(keys: pa.BinaryArray, suffix: Bytes) -> pa.BinaryArray:
    """Return keys followed by the bytes of their rows of ``suffix``."""
    offsets, data = binary_parts(keys)
    low, high = offsets[:-1], offsets[1:]
    width = suffix.shape[1]
    places = np.arange(len(keys) + 1, dtype=np.int64) * width + (offsets - offsets[0])
    whole = np.empty(int(places[-1]), np.uint8)
    behind = (places[1:] - width)[:, None] + np.arange(width)
    whole[behind] = suffix
    into = np.ones(len(whole), np.bool_)
    into[behind] = False
    whole[into] = data[low[0] : high[-1]] if len(keys) else data[:0]
    return binary_array(pa.binary(), places, whole)


def without_suffix(batches: Iterable[SortedBatch], width: int) -> Iterator[SortedBatch]:
    """Yield batches whose keys lose the bytes that were added to sort them."""
    for batch in batches:
        key = pc.binary_slice(batch.key, 0, -width) if width else batch.key
        yield SortedBatch(batch.key_group, key, batch.rows)
