"""Verbs of sources: their positions, splits and enumerators."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from pyspark_savepoint.api.families import Family, S
from pyspark_savepoint.engines.face import Face, R, T, of_same_engine
from pyspark_savepoint.options.operators import OperatorRef, identifier_of

if TYPE_CHECKING:
    from pyspark_savepoint.options.keywords import TableOptions


class Sources(Family[S, R, T]):
    """Sources of a savepoint: where they continue, and which splits they have.

    Example::

        sp.sources.offsets()
        sp.sources.with_offsets("orders-source", {("orders", 3): 1200}).write("/savepoints/rewound")

    """

    _called = "sp.sources"

    def offsets(self, uid: OperatorRef | None = None, **options: Unpack[TableOptions]) -> T:
        """Return table ``offsets``: the next position of each split, of sources whose kind has positions.

        Over retained checkpoints, ``history(spark, folder, table="offsets")`` is the progress of the job. Without Spark
        ``open_history(folder, table="offsets")``.

        Args:
            uid: The source. None for all.
            **options: Options of a read, such as ``connector``.

        Returns:
            The operator's uid, hash and name, ``subtask`` (NULL: no reader has the split yet), ``connector``,
            ``stream`` (topic, stream, file), ``partition``, ``offset`` (the next, where it is a number), ``position``
            (the same as text, or a word such as ``latest``).

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.

        Example::

            sp.sources.offsets().where("stream = 'orders'").show()  # without Spark: sp.sources.offsets().to_pandas()

        """
        return self._of("offsets", uid, options)

    def with_offsets(
        self,
        uid: OperatorRef | None = None,
        offsets: Mapping[Any, Any] | R | Face[R, T] | None = None,
        *,
        reset: str | None = None,
        by: int | None = None,
        clamp: bool = False,
        connector: str | None = None,
    ) -> S:
        """Change the positions at which a source continues, in readers and enumerator. All else stays byte for byte.

        A warning says if records will be read again. They change keyed state again, and output that sinks have
        committed stays. Another warning says if one number is given for a topic of several partitions.

        Args:
            uid: The source. None if the savepoint has only one.
            offsets: The next position by split. It may also be rows of table ``splits`` (``topic``, ``partition``,
                ``offset``, ``stop_offset``) or of table ``offsets``, such as from ``history``. Or it is another
                savepoint of the job, whose positions the splits of both get. By kind of source a position is:

                * Kafka: by ``(topic, partition)``, ``"topic-partition"``, or a topic for all of its partitions, an
                  offset or ``earliest``, ``latest``, ``committed``
                * number sequences: by split id, the next number
                * files: by split id, the number of records read
                * Kinesis, DynamoDB streams: by shard, the sequence number of the last record read, ``earliest`` or
                  ``latest``
                * MySQL: by ``binlog-split``, the fields of an offset such as ``file`` and ``pos``, or ``gtids``
                * PostgreSQL: by ``stream-split``, an LSN
                * Pulsar: by ``(topic, partition)``, the last message read, as ``ledger:entry``
            reset: One position for all splits, such as ``earliest``.
            by: A number by which all positions move.
            clamp: Whether positions of Kafka and files that would move below 0 become 0. Otherwise they are an error.
            connector: The kind of source, if its bytes do not show it.

        Returns:
            The savepoint with the positions. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateNotFoundError: If the operator is not a source.
            UnsupportedStateError: If the source is of no known kind.
            OptionError: If it has no such split, or a position cannot be one, or would be below 0.

        Example::

            sp.sources.with_offsets("orders-source", {("orders", 3): 1200}).write("/savepoints/rewound")
            sp.sources.with_offsets("orders-source", by=-1000)

        """
        from pyspark_savepoint.plan.connector_changes import (
            offsets_of_rows,
            only_source,
            positions_of,
            rows_of_table,
            source_of,
            with_source,
        )
        from pyspark_savepoint.statebackends.connectors.edits.sources import with_offsets

        plan = only_source(self._plan.operators, connector) if uid is None else self._plan.operator(uid)
        if isinstance(offsets, Face):
            theirs = positions_of(of_same_engine(self._savepoint, offsets).plan.operator(plan.identifier), connector)
            ours = positions_of(plan, connector)
            positions: Mapping[Any, Any] | None = {key: row for key, row in theirs.items() if key in ours}
        elif offsets is None or isinstance(offsets, Mapping):
            positions = offsets
        else:
            rows = rows_of_table(self._engine, offsets, plan)
            positions = offsets_of_rows(source_of(plan, connector), rows)
        return self._changed(
            plan.identifier,
            lambda plan: with_source(plan, connector, lambda source: with_offsets(source, positions, reset, by, clamp)),
        )

    def with_source(
        self,
        uid: OperatorRef,
        splits: Mapping[Any, Any] | Sequence[Mapping[str, Any]] | R,
        *,
        connector: str = "kafka",
        connector_version: str = "3.1",
        name: str | None = None,
    ) -> S:
        """Add a source that continues at given positions, such as those of a job of another engine.

        Its readers have the splits, and its enumerator has assigned them. So the job starts none of these partitions
        anew. New partitions are read from their beginning.

        Args:
            uid: The new operator, a source of the job that will start from the savepoint.
            splits: For Kafka the next offset by ``(topic, partition)``, or a marker (``earliest``, ``latest``,
                ``committed``). Or rows with the columns of table ``splits``, as in :meth:`add_splits`.
            connector: ``kafka`` or ``number_sequence``.
            connector_version: The release of the Kafka connector in the job, such as ``3.4.0``. The state has
                the version that this release writes. Later releases read it too.
            name: The operator's name, which metadata of Flink 2 records.

        Returns:
            The savepoint with the source. Nothing is written yet.

        Raises:
            StateExistsError: If the savepoint has such an operator.
            OptionError: If a split is repeated, a position cannot be one, or there are no new sources of the connector.

        Example::

            Savepoint.create(spark).sources.with_source("orders-source", {("orders", 0): 1200, ("orders", 1): 980})

        """
        from pyspark_savepoint.plan.connector_changes import as_new_source, offset_rows, rows_of_table

        new = self._plan.new_operator(identifier_of(uid), name)
        rows = offset_rows(splits, new) if isinstance(splits, Mapping) else rows_of_table(self._engine, splits, new)
        return self._planned(self._plan.with_new(as_new_source(new, connector, connector_version, rows)))

    def add_splits(
        self,
        uid: OperatorRef,
        splits: Sequence[Mapping[str, Any]] | R,
        *,
        connector: str | None = None,
    ) -> S:
        """Add splits to a source, in readers and enumerator.

        Args:
            uid: The source.
            splits: Rows with the columns of table ``splits``. Kafka has ``topic``, ``partition``, and ``offset`` or
                ``marker``. With neither, the partition begins where the job's settings say. Number sequences have
                ``split_id``, ``next`` and ``to``. Files have ``path`` and ``length``.
            connector: The kind of source, if its bytes do not show it.

        Returns:
            The savepoint with the splits. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            OptionError: If the source has such a split, which would be read twice, or a column is missing.

        Example::

            sp.sources.add_splits("orders-source", [{"topic": "orders", "partition": 7, "offset": 0}])

        """
        from pyspark_savepoint.plan.connector_changes import rows_of_table, with_source
        from pyspark_savepoint.statebackends.connectors.edits.sources import add_splits

        rows = rows_of_table(self._engine, splits, self._plan.operator(uid))
        return self._changed(uid, lambda plan: with_source(plan, connector, lambda source: add_splits(source, rows)))

    def remove_splits(
        self, uid: OperatorRef, splits: Collection[Any], *, forget: bool | None = None, connector: str | None = None
    ) -> S:
        """Remove splits from a source.

        Args:
            uid: The source.
            splits: Names of splits, as in :meth:`with_offsets`.
            forget: Required if the enumerator has the splits. False: they are never read again. True: a job
                that still subscribes to them discovers them as new, and reads them from their beginning.
            connector: The kind of source, if its bytes do not show it.

        Returns:
            The savepoint without the splits. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            OptionError: If the source has no such split, or ``forget`` is missing.

        Example::

            sp.sources.remove_splits("orders-source", [("orders", 3)], forget=False)

        """
        from pyspark_savepoint.plan.connector_changes import with_source
        from pyspark_savepoint.statebackends.connectors.edits.sources import remove_splits

        return self._changed(
            uid,
            lambda plan: with_source(plan, connector, lambda source: remove_splits(source, splits, forget)),
        )

    def start_over(self, uid: OperatorRef, *, connector: str | None = None) -> S:
        """Forget all splits of a source, so that it begins as on a first start, where the job's settings start.

        Args:
            uid: The source, of any kind.
            connector: The kind of source, if its bytes do not show it.

        Returns:
            The savepoint with a source without splits. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.

        Example::

            sp.sources.start_over("orders-source").write("/savepoints/from-the-start")

        """
        from pyspark_savepoint.plan.connector_changes import base_of, with_operator
        from pyspark_savepoint.statebackends.connectors.edits.sources import start_over

        return self._changed(uid, lambda plan: with_operator(plan, start_over(base_of(plan).opened, connector)))

    def migrate_source(
        self,
        uid: OperatorRef,
        *,
        to: str = "kafka-source",
        new_uid: OperatorRef | None = None,
        connector_version: str = "3.1",
        not_set: str | None = None,
        lose_data: bool = False,
    ) -> S:
        """Turn the state of a FlinkKafkaConsumer into that of a KafkaSource, which continues at the same records.

        Flink cannot do this. The union state of partitions becomes splits of readers, which begin after the last
        record read, and an enumerator that has assigned all of them.

        Args:
            uid: The operator of the FlinkKafkaConsumer.
            to: ``kafka-source``.
            new_uid: The uid of the KafkaSource in the new job. By default it stays.
            connector_version: The release of the Kafka connector in the new job, such as ``3.4.0``. The state has
                the version that this release writes. Later releases read it too.
            not_set: Where partitions are read that have no offset yet: ``earliest``, ``latest`` or ``committed``.
            lose_data: Drop state that a KafkaSource does not read. Without it such state is refused.

        Returns:
            The savepoint with the state of a KafkaSource. Nothing is written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateNotFoundError: If it is no FlinkKafkaConsumer with partitions.
            UnsupportedStateError: If a partition has two offsets, or the operator has other state.
            OptionError: If a partition has no offset yet, or an argument is invalid.

        Example::

            sp.sources.migrate_source("orders", to="kafka-source", new_uid="orders-source", connector_version="3.4.0")

        """
        from pyspark_savepoint.plan.connector_changes import with_migrated_source

        old = self._plan.operator(uid)
        new = with_migrated_source(old, to, connector_version, not_set, lose_data)
        plan = self._plan.with_changed(old, new)
        return self._planned(plan if new_uid is None else plan.with_identifier(new, identifier_of(new_uid)))
