"""A checkpoint of which one of two source subtasks has finished: edits keep it, tables show it, the check knows it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.formats.errors import SavepointWarning, UnsupportedStateError
from pyspark_savepoint.formats.metadata import write_metadata
from pyspark_savepoint.insight.restore import check_snapshot
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph
from tests.connector.command_line.conftest import Run
from tests.connector.command_line.conftest import run as run_command

FINISHED = Path(__file__).parents[2] / "oracle" / "savepoints" / "finished" / "chk-2"
UIDS = ["numbers", "kept", "sums"]

run = run_command


@pytest.fixture
def base() -> LocalSavepoint:
    return pyspark_savepoint.open(FINISHED, uids=UIDS)


def finished(path: Any) -> dict[str, int]:
    rows = pyspark_savepoint.open(path, uids=UIDS).table("metadata").rows()
    return {row["operator_uid"]: row["operator_finished_subtask_count"] for row in rows}


def numbers(*values: int) -> pa.Table:
    return pa.table({"value": pa.array(values, pa.int64())})


def graph(*more: str, chained: bool = True) -> StreamGraph:
    made = StreamGraph(parallelism=2)
    stream = made.operator("kept", made.source("numbers", uid="numbers"), uid="kept")
    for uid in more:
        stream = made.operator(uid, stream if chained else stream.rebalance(), uid=uid)
    made.operator("sums", stream.key_by(), uid="sums")
    return made


def test_edits_keep_what_has_finished(base: LocalSavepoint, tmp_path: Path) -> None:
    assert finished(FINISHED) == {"numbers": 1, "kept": 1, "sums": 0}
    edits = {
        "state": base.with_state("kept", "numbers", numbers(1, 2, 3)),
        "list": base.with_list_state("kept", "other", numbers(4)),
        "keys": base.remove_keys("sums", ["k1"]),
        "groups": base.with_max_parallelism(256),
        "started over": base.sources.start_over("numbers"),
    }
    for name, edited in edits.items():
        edited.write(tmp_path / name)
        assert finished(tmp_path / name) == finished(FINISHED), name
        assert check_snapshot(pyspark_savepoint.open(tmp_path / name)._snapshot(), graph()).verdict != "fails", name
    made = pyspark_savepoint.open(tmp_path / "state", uids=UIDS).list_state("kept", "numbers").to_arrow()
    assert sorted(made.column("value").to_pylist()) == [1, 2, 3]


def test_commands_keep_what_has_finished(run: Run, tmp_path: Path) -> None:
    rows = tmp_path / "numbers.jsonl"
    rows.write_text('{"value": 5}\n{"value": 6}\n')
    hashes = {row["operator_uid"]: row["operator_uid_hash"] for row in _metadata()}
    put = run("put", FINISHED, tmp_path / "put", hashes["kept"], rows, "fresh", "--table", "list")
    assert put.code == 0, put.err
    assert finished(tmp_path / "put") == finished(FINISHED)
    assert "2 subtasks had finished" in run("ls", FINISHED).out
    (note,) = [row for row in run("doctor", FINISHED, "--json").records if row.get("operator") == hashes["kept"]][:1]
    assert (note["check"], note["severity"]) == ("finished", "note")


def _metadata() -> list[dict[str, Any]]:
    return list(pyspark_savepoint.open(FINISHED, uids=UIDS).table("metadata").rows())


def test_an_operator_that_has_not_finished_alike_fails(base: LocalSavepoint, tmp_path: Path) -> None:
    snapshot = base._snapshot()
    assert check_snapshot(snapshot, graph()).verdict == "restores"
    new = {row.operator.uid: row for row in check_snapshot(snapshot, graph("more")).operators if row.operator}
    assert {uid: row.verdict.value for uid, row in new.items()} == {
        "numbers": "fails", "kept": "fails", "more": "fails", "sums": "restores"
    }  # fmt: skip
    assert "'more' (uid 'more') runs" in new["more"].reasons[-1]
    assert check_snapshot(snapshot, graph("more", chained=False)).verdict == "begins empty"
    with pytest.warns(SavepointWarning, match="leave out all operators of the task, or none"):
        base.remove_operator("kept").write(tmp_path / "new")
    assert check_snapshot(pyspark_savepoint.open(tmp_path / "new")._snapshot(), graph()).verdict == "fails"


def test_a_description_without_chains_does_not_decide_about_a_new_operator(base: LocalSavepoint) -> None:
    job: dict[str, Any] = {"operators": [{"uid": uid} for uid in UIDS]}
    assert check_snapshot(base._snapshot(), job).verdict == "restores"
    check = check_snapshot(base._snapshot(), {"operators": [*job["operators"], {"uid": "more"}]})
    (row,) = [row for row in check.operators if row.verdict == "unknown"]
    assert "have finished in part or wholly" in row.reasons[0]
    assert row.remedy == "describe the job by its execution plan, or as a StreamGraph"


def test_a_task_behind_one_that_runs_fails(base: LocalSavepoint) -> None:
    made = StreamGraph(parallelism=2)
    stream = made.source("new", uid="new").rebalance()
    kept = made.operator("numbers", stream, uid="numbers")
    made.operator("sums", made.operator("kept", kept, uid="kept").key_by(), uid="sums")
    rows = {row.operator.uid: row for row in check_snapshot(base._snapshot(), made).operators if row.operator}
    assert rows["numbers"].verdict == "fails"
    assert rows["numbers"].reasons == ("it has finished in part, and before it 'new' (uid 'new') runs",)


def test_a_finished_operator_gets_no_state(base: LocalSavepoint, tmp_path: Path) -> None:
    snapshot = base._snapshot()
    whole = [
        replace(operator, subtasks={}, coordinator_state=None, is_fully_finished=True)
        if operator.uid != "sums" and any(one.is_finished for one in operator.subtasks.values())
        else operator
        for operator in snapshot.operators
    ]
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "_metadata").write_bytes(write_metadata(replace(snapshot.metadata, operators=tuple(whole))))
    ended = pyspark_savepoint.open(tmp_path / "whole", uids=UIDS)
    assert finished(tmp_path / "whole") == {"numbers": 2, "kept": 2, "sums": 0}
    with pytest.raises(UnsupportedStateError, match="the operator has finished"):
        ended.with_list_state("kept", "numbers", numbers(1)).write(tmp_path / "no")
    with pytest.raises(UnsupportedStateError, match="the operator has finished"):
        ended.sources.start_over("numbers")
    assert not (tmp_path / "no").exists()
    assert json.loads(json.dumps(finished(ended.write(tmp_path / "copy").path))) == finished(tmp_path / "whole")
