"""The class Savepoint: the tables of a snapshot, and the operations that derive a new savepoint from it (FLIP-43).

::

    sp = Savepoint.load(spark, "/savepoints/savepoint-2f1a3c")
    sp.states().show()
    sp.keyed_state("accounts").where("total > 100")
    sp.remove_operator("audit").change_operator_identifier("accounts", "customers").write("/savepoints/new")

Flink: ``SavepointReader``, ``SavepointWriter``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Unpack

from pyspark_savepoint.catalog.namespaces import create_tables, drop_tables
from pyspark_savepoint.execution.display import html_tree, text_tree
from pyspark_savepoint.formats.errors import OptionError, ValueRangeError, type_name
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.formats.filesystems.storage_options import OPTION
from pyspark_savepoint.formats.metadata.key_groups import check_parallelism
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.options.operators import OperatorRef, identifier_of
from pyspark_savepoint.options.option_values import inheriting, to_options
from pyspark_savepoint.options.paths import located, path_text, reached, snapshot_path
from pyspark_savepoint.options.schema import expect_types
from pyspark_savepoint.options.worker_python import check_worker_python, expect_session, explaining_worker_python
from pyspark_savepoint.plan.keyed_edits import with_keys_deleted, with_states
from pyspark_savepoint.plan.merged_operators import merged_operator
from pyspark_savepoint.plan.operator_plan import OperatorPlan, OperatorRows
from pyspark_savepoint.plan.savepoint_plan import SavepointPlan, expect_backend
from pyspark_savepoint.plan.sink_changes import (
    with_committables_marked,
    with_committables_removed,
    with_in_flight_cleared,
    with_migrated_source,
)
from pyspark_savepoint.plan.source_changes import (
    base_of,
    offsets_of_rows,
    positions_of,
    rows_of_table,
    source_of,
    with_coordinator,
    with_operator,
    with_source,
)
from pyspark_savepoint.plan.state_inputs import put_operator_state, put_rows, put_state, put_table, refuse_own
from pyspark_savepoint.savepoint.context import SavepointContext
from pyspark_savepoint.source.spark_engine import SparkEngine
from pyspark_savepoint.statebackends.model.request import DEFAULT_TOP
from pyspark_savepoint.statebackends.writing.planning.write_request import (
    BROADCAST,
    DEFAULT_MAX_PARALLELISM,
    KEYED_STATE,
    LIST,
    TIMERS,
    UNION,
    WINDOW_STATE,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pyspark_savepoint.formats.metadata.identifiers import OperatorIdentifier
    from pyspark_savepoint.formats.serializers.base import TypeSerializer
    from pyspark_savepoint.formats.snapshot.vacuum import Leftover
    from pyspark_savepoint.options.keywords import (
        KeyedStateOptions,
        OperatorStateOptions,
        ReadOptions,
        ReplacedStateOptions,
        StateOptions,
        StoreOptions,
        TableOptions,
    )
    from pyspark_savepoint.savepoint.migrations import SavepointMigration
    from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph
    from pyspark_savepoint.statebackends.jobs.restore.job_reader import Job
    from pyspark_savepoint.statebackends.processing.api.functions import KeyedStateReaderFunction, WindowReaderFunction
    from pyspark_savepoint.statebackends.processing.api.state_descriptors import AggregateFunction

NAMES = ("operator_uid", "operator_uid_hash", "operator_name", "table", "state")
NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


class Savepoint:
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
        **options: Unpack[TableOptions],
    ) -> Savepoint:
        """Open the snapshot at a path and read its ``_metadata``.

        A relative path is relative to the working directory of the driver's JVM, as in Spark; on Connect, to that of
        this process.

        Args:
            spark: The session, classic or Connect.
            path: The folder of a savepoint or of a retained checkpoint, or its ``_metadata`` file.
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

        """
        expect_session(spark, "Savepoint.load(spark, path)")
        check_worker_python(spark)
        expect_backend(state_backend)
        loaded = cls._loaded(spark, located(spark, snapshot_path(path)), to_options(options))
        return cls(spark, replace(loaded.plan, state_backend=state_backend), loaded.path, loaded.options)

    @classmethod
    def _loaded(cls, spark: SparkSession, path: str, texts: Mapping[str, str]) -> Savepoint:
        snapshot = Snapshot.open(reached(path, texts), allow_outside=texts.get("allowOutside") == "true")
        return cls(spark, SavepointPlan.of(snapshot, path, texts), path, texts)

    @staticmethod
    def vacuum(
        path: str | PathLike[str],
        older_than: timedelta = timedelta(days=1),
        *,
        dry_run: bool = False,
        **options: Unpack[StoreOptions],
    ) -> list[Leftover]:
        """Delete leftovers of failed writes in a savepoint's folder, and files that overwrites replaced.

        Deletes only files that this package has named, that ``_metadata`` does not refer to, that are older than
        ``older_than`` (which must be longer than any write takes), and, if replaced, whose ``retention`` has passed.
        Parts of incomplete uploads to object stores are not listed by the clients used here: a lifecycle rule of the
        bucket removes those (``AbortIncompleteMultipartUpload``).

        Args:
            path: The savepoint's folder, absolute or relative to the working directory of this process.
            older_than: The smallest age of files that are deleted.
            dry_run: Only list the files, and delete nothing.
            **options: ``storageOptions``, as for :meth:`load`.

        Returns:
            Path, kind, size in bytes and time of each file that was deleted, or would be.

        Raises:
            OptionError: If ``older_than`` is negative, or an option is invalid.
            SnapshotNotFoundError: If there is no folder at the path.

        Example::

            Savepoint.vacuum("s3://bucket/sp", timedelta(hours=6), dry_run=True)

        """
        from pyspark_savepoint.formats.snapshot.vacuum import vacuum

        return vacuum(reached(absolute(path_text(path)), to_options(options)), older_than.total_seconds(), dry_run)

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

    # -- display -----------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return text_tree(self.plan, self.path)

    def _repr_html_(self) -> str:
        return html_tree(self.plan, self.path, self.options)

    # -- operators -------------------------------------------------------------------------------------------

    def with_operator(
        self,
        uid: OperatorRef,
        source: DataFrame | Savepoint | OperatorRows | None = None,
        *,
        key: str | Sequence[str] | None = None,
        name: str | None = None,
        **options: Unpack[KeyedStateOptions],
    ) -> Savepoint:
        """Add an operator.

        Flink: ``SavepointWriter#withOperator``.

        Args:
            uid: The new operator.
            source: Its state: a DataFrame with one row per key and one column per state; the end of an
                :class:`OperatorTransformation`; another Savepoint, whose operator of this uid is copied as it is; or
                None for an operator whose state other calls add.
            key: The column of the key, or several of a composite key; ``key`` by default.
            name: The operator's name, which metadata of Flink 2 records.
            **options: Options of a write, such as ``states``, ``types``, ``ttl``.

        Returns:
            The savepoint with the operator, not written yet.

        Raises:
            StateExistsError: If the savepoint has such an operator.
            OptionError: If ``source`` is of another type, or an option is invalid.

        Example::

            sp.with_operator("totals", df, key="account_id", types={"total": "LONG"})

        """
        from pyspark.sql import DataFrame

        if isinstance(source, Savepoint):
            return self._planned(self.plan.taken(source.plan, uid))
        new = self.plan.new_operator(identifier_of(uid), name)
        plan = self.plan.with_new(new)
        if source is None:
            return self._planned(plan)
        if isinstance(source, DataFrame):
            changed = put_table(self._engine, new, source, KEYED_STATE, {"key": key, **options})
        elif not hasattr(source, "operator_tables"):
            raise OptionError(
                "this value cannot be the state of an operator",
                operator=new.label,
                expected="a DataFrame, another savepoint, or a finished transformation",
                found=type_name(source),
                remedy="OperatorTransformation.bootstrap_with(df).key_by('id').transform(function); windows end with "
                "reduce, aggregate or process",
            )
        else:
            changed = put_rows(new, source, options)
        return self._planned(plan.with_changed(new, changed))

    def remove_operator(self, uid: OperatorRef) -> Savepoint:
        """Remove an operator and all its state.

        Flink: ``SavepointWriter#removeOperator``.

        Args:
            uid: The operator.

        Returns:
            The savepoint without the operator, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.

        Example::

            sp.remove_operator("audit").write("/savepoints/without-audit")

        """
        return self._planned(self.plan.without(self.plan.operator(uid)))

    def change_operator_identifier(self, old: OperatorRef, new: OperatorRef) -> Savepoint:
        """Change the uid, or uid hash, of an operator.

        All changes apply together: ``old`` is the identifier of before, and two operators can be swapped. Flink:
        ``SavepointWriter#changeOperatorIdentifier``.

        Args:
            old: The operator.
            new: Its new identifier.

        Returns:
            The savepoint with the renamed operator, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no operator ``old``. If two operators have one identifier in the
                end, :meth:`write` raises StateExistsError.

        Example::

            sp.change_operator_identifier("a", "b").change_operator_identifier("b", "a").write("/savepoints/swapped")

        """
        return self._planned(self.plan.with_identifier(self.plan.operator(old), identifier_of(new)))

    def copy_operator(self, uid: OperatorRef, new: OperatorRef) -> Savepoint:
        """Copy an operator under another uid, for example to split it by states or by keys.

        Args:
            uid: The operator.
            new: The identifier of the copy.

        Returns:
            The savepoint with both operators, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no operator ``uid``.
            StateExistsError: If it has an operator ``new``.

        Example::

            sp.copy_operator("a", "b").remove_state("a", "x").remove_state("b", "y")

        """
        copied = SavepointPlan().taken(self.plan, uid)
        return self._planned(self.plan.merged(copied.with_identifier(copied.operators[0], identifier_of(new))))

    def merge_operator(self, uid: OperatorRef, *, into: OperatorRef) -> Savepoint:
        """Move the keyed state and timers of an operator into another one, byte for byte, then drop it.

        States are matched by name: a state of both operators must have the same type (rename one otherwise), and a key
        may have it in one of them only.

        Args:
            uid: The operator that is dropped.
            into: The operator that gets its state.

        Returns:
            The savepoint without ``uid``, not written yet. Writing it fails if a key has the same state in
            both operators.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operators.
            StateNotFoundError: If ``uid`` has no keyed state.
            OptionError: If types, keys or max parallelism differ, or both are the same operator.
            UnsupportedStateError: If operator state or in-flight records would be lost.

        Example::

            sp.merge_operator("b", into="a")

        """
        source, target = self.plan.operator(uid), self.plan.operator(into)
        changed = merged_operator(self._engine, source, target)
        return self._planned(self.plan.with_changed(target, changed).without(source))

    def merge(self, other: Savepoint) -> Savepoint:
        """Add all operators of another savepoint.

        Args:
            other: The other savepoint.

        Returns:
            The savepoint with the operators of both, not written yet.

        Raises:
            OptionError: If ``other`` is not a Savepoint.
            StateExistsError: If both have the same operator.

        Example::

            sp.merge(Savepoint.load(spark, "/savepoints/of-the-other-job")).write("/savepoints/both")

        """
        if not isinstance(other, Savepoint):
            raise OptionError(
                "merge takes another Savepoint", found=type_name(other), remedy="Savepoint.load(spark, path)"
            )
        return self._planned(self.plan.merged(other.plan))

    def relocate(self, old: str | PathLike[str], new: str | PathLike[str]) -> Savepoint:
        """Replace a prefix of the absolute paths of files, for snapshots whose shared files were moved.

        Args:
            old: The prefix in the snapshot.
            new: The prefix of the files now.

        Returns:
            The savepoint with the new paths, not written yet.

        Raises:
            OptionError: If no path of the savepoint has the prefix.

        Example::

            sp.relocate("hdfs://old/checkpoints", "s3://bucket/checkpoints")

        """
        return self._planned(self.plan.relocated(path_text(old), path_text(new)))

    def with_max_parallelism(
        self, max_parallelism: int, *, key_hashes: Mapping[str, DataFrame] | None = None
    ) -> Savepoint:
        """Change the max parallelism: keyed state and timers are assigned to new key groups.

        Only keys are decoded, to compute their Java hashes.

        Args:
            max_parallelism: The new number of key groups, 1 to 32768.
            key_hashes: The hashes of keys that only the job's code can compute, by uid: a DataFrame with column ``key``
                as it is read, and ``hash_code``.

        Returns:
            The savepoint with the new max parallelism, not written yet.

        Raises:
            OptionError: If ``max_parallelism`` is out of range, or below an operator's parallelism.
            UnsupportedStateError: If an operator has in-flight records, or raw keyed state other than timers.
            UndecodableStateError: If a hash is missing that only the job's code can compute.

        Example::

            sp.with_max_parallelism(512).write("/savepoints/wide")

        """
        if type(max_parallelism) is not int:
            raise OptionError("max parallelism is a whole number", expected="such as 256", found=repr(max_parallelism))
        return self._planned(self.plan.with_max_parallelism(self._engine, max_parallelism, key_hashes or {}))

    # -- states of an operator -------------------------------------------------------------------------------

    def with_window_state(
        self,
        uid: OperatorRef,
        df: DataFrame,
        *,
        key: str | Sequence[str] | None = None,
        **options: Unpack[KeyedStateOptions],
    ) -> Savepoint:
        """Add window state to an operator.

        Args:
            uid: The operator.
            df: One row per key and window: the key, ``window``, and a column for each state.
            key: The column of the key, or several of a composite key; ``key`` by default.
            **options: Options of a write, such as ``states``, ``types``, ``ttl``.

        Returns:
            The savepoint with the states, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateExistsError: If the operator has a state of one of these names.

        Example::

            windows = sp.window_state("orders-per-minute")
            sp.with_operator("orders-per-minute-2").with_window_state("orders-per-minute-2", windows)

        """
        return self._changed(uid, lambda plan: put_table(self._engine, plan, df, WINDOW_STATE, {"key": key, **options}))

    def with_timers(
        self,
        uid: OperatorRef,
        df: DataFrame,
        *,
        key: str | Sequence[str] | None = None,
        **options: Unpack[KeyedStateOptions],
    ) -> Savepoint:
        """Add timers to an operator.

        Args:
            uid: The operator.
            df: One row per timer: the key, ``timestamp`` (a long of milliseconds, or a TIMESTAMP), ``domain``
                (``event`` or ``processing``), optionally ``service``, and for timers of windows ``namespace``.
            key: The column of the key, or several of a composite key; ``key`` by default.
            **options: Options of a write; ``state`` lists the timer services, ``user-timers`` by default.

        Returns:
            The savepoint with the timers, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateExistsError: If the operator has timers of one of these services.

        Example::

            columns = "id", "unix_millis(ts) AS timestamp", "'event' AS domain", "'user-timers' AS service"
            sp.with_timers("accounts", df.selectExpr(*columns), key="id")

        """
        return self._changed(uid, lambda plan: put_table(self._engine, plan, df, TIMERS, {"key": key, **options}))

    def with_list_state(
        self, uid: OperatorRef, name: str, df: DataFrame, **options: Unpack[OperatorStateOptions]
    ) -> Savepoint:
        """Add a list state to an operator; a job splits its elements over the subtasks.

        Args:
            uid: The operator.
            name: The name of the state.
            df: Column ``value``, one row per element.
            **options: Options of a write, such as ``types``.

        Returns:
            The savepoint with the state, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateExistsError: If the operator has a state of this name.

        Example::

            sp.with_list_state("warehouse-export", "sent_orders", df, types={"value": "LONG"})

        """
        return self._changed(uid, lambda plan: put_operator_state(self._engine, plan, LIST, name, df, options))

    def with_union_state(
        self, uid: OperatorRef, name: str, df: DataFrame, **options: Unpack[OperatorStateOptions]
    ) -> Savepoint:
        """Add a union list state to an operator; a job gives all elements to every subtask.

        Args:
            uid: The operator.
            name: The name of the state.
            df: Column ``value``, one row per element.
            **options: Options of a write, such as ``types``.

        Returns:
            The savepoint with the state, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateExistsError: If the operator has a state of this name.

        Example::

            sp.with_union_state("orders-source", "positions", df, types={"value": "TUPLE<STRING, LONG>"})

        """
        return self._changed(uid, lambda plan: put_operator_state(self._engine, plan, UNION, name, df, options))

    def with_broadcast_state(
        self, uid: OperatorRef, name: str, df: DataFrame, **options: Unpack[OperatorStateOptions]
    ) -> Savepoint:
        """Add a broadcast state to an operator.

        Args:
            uid: The operator.
            name: The name of the state.
            df: Columns ``key`` and ``value``, one row per entry.
            **options: Options of a write, such as ``types``.

        Returns:
            The savepoint with the state, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateExistsError: If the operator has a state of this name.

        Example::

            sp.with_broadcast_state("currency-converter", "rates", rates, types={"key": "STRING", "value": "DOUBLE"})

        """
        return self._changed(uid, lambda plan: put_operator_state(self._engine, plan, BROADCAST, name, df, options))

    def with_state(
        self, uid: OperatorRef, name: str, df: DataFrame, **options: Unpack[ReplacedStateOptions]
    ) -> Savepoint:
        """Replace one state of an operator, or add it; other states and timers stay byte for byte.

        A key that ``df`` does not contain loses the state. A replaced state keeps its type unless option ``types``
        changes it. Operator state is replaced by its name too.

        Args:
            uid: The operator.
            name: The name of the state.
            df: The key and the state as they are read; the state's column has its name, or is the only one beside the
                key.
            **options: Options of a write, such as ``types``, ``states``, ``ttl``.

        Returns:
            The savepoint with the new state, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            OptionError: If the columns or options do not fit the state.

        Example::

            fixed = sp.keyed_state("accounts").selectExpr("key", "greatest(total, 0L) AS total")
            sp.with_state("accounts", "total", fixed).write("/savepoints/fixed")

        """
        return self._changed(uid, lambda plan: put_state(self._engine, plan, name, df, options))

    def remove_state(self, uid: OperatorRef, name: str) -> Savepoint:
        """Remove one state of an operator, or the timers of one timer service.

        Args:
            uid: The operator.
            name: The name of the state or timer service.

        Returns:
            The savepoint without the state, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateNotFoundError: If the operator has no such state.

        Example::

            sp.remove_state("accounts", "profile").write("/savepoints/without-profiles")

        """
        return self._changed(uid, lambda plan: with_states(plan).without_state(name))

    def rename_state(self, uid: OperatorRef, old: str, new: str) -> Savepoint:
        """Rename one state, or one timer service, of an operator.

        Args:
            uid: The operator.
            old: The name of the state or timer service.
            new: Its new name.

        Returns:
            The savepoint with the renamed state, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateNotFoundError: If the operator has no state ``old``.
            StateExistsError: If it has a state ``new``.

        Example::

            sp.rename_state("accounts", "total", "sum").write("/savepoints/renamed")

        """
        return self._changed(uid, lambda plan: with_states(plan).with_renamed_state(old, new))

    def remove_keys(self, uid: OperatorRef, keys: DataFrame | Collection[Any]) -> Savepoint:
        """Remove keys from all keyed states, windows and timers of an operator.

        Args:
            uid: The operator.
            keys: A DataFrame with column ``key`` as it is read, a single column, or the fields of a composite key; or a
                list of keys, as option ``keys`` of a read takes them.

        Returns:
            The savepoint without the keys, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateNotFoundError: If the operator has no keyed state.
            OptionError: If the keys do not fit the operator's key type.
            UnsupportedStateError: If the operator has raw keyed state other than timers.

        Example::

            sp.remove_keys("accounts", sp.keyed_state("accounts").where("total < 0").select("key"))

        """
        return self._changed(uid, lambda plan: with_keys_deleted(self._engine, plan, keys))

    def _changed(self, uid: OperatorRef, change: Callable[[OperatorPlan], OperatorPlan]) -> Savepoint:
        operator = self.plan.operator(uid)
        return self._planned(self.plan.with_changed(operator, change(operator)))

    def _planned(self, plan: SavepointPlan) -> Savepoint:
        """Return the savepoint of another plan, which is not written yet."""
        return Savepoint(self.spark, plan, None, self.options)

    # -- sources ---------------------------------------------------------------------------------------------

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

    def with_offsets(
        self,
        uid: OperatorRef,
        offsets: Mapping[Any, Any] | DataFrame | Savepoint | None = None,
        *,
        to: str | None = None,
        by: int | None = None,
        connector: str | None = None,
    ) -> Savepoint:
        """Change the positions at which a source continues, in readers and enumerator; all else stays byte for byte.

        Warns if records are read again: they change keyed state again, and output that sinks committed stays.

        Args:
            uid: The source.
            offsets: The next position by split: of Kafka by ``(topic, partition)``, or by topic for all of its
                partitions, an offset or ``earliest``, ``latest``, ``committed``; of number sequences by split id, the
                next number; of files by split id, the number of records read; of Kinesis by shard, the sequence number
                of the last record read, ``earliest`` or ``latest``; of MySQL's ``binlog-split`` the fields of an
                offset, such as ``file`` and ``pos``, or ``gtids``; of PostgreSQL's ``stream-split`` an LSN; of Pulsar
                by ``(topic, partition)`` the last message read, as ``ledger:entry``.
                Or a DataFrame with columns of table ``splits``
                such as ``topic``, ``partition``, ``offset``, ``stop_offset``, or of table ``offsets``, such as from
                ``history``; or another savepoint of the job: splits that both have get its positions.
            to: One position for all splits, such as ``earliest``.
            by: A number by which all positions move; those of Kafka and files at least to 0.
            connector: The kind of source, if its bytes do not show it.

        Returns:
            The savepoint with the positions, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateNotFoundError: If the operator is no source.
            UnsupportedStateError: If the source is of no known kind.
            OptionError: If it has no such split, or a position cannot be one.

        Example::

            sp.with_offsets("orders-source", {("orders", 3): 1200}).write("/savepoints/rewound")
            sp.with_offsets("orders-source", by=-1000)

        """
        from pyspark_savepoint.statebackends.connectors.edits.sources import with_offsets

        plan = self.plan.operator(uid)
        if isinstance(offsets, Savepoint):
            theirs = positions_of(offsets.plan.operator(uid), connector)
            ours = positions_of(plan, connector)
            found: Mapping[Any, Any] | None = {key: row for key, row in theirs.items() if key in ours}
        elif offsets is None or isinstance(offsets, Mapping):
            found = offsets
        else:
            found = offsets_of_rows(source_of(plan, connector), rows_of_table(self._engine, offsets, plan))
        return self._changed(
            uid, lambda plan: with_source(plan, connector, lambda source: with_offsets(source, found, to, by))
        )

    def add_splits(
        self,
        uid: OperatorRef,
        splits: Sequence[Mapping[str, Any]] | DataFrame,
        *,
        connector: str | None = None,
    ) -> Savepoint:
        """Add splits to a source, in readers and enumerator.

        Args:
            uid: The source.
            splits: Rows with the columns of table ``splits``: of Kafka ``topic``, ``partition`` and ``offset`` or
                ``marker`` (neither: where the job's settings start); of number sequences ``split_id``, ``next`` and
                ``to``; of files ``path`` and ``length``.
            connector: The kind of source, if its bytes do not show it.

        Returns:
            The savepoint with the splits, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            OptionError: If the source has such a split, which would be read twice, or a column is missing.

        Example::

            sp.add_splits("orders-source", [{"topic": "orders", "partition": 7, "offset": 0}])

        """
        from pyspark_savepoint.statebackends.connectors.edits.sources import add_splits

        rows = rows_of_table(self._engine, splits, self.plan.operator(uid))
        return self._changed(uid, lambda plan: with_source(plan, connector, lambda source: add_splits(source, rows)))

    def remove_splits(
        self, uid: OperatorRef, splits: Collection[Any], *, forget: bool | None = None, connector: str | None = None
    ) -> Savepoint:
        """Remove splits from a source.

        Args:
            uid: The source.
            splits: Names of splits, as in :meth:`with_offsets`.
            forget: Required if the enumerator has the splits. False: they are never read again. True: a job
                that still subscribes to them discovers them as new, and reads them from their beginning.
            connector: The kind of source, if its bytes do not show it.

        Returns:
            The savepoint without the splits, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            OptionError: If the source has no such split, or ``forget`` is missing.

        Example::

            sp.remove_splits("orders-source", [("orders", 3)], forget=False)

        """
        from pyspark_savepoint.statebackends.connectors.edits.sources import remove_splits

        return self._changed(
            uid,
            lambda plan: with_source(plan, connector, lambda source: remove_splits(source, splits, forget)),
        )

    def start_over(self, uid: OperatorRef, *, connector: str | None = None) -> Savepoint:
        """Forget all splits of a source, so that it begins as on a first start, where the job's settings start.

        Args:
            uid: The source, of any kind.
            connector: The kind of source, if its bytes do not show it.

        Returns:
            The savepoint with a source without splits, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.

        Example::

            sp.start_over("orders-source").write("/savepoints/from-the-start")

        """
        from pyspark_savepoint.statebackends.connectors.edits.sources import start_over

        return self._changed(uid, lambda plan: with_operator(plan, start_over(base_of(plan).opened, connector)))

    def with_coordinator_state(self, uid: OperatorRef, state: bytes | None) -> Savepoint:
        """Replace the state of an operator's coordinator, or remove it, with a warning of what that does.

        Args:
            uid: The operator.
            state: The bytes, as table ``coordinator_state`` has them; None removes the state.

        Returns:
            The savepoint with the state, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.

        Example::

            sp.with_coordinator_state("orders-source", None)

        """
        return self._changed(uid, lambda plan: with_coordinator(plan, state))

    # -- sinks and older sources -----------------------------------------------------------------------------

    def remove_committables(
        self,
        uid: OperatorRef,
        committables: DataFrame | Collection[Mapping[str, Any]] | None = None,
        *,
        lose_data: bool = False,
        connector: str | None = None,
    ) -> Savepoint:
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
            The savepoint without the committables, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateNotFoundError: If the operator is no committer.
            OptionError: If a row equals no committable, or ``lose_data`` is missing.

        Example::

            sp.remove_committables(committer, [{"transactional_id": "orders-0-17"}], lose_data=True)

        """
        return self._changed(
            uid, lambda plan: with_committables_removed(self._engine, plan, committables, lose_data, connector)
        )

    def mark_committables(
        self,
        uid: OperatorRef,
        committables: DataFrame | Collection[Mapping[str, Any]] | None = None,
        status: str = "COMMITTED",
        *,
        connector: str | None = None,
    ) -> Savepoint:
        """Mark committables of a sink as committed in another way, so that Flink does not commit them again.

        Args:
            uid: The sink's committer, an operator of its own: table ``committables`` has its uid hash.
            committables: The committables, as in :meth:`remove_committables`.
            status: ``COMMITTED``; ``RECEIVED`` or ``RETRY`` to have Flink commit them.
            connector: The kind of sink, if its bytes do not show it.

        Returns:
            The savepoint with the marks, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateNotFoundError: If the operator is no committer.
            OptionError: If a row equals no committable.

        Example::

            sp.mark_committables(committer, [{"checkpoint_id": 7}])

        """
        return self._changed(
            uid, lambda plan: with_committables_marked(self._engine, plan, committables, status, connector)
        )

    def clear_in_flight(self, uid: OperatorRef, *, lose_data: bool = False) -> Savepoint:
        """Empty the queue of an asynchronous function, whose records Flink would otherwise send to it again.

        Args:
            uid: The operator of the function.
            lose_data: Must be True if the queue is not empty, as its records are lost.

        Returns:
            The savepoint with an empty queue, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateNotFoundError: If the operator calls no asynchronous function.
            OptionError: If ``lose_data`` is missing.

        Example::

            sp.clear_in_flight("enrich", lose_data=True).write("/savepoints/emptied")

        """
        return self._changed(uid, lambda plan: with_in_flight_cleared(plan, lose_data))

    def migrate_source(
        self,
        uid: OperatorRef,
        *,
        to: str = "kafka-source",
        new_uid: OperatorRef | None = None,
        connector_version: str = "3.1",
        not_set: str | None = None,
        lose_data: bool = False,
    ) -> Savepoint:
        """Turn the state of a FlinkKafkaConsumer into that of a KafkaSource, which continues at the same records.

        Flink cannot do this. The union state of partitions becomes splits of readers, which begin after the last
        record read, and an enumerator that has assigned all of them.

        Args:
            uid: The operator of the FlinkKafkaConsumer.
            to: ``kafka-source``.
            new_uid: The uid of the KafkaSource in the new job; by default it stays.
            connector_version: The release of the Kafka connector in the new job, such as ``3.4.0``. The state is of the
                version that it writes; later releases read it too.
            not_set: Where partitions are read that have no offset yet: ``earliest``, ``latest`` or ``committed``.
            lose_data: Drop state that a KafkaSource does not read; without it such state is refused.

        Returns:
            The savepoint with the state of a KafkaSource, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.
            StateNotFoundError: If it is no FlinkKafkaConsumer with partitions.
            UnsupportedStateError: If a partition has two offsets, or the operator has other state.
            OptionError: If a partition has no offset yet, or an argument is invalid.

        Example::

            sp.migrate_source("orders", to="kafka-source", new_uid="orders-source", connector_version="3.4.0")

        """
        old = self.plan.operator(uid)
        new = with_migrated_source(old, to, connector_version, not_set, lose_data)
        plan = self.plan.with_changed(old, new)
        return self._planned(plan if new_uid is None else plan.with_identifier(new, identifier_of(new_uid)))

    # -- the job ---------------------------------------------------------------------------------------------

    def check_restore(
        self,
        job: Job | Savepoint,
        *,
        types: Mapping[str, Mapping[str, Any]] | None = None,
        flink_version: str | None = None,
        state_backend: str | None = None,
        classes: Sequence[str] | None = None,
        inferred_by: str | None = None,
        types_from: str | Sequence[str] | None = None,
        allow_non_restored_state: bool = False,
        stream_graph_hasher: str | None = None,
    ) -> DataFrame:
        """Check whether a job can restore the savepoint: one row per operator of either, the worst verdict first.

        A stream graph or plan lacks types, version and state backend, so ``types``, ``flink_version``,
        ``state_backend``, ``classes``, ``inferred_by`` and ``types_from`` supply them.

        Args:
            job: The job: a mapping (``statebackends.jobs.restore.job_description``), a :class:`StreamGraph`, an
                execution plan or a plan of the REST interface as JSON, or a savepoint that the new job has taken.
            types: The types of keys and states, by uid or name of the operator.
            flink_version: The release of Flink that runs the job, such as ``2.1``.
            state_backend: The job's state backend.
            classes: Java names of the job's classes, beside those in its types.
            inferred_by: The release of Flink that infers types from the classes that ``types`` names.
            types_from: Jars and folders of class files; also of classes in values that Kryo wrote in Flink 1, for which
                the rows have what Flink 2 would read.
            allow_non_restored_state: Accept state that no operator of the job restores, as ``--allowNonRestoredState``
                does.
            stream_graph_hasher: How operators without uid get their ids: ``v2``, or the proposed ``v3``; by
                default that of the graph, ``v2`` for others.

        Returns:
            The verdicts.

        Raises:
            OptionError: If the savepoint is not written yet, or the job cannot be parsed.

        Example::

            sp.check_restore(Savepoint.load(spark, "/savepoints/of-the-new-job")).show(truncate=False)

        """
        from pyspark_savepoint.savepoint.restore_checks import restore_table

        return restore_table(
            self._context,
            _job(job),
            types=types,
            flink_version=flink_version,
            state_backend=state_backend,
            classes=classes,
            inferred_by=inferred_by,
            types_from=types_from,
            allow_non_restored_state=allow_non_restored_state,
            stream_graph_hasher=stream_graph_hasher,
        )

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
        from pyspark_savepoint.local.migrating import migration_of
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

    def assign_uid(self, operator: OperatorRef, uid: str) -> Savepoint:
        """Give a uid to an operator that had none and was identified by its hash.

        Args:
            operator: The operator.
            uid: Its uid from now on.

        Returns:
            The savepoint with the uid, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.

        Example::

            sp.assign_uid("5af9c1d8a9b8e2f06e0f0a3c1d2e4b77", "accounts").write("/savepoints/with-uids")

        """
        return self.assign_uids({str(identifier_of(operator).operator_id): uid})

    def assign_uids(self, uids: Mapping[str, str] | StreamGraph) -> Savepoint:
        """Give uids to operators that had none.

        Args:
            uids: Uids by uid hash; or the stream graph of the job as it was when it took the snapshot, but with the
                uids that it sets now.

        Returns:
            The savepoint with the uids, not written yet.

        Raises:
            OperatorNotFoundError: If the savepoint has no such operator.

        Example::

            sp.assign_uids({"5af9c1d8a9b8e2f06e0f0a3c1d2e4b77": "accounts"})

        """
        from pyspark_savepoint.savepoint.restore_checks import changed_uids

        changed = self
        for old, new in changed_uids(self._context, uids).items():
            changed = changed.change_operator_identifier(old, new)
        return changed

    def restore_plan(self, job: Job | Savepoint, *, stream_graph_hasher: str | None = None) -> DataFrame:
        """Return the assignment of state to the subtasks of a job: one row per operator and subtask.

        Args:
            job: The job, as in :meth:`check_restore`.
            stream_graph_hasher: How operators without uid get their ids: ``v2``, or the proposed ``v3``; by
                default that of the graph, ``v2`` for others.

        Returns:
            The assignment.

        Raises:
            OptionError: If the savepoint is not written yet, or the job cannot be parsed.

        Example::

            sp.restore_plan(graph).show()

        """
        from pyspark_savepoint.savepoint.restore_checks import plan_table

        return plan_table(self._context, _job(job), stream_graph_hasher)

    def operator_at(
        self, graph: StreamGraph, name: str, *, stream_graph_hasher: str | None = None
    ) -> OperatorIdentifier:
        """Return the identifier of an operator without uid, by its name in the job's graph.

        Args:
            graph: The graph of the job as it was when it took the snapshot.
            name: The operator's name in the graph.
            stream_graph_hasher: How operators without uid get their ids: ``v2``, or the proposed ``v3``; by
                default that of the graph, ``v2`` for others.

        Returns:
            The identifier, which all methods take in place of a uid.

        Raises:
            OptionError: If the graph has no such operator, or several.
            OperatorNotFoundError: If the snapshot does not contain the operator.

        Example::

            sp.keyed_state(sp.operator_at(graph, "join"))

        """
        from pyspark_savepoint.savepoint.restore_checks import identifier_at

        return identifier_at(self._context, graph, name, stream_graph_hasher)

    # -- writing ---------------------------------------------------------------------------------------------

    @property
    def is_portable(self) -> bool:
        """Whether every state backend can restore the savepoint: all keyed state is in the canonical format."""
        from pyspark_savepoint.execution.rewritten_parts import is_portable

        return all(is_portable(operator) for operator in self.plan.operators)

    def write(
        self,
        path: str | PathLike[str],
        *,
        flink_version: str | None = None,
        files: str = "copy",
        portable: bool = False,
        checkpoint_id: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Savepoint:
        """Write the savepoint to a new path, and load it from there.

        The snapshots that it is derived from never change. ``_metadata`` is written last: before, nothing is visible.
        Flink: ``SavepointWriter#write``.

        Args:
            path: The folder of the new savepoint.
            flink_version: The oldest Flink that must restore it, such as ``1.20``. It decides the version of the
                metadata: 4 for Flink 1, 5 for 2.0, 6 from 2.1 on. Untouched state in a newer form is rewritten; state
                for which that release has no class is refused. By default the version of the base stays, and 4, which
                all releases from 1.16 on read, is used for :meth:`create`. Only version 5 and later record uids and
                names of operators for Flink: with 4, jobs find an operator by the hash of its uid, and this package
                appends the uids after the part that Flink reads, for its own listings.
            files: ``copy`` copies untouched files, so that the savepoint can be moved; ``reference`` refers to them
                where they are.
            portable: Write untouched keyed state in the canonical format too, which every state backend restores. By
                default files of RocksDB stay as they are, and only RocksDB restores them (:attr:`is_portable`).
            checkpoint_id: The number of the savepoint, which some sinks compare with what they have committed (Iceberg,
                Kafka's transactional ids); by default the greatest of the bases. The job continues to count from it.
            storage_options: How the path's store is reached, if not as in :meth:`load`.

        Returns:
            The new savepoint, loaded from ``path``.

        Raises:
            StateExistsError: If the path contains a savepoint, or two operators would have the same identifier.
            OptionError: If there is no operator to write, or an argument is invalid.
            UnsupportedVersionError: If ``flink_version`` cannot restore some state; the error names all of it.
            PySparkException: If rows are invalid, such as a key that is repeated.

        Example::

            sp.rename_state("accounts", "total", "sum").write("/savepoints/renamed", flink_version="1.20")

        """
        from pyspark_savepoint.execution.savepoint_writer import SavepointWriter
        from pyspark_savepoint.options.write_options import parse_flink_version

        path = located(self.spark, path)
        if not self.plan.operators:
            raise OptionError(
                "the savepoint has no operators, so there is nothing to write",
                path=path,
                remedy="add one: with_operator(uid, ...)",
            )
        self.plan.refuse_same_ids()
        if checkpoint_id is not None and not 0 <= checkpoint_id < 1 << 63:
            raise OptionError("a checkpoint id is a number from 0", found=checkpoint_id)
        version = None if flink_version is None else parse_flink_version(str(flink_version))
        options = {OPTION: self.options[OPTION]} if OPTION in self.options else {}
        options |= to_options({OPTION: storage_options})
        target = reached(path, options)
        with explaining_worker_python(self.spark):
            SavepointWriter.to(self._engine, self.plan, target, files, version, portable, checkpoint_id).run()
        options |= {"allowOutside": "true"} if files == "reference" else {}
        return Savepoint._loaded(self.spark, path, {**self.options, **options})


def _job(job: Job | Savepoint) -> Job:
    return job._context.snapshot() if isinstance(job, Savepoint) else job
