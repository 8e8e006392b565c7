"""Families of verbs: what ``sp.inspect``, ``sp.sources``, ``sp.sinks`` and ``sp.job(job)`` are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import pyarrow as pa

from pyspark_savepoint.engines.face import (
    Face,
    R,
    T,
    as_user_table,
    changed,
    engine_of,
    table_of,
    with_plan,
)
from pyspark_savepoint.formats.redaction import shown
from pyspark_savepoint.options.keywords import Names
from pyspark_savepoint.options.operators import OperatorRef
from pyspark_savepoint.plan.engine import Engine
from pyspark_savepoint.plan.operator_plan import OperatorPlan
from pyspark_savepoint.plan.savepoint_plan import SavepointPlan
from pyspark_savepoint.text.helpful_names import HelpfulNames, verbs_of, words_of

#: The savepoint that has the verbs. Its changes are savepoints of the same class.
S = TypeVar("S", bound=Face[Any, Any])


class Family(HelpfulNames, Generic[S, R, T]):
    """Verbs of one subject, of one savepoint.

    Args:
        savepoint: The savepoint that has them.

    """

    #: How the family is reached, such as ``sp.sources``.
    _called: str

    def __init__(self, savepoint: S) -> None:
        self._savepoint = savepoint
        self._worded = words_of(savepoint)

    def __repr__(self) -> str:
        """Return the savepoint, and a line per verb."""
        own = type(self).__dict__
        verbs = {name: (own[name].__doc__ or "").split("\n")[0].replace("``", "") for name in verbs_of(type(self))}
        width = max(map(len, verbs))
        lines = (f"  {name:{width}}  {sentence}" for name, sentence in verbs.items())
        return "\n".join([shown(f"{self._called} of {self._savepoint!r}", line=True), *lines])

    @property
    def _engine(self) -> Engine:
        return engine_of(self._savepoint)

    @property
    def _plan(self) -> SavepointPlan:
        return self._savepoint.plan

    def _planned(self, plan: SavepointPlan) -> S:
        return with_plan(self._savepoint, plan)

    def _changed(self, uid: OperatorRef, change: Callable[[OperatorPlan], OperatorPlan]) -> S:
        return changed(self._savepoint, uid, change)

    def _of(self, name: str, uid: OperatorRef | None, options: Mapping[str, object], state: Names | None = None) -> T:
        table_options = options if state is None else {**options, "state": state}
        table: T = table_of(self._savepoint, name, uid, **table_options)
        return table

    def _shown(self, table: pa.Table) -> T:
        shown_table: T = as_user_table(self._savepoint, table)
        return shown_table
