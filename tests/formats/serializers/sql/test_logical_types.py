"""Logical types: as real Flink prints and serializes them, and hostile ones."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.errors import CorruptStateError, UnsupportedStateError
from pyspark_savepoint.formats.java_stream import JavaEnum, JavaObject, parse_java_object
from pyspark_savepoint.formats.serializers.sql.internal import logical_stream
from pyspark_savepoint.formats.serializers.sql.logical_types import (
    PACKAGE,
    EmbeddedType,
    LogicalType,
    LogicalTypeReader,
    arrow_type,
)
from tests.formats.serializers.sql import sql_zoo

INT = LogicalType("INTEGER")
# What Flink hides behind dots in its own notation: comments of fields.
HIDDEN = " '...'"
NOT_MADE = ("RAW", "STRUCTURED", "`cat`", "SYMBOL", "VARIANT", "DESCRIPTOR")


def read(stream: bytes) -> LogicalType:
    view = DataInputView(stream)
    embedded = EmbeddedType.read(view)
    view.expect_end("the stream")
    assert embedded.stream == stream
    return embedded.kind


def convert(value: object) -> LogicalType:
    """A logical type from inert Java objects, which a stream of any shape may hold."""
    return LogicalTypeReader(DataInputView(b""), 0).logical_type(value, 0)


def java_type(name: str, root: str, **fields: object) -> JavaObject:
    return JavaObject(PACKAGE + name, {"isNullable": True, "typeRoot": JavaEnum(PACKAGE + "Root", root), **fields})


@pytest.mark.parametrize("notation", sql_zoo.types())
def test_types_of_real_flink(notation: str) -> None:
    stream = sql_zoo.types()[notation]
    kind = read(stream)
    assert str(kind) == (notation if kind.root == "RAW" else notation.replace(HIDDEN, ""))
    if notation.startswith(NOT_MADE):
        with pytest.raises(UnsupportedStateError):
            logical_stream(kind)
    elif HIDDEN in notation:
        assert read(logical_stream(kind)) == kind
    else:
        assert logical_stream(kind) == stream


def test_streams_of_real_savepoints(corpus: Path) -> None:
    """Every logical type at the top of a stream is made again byte for byte, unless it holds user classes."""
    made = 0
    for path in sorted((corpus / "sql").glob("*/_metadata")):
        data = path.read_bytes()
        at = 0
        while (at := data.find(b"\xac\xed\0\5sr\0", at)) >= 0:
            view = DataInputView(data[at:], str(path))
            at += 4
            if PACKAGE.encode() not in data[at + 3 : at + 5 + len(PACKAGE)]:
                continue
            embedded = EmbeddedType.read(view)
            with suppress(UnsupportedStateError):
                stream = logical_stream(embedded.kind)
                if b"\0\tclassName" in embedded.stream:  # structured types of Flink 2, written in the form of Flink 1
                    assert EmbeddedType.read(DataInputView(stream)).kind == embedded.kind
                else:
                    assert stream == embedded.stream
                made += 1
    assert made > 800


@pytest.mark.parametrize(
    ("notation", "options", "expected"),
    [
        ("CHAR(5)", {}, pa.string()),
        ("BYTES", {}, pa.binary()),
        ("DECIMAL(38, 18) NOT NULL", {}, pa.decimal128(38, 18)),
        ("TIME(3)", {}, pa.int32()),
        ("TIMESTAMP(9)", {}, pa.timestamp("us")),
        ("TIMESTAMP(9)", {"timestamps": "raw"}, pa.struct([("millis", pa.int64()), ("nanos", pa.int32())])),
        ("TIMESTAMP(3)", {"timestamps": "raw"}, pa.int64()),
        ("TIMESTAMP_LTZ(6)", {}, pa.timestamp("us", tz="UTC")),
        ("INTERVAL MONTH", {}, pa.int32()),
        ("INTERVAL DAY(3)", {}, pa.duration("us")),
        ("INTERVAL DAY(3)", {"timestamps": "raw"}, pa.int64()),
        (
            "ARRAY<ARRAY<STRING>> NOT NULL",
            {},
            pa.list_(pa.field("element", pa.list_(pa.field("element", pa.string())))),
        ),
        ("MULTISET<STRING>", {}, pa.map_(pa.string(), pa.int32())),
        ("MAP<STRING NOT NULL, BIGINT>", {}, pa.map_(pa.string(), pa.int64())),
        ("ROW<`x` INT, `y z` STRING>", {}, pa.struct([("x", pa.int32()), ("y z", pa.string())])),
        ("`cat`.`db`.`Money` NOT NULL", {}, pa.decimal128(10, 2)),
        ("RAW('java.lang.Integer', '...')", {}, pa.binary()),
    ],
)
def test_arrow_types(notation: str, options: dict[str, str], expected: pa.DataType) -> None:
    assert arrow_type(read(sql_zoo.types()[notation]), DecodeOptions(**options)) == expected


def test_types_that_rows_do_not_hold() -> None:
    assert read(sql_zoo.types()["ROW<`x` INT, `y z` STRING>"]).stored
    assert not read(sql_zoo.types()["TIMESTAMP(3) WITH TIME ZONE"]).stored
    newer = convert(java_type("TensorType", "TENSOR"))
    assert str(newer) == "TENSOR"
    assert not LogicalType("ARRAY", children=(newer,)).stored
    assert str(convert(java_type("OddType", "{0.__class__}"))) == "{0.__class__}"


def test_inherited_attributes_come_first() -> None:
    above = java_type("StructuredType", "STRUCTURED_TYPE", attributes=listed(attribute("a")))
    kind = convert(java_type("StructuredType", "STRUCTURED_TYPE", attributes=listed(attribute("b")), superType=above))
    assert kind.names == ("a", "b")


def attribute(name: str) -> JavaObject:
    return JavaObject("Attribute", {"name": name, "type": java_type("IntType", "INTEGER")})


def listed(*elements: JavaObject) -> JavaObject:
    return JavaObject("java.util.ArrayList", {"size": len(elements)}, [b"\0\0\0\1", *elements])


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        JavaObject("java.util.ArrayList"),
        JavaObject(PACKAGE + "IntType"),
        JavaObject(PACKAGE + "IntType", {"isNullable": True, "typeRoot": "INTEGER"}),
        java_type("IntType", "BIGINT"),
        java_type("VarCharType", "VARCHAR"),
        java_type("VarCharType", "VARCHAR", length=-1),
        java_type("DecimalType", "DECIMAL", precision=39, scale=0),
        java_type("DecimalType", "DECIMAL", precision=5, scale=6),
        java_type("TimestampType", "TIMESTAMP_WITHOUT_TIME_ZONE", precision=10, kind=JavaEnum("K", "REGULAR")),
        java_type("ArrayType", "ARRAY"),
        java_type("MapType", "MAP", keyType=java_type("IntType", "INTEGER")),
        java_type("RowType", "ROW", fields="a"),
        java_type("RowType", "ROW", fields=listed(JavaObject("Field", {"name": 1, "type": None}))),
        java_type("RowType", "ROW", fields=JavaObject("java.util.ArrayList", {}, ["a"])),
        java_type("RawType", "RAW", clazz="x"),
    ],
)
def test_refused(value: object) -> None:
    with pytest.raises(CorruptStateError):
        convert(value)


def test_sharing_and_cycles_do_not_blow_up() -> None:
    doubled = java_type("IntType", "INTEGER")
    for _ in range(30):
        doubled = java_type("MapType", "MAP", keyType=doubled, valueType=doubled)
    cycle = java_type("ArrayType", "ARRAY")
    cycle.fields["elementType"] = cycle
    heir = java_type("StructuredType", "STRUCTURED_TYPE", attributes=listed(attribute("a")))
    heir.fields["superType"] = heir
    nested_list = JavaObject("java.util.Collections$UnmodifiableList")
    nested_list.fields["list"] = nested_list
    for hostile in (doubled, cycle, heir, java_type("RowType", "ROW", fields=nested_list)):
        with pytest.raises(CorruptStateError):
            convert(hostile)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(sql_zoo.types())), st.integers(0), st.binary(min_size=1, max_size=4))
def test_mutations_never_escape(notation: str, place: int, change: bytes) -> None:
    stream = bytearray(sql_zoo.types()[notation])
    place %= len(stream)
    stream[place : place + len(change)] = change
    with suppress(CorruptStateError):
        kind = EmbeddedType.read(DataInputView(bytes(stream))).kind
        assert isinstance(arrow_type(kind, DecodeOptions()), pa.DataType)
        assert str(kind)


def test_every_prefix_is_refused() -> None:
    stream = sql_zoo.types()["ROW<`x` INT, `y z` STRING>"]
    assert isinstance(parse_java_object(DataInputView(stream)), JavaObject)
    for size in range(len(stream)):
        with pytest.raises(CorruptStateError):
            EmbeddedType.read(DataInputView(stream[:size]))
