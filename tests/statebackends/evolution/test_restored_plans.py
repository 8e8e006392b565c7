"""The restore check of compiled plans says what real Flink did with the recorded changes."""

from __future__ import annotations

import json

import pytest

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.insight.restore import check_snapshot
from pyspark_savepoint.statebackends.evolution.restored_plans import EVOLVE, TYPES_ONLY
from pyspark_savepoint.statebackends.jobs.restore.restore_verdicts import Verdict
from tests.statebackends.evolution.verdicts import changes, names

#: What no plan has: max parallelism is that of the job, and Flink 1 compares time to live.
NOT_TOLD = ("parallelism-max", "ttl-on", "ttl-off", "ttl-hint")
#: New operators that find nothing; rows that were not filtered, and come out right all the same.
ELSEWHERE = ("join-behind-agg", "materializer-on", "ids-filter", "top-of-agg", "rename-tables")
PLANNED = [name for name in names() if not (changes() / name / "old-explain.txt").exists()]


@pytest.mark.parametrize("name", [name for name in PLANNED if name.split("/")[1] not in (*NOT_TOLD, *ELSEWHERE)])
def test_the_check_says_what_flink_did(name: str) -> None:
    folder = changes() / name
    case = json.loads((folder / "case.json").read_text("utf-8"))
    job = json.loads((folder / "new.json").read_text("utf-8"))
    check = check_snapshot(Snapshot.open(str(folder / "before")), job, old_plan=folder / "old.json")
    verdicts = {row.verdict for row in check.operators}
    assert (Verdict.FAILS in verdicts) == (not case["restored"])
    if case["restored"]:
        assert (Verdict.IS_MISREAD in verdicts) == (not case["same_rows"])


@pytest.mark.parametrize("name", [name for name in PLANNED if not name.endswith(NOT_TOLD)])
def test_a_savepoint_restores_into_its_own_plan(name: str) -> None:
    """A set of DISTINCT values has serializers of its own, and so does what says which sessions have merged."""
    folder = changes() / name
    check = check_snapshot(Snapshot.open(str(folder / "before")), json.loads((folder / "old.json").read_text("utf-8")))
    assert [row.reasons for row in check.operators if row.verdict is Verdict.FAILS] == []


def test_without_the_old_plan_only_types_are_told() -> None:
    folder = changes() / "2.3.0" / "agg-reorder"
    job = json.loads((folder / "new.json").read_text("utf-8"))
    savepoint = Snapshot.open(str(folder / "before"))
    check = check_snapshot(savepoint, job)
    assert Verdict.RESTORES in {row.verdict for row in check.operators}
    assert TYPES_ONLY in check.notes
    with pytest.raises(OptionError, match="old_plan"):
        check_snapshot(savepoint, {"operators": []}, old_plan=folder / "old.json")


def test_windows_with_early_results_are_noted() -> None:
    folder = changes() / "2.3.0" / "early-results"
    job = json.loads((folder / "new.json").read_text("utf-8"))
    check = check_snapshot(Snapshot.open(str(folder / "before")), job)
    assert any(note.startswith("the windows of 5_group-window-aggregate emit early") for note in check.notes)


@pytest.mark.parametrize("name", ["agg-add-sum", "dedup-last"])
def test_what_fails_and_can_be_carried_over_is_told(name: str) -> None:
    """A state of SQL is made by ``evolve``, and not by hand."""
    folder = changes() / "2.3.0" / name
    job = json.loads((folder / "new.json").read_text("utf-8"))
    check = check_snapshot(Snapshot.open(str(folder / "before")), job, old_plan=folder / "old.json")
    assert {row.remedy for row in check.operators if row.verdict is Verdict.FAILS} == {EVOLVE}
