"""Real Flink commits the committables that remain, and repeats the requests that remain in an asynchronous queue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.metadata import OperatorState, write_metadata
from pyspark_savepoint.formats.snapshot.changes import assemble
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot, find_snapshots
from pyspark_savepoint.statebackends.connectors.edits.committables import (
    marked_committables,
    without_committables,
    without_in_flight,
)
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from tests.oracle.conftest import VERSIONS
from tests.oracle.flink import run

pytestmark = pytest.mark.flink

#: The savepoint's release that a release restores; older ones do not read the committers of 1.20.5.
BASES = {"1": "1.20.5", "2": "2.3.0"}
SINK, ASYNC = "5abb6f104479fbc38acf37f2d04fd907", "40054974db28c3b7ecc01f7dca82d228"
PARALLELISM = 3


def opened(corpus: Path, case: str, operator_id: str) -> OpenOperator:
    savepoint = Snapshot.open(find_snapshots(str(corpus / "connectors" / case))[0].path)
    return OpenOperator(savepoint, savepoint.operator(uid_hash=operator_id))


def written(base: OpenOperator, changed: OperatorState, path: Path) -> str:
    operators = [changed if each.operator_id == changed.operator_id else each for each in base.savepoint.operators]
    metadata = base.savepoint.metadata
    path.mkdir()
    (path / "_metadata").write_bytes(write_metadata(assemble(operators, [metadata], metadata.version)))
    return path.as_uri()


def commits(*numbers: int) -> list[str]:
    return [f"commit txn-{number}" for number in numbers]


@pytest.mark.parametrize("flink_version", [each for each in VERSIONS if not each.startswith("1.16")], indirect=True)
def test_flink_commits_and_asks_what_is_left(flink_version: str, corpus: Path, tmp_path: Path) -> None:
    release = BASES[flink_version.partition(".")[0]]
    sink, queue = opened(corpus, f"{release}-txnsink", SINK), opened(corpus, f"{release}-async", ASYNC)
    one, two = [{"committable": b"txn-1"}], [{"committable": b"txn-0"}, {"committable": b"txn-2"}]
    changed: dict[str, tuple[OpenOperator, OperatorState, Any]] = {
        "as it was": (sink, sink.operator, commits(0, 1, 2)),
        "one removed": (sink, without_committables(sink, one, lose_data=True), commits(0, 2)),
        "all removed": (sink, without_committables(sink, None, lose_data=True), []),
        "two committed": (sink, marked_committables(sink, two, "COMMITTED"), commits(1)),
        "to be tried again": (sink, marked_committables(sink, None, "RETRY"), commits(0, 1, 2)),
        "queue as it was": (queue, queue.operator, sorted(f"ask {number}" for number in range(12))),
        "queue cleared": (queue, without_in_flight(queue, lose_data=True), []),
    }
    snapshots = [
        written(base, operator, tmp_path / str(number)) for number, (base, operator, _) in enumerate(changed.values())
    ]

    run(
        flink_version,
        "oracle.Uncommitted",
        [f"--snapshots={','.join(snapshots)}", f"--out={tmp_path}", f"--parallelism={PARALLELISM}"],
    )

    found = dict(zip(changed, json.loads((tmp_path / "found.json").read_text()), strict=True))
    assert found == {name: expected for name, (_, _, expected) in changed.items()}
