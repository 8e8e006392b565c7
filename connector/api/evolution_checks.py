"""What becomes of a SQL job's state when its query changes. This reads only types, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any

import pyarrow as pa

from pyspark_savepoint.engines.face import Face, R, T
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.io.one_verb import one_verb

TEXT = pa.string()
SCHEMA = pa.schema(
    [(name, TEXT) for name in ("level", "operator", "old_uid", "new_uid", "state", "field", "verdict", "reason")]
)
CompiledPlan = str | PathLike[str] | Mapping[str, Any]


class EvolutionChecks(Face[R, T]):
    """Verdicts about a changed query."""

    @one_verb()
    def check_evolution(
        self,
        old_plan: CompiledPlan,
        new_plan: CompiledPlan,
        *,
        nodes: Mapping[str, str] | None = None,
        sources: Mapping[str, str] | None = None,
        columns: Mapping[str, str] | None = None,
        filters: str = "refuse",
        casts: Mapping[str, str] | None = None,
        fill: str = "refuse",
        backfill: Iterable[str] = (),
        old_explain: str | PathLike[str] | None = None,
        new_explain: str | PathLike[str] | None = None,
    ) -> T:
        """Say what becomes of a SQL job's state under its new query: of each operator, state and field.

        Both plans are what ``COMPILE PLAN`` writes. Operators are matched by what they compute from which columns of
        which tables, never by names or equal types: an aggregate of another column is not the same one.

        Args:
            old_plan: The plan of the job that wrote the savepoint: a path, its text, or parsed JSON.
            new_plan: The plan of the new query.
            nodes: For ambiguous nodes: the id of a node of the new plan, and of the old node that it continues.
            sources: For renamed tables: the new name, and the old one.
            columns: For columns that mean the same, although their expressions differ: the new name, and the old one.
            filters: ``keep`` to accept that rows of before came in under other conditions.
            casts: Types that columns may become though values change: the column, and its type.
            fill: ``initial`` to let what is added begin with its initial value.
            backfill: Names of what you will give: of values, of tables, or ids of nodes.
            old_explain: What EXPLAIN JSON_EXECUTION_PLAN prints, or its path, if the old job ran without a plan.
            new_explain: The same for the new query.

        Returns:
            A row per operator, key, state and field (``level``): ``operator``, ``old_uid``, ``new_uid``, ``state``,
            ``field``, ``verdict`` and ``reason``. What is true of the whole job has a row of level ``job``, without
            a verdict, such as a time zone that must stay.

        Raises:
            OptionError: If a plan is not one, or not that of the savepoint, or an argument names what is not there.

        Example::

            sp.check_evolution("old.json", "new.json").show(truncate=False)

        """
        from pyspark_savepoint.statebackends.evolution.evolution import check_options, evolution_of

        options = check_options(
            nodes=nodes, sources=sources, columns=columns, filters=filters, casts=casts, fill=fill, backfill=backfill
        )
        evolution = evolution_of(
            old_plan,
            new_plan,
            options,
            self._snapshot(),
            old_explain=text_of(old_explain),
            new_explain=text_of(new_explain),
        )
        return self._shown(pa.Table.from_pylist(evolution.to_rows(), SCHEMA))


def text_of(explain: str | PathLike[str] | None) -> str | None:
    """Return the text of EXPLAIN, which may be given as a path.

    Raises:
        OptionError: If the file cannot be read.

    """
    from pyspark_savepoint.statebackends.evolution.plans import text_of_path, why_not_read

    if explain is None or (isinstance(explain, str) and "{" in explain):
        return explain
    try:
        return text_of_path(str(explain))
    except (OSError, ValueError) as error:
        raise OptionError(
            "what EXPLAIN JSON_EXECUTION_PLAN printed cannot be read",
            path=str(explain),
            found=why_not_read(error)[:300],
            expected="its text, or the path of a file with it",
        ) from None
