"""A snapshot as one object: its tables, and (FLIP-43) what becomes of it.

::

    sp = Savepoint.load(spark, "/savepoints/savepoint-2f1a3c")
    sp.states().show()
    sp.keyed_state("accounts").where("total > 100")

Flink's twins: ``SavepointReader``, ``SavepointWriter``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pyspark_savepoint.formats.identifiers import OperatorIdentifier
from pyspark_savepoint.formats.savepoint import Savepoint as Snapshot
from pyspark_savepoint.option_values import to_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UID_HASH = re.compile(r"[0-9a-fA-F]{32}")


class Savepoint:
    """A savepoint or checkpoint; immutable. Operators are named by uid, by uid hash, or by an OperatorIdentifier."""

    def __init__(self, spark: SparkSession, path: str, options: dict[str, str]) -> None:
        """Not for users, who have :meth:`load`."""
        self.spark = spark
        self.path = path
        self.options = options

    @classmethod
    def load(cls, spark: SparkSession, path: str, **options: Any) -> Savepoint:
        """The snapshot at a path; the options are those of the data source, and hold for all of its tables.

        Raises SnapshotNotFoundError, which names the snapshots below the path where it is not one itself.
        """
        savepoint = cls(spark, path, to_options(options))
        savepoint.snapshot()
        return savepoint

    def snapshot(self) -> Snapshot:
        """What ``_metadata`` says."""
        return Snapshot.open(self.path, allow_outside=self.options.get("allowOutside") == "true")

    # -- tables ----------------------------------------------------------------------------------------------

    def table(self, **options: Any) -> DataFrame:
        """Any table of the snapshot, by the options of the data source."""
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

    def keyed_state(self, uid: str | OperatorIdentifier, **options: Any) -> DataFrame:
        """Every key once, with a column for each state."""
        return self.table(**self._named(uid), table="keyed_state", **options)

    def window_state(self, uid: str | OperatorIdentifier, **options: Any) -> DataFrame:
        """Every key and window once, with a column for each state."""
        return self.table(**self._named(uid), table="window_state", **options)

    def timers(self, uid: str | OperatorIdentifier, **options: Any) -> DataFrame:
        """Every timer."""
        return self.table(**self._named(uid), table="timers", **options)

    def list_state(self, uid: str | OperatorIdentifier, name: str, **options: Any) -> DataFrame:
        """The elements of a list state of the operator (split over its subtasks)."""
        return self.table(**self._named(uid), table="operator_state", state=name, **options)

    def union_state(self, uid: str | OperatorIdentifier, name: str, **options: Any) -> DataFrame:
        """The elements of a union list state of the operator."""
        return self.table(**self._named(uid), table="operator_state", state=name, **options)

    def broadcast_state(self, uid: str | OperatorIdentifier, name: str, **options: Any) -> DataFrame:
        """The entries of a broadcast state: key and value."""
        return self.table(**self._named(uid), table="operator_state", state=name, **options)

    def _named(self, uid: str | OperatorIdentifier) -> dict[str, str]:
        """The options that name an operator; OperatorNotFoundError names the nearest."""
        operator = find_operator(self.snapshot(), uid)
        return {"uidHash": str(operator)}


def find_operator(snapshot: Snapshot, named: str | OperatorIdentifier) -> str:
    """The uid hash of an operator of the snapshot, named by its uid or its uid hash."""
    if isinstance(named, OperatorIdentifier):
        return str(snapshot.operator(uid_hash=named.operator_id.hex).operator_id)
    hashes = {str(operator.operator_id) for operator in snapshot.operators}
    if UID_HASH.fullmatch(named) and named.lower() in hashes:
        return named.lower()
    return str(snapshot.operator(uid=named).operator_id)
