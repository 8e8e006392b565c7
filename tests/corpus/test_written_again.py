"""What Flink wrote, read and written again: the same bytes, from raw entries and from columns."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from corpus.expected import read
from pyspark_savepoint.formats import snappy
from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.keyed_writer import FullKeyedStreamWriter
from pyspark_savepoint.formats.meta_info import BackendStateType, KeyedBackendHeader
from pyspark_savepoint.formats.savepoint import Savepoint
from pyspark_savepoint.statebackends.descriptors import KeyedDescriptor, StateDescriptor, StateKind
from pyspark_savepoint.statebackends.key_codec import KeyCodec, entry_keys
from pyspark_savepoint.statebackends.keyed_sink import ColumnSink, EntrySink
from pyspark_savepoint.statebackends.keyed_sources import KeyedSource, keyed_sources
from pyspark_savepoint.statebackends.request import TableRequest
from pyspark_savepoint.statebackends.sort import RowSorter

#: Key group, state, composite key, value.
Entry = tuple[int, int, bytes, bytes]
VALUE = pa.schema([pa.field("value", pa.binary())])
ORDERED = ("1.18.1-rocksdb-canonical", "2.2.1-rocksdb-canonical-maxp1000")
UNORDERED = ("2.2.1-hashmap-canonical", "2.3.0-hashmap-canonical-compressed")


def canonical_sources(path: Path) -> Iterator[tuple[KeyedSource, bytes]]:
    """The canonical keyed streams of a snapshot, and their bytes."""
    savepoint = Savepoint.open(str(path))
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
        FullKeyedStreamWriter(file, header, source.key_group_range, source.max_parallelism, 1 << 16) as writer,
    ):
        for low in range(0, len(entries), 100):
            part = entries[low : low + 100]
            keys = entry_keys(np.array([e[1] for e in part], np.int32), pa.array([e[2] for e in part], pa.binary()))
            rows = pa.record_batch([pa.array([entry[3] for entry in part], pa.binary())], schema=VALUE)
            sorter.add(np.array([entry[0] for entry in part], np.int32), keys, rows)
        sink = EntrySink(writer, [state.name for state in header.states])
        for batch in sorter.sorted():
            sink.add(batch)
        return_value = writer.finish().offsets
    return file.getvalue(), return_value


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


def test_compressed_key_groups_hold_the_same_bytes(corpus: Path) -> None:
    (ordered, *_), (compressed, *_) = (
        [source for source, data in canonical_sources(corpus / "lab" / case / "savepoint") if entries_of(source, data)]
        for case in (ORDERED[0], UNORDERED[1])
    )
    assert compressed.header().compressed
    assert not ordered.header().compressed
