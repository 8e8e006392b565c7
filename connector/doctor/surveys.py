"""What the state of a snapshot adds up to, each table read once: for findings, metrics, reports and plots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot

#: Timers later than this mean "never".
NEVER_MILLIS = 1 << 52
PROCESSING = "processing"
HIDDEN = "(hidden)"
Place = tuple[str, str, str]
Row = dict[str, Any]


class Examined(Protocol):
    """The tables of a snapshot that surveys read: those of ``LocalSavepoint``."""

    @property
    def path(self) -> str | None:
        """The folder of the snapshot."""

    def _snapshot(self) -> Snapshot:
        """Return its metadata."""

    @property
    def table(self) -> Callable[..., Any]:
        """Returns a table by its name, with options."""

    @property
    def states(self) -> Callable[[], Any]:
        """Returns the states."""

    @property
    def timers(self) -> Callable[[str], Any]:
        """Returns the timers of an operator."""


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

    @property
    def path(self) -> str | None:
        """The folder of the snapshot."""
        return self.savepoint.path

    @cached_property
    def snapshot(self) -> Snapshot:
        """Its metadata."""
        return self.savepoint._snapshot()

    @cached_property
    def states(self) -> list[Row]:
        """Rows of table ``states``."""
        return list(self.savepoint.states().rows())

    @cached_property
    def _sizes(self) -> tuple[list[StateSize], list[Row]]:
        found: dict[Place, StateSize] = {}
        notes: list[Row] = []
        for row in self.savepoint.table("sizes").rows():
            if row["table"] is None or row["note"] is not None:
                notes.append(row)
                continue
            place = (label_of(row), row["table"], row["state"] or "")
            size = found.get(place)
            if size is None:
                size = found[place] = StateSize(*place, row["kind"] or "")
            entries, count = row["entries"] or 0, row["bytes"] or 0
            size.entries, size.bytes = size.entries + entries, size.bytes + count
            size.largest = max(size.largest, row["largest"] or 0)
            group = row["key_group"]
            if group is not None:
                before = size.groups.get(group, (0, 0))
                size.groups[group] = before[0] + entries, before[1] + count
        return sorted(found.values(), key=lambda size: -size.bytes), notes

    @property
    def sizes(self) -> list[StateSize]:
        """The size of every state that can be read, the largest first."""
        return self._sizes[0]

    @property
    def unread(self) -> list[Row]:
        """Rows of ``sizes`` whose ``note`` says what cannot be read, or is counted in another way."""
        return self._sizes[1]

    @cached_property
    def key_groups(self) -> dict[str, dict[int, int]]:
        """The bytes of all key groups by operator, of those that have keyed state, windows or timers."""
        found: dict[str, dict[int, int]] = {}
        for size in self.sizes:
            totals = found.setdefault(size.operator, {}) if size.groups else {}
            for group, (_, count) in size.groups.items():
                totals[group] = totals.get(group, 0) + count
        return found

    @cached_property
    def heaviest(self) -> list[Row]:
        """The five heaviest keys of every state, in no order."""
        rows = list(self.savepoint.table("heaviest_keys", top=5).rows())
        if not self.show_keys:
            rows = [{**row, "key": HIDDEN, "window": row["window"] and HIDDEN} for row in rows]
        return rows

    @cached_property
    def ages(self) -> list[Row]:
        """The histogram of the ages of state with a time to live."""
        return list(self.savepoint.table("ttl_ages").rows())

    @cached_property
    def timers(self) -> dict[tuple[str, str], np.ndarray[Any, np.dtype[np.int64]]]:
        """Times of the timers by operator and domain, without those that never fire; none of what cannot be read."""
        found: dict[tuple[str, str], list[Any]] = {}
        with_timers = {row["operator_uid_hash"]: label_of(row) for row in self.states if row["table"] == "timers"}
        for uid_hash, operator in with_timers.items():
            try:
                for batch in self.savepoint.timers(uid_hash).select("timestamp", "domain").batches():
                    _collect(found, operator, batch)
            except SavepointError:
                continue  # verify reports what cannot be read
        return {place: np.concatenate(parts) for place, parts in found.items()}

    def now_of(self, operator: str, domain: str) -> int:
        """Return the time to which timers of an operator and domain have advanced: that of the newest of their clock.

        All operators have one processing time; the event time of each is that of its inputs.
        """
        same = [
            times
            for (other, kind), times in self.timers.items()
            if kind == domain and (domain == PROCESSING or other == operator)
        ]
        return max((int(times.max(initial=0)) for times in same), default=0)


def _collect(found: dict[tuple[str, str], list[Any]], operator: str, batch: pa.RecordBatch) -> None:
    times = batch.column("timestamp").to_numpy()
    domains = batch.column("domain")
    for domain in pc.unique(domains).to_pylist():
        mine = pc.equal(domains, domain).to_numpy(zero_copy_only=False) & (times < NEVER_MILLIS)
        found.setdefault((operator, domain), []).append(times[mine])
