"""Tables at a path by options of the data source, without Spark: what commands show."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_savepoint.engines.arrow.local_table import LocalTable, SnapshotTable
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.formats.snapshot.histories import SnapshotInfo
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.paths import snapshot_path

__all__ = ["LocalTable", "SnapshotTable", "changes_between", "same_table", "table_at"]


def table_at(path: str, options: Mapping[str, str]) -> SnapshotTable:
    """Return the table of a snapshot that options choose; its path may be relative."""
    return SnapshotTable.of(SavepointReadOptions.parse({**options, "path": absolute(snapshot_path(path))}))


def same_table(table: SnapshotTable) -> SnapshotTable:
    """Return the table with all of its columns."""
    return SnapshotTable.of(table.options)


def changes_between(table: SnapshotTable, before: SnapshotInfo | None, newer: SnapshotInfo) -> SnapshotTable:
    """Return the changes of the same table from one snapshot to another; None for those before all."""
    return SnapshotTable.of(table.options.between([before, newer]))
