"""Rows and Avro of Beam: bytes by hand, bytes that real coders wrote and that are damaged, and forged schemas."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyspark_savepoint
from pyspark_savepoint.formats.columns import Cursors
from pyspark_savepoint.formats.errors import CorruptStateError, SavepointError, SavepointWarning
from pyspark_savepoint.formats.java_stream import JavaEnum, JavaObject
from pyspark_savepoint.formats.serializers.avro.serializer import read_schema
from pyspark_savepoint.formats.serializers.beam.avro import binary
from pyspark_savepoint.formats.serializers.beam.parts import NUMBERS, TEXT
from pyspark_savepoint.formats.serializers.beam.rows import OF_TYPE, Row
from pyspark_savepoint.formats.serializers.beam.serializer import part_of
from pyspark_savepoint.formats.serializers.layout import Part
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

BEAM = Path(__file__).parents[3] / "oracle" / "savepoints" / "beam" / "savepoint"
ROW = Row(("a", "b", "c"), (NUMBERS["BYTE"], TEXT, NUMBERS["SHORT"]))


def decoded(part: Part, *values: bytes) -> list[Any]:
    at = Cursors.over(values)
    column = part.decode(at)
    at.expect_end()
    column.validate(full=True)
    return column.to_pylist()


def test_rows() -> None:
    assert decoded(ROW, b"\3\0\7\1x\1\0", b"\3\1\5\1y", b"\2\0\7\1z", b"\0\0") == [
        {"a": 7, "b": "x", "c": 256},
        {"a": None, "b": "y", "c": None},
        {"a": 7, "b": "z", "c": None},
        {"a": None, "b": None, "c": None},
    ]


@pytest.mark.parametrize(
    "data",
    [b"", b"\4\0\1\1x\0\0\0", b"\3\1\x08\7\1x\1\0", b"\3\2\0\0\7\1x\1\0", b"\3\5\0", b"\3\0\7\5x", b"\3\0\7\1x\1"],
)
def test_a_row_that_is_damaged(data: bytes) -> None:
    with pytest.raises(CorruptStateError):
        decoded(ROW, data)


AVRO: list[tuple[str, bytes, Any]] = [
    ('"long"', b"\x80\x01", 64),
    ('"int"', b"\x01", -1),
    ('"long"', b"\xff" * 9 + b"\x01", -(2**63)),
    ('"string"', b"\x06foo", "foo"),
    ('{"type": "array", "items": "long"}', b"\x04\x06\x36\x00", [3, 27]),
    ('{"type": "array", "items": "long"}', b"\x03\x04\x06\x36\x02\x02\x00", [3, 27, 1]),
    ('{"type": "array", "items": "null"}', b"\x04\x00", [None, None]),
    ('{"type": "map", "values": "int"}', b"\x02\x02a\x04\x00", [("a", 2)]),
    ('["null", "string"]', b"\x02\x02a", "a"),
    ('["null", "string"]', b"\x00", None),
    ('["null", "string", "int"]', b"\x04\x02", {"member0": None, "member1": 1}),
    ('{"type": "enum", "name": "E", "symbols": ["A", "B"]}', b"\x02", "B"),
    ('{"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}', b"\x04\x04\xd2", "12.34"),
    (
        '{"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 2}',
        b"\xff\x85",
        "-1.23",
    ),
    ('{"type": "long", "logicalType": "time-micros"}', b"\x02", 1),
    ('"float"', b"\0\0\x80?", 1.0),
]


@pytest.mark.parametrize(("schema", "data", "value"), AVRO)
def test_avro(schema: str, data: bytes, value: Any) -> None:
    """Examples of Avro's specification, among others."""
    part = binary(read_schema(schema)[1])
    (found,) = decoded(part, data)
    assert (str(found) if "decimal" in schema else found) == value
    for end in range(len(data)):
        with pytest.raises(CorruptStateError):
            decoded(part, data[:end])


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ('"int"', b"\x80\x80\x80\x80\x10"),
        ('"string"', b"\x05foo"),
        ('["null", "string"]', b"\x04"),
        ('{"type": "enum", "name": "E", "symbols": ["A", "B"]}', b"\x04"),
        ('{"type": "array", "items": "long"}', b"\xfe\xff\xff\xff\x0f\x02\x00"),
        ('{"type": "array", "items": "null"}', b"\xff" * 9 + b"\x01\x02\x00"),
    ],
)
def test_avro_that_is_damaged(schema: str, data: bytes) -> None:
    with pytest.raises(CorruptStateError):
        decoded(binary(read_schema(schema)[1]), data)


def test_bytes_that_real_coders_wrote_and_that_are_damaged() -> None:
    """One byte is another, or bytes are missing: values, or an error of this package."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SavepointWarning)
        sp = pyspark_savepoint.open(BEAM)
        states = ["row", "avro", "row_in_pair", "decimal"]
        rows = list(sp.keyed_state("beam", raw=",".join(states)).rows())
    savepoint = Snapshot.open(str(BEAM))
    header = OpenOperator(savepoint, savepoint.operator(uid="beam")).keyed.headers[0]
    registered = {state.name: state.value_serializer for state in header.states}
    rng = random.Random(47)
    refused = 0
    for state in states:
        part = registered[state].part
        for _ in range(100):
            data = bytearray(rng.choice(rows)[state])
            data[rng.randrange(len(data))] = rng.randrange(256)
            try:
                decoded(part, bytes(data[: rng.choice((len(data), rng.randrange(len(data))))]))
            except SavepointError:
                refused += 1
    assert 150 < refused < 400


def of_type(name: str, **given: Any) -> JavaObject:
    flag = JavaObject("java.lang.Boolean", {"value": False})
    fields = dict.fromkeys(OF_TYPE) | {"nullable": flag, "typeName": JavaEnum("TypeName", name)}
    return JavaObject("org.apache.beam.sdk.schemas.AutoValue_Schema_FieldType", fields | given)


def schema_of(**types: Any) -> JavaObject:
    fields = [JavaObject("Field", {"name": name, "type": kind}) for name, kind in types.items()]
    numbers = [JavaObject("java.lang.Integer", {"value": number}) for number in range(len(types))]
    places = [one for pair in zip(types, numbers, strict=True) for one in pair]
    return JavaObject(
        "org.apache.beam.sdk.schemas.Schema",
        {
            "fields": JavaObject("java.util.ArrayList", {}, [b"", *fields]),
            "encodingPositions": JavaObject("java.util.HashMap", {}, [b"", *places]),
        },
    )


def coder_of(schema: JavaObject) -> JavaObject:
    return JavaObject("org.apache.beam.sdk.coders.RowCoder", {"schema": schema})


def test_schemas_that_are_forged_are_not_known() -> None:
    assert isinstance(part_of(coder_of(schema_of(a=of_type("INT32")))), Row)
    own = of_type("ARRAY")
    own.fields["collectionElementType"] = own
    wide = of_type("INT32")
    for _ in range(30):
        wide = of_type("MAP", mapKeyType=wide, mapValueType=wide)
    inside = schema_of(a=of_type("ROW"))
    inside.fields["fields"].annotations[1].fields["type"].fields["rowSchema"] = inside
    twice = schema_of(a=of_type("INT32"))
    twice.fields["fields"].annotations.append(twice.fields["fields"].annotations[1])
    options = schema_of(a=of_type("INT32"))
    entries = JavaObject("java.util.HashMap", {}, [b"", "beam:option:row:static_encoding", True])
    options.fields["options"] = JavaObject("Options", {"options": entries})
    many = schema_of(**{f"f{number}": of_type("INT32") for number in range(2000)})
    for schema in (schema_of(a=own), schema_of(a=wide), inside, twice, options, many, schema_of(a=of_type("NEW"))):
        assert part_of(coder_of(schema)) is None


def test_a_row_of_many_fields_takes_time_by_its_bytes() -> None:
    names = tuple(f"f{number}" for number in range(200))
    row = Row(names, (NUMBERS["BYTE"],) * 200)
    data = b"\xc8\x01\0" + bytes(200)
    at = Cursors(np.frombuffer(data * 1000, np.uint8).copy(), *(np.arange(1000) * 203 + start for start in (0, 203)))
    assert len(row.decode(at)) == 1000
