"""A release restores what is written for it: bases of the newest Flink, changed and not, on both backends.

In the gate the oldest release and the newest restore jobs of every kind of state; with ``FLINK_VERSIONS`` set, each of
those named also restores all values of the job ``types``:

    FLINK_VERSIONS=1.16.3,1.17.2,1.18.1,1.19.3,1.20.5,2.0.2 python -m pytest tests/oracle/test_written_for_releases.py
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_savepoint import Savepoint
from pyspark_savepoint.formats.errors import UnsupportedVersionError
from pyspark_savepoint.formats.flink_releases import release_of
from tests.oracle.compare import differences
from tests.oracle.conftest import NEWEST, VERSIONS, failing_in_one_line
from tests.oracle.evolution import Job, evolve
from tests.oracle.flink import SavepointOf, newest_version, restore
from tests.oracle.test_restore_check import ADDED, KEYED, PLAIN, changed

pytestmark = [pytest.mark.flink, pytest.mark.spark]

CHOSEN = "FLINK_VERSIONS" in os.environ
#: The gate has time for the oldest and the newest.
RELEASES = VERSIONS if CHOSEN else [VERSIONS[0], NEWEST]
JOB: Job = {"parallelism": 2, "operators": [KEYED, PLAIN, ADDED]}
RETYPED: Job = changed(
    "keyed",
    base=JOB,
    states={"sum": {"kind": "REDUCING", "type": "STRING"}, "timed": {"type": "LONG", "ttl": True}},
)


@pytest.fixture(scope="module")
def newest() -> str:
    with failing_in_one_line():
        return newest_version()


@pytest.fixture(scope="module")
def base(newest: str, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Savepoint:
    """A native savepoint of RocksDB, with operator state of every kind, by the newest Flink."""
    folder = tmp_path_factory.mktemp("releases")
    job = {**JOB, "name": "base", "stateBackend": "rocksdb", "format": "NATIVE", "savepoint": str(folder / "base")}
    with failing_in_one_line():
        assert evolve(newest, folder / "work", [job]) == [{"ok": True}]
    return Savepoint.load(spark, str(folder / "base"))


def retyped(base: Savepoint) -> Savepoint:
    """README's recipe, on state that is reduced and on state with a time to live."""
    sums = base.keyed_state("keyed", state="sum").selectExpr("key", "CAST(sum AS STRING) AS sum")
    timed = base.keyed_state("keyed", state="timed").selectExpr("key", "key AS timed")
    changed = base.with_state("keyed", "sum", sums, types={"sum": "STRING"})
    return changed.with_state("keyed", "timed", timed, types={"timed": "LONG"})


@pytest.mark.parametrize("version", RELEASES)
def test_flink_restores_what_is_written_for_it(version: str, newest: str, base: Savepoint, tmp_path: Path) -> None:
    version = newest if version == NEWEST else version
    major, minor = map(int, version.split(".")[:2])
    wanted = f"{major}.{minor}"
    same = base.write(str(tmp_path / "same"), flink_version=wanted)
    new = retyped(base).write(str(tmp_path / "new"), flink_version=wanted, portable=True)
    assert new.is_portable
    same_on = ("rocksdb",) if release_of((major, minor)).rocksdb == 8 else ("hashmap", "rocksdb")
    jobs = [
        {**job, "name": f"{folder} {backend}", "restore": str(tmp_path / folder), "stateBackend": backend}
        for folder, job, backends in (("same", JOB, same_on), ("new", RETYPED, ("hashmap", "rocksdb")))
        for backend in backends
    ]
    expected = [{"ok": True}] * len(jobs)
    if version == newest:
        # Only what was changed is canonical: the other operator stays in files that the heap does not read.
        rows = base.keyed_state("added").selectExpr("key", "x + 1 AS x")
        with pytest.warns(UserWarning, match=r"only the state backend that wrote keyed .* portable=True"):
            mixed = base.with_state("added", "x", rows).write(str(tmp_path / "mixed"))
        assert not mixed.is_portable
        assert not same.is_portable
        whole = base.with_state("added", "x", rows).write(str(tmp_path / "whole"), portable=True)
        assert whole.is_portable
        for folder, backend in (("mixed", "rocksdb"), ("mixed", "hashmap"), ("whole", "rocksdb"), ("whole", "hashmap")):
            name, path = f"{folder} {backend}", str(tmp_path / folder)
            jobs.append({**JOB, "name": name, "restore": path, "stateBackend": backend})
            expected.append({"ok": (folder, backend) != ("mixed", "hashmap")})
    with failing_in_one_line():
        answers = evolve(version, tmp_path / "work", jobs)
    found = {job["name"]: answer.get("error", "ok")[:300] for job, answer in zip(jobs, answers, strict=True)}
    assert {name for name, answer in found.items() if answer != "ok"} == {
        job["name"] for job, answer in zip(jobs, expected, strict=True) if not answer["ok"]
    }, found
    for state in ("count", "order", "recent", "spent", "history", "latest", "pair"):
        rows_of = [sorted(map(str, sp.keyed_state("keyed", state=state).collect())) for sp in (base, same, new)]
        assert rows_of[0] == rows_of[1] == rows_of[2]


#: In what the heap backend writes in its own format, values of a class that only the job has hide all behind them.
HIDING = "pojos"
#: State without a class in Flink 1, or of another Kryo; and records, which are POJOs from 1.19 on.
NOT_IN_FLINK_1 = {
    "collections": ("set", "list-of-sets", "map-state-of-sets"),
    "pojos": ("subclasses", "animals", "record"),
    "operator-states": ("animals", "rules"),
}


@pytest.mark.skipif(not CHOSEN, reason="takes a minute for each release: FLINK_VERSIONS names them")
@pytest.mark.parametrize("version", [version for version in VERSIONS if version != NEWEST])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb-incremental"])
def test_all_values_are_restored_by_an_older_release(
    version: str, backend: str, newest: str, savepoint_of: SavepointOf, spark: SparkSession, tmp_path: Path
) -> None:
    generated = savepoint_of(newest, "types", backend=backend, format="checkpoint", compressed=True)
    wanted = version.rpartition(".")[0]
    base = Savepoint.load(spark, str(generated.path))
    after: dict[str, Any] = dict(generated.expected)
    if backend == "hashmap":
        base = base.remove_operator(HIDING)
        after["operators"] = [operator for operator in after["operators"] if operator["uid"] != HIDING]
        for state in (
            state for operator in after["operators"] for state in operator["states"] if state["kind"] == "map"
        ):
            # Maps without entries are nothing in the canonical format.
            state["entries"] = [entry for entry in state["entries"] if entry[2] != {"map": []}]
    kept = {operator["uid"] for operator in after["operators"]}
    if wanted.startswith("1."):
        with pytest.raises(UnsupportedVersionError) as refused:
            base.write(str(tmp_path / "refused"), flink_version=wanted)
        for operator, states in NOT_IN_FLINK_1.items():
            for state in states if operator in kept else ():
                assert state == "record" or state in str(refused.value)
                base = base.remove_state(operator, state)
        base = base.remove_operator("inferred")
        after["operators"] = [operator for operator in after["operators"] if operator["uid"] != "inferred"]
        for operator in after["operators"]:
            gone = NOT_IN_FLINK_1.get(operator["uid"], ())
            operator["states"] = [state for state in operator["states"] if state["name"] not in gone]
    written = base.write(str(tmp_path / "new"), flink_version=wanted, portable=True)
    assert written.is_portable
    for other in ("hashmap", "rocksdb"):
        found = restore(version, "types", tmp_path / "new", tmp_path / other, backend=other, parallelism=3)
        lines = differences(after, {operator["uid"]: found[operator["uid"]] for operator in after["operators"]})
        assert lines == []
