"""The class Savepoint: the tables of a snapshot, and the operations that derive a new savepoint from it (FLIP-43).

::

    sp = Savepoint.load(spark, "/savepoints/savepoint-2f1a3c")
    sp.states().show()
    sp.keyed_state("accounts").where("total > 100")
    sp.remove_operator("audit").change_operator_identifier("accounts", "customers").write("/savepoints/new")

Flink: ``SavepointReader``, ``SavepointWriter``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Unpack

from pyspark.sql import DataFrame

from pyspark_savepoint.api.spark.catalog import create_tables_of_snapshot, drop_tables_of_snapshot
from pyspark_savepoint.api.summaries import history_of
from pyspark_savepoint.api.verbs import SavepointVerbs
from pyspark_savepoint.engines.spark.spark_engine import SparkEngine
from pyspark_savepoint.formats.errors import OptionError, type_name
from pyspark_savepoint.formats.filesystems.storage_options import OPTION
from pyspark_savepoint.formats.metadata.key_groups import check_parallelism
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.options.operators import OperatorRef
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.options.options import opened_at
from pyspark_savepoint.options.paths import located, reached, snapshot_path
from pyspark_savepoint.options.worker_python import check_worker_python, expect_session
from pyspark_savepoint.plan.savepoint_plan import SavepointPlan, expect_backend
from pyspark_savepoint.plan.state_inputs import refuse_to_choose
from pyspark_savepoint.statebackends.requests.parallelism import DEFAULT_MAX_PARALLELISM
from pyspark_savepoint.text.doors import of_verbs
from pyspark_savepoint.text.helpful_names import own_arguments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_savepoint.options.keywords import OpenOptions, SnapshotOptions

NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


class Savepoint(SavepointVerbs[DataFrame, DataFrame]):
    """A savepoint or checkpoint. It is immutable: every change returns a new Savepoint, which :meth:`write` writes.

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
    _looking = "show()"
    _worded = staticmethod(of_verbs)

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

        A relative path is relative to the working directory of the driver's JVM, as in Spark, and on Connect to that of
        this process.

        Args:
            spark: The session, classic or Connect.
            path: The folder of a savepoint or of a retained checkpoint, or its ``_metadata`` file. With
                ``version_as_of`` (a checkpoint id, or ``latest``) or ``timestamp_as_of`` (a time) a folder of several.
            state_backend: The state backend of the job that restores the written savepoint, as in :meth:`create`.
            **options: Options of the data source, which apply to all tables of the snapshot.

        Returns:
            The snapshot.

        Raises:
            OptionError: If the state backend restores no canonical savepoint.
            SnapshotNotFoundError: If there is no snapshot at the path. The error names those in folders below.
            CorruptStateError: If ``_metadata`` is damaged.

        Example::

            sp = Savepoint.load(spark, "s3://bucket/sp", storage_options={"region": "eu-west-1"})
            newest = Savepoint.load(spark, "s3://bucket/checkpoints/7d2e", version_as_of="latest")

        """
        expect_session(spark, "Savepoint.load(spark, path)")
        check_worker_python(spark)
        expect_backend(state_backend)
        refuse_to_choose(to_options(options))
        loaded = opened_at(
            {**to_options(options), "path": located(spark, snapshot_path(path))},
            lambda texts: cls._loaded(spark, texts.pop("path"), texts),
        )
        return cls(spark, replace(loaded.plan, state_backend=state_backend), loaded.path, loaded.options)

    @classmethod
    def _loaded(cls, spark: SparkSession, path: str, texts: Mapping[str, str]) -> Savepoint:
        snapshot = Snapshot.open(reached(path, texts), allow_outside=texts.get("allowOutside") == "true")
        return cls(spark, SavepointPlan.of(snapshot, path, texts), path, texts)

    @classmethod
    @own_arguments
    def create(
        cls,
        spark: SparkSession,
        *,
        max_parallelism: int = DEFAULT_MAX_PARALLELISM,
        state_backend: Literal["hashmap", "rocksdb"] | None = None,
    ) -> Savepoint:
        """Return a new savepoint without operators, which is not written yet.

        :meth:`write` writes metadata of version 4, which has only the hashes of uids. This package appends the uids for
        its own reads. With ``flink_version="2.0"`` or later the metadata has both.

        Args:
            spark: The session, classic or Connect.
            max_parallelism: The number of key groups of the operators that will be added, 1 to 32768.
            state_backend: The state backend of the job that restores it. State is written in the canonical format,
                which is the same for ``hashmap`` and ``rocksdb``. ``forst`` restores none. Operators that are taken
                from other savepoints get it too, if their files are not canonical. For ``rocksdb`` files of its
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

    # -- tables in the catalog ---------------------------------------------------------------------------------

    def create_tables(self, prefix: str | None = None) -> list[str]:
        """Create a namespace for each operator and a view for each of its tables in Spark's catalog.

        The views are ``accounts.keyed_state``, ``currency_converter.rates``, ``sizes`` in namespace ``savepoint`` and
        so on. Namespaces that were created from the same snapshot are replaced.

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
        return create_tables_of_snapshot(self.spark, self.states(), self._read_path(), self.options, prefix)

    def drop_tables(self) -> list[str]:
        """Drop the views and namespaces that :meth:`create_tables` created from this snapshot.

        Returns:
            The names of the namespaces that were dropped. One that contains other tables remains.

        Example::

            sp.drop_tables()

        """
        return drop_tables_of_snapshot(self.spark, self._read_path())

    def _named(self, uid: OperatorRef | None) -> dict[str, str]:
        return {} if uid is None else {"uidHash": self.plan.operator(uid).identifier.operator_id.hex}

    def _at(self, path: str, options: Mapping[str, str]) -> Savepoint:
        return self._loaded(self.spark, path, options)

    def _planned(self, plan: SavepointPlan) -> Savepoint:
        return Savepoint(self.spark, plan, None, self.options)


def history(
    spark: SparkSession,
    folder: str | PathLike[str],
    uid: OperatorRef | None = None,
    *,
    last: int | None = None,
    changes: bool = False,
    **options: Unpack[SnapshotOptions],
) -> DataFrame:
    """Return the union of one table over all snapshots below a folder, with columns ``checkpoint_id`` and ``snapshot``.

    Snapshots that do not have the operator, or cannot be read, are skipped. A state that only some snapshots have is
    NULL in the rows of the others.

    Args:
        spark: The session, classic or Connect.
        folder: A folder of savepoints or retained checkpoints, such as that of a job's checkpoints.
        uid: The operator. None for a table about all operators.
        last: The number of newest snapshots to read. All by default.
        changes: Return what :meth:`Savepoint.diff` counts between each snapshot and the one before it, by operator and
            state, instead of a table.
        **options: Options of a read, such as ``table``, ``state``. Without ``uid``, ``table`` is ``metadata`` by
        default.

    Returns:
        ``checkpoint_id``, ``snapshot`` (its path), and the columns of the table. Oldest snapshots first.

    Raises:
        SnapshotNotFoundError: If no snapshot below the folder can be read.
        OperatorNotFoundError: If none of them has the operator.
        OptionError: If ``last`` is below 1, an option is invalid, or ``changes`` has options.

    Example::

        pyspark_savepoint.history(spark, "/checkpoints/7d2e", "accounts").groupBy("checkpoint_id").sum("total").show()

    """
    expect_session(spark, "pyspark_savepoint.history(spark, folder)")
    texts = to_options(options)
    storage = {name: text for name, text in texts.items() if name == OPTION}
    at = located(spark, folder)
    engine = SparkEngine(spark)

    def opened(path: str) -> Savepoint:
        return Savepoint._loaded(spark, path, storage)

    table: DataFrame = history_of(engine, opened, at, str(folder), uid, last, changes, texts)
    return table
