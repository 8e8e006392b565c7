"""The class Savepoint: the tables of a snapshot, and the operations that derive a new savepoint from it (FLIP-43).

::

    sp = Savepoint.load(spark, "/savepoints/savepoint-2f1a3c")
    sp.states().show()
    sp.keyed_state("accounts").where("total > 100")
    sp.remove_operator("audit").change_operator_identifier("accounts", "customers").write("/savepoints/new")

Flink: ``SavepointReader``, ``SavepointWriter``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Unpack

import pyarrow as pa

from pyspark_savepoint.catalog.namespaces import create_tables, drop_tables
from pyspark_savepoint.execution.verbs import SavepointVerbs
from pyspark_savepoint.formats.errors import OptionError, ValueRangeError, type_name
from pyspark_savepoint.formats.metadata.key_groups import check_parallelism
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.options.operators import OperatorRef
from pyspark_savepoint.options.option_values import inheriting, to_options
from pyspark_savepoint.options.options import at_version
from pyspark_savepoint.options.paths import located, reached, snapshot_path
from pyspark_savepoint.options.schema import expect_types
from pyspark_savepoint.options.worker_python import check_worker_python, expect_session
from pyspark_savepoint.plan.savepoint_plan import SavepointPlan, expect_backend
from pyspark_savepoint.plan.state_inputs import refuse_own
from pyspark_savepoint.savepoint.context import SavepointContext
from pyspark_savepoint.source.spark_engine import SparkEngine
from pyspark_savepoint.statebackends.model.request import DEFAULT_TOP
from pyspark_savepoint.statebackends.writing.planning.write_request import (
    DEFAULT_MAX_PARALLELISM,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pyspark_savepoint.formats.serializers.base import TypeSerializer
    from pyspark_savepoint.options.keywords import (
        OpenOptions,
        ReadOptions,
        StateOptions,
        TableOptions,
    )
    from pyspark_savepoint.savepoint.migrations import SavepointMigration
    from pyspark_savepoint.statebackends.jobs.restore.job_reader import Job
    from pyspark_savepoint.statebackends.processing.api.functions import KeyedStateReaderFunction, WindowReaderFunction
    from pyspark_savepoint.statebackends.processing.api.state_descriptors import AggregateFunction

NAMES = ("operator_uid", "operator_uid_hash", "operator_name", "table", "state")
NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


class Savepoint(SavepointVerbs["DataFrame", "DataFrame"]):
    """A savepoint or checkpoint; immutable: every change returns a new Savepoint, which :meth:`write` writes.

    An operator is named by its uid, its uid hash (32 hex digits), or an :class:`OperatorIdentifier`. Methods that read
    or change an operator raise OperatorNotFoundError if the snapshot does not contain it. Changes are only planned, and
    no file is written before :meth:`write`. Errors in Spark's own processes (planning of a read, tasks, commits) are
    raised as ``pyspark.errors.PySparkException``, with the text of the :class:`SavepointError`. Flink:
    ``SavepointReader``, ``SavepointWriter``.

    Example::

        sp = Savepoint.load(spark, "/savepoints/savepoint-2f1a3c")
        sp.keyed_state("accounts").where("total > 100").show()
        sp.remove_operator("audit").write("/savepoints/new")
    """

    _opening = "Savepoint.load(spark, path)"

    def __init__(
        self, spark: SparkSession, plan: SavepointPlan, path: str | None = None, options: Mapping[str, str] = NO_OPTIONS
    ) -> None:
        """Internal: use :meth:`load` or :meth:`create`. Without a path, the savepoint is not written yet."""
        if not isinstance(plan, SavepointPlan):
            raise OptionError(
                "a Savepoint cannot be created from this object",
                found=type_name(plan),
                remedy="Savepoint.load(spark, path), or Savepoint.create(spark)",
            )
        self.spark = spark
        self.plan = plan
        self.path = path
        self.options = options
        self._context = SavepointContext(spark, plan, path, options)
        self._engine = SparkEngine(spark)

    @classmethod
    def load(
        cls,
        spark: SparkSession,
        path: str | PathLike[str] = "",
        *,
        state_backend: Literal["hashmap", "rocksdb"] | None = None,
        **options: Unpack[OpenOptions],
    ) -> Savepoint:
        """Open the snapshot at a path, or a version of it below a folder, and read its ``_metadata``.

        A relative path is relative to the working directory of the driver's JVM, as in Spark; on Connect, to that of
        this process.

        Args:
            spark: The session, classic or Connect.
            path: The folder of a savepoint or of a retained checkpoint, or its ``_metadata`` file; with
                ``version_as_of`` (a checkpoint id, or ``latest``) or ``timestamp_as_of`` (a time) a folder of several.
            state_backend: The state backend of the job that restores the written savepoint, as in :meth:`create`.
            **options: Options of the data source, which apply to all tables of the snapshot.

        Returns:
            The snapshot.

        Raises:
            OptionError: If the state backend restores no canonical savepoint.
            SnapshotNotFoundError: If there is no snapshot at the path; the error names those in folders below.
            CorruptStateError: If ``_metadata`` is damaged.

        Example::

            sp = Savepoint.load(spark, "s3://bucket/sp", storage_options={"region": "eu-west-1"})
            newest = Savepoint.load(spark, "s3://bucket/checkpoints/7d2e", version_as_of="latest")

        """
        expect_session(spark, "Savepoint.load(spark, path)")
        check_worker_python(spark)
        expect_backend(state_backend)
        texts = at_version({**to_options(options), "path": located(spark, snapshot_path(path))})
        loaded = cls._loaded(spark, texts.pop("path"), texts)
        return cls(spark, replace(loaded.plan, state_backend=state_backend), loaded.path, loaded.options)

    @classmethod
    def _loaded(cls, spark: SparkSession, path: str, texts: Mapping[str, str]) -> Savepoint:
        snapshot = Snapshot.open(reached(path, texts), allow_outside=texts.get("allowOutside") == "true")
        return cls(spark, SavepointPlan.of(snapshot, path, texts), path, texts)

    @classmethod
    def create(
        cls,
        spark: SparkSession,
        *,
        max_parallelism: int = DEFAULT_MAX_PARALLELISM,
        state_backend: Literal["hashmap", "rocksdb"] | None = None,
    ) -> Savepoint:
        """Return a new savepoint without operators, which is not written yet.

        :meth:`write` writes metadata of version 4, which has only the hashes of uids; this package appends the uids for
        its own reads. With ``flink_version="2.0"`` or later the metadata has both.

        Args:
            spark: The session, classic or Connect.
            max_parallelism: The number of key groups of the operators that will be added, 1 to 32768.
            state_backend: The state backend of the job that restores it. State is written in the canonical format,
                which is the same for ``hashmap`` and ``rocksdb``; ``forst`` restores none. Operators that are taken
                from other savepoints get it too, if their files are not canonical; for ``rocksdb`` files of its
                own databases stay as they are.

        Returns:
            The savepoint.

        Raises:
            OptionError: If ``max_parallelism`` is out of range, or the state backend restores no canonical savepoint.

        Example::

            Savepoint.create(spark, max_parallelism=128).with_operator("totals", df, key="id").write("/savepoints/new")

        """
        expect_session(spark, "Savepoint.create(spark)")
        check_parallelism(max_parallelism, 1)
        expect_backend(state_backend)
        return cls(spark, SavepointPlan(max_parallelism=max_parallelism, state_backend=state_backend))

    # -- tables ----------------------------------------------------------------------------------------------

    def table(self, **options: Unpack[ReadOptions]) -> DataFrame:
        """Return any table of the snapshot, chosen by the options of the data source.

        Args:
            **options: Options of a read, such as ``uid``, ``table``, ``state``, ``keys``, in snake case or camel case.

        Returns:
            The table.

        Raises:
            OptionError: If the savepoint is not written yet.
            PySparkException: If an option is invalid, or the snapshot does not have the table.

        Example::

            sp.table(uid="accounts", table="timers", parallelism=8)

        """
        return self._context.read(to_options(options))

    def _table(self, table: str, uid: OperatorRef | None, options: Mapping[str, object], **state: str) -> DataFrame:
        """Return a table of an operator, or of all; raise OperatorNotFoundError if the operator is unknown."""
        own = {"table": table, **state, **self._context.of_operator(uid)}
        texts = to_options(options)
        refuse_own(texts, own)
        return self._context.read({**texts, **own})

    def states(self) -> DataFrame:
        """Return table ``states``: one row per state with its operator, types and the options that read it.

        Example::

            sp.states().show(truncate=False)

        """
        return self.table(table="states")

    def metadata(self) -> DataFrame:
        """Return table ``metadata`` (FLIP-512): one row per operator with name, uid, hash, parallelism and bytes.

        Example::

            sp.metadata().orderBy("operator_name").show()

        """
        return self.table(table="metadata")

    def keyed_state(self, uid: OperatorRef, **options: Unpack[StateOptions]) -> DataFrame:
        """Return the keyed state of an operator: one row per key, one column per state.

        Args:
            uid: The operator.
            **options: Options of a read, such as ``state``, ``keys``, ``flatten``, ``parallelism``.

        Returns:
            Column ``key``, and a column for each state, NULL if the key has no such state.

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.
            PySparkException: If the operator has no keyed state, or not the one named by ``state``.

        Example::

            sp.keyed_state("accounts", keys=[1042, 1043])

        """
        return self._table("keyed_state", uid, options)

    def window_state(self, uid: OperatorRef, **options: Unpack[StateOptions]) -> DataFrame:
        """Return the window state of an operator: one row per key and window, one column per state.

        Args:
            uid: The operator.
            **options: Options of a read, such as ``state``, ``keys``, ``parallelism``.

        Returns:
            Columns ``key`` and ``window``, and a column for each state.

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.
            PySparkException: If the operator has no window state.

        Example::

            sp.window_state("orders-per-minute").select("key", "window.start", "`window-contents`")

        """
        return self._table("window_state", uid, options)

    def timers(self, uid: OperatorRef, **options: Unpack[StateOptions]) -> DataFrame:
        """Return the timers of an operator: one row per timer.

        Args:
            uid: The operator.
            **options: Options of a read, such as ``keys``, ``parallelism``.

        Returns:
            Columns ``key``, ``namespace`` (if the timers have one), ``timestamp`` in milliseconds as a long, ``domain``
            (``event`` or ``processing``) and ``service``.

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.
            PySparkException: If the operator has no timers.

        Example::

            sp.timers("accounts").where("domain = 'event'").selectExpr("key", "timestamp_millis(timestamp)")

        """
        return self._table("timers", uid, options)

    def list_state(
        self,
        uid: OperatorRef,
        name: str,
        value_type: str | TypeSerializer | None = None,
        **options: Unpack[TableOptions],
    ) -> DataFrame:
        """Return the elements of a list state of an operator, which a job splits over its subtasks.

        Args:
            uid: The operator.
            name: The name of the state.
            value_type: The type of its elements, in Flink's notation or as a serializer, as Flink's method takes it; it
                is compared with that in the savepoint. Not needed.
            **options: Options of a read.

        Returns:
            Column ``value``, one row per element.

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.
            OptionError: If the state has another type than ``value_type``.
            PySparkException: If the operator has no such state.

        Example::

            sp.list_state("warehouse-export", "pending_orders").show()

        """
        found = self._table("operator_state", uid, options, state=name)
        return expect_types(found, name, {"value": value_type})

    #: The name in Flink: ``SavepointReader#readListState``.
    read_list_state = list_state

    def union_state(
        self,
        uid: OperatorRef,
        name: str,
        value_type: str | TypeSerializer | None = None,
        **options: Unpack[TableOptions],
    ) -> DataFrame:
        """Return the elements of a union list state of an operator, which a job gives to every subtask.

        Args:
            uid: The operator.
            name: The name of the state.
            value_type: The type of its elements, in Flink's notation or as a serializer, as Flink's method takes it; it
                is compared with that in the savepoint. Not needed.
            **options: Options of a read.

        Returns:
            Column ``value``, one row per element.

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.
            OptionError: If the state has another type than ``value_type``.
            PySparkException: If the operator has no such state.

        Example::

            sp.union_state("orders-source", "topic-partition-offset-states").show()

        """
        found = self._table("operator_state", uid, options, state=name)
        return expect_types(found, name, {"value": value_type})

    #: The name in Flink: ``SavepointReader#readUnionState``.
    read_union_state = union_state

    def broadcast_state(
        self,
        uid: OperatorRef,
        name: str,
        key_type: str | TypeSerializer | None = None,
        value_type: str | TypeSerializer | None = None,
        **options: Unpack[TableOptions],
    ) -> DataFrame:
        """Return the entries of a broadcast state of an operator.

        Args:
            uid: The operator.
            name: The name of the state.
            key_type: The type of its keys, in Flink's notation or as a serializer, as Flink's method takes it: it is
                compared with that in the savepoint. Not needed.
            value_type: The same of its values.
            **options: Options of a read.

        Returns:
            Columns ``key`` and ``value``, one row per entry.

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.
            OptionError: If the state has other types than ``key_type`` and ``value_type``.
            PySparkException: If the operator has no such state.

        Example::

            sp.broadcast_state("currency-converter", "rates")

        """
        found = self._table("operator_state", uid, options, state=name)
        return expect_types(found, name, {"key": key_type, "value": value_type})

    #: The name in Flink: ``SavepointReader#readBroadcastState``.
    read_broadcast_state = broadcast_state

    # -- functions -------------------------------------------------------------------------------------------

    def read_keyed_state(
        self,
        uid: OperatorRef,
        function: KeyedStateReaderFunction,
        schema: str | StructType,
        **options: Unpack[TableOptions],
    ) -> DataFrame:
        """Return the rows that a reader function yields for each key from all of its states and timers.

        Types of states come from the snapshot. Flink: ``SavepointReader#readKeyedState``.

        Args:
            uid: The operator.
            function: The reader function, pickled to the tasks.
            schema: The schema of the rows, such as ``key int, timers array<bigint>``.
            **options: Options of a read, such as ``keys``, ``key_groups``, ``parallelism``.

        Returns:
            The rows; running the query calls the function.

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.
            StateNotFoundError: If the function registers a state that the operator does not have.
            UserFunctionError: If the function cannot be pickled. An exception in a task is a PySparkException.

        Example::

            sp.read_keyed_state("accounts", Totals(), "key long, total long")

        """
        from pyspark_savepoint.functions.reader_functions import read_keyed_state

        return read_keyed_state(self.spark, *self._named_options(uid, options), function, schema)

    def read_window(
        self,
        uid: OperatorRef,
        function: WindowReaderFunction,
        schema: str | StructType,
        *,
        aggregate: AggregateFunction[Any, Any, Any] | None = None,
        reduce: Callable[[Any, Any], Any] | None = None,
        **options: Unpack[TableOptions],
    ) -> DataFrame:
        """Return the rows that a reader function yields for each key and window from its contents, states and timers.

        Flink: ``SavepointReader#window``.

        Args:
            uid: The operator.
            function: The reader function, pickled to the tasks.
            schema: The schema of the rows.
            aggregate: The job's aggregate function: with it, the contents are its result, else the accumulator.
            reduce: The job's reduce function. Windows with an evictor store all elements: with ``aggregate`` or
                ``reduce`` the contents are its result for these elements.
            **options: Options of a read, such as ``keys``, ``key_groups``, ``parallelism``.

        Returns:
            The rows; running the query calls the function.

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.
            StateNotFoundError: If the operator has no windows.
            UserFunctionError: If a function cannot be pickled. An exception in a task is a PySparkException.

        Example::

            sp.read_window("orders-per-minute", Counts(), "key long, start long, n int")

        """
        from pyspark_savepoint.functions.reader_functions import read_window

        return read_window(self.spark, *self._named_options(uid, options), function, schema, aggregate, reduce)

    def _named_options(self, uid: OperatorRef, options: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        own = self._context.of_operator(uid)
        return self._context.read_path(), inheriting(self.options, {**to_options(options), **own})

    # -- sizes, skew, checks -----------------------------------------------------------------------------------

    def sizes(self, uid: OperatorRef | None = None, **options: Unpack[StateOptions]) -> DataFrame:
        """Return the entries and bytes of every state in every key group; no value is decoded.

        Args:
            uid: The operator; None for all operators.
            **options: Options of a read.

        Returns:
            One row per state and key group: kind, subtask, entries, bytes, largest entry.

        Example::

            sp.sizes("accounts").groupBy("state").sum("bytes").show()

        """
        return self._table("sizes", uid, options)

    def heaviest_keys(self, uid: OperatorRef | None = None, **options: Unpack[StateOptions]) -> DataFrame:
        """Return the keys (and windows) of every state that take the most bytes, largest first.

        Args:
            uid: The operator; None for all operators.
            **options: Options of a read; ``top`` is the number of keys per state, 20 by default.

        Returns:
            One row per state and key (and window): the key as JSON that option ``keys`` takes, entries, bytes, rank.

        Example::

            sp.heaviest_keys("accounts", top=5).show(truncate=False)

        """
        from pyspark.sql import Window
        from pyspark.sql import functions as F  # noqa: N812

        found = self._table("heaviest_keys", uid, options)
        top = int({**self.options, **to_options(options)}.get("top", DEFAULT_TOP))
        ranks = Window.partitionBy("operator_uid_hash", "table", "state").orderBy(F.desc("bytes"), "key", "window")
        ranked = found.withColumn("rank", F.row_number().over(ranks))
        return ranked.where(F.col("rank") <= top).orderBy("operator_uid", "operator_uid_hash", "table", "state", "rank")

    def verify(self, uid: OperatorRef | None = None, **options: Unpack[StateOptions]) -> DataFrame:
        """Read every byte of every state and report errors: one row per state and subtask, errors first.

        Errors of the snapshot are rows, not exceptions.

        Args:
            uid: The operator; None for all operators.
            **options: Options of a read.

        Returns:
            ``status`` (``ok``, ``warning`` or ``error``), entries, bytes, and ``note``: the finding, or the parts that
            only the user's code can check.

        Example::

            sp.verify().where("status <> 'ok'").show(truncate=False)

        """
        from pyspark.sql import functions as F  # noqa: N812

        found = self._table("verification", uid, options)
        worst = F.when(F.col("status") == "error", 0).when(F.col("status") == "warning", 1).otherwise(2)
        return found.orderBy(worst, "operator_uid", "operator_uid_hash", "table", "state", "subtask", "first_key_group")

    def ttl_ages(self, uid: OperatorRef | None = None, **options: Unpack[StateOptions]) -> DataFrame:
        """Return a histogram of the times since last access, before the snapshot, of states with a time to live.

        Args:
            uid: The operator; None for all operators.
            **options: Options of a read.

        Returns:
            One row per state, key group and range of ages (``from_seconds``, ``to_seconds``): units, oldest, newest.

        Example::

            sp.ttl_ages("accounts").show()

        """
        from pyspark.sql import functions as F  # noqa: N812

        found = self._table("ttl_ages", uid, options)
        grouped = found.groupBy(*NAMES, "from_seconds", "to_seconds", "snapshot_time", "note").agg(
            F.sum("units").alias("units"), F.min("oldest").alias("oldest"), F.max("newest").alias("newest")
        )
        order = ["operator_uid", "operator_uid_hash", "table", "state", "from_seconds"]
        columns = [*NAMES, "from_seconds", "to_seconds", "units", "oldest", "newest", "snapshot_time", "note"]
        return grouped.select(*columns).orderBy(*order)

    def doctor(
        self,
        budgets: str | None = None,
        *,
        since: Savepoint | str | PathLike[str] | None = None,
        job: Job | None = None,
    ) -> DataFrame:
        """Return what may go wrong with the snapshot, the worst finding first, as ``pyspark-savepoint doctor`` does.

        This process reads the state, not Spark's tasks.

        Args:
            budgets: Limits, such as ``size=20GB,skew=4,key=8MB,ttl-age=30d``.
            since: An older snapshot of the job, or its path: states that only grow are findings too.
            job: The new job, as in :meth:`check_restore`: operators that it does not restore are findings too.

        Returns:
            A row per finding: ``check``, ``severity`` (``error``, ``warning`` or ``note``), ``evidence``, ``remedy``,
            ``operator`` and ``state``.

        Raises:
            OptionError: If a budget is invalid, or the savepoint is not written yet.

        Example::

            sp.doctor("size=20GB", since="/savepoints/of-yesterday").show(truncate=False)

        """
        from pyspark_savepoint.local.local_savepoint import LocalSavepoint

        older = None if since is None else self._beside(since)._context
        compared = None if older is None else LocalSavepoint(older.read_path(), older.options)
        found = LocalSavepoint(self._context.read_path(), self.options).doctor(budgets, since=compared, job=job)
        return self._table_of(found.to_arrow())

    def check_hash_code(self, uid: OperatorRef, hash_code: Callable[[Any], int]) -> None:
        """Test a function that computes the Java hash of keys on the keyed state of an operator.

        Flink puts every key into the key group of its hash, so a correct function leads to the same key groups.

        Args:
            uid: The operator.
            hash_code: A function of a key as it is read that returns its ``hashCode()`` in Java.

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.
            ValueRangeError: If the function leads to another key group for a key; the error names the key.

        Example::

            sp.check_hash_code("accounts", lambda key: key.region * 31 + key.number)

        """
        from pyspark_savepoint.source.key_hashes import wrong_key_groups

        limit = self.plan.operator(uid).max_parallelism
        wrong = wrong_key_groups(self.keyed_state(uid, include_key_group=True), hash_code, limit).limit(1).collect()
        if wrong:
            key, there, computed = wrong[0]
            raise ValueRangeError(
                "the function does not compute the hash that the job computed",
                path=self.path,
                operator=str(uid),
                key=key,
                expected=f"key group {there}, where Flink has the key, at max parallelism {limit}",
                found=f"key group {computed}",
                remedy="compute hashCode() as the class of the key does in Java, in 32 bits",
            )

    # -- tables in the catalog ---------------------------------------------------------------------------------

    def create_tables(self, prefix: str | None = None) -> list[str]:
        """Create a namespace for each operator and a view for each of its tables in Spark's catalog.

        The views are ``accounts.keyed_state``, ``currency_converter.rates``, ``savepoint.sizes`` and so on. Namespaces
        that were created from the same snapshot are replaced.

        Args:
            prefix: Letters, digits and ``_`` that precede the names of operators, and replace ``savepoint``.

        Returns:
            The names of the views, as SQL takes them.

        Raises:
            OptionError: If the savepoint is not written yet, or the prefix has other characters.
            StateExistsError: If a namespace exists that was not created from this snapshot.

        Example::

            sp.create_tables()
            spark.sql("SELECT * FROM accounts.keyed_state")

        """
        return create_tables(self.spark, self.table(table="states"), self._context.read_path(), self.options, prefix)

    def drop_tables(self) -> list[str]:
        """Drop the views and namespaces that :meth:`create_tables` created from this snapshot.

        Returns:
            The names of the namespaces that were dropped; one that contains other tables remains.

        Example::

            sp.drop_tables()

        """
        return drop_tables(self.spark, self._context.read_path())

    # -- differences -------------------------------------------------------------------------------------------

    def diff(
        self,
        newer: Savepoint | str | PathLike[str],
        uid: str | None = None,
        *,
        table: str | None = None,
        state: str | None = None,
    ) -> DataFrame:
        """Return the differences between this snapshot and a newer one: counts of all operators, or the rows of one.

        Args:
            newer: A Savepoint, or the path of one, which is loaded with the options of this one.
            uid: The operator to compare row by row; None to count the differences of all operators.
            table: The table to compare, as in :func:`pyspark_savepoint.diff`.
            state: The state to compare, as in :func:`pyspark_savepoint.diff`.

        Returns:
            The differences, as in :func:`pyspark_savepoint.diff`.

        Raises:
            OperatorNotFoundError: If neither snapshot has the operator.
            StateNotFoundError: If neither operator has the state.

        Example::

            sp.diff("/savepoints/fixed", "accounts").show()

        """
        from pyspark_savepoint.savepoint.differences import differences
        from pyspark_savepoint.savepoint.differences_overview import overview

        other = self._beside(newer)._context
        if uid is None:
            return overview(self._context, other)
        return differences(self._context, other, uid, table, state)

    def _beside(self, other: Savepoint | str | PathLike[str]) -> Savepoint:
        """Return another savepoint; one that is given by its path is loaded with the options of this one."""
        if isinstance(other, Savepoint):
            return other
        return self._loaded(self.spark, located(self.spark, other), self.options)

    def _snapshot(self) -> Snapshot:
        return self._context.snapshot()

    def _at(self, path: str, options: Mapping[str, str]) -> Savepoint:
        return self._loaded(self.spark, path, options)

    def _table_of(self, table: pa.Table) -> DataFrame:
        return self.spark.createDataFrame(table)

    def _planned(self, plan: SavepointPlan) -> Savepoint:
        """Return the savepoint of another plan, which is not written yet."""
        return Savepoint(self.spark, plan, None, self.options)

    def offsets(self, uid: OperatorRef | None = None, **options: Unpack[TableOptions]) -> DataFrame:
        """Return table ``offsets``: the next position of each split, of sources whose kind has positions.

        Over retained checkpoints, ``history(spark, folder, table="offsets")`` is the progress of the job.

        Args:
            uid: The source; None for all.
            **options: Options of a read, such as ``connector``.

        Returns:
            The operator's uid, hash and name, ``subtask`` (NULL: no reader has the split yet), ``connector``,
            ``stream`` (topic, stream, file), ``partition``, ``offset`` (the next, where it is a number), ``position``
            (the same as text, or a word such as ``latest``).

        Raises:
            OperatorNotFoundError: If the snapshot has no such operator.

        Example::

            sp.offsets().where("stream = 'orders'").show()

        """
        return self._table("offsets", uid, options)

    # -- the job ---------------------------------------------------------------------------------------------

    def check_migration(
        self,
        flink: str,
        *,
        classes: Sequence[str | PathLike[str]] | None = None,
        types: Mapping[str, str] | None = None,
        types_from: Savepoint | str | PathLike[str] | None = None,
        kryo_types: str | None = None,
    ) -> DataFrame:
        """Check what the state needs so that another release of Flink restores it with equal values.

        Flink 2 reads some values that Kryo wrote in Flink 1 as other values, without an error, and has serializers of
        its own for lists, maps and sets. Spark's tasks read all values that Kryo wrote.

        Args:
            flink: The release to migrate to, such as ``2.3``.
            classes: Jars and folders of the new job's class files, which are parsed, not loaded; every task reads them.
            types: Types in words by state, ``{"accounts.tags": "LIST<STRING>"}``.
            types_from: A savepoint that the new job has taken.
            kryo_types: Classes that Kryo wrote, in words, as in option ``kryoTypes`` of a read.

        Returns:
            One row per part of a state, the worst verdict first: ``as is``, ``rewritten``, ``is lost``, ``needs``,
            ``impossible``; columns ``hashmap`` and ``rocksdb`` show what Flink does without a migration.

        Raises:
            OptionError: If the savepoint is not written yet, or the release is not known.

        Example::

            sp.check_migration("2.3", classes=["job.jar"]).show(truncate=False)

        """
        return self.migrate(flink, classes=classes, types=types, types_from=types_from, kryo_types=kryo_types).check()

    def migrate(
        self,
        flink: str,
        *,
        classes: Sequence[str | PathLike[str]] | None = None,
        types: Mapping[str, str] | None = None,
        types_from: Savepoint | str | PathLike[str] | None = None,
        kryo_types: str | None = None,
        drop: Sequence[str] | None = None,
        as_is: Sequence[str] | None = None,
    ) -> SavepointMigration[Savepoint]:
        """Plan a savepoint that another release of Flink restores with equal values; its ``write`` writes it.

        Values and serializer snapshots that must change are rewritten, by Spark's tasks; all else is copied as bytes.

        Args:
            flink: The release to migrate to, such as ``2.3``.
            classes: Jars and folders of the new job's class files, which are parsed, not loaded; every task reads them.
            types: Types in words by state, ``{"accounts.tags": "LIST<STRING>"}``.
            types_from: A savepoint that the new job has taken.
            kryo_types: Classes that Kryo wrote, in words, as in option ``kryoTypes`` of a read.
            drop: States to leave out: ``uid.state``, ``state`` or ``uid``.
            as_is: States whose bytes are kept unchanged.

        Returns:
            The migration, not written yet.

        Raises:
            OptionError: If the savepoint is not written yet, or an argument is invalid.

        Example::

            sp.migrate("2.3", classes=["job.jar"]).write("/savepoints/for-2.3")

        """
        from pyspark_savepoint.execution.migrating import migration_of
        from pyspark_savepoint.savepoint.migrations import SavepointMigration

        migration = migration_of(
            self._context.snapshot(),
            flink,
            classes=classes,
            types=types,
            types_from=None if types_from is None else self._beside(types_from)._context.snapshot(),
            kryo_types=kryo_types,
            drop=drop,
            as_is=as_is,
        )
        return SavepointMigration(
            self._context, migration, lambda path: Savepoint._loaded(self.spark, path, self.options)
        )
