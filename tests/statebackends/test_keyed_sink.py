"""Columns and raw entries to keyed streams: the bytes that Flink would have written, and what is refused."""

from __future__ import annotations

import io
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keyed_models import (
    INT,
    KEYED,
    LIST,
    LONG,
    MAP,
    STATES,
    STRING,
    TYPES,
    WINDOW,
    WINDOWS,
    Model,
    Written,
    by_key,
    expected,
    models,
    one,
    registered,
    write,
)

from pyspark_savepoint.formats.byte_source import InlineLocation
from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import DuplicateKeyError, ValueRangeError
from pyspark_savepoint.formats.key_groups import KeyGroupRange, key_group_for_hash
from pyspark_savepoint.formats.keyed_writer import FullKeyedStreamWriter
from pyspark_savepoint.formats.meta_info import KeyedBackendHeader
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.collections import ListSerializer, MapSerializer
from pyspark_savepoint.formats.serializers.ttl import TtlSerializer
from pyspark_savepoint.formats.serializers.tuples import TupleSerializer
from pyspark_savepoint.statebackends.descriptors import NO_NAMESPACE, KeyedDescriptor, StateDescriptor, StateKind
from pyspark_savepoint.statebackends.key_codec import KeyCodec, entry_keys
from pyspark_savepoint.statebackends.keyed_sink import ColumnSink, EntrySink
from pyspark_savepoint.statebackends.keyed_sources import KeyedSource
from pyspark_savepoint.statebackends.sort import RowSorter

DESCRIPTORS = tuple(
    StateDescriptor(meta.name, StateKind(meta.state_type), meta.value_serializer, meta.namespace_serializer, meta.name)
    for meta in STATES
)
KEYED_STATES = KeyedDescriptor(("key",), LONG, DESCRIPTORS[:4])
WINDOW_STATES = KeyedDescriptor(("key",), LONG, DESCRIPTORS[4:], WINDOW, "window")


def batch_of(rows: list[dict[str, Any]], types: dict[str, pa.DataType]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema(list(types.items())))


def rows_of(model: Model) -> list[dict[str, Any]]:
    """A row per key, maps as Arrow takes them."""
    return [
        {"key": key, **states, **({"by_name": list(states["by_name"].items())} if "by_name" in states else {})}
        for key, states in model.items()
    ]


def written(
    descriptor: KeyedDescriptor,
    batches: list[pa.RecordBatch],
    max_parallelism: int = 4,
    compressed: bool = False,
    batch_rows: int = 1 << 16,
    memory: int = 1 << 30,
) -> Written:
    """A stream of some rows."""
    file = io.BytesIO()
    codec = KeyCodec(descriptor, max_parallelism)
    whole = KeyGroupRange(0, max_parallelism - 1)
    with (
        RowSorter(batches[0].schema, memory) as sorter,
        FullKeyedStreamWriter(file, descriptor.header(compressed), whole, max_parallelism, memory) as writer,
    ):
        for batch in batches:
            keys = codec.encode(batch)
            sorter.add(keys.key_group, keys.key, batch)
        sink = ColumnSink(descriptor, writer, codec, "the operator")
        for part in sorter.sorted(batch_rows):
            sink.add(part)
        offsets = writer.finish()
    location = InlineLocation("the stream", file.getvalue())
    return Written(KeyedSource(location, offsets, True, max_parallelism, "the operator"), max_parallelism)


def stream(source: Written) -> tuple[bytes, tuple[int, ...]]:
    location = source.source.location
    assert isinstance(location, InlineLocation)
    return location.data, source.source.offsets.offsets


FORMS = {
    "compressed": st.booleans(),
    "size": st.integers(1, 5),
    "batch_rows": st.integers(1, 9),
    "memory": st.sampled_from([1, 1 << 30]),
}


@given(model=models, **FORMS)
def test_keyed_state_is_what_rocksdb_writes(
    model: Model, compressed: bool, size: int, batch_rows: int, memory: int
) -> None:
    types = {name: TYPES[name] for name in ("key", *KEYED)}
    rows = rows_of({key: {name: s[name] for name in KEYED if name in s} for key, s in model.items()})
    random.Random(1).shuffle(rows)
    batches = [batch_of(rows[low : low + size], types) for low in range(0, len(rows), size)] or [batch_of([], types)]

    found = written(KEYED_STATES, batches, 4, compressed, batch_rows, memory)

    # A null name is no entry, whereas Flink can hold a null in a value state.
    without = {key: {name: s[name] for name in KEYED if s.get(name) is not None} for key, s in model.items()}
    assert by_key(found.rows(KEYED, 1 << 20)) == expected(without, KEYED)
    if not compressed:
        assert stream(found) == by_hand(KEYED_STATES, without)


def by_hand(descriptor: KeyedDescriptor, model: Model) -> tuple[bytes, tuple[int, ...]]:
    """The stream of a model as the specification has it, with the head of a descriptor."""
    data, offsets = stream(write(model, heap=False))
    whole, part = KeyedBackendHeader(False, LONG, STATES), descriptor.header()
    sizes = [len(head_of(head)) for head in (whole, part)]
    moved = tuple(offset + sizes[1] - sizes[0] if offset else 0 for offset in offsets)
    return head_of(part) + data[sizes[0] :], moved


def head_of(header: KeyedBackendHeader) -> bytes:
    from pyspark_savepoint.formats.data_view import DataOutputView

    view = DataOutputView()
    header.write(view)
    return view.getvalue()
