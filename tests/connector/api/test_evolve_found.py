"""Values that are given by other columns than the key: a few are held in memory, many are sorted on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pyspark_savepoint
from pyspark_savepoint import Savepoint
from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.formats.errors import ValueRangeError
from pyspark_savepoint.plan import backfills
from tests.connector.api.test_evolve import folder_of
from tests.connector.api.test_evolve_history import rows_of

#: Recorded changes, and the field that is given.
CASES = {"join-column-added": "item", "last-row-column-added": "amount"}


def before(case: str) -> LocalSavepoint:
    return pyspark_savepoint.open(folder_of("2.3.0", case) / "before")


def numbers(case: str) -> list[int]:
    """The numbers of the orders in the state."""
    rows = before(case).keyed_state("6_deduplicate" if case.startswith("last") else "8_join").to_arrow().to_pylist()
    if case.startswith("last"):
        return [row["deduplicate-state"]["f0"] for row in rows]
    return [order["f0"] for row in rows for order, _ in row["left-records"] or ()]


def given(case: str) -> pa.Table:
    """A value for each number: NULL for some."""
    rows: list[dict[str, Any]] = [
        {"id": one, CASES[case]: None if one % 5 == 0 else f"item {one}" if case.startswith("join") else one * 3}
        for one in {*numbers(case), 10_000}
    ]
    return pa.Table.from_pylist(rows)


def evolved(case: str, rows: Any, to: Path) -> dict[tuple[str, str], list[str]]:
    folder = folder_of("2.3.0", case)
    plans = folder / "old.json", folder / "new.json"
    return rows_of(before(case).evolve(*plans, backfill={CASES[case]: rows}).write(to))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("form", [lambda table: table, lambda table: table.to_reader(3)])
def test_many_rows_give_what_a_few_give(
    case: str, form: Callable[[pa.Table], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = evolved(case, given(case), tmp_path / "held")
    monkeypatch.setattr(backfills, "MOST_HELD", 3)
    assert evolved(case, form(given(case)), tmp_path / "sorted") == held


def test_with_spark(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = "join-column-added"
    held = evolved(case, given(case), tmp_path / "held")
    monkeypatch.setattr(backfills, "MOST_HELD", 3)
    folder, rows = folder_of("2.3.0", case), spark.createDataFrame(given(case).to_pandas(), "id BIGINT, item STRING")
    old = Savepoint.load(spark, str(folder / "before"))
    old.evolve(folder / "old.json", folder / "new.json", backfill={"item": rows}).write(str(tmp_path / "sorted"))
    assert rows_of(pyspark_savepoint.open(tmp_path / "sorted")) == held


@pytest.mark.parametrize("most", [3, 100])
@pytest.mark.parametrize("case", CASES)
def test_each_row_has_one_value(case: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfills, "MOST_HELD", most)
    table = given(case)
    number = max(numbers(case))
    twice = pa.concat_tables([table, table.filter(pa.compute.field("id") == number)])
    with pytest.raises(ValueRangeError, match="two values for one key"):
        evolved(case, twice, tmp_path / "twice")
    with pytest.raises(ValueRangeError, match="has no row for a key of the savepoint") as caught:
        evolved(case, table.filter(pa.compute.field("id") != number), tmp_path / "missing")
    assert f"id={number}" in str(caught.value)
