"""Differences between two snapshots in this process: by the same tables of bytes as ``diff`` with Spark."""

from __future__ import annotations

from typing import Any

from pyspark_savepoint.formats.errors import OperatorNotFoundError, StateNotFoundError, did_you_mean
from pyspark_savepoint.local.local_savepoint import LocalSavepoint
from pyspark_savepoint.local.local_table import LocalTable
from pyspark_savepoint.options.operators import identifier_of
from pyspark_savepoint.options.option_values import inheriting
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.plan_option import comparison_plan
from pyspark_savepoint.statebackends.model.applicability import ROWS_OF_KEYS

OPERATOR = ("operator_uid", "operator_uid_hash", "operator_name", "operator_change")
COUNTS = ("before", "after", "added", "removed", "changed")
Row = dict[str, Any]
#: Options that read each side; None for one without the state.
Sides = list[dict[str, str] | None]


def count_differences(old: LocalSavepoint, new: LocalSavepoint) -> list[Row]:
    """Return one row per operator, table and state: entries before and after; added, removed, changed."""
    sides: Sides = [inheriting(each.options, {"path": each.path}) for each in (old, new)]
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
) -> LocalTable:
    """Return the rows of an operator's keyed state that differ: key, change, changed states, each before and after."""
    listed = [list(each.states().rows()) for each in (old, new)]
    mine = [[row for row in rows if is_of(row, uid)] for rows in listed]
    if not any(mine):
        known = {row["operator_uid"] or row["operator_uid_hash"] for rows in listed for row in rows}
        raise OperatorNotFoundError(
            "neither snapshot has such an operator", operator=uid, remedy=did_you_mean(uid, filter(None, known))
        )
    keyed = [row for rows in mine for row in rows if row["table"] in ROWS_OF_KEYS and state in (None, row["state"])]
    chosen = table or next((row["table"] for row in keyed), ROWS_OF_KEYS[0])
    states = list(dict.fromkeys(row["state"] for row in keyed if row["table"] == chosen))
    if not states:
        raise StateNotFoundError(
            f"the operator has no such state in table {chosen!r}",
            operator=uid,
            state=state,
            remedy=did_you_mean(state, [row["state"] or "" for rows in mine for row in rows]) if state else None,
        )
    sides: Sides = []
    for each, rows in zip((old, new), mine, strict=True):
        names = [row["state"] for row in rows if row["table"] == chosen and row["state"] in states]
        options = {"path": each.path, "table": chosen, "state": ",".join(names)}
        if names:
            sides.append(inheriting(each.options, {**options, "uidHash": rows[0]["operator_uid_hash"]}))
        else:
            sides.append(None)
    return _table(old, sides, states)


def is_of(row: Row, uid: str) -> bool:
    """Return whether a row of table ``states`` is of an operator."""
    return uid == row["operator_uid"] or identifier_of(uid).operator_id.hex == str(row["operator_uid_hash"])


def _table(old: LocalSavepoint, sides: Sides, states: list[str] | None) -> LocalTable:
    plan = comparison_plan(sides, states)
    return LocalTable.of(SavepointReadOptions.parse({"path": old.path, "plan": plan}))
