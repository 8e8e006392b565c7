"""Moments against the bytes and hashes of real Flink (1.16.3 and 2.3.0 agree), in the three ways to show them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import CorruptStateError, ValueRangeError
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from tests.formats.serializers.codec_checks import base, check_column, check_resources, check_value, decode, encode

MOMENT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
NULL = "8000000000000000"
RAW = DecodeOptions(timestamps="raw")
MILLIS_TYPES = ["Date", "SqlDate", "SqlTime"]


def moments(*values: int | None) -> pa.Array:
    return pa.array(values, pa.timestamp("us", tz="UTC"))


@pytest.mark.parametrize(
    ("stem", "expected"),
    [
        ("date", datetime(1970, 1, 19, 6, 59, 42, 960000, UTC)),
        ("sql-date", datetime(1970, 1, 19, 6, 59, 42, 960000, UTC)),
        ("sql-time", 1580382960),
    ],
)
def test_values_of_real_flink(flink_resources: Path, stem: str, expected: object) -> None:
    assert check_resources(flink_resources, f"{stem}-serializer", expected, 5).length == 8


@pytest.mark.parametrize(
    ("stem", "data", "micros", "raw"),
    [
        ("Date", "0000018bcfe5687b", MOMENT.replace(microsecond=123000), 1700000000123),
        ("Date", NULL, None, None),
        ("SqlDate", "0000000005265c00", datetime(1970, 1, 2, tzinfo=UTC), 86400000),
        ("SqlDate", NULL, None, None),
        ("SqlTime", "00000000000004d2", 1234, 1234),
        ("SqlTime", NULL, None, None),
        (
            "SqlTimestamp",
            "0000018bcfe5680000001b58",
            MOMENT.replace(microsecond=7),
            {"seconds": 1700000000, "nanos": 7000},
        ),
        (
            "Instant",
            "000000006553f1000000fa00",
            MOMENT.replace(microsecond=64),
            {"seconds": 1700000000, "nanos": 64000},
        ),
        (
            "Instant",
            "ffffffffffffffff3b9ac618",
            datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
            {"seconds": -1, "nanos": 999999000},
        ),
        ("Instant", NULL + "80000000", None, None),
    ],
)
def test_bytes(stem: str, data: str, micros: object, raw: object) -> None:
    check_value(base(stem), bytes.fromhex(data), micros)
    check_value(base(stem), bytes.fromhex(data), raw, timestamps="raw")


def test_finer_than_microseconds() -> None:
    data = {
        "SqlTimestamp": bytes.fromhex("fffffffffffff8ab075bcd15"),
        "Instant": bytes.fromhex("fffffffffffffffe075bcd15"),
    }
    for stem, value in data.items():
        with pytest.raises(ValueRangeError, match=r'789 ns beyond(.|\n)*option."timestamps", "truncate"'):
            decode(base(stem), value)
        cut = decode(base(stem), value, timestamps="truncate").to_pylist()
        assert cut == [datetime(1969, 12, 31, 23, 59, 58, 123456, UTC)]
        check_value(base(stem), value, {"seconds": -2, "nanos": 123456789}, timestamps="raw")


@pytest.mark.parametrize("mode", ["micros", "truncate"])
@pytest.mark.parametrize(
    ("stem", "data", "raw"),
    [
        ("Date", "7fffffffffffffff", 2**63 - 1),
        ("Date", "ffffc77cedd327ff", -62135596800001),
        ("SqlDate", "0000e677d21fdc00", 253402300800000),
        ("Instant", "ff8fe3101464140000000000", {"seconds": -31557014167219200, "nanos": 0}),
        ("Instant", "00701cd2fa9578ff3b9ac9ff", {"seconds": 31556889864403199, "nanos": 999999999}),
        ("SqlTimestamp", "7fffffffffffffff301c3fc0", {"seconds": 9223372036854775, "nanos": 807157696}),
    ],
)
def test_outside_the_years_of_spark(stem: str, data: str, raw: object, mode: str) -> None:
    with pytest.raises(ValueRangeError, match=r'years 1 to 9999(.|\n)*option."timestamps", "raw"') as caught:
        decode(base(stem), bytes.fromhex(data), timestamps=mode)
    assert caught.value.facts["offset"] == 0
    assert decode(base(stem), bytes.fromhex(data), timestamps="raw").to_pylist() == [raw]


def test_nanoseconds_that_are_none() -> None:
    for stem in ("SqlTimestamp", "Instant"):
        for nanos in (-1, 1_000_000_000):
            with pytest.raises(CorruptStateError, match="nanoseconds of a second"):
                decode(base(stem), bytes(8) + nanos.to_bytes(4, "big", signed=True))


def test_columns() -> None:
    random = np.random.default_rng(7)
    millis = random.integers(-62135596800000, 253402300799999, 500)
    nulls = [None if i % 5 == 0 else int(v) for i, v in enumerate(millis)]
    micros = [None if v is None else v * 1000 for v in nulls]
    for stem in ("Date", "SqlDate"):
        check_column(base(stem), moments(*micros))
        check_column(base(stem), pa.array(nulls, pa.int64()), timestamps="raw")
    check_column(base("SqlTime"), pa.array(nulls, pa.int64()))
    for stem in ("SqlTimestamp", "Instant"):
        absent = 0 if stem == "SqlTimestamp" else None
        check_column(base(stem), moments(*(absent if v is None else v + 7 for v in micros)))
        kind = base(stem).arrow_type(RAW)
        zero = {"seconds": 0, "nanos": 0} if stem == "SqlTimestamp" else None
        raw = [zero if v is None else {"seconds": v // 1000, "nanos": v % 999_999_937} for v in nulls]
        check_column(base(stem), pa.array(raw, kind), timestamps="raw")


def test_a_null_of_sql_timestamp_is_read_and_never_written() -> None:
    """Flink writes twelve bytes, and reads eight of them: a restore takes the other four for what follows."""
    assert decode(base("SqlTimestamp"), bytes.fromhex(NULL + "00000000")).to_pylist() == [None]
    for text in ("SQL_TIMESTAMP", "TUPLE<SQL_TIMESTAMP, LONG>", "LIST<SQL_TIMESTAMP>", "TTL<SQL_TIMESTAMP>"):
        serializer = parse_type(text)
        kind = serializer.arrow_type(DecodeOptions())
        value = {"f0": None, "f1": 7} if "TUPLE" in text else [None] if "LIST" in text else None
        with pytest.raises(ValueRangeError, match=r"NULLABLE<SQL_TIMESTAMP>"):
            encode(serializer, pa.array([value], kind))
    nullable = parse_type("TUPLE<NULLABLE<SQL_TIMESTAMP>, LONG>")
    column = pa.array([{"f0": None, "f1": 7}], nullable.arrow_type(DecodeOptions()))
    assert encode(nullable, column) == [bytes.fromhex("01" + "0000000000000007")]


def test_hashes() -> None:
    millis = pa.array([1700000000123, -1, 0, None, 86400000])
    for stem in MILLIS_TYPES:
        assert base(stem).java_hash(millis).tolist() == [-807048720, 0, 0, 0, 86400000]
    column = moments(1700000000123000, -1000, None)
    assert base("Date").java_hash(column).tolist() == [-807048720, 0, 0]
    assert base("SqlTimestamp").java_hash(column).tolist() == [-807048720, 0, 0]
    instants = [bytes.fromhex(v) for v in ("000000006553f10000000005", "ffffffffffffffff3b9ac618", NULL + "80000000")]
    raw = decode(base("Instant"), *instants, timestamps="raw")
    assert base("Instant").java_hash(raw).tolist() == [1700000255, -539658552, 0]
    timestamp = decode(base("SqlTimestamp"), bytes.fromhex("fffffffffffff8ab075bcd15"), timestamps="raw")
    assert base("SqlTimestamp").java_hash(timestamp).tolist() == [1876]


def test_what_cannot_be_written() -> None:
    with pytest.raises(ValueRangeError, match="whole milliseconds"):
        encode(base("Date"), moments(1001))
    kind = pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())])
    for value, why in (((1, 10**9), "nanoseconds from 0"), ((None, 1), "cannot be null"), ((2**62, 1), "in a long")):
        with pytest.raises(ValueRangeError, match=why):
            encode(base("SqlTimestamp"), pa.array([{"seconds": value[0], "nanos": value[1]}], kind))


@pytest.mark.parametrize(
    ("stem", "data", "micros", "raw", "java_hash"),
    [
        ("LocalDate", "000007e8021d", date(2024, 2, 29), (2024, 2, 29), 4145309),
        ("LocalDate", "000000010101", date(1, 1, 1), (1, 1, 1), 2113),
        ("LocalDate", "0000270f0c1f", date(9999, 12, 31), (9999, 12, 31), 20470559),
        ("LocalDate", "000007b10c1f", date(1969, 12, 31), (1969, 12, 31), 4033311),
        ("LocalDate", "800000008000", None, None, 0),
        ("LocalTime", "01020300000004", 3723000000004, 3723000000004, -736645786),
        ("LocalTime", "173b3b3b9ac9ff", 86399999999999, 86399999999999, -1857113749),
        ("LocalTime", "00000000000000", 0, 0, 0),
        ("LocalTime", "0d000000000000", 46800000000000, 46800000000000, 2036337296),
        ("LocalTime", "80800080000000", None, None, 0),
        ("LocalDateTime", "0000079e010100000000000000", datetime(1950, 1, 1), (1950, 1, 1, 0), 3993665),
        (
            "LocalDateTime",
            "0000076d0202173b3b3b9ac618",
            datetime(1901, 2, 2, 23, 59, 59, 999999),
            (1901, 2, 2, 86399999999000),
            -1854547442,
        ),
        ("LocalDateTime", "80000000800080800080000000", None, None, 0),
    ],
)
def test_local_bytes(stem: str, data: str, micros: object, raw: object, java_hash: int) -> None:
    if isinstance(raw, tuple):
        raw = dict(zip(("year", "month", "day", "nano_of_day"), raw, strict=False))
    serializer = base(stem)
    check_value(serializer, bytes.fromhex(data), micros)
    check_value(serializer, bytes.fromhex(data), raw, timestamps="raw")
    for mode in ("micros", "raw"):
        column = decode(serializer, bytes.fromhex(data), timestamps=mode)
        assert serializer.java_hash(column).tolist() == [java_hash]
    assert serializer.length == len(data) // 2


@pytest.mark.parametrize(
    ("stem", "data", "raw", "java_hash"),
    [
        ("LocalDate", "fffffffb0301", (-5, 3, 1), 8385),
        ("LocalDate", "c46536010101", (-999999999, 1, 1), -304793535),
        ("LocalDate", "3b9ac9ff0c1f", (999999999, 12, 31), -304794849),
        ("LocalDateTime", "3b9ac9ff0c1f173b3b3b9ac9ff", (999999999, 12, 31, 86399999999999), 2090566260),
    ],
)
def test_local_outside_the_years_of_spark(stem: str, data: str, raw: tuple[int, ...], java_hash: int) -> None:
    with pytest.raises(ValueRangeError, match="years 1 to 9999"):
        decode(base(stem), bytes.fromhex(data))
    named = dict(zip(("year", "month", "day", "nano_of_day"), raw, strict=False))
    check_value(base(stem), bytes.fromhex(data), named, timestamps="raw")
    assert base(stem).java_hash(decode(base(stem), bytes.fromhex(data), timestamps="raw")).tolist() == [java_hash]


def test_local_date_time_finer_than_microseconds() -> None:
    value = bytes.fromhex("000007e8021d01020300000004")
    with pytest.raises(ValueRangeError, match="4 ns beyond"):
        decode(base("LocalDateTime"), value)
    cut = decode(base("LocalDateTime"), value, timestamps="truncate")
    assert cut.to_pylist() == [datetime(2024, 2, 29, 1, 2, 3)]
    raw = decode(base("LocalDateTime"), value, timestamps="raw")
    assert base("LocalDateTime").java_hash(raw).tolist() == [-735515141]


@pytest.mark.parametrize(
    ("stem", "data"),
    [
        ("LocalDate", "000007e7021d"),
        ("LocalDate", "000007e70d01"),
        ("LocalDate", "000007e70001"),
        ("LocalDate", "000007e70100"),
        ("LocalDate", "3b9aca000101"),
        ("LocalTime", "18000000000000"),
        ("LocalTime", "003c0000000000"),
        ("LocalTime", "00003c00000000"),
        ("LocalTime", "0000003b9aca00"),
        ("LocalTime", "ff000000000000"),
        ("LocalDateTime", "80000000800000000000000000"),
        ("LocalDateTime", "000007e8021d80800080000000"),
    ],
)
def test_local_damage(stem: str, data: str) -> None:
    with pytest.raises(CorruptStateError):
        decode(base(stem), bytes.fromhex(data))


def test_local_columns() -> None:
    random = np.random.default_rng(8)
    days = [None if i % 5 == 0 else int(v) for i, v in enumerate(random.integers(-719162, 2932897, 500))]
    dates = pa.array(days, pa.date32())
    written = check_column(base("LocalDate"), dates)
    assert [int.from_bytes(v[:4], "big", signed=True) for v in written] == [
        -(2**31) if d is None else d.year for d in dates.to_pylist()
    ]
    nanos = [None if d is None else (d * 86_399_999_937) % 86_400_000_000_000 for d in days]
    check_column(base("LocalTime"), pa.array(nanos, pa.int64()))
    micros = [None if d is None else d * 86_400_000_000 + n // 1000 for d, n in zip(days, nanos, strict=True)]
    check_column(base("LocalDateTime"), pa.array(micros, pa.timestamp("us")))
    kind = base("LocalDateTime").arrow_type(RAW)
    raw = [
        None if d is None else {"year": d.year * 1000, "month": d.month, "day": min(d.day, 28), "nano_of_day": n}
        for d, n in zip(dates.to_pylist(), nanos, strict=True)
    ]
    check_column(base("LocalDateTime"), pa.array(raw, kind), timestamps="raw")


def test_local_values_that_cannot_be_written() -> None:
    with pytest.raises(ValueRangeError, match="nanoseconds of a day"):
        encode(base("LocalTime"), pa.array([86_400_000_000_000]))
    kind = base("LocalDate").arrow_type(RAW)
    for value in ({"year": 2023, "month": 2, "day": 29}, {"year": 10**9, "month": 1, "day": 1}):
        with pytest.raises(ValueRangeError, match="a day of the calendar"):
            encode(base("LocalDate"), pa.array([value], kind))
    with pytest.raises(ValueRangeError, match="cannot be null"):
        encode(base("LocalDate"), pa.array([{"year": 2023, "month": None, "day": 1}], kind))
