"""Differences between two snapshots, with and without Spark.

==================  =================================================================================================
all operators       one row per operator, table and state: entries before, after, added, removed, changed
keyed, window       one row per key (and window) that differs: change, changed_states, each state before and after
timers              one row per timer that is on one side only: change, and the timer
list, union         change, value, count: how many more of that value there are on that side
broadcast           key, change, value_before, value_after
==================  =================================================================================================

Keyed state is compared by the bytes of its entries, whatever state backends wrote the snapshots: the same key groups of
both are merged (``statebackends/merging``), equal entries are never decoded, and values that only the job's code can
decode are compared too. Timers and operator state are compared by their values.

Entries in the numbers are values, entries of maps, and timers, compared by their bytes. ``operator_change`` shows an
operator that only one snapshot has. In the heap format only user code can tell where some values end. The row of such
an operator has no counts, and ``note`` gives the reason. Other operators are not affected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pyspark_savepoint.engines.face import Face, R, T, engine_of, path_of
from pyspark_savepoint.formats.errors import (
    OperatorNotFoundError,
    OptionError,
    StateNotFoundError,
    did_you_mean,
)
from pyspark_savepoint.formats.filesystems.storage_options import OPTION
from pyspark_savepoint.formats.name_lists import join_names
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.options.option_values import inheriting
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.plan.operator_plan import expect_name
from pyspark_savepoint.statebackends.merging.change_counts import SCHEMA
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.applicability import DECODED
from pyspark_savepoint.statebackends.requests.request import ComparisonRequest

#: How an overview names an operator and its state, and what it counts.
OPERATOR = ("operator_uid", "operator_uid_hash", "operator_name", "operator_change")
STATE = (*OPERATOR, "table", "state")
COUNTS = ("before", "after", "added", "removed", "changed")
OVERVIEW = pa.schema([SCHEMA.field(name) for name in (*STATE, *COUNTS, "note")])
Row = dict[str, Any]


@redacted
@dataclass(frozen=True)
class OperatorInSnapshot:
    """The operator in one of the snapshots."""

    path: str
    #: The options that apply to all tables of the snapshot.
    inherited: Mapping[str, str]
    #: The uid hash; None if the snapshot has no such operator.
    uid_hash: str | None
    #: Its rows of table ``states``.
    states: Sequence[Row] = ()

    def names(self, table: str) -> list[str]:
        """Return the names of the states of a table."""
        return [row["state"] for row in self.states if row["table"] == table]

    def has(self, table: str) -> bool:
        """Return whether the operator has state of a table."""
        return any(row["table"] == table for row in self.states)

    def options(self, table: str, states: Sequence[str] = ()) -> dict[str, str]:
        """Return the options that read a table of the operator, or some states of it."""
        state_options = {"state": join_names(states)} if states else {}
        return inheriting(
            self.inherited, {"path": self.path, "uidHash": self.uid_hash or "", "table": table, **state_options}
        )

    def having(self, table: str, states: Sequence[str]) -> dict[str, str] | None:
        """Return the options that read those of some states that the operator has, or None if it has none of them."""
        mine = [name for name in self.names(table) if name in states]
        return self.options(table, mine) if mine else None


@dataclass(frozen=True)
class ComparedOperators:
    """The operator in the older and the newer snapshot."""

    sides: tuple[OperatorInSnapshot, OperatorInSnapshot]

    def expect_one(self, uid: str, names: Sequence[str]) -> None:
        """Raise OperatorNotFoundError unless one of the snapshots has the operator."""
        if not any(side.uid_hash for side in self.sides):
            raise OperatorNotFoundError(
                "neither snapshot has such an operator", operator=uid, remedy=did_you_mean(uid, names)
            )

    def table(self, table: str | None, state: str | None) -> str:
        """Return a table that can be compared: the given one, or the first that has the state."""
        if table is not None:
            if table not in DECODED:
                raise OptionError(
                    f"table {table!r} cannot be compared",
                    expected="keyed_state, window_state, timers or operator_state",
                    remedy=did_you_mean(table, DECODED),
                )
            return table
        names = [row["state"] for side in self.sides for row in side.states if row["state"]]
        if state is not None and state not in names:
            expect_name(state, self.sides[0].uid_hash or self.sides[1].uid_hash or "")
        tables = {row["table"] for side in self.sides for row in side.states if state in (None, row["state"])}
        first = next((table for table in DECODED if table in tables), None)
        if first is None:
            remedy = did_you_mean(state, names) if state else "it has no state that can be compared"
            raise StateNotFoundError("the operator has no such state", state=state, remedy=remedy)
        return first

    def options(self, table: str, state: str | None) -> tuple[list[dict[str, str] | None], list[str]]:
        """Return the options that read each side of a comparison, and the states that are compared by their bytes."""
        if table == "timers":
            reads = [side.options(table) if side.has(table) else None for side in self.sides]
            if not any(reads):
                raise StateNotFoundError("the operator has no timers in either snapshot")
            return reads, []
        if table == "operator_state":
            return [side.having(table, [self.operator_state(state)]) for side in self.sides], []
        states = self.states(table, state)
        return [side.having(table, states) for side in self.sides], states

    def states(self, table: str, state: str | None) -> list[str]:
        """Return the states of a table of keys to compare: the given one, or those of either side."""
        names = list(dict.fromkeys(name for side in self.sides for name in side.names(table)))
        result = [name for name in names if state in (None, name)]
        if not result:
            raise StateNotFoundError(f"{table} has no such state", state=state, remedy=did_you_mean(state or "", names))
        return result

    def operator_state(self, state: str | None) -> str:
        """Return the list, union or broadcast state to compare: the given one, or the only one."""
        names = list(dict.fromkeys(name for side in self.sides for name in side.names("operator_state")))
        if state is None and len(names) > 1:
            raise OptionError(
                "'state' is missing: the operator has several operator states",
                remedy="name one of " + ", ".join(map(repr, names)),
            )
        if state not in (None, *names) or not names:
            raise StateNotFoundError(
                "the operator has no such state", state=state, remedy=did_you_mean(state or "", names)
            )
        return state or names[0]


def overview(old: Face[R, T], new: Face[R, T]) -> T:
    """Return one row per operator, table and state, with the numbers of entries and differences."""
    sides = [inheriting(savepoint.options, {"path": path_of(savepoint)}) for savepoint in (old, new)]
    summary: T = engine_of(old).summed(_compared(old, sides, None), _counted, OVERVIEW)
    return summary


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add up the numbers of all parts, a few rows each."""
    total: dict[tuple[Any, ...], Row] = {}
    for part in (row for batch in batches for row in batch.to_pylist()):
        state_id = tuple(part[name] for name in STATE)
        row = total.setdefault(state_id, {**dict.fromkeys(OVERVIEW.names), **dict(zip(STATE, state_id, strict=True))})
        for name in COUNTS:
            if part[name] is not None:
                row[name] = (row[name] or 0) + part[name]
        row["note"] = max(filter(None, (row["note"], part["note"])), default=None)
    rows = list(total.values())
    hidden = {row["operator_uid_hash"] for row in rows if row["note"] and row["table"] != "operator_state"}
    with_tables = {row["operator_uid_hash"] for row in rows if row["table"] is not None}
    counted = [
        row
        for row in rows
        # Numbers of parts of an operator that cannot be compared as a whole would be misleading.
        if (row["table"] == "operator_state" or row["operator_uid_hash"] not in hidden or row["note"])
        and (row["table"] is not None or row["operator_uid_hash"] not in with_tables)
    ]
    counted.sort(key=lambda row: [row[name] or "" for name in (*OPERATOR[:2], "table", "state")])
    yield pa.RecordBatch.from_pylist(counted, OVERVIEW)


def changed_rows(old: Face[R, T], new: Face[R, T], uid: str, table: str | None, state: str | None) -> T:
    """Return the rows of one operator that differ: in the given table, or in the first that the operator has."""
    both = ComparedOperators((_operator(old, uid), _operator(new, uid)))
    both.expect_one(uid, sorted({operator.label for savepoint in (old, new) for operator in savepoint.plan.operators}))
    return _compared(old, *both.options(both.table(table, state), state))


def _operator(savepoint: Face[R, T], uid: str) -> OperatorInSnapshot:
    """Return the operator in a snapshot, with its states."""
    plan, path = savepoint.plan.find(uid), path_of(savepoint)
    if plan is None:
        return OperatorInSnapshot(path, savepoint.options, None)
    operator = OperatorInSnapshot(path, savepoint.options, plan.identifier.operator_id.hex)
    listed = open_table(SavepointReadOptions.parse(operator.options("states")).request())
    batches = (batch for partition in listed.partitions(1) for batch in partition.batches())
    return replace(operator, states=[row for batch in batches for row in batch.to_pylist()])


def _compared(old: Face[R, T], sides: Sequence[dict[str, str] | None], states: Sequence[str] | None) -> T:
    """Return the table of the differences of two sides, each the options of a read."""
    before, after = (None if side is None else SavepointReadOptions.parse(side).request() for side in sides)
    kept_options = {name: text for name, text in old.options.items() if name in (OPTION, "memory")}
    read = replace(
        SavepointReadOptions.parse({**kept_options, "path": path_of(old)}),
        compared=ComparisonRequest((before, after), None if states is None else tuple(states)),
    )
    with engine_of(old).explaining():
        differences: T = engine_of(old).table(read)
    return differences
