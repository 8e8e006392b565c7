"""Verbs that read the tables of a savepoint."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Unpack

import pyarrow as pa

from pyspark_savepoint.engines.face import Face, R, T
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.snapshot.savepoint import METADATA_FILE_NAME
from pyspark_savepoint.options.operators import OperatorRef
from pyspark_savepoint.options.option_values import feed_options, inheriting, to_options
from pyspark_savepoint.plan.state_inputs import refuse_own
from pyspark_savepoint.statebackends.requests.applicability import FEED, TABLES

if TYPE_CHECKING:
    from pyspark_savepoint.engines.reader_functions import ReadTask
    from pyspark_savepoint.formats.serializers.base import TypeSerializer
    from pyspark_savepoint.options.keywords import NamedOptions, Names, SnapshotOptions, Table, TableOptions
    from pyspark_savepoint.statebackends.processing.api.functions import KeyedStateReaderFunction, WindowReaderFunction
    from pyspark_savepoint.statebackends.processing.api.state_descriptors import AggregateFunction


class Tables(Face[R, T]):
    """Reads of the tables: DataFrames with Spark, :class:`LocalTable` without."""

    def table(
        self,
        name: Table | None = None,
        uid: OperatorRef | None = None,
        **options: Unpack[NamedOptions],
    ) -> T:
        """Return any table: the named one, or by default the one that the operator or state has.

        Args:
            name: The table, such as ``keyed_state``, ``timers``, ``sizes``, ``metadata``. ``table=`` gives it, too.
            uid: The operator.
            **options: Options of a read, such as ``state``, ``keys``, in snake case or camel case.

        Returns:
            The table. No state is read yet.

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.
            OptionError: If the savepoint is not written yet. Without Spark, also raised if an option is invalid or
                does not apply to the table. With Spark, that is a PySparkException.

        Example::

            sp.table("timers", "accounts", parallelism=8)

        """
        if isinstance(uid, str) and uid in TABLES and name not in TABLES:
            raise OptionError(
                "the table comes first, then the operator",
                found=f"table({name!r}, {uid!r})",
                remedy=f"table({uid!r}, {name!r})",
            )
        return self._of(name, uid, options)

    def changes(
        self,
        uid: OperatorRef | None = None,
        *,
        start: int | datetime | str = 0,
        end: int | datetime | str | None = None,
        folder: str | PathLike[str] | None = None,
        deduplication_mode: Literal["dropCarryovers", "none", "netChanges"] = "dropCarryovers",
        **options: Unpack[SnapshotOptions],
    ) -> T:
        """Return the rows that changed from snapshot to snapshot, up to this one: a change data feed.

        Args:
            uid: The operator. None for tables ``splits`` and ``offsets`` of all sources.
            start: The first changes, by a checkpoint id or a time: those since the snapshot before it. 0: all rows of
                the first snapshot are inserts.
            end: The last changes, inclusive, by a checkpoint id, ``latest``, or a time. By default those of this one.
            folder: The folder that has the snapshots. By default the one that this one is in. A job that was restored
                has another folder beside that of the first: name the one above both.
            deduplication_mode: ``dropCarryovers`` leaves out rows whose values are as before. ``none`` shows those of
                keyed state of which only bytes changed. ``netChanges`` shows one net change per row, and
                none of a row that is the same at both ends, whatever it was between.
            **options: Options of a read, such as ``table``, ``state``, ``parallelism``.

        Returns:
            ``_change_type`` (``insert``, ``delete``, ``update_preimage``, ``update_postimage``), ``_commit_version``
            (the checkpoint id), ``_commit_timestamp`` (when that snapshot was complete), and the table's columns.

        Raises:
            OptionError: If the savepoint is not written yet. Without Spark, also raised if an option is invalid.
                With Spark, that and the following are PySparkException.
            SnapshotNotFoundError: If there is no such snapshot, or none before the first. The error says what there is.
            UnsupportedStateError: If columns of the table changed in between.

        Example::

            sp.changes("accounts", start=42, state="total").where("_change_type = 'delete'")

        """
        path = self._read_path().removesuffix(f"/{METADATA_FILE_NAME}")
        last = self._snapshot().metadata.checkpoint_id if end is None else end
        own = {**to_options(feed_options(start, last, deduplication_mode)), **self._named(uid)}
        texts = to_options(options)
        refuse_own(texts, {*FEED, *own})
        return self._read({**texts, **own}, posixpath.dirname(path) if folder is None else self._engine.located(folder))

    def states(self) -> T:
        """Return table ``states``: one row per state with its operator, types and the options that read it.

        Example::

            sp.states().show(truncate=False)  # without Spark: sp.states().to_pandas()

        """
        return self._of("states", None, {})

    def metadata(self) -> T:
        """Return table ``metadata`` (FLIP-512): one row per operator with name, uid, hash, parallelism and bytes.

        Example::

            sp.metadata().orderBy("operator_name").show()  # without Spark: sp.metadata().to_pandas()

        """
        return self._of("metadata", None, {})

    def keyed_state(self, uid: OperatorRef, state: Names | None = None, **options: Unpack[TableOptions]) -> T:
        """Return the keyed state of an operator: one row per key, one column per state.

        Args:
            uid: The operator: its uid, its uid hash, or an OperatorIdentifier.
            state: The name of a state, or a list of several. By default all.
            **options: Options of a read, such as ``keys``, ``flatten``, ``parallelism``.

        Returns:
            Column ``key``, and a column for each state, NULL if the key has no such state.

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.
            StateNotFoundError: If the operator has no keyed state, or not the one named by ``state``. Spark raises it
                as PySparkException.

        Example::

            sp.keyed_state("accounts", "total", keys=[1042, 1043])

        """
        return self._of("keyed_state", uid, options, state)

    def window_state(self, uid: OperatorRef, state: Names | None = None, **options: Unpack[TableOptions]) -> T:
        """Return the window state of an operator: one row per key and window, one column per state.

        Args:
            uid: The operator.
            state: The name of a state, or a list of several. By default all.
            **options: Options of a read, such as ``keys``, ``parallelism``.

        Returns:
            Columns ``key`` and ``window``, and a column for each state.

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.
            StateNotFoundError: If the operator has no window state. Spark raises it as PySparkException.

        Example::

            sp.window_state("orders-per-minute").select("key", "window")

        """
        return self._of("window_state", uid, options, state)

    def timers(self, uid: OperatorRef | None = None, state: Names | None = None, **options: Unpack[TableOptions]) -> T:
        """Return the timers of an operator, or of all operators: one row per timer.

        Args:
            uid: The operator. None for all: then this process reads the timers, with Spark too, and holds them.
            state: The name of a timer service, of one operator only. By default all.
            **options: Options of a read, such as ``keys``, ``parallelism``, of one operator only.

        Returns:
            Columns ``key``, ``namespace`` (if the timers have one), ``timestamp`` in milliseconds as a long, ``domain``
            (``event`` or ``processing``) and ``service``. For all operators, the names of the operator come first, keys
            and namespaces are JSON, and ``note`` says why timers cannot be read.

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.
            OptionError: If there are options of a read, and no operator.
            StateNotFoundError: If the operator has no timers. Spark raises it as PySparkException.

        Example::

            sp.timers("accounts").where("domain = 'event'").selectExpr("key", "timestamp_millis(timestamp)")
            sp.timers()

        """
        if uid is None:
            if options or state is not None:
                raise OptionError(
                    "timers of all operators take no options",
                    found=", ".join(sorted([*options, *(["state"] if state is not None else [])])),
                    remedy="name the operator: timers(uid, ...)",
                )
            from pyspark_savepoint.erasure.all_timers import SCHEMA, all_timers

            result: T = self._engine.listed(partial(all_timers, self.options, self._read_path()), SCHEMA)
            return result
        return self._of("timers", uid, options, state)

    def operator_state(self, uid: OperatorRef, state: str, **options: Unpack[TableOptions]) -> T:
        """Return a list, union or broadcast state of an operator, whichever of them it is.

        Args:
            uid: The operator.
            state: The name of the state.
            **options: Options of a read.

        Returns:
            Column ``value`` of list and union state, ``key`` and ``value`` of broadcast state.

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.
            StateNotFoundError: If the operator has no such state. Spark raises it as PySparkException.

        Example::

            sp.operator_state("currency-converter", "rates")

        """
        return self._of("operator_state", uid, options, state=state)

    def list_state(
        self,
        uid: OperatorRef,
        state: str,
        value_type: str | TypeSerializer | None = None,
        **options: Unpack[TableOptions],
    ) -> T:
        """Return the elements of a list state of an operator, which a job splits over its subtasks.

        Args:
            uid: The operator.
            state: The name of the state.
            value_type: The type of its elements, in Flink's notation or as a serializer, as Flink's method takes it. It
                is compared with that in the savepoint. Not needed.
            **options: Options of a read.

        Returns:
            Column ``value``, one row per element.

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.
            OptionError: If the state has another type than ``value_type``.
            StateNotFoundError: If the operator has no such state. Spark raises it as PySparkException.

        Example::

            sp.list_state("warehouse-export", "pending_orders")

        """
        return self._typed(uid, state, options, value=value_type)

    #: The name in Flink: ``SavepointReader#readListState``.
    read_list_state = list_state

    def union_state(
        self,
        uid: OperatorRef,
        state: str,
        value_type: str | TypeSerializer | None = None,
        **options: Unpack[TableOptions],
    ) -> T:
        """Return the elements of a union list state of an operator, which a job gives to every subtask.

        Args:
            uid: The operator.
            state: The name of the state.
            value_type: The type of its elements, in Flink's notation or as a serializer, as Flink's method takes it. It
                is compared with that in the savepoint. Not needed.
            **options: Options of a read.

        Returns:
            Column ``value``, one row per element.

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.
            OptionError: If the state has another type than ``value_type``.
            StateNotFoundError: If the operator has no such state. Spark raises it as PySparkException.

        Example::

            sp.union_state("orders-source", "topic-partition-offset-states")

        """
        return self._typed(uid, state, options, value=value_type)

    #: The name in Flink: ``SavepointReader#readUnionState``.
    read_union_state = union_state

    def broadcast_state(
        self,
        uid: OperatorRef,
        state: str,
        key_type: str | TypeSerializer | None = None,
        value_type: str | TypeSerializer | None = None,
        **options: Unpack[TableOptions],
    ) -> T:
        """Return the entries of a broadcast state of an operator.

        Args:
            uid: The operator.
            state: The name of the state.
            key_type: The type of its keys, in Flink's notation or as a serializer, as Flink's method takes it: it is
                compared with that in the savepoint. Not needed.
            value_type: The same of its values.
            **options: Options of a read.

        Returns:
            Columns ``key`` and ``value``, one row per entry.

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.
            OptionError: If the state has other types than ``key_type`` and ``value_type``.
            StateNotFoundError: If the operator has no such state. Spark raises it as PySparkException.

        Example::

            sp.broadcast_state("currency-converter", "rates")

        """
        return self._typed(uid, state, options, key=key_type, value=value_type)

    #: The name in Flink: ``SavepointReader#readBroadcastState``.
    read_broadcast_state = broadcast_state

    def _typed(
        self, uid: OperatorRef, name: str, options: Mapping[str, object], **types: str | TypeSerializer | None
    ) -> T:
        """Return operator state. Raise OptionError if a column is not of the type of Flink that is given."""
        table = self._of("operator_state", uid, options, state=name)
        flink_types = {column: kind for column, kind in types.items() if kind is not None}
        if flink_types:
            _expect_types(self._engine.schema(table), name, flink_types)
        return table

    # -- functions -----------------------------------------------------------------------------------------

    def read_keyed_state(
        self,
        uid: OperatorRef,
        function: KeyedStateReaderFunction,
        schema: Any,
        **options: Unpack[TableOptions],
    ) -> T:
        """Return the rows that a reader function yields for each key from all of its states and timers.

        Types of states come from the snapshot. Flink: ``SavepointReader#readKeyedState``.

        Args:
            uid: The operator.
            function: The reader function, pickled to the tasks. Without Spark copies of it run in this process.
            schema: The schema of the rows, such as ``key int, timers array<bigint>``, or a StructType with Spark, a
                ``pyarrow.Schema`` without.
            **options: Options of a read, such as ``keys``, ``key_groups``, ``parallelism``.

        Returns:
            The rows. Reading them calls the function.

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.
            StateNotFoundError: If the function registers a state that the operator does not have.
            UserFunctionError: If the function cannot be pickled. Without Spark, also raised if the function raises an
                exception. In a task of Spark, that is a PySparkException.

        Example::

            sp.read_keyed_state("accounts", Totals(), "key long, total long")

        """
        from pyspark_savepoint.engines.reader_functions import keyed_reader

        columns = self._engine.function_schema(schema)
        return self._read_by(keyed_reader(self._read_options(uid, options), function, columns), schema)

    def read_window(
        self,
        uid: OperatorRef,
        function: WindowReaderFunction,
        schema: Any,
        *,
        aggregate: AggregateFunction[Any, Any, Any] | None = None,
        reduce: Callable[[Any, Any], Any] | None = None,
        **options: Unpack[TableOptions],
    ) -> T:
        """Return the rows that a reader function yields for each key and window from its contents, states and timers.

        Flink: ``SavepointReader#window``.

        Args:
            uid: The operator.
            function: The reader function, as for :meth:`read_keyed_state`.
            schema: The schema of the rows, as for :meth:`read_keyed_state`.
            aggregate: The job's aggregate function: with it, the contents are its result, else the accumulator.
            reduce: The job's reduce function. Windows with an evictor store all elements: with ``aggregate`` or
                ``reduce`` the contents are its result for these elements.
            **options: Options of a read, such as ``keys``, ``key_groups``, ``parallelism``.

        Returns:
            The rows. Reading them calls the function.

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.
            StateNotFoundError: If the operator has no windows.
            UserFunctionError: If a function cannot be pickled. Without Spark, also raised if the function raises an
                exception. In a task of Spark, that is a PySparkException.

        Example::

            sp.read_window("orders-per-minute", Counts(), "key long, start long, n int")

        """
        from pyspark_savepoint.engines.reader_functions import window_reader

        columns = self._engine.function_schema(schema)
        task = window_reader(self._read_options(uid, options), function, columns, aggregate, reduce)
        return self._read_by(task, schema)

    def _read_options(self, uid: OperatorRef, options: Mapping[str, object]) -> dict[str, str]:
        return {**inheriting(self.options, {**to_options(options), **self._named(uid)}), "path": self._read_path()}

    def _read_by(self, task: ReadTask, schema: Any) -> T:
        table: T = self._engine.numbered(task, task.count, schema)
        return table


def _expect_types(schema: pa.Schema, state: str, types: Mapping[str, str | TypeSerializer]) -> None:
    from pyspark_savepoint.formats.serializers.notation.notation import parse_type
    from pyspark_savepoint.statebackends.processing.readers.reader_states import as_read

    for column, kind in types.items():
        flink_type = (as_read(parse_type(kind)) if isinstance(kind, str) else kind).flink_type
        comment = (schema.field(column).metadata or {}).get(b"comment", b"").decode()
        _, _, actual = comment.partition(" ")
        if actual != flink_type:
            raise OptionError(
                f"the state has another type than is given for its {column}",
                state=state,
                expected=flink_type,
                found=actual,
                remedy="leave the type out: it is read from the savepoint",
            )
