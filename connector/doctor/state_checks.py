"""Checks that read state: sizes of key groups and keys, ages, timers, growth between two snapshots."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from pyspark_savepoint.doctor.findings import Budgets, Finding, Severity
from pyspark_savepoint.doctor.surveys import Surveys, label_of
from pyspark_savepoint.execution.texts import readable_size
from pyspark_savepoint.statebackends.model.applicability import ROWS_OF_KEYS

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Smallest growth of a state that is reported.
GROWTH = 1.01


def check_state(surveys: Surveys, budgets: Budgets) -> Iterator[Finding]:
    """Yield findings about the state of one snapshot."""
    yield from _skew(surveys, budgets)
    yield from _heavy_keys(surveys, budgets)
    yield from _ages(surveys, budgets)
    yield from _timers(surveys, budgets)


def _skew(surveys: Surveys, budgets: Budgets) -> Iterator[Finding]:
    for operator, totals in surveys.key_groups.items():
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


def _heavy_keys(surveys: Surveys, budgets: Budgets) -> Iterator[Finding]:
    for row in surveys.heaviest:
        if row["bytes"] is not None and row["bytes"] > budgets.key:
            yield Finding(
                "heavy-key",
                Severity.WARNING,
                f"key {row['key']} has {row['entries']} entries of {readable_size(row['bytes'])}, in key group "
                f"{row['key_group']}",
                "bound what a key collects (a time to live, a limit in the job), or split the key",
                label_of(row),
                row["state"],
            )


def _ages(surveys: Surveys, budgets: Budgets) -> Iterator[Finding]:
    if budgets.ttl_age is None:
        return
    old: dict[tuple[str, str], int] = {}
    for row in surveys.ages:
        if row["from_seconds"] is not None and row["from_seconds"] >= budgets.ttl_age:
            place = label_of(row), row["state"]
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


def _timers(surveys: Surveys, budgets: Budgets) -> Iterator[Finding]:
    for (operator, domain), times in surveys.timers.items():
        # Timers that clean up later are ahead of time, which is not later than now.
        latest = min(surveys.now_of(operator, domain), int(time.time() * 1000))
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


def check_growth(surveys: Surveys, older: Surveys) -> Iterator[Finding]:
    """Yield states without time to live that grew since an older snapshot while no key group lost entries."""
    with_ttl = {(label_of(row), row["state"]) for row in surveys.states if row["ttl"]}
    before = {size.place: size for size in older.sizes}
    for size in surveys.sizes:
        was = before.get(size.place)
        if size.table not in ROWS_OF_KEYS or (size.operator, size.state) in with_ttl or was is None:
            continue
        shrunk = any(size.groups.get(group, (0, 0))[0] < entries for group, (entries, _) in was.groups.items())
        if not shrunk and was.entries and size.entries > GROWTH * was.entries:
            yield Finding(
                "grows-without-ttl",
                Severity.WARNING,
                f"from {was.entries} to {size.entries} entries since {older.path}, and no key group lost any",
                "give the state a time to live (StateTtlConfig), or clear it with a timer",
                size.operator,
                size.state,
            )
