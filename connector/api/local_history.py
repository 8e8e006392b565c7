"""One table from all snapshots below a folder, or its changes, without Spark: ``open_history``, ``open_changes``."""

from __future__ import annotations

import warnings
from datetime import datetime
from os import PathLike
from typing import TYPE_CHECKING, Literal, Unpack

from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.api.summaries import history_of
from pyspark_savepoint.engines.arrow.local_engine import LocalEngine
from pyspark_savepoint.engines.arrow.local_table import LocalHistory, SnapshotTable
from pyspark_savepoint.formats.errors import SavepointWarning
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.formats.filesystems.storage_options import OPTION
from pyspark_savepoint.formats.metadata.identifiers import OperatorIdentifier
from pyspark_savepoint.formats.snapshot.as_of import LATEST
from pyspark_savepoint.options.operators import OperatorRef, operator_options
from pyspark_savepoint.options.option_values import feed_options, to_options
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.paths import path_text
from pyspark_savepoint.plan.state_inputs import refuse_own
from pyspark_savepoint.statebackends.requests.applicability import FEED

if TYPE_CHECKING:
    from pyspark_savepoint.options.keywords import SnapshotOptions


def open_history(
    folder: str | PathLike[str],
    uid: str | OperatorIdentifier | None = None,
    *,
    last: int | None = None,
    changes: bool = False,
    **options: Unpack[SnapshotOptions],
) -> LocalHistory:
    """Open one table of all snapshots below a folder, without Spark and Java: :func:`history` with Spark.

    Snapshots that do not have the operator, or cannot be read, are skipped.

    Args:
        folder: A folder of savepoints or retained checkpoints, such as that of a job's checkpoints.
        uid: The operator. None for a table about all operators.
        last: The number of newest snapshots to read. All by default.
        changes: Return what :meth:`LocalSavepoint.diff` counts between each snapshot and the one before it, by operator
            and state, instead of a table.
        **options: Options of a read, such as ``table``, ``state``. Without ``uid``, ``table`` is ``metadata`` by
            default.

    Returns:
        ``checkpoint_id``, ``snapshot`` (its path), and the columns of the table. Oldest snapshots first.

    Raises:
        SnapshotNotFoundError: If no snapshot below the folder can be read.
        OperatorNotFoundError: If none of them has the operator.
        OptionError: If ``last`` is below 1, an option is invalid, or ``changes`` has options.

    Example::

        pyspark_savepoint.open_history("/checkpoints/7d2e", table="offsets").to_arrow()

    """
    history = history_here(absolute(path_text(folder)), uid, last, changes, to_options(options))
    for warning in history.warnings:
        warnings.warn(warning, SavepointWarning, stacklevel=2)
    return history


def open_changes(
    folder: str | PathLike[str],
    uid: str | OperatorIdentifier | None = None,
    *,
    start: int | datetime | str = 0,
    end: int | datetime | str = LATEST,
    deduplication_mode: Literal["dropCarryovers", "none", "netChanges"] = "dropCarryovers",
    **options: Unpack[SnapshotOptions],
) -> SnapshotTable:
    """Open the changes of one table from snapshot to snapshot below a folder, without Spark and Java.

    With Spark the same are ``spark.read.format("savepoint").option("readChangeFeed", True)``. Which snapshots there are
    is looked up now. Their state is read when the rows are.

    Args:
        folder: A folder of savepoints or retained checkpoints, such as that of a job's checkpoints.
        uid: The operator. None for tables ``splits`` and ``offsets`` of all sources.
        start: The first changes, by a checkpoint id or a time: those since the snapshot before it. 0: all rows of the
            first snapshot are inserts.
        end: The last changes, inclusive, by a checkpoint id or a time.
        deduplication_mode: ``dropCarryovers`` leaves out rows whose values are as before. ``none`` shows those of keyed
            state of which only bytes changed. ``netChanges`` shows one net change per row, and none of a row that is
            the same at both ends, whatever it was between.
        **options: Options of a read, such as ``table``, ``state``.

    Returns:
        ``_change_type`` (``insert``, ``delete``, ``update_preimage``, ``update_postimage``), ``_commit_version`` (the
        checkpoint id), ``_commit_timestamp`` (when that snapshot was complete), and the columns of the table.

    Raises:
        SnapshotNotFoundError: If there is no such snapshot, or none before the first. The error says what there is.
        OperatorNotFoundError: If the newest of them does not have the operator.
        UnsupportedStateError: If columns of the table changed in between.
        OptionError: If an option is invalid.

    Example::

        pyspark_savepoint.open_changes("/checkpoints/7d2e", "accounts", start=42, state="total").to_arrow()

    """
    own = {**to_options(feed_options(start, end, deduplication_mode)), **operator_options(uid)}
    texts = to_options(options)
    refuse_own(texts, {*FEED, *own})
    table = SnapshotTable.of(SavepointReadOptions.parse({**texts, **own, "path": absolute(path_text(folder))}))
    for warning in table.warnings:
        warnings.warn(warning, SavepointWarning, stacklevel=2)
    return table


def history_here(
    folder: str, uid: OperatorRef | None, last: int | None, changes: bool, options: dict[str, str]
) -> LocalHistory:
    """Return one table of all snapshots below a folder, by options of the data source."""
    storage = {name: text for name, text in options.items() if name == OPTION}
    engine = LocalEngine()

    def opened(path: str) -> LocalSavepoint:
        return LocalSavepoint(path, storage)

    history: LocalHistory = history_of(engine, opened, folder, folder, uid, last, changes, options)
    return history
