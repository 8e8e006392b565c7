"""``check_restore`` takes release, backend and classes for every form of a job, as the command does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pyspark_savepoint
from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.formats.errors import OptionError, StateExistsError

JOB: dict[str, Any] = {"operators": [{"uid": "accounts", "key": "LONG", "states": {"total": "LONG"}}]}
CLASSES = ["oracle.Shop$Profile", "oracle.Shop$Tier"]


@pytest.fixture
def sp(shop: Path) -> LocalSavepoint:
    return pyspark_savepoint.open(shop)


def verdict(sp: LocalSavepoint, job: Any, **settings: Any) -> str:
    (row,) = (row for row in sp.job(job).check_restore(**settings).rows() if row["operator_uid"] == "accounts")
    return str(row["verdict"])


def test_settings_of_a_mapping(sp: LocalSavepoint, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"flink_version": "2.2", "state_backend": "rocksdb", "classes": [tmp_path]}
    assert verdict(sp, JOB, **settings) == "unknown"
    assert verdict(sp, JOB, **settings, java_classes=CLASSES) == "restores"
    assert verdict(sp, {**JOB, "javaClasses": CLASSES}, **settings) == "restores"
    ttl = {"operators": [{"uid": "accounts", "key": "LONG", "states": {"coupon": {"type": "STRING", "ttl": False}}}]}
    assert verdict(sp, ttl, flink_version="1.20", java_classes=CLASSES) == "fails"
    assert verdict(sp, ttl, flink_version="2.2", java_classes=CLASSES) == "migrates"


def test_settings_of_a_savepoint(sp: LocalSavepoint, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"flink_version": "2.2", "state_backend": "rocksdb", "classes": tmp_path}
    assert verdict(sp, sp, **settings, java_classes=CLASSES) == "restores"


def test_former_and_mistaken_names(sp: LocalSavepoint) -> None:
    with pytest.raises(OptionError, match="it is 'classes' now"):
        sp.job(JOB).check_restore(types_from="job.jar")  # type: ignore[call-arg]
    with pytest.raises(OptionError, match=r"java_classes=\[...\] in Python"):
        sp.job(JOB).check_restore(classes=CLASSES)
    with pytest.raises(OptionError, match="java_classes"):
        sp.job(JOB).check_restore(java_class=CLASSES)  # type: ignore[call-arg]


def test_timers_that_are_there(sp: LocalSavepoint, corpus: Path, tmp_path: Path) -> None:
    """The error names what can be done, and the types of namespaces are those of the operator's own timers."""
    timers = sp.timers("accounts")
    with pytest.raises(StateExistsError, match=r"remove_state\('user-timers'\) removes them first, with_timers adds"):
        sp.with_timers("accounts", timers)
    again = sp.remove_state("accounts", "user-timers").with_timers("accounts", timers).write(tmp_path / "again")
    assert again.timers("accounts").to_arrow().num_rows == timers.to_arrow().num_rows

    base = pyspark_savepoint.open(corpus / "datastream" / "udf-rocksdb-savepoint-1.20")
    (uid,) = {row["operator_uid_hash"] for row in base.states().rows() if "waiting" in (row["state"] or "")}
    operator = pyspark_savepoint.OperatorIdentifier.for_uid_hash(uid)
    own = base.timers(operator)
    assert "namespace" in own.schema.names
    changed = base.remove_state(operator, "waiting").with_timers(operator, own, state="waiting")
    made = changed.write(tmp_path / "waiting")
    after = made.timers(operator)
    assert sorted(map(str, after.rows())) == sorted(map(str, own.rows()))
    assert after.schema.field("namespace").type == own.schema.field("namespace").type
