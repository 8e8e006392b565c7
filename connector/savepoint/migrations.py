"""Migration of a :class:`Savepoint` to another release of Flink: what ``Savepoint.migrate`` returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Generic, TypeVar

from pyspark_savepoint.local.migrating import Migration
from pyspark_savepoint.options.paths import located, reached
from pyspark_savepoint.savepoint.context import SavepointContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

S = TypeVar("S")


@dataclass(frozen=True)
class SavepointMigration(Generic[S]):
    """A migration that is not written yet; made by ``Savepoint.migrate``."""

    context: SavepointContext
    migration: Migration
    load: Callable[[str], S]

    def check(self) -> DataFrame:
        """Return the verdicts about all parts of the state, the worst first."""
        return self.context.spark.createDataFrame(self.migration.check().to_arrow())

    def write(self, path: str | PathLike[str]) -> S:
        """Write the migrated savepoint to a new path, and load it from there.

        ``_metadata`` is written last: before, nothing is visible.

        Args:
            path: The folder of the new savepoint.

        Returns:
            The new savepoint.

        Raises:
            UnsupportedStateError: If something is not known that a part of the state needs; nothing is written then.
            StateExistsError: If there is a savepoint at the path.

        Example::

            sp.migrate("2.3", classes=["job.jar"]).write("/savepoints/for-2.3")

        """
        target = located(self.context.spark, path)
        self.migration.write(reached(target, self.context.options))
        return self.load(target)
