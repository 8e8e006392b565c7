"""Keys of a person in all operators of a job of real Flink, of all types of keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connector.erasure.conftest import opened_job
from tests.oracle.person import ID, MAIL, TOKEN

pytestmark = pytest.mark.many_sets


def test_keys_of_all_types(job: Path) -> None:
    sp = opened_job(job)
    rows = list(sp.find_keys([ID, MAIL, TOKEN]).rows())
    assert not any(row["note"] for row in rows)
    states = {(row["operator_uid"], row["state"]) for row in rows}
    assert states >= {
        ("by-long", "total"),
        ("by-long", "user-timers"),
        ("by-int", "rank"),
        ("by-text", "visits"),
        ("by-big", "n"),
        ("by-kryo", "n"),
        ("by-kryo", "user-timers"),
        ("windows", "contents"),
        ("windows", "by-name"),
        ("windows", "window-timers"),
        ("opaque", "sealed"),
    }
    windows = [row["window"] for row in rows if (row["operator_uid"], row["state"]) == ("windows", "sums")]
    assert len(windows) == 2
    assert all('"start"' in window for window in windows)
    whole = next(row["key"] for row in sp.keyed_state("by-tuple").rows() if row["key"]["f0"] == MAIL)
    assert {row["operator_uid"] for row in sp.find_keys([whole]).rows()} >= {"by-tuple"}
    assert {row["operator_uid"] for row in sp.find_keys([list(whole.values())]).rows()} >= {"by-tuple"}
