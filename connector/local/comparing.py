"""Differences between two snapshots, found in this process by the same comparison of bytes as ``diff`` with Spark.

Timers and operator state are compared by their values: those of one snapshot are held in memory, timers as 16 bytes
each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.errors import StateNotFoundError
from pyspark_savepoint.local.compared_operators import COUNTS, OPERATOR, ComparedOperators, OperatorInSnapshot, Row
from pyspark_savepoint.local.local_savepoint import LocalSavepoint
from pyspark_savepoint.local.local_table import SnapshotTable
from pyspark_savepoint.options.operators import identifier_of
from pyspark_savepoint.options.option_values import inheriting
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.plan_option import comparison_plan
from pyspark_savepoint.statebackends.model.json_values import kinds_of
from pyspark_savepoint.statebackends.tables.entry_diff import ADDED, CHANGE, CHANGED, REMOVED

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
    if chosen == "timers":
        return _timers(both)
    if chosen == "operator_state":
        return _operator_state(both, both.operator_state(state))
    states = both.states(chosen, state)
    compared = _table(old, [side.having(chosen, states) for side in both.sides], states)
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


# -- timers and operator state -------------------------------------------------------------------------------


def _timers(both: ComparedOperators) -> Differences:
    """Return the timers that are on one side only."""
    tables = [_read(side.options("timers")) for side in both.sides if side.has("timers")]
    if not tables:
        raise StateNotFoundError("the operator has no timers in either snapshot")
    schema = tables[0].schema
    return Differences([CHANGE, *schema.names], _timers_of_one_side(both), kinds_of(schema))


def _timers_of_one_side(both: ComparedOperators) -> Iterator[Row]:
    for change, mine, others in ((REMOVED, 0, 1), (ADDED, 1, 0)):
        known = {_digest(row) for row in _rows(both.sides[others], "timers")}
        for row in _rows(both.sides[mine], "timers"):
            if _digest(row) not in known:
                yield {CHANGE: change, **row}


def _operator_state(both: ComparedOperators, state: str) -> Differences:
    """Return the elements that one side has more often, with counts, or the entries of broadcast state that differ."""
    tables = [_state_of(side, state) for side in both.sides]
    sides = [[] if table is None else list(table.rows()) for table in tables]
    before, after = ({} if table is None else kinds_of(table.schema) for table in tables)
    if any("key" in row for rows in sides for row in rows):
        changed = {f"value_{when}": kinds["value"] for when, kinds in (("before", before), ("after", after)) if kinds}
        kinds = {**before, **after, **changed}
        return Differences(["key", CHANGE, "value_before", "value_after"], iter(_entries(*sides)), kinds)
    # Where the type of the elements changed, neither of the two types fits all of them.
    kinds = {} if before and after and before != after else {**before, **after}
    return Differences([CHANGE, "value", "count"], iter(_elements(*sides)), kinds)


def _elements(before: list[Row], after: list[Row]) -> Iterator[Row]:
    more = Counter(repr(row["value"]) for row in after)
    more.subtract(Counter(repr(row["value"]) for row in before))
    values = {repr(row["value"]): row["value"] for row in (*before, *after)}
    for text, count in more.items():
        if count:
            yield {CHANGE: ADDED if count > 0 else REMOVED, "value": values[text], "count": abs(count)}


def _entries(before: list[Row], after: list[Row]) -> Iterator[Row]:
    sides = [{repr(row["key"]): row for row in rows} for rows in (before, after)]
    for text in dict.fromkeys(text for side in sides for text in side):
        old, new = (side.get(text) for side in sides)
        if old is None or new is None or repr(old["value"]) != repr(new["value"]):
            change = ADDED if old is None else REMOVED if new is None else CHANGED
            key = (old or new or {})["key"]
            values = {"value_before": old and old["value"], "value_after": new and new["value"]}
            yield {"key": key, CHANGE: change, **values}


def _rows(side: OperatorInSnapshot, table: str) -> Iterator[Row]:
    """Yield the rows of a side, none if it has no such table."""
    if side.has(table):
        yield from _read(side.options(table)).rows()


def _state_of(side: OperatorInSnapshot, state: str) -> SnapshotTable | None:
    """Return an operator state of a side, None if it has no such state."""
    if not side.has("operator_state") or state not in side.names("operator_state"):
        return None
    return _read(side.options("operator_state", [state]))


def _read(options: Mapping[str, str]) -> SnapshotTable:
    return SnapshotTable.of(SavepointReadOptions.parse(dict(options)))


def _digest(row: Row) -> bytes:
    return blake2b(repr(row).encode(), digest_size=16).digest()
