"""Types of what is given for a new query: an exact value of another type is taken, and anything else is one error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import pyspark_savepoint
from pyspark_savepoint import Savepoint
from pyspark_savepoint.formats.errors import OptionError, SavepointError, ValueRangeError
from tests.connector.api.test_evolve import folder_of
from tests.connector.api.test_evolve_found import given, numbers
from tests.connector.api.test_evolve_history import orders, place

SHOPS = ["shop 0", "shop 1", "shop 2"]
CASE = "sum-backfilled"


def totals(**columns: pa.Array) -> pa.Table:
    table = {"shop": pa.array(SHOPS), "total": pa.array([1, 2, 3], pa.int32()), **columns}
    return pa.table(table)


def evolved(case: str, name: str, rows: Any, to: Path) -> Any:
    folder = folder_of("2.3.0", case)
    savepoint = pyspark_savepoint.open(folder / "before")
    return savepoint.evolve(folder / "old.json", folder / "new.json", backfill={name: rows}).write(to)


def sums(path: Path) -> list[int]:
    rows = pyspark_savepoint.open(path).keyed_state("6_group-aggregate").to_arrow().to_pylist()
    return [total for _, total in sorted((row["key"]["f0"], row["accState"]["f1"]) for row in rows)]


@pytest.mark.parametrize(
    ("column", "values", "expected", "found"),
    [
        ("shop", pa.array([0, 1, 2]), "STRING", "BIGINT"),
        ("shop", pa.array([0.0, 1.0, 2.0]), "STRING", "DOUBLE"),
        ("shop", pa.array([one.encode() for one in SHOPS]), "STRING", "BINARY"),
        ("shop", pa.array([0, 1, 2], pa.date32()), "STRING", "DATE"),
        ("total", pa.array(["1", "2", "3"]), "INT", "STRING"),
        ("total", pa.array([True, False, True]), "INT", "BOOLEAN"),
    ],
)
def test_no_kind_of_value_becomes_another(column: str, values: pa.Array, expected: str, found: str) -> None:
    """It is found before any row is read."""
    folder = folder_of("2.3.0", CASE)
    savepoint = pyspark_savepoint.open(folder / "before")
    with pytest.raises(OptionError, match=f"backfill 'total' has column '{column}' in another type") as raised:
        savepoint.evolve(folder / "old.json", folder / "new.json", backfill={"total": totals(**{column: values})})
    assert (raised.value.facts["expected"], raised.value.facts["found"]) == (expected, found)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 2, 3]),
        pa.array([1, 2, 3], pa.uint8()),
        pa.array([1.0, 2.0, 3.0]),
        pa.array(["1.00", "2.00", "3.00"]).cast(pa.decimal128(10, 2)),
    ],
)
def test_exact_values_of_another_type(values: pa.Array, tmp_path: Path) -> None:
    evolved(CASE, "total", totals(total=values), tmp_path / "new")
    assert sums(tmp_path / "new") == [1, 2, 3]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (pa.array([1.0, 2.5, 3.0]), "2.5 of type DOUBLE"),
        (pa.array([1, 2, 1 << 40]), f"{1 << 40} of type BIGINT"),
        (pa.array(["1.00", "2.00", "3.01"]).cast(pa.decimal128(10, 2)), "Decimal('3.01') of type DECIMAL(10,2)"),
    ],
)
def test_a_value_that_would_be_rounded_is_shown_as_it_was_given(values: pa.Array, found: str, tmp_path: Path) -> None:
    with pytest.raises(ValueRangeError, match="backfill 'total': a value of column 'total' does not fit") as raised:
        evolved(CASE, "total", totals(total=values), tmp_path / "new")
    assert (raised.value.facts["expected"], raised.value.facts["found"]) == ("INT", found)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("case", ["join-column-added", "last-row-column-added"])
def test_columns_that_find_rows(case: str, tmp_path: Path) -> None:
    table = given(case)
    name = table.column_names[1]
    small = table.set_column(0, "id", table["id"].cast(pa.int32()))
    evolved(case, name, small, tmp_path / "small")
    texts = table.set_column(0, "id", table["id"].cast(pa.string()))
    with pytest.raises(OptionError, match=f"backfill '{name}' has column 'id' in another type"):
        evolved(case, name, texts, tmp_path / "texts")
    parts = table.set_column(0, "id", pa.array([one + 0.5 for one in table["id"].to_pylist()]))
    with pytest.raises(ValueRangeError, match="a value of column 'id' does not fit") as raised:
        evolved(case, name, parts, tmp_path / "parts")
    assert raised.value.facts["found"] in {f"{one + 0.5} of type DOUBLE" for one in (*numbers(case), 10_000)}


def test_history_of_a_table() -> None:
    (old, savepoint), (new, _) = place("2.3.0", "count"), place("2.3.0", "count and sum")
    history = orders()
    texts = history.set_column(history.column_names.index("price"), "price", history["price"].cast(pa.string()))
    with pytest.raises(OptionError, match="backfill 'orders' has column 'price' in another type"):
        pyspark_savepoint.open(savepoint).evolve(old, new, backfill={"orders": texts})


@pytest.mark.parametrize(
    ("types", "rows", "message"),
    [
        ("shop INT, total INT", [(0, 1)], "backfill 'total' has column 'shop' in another type"),
        ("shop STRING, total STRING", [("shop 0", "1")], "backfill 'total' has column 'total' in another type"),
        (
            "shop STRING, total DOUBLE",
            [("shop 0", 1.0), ("shop 1", 2.5), ("shop 2", 3.0)],
            "2.5 of type DOUBLE",
        ),
    ],
)
def test_with_spark(spark: SparkSession, types: str, rows: list[Any], message: str, tmp_path: Path) -> None:
    folder = folder_of("2.3.0", CASE)
    savepoint = Savepoint.load(spark, folder / "before")
    with pytest.raises((SavepointError, PySparkException)) as raised:  # what a task raises is Spark's
        savepoint.evolve(
            folder / "old.json", folder / "new.json", backfill={"total": spark.createDataFrame(rows, types)}
        ).write(tmp_path / "new")
    assert message in str(raised.value)
    assert not (tmp_path / "new").exists()


def test_spark_takes_exact_values_of_another_type(spark: SparkSession, tmp_path: Path) -> None:
    folder = folder_of("2.3.0", CASE)
    rows = spark.createDataFrame([(shop, number) for number, shop in enumerate(SHOPS)], "shop STRING, total BIGINT")
    savepoint = Savepoint.load(spark, folder / "before")
    savepoint.evolve(folder / "old.json", folder / "new.json", backfill={"total": rows}).write(tmp_path / "new")
    assert sums(tmp_path / "new") == [0, 1, 2]
