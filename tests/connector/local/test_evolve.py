"""A changed query of a SQL job gets the state that real Flink has for it: recorded cases, by value."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.local.local_savepoint import LocalSavepoint
from tests.data import unpacked
from tests.oracle.sql_changes import BEFORE, CASES

RECORDED = ("1.20.5", "2.3.0")
Rows = list[dict[str, Any]]


def folder_of(version: str, name: str) -> Path:
    return unpacked() / "sql-changes" / version / name


def sums(rows: Rows) -> pa.Table:
    """The sums of the prices of each shop."""
    shops: dict[str, int] = {}
    for row in rows:
        shops[row["shop"]] = shops.get(row["shop"], 0) + (row["price"] or 0)
    return pa.table({"shop": list(shops), "SUM(price)": pa.array(shops.values(), pa.int32())})


#: What a user gives as history, of the rows before the savepoint.
HISTORIES: Mapping[str, Callable[[Rows], dict[str, pa.Table]]] = {
    "sum-backfilled": lambda rows: {"SUM(price)": sums(rows)},
}


def arguments(folder: Path) -> dict[str, Any]:
    """What a user gives for a case, beside the plans."""
    case = json.loads((folder / "case.json").read_text("utf-8"))
    given = dict(case["given"])
    given.pop("backfill", None)
    if folder.name in HISTORIES:
        rows = [row for table, _, row in case["script"][:BEFORE] if table == "orders"]
        given["backfill"] = HISTORIES[folder.name](rows)
    return given


def evolved(folder: Path, to: Path) -> LocalSavepoint:
    """The savepoint of a case, for its new query."""
    old = pyspark_savepoint.open(folder / "before")
    return old.evolve(folder / "old.json", folder / "new.json", **arguments(folder)).write(to)


def keyed_rows(savepoint: LocalSavepoint) -> dict[tuple[str, str], list[str]]:
    """The rows of all keyed tables, by operator and table."""
    found = {}
    for state in savepoint.states().to_arrow().to_pylist():
        place = state["operator_uid_hash"], state["table"]
        if state["table"] in ("keyed_state", "window_state", "timers") and place not in found:
            rows = savepoint.table(state["table"], uid=place[0]).to_arrow().to_pylist()
            found[place] = sorted(json.dumps(_plain(row), sort_keys=True, default=str) for row in rows)
    return found


def _plain(value: Any) -> Any:
    """A value whose maps have one order."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return sorted(([_plain(key), _plain(one)] for key, one in value), key=lambda one: json.dumps(one, default=str))
    return [_plain(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("version", RECORDED)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.truth is None])
def test_state_is_that_of_the_new_query(version: str, name: str, tmp_path: Path) -> None:
    folder = folder_of(version, name)
    new, golden = evolved(folder, tmp_path / "new"), pyspark_savepoint.open(folder / "golden")
    assert keyed_rows(new) == keyed_rows(golden)


@pytest.mark.parametrize("version", RECORDED)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.truth is not None])
def test_types_are_those_of_the_new_query(version: str, name: str, tmp_path: Path) -> None:
    folder = folder_of(version, name)
    before, new = pyspark_savepoint.open(folder / "before"), evolved(folder, tmp_path / "new")
    assert {place: len(rows) for place, rows in keyed_rows(new).items()} == {
        place: len(rows) for place, rows in keyed_rows(before).items()
    }
