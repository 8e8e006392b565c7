"""Numbers about the newest snapshot for monitoring, as OpenMetrics or JSON.

The names are those of :data:`METRICS`, which the Grafana dashboard in ``notebooks`` uses too. The number of series is
bounded: the states of most bytes have their own, those of all others are added up as state ``(others)``.

OpenMetrics 1.0: https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.key_groups import operator_index_for_key_group
from pyspark_savepoint.formats.redaction import shown
from pyspark_savepoint.formats.snapshot.as_of import Newest
from pyspark_savepoint.formats.snapshot.relocation import streams_of
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.insight.surveys import StateSize, Surveys

PREFIX = "flink_savepoint_"
OTHERS = "(others)"
#: Longest value of a label, in bytes.
MAX_LABEL = 200
#: States, and operators, that have series of their own unless the user says how many.
MOST_STATES = 500
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Metric:
    """A metric of type gauge: its name, unit, what it says, and its labels. ``joined`` makes one value of several."""

    name: str
    unit: str
    about: str
    labels: tuple[str, ...] = ()
    joined: Callable[[Iterable[float]], float] = sum

    @property
    def full_name(self) -> str:
        return PREFIX + self.name


OPERATOR, STATE = ("operator",), ("operator", "table", "state")
METRICS = {
    metric.name: metric
    for metric in (
        Metric("checkpoint_id", "", "Checkpoint id of the newest snapshot."),
        Metric("time_seconds", "seconds", "When the newest snapshot was complete, in seconds since 1970."),
        Metric(
            "size_bytes",
            "bytes",
            "Bytes of all state of the newest snapshot, also of files that it shares with others.",
        ),
        Metric("new_bytes", "bytes", "Bytes of the newest snapshot without files that the one before it has too."),
        Metric("operators", "", "Number of operators."),
        Metric("unread_operators", "", "Number of operators whose state cannot be read; verify says why."),
        Metric("snapshots", "", "Number of snapshots below the folder that can be read."),
        Metric("unreadable_snapshots", "", "Number of snapshots below the folder whose metadata cannot be read."),
        Metric(
            "operator_size_bytes",
            "bytes",
            "Bytes of the state of an operator, as its files have them; of (others), of all of them.",
            OPERATOR,
        ),
        Metric("operator_parallelism", "", "Parallelism of an operator.", OPERATOR, max),
        Metric("operator_max_parallelism", "", "Number of key groups of an operator.", OPERATOR, max),
        Metric(
            "key_group_skew_ratio",
            "ratio",
            "Bytes of the heaviest key group, per average one; of (others), the highest of them.",
            OPERATOR,
            max,
        ),
        Metric(
            "subtask_skew_ratio",
            "ratio",
            "Bytes of the heaviest subtask, per average subtask; of (others), the highest of them.",
            OPERATOR,
            max,
        ),
        Metric(
            "state_entries",
            "",
            "Values, entries of maps, elements and timers of a state; of (others), of all of them.",
            STATE,
        ),
        Metric("state_bytes", "bytes", "Bytes of a state, serialized; of (others), of all of them.", STATE),
        Metric(
            "state_largest_entry_bytes",
            "bytes",
            "Bytes of the largest entry of a state; of (others), of all of them.",
            STATE,
            max,
        ),
    )
}


@dataclass(frozen=True)
class Sample:
    """One value of a metric."""

    metric: Metric
    labels: Labels
    value: float


def samples_of(
    surveys: Surveys,
    newest: Newest,
    before: Snapshot | None = None,
    most: int = MOST_STATES,
) -> list[Sample]:
    """Return the samples of a snapshot.

    Args:
        surveys: The snapshot.
        newest: The snapshot as the newest of its folder.
        before: The snapshot before it, if the folder has one.
        most: States, and operators, that have series of their own.

    Returns:
        The samples by metric, in the order of :data:`METRICS`.

    """
    snapshot = surveys.snapshot
    series: dict[tuple[str, Labels], list[float]] = {}

    def add(name: str, value: float, *labels: str) -> None:
        named = tuple(zip(METRICS[name].labels, map(_label, labels), strict=True))
        series.setdefault((name, named), []).append(value)

    add("checkpoint_id", snapshot.metadata.checkpoint_id)
    if newest.history[-1].modified is not None:
        add("time_seconds", newest.history[-1].modified)
    add("size_bytes", sum(operator.state_size for operator in snapshot.operators))
    add("new_bytes", new_bytes(snapshot, before))
    add("operators", len(snapshot.operators))
    add("unread_operators", len(surveys.unread_operators))
    add("snapshots", len(newest.readable))
    add("unreadable_snapshots", len(newest.unreadable))
    for rank, operator in enumerate(sorted(snapshot.operators, key=lambda one: -one.state_size)):
        name = operator.uid or str(operator.operator_id)
        add("operator_size_bytes", operator.state_size, name if rank < most else OTHERS)
        if rank < most:
            add("operator_parallelism", operator.parallelism, name)
            add("operator_max_parallelism", operator.max_parallelism, name)
        groups = surveys.key_groups.get(name)
        if groups:
            add("key_group_skew_ratio", _skew(list(groups.values()), len(groups)), name if rank < most else OTHERS)
            add("subtask_skew_ratio", subtask_skew(groups, operator), name if rank < most else OTHERS)
    for rank, size in enumerate(surveys.sizes):
        for metric, value in _numbers_of(size):
            add(metric, value, *(size.place if rank < most else ("", "", OTHERS)))
    order = list(METRICS)
    return [
        Sample(METRICS[name], labels, METRICS[name].joined(values))
        for (name, labels), values in sorted(series.items(), key=lambda one: order.index(one[0][0]))
    ]


def _numbers_of(size: StateSize) -> Iterator[tuple[str, float]]:
    yield "state_entries", size.entries
    yield "state_bytes", size.bytes
    yield "state_largest_entry_bytes", size.largest


def new_bytes(snapshot: Snapshot, before: Snapshot | None) -> int:
    """Return the bytes of the state of a snapshot without those of the files that the one before it has too."""
    old_handles = set() if before is None else {handle for one in before.operators for handle in streams_of(one)}
    shared = sum(handle.state_size for one in snapshot.operators for handle in streams_of(one) if handle in old_handles)
    return sum(one.state_size for one in snapshot.operators) - shared


def bytes_of_subtasks(groups: Mapping[int, int], parallelism: int, max_parallelism: int) -> list[int]:
    """Return the bytes of each subtask at a parallelism, by those of the key groups."""
    sizes = [0] * parallelism
    for group, size in groups.items():
        sizes[operator_index_for_key_group(max_parallelism, parallelism, group)] += size
    return sizes


def subtask_skew(groups: Mapping[int, int], operator: OperatorState) -> float:
    """Return the bytes of the heaviest subtask as a multiple of the average."""
    sizes = bytes_of_subtasks(groups, operator.parallelism, operator.max_parallelism)
    return _skew(sizes, len(sizes))


def _skew(sizes: Sequence[int], count: int) -> float:
    total = sum(sizes)
    return max(sizes) * count / total if total else 1.0


def _label(text: str) -> str:
    return shown(text, MAX_LABEL, line=True)


def openmetrics(samples: Iterable[Sample], more: Labels = ()) -> Iterator[str]:
    """Yield the lines of the text format. ``more`` are labels that all samples have.

    Prometheus' own older format takes the same lines, as node exporters read them.
    """
    last = None
    for sample in samples:
        metric = sample.metric
        if metric is not last:
            last = metric
            yield f"# TYPE {metric.full_name} gauge"
            if metric.unit:
                yield f"# UNIT {metric.full_name} {metric.unit}"
            yield f"# HELP {metric.full_name} {metric.about}"
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in (*more, *sample.labels))
        yield f"{metric.full_name}{f'{{{labels}}}' if labels else ''} {number(sample.value)}"
    yield "# EOF"


def number(value: float) -> str:
    """Return a number as text, exact."""
    return str(value) if isinstance(value, int) or not math.isfinite(value) else repr(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
