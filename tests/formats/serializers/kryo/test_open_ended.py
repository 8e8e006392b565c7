"""Structs with a field that only the user's code reads: the others are columns, of real jobs in Kryo and Scala too."""

from __future__ import annotations

import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.errors import CorruptStateError, UndecodableStateError
from pyspark_savepoint.formats.serializers.basic.primitives import BASE, NumberSerializer
from pyspark_savepoint.formats.serializers.basic.strings import STRING, StringSerializer
from pyspark_savepoint.formats.serializers.composite.fields import RowSerializer, TupleSerializer
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.serializers.composite.wrappers import NullableSerializer
from pyspark_savepoint.formats.serializers.kryo.described.open_ended import cut_of, open_ended
from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer

KRYO, SCALA = "b52fea6fabe942eb147928a6c03aa0f9", "74465f2ac40367e2bd0fa8fbbc306682"
TEXT, INT = StringSerializer.of(STRING), NumberSerializer.of(f"{BASE}IntSerializer$IntSerializerSnapshot")
MONEY = KryoSerializer.of("com.shop.Money")


@pytest.fixture
def kryo(corpus: Path) -> LocalSavepoint:
    return pyspark_savepoint.open(str(corpus / "real" / "kryo-120" / "sp" / "savepoint-67b79c-7921d70754bb"))


@pytest.fixture
def scala(corpus: Path) -> LocalSavepoint:
    return pyspark_savepoint.open(str(corpus / "real" / "scala-117" / "sp" / "savepoint-3ad733-cba679086401"))


def test_fields_of_a_pojo_are_columns_beside_what_only_its_job_reads(kryo: LocalSavepoint) -> None:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        table = kryo.table("keyed_state", uidHash=KRYO, state="mixed", timestamps="raw", variants="variant").to_arrow()
    rows = table.to_pylist()

    assert len(rows) == 30
    for row in rows:
        value, number = row["mixed"], row["mixed"]["id"]
        assert number % 30 == row["key"]
        assert value["at"]["seconds"] == number
        assert value["bits"] == [bit for bit in range(8) if number >> bit & 1]
        assert b"rd.KryoJob$Status#1" in value["em"]["metadata"]
        assert value["loc"]["value"][1:] == b"en_US"
        assert value["monies"].startswith(b"\x00\x00\x00\x01\x01")
        assert value["monies"].endswith(b"Europe/Berli\xee")
        assert {value[name] for name in ("names", "opt", "order", "uri", "uuid", "zdt")} == {None}
    (note,) = [str(warning.message) for warning in shown]
    assert "`monies`, `order` are BINARY, with all bytes after" in note
    assert "`names`, `opt`, `order`, `set`, `tm`, `uri`, `uuid`, `zdt` are NULL" in note
    (listed,) = [row for row in kryo.states().to_arrow().to_pylist() if row["state"] == "mixed"]
    assert "`monies`" in listed["note"]


def test_values_of_scala_are_those_of_the_job(scala: LocalSavepoint) -> None:
    rows = scala.table("keyed_state", uidHash=SCALA, state="order,list,tr").to_arrow().to_pylist()

    assert len(rows) == 40
    for row in rows:
        assert row["tr"]["success"]["_2"] == row["order"]["_1"]
        for order in (row["order"], *row["list"]):
            number = order["_1"]
            assert order["_3"] == f"{Decimal(number).scaleb(-2):f}"
            assert order["_11"] == number * 10**19
            failed = {"success": None, "failure": {"class": "java.lang.RuntimeException", "message": "x"}}
            assert order["_18"] == (failed if number % 2 else {"success": number, "failure": None})
            assert order["_19"] == [number / 2]


def decoded(serializer: Any, *values: bytes) -> list[Any]:
    found = open_ended(serializer)
    assert found is not None
    at = Cursors.over(list(values))
    column: pa.Array = found.decode(at)
    at.expect_end()
    assert column.type == found.arrow_type(DecodeOptions())
    return column.to_pylist()


def test_fields_behind_are_null_only_where_they_are_taken() -> None:
    pojo = PojoSerializer.of("com.shop.Order", {"a": INT, "b": MONEY, "c": TEXT, "d": MONEY})
    one, null = b"\x02\x00\x00\x00\x00\x01", b"\x01"

    assert decoded(pojo, one + b"\x00money", one + null + b"\x00\x03ok" + null, null, one + null + null + b"\x00x") == [
        {"a": 1, "b": b"money", "c": None, "d": None},
        {"a": 1, "b": None, "c": "ok", "d": None},
        None,
        {"a": 1, "b": None, "c": None, "d": b"x"},
    ]
    found = open_ended(pojo)
    assert found is not None
    assert (cut_of(found).binary, cut_of(found).null) == (("b", "d"), ("c", "d"))


def test_structs_inside_structs_are_cut_together() -> None:
    inner = TupleSerializer.of(TEXT, MONEY)
    outer = RowSerializer.of(INT, NullableSerializer.of(inner), INT)
    assert decoded(outer, b"\x00\x00\x00\x00\x07\x00\x02xrest", b"\x08\x00\x00\x00\x07\x01") == [
        {"f0": 7, "f1": {"f0": "x", "f1": b"rest"}, "f2": None},
        {"f0": 7, "f1": None, "f2": None},
    ]
    assert open_ended(MONEY) is None


def test_what_is_in_front_is_still_checked_and_nothing_is_written() -> None:
    found = open_ended(TupleSerializer.of(INT, MONEY))
    assert found is not None
    with pytest.raises(CorruptStateError):
        decoded(TupleSerializer.of(INT, MONEY), b"\x00\x00")
    with pytest.raises(UndecodableStateError):
        found.sizes(pa.array([{"f0": 1, "f1": b""}], found.arrow_type(DecodeOptions())))
