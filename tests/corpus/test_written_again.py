"""What Flink wrote, read and written again: the same bytes, from raw entries and from columns."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint.formats.io import snappy
from pyspark_savepoint.formats.io.byte_source import InlineLocation
from pyspark_savepoint.formats.keyed.canonical_writer import CanonicalKeyedStreamWriter
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor, StateDescriptor, StateKind
from pyspark_savepoint.statebackends.rows.key_codec import KeyCodec, entry_keys
from pyspark_savepoint.statebackends.rows.sorting import RowSorter
from pyspark_savepoint.statebackends.rows.state_column import LAST_ACCESS
from pyspark_savepoint.statebackends.sources.keyed_sources import KeyedSource, keyed_sources
from pyspark_savepoint.statebackends.writing.row_forms import ColumnSink, EntrySink
from tests.corpus.expected import read
from tests.corpus.written import EXACT

#: Key group, state, composite key, value.
Entry = tuple[int, int, bytes, bytes]
VALUE = pa.schema([pa.field("value", pa.binary())])
ORDERED = ("1.18.1-rocksdb-canonical", "2.2.1-rocksdb-canonical-maxp1000")
UNORDERED = ("2.2.1-hashmap-canonical", "2.3.0-hashmap-canonical-compressed")


def canonical_sources(path: Path) -> Iterator[tuple[KeyedSource, bytes]]:
    """The canonical keyed streams of a snapshot, and their bytes."""
    savepoint = Snapshot.open(str(path))
    for operator in savepoint.metadata.operators:
        for source in keyed_sources(savepoint, operator):
            if isinstance(source, KeyedSource) and source.canonical:
                with source.location.open() as file:
                    yield source, file.read(0, file.size)


def contents(source: KeyedSource, data: bytes) -> dict[int, bytes]:
    """The bytes of every key group that has some, decompressed."""
    starts = [(offset, group) for group, offset in source.offsets if offset]
    ends = [*[offset for offset, _ in starts[1:]], len(data)]
    found = {}
    for (start, group), end in zip(starts, ends, strict=True):
        part = data[start:end]
        compressed = source.header().compressed
        found[group] = snappy.decompress(memoryview(part), None, 0).tobytes() if compressed else part
    return found


def walk(group: int, data: bytes, prefix: int) -> Iterator[Entry]:
    """The entries of a key group, one at a time."""
    at = 0
    while (state := int.from_bytes(data[at : at + 2], "big")) != 0xFFFF:
        at, last = at + 2, False
        while not last:
            size = int.from_bytes(data[at : at + 4], "big")
            last = data[at + 4] >= 128
            key = data[at + 4 + prefix : at + 4 + size]
            at += 4 + size
            length = int.from_bytes(data[at : at + 4], "big")
            yield group, state, key, data[at + 4 : at + 4 + length]
            at += 4 + length
    assert at + 2 == len(data)


def entries_of(source: KeyedSource, data: bytes) -> list[Entry]:
    prefix = 2 if source.max_parallelism > 128 else 1
    return [entry for group, part in contents(source, data).items() for entry in walk(group, part, prefix)]


def rewritten(source: KeyedSource, entries: list[Entry]) -> tuple[bytes, tuple[int, ...]]:
    """A stream of the same head from entries in any order."""
    header, file = source.header(), io.BytesIO()
    with (
        RowSorter(VALUE, 1 << 16) as sorter,
        CanonicalKeyedStreamWriter(file, header, source.key_group_range, source.max_parallelism, 1 << 16) as writer,
    ):
        for low in range(0, len(entries), 100):
            part = entries[low : low + 100]
            keys = entry_keys(np.array([e[1] for e in part], np.int32), pa.array([e[2] for e in part], pa.binary()))
            rows = pa.record_batch([pa.array([entry[3] for entry in part], pa.binary())], schema=VALUE)
            sorter.add(np.array([entry[0] for entry in part], np.int32), keys, rows)
        sink = EntrySink(writer, [state.name for state in header.states])
        for batch in sorter.sorted():
            sink.add(batch)
        offsets = writer.finish().offsets
    return file.getvalue(), offsets


@pytest.mark.parametrize("case", ORDERED)
def test_entries_of_rocksdb_are_byte_for_byte_the_same(corpus: Path, case: str) -> None:
    count = 0
    for source, data in canonical_sources(corpus / "lab" / case / "savepoint"):
        entries = entries_of(source, data)
        random.Random(1).shuffle(entries)

        assert rewritten(source, entries) == (data, source.offsets.offsets)
        count += len(entries)
    assert count > 1000


@pytest.mark.parametrize("case", UNORDERED)
def test_entries_of_the_hashmap_are_the_same_in_the_order_of_rocksdb(corpus: Path, case: str) -> None:
    for source, data in canonical_sources(corpus / "lab" / case / "savepoint"):
        entries = entries_of(source, data)

        again, offsets = rewritten(source, entries)

        found = replace(source, offsets=replace(source.offsets, offsets=offsets))
        assert entries_of(found, again) == sorted(entries)
        assert again[: source.header().size] == data[: source.header().size]
        assert [bool(offset) for offset in offsets] == [bool(offset) for _, offset in source.offsets]


#: RocksDB of 2.2 stores a null in a map as its flag alone; others write the serializer's form of null behind it.
NULLS_ALONE = {ORDERED[1]: {"map-ss", "map-void"}}


@pytest.mark.parametrize("case", ORDERED)
def test_columns_become_the_entries_that_they_came_from(corpus: Path, case: str) -> None:
    path = corpus / "lab" / case / "savepoint"
    savepoint = Snapshot.open(str(path))
    same, different = set(), set()
    for operator in savepoint.metadata.operators:
        sources = [source for source in keyed_sources(savepoint, operator) if isinstance(source, KeyedSource)]
        header = sources[0].header() if sources else None
        if header is None or not any(map(is_keyed, header.states)):
            continue
        request = TableRequest(
            str(path),
            uid_hash=operator.operator_id.hex,
            decode=EXACT,
            table="keyed_state",
            include_ttl=True,
            include_key_group=True,
        )
        batch = read(request).combine_chunks().to_batches()[0]
        there = entries_by_state(sources)
        for meta in header.states:
            if is_keyed(meta) and "KRYO" not in meta.value_serializer.flink_type:
                found = from_columns(batch, header, meta, operator.max_parallelism)
                (same if found == there.get(meta.name, []) else different).add(meta.name)
    assert different == NULLS_ALONE.get(case, set())
    assert len(same) > 30


def is_keyed(meta: StateMetaInfoSnapshot) -> bool:
    """Whether a state has one row per key."""
    return meta.kind is BackendStateType.KEY_VALUE and "Void" in meta.namespace_serializer.snapshot_class


def entries_by_state(sources: list[KeyedSource]) -> dict[str, list[Entry]]:
    """The entries of each state in order, as those of the only state of a stream."""
    found: dict[str, list[Entry]] = {}
    for source in sources:
        names = [state.name for state in source.header().states]
        with source.location.open() as file:
            for group, state, key, value in entries_of(source, file.read(0, file.size)):
                found.setdefault(names[state], []).append((group, 0, key, value))
    return {name: sorted(entries) for name, entries in found.items()}


def from_columns(
    batch: pa.RecordBatch, header: KeyedBackendHeader, meta: StateMetaInfoSnapshot, max_parallelism: int
) -> list[Entry]:
    """The entries of one state, from its column."""
    assert meta.name in batch.schema.names
    access = meta.name + LAST_ACCESS if meta.name + LAST_ACCESS in batch.schema.names else None
    kind, namespace = StateKind(meta.state_type), meta.namespace_serializer
    state = StateDescriptor(meta.name, kind, meta.value_serializer, namespace, meta.name, access)
    descriptor = KeyedDescriptor(
        ("key",),
        header.key_serializer,
        (state,),
        key_group="key_group" if "Model$" in header.key_serializer.flink_type else None,
    )
    codec, file, whole = KeyCodec(descriptor, max_parallelism), io.BytesIO(), KeyGroupRange(0, max_parallelism - 1)
    with (
        RowSorter(batch.schema, 1 << 20) as sorter,
        CanonicalKeyedStreamWriter(file, descriptor.header(), whole, max_parallelism, 1 << 20) as writer,
    ):
        keys = codec.encode(batch)
        sorter.add(keys.key_group, keys.key, batch)
        sink = ColumnSink(descriptor, writer, codec)
        for part in sorter.sorted():
            sink.add(part)
        offsets = writer.finish()
    location = InlineLocation("the stream", file.getvalue())
    source = KeyedSource(location, offsets, True, max_parallelism, "the operator")
    return entries_of(source, file.getvalue())
