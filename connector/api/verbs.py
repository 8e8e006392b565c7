"""The verbs of a savepoint, the same whatever engine runs them. The faces are ``Savepoint`` and ``LocalSavepoint``."""

from __future__ import annotations

from typing import TypeVar

from pyspark_savepoint.api.edits import Edits
from pyspark_savepoint.api.erasures import Erasures
from pyspark_savepoint.api.evolution_checks import EvolutionChecks
from pyspark_savepoint.api.evolutions import Evolutions
from pyspark_savepoint.api.lookups import Lookups
from pyspark_savepoint.api.migrations import Migrations
from pyspark_savepoint.api.salvages import Salvages
from pyspark_savepoint.api.summaries import Summaries

R = TypeVar("R")
T = TypeVar("T")


class SavepointVerbs(
    Summaries[R, T],
    Lookups[R, T],
    Migrations[R, T],
    EvolutionChecks[R, T],
    Evolutions[R, T],
    Erasures[R, T],
    Salvages[R, T],
    Edits[R, T],
):
    """What both faces share. Immutable: every change returns a new savepoint, which :meth:`write` writes."""
