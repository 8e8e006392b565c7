"""One table from all snapshots below a folder, or its changes, without Spark: ``open_history``, ``open_changes``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Unpack

import pyarrow as pa

from pyspark_savepoint.execution.texts import numbered
from pyspark_savepoint.formats.errors import (
    OperatorNotFoundError,
    OptionError,
    SavepointWarning,
    UnsupportedStateError,
)
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.formats.metadata.identifiers import OperatorIdentifier
from pyspark_savepoint.formats.redaction import shown
from pyspark_savepoint.formats.snapshot.as_of import LATEST, readable_snapshots
from pyspark_savepoint.local.local_table import LocalTable, SnapshotTable, columns_of
from pyspark_savepoint.options.operators import operator_options
from pyspark_savepoint.options.option_values import feed_options, to_options
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.paths import path_text, reached

if TYPE_CHECKING:
    from pyspark_savepoint.options.keywords import SnapshotOptions
    from pyspark_savepoint.statebackends.model.arrow_types import ArrowBatch

CHECKPOINT_ID, SNAPSHOT = "checkpoint_id", "snapshot"


@dataclass(frozen=True)
class Part:
    """The table of one snapshot."""

    checkpoint_id: int
    snapshot: str
    table: SnapshotTable


@dataclass(frozen=True, repr=False)
class LocalHistory(LocalTable):
    """One table of several snapshots, with columns ``checkpoint_id`` and ``snapshot``; oldest snapshots first.

    Args:
        parts: The tables of the snapshots, oldest first.
        schema: The Arrow schema of every batch.

    Example::

        pyspark_savepoint.open_history("/checkpoints/7d2e", "accounts", state="total").to_arrow()

    """

    parts: tuple[Part, ...]
    schema: pa.Schema

    def __repr__(self) -> str:
        """Return one line: the snapshots, and the columns."""
        first, last = self.parts[0].checkpoint_id, self.parts[-1].checkpoint_id
        of = f"{numbered(len(self.parts), 'snapshot')}, checkpoints {first} to {last}"
        return shown(f"<LocalHistory of {of}: {columns_of(self.schema)}>", line=True)

    @classmethod
    def of(cls, parts: tuple[Part, ...]) -> LocalHistory:
        """Internal: join the columns of all parts by name; what a snapshot does not have is NULL.

        Args:
            parts: The tables of the snapshots, oldest first.

        Returns:
            Their rows as one table.

        Raises:
            UnsupportedStateError: If a column has another type in another snapshot.

        """
        fields = {CHECKPOINT_ID: pa.field(CHECKPOINT_ID, pa.int64()), SNAPSHOT: pa.field(SNAPSHOT, pa.string())}
        for part in parts:
            for field in part.table.schema:
                known = fields.setdefault(field.name, field.with_nullable(True))
                if known.type != field.type:
                    raise UnsupportedStateError(
                        f"column {field.name!r} has another type in older snapshots",
                        path=part.snapshot,
                        expected=known.type,
                        found=field.type,
                        remedy="read fewer snapshots: last=N",
                    )
        return cls(parts, pa.schema(list(fields.values())))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the tables, each once."""
        return tuple(dict.fromkeys(warning for part in self.parts for warning in part.table.warnings))

    def batches(self) -> Iterator[ArrowBatch]:
        """Yield the rows in batches, snapshot by snapshot.

        Yields:
            Batches of :attr:`schema`.

        Raises:
            SavepointError: If the state cannot be read.

        """
        for part in self.parts:
            for batch in part.table.batches():
                own = {CHECKPOINT_ID: part.checkpoint_id, SNAPSHOT: part.snapshot} | dict(
                    zip(batch.schema.names, batch.columns, strict=True)
                )
                columns = [_column(own.get(field.name), field.type, batch.num_rows) for field in self.schema]
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as dictionaries by column, maps as lists of pairs.

        Yields:
            A dictionary per row.

        Raises:
            SavepointError: If the state cannot be read.

        """
        names = dict.fromkeys(self.schema.names)
        for part in self.parts:
            own = {**names, CHECKPOINT_ID: part.checkpoint_id, SNAPSHOT: part.snapshot}
            yield from (own | row for row in part.table.rows())


def _column(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    return value if isinstance(value, pa.Array) else pa.repeat(pa.scalar(value, kind), rows)


def open_history(
    folder: str | PathLike[str],
    uid: str | OperatorIdentifier | None = None,
    *,
    last: int | None = None,
    **options: Unpack[SnapshotOptions],
) -> LocalHistory:
    """Open one table of all snapshots below a folder, without Spark and Java.

    Snapshots that do not have the operator, or cannot be read, are skipped.

    Args:
        folder: A folder of savepoints or retained checkpoints, such as that of a job's checkpoints.
        uid: The operator; None for a table about all operators.
        last: The number of newest snapshots to read; all by default.
        **options: Options of a read, such as ``table``, ``state``. Without ``uid``, ``table`` is ``metadata`` by
            default.

    Returns:
        ``checkpoint_id``, ``snapshot`` (its path), and the columns of the table; oldest snapshots first.

    Raises:
        SnapshotNotFoundError: If no snapshot below the folder can be read.
        OperatorNotFoundError: If none of them has the operator.
        OptionError: If ``last`` is below 1, or an option is invalid.

    Example::

        pyspark_savepoint.open_history("/checkpoints/7d2e", table="offsets").to_arrow()

    """
    history = history_of(absolute(path_text(folder)), operator_options(uid), last, to_options(options))
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
    is looked up now; their state is read when the rows are.

    Args:
        folder: A folder of savepoints or retained checkpoints, such as that of a job's checkpoints.
        uid: The operator; None for tables ``splits`` and ``offsets`` of all sources.
        start: The first changes, by a checkpoint id or a time: those since the snapshot before it. 0: all rows of the
            first snapshot are inserts.
        end: The last changes, inclusive, by a checkpoint id or a time.
        deduplication_mode: ``dropCarryovers`` leaves out rows whose values are as before; ``none`` shows those of keyed
            state of which only bytes changed; ``netChanges`` shows one net change per row.
        **options: Options of a read, such as ``table``, ``state``.

    Returns:
        ``_change_type`` (``insert``, ``delete``, ``update_preimage``, ``update_postimage``), ``_commit_version`` (the
        checkpoint id), ``_commit_timestamp`` (when that snapshot was complete), and the columns of the table.

    Raises:
        SnapshotNotFoundError: If there is no such snapshot, or none before the first; the error says what there is.
        OperatorNotFoundError: If the newest of them does not have the operator.
        UnsupportedStateError: If columns of the table changed in between.
        OptionError: If an option is invalid.

    Example::

        pyspark_savepoint.open_changes("/checkpoints/7d2e", "accounts", start=42, state="total").to_arrow()

    """
    texts = to_options({**options, **feed_options(start, end, deduplication_mode), **operator_options(uid)})
    table = SnapshotTable.of(SavepointReadOptions.parse({**texts, "path": absolute(path_text(folder))}))
    for warning in table.warnings:
        warnings.warn(warning, SavepointWarning, stacklevel=2)
    return table


def history_of(folder: str, operator: dict[str, str], last: int | None, options: dict[str, str]) -> LocalHistory:
    """Return one table of all snapshots below a folder, by options of the data source."""
    expect_last(last)
    if not operator:
        options = {"table": "metadata", **options}
    found = listed(folder, options)
    parts: list[Part] = []
    missing: OperatorNotFoundError | None = None
    for number, path in reversed(found):
        try:
            table = SnapshotTable.of(SavepointReadOptions.parse({**options, **operator, "path": path}))
        except OperatorNotFoundError as error:
            missing = missing or error
            continue
        parts.append(Part(number, path, table))
        if len(parts) == last:
            break
    if not parts and missing is not None:
        raise none_has_it(len(found), folder, missing.facts.get("operator"), missing.facts.get("remedy"))
    return LocalHistory.of(tuple(reversed(parts)))


def expect_last(last: int | None) -> None:
    """Raise OptionError unless the number of newest snapshots is at least 1."""
    if last is not None and (isinstance(last, bool) or not isinstance(last, int) or last < 1):
        raise OptionError(
            "argument 'last' must be at least 1: it is the number of newest snapshots to read", found=repr(last)
        )


def listed(folder: str, options: Mapping[str, str]) -> list[tuple[int, str]]:
    """Return checkpoint id and path of the readable snapshots below a folder, oldest first."""
    return [(found.checkpoint_id or 0, found.path) for found in readable_snapshots(reached(folder, options))]


def none_has_it(snapshots: int, folder: str, operator: Any, remedy: Any) -> OperatorNotFoundError:
    """Return the error for an operator that no snapshot has."""
    return OperatorNotFoundError(
        f"none of {snapshots} snapshots has such an operator", path=folder, operator=operator, remedy=remedy
    )
