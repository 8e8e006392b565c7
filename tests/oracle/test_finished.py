"""Real Flink restores a checkpoint of which one of two source subtasks has finished, after edits of its operators.

``oracle.Finished`` has a source, a function with a list in its chain, sums by key behind it. An operator of the chain
that is missing, or new, is refused by Flink, and the restore check says so before.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.insight.restore import check_snapshot
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph
from tests.oracle.flink import run

pytestmark = pytest.mark.flink

UIDS = ("numbers", "kept", "sums")
Edit = Callable[[LocalSavepoint], LocalSavepoint]


def fewer(sp: LocalSavepoint) -> LocalSavepoint:
    return sp.with_state("kept", "numbers", pa.table({"value": pa.array([1000, 1001], pa.int64())}))


def other_sums(sp: LocalSavepoint) -> LocalSavepoint:
    rows = sp.keyed_state("sums").to_arrow()
    return sp.with_state("sums", "sum", rows.set_column(1, "sum", pa.array([7] * len(rows), pa.int64())))


EDITS: dict[str, Edit] = {
    "as it is": lambda sp: sp,
    "the list replaced": fewer,
    "a list more": lambda sp: sp.with_list_state("kept", "more", pa.table({"value": pa.array([1], pa.int64())})),
    "the sums replaced": other_sums,
    "a key removed": lambda sp: sp.remove_keys("sums", ["k1"]),
}
REFUSED: dict[str, Edit] = {
    "without an operator of the chain": lambda sp: sp.remove_operator("kept"),
    "without the source": lambda sp: sp.remove_operator("numbers"),
}


def job(more: bool = False) -> StreamGraph:
    graph = StreamGraph(parallelism=2)
    kept = graph.operator("kept", graph.source("numbers", uid="numbers"), uid="kept")
    if more:
        kept = graph.operator("more", kept, uid="more")
    graph.operator("sums", kept.key_by(), uid="sums")
    return graph


def finished(path: str | Path) -> dict[str, int]:
    table = pyspark_savepoint.open(str(path), uids=list(UIDS)).table("metadata")
    return {row["operator_uid"]: row["operator_finished_subtask_count"] for row in table.rows()}


def test_edits_restore(flink_version: str, tmp_path: Path) -> None:
    run(flink_version, "oracle.Finished", [f"--out={tmp_path / 'written'}", "--parallelism=2"])
    base = json.loads((tmp_path / "written" / "written.json").read_text())
    assert finished(base) == {"numbers": 1, "kept": 1, "sums": 0}
    sp = pyspark_savepoint.open(base, uids=list(UIDS))
    release = ".".join(flink_version.split(".")[:2])
    paths = {"by Flink": base}
    for name, edit in (EDITS | REFUSED).items():
        paths[name] = str(tmp_path / name.replace(" ", "-"))
        edit(sp).write(paths[name], flink_version=release)
        verdict = check_snapshot(pyspark_savepoint.open(paths[name])._snapshot(), job()).verdict.value
        assert (verdict == "fails") == (name in REFUSED), name
        if name in EDITS:
            assert finished(paths[name]) == finished(base), name
    assert check_snapshot(sp._snapshot(), job(more=True)).verdict.value == "fails"

    listed = ",".join(paths.values())
    run(flink_version, "oracle.Finished", [f"--out={tmp_path / 'more'}", "--parallelism=2", f"--snapshots={listed}"])
    found: dict[str, Any] = dict(zip(paths, json.loads((tmp_path / "more" / "found.json").read_text()), strict=True))
    for name, outcome in found.items():
        if name in REFUSED:
            assert "mixed operator finished state" in outcome, name
        else:
            assert isinstance(outcome, dict), f"{name}: {outcome}"
    numbers = {name: sorted(found[name]["kept"]["numbers"]) for name in EDITS}
    assert numbers["as it is"] == sorted(found["by Flink"]["kept"]["numbers"])
    assert {1000, 1001} < set(numbers["the list replaced"])

    arguments = [f"--out={tmp_path / 'new'}", "--parallelism=2", f"--snapshots={base}", "--more=true"]
    run(flink_version, "oracle.Finished", arguments)
    (outcome,) = json.loads((tmp_path / "new" / "found.json").read_text())
    assert "mixed operator finished state" in outcome
