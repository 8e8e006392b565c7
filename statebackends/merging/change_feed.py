"""Table of the rows that changed from snapshot to snapshot: a change data feed, with the columns of Delta and Spark.

==================  ================================================================================================
_change_type        ``insert``, ``delete``; ``update_preimage`` and, next to it, ``update_postimage``
_commit_version     the checkpoint id of the snapshot that has the change first
_commit_timestamp   when that snapshot was complete
...                 the columns of the table
==================  ================================================================================================

N + 1 snapshots are N comparisons, all of which are partitions of one read. Keyed state and windows are compared by the
bytes of their entries, as ``changed_rows`` does; other tables, windows that merge, states of PyFlink, looked up keys
and flattened states by the values of their rows, as ``changed_values`` does. A row with the same key (window, split)
before and after is an update; rows without any, such as timers and elements of operator state, are inserted and
deleted. Where a row is, its key group and its subtask, is not a value of it: a row that moved did not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.columns import Longs
from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.statebackends.merging.changed_rows import ChangedRows
from pyspark_savepoint.statebackends.merging.changed_values import (
    ChangedValues,
    Differing,
    places_of,
    same_columns,
    words,
)
from pyspark_savepoint.statebackends.merging.keyed_input import described
from pyspark_savepoint.statebackends.merging.row_bytes import row_bytes
from pyspark_savepoint.statebackends.requests.request import (
    FeedRequest,
    FeedVersion,
    Table,
    TablePartition,
    TableRequest,
    choose_columns,
)
from pyspark_savepoint.statebackends.rows.state_column import LIST_INDEX, MAP_KEY
from pyspark_savepoint.statebackends.tables.entry_diff import AFTER, BEFORE, EntryDiff, Half, places_in
from pyspark_savepoint.statebackends.tables.keyed_table import KEY, KEY_GROUP, SUBTASK, WINDOW, KeyedTable
from pyspark_savepoint.statebackends.tables.timers_table import TimersTable

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
INSERT, DELETE, PREIMAGE, POSTIMAGE = "insert", "delete", "update_preimage", "update_postimage"
OF_COMMIT = pa.schema(
    [
        pa.field(CHANGE_TYPE, pa.string()),
        pa.field(COMMIT_VERSION, pa.int64()),
        pa.field(COMMIT_TIMESTAMP, pa.timestamp("us", tz="UTC")),
    ]
)
#: Columns that tell the rows of a table apart, those of flattened states first: the first of these that a table has.
FLAT_IDENTITIES = tuple((*row, element) for element in (MAP_KEY, LIST_INDEX) for row in ((KEY, WINDOW), (KEY,)))
IDENTITIES = (
    (KEY, WINDOW),
    ("operator_uid_hash", "stream", "partition"),
    ("operator_uid_hash", "split_id"),
    (KEY,),
)
#: How the error for columns that changed in a range begins.
COLUMNS_CHANGED = "the columns of the table changed"
#: Columns that say where a row is.
PLACE = (KEY_GROUP, SUBTASK)


@dataclass(frozen=True)
class ChangeFeed:
    """Changes of a table; ``comparisons`` are those of neighbouring versions, each with the version of its changes."""

    comparisons: tuple[tuple[ChangedRows | ChangedValues, FeedVersion], ...]
    schema: pa.Schema
    warnings: tuple[str, ...] = ()
    max_parallelism: int | None = None

    @classmethod
    def of(
        cls,
        tables: Sequence[Table | None],
        feed: FeedRequest,
        request: TableRequest,
        *,
        keyed: bool,
    ) -> ChangeFeed:
        """Return the changes between tables of one kind; None where a snapshot has no such table yet.

        ``keyed``: their rows have key groups.
        """
        versions, equal = feed.versions, feed.equal
        newest = next(table for table in reversed(tables) if table is not None)
        there = [
            (version, table)
            for version, table in zip(versions, tables, strict=True)
            if version is not None and table is not None
        ]
        # Newest first: what an error names is the version after which the others are alike.
        for version, table in reversed(there):
            if request.key_groups is not None:
                _expect_key_groups(table, newest, version)
            _expect_columns(table, newest, version, feed.growing and isinstance(table, KeyedTable))
        compared = [
            (_comparison((before, after), request, keyed, equal), version)
            for before, after, version in zip(tables, tables[1:], versions[1:], strict=False)
            if version is not None and after is not None
        ]
        schema = pa.schema([*OF_COMMIT, *newest.schema])
        warnings = dict.fromkeys(warning for _, table in there for warning in table.warnings)
        return cls(tuple(compared), schema, tuple(warnings))

    @property
    def state_bytes(self) -> int:
        """Return the bytes of the state that is compared."""
        return sum(table.state_bytes for table, _ in self.comparisons)

    @property
    def description(self) -> str:
        """Return how many bytes of files are read by all comparisons, if not all."""
        return described([shared for table, _ in self.comparisons for shared in table.shared])

    def select(self, columns: Sequence[str]) -> ChangeFeed:
        """Return this table restricted to some columns."""
        return ChangeFeed(self.comparisons, choose_columns(self.schema, columns), self.warnings)

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        """Return the partitions of all comparisons."""
        per_comparison = -(-(parallelism or 1) // max(1, len(self.comparisons)))
        value_names = [
            name for name in self.schema.names if name not in (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
        ]
        return [
            FeedPartition(part, version.number, version.time, self.schema)
            for table, version in self.comparisons
            for part in _of_columns(table, [CHANGE_TYPE, *value_names]).partitions(per_comparison)
        ]


@dataclass(frozen=True)
class FeedPartition:
    """Changes of one version, of some key groups or all rows."""

    inner: TablePartition
    version: int
    time: int | None
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the changes."""
        own = {COMMIT_VERSION: self.version, COMMIT_TIMESTAMP: self.time}
        for batch in self.inner.batches():
            existing = frozenset(batch.schema.names)
            columns = [
                batch.column(field.name)
                if field.name in existing
                else pa.repeat(pa.scalar(own.get(field.name), field.type), len(batch))
                for field in self.schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _of_columns(table: Table, columns: Sequence[str]) -> Table:
    """Return a table restricted to those of some columns that it has: a state may not be there yet."""
    existing = frozenset(table.schema.names)
    return table.select([name for name in columns if name in existing])


def _expect_columns(table: Table, newest: Table, version: FeedVersion, growing: bool) -> None:
    """Raise UnsupportedStateError unless a version has the columns of the newest, with their types.

    ``growing``: it may lack some of them, or have others.
    """
    mine, others = ({field.name: str(field.type) for field in side.schema} for side in (table, newest))
    for name in dict.fromkeys([*others, *mine]):
        if mine.get(name) != others.get(name) and not (growing and (name not in mine or name not in others)):
            raise UnsupportedStateError(
                f"{COLUMNS_CHANGED} after version {version.number}: their changes are no one table",
                path=version.request.path,
                found=f"column {name!r} with type {mine.get(name, 'none')}, later {others.get(name, 'none')}",
                remedy="read the changes up to this version, and those after it, with startingVersion and "
                "endingVersion; or name states that did not change, with option 'state'",
            )


def _expect_key_groups(table: Table, newest: Table, version: FeedVersion) -> None:
    """Raise UnsupportedStateError unless a version has as many key groups as the newest."""
    if table.max_parallelism != newest.max_parallelism:
        raise UnsupportedStateError(
            f"the max parallelism of the operator changed after version {version.number}: keys are in other key "
            "groups since",
            path=version.request.path,
            found=f"{table.max_parallelism} key groups, later {newest.max_parallelism}",
            remedy="leave out option 'keyGroups', or read the changes up to this version alone",
        )


def _comparison(
    tables: tuple[Table | None, Table | None], request: TableRequest, keyed: bool, equal: bool
) -> ChangedRows | ChangedValues:
    newer = tables[1]
    assert newer is not None
    # Merging windows are shown as their rows are, not as their contents are kept.
    if isinstance(newer, KeyedTable) and newer.sessions is None and newer.lookup is None:
        before = tables[0] if isinstance(tables[0], KeyedTable) else None
        return ChangedRows((before, newer), newer.spec.states, request, EntryFeed.between(before, newer, equal))
    group_columns = PLACE if request.include_key_group else ()
    columns = same_columns(tables, [name for name in newer.schema.names if name not in group_columns])
    beside = same_columns(tables, [name for name in newer.schema.names if name in group_columns])
    identities = (*FLAT_IDENTITIES, *IDENTITIES) if request.flatten else IDENTITIES
    identity = next((names for names in identities if set(names) <= set(columns.names)), ())
    # Timers have keys, but a key has several.
    identity = () if _are_timers(newer) else identity
    schema = pa.schema([OF_COMMIT.field(CHANGE_TYPE), *columns, *beside])
    return ChangedValues(tables, columns, partial(_changes, identity), schema, request, keyed=keyed, beside=beside)


def _are_timers(table: Table) -> bool:
    return isinstance(table, TimersTable) or (hasattr(table, "inner") and _are_timers(table.inner))


def _changes(identity: tuple[str, ...], differing: Differing) -> Iterator[pa.Table]:
    """Yield rows that differ as changes; those of one identity are updates."""
    before, after = differing
    places = places_of(differing, identity) if identity else np.full(len(after), -1, np.int64)
    updated = np.flatnonzero(places >= 0)
    deleted = np.setdiff1d(np.arange(len(before)), places[updated])
    inserted = np.flatnonzero(places < 0)
    pairs = np.stack([places[updated], updated + len(before)], axis=1).ravel()
    rows = pa.concat_tables([before, after]).take(pa.array(np.concatenate([deleted, inserted + len(before), pairs])))
    kinds = [DELETE] * len(deleted) + [INSERT] * len(inserted) + [PREIMAGE, POSTIMAGE] * len(updated)
    yield rows.add_column(0, OF_COMMIT.field(CHANGE_TYPE), words(kinds))


@dataclass(frozen=True)
class EntryFeed(EntryDiff):
    """Decoder of keys with entries that differ, which shows their rows before and after.

    ``equal``: also rows whose values are equal, of which only bytes differ.
    """

    equal: bool = False

    @classmethod
    def between(cls, before: KeyedTable | None, after: KeyedTable, equal: bool) -> EntryFeed:
        """Build the comparison of two tables with the same columns."""
        diff = EntryDiff.of(before, after, after.spec.states)
        schema = pa.schema([OF_COMMIT.field(CHANGE_TYPE), *after.schema])
        return cls(diff.states, diff.sides, schema, equal)

    def aligned(self, before: Half, after: Half) -> pa.RecordBatch:
        """Return the rows of both sides, those of one key one after the other."""
        halves = before, after
        identity = pa.concat_arrays([half.identity for half in halves]).unique()
        places = [places_in(identity, half.identity) for half in halves]
        flags = np.zeros(len(identity), np.bool_)
        for indices, half in zip(places, halves, strict=True):
            present = indices >= 0
            flags[present] |= half.flags[indices[present]].any(axis=1)
        fields = [*self.schema][1:]
        both = (places[BEFORE] >= 0) & (places[AFTER] >= 0)
        if not self.equal:
            at = np.flatnonzero(both & flags)
            values = [
                row_bytes([_column_at(half, field, indices[at]) for field in fields if field.name not in PLACE])
                for half, indices in zip(halves, places, strict=True)
            ]
            flags[at[np.asarray(pc.equal(*values), np.bool_)]] = False
        shown = [np.flatnonzero(flags & (indices >= 0)) for indices in places]
        order = np.argsort(np.concatenate(shown), kind="stable")
        arrays = []
        for field in fields:
            sides = [
                _column_at(half, field, indices[rows])
                for half, indices, rows in zip(halves, places, shown, strict=True)
            ]
            arrays.append(pa.concat_arrays(sides).take(pa.array(order)))
        kinds = [
            np.where(both[rows], *names)
            for rows, names in zip(shown, ((PREIMAGE, DELETE), (POSTIMAGE, INSERT)), strict=True)
        ]
        change = words(np.concatenate(kinds)[order].tolist())
        return pa.RecordBatch.from_arrays([change, *arrays], schema=self.schema)


def _column_at(half: Half, field: pa.Field, places: Longs) -> pa.Array:
    """Return a column at some rows; NULLs of a state that was not there yet."""
    if half.columns is not None and field.name not in half.columns.schema.names:
        return pa.nulls(len(places), field.type)
    return half.take(field.name, places, field.type)
