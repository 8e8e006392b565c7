"""Options ``classes`` and ``kryoTypes``: states of a real job of 1.20 with classes of its own that Kryo wrote."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pyspark_savepoint
from pyspark_savepoint import Savepoint
from pyspark_savepoint.formats.errors import (
    OptionError,
    SavepointError,
    UndecodableStateError,
    UnsupportedStateError,
)
from pyspark_savepoint.statebackends.writing.planning.write_request import WriteRequest
from pyspark_savepoint.write.in_place import plan_write

JOB = "rd.KryoJob$"
WORDS = f"""
    {JOB}Money(cents LONG, cur STRING); {JOB}Status ENUM(NEW, PAID, SENT);
    {JOB}Order(id UUID, customer STRING, placed INSTANT, lines ArrayList<HashMap<STRING, Object>>, total BIG_DECIMAL,
        status {JOB}Status, money {JOB}Money, nullable Long, qty INT, weights double[], due LOCAL_DATE,
        note OPTIONAL<STRING>)"""
OPTIONS: dict[str, Any] = {"kryo_types": WORDS, "timestamps": "truncate"}


@pytest.fixture
def job(corpus: Path) -> str:
    return str(next((corpus / "real" / "kryo-120" / "sp").iterdir()))


def order(number: int) -> dict[str, Any]:
    """An order as the job makes it."""
    lines = [[("sku", f'"s{line}"'), ("n", str(line))] for line in range(number % 3)]
    placed = datetime.datetime.fromtimestamp(1_600_000_000 + number, datetime.UTC)
    return {
        "customer": f"c{number}",
        "due": datetime.date(1970, 1, 1) + datetime.timedelta(number),
        "id": str(UUID(int=number << 64 | (~number & (1 << 64) - 1))),
        "lines": lines,
        "money": {"cents": number, "cur": "EUR"},
        "note": f"n{number}" if number % 2 == 0 else None,
        "nullable": number if number % 2 == 0 else None,
        "placed": placed.replace(microsecond=number // 1000),
        "qty": number,
        "status": ("NEW", "PAID", "SENT")[number % 3],
        "total": str(Decimal(number).scaleb(-2)),
        "weights": [float(number), number / 2],
    }


def shown(value: Any) -> Any:
    """An order of a table, with the lines' values as JSON."""
    lines = [sorted(line, reverse=True) for line in value["lines"]]
    return {**value, "lines": lines}


def test_classes_in_words_are_columns(job: str) -> None:
    table = pyspark_savepoint.open(job, **OPTIONS).table("keyed_state", uid="kryo")
    assert not table.warnings
    rows = table.to_arrow().to_pylist()
    assert len(rows) == 30
    for row in rows:
        number = row["a-plain"]
        assert shown(row["order"]) == order(number)
        assert row["money"] == {"cents": number, "cur": "GBP"}
        assert shown(row["mixed"]["order"]) == order(number)
        assert row["mixed"]["monies"] == [{"cents": number, "cur": "X"}]
        assert [shown(each) for each in row["orders"]] == [order(1000 + number - 30), order(1000 + number)]
        assert all(shown(each) == order(each["qty"]) for _, each in row["omap"])


@pytest.mark.thorough("their columns, written back")
def test_sql_over_them(spark: SparkSession, job: str) -> None:
    reader = spark.read.format("savepoint").option("uid", "kryo").option("kryoTypes", WORDS)
    frame = reader.option("timestamps", "truncate").load(job)
    found = frame.select("`a-plain`", "money.cents", "mixed.order.status", "any").collect()
    assert {(row[0], row[1]) for row in found} == {(row[0], row[0]) for row in found}
    assert {row["status"] for row in found} == {"NEW", "PAID", "SENT"}
    texts = {row["a-plain"]: json.loads(row["any"].toJson()) for row in found}
    assert texts == {
        number: number if number % 3 == 0 else f"text{number}" if number % 3 == 1 else {"cents": number, "cur": "USD"}
        for number in texts
    }


def test_warnings_name_the_options(job: str) -> None:
    table = pyspark_savepoint.open(job).table("keyed_state", uid="kryo")
    assert any("option 'classes'" in warning and "option 'kryoTypes'" in warning for warning in table.warnings)


@pytest.mark.parametrize(
    "case", ["kryo-u-simple", "kryo-u-shared", "liststate-pojo-list", "oplist-pojo-list", "pojo-all"]
)
def test_both_releases_are_shown_alike(corpus: Path, case: str) -> None:
    """Also lists and maps in fields: 1.20.5 used Kryo for them, 2.3.0 has serializers."""
    folder = corpus / "migration"
    shown = []
    for release in ("1.20.5", "2.3.0"):
        path = folder / "cases" / case / f"{release}-hashmap"
        savepoint = pyspark_savepoint.open(str(path), classes=folder / "classes", timestamps="raw")
        table = savepoint.table(uid="state", **({"state": "v"} if case.startswith("op") else {}))
        assert not table.warnings
        shown.append(sorted(str(without_subclasses(row)) for row in table.to_arrow().to_pylist()))
    assert shown[0] == shown[1]


def without_subclasses(value: Any) -> Any:
    """Return a value without what a POJO of 2.3.0 shows of its only subclass: Kryo's column has the class itself."""
    if isinstance(value, dict):
        shown = {name: without_subclasses(part) for name, part in value.items()}
        if shown.pop("__class", None) == "miglab.Model$Addr":
            assert shown.pop("extra") is None
        return shown
    if isinstance(value, list | tuple):
        return type(value)(without_subclasses(part) for part in value)
    return value


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"kryo_types": "com.shop.Money(cents"}, "a type"),
        ({"classes": "/no/such.jar"}, "no jar or folder"),
        ({"classes": "[1]"}, "paths of jars and folders"),
    ],
)
def test_mistakes(job: str, options: dict[str, Any], problem: str) -> None:
    with pytest.raises((OptionError, SavepointError), match=problem):
        pyspark_savepoint.open(job, **options).table("keyed_state", uid="kryo").to_arrow()


def test_columns_are_written_back(spark: SparkSession, job: str, tmp_path: Path) -> None:
    """All else stays byte for byte; values that a column does not show are refused before anything is written."""
    sp = Savepoint.load(spark, job, kryo_types=WORDS)
    paid = "named_struct('cents', money.cents + 1, 'cur', money.cur) AS money"
    rows = sp.keyed_state("kryo", timestamps="truncate").selectExpr("key", paid, "uuid")
    changed = sp.with_state("kryo", "money", rows.select("key", "money"))
    changed = changed.with_state("kryo", "uuid", rows.select("key", "uuid"))
    with pytest.raises(UnsupportedStateError, match="Object cannot be written back"):
        changed.with_state("kryo", "order", sp.keyed_state("kryo", timestamps="truncate").select("key", "order"))
    with pytest.raises(UndecodableStateError, match="own serializer"):
        Savepoint.load(spark, job).with_state("kryo", "money", rows.select("key", "money"))
    changed.write(str(tmp_path / "changed"))
    again = spark.read.format("savepoint").option("uid", "kryo").option("kryoTypes", WORDS)
    frame = again.option("timestamps", "truncate").load(str(tmp_path / "changed"))
    writer = frame.selectExpr("key", "named_struct('cents', money.cents - 1, 'cur', money.cur) AS money").write
    writer = writer.format("savepoint").option("uid", "kryo").option("state", "money").option("kryoTypes", WORDS)
    before = table_of(tmp_path / "changed")
    writer.mode("overwrite").save(str(tmp_path / "changed"))
    assert table_of(tmp_path / "changed") == table_of(Path(job)) != before


def test_a_new_savepoint_is_of_a_release_that_is_named(job: str, tmp_path: Path) -> None:
    """Otherwise Kryo 2 would write values that Kryo 5 may have to read."""
    schema = pa.schema([("key", pa.int64()), ("uuid", pa.string())])
    request = WriteRequest(str(tmp_path / "new"), uid="kryo", type_source=f"{job}#kryo")
    with pytest.raises(OptionError, match="Flink 2 has Kryo 5"):
        plan_write(request, schema)
    plan_write(replace(request, flink_version=(2, 2)), schema)


def test_a_created_savepoint_is_of_a_release_that_is_named(spark: SparkSession, job: str, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(1, "9d4c8b0e-2f5e-4a55-8a3c-0b8f6f0c1d2e")], "key long, uuid string")
    made = Savepoint.create(spark).with_operator("kryo", rows, key="key", types_from=f"{job}#kryo")
    with pytest.raises(OptionError, match="Flink 2 has Kryo 5"):
        made.write(str(tmp_path / "created"))
    assert not (tmp_path / "created").exists()


def table_of(path: Path) -> list[Any]:
    """The operator's rows, all that Kryo wrote as bytes."""
    states = "order, uuid, opt, alist, mixed, orders, omap, any, hmap, money, zdt, uuids, umap"
    table = pyspark_savepoint.open(path, raw=states).table("keyed_state", uid="kryo")
    return sorted(map(str, table.to_arrow().select(sorted(table.schema.names)).to_pylist()))
