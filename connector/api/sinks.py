"""Verbs of sinks and asynchronous functions: what they have not committed or answered yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pyspark_savepoint.api.families import Family, S
from pyspark_savepoint.engines.face import R, T
from pyspark_savepoint.options.operators import OperatorRef


class Sinks(Family[S, R, T]):
    """Sinks of a savepoint: committables that Flink will commit, and records in flight.

    Example::

        sp.sinks.mark_committables(committer, [{"checkpoint_id": 7}]).write("/savepoints/marked")

    """

    _called = "sp.sinks"

    def remove_committables(
        self,
        uid: OperatorRef,
        committables: R | Collection[Mapping[str, Any]] | None = None,
        *,
        lose_data: bool = False,
        connector: str | None = None,
    ) -> S:
        """Remove committables of a sink, such as those of expired transactions, which Flink then never commits.

        The numbers of committables that the committer expects are changed with them, all else stays byte for byte.
        External transactions stay open.

        Args:
            uid: The sink's committer, an operator of its own: table ``committables`` has its uid hash.
            committables: Rows of table ``committables``, or some of their columns: what is equal in all of them is
                removed. None for all.
            lose_data: Must be True: data of the committables is lost unless it was committed in another way.
            connector: The kind of sink, if its bytes do not show it.

        Returns:
            The savepoint without the committables. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateNotFoundError: If the operator is not a committer.
            OptionError: If a row equals no committable, or ``lose_data`` is missing.

        Example::

            sp.sinks.remove_committables(committer, [{"transactional_id": "orders-0-17"}], lose_data=True)

        """
        from pyspark_savepoint.plan.connector_changes import with_committables_removed

        return self._changed(
            uid,
            lambda plan: with_committables_removed(self._engine, plan, committables, lose_data, connector),
        )

    def mark_committables(
        self,
        uid: OperatorRef,
        committables: R | Collection[Mapping[str, Any]] | None = None,
        status: str = "COMMITTED",
        *,
        connector: str | None = None,
    ) -> S:
        """Mark committables of a sink as committed in another way, so that Flink does not commit them again.

        Args:
            uid: The sink's committer, an operator of its own: table ``committables`` has its uid hash.
            committables: The committables, as in :meth:`remove_committables`.
            status: ``COMMITTED``, or ``RECEIVED`` or ``RETRY`` to have Flink commit them.
            connector: The kind of sink, if its bytes do not show it.

        Returns:
            The savepoint with the marks. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateNotFoundError: If the operator is not a committer.
            OptionError: If a row equals no committable.

        Example::

            sp.sinks.mark_committables(committer, [{"checkpoint_id": 7}])

        """
        from pyspark_savepoint.plan.connector_changes import with_committables_marked

        return self._changed(
            uid,
            lambda plan: with_committables_marked(self._engine, plan, committables, status, connector),
        )

    def clear_in_flight(self, uid: OperatorRef, *, lose_data: bool = False) -> S:
        """Empty the queue of an asynchronous function, whose records Flink would otherwise send to it again.

        Args:
            uid: The operator of the function.
            lose_data: Must be True if the queue is not empty, as its records are lost.

        Returns:
            The savepoint with an empty queue. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateNotFoundError: If the operator calls no asynchronous function.
            OptionError: If ``lose_data`` is missing.

        Example::

            sp.sinks.clear_in_flight("enrich", lose_data=True).write("/savepoints/emptied")

        """
        from pyspark_savepoint.plan.connector_changes import with_in_flight_cleared

        return self._changed(uid, lambda plan: with_in_flight_cleared(plan, lose_data))
