"""Keyed state as a dictionary, written in both formats and read back: what any path through the readers must give.

An operator has keys LONG and five states: ``total`` (value LONG), ``name`` (value STRING), ``items`` (list INT),
``by_name`` (map STRING to LONG, with nulls), and ``sums`` (reducing LONG per window).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cramjam
import pyarrow as pa
from hypothesis import strategies as st

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.io.byte_source import InlineLocation
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, KeyGroupRangeOffsets, key_group_for_hash
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer, MapSerializer
from pyspark_savepoint.formats.serializers.registry import snapshot_reader
from pyspark_savepoint.statebackends.sources.keyed_plan import KeyedSpec, KeyedSplit
from pyspark_savepoint.statebackends.sources.keyed_sources import AnyKeyedSource, KeyedSource
from pyspark_savepoint.statebackends.tables.keyed_table import KeyedPartition
from pyspark_savepoint.statebackends.tables.keys import encode

BASE = "org.apache.flink.api.common.typeutils.base."
VOID_NAMESPACE = "org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot"
TIME_WINDOW = "org.apache.flink.streaming.api.windowing.windows.TimeWindow$Serializer$TimeWindowSerializerSnapshot"


def simple(name: str) -> TypeSerializer:
    """A serializer without parameters, by its snapshot class."""
    view = DataOutputView()
    view.write_utf(name)
    view.write_i32(3)
    return snapshot_reader(DataInputView(view.getvalue())).versioned()


def basic(stem: str) -> TypeSerializer:
    """LongSerializer and its like."""
    return simple(f"{BASE}{stem}Serializer${stem}SerializerSnapshot")


LONG, INT, STRING = basic("Long"), basic("Int"), basic("String")
VOID, WINDOW = simple(VOID_NAMESPACE), simple(TIME_WINDOW)
LIST = ListSerializer(BASE + "ListSerializerSnapshot", 3, 1, (INT,))
MAP = MapSerializer(BASE + "MapSerializerSnapshot", 3, 1, (STRING, LONG))
RAW = DecodeOptions(timestamps="raw")
WINDOWS = pa.struct([("start", pa.int64()), ("end", pa.int64())])


def registered(name: str, kind: str, value: TypeSerializer, namespace: TypeSerializer = VOID) -> StateMetaInfoSnapshot:
    """A registered state."""
    serializers = {"VALUE_SERIALIZER": value, "NAMESPACE_SERIALIZER": namespace}
    return StateMetaInfoSnapshot(name, BackendStateType.KEY_VALUE, {"KEYED_STATE_TYPE": kind}, serializers)


STATES = (
    registered("total", "VALUE", LONG),
    registered("name", "VALUE", STRING),
    registered("items", "LIST", LIST),
    registered("by_name", "MAP", MAP),
    registered("sums", "REDUCING", LONG, WINDOW),
)
KEYED = ("total", "name", "items", "by_name")
TYPES = {
    "key": pa.int64(),
    "window": WINDOWS,
    "total": pa.int64(),
    "name": pa.string(),
    "items": pa.list_(pa.field("element", pa.int32())),
    "by_name": pa.map_(pa.string(), pa.int64()),
    "sums": pa.int64(),
}
Model = dict[int, dict[str, Any]]

longs = st.integers(-(2**63), 2**63 - 1)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "total": longs,
    "name": st.none() | names,
    "items": st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=5),
    "by_name": st.dictionaries(names, st.none() | longs, min_size=1, max_size=4),
    "sums": st.dictionaries(st.tuples(longs, longs), longs, min_size=1, max_size=3),
}
#: Keys with some of the states each.
models: st.SearchStrategy[Model] = st.dictionaries(
    st.integers(-20, 20) | longs, st.fixed_dictionaries({}, optional=dict(VALUES)).filter(bool), max_size=12
)


def one(serializer: TypeSerializer, value: Any) -> bytes:
    """The bytes of a value."""
    kind = serializer.arrow_type(DecodeOptions())
    data: bytes = encode(serializer, pa.array([value], kind))[0].as_py()
    return data


@dataclass(frozen=True)
class Written:
    """A stream of a model, described as a handle would."""

    source: AnyKeyedSource
    max_parallelism: int

    def rows(self, states: Sequence[str], window: int, batch_rows: int = 1000) -> list[dict[str, Any]]:
        """The rows of a table of some states, read in windows of some bytes."""
        namespaced = states == ("sums",)
        names = ["key", *(["window"] if namespaced else []), *states]
        schema = pa.schema([pa.field(name, TYPES[name]) for name in names])
        spec = KeyedSpec(tuple(states), namespaced, frozenset(), RAW, batch_rows, window)
        split = KeyedSplit((self.source,), tuple(self.source.key_group_range))
        partition = KeyedPartition(split, spec, schema, None, 1, self.max_parallelism)
        rows: list[dict[str, Any]] = []
        for batch in partition.batches():
            batch.validate(full=True)
            assert 0 < batch.num_rows <= batch_rows
            rows += batch.to_pylist()
        return rows


def write(
    model: Model,
    *,
    heap: bool,
    compressed: bool = False,
    max_parallelism: int = 4,
    shuffle: random.Random | None = None,
) -> Written:
    """A stream of the model: entries sorted as RocksDB has them, or shuffled as the hashmap does."""
    header = DataOutputView()
    KeyedBackendHeader(compressed, LONG, STATES).write(header)
    data = bytearray(header.getvalue())
    groups: dict[int, Model] = {group: {} for group in range(max_parallelism)}
    hashes = LONG.java_hash(pa.array(list(model), pa.int64())).tolist()
    for (key, states), code in zip(model.items(), hashes, strict=True):
        groups[key_group_for_hash(code, max_parallelism)][key] = states
    offsets = []
    for group, members in groups.items():
        content = _heap_group(members, compressed, shuffle) if heap else _full_group(group, members, shuffle)
        offsets.append(len(data) if content else 0)
        data += group.to_bytes(4, "big") if heap else b""
        data += bytes(cramjam.snappy.compress(content)) if compressed and not heap and content else content
    ranges = KeyGroupRangeOffsets(KeyGroupRange(0, max_parallelism - 1), tuple(offsets))
    location = InlineLocation("the stream", bytes(data))
    return Written(KeyedSource(location, ranges, not heap, max_parallelism, "the operator"), max_parallelism)


def _full_group(group: int, members: Model, shuffle: random.Random | None) -> bytes:
    out = bytearray()
    for state, meta in enumerate(STATES):
        entries = [
            (bytes([group]) + key, value)
            for number, values in members.items()
            if meta.name in values
            for key, value in _full_entries(meta.name, one(LONG, number), values[meta.name])
        ]
        shuffle.shuffle(entries) if shuffle else entries.sort()
        for i, (key, value) in enumerate(entries):
            out += state.to_bytes(2, "big") if i == 0 else b""
            flag = 128 if i == len(entries) - 1 else 0
            out += len(key).to_bytes(4, "big") + bytes([key[0] | flag]) + key[1:]
            out += len(value).to_bytes(4, "big") + value
    return bytes(out) + b"\xff\xff" if out else b""


def _full_entries(state: str, key: bytes, value: Any) -> list[tuple[bytes, bytes]]:
    if state == "by_name":
        none = b"\x01"
        return [
            (key + b"\0" + one(STRING, name), none if item is None else b"\0" + one(LONG, item))
            for name, item in value.items()
        ]
    if state == "sums":
        return [(key + _window(window), one(LONG, item)) for window, item in value.items()]
    if state == "items":
        return [(key + b"\0", b",".join(one(INT, item) for item in value))]
    return [(key + b"\0", one(LONG if state == "total" else STRING, value))]


def _window(window: tuple[int, int]) -> bytes:
    return b"".join(edge.to_bytes(8, "big", signed=True) for edge in window)


def _heap_group(members: Model, compressed: bool, shuffle: random.Random | None) -> bytes:
    out = bytearray()
    order = list(enumerate(STATES))
    if shuffle:
        shuffle.shuffle(order)
    for state, meta in order:
        entries = []
        for number, values in members.items():
            key = one(LONG, number)
            if meta.name == "sums":
                entries += [_window(w) + key + one(LONG, item) for w, item in values.get("sums", {}).items()]
            elif meta.name in values:
                value = values[meta.name]
                given = list(value.items()) if isinstance(value, dict) else value
                entries.append(b"\0" + key + one(meta.value_serializer, given))
        if shuffle:
            shuffle.shuffle(entries)
        table = state.to_bytes(2, "big") + len(entries).to_bytes(4, "big") + b"".join(entries)
        out += bytes(cramjam.snappy.compress(table)) if compressed else table
    return bytes(out)


def expected(model: Model, states: Sequence[str]) -> dict[Any, dict[str, Any]]:
    """What a table must have, by key (and window)."""
    if states == ("sums",):
        return {
            (key, *window): {"sums": value}
            for key, values in model.items()
            for window, value in values.get("sums", {}).items()
        }
    found = {}
    for key, values in model.items():
        row = {state: values.get(state) for state in states}
        if any(state in values for state in states):
            found[key,] = row
    return found


def by_key(rows: Sequence[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    """Rows by key (and window), maps as dictionaries; a key that comes twice fails."""
    found: dict[Any, dict[str, Any]] = {}
    for row in rows:
        place = (row.pop("key"), *row.pop("window", {}).values())
        assert place not in found, f"{place} twice"
        if row.get("by_name") is not None:
            assert len(dict(row["by_name"])) == len(row["by_name"])
            row["by_name"] = dict(row["by_name"])
        found[place] = row
    return found
