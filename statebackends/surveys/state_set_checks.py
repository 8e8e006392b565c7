"""Checks that an operator has all states that Flink needs together, and that sessions find their contents.

finding                                                       how it is found
states without others that belong to them                     names of registrations (``state_sets``)
contents under a window that no session names                 every key's sessions beside the windows of its contents
contents of sessions, and no state that names the sessions    windows of different lengths that overlap: windows that
                                                              do not merge have one length, or one grid
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.python.python_state import is_python_operator
from pyspark_savepoint.statebackends.requests.request import TablePartition, TableRequest
from pyspark_savepoint.statebackends.rows.descriptors import STATE_WINDOW, WINDOW_COLUMN, WINDOW_CONTENTS
from pyspark_savepoint.statebackends.rows.state_sets import SESSIONS_OF, UNNAMED_SESSIONS, Half, Registered
from pyspark_savepoint.statebackends.sources.keyed_plan import is_key_value, table_of
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.surveys.survey import Row, Surveyed, SurveyPart
from pyspark_savepoint.statebackends.tables.keyed_table import KEY, KeyedTable

WARNING = "warning"
#: Windows of different lengths are looked for among so many of a task.
MAX_WINDOWS = 1 << 16


def registered(opened: OpenOperator) -> Registered:
    """Return the names of an operator's keyed states and timer services."""
    metas = [known[0] for known in opened.keyed.metas().values()]
    timers = [meta.name for meta in metas if not is_key_value(meta)]
    services = [queue.service for queue in opened.raw_queues()]
    return Registered.of((meta for meta in metas if is_key_value(meta)), [*timers, *services])


def plan_state_sets(
    savepoint: Snapshot, operator: OperatorState, request: TableRequest, count: int
) -> Iterator[SurveyPart]:
    """Yield the checks of an operator; what cannot be opened is an error of the entries."""
    try:
        yield from _checks(OpenOperator(savepoint, operator), request, count)
    except SavepointError:
        return


def _checks(opened: OpenOperator, request: TableRequest, count: int) -> Iterator[SurveyPart]:
    if not opened.keyed.headers:
        return
    surveyed = Surveyed.of(opened.operator)
    names = registered(opened)
    if request.state is None and request.key_groups is None:
        tables = {name: table_of(metas[0]) for (name, timer), metas in opened.keyed.metas().items() if not timer}
        yield from (StateSetCheck(surveyed, half, tables[half.states[0]]) for half in names.halves())
    for contents in (name for name in WINDOW_CONTENTS if name in names.windowed):
        if request.states is not None and contents not in request.states:
            continue
        if not is_python_operator(opened):
            yield from _windows(opened, request, contents, count)


def _windows(opened: OpenOperator, request: TableRequest, contents: str, count: int) -> Iterator[SurveyPart]:
    """Yield checks of the windows of contents."""
    read = TableRequest(request.path, state=contents, raw=(KEY, contents), memory=request.memory)
    read = replace(read, key_groups=request.key_groups).of_version(opened.savepoint.metadata.version)
    read = replace(read, decode=replace(read.decode, timestamps="raw"))
    table = KeyedTable(opened, read, True, sessions=True)
    merges = table.sessions is not None
    if merges:
        table = KeyedTable(opened, replace(read, include_state_window=True), True, sessions=True)
    elif not pa.types.is_struct(table.schema.field(WINDOW_COLUMN).type):
        return
    kind = opened.keyed.metas()[contents, False][0].state_type
    for partition in table.partitions(count):
        yield WindowCheck(Surveyed.of(opened.operator), partition, contents, kind, merges)


@dataclass(frozen=True, slots=True)
class StateSetCheck:
    """States without others that Flink needs with them."""

    operator: Surveyed
    half: Half
    table: str

    def rows(self, request: TableRequest) -> Iterator[Row]:
        """Yield one row."""
        yield self.operator.row(table=self.table, state=self.half.states[0], status=WARNING, note=str(self.half))


@dataclass(frozen=True, slots=True)
class WindowCheck:
    """Windows of the contents in some key groups; ``merges``: a state names the sessions."""

    operator: Surveyed
    partition: TablePartition
    contents: str
    kind: str
    merges: bool

    def rows(self, request: TableRequest) -> Iterator[Row]:
        """Yield a row if contents cannot be found."""
        lost, windows = 0, np.empty((0, 2), np.int64)
        try:
            for batch in self.partition.batches():
                if self.merges:
                    is_lost = pc.and_(batch.column(self.contents).is_valid(), batch.column(STATE_WINDOW).is_null())
                    lost += pc.sum(is_lost.cast(pa.int64())).as_py() or 0
                elif len(windows) < MAX_WINDOWS:
                    windows = np.unique(np.concatenate([windows, _spans(batch.column(WINDOW_COLUMN))]), axis=0)
        except SavepointError:
            return  # an error that the check of the entries shows
        if not self.merges and overlap(windows):
            half = Half((self.contents,), (SESSIONS_OF[self.contents],), UNNAMED_SESSIONS)
            note = f"windows of different lengths overlap, as sessions do; {half}"
            yield self.operator.row(
                table="window_state", state=self.contents, kind=self.kind, status=WARNING, note=note
            )
        if lost:
            note = f"no session of {SESSIONS_OF[self.contents]!r} has the window of {lost} of them: {UNNAMED_SESSIONS}"
            what = {"table": "window_state", "state": self.contents, "kind": self.kind}
            yield self.operator.row(**what, status=WARNING, entries=lost, note=note)


def _spans(windows: pa.Array) -> np.ndarray:
    """Return starts and ends of windows."""
    start, end = (field.to_numpy(zero_copy_only=False) for field in windows.drop_null().flatten())
    return np.stack([start, end], axis=1).astype(np.int64)


def overlap(windows: np.ndarray) -> bool:
    """Return whether windows, sorted by start and end, overlap in part and have different lengths.

    >>> overlap(np.array([[0, 10], [5, 15]])), overlap(np.array([[0, 10], [5, 17]]))
    (False, True)
    """
    if len(windows) < 2:
        return False
    (start, end), (next_start, next_end) = windows[:-1].T, windows[1:].T
    partly = (start < next_start) & (next_start < end) & (end < next_end)
    return bool((partly & (end - start != next_end - next_start)).any())
