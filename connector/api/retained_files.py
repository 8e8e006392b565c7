"""Which bytes each checkpoint of a folder holds, and files that none needs: a table, and command ``retained``."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from os import PathLike
from typing import Any, Unpack

import pyarrow as pa

from pyspark_savepoint.engines.arrow.local_table import ComputedTable, LocalTable
from pyspark_savepoint.formats.errors import SavepointWarning
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.formats.snapshot.retained import Retained, RetainedSnapshot, Unneeded, retained
from pyspark_savepoint.options.keywords import StoreOptions
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.options.paths import reached, snapshot_path

MAX_LISTED = 5
_TIME = pa.timestamp("us", "UTC")
RETAINED_SCHEMA = pa.schema(
    {
        "path": pa.string(), "kind": pa.string(), "checkpoint_id": pa.int64(), "time": _TIME, "alone": pa.int64(),
        "shared": pa.int64(), "outside": pa.int64(), "problem": pa.string(),
    }
)  # fmt: skip
UNNEEDED = pa.schema({"path": pa.string(), "bytes": pa.int64(), "modified": _TIME, "note": pa.string()})


def open_retained(
    folder: str | PathLike[str], *, unneeded: bool = False, **options: Unpack[StoreOptions]
) -> LocalTable:
    """Show which bytes each snapshot below a folder holds, or the files that none of them needs.

    Nothing is deleted. A running job may still need files that are listed. So may snapshots elsewhere, such as those of
    a job that was restored from one of these. Spark is not needed.

    Args:
        folder: A folder with snapshots, such as that of a job's checkpoints.
        unneeded: Return the files that no snapshot below the folder needs.
        **options: ``storage_options``.

    Returns:
        One row per snapshot, newest first: ``path``, ``kind``, ``checkpoint_id``, ``time``, and bytes: ``alone`` (they
        become free if it is deleted), ``shared`` with others below the folder, ``outside`` of it. They are NULL if the
        snapshot cannot be read: ``problem`` says why. With ``unneeded`` one row per file: ``path``, ``bytes``,
        ``modified``, ``note``. There are none, with a warning, if a snapshot cannot be read.

    Raises:
        SnapshotNotFoundError: If there is no folder at the path.

    Example::

        pyspark_savepoint.open_retained("/checkpoints/7d2e").to_pandas().sort_values("alone")

    """
    in_folder = retained_below(absolute(snapshot_path(folder)), to_options(options))
    if in_folder.unknown and unneeded:
        warnings.warn(uncertainty(in_folder), SavepointWarning, stacklevel=2)
    rows = unneeded_rows(in_folder) if unneeded else retained_rows(in_folder)
    return ComputedTable.of(pa.Table.from_pylist(list(rows), UNNEEDED if unneeded else RETAINED_SCHEMA))


def retained_below(folder: str, options: Mapping[str, str]) -> Retained:
    """Return what the snapshots below a folder hold, by options of the data source."""
    return retained(reached(folder, options), lambda path: reached(path, options))


def retained_rows(retained: Retained) -> Iterable[dict[str, Any]]:
    """Yield a row for each snapshot."""
    return (_retained_row(one) for one in retained.snapshots)


def unneeded_rows(retained: Retained) -> Iterable[dict[str, Any]]:
    """Yield a row for each file that no snapshot needs."""
    return (_unneeded_row(one) for one in retained.unneeded)


def uncertainty(retained: Retained) -> str:
    """Return why it is not known which files none needs."""
    more = f"; and {len(retained.unknown) - MAX_LISTED} more" * (len(retained.unknown) > MAX_LISTED)
    return f"which files none needs is not known, and none is listed: {'; '.join(retained.unknown[:MAX_LISTED])}{more}"


def _retained_row(one: RetainedSnapshot) -> dict[str, Any]:
    snapshot = one.snapshot
    return {
        "path": snapshot.path,
        "kind": snapshot.kind.value,
        "checkpoint_id": snapshot.checkpoint_id,
        "time": _time(snapshot.modified),
        "alone": one.alone,
        "shared": one.shared,
        "outside": one.outside,
        "problem": snapshot.problem,
    }


def _unneeded_row(one: Unneeded) -> dict[str, Any]:
    return {"path": one.path, "bytes": one.size, "modified": _time(one.modified), "note": one.note}


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
