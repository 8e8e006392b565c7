"""What sections of the report have in common: limits, colours of series, and what a figure leaves out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark_savepoint.formats.redaction import shown
from pyspark_savepoint.formats.snapshot.histories import SnapshotInfo
from pyspark_savepoint.insight.budgets import Budgets
from pyspark_savepoint.insight.page import brief, title_of
from pyspark_savepoint.insight.surveys import Examined, Surveys
from pyspark_savepoint.statebackends.evolution.changes import Evolution
from pyspark_savepoint.statebackends.jobs.restore.job_reader import Job
from pyspark_savepoint.text.texts import numbered, readable_size

#: Tiles and frames of the treemap, and operators and states that have a chart of their own, or a line.
MOST_TILES, MOST_FRAMES, MOST_OPERATORS, MOST_LINES = 250, 120, 4, 7
MOST_HEAVY, MOST_OF_STATE, MOST_BARS, MOST_TIMES = 100, 5, 128, 24
#: Snapshots of a folder, the newest, that are compared entry by entry with the one before.
MOST_COMPARED = 20
DAY = 86_400
#: When Flink's first release was, in seconds; the least time between two snapshots that tells how much a day brings.
FIRST_RELEASE, LEAST_TIME = 1_400_000_000, 3_600
#: Rows of a table that is not folded.
MOST_OPEN = 12
#: Operators that a figure leaves out, by name, and how long their names may be.
MAX_LISTED, MAX_NAME_LENGTH = 3, 60
OTHERS = "(others)"
Row = Mapping[str, Any]


@dataclass(frozen=True)
class ReportRequest:
    """What a report is about besides the snapshot."""

    #: Snapshots of the folder, oldest first; the last is that of the report.
    history: Sequence[SnapshotInfo] = ()
    since: Examined | None = None
    job: Job | None = None
    flink: str | None = None
    budgets: Budgets = field(default_factory=Budgets)
    show_keys: bool = False
    #: What becomes of the state under another query of its SQL job.
    evolution: Evolution | None = None


def series_of(states: Iterable[Sequence[str]]) -> dict[Sequence[str], str]:
    """Return names of series: of operators, or of their states. Two that look the same have a number after them."""
    names: dict[Sequence[str], str] = {}
    for state in states:
        name = title_of(*state)
        same = sum(other.partition(" (")[0] == name for other in names.values())
        names[state] = f"{name} ({same + 1})" if same else name
    return names


def damage_note(surveys: Surveys) -> str:
    """Return what is missing in all numbers. An empty text if nothing is."""
    unread = surveys.unread_operators
    return f"{_unreadable_operators(surveys, unread)}: no number of state includes them. " if unread else ""


def _unreadable_operators(surveys: Surveys, unread: Collection[str]) -> str:
    """Return how many operators cannot be read, and how many bytes of files they have."""
    size = sum(one.state_size for one in surveys.snapshot.operators if (one.uid or str(one.operator_id)) in unread)
    return (
        f"{len(unread)} of {numbered(len(surveys.snapshot.operators), 'operator')} cannot be read, with "
        f"{readable_size(size)} in files"
    )


def omission_note(surveys: Surveys, unread: Collection[str]) -> str:
    """Return which operators a figure leaves out, and how many bytes of files they have."""
    named = sorted(shown(brief(name), MAX_NAME_LENGTH, line=True) for name in unread)
    more = f" and {len(named) - MAX_LISTED} more" if len(named) > MAX_LISTED else ""
    return f"{_unreadable_operators(surveys, unread)}: {', '.join(named[:MAX_LISTED])}{more}"
