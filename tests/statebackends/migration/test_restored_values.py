"""The restore check of a savepoint of Flink 1 against a job of Flink 2: verdicts about values, by part."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.insight.restore import check_snapshot
from tests.data import unpacked

MIGRATION = unpacked() / "migration"
UID = "state"
UID_HASH = "0dccc6d845eac8e1b962e0ff56612b4e"


def rows(case: str, backend: str | None, *, as_savepoint: bool) -> dict[str, Any]:
    folder = MIGRATION / "cases" / case
    old = Snapshot.open(str(folder / "1.20.5-hashmap"))
    job: Any = {"operators": [{"uid": UID}], "flinkVersion": "2.3"}
    if as_savepoint:
        job = Snapshot.open(str(folder / "2.3.0-hashmap"))
    classes = [str(MIGRATION / "classes")]
    check = check_snapshot(old, job, flink_version="2.3", state_backend=backend, classes=classes)
    found = check.to_arrow().to_pylist()
    (row,) = [row for row in found if row["operator_uid_hash"] == UID_HASH]
    return row


@pytest.mark.parametrize("as_savepoint", [True, False])
@pytest.mark.parametrize(
    ("backend", "fails"),
    [
        ("rocksdb", "fails when the state is registered"),
        ("hashmap", "fails when restoring"),
        (None, "fails when restoring, on RocksDB when the state is registered"),
    ],
)
def test_parts_of_a_type_have_rows(as_savepoint: bool, backend: str | None, fails: str) -> None:
    """The hashmap backend of 2.2.1 fails to set the primitive field Base.id to null."""
    row = rows("pojo-all", backend, as_savepoint=as_savepoint)
    parts = {state["part"]: state for state in row["states"]}
    assert (row["verdict"], parts["tags"]["verdict"]) == ("fails", fails)
    assert parts["tags"]["reason"].startswith("rewritten: Flink infers NULLABLE<LIST<NULLABLE<STRING>>>")
    assert parts["byCity"]["verdict"] == fails  # behind it, null is read in a field that is primitive
    assert "migrate for Flink 2.3" in row["remedy"]


def test_values_that_are_silently_wrong_are_misread() -> None:
    row = rows("kryo-array-list", "rocksdb", as_savepoint=True)
    assert row["verdict"] == "is misread"
    assert [state["verdict"] for state in row["states"] if state["part"] == "" and state["state"] == "v"][-1] == (
        "wrong values"
    )
    assert row["reasons"] == ["values of v: wrong values"]
    assert "migrate for Flink 2.3" in row["remedy"]


def test_values_that_restore_are_no_question() -> None:
    """Kryo's state is not reported as unknown if its values show that it restores."""
    old = Snapshot.open(str(MIGRATION / "cases" / "kryo-big-integer" / "1.20.5-hashmap"))
    new = Snapshot.open(str(MIGRATION / "cases" / "kryo-big-integer" / "2.3.0-hashmap"))
    verdicts = {row["verdict"] for row in check_snapshot(old, new, flink_version="2.3").to_arrow().to_pylist()}
    assert verdicts <= {"restores", "nothing to restore", "begins empty"}
