"""The state of a changed query is computed from history: equal to what real Flink holds, or refused."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset

import pyspark_savepoint
from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.formats.errors import OptionError, SavepointWarning, ValueRangeError
from pyspark_savepoint.statebackends.evolution.evolution import check_options, evolution_of
from pyspark_savepoint.statebackends.evolution.histories import Slices
from pyspark_savepoint.statebackends.evolution.rewriting.history_rows import next_ends, slice_ends
from tests.connector.api.test_evolve import Rows, folder_of, keyed_rows
from tests.oracle.sql_changes import BEFORE
from tests.statebackends.evolution.verdicts import changes

#: Recorded queries of one table: the case, and whether it is its old or its new one; both were stopped at one row.
QUERIES: Mapping[str, tuple[str, str, str]] = {
    "count": ("sum-added", "old.json", "before"),
    "count and sum": ("sum-backfilled", "new.json", "golden"),
    "distinct": ("distinct-sum-added", "new.json", "golden"),
    "of shop and item": ("grouping-column-removed", "old.json", "before"),
    "filtered": ("filter-in-front", "new.json", "golden"),
    "top 3": ("top-5-to-3", "new.json", "golden"),
    "top 5": ("top-5-to-3", "old.json", "before"),
}


def orders(version: str = "2.3.0") -> pa.Table:
    """The rows of the table before the savepoint."""
    case = json.loads((folder_of(version, "sum-added") / "case.json").read_text("utf-8"))
    rows = [{**row, "ts": datetime.fromisoformat(row["ts"])} for _, _, row in case["script"][:BEFORE]]
    kinds = {"price": pa.int32(), "amount": pa.int32(), "ts": pa.timestamp("ms")}
    return pa.table({name: pa.array([row[name] for row in rows], kinds.get(name)) for name in rows[0]})


def place(version: str, query: str) -> tuple[Path, Path]:
    """The plan and the savepoint of a query."""
    case, plan, savepoint = QUERIES[query]
    folder = folder_of(version, case)
    return folder / plan, folder / savepoint


def evolved(version: str, old: str, new: str, given: Mapping[str, Any], to: Path, **more: Any) -> LocalSavepoint:
    (old_plan, savepoint), (new_plan, _) = place(version, old), place(version, new)
    return pyspark_savepoint.open(savepoint).evolve(old_plan, new_plan, backfill=given, **more).write(to)


def rows_of(savepoint: LocalSavepoint) -> dict[tuple[str, str], list[str]]:
    """The rows of all keyed tables that have some."""
    return {name: rows for name, rows in keyed_rows(savepoint).items() if rows}


CHANGES = [
    ("count", "count and sum"),
    ("count", "distinct"),
    ("count", "of shop and item"),
    ("count and sum", "filtered"),
    ("top 3", "top 5"),
]


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_state_is_that_of_the_new_query(version: str, old: str, new: str, tmp_path: Path) -> None:
    found = evolved(version, old, new, {"orders": orders(version)}, tmp_path / "new")
    assert rows_of(found) == rows_of(pyspark_savepoint.open(place(version, new)[1]))


def test_rows_of_the_operator_itself(tmp_path: Path) -> None:
    rows = orders().select(["shop", "price"])
    found = evolved("2.3.0", "count", "count and sum", {"6": rows}, tmp_path / "new")
    assert rows_of(found) == rows_of(pyspark_savepoint.open(place("2.3.0", "count and sum")[1]))


def test_history_in_many_batches(tmp_path: Path) -> None:
    table = orders()
    given = pa.Table.from_batches([batch for row in range(len(table)) for batch in table.slice(row, 1).to_batches()])
    found = evolved("2.3.0", "count", "distinct", {"orders": given}, tmp_path / "new")
    assert rows_of(found) == rows_of(pyspark_savepoint.open(place("2.3.0", "distinct")[1]))


@pytest.mark.parametrize(("old", "new"), [("count", "of shop and item"), ("top 3", "top 5")])
def test_history_in_files(old: str, new: str, tmp_path: Path) -> None:
    """Rows of a dataset of several files, in their order, as often as they are asked for."""
    table = orders()
    (tmp_path / "orders").mkdir()
    for number, first in enumerate((0, 7, 11)):
        rows = table.slice(first, (7, 4, None)[number])
        pq.write_table(rows, tmp_path / "orders" / f"{number}.parquet")
    given = dataset.dataset(tmp_path / "orders")
    found = evolved("2.3.0", old, new, {"orders": given}, tmp_path / "new")
    assert rows_of(found) == rows_of(pyspark_savepoint.open(place("2.3.0", new)[1]))


def test_columns_that_nothing_reads_may_be_left_out(tmp_path: Path) -> None:
    given = orders().select(["shop", "price"])
    evolved("2.3.0", "count", "count and sum", {"orders": given}, tmp_path / "new")


def test_the_check_says_what_is_computed() -> None:
    (old, savepoint), (new, _) = place("2.3.0", "count"), place("2.3.0", "count and sum")
    table = pyspark_savepoint.open(savepoint).check_evolution(old, new, backfill=["orders"]).to_arrow()
    rows = [row for row in table.to_pylist() if row["field"] == "SUM(price)"]
    assert [(row["verdict"], row["reason"]) for row in rows] == [("backfilled", "computed from the rows of orders")]


def test_what_nothing_tells_is_a_warning() -> None:
    (old, _), (new, _) = place("2.3.0", "count"), place("2.3.0", "of shop and item")
    evolution = evolution_of(old, new, check_options(backfill=["orders"]))
    assert "rows of orders must end where the savepoint was taken" in " ".join(evolution.warnings)


def replaced(name: str, column: Callable[[pa.Table], pa.Array]) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.set_column(table.column_names.index(name), name, column(table))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.slice(0, 39), r"does not end where the savepoint was taken: COUNT\(\*\) differs"),
        (lambda table: pa.concat_tables([table, table.slice(0, 1)]), r"COUNT\(\*\) differs"),
        (lambda table: table.filter(pa.compute.field("shop") != "shop 1"), "no row for a key of the savepoint"),
        (
            replaced("shop", lambda table: pa.array(["shop 7", *table.column("shop").to_pylist()[1:]])),
            "the history has a key that the savepoint has not",
        ),
        (replaced("price", lambda table: pa.array([2**40] * len(table))), "does not fit"),
    ],
    ids=["ends before", "has more", "lacks a key", "has another key", "too large"],
)
def test_history_must_be_that_of_the_savepoint(
    change: Callable[[pa.Table], pa.Table], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueRangeError, match=message):
        evolved("2.3.0", "count", "count and sum", {"orders": change(orders())}, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"payments": "orders"}, "under the name 'payments'"),
        ({"orders": "without price"}, "has no column 'price'"),
        ({"orders": "orders", "default_database.orders": "orders"}, "two names"),
    ],
)
def test_what_is_given_must_fit(given: dict[str, str], message: str, tmp_path: Path) -> None:
    tables = {"orders": orders(), "without price": orders().drop_columns(["price"])}
    with pytest.raises(OptionError, match=message):
        evolved("2.3.0", "count", "count and sum", {name: tables[of] for name, of in given.items()}, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_history_that_nothing_needs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="nothing is computed from the rows of 'orders'"):
        evolved("2.3.0", "count and sum", "count", {"orders": orders()}, tmp_path / "new")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            ("time-to-live", "new.json", "golden"),
            ("distinct-sum-added", "new.json"),
            "its old state has a time to live, so that rows of the history may have expired",
        ),
        (
            ("gap-window-sum-removed", "new.json", "golden"),
            ("gap-window-sum-removed", "old.json"),
            "what is added to its state is not computed from history here",
        ),
        (
            ("sum-added", "old.json", "before"),
            ("gap-window-sum-removed", "new.json"),
            "its whole state is not computed from history here",
        ),
        (
            ("sum-added", "old.json", "before"),
            ("growing-top-2-to-4", "new.json"),
            "its rows come through node 6 GroupAggregate",
        ),
    ],
    ids=["time to live", "added to windows with a gap", "windows with a gap", "through an aggregate"],
)
def test_what_history_cannot_give_is_refused(old: tuple[str, str, str], new: tuple[str, str], reason: str) -> None:
    before, plan = folder_of("2.3.0", old[0]), folder_of("2.3.0", new[0]) / new[1]
    with pytest.raises(OptionError) as raised:
        pyspark_savepoint.open(before / old[2]).evolve(before / old[1], plan, backfill={"orders": orders()})
    assert reason in str(raised.value)
    assert "the rows of its own input" in str(raised.value)


def computed(query: str, rows: pa.Table, to: Path) -> Rows:
    """The keyed state of a recorded query, whose operator with state lacks what its history gives."""
    folder = changes() / "computed" / query
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SavepointWarning)  # Flink 1 records no uids
        base = pyspark_savepoint.open(folder / "before")
        new = base.evolve(folder / "old.json", folder / "new.json", backfill={"orders": rows}).write(to)
        (uid,) = {
            row["operator_uid_hash"] for row in new.states().to_arrow().to_pylist() if row["table"] == "keyed_state"
        }
        found: Rows = new.table("keyed_state", uid=uid).to_arrow().to_pylist()
    return found


def sold() -> pa.Table:
    rows = json.loads((changes() / "computed" / "orders.json").read_text("utf-8"))
    rows = [{**row, "ts": datetime.fromisoformat(row["ts"])} for row in rows]
    kinds = {"price": pa.int32(), "amount": pa.int32(), "ts": pa.timestamp("ms")}
    return pa.table({name: pa.array([row[name] for row in rows], kinds.get(name)) for name in rows[0]})


def sums_by_shop(rows: pa.Table) -> dict[str, tuple[int, int]]:
    found = rows.group_by("shop").aggregate([("amount", "count"), ("amount", "sum")]).to_pylist()
    return {row["shop"]: (row["amount_count"], row["amount_sum"]) for row in found}


def test_over_drops_rows_that_are_late_and_so_must_its_history(tmp_path: Path) -> None:
    """Flink saw rows of the time that the watermark had reached, and left them out."""
    rows = sold()
    times = rows.column("ts").to_pylist()
    in_time = rows.filter(pa.array([not place or time > max(times[:place]) for place, time in enumerate(times)]))
    assert len(in_time) < len(rows)
    with pytest.raises(ValueRangeError, match=r"COUNT\(\*\) differs") as raised:
        computed("over", rows, tmp_path / "late")
    assert "later than the watermark" in str(raised.value)
    found = computed("over", in_time, tmp_path / "new")
    state = {row["key"]["f0"]: row["accState"] for row in found}
    assert {shop: (one["f0"], one["f2"]) for shop, one in state.items()} == sums_by_shop(in_time)


def test_over_by_processing_time_keeps_no_row(tmp_path: Path) -> None:
    state = {row["key"]["f0"]: row["accState"] for row in computed("over-processing", sold(), tmp_path / "new")}
    assert {shop: (one["f0"], one["f2"]) for shop, one in state.items()} == sums_by_shop(sold())


def test_first_rows_that_are_counted_or_flagged(tmp_path: Path) -> None:
    """Of first rows by processing time Flink keeps how many there were, up to the limit; of one, that there was one."""
    items = Counter(sold().column("item").to_pylist())
    counted = {row["key"]["f0"]: row["counterState"] for row in computed("counter", sold(), tmp_path / "counted")}
    assert counted == {item: min(count, 9) for item, count in items.items()}
    assert 9 in counted.values()
    flagged = computed("flag", sold(), tmp_path / "flagged")
    assert {(*row["key"].values(), row["deduplicate-state"]) for row in flagged} == {
        (row["shop"], row["item"], True) for row in sold().to_pylist()
    }


MINUTE = 60_000


@pytest.mark.parametrize(
    ("slices", "time", "watermark", "end", "is_open"),
    [
        (Slices(0, 3 * MINUTE, 3 * MINUTE, 3 * MINUTE), 0, None, 3 * MINUTE, True),
        (Slices(0, 3 * MINUTE, 3 * MINUTE, 3 * MINUTE), -1, None, 0, True),
        (Slices(0, 3 * MINUTE, 3 * MINUTE, 3 * MINUTE), 5, 3 * MINUTE - 1, 3 * MINUTE, False),
        (Slices(0, MINUTE, MINUTE, 3 * MINUTE), 5, 3 * MINUTE - 2, MINUTE, True),
        (Slices(0, MINUTE, MINUTE, 3 * MINUTE), 5, 3 * MINUTE - 1, MINUTE, False),
        (Slices(0, MINUTE, MINUTE, 3 * MINUTE, cumulates=True), 2 * MINUTE, MINUTE, 3 * MINUTE, True),
        (Slices(0, MINUTE, MINUTE, 3 * MINUTE, cumulates=True), MINUTE, 2 * MINUTE, MINUTE, True),
    ],
)
def test_slices(slices: Slices, time: int, watermark: int | None, end: int, is_open: bool) -> None:
    ends, opens = slice_ends(slices, pa.array([time]), watermark)
    assert (ends.tolist(), opens.tolist()) == ([end], [is_open])


@pytest.mark.parametrize(
    ("slices", "end", "watermark", "fires"),
    [
        (Slices(0, MINUTE, MINUTE, 3 * MINUTE), 2 * MINUTE, MINUTE, 2 * MINUTE),
        (Slices(0, MINUTE, MINUTE, 3 * MINUTE), MINUTE, MINUTE - 1, 2 * MINUTE),
        (Slices(0, MINUTE, 2 * MINUTE, 3 * MINUTE), MINUTE, MINUTE - 1, 3 * MINUTE),
        (Slices(0, MINUTE, MINUTE, 3 * MINUTE, cumulates=True), MINUTE, 2 * MINUTE, 3 * MINUTE),
    ],
)
def test_the_next_window_of_a_slice(slices: Slices, end: int, watermark: int, fires: int) -> None:
    assert next_ends(slices, np.array([end]), watermark).tolist() == [fires]


def test_columns_of_joins_by_time_are_given_by_the_other_columns(tmp_path: Path) -> None:
    folder = changes() / "2.3.0" / "window-join"
    before = pyspark_savepoint.open(folder / "before")
    kept = before.window_state("13_window-join").to_arrow()["right-records"].to_pylist()
    rows = [{"id": row["f0"], "k": row["f1"], "p": row["f0"] * 2} for window in kept for row in window or ()]
    given = pa.Table.from_pylist(rows, pa.schema([("id", pa.int64()), ("k", pa.string()), ("p", pa.int32())]))
    evolved = before.evolve(folder / "old.json", folder / "new.json", backfill={"p": given})
    after = evolved.write(tmp_path / "new").window_state("13_window-join").to_arrow()["right-records"].to_pylist()
    assert sorted(row["f2"] for window in after for row in window or ()) == sorted(row["p"] for row in rows)
    assert rows
