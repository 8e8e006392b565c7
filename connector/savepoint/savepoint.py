"""A snapshot as one object: its tables, and (FLIP-43) what becomes of it.

::

    sp = Savepoint.load(spark, "/savepoints/savepoint-2f1a3c")
    sp.states().show()
    sp.keyed_state("accounts").where("total > 100")
    sp.remove_operator("audit").change_operator_identifier("accounts", "customers").write("/savepoints/new")

Flink: ``SavepointReader``, ``SavepointWriter``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from pyspark_savepoint.formats.io.storage_options import OPTION
from pyspark_savepoint.formats.metadata.key_groups import check_parallelism
from pyspark_savepoint.formats.snapshot.savepoint import Savepoint as Snapshot
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.options.paths import located, reached
from pyspark_savepoint.plan.savepoint_plan import OperatorRef, SavepointPlan, identifier_of
from pyspark_savepoint.savepoint.insights import SavepointInsights
from pyspark_savepoint.savepoint.savepoint_edits import SavepointEdits
from pyspark_savepoint.savepoint.savepoint_tables import SavepointTables
from pyspark_savepoint.statebackends.writing.planning.write_request import DEFAULT_MAX_PARALLELISM

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_savepoint.formats.metadata.identifiers import OperatorIdentifier
    from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph
    from pyspark_savepoint.statebackends.jobs.restore.job_reader import Job

NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


class Savepoint(SavepointTables, SavepointEdits, SavepointInsights):
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

        A relative path begins where Spark's own do, in the working directory of the driver's JVM; on Connect in that
        of this process. Raises SnapshotNotFoundError, which names the snapshots below the path where it is not one
        itself.
        """
        path, texts = located(spark, path), to_options(options)
        snapshot = Snapshot.open(reached(path, texts), allow_outside=texts.get("allowOutside") == "true")
        return cls(spark, SavepointPlan.of(snapshot, path, texts), path, texts)

    @classmethod
    def create(cls, spark: SparkSession, *, max_parallelism: int = DEFAULT_MAX_PARALLELISM) -> Savepoint:
        """A savepoint without operators; ``max_parallelism`` is that of those that will be added.

        :meth:`write` gives it metadata of version 4, which records no uids, but their hashes; with
        ``flink_version="2.0"`` or later also the uids.
        """
        check_parallelism(max_parallelism, 1)
        return cls(spark, SavepointPlan(max_parallelism=max_parallelism))

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
        path: str,
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
        given = to_options({"path": path, "uid": "any", "flink_version": flink_version})
        version = SavepointWriteOptions.parse(given).flink_version
        options = {OPTION: self.options[OPTION]} if OPTION in self.options else {}
        options |= to_options({OPTION: storage_options})
        SavepointWriter.to(self.spark, self.plan, reached(path, options), files, version, portable).run()
        options |= {"allowOutside": "true"} if files == "reference" else {}
        return Savepoint.load(self.spark, path, **{**self.options, **options})

    def _planned(self, plan: SavepointPlan) -> Self:
        return type(self)(self.spark, plan, None, self.options)
