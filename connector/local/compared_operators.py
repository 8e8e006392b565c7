"""An operator in two snapshots that are compared: which tables and states both have, and the options that read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark_savepoint.formats.errors import (
    OperatorNotFoundError,
    OptionError,
    StateNotFoundError,
    did_you_mean,
)
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.options.option_values import inheriting
from pyspark_savepoint.statebackends.model.applicability import DECODED

#: How an overview names an operator, and what it counts of each of its states.
OPERATOR = ("operator_uid", "operator_uid_hash", "operator_name", "operator_change")
COUNTS = ("before", "after", "added", "removed", "changed")
Row = dict[str, Any]


@redacted
@dataclass(frozen=True)
class OperatorInSnapshot:
    """The operator in one of the snapshots."""

    path: str
    #: The options that apply to all tables of the snapshot.
    held: Mapping[str, str]
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
        chosen = {"state": ",".join(states)} if states else {}
        return inheriting(self.held, {"path": self.path, "uidHash": self.uid_hash or "", "table": table, **chosen})

    def having(self, table: str, states: Sequence[str]) -> dict[str, str] | None:
        """Return the options that read those of some states that the operator has; None if it has none of them."""
        mine = [name for name in self.names(table) if name in states]
        return self.options(table, mine) if mine else None


@dataclass(frozen=True)
class ComparedOperators:
    """The operator in the older and the newer snapshot."""

    sides: tuple[OperatorInSnapshot, OperatorInSnapshot]

    def expect_one(self, uid: str, known: Sequence[str]) -> None:
        """Raise OperatorNotFoundError unless one of the snapshots has the operator."""
        if not any(side.uid_hash for side in self.sides):
            raise OperatorNotFoundError(
                "neither snapshot has such an operator", operator=uid, remedy=did_you_mean(uid, known)
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
        tables = {row["table"] for side in self.sides for row in side.states if state in (None, row["state"])}
        found = next((table for table in DECODED if table in tables), None)
        if found is None:
            names = [row["state"] for side in self.sides for row in side.states if row["state"]]
            remedy = did_you_mean(state, names) if state else "it has no state that can be compared"
            raise StateNotFoundError("the operator has no such state", state=state, remedy=remedy)
        return found

    def options(self, table: str, state: str | None) -> tuple[list[dict[str, str] | None], list[str]]:
        """Return the options that read each side of a comparison, and the states that are compared by their bytes."""
        if table == "timers":
            found = [side.options(table) if side.has(table) else None for side in self.sides]
            if not any(found):
                raise StateNotFoundError("the operator has no timers in either snapshot")
            return found, []
        if table == "operator_state":
            return [side.having(table, [self.operator_state(state)]) for side in self.sides], []
        states = self.states(table, state)
        return [side.having(table, states) for side in self.sides], states

    def states(self, table: str, state: str | None) -> list[str]:
        """Return the states of a table of keys to compare: the given one, or those of either side."""
        names = list(dict.fromkeys(name for side in self.sides for name in side.names(table)))
        chosen = [name for name in names if state in (None, name)]
        if not chosen:
            raise StateNotFoundError(f"{table} has no such state", state=state, remedy=did_you_mean(state or "", names))
        return chosen

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
