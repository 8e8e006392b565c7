"""Real Flink restores queries that changed from savepoints: as they are it fails, or emits other rows, or goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connector.api.test_evolve import evolved
from tests.data import unpacked
from tests.oracle.conftest import failing_in_one_line
from tests.oracle.flink import compile_harness
from tests.oracle.sql_changes import CASES, Jobs, emitted_after, expected_after, jobs

pytestmark = pytest.mark.flink

RECORDED = ("1.20.5", "2.3.0")


@pytest.fixture(scope="module", params=("hashmap", "rocksdb"))
def flink(
    request: pytest.FixtureRequest, flink_version: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Jobs]:
    """A JVM for all cases of a release and a state backend."""
    if flink_version not in RECORDED:
        pytest.skip(f"no cases of Flink {flink_version} are recorded")
    with failing_in_one_line():
        compile_harness(flink_version, sql=True)
    with jobs(flink_version, tmp_path_factory.mktemp("jobs"), request.param) as running:
        yield running


def case_of(flink: Jobs, name: str) -> Path:
    return unpacked() / "sql-changes" / flink.version / name


@pytest.mark.parametrize(("name", "emits"), [("join-condition-added", "the same"), ("sums-reordered", "other rows")])
def test_restored_as_it_is(flink: Jobs, name: str, emits: str) -> None:
    folder = case_of(flink, name)
    found = emitted_after(flink, folder, folder / "before")
    assert not isinstance(found, str), found
    assert (Counter(found) == expected_after(folder)) is (emits == "the same")


def test_other_types_are_not_restored(flink: Jobs) -> None:
    folder = case_of(flink, "sum-added")
    found = emitted_after(flink, folder, folder / "before")
    assert isinstance(found, str)
    assert "StateMigrationException" in found


def test_every_case_is_recorded() -> None:
    for version in RECORDED:
        assert {folder.name for folder in (unpacked() / "sql-changes" / version).iterdir()} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_evolved_savepoint_goes_on_as_the_new_query(flink: Jobs, name: str, tmp_path: Path) -> None:
    folder = case_of(flink, name)
    evolved(folder, tmp_path / "evolved")
    found = emitted_after(flink, folder, tmp_path / "evolved")
    assert not isinstance(found, str), found
    assert Counter(found) == expected_after(folder)


def test_every_job_gets_an_answer(flink: Jobs, tmp_path: Path) -> None:
    count = CASES["sum-added"].old
    hinted = {**count.job, "inserts": [f"INSERT INTO sink {count.text.replace('SELECT', 'SELECT /*+ NO_HINT(a) */')}"]}
    assert "should be registered" in flink.run(**hinted, plan=tmp_path / "hinted.json")["error"][-1]

    job = {**count.job, "plan": tmp_path / "plan.json", "script": CASES["sum-added"].script, "until": 4}
    threads, told = flink.run(**job, limit=0.01)["error"]
    assert "oracle.SqlChanges.main" in threads
    assert told == "no answer in 0.01 seconds"
    assert len(flink.done(**job)["before"]) == 5
