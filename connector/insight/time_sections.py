"""Sections of the report about times: ages of state with a time to live, and timers."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from pyspark_savepoint.insight import charts
from pyspark_savepoint.insight.page import Cell, Chart, Section, count_of, moment, named, relative, size_of, span, table
from pyspark_savepoint.insight.section_parts import (
    DAY,
    FIRST_RELEASE,
    MOST_LINES,
    MOST_OPEN,
    MOST_OPERATORS,
    MOST_TIMES,
    Row,
    damage_note,
    series_of,
)
from pyspark_savepoint.insight.surveys import PROCESSING, Surveys, label_of
from pyspark_savepoint.statebackends.surveys.ttl_ages import snapshot_time_of
from pyspark_savepoint.text.texts import numbered

#: Timers that are so many seconds from the snapshot are of another clock.
FAR = 10 * 365 * DAY
#: Lengths of bars of times, in milliseconds.
STEPS = [
    *(step * 10**digits for digits in range(3) for step in (1, 2, 5)),
    *(1000 * step for step in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200)),
    *(1000 * DAY * step * 10**digits for digits in range(12) for step in (1, 2, 5)),
]
TIMES = ((DAY, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"), (0.001, "milliseconds"))


def is_a_time(seconds: float) -> bool:
    """Return whether a snapshot can have been taken at a time: since there is Flink, and not later than now."""
    return FIRST_RELEASE <= seconds <= time.time() + DAY


def ages_section(to: Section, surveys: Surveys) -> None:
    totals: dict[tuple[str, str, float, str], int] = {}
    for row in surveys.ages:
        if row["units"] is not None:
            low = -1 if row["from_seconds"] is None else row["from_seconds"]
            group = label_of(row), row["state"], low, age_of(row["from_seconds"], row["to_seconds"])
            totals[group] = totals.get(group, 0) + row["units"]
    keyed = [row for row in surveys.states if row["table"] in ("keyed_state", "window_state")]
    without = [row for row in keyed if not row["ttl"]]
    have = f"{len(keyed) - len(without)} of {numbered(len(keyed), 'keyed state')} have a time to live"
    to.short, to.about = have, f"{damage_note(surveys)}{have}. "
    if totals:
        (operator, state, _, age), units = max(totals.items(), key=lambda one: one[0][2])
        to.short += f"; the oldest are {numbered(units, 'entry', 'entries')} of {named(operator, state)}: {age}"
        to.about += (
            "Ages say how long before the snapshot entries (values, elements of lists, entries of maps) were last "
            "used. A snapshot does not record how long they live: what is older than the job's code says has expired, "
            "and is still stored."
        )
        younger = sum(units for (_, _, low, _), units in totals.items() if low < 0)
        if younger:
            to.notes.append(
                f"{numbered(younger, 'entry was', 'entries were')} used after the snapshot: its time is that of the "
                "last change of _metadata, and wrong if the folder was copied without its times. Then ages, and how "
                "far timers are away, are wrong by as much."
            )
        states = list(dict.fromkeys((operator, state) for operator, state, _, _ in totals))
        drawn = series_of(states[:MOST_LINES])
        bars = [
            {
                "x": age,
                "y": units,
                "series": drawn[operator, state],
                "said": f"{drawn[operator, state]}, {age}: {units:,}",
            }
            for (operator, state, _, age), units in sorted(totals.items(), key=lambda one: one[0][2])
            if (operator, state) in drawn
        ]
        if len({bar["x"] for bar in bars}) > 1:
            drawing = charts.bars(bars, "age at the snapshot", "entries", series=list(drawn.values()))
            to.charts.append(Chart("Entries by age", drawing))
        rows = [
            (operator, state, Cell(age, low), count_of(units))
            for (operator, state, low, age), units in sorted(totals.items())
        ]
        to.tables.append(table("Entries by age", "operator | state | last used before the snapshot | entries#", rows))
    elif len(without) < len(keyed):
        to.about += "Their ages cannot be read."
    sizes = {size.place: size for size in surveys.sizes}
    missing = [
        (label_of(row), row["state"], size_of(size.bytes), count_of(size.entries), row["table"])
        for row in without
        if (size := sizes.get((label_of(row), row["table"], row["state"] or ""))) is not None
    ]
    missing.sort(key=lambda row: -row[2].value)
    columns = "operator | state | bytes# | entries# | table"
    if missing:
        caption = "Keyed states with entries and without a time to live, the largest first"
        to.tables.append(table(caption, columns, missing, folded=len(missing) > MOST_OPEN))


def age_of(low: int | None, high: int | None) -> str:
    """Return a range of ages in seconds as people read it.

    >>> age_of(86_400, 604_800), age_of(600, 3600), age_of(0, 60), age_of(86_400, None)
    ('1 to 7 days', '10 minutes to 1 hour', 'less than 1 minute', '1 day or more')
    """
    if low is None:
        return "after the snapshot"
    if high is None:
        return f"{span(low)} or more"
    if not low:
        return f"less than {span(high)}"
    (first, unit), (last, last_unit) = span(low).split(), span(high).split()
    return f"{first if unit.rstrip('s') == last_unit.rstrip('s') else span(low)} to {last} {last_unit}"


def timers_section(to: Section, surveys: Surveys) -> None:
    now = snapshot_time_of(surveys.snapshot) // 1000
    rows: list[tuple[Any, ...]] = []
    far: list[str] = []
    by_count = sorted(surveys.timers.items(), key=lambda one: -one[1].count)
    for rank, ((operator, domain), times) in enumerate(by_count):
        first, last = times.first, times.last
        edges = histogram_edges(first, last, MOST_TIMES, now) if rank < MOST_OPERATORS else []
        moments = sorted({now, last + 1, *edges})
        before = dict(zip(moments, times.before(moments), strict=True))
        rows.append((
            operator, domain, count_of(times.count), count_of(before[now]), _distance(first - now),
            _distance(last - now), moment(first / 1000), moment(last / 1000),
        ))  # fmt: skip
        if max(now - first, last - now) > FAR * 1000:
            far.append(operator)
        if len(edges) > 1:
            ends = " to ".join(dict.fromkeys(moment(one / 1000) for one in (first, last)))
            caption = f"{named(operator)}: {domain} timers by time, {ends}"
            axis, bars = _times([*edges, last + 1], before, now)
            to.charts.append(Chart(caption, charts.bars(bars, axis, "timers")))
    if far:
        to.notes.append(
            f"Timers of {', '.join(map(named, dict.fromkeys(far)))} are more than 10 years from the snapshot: the "
            "event time of the job is no time of day, seconds and milliseconds were mixed up, or the time of the "
            "snapshot is wrong."
        )
    if surveys.unread_timers:
        those = ", ".join(map(named, surveys.unread_timers))
        why = next(iter(surveys.unread_timers.values())).partition("\n")[0]
        to.notes.append(f"Timers of {those} cannot be read: {why}")
    if not rows:
        none = "No operator has timers that can be read." if surveys.unread_timers else "No operator has timers."
        to.short = to.about = none
        return
    rows.sort(key=lambda row: row[4].value)
    to.short = f"none is before the snapshot; the earliest is one of {named(rows[0][0])}, {rows[0][4].text}"
    late: list[str] = []
    for domain in (PROCESSING, "event"):
        behind = [row for row in rows if row[1] == domain and row[3].value]
        if behind:
            many = numbered(sum(row[3].value for row in behind), f"{domain} timer is", f"{domain} timers are")
            of = f"{span(behind[0][4].value / 1000)}, of {named(behind[0][0])}"
            late.append(f"{many} before the snapshot, the earliest {of}")
    to.short = "; ".join(late) or to.short
    if surveys.unread_timers:
        to.short += f"; those of {numbered(len(surveys.unread_timers), 'operator')} cannot be read"
    to.about = (
        f"{damage_note(surveys)}Times are relative to the snapshot, {moment(now / 1000)}. An event timer is stored "
        "until the watermark passes it: at its operator, the watermark has not passed the earliest. Processing timers "
        "before the snapshot fire at once after a restore."
    )
    columns = "operator | time | timers# | before the snapshot# | earliest# | latest# | earliest at | latest at"
    to.tables.append(table("Timers by operator, the earliest first", columns, rows))


def _distance(millis: int) -> Cell:
    return Cell(relative(millis / 1000), millis)


def _times(edges: Sequence[int], before: Mapping[int, int], now: int) -> tuple[str, list[Row]]:
    """Return what the numbers of the axis are, and the bars of the histogram, by how many timers are before each edge.

    Bars are between edges, the last of which is after the last timer.
    """
    first, last = edges[0], edges[-1] - 1
    # Timers that are far from the snapshot are told apart from each other instead.
    is_near = max(abs(first - now), abs(last - now)) < 20 * (last - first)
    base = now if is_near else first
    reach = max(abs(first - base), abs(last - base), 1) / 1000
    unit, name = next((known for known in TIMES if reach >= 2 * known[0]), TIMES[-1])
    # Two bars never have the same number.
    digits = max(0, math.ceil(-math.log10((edges[1] - first if len(edges) > 2 else 1) / 1000 / unit)))
    return f"{name} after {'the snapshot' if is_near else moment(first / 1000)}", [
        {
            "x": f"{(low - base) / 1000 / unit:.{digits}f}", "y": before[high] - before[low],
            "said": f"{moment(low / 1000)} to {moment(high / 1000)}: {before[high] - before[low]:,}",
        }
        for low, high in pairwise(edges)
    ]  # fmt: skip


def histogram_edges(first: int, last: int, most: int, origin: int = 0) -> list[int]:
    """Return where the bars of times in milliseconds begin, at most so many, the last of which has the last time.

    Their length is a round one, and a bar begins at the origin.

    >>> histogram_edges(3_200, 61_000, 24), histogram_edges(5, 5, 24)
    ([0, 5000, 10000, 15000, 20000, 25000, 30000, 35000, 40000, 45000, 50000, 55000, 60000], [5])
    """

    def edges(step: int) -> range:
        return range(origin + (first - origin) // step * step, last + 1, step)

    return list(edges(next((step for step in STEPS if len(edges(step)) <= most), STEPS[-1])))
