"""A snapshot as one object: its tables, and (FLIP-43) what becomes of it.

::

    sp = Savepoint.load(spark, "/savepoints/savepoint-2f1a3c")
    sp.states().show()
    sp.keyed_state("accounts").where("total > 100")
    sp.remove_operator("audit").change_operator_identifier("accounts", "customers").write("/savepoints/new")

Flink's twins: ``SavepointReader``, ``SavepointWriter``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.key_groups import check_parallelism
from pyspark_savepoint.formats.savepoint import Savepoint as Snapshot
from pyspark_savepoint.insights import SavepointInsights
from pyspark_savepoint.keyed_edits import with_keys_deleted, with_states
from pyspark_savepoint.operator_plan import OperatorPlan, OperatorRows
from pyspark_savepoint.option_values import to_options
from pyspark_savepoint.puts import put_rows, put_state, put_table
from pyspark_savepoint.savepoint_plan import Named, SavepointPlan, identifier_of
from pyspark_savepoint.statebackends.write_request import DEFAULT_MAX_PARALLELISM

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pyspark_savepoint.formats.identifiers import OperatorIdentifier
    from pyspark_savepoint.statebackends.job_reader import Job
    from pyspark_savepoint.statebackends.processing.functions import KeyedStateReaderFunction, WindowReaderFunction
    from pyspark_savepoint.statebackends.processing.state import AggregateFunction
    from pyspark_savepoint.statebackends.stream_graph import StreamGraph

NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


class Savepoint(SavepointInsights):
    """A savepoint or checkpoint; immutable: every change gives another one, and :meth:`write` writes it.

    Operators are named by uid, by uid hash (32 hex digits), or by an OperatorIdentifier.
    """

    def __init__(
        self, spark: SparkSession, plan: SavepointPlan, path: str | None = None, options: Mapping[str, str] = NO_OPTIONS
    ) -> None:
        """Not for users, who have :meth:`load` and :meth:`create`. Without a path it is not written yet."""
        self.spark = spark
        self.plan = plan
        self.path = path
        self.options = options

    @classmethod
    def load(cls, spark: SparkSession, path: str, **options: Any) -> Savepoint:
        """The snapshot at a path; the options are those of the data source, and hold for all of its tables.

        Raises SnapshotNotFoundError, which names the snapshots below the path where it is not one itself.
        """
        texts = to_options(options)
        snapshot = Snapshot.open(path, allow_outside=texts.get("allowOutside") == "true")
        return cls(spark, SavepointPlan.of(snapshot, path, texts), path, texts)

    @classmethod
    def create(cls, spark: SparkSession, *, max_parallelism: int = DEFAULT_MAX_PARALLELISM) -> Savepoint:
        """A savepoint without operators; ``max_parallelism`` is that of those that will be added."""
        check_parallelism(max_parallelism, 1)
        return cls(spark, SavepointPlan(max_parallelism=max_parallelism))

    # -- tables ----------------------------------------------------------------------------------------------

    def table(self, **options: Any) -> DataFrame:
        """Any table of the snapshot, by the options of the data source."""
        if self.path is None:
            raise OptionError(
                "this savepoint is not written yet, so it has no tables",
                remedy="read from what write(path) returns",
            )
        return self.spark.read.format("savepoint").options(**self.options, **to_options(options)).load(self.path)

    def states(self) -> DataFrame:
        """One row per state: where it is, what it is, and the options that read it."""
        return self.table(table="states")

    def operators(self) -> DataFrame:
        """One row per operator: name, uid, hash, parallelism, max parallelism, bytes."""
        return self.table(table="metadata")

    def metadata(self) -> DataFrame:
        """The same as :meth:`operators`, by the name of the table (FLIP-512)."""
        return self.table(table="metadata")

    def keyed_state(self, uid: Named, **options: Any) -> DataFrame:
        """Every key once, with a column for each state."""
        return self.table(**self._named(uid), table="keyed_state", **options)

    def window_state(self, uid: Named, **options: Any) -> DataFrame:
        """Every key and window once, with a column for each state."""
        return self.table(**self._named(uid), table="window_state", **options)

    def timers(self, uid: Named, **options: Any) -> DataFrame:
        """Every timer."""
        return self.table(**self._named(uid), table="timers", **options)

    def list_state(self, uid: Named, name: str, **options: Any) -> DataFrame:
        """The elements of a list state of the operator (split over its subtasks)."""
        return self.table(**self._named(uid), table="operator_state", state=name, **options)

    def union_state(self, uid: Named, name: str, **options: Any) -> DataFrame:
        """The elements of a union list state of the operator."""
        return self.table(**self._named(uid), table="operator_state", state=name, **options)

    def broadcast_state(self, uid: Named, name: str, **options: Any) -> DataFrame:
        """The entries of a broadcast state: key and value."""
        return self.table(**self._named(uid), table="operator_state", state=name, **options)

    def _named(self, uid: Named) -> dict[str, str]:
        """The options that name an operator; OperatorNotFoundError names the nearest."""
        return {"uidHash": self.plan.operator(uid).identifier.operator_id.hex}

    # -- functions -------------------------------------------------------------------------------------------

    def read_keyed_state(
        self, uid: Named, function: KeyedStateReaderFunction, schema: str | StructType, **options: Any
    ) -> DataFrame:
        """What a reader function yields of every key, with all of its states and timers.

        ``schema`` is that of the rows, such as ``key int, timers array<bigint>``; ``options`` are those of a read
        (``keys``, ``key_groups``, ``parallelism`` ...). Types of states come from the snapshot.
        """
        from pyspark_savepoint.reader_functions import read_keyed_state

        return read_keyed_state(self.spark, *self._named_options(uid, options), function, schema)

    def read_window(
        self,
        uid: Named,
        function: WindowReaderFunction,
        schema: str | StructType,
        *,
        aggregate: AggregateFunction[Any, Any, Any] | None = None,
        **options: Any,
    ) -> DataFrame:
        """What a reader function yields of every key and window: its contents, states and timers.

        With the job's ``aggregate`` the contents are its result, without it the accumulator.
        """
        from pyspark_savepoint.reader_functions import read_window

        return read_window(self.spark, *self._named_options(uid, options), function, schema, aggregate)

    def _named_options(self, uid: Named, options: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        if self.path is None:
            raise OptionError(
                "this savepoint is not written yet, so it has no state to read",
                remedy="read from what write(path) returns",
            )
        return self.path, {**self.options, **to_options(options), **self._named(uid)}

    # -- operators -------------------------------------------------------------------------------------------

    def with_operator(
        self,
        uid: Named,
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
        if isinstance(source, Savepoint):
            return self._planned(self.plan.taken(source.plan, uid))
        new = self.plan.new_operator(identifier_of(uid), name)
        plan = self.plan.with_new(new)
        if source is None:
            return self._planned(plan)
        if isinstance(source, OperatorRows):
            return self._planned(plan.with_changed(new, put_rows(new, source, options)))
        return self._planned(plan.with_changed(new, put_table(new, source, "keyed_state", {"key": key, **options})))

    def remove_operator(self, uid: Named) -> Savepoint:
        """Without an operator and all its state."""
        return self._planned(self.plan.without(self.plan.operator(uid)))

    def change_operator_identifier(self, old: Named, new: Named) -> Savepoint:
        """With an operator under another uid, or uid hash."""
        return self._planned(self.plan.with_identifier(self.plan.operator(old), identifier_of(new)))

    def assign_uid(self, operator: Named, uid: str) -> Savepoint:
        """With a uid for an operator that had none, and was known by its hash."""
        return self.assign_uids({str(identifier_of(operator).operator_id): uid})

    def assign_uids(self, uids: Mapping[str, str] | StreamGraph) -> Savepoint:
        """With uids for operators that had none: by hash, or those of a stream graph.

        The graph is that of the job as it was when it took the snapshot, but with the uids that it sets now.
        """
        from pyspark_savepoint.identify import with_uids

        return with_uids(self, uids)

    def merge(self, other: Savepoint) -> Savepoint:
        """With all operators of another savepoint; StateExistsError where both have one."""
        return self._planned(self.plan.merged(other.plan))

    def relocate(self, old: str, new: str) -> Savepoint:
        """With another prefix in absolute paths of files: for snapshots whose shared files were moved."""
        return self._planned(self.plan.relocated(old, new))

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
        self, uid: Named, df: DataFrame, *, key: str | Sequence[str] | None = None, **options: Any
    ) -> Savepoint:
        """With window state of an operator: a row for each key and ``window``, a column for each state."""
        return self._changed(uid, lambda plan: put_table(plan, df, "window_state", {"key": key, **options}))

    def with_timers(
        self, uid: Named, df: DataFrame, *, key: str | Sequence[str] | None = None, **options: Any
    ) -> Savepoint:
        """With timers of an operator: key, ``timestamp``, ``domain`` (``event``, ``processing``), ``service``."""
        return self._changed(uid, lambda plan: put_table(plan, df, "timers", {"key": key, **options}))

    def with_list_state(self, uid: Named, name: str, df: DataFrame, **options: Any) -> Savepoint:
        """With a list state of an operator (split over its subtasks): a row for each element."""
        return self._changed(uid, lambda plan: put_table(plan, df, "list", {"state": name, **options}))

    def with_union_state(self, uid: Named, name: str, df: DataFrame, **options: Any) -> Savepoint:
        """With a union list state of an operator: a row for each element."""
        return self._changed(uid, lambda plan: put_table(plan, df, "union", {"state": name, **options}))

    def with_broadcast_state(self, uid: Named, name: str, df: DataFrame, **options: Any) -> Savepoint:
        """With a broadcast state of an operator: ``key`` and ``value``."""
        return self._changed(uid, lambda plan: put_table(plan, df, "broadcast", {"state": name, **options}))

    def with_state(self, uid: Named, name: str, df: DataFrame, **options: Any) -> Savepoint:
        """With one state of an operator replaced, or added; its other states, and its timers, stay byte for byte.

        ``df`` has the key and the state, as they are read (the state's column has its name, or is the only other one).
        A key that is not in it has no such state then. A state that is replaced keeps its type unless ``types`` says
        otherwise. Operator state is replaced by its name too.
        """
        return self._changed(uid, lambda plan: put_state(plan, name, df, options))

    def remove_state(self, uid: Named, name: str) -> Savepoint:
        """Without one state of an operator, or without the timers of a service."""
        return self._changed(uid, lambda plan: with_states(plan).without_state(name))

    def rename_state(self, uid: Named, old: str, new: str) -> Savepoint:
        """With one state of an operator, or a timer service, under another name."""
        return self._changed(uid, lambda plan: with_states(plan).with_renamed_state(old, new))

    def delete_keys(self, uid: Named, keys: DataFrame) -> Savepoint:
        """Without some keys: none of the operator's keyed states, windows and timers has them then.

        ``keys`` has column ``key`` as it is read, or one column, or the fields of a composite key.
        """
        return self._changed(uid, lambda plan: with_keys_deleted(plan, keys))

    # -- the job ---------------------------------------------------------------------------------------------

    def check_restore(
        self,
        job: Job | Savepoint,
        *,
        types: Mapping[str, Mapping[str, Any]] | None = None,
        flink_version: str | None = None,
        state_backend: str | None = None,
        allow_non_restored_state: bool = False,
        stream_graph_hasher: str = "v2",
    ) -> DataFrame:
        """Would this job restore the savepoint? One row per operator of either, the worst verdict first.

        A job is a mapping (``statebackends.job_description``), a StreamGraph, an execution plan or a plan of the REST
        interface as JSON, or a savepoint that the new job has taken. ``types`` (keys and states by uid or name),
        ``flink_version`` and ``state_backend`` are for graphs, which do not have them.
        """
        from pyspark_savepoint.identify import restore_table

        return restore_table(
            self,
            job,
            types=types,
            flink_version=flink_version,
            state_backend=state_backend,
            allow_non_restored_state=allow_non_restored_state,
            stream_graph_hasher=stream_graph_hasher,
        )

    def operator_at(self, graph: StreamGraph, name: str, *, stream_graph_hasher: str = "v2") -> OperatorIdentifier:
        """The operator at a place in the job's graph, by its name there: for operators without uid."""
        from pyspark_savepoint.identify import identifier_at

        return identifier_at(self, graph, name, stream_graph_hasher)

    # -- writing ---------------------------------------------------------------------------------------------

    def write(self, path: str, *, flink_version: str | None = None, files: str = "copy") -> Savepoint:
        """Write the savepoint to a new path, and return it, loaded from there.

        ``flink_version`` is the oldest Flink that must restore it; without it, that of the base stays.
        ``files``: ``copy`` makes it stand alone, so that it can be moved; ``reference`` leaves untouched files where
        they are. What it is made of is never changed. Raises StateExistsError where the path has a savepoint.
        """
        from pyspark_savepoint.savepoint_writer import SavepointWriter
        from pyspark_savepoint.write_options import SavepointWriteOptions

        given = to_options({"path": path, "uid": "any", "flink_version": flink_version})
        version = SavepointWriteOptions.parse(given).flink_version
        SavepointWriter.to(self.spark, self.plan, path, files, version).run()
        options = {"allowOutside": "true"} if files == "reference" else {}
        return Savepoint.load(self.spark, path, **{**self.options, **options})

    def _changed(self, uid: Named, change: Callable[[OperatorPlan], OperatorPlan]) -> Savepoint:
        operator = self.plan.operator(uid)
        return self._planned(self.plan.with_changed(operator, change(operator)))

    def _planned(self, plan: SavepointPlan) -> Savepoint:
        return Savepoint(self.spark, plan, None, self.options)
