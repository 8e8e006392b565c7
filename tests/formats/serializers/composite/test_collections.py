"""Lists, maps, sets and object arrays against real Flink's bytes, and over whole columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.errors import CorruptStateError, UnsupportedVersionError, ValueRangeError
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.composite.collections import (
    GenericArraySerializer,
    LinkedListSerializer,
    ListSerializer,
    MapSerializer,
    SetSerializer,
    SortedMapSerializer,
)
from pyspark_savepoint.formats.serializers.composite.fields import TupleSerializer
from pyspark_savepoint.formats.serializers.composite.pojo import Member, PojoSerializer
from pyspark_savepoint.formats.serializers.registry import snapshot_reader
from tests.formats.serializers.codec_checks import (
    base,
    check_column,
    check_resources,
    check_value,
    decode,
    encode,
    kind,
    simple,
)
from tests.formats.serializers.composite_zoo import check_zoo, values_of

LONG, STRING, INT = base("Long"), base("String"), base("Int")
TABLE = "org.apache.flink.table.runtime.typeutils."


def linked(element: TypeSerializer) -> LinkedListSerializer:
    return LinkedListSerializer(TABLE + "LinkedListSerializer$LinkedListSerializerSnapshot", 3, 3, (element,))


def array(element: TypeSerializer) -> GenericArraySerializer:
    return GenericArraySerializer.of(element, "java.lang.Object")


def nullaware(key: TypeSerializer, value: TypeSerializer) -> TypeSerializer:
    return kind("NULL_AWARE_MAP", key, value)


def test_fixtures_of_flink(flink_resources: Path) -> None:
    check_resources(flink_resources, "list-serializer", ["Apache", "Flink"], 5)
    check_resources(flink_resources, "arraylist-serializer", ["Apache", "Flink"], 5)
    check_resources(flink_resources, "map-serializer", [(0, "0"), (1, "1"), (2, "2")], 5)
    check_resources(flink_resources, "linked-list-serializer", [42, -42, 0, 2**63 - 1, -(2**63)], 4)


def test_values_of_real_flink() -> None:
    check_zoo("list", "LIST<LONG>", [[1, -2, 1 << 40], []])
    check_zoo("liststr", "LIST<STRING>", [["a", None, "h\u00e9\U0001f600"], []])
    check_zoo("arraylist", "LIST<INT>", [[3, 4]])
    check_zoo("map", "MAP<STRING, LONG>", [[("z", None), ("k", 9)], []])
    check_zoo("set", "SET<LONG>", [[1, None, -3], []])
    check_zoo("setstr", "SET<STRING>", [["a", "ab"]])
    check_zoo("array", "OBJECT_ARRAY<INT>", [[1, None, 3]])
    check_zoo("linked", "LINKED_LIST<LONG>", [[1, None, 3, None, None, None, None, None, 9]])
    check_zoo("linkednomask", "LINKED_LIST<LONG>", [[1, 3]])
    check_zoo("nullaware", "NULL_AWARE_MAP<STRING, LONG>", [[{"key": None, "value": 1}, {"key": "k", "value": None}]])
    check_zoo("listview", "LIST_VIEW<LIST<LONG>>", [[]])
    check_zoo("mapview", "MAP_VIEW<MAP<STRING, LONG>>", [[]])


def test_a_sorted_map_keeps_its_comparator() -> None:
    serializer = check_zoo("sorted", "SORTED_MAP<LONG, STRING>", [[(1, "a"), (3, "c")]])
    assert isinstance(serializer, SortedMapSerializer)
    assert serializer.comparator.startswith(bytes.fromhex("aced0005"))


@pytest.mark.parametrize(("outer", "has_mask"), [("00000001", False), ("00000002", True), ("0000000300", False)])
def test_versions_of_linked_lists(outer: str, has_mask: bool) -> None:
    name = TABLE + "LinkedListSerializer$LinkedListSerializerSnapshot"
    long = "org.apache.flink.api.common.typeutils.base.LongSerializer$LongSerializerSnapshot"
    nested = bytes.fromhex("001457fd0000000100000001") + len(long).to_bytes(2, "big") + long.encode() + b"\0\0\0\3"
    payload = bytes.fromhex("000de704" + outer) + nested
    serializer = LinkedListSerializer.read_snapshot(name, 3, snapshot_reader(DataInputView(payload)))
    assert isinstance(serializer, LinkedListSerializer)
    assert serializer.has_null_mask is has_mask
    with pytest.raises(UnsupportedVersionError):
        LinkedListSerializer.read_snapshot(name, 3, snapshot_reader(DataInputView(b"\0\x0d\xe7\4\0\0\0\4" + nested)))


def rows(kind: pa.DataType, make: object) -> pa.Array:
    """500 rows; every seventh is empty."""
    values = [[] if row % 7 == 0 else [make(row, n) for n in range(row % 5)] for row in range(500)]  # type: ignore[operator]
    return pa.array(values, kind)


def nullable(row: int, n: int) -> str | None:
    return None if (row + n) % 3 == 0 else f"{row}h\u00e9\U0001f600{n}"


@pytest.mark.parametrize(
    "serializer",
    [
        ListSerializer.of(STRING),
        SetSerializer.of(STRING),
        array(STRING),
        linked(STRING),
    ],
)
def test_columns_of_lists(serializer: TypeSerializer) -> None:
    check_column(serializer, rows(serializer.arrow_type(DecodeOptions()), nullable))


@pytest.mark.parametrize("serializer", [array(LONG), linked(LONG), SetSerializer.of(LONG)])
def test_columns_of_numbers_with_nulls(serializer: TypeSerializer) -> None:
    make = lambda row, n: None if (row + n) % 4 == 0 else row - n  # noqa: E731
    check_column(serializer, rows(serializer.arrow_type(DecodeOptions()), make))


def test_columns_of_maps() -> None:
    serializer = MapSerializer.of(STRING, ListSerializer.of(MapSerializer.of(INT, STRING)))
    make = lambda row, n: (f"k{n}", None if n == 2 else [[(row, nullable(row, n))], []])  # noqa: E731
    check_column(serializer, rows(serializer.arrow_type(DecodeOptions()), make))
    aware = nullaware(STRING, LONG)
    entry = lambda row, n: {"key": nullable(row, n), "value": None if n == 1 else row}  # noqa: E731
    check_column(aware, rows(aware.arrow_type(DecodeOptions()), entry))


def test_columns_without_rows() -> None:
    aware = nullaware(LONG, LONG)
    for serializer in (ListSerializer.of(STRING), MapSerializer.of(STRING, LONG), linked(LONG), aware):
        column = pa.array([], serializer.arrow_type(DecodeOptions()))
        assert encode(serializer, column) == []
        assert len(decode(serializer)) == 0
        assert len(serializer.java_hash(column)) == 0 if serializer is not aware else True


def test_hashes_of_columns_with_nulls_and_slices() -> None:
    lists = pa.array([None, ["a", "b"], [], None], pa.list_(pa.field("element", pa.string())))
    assert ListSerializer.of(STRING).java_hash(lists).tolist() == [0, 4066, 1, 0]
    assert ListSerializer.of(STRING).java_hash(lists[1:2]).tolist() == [4066]
    maps = pa.array([None, [("a", 1)], []], pa.map_(pa.string(), pa.int64()))
    assert MapSerializer.of(STRING, LONG).java_hash(maps).tolist() == [0, 97 ^ 1, 0]


def test_a_null_key_cannot_be_shown() -> None:
    serializer = MapSerializer.of(STRING, LONG)
    with pytest.raises(ValueRangeError, match="null key") as caught:
        decode(serializer, bytes.fromhex("00000000"), bytes.fromhex("000000010001"))
    assert 'option("raw"' in str(caught.value)


def test_null_elements_without_bytes_for_them() -> None:
    column = pa.array([[1], [2, None]], pa.list_(pa.field("element", pa.int64())))
    with pytest.raises(ValueRangeError, match="cannot be null") as caught:
        ListSerializer.of(LONG).sizes(column)
    assert caught.value.facts["state"] == "element"
    with pytest.raises(ValueRangeError, match="cannot be null"):
        ListSerializer.of(LONG).sizes(pa.array([None], column.type))
    nested = pa.array([[("k", [None])]], pa.map_(pa.string(), column.type))
    with pytest.raises(ValueRangeError, match="cannot be null") as caught:
        MapSerializer.of(STRING, ListSerializer.of(LONG)).sizes(nested)
    assert caught.value.facts["state"] == "value.element"


@pytest.mark.parametrize("count", ["ffffffff", "7fffffff", "00000009"])
def test_counts_beyond_the_bytes(count: str) -> None:
    data = bytes.fromhex(count) + bytes(8)
    for serializer in (ListSerializer.of(LONG), array(LONG), nullaware(STRING, STRING), MapSerializer.of(LONG, LONG)):
        with pytest.raises(CorruptStateError):
            decode(serializer, data)
    with pytest.raises(CorruptStateError):
        decode(linked(LONG), bytes.fromhex(count) + b"\0")


def test_counts_of_rows_that_share_an_end_are_checked_together() -> None:
    """In a heap table the end of a value is not recorded: every row may extend to the end of the table."""
    data = np.frombuffer(bytearray(b"\0\0\x20\0" * 4096), np.uint8)
    position = np.arange(0, len(data), 4)
    for serializer in (ListSerializer.of(STRING), linked(STRING)):
        with pytest.raises(CorruptStateError):
            serializer.decode(Cursors(data, position.copy(), np.full(len(position), len(data))))


def test_elements_of_no_bytes_are_bounded() -> None:
    serializer = ListSerializer.of(TupleSerializer("TupleSerializerSnapshot", 3, 2, (), "Tuple0"))
    check_value(serializer, bytes.fromhex("00000003"), [{}, {}, {}])
    for data in ([b"\x7f\xff\xff\xff"], [b"\0\x0f\xff\xff"] * 2):
        with pytest.raises(CorruptStateError):
            decode(serializer, *data)


@pytest.mark.parametrize("serializer", [array(LONG), SetSerializer.of(LONG), nullaware(LONG, LONG)])
def test_flags_are_0_or_1(serializer: TypeSerializer) -> None:
    with pytest.raises(CorruptStateError):
        decode(serializer, bytes.fromhex("0000000102") + bytes(16))


def test_errors_name_the_place() -> None:
    serializer = MapSerializer.of(STRING, array(LONG))
    with pytest.raises(CorruptStateError) as caught:
        decode(serializer, bytes.fromhex("000000010261000000000105"))
    assert caught.value.facts["state"] == "value.entry.element"
    with pytest.raises(CorruptStateError) as caught:
        decode(array(ListSerializer.of(LONG)), bytes.fromhex("00000001010000000500"))
    assert caught.value.facts["state"] == "value.element"


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=4), max_size=20)))
def test_masks(values: list[list[str | None]]) -> None:
    serializer = linked(STRING)
    check_column(serializer, pa.array(values, serializer.arrow_type(DecodeOptions())))


def test_unknown_elements_are_refused_as_a_whole() -> None:
    serializer = ListSerializer.of(simple("com.shop.MysterySerializer$Snapshot"))
    assert [part.flink_type for part in serializer.opaque_parts()] == ["UNKNOWN<com.shop.MysterySerializer>"]
    assert values_of("list")[0].opaque_parts() == []


def test_nulls_of_wide_structs_are_bounded() -> None:
    wide = PojoSerializer("pojo", 3, "com.example.Wide", tuple(Member(f"f{i}", None, base("Long")) for i in range(500)))
    values = ListSerializer("list", 3, 1, (wide,))
    few = (1000).to_bytes(4, "big") + b"\x01" * 1000
    assert decode(values, few).to_pylist() == [[None] * 1000]
    many = (300_000).to_bytes(4, "big") + b"\x01" * 300_000
    with pytest.raises(ValueRangeError, match="batchSize"):
        decode(values, many)
