"""Max parallelism of some operators: what real Flink restores, and what it refuses or cuts at wrong places.

Flink has one max parallelism for a task. Of the operators that are chained, also those without state are in the
savepoint, and are compared with that of the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import pyspark_savepoint
from tests.oracle.compare import differences
from tests.oracle.evolution import Job, evolve
from tests.oracle.flink import PATIENCE

pytestmark = [pytest.mark.flink]

STATES: Job = {"key": "LONG", "states": {"n": "LONG", "l": {"kind": "LIST", "type": "INT"}}, "timers": {"t": "VOID"}}
ALONE: Job = {"parallelism": 2, "operators": [{"uid": "a", **STATES}, {"uid": "b", **STATES}]}
#: Two operators without state are chained to the first.
CHAINED: Job = {"parallelism": 2, "operators": [{"uid": "a", **STATES, "behind": 2}, {"uid": "b", **STATES}]}
WIDE = 256


def setting(job: Job, number: int) -> Job:
    """The job, which sets max parallelism of its first operator."""
    first, *others = job["operators"]
    return {**job, "operators": [{**first, "maxParallelism": number}, *others]}


def expected(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What a job must find, by what it found before."""
    return {
        "operators": [
            {"uid": uid, "states": [{"name": name, "entries": entries} for name, entries in states.items()]}
            for uid, states in found.items()
        ]
    }


@pytest.fixture(scope="module")
def answers(flink_version: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What is wrong with each restore; nothing if every value was found."""
    folder = tmp_path_factory.mktemp("max-parallelism")
    jobs = [
        {**job, "name": name, "held": "fill", "count": 40, "format": "CANONICAL", "savepoint": str(folder / name)}
        for name, job in (("alone", ALONE), ("chained", CHAINED))
    ]
    assert all("error" not in one for one in evolve(flink_version, folder / "fill", jobs, PATIENCE))
    alone, chained = (pyspark_savepoint.open(folder / name) for name in ("alone", "chained"))
    hashes = [one.identifier.operator_id.hex for one in chained.plan.operators]
    known = {one.identifier.operator_id.hex for one in alone.plan.operators}
    more = [one for one in hashes if one not in known]
    assert len(more) == 2
    changed = {
        "alone": alone.with_max_parallelism(WIDE, operators=["a"]).write(folder / "alone-wide"),
        "head": chained.with_max_parallelism(WIDE, operators=["a"]).write(folder / "head-wide"),
        "task": chained.with_max_parallelism(WIDE, operators=["a", *more]).write(folder / "task-wide"),
    }
    restored = {
        "as it was": (ALONE, alone),
        "alone, set by the job": (setting(ALONE, WIDE), changed["alone"]),
        "alone, not set": (ALONE, changed["alone"]),
        "alone, the old one set": (setting(ALONE, 128), changed["alone"]),
        "head of a chain, set by the job": (setting(CHAINED, WIDE), changed["head"]),
        "whole chain, set by the job": (setting(CHAINED, WIDE), changed["task"]),
        "whole chain, not set": (CHAINED, changed["task"]),
    }
    jobs = [
        {**job, "name": name, "held": "read", "restore": str(savepoint.path)}
        for name, (job, savepoint) in restored.items()
    ]
    told = dict(zip(restored, evolve(flink_version, folder / "read", jobs, PATIENCE), strict=True))
    wanted = expected(told["as it was"]["found"])
    assert sum(len(state["entries"]) for one in wanted["operators"] for state in one["states"]) > 100
    return {
        name: differences(wanted, answer["found"]) if "found" in answer else [str(answer["error"])]
        for name, answer in told.items()
    }


def test_operators_of_tasks_of_their_own(answers: dict[str, list[str]]) -> None:
    assert answers["alone, set by the job"] == answers["alone, not set"] == []
    assert "ax parallelism" in answers["alone, the old one set"][0]


def test_all_operators_of_a_task(answers: dict[str, list[str]]) -> None:
    assert answers["whole chain, set by the job"] == answers["whole chain, not set"] == []


def test_one_operator_of_a_task(answers: dict[str, list[str]]) -> None:
    """The others have the old one, also without state. ``test_restore_check.py`` has jobs that do not set it."""
    assert "ax parallelism" in answers["head of a chain, set by the job"][0]
