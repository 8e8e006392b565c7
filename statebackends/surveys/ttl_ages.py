"""Table ``ttl_ages``: ages of the units of states with a time to live, since their last access.

A unit is a value, an element of a list, or an entry of a map: each has its own time. Ages are relative to the time of
the snapshot (``snapshot_time``: the modification time of ``_metadata`` in the file system). Flink does not record the
time to live of a state; units older than it have expired and were not cleaned up yet.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Longs
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.name_lists import join_names
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.python.python_state import name_of, names
from pyspark_savepoint.statebackends.requests.request import TablePartition, TableRequest
from pyspark_savepoint.statebackends.rows.state_column import LAST_ACCESS, has_ttl, unit_serializers
from pyspark_savepoint.statebackends.sources.keyed_plan import OperatorHeaders, is_key_value, is_namespaced
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.surveys.survey import STATE_FIELDS, Row, Surveyed, SurveyPart
from pyspark_savepoint.statebackends.tables.keyed_table import KEY_GROUP, KeyedTable, column_names

MINUTE, HOUR, DAY = 60, 3600, 86_400
#: Bounds of the ages in seconds; an age below 0 is an access after the snapshot.
BOUNDS = (0, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY, 90 * DAY, 365 * DAY)
MICROS = 1_000_000

SCHEMA = pa.schema(
    [
        *STATE_FIELDS,
        pa.field("key_group", pa.int32()),
        pa.field(
            "from_seconds", pa.int64(), metadata={b"comment": b"the age is this or more; NULL: after the snapshot"}
        ),
        pa.field("to_seconds", pa.int64(), metadata={b"comment": b"the age is less than this; NULL: no bound"}),
        pa.field("units", pa.int64(), metadata={b"comment": b"values, elements of lists, entries of maps"}),
        pa.field("oldest", pa.timestamp("us", tz="UTC")),
        pa.field("newest", pa.timestamp("us", tz="UTC")),
        pa.field("snapshot_time", pa.timestamp("us", tz="UTC")),
        pa.field("note", pa.string()),
    ]
)


def plan_ttl_ages(
    savepoint: Snapshot, operator: OperatorState, request: TableRequest, count: int
) -> Sequence[tuple[Surveyed, SurveyPart]]:
    """Return the key groups of an operator in ``count`` parts, for each kind of namespace of its states."""
    surveyed = Surveyed.of(operator)
    now = snapshot_time_of(savepoint)
    parts: list[tuple[Surveyed, SurveyPart]] = []
    opened = OpenOperator(savepoint, operator)
    for table, states in _states_with_ttl(opened.keyed, request):
        age_request = replace(
            request, state=join_names(states), include_ttl=True, include_key_group=True, undecodable="binary", raw=()
        )
        keyed = KeyedTable(opened, age_request, table == "window_state")
        titles = column_names(keyed.spec.states, table == "window_state")
        metas = opened.keyed.metas()
        columns = {titles[state] + LAST_ACCESS: name_of(metas[state, False][0]) for state in states}
        age_columns = keyed.select([*columns, KEY_GROUP])
        for part in age_columns.partitions(count):
            parts.append((surveyed, TtlAges(surveyed, table, tuple(columns.items()), part, now)))
    return parts


def _states_with_ttl(headers: OperatorHeaders, request: TableRequest) -> Iterator[tuple[str, list[str]]]:
    """Yield the states with readable access times by table; windows of different kinds separately."""
    groups: dict[str, list[str]] = {}
    for (name, timer), metas in headers.metas().items():
        if (
            timer
            or not is_key_value(metas[0])
            or (request.states is not None and not names(metas[0]) & set(request.states))
        ):
            continue
        if all(has_ttl(meta) for meta in metas) and not any(p.opaque_parts() for p in unit_serializers(metas[0])):
            groups.setdefault(metas[0].namespace_serializer.flink_type if is_namespaced(metas[0]) else "", []).append(
                name
            )
    for namespace, states in groups.items():
        yield "window_state" if namespace else "keyed_state", states


def snapshot_time_of(savepoint: Snapshot) -> int:
    """Return the time of the snapshot in microseconds since 1970."""
    seconds = savepoint.modified
    if seconds is None:
        info = savepoint.location.filesystem.info(savepoint.metadata_path)
        seconds = info.modified if info is not None and info.modified is not None else time.time()
    return int(seconds * MICROS)


@dataclass(frozen=True, slots=True)
class TtlAges:
    """Ages of some key groups of an operator; ``columns`` are the columns of times, with the states of each."""

    operator: Surveyed
    table: str
    columns: tuple[tuple[str, str], ...]
    partition: TablePartition
    now: int

    def rows(self, request: TableRequest) -> Iterator[Row]:
        """Yield one row per state, key group and range of ages that has units."""
        ages: dict[tuple[str, int, int], tuple[int, int, int]] = {}
        for batch in self.partition.batches():
            groups = batch.column(KEY_GROUP).to_numpy()
            for column, state in self.columns:
                owner, times = _times(batch.column(column))
                for group, bucket, *numbers in self._counts(groups[owner], times):
                    count, oldest, newest = ages.get((state, group, bucket), (0, numbers[1], numbers[2]))
                    merged = count + numbers[0], min(oldest, numbers[1]), max(newest, numbers[2])
                    ages[state, group, bucket] = merged
        for (state, group, bucket), (count, oldest, newest) in sorted(ages.items()):
            bounds = {
                "from_seconds": BOUNDS[bucket - 1] if bucket else None,
                "to_seconds": BOUNDS[bucket] if bucket < len(BOUNDS) else None,
            }
            known = {"oldest": oldest, "newest": newest, "snapshot_time": self.now}
            labels = {"table": self.table, "state": state, "key_group": group}
            yield self.operator.row(**labels, **bounds, units=count, **known)

    def _counts(self, groups: Longs, times: Longs) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield key group, range of ages, units, oldest and newest time."""
        buckets = np.searchsorted(np.array(BOUNDS) * MICROS, self.now - times, side="right")
        code = groups.astype(np.int64) * (len(BOUNDS) + 1) + buckets
        order = np.argsort(code, kind="stable")
        if not len(order):
            return
        first = np.flatnonzero(np.diff(code[order], prepend=-1))
        counts = np.diff([*first, len(order)])
        oldest, newest = np.minimum.reduceat(times[order], first), np.maximum.reduceat(times[order], first)
        for at, count, low, high in zip(first.tolist(), counts.tolist(), oldest.tolist(), newest.tolist(), strict=True):
            group, bucket = divmod(int(code[order[at]]), len(BOUNDS) + 1)
            yield group, bucket, count, low, high


def _times(column: pa.Array) -> tuple[Longs, Longs]:
    """Return the row of every unit, and its time in microseconds."""
    rows = np.arange(len(column))
    if pa.types.is_list(column.type) or pa.types.is_map(column.type):
        offsets = np.asarray(column.offsets, np.int64)
        values = column.items if pa.types.is_map(column.type) else column.values
        rows = np.repeat(rows, np.diff(offsets))
        column = values[int(offsets[0]) : int(offsets[-1])]
    valid = np.flatnonzero(np.asarray(column.is_valid()))
    return rows[valid], column.drop_null().cast(pa.int64()).to_numpy(zero_copy_only=False)
