"""Rows, arrays and maps of SQL: real Flink's bytes, whole columns, and hostile rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.errors import (
    CorruptStateError,
    SavepointError,
    UndecodableStateError,
    UnsupportedStateError,
    ValueRangeError,
)
from pyspark_savepoint.formats.metadata.key_groups import key_group_for_hash
from pyspark_savepoint.formats.serializers.layout import skip_rows
from pyspark_savepoint.formats.serializers.sql.internal import row_serializer
from pyspark_savepoint.formats.serializers.sql.logical_types import MAX_LENGTH, EmbeddedType, LogicalType
from pyspark_savepoint.formats.serializers.sql.rowdata import RowDataSerializer
from tests.formats.serializers.codec_checks import check_column, check_prefixes, check_value, decode, encode
from tests.formats.serializers.sql import sql_zoo

STRING = LogicalType("VARCHAR", length=MAX_LENGTH)
INT = LogicalType("INTEGER")
BIGINT = LogicalType("BIGINT")
MAP = LogicalType("MAP", children=(BIGINT, BIGINT))
MULTISET = LogicalType("MULTISET", children=(BIGINT,))
EMPTY_ROW = bytes.fromhex("00000008 0000000000000000")


def array_of(kind: LogicalType) -> LogicalType:
    return LogicalType("ARRAY", children=(kind,))


def rows_of(*kinds: LogicalType) -> RowDataSerializer:
    """A serializer of rows of any types; without streams, where nobody can make them."""
    try:
        return row_serializer(kinds)
    except UnsupportedStateError:
        return RowDataSerializer("RowData", 3, tuple(EmbeddedType(kind, b"") for kind in kinds), ())


def row(fields: int, *slots: int | bytes, nulls: Sequence[int] = (), variable: bytes = b"", kind: int = 0) -> bytes:
    """A row behind its size; slots are little-endian longs or 8 bytes."""
    bits = kind + sum(1 << (8 + index) for index in nulls)
    header = bits.to_bytes((fields + 71) // 64 * 8, "little")
    body = b"".join(slot if isinstance(slot, bytes) else (slot % 2**64).to_bytes(8, "little") for slot in slots)
    data = header + body + variable
    return len(data).to_bytes(4, "big") + data


def extent(size: int, offset: int) -> int:
    return size | offset << 32


@pytest.mark.parametrize("name", sql_zoo.exhibits())
def test_values_of_real_flink(name: str) -> None:
    """Read to the last byte, written byte for byte, delimited, and never read when cut off."""
    exhibit = sql_zoo.exhibits()[name]
    serializer = exhibit.serializer.as_key() if name == "generated" else exhibit.serializer  # type: ignore[attr-defined]
    assert serializer.length == exhibit.length
    assert not serializer.opaque_parts()
    for mode in ("raw", "truncate"):
        column = decode(serializer, *exhibit.values, timestamps=mode, row_kind=True)
        assert encode(serializer, column) == exhibit.values
    for value in exhibit.values:
        at = Cursors.over([value + b"\5\5"])
        skip_rows(serializer, at)
        assert at.position[0] == len(value)
        if len(value) < 200:
            check_prefixes(serializer, value, timestamps="raw")


@pytest.mark.parametrize("name", ["simple", "none", "generated", "binaryrow", "variant row", "bitmap row"])
def test_hash_codes_of_real_flink(name: str) -> None:
    exhibit = sql_zoo.exhibits()[name]
    column = decode(exhibit.serializer, *exhibit.values, row_kind=True)
    assert exhibit.serializer.java_hash(column).tolist() == exhibit.hashes
    padded = pa.concat_arrays([column, pa.nulls(1, column.type)])
    assert exhibit.serializer.java_hash(padded).tolist() == [*exhibit.hashes, 0]


def test_key_group_of_the_empty_row() -> None:
    (java_hash,) = rows_of().java_hash(decode(rows_of(), EMPTY_ROW)).tolist()
    assert java_hash == -1670924195
    assert key_group_for_hash(java_hash, 128) == 11


def test_every_type() -> None:
    exhibit = sql_zoo.exhibits()["all"]
    first, nulls, third = decode(exhibit.serializer, *exhibit.values, row_kind=True).to_pylist()
    late, later = datetime(2023, 11, 14, 22, 13, 20, 123000), datetime(2023, 11, 14, 22, 13, 20, 123456)
    assert list(first.values()) == [
        "abc",
        "h\u00e9\U0001f600",
        "a longer string",
        True,
        b"\1\2\3",
        bytes(range(1, 10)),
        Decimal("12.34"),
        Decimal(-(10**18) + 1),
        Decimal("-1234567890123456789012345.67890"),
        Decimal(10**38 - 1),
        -1,
        -300,
        7,
        -(2**40),
        1.5,
        -2.5,
        date(2022, 1, 8),
        3_600_000,
        datetime(1969, 12, 31, 23, 59, 59),
        late,
        later,
        later,
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        14,
        timedelta(seconds=-5),
        [1, None, 3],
        ["x", None, "eight888", ""],
        [("k", 5), ("a long key here", None)],
        [("m", 2)],
        {"x": 9, "y z": "inner"},
        77,
        {"a": 1, "b": "p"},
        [{"x": 1, "y z": "one"}, None, {"x": None, "y z": "a long second"}],
        [True, None, False],
        [1, -2, None],
        [Decimal("1.000"), None, Decimal("-99999999999999999.999")],
        [datetime(1970, 1, 1, 0, 0, 0, 5006), None],
        [(1, [[("q", {"x": 4, "y z": None})], None]), (2, []), (3, None)],
        "+I",
    ]
    assert list(nulls.values()) == [None] * 39 + ["+I"]
    assert third["__row_kind"] == "-D"
    assert third["f26"] == [None if index % 7 == 3 else index for index in range(70)]
    assert third["f34"] == [index % 2 == 0 for index in range(33)]
    assert (third["f0"], third["f1"], third["f2"], third["f4"], third["f5"]) == (
        "",
        "1234567",
        "12345678",
        b"",
        bytes(7),
    )


def test_building_blocks() -> None:
    serializer = rows_of(STRING, LogicalType("INTEGER", nullable=False))
    assert serializer.flink_type == "ROWDATA<STRING, INT NOT NULL>"
    check_value(serializer, row(2, b"abc\0\0\0\0\x83", 7), {"f0": "abc", "f1": 7})
    check_value(serializer, row(2, 0, 0, nulls=[0]), {"f0": None, "f1": 0})
    long = row(2, extent(16, 24), 0xFFFFFFFF, variable=b"hello world long", kind=3)
    check_value(serializer, long, {"f0": "hello world long", "f1": -1, "__row_kind": "-D"}, row_kind=True)
    check_value(rows_of(), EMPTY_ROW, {})


def test_two_forms_of_null() -> None:
    """Generated code reserves room for null decimals and timestamps, the serializer does not; both are read."""
    serializer = rows_of(LogicalType("DECIMAL", precision=30), LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=9))
    generated = row(2, extent(0, 24), extent(0, 40), nulls=[0, 1], variable=bytes(24))
    plain = row(2, 0, 0, nulls=[0, 1])
    column = decode(serializer, generated, plain)
    assert column.to_pylist() == [{"f0": None, "f1": None}] * 2
    assert encode(serializer, column) == [plain, plain]
    assert encode(serializer.as_key(), column) == [generated, generated]
    assert serializer.java_hash(column).tolist() == [-2077331864, -2077331864]
    assert serializer == serializer.as_key()


def test_columns() -> None:
    """Many rows with nulls, in every nesting, survive; also as slices and behind one another."""
    exhibit = sql_zoo.exhibits()["all"]
    few = decode(exhibit.serializer, *exhibit.values, timestamps="raw", row_kind=True)
    picks = np.random.default_rng(1).integers(0, 3, 501)
    check_column(exhibit.serializer, few.take(pa.array(picks)), timestamps="raw", row_kind=True)


def test_columns_that_no_row_was() -> None:
    inner = LogicalType("ROW", names=("a", "b"), children=(STRING, array_of(STRING)))
    serializer = rows_of(inner, LogicalType("MAP", children=(STRING, inner)), LogicalType("BINARY", length=9))
    kind = serializer.arrow_type(DecodeOptions())
    values = [
        {"f0": None, "f1": None, "f2": None},
        {"f0": {"a": "h\u00e9", "b": None}, "f1": [], "f2": b""},
        {"f0": {"a": None, "b": []}, "f1": [("k", None), ("a key of more", {"a": "", "b": [None]})], "f2": b"1234567"},
        {"f0": {"a": "x" * 300, "b": ["", "12345678", None]}, "f1": [("", {"a": "y", "b": None})], "f2": b"12345678"},
    ]
    column = pa.array([values[index % 4] for index in range(400)], kind)
    check_column(serializer, column)
    # Arrow may keep values below nulls: they are not written.
    hidden = pa.StructArray.from_arrays(
        [column.field(0), column.field(1), column.field(2)], fields=list(kind), mask=pa.array([False] * 400)
    )
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3]), pa.array(["p", "q", "r"]), mask=pa.array([True, False]))
    texts = rows_of(array_of(STRING))
    written = encode(texts, pa.StructArray.from_arrays([lists.cast(texts.arrow_type(DecodeOptions())[0].type)], ["f0"]))
    assert decode(texts, *written).to_pylist() == [{"f0": None}, {"f0": ["r"]}]
    assert encode(serializer, hidden) == encode(serializer, column)


def test_wide_rows() -> None:
    """The header grows at 56 fields, and again at 120."""
    for fields in (55, 56, 57, 119, 120, 121):
        serializer = rows_of(*[INT] * fields)
        values = {f"f{index}": None if index % 3 == 0 else index for index in range(fields)}
        (data,) = encode(serializer, pa.array([values], serializer.arrow_type(DecodeOptions())))
        assert len(data) == 4 + (fields + 71) // 64 * 8 + 8 * fields
        assert decode(serializer, data).to_pylist() == [values]


def test_timestamps() -> None:
    fine = LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=9)
    serializer = rows_of(fine)
    data = row(1, extent(456789, 16), variable=(1).to_bytes(8, "little"))
    with pytest.raises(ValueRangeError, match=r'option\("timestamps", "truncate"\)') as caught:
        decode(serializer, data)
    assert caught.value.facts["state"] == "value.f0"
    assert decode(serializer, data, timestamps="truncate").to_pylist() == [{"f0": datetime(1970, 1, 1, 0, 0, 0, 1456)}]
    check_value(serializer, data, {"f0": {"millis": 1, "nanos": 456789}}, timestamps="raw")
    with pytest.raises(CorruptStateError, match="0 to 999999"):
        decode(serializer, row(1, extent(1_000_000, 16), variable=bytes(8)))
    for millis in (-62_135_596_800_001, 253_402_300_800_000, -(2**63), 2**63 - 1):
        far = row(1, millis)
        coarse = rows_of(LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", precision=3))
        with pytest.raises(ValueRangeError, match=r'option\("timestamps", "raw"\)'):
            decode(coarse, far)
        check_value(coarse, far, {"f0": millis}, timestamps="raw")
    column = pa.array([{"f0": 1}], pa.struct([("f0", pa.timestamp("us", "UTC"))]))
    with pytest.raises(ValueRangeError, match="TIMESTAMP_LTZ"):
        encode(coarse, column)


def test_intervals() -> None:
    serializer = rows_of(LogicalType("INTERVAL_DAY_TIME", precision=2, scale=3, kind="DAY_TO_SECOND"))
    long = row(1, 2**62)
    with pytest.raises(ValueRangeError, match="too long"):
        decode(serializer, long)
    check_value(serializer, long, {"f0": 2**62}, timestamps="raw")
    with pytest.raises(ValueRangeError, match="whole milliseconds"):
        encode(serializer, pa.array([{"f0": timedelta(microseconds=1)}], pa.struct([("f0", pa.duration("us"))])))


def test_nulls_that_are_refused() -> None:
    strict = LogicalType("INTEGER", nullable=False)
    serializer = rows_of(LogicalType("ROW", names=("a",), children=(strict,)))
    kind = serializer.arrow_type(DecodeOptions())
    assert encode(serializer, pa.array([{"f0": None}], kind)) == [row(1, 0, nulls=[0])]
    with pytest.raises(ValueRangeError, match="INT NOT NULL cannot be null") as caught:
        encode(serializer, pa.array([{"f0": {"a": None}}], kind))
    assert caught.value.facts["state"] == "f0.a"
    with pytest.raises(ValueRangeError, match="cannot be null"):
        encode(serializer, pa.nulls(1, kind))
    # The processing time is stored as null, whatever its type.
    now = rows_of(LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", nullable=False, precision=3, kind="PROCTIME"))
    check_value(now, row(1, 0, nulls=[0]), {"f0": None})
    null_key = bytes.fromhex("10000000 01000000 01000000 0000000000000000 01000000 00000000 0000000000000000")
    keyed = rows_of(MAP)
    with pytest.raises(ValueRangeError, match=r'option\("raw", "value"\)'):
        decode(keyed, row(1, extent(len(null_key), 16), variable=null_key))


def test_row_kinds() -> None:
    serializer = rows_of(INT)
    kind = serializer.arrow_type(DecodeOptions(row_kind=True))
    kinds = ["+I", "-U", "+U", "-D"]
    column = pa.array([{"f0": 1, "__row_kind": name} for name in kinds], kind)
    assert [data[4] for data in check_column(serializer, column, row_kind=True)] == [0, 1, 2, 3]
    assert decode(serializer, row(1, 5, kind=2)).to_pylist() == [{"f0": 5}]
    with pytest.raises(CorruptStateError, match="kind of a row"):
        decode(serializer, row(1, 5, kind=4))
    with pytest.raises(ValueRangeError, match="a row kind"):
        encode(serializer, pa.array([{"f0": 1, "__row_kind": "?"}], kind))


def test_types_of_newer_releases() -> None:
    serializer = rows_of(array_of(LogicalType("TENSOR", class_name="org.apache.flink.table.types.logical.TensorType")))
    assert serializer.opaque_parts() == [serializer]
    with pytest.raises(UndecodableStateError, match="TENSOR"):
        decode(serializer, row(1, 0))


ARRAY_8 = bytes.fromhex("01000000 00000000 0500000000000000")


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (STRING, row(1, extent(1, 24))),
        (STRING, row(1, extent(2**32 - 1, 0))),
        (STRING, row(1, extent(8, 2**31 - 1))),
        (STRING, row(1, b"\0" * 7 + b"\x88")),
        (STRING, row(1, b"\xff\xfe\0\0\0\0\0\x82")),
        (STRING, row(1, extent(8, 16), variable=b"\xc0\x80345678")),
        (STRING, row(1, extent(8, 16), variable=b"\xed\xa0\x805678!")),
        (LogicalType("DECIMAL", precision=5), row(1, 100_000)),
        (LogicalType("DECIMAL", precision=18), row(1, -(2**63))),
        (LogicalType("DECIMAL", precision=20), row(1, extent(0, 16), variable=bytes(16))),
        (LogicalType("DECIMAL", precision=20), row(1, extent(17, 16), variable=bytes(24))),
        (LogicalType("DECIMAL", precision=20), row(1, extent(16, 16), variable=b"\x7f" + bytes(15))),
        (LogicalType("DECIMAL", precision=38), row(1, extent(16, 16), variable=b"\x80" + bytes(15))),
        (LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=6), row(1, extent(0, 17), variable=bytes(8))),
        (array_of(BIGINT), row(1, extent(0, 16))),
        (array_of(BIGINT), row(1, extent(15, 16), variable=ARRAY_8)),
        (array_of(BIGINT), row(1, extent(16, 16), variable=b"\xff\xff\xff\xff" + ARRAY_8[4:])),
        (array_of(BIGINT), row(1, extent(16, 16), variable=b"\xff\xff\xff\x7f" + ARRAY_8[4:])),
        (LogicalType("ROW", names=("a",), children=(INT,)), row(1, extent(8, 16), variable=bytes(8))),
        (MAP, row(1, extent(4, 16), variable=b"\x01\0\0\0")),
        (MAP, row(1, extent(20, 16), variable=b"\xff" * 4 + ARRAY_8)),
        (
            LogicalType("MULTISET", children=(BIGINT,)),
            row(1, extent(24, 16), variable=b"\x10\0\0\0" + ARRAY_8 + bytes(4)),
        ),
        (LogicalType("VARIANT"), row(1, extent(3, 16), variable=bytes(8))),
        (LogicalType("VARIANT"), row(1, extent(8, 16), variable=b"\0\0\0\5" + bytes(4))),
        (INT, b"\0\0\0\x0f" + bytes(15)),
        (INT, b"\xff\xff\xff\xff" + bytes(16)),
    ],
)
def test_damaged_rows(kind: LogicalType, data: bytes) -> None:
    with pytest.raises(CorruptStateError):
        decode(rows_of(kind), data)


def test_bytes_cannot_be_multiplied() -> None:
    """Slots that point to the same bytes again and again are not what a writer makes, and would fill the memory."""
    text = b"x" * 64
    both = row(2, extent(64, 24), extent(64, 24), variable=text)
    with pytest.raises(CorruptStateError):
        decode(rows_of(STRING, STRING), both)
    inner = bytes.fromhex("02000000 00000000 10000000 18000000")
    again = extent(56, 24).to_bytes(8, "little")
    hostile = b"\2\0\0\0\0\0\0\0" + again + again + bytes(40) + inner
    with pytest.raises(CorruptStateError):
        decode(rows_of(array_of(array_of(BIGINT))), row(1, extent(len(hostile), 16), variable=hostile))


def mutated(data: bytes, changes: list[tuple[int, int]]) -> bytes:
    out = bytearray(data)
    for place, value in changes:
        out[4 + place % (len(out) - 4)] = value
    return bytes(out)


CHANGES = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=6)


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2), CHANGES, st.sampled_from(["raw", "truncate", "micros"]))
@example(0, [(123, 127)], "raw")
@pytest.mark.thorough  # many mutations
def test_mutations_never_escape(index: int, changes: list[tuple[int, int]], mode: str) -> None:
    """A row with a few bytes changed is a sound column or an error of ours, and what is sound can be written."""
    exhibit = sql_zoo.exhibits()["all"]
    data = mutated(exhibit.values[index], changes)
    with suppress(SavepointError):
        column = decode(exhibit.serializer, data, timestamps=mode, row_kind=True)
        with suppress(ValueRangeError):
            (again,) = encode(exhibit.serializer, column)
            # Bytes are compared: a change may make a NaN, which equals nothing.
            same = decode(exhibit.serializer, again, timestamps=mode, row_kind=True)
            assert encode(exhibit.serializer, same) == [again]
            assert same.type == column.type


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_random_rows_never_escape(data: st.DataObject) -> None:
    kinds = [embedded.kind for embedded in sql_zoo.exhibits()["all"].serializer.fields]  # type: ignore[attr-defined]
    serializer = rows_of(data.draw(st.sampled_from(kinds)))
    body = data.draw(st.binary(max_size=96) | st.lists(st.integers(0, 40), max_size=24).map(words))
    value = len(body).to_bytes(4, "big") + body
    with suppress(SavepointError):
        decode(serializer, value, timestamps="raw")


def words(numbers: list[int]) -> bytes:
    """Small ints, which make plausible lengths and offsets."""
    return b"\0" * 8 + b"".join(number.to_bytes(4, "little") for number in numbers)


def test_collections_at_the_top() -> None:
    exhibit = sql_zoo.exhibits()["array int"]
    assert exhibit.serializer.flink_type == "ARRAYDATA<INT>"
    check_value(exhibit.serializer, exhibit.values[0], [1, None, 3])
    assert exhibit.values[0].hex() == "00000018" + "03000000020000000100000000000000" + "0300000000000000"
    check_value(sql_zoo.exhibits()["map"].serializer, sql_zoo.exhibits()["map"].values[0], [("a", 1), ("b" * 10, None)])
