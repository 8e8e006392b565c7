"""A snapshot as one object: its tables, and (FLIP-43) what becomes of it.

::

    sp = Savepoint.load(spark, "/savepoints/savepoint-2f1a3c")
    sp.states().show()
    sp.keyed_state("accounts").where("total > 100")
    sp.remove_operator("audit").change_operator_identifier("accounts", "customers").write("/savepoints/new")

Flink: ``SavepointReader``, ``SavepointWriter``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pyspark_savepoint.catalog.namespaces import create_tables, drop_tables
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.io.filesystem import absolute
from pyspark_savepoint.formats.io.storage_options import OPTION
from pyspark_savepoint.formats.metadata.key_groups import check_parallelism
from pyspark_savepoint.formats.snapshot.savepoint import Savepoint as Snapshot
from pyspark_savepoint.options.option_values import inheriting, to_options
from pyspark_savepoint.options.paths import located, path_text, reached
from pyspark_savepoint.plan.keyed_edits import with_keys_deleted, with_states
from pyspark_savepoint.plan.merged_operators import merged_operator
from pyspark_savepoint.plan.operator_plan import OperatorPlan, OperatorRows
from pyspark_savepoint.plan.savepoint_plan import OperatorRef, SavepointPlan, identifier_of
from pyspark_savepoint.plan.state_inputs import put_rows, put_state, put_table
from pyspark_savepoint.savepoint.display import html_tree, text_tree
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
    from pyspark_savepoint.formats.snapshot.vacuum import Leftover
    from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph
    from pyspark_savepoint.statebackends.jobs.restore.job_reader import Job
    from pyspark_savepoint.statebackends.processing.api.functions import KeyedStateReaderFunction, WindowReaderFunction
    from pyspark_savepoint.statebackends.processing.api.state_descriptors import AggregateFunction

NAMES = ("operator_uid", "operator_uid_hash", "operator_name", "table", "state")
NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


class Savepoint:
    """A savepoint or checkpoint; immutable: every change gives another one, and :meth:`write` writes it.

    Operators are named by uid, by uid hash (32 hex digits), or by an OperatorIdentifier.
    """

    def __init__(
        self, spark: SparkSession, plan: SavepointPlan, path: str | None = None, options: Mapping[str, str] = NO_OPTIONS
    ) -> None:
        """Not for users, who have :meth:`load` and :meth:`create`. Without a path it is not written yet."""
        if not isinstance(plan, SavepointPlan):
            raise OptionError(
                "a Savepoint is not made from a path like this",
                found=type(plan).__name__,
                remedy="Savepoint.load(spark, path), or Savepoint.create(spark)",
            )
        self.spark = spark
        self.plan = plan
        self.path = path
        self.options = options

    @classmethod
    def load(cls, spark: SparkSession, path: str | PathLike[str], **options: Any) -> Savepoint:
        """The snapshot at a path; the options are those of the data source, and hold for all of its tables.

        A relative path begins where Spark's own do, in the working directory of the driver's JVM; on Connect in that
        of this process. Raises SnapshotNotFoundError, which names the snapshots below the path where it is not one
        itself.
        """
        path, texts = located(spark, path), to_options(options)
        snapshot = Snapshot.open(reached(path, texts), allow_outside=texts.get("allowOutside") == "true")
        return cls(spark, SavepointPlan.of(snapshot, path, texts), path, texts)

    @staticmethod
    def vacuum(
        path: str | PathLike[str],
        older_than: timedelta = timedelta(days=1),
        *,
        dry_run: bool = False,
        **options: Any,
    ) -> list[Leftover]:
        """Remove what writers that died have left in a savepoint's folder, and files that overwrites replaced.

        Nothing that ``_metadata`` names is touched, nothing that this package has not named, nothing younger than
        ``older_than``, which must be longer than any write takes, and nothing replaced whose ``retention`` is not over.
        Parts of uploads to object stores that were never completed are not listed by any client here: a lifecycle rule
        of the bucket removes those (``AbortIncompleteMultipartUpload``).

        Args:
            path: The savepoint's folder, absolute or relative to this process.
            older_than: The age from which on something is left over.
            dry_run: Whether nothing is removed.
            options: ``storageOptions``, as for :meth:`load`.

        Returns:
            What was removed, or would be: path, kind, size and time of each.

        Example:
            ``Savepoint.vacuum("s3://bucket/sp", timedelta(hours=6), dry_run=True)``

        """
        from pyspark_savepoint.formats.snapshot.vacuum import vacuum

        return vacuum(reached(absolute(path_text(path)), to_options(options)), older_than.total_seconds(), dry_run)

    @classmethod
    def create(cls, spark: SparkSession, *, max_parallelism: int = DEFAULT_MAX_PARALLELISM) -> Savepoint:
        """A savepoint without operators; ``max_parallelism`` is that of those that will be added.

        :meth:`write` gives it metadata of version 4, which records no uids, but their hashes; with
        ``flink_version="2.0"`` or later also the uids.
        """
        check_parallelism(max_parallelism, 1)
        return cls(spark, SavepointPlan(max_parallelism=max_parallelism))

    # -- tables ----------------------------------------------------------------------------------------------

    def table(self, **options: Any) -> DataFrame:
        """Any table of the snapshot, by the options of the data source."""
        return (
            self.spark.read.format("savepoint")
            .options(**inheriting(self.options, to_options(options)))
            .load(self._read_path())
        )

    def states(self) -> DataFrame:
        """One row per state: where it is, what it is, and the options that read it."""
        return self.table(table="states")

    def operators(self) -> DataFrame:
        """One row per operator: name, uid, hash, parallelism, max parallelism, bytes."""
        return self.table(table="metadata")

    def metadata(self) -> DataFrame:
        """The same as :meth:`operators`, by the name of the table (FLIP-512)."""
        return self.table(table="metadata")

    def keyed_state(self, uid: OperatorRef, **options: Any) -> DataFrame:
        """Every key once, with a column for each state."""
        return self.table(**self._named(uid), table="keyed_state", **options)

    def window_state(self, uid: OperatorRef, **options: Any) -> DataFrame:
        """Every key and window once, with a column for each state."""
        return self.table(**self._named(uid), table="window_state", **options)

    def timers(self, uid: OperatorRef, **options: Any) -> DataFrame:
        """Every timer."""
        return self.table(**self._named(uid), table="timers", **options)

    def list_state(self, uid: OperatorRef, name: str, **options: Any) -> DataFrame:
        """The elements of a list state of the operator (split over its subtasks)."""
        return self.table(**self._named(uid), table="operator_state", state=name, **options)

    def union_state(self, uid: OperatorRef, name: str, **options: Any) -> DataFrame:
        """The elements of a union list state of the operator."""
        return self.table(**self._named(uid), table="operator_state", state=name, **options)

    def broadcast_state(self, uid: OperatorRef, name: str, **options: Any) -> DataFrame:
        """The entries of a broadcast state: key and value."""
        return self.table(**self._named(uid), table="operator_state", state=name, **options)

    def _named(self, uid: OperatorRef | None) -> dict[str, str]:
        """The options that name an operator, where there is one; OperatorNotFoundError names the nearest."""
        return {} if uid is None else {"uidHash": self.plan.operator(uid).identifier.operator_id.hex}

    # -- functions -------------------------------------------------------------------------------------------

    def read_keyed_state(
        self, uid: OperatorRef, function: KeyedStateReaderFunction, schema: str | StructType, **options: Any
    ) -> DataFrame:
        """What a reader function yields of every key, with all of its states and timers.

        ``schema`` is that of the rows, such as ``key int, timers array<bigint>``; ``options`` are those of a read
        (``keys``, ``key_groups``, ``parallelism`` ...). Types of states come from the snapshot.
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
        **options: Any,
    ) -> DataFrame:
        """What a reader function yields of every key and window: its contents, states and timers.

        With the job's ``aggregate`` the contents are its result, without it the accumulator. Windows with an evictor
        keep their elements: with the job's ``aggregate`` or ``reduce`` the contents are what it makes of those.
        """
        from pyspark_savepoint.functions.reader_functions import read_window

        return read_window(self.spark, *self._named_options(uid, options), function, schema, aggregate, reduce)

    def _named_options(self, uid: OperatorRef, options: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        return self._read_path(), inheriting(self.options, {**to_options(options), **self._named(uid)})

    def _read_path(self) -> str:
        if self.path is None:
            raise OptionError(
                "this savepoint is not written yet, so it has no tables and no state to read",
                remedy="read from what write(path) returns",
            )
        return self.path

    # -- what is in here, how big, how skewed ------------------------------------------------------------------

    def sizes(self, uid: OperatorRef | None = None, **options: Any) -> DataFrame:
        """Entries and bytes of every state in every key group, of one operator or of all; nothing is decoded."""
        return self.table(table="sizes", **self._named(uid), **options)

    def heaviest_keys(self, uid: OperatorRef | None = None, n: int = 20, **options: Any) -> DataFrame:
        """The ``n`` keys (and windows) of every state that take the most bytes, heaviest first."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F  # noqa: N812

        found = self.table(table="heaviest_keys", top=n, **self._named(uid), **options)
        ranks = Window.partitionBy("operator_uid_hash", "table", "state").orderBy(F.desc("bytes"), "key", "window")
        ranked = found.withColumn("rank", F.row_number().over(ranks))
        return ranked.where(F.col("rank") <= n).orderBy("operator_uid", "operator_uid_hash", "table", "state", "rank")

    def verify(self, uid: OperatorRef | None = None, **options: Any) -> DataFrame:
        """Walk every byte of every state, of one operator or of all: one row per state and subtask, errors first.

        ``status`` is ``ok``, ``warning`` or ``error``; ``note`` says what was found, and what nobody but the user's
        code can check. Errors are rows, not exceptions.
        """
        from pyspark.sql import functions as F  # noqa: N812

        found = self.table(table="verification", **self._named(uid), **options)
        worst = F.when(F.col("status") == "error", 0).when(F.col("status") == "warning", 1).otherwise(2)
        return found.orderBy(worst, "operator_uid", "operator_uid_hash", "table", "state", "subtask", "first_key_group")

    def ttl_ages(self, uid: OperatorRef | None = None, **options: Any) -> DataFrame:
        """How many units of states with a time to live were last accessed how long before the snapshot."""
        from pyspark.sql import functions as F  # noqa: N812

        found = self.table(table="ttl_ages", **self._named(uid), **options)
        grouped = found.groupBy(*NAMES, "from_seconds", "to_seconds", "snapshot_time", "note").agg(
            F.sum("units").alias("units"), F.min("oldest").alias("oldest"), F.max("newest").alias("newest")
        )
        order = ["operator_uid", "operator_uid_hash", "table", "state", "from_seconds"]
        columns = [*NAMES, "from_seconds", "to_seconds", "units", "oldest", "newest", "snapshot_time", "note"]
        return grouped.select(*columns).orderBy(*order)

    # -- as a database -----------------------------------------------------------------------------------------

    def create_tables(self, prefix: str | None = None) -> list[str]:
        """A namespace for every operator and a view for each of its tables: their names, as SQL has them.

        ``SELECT * FROM accounts.keyed_state``, ``currency_converter.rates``, ``savepoint.sizes``; ``prefix`` stands
        before the names of operators, and in place of ``savepoint``. What was made of this snapshot before is made
        anew; StateExistsError where a namespace is somebody else's.
        """
        return create_tables(self.spark, self.table(table="states"), self._read_path(), self.options, prefix)

    def drop_tables(self) -> list[str]:
        """Drop all that :meth:`create_tables` made of this snapshot: the namespaces that are gone."""
        return drop_tables(self.spark, self._read_path())

    # -- what has changed --------------------------------------------------------------------------------------

    def diff(self, newer: Savepoint | str | PathLike[str], uid: str | None = None, **chosen: Any) -> DataFrame:
        """What has changed from this snapshot to another: in numbers, or of one operator row by row.

        ``newer`` is a Savepoint, or the path of one, which is loaded with the options of this one.
        ``chosen``: ``table`` and ``state``, as :func:`pyspark_savepoint.diff` takes them.
        """
        from pyspark_savepoint.savepoint.differences import diff

        return diff(self, newer, uid, **chosen)

    # -- how it looks ------------------------------------------------------------------------------------------

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
        **options: Any,
    ) -> Savepoint:
        """With one operator more.

        ``source``: a DataFrame of its keyed state, a row for each key and a column for each state; what user functions
        make of records (OperatorTransformation); another savepoint, whose operator of this uid is taken over as it is;
        or none, for an operator that is given state by other calls.
        ``key`` is the column of the key, or several; ``name`` the operator's name, which Flink 2 records; ``options``
        are those of a write (``states``, ``types``, ``ttl`` ...). StateExistsError where the operator is there.
        """
        from pyspark.sql import DataFrame

        if isinstance(source, Savepoint):
            return self._planned(self.plan.taken(source.plan, uid))
        new = self.plan.new_operator(identifier_of(uid), name)
        plan = self.plan.with_new(new)
        if source is None:
            return self._planned(plan)
        if isinstance(source, DataFrame):
            changed = put_table(new, source, KEYED_STATE, {"key": key, **options})
        elif not hasattr(source, "operator_tables"):
            raise OptionError(
                "this is no state that an operator could have",
                operator=new.label,
                expected="a DataFrame, another savepoint, or what a transformation ends with",
                found=type(source).__name__,
                remedy="OperatorTransformation.bootstrap_with(df).key_by('id').transform(function); windows end with "
                "reduce, aggregate or process",
            )
        else:
            changed = put_rows(new, source, options)
        return self._planned(plan.with_changed(new, changed))

    def remove_operator(self, uid: OperatorRef) -> Savepoint:
        """Without an operator and all its state."""
        return self._planned(self.plan.without(self.plan.operator(uid)))

    def change_operator_identifier(self, old: OperatorRef, new: OperatorRef) -> Savepoint:
        """With an operator under another uid, or uid hash."""
        return self._planned(self.plan.with_identifier(self.plan.operator(old), identifier_of(new)))

    def copy_operator(self, uid: OperatorRef, new: OperatorRef) -> Savepoint:
        """With an operator a second time, under another uid: to be split, by states or by keys.

        ``sp.copy_operator("a", "b").remove_state("a", "x").remove_state("b", "y")``
        """
        copied = SavepointPlan().taken(self.plan, uid)
        return self._planned(self.plan.merged(copied.with_identifier(copied.operators[0], identifier_of(new))))

    def merge_operator(self, uid: OperatorRef, *, into: OperatorRef) -> Savepoint:
        """Move an operator's keyed state and timers into another, byte for byte, and drop it.

        States go by name: those that both have are of the same type, or renamed before, and no key is in both.
        OptionError where types, keys or max parallelism differ; UnsupportedStateError where operator state would be
        lost. Writing raises DuplicateKeyError for an entry that both have.
        """
        source, target = self.plan.operator(uid), self.plan.operator(into)
        changed = merged_operator(self.spark, source, target)
        return self._planned(self.plan.with_changed(target, changed).without(source))

    def merge(self, other: Savepoint) -> Savepoint:
        """With all operators of another savepoint; StateExistsError where both have one."""
        if not isinstance(other, Savepoint):
            raise OptionError(
                "merge takes another Savepoint", found=type(other).__name__, remedy="Savepoint.load(spark, path)"
            )
        return self._planned(self.plan.merged(other.plan))

    def relocate(self, old: str | PathLike[str], new: str | PathLike[str]) -> Savepoint:
        """With another prefix in absolute paths of files: for snapshots whose shared files were moved."""
        return self._planned(self.plan.relocated(path_text(old), path_text(new)))

    def with_max_parallelism(
        self, max_parallelism: int, *, key_hashes: Mapping[str, DataFrame] | None = None
    ) -> Savepoint:
        """With another max parallelism: keyed state and timers get the key groups that their keys have then.

        Only keys are decoded, to compute their Java hashes. Where only the job's code knows those, ``key_hashes`` has
        them by uid: a DataFrame with the key as it is read, and ``hash_code``.
        """
        return self._planned(self.plan.with_max_parallelism(max_parallelism, key_hashes or {}))

    # -- states of an operator -------------------------------------------------------------------------------

    def with_window_state(
        self, uid: OperatorRef, df: DataFrame, *, key: str | Sequence[str] | None = None, **options: Any
    ) -> Savepoint:
        """With window state of an operator: a row for each key and ``window``, a column for each state."""
        return self._changed(uid, lambda plan: put_table(plan, df, WINDOW_STATE, {"key": key, **options}))

    def with_timers(
        self, uid: OperatorRef, df: DataFrame, *, key: str | Sequence[str] | None = None, **options: Any
    ) -> Savepoint:
        """With timers of an operator: key, ``timestamp``, ``domain`` (``event``, ``processing``), ``service``."""
        return self._changed(uid, lambda plan: put_table(plan, df, TIMERS, {"key": key, **options}))

    def with_list_state(self, uid: OperatorRef, name: str, df: DataFrame, **options: Any) -> Savepoint:
        """With a list state of an operator (split over its subtasks): a row for each element."""
        return self._changed(uid, lambda plan: put_table(plan, df, LIST, {"state": name, **options}))

    def with_union_state(self, uid: OperatorRef, name: str, df: DataFrame, **options: Any) -> Savepoint:
        """With a union list state of an operator: a row for each element."""
        return self._changed(uid, lambda plan: put_table(plan, df, UNION, {"state": name, **options}))

    def with_broadcast_state(self, uid: OperatorRef, name: str, df: DataFrame, **options: Any) -> Savepoint:
        """With a broadcast state of an operator: ``key`` and ``value``."""
        return self._changed(uid, lambda plan: put_table(plan, df, BROADCAST, {"state": name, **options}))

    def with_state(self, uid: OperatorRef, name: str, df: DataFrame, **options: Any) -> Savepoint:
        """With one state of an operator replaced, or added; its other states, and its timers, stay byte for byte.

        ``df`` has the key and the state, as they are read (the state's column has its name, or is the only other one).
        A key that is not in it has no such state then. A state that is replaced keeps its type unless ``types`` says
        otherwise. Operator state is replaced by its name too.
        """
        return self._changed(uid, lambda plan: put_state(plan, name, df, options))

    def remove_state(self, uid: OperatorRef, name: str) -> Savepoint:
        """Without one state of an operator, or without the timers of a service."""
        return self._changed(uid, lambda plan: with_states(plan).without_state(name))

    def rename_state(self, uid: OperatorRef, old: str, new: str) -> Savepoint:
        """With one state of an operator, or a timer service, under another name."""
        return self._changed(uid, lambda plan: with_states(plan).with_renamed_state(old, new))

    def delete_keys(self, uid: OperatorRef, keys: DataFrame | Collection[Any]) -> Savepoint:
        """Without some keys: none of the operator's keyed states, windows and timers has them then.

        ``keys`` has column ``key`` as it is read, or one column, or the fields of a composite key; or it is a list of
        keys, as option ``keys`` of a read takes them.
        """
        return self._changed(uid, lambda plan: with_keys_deleted(self.spark, plan, keys))

    def _changed(self, uid: OperatorRef, change: Callable[[OperatorPlan], OperatorPlan]) -> Savepoint:
        operator = self.plan.operator(uid)
        return self._planned(self.plan.with_changed(operator, change(operator)))

    def _planned(self, plan: SavepointPlan) -> Savepoint:
        """The savepoint of another plan, which is not written yet."""
        return Savepoint(self.spark, plan, None, self.options)

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
        stream_graph_hasher: str = "v2",
    ) -> DataFrame:
        """Would this job restore the savepoint? One row per operator of either, the worst verdict first.

        A job is a mapping (``statebackends.job_description``), a StreamGraph, an execution plan or a plan of the REST
        interface as JSON, or a savepoint that the new job has taken. ``types`` (keys and states by uid or name),
        ``flink_version``, ``state_backend``, ``classes`` (Java names of classes that the job has beside those in
        its types), ``inferred_by`` (the release of Flink that infers types from the classes that words stand for) and
        ``types_from`` (class files) are for graphs, which do not have them.
        """
        from pyspark_savepoint.savepoint.restore_checks import restore_table

        return restore_table(
            self,
            job,
            types=types,
            flink_version=flink_version,
            state_backend=state_backend,
            classes=classes,
            inferred_by=inferred_by,
            types_from=types_from,
            allow_non_restored_state=allow_non_restored_state,
            stream_graph_hasher=stream_graph_hasher,
        )

    def assign_uid(self, operator: OperatorRef, uid: str) -> Savepoint:
        """With a uid for an operator that had none, and was known by its hash."""
        return self.assign_uids({str(identifier_of(operator).operator_id): uid})

    def assign_uids(self, uids: Mapping[str, str] | StreamGraph) -> Savepoint:
        """With uids for operators that had none: by hash, or those of a stream graph.

        The graph is that of the job as it was when it took the snapshot, but with the uids that it sets now.
        """
        from pyspark_savepoint.savepoint.restore_checks import with_uids

        return with_uids(self, uids)

    def restore_plan(self, job: Job | Savepoint, *, stream_graph_hasher: str = "v2") -> DataFrame:
        """Which state goes to which subtask of the job: one row per operator and subtask."""
        from pyspark_savepoint.savepoint.restore_checks import plan_table

        return plan_table(self, job, stream_graph_hasher)

    def operator_at(self, graph: StreamGraph, name: str, *, stream_graph_hasher: str = "v2") -> OperatorIdentifier:
        """The operator at a place in the job's graph, by its name there: for operators without uid."""
        from pyspark_savepoint.savepoint.restore_checks import identifier_at

        return identifier_at(self, graph, name, stream_graph_hasher)

    # -- writing ---------------------------------------------------------------------------------------------

    @property
    def is_portable(self) -> bool:
        """Whether every state backend restores it: all keyed state is in the canonical format."""
        from pyspark_savepoint.plan.rewritten_parts import is_portable

        return all(is_portable(operator) for operator in self.plan.operators)

    def write(
        self,
        path: str | PathLike[str],
        *,
        flink_version: str | None = None,
        files: str = "copy",
        portable: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Savepoint:
        """Write the savepoint to a new path, and return it, loaded from there.

        ``flink_version`` is the oldest Flink that must restore it, and decides the version of the metadata: 4 for
        Flink 1, 5 for 2.0, 6 from 2.1 on. Without it the version of the base stays, and what begins with
        :meth:`create` gets version 4, which all releases from 1.16 on read. Uids and names of operators are recorded
        from version 5 on: before, only the hash of a uid is. A job finds its state by that hash, and so does this
        package given the uid; but nothing that lists operators can show what their uids are. What is asked for is kept:
        untouched state in a newer form is written anew; what that Flink has no class for is refused, all of it at once.
        ``portable``: also untouched keyed state is written in the canonical format, which every state backend restores;
        without it, files of RocksDB stay as they are, and restore on RocksDB alone (:attr:`is_portable`).
        ``files``: ``copy`` makes it stand alone, so that it can be moved; ``reference`` leaves untouched files where
        they are. What it is made of is never changed. ``storage_options`` say how the store of the path is reached,
        where that is not as this was loaded. Raises StateExistsError where the path has a savepoint.
        """
        from pyspark_savepoint.options.write_options import SavepointWriteOptions
        from pyspark_savepoint.plan.savepoint_writer import SavepointWriter

        path = located(self.spark, path)
        if not self.plan.operators:
            raise OptionError(
                "a savepoint without operators is not written: no job would restore anything from it",
                path=path,
                remedy="with_operator(uid, ...) adds one",
            )
        given = to_options({"path": path, "uid": "any", "flink_version": flink_version})
        version = SavepointWriteOptions.parse(given).flink_version
        options = {OPTION: self.options[OPTION]} if OPTION in self.options else {}
        options |= to_options({OPTION: storage_options})
        SavepointWriter.to(self.spark, self.plan, reached(path, options), files, version, portable).run()
        options |= {"allowOutside": "true"} if files == "reference" else {}
        return Savepoint.load(self.spark, path, **{**self.options, **options})
