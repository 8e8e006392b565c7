from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.types import StructType

from pyspark_savepoint.formats.errors import OptionError, ValueRangeError
from pyspark_savepoint.options.schema import arrow_schema, choose_columns, relabel, spark_schema

VARIANT = pa.struct(
    [pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False, {b"variant": b"true"})]
)
PERSON = pa.struct([("name", pa.string()), ("born", pa.date32()), ("tags", pa.list_(pa.string()))])
SPARK_TYPES = {
    pa.bool_(): T.BooleanType(),
    pa.int8(): T.ByteType(),
    pa.int16(): T.ShortType(),
    pa.int32(): T.IntegerType(),
    pa.int64(): T.LongType(),
    pa.float32(): T.FloatType(),
    pa.float64(): T.DoubleType(),
    pa.string(): T.StringType(),
    pa.binary(): T.BinaryType(),
    pa.date32(): T.DateType(),
    pa.timestamp("us", tz="UTC"): T.TimestampType(),
    pa.timestamp("us"): T.TimestampNTZType(),
    pa.duration("us"): T.DayTimeIntervalType(),
    pa.decimal128(38, 18): T.DecimalType(38, 18),
    pa.null(): T.NullType(),
    VARIANT: T.VariantType(),
    PERSON: StructType(
        [
            T.StructField("name", T.StringType()),
            T.StructField("born", T.DateType()),
            T.StructField("tags", T.ArrayType(T.StringType())),
        ]
    ),
    pa.list_(pa.list_(VARIANT)): T.ArrayType(T.ArrayType(T.VariantType())),
    pa.map_(PERSON, pa.duration("us")): None,
}


@pytest.mark.parametrize("arrow", SPARK_TYPES, ids=str)
def test_a_type_goes_to_spark_and_back(arrow: pa.DataType) -> None:
    schema = spark_schema(pa.schema([pa.field("c", arrow)]))
    expected = SPARK_TYPES[arrow]
    assert expected is None or schema == StructType([T.StructField("c", expected)])
    assert spark_schema(arrow_schema(schema)) == schema


def test_comments_become_those_of_columns() -> None:
    schema = spark_schema(pa.schema([pa.field("key", pa.int64(), metadata={b"comment": b"key LONG", b"x": b"y"})]))
    assert schema["key"].metadata == {"comment": "key LONG"}
    assert schema.json() == StructType.fromJson(schema.jsonValue()).json()


def test_timestamps_are_in_utc() -> None:
    assert arrow_schema(StructType([T.StructField("t", T.TimestampType())])).types == [pa.timestamp("us", "UTC")]


def test_a_batch_gets_the_labels_that_spark_wants_and_keeps_its_values() -> None:
    table = pa.schema(
        [
            pa.field("people", pa.map_(pa.string(), pa.list_(PERSON)), metadata={b"comment": b"MAP"}),
            pa.field(
                "v", pa.struct([("value", pa.binary()), pa.field("metadata", pa.binary(), True, {b"variant": b"true"})])
            ),
        ]
    )
    rows = [
        {"people": [("a", [{"name": "x", "born": None, "tags": ["t"]}, None])], "v": {"value": b"1", "metadata": b"2"}},
        {"people": None, "v": None},
        {"people": [], "v": {"value": b"3", "metadata": b"4"}},
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=table).slice(1)
    wanted = arrow_schema(spark_schema(table))
    exact = relabel(batch, wanted)
    exact.validate(full=True)
    assert exact.schema.equals(wanted, check_metadata=True)
    assert exact.to_pylist() == rows[1:]


def test_nothing_is_done_to_a_batch_that_is_right() -> None:
    batch = pa.record_batch({"a": pa.array([1])})
    assert relabel(batch, batch.schema) is batch


def test_a_null_where_spark_was_told_of_none_is_an_error() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    assert relabel(pa.record_batch({"A": pa.array([1])}), schema).to_pylist() == [{"a": 1}]
    with pytest.raises(ValueRangeError, match="column 'a' has NULLs"):
        relabel(pa.record_batch({"A": pa.array([1, None])}), schema)


TABLE = pa.schema(
    [("key", pa.int64()), ("Total", pa.int64()), ("person", PERSON), ("m", pa.map_(pa.string(), pa.list_(PERSON)))]
)


def columns(ddl: str) -> list[str]:
    return choose_columns(TABLE, StructType.fromDDL(ddl))


def refusal(schema: StructType) -> list[str]:
    with pytest.raises(OptionError) as raised:
        choose_columns(TABLE, schema)
    return str(raised.value).splitlines()[1:-1]


@pytest.fixture(autouse=True)
def _ddl_needs_a_session(spark: object) -> None:
    """``StructType.fromDDL`` asks the JVM."""


def test_a_schema_selects_and_reorders() -> None:
    assert columns("total LONG, Key LONG NOT NULL") == ["Total", "key"]
    assert columns("person struct<name: string, born: date, tags: array<string>>") == ["person"]


def test_the_schema_of_the_table_is_its_own() -> None:
    assert choose_columns(TABLE, spark_schema(TABLE)) == TABLE.names


def test_both_types_of_a_mismatch_are_shown() -> None:
    assert refusal(StructType.fromDDL("key int, totals long")) == [
        "  key: the table has bigint, the schema says int",
        "  there is no column 'totals': did you mean 'Total'?",
    ]


def test_differences_inside_are_shown_where_they_are() -> None:
    assert refusal(
        StructType.fromDDL(
            "person struct<nam: string, born: string, tags: array<int>>, "
            "m map<binary, array<struct<name: string NOT NULL, tags: array<string>, born: date>>>"
        )
    ) == [
        "  person: no field 'nam' in the table: did you mean 'name'?",
        "  person: field 'name' (string) is not in the schema",
        "  person.born: the table has date, the schema says string",
        "  person.tags[]: the table has string, the schema says int",
        "  m.key: the table has string, the schema says binary",
        "  m.value[]: the fields are name, born, tags, in this order",
        "  m.value[]: field 'name' can be NULL, so NOT NULL cannot be declared",
    ]


def test_a_column_is_selected_once() -> None:
    assert refusal(StructType.fromDDL("key long, KEY long")) == ["  column 'key' is there twice"]


def test_names_that_differ_in_case_alone_are_told_apart() -> None:
    table = pa.schema([("a", pa.int64()), ("A", pa.string())])
    assert choose_columns(table, StructType.fromDDL("A string")) == ["A"]
    assert choose_columns(table, StructType.fromDDL("a long, A string")) == ["a", "A"]
