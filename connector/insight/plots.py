"""Pictures of a snapshot for notebooks, as figures of Matplotlib (extra ``plot``)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from pyspark_savepoint.formats.errors import OperatorNotFoundError, OptionError, SavepointWarning, did_you_mean
from pyspark_savepoint.formats.redaction import shown
from pyspark_savepoint.insight.metrics import bytes_of_subtasks
from pyspark_savepoint.insight.page import brief, moment
from pyspark_savepoint.insight.section_parts import omission_note
from pyspark_savepoint.insight.sections import history_of
from pyspark_savepoint.insight.state_sections import parallelisms
from pyspark_savepoint.insight.surveys import Examined, Surveys, label_of
from pyspark_savepoint.insight.time_sections import age_of, histogram_edges
from pyspark_savepoint.statebackends.surveys.ttl_ages import snapshot_time_of
from pyspark_savepoint.text.texts import readable_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_NAME = 60
LAST = 50
#: Units of time in milliseconds, the longest first.
UNITS = {
    "years": 31_557_600_000,
    "days": 86_400_000,
    "hours": 3_600_000,
    "minutes": 60_000,
    "seconds": 1000,
    "milliseconds": 1,
}
#: Timers whose distance from the snapshot is as many times their span are shown from the first of them on.
FAR = 20
#: Bars of a histogram of times.
MOST_TIMES = 48
#: Distances of ticks in a unit of bytes.
STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)


class Plots:
    """Figures about a snapshot, of numbers that Spark's tasks count, or this process. Made by ``sp.inspect.plot``.

    Example::

        sp.inspect.plot.sizes()
        sp.inspect.plot.skew("accounts").savefig("skew.png")

    """

    def __init__(self, savepoint: Examined, located: Callable[[str | PathLike[str]], str]) -> None:
        self._savepoint = savepoint
        self._located = located
        self._surveys = Surveys(savepoint)

    def __repr__(self) -> str:
        """Return one line: the methods."""
        return shown(f"<plots of {self._surveys.path}: sizes(), skew(), growth(folder), timers(), ttl()>", line=True)

    def sizes(self, top: int = 20) -> Figure:
        """Draw the bytes of the largest states.

        Args:
            top: The number of states. The others are one bar.

        Returns:
            The figure.

        Raises:
            OptionError: If ``top`` is below 1, or Matplotlib is not installed.

        """
        if top < 1:
            raise OptionError("argument 'top' must be at least 1: it is the number of states", found=top)
        sizes = self._surveys.sizes
        names = [_name(f"{brief(size.operator)}  {size.state or size.table}") for size in sizes[:top]]
        values = [size.bytes for size in sizes[:top]]
        if len(sizes) > top:
            names.append(f"({len(sizes) - top} others)")
            values.append(sum(size.bytes for size in sizes[top:]))
        figure, (axes,) = _figure(1, 1.2 + 0.26 * len(names))
        bars = axes.barh(range(len(names)), values)
        axes.bar_label(bars, [readable_size(value) for value in values], padding=3, fontsize=8)
        axes.set_yticks(range(len(names)), names, fontsize=8, parse_math=False)
        axes.invert_yaxis()
        axes.margins(x=0.15)
        axes.set_title("Bytes by state")
        _in_bytes(axes, "x")
        return self._with_hole(figure)

    def skew(self, uid: str | None = None) -> Figure:
        """Draw the bytes of the key groups of an operator, and of its heaviest subtask at several parallelisms.

        Args:
            uid: The operator: its uid or uid hash. By default that of most bytes.

        Returns:
            The figure.

        Raises:
            OperatorNotFoundError: If no operator with keyed state is so named. The error names the nearest.

        """
        key_groups = self._surveys.key_groups
        if uid is None and key_groups:
            uid = max(key_groups, key=lambda name: sum(key_groups[name].values()))
        operator = next(
            (one for one in self._surveys.snapshot.operators if uid in (one.uid, str(one.operator_id))), None
        )
        groups = None if operator is None else key_groups.get(operator.uid or str(operator.operator_id))
        if operator is None or groups is None:
            raise OperatorNotFoundError(
                "no operator with keyed state has this name", operator=uid, remedy=did_you_mean(uid or "", key_groups)
            )
        figure, (left, right) = _figure(2, 3)
        left.bar(list(groups), list(groups.values()), width=1.0)
        mean = sum(groups.values()) / len(groups)
        left.axhline(mean, color=_ink(left), linestyle="--", linewidth=1, label=f"average {readable_size(mean)}")
        left.set_title(f"{_name(brief(uid or ''))}: bytes by key group", parse_math=False)
        left.set_xlabel("key group")
        left.set_xlim(-1, operator.max_parallelism)
        left.legend(fontsize=8)
        _in_bytes(left, "y")
        scales = parallelisms(operator.parallelism, operator.max_parallelism)
        sizes = {scale: bytes_of_subtasks(groups, scale, operator.max_parallelism) for scale in scales}
        skews = [max(subtask_sizes) * scale / max(sum(subtask_sizes), 1) for scale, subtask_sizes in sizes.items()]
        bars = right.bar([str(scale) for scale in scales], skews)
        right.bar_label(bars, fmt="%.2f", padding=2, fontsize=8)
        right.axhline(1, color=_ink(right), linestyle="--", linewidth=1)
        right.set_title("heaviest subtask, per average")
        right.set_xlabel(f"parallelism (now {operator.parallelism})")
        return self._with_hole(figure)

    def growth(self, folder: str | PathLike[str], last: int = LAST) -> Figure:
        """Draw the bytes of the largest states in the snapshots of a folder, up to this one.

        Args:
            folder: The folder that has the snapshots of the job.
            last: The number of the newest snapshots, 2 or more.

        Returns:
            The figure.

        Raises:
            OptionError: If the folder does not have the snapshot, or ``last`` is below 2.

        """
        mine = self._savepoint
        history = history_of(self._surveys.snapshot, self._located(folder), mine.options, last)
        drawn = [size.place for size in self._surveys.sizes[:7]]
        rows = []
        for info in history:
            sizes = {size.place: size.bytes for size in self._surveys.at(info.path).sizes}
            rows.append([*(sizes.get(state, 0) for state in drawn), sum(sizes.values())])
        figure, (axes,) = _figure(1, 3.6)
        at = range(len(history))
        for state, values in zip([*drawn, None], zip(*rows, strict=True), strict=True):
            if state is None:
                axes.plot(at, values, color=_ink(axes), linestyle="--", label="all states")
            else:
                axes.plot(at, values, marker=".", label=_name(f"{brief(state[0])}  {state[2] or state[1]}"))
        step = -(-len(history) // 12)
        axes.set_xticks(at[::step], [str(info.checkpoint_id) for info in history[::step]])
        axes.set_xlabel("checkpoint")
        axes.set_title("Bytes by state and checkpoint")
        axes.set_ylim(bottom=0)
        legend = axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
        for text in legend.get_texts():
            text.set_parse_math(False)
        _in_bytes(axes, "y")
        return self._with_hole(figure)

    def timers(self, uid: str | None = None) -> Figure:
        """Draw the timers of operators by time, as far after the snapshot, or after the first if all are far from it.

        Args:
            uid: The operator: its uid, or the uid hash of one without. By default all that have timers.

        Returns:
            The figure.

        Raises:
            OperatorNotFoundError: If the operator has no timers that can be read.

        """
        timers = {queue: times for queue, times in self._surveys.timers.items() if uid in (None, queue[0])}
        if not timers:
            operators = [operator for operator, _ in self._surveys.timers]
            raise OperatorNotFoundError(
                "no operator of this name has timers", operator=uid, remedy=did_you_mean(uid or "", operators)
            )
        figure, (axes,) = _figure(1, 3)
        now = snapshot_time_of(self._surveys.snapshot) / 1000
        first, last = min(one.first for one in timers.values()), max(one.last for one in timers.values())
        edges = [*histogram_edges(first, last, MOST_TIMES), last + 1]
        start, unit, axis_label = _time_axis(first, last, now)
        times_of_edges = np.array([edge - start for edge in edges]) / UNITS[unit]
        below = np.zeros(len(edges) - 1)
        for (operator, domain), times in timers.items():
            heights = np.diff(times.before(edges))
            label = _name(f"{brief(operator)}, {domain} time")
            widths = np.diff(times_of_edges)
            axes.bar(times_of_edges[:-1], heights, widths, bottom=below, align="edge", label=label)
            below += heights
        if first <= now <= last:
            axes.axvline((now - start) / UNITS[unit], color=_ink(axes), linestyle="--", linewidth=1)
        axes.ticklabel_format(axis="x", style="plain", useOffset=False)
        axes.set_xlabel(axis_label)
        axes.set_ylabel("timers")
        axes.set_title("Timers by time")
        for text in axes.legend(fontsize=8).get_texts():
            text.set_parse_math(False)
        return self._with_hole(figure, self._surveys.unread_timers)

    def ttl(self) -> Figure:
        """Draw how long before the snapshot state with a time to live was last used.

        Returns:
            The figure.

        Raises:
            OptionError: If no state has a time to live, or Matplotlib is not installed.

        """
        ages: dict[float, str] = {}
        units: dict[tuple[str, str], dict[float, int]] = {}
        for row in self._surveys.ages:
            if row["units"] is not None:
                low = -1 if row["from_seconds"] is None else row["from_seconds"]
                ages[low] = age_of(row["from_seconds"], row["to_seconds"])
                mine = units.setdefault((label_of(row), row["state"]), {})
                mine[low] = mine.get(low, 0) + row["units"]
        if not units:
            raise OptionError("no state of the snapshot has a time to live that can be read", path=self._surveys.path)
        figure, (axes,) = _figure(1, 3)
        order = sorted(ages)
        below = np.zeros(len(order))
        for (operator, state), counts in units.items():
            heights = np.array([counts.get(low, 0) for low in order])
            axes.bar([ages[low] for low in order], heights, bottom=below, label=_name(f"{brief(operator)}  {state}"))
            below += heights
        axes.set_xlabel("last used before the snapshot")
        axes.set_ylabel("values, elements, entries", fontsize=9)
        axes.set_title("Ages of state with a time to live")
        for text in axes.legend(fontsize=8).get_texts():
            text.set_parse_math(False)
        return self._with_hole(figure, [label_of(row) for row in self._surveys.ages if row["units"] is None])

    def _with_hole(self, figure: Figure, others: Iterable[str] = ()) -> Figure:
        """Return the figure, which says which operators it leaves out because they cannot be read. So does a warning.

        ``others`` are operators of which the figure cannot show its own part.
        """
        left_out = self._surveys.unread_operators.union(others)
        if left_out:
            note = omission_note(self._surveys, left_out)
            figure.supxlabel(note, fontsize=8, color="#b3261e", parse_math=False, wrap=True)
            warnings.warn(f"the figure leaves out what cannot be read: {note}", SavepointWarning, stacklevel=3)
        return figure


def _time_axis(first: int, last: int, now: float) -> tuple[float, str, str]:
    """Return the moment where the axis of timers has 0, in milliseconds, the unit, and what it shows.

    That is the snapshot, unless all timers are so far from it that their distances would all look the same.
    """
    reach = max(abs(first - now), abs(last - now))
    start, what = (now, "the snapshot")
    if last - first < reach / FAR:
        start, what, reach = float(first), f"the first timer, {moment(first / 1000)}", last - first
    unit = next((name for name, millis in UNITS.items() if reach >= 2 * millis), "milliseconds")
    return start, unit, f"{unit} after {what}"


def _name(text: str) -> str:
    """Return the name of a state as figures show it. A name that begins with _ would be no label."""
    return shown(text, MAX_NAME, line=True)


def _ink(axes: Axes) -> Any:
    """Return the colour of texts in the style that is set: black is not seen on a dark figure."""
    return axes.xaxis.label.get_color()


def _figure(columns: int, height: float) -> tuple[Figure, tuple[Axes, ...]]:
    """Return a figure that only what shows it shows, and its axes."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise OptionError(
            "plots need a package that is not installed",
            expected="matplotlib",
            remedy='pip install "pyspark-savepoint[plot]"',
        ) from None
    figure, axes = pyplot.subplots(1, columns, figsize=(9, height), layout="constrained", squeeze=False)
    for subplot in axes[0]:
        subplot.spines[["top", "right"]].set_visible(False)
    # Notebooks show what a cell returns; an open figure would be shown a second time.
    pyplot.close(figure)
    return figure, tuple(axes[0])


def _in_bytes(axes: Any, which: str) -> None:
    """Write an axis in bytes, at round numbers of their unit."""
    from matplotlib import ticker

    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    unit = 1024 ** max(0, int(math.log2(max(high, 1)) // 10))
    step = max(high - low, 1) / unit / 5
    step = min((candidate for candidate in STEPS if candidate >= step), default=STEPS[-1]) * unit
    axis.set_major_locator(ticker.MultipleLocator(step))
    axis.set_major_formatter(lambda value, _: readable_size(value))
    axis.set_tick_params(labelsize=8)
