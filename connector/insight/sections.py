"""What the report says about a snapshot, and the snapshots of its folder: a section for each question.

Each section is made of what is read once (:class:`Surveys`). A section whose state cannot be read says so, and the
others are there.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import astuple, dataclass, field, fields
from itertools import pairwise
from typing import Any

from pyspark_savepoint.engines.face import at_path
from pyspark_savepoint.formats.errors import MISSING, OptionError, SavepointError, UnsafePathError
from pyspark_savepoint.formats.flink_releases import RELEASES
from pyspark_savepoint.formats.io.byte_source import FileLocation
from pyspark_savepoint.formats.metadata import SnapshotKind
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.keyed_handles import (
    ChangelogStateBackendHandle,
    IncrementalRemoteKeyedStateHandle,
    KeyedStateHandle,
    KeyGroupsSavepointStateHandle,
)
from pyspark_savepoint.formats.redaction import shown
from pyspark_savepoint.formats.snapshot.as_of import history_up_to
from pyspark_savepoint.formats.snapshot.finished import finished_subtasks
from pyspark_savepoint.formats.snapshot.histories import SnapshotInfo
from pyspark_savepoint.formats.snapshot.leftovers import entries_of
from pyspark_savepoint.formats.snapshot.relocation import streams_of
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.insight import charts
from pyspark_savepoint.insight.doctor import Budgets, Severity, examined
from pyspark_savepoint.insight.evolved_states import EvolutionReport, counted_entries
from pyspark_savepoint.insight.metrics import bytes_of_subtasks, new_bytes
from pyspark_savepoint.insight.page import (
    Cell,
    Chart,
    Section,
    brief,
    code,
    count_of,
    html,
    moment,
    named,
    percent,
    relative,
    size_more,
    size_of,
    span,
    table,
    title_of,
)
from pyspark_savepoint.insight.restore import check_snapshot
from pyspark_savepoint.insight.surveys import PROCESSING, Examined, StateSize, Surveys, label_of
from pyspark_savepoint.options.paths import reached
from pyspark_savepoint.statebackends.evolution.changes import Evolution
from pyspark_savepoint.statebackends.jobs.restore.job_reader import Job
from pyspark_savepoint.statebackends.jobs.restore.restore_verdicts import Verdict
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import MigrationVerdict, Outcome
from pyspark_savepoint.statebackends.surveys.ttl_ages import snapshot_time_of
from pyspark_savepoint.text import progress
from pyspark_savepoint.text.texts import numbered, readable_size

#: Tiles and frames of the treemap, and operators and states that have a chart of their own, or a line.
MOST_TILES, MOST_FRAMES, MOST_OPERATORS, MOST_LINES = 250, 120, 4, 7
MOST_HEAVY, MOST_OF_STATE, MOST_BARS, MOST_TIMES = 100, 5, 128, 24
#: Snapshots of a folder, the newest, that are compared entry by entry with the one before.
MOST_COMPARED = 20
#: Parallelism as a multiple of that of the snapshot.
SCALES = {1: "as it is", 0.5: "half", 2: "2 times", 4: "4 times"}
DAY = 86_400
#: When Flink's first release was, in seconds; the least time between two snapshots that tells how much a day brings.
FIRST_RELEASE, LEAST_TIME = 1_400_000_000, 3_600
#: Rows of a table that is not folded.
MOST_OPEN = 12
#: Operators that a figure leaves out, by name, and how long their names may be.
MAX_LISTED, MAX_NAME_LENGTH = 3, 60
#: Timers that are so many seconds from the snapshot are of another clock.
FAR = 10 * 365 * DAY
#: Lengths of bars of times, in milliseconds.
STEPS = [
    *(step * 10**digits for digits in range(3) for step in (1, 2, 5)),
    *(1000 * step for step in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200)),
    *(1000 * DAY * step * 10**digits for digits in range(12) for step in (1, 2, 5)),
]
TIMES = ((DAY, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"), (0.001, "milliseconds"))
OTHERS = "(others)"
#: State in which a source (FLIP-27) keeps the splits of its readers.
READERS = "SourceReaderState"
#: What Flink does without a migration, and verdicts, in a sentence.
OUTCOMES = {
    Outcome.WRONG_VALUES: "reads other values of (without an error)",
    Outcome.FAILS: "fails at",
    Outcome.UNKNOWN: "may fail at",
}
WORDS = {MigrationVerdict.NEEDS.value: "need an argument", MigrationVerdict.AS_IS.value: "stay as they are"}
#: What a comparison counts of a state.
COUNTS = ("before", "after", "added", "changed", "removed")
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


def history_of(snapshot: Snapshot, folder: str, options: Mapping[str, str], last: int) -> Sequence[SnapshotInfo]:
    """Return the newest snapshots of the history of a snapshot in a folder, oldest first."""
    if last < 2:
        raise OptionError("argument 'last' must be at least 2: growth is between snapshots", found=last)
    history = history_up_to(reached(folder, options), snapshot.path)
    if not history:
        raise OptionError(
            "the folder does not have the snapshot",
            path=folder,
            expected=snapshot.path,
            remedy="name a folder above it",
        )
    return history[-last:]


def page_of(savepoint: Examined, asked: ReportRequest) -> str:
    """Return the page about a snapshot.

    Raises:
        OptionError: If the packages of the extra ``report`` are not installed, or an argument is invalid.

    """
    charts.needed()
    surveys = Surveys(savepoint, asked.show_keys)
    past = [surveys.at(info.path) for info in asked.history[:-1]]
    older = None if asked.since is None else Surveys(asked.since, asked.show_keys)
    planned: list[tuple[str, str, Callable[[Section], None]]] = [
        ("what", "What it is", lambda to: _what(to, surveys, asked)),
        ("findings", "Findings", lambda to: _findings(to, surveys, older, asked)),
        ("sizes", "Operators and states", lambda to: _sizes(to, surveys)),
        ("skew", "Key groups and subtasks", lambda to: _skew(to, surveys)),
        ("heaviest", "Heaviest keys", lambda to: _heaviest(to, surveys)),
        ("ttl", "Ages of state with a time to live", lambda to: _ages(to, surveys)),
        ("timers", "Timers", lambda to: _timers(to, surveys)),
        ("sources", "Sources", lambda to: _sources(to, surveys, past[-1] if past else older)),
        ("types", "Types", lambda to: _types(to, surveys)),
    ]
    if len(asked.history) > 1:
        planned.append(("growth", "Growth over checkpoints", lambda to: _growth(to, [*past, surveys], asked)))
        planned.append(("changes", "Changes per checkpoint", lambda to: _changes(to, [*past, surveys], asked)))
    job, flink = asked.job, asked.flink
    if older is not None:
        planned.append(("since", "What differs from the older snapshot", lambda to: _since(to, surveys, older)))
    if job is not None:
        planned.append(("restore", "Would the job restore it?", lambda to: _restore(to, surveys.snapshot, job, flink)))
    if flink is not None:
        planned.append(("migration", f"Migration to Flink {flink}", lambda to: _migration(to, surveys, flink)))
    evolved = evolved_of(savepoint, surveys, asked.evolution)
    if evolved is not None:
        title = "What became of the old query's state" if evolved.after else "What becomes of it under the new query"
        planned.append(("evolution", title, lambda to: _evolution(to, evolved)))
    sections = []
    for name, title, fill in planned:
        section = Section(name, title)
        progress.detail(title)
        try:
            fill(section)
        except SavepointError as error:
            section.notes.append(f"This cannot be shown: {error}")
        sections.append(section)
    return html(surveys.path or "", sections)


def series_of(states: Iterable[Sequence[str]]) -> dict[Sequence[str], str]:
    """Return names of series: of operators, or of their states. Two that look the same have a number after them."""
    names: dict[Sequence[str], str] = {}
    for state in states:
        name = title_of(*state)
        same = sum(other.partition(" (")[0] == name for other in names.values())
        names[state] = f"{name} ({same + 1})" if same else name
    return names


def _what(to: Section, surveys: Surveys, asked: ReportRequest) -> None:
    snapshot = surveys.snapshot
    with_state = sum(one.state_size > 0 for one in snapshot.operators)
    filled = sum(size.entries > 0 for size in surveys.sizes)
    taken = snapshot_time_of(snapshot) / 1e6
    to.facts = [
        ("path", snapshot.path),
        ("kind", ", ".join(_kinds(snapshot))),
        ("checkpoint id", f"{snapshot.metadata.checkpoint_id:,}"),
        ("taken", f"{moment(taken)} (the modification time of _metadata)"),
        ("job", _job_id(snapshot.path) or "not recorded"),
        ("Flink", _releases(snapshot.metadata.version)),
        ("state backend", ", ".join(_backends(snapshot)) or "no keyed state"),
        ("operators", f"{len(snapshot.operators):,}, {with_state:,} with state"),
        ("states", f"{len(surveys.states):,}, {filled:,} with entries: {sum(one.entries for one in surveys.sizes):,}"),
    ]
    to.notes += [f"{hole}See {code('Operators and states')}." for hole in filter(None, [_hole(surveys)])]
    _files(to, snapshot)
    to.facts.append(("in flight", _in_flight(snapshot)))
    if len(asked.history) > 1:
        first, last = asked.history[0], asked.history[-1]
        oldest = f"the oldest is {first.checkpoint_id}, {moment(first.modified or 0)}"
        snapshots = numbered(len(asked.history), "snapshot")
        to.facts.append(("folder", f"{snapshots}, checkpoints {first.checkpoint_id} to {last.checkpoint_id}; {oldest}"))
    if not is_a_time(taken):
        to.notes.append(
            f"The snapshot was not taken at {moment(taken)}: its files were unpacked or copied without their times. "
            "Ages, rates, and how far timers are away, are wrong by as much."
        )
    if asked.job is None and asked.flink is None:
        to.hints.append(
            f"{code('--job JOB')} and {code('--flink RELEASE')} say whether a job, or another release, restores it."
        )
    if snapshot.operators and not any(operator.uid for operator in snapshot.operators):
        to.hints.append(
            "Operators are named by hashes of their uids, as Flink before 2.0 does not record uids. "
            f"{code('--option uids=UID,UID')} takes the uids of the job's code, and names their operators."
        )
    rows = [
        (
            *(one.uid or str(one.operator_id), one.name, one.parallelism, len(finished_subtasks(one))),
            *(one.max_parallelism, size_of(one.state_size)),
        )
        for one in sorted(snapshot.operators, key=lambda one: -one.state_size)
    ]
    columns = "uid, or its hash | name | parallelism# | finished# | max parallelism# | bytes in files#"
    to.tables.append(table("Operators", columns, rows, folded=len(rows) > MOST_OPEN))


def is_a_time(seconds: float) -> bool:
    """Return whether a snapshot can have been taken at a time: since there is Flink, and not later than now."""
    return FIRST_RELEASE <= seconds <= time.time() + DAY


def _kinds(snapshot: Snapshot) -> Iterator[str]:
    """Yield what kind of snapshot it is."""
    yield snapshot.kind.value
    if snapshot.kind is SnapshotKind.CHECKPOINT and any(
        isinstance(part, IncrementalRemoteKeyedStateHandle) and part.shared_state for part in _keyed_parts(snapshot)
    ):
        yield "incremental"
    if _channels(snapshot):
        yield "unaligned"


def _hole(surveys: Surveys) -> str:
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


def _files(to: Section, snapshot: Snapshot) -> None:
    """Say of which files the snapshot is, and which are outside of its folder."""
    folder, sizes = snapshot.location.directory.rstrip("/") + "/", dict[tuple[str, bool], int]()
    for operator in snapshot.operators:
        for handle in streams_of(operator):
            try:
                place = snapshot.resolve(handle, operator)
            except UnsafePathError as error:
                file = str(error.facts.get("path")), False
            else:
                if not isinstance(place, FileLocation):
                    continue  # in _metadata
                file = place.path.removeprefix(folder), place.path.startswith(folder)
            sizes[file] = sizes.get(file, 0) + handle.state_size
    missing = _missing(snapshot, [path for path, is_inside in sizes if is_inside])
    if missing:
        to.notes.append(
            f"{numbered(len(missing), 'file is', 'files are')} not in its folder: {', '.join(missing[:MAX_LISTED])}"
            f"{' ...' if len(missing) > MAX_LISTED else ''}. {MISSING[0].upper()}{MISSING[1:]}."
        )
    outside = [size for (_, is_inside), size in sizes.items() if not is_inside]
    whole = f"{readable_size(sum(one.state_size for one in snapshot.operators))} in {numbered(len(sizes), 'file')}"
    if outside:
        to.facts.append(("files", (
            f"{whole} and _metadata; {len(outside):,} of them ({readable_size(sum(outside))}) outside of its folder, "
            f"which other checkpoints may share: {code('pyspark-savepoint cp')} copies it with all files"
        )))  # fmt: skip
    elif missing:
        to.facts.append(("files", f"{whole} and _metadata; {len(missing):,} of them missing"))
    else:
        to.facts.append(("files", f"{whole} and _metadata, all in its folder: it can be moved and copied as it is"))
    absent = frozenset(missing)
    rows = [
        (path, size_of(size), "missing" if path in absent else "in its folder" if is_inside else "outside")
        for (path, is_inside), size in sorted(sizes.items(), key=lambda one: (one[0][1], -one[1]))
    ]
    to.tables.append(table("Files", "file | bytes# | where", rows, folded=True))


def _missing(snapshot: Snapshot, names: Sequence[str]) -> list[str]:
    """Return the files of a snapshot's folder that are not in it. None if the folder cannot be listed."""
    try:
        found = {entry.name for entry in entries_of(snapshot.location.filesystem, snapshot.location.directory)}
    except (SavepointError, OSError):
        return []
    return [name for name in names if "/" not in name and name not in found]


def _channels(snapshot: Snapshot) -> list[tuple[OperatorID, int]]:
    """Return the operators that have records in flight, and their bytes, a pair for each channel."""
    return [
        (operator.operator_id, handle.state_size)
        for operator in snapshot.operators
        for subtask in operator.subtasks.values()
        for handle in (*subtask.input_channel_state, *subtask.result_subpartition_state)
    ]


def _in_flight(snapshot: Snapshot) -> str:
    """Return what an unaligned checkpoint has of records between operators."""
    channels = _channels(snapshot)
    if not channels:
        return "no records"
    size = readable_size(sum(size for _, size in channels))
    operators = numbered(len({operator for operator, _ in channels}), "operator")
    return f"{size} of records, in {numbered(len(channels), 'channel')} of {operators}: an unaligned checkpoint"


def _job_id(path: str) -> str | None:
    match = re.search(r"/([0-9a-f]{32})/chk-\d+", path)
    return match[1] if match else None


def _releases(version: int) -> str:
    names = [release.name for release in RELEASES if release.metadata == version]
    if not names:
        return f"older than {RELEASES[0].name} (metadata version {version})"
    return f"{names[0]}{f' to {names[-1]}' if len(names) > 1 else ''} (metadata version {version})"


def _keyed_parts(snapshot: Snapshot) -> Iterator[KeyedStateHandle]:
    """Yield the handles of keyed state. That of a changelog comes before those of what it materialized."""
    for operator in snapshot.operators:
        for subtask in operator.subtasks.values():
            handle = subtask.managed_keyed_state
            if handle is not None:
                yield handle
            if isinstance(handle, ChangelogStateBackendHandle):
                yield from handle.materialized


def _backends(snapshot: Snapshot) -> list[str]:
    backends: dict[str, None] = {}
    for part in _keyed_parts(snapshot):
        if isinstance(part, ChangelogStateBackendHandle):
            backends["changelog"] = None
        elif isinstance(part, KeyGroupsSavepointStateHandle):
            backends["any (canonical format)"] = None
        elif isinstance(part, IncrementalRemoteKeyedStateHandle):
            backends["RocksDB or ForSt (its own files)"] = None
        else:
            backends["hashmap, or RocksDB (full)"] = None
    return list(backends)


def _findings(to: Section, surveys: Surveys, older: Surveys | None, asked: ReportRequest) -> None:
    findings = examined(surveys, asked.budgets, older, asked.job)
    counts = [(severity, sum(one.severity is severity for one in findings)) for severity in Severity]
    counted = ", ".join(numbered(number, severity.value) for severity, number in counts)
    by, changes = code("pyspark-savepoint doctor"), code("--budget")
    to.about = f"{counted}, as {by} finds them. What is within the limits, which {changes} changes, is not a finding."
    rows = [(one.severity.value, one.check, one.operator, one.state, one.evidence, one.remedy) for one in findings]
    to.short = "nothing above the limits was found"
    if rows:
        subject = findings[0].operator and named(findings[0].operator, findings[0].state)
        to.short = f"{counted}; the first is {findings[0].check}{subject and f' of {subject}'}"
        columns = "severity | check | operator | state | what was found | what to do"
        to.tables.append(table("Findings, the worst first", columns, rows, choices=0))
    to.tables.append(table("Limits", "limit | is | of", list(_limits(asked.budgets)), folded=True))


def _limits(budgets: Budgets) -> Iterator[tuple[str, str, str]]:
    """Yield the limits as ``--budget`` takes their names."""
    for each, limit in zip(fields(budgets), astuple(budgets), strict=True):
        said = {"bytes": readable_size, "seconds": span}.get(each.metadata["unit"], "{:g}".format)
        yield each.name.replace("_", "-"), "none" if limit is None else said(limit), each.metadata["doc"]


def _sizes(to: Section, surveys: Surveys) -> None:
    sizes = surveys.sizes
    total = sum(size.bytes for size in sizes)
    to.about = (
        f"{_hole(surveys)}{readable_size(total)} of keys and values, serialized, in {numbered(len(sizes), 'state')}. "
        "Files have other sizes: they are compressed, and have indexes and what was deleted."
    )
    unread = [_reason(row) for row in surveys.unread if row["table"] is None]
    if unread:
        to.hints.append(
            f"What cannot be read is below. Options that are named there are {code('--option NAME=VALUE')} here."
        )
    to.short = f"{len(surveys.unread_operators)} of {len(surveys.snapshot.operators)} operators cannot be read"
    if not surveys.unread_operators:
        to.short = "no state has bytes"
    if total:
        most = sizes[0]
        label, share = named(most.operator, most.state or most.table), 100 * most.bytes / total
        of = "what can be read" if surveys.unread_operators else "all"
        hole = f"{to.short}; " if surveys.unread_operators else ""
        entries = numbered(most.entries, "entry", "entries")
        to.short = (
            f"{hole}the largest state is {label}: {readable_size(most.bytes)}, {share:.1f} % of {of}, in {entries}"
        )
        tiles = _tiles(sizes)
        caption = "Bytes by operator (frame) and state (tile)"
        to.charts.append(Chart(caption, charts.treemap(tiles, 1100, 340), charts.treemap(tiles, 370, 340)))
    rows = [
        (
            size.operator, size.state, size_of(size.bytes), percent(size.bytes / max(total, 1)), count_of(size.entries),
            size_of(size.largest), size.table, size.kind.lower(),
        )
        for size in sizes
    ]  # fmt: skip
    columns = "operator | state | bytes# | share# | entries# | largest entry# | table | kind"
    to.tables.append(table("States, the largest first", columns, rows))
    if unread:
        to.tables.append(table("What cannot be read", "operator | state | why | what was found | what to do", unread))


def _reason(row: Row) -> tuple[str, ...]:
    """Return the row of a state that cannot be read: its note is an error, whose facts are a line each."""
    message, *lines = str(row["note"]).split("\n")
    facts = dict(line.strip().partition(": ")[::2] for line in lines)
    return label_of(dict(row)), facts.get("state", ""), message, facts.get("found", ""), facts.get("to do", "")


def _tiles(sizes: Sequence[StateSize]) -> list[Row]:
    """Return the tiles of the treemap: operators and their states; of many, small ones are joined."""
    operators: dict[str, dict[str, int]] = {}
    for rank, state_size in enumerate(sizes):
        operator = state_size.operator if state_size.operator in operators or len(operators) < MOST_FRAMES else OTHERS
        states = operators.setdefault(operator, {})
        state = (state_size.state or state_size.table) if rank < MOST_TILES and operator != OTHERS else OTHERS
        states[state] = states.get(state, 0) + state_size.bytes
    tiles: list[Row] = [{"id": "all", "parent": None}]
    for index, (operator, states) in enumerate(sorted(operators.items(), key=lambda one: -sum(one[1].values()))):
        colour, name = charts.COLOURS[index % len(charts.COLOURS)], charts.said(operator)
        size = readable_size(sum(states.values()))
        said = f"{name}: {size}"
        tiles.append(
            {
                "id": f"o{index}",
                "parent": "all",
                "name": f"{charts.on_tile(operator)}  {size}",
                "said": said,
                "colour": colour,
            }
        )
        for number, (state, count) in enumerate(states.items()):
            own, size = charts.said(state), readable_size(count)
            tiles.append({
                "id": f"o{index}s{number}", "parent": f"o{index}", "name": charts.on_tile(state), "size": count,
                "colour": colour, "amount": size, "said": f"{name}, {own}: {size}",
            })  # fmt: skip
    return tiles


def _skew(to: Section, surveys: Surveys) -> None:
    by_size = sorted(surveys.key_groups.items(), key=lambda one: -sum(one[1].values()))
    known = {one.uid or str(one.operator_id): one for one in surveys.snapshot.operators}
    if not by_size:
        to.short = to.about = f"{_hole(surveys)}No operator has keyed state that can be read."
        return
    to.about = (
        f"{_hole(surveys)}1.00 is even: the heaviest has as many bytes as the average, of key groups the average of "
        "those with state. A key group moves as a whole, so that a heavy one stays heavy at every parallelism."
    )
    rows: list[Sequence[Any]] = []
    per_subtask: list[Sequence[Any]] = []
    points: list[dict[str, Any]] = []
    excess, heavier, of_subtask, heavy = -1.0, 0.0, "", ""
    uneven: tuple[float, str, str] = (1.0, "", "")
    drawn = series_of((name,) for name, _ in by_size[:MOST_OPERATORS])
    is_same = len({known[name].parallelism for name, _ in by_size[:MOST_OPERATORS]}) == 1
    for rank, (name, groups) in enumerate(by_size):
        operator = known[name]
        limit, mean = operator.max_parallelism, sum(groups.values()) / len(groups)
        by_parallelism = {
            parallelism: bytes_of_subtasks(groups, parallelism, limit)
            for parallelism in parallelisms(operator.parallelism, limit)
        }
        skews = {number: max(sizes) * number / max(sum(sizes), 1) for number, sizes in by_parallelism.items()}
        subtasks, skew = by_parallelism[operator.parallelism], skews[operator.parallelism]
        heaviest = subtasks.index(max(subtasks))
        if (extra := max(subtasks) * (1 - 1 / max(skew, 1))) > heavier:
            heavier, heavy = extra, name
            of_subtask = (
                f"; the heaviest subtask is {heaviest} of {named(name)}: {readable_size(max(subtasks))}, "
                f"{skew:.2f} times the average at parallelism {operator.parallelism}"
            )
        if skew > uneven[0]:
            size = readable_size(max(subtasks))
            uneven = skew, name, f"; the most uneven is {heaviest} of {named(name)}: {size}, {skew:.2f} times"
        worst = max(groups, key=lambda group: groups[group])
        if groups[worst] - mean > excess:
            excess = groups[worst] - mean
            ratio, size = groups[worst] / max(mean, 1), readable_size(groups[worst])
            to.short = (
                f"the heaviest is key group {worst} of {named(name)}: {size}, {ratio:.2f} times the average of the "
                f"{len(groups):,} of {limit:,} with state"
            )
        rows.append((
            name, size_of(groups[worst]), ratio_of(groups[worst] / max(mean, 1)), worst, size_of(sum(groups.values())),
            f"{len(groups):,} of {limit:,}",
        ))  # fmt: skip
        others = (
            f"{readable_size(max(sizes))} ({skews[number]:.2f}) at {number}"
            for number, sizes in by_parallelism.items()
            if number != operator.parallelism
        )
        per_subtask.append((
            name, size_of(max(subtasks)), ratio_of(skew), heaviest, operator.parallelism, ", ".join(others)
        ))  # fmt: skip
        if rank < MOST_OPERATORS:
            bars = _binned(groups, limit, worst)
            filled = [bar["y"] for bar in bars if bar["y"]] or [0]
            width, said = -(-limit // MOST_BARS), drawn[name,]
            what = "key group" if width == 1 else f"{width} key groups each, from"
            alone = "" if width == 1 else f", {width} to a bar"
            marked = f"orange has the heaviest, {worst}; dashed: the average of bars"
            caption = f"{named(name)}: bytes by key group{alone}; {marked}"
            to.charts.append(Chart(caption, charts.bars(bars, what, "bytes", mean=sum(filled) / len(filled))))
            points += [
                {
                    "x": f"{parallelism}" if is_same else label,
                    "y": skews[parallelism],
                    "series": said,
                    "said": f"{said}, parallelism {parallelism}: {skews[parallelism]:.2f} times the average",
                }
                for parallelism, label in _labels(operator.parallelism, limit).items()
            ]
    to.short += of_subtask + (uneven[2] if uneven[1] != heavy else "")
    order = [label for _, label in sorted(SCALES.items())]
    points.sort(key=lambda point: int(point["x"]) if is_same else order.index(point["x"]))
    caption = "Bytes of the heaviest subtask, as a multiple of the average, at other parallelisms"
    axis = "parallelism" if is_same else "parallelism, compared with that of the snapshot"
    to.charts.append(Chart(caption, charts.lines(points, axis, "times the average", list(drawn.values()))))
    columns = "operator | bytes of the heaviest# | times the average# | key group# | bytes# | key groups with state"
    to.tables.append(table("Heaviest key groups of operators", columns, rows))
    columns = "operator | bytes of the heaviest# | times the average# | subtask# | parallelism# | at other parallelisms"
    to.tables.append(table("Heaviest subtasks of operators", columns, per_subtask))


def ratio_of(number: float) -> Cell:
    """Return a multiple."""
    return Cell(f"{number:.2f}", number)


def parallelisms(parallelism: int, limit: int) -> list[int]:
    """Return the numbers of subtasks for which skew is shown: that of the snapshot and others."""
    return sorted(_labels(parallelism, limit))


def _labels(parallelism: int, limit: int) -> dict[int, str]:
    labels: dict[int, str] = {}
    for scale, label in SCALES.items():
        labels.setdefault(max(1, min(limit, int(parallelism * scale))), label)
    return labels


def _binned(groups: Mapping[int, int], limit: int, worst: int) -> list[Row]:
    """Return the bars of the key groups; of many, neighbours are one bar. That of the heaviest is marked."""
    width = -(-limit // MOST_BARS)
    sums = [0] * -(-limit // width)
    for group, size in groups.items():
        sums[group // width] += size
    return [
        {
            "x": str(index * width),
            "y": size,
            "said": f"key group{_range(index * width, width, limit)}: {readable_size(size)}",
            "marked": index == worst // width,
        }
        for index, size in enumerate(sums)
    ]


def _range(first: int, width: int, limit: int) -> str:
    last = min(first + width, limit) - 1
    return f" {first}" if first == last else f"s {first} to {last}"


def _heaviest(to: Section, surveys: Surveys) -> None:
    whole = {size.place: size.bytes for size in surveys.sizes}
    heaviest = sorted((row for row in surveys.heaviest if row["bytes"] is not None), key=lambda row: -row["bytes"])
    if not heaviest:
        to.short = to.about = f"{_hole(surveys)}No operator has keyed state that can be read."
        return
    to.about = _hole(surveys)
    if not surveys.show_keys:
        to.about += f"Keys may be personal data: they are shown only if the report is made with {code('--show-keys')}."
    rows: list[tuple[Any, ...]] = []
    of_state = Counter[tuple[str, str, str]]()
    for row in heaviest:
        place = label_of(row), row["table"], row["state"] or ""
        of_state[place] += 1
        if of_state[place] > MOST_OF_STATE or len(rows) == MOST_HEAVY:
            continue
        share = row["bytes"] / max(whole.get(place, 1), 1)
        rows.append((
            label_of(row), row["state"], " ".join(filter(None, (row["key"], row["window"]))), size_of(row["bytes"]),
            percent(share, 2), count_of(row["entries"]), row["key_group"], row["subtask"],
        ))  # fmt: skip
    operator, state, _, size, part, _, group, _ = rows[0]
    to.short = f"a key of {named(operator, state)} has {size.text}, {part.text} of the state, in key group {group}"
    columns = "operator | state | key | bytes# | of its state# | entries# | key group# | subtask#"
    to.tables.append(table(f"Keys of most bytes, of each state at most {MOST_OF_STATE}", columns, rows))


def _ages(to: Section, surveys: Surveys) -> None:
    totals: dict[tuple[str, str, float, str], int] = {}
    for row in surveys.ages:
        if row["units"] is not None:
            low = -1 if row["from_seconds"] is None else row["from_seconds"]
            group = label_of(row), row["state"], low, age_of(row["from_seconds"], row["to_seconds"])
            totals[group] = totals.get(group, 0) + row["units"]
    keyed = [row for row in surveys.states if row["table"] in ("keyed_state", "window_state")]
    without = [row for row in keyed if not row["ttl"]]
    have = f"{len(keyed) - len(without)} of {numbered(len(keyed), 'keyed state')} have a time to live"
    to.short, to.about = have, f"{_hole(surveys)}{have}. "
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


def _timers(to: Section, surveys: Surveys) -> None:
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
        f"{_hole(surveys)}Times are relative to the snapshot, {moment(now / 1000)}. An event timer is stored until the "
        "watermark passes it: at its operator, the watermark has not passed the earliest. Processing timers before the "
        "snapshot fire at once after a restore."
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


def _positions(surveys: Surveys) -> dict[tuple[str, str, str], Row]:
    rows = surveys.read("offsets")
    return {(label_of(row), row["stream"] or "", row["partition"] or ""): row for row in rows}


def _sources(to: Section, surveys: Surveys, older: Surveys | None) -> None:
    now = _positions(surveys)
    known = {split[0] for split in now}
    others = dict.fromkeys(
        label_of(row) for row in surveys.states if row["state"] == READERS and label_of(row) not in known
    )
    if others:
        to.notes.append(
            f"Positions of {', '.join(map(named, others))} cannot be shown: the splits of this source, or its "
            f"connector, are not known. Its state is in {code('Operators and states')}."
        )
    if not now:
        to.short = to.about = "No operator has positions of a source that is known."
        return
    streams = list(dict.fromkeys(split[1] for split in now if split[1]))
    listed = ", ".join(charts.said(stream, 30) for stream in streams[:3]) + (" ..." if len(streams) > 3 else "")
    to.short = f"{numbered(len(now), 'split')} of {', '.join(map(named, known))}{listed and f': {code(listed)}'}"
    before = {} if older is None else _positions(older)
    times = [snapshot_time_of(survey.snapshot) / 1e6 for survey in (older, surveys) if survey is not None]
    seconds = times[-1] - times[0]
    rows: list[list[Any]] = []
    for split, row in sorted(now.items()):
        old = before.get(split)
        moved: Any = None
        if old is not None and None not in (old["offset"], row["offset"]):
            moved = row["offset"] - old["offset"]
        rate = f"{moved / seconds:,.3g}" if moved is not None and seconds > 0 else None
        place = row["position"] if row["offset"] is None else Cell(row["position"], row["offset"])
        rows.append(
            [split[0], *split[1:], place, old and old["position"], moved, rate, row["subtask"], row["connector"]]
        )
    is_number = all(isinstance(row[3], Cell) for row in rows)
    mark = "#" if is_number else ""
    columns = f"source | topic or stream | partition | next position{mark} | before{mark} | moved# | per second#"
    if before and older is not None:
        to.about = f"Moved since checkpoint {older.snapshot.metadata.checkpoint_id}, {span(seconds)} before."
        if seconds <= 0:
            to.about = (
                f"Moved since checkpoint {older.snapshot.metadata.checkpoint_id}, whose _metadata is no older "
                "than that of this one: there is no rate."
            )
        moving = sorted((row for row in rows if row[5] is not None), key=lambda row: row[5])
        still = [row for row in moving if row[5] == 0]
        to.short += f"; {len(still)} did not move since the older snapshot"
        if still:
            to.short += f", such as {_split(still[0])}"
        elif len(moving) > 1:
            to.short += f"; the slowest is {_split(moving[0])}: {moving[0][5]:,}"
            to.short += f" in {span(seconds)}" if seconds > 0 else ""
    else:
        older_one = code("--since")
        to.about = (
            f"How far each has moved is shown beside an older snapshot, {older_one}, or of a folder of checkpoints."
        )
    to.tables.append(table("Positions at which the sources continue", f"{columns} | subtask# | connector", rows))


def _split(row: Sequence[Any]) -> str:
    """Return the name of a split: its source, stream and partition."""
    return named(row[0], " ".join(filter(None, map(str, row[1:3]))))


def _types(to: Section, surveys: Surveys) -> None:
    to.about = "Types as the savepoint records them, and as Spark reads them."
    rows = [
        (
            label_of(row), row["state"], (row["kind"] or "").lower() + (", TTL" if row["ttl"] else ""),
            row["key_type"], row["value_type"], row["spark_value_type"], row["table"],
        )
        for row in surveys.states
    ]  # fmt: skip
    notes = [(label_of(row), row["state"] or row["table"], row["note"]) for row in surveys.states if row["note"]]
    by_kryo = [row for row in rows if "KRYO" in f"{row[3]} {row[4]}"]
    to.short = f"{numbered(len(rows), 'state')}, none with Kryo"
    if by_kryo:
        operators = numbered(len({row[0] for row in by_kryo}), "operator")
        first = named(by_kryo[0][0], by_kryo[0][1])
        to.short = f"Kryo is in {len(by_kryo)} of {numbered(len(rows), 'state')}, of {operators}, such as {first}"
    columns = "operator | state | kind | key type | value type | type in Spark | table"
    to.tables.append(table("Types of states", columns, rows))
    if notes:
        columns = "operator | state | note, with options of a read in Spark"
        to.tables.append(table("Notes about states", columns, notes, folded=True))


def _numbers(history: Sequence[SnapshotInfo]) -> list[str]:
    """Return how charts name snapshots: by checkpoint id, and if several have one id by a number too."""
    ids = [info.checkpoint_id for info in history]
    return [
        f"{number}" if ids.count(number) == 1 else f"{number}.{ids[: index + 1].count(number)}"
        for index, number in enumerate(ids)
    ]


def _growth(to: Section, snapshots: Sequence[Surveys], asked: ReportRequest) -> None:
    before: Snapshot | None = None
    history: list[tuple[SnapshotInfo, int, int | None, list[StateSize]]] = []
    for info, other in zip(asked.history, snapshots, strict=True):
        new = None if before is None else new_bytes(other.snapshot, before)
        history.append((info, sum(one.state_size for one in other.snapshot.operators), new, other.sizes))
        before = other.snapshot
    drawn = series_of(
        list(dict.fromkeys((one.operator, one.state or one.table) for one in history[-1][3]))[:MOST_LINES]
    )
    points: list[Row] = []
    rows: list[Sequence[Any]] = []
    numbers = _numbers(asked.history)
    for at, (info, full, new, sizes) in zip(numbers, history, strict=True):
        of_state: dict[str, int] = {}
        for size in sizes:
            series = drawn.get((size.operator, size.state or size.table), OTHERS)
            of_state[series] = of_state.get(series, 0) + size.bytes
        points += [
            {"x": at, "y": size, "series": series, "said": f"{series}, checkpoint {at}: {readable_size(size)}"}
            for series, size in of_state.items()
        ]
        entries, total = sum(size.entries for size in sizes), sum(size.bytes for size in sizes)
        rows.append((
            Cell(at, len(rows)), moment(info.modified or 0), size_of(full), None if new is None else size_of(new),
            count_of(entries), size_of(total),
        ))  # fmt: skip
    # The largest first, as the lines are.
    names = [*drawn.values(), *({OTHERS} & {point["series"] for point in points})]
    for (older, at), (newer, then) in pairwise(zip(snapshots, numbers, strict=True)):
        changed = list(_rescaled(older.snapshot, newer.snapshot))
        if changed:
            to.hints.append(
                f"Between checkpoints {at} and {then} the parallelism of {numbered(len(changed), 'operator')} changed, "
                f"as {changed[0]}: the state is in new files."
            )
    to.charts.append(
        Chart("Bytes of the largest states by checkpoint", charts.lines(points, "checkpoint", "bytes", names))
    )
    files = [
        {
            "x": at,
            "y": size,
            "series": kind,
            "said": f"checkpoint {at}, {kind}: {readable_size(size)}",
        }
        for at, (_, full, new, _) in zip(numbers, history, strict=True)
        for kind, size in (("all files", full), ("new files", new))
        if size is not None
    ]
    caption = "Full and incremental size: all files of a checkpoint, and those that the one before does not have"
    to.charts.append(Chart(caption, charts.lines(files, "checkpoint", "bytes", ["all files", "new files"])))
    columns = "checkpoint# | complete | all files# | new files# | entries# | bytes, serialized#"
    to.tables.append(table("Checkpoints, the newest last", columns, rows))
    first = {size.place: size for size in history[0][3]}
    ends = [info.modified or 0 for info in (asked.history[0], asked.history[-1])]
    days = (ends[1] - ends[0]) / DAY if all(map(is_a_time, ends)) and ends[1] - ends[0] >= LEAST_TIME else 0
    grown = []
    for size in history[-1][3]:
        was = first.get(size.place)
        old, entries = (0, 0) if was is None else (was.bytes, was.entries)
        more = size.bytes - old
        grown.append((
            size.operator, size.state, size_more(more), percent(more / old) if old else None,
            size_more(more / (len(history) - 1)), size_more(more / days) if days > 0 else None, size_of(old),
            size_of(size.bytes), count_of(entries), count_of(size.entries), size.table,
        ))  # fmt: skip
    grown.sort(key=lambda row: -row[2].value)
    to.short = f"no state has grown in {numbered(len(history), 'snapshot')}"
    if grown and grown[0][2].value > 0:
        operator, state, more_bytes, *_, kind = grown[0]
        now = grown[0][7]
        grower = named(operator, state or kind)
        to.short = f"{grower} has grown most: {more_bytes.text} to {now.text} in {numbered(len(history), 'snapshot')}"
        to.short += f", {grown[0][5].text} per day" if grown[0][5] is not None else ""
    full, new = history[-1][1:3]
    to.short += f"; the newest has {readable_size(full)} in files, {readable_size(new or 0)} of them new"
    if len(set(numbers)) < len(numbers) or any("." in number for number in numbers):
        to.about = "Several snapshots have the same checkpoint id: a number after it tells them apart, by time."
    columns = (
        "operator | state | growth# | in percent# | per checkpoint# | per day# | bytes first# | bytes last# | "
        "entries first# | entries last# | table"
    )
    to.tables.append(table("Growth of states from the first checkpoint to the last", columns, grown))


def _changes(to: Section, snapshots: Sequence[Surveys], asked: ReportRequest) -> None:
    kinds = (("added", "inserted"), ("changed", "updated"), ("removed", "deleted"))
    points, rows = [], []
    compared = snapshots[-MOST_COMPARED - 1 :]
    numbers = _numbers(asked.history)[1 - len(compared) :]
    for index, ((older, newer), at) in enumerate(zip(pairwise(compared), numbers, strict=True)):
        total = dict.fromkeys((kind for kind, _ in kinds), 0)
        for row in older.differences(newer):
            if any(row[kind] for kind, _ in kinds):
                rows.append((
                    Cell(at, index), label_of(row), row["table"], row["state"],
                    *(count_of(row[kind] or 0) for kind, _ in kinds), row["note"],
                ))  # fmt: skip
            for kind in total:
                total[kind] += row[kind] or 0
        points += [
            {
                "x": at,
                "y": total[kind],
                "series": name,
                "said": f"checkpoint {at}: {total[kind]:,} {name}",
            }
            for kind, name in kinds
        ]
    to.short = "in the newest checkpoint " + ", ".join(f"{total[kind]:,} {name}" for kind, name in kinds)
    to.about = "Entries (values, entries of maps, timers, elements) that differ from the checkpoint before."
    if len(compared) < len(snapshots):
        to.about += f" The newest {MOST_COMPARED} of {len(snapshots)} checkpoints are compared."
    names = [name for _, name in kinds]
    to.charts.append(Chart("Changed entries by checkpoint", charts.bars(points, "checkpoint", "entries", series=names)))
    columns = "checkpoint# | operator | table | state | inserted# | updated# | deleted# | note"
    to.tables.append(table("Changed entries by checkpoint and state", columns, rows[::-1]))


def _rescaled(older: Snapshot, newer: Snapshot) -> Iterator[str]:
    """Yield the operators whose parallelism changed."""
    before = {one.operator_id: one.parallelism for one in older.operators}
    for one in newer.operators:
        was = before.get(one.operator_id, one.parallelism)
        if was != one.parallelism:
            yield f"{named(one.uid or str(one.operator_id))} from {was} to {one.parallelism}"


def _since(to: Section, surveys: Surveys, older: Surveys) -> None:
    differences = older.differences(surveys)
    now, then = (snapshot_time_of(survey.snapshot) / 1e6 for survey in (surveys, older))
    metadata = older.snapshot.metadata
    to.about = (
        f"Compared with checkpoint {metadata.checkpoint_id}, {moment(then)} ({span(now - then)} before): "
        f"{code(older.path or '')}."
    )
    to.hints += [f"The parallelism changed: {changed}." for changed in _rescaled(older.snapshot, surveys.snapshot)]
    sizes = [{size.place: size.bytes for size in survey.sizes} for survey in (older, surveys)]
    rows: list[tuple[Any, ...]] = []
    for row in differences:
        place = label_of(row), row["table"] or "", row["state"] or ""
        was, bytes_now = (of.get(place) for of in sizes)
        more = None if was is None and bytes_now is None else size_more((bytes_now or 0) - (was or 0))
        counts = {name: None if row[name] is None else count_of(row[name]) for name in COUNTS}
        if not (more or any(counts.values()) or row["operator_change"] or row["note"]):
            continue  # nothing is compared
        rows.append((
            label_of(row), row["state"], more, *(counts[name] for name in COUNTS[2:]),
            *((size_of(was or 0), size_of(bytes_now or 0)) if more else (None, None)), counts["before"],
            counts["after"], row["operator_change"], row["table"], row["note"],
        ))  # fmt: skip
    rows.sort(key=lambda row: (-sum(cell.value for cell in row[3:6] if cell), row[2] is None))
    counted = {name: sum(row[name] or 0 for row in differences) for name in COUNTS[2:]}
    growth = size_more(sum(sizes[1].values()) - sum(sizes[0].values())).text
    to.short = f"entries: {', '.join(f'{count:,} {name}' for name, count in counted.items())}"
    if any(counted.values()):
        to.short += f", most in {named(rows[0][0], rows[0][1] or rows[0][-2])}"
    to.short += f"; bytes: {growth}"
    grown = max(rows, key=lambda row: row[2].value if row[2] else 0, default=None)
    if grown is not None and grown[2] and grown[2].value > 0:
        to.short += f", most in {named(grown[0], grown[1] or grown[-2])}: {grown[2].text}"
    if is_a_time(then) and is_a_time(now) and now > then:
        to.short += f"; in {span(now - then)}"
    columns = (
        "operator | state | growth# | added# | changed# | removed# | bytes before# | bytes after# | entries before# | "
        "entries after# | change | table | note"
    )
    to.tables.append(table("Differences by state, most entries first", columns, rows))


def _restore(to: Section, snapshot: Snapshot, job: Job, flink: str | None) -> None:
    check = check_snapshot(snapshot, job, flink_version=flink)
    verdicts: list[dict[str, Any]] = check.to_arrow().to_pylist()
    verdicts.sort(key=lambda row: -Verdict(row["verdict"]).severity)
    release = "" if flink is None else f" on Flink {flink}"
    to.about = f"Verdict{release}: {check.verdict.value}."
    to.short = f"verdict{release}: {check.verdict.value}"
    reason = next(iter(verdicts[0]["reasons"] or ()), "") if verdicts else ""
    if reason:
        to.short += f"; {named(verdicts[0]['operator_uid'] or verdicts[0]['operator_uid_hash'] or '')}: {reason}"
    to.hints += [f"assumed about the job: {note}" for note in check.notes]
    rows = [
        (
            row["verdict"], row["operator_uid"] or row["operator_uid_hash"], row["job_operator"], row["matched_by"],
            "; ".join(row["reasons"] or ()), row["remedy"],
            "; ".join(f"{state['state']}: {state['verdict']}" for state in row["states"] or ()),
        )
        for row in verdicts
    ]  # fmt: skip
    columns = "verdict | operator | operator of the job | matched by | reasons | what to do | states"
    to.tables.append(table("Verdicts by operator, the worst first", columns, rows, choices=0))


def _outcome(of_backends: Set[str]) -> Outcome:
    """Return what Flink does with a part on the backend where it is worst."""
    if any(text.startswith(Outcome.WRONG_VALUES) for text in of_backends):
        return Outcome.WRONG_VALUES
    if any(text.startswith(Outcome.FAILS) for text in of_backends):
        return Outcome.FAILS
    return Outcome.UNKNOWN if Outcome.UNKNOWN in of_backends else Outcome.RESTORES


def _migration(to: Section, surveys: Surveys, flink: str) -> None:
    rows: list[tuple[Any, ...]] = [
        (
            row["verdict"], label_of(row), row["state"], row["part"], row["reason"], row["remedy"], row["hashmap"],
            row["rocksdb"], row["type"], row["new_type"],
        )
        for row in surveys.migration(flink).to_arrow().to_pylist()
    ]  # fmt: skip
    rows.sort(key=lambda row: -MigrationVerdict(row[0]).severity)
    counts = {verdict: sum(row[0] == verdict for row in rows) for verdict in dict.fromkeys(row[0] for row in rows)}
    if not rows:
        to.short = to.about = "Nothing to migrate."
        return
    outcomes = Counter(_outcome({str(row[6]), str(row[7])}) for row in rows)
    total = numbered(len(rows), "part")
    said = [f"{verb} {outcomes[kind]} of {total}" for kind, verb in OUTCOMES.items() if outcomes[kind]]
    to.short = (
        f"without a migration Flink {flink} {' and '.join(said)}"
        if said
        else f"Flink {flink} restores all as it is in a job with the same uids and types, which {code('--job')} checks"
    )
    verdicts = ", ".join(f"{number} {WORDS.get(verdict, verdict)}" for verdict, number in counts.items())
    to.short += f"; a migration: {verdicts}"
    if MigrationVerdict(rows[0][0]).severity > MigrationVerdict.REWRITTEN.severity:
        to.short += f"; the first, {named(rows[0][1], rows[0][2])}: {rows[0][5] or rows[0][4]}"
    to.about = (
        f"What {code(f'pyspark-savepoint migrate --flink {flink}')} does with each part of each state: {verdicts}. "
        f"Columns {code('hashmap')} and {code('RocksDB')} say what Flink {flink} does with the part on that backend if "
        "nothing is migrated."
    )
    columns = "verdict | operator | state | part | reason | what to do | hashmap | RocksDB | type | new type"
    caption = "What a migration does with each part, and what Flink does without one, the worst first"
    to.tables.append(table(caption, columns, rows, choices=0))


def evolved_of(savepoint: Examined, surveys: Surveys, evolution: Evolution | None) -> EvolutionReport | None:
    """Return what becomes of the state under a new query, or became of it; None if nothing is asked or known."""
    made = savepoint.plan.evolved
    if evolution is not None:
        return EvolutionReport(evolution, counted_entries(surveys))
    if made is None:
        return None
    return EvolutionReport(
        made.evolution, counted_entries(Surveys(at_path(savepoint, made.path, made.options))), counted_entries(surveys)
    )


def _evolution(to: Section, evolved: EvolutionReport) -> None:
    to.short = to.about = f"states: {evolved.summary}"
    to.hints += [f"{warning}." for warning in evolved.warnings]
    rows = [
        (
            row["done"], row["new_uid"] or row["old_uid"], row["state"],
            *(None if row[name] is None else count_of(row[name]) for name in ("entries_before", "entries_after")),
            row["how"], row["operator"], row["old_uid"],
        )
        for row in evolved.rows()
    ]  # fmt: skip
    columns = "done | operator | state | entries before# | entries after# | how | description | uid before"
    to.tables.append(table("States under the new query", columns, rows, choices=0))
