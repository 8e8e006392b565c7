"""Checks that read state: sizes of key groups and keys, ages, timers, growth between two snapshots."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import numpy as np

from pyspark_savepoint.doctor.findings import Budgets, Finding, Severity
from pyspark_savepoint.execution.texts import readable_size
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.model.applicability import ROWS_OF_KEYS

#: Timers later than this mean "never".
NEVER_MILLIS = 1 << 52
PROCESSING = "processing"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Smallest growth of a state that is reported.
GROWTH = 1.01
Place = tuple[str, str, str]
Groups = dict[Place, dict[int | None, tuple[int, int]]]


class Examined(Protocol):
    """The tables of a snapshot that the checks read: those of ``LocalSavepoint``."""

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


def check_state(savepoint: Examined, budgets: Budgets) -> Iterator[Finding]:
    """Yield findings about the state of one snapshot."""
    yield from _skew(sizes_of(savepoint), budgets)
    yield from _heavy_keys(savepoint, budgets)
    yield from _ages(savepoint, budgets)
    yield from _timers(savepoint, budgets)


def sizes_of(savepoint: Examined) -> Groups:
    """Return entries and bytes of every key group of every state."""
    found: Groups = {}
    for row in savepoint.table("sizes").rows():
        if row["table"] is not None and row["note"] is None:
            place = (row["operator_uid"] or row["operator_uid_hash"], row["table"], row["state"] or "")
            groups = found.setdefault(place, {})
            entries, size = groups.get(row["key_group"], (0, 0))
            groups[row["key_group"]] = entries + (row["entries"] or 0), size + (row["bytes"] or 0)
    return found


def _skew(sizes: Groups, budgets: Budgets) -> Iterator[Finding]:
    operators: dict[str, dict[int, int]] = {}
    for (operator, _, _), groups in sizes.items():
        for group, (_, size) in groups.items():
            if group is not None:
                totals = operators.setdefault(operator, {})
                totals[group] = totals.get(group, 0) + size
    for operator, totals in operators.items():
        mean = sum(totals.values()) / len(totals)
        heavy = [group for group, size in totals.items() if size > budgets.skew * mean and size >= budgets.floor]
        if heavy:
            worst = max(heavy, key=lambda group: totals[group])
            yield Finding(
                "skewed-key-groups",
                Severity.WARNING,
                f"{len(heavy)} of {len(totals)} key groups are above {budgets.skew:g} times the average of "
                f"{readable_size(mean)}: key group {worst} has {readable_size(totals[worst])}",
                "pyspark-savepoint heaviest shows its keys; another key, or a part of it, spreads them",
                operator,
            )


def _heavy_keys(savepoint: Examined, budgets: Budgets) -> Iterator[Finding]:
    for row in savepoint.table("heaviest_keys", top=5).rows():
        if row["bytes"] is not None and row["bytes"] > budgets.key:
            yield Finding(
                "heavy-key",
                Severity.WARNING,
                f"key {row['key']} has {row['entries']} entries of {readable_size(row['bytes'])}, in key group "
                f"{row['key_group']}",
                "bound what a key collects (a time to live, a limit in the job), or split the key",
                row["operator_uid"] or row["operator_uid_hash"],
                row["state"],
            )


def _ages(savepoint: Examined, budgets: Budgets) -> Iterator[Finding]:
    if budgets.ttl_age is None:
        return
    old: dict[tuple[str, str], int] = {}
    for row in savepoint.table("ttl_ages").rows():
        if row["from_seconds"] is not None and row["from_seconds"] >= budgets.ttl_age:
            place = row["operator_uid"] or row["operator_uid_hash"], row["state"]
            old[place] = old.get(place, 0) + row["units"]
    for (operator, state), units in old.items():
        yield Finding(
            "old-ttl-state",
            Severity.WARNING,
            f"{units} units were last used more than {timedelta(seconds=budgets.ttl_age)} before the snapshot",
            "the job's StateTtlConfig may clean up in full snapshots, incrementally or in compactions of RocksDB",
            operator,
            state,
        )


def _timers(savepoint: Examined, budgets: Budgets) -> Iterator[Finding]:
    found: dict[tuple[str, str], Any] = {}
    for operator in dict.fromkeys(
        row["operator_uid_hash"] for row in savepoint.states().rows() if row["table"] == "timers"
    ):
        try:
            for batch in savepoint.timers(operator).select("timestamp", "domain").batches():
                times, domains = batch.column("timestamp").to_numpy(), np.array(batch.column("domain").to_pylist())
                for domain in set(domains.tolist()):
                    mine = times[(domains == domain) & (times < NEVER_MILLIS)]
                    found.setdefault((operator, domain), []).append(mine)
        except SavepointError:
            continue  # verify reports what cannot be read
    together = {place: np.concatenate(parts) for place, parts in found.items()}
    # All operators have one processing time; the event time of each is that of its inputs.
    newest: dict[str, int] = {}
    for (operator, domain), times in together.items():
        clock = domain if domain == PROCESSING else operator
        newest[clock] = max(newest.get(clock, 0), int(times.max(initial=0)))
    for (operator, domain), times in together.items():
        # Timers that clean up later are ahead of time, which is not later than now.
        latest = min(newest[domain if domain == PROCESSING else operator], int(time.time() * 1000))
        late = times[times < latest - budgets.timer_age * 1000]
        if len(late):
            yield Finding(
                "old-timers",
                Severity.WARNING,
                f"{len(late)} {domain} timers are more than {timedelta(seconds=budgets.timer_age).days} days behind "
                f"{_moment(latest)}, the oldest at {_moment(int(late.min()))}: all fire at once when time advances",
                "look at their keys (pyspark-savepoint show --table timers); remove_keys removes them with their state",
                operator,
            )


def _moment(millis: int) -> str:
    try:
        return (EPOCH + timedelta(milliseconds=millis)).isoformat()
    except OverflowError:
        return f"{millis} ms"


def check_growth(savepoint: Examined, older: Examined) -> Iterator[Finding]:
    """Yield states without time to live that grew since an older snapshot while no key group lost entries."""
    with_ttl = {
        (row["operator_uid"] or row["operator_uid_hash"], row["state"])
        for row in savepoint.states().rows()
        if row["ttl"]
    }
    before = sizes_of(older)
    for place, groups in sizes_of(savepoint).items():
        operator, table, state = place
        if table not in ROWS_OF_KEYS or (operator, state) in with_ttl or place not in before:
            continue
        shrunk = any(groups.get(group, (0, 0))[0] < entries for group, (entries, _) in before[place].items())
        was, now = (sum(entries for entries, _ in found.values()) for found in (before[place], groups))
        if not shrunk and was and now > GROWTH * was:
            yield Finding(
                "grows-without-ttl",
                Severity.WARNING,
                f"from {was} to {now} entries since {older.path}, and no key group lost any",
                "give the state a time to live (StateTtlConfig), or clear it with a timer",
                operator,
                state,
            )
