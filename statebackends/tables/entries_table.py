"""Table ``entries``: every keyed state entry of an operator as canonical bytes, for editing existing state.

The table is internal: the fluent API filters, joins and unites its rows as a DataFrame and writes them back as table
``entries``. :class:`EntriesRequest` lists the states to read; a row's state number is the position in that list. With
``max_parallelism``, key groups are recomputed for another max parallelism; keys are decoded only in this case. With
``raw_timers``, timers that RocksDB jobs keep as raw keyed state are returned as entries of the timer states of a
canonical savepoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import Cursors, binary_parts, fixed_array
from pyspark_savepoint.formats.keyed.canonical_stream import CanonicalKeyedStream
from pyspark_savepoint.formats.keyed.keyed_block import binary_column
from pyspark_savepoint.formats.rocksdb.keyed_stream import RocksDBKeyedStream
from pyspark_savepoint.formats.serializers.layout import skip_rows
from pyspark_savepoint.statebackends.requests.request import EntriesRequest, TablePartition, TableRequest, with_columns
from pyspark_savepoint.statebackends.rows.entry_bytes import (
    ENTRIES,
    KEY_GROUP,
    KEYED_ENTRIES,
    NOTHING,
    SERIALIZED_KEY,
    TIMESTAMP_BYTES,
    EntryReader,
    is_timer,
)
from pyspark_savepoint.statebackends.rows.key_codec import groups_of_serialized
from pyspark_savepoint.statebackends.sources.keyed_plan import KeyedSplit, meets, vertices
from pyspark_savepoint.statebackends.tables.keys import exact_options

if TYPE_CHECKING:
    from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader
    from pyspark_savepoint.formats.serializers.base import TypeSerializer
    from pyspark_savepoint.statebackends.rows.descriptors import TimerQueue
    from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
    from pyspark_savepoint.statebackends.sources.raw_timers import RawTimerSource


class EntriesTable:
    """Entries of an operator's keyed state."""

    def __init__(self, opened: OpenOperator, request: TableRequest) -> None:
        assert request.entries is not None
        self.request = request
        self.entries: EntriesRequest = request.entries
        self.headers = opened.keyed
        self.raw = opened.raw_timers if self.entries.raw_timers else ()
        self.max_parallelism: int | None = opened.operator.max_parallelism
        self.state_bytes = opened.operator.state_size
        self.warnings: tuple[str, ...] = ()
        self.schema = _entries_of(self.entries) if self.entries.function is None else self.entries.function[1]

    def select(self, columns: Sequence[str]) -> EntriesTable:
        """Return this table restricted to some columns."""
        return with_columns(self, columns)

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        """Return one partition per execution vertex that has state to read."""
        operator = self.headers.operator
        count = min(parallelism or 1, operator.max_parallelism)
        partitions: list[TablePartition] = []
        for key_groups in vertices(operator, self.request, None, count):
            split = self.headers.split(key_groups)
            raw = tuple(source for source in self.raw if meets(source.offsets.key_group_range, key_groups))
            if split.sources or raw:
                partitions.append(EntriesPartition(split, raw, self.entries, self.schema, self.request))
        return partitions


@dataclass(frozen=True)
class EntriesPartition:
    """Entries of one execution vertex."""

    split: KeyedSplit
    raw: tuple[RawTimerSource, ...]
    entries: EntriesRequest
    schema: pa.Schema
    request: TableRequest

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield entries in the order of the files, or what the function of the request makes of them."""
        if self.entries.function is None:
            yield from self._entries(self.schema.names)
        else:
            yield from self.entries.function[0](self._entries(_entries_of(self.entries).names))

    def _entries(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        numbers = {state: number for number, state in enumerate(self.entries.states) if state is not None}
        with self.split.opened_ahead():
            for batch, key, path in self._all(numbers):
                moved = batch if self.entries.max_parallelism is None else self._rehashed(batch, key, path)
                yield moved.select(names)

    def _all(self, numbers: dict[tuple[str, bool], int]) -> Iterator[tuple[pa.RecordBatch, TypeSerializer, str]]:
        for source in self.split.sources:
            with source.open(self.request.decode) as stream:
                contiguous = isinstance(stream, CanonicalKeyedStream | RocksDBKeyedStream)
                reader = self._reader(stream.header, numbers, contiguous)
                selected = set(np.flatnonzero(reader.numbers >= 0).tolist())
                if isinstance(stream, RocksDBKeyedStream):
                    stream.split_keys = reader.with_keys
                elif isinstance(stream, CanonicalKeyedStream) and not reader.with_keys:
                    selected = set()  # all entries are returned, without splitting their composite keys
                key_groups = set(self.split.key_groups)
                for block in stream.blocks(key_groups, selected, False, self.request.block_bytes):
                    for batch in reader.batches(block):
                        yield batch, stream.header.key_serializer, source.path
        for raw in self.raw:
            for queue, at, key_group in raw.timers(set(self.split.key_groups), self.request.decode):
                state = (queue.state_name, True)
                if len(at) and state in numbers:
                    yield timer_entries(queue, at, key_group, numbers[state]), queue.key, raw.location.shown_path

    def _reader(
        self, header: KeyedBackendHeader, numbers: dict[tuple[str, bool], int], contiguous: bool
    ) -> EntryReader:
        mine = np.array([numbers.get((meta.name, is_timer(meta)), -1) for meta in header.states], np.int32)
        with_keys = self.entries.keys or self.entries.max_parallelism is not None
        return EntryReader(header, mine, with_keys, contiguous, self.request.decode, self.request.batch_rows)

    def _rehashed(self, batch: pa.RecordBatch, key: TypeSerializer, path: str) -> pa.RecordBatch:
        """Return the batch, of a file, with key groups recomputed from keys, which are decoded at full precision."""
        assert self.entries.max_parallelism is not None
        offsets, data = binary_parts(batch.column(SERIALIZED_KEY))
        at = Cursors(data.copy(), offsets[:-1].copy(), offsets[1:], options=exact_options(self.request.decode))
        groups = groups_of_serialized(key, at, self.entries.max_parallelism, lambda _: path)
        index = batch.schema.get_field_index(KEY_GROUP)
        return batch.set_column(index, batch.schema.field(index), fixed_array(pa.int32(), groups))


def _entries_of(request: EntriesRequest) -> pa.Schema:
    """Return the columns of the entries that a request asks for."""
    return KEYED_ENTRIES if request.keys else ENTRIES


def timer_entries(queue: TimerQueue, at: Cursors, key_group: int, number: int) -> pa.RecordBatch:
    """Convert timers of raw keyed state (key, namespace, timestamp) to entries, which begin with the timestamp."""
    n = len(at)
    times = at.buffer[(at.end - TIMESTAMP_BYTES)[:, None] + np.arange(TIMESTAMP_BYTES)]
    times[:, 0] ^= 0x80
    time = pa.FixedSizeBinaryArray.from_buffers(pa.binary(TIMESTAMP_BYTES), n, [None, pa.py_buffer(times)])
    rest = binary_column(at.buffer, at.position, at.end - TIMESTAMP_BYTES)
    key = pc.binary_join_element_wise(time.cast(pa.binary()), rest, NOTHING)
    end = Cursors(at.buffer, at.position.copy(), at.end, at.origin, at.options)
    skip_rows(queue.key, end)
    columns = [
        fixed_array(pa.int32(), np.full(n, number, np.int32)),
        fixed_array(pa.int32(), np.full(n, key_group, np.int32)),
        key,
        binary_column(at.buffer, at.end, at.end),
        binary_column(at.buffer, at.position, end.position),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=KEYED_ENTRIES)
