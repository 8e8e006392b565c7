"""Sections of the report about keyed state: sizes, skew, heaviest keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark_savepoint.insight import charts
from pyspark_savepoint.insight.metrics import bytes_of_subtasks
from pyspark_savepoint.insight.page import Cell, Chart, Section, code, count_of, named, percent, size_of, table
from pyspark_savepoint.insight.section_parts import (
    MOST_BARS,
    MOST_FRAMES,
    MOST_HEAVY,
    MOST_OF_STATE,
    MOST_OPERATORS,
    MOST_TILES,
    OTHERS,
    Row,
    damage_note,
    series_of,
)
from pyspark_savepoint.insight.surveys import StateSize, Surveys, label_of
from pyspark_savepoint.text.texts import numbered, readable_size

#: Parallelism as a multiple of that of the snapshot.
SCALES = {1: "as it is", 0.5: "half", 2: "2 times", 4: "4 times"}


def sizes_section(to: Section, surveys: Surveys) -> None:
    sizes = surveys.sizes
    total = sum(size.bytes for size in sizes)
    to.about = (
        f"{damage_note(surveys)}{readable_size(total)} of keys and values, serialized, in "
        f"{numbered(len(sizes), 'state')}. Files have other sizes: they are compressed, and have indexes "
        "and what was deleted."
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
        to.tables.append(table("What cannot be read", "operator | state | why | what was found | what to do.", unread))


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


def skew_section(to: Section, surveys: Surveys) -> None:
    by_size = sorted(surveys.key_groups.items(), key=lambda one: -sum(one[1].values()))
    known = {one.uid or str(one.operator_id): one for one in surveys.snapshot.operators}
    if not by_size:
        to.short = to.about = f"{damage_note(surveys)}No operator has keyed state that can be read."
        return
    to.about = (
        f"{damage_note(surveys)}1.00 is even: the heaviest has as many bytes as the average, of key groups the average "
        "of those with state. A key group moves as a whole, so that a heavy one stays heavy at every parallelism."
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


def heaviest_section(to: Section, surveys: Surveys) -> None:
    whole = {size.place: size.bytes for size in surveys.sizes}
    heaviest = sorted((row for row in surveys.heaviest if row["bytes"] is not None), key=lambda row: -row["bytes"])
    if not heaviest:
        to.short = to.about = f"{damage_note(surveys)}No operator has keyed state that can be read."
        return
    to.about = damage_note(surveys)
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
