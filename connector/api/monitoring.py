"""Numbers about the newest snapshot of a folder, without Spark: what ``pyspark-savepoint metrics`` prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark_savepoint.api.local_savepoint import open_savepoint
from pyspark_savepoint.engines.face import snapshot_of
from pyspark_savepoint.formats.redaction import shown
from pyspark_savepoint.formats.snapshot.as_of import Newest
from pyspark_savepoint.insight.metrics import MOST_STATES, STATE, Labels, Sample, openmetrics, samples_of
from pyspark_savepoint.insight.surveys import Surveys


@dataclass(frozen=True)
class SnapshotMetrics:
    """Samples of a snapshot, and labels that all of them have."""

    samples: Sequence[Sample]
    labels: Labels = ()

    def to_openmetrics(self) -> str:
        """Return them as OpenMetrics, which Prometheus reads."""
        return "".join(f"{line}\n" for line in openmetrics(self.samples, self.labels))

    def records(self) -> Iterator[Mapping[str, Any]]:
        """Yield each as a name, labels and a value."""
        for sample in self.samples:
            labels = dict((*self.labels, *sample.labels))
            yield {"name": sample.metric.full_name, "labels": labels, "value": sample.value}


def metrics_of(
    newest: Newest, most: int = MOST_STATES, labels: Labels = (), options: Mapping[str, Any] | None = None
) -> SnapshotMetrics:
    """Return the metrics of the newest snapshot of a folder.

    Args:
        newest: The snapshot, and those before it.
        most: States, and operators, that have series of their own.
        labels: Labels of all series.
        options: Options of a read.

    """
    savepoints = [open_savepoint(one.path, **(options or {})) for one in newest.history[-2:]]
    before = snapshot_of(savepoints[0]) if len(savepoints) > 1 else None
    samples = samples_of(Surveys(savepoints[-1]), newest, before, most)
    return SnapshotMetrics(samples, tuple((name, shown(value, line=True)) for name, value in labels))


def is_label(name: str) -> bool:
    """Whether all series can have a label of this name: those of states are taken."""
    return re.fullmatch(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*", name) is not None and name not in STATE
