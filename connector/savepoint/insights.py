"""What a loaded snapshot tells of itself: sizes, heavy keys, ages; its tables as a database; what has changed.

The methods of :class:`~pyspark_savepoint.savepoint.savepoint.Savepoint` that only read, over the tables of the data
source.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from pyspark_savepoint.catalog.namespaces import create_tables, drop_tables
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.savepoint.display import html_tree, text_tree

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_savepoint.formats.metadata.identifiers import OperatorIdentifier
    from pyspark_savepoint.plan.savepoint_plan import SavepointPlan
    from pyspark_savepoint.savepoint.savepoint import Savepoint

NAMES = ("operator_uid", "operator_uid_hash", "operator_name", "table", "state")


class SavepointInsights:
    """The base class of Savepoint that has what only reads."""

    spark: SparkSession
    plan: SavepointPlan
    path: str | None
    options: Mapping[str, str]

    def table(self, **options: Any) -> DataFrame:
        """Any table of the snapshot, by the options of the data source."""
        raise NotImplementedError

    # -- what is in here, how big, how skewed ------------------------------------------------------------------

    def sizes(self, uid: str | OperatorIdentifier | None = None, **options: Any) -> DataFrame:
        """Entries and bytes of every state in every key group, of one operator or of all; nothing is decoded."""
        return self.table(table="sizes", **self._of(uid), **options)

    def heaviest_keys(self, uid: str | OperatorIdentifier | None = None, n: int = 20, **options: Any) -> DataFrame:
        """The ``n`` keys (and windows) of every state that take the most bytes, heaviest first."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F  # noqa: N812

        found = self.table(table="heaviest_keys", top=n, **self._of(uid), **options)
        ranks = Window.partitionBy("operator_uid_hash", "table", "state").orderBy(F.desc("bytes"), "key", "window")
        ranked = found.withColumn("rank", F.row_number().over(ranks))
        return ranked.where(F.col("rank") <= n).orderBy("operator_uid", "operator_uid_hash", "table", "state", "rank")

    def verify(self, uid: str | OperatorIdentifier | None = None, **options: Any) -> DataFrame:
        """Walk every byte of every state, of one operator or of all: one row per state and subtask, errors first.

        ``status`` is ``ok``, ``warning`` or ``error``; ``note`` says what was found, and what nobody but the user's
        code can check. Errors are rows, not exceptions.
        """
        from pyspark.sql import functions as F  # noqa: N812

        found = self.table(table="verification", **self._of(uid), **options)
        worst = F.when(F.col("status") == "error", 0).when(F.col("status") == "warning", 1).otherwise(2)
        return found.orderBy(worst, "operator_uid", "operator_uid_hash", "table", "state", "subtask", "first_key_group")

    def ttl_ages(self, uid: str | OperatorIdentifier | None = None, **options: Any) -> DataFrame:
        """How many units of states with a time to live were last accessed how long before the snapshot."""
        from pyspark.sql import functions as F  # noqa: N812

        found = self.table(table="ttl_ages", **self._of(uid), **options)
        grouped = found.groupBy(*NAMES, "from_seconds", "to_seconds", "snapshot_time", "note").agg(
            F.sum("units").alias("units"), F.min("oldest").alias("oldest"), F.max("newest").alias("newest")
        )
        order = ["operator_uid", "operator_uid_hash", "table", "state", "from_seconds"]
        columns = [*NAMES, "from_seconds", "to_seconds", "units", "oldest", "newest", "snapshot_time", "note"]
        return grouped.select(*columns).orderBy(*order)

    def _of(self, uid: str | OperatorIdentifier | None) -> dict[str, str]:
        """The options that name an operator, where there is one; OperatorNotFoundError names the nearest."""
        return {} if uid is None else {"uidHash": self.plan.operator(uid).identifier.operator_id.hex}

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

    def _read_path(self) -> str:
        if self.path is None:
            raise OptionError(
                "this savepoint is not written yet, so it has no tables", remedy="go on with what write(path) returns"
            )
        return self.path

    # -- what has changed --------------------------------------------------------------------------------------

    def diff(self, newer: Savepoint, uid: str | None = None, **chosen: Any) -> DataFrame:
        """What has changed from this snapshot to another: in numbers, or of one operator row by row.

        ``chosen``: ``table`` and ``state``, as :func:`pyspark_savepoint.diff` takes them.
        """
        from pyspark_savepoint.savepoint.differences import diff

        return diff(cast("Savepoint", self), newer, uid, **chosen)

    # -- how it looks ------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return text_tree(self.plan, self.path)

    def _repr_html_(self) -> str:
        return html_tree(self.plan, self.path, self.options)
