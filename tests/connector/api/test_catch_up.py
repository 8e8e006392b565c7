"""The changes that bring a sink from the old query's result to the new one's: recorded queries of real Flink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pyspark_savepoint
from pyspark_savepoint.formats.errors import OptionError, UnsupportedStateError
from tests.connector.api.test_evolve import folder_of
from tests.connector.api.test_evolve_history import orders, place
from tests.statebackends.evolution.verdicts import changes as recorded


def changes(old: str, new: str, version: str = "2.3.0") -> list[dict[str, Any]]:
    """The changes between the results of two queries, at the same row."""
    (old_plan, before), (new_plan, golden) = place(version, old), place(version, new)
    rows = pyspark_savepoint.open(before).catch_up(golden, old_plan, new_plan).to_arrow().to_pylist()
    return sorted(rows, key=lambda row: repr(list(row.values())))


@pytest.mark.parametrize("version", ["1.20.5", "2.3.0"])
def test_a_column_has_values(version: str) -> None:
    rows = changes("count", "count and sum", version)
    assert [row["_change_type"] for row in rows] == ["update_postimage", "update_preimage"] * 3
    assert [row["total"] for row in rows if row["_change_type"] == "update_preimage"] == [None] * 3
    sums = orders(version).group_by("shop").aggregate([("price", "sum"), ("price", "count")]).to_pylist()
    found = {row["shop"]: row["total"] for row in rows if row["_change_type"] == "update_postimage"}
    assert found == {row["shop"]: row["price_sum"] for row in sums}


def test_rows_beyond_a_smaller_top_n_go() -> None:
    rows = changes("top 5", "top 3")
    assert {row["_change_type"] for row in rows} == {"delete"}
    assert len(rows) == 6
    assert {row["_change_type"] for row in changes("top 3", "top 5")} == {"insert"}


def test_rows_of_a_left_join_come(tmp_path: Path) -> None:
    folder = recorded() / "2.3.0" / "join-to-left"
    old, new = folder / "old.json", folder / "new.json"
    sp = pyspark_savepoint.open(folder / "before")
    sp.evolve(old, new).write(tmp_path / "new")
    found = sp.catch_up(tmp_path / "new", old, new).to_arrow().to_pylist()
    assert len(found) == 7
    assert all(row["_change_type"] == "insert" and row["p"] is None for row in found)


def test_the_same_result_needs_nothing() -> None:
    assert changes("count", "count") == []


@pytest.mark.parametrize("name", ["window-sum-added", "gap-window-sum-removed"])
def test_what_does_not_follow_is_refused(name: str) -> None:
    folder = folder_of("2.3.0", name)
    sp = pyspark_savepoint.open(folder / "before")
    with pytest.raises(UnsupportedStateError, match="does not follow from the state"):
        sp.catch_up(folder / "before", folder / "old.json", folder / "old.json")


def test_another_sink_and_another_plan_are_refused() -> None:
    (old, before), (new, golden) = place("2.3.0", "count"), place("2.3.0", "count and sum")
    sp = pyspark_savepoint.open(before)
    with pytest.raises(OptionError, match="must name a sink"):
        sp.catch_up(golden, old, new, sink="other")
    with pytest.raises(OptionError, match="'old_plan' is not the plan of this savepoint"):
        sp.catch_up(golden, new, new)
    with pytest.raises(OptionError, match="'new_plan' is not the plan of this savepoint"):
        sp.catch_up(golden, old, old)


def test_a_job_without_a_plan_is_refused() -> None:
    folder = recorded() / "1.20.5" / "planless-mini-batch"
    sp = pyspark_savepoint.open(folder / "before")
    with pytest.raises(OptionError, match="the changes are not known: run the new query once"):
        sp.catch_up(folder / "before", folder / "old.json", folder / "old.json")
