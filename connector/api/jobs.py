"""Verbs about a job and a savepoint: whether the job restores it, where its state goes, and which operator is which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from pyspark_savepoint.api.families import Family, S
from pyspark_savepoint.engines.face import Face, R, T, snapshot_of

if TYPE_CHECKING:
    from pyspark_savepoint.formats.metadata.identifiers import OperatorIdentifier
    from pyspark_savepoint.statebackends.jobs.restore.job_reader import Job
    from pyspark_savepoint.statebackends.jobs.restore.restore_verdicts import RestoreCheck


class JobRestore(Family[S, R, T]):
    """A job, and how it restores a savepoint. ``sp.job(job)`` makes it.

    Args:
        savepoint: The savepoint.
        job: The job, as in :meth:`~pyspark_savepoint.Savepoint.job`.
        stream_graph_hasher: How operators without uid get their ids.

    Example::

        sp.job(graph).check_restore(flink_version="2.3")

    """

    _called = "sp.job(job)"

    def __init__(self, savepoint: S, job: Job | Face[R, T], stream_graph_hasher: str | None = None) -> None:
        super().__init__(savepoint)
        self._job = snapshot_of(job) if isinstance(job, Face) else job
        self._hasher = stream_graph_hasher

    def check_restore(
        self,
        *,
        types: Mapping[str, Mapping[str, Any]] | None = None,
        flink_version: str | None = None,
        state_backend: str | None = None,
        classes: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None,
        java_classes: Sequence[str] | None = None,
        inferred_by: str | None = None,
        allow_non_restored_state: bool = False,
        old_plan: str | PathLike[str] | Mapping[str, Any] | None = None,
    ) -> T:
        """Check whether a job can restore the savepoint: one row per operator of either, the worst verdict first.

        ``flink_version``, ``state_backend``, ``classes`` and ``java_classes`` take precedence over what the job says. A
        stream graph or plan has no types, so give them in ``types``.

        Args:
            types: The types of keys and states, by uid or name of the operator.
            flink_version: The release of Flink that runs the job, such as ``2.3``.
            state_backend: The job's state backend.
            classes: Jars and folders of class files. With ``inferred_by`` they hold the classes that types name. They
                also describe classes in values that Kryo wrote in Flink 1. The rows then say what Flink 2 would read.
            java_classes: Names of Java classes that the job has, beside those in its types.
            inferred_by: The release of Flink that infers types from the classes that types name.
            allow_non_restored_state: Accept state that no operator of the job restores, as ``--allowNonRestoredState``
                does.
            old_plan: The compiled plan of the SQL job that wrote the savepoint, if ``job`` is the plan of a new query.
                With both plans, state is also reported whose types agree and whose meaning has changed.

        Returns:
            The verdicts.

        Raises:
            OptionError: If the savepoint is not written yet, or the job cannot be parsed.

        Example::

            sp.job(of_the_new_job).check_restore()

        """
        from pyspark_savepoint.insight.restore import warn_of_assumptions

        check = restore_check(
            self,
            types=types,
            flink_version=flink_version,
            state_backend=state_backend,
            classes=classes,
            java_classes=java_classes,
            inferred_by=inferred_by,
            allow_non_restored_state=allow_non_restored_state,
            old_plan=old_plan,
        )
        warn_of_assumptions(check.notes)
        return self._shown(check.to_arrow())

    def restore_plan(self) -> T:
        """Return the assignment of state to the subtasks of a job: one row per operator and subtask.

        Returns:
            The assignment.

        Raises:
            OptionError: If the savepoint is not written yet, or the job cannot be parsed.

        Example::

            sp.job(graph).restore_plan()

        """
        from pyspark_savepoint.insight.restore import plan_table

        return self._shown(plan_table(snapshot_of(self._savepoint), self._job, self._hasher))

    def operator_at(self, name: str) -> OperatorIdentifier:
        """Return the identifier of an operator without uid, by its name in the job's graph.

        The job must be a stream graph: that of the job as it was when it took the snapshot.

        Args:
            name: The operator's name in the graph.

        Returns:
            The identifier, which all methods take in place of a uid.

        Raises:
            OptionError: If the job is not a stream graph, or the graph has no such operator, or several.
            OperatorNotFoundError: If the snapshot does not contain the operator.

        Example::

            sp.keyed_state(sp.job(graph).operator_at("join"))

        """
        from pyspark_savepoint.insight.restore import identifier_at

        return identifier_at(snapshot_of(self._savepoint), self._job, name, self._hasher)

    def _checked(self, **settings: Any) -> RestoreCheck:
        from pyspark_savepoint.insight.restore import check_snapshot

        return check_snapshot(snapshot_of(self._savepoint), self._job, hasher=self._hasher, **settings)


def restore_check(restore: JobRestore[Any, Any, Any], **settings: Any) -> RestoreCheck:
    """Return the verdicts of ``check_restore``, with what is assumed of the job, and what is not described.

    Args:
        restore: A job, and the savepoint that it restores.
        **settings: The arguments of :meth:`JobRestore.check_restore`.

    Returns:
        The verdicts.

    Example::

        restore_check(sp.job(graph), flink_version="2.3").undescribed

    """
    return restore._checked(**settings)
