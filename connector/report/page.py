"""The report: one HTML file about a snapshot, and the snapshots of its folder, that a browser opens offline.

Each section is made of what is read once (:class:`Surveys`). A section whose state cannot be read says so, and the
others are there. The page has a security policy that allows its own script and style alone. Every value passes
:func:`~pyspark_savepoint.formats.redaction.shown`, and is escaped by the template.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any

from pyspark_savepoint.doctor.doctor import Budgets, Severity, examined
from pyspark_savepoint.doctor.surveys import Examined, StateSize, Surveys, label_of
from pyspark_savepoint.execution import progress
from pyspark_savepoint.execution.restore import check_snapshot
from pyspark_savepoint.execution.texts import numbered, readable_size
from pyspark_savepoint.formats.errors import OptionError, SavepointError
from pyspark_savepoint.formats.flink_releases import RELEASES
from pyspark_savepoint.formats.metadata.keyed_handles import (
    ChangelogStateBackendHandle,
    IncrementalRemoteKeyedStateHandle,
    KeyGroupsSavepointStateHandle,
)
from pyspark_savepoint.formats.redaction import elide, printable, redact
from pyspark_savepoint.formats.snapshot.as_of import in_order
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot, SnapshotInfo
from pyspark_savepoint.options.paths import reached
from pyspark_savepoint.options.release import __version__
from pyspark_savepoint.report import charts
from pyspark_savepoint.report.metrics import bytes_of_subtasks, new_bytes
from pyspark_savepoint.statebackends.jobs.restore.job_reader import Job
from pyspark_savepoint.statebackends.jobs.restore.restore_verdicts import Verdict
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import MigrationVerdict
from pyspark_savepoint.statebackends.surveys.ttl_ages import snapshot_time_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Rows of a table, tiles and frames of the treemap, and operators and states that have a chart of their own, or a line.
MOST_ROWS, MOST_TILES, MOST_FRAMES, MOST_OPERATORS, MOST_LINES = 1000, 250, 120, 4, 7
MOST_HEAVY, MOST_BARS, MOST_TIMES = 100, 64, 24
#: Snapshots of a folder, the newest, that are compared entry by entry with the one before.
MOST_COMPARED = 20
MAX_VALUE = 600
#: Texts that are longer are broken into lines, and have a column for prose.
WORD, LONG = 24, 60
#: Parallelism as a multiple of that of the snapshot.
SCALES = (0.5, 1, 2, 4)
UNITS = ((86_400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))
OTHERS = "(others)"
#: Operators without a uid are named by its hash.
UID_HASH = re.compile("[0-9a-f]{32}")
#: Bytes of a name in a sentence or a legend.
MAX_SHORT = 48
#: What a comparison counts of a state.
COUNTS = ("before", "after", "added", "changed", "removed")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Asked:
    """What a report is about besides the snapshot."""

    #: Snapshots of the folder, oldest first; the last is that of the report.
    history: Sequence[SnapshotInfo] = ()
    since: Examined | None = None
    job: Job | None = None
    flink: str | None = None
    budgets: Budgets = field(default_factory=Budgets)
    show_keys: bool = False


@dataclass(frozen=True)
class Column:
    """A column of a table: its title, and whether its values are numbers."""

    title: str
    is_number: bool = False


@dataclass(frozen=True)
class Cell:
    """A number, as people read it, with the value by which it is sorted."""

    text: str
    value: float


@dataclass(frozen=True)
class Table:
    """A table with its caption; ``choices`` is the place of a column whose values can be chosen.

    A table with choices has prose: on a narrow page each row is a card.
    """

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    left_out: int = 0
    is_folded: bool = False
    choices: int | None = None

    @property
    def chosen(self) -> list[str]:
        """The values that can be chosen."""
        return [] if self.choices is None else list(dict.fromkeys(str(row[self.choices]) for row in self.rows))


@dataclass(frozen=True)
class Chart:
    """A chart: what it shows in a sentence, and its drawing, wide and for a narrow page."""

    caption: str
    svg: str
    narrow: str = ""


@dataclass
class Section:
    """A section of the page; ``short`` is what it says in a line."""

    id: str
    title: str
    short: str = ""
    about: str = ""
    charts: list[Chart] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)


def history_of(snapshot: Snapshot, folder: str, options: Mapping[str, str], last: int) -> Sequence[SnapshotInfo]:
    """Return the newest snapshots of a folder up to one of them, oldest first."""
    if last < 2:
        raise OptionError("argument 'last' must be at least 2: growth is between snapshots", found=last)
    readable, _ = in_order(reached(folder, options))
    end = next((index for index, info in enumerate(readable) if info.path == snapshot.path), None)
    if end is None:
        raise OptionError(
            "the folder does not have the snapshot",
            path=folder,
            expected=snapshot.path,
            remedy="name a folder above it",
        )
    return readable[max(0, end + 1 - last) : end + 1]


def page_of(savepoint: Examined, asked: Asked) -> str:
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
        planned.append(("restore", "Would the job restore it?", lambda to: _restore(to, surveys.snapshot, job)))
    if flink is not None:
        planned.append(("migration", f"Migration to Flink {flink}", lambda to: _migration(to, surveys, flink)))
    sections = []
    for name, title, fill in planned:
        section = Section(name, title)
        progress.detail(title)
        try:
            fill(section)
        except SavepointError as error:
            section.notes.append(f"This cannot be shown: {error}")
        sections.append(section)
    return _rendered(surveys, sections)


def _rendered(surveys: Surveys, sections: Sequence[Section]) -> str:
    from jinja2 import BaseLoader, Environment, StrictUndefined
    from markupsafe import Markup

    def leaving(value: Any) -> Any:
        return value if isinstance(value, Markup | int | float) else text_of(str(value))

    @cache
    def text_of(value: str) -> str:
        return elide(printable(redact(value, look=False)), MAX_VALUE)

    def rows_of(table: Table) -> Markup:
        """Return the rows of a table, each value escaped: a template takes several times as long."""
        role = " role=row" if table.choices is not None else ""
        rows = ("".join(_cell(table, index, value, text_of) for index, value in enumerate(row)) for row in table.rows)
        return Markup("\n".join(f"<tr{role}>{cells}</tr>" for cells in rows))  # noqa: S704 (each value is escaped)

    redact("")  # looks for the secrets of the environment, once for all values

    room = resources.files(__package__)
    style, script, page = (room.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("css", "js", "html"))
    environment = Environment(
        loader=BaseLoader(),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=leaving,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    path = printable(surveys.path or "", line=True)
    return environment.from_string(page).render(
        path=path, name=path.rstrip("/").rpartition("/")[2], sections=sections, version=__version__,
        made=_moment(datetime.now(UTC).timestamp()), rows_of=rows_of,
        style=Markup(style), script=Markup(script), svg=Markup,  # noqa: S704 (our own files, and drawings of Vega)
        style_hash=_hash(style), script_hash=_hash(script),
    )  # fmt: skip


def _cell(table: Table, place: int, value: Any, text_of: Callable[[str], str]) -> str:
    from markupsafe import escape

    data = f' data-v="{value.value}"' if isinstance(value, Cell) else ""
    if table.choices is not None:
        data += f' role="cell" data-l="{escape(table.columns[place].title)}"'
    plain = text_of(value.text if isinstance(value, Cell) else str(value))
    text, size = escape(plain), len(plain)
    if table.choices == place:
        return f'<td{data}><span class="tag {text.replace(" ", "-")}">{text}</span></td>'
    kind = "n" if table.columns[place].is_number else "prose" if size > LONG else "lines" if size > WORD else ""
    return f"<td{f' class={kind}' if kind else ''}{data}>{text}</td>"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# -- values as people read them -----------------------------------------------------------------------------------


def _moment(seconds: float) -> str:
    try:
        return f"{EPOCH + timedelta(seconds=round(seconds)):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:
        return f"{seconds:.0f} s"


def _span(seconds: float) -> str:
    """Return a time span in its largest unit."""
    size = abs(seconds)
    for unit, name in UNITS:
        if size >= unit:
            return f"{'-' if seconds < 0 else ''}{size / unit:,.{0 if size >= 10 * unit else 1}f} {name}"
    return f"{seconds:.3g} s"


def _bytes(size: float) -> Cell:
    return Cell(readable_size(size), size)


def _count(number: int) -> Cell:
    return Cell(f"{number:,}", number)


def _ratio(number: float) -> Cell:
    return Cell(f"{number:.2f}", number)


def brief(operator: str) -> str:
    """Return the name of an operator, of a hash of its uid the first digits.

    >>> brief("14cfd403e0929194539014eaed9ae6ed"), brief("accounts")
    ('14cfd403…', 'accounts')
    """
    return f"{operator[:8]}…" if UID_HASH.fullmatch(operator) else operator


def _short(name: str) -> str:
    """Return a name as sentences and legends have it; tables have it as a whole."""
    return charts.said(brief(name), MAX_SHORT)


def _of(operator: str, state: str | None) -> str:
    """Return the name of a state with its operator, the state first: of many states the operator is the same."""
    return f"{_short(state)} of {_short(operator)}" if state else _short(operator)


def _series(states: Iterable[Sequence[str]]) -> dict[Sequence[str], str]:
    """Return names of series: of operators, or of their states. Two that look the same have a number after them."""
    names: dict[Sequence[str], str] = {}
    for state in states:
        name = _of(state[0], state[1] if len(state) > 1 else None)
        same = sum(other.partition(" (")[0] == name for other in names.values())
        names[state] = f"{name} ({same + 1})" if same else name
    return names


def _table(
    caption: str, columns: str, rows: Sequence[Sequence[Any]], *, folded: bool = False, choices: int | None = None
) -> Table:
    """Return a table of at most MOST_ROWS rows without empty columns; titles of columns of numbers end with ``#``."""
    titles = [Column(name.strip().removesuffix("#"), name.strip().endswith("#")) for name in columns.split("|")]
    filled = [index for index in range(len(titles)) if any(row[index] not in (None, "") for row in rows)]
    titles = [titles[index] for index in filled]
    rows = [["" if row[index] is None else row[index] for index in filled] for row in rows]
    return Table(caption, titles, rows[:MOST_ROWS], max(0, len(rows) - MOST_ROWS), folded, choices)


# -- sections ---------------------------------------------------------------------------------------------------------


def _what(to: Section, surveys: Surveys, asked: Asked) -> None:
    snapshot = surveys.snapshot
    total = sum(operator.state_size for operator in snapshot.operators)
    to.facts = [
        ("path", snapshot.path),
        ("kind", snapshot.kind.value),
        ("checkpoint", f"{snapshot.metadata.checkpoint_id:,}"),
        ("complete", _moment(snapshot_time_of(snapshot) / 1e6)),
        ("job", _job_id(snapshot.path) or "not recorded"),
        ("Flink", _releases(snapshot.metadata.version)),
        ("state backend", ", ".join(_backends(snapshot)) or "no keyed state"),
        ("size", f"{readable_size(total)} in files"),
        ("operators", f"{len(snapshot.operators):,}, {sum(o.state_size > 0 for o in snapshot.operators):,} with state"),
        ("states", f"{len(surveys.sizes):,}, {sum(size.entries for size in surveys.sizes):,} entries"),
    ]
    if len(asked.history) > 1:
        first, last = asked.history[0], asked.history[-1]
        oldest = f"the oldest is {first.checkpoint_id}, {_moment(first.modified or 0)}"
        snapshots = numbered(len(asked.history), "snapshot")
        to.facts.append(("folder", f"{snapshots}, checkpoints {first.checkpoint_id} to {last.checkpoint_id}; {oldest}"))
    if snapshot.operators and not any(operator.uid for operator in snapshot.operators):
        to.notes.append(
            "Operators are named by hashes of their uids, for Flink 1.16 to 1.20 does not record uids. Option 'uids' "
            "takes the uids of the job's code, and finds their operators."
        )
    rows = [
        (one.uid or str(one.operator_id), one.name, one.parallelism, one.max_parallelism, _bytes(one.state_size))
        for one in sorted(snapshot.operators, key=lambda one: -one.state_size)
    ]
    to.tables.append(
        _table("Operators", "operator | name | parallelism# | max parallelism# | bytes in files#", rows, folded=True)
    )


def _job_id(path: str) -> str | None:
    match = re.search(r"/([0-9a-f]{32})/chk-\d+", path)
    return match[1] if match else None


def _releases(version: int) -> str:
    names = [release.name for release in RELEASES if release.metadata == version]
    if not names:
        return f"older than {RELEASES[0].name} (metadata version {version})"
    return f"{names[0]}{f' to {names[-1]}' if len(names) > 1 else ''} (metadata version {version})"


def _backends(snapshot: Snapshot) -> list[str]:
    backends: dict[str, None] = {}
    for operator in snapshot.operators:
        for subtask in operator.subtasks.values():
            handle = subtask.managed_keyed_state
            parts = handle.materialized if isinstance(handle, ChangelogStateBackendHandle) else (handle,)
            if isinstance(handle, ChangelogStateBackendHandle):
                backends["changelog"] = None
            for part in parts:
                if isinstance(part, KeyGroupsSavepointStateHandle):
                    backends["any (canonical format)"] = None
                elif isinstance(part, IncrementalRemoteKeyedStateHandle):
                    backends["RocksDB or ForSt (incremental)"] = None
                elif part is not None:
                    backends["hashmap, or RocksDB (full)"] = None
    return list(backends)


def _findings(to: Section, surveys: Surveys, older: Surveys | None, asked: Asked) -> None:
    findings = examined(surveys, asked.budgets, older, asked.job)
    counts = [(severity, sum(one.severity is severity for one in findings)) for severity in Severity]
    to.about = ", ".join(numbered(number, severity.value) for severity, number in counts) + ", as doctor finds them."
    rows = [(one.severity.value, one.check, one.operator, one.state, one.evidence, one.remedy) for one in findings]
    to.short = "nothing that may go wrong was found"
    if rows:
        subject = findings[0].operator and _of(findings[0].operator, findings[0].state)
        to.short = f"{to.about.partition(', as')[0]}; the first is {findings[0].check}{subject and f' of {subject}'}"
        columns = "severity | check | operator | state | what was found | what to do"
        to.tables.append(_table("Findings, the worst first", columns, rows, choices=0))


def _sizes(to: Section, surveys: Surveys) -> None:
    sizes = surveys.sizes
    total = sum(size.bytes for size in sizes)
    to.about = (
        f"{readable_size(total)} of keys and values, serialized, in {numbered(len(sizes), 'state')}. Files have other "
        "sizes: they are compressed, and have indexes and what was deleted."
    )
    for row in surveys.unread:
        if row["table"] is None:
            to.notes.append(f"{label_of(row)} cannot be read: {row['note']}")
    to.short = f"{len(surveys.unread_operators)} of {len(surveys.snapshot.operators)} operators cannot be read"
    if not surveys.unread_operators:
        to.short = "no state has bytes"
    if total:
        most = sizes[0]
        label, share = _of(most.operator, most.state or most.table), 100 * most.bytes / total
        more = f"; {to.short}" if surveys.unread_operators else ""
        to.short = f"the largest state is {label}: {readable_size(most.bytes)}, {share:.1f} % of all{more}"
        tiles = _tiles(sizes)
        caption = "Bytes by operator (frame) and state (tile)"
        to.charts.append(Chart(caption, charts.treemap(tiles, 1100, 420), charts.treemap(tiles, 370, 420)))
    rows = [
        (
            size.operator, size.state, _bytes(size.bytes),
            Cell(f"{100 * size.bytes / max(total, 1):.1f} %", size.bytes), _count(size.entries), _bytes(size.largest),
            size.table, size.kind.lower(),
        )
        for size in sizes
    ]  # fmt: skip
    to.tables.append(
        _table(
            "States, the largest first",
            "operator | state | bytes# | share# | entries# | largest entry# | table | kind",
            rows,
        )
    )


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
        said = f"{name}: {readable_size(sum(states.values()))}"
        tiles.append(
            {"id": f"o{index}", "parent": "all", "name": charts.on_tile(operator), "said": said, "colour": colour}
        )
        for number, (state, size) in enumerate(states.items()):
            own = charts.said(state)
            tiles.append({
                "id": f"o{index}s{number}", "parent": f"o{index}", "name": charts.on_tile(state), "size": size,
                "colour": colour, "said": f"{name}, {own}: {readable_size(size)}",
            })  # fmt: skip
    return tiles


def _skew(to: Section, surveys: Surveys) -> None:
    by_size = sorted(surveys.key_groups.items(), key=lambda one: -sum(one[1].values()))
    known = {one.uid or str(one.operator_id): one for one in surveys.snapshot.operators}
    if not by_size:
        to.short = to.about = "No operator has keyed state."
        return
    to.about = (
        "1.00 is even: the heaviest has as many bytes as the average. A key group moves as a whole, so that a heavy "
        "one stays heavy at every parallelism."
    )
    rows, per_subtask, points, excess, heavier, of_subtask = [], [], [], -1.0, 0.0, ""
    drawn = _series((name,) for name, _ in by_size[:MOST_OPERATORS])
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
            heavier = extra
            of_subtask = f"; the heaviest subtask is {heaviest} of {_short(name)}, {skew:.2f} times the average"
        worst = max(groups, key=lambda group: groups[group])
        if groups[worst] - mean > excess:
            excess = groups[worst] - mean
            ratio, size = groups[worst] / max(mean, 1), readable_size(groups[worst])
            to.short = f"the heaviest is key group {worst} of {_short(name)}: {size}, {ratio:.2f} times the average"
        rows.append((
            name, _bytes(sum(groups.values())), f"{len(groups):,} of {limit:,}", worst, _bytes(groups[worst]),
            _ratio(groups[worst] / max(mean, 1)),
        ))  # fmt: skip
        others = (
            f"{readable_size(max(sizes))} ({skews[number]:.2f}) at {number}"
            for number, sizes in by_parallelism.items()
            if number != operator.parallelism
        )
        per_subtask.append(
            (name, operator.parallelism, heaviest, _bytes(max(subtasks)), _ratio(skew), ", ".join(others))
        )
        if rank < MOST_OPERATORS:
            bars = _binned(groups, limit)
            filled = [bar["y"] for bar in bars if bar["y"]] or [0]
            width, said = -(-limit // MOST_BARS), drawn[name,]
            what = "key group" if width == 1 else f"{width} key groups each, from"
            alone = "" if width == 1 else f", {width} to a bar"
            to.charts.append(
                Chart(
                    f"{said}: bytes by key group{alone}; the heaviest one is {worst}; dashed: the average with state",
                    charts.bars(bars, what, "bytes", mean=sum(filled) / len(filled)),
                )
            )
            points += [
                {
                    "x": f"{parallelism / operator.parallelism:.3g} x",
                    "y": skew,
                    "series": said,
                    "said": f"{said}, parallelism {parallelism}: {skew:.2f} times the average",
                }
                for parallelism, skew in skews.items()
            ]
    to.short += of_subtask
    points.sort(key=lambda point: float(str(point["x"]).removesuffix(" x")))
    to.charts.append(
        Chart(
            "Bytes of the heaviest subtask, per average, if the parallelism were a multiple of that of the snapshot",
            charts.lines(points, "parallelism", "times the average", list(drawn.values())),
        )
    )
    columns = "operator | bytes# | key groups with state | heaviest key group# | its bytes# | times the average#"
    to.tables.append(_table("Key groups of operators with keyed state", columns, rows))
    columns = "operator | parallelism# | heaviest subtask# | its bytes# | times the average# | at other parallelisms"
    to.tables.append(_table("Subtasks of operators with keyed state", columns, per_subtask))


def parallelisms(parallelism: int, limit: int) -> list[int]:
    """Return the numbers of subtasks for which skew is shown: that of the snapshot and others."""
    return list(dict.fromkeys(max(1, min(limit, int(parallelism * scale))) for scale in SCALES))


def _binned(groups: Mapping[int, int], limit: int) -> list[Row]:
    """Return the bars of the key groups; of many, neighbours are one bar."""
    width = -(-limit // MOST_BARS)
    sums = [0] * -(-limit // width)
    for group, size in groups.items():
        sums[group // width] += size
    return [
        {
            "x": str(index * width),
            "y": size,
            "said": f"key group{_range(index * width, width, limit)}: {readable_size(size)}",
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
        to.short = to.about = "No operator has keyed state."
        return
    if not surveys.show_keys:
        to.about = "Keys may be personal data: they are shown only if the report is made with --show-keys."
    rows = []
    for row in heaviest[:MOST_HEAVY]:
        share = row["bytes"] / max(whole.get((label_of(row), row["table"], row["state"] or ""), 1), 1)
        rows.append((
            label_of(row), row["state"], " ".join(filter(None, (row["key"], row["window"]))), row["key_group"],
            row["subtask"], _count(row["entries"]), _bytes(row["bytes"]), Cell(f"{100 * share:.2f} %", share),
        ))  # fmt: skip
    operator, state, _, group, _, _, size, part = rows[0]
    to.short = f"a key of {_of(operator, state)} has {size.text}, {part.text} of the state, in key group {group}"
    columns = "operator | state | key | key group# | subtask# | entries# | bytes# | of its state#"
    to.tables.append(_table("Keys of most bytes, of each state at most five", columns, rows))


def _ages(to: Section, surveys: Surveys) -> None:
    totals: dict[tuple[str, str, float, str], int] = {}
    for row in surveys.ages:
        if row["units"] is not None:
            low = -1 if row["from_seconds"] is None else row["from_seconds"]
            group = label_of(row), row["state"], low, age_of(row["from_seconds"], row["to_seconds"])
            totals[group] = totals.get(group, 0) + row["units"]
    if not totals:
        kept = [row for row in surveys.states if row["ttl"]]
        to.short = to.about = "No state with a time to live can be read." if kept else "No state has a time to live."
        return
    (operator, state, _, age), units = max(totals.items(), key=lambda one: one[0][2])
    to.short = f"the oldest are {numbered(units, 'entry', 'entries')} of {_of(operator, state)}: {age}"
    to.about = (
        "How long before the snapshot entries (values, elements of lists, entries of maps) were last used. A snapshot "
        "does not record how long they live: what is older than the job's code says has expired, and is still stored."
    )
    states = list(dict.fromkeys((operator, state) for operator, state, _, _ in totals))
    drawn = _series(states[:MOST_LINES])
    bars = [
        {"x": age, "y": units, "series": drawn[operator, state], "said": f"{drawn[operator, state]}, {age}: {units:,}"}
        for (operator, state, _, age), units in sorted(totals.items(), key=lambda one: one[0][2])
        if (operator, state) in drawn
    ]
    to.charts.append(
        Chart(
            "Entries by age", charts.bars(bars, "last used before the snapshot", "entries", series=list(drawn.values()))
        )
    )
    rows = [
        (operator, state, Cell(age, low), _count(units))
        for (operator, state, low, age), units in sorted(totals.items())
    ]
    to.tables.append(_table("Entries by age", "operator | state | last used before the snapshot | entries#", rows))


def age_of(low: int | None, high: int | None) -> str:
    """Return a range of ages in seconds as people read it."""
    if low is None:
        return "after the snapshot"
    return f"{_span(low)}+" if high is None or low else f"<{_span(high)}"


def _timers(to: Section, surveys: Surveys) -> None:
    now = snapshot_time_of(surveys.snapshot) // 1000
    rows = []
    by_count = sorted(surveys.timers.items(), key=lambda one: -one[1].count)
    for rank, ((operator, domain), times) in enumerate(by_count):
        first, last = times.first, times.last
        edges = histogram_edges(first, last, MOST_TIMES) if rank < MOST_OPERATORS else []
        moments = sorted({now, last + 1, *edges})
        before = dict(zip(moments, times.before(moments), strict=True))
        rows.append((
            operator, domain, _count(times.count), _moment(first / 1000), _moment(last / 1000), _count(before[now]),
            Cell(_span((now - first) / 1000), now - first), Cell(_span((last - now) / 1000), last - now),
        ))  # fmt: skip
        if edges:
            caption = (
                f"{_short(operator)}: {domain} timers by time, from {_moment(first / 1000)} to {_moment(last / 1000)}"
            )
            axis, bars = _times([*edges, last + 1], before, now)
            to.charts.append(Chart(caption, charts.bars(bars, axis, "timers")))
    to.notes += [f"Timers of {operator} cannot be read: {why}" for operator, why in surveys.unread_timers.items()]
    if not rows:
        to.short = to.about = "No operator has timers that can be read." if to.notes else "No operator has timers."
        return
    behind = max(rows, key=lambda row: row[6].value)
    ahead = _span(-behind[6].value / 1000)
    to.short = f"none is before the snapshot; the earliest is one of {_short(behind[0])}, {ahead} after"
    if behind[6].value > 0:
        many = numbered(int(behind[5].value), f"{behind[1]} timer")
        to.short = f"{many} of {_short(behind[0])} are before the snapshot, up to {behind[6].text}"
    to.about = (
        f"Times are relative to the snapshot, {_moment(now / 1000)}. Event time has not reached the earliest timer: "
        "its lag is at least that. Processing timers before the snapshot fire at once after a restore."
    )
    columns = "operator | time | timers# | earliest | latest | before the snapshot# | lag# | horizon#"
    to.tables.append(_table("Timers by operator", columns, rows))


def _times(edges: Sequence[int], before: Mapping[int, int], now: int) -> tuple[str, list[Row]]:
    """Return what the numbers of the axis are, and the bars of the histogram, by how many timers are before each edge.

    Bars are between edges, the last of which is after the last timer.
    """
    first, last = edges[0], edges[-1] - 1
    # Timers that are far from the snapshot are told apart from each other instead.
    is_near = max(abs(first - now), abs(last - now)) < 20 * (last - first)
    base = now if is_near else first
    reach = max(abs(first - base), abs(last - base), 1) / 1000
    unit, name = next((known for known in UNITS if reach >= 2 * known[0]), UNITS[-1])
    # Two bars never have the same number.
    digits = max(0, math.ceil(-math.log10((edges[1] - first if len(edges) > 2 else 1) / 1000 / unit)))
    return f"{name} after {'the snapshot' if is_near else 'the earliest'}", [
        {
            "x": f"{(low - base) / 1000 / unit:.{digits}f}", "y": before[high] - before[low],
            "said": f"{_moment(low / 1000)} to {_moment(high / 1000)}: {before[high] - before[low]:,}",
        }
        for low, high in pairwise(edges)
    ]  # fmt: skip


def histogram_edges(first: int, last: int, most: int) -> list[int]:
    """Return where the bars of times in milliseconds begin, at most so many, the last of which has the last time."""
    step = max(1, -(-(last + 1 - first) // most))
    return list(range(first, last + 1, step))


def _positions(surveys: Surveys) -> dict[tuple[str, str, str], Row]:
    rows = surveys.read("offsets")
    return {(label_of(row), row["stream"] or "", row["partition"] or ""): row for row in rows}


def _sources(to: Section, surveys: Surveys, older: Surveys | None) -> None:
    now = _positions(surveys)
    if not now:
        to.short = to.about = "No source of a known kind has splits."
        return
    to.short = f"{numbered(len(now), 'split')} of {numbered(len({split[0] for split in now}), 'source')}"
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
        was = old and old["position"]
        rows.append([split[0], row["connector"], *split[1:], row["position"], was, moved, rate])
    columns = "source | connector | stream | partition | next position | before# | moved# | per second#"
    if before and older is not None:
        to.about = f"Moved since checkpoint {older.snapshot.metadata.checkpoint_id}, {_span(seconds)} before."
        moving = sorted((row for row in rows if row[6] is not None), key=lambda row: row[6])
        still = [row for row in moving if row[6] == 0]
        to.short += f"; {len(still)} did not move since the older snapshot"
        if still:
            to.short += f", such as {_split(still[0])}"
        elif len(moving) > 1:
            to.short += f"; the slowest is {_split(moving[0])}: {moving[0][6]:,} in {_span(seconds)}"
    else:
        to.about = "How far each has moved is shown beside an older snapshot (since), or in a folder of checkpoints."
        rows, columns = [row[:5] for row in rows], columns.partition(" | before")[0]
    to.tables.append(_table("Positions at which the sources continue", columns, rows))


def _split(row: Sequence[Any]) -> str:
    """Return the name of a split: its stream, partition and source."""
    return _of(row[0], " ".join(filter(None, map(str, row[2:4]))))


def _types(to: Section, surveys: Surveys) -> None:
    to.about = "Types as the savepoint records them, and as Spark reads them."
    rows = [
        (
            label_of(row), row["table"], row["state"], (row["kind"] or "").lower() + (", TTL" if row["ttl"] else ""),
            row["key_type"], row["value_type"], row["spark_value_type"], row["note"],
        )
        for row in surveys.states
    ]  # fmt: skip
    noted = sum(bool(row["note"]) for row in surveys.states)
    by_kryo = [row for row in rows if "KRYO" in f"{row[4]} {row[5]}"]
    to.short = f"{numbered(len(rows), 'state')}, none with Kryo, {noted} with a note"
    if by_kryo:
        operators = numbered(len({row[0] for row in by_kryo}), "operator")
        first = _of(by_kryo[0][0], by_kryo[0][2])
        to.short = f"Kryo is in {len(by_kryo)} of {numbered(len(rows), 'state')}, of {operators}, such as {first}"
    columns = "operator | table | state | kind | key type | value type | type in Spark | note"
    to.tables.append(_table("Types of states", columns, rows))


def _numbers(history: Sequence[SnapshotInfo]) -> list[str]:
    """Return how charts name snapshots: by checkpoint id, and if several have one id by a number too."""
    ids = [info.checkpoint_id for info in history]
    return [
        f"{number}" if ids.count(number) == 1 else f"{number}.{ids[: index + 1].count(number)}"
        for index, number in enumerate(ids)
    ]


def _growth(to: Section, snapshots: Sequence[Surveys], asked: Asked) -> None:
    before: Snapshot | None = None
    history: list[tuple[SnapshotInfo, int, int | None, list[StateSize]]] = []
    for info, other in zip(asked.history, snapshots, strict=True):
        new = None if before is None else new_bytes(other.snapshot, before)
        history.append((info, sum(one.state_size for one in other.snapshot.operators), new, other.sizes))
        before = other.snapshot
    newest = {size.place: size.bytes for size in history[-1][3]}
    drawn = _series(list(dict.fromkeys((state[0], state[2] or state[1]) for state in newest))[:MOST_LINES])
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
            Cell(at, len(rows)), _moment(info.modified or 0), _bytes(full), None if new is None else _bytes(new),
            _count(entries), _bytes(total),
        ))  # fmt: skip
    names = list(dict.fromkeys(point["series"] for point in reversed(points)))
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
    to.tables.append(_table("Checkpoints, the newest last", columns, rows))
    first = {size.place: size for size in history[0][3]}
    grown = [
        (
            size.operator, size.state,
            _bytes_more(size.bytes - (first[size.place].bytes if size.place in first else 0)),
            _bytes(first[size.place].bytes if size.place in first else 0), _bytes(size.bytes),
            _count(first[size.place].entries if size.place in first else 0), _count(size.entries), size.table,
        )
        for size in history[-1][3]
    ]  # fmt: skip
    grown.sort(key=lambda row: -row[2].value)
    to.short = f"no state has grown in {numbered(len(history), 'snapshot')}"
    if grown and grown[0][2].value > 0:
        operator, state, more, _, now, *_, table = grown[0]
        grower = _of(operator, state or table)
        to.short = f"{grower} has grown most: {more.text} to {now.text} in {numbered(len(history), 'snapshot')}"
    full, new = history[-1][1:3]
    to.short += f"; the newest has {readable_size(full)} in files, {readable_size(new or 0)} of them new"
    if len(set(numbers)) < len(numbers) or any("." in number for number in numbers):
        to.about = "Several snapshots have the same checkpoint id: a number after it tells them apart, by time."
    columns = "operator | state | growth# | bytes first# | bytes last# | entries first# | entries last# | table"
    to.tables.append(_table("Growth of states from the first checkpoint to the last", columns, grown))


def _bytes_more(size: int) -> Cell:
    return Cell(("-" if size < 0 else "+" if size else "") + readable_size(abs(size)), size)


def _changes(to: Section, snapshots: Sequence[Surveys], asked: Asked) -> None:
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
                    *(_count(row[kind] or 0) for kind, _ in kinds), row["note"],
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
    to.tables.append(_table("Changed entries by checkpoint and state", columns, rows[::-1]))


def _since(to: Section, surveys: Surveys, older: Surveys) -> None:
    differences = older.differences(surveys)
    to.about = f"Compared with {older.path}."
    rows = [
        (
            label_of(row), row["operator_change"], row["table"], row["state"],
            *(None if row[name] is None else _count(row[name]) for name in COUNTS),
            row["note"],
        )
        for row in differences
    ]  # fmt: skip
    counts = {name: sum(row[name] or 0 for row in differences) for name in COUNTS[2:]}
    to.short = "entries: " + ", ".join(f"{count:,} {name}" for name, count in counts.items())
    most = max(differences, key=lambda row: sum(row[name] or 0 for name in counts), default=None)
    if most is not None and any(most[name] for name in counts):
        to.short += f"; most in {_of(label_of(most), most['state'] or most['table'])}"
    columns = (
        "operator | change | table | state | entries before# | entries after# | added# | changed# | removed# | note"
    )
    to.tables.append(_table("Differences by state", columns, rows))


def _restore(to: Section, snapshot: Snapshot, job: Job) -> None:
    check = check_snapshot(snapshot, job)
    verdicts: list[dict[str, Any]] = check.to_arrow().to_pylist()
    verdicts.sort(key=lambda row: -Verdict(row["verdict"]).severity)
    to.about = f"Verdict: {check.verdict.value}."
    to.short = f"verdict: {check.verdict.value}"
    reason = next(iter(verdicts[0]["reasons"] or ()), "") if verdicts else ""
    if reason:
        to.short += f"; {_short(verdicts[0]['operator_uid'] or verdicts[0]['operator_uid_hash'] or '')}: {reason}"
    to.notes += [f"assumed about the job: {note}" for note in check.notes]
    rows = [
        (
            row["verdict"], row["operator_uid"] or row["operator_uid_hash"], row["job_operator"], row["matched_by"],
            "; ".join(row["reasons"] or ()), row["remedy"],
            "; ".join(f"{state['state']}: {state['verdict']}" for state in row["states"] or ()),
        )
        for row in verdicts
    ]  # fmt: skip
    columns = "verdict | operator | operator of the job | matched by | reasons | what to do | states"
    to.tables.append(_table("Verdicts by operator, the worst first", columns, rows, choices=0))


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
    to.about = ", ".join(f"{number} {verdict}" for verdict, number in counts.items()) or "Nothing to migrate."
    to.short = to.about
    if rows and MigrationVerdict(rows[0][0]).severity > MigrationVerdict.REWRITTEN.severity:
        to.short += f"; the first: {_of(rows[0][1], rows[0][2])}: {rows[0][5] or rows[0][4]}"
    elif rows:
        to.short += "; nothing stands against a migration" if len(counts) > 1 else ""
    columns = "verdict | operator | state | part | reason | what to do | on hashmap | on RocksDB | type | new type"
    to.tables.append(
        _table(
            "What a migration does with each part, and what Flink does without one, the worst first",
            columns,
            rows,
            choices=0,
        )
    )
