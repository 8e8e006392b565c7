"""Verbs that carry a SQL job's state over to another query."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

from pyspark_savepoint.api.evolution_checks import text_of
from pyspark_savepoint.engines.face import Face, R, T, snapshot_of
from pyspark_savepoint.formats.errors import OptionError, UnsupportedStateError, did_you_mean
from pyspark_savepoint.formats.io.one_verb import one_verb
from pyspark_savepoint.formats.metadata.identifiers import OperatorIdentifier
from pyspark_savepoint.plan.backfills import backfill_input, with_views
from pyspark_savepoint.plan.catch_ups import CatchUp
from pyspark_savepoint.plan.evolved_from import EvolvedFrom
from pyspark_savepoint.plan.evolved_operators import EvolvedSavepoint, has_state
from pyspark_savepoint.plan.savepoint_plan import SavepointPlan
from pyspark_savepoint.statebackends.evolution.belongs import as_it_ran, check_belongs
from pyspark_savepoint.statebackends.evolution.changes import REFUSING, Evolution, FieldSource, OperatorChange, Verdict
from pyspark_savepoint.statebackends.evolution.connector_parts import with_parts
from pyspark_savepoint.statebackends.evolution.evolution import check_options, evolution_of, expect_mapping
from pyspark_savepoint.statebackends.evolution.expected import shapes_of
from pyspark_savepoint.statebackends.evolution.histories import HISTORY, history_row_names, slices_of
from pyspark_savepoint.statebackends.evolution.lineage import Lineage
from pyspark_savepoint.statebackends.evolution.plans import read_plan, refusing
from pyspark_savepoint.statebackends.evolution.rewriting.emissions import (
    emissions_of,
    key_places_of,
    orders_of,
    view_bits_of,
)
from pyspark_savepoint.statebackends.evolution.rewriting.results import sink_result

if TYPE_CHECKING:
    from pyspark_savepoint.insight.evolved_states import EvolutionReport

PlanLike = str | PathLike[str] | Mapping[str, Any]
NO_PLAN = "If a job ran without a plan, the changes are not known: run the new query once, into a new sink"
#: How many problems one error names.
MAX_PROBLEMS = 5


class Evolutions(Face[R, T]):
    """Another query of a SQL job."""

    @one_verb()
    def evolve(
        self,
        old_plan: PlanLike,
        new_plan: PlanLike,
        *,
        fill: str = "refuse",
        backfill: Mapping[str, R] | None = None,
        nodes: Mapping[str, str] | None = None,
        sources: Mapping[str, str] | None = None,
        columns: Mapping[str, str] | None = None,
        filters: str = "refuse",
        casts: Mapping[str, str] | None = None,
        old_explain: str | PathLike[str] | None = None,
        new_explain: str | PathLike[str] | None = None,
    ) -> Self:
        """Carry the state of a SQL job over to its new query.

        Both queries are given by their compiled plans (``COMPILE PLAN``). They say what each value of the new state
        is: an old value, moved, cast, merged or computed, or one that is given or filled. What needs no change stays
        byte for byte, under the ids of the new plan. ``check_evolution`` shows all of it before.

        Args:
            old_plan: The plan of the job that took the savepoint: a path, a text, or parsed JSON.
            new_plan: The plan of the new query.
            fill: ``initial``: what is added begins with its initial value, and counts from now on. ``refuse``: all of
                it must be in ``backfill``.
            backfill: What is added, from history. By the names that ``check_evolution`` shows: rows with the columns
                of the key, and the value. By the name of a source's table: its rows up to the savepoint, from which
                the plan's expressions compute what the operators would hold. By the id of a node (``8``, or
                ``9.left`` and ``9.right`` of a join): the rows of its input.
            nodes: Ids of nodes of the new plan, each with that of the old node whose state it gets.
            sources: Tables of the new query, each with that of the old one whose positions it gets.
            columns: Fields of the new query, each with that of the old one whose values it gets.
            filters: ``keep``: rows of before stay, though the new query filters other rows. ``refuse``: an error.
            casts: Fields of the new query, each with the type that its values are cast to.
            old_explain: If the old job ran without a plan: the text of ``EXPLAIN JSON_EXECUTION_PLAN``, or its path.
            new_explain: If the new job will run without a plan: the same text for the new query.

        Returns:
            The savepoint for the new query. Nothing is written yet.

        Raises:
            OptionError: If a plan is none, or not that of the savepoint, or an argument is invalid.
            UnsupportedStateError: If state would be lost, is ambiguous, or would lead to wrong rows.
            ValueRangeError: If a value does not fit its new type, or given values lack a key or have one too many, or
                a history does not end where the savepoint was taken.

        Example::

            sp.evolve("old.json", "new.json", backfill={"total": totals}).write("/savepoints/evolved")

        """
        if self.path is None:
            raise OptionError(
                "evolve is for a savepoint as it is, and this one has changes that are not written yet",
                remedy="call evolve() first",
            )
        expect_mapping("backfill", backfill, "{'total': totals}, of rows by name")
        history = {str(name): rows for name, rows in (backfill or {}).items()}
        options = check_options(
            fill=fill,
            backfill=history,
            filters=filters,
            nodes=nodes,
            sources=sources,
            columns=columns,
            casts=casts,
        )
        snapshot = self._snapshot()
        evolution = evolution_of(
            old_plan,
            new_plan,
            options,
            snapshot,
            old_explain=text_of(old_explain),
            new_explain=text_of(new_explain),
        )
        expect_backfill_names(history, evolution)
        expect_decided(self.plan, evolution, fills=fill == "initial")
        evolution = with_views(evolution)
        plan = as_it_ran(read_plan(new_plan, "new_plan"), snapshot)
        evolved = EvolvedSavepoint(
            self._engine,
            self.plan,
            evolution,
            backfill_input(self._engine, history, evolution),
            emissions_of(plan),
            orders_of(plan),
            key_places_of(plan),
            view_bits_of(plan),
            slices_of(Lineage(plan)),
            int(time.time() * 1000),
        )
        evolved_from = EvolvedFrom(evolution, self.path, self.options, plan.document)
        return self._planned(replace(evolved.evolved(), evolved=evolved_from))

    @property
    def evolution(self) -> EvolutionReport:
        """What became of each operator and state, of a savepoint that :meth:`evolve` made: a report with counts.

        The states of both savepoints are counted when it is asked for, by tasks of Spark or in this process. Of what is
        not written yet, the counts after it are None. A savepoint that is opened by its path does not know it.

        Example::

            new = sp.evolve("old.json", "new.json", fill="initial").write("/savepoints/evolved")
            new.evolution.rows(), new.evolution.counts
            print(new.evolution.to_markdown())

        """
        from pyspark_savepoint.insight.evolved_states import EvolutionReport, counted_entries
        from pyspark_savepoint.insight.surveys import Surveys

        evolved = self.plan.evolved
        if evolved is None or evolved.written == (self.path is None):
            raise OptionError(
                "this savepoint was not made by evolve()",
                remedy="keep what evolve(...).write(path) returns; check_evolution(old_plan, new_plan) shows what it "
                "would do",
            )
        before = counted_entries(Surveys(self._at(evolved.path, evolved.options)))
        after = None if self.path is None else counted_entries(Surveys(self))
        return EvolutionReport(evolved.evolution, before, after, evolved.new_plan)

    @one_verb()
    def catch_up(
        self, new: Face[R, T] | str | PathLike[str], old_plan: PlanLike, new_plan: PlanLike, *, sink: str | None = None
    ) -> T:
        """Return the changes that bring a sink from the old query's result to the new one's.

        The new job goes on from its state: it does not emit again what the sink has from the old job, such as rows
        beyond a smaller Top-N, or columns that were NULL. Apply these rows to the sink before it starts.

        Args:
            new: The savepoint that ``evolve`` made of this one, written.
            old_plan: The plan of the job that took this savepoint.
            new_plan: The plan of the new query.
            sink: The table of the sink. None for the only one of the new query.

        Returns:
            The columns of the sink, and ``_change_type``: ``insert``, ``delete``, or ``update_preimage`` and
            ``update_postimage``.

        Raises:
            OptionError: If a plan is none, or not that of its savepoint, or has no such sink.
            UnsupportedStateError: If the result does not follow from the state of one operator.

        Example::

            sp.evolve("old.json", "new.json", fill="initial").write("/savepoints/evolved")
            sp.catch_up("/savepoints/evolved", "old.json", "new.json").show()

        """
        sides = []
        for savepoint, plan_path, argument in (
            (self, old_plan, "old_plan"),
            (self._other(new), new_plan, "new_plan"),
        ):
            snapshot = snapshot_of(savepoint)
            plan = as_it_ran(read_plan(plan_path, argument), snapshot)
            with refusing(argument):
                shapes = shapes_of(plan)
                result = sink_result(plan, sink, argument)
            check_belongs(with_parts(plan, shapes, snapshot), snapshot, argument, NO_PLAN)
            sides.append((result, savepoint.plan))
        table: T = self._engine.as_table(CatchUp(self._engine, *sides).changes())
        return table


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
    result = []
    for state in change.states:
        fields = [
            f"{name}: {one.name}{_backfill_name(one)} is {one.verdict}{_of((one.reason,))}"
            for one in state.fields
            if one.verdict in REFUSING or (one.source is None and state.new is not None)
        ]
        computed = state.old is not None and state.old.name.startswith(HISTORY)
        whole = state.verdict is Verdict.BACKFILLED and not state.fields and not computed
        if not fields and (state.verdict in REFUSING or whole):
            fields = [f"{name}: state {state.new_name or state.old_name} is {state.verdict}{_of(state.reasons)}"]
        result += fields
    for one in change.key:
        if one.verdict in REFUSING or one.source is None:
            result.append(f"{name}: key {one.name} is {one.verdict}{_of((one.reason,))}")
    lost = (Verdict.LOST, Verdict.FILLED)
    if not result and (change.verdict in REFUSING or (change.verdict in lost and not fills)):
        result.append(f"{name}: {change.verdict}{_of((*change.reasons, *change.candidates))}")
    return result


def _backfill_name(field: FieldSource) -> str:
    """Return the name under which a field is given, where that is not the field's own."""
    return f" ({field.backfill!r})" if field.backfill and field.backfill != field.name else ""


def _of(reasons: tuple[str, ...]) -> str:
    texts = [reason for reason in reasons if reason]
    return f" ({'; '.join(texts)})" if texts else ""
