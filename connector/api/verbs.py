"""The verbs of a savepoint, the same whatever engine runs them. The faces are ``Savepoint`` and ``LocalSavepoint``."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from pyspark_savepoint.api.erasures import Erasures
from pyspark_savepoint.api.evolution_checks import EvolutionChecks
from pyspark_savepoint.api.evolutions import Evolutions
from pyspark_savepoint.api.inspection import Inspection
from pyspark_savepoint.api.jobs import JobRestore
from pyspark_savepoint.api.lookups import Lookups
from pyspark_savepoint.api.migrations import Migrations
from pyspark_savepoint.api.operator_edits import OperatorEdits
from pyspark_savepoint.api.salvages import Salvages
from pyspark_savepoint.api.sinks import Sinks
from pyspark_savepoint.api.sources import Sources
from pyspark_savepoint.api.state_edits import StateEdits
from pyspark_savepoint.api.summaries import Summaries
from pyspark_savepoint.api.writes import Writes
from pyspark_savepoint.engines.face import Face, R, T

if TYPE_CHECKING:
    from pyspark_savepoint.statebackends.jobs.restore.job_reader import Job


class SavepointVerbs(
    Summaries[R, T],
    Lookups[R, T],
    Migrations[R, T],
    EvolutionChecks[R, T],
    Evolutions[R, T],
    Erasures[R, T],
    Salvages[R, T],
    StateEdits[R, T],
    OperatorEdits[R, T],
    Writes[R, T],
):
    """What both faces share. Immutable: every change returns a new savepoint, which :meth:`write` writes."""

    _families: ClassVar = {"inspect": Inspection, "sources": Sources, "sinks": Sinks, "job(job)": JobRestore}

    @property
    def inspect(self) -> Inspection[Self, R, T]:
        """Numbers about the state, and what is wrong with it: sizes, findings, the report, figures.

        Example::

            sp.inspect.sizes("accounts")

        """
        return Inspection(self)

    @property
    def sources(self) -> Sources[Self, R, T]:
        """Sources: where they continue, and which splits they have.

        Example::

            sp.sources.with_offsets("orders-source", by=-1000).write("/savepoints/rewound")

        """
        return Sources(self)

    @property
    def sinks(self) -> Sinks[Self, R, T]:
        """Sinks: committables, and records in flight of asynchronous functions.

        Example::

            sp.sinks.remove_committables(committer, lose_data=True).write("/savepoints/without")

        """
        return Sinks(self)

    def job(self, job: Job | Face[R, T], *, stream_graph_hasher: str | None = None) -> JobRestore[Self, R, T]:
        """Return a job beside the savepoint: whether it restores the savepoint, and where the state goes.

        Args:
            job: The job: a mapping (``statebackends.jobs.restore.job_description``), a :class:`StreamGraph`, an
                execution plan, a compiled plan or a plan of the REST interface as JSON, or a savepoint that the new
                job has taken.
            stream_graph_hasher: How operators without uid get their ids: ``v2``, or the proposed ``v3``. By
                default that of the graph, and ``v2`` for others.

        Returns:
            The job, with verbs ``check_restore``, ``restore_plan`` and ``operator_at``.

        Raises:
            OptionError: If ``job`` is a savepoint that is not written yet.

        Example::

            sp.job(of_the_new_job).check_restore(flink_version="2.3")

        """
        return JobRestore(self, job, stream_graph_hasher)
