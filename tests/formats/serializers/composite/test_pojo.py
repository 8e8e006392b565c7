"""POJOs: real values of Flink, subclasses, nulls, and fields with unknown serializers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError, UndecodableStateError, ValueRangeError
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_enveloped
from pyspark_savepoint.formats.serializers.basic.primitives import NumberSerializer
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer
from pyspark_savepoint.formats.serializers.composite.optional_map import Member, OpaqueFrame
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.registry import OpaqueSerializer, read_serializer

BASE = "org.apache.flink.api.common.typeutils.base."
INT = NumberSerializer.of(f"{BASE}IntSerializer$IntSerializerSnapshot")
LONG = NumberSerializer.of(f"{BASE}LongSerializer$LongSerializerSnapshot")
POJO = "org.apache.flink.api.java.typeutils.runtime.PojoSerializerSnapshot"
ZOO = [
    bytes.fromhex(line)
    for line in (Path(__file__).parent / "pojo_zoo.hex").read_text().splitlines()
    if not line.startswith("#")
]
ANIMALS = [
    {"legs": 4, "name": "x", "age": None, "age__Cat": None, "__class": "Zoo$Animal"},
    None,
    {"legs": 4, "name": "Rex", "age": 7, "age__Cat": None, "__class": "Zoo$Dog"},
    {"legs": 3, "name": None, "age": None, "age__Cat": None, "__class": "Zoo$Dog"},
    {"legs": 4, "name": "Tom", "age": None, "age__Cat": "old", "__class": "Zoo$Cat"},
    {"legs": 0, "name": "hé", "age": None, "age__Cat": None, "__class": "Zoo$Cat"},
]


def snapshot_of(serializer: TypeSerializer) -> bytes:
    view = DataOutputView()
    write_enveloped(serializer, view)
    return view.getvalue()


def decode(serializer: TypeSerializer, values: list[bytes]) -> pa.Array:
    at = Cursors.over(values)
    column = serializer.decode(at)
    at.expect_end()
    column.validate(full=True)
    assert column.type == serializer.arrow_type(DecodeOptions())
    return column


def encode(serializer: TypeSerializer, column: pa.Array) -> list[bytes]:
    sizes = serializer.sizes(column)
    ends = np.cumsum(sizes)
    at = Cursors(np.zeros(int(sizes.sum()), np.uint8), ends - sizes, ends)
    serializer.encode(column, at)
    at.expect_end()
    return [at.buffer[end - size : end].tobytes() for end, size in zip(ends, sizes, strict=True)]


def pojo(name: str, *fields: tuple[str, TypeSerializer], **subclasses: tuple[Member, ...]) -> PojoSerializer:
    members = tuple(Member(field, b"\0\1C\0\1" + field[:1].encode(), serializer) for field, serializer in fields)
    return PojoSerializer(POJO, 2, name, members, **subclasses)


@pytest.fixture
def zoo() -> TypeSerializer:
    return read_serializer(ZOO[-1])


def test_fixtures_of_flink_come_back_byte_for_byte(flink_resources: Path) -> None:
    folders = sorted((flink_resources / "serializers").glob("pojo-*"))
    assert len(folders) >= 40
    for folder in folders:
        snapshot = (folder / "serializer-snapshot").read_bytes()
        value = (folder / "test-data").read_bytes()
        serializer = read_serializer(snapshot)
        assert isinstance(serializer, PojoSerializer)
        assert snapshot_of(serializer) == snapshot
        column = decode(serializer, [value])
        assert encode(serializer, column) == [value], folder.name


def test_a_fixture_has_its_values(flink_resources: Path) -> None:
    folder = flink_resources / "serializers" / "pojo-serializer-with-modified-schema-1.20"
    serializer = read_serializer((folder / "serializer-snapshot").read_bytes())
    assert serializer.flink_type == "POJO<TestPojoWithModifiedSchema>(age INT, height DOUBLE, id INT, name STRING)"
    values = decode(serializer, [(folder / "test-data").read_bytes()]).to_pylist()
    assert values == [{"age": 27, "height": 172.8, "id": 911108, "name": "Gordon"}]


def test_subclasses_share_a_struct(zoo: TypeSerializer) -> None:
    column = decode(zoo, ZOO[:-1])
    assert column.to_pylist() == ANIMALS
    assert encode(zoo, column) == ZOO[:-1]
    assert snapshot_of(zoo) == ZOO[-1]


def test_slices_and_many_rows(zoo: TypeSerializer) -> None:
    column = decode(zoo, ZOO[:-1] * 100)
    assert column.to_pylist() == ANIMALS * 100
    assert encode(zoo, column.slice(3, 400)) == (ZOO[:-1] * 100)[3:403]
    assert decode(zoo, []).to_pylist() == []


def test_inside_a_list(zoo: TypeSerializer) -> None:
    values = ListSerializer.of(zoo)
    data = [len(ZOO[:-1]).to_bytes(4, "big") + b"".join(ZOO[:-1]), bytes(4)]
    column = decode(values, data)
    assert column.to_pylist() == [ANIMALS, []]
    assert encode(values, column) == data


@pytest.mark.parametrize("value", ZOO[:-1])
def test_every_prefix_is_corrupt(zoo: TypeSerializer, value: bytes) -> None:
    for length in range(len(value)):
        with pytest.raises(CorruptStateError):
            zoo.decode(Cursors.over([value[:length]]))


def test_every_prefix_of_a_snapshot_is_corrupt() -> None:
    for length in range(0, len(ZOO[-1]), 7):
        with pytest.raises(CorruptStateError):
            read_serializer(ZOO[-1][:length])


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("00", CorruptStateError),
        ("06", CorruptStateError),
        ("0801", CorruptStateError),
        ("0802020000", CorruptStateError),
        ("080001", CorruptStateError),
        ("0202", CorruptStateError),
        ("0400025a7a02", UndecodableStateError),
        ("040001ff02", CorruptStateError),
    ],
)
def test_strange_values(zoo: TypeSerializer, value: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        zoo.decode(Cursors.over([bytes.fromhex(value)]))


def test_a_class_that_is_not_known_cannot_be_written(zoo: TypeSerializer) -> None:
    column = pa.array([{**(ANIMALS[0] or {}), "__class": "Zoo$Cow"}], zoo.arrow_type(DecodeOptions()))
    with pytest.raises(ValueRangeError, match=r"Zoo\$Cow"):
        zoo.sizes(column)


def test_a_field_of_another_class_is_not_dropped(zoo: TypeSerializer) -> None:
    column = pa.array([{**(ANIMALS[0] or {}), "age": 3}], zoo.arrow_type(DecodeOptions()))
    with pytest.raises(ValueRangeError, match="has no field age"):
        zoo.sizes(column)


def test_errors_name_the_field() -> None:
    nested = pojo("Outer", ("inner", pojo("Inner", ("id", LONG))))
    with pytest.raises(CorruptStateError, match=r"value\.inner\.id"):
        nested.decode(Cursors.over([bytes.fromhex("0200020000")]))


def test_a_subclass_that_is_no_pojo_is_one_column() -> None:
    serializer = pojo("Base", ("id", INT), others=(Member("com.x.Odd$One", b"", LONG),))
    data = [bytes.fromhex("020000000005"), b"\x04\x00\x0dcom.x.Odd$One" + (7).to_bytes(8, "big")]
    column = decode(serializer, data)
    assert column.to_pylist() == [
        {"id": 5, "One": None, "__class": "Base"},
        {"id": None, "One": 7, "__class": "com.x.Odd$One"},
    ]
    assert encode(serializer, column) == data


def test_fields_of_one_name_stay_apart() -> None:
    serializer = pojo("C", ("a", INT), ("a", INT), ("__class", INT))
    data = [bytes.fromhex("02000000000100000000020000000003")]
    column = decode(serializer, data)
    assert [field.name for field in column.type] == ["a", "a__C", "__class"]
    assert encode(serializer, column) == data


def test_a_field_of_unknown_bytes_is_opaque_and_kept() -> None:
    broken = pojo("C", ("a", INT), ("b", OpaqueFrame("x", 0, b"\1\2")), ("c", OpaqueFrame("", 0)))
    data = snapshot_of(broken)
    serializer = read_serializer(data)
    assert snapshot_of(serializer) == data
    assert [type(part) for part in serializer.opaque_parts()] == [OpaqueFrame, OpaqueFrame]
    with pytest.raises(UndecodableStateError):
        serializer.decode(Cursors.over([bytes.fromhex("0200000000010001")]))


def test_a_field_of_an_unknown_class_is_opaque() -> None:
    serializer = read_serializer(snapshot_of(pojo("C", ("a", OpaqueSerializer("com.x.MySnapshot", 3)))))
    assert [part.flink_type for part in serializer.opaque_parts()] == ["UNKNOWN<com.x.My>"]


def test_missing_fields_keep_their_absence() -> None:
    members = (Member("missing-field-at-0", None, INT),)
    data = snapshot_of(PojoSerializer(POJO, 2, "C", members))
    serializer = read_serializer(data)
    assert isinstance(serializer, PojoSerializer)
    assert serializer.fields == members
    assert snapshot_of(serializer) == data


def test_deep_snapshots_are_refused() -> None:
    serializer = pojo("C", ("a", INT))
    for _ in range(60):
        serializer = pojo("C", ("a", serializer))
    assert read_serializer(snapshot_of(serializer)).opaque_parts()
