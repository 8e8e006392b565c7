"""Differences between two snapshots, found in this process by the same comparison as ``diff`` with Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pyspark_savepoint.local.compared_operators import COUNTS, OPERATOR, ComparedOperators, OperatorInSnapshot, Row
from pyspark_savepoint.local.local_savepoint import LocalSavepoint
from pyspark_savepoint.local.local_table import SnapshotTable
from pyspark_savepoint.options.operators import identifier_of
from pyspark_savepoint.options.option_values import inheriting
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.plan_option import comparison_plan
from pyspark_savepoint.statebackends.model.json_values import kinds_of

#: Options that read each side; None for one without the state.
Sides = list[dict[str, str] | None]


@dataclass(frozen=True)
class Differences:
    """Rows that differ, their columns, and the Arrow types of those that have one."""

    columns: list[str]
    rows: Iterator[Row]
    kinds: dict[str, pa.DataType]


def count_differences(old: LocalSavepoint, new: LocalSavepoint) -> list[Row]:
    """Return one row per operator, table and state: entries before and after; added, removed, changed."""
    sides: Sides = [inheriting(each.options, {"path": each._read_path()}) for each in (old, new)]
    total: dict[tuple[Any, ...], Row] = {}
    for part in _table(old, sides, None).rows():
        place = tuple(part[name] for name in (*OPERATOR, "table", "state"))
        row = total.setdefault(place, dict(zip((*OPERATOR, "table", "state"), place, strict=True)) | {"note": None})
        for name in COUNTS:
            if part[name] is not None:
                row[name] = row.get(name, 0) + part[name]
        row["note"] = max(filter(None, (row["note"], part["note"])), default=None)
    rows = list(total.values())
    hidden = {row["operator_uid_hash"] for row in rows if row["note"] and row["table"] != "operator_state"}
    with_tables = {row["operator_uid_hash"] for row in rows if row["table"] is not None}
    shown = [
        {**dict.fromkeys(COUNTS), **row}
        for row in rows
        # Numbers of parts of an operator that cannot be compared as a whole would be misleading.
        if (row["table"] == "operator_state" or row["operator_uid_hash"] not in hidden or row["note"])
        and (row["table"] is not None or row["operator_uid_hash"] not in with_tables)
    ]
    return sorted(shown, key=lambda row: [row[name] or "" for name in (*OPERATOR[:2], "table", "state")])


def changed_rows(
    old: LocalSavepoint, new: LocalSavepoint, uid: str, table: str | None = None, state: str | None = None
) -> Differences:
    """Return the rows of an operator that differ: in the given table, or in the first that the operator has."""
    listed = [list(each.states().rows()) for each in (old, new)]
    before, after = (_operator(each, uid, rows) for each, rows in zip((old, new), listed, strict=True))
    both = ComparedOperators((before, after))
    both.expect_one(uid, [row["operator_uid"] or row["operator_uid_hash"] for rows in listed for row in rows])
    chosen = both.table(table, state)
    compared = _table(old, *both.options(chosen, state))
    return Differences(compared.schema.names, compared.rows(), kinds_of(compared.schema))


def _operator(savepoint: LocalSavepoint, uid: str, listed: list[Row]) -> OperatorInSnapshot:
    """Return the operator in a snapshot whose states are listed."""
    uid_hash = identifier_of(uid).operator_id.hex
    mine = [row for row in listed if uid == row["operator_uid"] or uid_hash == str(row["operator_uid_hash"])]
    found = mine[0]["operator_uid_hash"] if mine else None
    return OperatorInSnapshot(savepoint._read_path(), savepoint.options, found, mine)


def _table(old: LocalSavepoint, sides: Sides, states: list[str] | None) -> SnapshotTable:
    plan = comparison_plan(sides, states)
    return SnapshotTable.of(SavepointReadOptions.parse({"path": old._read_path(), "plan": plan}))
