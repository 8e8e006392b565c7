"""Verbs that carry a SQL job's state over to another query."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Self

from pyspark_savepoint.api.evolution_checks import CompiledPlan, text_of
from pyspark_savepoint.engines.face import Face, R, T, snapshot_of
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.io.one_verb import one_verb

if TYPE_CHECKING:
    from pyspark_savepoint.insight.evolved_states import EvolutionReport


class Evolutions(Face[R, T]):
    """Another query of a SQL job."""

    @one_verb()
    def evolve(
        self,
        old_plan: CompiledPlan,
        new_plan: CompiledPlan,
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
        from pyspark_savepoint.plan.evolved_plan import EvolvedPlan
        from pyspark_savepoint.statebackends.evolution.belongs import as_it_ran
        from pyspark_savepoint.statebackends.evolution.evolution import check_options, evolution_of, expect_mapping
        from pyspark_savepoint.statebackends.evolution.plans import read_plan

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
        query = as_it_ran(read_plan(new_plan, "new_plan"), snapshot)
        evolved = EvolvedPlan(self._engine, self.plan, evolution, query)
        return self._planned(evolved.of(history, self.path, self.options, fills=fill == "initial"))

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
        self,
        new: Face[R, T] | str | PathLike[str],
        old_plan: CompiledPlan,
        new_plan: CompiledPlan,
        *,
        sink: str | None = None,
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
        from pyspark_savepoint.plan.catch_ups import CatchUp, side_of

        queries = ((self, old_plan, "old_plan"), (self._other(new), new_plan, "new_plan"))
        sides = [side_of(one.plan, snapshot_of(one), query, sink, argument) for one, query, argument in queries]
        table: T = self._engine.as_table(CatchUp(self._engine, *sides).changes())
        return table
