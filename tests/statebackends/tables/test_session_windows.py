"""Sessions: windows that merge are shown as the merged window, whatever the backend stores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pyspark_savepoint
from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.formats.errors import OptionError

#: Operators of the job OpsJob: its events have id i, user i % 15, time i seconds, amount i / 2; the gap is 16 s.
AGGREGATE, REDUCE = "1f83829584986280f4ed1ab082e6c666", "778d13539f97dfd5edf85f94dbe3dd7f"
FORMS = ("2.2.1-hashmap-canonical", "1.20.5-hashmap-native", "2.2.1-rocksdb-native", "2.2.1-forst-native")


def session(user: int, start: int, end: int) -> dict[str, Any]:
    return {"key": f"u{user}", "window": {"start": start * 1000, "end": end * 1000}}


def rows(savepoint: LocalSavepoint, **options: Any) -> list[dict[str, Any]]:
    found = savepoint.table("window_state", timestamps="raw", **options).to_arrow().to_pylist()
    return sorted(found, key=lambda row: (int(row["key"][1:]), row["window"]["start"]))


@pytest.fixture
def ops(corpus: Path) -> LocalSavepoint:
    return pyspark_savepoint.open(str(corpus / "real" / "ops-120" / "sp" / "savepoint-aa7dbf-00f6b2bc5fbb"))


def test_a_window_is_the_session(ops: LocalSavepoint) -> None:
    assert [{name: row[name] for name in ("key", "window")} for row in rows(ops, uidHash=AGGREGATE)] == [
        session(user, user, 285 + user + 16) for user in range(15)
    ]


def test_the_state_window_is_beside_it_on_request(ops: LocalSavepoint) -> None:
    found = rows(ops, uidHash=AGGREGATE, includeStateWindow="true", keys='["u12"]')

    assert found == [
        session(12, 12, 313)
        | {"state_window": {"start": 12_000, "end": 28_000}, "window-contents": {"f0": 20, "f1": 1545.0}}
    ]


def test_bytes_of_windows_are_those_of_the_session(ops: LocalSavepoint) -> None:
    (row,) = (
        ops.table("window_state", uidHash=REDUCE, includeStateWindow="true", raw="window", keys='["u12"]')
        .to_arrow()
        .to_pylist()
    )

    assert row["window"] == (12_000).to_bytes(8) + (313_000).to_bytes(8)
    assert row["state_window"] == (12_000).to_bytes(8) + (28_000).to_bytes(8)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("memory", ["1m", "64m"])
def test_every_backend_has_the_sessions_of_the_job(corpus: Path, name: str, memory: str) -> None:
    folder = corpus / "lab" / name
    (operator,) = [
        o for o in json.loads((folder / "expected.json").read_text())["operators"] if o.get("uid") == "window-session"
    ]
    savepoint = pyspark_savepoint.open(str(folder / "savepoint"))
    table = savepoint.table(
        "window_state", uid="window-session", timestamps="raw", memory=memory, parallelism="3"
    ).to_arrow()

    found = [
        [row["key"], list(row["window"].values()), list(row["window-contents"].values())] for row in table.to_pylist()
    ]
    assert sorted(found) == sorted(operator["sessions"])


def test_windows_that_do_not_merge_have_no_state_window(ops: LocalSavepoint) -> None:
    with pytest.raises(OptionError, match="for windows that merge"):
        rows(ops, uidHash="e5d5a05048a035d8a1a2ecf601cab2fa", includeStateWindow="true")
