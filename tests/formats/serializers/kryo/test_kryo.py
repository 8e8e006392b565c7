"""Kryo: values that Kryo 2 and Kryo 5 wrote, registrations of users, and hostile bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.variant_utils import VariantUtils

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Origin
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import (
    CorruptStateError,
    SavepointError,
    UndecodableStateError,
    ValueRangeError,
)
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_enveloped
from pyspark_savepoint.formats.serializers.composite.collections import ListSerializer
from pyspark_savepoint.formats.serializers.composite.optional_map import Entry, Member
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer, OpaqueKryoSerializer
from pyspark_savepoint.formats.serializers.layout import skip_rows
from pyspark_savepoint.formats.serializers.registry import read_serializer
from pyspark_savepoint.formats.variant import VARIANT
from tests.formats.serializers.codec_checks import base, read_and_written_again

SNAPSHOT = "org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializerSnapshot"
FILE = Path(__file__).parent / "kryo_values.tsv"
ROWS = [line.split("\t") for line in FILE.read_text().splitlines()[1:]]
VALUES = [
    pytest.param(kind, kryo, bytes.fromhex(data), expected, id=f"{name}-{kind}-kryo{kryo}")
    for name, kind, *both, expected in ROWS
    for kryo, data in zip((2, 5), both, strict=True)
    if data != "-"
]
LIST, OBJECT = "java.util.ArrayList", "java.lang.Object"


def utf(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def registration(name: str, kind: int = 0) -> Entry:
    serializer = utf("com.x.Serializer") if kind == 1 else b"\xac\xed\0\5" if kind == 2 else b""
    return name, utf(name), utf(name) + kind.to_bytes(4, "big") + serializer


def kryo(type_class: str, *registrations: Entry, **defaults: tuple[Entry, ...]) -> TypeSerializer:
    """Return the serializer read from the bytes of its snapshot."""
    frames = (registration(type_class), *registrations)
    view = DataOutputView()
    write_enveloped(KryoSerializer(SNAPSHOT, 2, type_class, frames, **defaults), view)
    return read_and_written_again(view.getvalue())


def plain(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"value", "metadata"}:
        return VariantUtils.to_python(value["value"], value["metadata"])
    return value


def decode(serializer: TypeSerializer, *values: bytes, whole: bool = False, **options: Any) -> list[Any]:
    assert isinstance(serializer, KryoSerializer)
    at = Cursors.over(values, options=DecodeOptions(**options))
    column = serializer.decode(at, whole)
    at.expect_end()
    column.validate(full=True)
    assert column.type == serializer.arrow_type(at.options)
    return [plain(value) for value in column.to_pylist()]


def as_text(value: Any) -> str:
    return json.dumps(value, default=lambda other: other.hex() if isinstance(other, bytes) else str(other))


@pytest.mark.parametrize(("kind", "version", "data", "expected"), VALUES)
def test_values_of_real_kryo(kind: str, version: int, data: bytes, expected: str) -> None:
    serializer = kryo(kind)
    options = {"kryo": version, "timestamps": "truncate"}
    assert [as_text(value) for value in decode(serializer, data, data, **options)] == [expected, expected]
    for size in range(len(data)):
        at = Cursors.over([data[:size]], options=DecodeOptions(**options))
        with pytest.raises(CorruptStateError):
            serializer.decode(at)


def test_both_versions_are_covered() -> None:
    assert len(VALUES) > 600
    assert len({name for name, *_ in ROWS}) > 180


def test_snapshots_of_flink_are_kept(flink_resources: Path) -> None:
    folders = sorted((flink_resources / "serializers").glob("kryo-*"))
    assert len(folders) >= 15
    for folder in folders:
        data = (folder / "serializer-snapshot").read_bytes()
        serializer = read_serializer(data)
        assert isinstance(serializer, OpaqueKryoSerializer)
        assert "KryoPojosForMigrationTests$Animal" in serializer.flink_type
        assert serializer.arrow_type(DecodeOptions()) == pa.binary()
        assert serializer.opaque_parts() == [serializer]
        view = DataOutputView()
        write_enveloped(serializer, view)
        assert view.getvalue() == data
        with pytest.raises(UndecodableStateError):
            serializer.decode(Cursors.over([b"\0"]))


@pytest.mark.parametrize(
    ("kind", "arrow"),
    [
        ("java.util.Date", pa.timestamp("us", tz="UTC")),
        ("java.math.BigInteger", pa.decimal128(38, 0)),
        ("java.math.BigDecimal", pa.string()),
        ("java.util.BitSet", pa.list_(pa.field("element", pa.int32()))),
        ("java.util.UUID", pa.string()),
        ("java.lang.Integer", pa.int32()),
        ("java.time.LocalDate", pa.date32()),
        ("java.time.LocalDateTime", pa.timestamp("us")),
        ("java.time.Duration", pa.duration("us")),
        ("[B", pa.binary()),
        ("[Ljava.lang.String;", pa.list_(pa.field("element", pa.string()))),
        ("java.util.List", VARIANT),
        ("java.util.HashMap", VARIANT),
        ("java.lang.Object", VARIANT),
        ("java.util.Optional", VARIANT),
        ("[Ljava.lang.Object;", VARIANT),
        ("[[I", VARIANT),
        ("org.apache.flink.api.java.tuple.Tuple3", VARIANT),
        ("com.x.Custom", pa.binary()),
        ("[Lcom.x.Custom;", pa.binary()),
        ("java.util.regex.Pattern", pa.string()),
        ("java.io.File", pa.string()),
        ("java.util.concurrent.Semaphore", pa.binary()),
    ],
)
def test_types(kind: str, arrow: pa.DataType) -> None:
    serializer = kryo(kind)
    assert serializer.arrow_type(DecodeOptions()) == arrow
    assert serializer.flink_type == f"KRYO<{kind}>"
    assert bool(serializer.opaque_parts()) == (arrow == pa.binary() and kind != "[B")


def test_classes_of_the_user_have_ids_in_order_of_registration() -> None:
    serializer = kryo(LIST, registration("java.util.UUID"), registration("com.x.A"), registration("java.util.HashMap"))
    assert isinstance(serializer, KryoSerializer)
    assert {number: name for number, name in serializer.classes.ids.items() if number > 84} == {
        85: LIST,
        86: "com.x.A",
        87: "java.util.HashMap",
    }
    one_map_in_a_list = bytes([87, 1, 2, 89, 1, 1])
    assert decode(serializer, one_map_in_a_list, kryo=5) == [[{}]]
    with pytest.raises(UndecodableStateError, match=r"com\.x\.A"):
        decode(serializer, bytes([87, 1, 2, 88, 1, 1]), kryo=5)
    with pytest.raises(UndecodableStateError, match="id 200"):
        decode(serializer, bytes([87, 1, 2, 0xCA, 1, 1]), kryo=5)


def test_ids_behind_classes_of_scala_are_not_sure() -> None:
    serializer = kryo(LIST, registration("scala.Some"), registration("java.util.HashMap"))
    with pytest.raises(UndecodableStateError, match="id 86"):
        decode(serializer, bytes([87, 1, 2, 88, 1, 1]), kryo=5)


def test_serializers_of_the_user_hide_what_they_write() -> None:
    for kind in (1, 2):
        serializer = kryo(LIST, registration("java.util.UUID", kind))
        with pytest.raises(UndecodableStateError, match=r"java\.util\.UUID"):
            decode(serializer, bytes([87, 1, 0x82, 84, 0]) + bytes(17), kryo=5)
    replaced = KryoSerializer(SNAPSHOT, 2, LIST, (registration(LIST, 1),))
    assert not replaced.is_known
    for name in ("java.util.Collection", "java.util.AbstractList", "java.lang.Iterable"):
        frames = ((name, utf(name), b""),)
        assert kryo(LIST, default_classes=frames).opaque_parts()
        assert kryo(LIST, defaults=frames).opaque_parts()
    assert not kryo(LIST, default_classes=(("org.joda.time.DateTime", b"", b""),)).opaque_parts()


def test_classes_of_the_user_inside() -> None:
    data = bytes.fromhex("57 01 03 030182 61 0100") + b"com.x.Use\xf2" + bytes.fromhex("01 0a")
    serializer = kryo(LIST)
    with pytest.raises(UndecodableStateError) as error:
        decode(serializer, data, kryo=5)
    for fact in ("KRYO<java.util.ArrayList>", "com.x.User", 'option("raw"'):
        assert fact in str(error.value)
    assert decode(serializer, data, data, whole=True, kryo=5) == [data, data]
    assert decode(serializer, data, b"\0", bytes([87, 1, 1]), whole=True, kryo=5) == [data, None, []]


def test_an_empty_optional_is_there_and_null() -> None:
    column = kryo("java.util.Optional").decode(Cursors.over([b"\x57\1\0", b"\0"]))
    assert column.is_valid().to_pylist() == [True, False]
    assert column[0].as_py()["value"] == b"\0"


def test_errors_name_state_and_field() -> None:
    at = Cursors.over([b"\x57\1\x02\x03\1a"], origin=Origin("/sp/x", 100, "op", "names"))
    serializer = kryo(LIST)
    with pytest.raises(CorruptStateError) as error, at.inside("tags"):
        serializer.decode(at)
    assert error.value.facts["state"] == "names.tags"
    assert error.value.facts["offset"] == 105
    assert 'option("kryo", "2")' in error.value.facts["remedy"]


def test_inside_other_values() -> None:
    items = ListSerializer.of(kryo(LIST))
    at = Cursors.over([b"\0\0\0\2" + bytes([87, 1, 2, 2, 4]) + b"\0", bytes(4)])
    column = items.decode(at)
    at.expect_end()
    assert [[plain(value) for value in row] for row in column.to_pylist()] == [[[2], None], []]
    fields = (Member("a", b"", kryo("java.util.Date")), Member("b", b"", base("Int")))
    pojo = PojoSerializer("x", 2, "C", fields)
    at = Cursors.over([b"\2\0\x57\1\0\0\0\0\0\7", b"\2\1\0\0\0\0\x08"])
    assert [row["b"] for row in pojo.decode(at).to_pylist()] == [7, 8]


def test_values_are_not_written() -> None:
    for serializer in (kryo(LIST), kryo("java.util.Date"), kryo("com.x.A")):
        with pytest.raises(UndecodableStateError, match="written"):
            serializer.sizes(pa.array([None]))


def test_times_that_spark_cannot_hold() -> None:
    instant = kryo("java.time.Instant")
    data = bytes.fromhex("570180e2cfaa0605")
    with pytest.raises(ValueRangeError, match="truncate"):
        decode(instant, data)
    assert decode(instant, data, timestamps="raw") == [{"seconds": 1700000000, "nanos": 5}]
    early = bytes.fromhex("5701fbffffff0f0101ff")
    date_time = kryo("java.time.LocalDateTime")
    with pytest.raises(ValueRangeError, match="year -5"):
        decode(date_time, early)
    assert decode(date_time, early, timestamps="raw") == [{"year": -5, "month": 1, "day": 1, "nano_of_day": 0}]
    assert decode(kryo("java.time.LocalDate"), early[:-1], timestamps="raw") == [{"year": -5, "month": 1, "day": 1}]
    assert decode(kryo("java.util.Date"), b"\x57\1\5", timestamps="raw") == [5]
    assert decode(kryo("java.time.Duration"), b"\x57\1\1" + bytes(7) + b"\2", timestamps="raw") == [
        {"seconds": 1, "nanos": 2}
    ]
    with pytest.raises(ValueRangeError, match="duration"):
        decode(kryo("java.time.Duration"), b"\x57\1" + b"\x7f" * 8 + b"\0")


def test_big_numbers_as_the_option_says() -> None:
    number = kryo("java.math.BigDecimal")
    data = bytes.fromhex("57010304ce04")
    assert decode(number, data) == ["12.30"]
    assert [str(value) for value in decode(number, data, decimals="10,3")] == ["12.300"]
    with pytest.raises(ValueRangeError, match="decimals"):
        decode(number, data, decimals="10,0")
    assert decode(kryo("java.math.BigInteger"), bytes.fromhex("57010280"), decimals="string") == ["-128"]


def test_a_date_may_be_a_timestamp() -> None:
    serializer = kryo("java.util.Date")
    assert (
        str(decode(serializer, bytes.fromhex("510100c0843d"), timestamps="truncate")[0])[:19] == "1970-01-01 00:00:00"
    )
    with pytest.raises(UndecodableStateError, match="Timestamp"):
        decode(serializer, bytes.fromhex("510100c0843d"), timestamps="raw")
    with pytest.raises(UndecodableStateError, match=r"java\.util\.UUID"):
        decode(serializer, bytes.fromhex("5401") + bytes(16))


def test_half_surrogates() -> None:
    for kind in ("java.lang.String", OBJECT):
        with pytest.raises(ValueRangeError, match="surrogate"):
            decode(kryo(kind), bytes.fromhex("0301836161"), bytes.fromhex("03018361eda0bd"), text="error")
        found = decode(kryo(kind), bytes.fromhex("0301836161"), bytes.fromhex("03018361eda0bd"))
        assert [str(each) for each in found] == ["aa", "a\U0010ffffd83d"]


@pytest.mark.parametrize("version", [2, 5])
def test_parts_of_times_are_shared(version: int) -> None:
    # A list of a LocalDate and of a LocalDateTime that holds the same date, of which Kryo 2 writes a reference.
    class_name = b"java.time.LocalDat\xe5"
    date_2, time_2 = bytes.fromhex("01001d0002d01f"), bytes.fromhex("0101020803")
    data = bytes([87, 1, 2, 1, 0]) + class_name + date_2 + b"\1\1java.time.LocalDateTim\xe5\1\3" + time_2
    if version == 2:
        first, second = decode(kryo(LIST), data, kryo=2, timestamps="truncate")[0]
        assert (str(first), str(second)) == ("2024-02-29", "2024-02-29 01:02:03")
    else:
        with pytest.raises(CorruptStateError):
            decode(kryo(LIST), data, kryo=5)


@pytest.mark.parametrize("version", [2, 5])
def test_a_value_that_contains_itself_is_skipped(version: int) -> None:
    """In the heap format nothing else tells where the next value begins."""
    inside_itself = {2: bytes([87, 1, 1, 87, 2]), 5: bytes([87, 1, 2, 87, 2])}[version]
    at = Cursors.over([inside_itself + b"next"], options=DecodeOptions(kryo=version))
    skip_rows(kryo(LIST), at)
    assert at.position.tolist() == [len(inside_itself)]


def test_hostile_values() -> None:
    serializer = kryo(LIST)
    inside_itself = bytes([87, 1, 2, 87, 2])
    deep = bytes([87, 1, 2]) * 200 + b"\0"
    with pytest.raises(ValueRangeError, match="contains itself"):
        decode(serializer, inside_itself, kryo=5)
    with pytest.raises(UndecodableStateError):
        decode(serializer, deep, kryo=5)
    many_nulls = bytes([87, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0])
    with pytest.raises(CorruptStateError, match="nulls"):
        decode(serializer, many_nulls, kryo=5)
    laughs = bytes([87, 1, 3]) * 30 + b"\0\0"
    for number in reversed(range(1, 30)):
        laughs += bytes([87, number + 2])
    with pytest.raises(ValueRangeError, match="VARIANT"):
        decode(serializer, laughs, kryo=5)
    text_and_63_references = bytes([87, 1, 0x41, 1, 3, 1]) + b"x" * 60 + b"\xf8" + bytes([3, 14]) * 63
    doubled = bytes([87, 1, 3]) * 11 + text_and_63_references + b"".join(bytes([87, n + 2]) for n in range(11, 0, -1))
    assert len(decode(serializer, doubled, kryo=5)[0]) == 2
    with pytest.raises(ValueRangeError, match="shared"):
        decode(serializer, *[doubled] * 40, kryo=5)


@pytest.mark.parametrize("version", [2, 5])
@pytest.mark.parametrize("kind", [OBJECT, "java.util.TreeMap", "java.util.BitSet", "java.math.BigDecimal"])
@settings(deadline=None, max_examples=60)
@given(data=st.binary(max_size=60), start=st.sampled_from([b"", b"\x57\1", b"\x4c\1", b"\x4b\1", b"\1\0"]))
def test_any_bytes(version: int, kind: str, data: bytes, start: bytes) -> None:
    at = Cursors.over([start + data], options=DecodeOptions(kryo=version))
    try:
        kryo(kind).decode(at)
    except SavepointError:
        return
    assert at.position[0] <= at.end[0]


@settings(deadline=None, max_examples=300)
@given(row=st.sampled_from(VALUES), place=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_damaged_values(row: Any, place: int, byte: int) -> None:
    kind, version, data, _ = row.values
    damaged = bytearray(data)
    damaged[place % len(damaged)] = byte
    at = Cursors.over([bytes(damaged)], options=DecodeOptions(kryo=version))
    try:
        kryo(kind).decode(at)
    except SavepointError:
        return
    assert np.all(at.position <= at.end)
