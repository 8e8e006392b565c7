"""What a savepoint of a changed SQL query was made of: the verdicts, and where its old savepoint is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pyspark_savepoint.statebackends.evolution.changes import Evolution


@dataclass(frozen=True, repr=False)
class EvolvedFrom:
    """The verdicts of ``evolve``, the old savepoint, and the new query's plan; ``written``: it is written already."""

    evolution: Evolution
    path: str
    options: Mapping[str, str]
    new_plan: Mapping[str, Any]
    written: bool = False

    def as_written(self) -> Self | None:
        """Return the same of the savepoint that is written now; None of one that was made of a written one."""
        return None if self.written else replace(self, written=True)
