"""Conditions of ``--where`` mean what they mean in Spark, and in ``ls --sql``."""

from __future__ import annotations

import datetime as dt
import time
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql import functions

from pyspark_savepoint.engines.spark.spark_engine import SparkEngine
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.text.conditions import parse_condition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROW = pa.struct([("tier", pa.string()), ("n", pa.int64())])
ROWS = pa.table(
    {
        "key": pa.array([1, 2, 3, 4, 5, (1 << 53) + 1], pa.int64()),
        "n": pa.array([1, -2, None, 0, 7, 2147483647], pa.int32()),
        "x": [1.0, float("nan"), None, -2.5, float("inf"), -0.0],
        "f": pa.array([0.1, None, float("nan"), 1.5, -1.0, 3.0], pa.float32()),
        "s": ["a", "b'c", None, "test-1", "", "line\nb%_\\"],
        "ok": [True, False, None, True, False, None],
        "d": pa.array([Decimal("1.50"), None, Decimal("-3.00"), Decimal("0.01"), None, Decimal("99.99")]),
        "day": [dt.date(2026, 1, 1), None, dt.date(1969, 12, 31), dt.date(2026, 2, 1), None, None],
        "at": pa.array(
            [dt.datetime(2026, 1, 1, 0, 0, 0, 5), None, *[dt.datetime(2025, 1, 1)] * 4], pa.timestamp("us", "UTC")
        ),
        "b": [b"\x00\xff", b"", None, b"a", b"b", b"c"],
        "profile": pa.array(
            [{"tier": "GOLD", "n": 1}, None, {"tier": None, "n": 2}, *[{"tier": "S", "n": 3}] * 3], ROW
        ),
        "order id": [1, 2, 3, 4, 5, 6],
    }
)
CONDITIONS = """
key = 1
key <> 1 and n <> 1
n < 0 or ok
not (n > 0)
not ok
ok = false
ok <> true or s = ''
x > 0
x >= 1e0
x < 0
x <> 1
x = x
x <= 1.5
f = 0.1
f > 1
f < x
n > 0.5
n = 1.0
d = 1.5
d < 1
d >= n
key = 9007199254740992e0
s > 'a'
s like 'test-%'
s like '%'
s like '_'
s like '%b\\%\\_%'
s not like 'a%' or s is null
s in ('a', '', 'x')
n not in (1, 7)
n between -2 and 1
n not between 0 and 10
day < date '2026-01-15'
day = '1969-12-31'
at > timestamp '2026-01-01 00:00:00'
at <= '2025-01-01'
b = x'00FF'
b > X'61'
profile.tier = 'GOLD'
profile.n in (1, 3) and profile.tier is not null
profile is null
PROFILE.Tier = 'S' AND Key > 4
`order id` >= 5
n = 1 or n = 7 and key = 5
n in (1, 7.0, -2, 2.5, 99999999999999999999)
x in (0, 1, -2.5) or f in (1.5, 3)
d in (1.5, 0.010, -3, 12345678.005)
day in ('2026-01-01', '1969-12-31')
at in ('2025-01-01', '2026-01-01 00:00:00.000005')
not (s in ('a', 'x'))
key not in (n, 3)
b in (x'00FF', x'61')
not n = 1 and not ok
true
false or key=2
""".strip().splitlines()


def kept(condition: str) -> list[int]:
    parsed = parse_condition(condition, ROWS.schema)
    needed = ROWS.select(list(dict.fromkeys(("key", *parsed.columns))))
    return [key for batch in needed.to_batches() for key in parsed.kept(batch).column("key").to_pylist()]


def test_conditions_mean_what_they_mean_in_spark(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ROWS)
    names = {str(number): text for number, text in enumerate(CONDITIONS)}
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        masks = frame.selectExpr("key", *(f"({text}) AS `{name}`" for name, text in names.items())).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    for name, text in names.items():
        assert kept(text) == [row["key"] for row in masks if row[name]], text


def test_a_quote_in_a_text_is_doubled() -> None:
    """As in SQL; Spark 4.0 joins the two texts instead."""
    assert kept("s = 'b''c'") == [2]


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("kye = 1", "did you mean 'key'"),
        ("profile.teir = 'S'", "did you mean 'tier'"),
        ("s.x = 1", "s has no fields"),
        ("x = 'a'", "they cannot be compared"),
        ("s = 1", "they cannot be compared"),
        ("profile = 1", "compare a field of it"),
        ("x", "a comparison with x is missing"),
        ("key =", "the end of 'key ='"),
        ('s = "a"', "texts are in single quotes"),
        ("length(s) > 1", "length is a function"),
        ("key = 1 key", "AND or OR is missing"),
        ("(key = 1", ") is missing"),
        ("x = NULL", "IS NULL"),
        ("at < 'soon'", "no time"),
        ("n + 1 = 2", "no part of a condition"),
        ("-n > 1", "a number is missing after -"),
        ("ok > false", "booleans are equal or not"),
        ("key = 1; drop table x", "at character 8"),
        ("", "a column or value is missing"),
    ],
)
def test_what_is_no_condition_is_refused_with_its_place(condition: str, told: str) -> None:
    with pytest.raises(OptionError) as raised:
        kept(condition)
    assert told in str(raised.value)


ELEMENTS = pa.table(
    {
        "key": [1, 2, 3, 4],
        "l": [[1, 2], None, [], [3]],
        "m": pa.array([[("a", 1)], [("b", 2), ("c", None)], None, []], pa.map_(pa.string(), pa.int64())),
        "o": pa.array(
            [[{"b": 1, "t": ["x"]}], [{"b": 2, "t": ["y", "z"]}, None], [], [{"b": None, "t": []}]],
            pa.list_(pa.struct([("b", pa.int64()), ("t", pa.list_(pa.string()))])),
        ),
    }
)


@pytest.mark.parametrize(
    ("condition", "keys"),
    [
        ("l[] = 2", [1]),
        ("l[] IN (3, 1)", [1, 4]),
        ("l[] NOT IN (1)", [1, 4]),
        ("NOT l[] = 1", [2, 3, 4]),
        ("m{key} = 'c'", [2]),
        ("M{VALUE} > 1 OR key = 1", [1, 2]),
        ("m{value} IS NULL", [2]),
        ("o[].b = 2", [2]),
        ("o[].t[] = 'z'", [2]),
        ("o[].t[] LIKE 'x%' AND l[] BETWEEN 2 AND 3", [1]),
        ("o[] IS NULL", [2]),
    ],
)
def test_elements_are_named_as_reports_of_erasures_name_them(condition: str, keys: list[int]) -> None:
    # A slice: its offsets do not begin at 0.
    for table in (ELEMENTS, pa.concat_tables([ELEMENTS, ELEMENTS]).combine_chunks().slice(4)):
        parsed = parse_condition(condition, table.schema)
        found = [key for batch in table.to_batches() for key in parsed.kept(batch).column("key").to_pylist()]
        assert found == keys


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("l = 1", r"or its elements: lines\[\], spent{key}"),
        ("l[ = 1", r"it is a list, of l\[\]"),
        ("l{key} = 1", r"it is a list, of l\[\]"),
        ("m{kye} = 1", r"it is a map, of m{key} and m{value}"),
        ("o.b = 1", r"o has no fields: it is a list, of o\[\]"),
        ("l[] = key", "compared with values, and not with a column"),
        ("1 = l[]", "elements are on the left side"),
    ],
)
def test_elements_that_cannot_be_compared(condition: str, told: str) -> None:
    with pytest.raises(OptionError, match=told):
        parse_condition(condition, ELEMENTS.schema)


COUNT = 100_000


@pytest.mark.parametrize(
    ("condition", "keys"),
    [
        (f"key IN ({', '.join(map(str, range(3, COUNT)))})", [3, 4, 5]),
        ("s IN (" + ", ".join(f"'test-{number}'" for number in range(COUNT)) + ")", [4]),
        (f"x IN ({', '.join(f'{number / 100:.2f}' for number in range(COUNT))})", [1, (1 << 53) + 1]),
        ("day IN (" + ", ".join(["'2026-01-01'"] * COUNT) + ")", [1]),
        (" AND ".join(f"key <> {number}" for number in range(3, 3000)), [1, 2, (1 << 53) + 1]),
        (" OR ".join(f"key = {number}" for number in range(3, 3000)), [3, 4, 5]),
        ("NOT " * COUNT + "key = 1", [1]),
        ("key = " + "-" * COUNT + "1", [1]),
        ("(" * 100 + "key = 1" + ")" * 100, [1]),
    ],
    ids=lambda value: str(value)[:20],
)
def test_conditions_of_any_length(condition: str, keys: list[int]) -> None:
    begin = time.process_time()
    assert kept(condition) == keys
    assert time.process_time() - begin < 10


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("(" * 101 + "key = 1" + ")" * 101, "more than 100 parentheses"),
        ("(" * COUNT + "key = 1" + ")" * COUNT, "more than 100 parentheses"),
        ("key = " + "1" * 5000, "more than 38 digits"),
        ("key IN (1, " + "1" * 5000 + ")", "more than 38 digits"),
        ("key = 0." + "1" * 5000, "more than 38 digits"),
        ("key = 1e999", "out of range"),
        ("key = " + "1" * 5000 + "e1", "out of range"),
        ("key = " + "1" * COUNT + "x", "no part of a condition"),
        ("s = '" + "'" * COUNT, "no part of a condition"),
        ("s = '" + "a" * COUNT, "no part of a condition"),
        ("key = \u0663", "no part of a condition"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_conditions_that_are_too_deep_or_too_large(condition: str, told: str) -> None:
    begin = time.process_time()
    with pytest.raises(OptionError, match=told) as raised:
        kept(condition)
    assert time.process_time() - begin < 10
    assert len(str(raised.value)) < 1000


@pytest.mark.spark
def test_any_number_of_columns_of_spark_are_joined(spark: SparkSession) -> None:
    engine = SparkEngine(spark)
    several = reduce(lambda left, right: left & right, (functions.col("key") != number for number in range(3, 400)))
    assert kept(str(engine.worded(several | (functions.col("n") == 7)))) == [1, 2, 5, (1 << 53) + 1]
    assert kept(str(engine.worded(functions.col("key").isin(*range(3, 1003))))) == [3, 4, 5]
