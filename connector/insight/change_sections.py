"""Sections of the report about earlier snapshots: positions, growth, what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from pyspark_savepoint.formats.snapshot.histories import SnapshotInfo
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.insight import charts
from pyspark_savepoint.insight.metrics import new_bytes
from pyspark_savepoint.insight.page import (
    Cell,
    Chart,
    Section,
    code,
    count_of,
    moment,
    named,
    percent,
    size_more,
    size_of,
    span,
    table,
)
from pyspark_savepoint.insight.section_parts import (
    DAY,
    LEAST_TIME,
    MOST_COMPARED,
    MOST_LINES,
    OTHERS,
    ReportRequest,
    Row,
    series_of,
)
from pyspark_savepoint.insight.surveys import StateSize, Surveys, label_of
from pyspark_savepoint.insight.time_sections import is_a_time
from pyspark_savepoint.statebackends.surveys.ttl_ages import snapshot_time_of
from pyspark_savepoint.text.texts import numbered, readable_size

#: State in which a source (FLIP-27) keeps the splits of its readers.
READERS = "SourceReaderState"
#: What a comparison counts of a state.
COUNTS = ("before", "after", "added", "changed", "removed")


def _positions(surveys: Surveys) -> dict[tuple[str, str, str], Row]:
    rows = surveys.read("offsets")
    return {(label_of(row), row["stream"] or "", row["partition"] or ""): row for row in rows}


def sources_section(to: Section, surveys: Surveys, older: Surveys | None) -> None:
    now = _positions(surveys)
    sources = {split[0] for split in now}
    others = dict.fromkeys(
        label_of(row) for row in surveys.states if row["state"] == READERS and label_of(row) not in sources
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
    to.short = f"{numbered(len(now), 'split')} of {', '.join(map(named, sources))}{listed and f': {code(listed)}'}"
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


def _numbers(history: Sequence[SnapshotInfo]) -> list[str]:
    """Return how charts name snapshots: by checkpoint id, and if several have one id by a number too."""
    ids = [info.checkpoint_id for info in history]
    return [
        f"{number}" if ids.count(number) == 1 else f"{number}.{ids[: index + 1].count(number)}"
        for index, number in enumerate(ids)
    ]


def growth_section(to: Section, snapshots: Sequence[Surveys], request: ReportRequest) -> None:
    before: Snapshot | None = None
    history: list[tuple[SnapshotInfo, int, int | None, list[StateSize]]] = []
    for info, other in zip(request.history, snapshots, strict=True):
        new = None if before is None else new_bytes(other.snapshot, before)
        history.append((info, sum(one.state_size for one in other.snapshot.operators), new, other.sizes))
        before = other.snapshot
    drawn = series_of(
        list(dict.fromkeys((one.operator, one.state or one.table) for one in history[-1][3]))[:MOST_LINES]
    )
    points: list[Row] = []
    rows: list[Sequence[Any]] = []
    numbers = _numbers(request.history)
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
    ends = [info.modified or 0 for info in (request.history[0], request.history[-1])]
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


def changes_section(to: Section, snapshots: Sequence[Surveys], request: ReportRequest) -> None:
    kinds = (("added", "inserted"), ("changed", "updated"), ("removed", "deleted"))
    points, rows = [], []
    compared = snapshots[-MOST_COMPARED - 1 :]
    numbers = _numbers(request.history)[1 - len(compared) :]
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


def since_section(to: Section, surveys: Surveys, older: Surveys) -> None:
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
