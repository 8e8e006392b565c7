"""Registered states as columns: kinds of state, null values of maps, times of last access, bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import DecodeOptions, Origin
from pyspark_savepoint.formats.errors import CorruptStateError, UndecodableStateError, ValueRangeError
from pyspark_savepoint.formats.keyed import keyed_block
from pyspark_savepoint.formats.keyed.keyed_block import CANONICAL, HEAP, KeyedBlock, binary_column
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, StateMetaInfoSnapshot
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.runtime.ttl import TtlAwareSerializer, TtlSerializer
from pyspark_savepoint.statebackends.rows.state_column import (
    StateColumn,
    has_ttl,
    repeat_index,
    split_ttl,
    split_ttl_type,
    unit_serializers,
    value_type_of,
)
from pyspark_savepoint.statebackends.sources.keyed_plan import KeyedSpec, KeyedSplit
from pyspark_savepoint.statebackends.tables.keyed_table import KeyedPartition
from tests.statebackends.keyed_models import INT, LIST, LONG, MAP, STRING, Model, basic, one, registered, write

OPTIONS = DecodeOptions()
TTL_AWARE = "org.apache.flink.runtime.state.ttl.TtlAwareSerializerSnapshot"


def block_of(values: list[bytes], keys: list[bytes] | None = None) -> KeyedBlock:
    """A block whose entries have these values (and user keys)."""
    keys = keys or [b""] * len(values)
    buffer = np.frombuffer(bytearray(b"".join(values) + b"".join(keys)), np.uint8)
    value_ends = np.cumsum([len(value) for value in values], dtype=np.int64)
    key_ends = value_ends[-1] + np.cumsum([len(key) for key in keys], dtype=np.int64)
    value_starts = value_ends - np.array([len(value) for value in values])
    key_starts = key_ends - np.array([len(key) for key in keys])
    nothing = np.zeros(len(values), np.int64)
    number = np.zeros(len(values), np.int32)
    return KeyedBlock(
        CANONICAL, (), buffer, Origin(), number, number, nothing, nothing, nothing, nothing,
        key_starts, key_ends, value_starts, value_ends, nothing, nothing,
    )  # fmt: skip


def decoded(column: StateColumn, values: list[bytes]) -> list[Any]:
    block = block_of(values)
    array = column.decode_values(block, block.value_start, block.value_end)
    array.validate(full=True)
    assert array.type == column.arrow_type()
    found: list[Any] = array.to_pylist()
    return found


def test_a_list_has_delimiters_in_the_full_format_and_a_count_on_the_heap() -> None:
    meta = registered("items", "LIST", LIST)
    elements = [one(INT, number) for number in (1, 0x2C2C2C2C, -1)]

    assert decoded(StateColumn(meta, CANONICAL, OPTIONS), [b",".join(elements), elements[0]]) == [
        [1, 0x2C2C2C2C, -1],
        [1],
    ]
    assert decoded(StateColumn(meta, HEAP, OPTIONS), [one(LIST, [1, 2]), one(LIST, [])]) == [[1, 2], []]


@pytest.mark.parametrize("damage", [b"", b"\0\0\0", b"\0\0\0\1,", b"\0\0\0\1,\0\0\0"])
def test_a_list_that_does_not_end_with_an_element_is_refused(damage: bytes) -> None:
    with pytest.raises(CorruptStateError):
        decoded(StateColumn(registered("items", "LIST", LIST), CANONICAL, OPTIONS), [one(INT, 5), damage])


def test_a_null_of_a_map_may_be_followed_by_anything() -> None:
    column = StateColumn(registered("m", "MAP", MAP), CANONICAL, OPTIONS)
    values = [b"\0" + one(LONG, 7), b"\1", b"\1" + one(LONG, 0)]
    block = block_of(values, [one(STRING, name) for name in "abc"])

    keys, items = column.decode_map_entries(block, np.arange(3))

    assert (keys.to_pylist(), items.to_pylist()) == (["a", "b", "c"], [7, None, None])


def test_a_map_value_with_bytes_left_is_refused() -> None:
    column = StateColumn(registered("m", "MAP", MAP), CANONICAL, OPTIONS)
    for value in (b"\0" + one(LONG, 7) + b"\0", b"\2", b""):
        with pytest.raises(CorruptStateError):
            column.decode_map_entries(block_of([value], [one(STRING, "a")]), np.arange(1))


def test_raw_maps_are_the_same_in_both_formats() -> None:
    model: Model = {5: {"by_name": {"a": 1, "bc": None}}}
    raw = {}
    for heap in (False, True):
        written = write(model, heap=heap)
        meta = registered("by_name", "MAP", MAP)
        column = StateColumn(meta, HEAP if heap else CANONICAL, OPTIONS, raw=True)
        assert column.arrow_type() == pa.map_(pa.binary(), pa.binary())
        raw[heap] = _raw_rows(written)

    assert raw[False] == raw[True] == [{b"\2a": one(LONG, 1), b"\3bc": None}]


def _raw_rows(written: Any) -> list[dict[bytes, bytes | None]]:
    schema = pa.schema([("by_name", pa.map_(pa.binary(), pa.binary()))])
    spec = KeyedSpec(("by_name",), False, frozenset(["by_name"]), OPTIONS, 1000, 1 << 20)
    split = KeyedSplit((written.source,), tuple(written.source.key_group_range))
    batches = KeyedPartition(split, spec, schema, None, 1, 4).batches()
    return [dict(entries) for batch in batches for entries in batch.column("by_name").to_pylist()]


# -- time to live --------------------------------------------------------------------------------------------------

ACCESS = 1_700_000_000_123


def ttl_of(value: TypeSerializer) -> TypeSerializer:
    return TtlSerializer.of(value)


@pytest.mark.parametrize(
    ("meta", "ttl"),
    [
        (registered("v", "VALUE", LONG), False),
        (registered("v", "VALUE", ttl_of(LONG)), True),
        (registered("v", "VALUE", TtlAwareSerializer(TTL_AWARE, 1, True, ttl_of(LONG))), True),
        (registered("v", "VALUE", TtlAwareSerializer(TTL_AWARE, 1, False, LONG)), False),
        (registered("l", "LIST", replace(LIST, nested=(ttl_of(INT),))), True),
        (registered("m", "MAP", replace(MAP, nested=(STRING, ttl_of(LONG)))), True),
        (registered("m", "MAP", MAP), False),
    ],
)
def test_which_states_have_times_of_last_access(meta: StateMetaInfoSnapshot, ttl: bool) -> None:
    assert has_ttl(meta) is ttl


def test_values_with_and_without_their_last_access() -> None:
    meta = registered("v", "VALUE", ttl_of(LONG))
    data = [ACCESS.to_bytes(8, "big") + one(LONG, 7)]

    assert decoded(StateColumn(meta, CANONICAL, OPTIONS), data) == [7]
    raw = StateColumn(meta, CANONICAL, DecodeOptions(timestamps="raw", ttl=True))
    assert decoded(raw, data) == [{"value": 7, "last_access": ACCESS}]


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        (lambda part: part, [({"value": 1, "last_access": 2}, 1, 2), (None, None, None)]),
        (
            lambda part: pa.list_(pa.field("element", part)),
            [([{"value": 1, "last_access": 2}], [1], [2]), (None, None, None), ([], [], [])],
        ),
        (
            lambda part: pa.map_(pa.string(), part),
            [
                ([("a", {"value": 1, "last_access": 2})], [("a", 1)], [("a", 2)]),
                (None, None, None),
                ([("b", {"value": None, "last_access": 3})], [("b", None)], [("b", 3)]),
            ],
        ),
    ],
    ids=["value", "list", "map"],
)
@pytest.mark.parametrize("low", [0, 1])
def test_values_and_times_become_two_columns(unit: Any, expected: list[Any], low: int) -> None:
    kind = unit(pa.struct([("value", pa.int64()), ("last_access", pa.int64())]))
    array = pa.array([row[0] for row in expected], kind)[low:]

    parts = split_ttl(array)

    for i, (part, type_) in enumerate(zip(parts, split_ttl_type(kind), strict=True), start=1):
        part.validate(full=True)
        assert part.type == type_
        assert part.to_pylist() == [row[i] for row in expected][low:]


# -- what a state is made of ---------------------------------------------------------------------------------------


def test_units_of_the_asynchronous_state_api() -> None:
    """Since Flink 2 a list is registered with its element's serializer, since 2.1 a map with its two."""
    v2 = BackendStateType.KEY_VALUE_V2
    elements = replace(registered("l", "LIST", INT), kind=v2)
    entries = replace(registered("m", "MAP", LONG), kind=v2)
    entries = replace(entries, serializers={**entries.serializers, "USER_KEY_SERIALIZER": STRING})

    assert unit_serializers(elements) == (INT,)
    assert unit_serializers(entries) == (STRING, LONG)
    assert (value_type_of(elements), value_type_of(entries)) == ("LIST<INT>", "MAP<STRING, LONG>")
    assert StateColumn(elements, CANONICAL, OPTIONS).arrow_type() == pa.list_(pa.field("element", pa.int32()))
    assert decoded(StateColumn(elements, CANONICAL, OPTIONS), [one(INT, 1) + b"," + one(INT, 2)]) == [[1, 2]]


def test_a_map_whose_serializer_tells_no_parts_is_refused() -> None:
    with pytest.raises(UndecodableStateError, match="'m'"):
        unit_serializers(registered("m", "MAP", basic("Long")))


def test_indices_of_elements() -> None:
    assert repeat_index(np.array([2, 0, 3])).to_pylist() == [0, 1, 0, 1, 2]


def test_bytes_beyond_what_a_column_can_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_block, "MAX_BINARY", 5)
    buffer = np.zeros(10, np.uint8)

    assert binary_column(buffer, np.array([0]), np.array([5])).to_pylist() == [bytes(5)]
    with pytest.raises(ValueRangeError, match="2 GiB"):
        binary_column(buffer, np.array([0, 0]), np.array([5, 1]))
