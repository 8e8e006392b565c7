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

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import DuplicateKeyError, ValueRangeError
from pyspark_savepoint.formats.io.byte_source import InlineLocation
from pyspark_savepoint.formats.keyed.canonical_writer import CanonicalKeyedStreamWriter
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, key_group_for_hash
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer, MapSerializer
from pyspark_savepoint.formats.serializers.composite.fields import TupleSerializer
from pyspark_savepoint.formats.serializers.runtime.ttl import TtlSerializer
from pyspark_savepoint.statebackends.rows.descriptors import (
    NO_NAMESPACE,
    KeyedDescriptor,
    StateDescriptor,
    StateKind,
)
from pyspark_savepoint.statebackends.rows.key_codec import KeyCodec, entry_keys
from pyspark_savepoint.statebackends.rows.sorting import RowSorter
from pyspark_savepoint.statebackends.sources.keyed_sources import KeyedSource
from pyspark_savepoint.statebackends.writing.row_forms import ColumnSink, EntrySink
from tests.statebackends.keyed_models import (
    INT,
    KEYED,
    LONG,
    STATES,
    STRING,
    TYPES,
    WINDOW,
    Model,
    Written,
    by_key,
    expected,
    models,
    one,
    write,
)

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
        CanonicalKeyedStreamWriter(file, descriptor.header(compressed), whole, max_parallelism, memory) as writer,
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
    view = DataOutputView()
    header.write(view)
    return view.getvalue()


@given(model=models, compressed=st.booleans(), batch_rows=st.integers(1, 9))
def test_windows_are_rows_of_key_and_window(model: Model, compressed: bool, batch_rows: int) -> None:
    types = {name: TYPES[name] for name in ("key", "window", "sums")}
    rows = [
        {"key": key, "window": {"start": window[0], "end": window[1]}, "sums": value}
        for key, states in model.items()
        for window, value in states.get("sums", {}).items()
    ]

    found = written(WINDOW_STATES, [batch_of(rows, types)], 4, compressed, batch_rows)

    assert by_key(found.rows(("sums",), 1 << 20)) == expected(model, ("sums",))


def composite(serializer: TypeSerializer, key: Any, namespace: TypeSerializer, value: Any) -> bytes:
    """A composite key where both parts are variable: each with its length, little-endian, behind it."""
    parts = [one(serializer, key), one(namespace, value)]
    lengths = [len(part).to_bytes(2, "little").rstrip(b"\0") or b"\0" for part in parts]
    return parts[0] + lengths[0] + parts[1] + lengths[1]


@pytest.mark.parametrize("size", [0, 1, 254, 255, 300, 65000])
def test_lengths_behind_variable_keys_and_namespaces(size: int) -> None:
    state = StateDescriptor("s", StateKind.VALUE, LONG, STRING, "s")
    descriptor = KeyedDescriptor(("key",), STRING, (state,), STRING, "namespace")
    rows = batch_of(
        [{"key": "k" * size, "namespace": "n" * 3, "s": 1}] * 2, {"key": pa.string(), "namespace": pa.string()}
    )
    codec = KeyCodec(descriptor, 128)

    keys = codec.encode(rows)

    assert keys.key.to_pylist() == [composite(STRING, "k" * size, STRING, "nnn")] * 2
    assert codec.describe(keys.key[0].as_py()) == f"{'k' * size!r}, namespace 'nnn'"
    hashes = STRING.java_hash(rows.column(0)).tolist()
    assert keys.key_group.tolist() == [key_group_for_hash(code, 128) for code in hashes]


def test_several_key_columns_are_a_tuple() -> None:
    pair = TupleSerializer.of(LONG, STRING)
    descriptor = KeyedDescriptor(("id", "country"), pair, DESCRIPTORS[:1])
    rows = batch_of(
        [{"total": 9, "country": "de", "id": 1}] * 3, {"total": pa.int64(), "country": pa.string(), "id": pa.int64()}
    ).slice(1, 2)
    codec = KeyCodec(descriptor, 128)

    keys = codec.encode(rows)

    assert keys.key.to_pylist() == [one(LONG, 1) + one(STRING, "de") + b"\0"] * 2
    whole = pa.array([{"f0": 1, "f1": "de"}], pair.arrow_type(DecodeOptions()))
    assert keys.key_group[0] == key_group_for_hash(int(pair.java_hash(whole)[0]), 128)
    assert codec.describe(keys.key[0].as_py()) == "{'f0': 1, 'f1': 'de'}"


def test_a_column_may_say_the_key_group() -> None:
    descriptor = KeyedDescriptor(("key",), LONG, DESCRIPTORS[:1], key_group="group")
    types = {"key": pa.int64(), "group": pa.int32()}

    keys = KeyCodec(descriptor, 8).encode(batch_of([{"key": 1, "group": 6}], types))
    assert keys.key_group.tolist() == [6]
    with pytest.raises(ValueRangeError, match="'group' has a key group out of range"):
        KeyCodec(descriptor, 8).encode(batch_of([{"key": 1, "group": 8}], types))
    with pytest.raises(ValueRangeError, match="'group' is NULL"):
        KeyCodec(descriptor, 8).encode(batch_of([{"key": 1, "group": None}], types))


@pytest.mark.parametrize("column", ["key", "window"])
def test_null_keys_and_windows_are_refused(column: str) -> None:
    row = {"key": 1, "window": {"start": 0, "end": 1}, "sums": 1, column: None}
    with pytest.raises(ValueRangeError, match=f"'{column}' is NULL") as caught:
        KeyCodec(WINDOW_STATES, 4).encode(batch_of([row], {name: TYPES[name] for name in row}))
    assert f"leave the rows out in which {column!r} is NULL" in str(caught.value)


def refusal(descriptor: KeyedDescriptor, rows: list[dict[str, Any]], batch_rows: int, memory: int) -> DuplicateKeyError:
    types = {name: TYPES[name] for name in rows[0]}
    with pytest.raises(DuplicateKeyError) as caught:
        written(descriptor, [batch_of([row], types) for row in rows], 4, False, batch_rows, memory)
    return caught.value


@pytest.mark.parametrize("batch_rows", [1, 100])
@pytest.mark.parametrize("memory", [1, 1 << 30])
def test_a_key_twice_is_refused_by_name(batch_rows: int, memory: int) -> None:
    rows = [{"key": key, "total": 1} for key in [*range(50), 42]]
    error = refusal(KeyedDescriptor(("key",), LONG, DESCRIPTORS[:1]), rows, batch_rows, memory)

    group = key_group_for_hash(42, 4)
    assert error.facts["found"] == f"key 42 again, in key group {group}"
    assert error.facts["operator"] == "the operator"
    assert error.facts["remedy"].startswith("one row per key: aggregate, or drop duplicates")


def test_a_key_may_have_many_windows_but_each_once() -> None:
    rows = [{"key": 1, "window": {"start": i % 3, "end": 9}, "sums": i} for i in range(4)]
    error = refusal(WINDOW_STATES, rows, 100, 1 << 30)

    assert error.facts["found"].startswith("key 1, window {'start': 0, 'end': 9} again")


def test_a_map_with_a_key_twice_is_refused() -> None:
    rows = [{"key": 7, "by_name": [("b", 1), ("a", 2), ("b", 3)]}]
    error = refusal(KeyedDescriptor(("key",), LONG, DESCRIPTORS[3:4]), rows, 100, 1 << 30)

    assert (error.facts["found"], error.facts["key"]) == ("'b' again", "7")
    assert error.facts["state"] == "by_name"


def test_user_keys_are_in_the_order_of_their_bytes() -> None:
    names = ["b", "a", "ü", "aa", ""]
    rows = [{"key": 5, "by_name": [(name, i) for i, name in enumerate(names)]}]
    types = {"key": TYPES["key"], "by_name": TYPES["by_name"]}
    data, _ = stream(written(KeyedDescriptor(("key",), LONG, DESCRIPTORS[3:4]), [batch_of(rows, types)], 1))

    places = [data.index(one(LONG, 5) + b"\0" + one(STRING, name) + bytes([0, 0, 0, 9])) for name in names]
    in_order = sorted(names, key=lambda name: one(STRING, name))
    assert [name for _, name in sorted(zip(places, names, strict=True))] == in_order


def test_a_null_within_a_value_that_has_no_byte_for_it_names_the_state() -> None:
    types = {"key": pa.int64(), "items": TYPES["items"]}
    with pytest.raises(ValueRangeError) as caught:
        written(KeyedDescriptor(("key",), LONG, DESCRIPTORS[2:3]), [batch_of([{"key": 1, "items": [1, None]}], types)])
    assert caught.value.facts["state"] == "items"
    assert caught.value.facts["operator"] == "the operator"


TTL_STATES = (
    StateDescriptor("v", StateKind.VALUE, TtlSerializer.of(LONG), NO_NAMESPACE, "v", "v_at"),
    StateDescriptor("l", StateKind.LIST, ListSerializer.of(TtlSerializer.of(INT)), NO_NAMESPACE, "l", "l_at"),
    StateDescriptor("m", StateKind.MAP, MapSerializer.of(STRING, TtlSerializer.of(STRING)), NO_NAMESPACE, "m", "m_at"),
)
TTL_TYPES = {
    "key": pa.int64(),
    "v": pa.int64(),
    "v_at": pa.timestamp("us", "UTC"),
    "l": pa.list_(pa.field("element", pa.int32())),
    "l_at": pa.list_(pa.timestamp("us", "UTC")),
    "m": pa.map_(pa.string(), pa.string()),
    "m_at": pa.map_(pa.string(), pa.timestamp("us", "UTC")),
}


def test_values_with_the_time_of_their_last_access() -> None:
    rows = [
        {
            "key": 1, "v": 5, "v_at": 1000, "l": [1, 2], "l_at": [2000, 3000],
            "m": [("b", None), ("a", "x")], "m_at": [("b", 4000), ("a", 5000)],
        },
        {"key": 2, "v": None, "v_at": None, "l": None, "l_at": None, "m": None, "m_at": None},
    ]  # fmt: skip
    descriptor = KeyedDescriptor(("key",), LONG, TTL_STATES)
    data, offsets = stream(written(descriptor, [batch_of(rows, TTL_TYPES)], 1))

    def entry(key: bytes, value: bytes, last: bool) -> bytes:
        composite_key = bytes([128 if last else 0]) + one(LONG, 1) + b"\0" + key
        return len(composite_key).to_bytes(4, "big") + composite_key + len(value).to_bytes(4, "big") + value

    expected_bytes = (
        b"\0\0" + entry(b"", one(LONG, 1) + one(LONG, 5), True)
        + b"\0\1" + entry(b"", one(LONG, 2) + one(INT, 1) + b"," + one(LONG, 3) + one(INT, 2), True)
        + b"\0\2" + entry(one(STRING, "a"), b"\0" + one(LONG, 5) + one(STRING, "x"), False)
        + entry(one(STRING, "b"), b"\0" + one(LONG, 4) + one(STRING, None), True) + b"\xff\xff"
    )  # fmt: skip
    assert data[offsets[0] :] == expected_bytes


def test_as_many_times_of_last_access_as_values() -> None:
    rows = [{"key": 1, "v": None, "v_at": None, "l": [1, 2], "l_at": [1], "m": None, "m_at": None}]
    with pytest.raises(ValueRangeError, match="the number of last accesses differs") as caught:
        written(KeyedDescriptor(("key",), LONG, TTL_STATES), [batch_of(rows, TTL_TYPES)])
    assert caught.value.facts["state"] == "l"
    same = [("a", "b"), ("c", "d")]
    rows = [{"key": 1, "v": None, "v_at": None, "l": None, "l_at": None, "m": same, "m_at": [("a", 1), ("b", 1)]}]
    with pytest.raises(ValueRangeError, match=r"has other keys than its map(.|\n)*key: 1"):
        written(KeyedDescriptor(("key",), LONG, TTL_STATES), [batch_of(rows, TTL_TYPES)])


@pytest.mark.parametrize("state", ["l", "m"])
def test_null_times_of_last_access_name_the_key(state: str) -> None:
    value: list[Any] = [1, 2] if state == "l" else [("a", "b"), ("c", "d")]
    nothing = dict.fromkeys(("v", "v_at", "l", "l_at", "m", "m_at"))
    times = [5, 6] if state == "l" else [("a", 5), ("c", 6)]
    rows = [{"key": 1, **nothing, state: value, f"{state}_at": times}, {"key": 77, **nothing, state: value}]
    with pytest.raises(ValueRangeError, match="the number of last accesses differs") as caught:
        written(KeyedDescriptor(("key",), LONG, TTL_STATES), [batch_of(rows, TTL_TYPES)])
    facts = caught.value.facts
    assert (facts["state"], facts["key"], facts["expected"], facts["found"]) == (state, "77", "2", "0")


raw_entries = st.dictionaries(
    st.tuples(st.integers(0, 3), st.integers(0, 4), st.binary(min_size=1, max_size=9)),
    st.binary(max_size=9),
    max_size=30,
)


def write_entries(entries: list[tuple[int, int, bytes, bytes]], batch_rows: int) -> tuple[bytes, tuple[int, ...]]:
    """Entries of (key group, state, composite key, value) as a stream."""
    file, values = io.BytesIO(), pa.schema([pa.field("value", pa.binary())])
    header = KeyedBackendHeader(False, LONG, STATES)
    with (
        RowSorter(values, 1 << 20) as sorter,
        CanonicalKeyedStreamWriter(file, header, KeyGroupRange(0, 3), 4, 1 << 20) as writer,
    ):
        states = np.array([entry[1] for entry in entries], np.int32)
        keys = entry_keys(states, pa.array([entry[2] for entry in entries], pa.binary()))
        rows = pa.record_batch([pa.array([entry[3] for entry in entries], pa.binary())], schema=values)
        sorter.add(np.array([entry[0] for entry in entries], np.int32), keys, rows)
        sink = EntrySink(writer, [meta.name for meta in STATES], "the operator")
        for batch in sorter.sorted(batch_rows):
            sink.add(batch)
        offsets = writer.finish().offsets
    return file.getvalue(), offsets


@given(raw_entries, st.integers(1, 9))
def test_raw_entries_pass_through(content: dict[tuple[int, int, bytes], bytes], batch_rows: int) -> None:
    entries = [(*place, value) for place, value in content.items()]
    random.Random(3).shuffle(entries)
    data, offsets = write_entries(entries, batch_rows)

    out = bytearray(head_of(KeyedBackendHeader(False, LONG, STATES)))
    for group in range(4):
        of_group = sorted(entry[1:] for entry in entries if entry[0] == group)
        assert offsets[group] == (len(out) if of_group else 0)
        for i, (state, key, value) in enumerate(of_group):
            first = i == 0 or of_group[i - 1][0] != state
            last = i == len(of_group) - 1 or of_group[i + 1][0] != state
            out += state.to_bytes(2, "big") if first else b""
            out += (len(key) + 1).to_bytes(4, "big") + bytes([group | (128 if last else 0)]) + key
            out += len(value).to_bytes(4, "big") + value
        out += b"\xff\xff" if of_group else b""
    assert data == out


@pytest.mark.parametrize("batch_rows", [1, 9])
def test_an_entry_twice_is_refused(batch_rows: int) -> None:
    with pytest.raises(DuplicateKeyError) as caught:
        write_entries([(1, 2, b"\x0a\x0b", b"x"), (1, 2, b"\x0a\x0b", b"y"), (1, 3, b"\x0a\x0b", b"x")], batch_rows)
    assert caught.value.facts["state"] == "items"
    assert caught.value.facts["found"] == "key of bytes 0a0b again, in key group 1"
