"""What the state of a snapshot adds up to, each table read once: for findings, metrics, reports and plots."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.engines.face import Face, at_path, engine_of, snapshot_of, table_of
from pyspark_savepoint.engines.migrating import migration_of
from pyspark_savepoint.engines.table_reads import without_keys
from pyspark_savepoint.formats.errors import SavepointError, SavepointWarning
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.insight.comparisons import overview
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import MigrationCheck
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

#: Timers later than this mean "never".
NEVER_MILLIS = 1 << 52
PROCESSING = "processing"
HIDDEN = "(hidden)"
#: Columns of table ``sizes`` that are added up.
SIZES = ["operator_uid", "operator_uid_hash", "table", "state", "kind", "key_group", "entries", "bytes", "largest"]
Place = tuple[str, str, str]
Row = dict[str, Any]


Examined = Face[Any, Any]


@dataclass(frozen=True)
class CountTimers:
    """Counts the timers of a part by domain, and those before some moments, without those that never fire.

    Tasks of Spark, or this process, run copies of it; a batch that it yields is small.
    """

    schema: ClassVar[pa.Schema] = pa.schema(
        [
            pa.field("domain", pa.string()),
            *(pa.field(name, pa.int64()) for name in ("count", "first", "last")),
            pa.field("before", pa.list_(pa.int64())),
        ]
    )
    #: Milliseconds, in order.
    moments: tuple[int, ...] = ()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row for each domain of each batch."""
        moments = np.array(self.moments, np.int64)
        for batch in batches:
            times, domains = batch.column("timestamp").to_numpy(), batch.column("domain")
            rows = []
            for domain in pc.unique(domains).to_pylist():
                mine = times[pc.equal(domains, domain).to_numpy(zero_copy_only=False) & (times < NEVER_MILLIS)]
                if len(mine):
                    places = np.searchsorted(moments, mine, "right")
                    before = np.bincount(places, minlength=len(moments) + 1).cumsum()[:-1].tolist()
                    numbers = {"count": len(mine), "first": int(mine.min()), "last": int(mine.max())}
                    rows.append({"domain": domain, **numbers, "before": before})
            yield pa.RecordBatch.from_pylist(rows, self.schema)


@dataclass(frozen=True)
class TimerTimes:
    """Times of the timers of an operator and domain: how many there are, the first and the last, in milliseconds."""

    count: int
    first: int
    last: int
    counted: Callable[[Sequence[int]], pa.Table]
    domain: str

    def before(self, moments: Sequence[int]) -> list[int]:
        """Return how many timers are before each of some moments, which are in order; the timers are read again."""
        if all(not self.first < moment <= self.last for moment in moments):
            return [self.count if moment > self.last else 0 for moment in moments]
        rows = [row["before"] for row in self.counted(moments).to_pylist() if row["domain"] == self.domain]
        return [sum(counts) for counts in zip(*rows, strict=True)]


@dataclass
class StateSize:
    """Entries and bytes of one state, and of each of its key groups; operator state has none."""

    operator: str
    table: str
    state: str
    kind: str = ""
    entries: int = 0
    bytes: int = 0
    largest: int = 0
    #: Entries and bytes by key group.
    groups: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        return self.operator, self.table, self.state


def label_of(row: Row) -> str:
    """Return how an operator is named: its uid, else its uid hash."""
    return str(row["operator_uid"] or row["operator_uid_hash"])


class Surveys:
    """The surveys of one snapshot; keys are shown only with ``show_keys``."""

    def __init__(self, savepoint: Examined, show_keys: bool = True) -> None:
        self.savepoint = savepoint
        self.show_keys = show_keys
        #: Why timers of an operator cannot be read; known when the others are.
        self.unread_timers: dict[str, str] = {}
        self._migrations: dict[str, MigrationCheck] = {}
        self._opened: dict[OperatorID, OpenOperator] = {}

    @property
    def path(self) -> str | None:
        """The folder of the snapshot."""
        return self.savepoint.path

    @cached_property
    def snapshot(self) -> Snapshot:
        """Its metadata."""
        return snapshot_of(self.savepoint)

    def opened(self, operator: OperatorState) -> OpenOperator:
        """Return an operator of the snapshot, whose headers are read once."""
        if operator.operator_id not in self._opened:
            self._opened[operator.operator_id] = OpenOperator(self.snapshot, operator)
        return self._opened[operator.operator_id]

    def read(self, table: str, **options: Any) -> list[Row]:
        """Return all rows of a table of few."""
        rows: list[Row] = self._all(lambda: table_of(self.savepoint, table, **options)).to_pylist()
        return rows

    def differences(self, newer: Surveys) -> list[Row]:
        """Return what a newer snapshot has added, changed and removed, by state."""
        rows: list[Row] = self._all(lambda: overview(self.savepoint, newer.savepoint)).to_pylist()
        return rows

    def at(self, path: str) -> Surveys:
        """Return the surveys of another snapshot of the same job."""
        return Surveys(at_path(self.savepoint, path, self.savepoint.options), self.show_keys)

    def migration(self, flink: str) -> MigrationCheck:
        """Return what a migration to a release does with the state."""
        if flink not in self._migrations:
            engine = engine_of(self.savepoint)
            migration = replace(migration_of(self.snapshot, flink), opened=self.opened)
            self._migrations[flink] = migration.check(lambda work: engine.run(work, None))
        return self._migrations[flink]

    def _all(self, table: Callable[[], Any]) -> pa.Table:
        if self.show_keys:
            return engine_of(self.savepoint).gathered(table)
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            rows = engine_of(self.savepoint).gathered(table)
        for message in dict.fromkeys(without_keys(str(one.message)) for one in noted):
            warnings.warn(SavepointWarning(message), stacklevel=2)
        return rows

    @cached_property
    def states(self) -> list[Row]:
        """Rows of table ``states``."""
        return self.read("states")

    @cached_property
    def _sizes(self) -> tuple[list[StateSize], list[Row]]:
        table = self._all(lambda: table_of(self.savepoint, "sizes"))
        is_noted = pc.or_(pc.is_null(table.column("table")), pc.is_valid(table.column("note")))
        columns = table.filter(pc.invert(is_noted)).select(SIZES).to_pydict().values()
        sizes: dict[Place, StateSize] = {}
        for uid, uid_hash, name, state, kind, group, entries, count, largest in zip(*columns, strict=True):
            state_id = (uid or uid_hash, name, state or "")
            size = sizes.get(state_id)
            if size is None:
                size = sizes[state_id] = StateSize(*state_id, kind or "")
            size.entries, size.bytes = size.entries + (entries or 0), size.bytes + (count or 0)
            size.largest = max(size.largest, largest or 0)
            if group is not None:
                before = size.groups.get(group, (0, 0))
                size.groups[group] = before[0] + (entries or 0), before[1] + (count or 0)
        return sorted(sizes.values(), key=lambda size: -size.bytes), table.filter(is_noted).to_pylist()

    @property
    def sizes(self) -> list[StateSize]:
        """The size of every state that can be read, the largest first."""
        return self._sizes[0]

    @property
    def unread(self) -> list[Row]:
        """Rows of ``sizes`` whose ``note`` says what cannot be read, or is counted in another way."""
        return self._sizes[1]

    @property
    def unread_operators(self) -> set[str]:
        """The operators that cannot be read at all."""
        return {label_of(row) for row in self.unread if row["table"] is None}

    @cached_property
    def key_groups(self) -> dict[str, dict[int, int]]:
        """The bytes of all key groups by operator, of those that have keyed state, windows or timers."""
        by_operator: dict[str, dict[int, int]] = {}
        for size in self.sizes:
            totals = by_operator.setdefault(size.operator, {}) if size.groups else {}
            for group, (_, count) in size.groups.items():
                totals[group] = totals.get(group, 0) + count
        return by_operator

    @cached_property
    def heaviest(self) -> list[Row]:
        """The five heaviest keys of every state, in no order."""
        rows = self.read("heaviest_keys", top=5)
        if not self.show_keys:
            rows = [{**row, "key": HIDDEN, "window": row["window"] and HIDDEN} for row in rows]
        return rows

    @cached_property
    def ages(self) -> list[Row]:
        """The histogram of the ages of state with a time to live."""
        return self.read("ttl_ages")

    @cached_property
    def timers(self) -> dict[tuple[str, str], TimerTimes]:
        """Times of the timers by operator and domain, without those that never fire; none of what cannot be read."""
        times: dict[tuple[str, str], TimerTimes] = {}
        with_timers = {row["operator_uid_hash"]: label_of(row) for row in self.states if row["table"] == "timers"}
        for uid_hash, operator in with_timers.items():
            counted = partial(self._counted, uid_hash)
            try:
                rows = counted().to_pylist()
            except SavepointError as error:
                self.unread_timers[operator] = str(error)
                continue
            for domain in dict.fromkeys(row["domain"] for row in rows):
                mine = [row for row in rows if row["domain"] == domain]
                first, last = min(row["first"] for row in mine), max(row["last"] for row in mine)
                total = sum(row["count"] for row in mine)
                times[operator, domain] = TimerTimes(total, first, last, counted, domain)
        return times

    def _counted(self, uid_hash: str, moments: Sequence[int] = ()) -> pa.Table:
        """Return the numbers of the timers of an operator, some rows for each domain."""

        def counted() -> Any:
            engine, count = engine_of(self.savepoint), CountTimers(tuple(moments))
            timers = engine.rows(table_of(self.savepoint, "timers", uid_hash))
            assert timers is not None
            return timers.select("timestamp", "domain").mapped(count, CountTimers.schema)

        return self._all(counted)

    def now_of(self, operator: str, domain: str) -> int:
        """Return the time to which timers of an operator and domain have advanced: that of the newest of their clock.

        All operators have one processing time; the event time of each is that of its inputs.
        """
        same = [
            times.last
            for (other, kind), times in self.timers.items()
            if kind == domain and (domain == PROCESSING or other == operator)
        ]
        return max(same, default=0)
