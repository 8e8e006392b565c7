"""A snapshot as one object: its tables, and (FLIP-43) what becomes of it.

::

    sp = Savepoint.load(spark, "/savepoints/savepoint-2f1a3c")
    sp.states().show()
    sp.keyed_state("accounts").where("total > 100")
    sp.remove_operator("audit").change_operator_identifier("accounts", "customers").write("/savepoints/new")

Flink's twins: ``SavepointReader``, ``SavepointWriter``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.savepoint import Savepoint as Snapshot
from pyspark_savepoint.option_values import to_options
from pyspark_savepoint.savepoint_plan import Named, SavepointPlan, identifier_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


class Savepoint:
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
    def create(cls, spark: SparkSession) -> Savepoint:
        """A savepoint without operators."""
        return cls(spark, SavepointPlan())

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

    # -- operators -------------------------------------------------------------------------------------------

    def remove_operator(self, uid: Named) -> Savepoint:
        """Without an operator and all its state."""
        return self._planned(self.plan.without(self.plan.operator(uid)))

    def change_operator_identifier(self, old: Named, new: Named) -> Savepoint:
        """With an operator under another uid, or uid hash."""
        return self._planned(self.plan.with_identifier(self.plan.operator(old), identifier_of(new)))

    def merge(self, other: Savepoint) -> Savepoint:
        """With all operators of another savepoint; StateExistsError where both have one."""
        return self._planned(self.plan.merged(other.plan))

    def relocate(self, old: str, new: str) -> Savepoint:
        """With another prefix in absolute paths of files: for snapshots whose shared files were moved."""
        return self._planned(self.plan.relocated(old, new))

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

    def _planned(self, plan: SavepointPlan) -> Savepoint:
        return Savepoint(self.spark, plan, None, self.options)
