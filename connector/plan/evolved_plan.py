"""The plan of a savepoint whose SQL query changed: what was decided about its state is checked, and then made."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark_savepoint.formats.errors import OptionError, UnsupportedStateError, did_you_mean
from pyspark_savepoint.formats.metadata.identifiers import OperatorIdentifier
from pyspark_savepoint.plan.backfills import backfill_input, with_views
from pyspark_savepoint.plan.engine import Engine
from pyspark_savepoint.plan.evolved_from import EvolvedFrom
from pyspark_savepoint.plan.evolved_operators import EvolvedSavepoint, has_state
from pyspark_savepoint.plan.savepoint_plan import SavepointPlan
from pyspark_savepoint.statebackends.evolution.changes import REFUSING, Evolution, FieldSource, OperatorChange, Verdict
from pyspark_savepoint.statebackends.evolution.histories import HISTORY, history_row_names, slices_of
from pyspark_savepoint.statebackends.evolution.lineage import Lineage
from pyspark_savepoint.statebackends.evolution.plans import Plan
from pyspark_savepoint.statebackends.evolution.rewriting.emissions import (
    emissions_of,
    key_places_of,
    orders_of,
    view_bits_of,
)

#: How many problems one error names.
MAX_PROBLEMS = 5


@dataclass(frozen=True)
class EvolvedPlan:
    """What makes the state of a new query.

    ``plan`` is that of the savepoint, ``evolution`` says what becomes of it, and ``query`` is the compiled plan of the
    new query.
    """

    engine: Engine
    plan: SavepointPlan
    evolution: Evolution
    query: Plan

    def of(self, backfill: Mapping[str, Any], path: str, options: Mapping[str, str], *, fills: bool) -> SavepointPlan:
        """Return the plan of the savepoint for the new query.

        Args:
            backfill: What the user gives, by name.
            path: The path of the old savepoint.
            options: The options with which it was opened.
            fills: What is added may begin with its initial value.

        Returns:
            The plan, which knows what it was made of.

        Raises:
            OptionError: If something is given that nothing is made of.
            UnsupportedStateError: If state is not decided, or would be lost without the user's consent.

        """
        expect_backfill_names(backfill, self.evolution)
        expect_decided(self.plan, self.evolution, fills=fills)
        evolution = with_views(self.evolution)
        evolved = EvolvedSavepoint(
            self.engine,
            self.plan,
            evolution,
            backfill_input(self.engine, backfill, evolution),
            emissions_of(self.query),
            orders_of(self.query),
            key_places_of(self.query),
            view_bits_of(self.query),
            slices_of(Lineage(self.query)),
            int(time.time() * 1000),
        )
        return replace(evolved.evolved(), evolved=EvolvedFrom(evolution, path, options, self.query.document))


def expect_backfill_names(backfill: Mapping[str, object], evolution: Evolution) -> None:
    """Raise OptionError for a backfill under a name that nothing of the new query has, or that nothing is made of."""
    fields = [
        (change.new.node, one.backfill)
        for change in evolution.operators
        for state in change.states
        for one in state.fields
        if one.backfill and change.new is not None
    ]
    names = dict.fromkeys(name for node, one in fields for name in (one, f"{node}.{one.rpartition('.')[2]}"))
    history_names = {name for one in evolution.histories.values() for name in history_row_names(one)}
    for name in backfill:
        if name in names and name in evolution.given_rows:
            raise OptionError(
                f"the name {name!r} is that of a value, and of a table or an operator of the new query",
                expected="the table's whole name, such as 'default_catalog.default_database.orders', or the value's "
                "with its node: '6.total'",
            )
        if name not in names and name in evolution.given_rows and name not in history_names:
            raise OptionError(
                f"nothing is computed from the rows of {name!r}",
                found="no operator of the new query lacks anything that follows from them alone",
                remedy="leave it out, or give the other tables that the operator reads as well",
            )
        if name not in names and name not in evolution.given_rows:
            rows = [one for one in evolution.given_rows if "." not in one]
            raise OptionError(
                f"no field of the new query is given under the name {name!r}",
                expected=", ".join(dict.fromkeys(repr(one) for _, one in fields)) or "no backfill",
                remedy=did_you_mean(name, [*names, *rows]),
            )


def expect_decided(plan: SavepointPlan, evolution: Evolution, *, fills: bool) -> None:
    """Raise UnsupportedStateError if the new query's state is not decided, or is lost without the user's consent.

    ``fills``: what is added may begin with nothing.
    """
    changes = [change for change in evolution.operators if not _is_nothing(plan, change)]
    problems = [text for change in changes for text in _problems(change, fills=fills)]
    if not problems:
        return
    more = f"; and {len(problems) - MAX_PROBLEMS} more" if len(problems) > MAX_PROBLEMS else ""
    raise UnsupportedStateError(
        "the state of the old query cannot be carried over to the new one as it was asked for",
        found="; ".join(problems[:MAX_PROBLEMS]) + more,
        remedy="check_evolution(old_plan, new_plan) shows every operator and field, and what to give for it",
    )


def _is_nothing(plan: SavepointPlan, change: OperatorChange) -> bool:
    """Return whether a change is that of a part of a connector of which the savepoint has no state."""
    old = change.old
    if old is None or not old.of_connector or change.new is not None:
        return False
    operator = plan.find(OperatorIdentifier(old.operator_id))
    return operator is None or not has_state(operator)


def _problems(change: OperatorChange, *, fills: bool) -> list[str]:
    """Return what stands against the writing of an operator."""
    shape = change.new or change.old
    assert shape is not None
    name = f"{shape.uid} ({shape.transformation})" if shape.is_generated else shape.uid
    result: list[str] = []
    whole: dict[tuple[Verdict, tuple[str, ...]], list[str]] = {}
    for state in change.states:
        fields = [
            f"{name}: {one.name}{_backfill_name(one)} is {one.verdict}{_of((one.reason,))}"
            for one in state.fields
            if one.verdict in REFUSING or (one.source is None and state.new is not None)
        ]
        computed = state.old is not None and state.old.name.startswith(HISTORY)
        is_whole = state.verdict is Verdict.BACKFILLED and not state.fields and not computed
        if not fields and (state.verdict in REFUSING or is_whole):
            whole.setdefault((state.verdict, state.reasons), []).append(state.new_name or state.old_name or "")
        result += fields
    for (verdict, reasons), states in whole.items():
        subject = f"state {states[0]} is" if len(states) == 1 else f"states {', '.join(states)} are"
        result.append(f"{name}: {subject} {verdict}{_of(reasons)}")
    for one in change.key:
        if one.verdict in REFUSING or one.source is None:
            result.append(f"{name}: key {one.name} is {one.verdict}{_of((one.reason,))}")
    lost = (Verdict.LOST, Verdict.FILLED)
    if not result and (change.verdict in REFUSING or (change.verdict in lost and not fills)):
        result.append(f"{name}: {change.verdict}{_of((*change.reasons, *change.candidates))}")
    return list(dict.fromkeys(result))


def _backfill_name(field: FieldSource) -> str:
    """Return the name under which a field is given, where that is not the field's own."""
    return f" ({field.backfill!r})" if field.backfill and field.backfill != field.name else ""


def _of(reasons: tuple[str, ...]) -> str:
    texts = [reason for reason in reasons if reason]
    return f" ({'; '.join(texts)})" if texts else ""
